//! The options of EXPLAIN.

use niwaki_types::{ColumnType, TypeOid};
use pg_query::protobuf::a_const;
use pg_query::{Node, NodeEnum};

use crate::context::ColumnInfo;
use crate::error::{Result, SqlError};

/// What EXPLAIN was asked to do.
#[derive(Clone, Debug)]
pub struct ExplainOptions {
    pub(crate) analyze: bool,
    pub(super) costs: bool,
    pub(crate) timing: bool,
    /// Whether the time of the whole run is told; it is unless this says no.
    pub(super) summary: bool,
    /// What each step gives is told.
    pub(super) verbose: bool,
    pub(super) json: bool,
}

impl ExplainOptions {
    /// Reads the options of a statement.
    ///
    /// # Errors
    /// 0A000 for formats that are not there, 42601 for what is no option.
    pub fn parse(nodes: &[Node]) -> Result<Self> {
        let mut options = Self {
            analyze: false,
            costs: true,
            timing: true,
            summary: true,
            verbose: false,
            json: false,
        };
        for node in nodes {
            let Some(NodeEnum::DefElem(element)) = &node.node else { continue };
            let name = element.defname.as_str();
            match name {
                "analyze" => options.analyze = flag(element.arg.as_deref(), name)?,
                "costs" => options.costs = flag(element.arg.as_deref(), name)?,
                "timing" => options.timing = flag(element.arg.as_deref(), name)?,
                "summary" => options.summary = flag(element.arg.as_deref(), name)?,
                "verbose" => options.verbose = flag(element.arg.as_deref(), name)?,
                // Nothing more is known that these could show.
                "buffers" | "settings" | "wal" => {
                    flag(element.arg.as_deref(), name)?;
                }
                "format" => {
                    let value = word(element.arg.as_deref()).unwrap_or_default();
                    match value.to_ascii_lowercase().as_str() {
                        "text" => options.json = false,
                        "json" => options.json = true,
                        other => {
                            return Err(SqlError::unsupported(format!("EXPLAIN (FORMAT {other})")));
                        }
                    }
                }
                other => {
                    return Err(SqlError::new(
                        "42601",
                        format!("unrecognized EXPLAIN option \"{other}\""),
                    ));
                }
            }
        }
        Ok(options)
    }

    /// The one column of the result, whose type is that of the format.
    pub fn column(&self) -> ColumnInfo {
        let kind = if self.json { TypeOid::JSON } else { TypeOid::TEXT };
        ColumnInfo::computed("QUERY PLAN", ColumnType::new(kind))
    }
}

fn word(node: Option<&Node>) -> Option<String> {
    match node?.node.as_ref()? {
        NodeEnum::String(s) => Some(s.sval.clone()),
        NodeEnum::Integer(i) => Some(i.ival.to_string()),
        NodeEnum::Boolean(b) => Some(if b.boolval { "true" } else { "false" }.to_owned()),
        NodeEnum::AConst(c) => match c.val.as_ref()? {
            a_const::Val::Sval(s) => Some(s.sval.clone()),
            a_const::Val::Ival(i) => Some(i.ival.to_string()),
            a_const::Val::Boolval(b) => Some(if b.boolval { "true" } else { "false" }.to_owned()),
            _ => None,
        },
        _ => None,
    }
}

fn flag(node: Option<&Node>, name: &str) -> Result<bool> {
    if node.is_none() {
        return Ok(true);
    }
    match word(node).unwrap_or_default().to_ascii_lowercase().as_str() {
        "true" | "on" | "1" | "yes" => Ok(true),
        "false" | "off" | "0" | "no" => Ok(false),
        _ => Err(SqlError::new("42601", format!("{name} requires a Boolean value"))),
    }
}
