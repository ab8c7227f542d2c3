//! Conversion of syntax trees to [`Utility`] statements.

use niwaki_catalog::RelationKind;
use niwaki_env::stack::{self, Deep, TooDeep};
use niwaki_settings::settings::{is_buffer_usage_limit, parse_kilobytes};
use niwaki_types::{Datum, InputContext, TextSettings};
use pg_query::protobuf::{
    self, DefElem, DropBehavior, Node, ObjectType, RangeVar, TransactionStmt, TransactionStmtKind,
    VariableSetKind, VariableSetStmt, a_const,
};
use pg_query::{DeparseOptions, NodeEnum};

use super::function::{self, FunctionStatement};
use super::statement::{
    Drop, IndexCleanup, LockMode, Name, Rename, RenameTarget, SetCommand, TransactionCommand,
    TransactionModes, Utility, Vacuum, VacuumTarget,
};
use super::table::Persistence;
use super::trigger::{self, TriggerStatement};
use super::type_name::column_type;
use super::types::{self, TypeStatement};
use super::{
    create_as, cursor, database, domain, extension, read_copy, read_definition, read_table,
};
use crate::error::{Result, SqlError};
use crate::parse::{part, position_of};

/// Returns the utility statement of a syntax tree. Returns `None` for a query (SELECT, INSERT,
/// UPDATE, DELETE, MERGE, VALUES, EXPLAIN), which analysis and planning handle.
///
/// # Errors
/// 0A000 with the name of an unsupported feature; 42601 and 22023 for errors that need no catalog.
pub fn read(node: &Deep<NodeEnum>, source: &str) -> Result<Option<Utility>> {
    // The library may deparse parts of the tree to text, which takes stack.
    stack::of_thread(node.bytes(), || read_here(node, source))
}

fn read_here(node: &NodeEnum, source: &str) -> Result<Option<Utility>> {
    let utility = match node {
        NodeEnum::SelectStmt(s) => return create_as::select_into(s, source),
        NodeEnum::InsertStmt(_)
        | NodeEnum::UpdateStmt(_)
        | NodeEnum::DeleteStmt(_)
        | NodeEnum::MergeStmt(_) => return Ok(None),
        NodeEnum::ExplainStmt(s) => match executed(s.query.as_deref()) {
            Some(execute) => Utility::ExplainExecute {
                name: execute.name.clone(),
                parameters: execute.params.iter().map(expression_text).collect::<Result<_>>()?,
                explain: part(node, source),
            },
            None => return Ok(None),
        },
        NodeEnum::TransactionStmt(s) => Utility::Transaction(transaction(s)?),
        NodeEnum::VariableSetStmt(s) => Utility::Set(variable_set(s)?),
        NodeEnum::ConstraintsSetStmt(s) => {
            Utility::SetConstraints { names: names(&s.constraints, source)?, deferred: s.deferred }
        }
        NodeEnum::VariableShowStmt(s) => Utility::Show(s.name.clone()),
        NodeEnum::CreateStmt(s) => read_table::create_table(s, source)?,
        NodeEnum::CreateTableAsStmt(s) => create_as::create_table_as(s, source)?,
        NodeEnum::RefreshMatViewStmt(s) => Utility::Refresh {
            name: relation_name(s.relation.as_ref(), source)?,
            concurrently: s.concurrent,
            with_data: !s.skip_data,
        },
        NodeEnum::ViewStmt(s) => super::view::create_view(s, source)?,
        NodeEnum::AlterTableStmt(s) => read_table::alter_table(s, source)?,
        NodeEnum::ReindexStmt(s) => read_definition::reindex(s, source)?,
        NodeEnum::IndexStmt(s) => read_definition::create_index(s, source)?,
        NodeEnum::CreateSeqStmt(s) => read_definition::create_sequence(s, source)?,
        NodeEnum::AlterSeqStmt(s) => Utility::AlterSequence {
            name: relation_name(s.sequence.as_ref(), source)?,
            options: Box::new(read_definition::sequence_options(&s.options, source)?),
            if_exists: s.missing_ok,
        },
        NodeEnum::CreateSchemaStmt(s) => {
            if !s.schema_elts.is_empty() {
                return Err(SqlError::unsupported("CREATE SCHEMA with elements"));
            }
            if s.schemaname.is_empty() {
                return Err(SqlError::unsupported("CREATE SCHEMA AUTHORIZATION"));
            }
            Utility::CreateSchema { name: s.schemaname.clone(), if_not_exists: s.if_not_exists }
        }
        NodeEnum::CreatedbStmt(s) => database::create(s)?,
        NodeEnum::DropdbStmt(s) => database::drop(s),
        NodeEnum::AlterDatabaseStmt(s) => database::alter(s)?,
        NodeEnum::AlterDatabaseSetStmt(s) => database::set(s)?,
        NodeEnum::CreateEnumStmt(s) => types::create_enum(s)?,
        NodeEnum::CompositeTypeStmt(s) => types::create_composite(s, source)?,
        NodeEnum::AlterEnumStmt(s) => types::alter_enum(s)?,
        NodeEnum::CreateDomainStmt(s) => domain::create_domain(s, source)?,
        NodeEnum::AlterDomainStmt(s) => domain::alter_domain(s)?,
        NodeEnum::DropStmt(s)
            if s.remove_type == ObjectType::ObjectType as i32
                || s.remove_type == ObjectType::ObjectDomain as i32 =>
        {
            types::drop_types(s)?
        }
        NodeEnum::DropStmt(s) if function::is_function(s.remove_type)? => {
            function::drop_functions(s, source)?
        }
        NodeEnum::DropStmt(s) if s.remove_type == ObjectType::ObjectTrigger as i32 => {
            trigger::drop_trigger(s)?
        }
        NodeEnum::DropStmt(s) => drop_objects(s)?,
        NodeEnum::CreateFunctionStmt(s) => function::create_function(s)?,
        NodeEnum::AlterFunctionStmt(s) => function::alter_function(s, source)?,
        NodeEnum::CreateTrigStmt(s) => trigger::create_trigger(s, source)?,
        NodeEnum::RenameStmt(s) => rename(s, source)?,
        NodeEnum::TruncateStmt(s) => Utility::Truncate {
            names: names(&s.relations, source)?,
            restart_identity: s.restart_seqs,
            cascade: s.behavior == DropBehavior::DropCascade as i32,
        },
        NodeEnum::VacuumStmt(s) => Utility::Vacuum(vacuum(s, source)?),
        NodeEnum::CheckPointStmt(_) => Utility::Checkpoint,
        NodeEnum::CopyStmt(s) => Utility::Copy(Box::new(read_copy::copy(s, source)?)),
        NodeEnum::PrepareStmt(s) => Utility::Prepare {
            name: s.name.clone(),
            types: s
                .argtypes
                .iter()
                .map(|n| match n.node.as_ref() {
                    Some(NodeEnum::TypeName(t)) => read_table::named_type(t, source),
                    _ => Err(unexpected("PREPARE")),
                })
                .collect::<Result<_>>()?,
            query: part(boxed(s.query.as_deref(), "PREPARE")?, source),
        },
        NodeEnum::ExecuteStmt(s) => Utility::Execute {
            name: s.name.clone(),
            parameters: s.params.iter().map(expression_text).collect::<Result<_>>()?,
        },
        NodeEnum::DeallocateStmt(s) => {
            Utility::Deallocate((!s.isall && !s.name.is_empty()).then(|| s.name.clone()))
        }
        NodeEnum::DiscardStmt(s) => Utility::Discard(match s.target {
            t if t == protobuf::DiscardMode::DiscardAll as i32 => "DISCARD ALL",
            t if t == protobuf::DiscardMode::DiscardPlans as i32 => "DISCARD PLANS",
            t if t == protobuf::DiscardMode::DiscardSequences as i32 => "DISCARD SEQUENCES",
            _ => "DISCARD TEMP",
        }),
        NodeEnum::LockStmt(s) => Utility::Lock {
            names: names(&s.relations, source)?,
            mode: match s.mode {
                1 => LockMode::AccessShare,
                2 => LockMode::RowShare,
                3 => LockMode::RowExclusive,
                4 => LockMode::ShareUpdateExclusive,
                5 => LockMode::Share,
                6 => LockMode::ShareRowExclusive,
                7 => LockMode::Exclusive,
                _ => LockMode::AccessExclusive,
            },
            nowait: s.nowait,
        },
        NodeEnum::DeclareCursorStmt(s) => cursor::declare(s, source)?,
        NodeEnum::FetchStmt(s) => cursor::fetch(s)?,
        NodeEnum::ClosePortalStmt(s) => {
            Utility::CloseCursor((!s.portalname.is_empty()).then(|| s.portalname.clone()))
        }
        NodeEnum::CreateExtensionStmt(s) => extension::create(s)?,
        NodeEnum::CommentStmt(s) => super::comment::comment(s, source)?,
        NodeEnum::AlterObjectSchemaStmt(s) => set_schema(s, source)?,
        NodeEnum::AlterOwnerStmt(s) => owner(s, source)?,
        NodeEnum::ListenStmt(s) => Utility::Listen(s.conditionname.clone()),
        NodeEnum::UnlistenStmt(s) => {
            Utility::Unlisten((!s.conditionname.is_empty()).then(|| s.conditionname.clone()))
        }
        NodeEnum::NotifyStmt(s) => {
            Utility::Notify { channel: s.conditionname.clone(), payload: s.payload.clone() }
        }
        NodeEnum::GrantStmt(_) => return Err(SqlError::unsupported("GRANT or REVOKE")),
        other => return Err(SqlError::unsupported(statement_name(other))),
    };
    Ok(Some(utility))
}

/// Returns the EXECUTE of an EXPLAIN, directly or in CREATE TABLE AS.
fn executed(query: Option<&Node>) -> Option<&protobuf::ExecuteStmt> {
    match query?.node.as_ref()? {
        NodeEnum::ExecuteStmt(execute) => Some(execute),
        NodeEnum::CreateTableAsStmt(create) => executed(create.query.as_deref()),
        _ => None,
    }
}

fn transaction(s: &TransactionStmt) -> Result<TransactionCommand> {
    use TransactionStmtKind as K;
    let kind = K::try_from(s.kind).unwrap_or(K::Undefined);
    Ok(match kind {
        K::TransStmtBegin => TransactionCommand::Begin { modes: modes(&s.options)?, start: false },
        K::TransStmtStart => TransactionCommand::Begin { modes: modes(&s.options)?, start: true },
        K::TransStmtCommit => TransactionCommand::Commit { chain: s.chain },
        K::TransStmtRollback => TransactionCommand::Rollback { chain: s.chain },
        K::TransStmtSavepoint => TransactionCommand::Savepoint(s.savepoint_name.clone()),
        K::TransStmtRelease => TransactionCommand::Release(s.savepoint_name.clone()),
        K::TransStmtRollbackTo => TransactionCommand::RollbackTo(s.savepoint_name.clone()),
        K::TransStmtPrepare | K::TransStmtCommitPrepared | K::TransStmtRollbackPrepared => {
            return Err(SqlError::unsupported("PREPARE TRANSACTION"));
        }
        K::Undefined => return Err(unexpected("transaction command")),
    })
}

/// Options of BEGIN and SET TRANSACTION.
fn modes(options: &[Node]) -> Result<TransactionModes> {
    let mut modes = TransactionModes::default();
    for element in elements(options) {
        match element.defname.as_str() {
            "transaction_isolation" => {
                modes.repeatable_read = Some(match string_of(element).as_deref() {
                    Some("read committed" | "read uncommitted") => false,
                    Some("repeatable read") => true,
                    _ => return Err(SqlError::unsupported("isolation level SERIALIZABLE")),
                });
            }
            "transaction_read_only" => modes.read_only = Some(int_of(element) != Some(0)),
            "transaction_deferrable" => modes.deferrable = Some(int_of(element) != Some(0)),
            other => return Err(SqlError::unsupported(format!("transaction mode {other}"))),
        }
    }
    Ok(modes)
}

pub(super) fn variable_set(s: &VariableSetStmt) -> Result<SetCommand> {
    use VariableSetKind as K;
    let name = s.name.clone();
    let local = s.is_local;
    Ok(match K::try_from(s.kind).unwrap_or(K::Undefined) {
        K::VarSetValue => {
            // SET TIME ZONE LOCAL and DEFAULT arrive as VarSetDefault.
            let values = s.args.iter().map(set_argument).collect::<Result<Vec<_>>>()?;
            let list = matches!(name.as_str(), "search_path" | "datestyle" | "temp_tablespaces");
            let value = if list {
                values
                    .iter()
                    .map(|(v, _)| niwaki_settings::settings::quote_list_item(v, &name))
                    .collect::<Vec<_>>()
                    .join(", ")
            } else {
                match values.as_slice() {
                    [(one, _)] => one.clone(),
                    _ => {
                        return Err(SqlError::new(
                            "22023",
                            format!("SET {name} takes only one argument"),
                        ));
                    }
                }
            };
            SetCommand::Value { name, value, local }
        }
        K::VarSetDefault => SetCommand::Default { name, local, reset: false },
        K::VarReset => SetCommand::Default { name, local, reset: true },
        K::VarResetAll => SetCommand::ResetAll,
        K::VarSetMulti => match name.as_str() {
            "TRANSACTION" => SetCommand::Transaction { modes: modes(&s.args)?, session: false },
            "SESSION CHARACTERISTICS" => {
                SetCommand::Transaction { modes: modes(&s.args)?, session: true }
            }
            other => return Err(SqlError::unsupported(format!("SET {other}"))),
        },
        K::VarSetCurrent => return Err(SqlError::unsupported("SET … FROM CURRENT")),
        K::Undefined => return Err(unexpected("SET")),
    })
}

/// Returns the text of a SET value, and whether it was quoted.
fn set_argument(node: &Node) -> Result<(String, bool)> {
    match node.node.as_ref() {
        Some(NodeEnum::AConst(c)) => Ok(match &c.val {
            Some(a_const::Val::Ival(v)) => (v.ival.to_string(), false),
            Some(a_const::Val::Fval(v)) => (v.fval.clone(), false),
            Some(a_const::Val::Boolval(v)) => (v.boolval.to_string(), false),
            Some(a_const::Val::Sval(v)) => (v.sval.clone(), true),
            // Zero arrives as an integer without a value.
            None if !c.isnull => ("0".to_owned(), false),
            _ => return Err(unexpected("SET")),
        }),
        Some(NodeEnum::TypeCast(cast)) => Ok((zone_of_interval(cast)?, true)),
        _ => Err(unexpected("SET")),
    }
}

/// Reads `SET TIME ZONE INTERVAL '-08:00' HOUR TO MINUTE`; returns the hours east of Greenwich,
/// which name a time zone.
fn zone_of_interval(cast: &protobuf::TypeCast) -> Result<String> {
    let literal = cast.arg.as_ref().and_then(|arg| match arg.node.as_ref()? {
        NodeEnum::AConst(constant) => match constant.val.as_ref()? {
            a_const::Val::Sval(text) => Some(text.sval.as_str()),
            _ => None,
        },
        _ => None,
    });
    let (Some(text), Some(name)) = (literal, cast.type_name.as_ref()) else {
        return Err(unexpected("SET TIME ZONE INTERVAL"));
    };
    let kind = column_type(name, "")?;
    let settings = TextSettings::default();
    let context = InputContext { settings: &settings, now: 0 };
    let Datum::Interval(interval) = niwaki_types::input(kind, text, &context)? else {
        return Err(unexpected("SET TIME ZONE INTERVAL"));
    };
    let part = match (interval.months, interval.days) {
        (0, 0) => return Ok((interval.micros as f64 / 3.6e9).to_string()),
        (0, _) => "days",
        _ => "months",
    };
    let message = format!("invalid value for parameter \"TimeZone\": \"INTERVAL '{text}'\"");
    let detail = format!("Cannot specify {part} in time zone interval.");
    Err(SqlError::new("22023", message).with_detail(detail))
}

fn drop_objects(s: &protobuf::DropStmt) -> Result<Utility> {
    let kind = match ObjectType::try_from(s.remove_type).unwrap_or(ObjectType::Undefined) {
        ObjectType::ObjectTable => Some(RelationKind::Table),
        ObjectType::ObjectIndex => Some(RelationKind::Index),
        ObjectType::ObjectSequence => Some(RelationKind::Sequence),
        ObjectType::ObjectView => Some(RelationKind::View),
        ObjectType::ObjectMatview => Some(RelationKind::MaterializedView),
        ObjectType::ObjectSchema => None,
        ObjectType::ObjectExtension => return extension::drop(s),
        other => {
            let word = other.as_str_name().trim_start_matches("OBJECT_").to_owned();
            return Err(SqlError::unsupported(format!("DROP {word}")));
        }
    };
    let names = s
        .objects
        .iter()
        .map(|n| match n.node.as_ref() {
            Some(NodeEnum::List(l)) => qualified(&strings(&l.items)),
            Some(NodeEnum::String(v)) => Ok(Name { name: v.sval.clone(), ..Name::default() }),
            _ => Err(unexpected("DROP")),
        })
        .collect::<Result<_>>()?;
    Ok(Utility::Drop(Drop {
        kind,
        names,
        if_exists: s.missing_ok,
        cascade: s.behavior == DropBehavior::DropCascade as i32,
        concurrently: s.concurrent,
    }))
}

fn set_schema(s: &protobuf::AlterObjectSchemaStmt, source: &str) -> Result<Utility> {
    let schema = s.newschema.clone();
    if let Some((name, domain)) = types::type_of_statement(s.object_type, s.object.as_deref())? {
        return Ok(Utility::Type(TypeStatement::SetSchema { name, schema, domain }));
    }
    if function::is_function(s.object_type)? {
        let function = function::function_in(s.object.as_deref(), source)?;
        return Ok(Utility::Function(FunctionStatement::SetSchema { function, schema }));
    }
    Ok(Utility::SetSchema {
        relation: relation_name(s.relation.as_ref(), source)?,
        kind: kind_of(s.object_type, "SET SCHEMA of")?,
        schema,
        if_exists: s.missing_ok,
    })
}

fn owner(s: &protobuf::AlterOwnerStmt, source: &str) -> Result<Utility> {
    if let Some((name, domain)) = types::type_of_statement(s.object_type, s.object.as_deref())? {
        let role = role_name(s.newowner.as_ref())?;
        return Ok(Utility::Type(TypeStatement::Owner { name, role, domain }));
    }
    if function::is_function(s.object_type)? {
        let function = function::function_in(s.object.as_deref(), source)?;
        let role = role_name(s.newowner.as_ref())?;
        return Ok(Utility::Function(FunctionStatement::Owner { function, role }));
    }
    if s.object_type == ObjectType::ObjectDatabase as i32 {
        return database::owner(s);
    }
    let object = s.object.as_deref().and_then(|node| node.node.as_ref());
    match (ObjectType::try_from(s.object_type), object) {
        (Ok(ObjectType::ObjectSchema), Some(NodeEnum::String(name))) => {
            let role = role_name(s.newowner.as_ref())?;
            Ok(Utility::SchemaOwner { name: name.sval.clone(), role })
        }
        (Ok(other), _) => {
            let word = other.as_str_name().trim_start_matches("OBJECT_").to_owned();
            Err(SqlError::unsupported(format!("OWNER TO of {word}")))
        }
        (Err(_), _) => Err(unexpected("OWNER TO")),
    }
}

/// Returns the role that a statement names. CURRENT_USER and similar have no name, and mean the
/// only role.
pub(super) fn role_name(role: Option<&protobuf::RoleSpec>) -> Result<String> {
    let role = role.ok_or_else(|| unexpected("OWNER TO"))?;
    let name = if role.rolename.is_empty() { "postgres" } else { &role.rolename };
    Ok(name.to_owned())
}

/// Returns the kind of relation that a statement names. `what` begins the message for other kinds.
fn kind_of(object: i32, what: &str) -> Result<RelationKind> {
    match ObjectType::try_from(object) {
        Ok(ObjectType::ObjectTable) => Ok(RelationKind::Table),
        Ok(ObjectType::ObjectIndex) => Ok(RelationKind::Index),
        Ok(ObjectType::ObjectSequence) => Ok(RelationKind::Sequence),
        Ok(ObjectType::ObjectView) => Ok(RelationKind::View),
        Ok(ObjectType::ObjectMatview) => Ok(RelationKind::MaterializedView),
        Ok(other) => {
            let word = other.as_str_name().trim_start_matches("OBJECT_").to_owned();
            Err(SqlError::unsupported(format!("{what} {word}")))
        }
        Err(_) => Err(unexpected(what)),
    }
}

fn rename(s: &protobuf::RenameStmt, source: &str) -> Result<Utility> {
    if s.rename_type == ObjectType::ObjectSchema as i32 {
        return Ok(Utility::RenameSchema { name: s.subname.clone(), to: s.newname.clone() });
    }
    if s.rename_type == ObjectType::ObjectDatabase as i32 {
        return Ok(database::rename(s));
    }
    if let Some((name, domain)) = types::type_of_statement(s.rename_type, s.object.as_deref())? {
        let to = s.newname.clone();
        return Ok(Utility::Type(TypeStatement::Rename { name, to, domain }));
    }
    if s.rename_type == ObjectType::ObjectAttribute as i32 {
        return Err(SqlError::unsupported("RENAME ATTRIBUTE"));
    }
    if function::is_function(s.rename_type)? {
        let function = function::function_in(s.object.as_deref(), source)?;
        let to = s.newname.clone();
        return Ok(Utility::Function(FunctionStatement::Rename { function, to }));
    }
    if s.rename_type == ObjectType::ObjectTrigger as i32 {
        let table = relation_name(s.relation.as_ref(), source)?;
        let (name, to) = (s.subname.clone(), s.newname.clone());
        return Ok(Utility::Trigger(TriggerStatement::Rename { table, name, to }));
    }
    if s.rename_type == ObjectType::ObjectDomconstraint as i32
        && let Some(NodeEnum::List(list)) = s.object.as_ref().and_then(|node| node.node.as_ref())
    {
        return domain::rename_constraint(&list.items, &s.subname, &s.newname);
    }
    let kind_of = |object: i32| kind_of(object, "RENAME of");
    let (kind, target) = match ObjectType::try_from(s.rename_type) {
        Ok(ObjectType::ObjectColumn) => {
            (kind_of(s.relation_type)?, RenameTarget::Column(s.subname.clone()))
        }
        Ok(ObjectType::ObjectTabconstraint) => {
            (RelationKind::Table, RenameTarget::Constraint(s.subname.clone()))
        }
        _ => (kind_of(s.rename_type)?, RenameTarget::Relation),
    };
    Ok(Utility::Rename(Rename {
        relation: relation_name(s.relation.as_ref(), source)?,
        kind,
        target,
        to: s.newname.clone(),
        if_exists: s.missing_ok,
    }))
}

fn vacuum(s: &protobuf::VacuumStmt, source: &str) -> Result<Vacuum> {
    let mut vacuum = Vacuum {
        vacuum: s.is_vacuumcmd,
        analyze: !s.is_vacuumcmd,
        process_main: true,
        process_large_values: true,
        ..Vacuum::default()
    };
    for element in elements(&s.options) {
        let on = || switch_of(element);
        // ANALYZE has only three of these options.
        let known = s.is_vacuumcmd
            || matches!(&*element.defname, "verbose" | "skip_locked" | "buffer_usage_limit");
        match element.defname.as_str() {
            "verbose" if known => vacuum.verbose = on()?,
            "skip_locked" if known => vacuum.skip_locked = on()?,
            "buffer_usage_limit" if known => {
                vacuum.buffer_usage_limit =
                    Some(buffer_usage_limit(string_of(element).as_deref())?);
            }
            "analyze" if known => vacuum.analyze = on()?,
            "freeze" if known => vacuum.freeze = on()?,
            "truncate" if known => vacuum.truncate = Some(on()?),
            "disable_page_skipping" if known => vacuum.disable_page_skipping = on()?,
            "process_main" if known => vacuum.process_main = on()?,
            "process_toast" if known => vacuum.process_large_values = on()?,
            "parallel" if known => vacuum.parallel = Some(parallel(element, source)?),
            "index_cleanup" if known => {
                let text = string_of(element).unwrap_or_default();
                vacuum.index_cleanup = Some(match text.eq_ignore_ascii_case("auto") {
                    true => IndexCleanup::Auto,
                    false if on()? => IndexCleanup::On,
                    false => IndexCleanup::Off,
                });
            }
            "full" if known && on()? => return Err(SqlError::unsupported("VACUUM FULL")),
            "full" | "skip_database_stats" if known => {}
            "only_database_stats" if known => {
                return Err(SqlError::unsupported("ONLY_DATABASE_STATS"));
            }
            other => {
                let word = if s.is_vacuumcmd { "VACUUM" } else { "ANALYZE" };
                return Err(SqlError::new(
                    "42601",
                    format!("unrecognized {word} option \"{other}\""),
                )
                .with_position(position_of(source, element.location)));
            }
        }
    }
    for node in &s.rels {
        if let Some(NodeEnum::VacuumRelation(r)) = node.node.as_ref() {
            vacuum.targets.push(VacuumTarget {
                name: relation_name(r.relation.as_ref(), source)?,
                columns: strings(&r.va_cols),
            });
        }
    }
    if vacuum.vacuum
        && !vacuum.analyze
        && vacuum.targets.iter().any(|target| !target.columns.is_empty())
    {
        return Err(SqlError::new(
            "0A000",
            "ANALYZE option must be specified when a column list is provided",
        ));
    }
    Ok(vacuum)
}

/// Reads the PARALLEL option of VACUUM.
fn parallel(element: &DefElem, source: &str) -> Result<i64> {
    const MOST: i64 = 1024;
    let refused = |message: String| SqlError::new("42601", message);
    let place = position_of(source, element.location);
    let Some(arg) = element.arg.as_deref() else {
        let message = format!("parallel option requires a value between 0 and {MOST}");
        return Err(refused(message).with_position(place));
    };
    // A quoted number is no integer, whatever it says.
    let number = match arg.node.as_ref() {
        Some(NodeEnum::Integer(number)) => i64::from(number.ival),
        _ => return Err(refused("parallel requires an integer value".to_owned())),
    };
    if !(0..=MOST).contains(&number) {
        let message = format!("parallel workers for vacuum must be between 0 and {MOST}");
        return Err(refused(message).with_position(place));
    }
    Ok(number)
}

/// Reads BUFFER_USAGE_LIMIT of VACUUM and ANALYZE, in kilobytes.
fn buffer_usage_limit(value: Option<&str>) -> Result<i64> {
    let Some(value) = value else {
        return Err(SqlError::new("42601", "buffer_usage_limit option requires a valid value"));
    };
    let kilobytes = parse_kilobytes(value).filter(|number| is_buffer_usage_limit(*number));
    kilobytes.ok_or_else(|| {
        SqlError::new(
            "22023",
            "BUFFER_USAGE_LIMIT option must be 0 or between 128 kB and 16777216 kB",
        )
    })
}

// Helpers for the readers of this module.

pub(super) fn unexpected(what: &str) -> SqlError {
    SqlError::unsupported(format!("this form of {what}"))
}

pub(super) fn boxed<'a>(node: Option<&'a Node>, what: &str) -> Result<&'a NodeEnum> {
    node.and_then(|n| n.node.as_ref()).ok_or_else(|| unexpected(what))
}

/// Returns the SQL text of an expression, as stored for defaults and checks.
///
/// # Errors
/// XX000 if the library cannot deparse what it parsed.
pub fn expression_text(node: &Node) -> Result<String> {
    let select = protobuf::SelectStmt {
        target_list: vec![Node {
            node: Some(NodeEnum::ResTarget(Box::new(protobuf::ResTarget {
                val: Some(Box::new(node.clone())),
                ..protobuf::ResTarget::default()
            }))),
        }],
        limit_option: protobuf::LimitOption::Default as i32,
        op: protobuf::SetOperation::SetopNone as i32,
        ..protobuf::SelectStmt::default()
    };
    let text = NodeEnum::SelectStmt(Box::new(select))
        .deparse(DeparseOptions::default())
        .map_err(|error| unwritten("an expression", &error))?;
    Ok(text.strip_prefix("SELECT ").unwrap_or(&text).to_owned())
}

/// Returns the SQL text of a query, as stored for views.
///
/// # Errors
/// XX000 if the library cannot deparse what it parsed.
pub fn query_text(select: &protobuf::SelectStmt) -> Result<String> {
    NodeEnum::SelectStmt(Box::new(select.clone()))
        .deparse(DeparseOptions::default())
        .map_err(|error| unwritten("a query", &error))
}

fn unwritten(what: &str, error: &pg_query::Error) -> SqlError {
    let error = error.to_string();
    if error.contains("stack depth limit") || error.contains("protobuf") {
        return SqlError::from(TooDeep);
    }
    SqlError::internal(format!("could not write {what}: {error}"))
}

pub(super) fn relation_name(relation: Option<&RangeVar>, source: &str) -> Result<Name> {
    let r = relation.ok_or_else(|| unexpected("statement without a relation"))?;
    Ok(Name {
        database: (!r.catalogname.is_empty()).then(|| r.catalogname.clone()),
        schema: (!r.schemaname.is_empty()).then(|| r.schemaname.clone()),
        name: r.relname.clone(),
        position: position_of(source, r.location),
        only: !r.inh,
    })
}

/// Returns the persistence given before TABLE or SEQUENCE, or by the schema name.
pub(super) fn persistence(relation: Option<&RangeVar>) -> Persistence {
    match relation.map(|r| (r.relpersistence.as_str(), r.schemaname.as_str())) {
        Some(("u", _)) => Persistence::Unlogged,
        Some(("t", _) | (_, "pg_temp")) => Persistence::Temporary,
        _ => Persistence::Permanent,
    }
}

fn names(nodes: &[Node], source: &str) -> Result<Vec<Name>> {
    nodes
        .iter()
        .map(|n| match n.node.as_ref() {
            Some(NodeEnum::RangeVar(r)) => relation_name(Some(r), source),
            _ => Err(unexpected("list of tables")),
        })
        .collect()
}

pub(super) fn qualified(parts: &[String]) -> Result<Name> {
    match parts {
        [name] => Ok(Name { name: name.clone(), ..Name::default() }),
        [schema, name] => {
            Ok(Name { schema: Some(schema.clone()), name: name.clone(), ..Name::default() })
        }
        [database, schema, name] => Ok(Name {
            database: Some(database.clone()),
            schema: Some(schema.clone()),
            name: name.clone(),
            ..Name::default()
        }),
        _ => Err(unexpected("qualified name")),
    }
}

pub(super) fn strings(nodes: &[Node]) -> Vec<String> {
    nodes
        .iter()
        .filter_map(|n| match n.node.as_ref() {
            Some(NodeEnum::String(s)) => Some(s.sval.clone()),
            _ => None,
        })
        .collect()
}

pub(super) fn elements(nodes: &[Node]) -> impl Iterator<Item = &DefElem> {
    nodes.iter().filter_map(|n| match n.node.as_ref() {
        Some(NodeEnum::DefElem(d)) => Some(&**d),
        _ => None,
    })
}

/// Returns the text of an option's value, whatever its form; `None` if there is no value.
pub(super) fn string_of(element: &DefElem) -> Option<String> {
    match element.arg.as_deref()?.node.as_ref()? {
        NodeEnum::String(s) => Some(s.sval.clone()),
        NodeEnum::Integer(i) => Some(i.ival.to_string()),
        NodeEnum::Float(f) => Some(f.fval.clone()),
        NodeEnum::Boolean(b) => Some(b.boolval.to_string()),
        NodeEnum::TypeName(t) => Some(strings(&t.names).pop()?),
        NodeEnum::AConst(c) => match &c.val {
            Some(a_const::Val::Ival(v)) => Some(v.ival.to_string()),
            Some(a_const::Val::Fval(v)) => Some(v.fval.clone()),
            Some(a_const::Val::Sval(v)) => Some(v.sval.clone()),
            Some(a_const::Val::Boolval(v)) => Some(v.boolval.to_string()),
            None if !c.isnull => Some("0".to_owned()),
            _ => None,
        },
        _ => None,
    }
}

pub(super) fn int_of(element: &DefElem) -> Option<i64> {
    string_of(element)?.parse().ok()
}

/// Reads a Boolean option, which is on without a value. It accepts fewer words than settings do.
pub(super) fn switch_of(element: &DefElem) -> Result<bool> {
    let Some(text) = string_of(element) else { return Ok(true) };
    match text.to_ascii_lowercase().as_str() {
        "on" | "true" | "1" => Ok(true),
        "off" | "false" | "0" => Ok(false),
        _ => {
            let message = format!("{} requires a Boolean value", element.defname);
            Err(SqlError::new("42601", message))
        }
    }
}

/// Returns the WITH options as written; options of a namespace (`toast.…`) have its name as a
/// prefix.
pub(super) fn options(nodes: &[Node]) -> Vec<(String, Option<String>)> {
    let name = |e: &DefElem| match e.defnamespace.as_str() {
        "" => e.defname.clone(),
        namespace => format!("{namespace}.{}", e.defname),
    };
    elements(nodes).map(|e| (name(e), string_of(e))).collect()
}

/// Returns the name of an unsupported statement for its error.
fn statement_name(node: &NodeEnum) -> String {
    let debug = format!("{node:?}");
    let word = debug.split(['(', ' ', '{']).next().unwrap_or("statement");
    let word = word.strip_suffix("Stmt").unwrap_or(word);
    let mut name = String::new();
    for c in word.chars() {
        if c.is_ascii_uppercase() && !name.is_empty() {
            name.push(' ');
        }
        name.push(c.to_ascii_uppercase());
    }
    format!("statement {name}")
}
