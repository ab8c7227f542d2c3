//! Conversion of syntax trees to [`Utility`] statements.

use niwaki_catalog::RelationKind;
use niwaki_env::stack;
use niwaki_settings::settings::{is_buffer_usage_limit, parse_kilobytes};
use niwaki_txn::TableLockMode;
use niwaki_vacuum::IndexCleanup;
use pg_query::NodeEnum;
use pg_query::protobuf::{
    self, DefElem, DropBehavior, Node, ObjectType, TransactionStmt, TransactionStmtKind,
};

use super::nodes::{
    boxed, elements, expression_text, names, qualified, relation_name, role_name, string_of,
    strings, switch_of, unexpected,
};
use super::setting::{modes, variable_set};
use super::{
    copy, create_as, cursor, database, definition, domain, extension, function, table, trigger,
    user_type,
};
use crate::error::{Result, SqlError};
use crate::parse::{part, position_of};
use crate::tree::SyntaxTree;
use crate::utility::command_name::{command_name, object_words};
use crate::utility::statement::{
    Drop, FunctionStatement, Name, Rename, RenameTarget, TransactionCommand, TriggerStatement,
    TypeStatement, Utility, Vacuum, VacuumTarget,
};

/// Returns the utility statement of a syntax tree. Returns `None` for a query (SELECT, INSERT,
/// UPDATE, DELETE, MERGE, VALUES, EXPLAIN), which analysis and planning handle.
///
/// # Errors
/// 0A000 with the name of an unsupported feature; 42601 and 22023 for errors that need no catalog.
pub fn read(node: &SyntaxTree, source: &str) -> Result<Option<Utility>> {
    // The library may deparse parts of the tree to text, which takes stack.
    stack::of_thread(node.bytes(), || read_here(node, source))
}

#[expect(clippy::too_many_lines, reason = "one flat match over the kinds of statements")]
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
        NodeEnum::CreateStmt(s) => table::create_table(s, source)?,
        NodeEnum::CreateTableAsStmt(s) => create_as::create_table_as(s, source)?,
        NodeEnum::RefreshMatViewStmt(s) => Utility::Refresh {
            name: relation_name(s.relation.as_ref(), source)?,
            concurrently: s.concurrent,
            with_data: !s.skip_data,
        },
        NodeEnum::ViewStmt(s) => super::view::create_view(s, source)?,
        NodeEnum::AlterTableStmt(s) => table::alter_table(s, source)?,
        NodeEnum::ReindexStmt(s) => definition::reindex(s, source)?,
        NodeEnum::IndexStmt(s) => definition::create_index(s, source)?,
        NodeEnum::CreateSeqStmt(s) => definition::create_sequence(s, source)?,
        NodeEnum::AlterSeqStmt(s) => Utility::AlterSequence {
            name: relation_name(s.sequence.as_ref(), source)?,
            options: Box::new(definition::sequence_options(&s.options, source)?),
            if_exists: s.missing_ok,
        },
        NodeEnum::CreateSchemaStmt(s) => create_schema(s)?,
        NodeEnum::CreatedbStmt(s) => database::create(s)?,
        NodeEnum::DropdbStmt(s) => database::drop(s),
        NodeEnum::AlterDatabaseStmt(s) => database::alter(s)?,
        NodeEnum::AlterDatabaseSetStmt(s) => database::set(s)?,
        NodeEnum::CreateEnumStmt(s) => user_type::create_enum(s)?,
        NodeEnum::CompositeTypeStmt(s) => user_type::create_composite(s, source)?,
        NodeEnum::AlterEnumStmt(s) => user_type::alter_enum(s)?,
        NodeEnum::CreateDomainStmt(s) => domain::create_domain(s, source)?,
        NodeEnum::AlterDomainStmt(s) => domain::alter_domain(s)?,
        NodeEnum::DropStmt(s)
            if s.remove_type == ObjectType::ObjectType as i32
                || s.remove_type == ObjectType::ObjectDomain as i32 =>
        {
            user_type::drop_types(s)?
        }
        NodeEnum::DropStmt(s) if function::is_function(s.remove_type) => {
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
        NodeEnum::CopyStmt(s) => Utility::Copy(Box::new(copy::copy(s, source)?)),
        NodeEnum::PrepareStmt(s) => prepare(s, source)?,
        NodeEnum::ExecuteStmt(s) => Utility::Execute {
            name: s.name.clone(),
            parameters: s.params.iter().map(expression_text).collect::<Result<_>>()?,
        },
        NodeEnum::DeallocateStmt(s) => {
            Utility::Deallocate((!s.isall && !s.name.is_empty()).then(|| s.name.clone()))
        }
        NodeEnum::DiscardStmt(s) => Utility::Discard(discard_tag(s.target)),
        NodeEnum::LockStmt(s) => Utility::Lock {
            names: names(&s.relations, source)?,
            mode: lock_mode(s.mode),
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
        NodeEnum::AlterTableMoveAllStmt(s) => definition::move_all(s)?,
        other => return Err(SqlError::unsupported(command_name(other))),
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

fn create_schema(s: &protobuf::CreateSchemaStmt) -> Result<Utility> {
    if !s.schema_elts.is_empty() {
        return Err(SqlError::unsupported("CREATE SCHEMA with elements"));
    }
    if s.schemaname.is_empty() {
        return Err(SqlError::unsupported("CREATE SCHEMA AUTHORIZATION"));
    }
    Ok(Utility::CreateSchema { name: s.schemaname.clone(), if_not_exists: s.if_not_exists })
}

fn prepare(s: &protobuf::PrepareStmt, source: &str) -> Result<Utility> {
    let kind = |n: &Node| match n.node.as_ref() {
        Some(NodeEnum::TypeName(t)) => table::named_type(t, source),
        _ => Err(unexpected("PREPARE")),
    };
    Ok(Utility::Prepare {
        name: s.name.clone(),
        types: s.argtypes.iter().map(kind).collect::<Result<_>>()?,
        query: part(boxed(s.query.as_deref(), "PREPARE")?, source),
    })
}

/// Returns the command tag of a DISCARD, by the number of its target.
fn discard_tag(target: i32) -> &'static str {
    match target {
        t if t == protobuf::DiscardMode::DiscardAll as i32 => "DISCARD ALL",
        t if t == protobuf::DiscardMode::DiscardPlans as i32 => "DISCARD PLANS",
        t if t == protobuf::DiscardMode::DiscardSequences as i32 => "DISCARD SEQUENCES",
        _ => "DISCARD TEMP",
    }
}

/// Returns the mode of a LOCK, by its number in the syntax tree.
fn lock_mode(number: i32) -> TableLockMode {
    match number {
        1 => TableLockMode::AccessShare,
        2 => TableLockMode::RowShare,
        3 => TableLockMode::RowExclusive,
        4 => TableLockMode::ShareUpdateExclusive,
        5 => TableLockMode::Share,
        6 => TableLockMode::ShareRowExclusive,
        7 => TableLockMode::Exclusive,
        _ => TableLockMode::AccessExclusive,
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
        K::TransStmtPrepare => return Err(SqlError::unsupported("PREPARE TRANSACTION")),
        K::TransStmtCommitPrepared => return Err(SqlError::unsupported("COMMIT PREPARED")),
        K::TransStmtRollbackPrepared => return Err(SqlError::unsupported("ROLLBACK PREPARED")),
        K::Undefined => return Err(unexpected("transaction command")),
    })
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
        _ => {
            let words = object_words(s.remove_type);
            return Err(SqlError::unsupported(format!("DROP {words}")));
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
    if let Some((name, domain)) = user_type::type_of_statement(s.object_type, s.object.as_deref())?
    {
        return Ok(Utility::Type(TypeStatement::SetSchema { name, schema, domain }));
    }
    if function::is_function(s.object_type) {
        let function = function::function_in(s.object.as_deref(), source)?;
        return Ok(Utility::Function(FunctionStatement::SetSchema { function, schema }));
    }
    Ok(Utility::SetSchema {
        kind: kind_of(s.object_type, "SET SCHEMA")?,
        relation: relation_name(s.relation.as_ref(), source)?,
        schema,
        if_exists: s.missing_ok,
    })
}

fn owner(s: &protobuf::AlterOwnerStmt, source: &str) -> Result<Utility> {
    if let Some((name, domain)) = user_type::type_of_statement(s.object_type, s.object.as_deref())?
    {
        let role = role_name(s.newowner.as_ref())?;
        return Ok(Utility::Type(TypeStatement::Owner { name, role, domain }));
    }
    if function::is_function(s.object_type) {
        let function = function::function_in(s.object.as_deref(), source)?;
        let role = role_name(s.newowner.as_ref())?;
        return Ok(Utility::Function(FunctionStatement::Owner { function, role }));
    }
    if s.object_type == ObjectType::ObjectDatabase as i32 {
        return database::owner(s);
    }
    let object = s.object.as_deref().and_then(|node| node.node.as_ref());
    let kind = ObjectType::try_from(s.object_type);
    let (Ok(ObjectType::ObjectSchema), Some(NodeEnum::String(name))) = (kind, object) else {
        let words = object_words(s.object_type);
        return Err(SqlError::unsupported(format!("ALTER {words} OWNER TO")));
    };
    let role = role_name(s.newowner.as_ref())?;
    Ok(Utility::SchemaOwner { name: name.sval.clone(), role })
}

/// Returns the kind of relation that an ALTER names. `what` is the action in the message for other
/// kinds.
fn kind_of(object: i32, what: &str) -> Result<RelationKind> {
    match ObjectType::try_from(object) {
        Ok(ObjectType::ObjectTable) => Ok(RelationKind::Table),
        Ok(ObjectType::ObjectIndex) => Ok(RelationKind::Index),
        Ok(ObjectType::ObjectSequence) => Ok(RelationKind::Sequence),
        Ok(ObjectType::ObjectView) => Ok(RelationKind::View),
        Ok(ObjectType::ObjectMatview) => Ok(RelationKind::MaterializedView),
        _ => {
            let words = object_words(object);
            Err(SqlError::unsupported(format!("ALTER {words} {what}")))
        }
    }
}

fn rename(s: &protobuf::RenameStmt, source: &str) -> Result<Utility> {
    if s.rename_type == ObjectType::ObjectSchema as i32 {
        return Ok(Utility::RenameSchema { name: s.subname.clone(), to: s.newname.clone() });
    }
    if s.rename_type == ObjectType::ObjectDatabase as i32 {
        return Ok(database::rename(s));
    }
    if let Some((name, domain)) = user_type::type_of_statement(s.rename_type, s.object.as_deref())?
    {
        let to = s.newname.clone();
        return Ok(Utility::Type(TypeStatement::Rename { name, to, domain }));
    }
    if s.rename_type == ObjectType::ObjectAttribute as i32 {
        return Err(SqlError::unsupported("ALTER TYPE RENAME ATTRIBUTE"));
    }
    if function::is_function(s.rename_type) {
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
    let kind_of = |object: i32| kind_of(object, "RENAME");
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

/// Reads `BUFFER_USAGE_LIMIT` of VACUUM and ANALYZE, in kilobytes.
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
