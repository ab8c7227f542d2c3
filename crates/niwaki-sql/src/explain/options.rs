//! Reads the options of EXPLAIN.

use niwaki_expr::context::ColumnInfo;
use niwaki_parse::error::{Result, SqlError};
use niwaki_types::{ColumnType, TypeOid};
use pg_query::protobuf::a_const;
use pg_query::{Node, NodeEnum};

/// The options of an EXPLAIN statement.
#[derive(Clone, Debug)]
pub struct ExplainOptions {
    pub(crate) analyze: bool,
    pub(super) costs: bool,
    pub(crate) timing: bool,
    /// True to show the times of planning and of the whole run.
    pub(super) summary: bool,
    /// True to show the planner's settings that are not at their defaults.
    pub(super) settings: bool,
    pub(crate) buffers: bool,
    /// True to show the output columns of each step.
    pub(super) verbose: bool,
    pub(super) json: bool,
    /// Microseconds of planning, analysis included; 0 before the time is known.
    pub(crate) planning_us: i64,
}

impl ExplainOptions {
    /// Reads the options of a statement.
    ///
    /// # Errors
    /// 0A000 for WAL and unsupported formats, 42601 for unknown options, 22023 for options that
    /// need ANALYZE.
    pub fn parse(nodes: &[Node]) -> Result<Self> {
        let mut options = Self {
            analyze: false,
            costs: true,
            timing: false,
            summary: false,
            settings: false,
            buffers: false,
            verbose: false,
            json: false,
            planning_us: 0,
        };
        let (mut timing, mut summary, mut wal) = (None, None, false);
        for node in nodes {
            let Some(NodeEnum::DefElem(element)) = &node.node else { continue };
            let name = element.defname.as_str();
            match name {
                "analyze" => options.analyze = flag(element.arg.as_deref(), name)?,
                "costs" => options.costs = flag(element.arg.as_deref(), name)?,
                "timing" => timing = Some(flag(element.arg.as_deref(), name)?),
                "summary" => summary = Some(flag(element.arg.as_deref(), name)?),
                "settings" => options.settings = flag(element.arg.as_deref(), name)?,
                "buffers" => options.buffers = flag(element.arg.as_deref(), name)?,
                "wal" => wal = flag(element.arg.as_deref(), name)?,
                "verbose" => options.verbose = flag(element.arg.as_deref(), name)?,
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
        for (name, asked) in [("WAL", wal), ("TIMING", timing == Some(true))] {
            if asked && !options.analyze {
                let message = format!("EXPLAIN option {name} requires ANALYZE");
                return Err(SqlError::new("22023", message));
            }
        }
        if wal {
            return Err(SqlError::unsupported("EXPLAIN (WAL)"));
        }
        options.timing = timing.unwrap_or(options.analyze);
        options.summary = summary.unwrap_or(options.analyze);
        Ok(options)
    }

    /// Returns the one column of the result; the format decides the column's type.
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
