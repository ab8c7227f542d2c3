//! Statements on triggers: CREATE TRIGGER, DROP TRIGGER, ALTER TRIGGER.

use niwaki_catalog::{TriggerMode, TriggerTime};
use pg_query::protobuf::{self, AlterTableType, a_const};
use pg_query::{Node, NodeEnum};

use super::nodes::{expression_text, qualified, relation_name, strings, unexpected};
use crate::error::{Result, SqlError};
use crate::utility::statement::{CreateTrigger, Name, TriggerStatement, Utility, WhichTriggers};

/// PostgreSQL's bits for a trigger's time and events.
mod bits {
    pub(super) const BEFORE: i32 = 1 << 1;
    pub(super) const INSERT: i32 = 1 << 2;
    pub(super) const DELETE: i32 = 1 << 3;
    pub(super) const UPDATE: i32 = 1 << 4;
    pub(super) const TRUNCATE: i32 = 1 << 5;
    pub(super) const INSTEAD: i32 = 1 << 6;
}

pub(super) fn create_trigger(s: &protobuf::CreateTrigStmt, source: &str) -> Result<Utility> {
    let refused = |what: &str| Err(SqlError::unsupported(what));
    if s.isconstraint {
        return refused("CREATE CONSTRAINT TRIGGER");
    }
    if !s.transition_rels.is_empty() {
        return refused("REFERENCING of a trigger");
    }
    if !s.row {
        return refused("a trigger FOR EACH STATEMENT");
    }
    if s.events & bits::TRUNCATE != 0 {
        let message = "TRUNCATE FOR EACH ROW triggers are not supported";
        return Err(SqlError::new("0A000", message));
    }
    if s.timing == bits::INSTEAD {
        return refused("an INSTEAD OF trigger");
    }
    let time = if s.timing == bits::BEFORE { TriggerTime::Before } else { TriggerTime::After };
    Ok(Utility::Trigger(TriggerStatement::Create(Box::new(CreateTrigger {
        name: s.trigname.clone(),
        replace: s.replace,
        table: relation_name(s.relation.as_ref(), source)?,
        time,
        insert: s.events & bits::INSERT != 0,
        delete: s.events & bits::DELETE != 0,
        update: s.events & bits::UPDATE != 0,
        columns: strings(&s.columns),
        when: s.when_clause.as_deref().map(expression_text).transpose()?,
        function: qualified(&strings(&s.funcname))?,
        arguments: s.args.iter().map(argument).collect::<Result<_>>()?,
    }))))
}

/// Reads an argument, which is a text in any syntax.
fn argument(node: &Node) -> Result<String> {
    match node.node.as_ref() {
        Some(NodeEnum::String(text)) => Ok(text.sval.clone()),
        Some(NodeEnum::AConst(constant)) => match &constant.val {
            Some(a_const::Val::Sval(text)) => Ok(text.sval.clone()),
            Some(a_const::Val::Ival(number)) => Ok(number.ival.to_string()),
            Some(a_const::Val::Fval(number)) => Ok(number.fval.clone()),
            _ => Err(unexpected("argument of a trigger")),
        },
        _ => Err(unexpected("argument of a trigger")),
    }
}

pub(super) fn drop_trigger(s: &protobuf::DropStmt) -> Result<Utility> {
    // The grammar allows one trigger per statement.
    let [object] = s.objects.as_slice() else { return Err(unexpected("DROP TRIGGER")) };
    let (table, name) = trigger_of(Some(object))?;
    // No object depends on a trigger, so CASCADE has no effect.
    Ok(Utility::Trigger(TriggerStatement::Drop { table, name, if_exists: s.missing_ok }))
}

/// Returns the table and the trigger that a list of names means.
pub(super) fn trigger_of(node: Option<&Node>) -> Result<(Name, String)> {
    let Some(NodeEnum::List(list)) = node.and_then(|node| node.node.as_ref()) else {
        return Err(unexpected("statement on a trigger"));
    };
    let names = strings(&list.items);
    match names.split_last() {
        Some((name, table)) => Ok((qualified(table)?, name.clone())),
        None => Err(unexpected("statement on a trigger")),
    }
}

/// Reads ENABLE TRIGGER and DISABLE TRIGGER of ALTER TABLE.
pub(super) fn enabled(kind: AlterTableType, name: &str) -> Option<(WhichTriggers, TriggerMode)> {
    use AlterTableType as T;
    let mode = match kind {
        T::AtEnableTrig | T::AtEnableTrigAll | T::AtEnableTrigUser => TriggerMode::Origin,
        T::AtEnableAlwaysTrig => TriggerMode::Always,
        T::AtEnableReplicaTrig => TriggerMode::Replica,
        T::AtDisableTrig | T::AtDisableTrigAll | T::AtDisableTrigUser => TriggerMode::Disabled,
        _ => return None,
    };
    let which = match kind {
        T::AtEnableTrigAll | T::AtDisableTrigAll => WhichTriggers::All,
        T::AtEnableTrigUser | T::AtDisableTrigUser => WhichTriggers::User,
        _ => WhichTriggers::Named(name.to_owned()),
    };
    Some((which, mode))
}
