//! CREATE INDEX and sequences.

use pg_query::NodeEnum;
use pg_query::protobuf::{CreateSeqStmt, IndexStmt, Node, SortByDir, SortByNulls};

use super::read::{elements, int_of, options, qualified, relation_name, strings, switch_of};
use super::statement::{CreateIndex, IndexKeySpec, SequenceOptions, Utility};
use crate::error::{Result, SqlError};
use crate::parse::position_of;

pub(super) fn create_index(s: &IndexStmt, source: &str) -> Result<Utility> {
    let unsupported = |what: &str| Err(SqlError::unsupported(what));
    if s.concurrent {
        return unsupported("CREATE INDEX CONCURRENTLY");
    }
    if !matches!(s.access_method.as_str(), "" | "btree") {
        return unsupported(&format!("index method \"{}\"", s.access_method));
    }
    if s.where_clause.is_some() {
        return unsupported("partial index");
    }
    if s.nulls_not_distinct {
        return unsupported("NULLS NOT DISTINCT");
    }
    if !s.table_space.is_empty() {
        return unsupported("TABLESPACE");
    }
    Ok(Utility::CreateIndex(Box::new(CreateIndex {
        name: (!s.idxname.is_empty()).then(|| s.idxname.clone()),
        if_not_exists: s.if_not_exists,
        unique: s.unique,
        table: relation_name(s.relation.as_ref(), source)?,
        key: s.index_params.iter().map(index_key).collect::<Result<_>>()?,
        include: s
            .index_including_params
            .iter()
            .map(|n| index_key(n).map(|k| k.column))
            .collect::<Result<_>>()?,
        options: options(&s.options),
    })))
}

fn index_key(node: &Node) -> Result<IndexKeySpec> {
    let Some(NodeEnum::IndexElem(e)) = node.node.as_ref() else {
        return Err(SqlError::unsupported("this form of an index column"));
    };
    if e.expr.is_some() || e.name.is_empty() {
        return Err(SqlError::unsupported("index on an expression"));
    }
    let collation = strings(&e.collation);
    if let Some(name) = collation.last()
        && !matches!(name.as_str(), "C" | "POSIX" | "default" | "ucs_basic" | "C.UTF-8")
    {
        return Err(SqlError::unsupported(format!("collation \"{name}\"")));
    }
    // The pattern classes order as the C locale does, which is the only one there is.
    let class = strings(&e.opclass);
    if let Some(name) = class.last()
        && !name.ends_with("_ops")
    {
        return Err(SqlError::new(
            "42704",
            format!("operator class \"{name}\" does not exist for access method \"btree\""),
        ));
    }
    if !e.opclassopts.is_empty() {
        return Err(SqlError::unsupported("operator class options"));
    }
    let descending = e.ordering == SortByDir::SortbyDesc as i32;
    let nulls_first = match e.nulls_ordering {
        n if n == SortByNulls::SortbyNullsFirst as i32 => true,
        n if n == SortByNulls::SortbyNullsLast as i32 => false,
        _ => descending,
    };
    Ok(IndexKeySpec { column: e.name.clone(), descending, nulls_first })
}

pub(super) fn create_sequence(s: &CreateSeqStmt, source: &str) -> Result<Utility> {
    let relation = s.sequence.as_ref();
    let logged = match relation.map(|r| r.relpersistence.as_str()) {
        Some("t") => return Err(SqlError::unsupported("temporary sequence")),
        Some("u") => false,
        _ => true,
    };
    Ok(Utility::CreateSequence {
        name: relation_name(relation, source)?,
        options: Box::new(sequence_options(&s.options, source)?),
        if_not_exists: s.if_not_exists,
        logged,
    })
}

/// Options of CREATE and ALTER SEQUENCE and of identity columns.
pub(super) fn sequence_options(nodes: &[Node], source: &str) -> Result<SequenceOptions> {
    let mut result = SequenceOptions::default();
    for e in elements(nodes) {
        let number = || {
            int_of(e).ok_or_else(|| {
                SqlError::new("22003", format!("{} requires a numeric value in range", e.defname))
                    .with_position(position_of(source, e.location))
            })
        };
        let repeated = || {
            Err(SqlError::new("42601", "conflicting or redundant options")
                .with_position(position_of(source, e.location)))
        };
        match e.defname.as_str() {
            "as" => {
                if result.type_oid.is_some() {
                    return repeated();
                }
                let Some(NodeEnum::TypeName(t)) = e.arg.as_deref().and_then(|a| a.node.as_ref())
                else {
                    return Err(SqlError::unsupported("this form of AS"));
                };
                let oid = super::column_type(t, source)?.oid.0;
                if !matches!(oid, 20 | 21 | 23) {
                    return Err(SqlError::new(
                        "22023",
                        "sequence type must be smallint, integer, or bigint",
                    ));
                }
                result.type_oid = Some(oid);
            }
            "increment" => {
                if result.increment.replace(number()?).is_some() {
                    return repeated();
                }
            }
            "minvalue" => {
                let value = if e.arg.is_some() { Some(number()?) } else { None };
                if result.minimum.replace(value).is_some() {
                    return repeated();
                }
            }
            "maxvalue" => {
                let value = if e.arg.is_some() { Some(number()?) } else { None };
                if result.maximum.replace(value).is_some() {
                    return repeated();
                }
            }
            "start" => {
                if result.start.replace(number()?).is_some() {
                    return repeated();
                }
            }
            "restart" => {
                let value = if e.arg.is_some() { Some(number()?) } else { None };
                result.restart = Some(value);
            }
            "cache" => result.cache = Some(number()?),
            "cycle" => result.cycle = Some(switch_of(e)?),
            "owned_by" => result.owned_by = Some(owner(e.arg.as_deref())?),
            "sequence_name" => {
                let Some(NodeEnum::List(l)) = e.arg.as_deref().and_then(|a| a.node.as_ref()) else {
                    return Err(SqlError::unsupported("this form of SEQUENCE NAME"));
                };
                result.sequence_name = Some(qualified(&strings(&l.items))?);
            }
            "logged" | "unlogged" => return Err(SqlError::unsupported("SET LOGGED of a sequence")),
            other => return Err(SqlError::unsupported(format!("sequence option {other}"))),
        }
    }
    if result.increment == Some(0) {
        return Err(SqlError::new("22023", "INCREMENT must not be zero"));
    }
    if let Some(cache) = result.cache
        && cache < 1
    {
        return Err(SqlError::new("22023", format!("CACHE ({cache}) must be greater than zero")));
    }
    Ok(result)
}

fn owner(arg: Option<&Node>) -> Result<Option<(super::Name, String)>> {
    let Some(NodeEnum::List(l)) = arg.and_then(|a| a.node.as_ref()) else {
        return Err(SqlError::unsupported("this form of OWNED BY"));
    };
    let parts = strings(&l.items);
    match parts.split_last() {
        Some((none, [])) if none == "none" => Ok(None),
        Some((_, [])) | None => Err(SqlError::new("42601", "invalid OWNED BY option")
            .with_hint("Specify OWNED BY table.column or OWNED BY NONE.")),
        Some((column, table)) => Ok(Some((qualified(table)?, column.clone()))),
    }
}
