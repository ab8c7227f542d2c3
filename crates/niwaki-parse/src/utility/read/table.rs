//! Reading of CREATE TABLE and ALTER TABLE.

use niwaki_catalog::{ConstraintTime, Identity, Oid, RelationKind};
use niwaki_types::{ColumnType, TypeOid};
use pg_query::NodeEnum;
use pg_query::protobuf::{
    AlterTableCmd, AlterTableStmt, AlterTableType, CollateClause, ColumnDef, ConstrType,
    Constraint, CreateStmt, DropBehavior, Node, ObjectType, OnCommitAction, TypeName,
};

use super::definition::sequence_options;
use super::foreign_key::foreign_key;
use super::nodes::{
    default_tablespace, expression_text, options, persistence, relation_name, role_name, string_of,
    strings, unexpected,
};
use super::partition::{alter_partition, partition_by, partition_of};
use super::type_name::{column_type, pseudo_type, serial_type};
use crate::collation::collation_named;
use crate::error::{Result, SqlError};
use crate::parse::position_of;
use crate::utility::command_name::{action_words, object_words};
use crate::utility::statement::{
    AlterColumn, AlterCommand, ColumnSpec, ConstraintSpec, ConstraintSpecKind, CreateTable, Like,
    OnCommit, UserTypeName, Utility,
};

pub(super) fn create_table(s: &CreateStmt, source: &str) -> Result<Utility> {
    let unsupported = |what: &str| Err(SqlError::unsupported(what));
    let relation = s.relation.as_ref();
    if !s.inh_relations.is_empty() && s.partbound.is_none() {
        return unsupported("INHERITS");
    }
    if s.of_typename.is_some() {
        return unsupported("CREATE TABLE … OF type");
    }
    default_tablespace(&s.tablespacename)?;
    if !matches!(s.access_method.as_str(), "" | "heap") {
        return unsupported(&format!("table access method \"{}\"", s.access_method));
    }
    let name = relation_name(relation, source)?;
    let mut table = CreateTable {
        name,
        if_not_exists: s.if_not_exists,
        persistence: persistence(relation),
        on_commit: on_commit(s.oncommit),
        columns: Vec::new(),
        constraints: Vec::new(),
        likes: Vec::new(),
        options: options(&s.options),
        partition_by: s.partspec.as_ref().map(|spec| partition_by(spec, source)).transpose()?,
        partition_of: match &s.partbound {
            Some(bound) => Some(partition_of(&s.inh_relations, bound, source)?),
            None => None,
        },
    };
    for element in s.table_elts.iter().chain(&s.constraints) {
        match element.node.as_ref() {
            Some(NodeEnum::ColumnDef(c)) => {
                let (column, constraints) = column(c, &table.name.name, source)?;
                table.columns.push(column);
                table.constraints.extend(constraints);
            }
            Some(NodeEnum::Constraint(c)) => {
                if let TableConstraint::Constraint(c) = table_constraint(c, source)? {
                    table.constraints.push(c);
                }
            }
            Some(NodeEnum::TableLikeClause(like)) => {
                let relation = relation_name(like.relation.as_ref(), source)?;
                let (position, options) = (table.columns.len(), like.options);
                table.likes.push(Like { relation, position, options });
            }
            _ => return Err(unexpected("CREATE TABLE")),
        }
    }
    Ok(Utility::CreateTable(Box::new(table)))
}

/// Returns the ON COMMIT action for its number in the tree.
pub(super) fn on_commit(action: i32) -> Option<OnCommit> {
    match OnCommitAction::try_from(action) {
        Ok(OnCommitAction::OncommitPreserveRows) => Some(OnCommit::PreserveRows),
        Ok(OnCommitAction::OncommitDeleteRows) => Some(OnCommit::DeleteRows),
        Ok(OnCommitAction::OncommitDrop) => Some(OnCommit::Drop),
        _ => None,
    }
}

/// Returns a built-in type; for any other type its name, since the type may be a user's.
pub(super) fn named_type(
    type_name: &TypeName,
    source: &str,
) -> Result<(ColumnType, Option<UserTypeName>)> {
    match column_type(type_name, source) {
        Err(error) if error.sqlstate == "42704" => {
            let user_type = super::user_type::user_type(type_name, source).ok_or(error)?;
            Ok((ColumnType::new(TypeOid::UNKNOWN), Some(user_type)))
        }
        stored => Ok((stored?, None)),
    }
}

/// Returns the same for the type of a column.
///
/// # Errors
/// As [`column_type`]; 42P16 for a pseudo-type.
pub(super) fn type_of_column(
    column: &str,
    type_name: &TypeName,
    source: &str,
) -> Result<(ColumnType, Option<UserTypeName>)> {
    match pseudo_type(type_name) {
        Some(shown) => {
            let message = format!("column \"{column}\" has pseudo-type {shown}");
            Err(SqlError::new("42P16", message))
        }
        None => named_type(type_name, source),
    }
}

/// Reads a column, with its column constraints.
fn column(c: &ColumnDef, table: &str, source: &str) -> Result<(ColumnSpec, Vec<ConstraintSpec>)> {
    let of_table = format!("\"{}\" of table \"{table}\"", c.colname);
    let at = |e: SqlError| e.with_position(position_of(source, c.location));
    let serial = c.type_name.as_ref().and_then(serial_type);
    let (stored, user_type) = match (serial, &c.type_name) {
        (Some(oid), _) => (ColumnType::new(oid), None),
        (None, Some(name)) => type_of_column(&c.colname, name, source)?,
        // A partition's column has the type of the partitioned table's column.
        (None, None) => (ColumnType::new(TypeOid::UNKNOWN), None),
    };
    let mut spec = ColumnSpec {
        user_type,
        collation: collation_of(c.coll_clause.as_deref(), source)?,
        serial: serial.is_some(),
        not_null: serial.is_some() || c.is_not_null,
        default: c.raw_default.as_deref().map(expression_text).transpose()?,
        ..ColumnSpec::new(c.colname.clone(), stored)
    };
    let mut constraints: Vec<ConstraintSpec> = Vec::new();
    let mut said_null = false;
    // True if the previous constraint can have attributes.
    let mut takes_attribute = false;
    let mut attributes: Vec<Attribute> = Vec::new();
    for node in &c.constraints {
        let Some(NodeEnum::Constraint(k)) = node.node.as_ref() else { continue };
        let at = |e: SqlError| e.with_position(position_of(source, k.location));
        let kind = ConstrType::try_from(k.contype).unwrap_or(ConstrType::Undefined);
        if let Some(attribute) = attribute_of(kind) {
            let last = constraints.last_mut().filter(|_| takes_attribute);
            take_attribute(attribute, last, &mut attributes).map_err(at)?;
            continue;
        }
        attributes.clear();
        takes_attribute = matches!(
            kind,
            ConstrType::ConstrPrimary | ConstrType::ConstrUnique | ConstrType::ConstrForeign
        );
        match kind {
            ConstrType::ConstrNull => said_null = true,
            ConstrType::ConstrNotnull => spec.not_null = true,
            ConstrType::ConstrDefault => take_default(&mut spec, k, &of_table, source)?,
            ConstrType::ConstrIdentity if c.type_name.is_none() => {
                let message = "identity columns are not supported on partitions";
                return Err(SqlError::new("0A000", message));
            }
            ConstrType::ConstrIdentity => take_identity(&mut spec, k, &of_table, source)?,
            ConstrType::ConstrGenerated => take_generation(&mut spec, k, &of_table, source)?,
            _ => match table_constraint(k, source)? {
                TableConstraint::Nothing => {}
                TableConstraint::Constraint(mut constraint) => {
                    name_column(&mut constraint, &mut spec, &c.colname);
                    constraints.push(constraint);
                }
            },
        }
    }
    refuse_conflicts(&spec, said_null, &of_table).map_err(at)?;
    Ok((spec, constraints))
}

/// Adds an attribute to the constraint before it, if that constraint can have attributes.
/// `attributes` are all attributes of the constraint so far.
fn take_attribute(
    attribute: Attribute,
    constraint: Option<&mut ConstraintSpec>,
    attributes: &mut Vec<Attribute>,
) -> Result<()> {
    let check_time = match constraint.map(|c| &mut c.kind) {
        Some(ConstraintSpecKind::Unique { check_time, .. }) => check_time,
        Some(ConstraintSpecKind::Foreign(key)) => &mut key.check_time,
        _ => {
            let message = format!("misplaced {} clause", attribute.words());
            return Err(SqlError::new("42601", message));
        }
    };
    attributes.push(attribute);
    if attributes.contains(&Attribute::NotDeferrable) && attributes.contains(&Attribute::Deferred) {
        let message = "constraint declared INITIALLY DEFERRED must be DEFERRABLE";
        return Err(SqlError::new("42601", message));
    }
    attribute.apply(check_time);
    Ok(())
}

/// Reads DEFAULT. `of_table` names the column for messages.
fn take_default(spec: &mut ColumnSpec, k: &Constraint, of_table: &str, source: &str) -> Result<()> {
    let text = k.raw_expr.as_deref().map(expression_text).transpose()?;
    if spec.default.is_some() || spec.serial {
        let message = format!("multiple default values specified for column {of_table}");
        return Err(SqlError::new("42601", message).with_position(position_of(source, k.location)));
    }
    spec.default = text;
    Ok(())
}

/// Reads GENERATED … AS IDENTITY. `of_table` names the column for messages.
fn take_identity(
    spec: &mut ColumnSpec,
    k: &Constraint,
    of_table: &str,
    source: &str,
) -> Result<()> {
    let at = |e: SqlError| e.with_position(position_of(source, k.location));
    let kind = identity_kind(&k.generated_when);
    if !matches!(spec.column_type.oid.0, 20 | 21 | 23) {
        let message = "identity column type must be smallint, integer, or bigint";
        return Err(at(SqlError::new("22023", message)));
    }
    if spec.identity.is_some() {
        let message = format!("multiple identity specifications for column {of_table}");
        return Err(at(SqlError::new("42601", message)));
    }
    spec.identity = Some((kind, sequence_options(&k.options, source)?));
    spec.not_null = true;
    Ok(())
}

/// Reads GENERATED … AS (expression). `of_table` names the column for messages.
fn take_generation(
    spec: &mut ColumnSpec,
    k: &Constraint,
    of_table: &str,
    source: &str,
) -> Result<()> {
    let at = |e: SqlError| e.with_position(position_of(source, k.location));
    if k.generated_kind == "v" {
        return Err(at(SqlError::unsupported("generated column that is not STORED")));
    }
    let text = k.raw_expr.as_deref().map(expression_text).transpose()?;
    if spec.generated.is_some() {
        let message = format!("multiple generation clauses specified for column {of_table}");
        return Err(at(SqlError::new("42601", message)));
    }
    spec.generated = text;
    Ok(())
}

/// Names the column in its constraint. The column of a primary key is not NULL.
fn name_column(constraint: &mut ConstraintSpec, spec: &mut ColumnSpec, name: &str) {
    match &mut constraint.kind {
        ConstraintSpecKind::Check { column, .. } => *column = Some(name.to_owned()),
        ConstraintSpecKind::Unique { columns, primary, .. } => {
            columns.push(name.to_owned());
            if *primary {
                spec.not_null = true;
            }
        }
        ConstraintSpecKind::Foreign(key) => key.columns.push(name.to_owned()),
    }
}

/// Refuses constraints of a column that contradict each other.
fn refuse_conflicts(spec: &ColumnSpec, said_null: bool, of_table: &str) -> Result<()> {
    if said_null && spec.not_null {
        let message = format!("conflicting NULL/NOT NULL declarations for column {of_table}");
        return Err(SqlError::new("42601", message));
    }
    if spec.identity.is_some() && (spec.default.is_some() || spec.serial) {
        let message = format!("both default and identity specified for column {of_table}");
        return Err(SqlError::new("42601", message));
    }
    if spec.generated.is_some() {
        let other = match () {
            () if spec.identity.is_some() => Some("identity"),
            () if spec.default.is_some() || spec.serial => Some("default"),
            () => None,
        };
        if let Some(other) = other {
            let message =
                format!("both {other} and generation expression specified for column {of_table}");
            return Err(SqlError::new("42601", message));
        }
    }
    Ok(())
}

/// An attribute after a constraint.
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

fn check_time(deferrable: bool, deferred: bool) -> ConstraintTime {
    match (deferrable, deferred) {
        (_, true) => ConstraintTime::Transaction,
        (true, false) => ConstraintTime::Statement,
        (false, false) => ConstraintTime::AtOnce,
    }
}

fn identity_kind(letter: &str) -> Identity {
    match letter {
        "a" => Identity::Always,
        _ => Identity::ByDefault,
    }
}

/// Returns the collation of a COLLATE clause.
pub(super) fn collation_of(clause: Option<&CollateClause>, source: &str) -> Result<Option<Oid>> {
    let Some(clause) = clause else { return Ok(None) };
    let names = strings(&clause.collname);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let found = collation_named(&names);
    found.map(Some).map_err(|e| e.with_position(position_of(source, clause.location)))
}

enum TableConstraint {
    Constraint(ConstraintSpec),
    Nothing,
}

fn table_constraint(k: &Constraint, source: &str) -> Result<TableConstraint> {
    let at = |e: SqlError| e.with_position(position_of(source, k.location));
    let name = (!k.conname.is_empty()).then(|| k.conname.clone());
    let check_time = check_time(k.deferrable, k.initdeferred);
    let kind = match ConstrType::try_from(k.contype).unwrap_or(ConstrType::Undefined) {
        ConstrType::ConstrCheck => {
            if check_time != ConstraintTime::AtOnce {
                let message = "CHECK constraints cannot be marked DEFERRABLE";
                return Err(at(SqlError::new("0A000", message)));
            }
            let expression = k.raw_expr.as_deref().ok_or_else(|| unexpected("CHECK"))?;
            ConstraintSpecKind::Check {
                expression: expression_text(expression)?,
                column: None,
                no_inherit: k.is_no_inherit,
            }
        }
        kind @ (ConstrType::ConstrPrimary | ConstrType::ConstrUnique) => {
            if k.without_overlaps {
                return Err(at(SqlError::unsupported("WITHOUT OVERLAPS")));
            }
            default_tablespace(&k.indexspace)?;
            ConstraintSpecKind::Unique {
                primary: kind == ConstrType::ConstrPrimary,
                columns: strings(&k.keys),
                include: strings(&k.including),
                nulls_not_distinct: k.nulls_not_distinct,
                check_time,
                options: options(&k.options),
            }
        }
        ConstrType::ConstrForeign => {
            ConstraintSpecKind::Foreign(Box::new(foreign_key(k, check_time, source).map_err(at)?))
        }
        ConstrType::ConstrExclusion => {
            return Err(at(SqlError::unsupported("EXCLUDE constraint")));
        }
        ConstrType::ConstrNotnull => {
            return Err(at(SqlError::unsupported("NOT NULL table constraint")));
        }
        // Constraints are always enforced.
        ConstrType::ConstrAttrEnforced => return Ok(TableConstraint::Nothing),
        _ => return Err(at(unexpected("constraint"))),
    };
    Ok(TableConstraint::Constraint(ConstraintSpec {
        name,
        kind,
        not_valid: k.skip_validation,
        stored: false,
    }))
}

pub(super) fn alter_table(s: &AlterTableStmt, source: &str) -> Result<Utility> {
    let kind = match ObjectType::try_from(s.objtype) {
        Ok(ObjectType::ObjectTable) => RelationKind::Table,
        Ok(ObjectType::ObjectIndex) => RelationKind::Index,
        Ok(ObjectType::ObjectSequence) => RelationKind::Sequence,
        Ok(ObjectType::ObjectView) => RelationKind::View,
        Ok(ObjectType::ObjectMatview) => RelationKind::MaterializedView,
        Ok(ObjectType::ObjectType) => {
            return Err(SqlError::unsupported("ALTER TYPE with ADD, DROP or ALTER ATTRIBUTE"));
        }
        _ => {
            let words = object_words(s.objtype);
            return Err(SqlError::unsupported(format!("ALTER {words}")));
        }
    };
    let name = relation_name(s.relation.as_ref(), source)?;
    let mut commands = Vec::with_capacity(s.cmds.len());
    for node in &s.cmds {
        let Some(NodeEnum::AlterTableCmd(c)) = node.node.as_ref() else {
            return Err(unexpected("ALTER TABLE"));
        };
        let command = alter_command(c, &name.name, source)?;
        if command == AlterCommand::SetTablespace && commands.contains(&command) {
            let message = "cannot have multiple SET TABLESPACE subcommands";
            return Err(SqlError::new("42601", message));
        }
        commands.push(command);
    }
    Ok(Utility::Alter { name, kind, if_exists: s.missing_ok, commands })
}

fn alter_command(c: &AlterTableCmd, table: &str, source: &str) -> Result<AlterCommand> {
    use AlterTableType as T;
    let definition = || c.def.as_deref().and_then(|n| n.node.as_ref());
    let list = || match definition() {
        Some(NodeEnum::List(l)) => l.items.as_slice(),
        _ => &[] as &[Node],
    };
    let column_action =
        |action: AlterColumn| Ok(AlterCommand::Column { name: c.name.clone(), action });
    let nothing = |action: &'static str| column_action(AlterColumn::Nothing(action));
    let subtype = T::try_from(c.subtype).unwrap_or(T::Undefined);
    if let Some((which, mode)) = super::trigger::enabled(subtype, &c.name) {
        return Ok(AlterCommand::EnableTrigger { which, mode });
    }
    match subtype {
        T::AtAddColumn => {
            let Some(NodeEnum::ColumnDef(d)) = definition() else {
                return Err(unexpected("ADD COLUMN"));
            };
            let (spec, constraints) = column(d, table, source)?;
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
        T::AtSetStatistics if c.name.is_empty() => {
            Err(SqlError::unsupported("SET STATISTICS of a column by its number"))
        }
        T::AtSetStatistics => column_action(AlterColumn::Statistics),
        T::AtSetStorage => nothing("ALTER COLUMN ... SET STORAGE"),
        T::AtSetCompression => nothing("ALTER COLUMN ... SET COMPRESSION"),
        T::AtSetOptions => nothing("ALTER COLUMN ... SET"),
        T::AtResetOptions => nothing("ALTER COLUMN ... RESET"),
        T::AtAlterColumnType => {
            let Some(NodeEnum::ColumnDef(d)) = definition() else {
                return Err(unexpected("ALTER COLUMN TYPE"));
            };
            column_action(new_type(&c.name, d, source)?)
        }
        T::AtAddIdentity => {
            let Some(NodeEnum::Constraint(k)) = definition() else {
                return Err(unexpected("ADD GENERATED"));
            };
            let options = Box::new(sequence_options(&k.options, source)?);
            column_action(AlterColumn::AddIdentity(identity_kind(&k.generated_when), options))
        }
        T::AtSetIdentity => column_action(changed_identity(list(), source)?),
        T::AtDropIdentity => column_action(AlterColumn::DropIdentity { if_exists: c.missing_ok }),
        T::AtDropExpression => {
            column_action(AlterColumn::DropExpression { if_exists: c.missing_ok })
        }
        T::AtAddConstraint => {
            let Some(NodeEnum::Constraint(k)) = definition() else {
                return Err(unexpected("ADD CONSTRAINT"));
            };
            new_constraint(k, source)
        }
        T::AtDropConstraint => Ok(AlterCommand::DropConstraint {
            name: c.name.clone(),
            if_exists: c.missing_ok,
            cascade: c.behavior == DropBehavior::DropCascade as i32,
        }),
        T::AtValidateConstraint => Ok(AlterCommand::ValidateConstraint(c.name.clone())),
        T::AtAlterConstraint => match definition() {
            Some(NodeEnum::AtalterConstraint(k)) if k.alter_deferrability => {
                Ok(AlterCommand::AlterConstraint {
                    name: k.conname.clone(),
                    check_time: check_time(k.deferrable, k.initdeferred),
                })
            }
            _ => Err(unexpected("ALTER CONSTRAINT")),
        },
        T::AtSetRelOptions => Ok(AlterCommand::SetOptions(options(list()))),
        T::AtResetRelOptions => reset_options(list()),
        T::AtChangeOwner => Ok(AlterCommand::Owner(role_name(c.newowner.as_ref())?)),
        T::AtAttachPartition | T::AtDetachPartition => match definition() {
            Some(NodeEnum::PartitionCmd(command)) => {
                alter_partition(command, subtype == T::AtAttachPartition, source)
            }
            _ => Err(unexpected("PARTITION")),
        },
        // Rows have no system OIDs, and tables are never clustered.
        T::AtDropOids | T::AtDropCluster => Ok(AlterCommand::Nothing),
        T::AtSetTableSpace => {
            default_tablespace(&c.name)?;
            Ok(AlterCommand::SetTablespace)
        }
        other => Err(SqlError::unsupported(format!("ALTER TABLE {}", action_words(other)))),
    }
}

/// Reads ALTER COLUMN … TYPE. `d` has the new type, its collation and the USING expression.
fn new_type(column: &str, d: &ColumnDef, source: &str) -> Result<AlterColumn> {
    let name = d.type_name.as_ref().ok_or_else(|| unexpected("ALTER COLUMN TYPE"))?;
    let (column_type, user_type) = type_of_column(column, name, source)?;
    Ok(AlterColumn::Type {
        column_type,
        user_type,
        collation: collation_of(d.coll_clause.as_deref(), source)?,
        using: d.raw_default.as_deref().map(expression_text).transpose()?,
    })
}

/// Reads the new kind and sequence options of an identity column.
fn changed_identity(changes: &[Node], source: &str) -> Result<AlterColumn> {
    let (kind, options): (Vec<Node>, Vec<Node>) = changes.iter().cloned().partition(
        |node| matches!(&node.node, Some(NodeEnum::DefElem(d)) if d.defname == "generated"),
    );
    let kind = kind.first().and_then(|node| match &node.node {
        // The letter comes as its character code.
        Some(NodeEnum::DefElem(d)) => string_of(d),
        _ => None,
    });
    let kind = kind.map(|code| match code.as_str() {
        "97" | "a" => Identity::Always,
        _ => Identity::ByDefault,
    });
    let options = Box::new(sequence_options(&options, source)?);
    Ok(AlterColumn::SetIdentity(kind, options))
}

/// Reads ADD CONSTRAINT.
fn new_constraint(k: &Constraint, source: &str) -> Result<AlterCommand> {
    if !k.indexname.is_empty() {
        return Ok(AlterCommand::AddConstraintUsingIndex {
            name: (!k.conname.is_empty()).then(|| k.conname.clone()),
            primary: k.contype == ConstrType::ConstrPrimary as i32,
            index: k.indexname.clone(),
            check_time: check_time(k.deferrable, k.initdeferred),
        });
    }
    match table_constraint(k, source)? {
        TableConstraint::Constraint(k) => Ok(AlterCommand::AddConstraint(k)),
        TableConstraint::Nothing => Ok(AlterCommand::Nothing),
    }
}

/// Reads RESET (…) of storage parameters.
fn reset_options(nodes: &[Node]) -> Result<AlterCommand> {
    let options = options(nodes);
    if options.iter().any(|(_, value)| value.is_some()) {
        let message = "RESET must not include values for parameters";
        return Err(SqlError::new("42601", message));
    }
    Ok(AlterCommand::ResetOptions(options.into_iter().map(|(n, _)| n).collect()))
}
