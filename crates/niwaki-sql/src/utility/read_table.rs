//! CREATE TABLE and ALTER TABLE.

use niwaki_catalog::{ConstraintTime, Identity, RelationKind};
use pg_query::NodeEnum;
use pg_query::protobuf::{
    AlterTableCmd, AlterTableStmt, AlterTableType, ColumnDef, ConstrType, Constraint, CreateStmt,
    DropBehavior, Node, ObjectType, OnCommitAction,
};

use super::read::{expression_text, options, persistence, relation_name, strings, unexpected};
use super::read_definition::sequence_options;
use super::statement::{
    AlterColumn, AlterCommand, ColumnSpec, ConstraintSpec, ConstraintSpecKind, CreateTable,
    OnCommit, Utility,
};
use super::type_name::{column_type, serial_type};
use crate::error::{Result, SqlError};
use crate::parse::position_of;

pub(super) fn create_table(s: &CreateStmt, source: &str) -> Result<Utility> {
    let unsupported = |what: &str| Err(SqlError::unsupported(what));
    let relation = s.relation.as_ref();
    let on_commit = match OnCommitAction::try_from(s.oncommit) {
        Ok(OnCommitAction::OncommitPreserveRows) => Some(OnCommit::PreserveRows),
        Ok(OnCommitAction::OncommitDeleteRows) => Some(OnCommit::DeleteRows),
        Ok(OnCommitAction::OncommitDrop) => Some(OnCommit::Drop),
        _ => None,
    };
    if !s.inh_relations.is_empty() && s.partbound.is_none() {
        return unsupported("INHERITS");
    }
    if s.partbound.is_some() || s.partspec.is_some() {
        return unsupported("partitioned table");
    }
    if s.of_typename.is_some() {
        return unsupported("CREATE TABLE … OF type");
    }
    if !s.tablespacename.is_empty() && s.tablespacename != "pg_default" {
        return unsupported("TABLESPACE");
    }
    if !matches!(s.access_method.as_str(), "" | "heap") {
        return unsupported(&format!("table access method \"{}\"", s.access_method));
    }
    let name = relation_name(relation, source)?;
    let mut table = CreateTable {
        name,
        if_not_exists: s.if_not_exists,
        persistence: persistence(relation),
        on_commit,
        columns: Vec::new(),
        constraints: Vec::new(),
        options: options(&s.options),
    };
    for element in s.table_elts.iter().chain(&s.constraints) {
        match element.node.as_ref() {
            Some(NodeEnum::ColumnDef(c)) => {
                let (column, constraints) = column(c, source)?;
                table.columns.push(column);
                table.constraints.extend(constraints);
            }
            Some(NodeEnum::Constraint(c)) => {
                if let TableConstraint::Constraint(c) = table_constraint(c, source)? {
                    table.constraints.push(c);
                }
            }
            Some(NodeEnum::TableLikeClause(_)) => return unsupported("LIKE in CREATE TABLE"),
            _ => return Err(unexpected("CREATE TABLE")),
        }
    }
    Ok(Utility::CreateTable(Box::new(table)))
}

/// A column and the constraints written at it.
fn column(c: &ColumnDef, source: &str) -> Result<(ColumnSpec, Vec<ConstraintSpec>)> {
    let at = |e: SqlError| e.with_position(position_of(source, c.location));
    let type_name =
        c.type_name.as_ref().ok_or_else(|| unexpected("column definition without a type"))?;
    let serial = serial_type(type_name);
    let mut user_type = None;
    let stored = match serial {
        Some(oid) => niwaki_types::ColumnType { oid, typmod: -1 },
        None => match column_type(type_name, source) {
            // What is none of PostgreSQL's own types may be a user's.
            Err(error) if error.sqlstate == "42704" => {
                user_type = Some(super::types::user_type(type_name, source).ok_or(error)?);
                niwaki_types::ColumnType::new(niwaki_types::TypeOid::UNKNOWN)
            }
            stored => stored?,
        },
    };
    if let Some(collation) = &c.coll_clause {
        let name = strings(&collation.collname).pop().unwrap_or_default();
        if !matches!(name.as_str(), "C" | "POSIX" | "default" | "ucs_basic" | "C.UTF-8") {
            return Err(at(SqlError::unsupported(format!("collation \"{name}\""))));
        }
    }
    let mut spec = ColumnSpec {
        name: c.colname.clone(),
        column_type: stored,
        user_type,
        serial: serial.is_some(),
        not_null: serial.is_some() || c.is_not_null,
        default: c.raw_default.as_deref().map(expression_text).transpose()?,
        identity: None,
    };
    let mut constraints = Vec::new();
    let mut said_null = false;
    // Whether what stands before an attribute is a constraint that can have one.
    let mut takes_attribute = false;
    let mut attributes: Vec<Attribute> = Vec::new();
    for node in &c.constraints {
        let Some(NodeEnum::Constraint(k)) = node.node.as_ref() else { continue };
        let at = |e: SqlError| e.with_position(position_of(source, k.location));
        let kind = ConstrType::try_from(k.contype).unwrap_or(ConstrType::Undefined);
        if let Some(attribute) = attribute_of(kind) {
            let last = constraints.last_mut().filter(|_| takes_attribute);
            let Some(ConstraintSpecKind::Unique { check_time, .. }) =
                last.map(|c: &mut ConstraintSpec| &mut c.kind)
            else {
                let message = format!("misplaced {} clause", attribute.words());
                return Err(at(SqlError::new("42601", message)));
            };
            attributes.push(attribute);
            if attributes.contains(&Attribute::NotDeferrable)
                && attributes.contains(&Attribute::Deferred)
            {
                let message = "constraint declared INITIALLY DEFERRED must be DEFERRABLE";
                return Err(at(SqlError::new("42601", message)));
            }
            attribute.apply(check_time);
            continue;
        }
        attributes.clear();
        takes_attribute = matches!(kind, ConstrType::ConstrPrimary | ConstrType::ConstrUnique);
        match kind {
            ConstrType::ConstrNull => said_null = true,
            ConstrType::ConstrNotnull => spec.not_null = true,
            ConstrType::ConstrDefault => {
                let text = k.raw_expr.as_deref().map(expression_text).transpose()?;
                if spec.default.is_some() || spec.serial {
                    return Err(at(SqlError::new(
                        "42601",
                        format!("multiple default values specified for column \"{}\"", c.colname),
                    )));
                }
                spec.default = text;
            }
            ConstrType::ConstrIdentity => {
                let kind = match k.generated_when.as_str() {
                    "a" => Identity::Always,
                    _ => Identity::ByDefault,
                };
                if !matches!(spec.column_type.oid.0, 20 | 21 | 23) {
                    return Err(at(SqlError::new(
                        "22023",
                        "identity column type must be smallint, integer, or bigint",
                    )));
                }
                spec.identity = Some((kind, sequence_options(&k.options, source)?));
                spec.not_null = true;
            }
            ConstrType::ConstrGenerated => {
                return Err(at(SqlError::unsupported("generated column")));
            }
            _ => match table_constraint(k, source)? {
                TableConstraint::Nothing => {}
                TableConstraint::Constraint(mut constraint) => {
                    match &mut constraint.kind {
                        ConstraintSpecKind::Check { column, .. } => {
                            *column = Some(c.colname.clone());
                        }
                        ConstraintSpecKind::Unique { columns, primary, .. } => {
                            columns.push(c.colname.clone());
                            if *primary {
                                spec.not_null = true;
                            }
                        }
                    }
                    constraints.push(constraint);
                }
            },
        }
    }
    if said_null && spec.not_null {
        return Err(at(SqlError::new(
            "42601",
            format!("conflicting NULL/NOT NULL declarations for column \"{}\"", c.colname),
        )));
    }
    if spec.identity.is_some() && (spec.default.is_some() || spec.serial) {
        return Err(at(SqlError::new(
            "42601",
            format!("both default and identity specified for column \"{}\"", c.colname),
        )));
    }
    Ok((spec, constraints))
}

/// What is said about a constraint behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attribute {
    Deferrable,
    NotDeferrable,
    Deferred,
    Immediate,
}

fn attribute_of(kind: ConstrType) -> Option<Attribute> {
    Some(match kind {
        ConstrType::ConstrAttrDeferrable => Attribute::Deferrable,
        ConstrType::ConstrAttrNotDeferrable => Attribute::NotDeferrable,
        ConstrType::ConstrAttrDeferred => Attribute::Deferred,
        ConstrType::ConstrAttrImmediate => Attribute::Immediate,
        _ => return None,
    })
}

impl Attribute {
    fn words(self) -> &'static str {
        match self {
            Self::Deferrable => "DEFERRABLE",
            Self::NotDeferrable => "NOT DEFERRABLE",
            Self::Deferred => "INITIALLY DEFERRED",
            Self::Immediate => "INITIALLY IMMEDIATE",
        }
    }

    fn apply(self, time: &mut ConstraintTime) {
        *time = match (self, *time) {
            (Self::NotDeferrable, _) => ConstraintTime::AtOnce,
            (Self::Deferred, _) => ConstraintTime::Transaction,
            (Self::Deferrable, ConstraintTime::AtOnce) => ConstraintTime::Statement,
            (_, time) => time,
        };
    }
}

enum TableConstraint {
    Constraint(ConstraintSpec),
    Nothing,
}

fn table_constraint(k: &Constraint, source: &str) -> Result<TableConstraint> {
    let at = |e: SqlError| e.with_position(position_of(source, k.location));
    let name = (!k.conname.is_empty()).then(|| k.conname.clone());
    let check_time = match (k.deferrable, k.initdeferred) {
        (_, true) => ConstraintTime::Transaction,
        (true, false) => ConstraintTime::Statement,
        (false, false) => ConstraintTime::AtOnce,
    };
    let kind = match ConstrType::try_from(k.contype).unwrap_or(ConstrType::Undefined) {
        ConstrType::ConstrCheck => {
            if check_time != ConstraintTime::AtOnce {
                let message = "CHECK constraints cannot be marked DEFERRABLE";
                return Err(at(SqlError::new("0A000", message)));
            }
            let expression = k.raw_expr.as_deref().ok_or_else(|| unexpected("CHECK"))?;
            ConstraintSpecKind::Check { expression: expression_text(expression)?, column: None }
        }
        kind @ (ConstrType::ConstrPrimary | ConstrType::ConstrUnique) => {
            if k.without_overlaps {
                return Err(at(SqlError::unsupported("WITHOUT OVERLAPS")));
            }
            ConstraintSpecKind::Unique {
                primary: kind == ConstrType::ConstrPrimary,
                columns: strings(&k.keys),
                include: strings(&k.including),
                nulls_not_distinct: k.nulls_not_distinct,
                check_time,
                options: options(&k.options),
            }
        }
        ConstrType::ConstrForeign => return Err(at(SqlError::unsupported("FOREIGN KEY"))),
        ConstrType::ConstrExclusion => {
            return Err(at(SqlError::unsupported("EXCLUDE constraint")));
        }
        ConstrType::ConstrNotnull => {
            return Err(at(SqlError::unsupported("NOT NULL table constraint")));
        }
        // ENFORCED says what holds anyway.
        ConstrType::ConstrAttrEnforced => return Ok(TableConstraint::Nothing),
        _ => return Err(at(unexpected("constraint"))),
    };
    Ok(TableConstraint::Constraint(ConstraintSpec { name, kind }))
}

pub(super) fn alter_table(s: &AlterTableStmt, source: &str) -> Result<Utility> {
    let kind = match ObjectType::try_from(s.objtype) {
        Ok(ObjectType::ObjectTable) => RelationKind::Table,
        Ok(ObjectType::ObjectIndex) => RelationKind::Index,
        Ok(ObjectType::ObjectSequence) => RelationKind::Sequence,
        _ => return Err(unexpected("ALTER")),
    };
    let mut commands = Vec::with_capacity(s.cmds.len());
    for node in &s.cmds {
        let Some(NodeEnum::AlterTableCmd(c)) = node.node.as_ref() else {
            return Err(unexpected("ALTER TABLE"));
        };
        commands.push(alter_command(c, source)?);
    }
    Ok(Utility::Alter {
        name: relation_name(s.relation.as_ref(), source)?,
        kind,
        if_exists: s.missing_ok,
        commands,
    })
}

fn alter_command(c: &AlterTableCmd, source: &str) -> Result<AlterCommand> {
    use AlterTableType as T;
    let definition = || c.def.as_deref().and_then(|n| n.node.as_ref());
    let list = || match definition() {
        Some(NodeEnum::List(l)) => l.items.as_slice(),
        _ => &[] as &[Node],
    };
    let column_action =
        |action: AlterColumn| Ok(AlterCommand::Column { name: c.name.clone(), action });
    match T::try_from(c.subtype).unwrap_or(T::Undefined) {
        T::AtAddColumn => {
            let Some(NodeEnum::ColumnDef(d)) = definition() else {
                return Err(unexpected("ADD COLUMN"));
            };
            let (spec, constraints) = column(d, source)?;
            Ok(AlterCommand::AddColumn {
                column: Box::new(spec),
                constraints,
                if_not_exists: c.missing_ok,
            })
        }
        T::AtDropColumn => Ok(AlterCommand::DropColumn {
            name: c.name.clone(),
            if_exists: c.missing_ok,
            cascade: c.behavior == DropBehavior::DropCascade as i32,
        }),
        T::AtColumnDefault => {
            column_action(AlterColumn::Default(c.def.as_deref().map(expression_text).transpose()?))
        }
        T::AtDropNotNull => column_action(AlterColumn::DropNotNull),
        T::AtSetNotNull => column_action(AlterColumn::SetNotNull),
        T::AtSetStatistics | T::AtSetStorage | T::AtSetOptions | T::AtResetOptions => {
            column_action(AlterColumn::Nothing)
        }
        T::AtAddConstraint => {
            let Some(NodeEnum::Constraint(k)) = definition() else {
                return Err(unexpected("ADD CONSTRAINT"));
            };
            if !k.indexname.is_empty() {
                return Ok(AlterCommand::AddConstraintUsingIndex {
                    name: (!k.conname.is_empty()).then(|| k.conname.clone()),
                    primary: k.contype == ConstrType::ConstrPrimary as i32,
                    index: k.indexname.clone(),
                    check_time: match (k.deferrable, k.initdeferred) {
                        (_, true) => ConstraintTime::Transaction,
                        (true, false) => ConstraintTime::Statement,
                        (false, false) => ConstraintTime::AtOnce,
                    },
                });
            }
            if k.skip_validation {
                return Err(SqlError::unsupported("NOT VALID constraint"));
            }
            match table_constraint(k, source)? {
                TableConstraint::Constraint(k) => Ok(AlterCommand::AddConstraint(k)),
                TableConstraint::Nothing => Ok(AlterCommand::Nothing),
            }
        }
        T::AtDropConstraint => {
            Ok(AlterCommand::DropConstraint { name: c.name.clone(), if_exists: c.missing_ok })
        }
        T::AtSetRelOptions => Ok(AlterCommand::SetOptions(options(list()))),
        T::AtResetRelOptions => {
            Ok(AlterCommand::ResetOptions(options(list()).into_iter().map(|(n, _)| n).collect()))
        }
        T::AtChangeOwner => Ok(AlterCommand::Nothing),
        other => {
            let mut words = String::new();
            for ch in other.as_str_name().trim_start_matches("AT_").chars() {
                words.push(if ch == '_' { ' ' } else { ch.to_ascii_uppercase() });
            }
            Err(SqlError::unsupported(format!("ALTER TABLE {words}")))
        }
    }
}
