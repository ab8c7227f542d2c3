//! Reading of CREATE INDEX, REINDEX and sequence statements.

use pg_query::NodeEnum;
use pg_query::protobuf::{
    AlterTableMoveAllStmt, CreateSeqStmt, IndexStmt, Node, ObjectType, ReindexObjectType,
    ReindexStmt, SortByDir, SortByNulls,
};

use super::nodes::{
    GLOBAL_TABLESPACE, default_tablespace, elements, expression_text, int_of, options, persistence,
    qualified, relation_name, string_of, strings, switch_of,
};
use crate::collation::collation_named;
use crate::error::{Result, SqlError};
use crate::parse::position_of;
use crate::utility::statement::{
    CreateIndex, IndexKeySource, IndexKeySpec, Name, Reindex, ReindexTarget, SequenceOptions,
    Utility,
};

pub(super) fn create_index(s: &IndexStmt, source: &str) -> Result<Utility> {
    let unsupported = |what: &str| Err(SqlError::unsupported(what));
    match s.access_method.as_str() {
        "" | "btree" => {}
        known @ ("hash" | "gin" | "gist" | "spgist" | "brin") => {
            return unsupported(&format!("index method \"{known}\""));
        }
        other => {
            let message = format!("access method \"{other}\" does not exist");
            return Err(SqlError::new("42704", message));
        }
    }
    default_tablespace(&s.table_space)?;
    let include = s.index_including_params.iter().map(|n| {
        let key = index_key(n)?;
        let refused = |message| Err(SqlError::new("42P17", message));
        match key.source {
            IndexKeySource::Expression { .. } => {
                Err(SqlError::new("0A000", "expressions are not supported in included columns"))
            }
            _ if key.collation.is_some() => {
                refused("including column does not support a collation")
            }
            _ if key.operator_class.is_some() => {
                refused("including column does not support an operator class")
            }
            _ if key.descending => refused("including column does not support ASC/DESC options"),
            _ if key.nulls_first => {
                refused("including column does not support NULLS FIRST/LAST options")
            }
            IndexKeySource::Column(column) => Ok(column),
        }
    });
    Ok(Utility::CreateIndex(Box::new(CreateIndex {
        name: (!s.idxname.is_empty()).then(|| s.idxname.clone()),
        if_not_exists: s.if_not_exists,
        unique: s.unique,
        // PostgreSQL reports no position for a missing table.
        table: Name { position: None, ..relation_name(s.relation.as_ref(), source)? },
        include: include.collect::<Result<_>>()?,
        key: s.index_params.iter().map(index_key).collect::<Result<_>>()?,
        predicate: s.where_clause.as_deref().map(expression_text).transpose()?,
        nulls_not_distinct: s.nulls_not_distinct,
        options: options(&s.options),
        concurrently: s.concurrent,
    })))
}

fn index_key(node: &Node) -> Result<IndexKeySpec> {
    let Some(NodeEnum::IndexElem(e)) = node.node.as_ref() else {
        return Err(SqlError::unsupported("this form of an index column"));
    };
    let mut collation = strings(&e.collation);
    let mut given = e.expr.as_deref();
    // A COLLATE around the whole key applies to the key, wherever the parentheses are.
    while let Some(NodeEnum::CollateClause(clause)) = given.and_then(|node| node.node.as_ref()) {
        if collation.is_empty() {
            collation = strings(&clause.collname);
        }
        given = clause.arg.as_deref();
    }
    let source = match given {
        Some(expr) => IndexKeySource::Expression {
            text: expression_text(expr)?,
            name: expression_name(expr).unwrap_or("expr").to_owned(),
        },
        None => IndexKeySource::Column(e.name.clone()),
    };
    let collation: Vec<&str> = collation.iter().map(String::as_str).collect();
    let collation = if collation.is_empty() { None } else { Some(collation_named(&collation)?) };
    if !e.opclassopts.is_empty() {
        return Err(SqlError::unsupported("operator class options"));
    }
    let descending = e.ordering == SortByDir::SortbyDesc as i32;
    let nulls_first = match e.nulls_ordering {
        n if n == SortByNulls::SortbyNullsFirst as i32 => true,
        n if n == SortByNulls::SortbyNullsLast as i32 => false,
        _ => descending,
    };
    let operator_class = strings(&e.opclass).pop();
    Ok(IndexKeySpec { source, operator_class, collation, descending, nulls_first })
}

pub(super) fn reindex(s: &ReindexStmt, source: &str) -> Result<Utility> {
    let name = || relation_name(s.relation.as_ref(), source);
    let target = match ReindexObjectType::try_from(s.kind) {
        Ok(ReindexObjectType::ReindexObjectIndex) => ReindexTarget::Index(name()?),
        Ok(ReindexObjectType::ReindexObjectTable) => ReindexTarget::Table(name()?),
        Ok(ReindexObjectType::ReindexObjectSchema) => ReindexTarget::Schema(s.name.clone()),
        Ok(ReindexObjectType::ReindexObjectDatabase) => ReindexTarget::Database,
        _ => return Err(SqlError::unsupported("REINDEX SYSTEM")),
    };
    let (mut concurrently, mut verbose) = (false, false);
    for option in elements(&s.params) {
        match option.defname.as_str() {
            "concurrently" => concurrently = switch_of(option)?,
            "verbose" => verbose = switch_of(option)?,
            "tablespace" => match string_of(option) {
                Some(name) => default_tablespace(&name)?,
                None => return Err(SqlError::new("42601", "tablespace requires a parameter")),
            },
            other => {
                let message = format!("unrecognized REINDEX option \"{other}\"");
                return Err(SqlError::new("42601", message)
                    .with_position(position_of(source, option.location)));
            }
        }
    }
    Ok(Utility::Reindex(Reindex { target, concurrently, verbose }))
}

/// Reads ALTER TABLE ALL IN TABLESPACE, and the same of indexes and materialized views. All
/// relations are in the one tablespace, so nothing moves.
pub(super) fn move_all(s: &AlterTableMoveAllStmt) -> Result<Utility> {
    for name in [&s.orig_tablespacename, &s.new_tablespacename] {
        if name == GLOBAL_TABLESPACE {
            let message = "cannot move relations in to or out of pg_global tablespace";
            return Err(SqlError::new("22023", message));
        }
        default_tablespace(name)?;
    }
    let tag = match ObjectType::try_from(s.objtype) {
        Ok(ObjectType::ObjectIndex) => "ALTER INDEX",
        Ok(ObjectType::ObjectMatview) => "ALTER MATERIALIZED VIEW",
        _ => "ALTER TABLE",
    };
    Ok(Utility::Nothing { tag, notices: Vec::new() })
}

/// Returns PostgreSQL's name for the column of an expression; `None` if it has no name of its own.
fn expression_name(node: &Node) -> Option<&str> {
    match node.node.as_ref()? {
        NodeEnum::FuncCall(call) => match call.funcname.last()?.node.as_ref()? {
            NodeEnum::String(name) => Some(&name.sval),
            _ => None,
        },
        NodeEnum::CoalesceExpr(_) => Some("coalesce"),
        NodeEnum::MinMaxExpr(e) => {
            Some(if e.op == pg_query::protobuf::MinMaxOp::IsGreatest as i32 {
                "greatest"
            } else {
                "least"
            })
        }
        NodeEnum::AArrayExpr(_) => Some("array"),
        NodeEnum::CaseExpr(case) => {
            case.defresult.as_deref().and_then(expression_name).or(Some("case"))
        }
        NodeEnum::ColumnRef(column) => match column.fields.last()?.node.as_ref()? {
            NodeEnum::String(name) => Some(&name.sval),
            _ => None,
        },
        NodeEnum::TypeCast(cast) => {
            let name = cast.arg.as_deref().and_then(expression_name);
            name.or_else(|| match cast.type_name.as_ref()?.names.last()?.node.as_ref()? {
                NodeEnum::String(name) => Some(name.sval.as_str()),
                _ => None,
            })
        }
        NodeEnum::CollateClause(collate) => collate.arg.as_deref().and_then(expression_name),
        NodeEnum::AExpr(e) if e.kind == pg_query::protobuf::AExprKind::AexprNullif as i32 => {
            Some("nullif")
        }
        _ => None,
    }
}

pub(super) fn create_sequence(s: &CreateSeqStmt, source: &str) -> Result<Utility> {
    let relation = s.sequence.as_ref();
    Ok(Utility::CreateSequence {
        name: relation_name(relation, source)?,
        options: Box::new(sequence_options(&s.options, source)?),
        if_not_exists: s.if_not_exists,
        persistence: persistence(relation),
    })
}

/// Reads the options of CREATE and ALTER SEQUENCE, and of identity columns.
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
                let oid = super::type_name::column_type(t, source)?.oid.0;
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

fn owner(arg: Option<&Node>) -> Result<Option<(Name, String)>> {
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
