//! CREATE TRIGGER, ALTER TRIGGER, DROP TRIGGER, and ENABLE or DISABLE TRIGGER.

use niwaki_catalog::{
    Oid, PG_CATALOG, Relation, RelationKind, Trigger, TriggerMode, builtin_functions,
};
use niwaki_sql::utility::{CreateTrigger, Name, TriggerStatement, WhichTriggers};
use niwaki_sql::{Result, SUPPRESS_REDUNDANT, SqlError, check_trigger, condition_columns};
use niwaki_txn::TableLockMode;

use crate::definer::{Definer, refuse_system};
use crate::object::Object;

impl Definer<'_> {
    pub(crate) fn trigger_statement(
        &mut self,
        statement: &TriggerStatement,
    ) -> Result<&'static str> {
        match statement {
            TriggerStatement::Create(spec) => self.create_trigger(spec)?,
            TriggerStatement::Drop { table, name, if_exists } => {
                self.drop_trigger(table, name, *if_exists)?;
            }
            TriggerStatement::Rename { table, name, to } => self.rename_trigger(table, name, to)?,
        }
        Ok(statement.tag())
    }

    fn create_trigger(&mut self, spec: &CreateTrigger) -> Result<()> {
        let table = self.session.lock_by_name(&spec.table, TableLockMode::ShareRowExclusive)?;
        refuse_system(&table)?;
        refuse_no_table(&table)?;
        let mut columns = Vec::with_capacity(spec.columns.len());
        for name in &spec.columns {
            let position = table.column_position(name).ok_or_else(|| {
                let message =
                    format!("column \"{name}\" of relation \"{}\" does not exist", table.name);
                SqlError::new("42703", message)
            })?;
            let position = u16::try_from(position).map_err(|_| SqlError::internal("column"))?;
            if columns.contains(&position) {
                let message = format!("column \"{name}\" specified more than once");
                return Err(SqlError::new("42701", message));
            }
            columns.push(position);
        }
        let function = self.lock_trigger_function(&spec.function)?;
        let old = table.trigger(&spec.name);
        if old.is_some_and(|old| old.part_of.is_some()) {
            let message = format!(
                "trigger \"{}\" for relation \"{}\" is an internal or a child trigger",
                spec.name, table.name
            );
            return Err(SqlError::new("42710", message));
        }
        if old.is_some() && !spec.replace {
            let message =
                format!("trigger \"{}\" for relation \"{}\" already exists", spec.name, table.name);
            return Err(SqlError::new("42710", message));
        }
        let mut trigger = Trigger {
            oid: old.map_or_else(|| self.session.new_oid(), |old| old.oid),
            name: spec.name.clone(),
            function,
            time: spec.time,
            insert: spec.insert,
            delete: spec.delete,
            update: spec.update,
            columns,
            when: spec.when.clone(),
            arguments: spec.arguments.clone(),
            part_of: None,
            mode: TriggerMode::default(),
            comment: old.and_then(|old| old.comment.clone()),
        };
        trigger.when =
            self.session.with_analysis(|context| check_trigger(&trigger, &table, context))?;
        let mut definition = table.definition.clone();
        definition.triggers.retain(|known| known.name != trigger.name);
        definition.triggers.push(trigger.clone());
        sort(&mut definition.triggers);
        self.update(definition)?;
        self.add_trigger_parts(&trigger, table.oid)
    }

    /// Finds the function that a trigger is to call. The function stays as long as this transaction
    /// runs.
    fn lock_trigger_function(&mut self, name: &Name) -> Result<Oid> {
        loop {
            let found = self.trigger_function(name)?;
            if found < Oid::FIRST_USER {
                return Ok(found);
            }
            self.lock(found, TableLockMode::AccessShare)?;
            // Ends: each round waits for the end of a transaction that replaced the function.
            if self.trigger_function(name)? == found {
                return Ok(found);
            }
        }
    }

    fn trigger_function(&mut self, name: &Name) -> Result<Oid> {
        let state = self.state();
        let schemas = match &name.schema {
            Some(schema) => {
                let found = state.schema_by_name(schema).map(|schema| schema.oid);
                found.into_iter().collect()
            }
            None => self.session.search_path().schemas.clone(),
        };
        for schema in schemas {
            if schema == PG_CATALOG {
                let mut named = builtin_functions().named(&name.name);
                if let Some(found) = named.find(|function| function.arguments.is_empty()) {
                    return builtin(Oid(found.oid), found.name);
                }
            }
            let Some(found) = state.lookup_function(schema, &name.name, &[]) else { continue };
            if !found.is_for_triggers() {
                return Err(no_trigger_function(&found.name));
            }
            return Ok(found.oid);
        }
        Err(SqlError::new("42883", format!("function {name}() does not exist")))
    }

    fn drop_trigger(&mut self, table: &Name, name: &str, if_exists: bool) -> Result<()> {
        let mode = TableLockMode::AccessExclusive;
        let table = match self.session.lock_by_name(table, mode) {
            Ok(table) => table,
            Err(error) if if_exists && matches!(error.sqlstate, "42P01" | "3F000") => {
                self.notice(format!("{}, skipping", error.message));
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        refuse_system(&table)?;
        if table.trigger(name).is_none() && if_exists {
            let of = &table.name;
            self.notice(format!(
                "trigger \"{name}\" for relation \"{of}\" does not exist, skipping"
            ));
            return Ok(());
        }
        let trigger = found(&table, name)?;
        if let Some((above, of)) = self.trigger_above(trigger) {
            let own = self.shown_name(&table);
            let message = format!(
                "cannot drop trigger {name} on table {own} because trigger {of} on table {above} requires it"
            );
            let hint = format!("You can drop trigger {of} on table {above} instead.");
            return Err(SqlError::new("2BP01", message).with_hint(hint));
        }
        self.refuse_use(&table, "DROP TRIGGER")?;
        self.remove_trigger(table.oid, trigger.oid)
    }

    /// Removes a trigger from its table, which is locked, and the trigger's copies from the
    /// partitions.
    pub(crate) fn remove_trigger(&mut self, table: Oid, trigger: Oid) -> Result<()> {
        let mut going = self.trigger_parts(trigger);
        going.push((table, trigger));
        for (table, trigger) in going {
            self.lock(table, TableLockMode::AccessExclusive)?;
            let mut definition = self.current(table)?.definition.clone();
            definition.triggers.retain(|known| known.oid != trigger);
            self.update(definition)?;
        }
        Ok(())
    }

    fn rename_trigger(&mut self, table: &Name, name: &str, to: &str) -> Result<()> {
        let table = self.session.lock_by_name(table, TableLockMode::AccessExclusive)?;
        refuse_system(&table)?;
        let old = found(&table, name)?;
        if let Some((above, _)) = self.trigger_above(old) {
            let message = format!("cannot rename trigger \"{name}\" on table \"{}\"", table.name);
            let hint = format!("Rename the trigger on the partitioned table \"{above}\" instead.");
            return Err(SqlError::new("XX000", message).with_hint(hint));
        }
        let trigger = old.oid;
        if table.trigger(to).is_some() {
            let message =
                format!("trigger \"{to}\" for relation \"{}\" already exists", table.name);
            return Err(SqlError::new("42710", message));
        }
        let mut definition = table.definition.clone();
        for known in definition.triggers.iter_mut().filter(|known| known.oid == trigger) {
            to.clone_into(&mut known.name);
        }
        sort(&mut definition.triggers);
        self.update(definition)?;
        for (table, part) in self.trigger_parts(trigger) {
            let table = self.current(table)?;
            if table.trigger(to).is_some_and(|known| known.oid != part) {
                let message =
                    format!("trigger \"{to}\" for relation \"{}\" already exists", table.name);
                return Err(SqlError::new("42710", message));
            }
        }
        self.change_trigger_parts(trigger, &|part| to.clone_into(&mut part.name))
    }

    /// Runs ALTER TABLE … ENABLE TRIGGER and DISABLE TRIGGER.
    pub(crate) fn enable_trigger(
        &mut self,
        table: &Relation,
        which: &WhichTriggers,
        mode: TriggerMode,
    ) -> Result<()> {
        let mut definition = table.definition.clone();
        let changed: Vec<Oid> = match which {
            WhichTriggers::Named(name) => vec![found(table, name)?.oid],
            WhichTriggers::User | WhichTriggers::All => {
                let state = self.state();
                let has_keys =
                    !table.foreign_keys.is_empty() || !state.foreign_keys_to(table.oid).is_empty();
                if *which == WhichTriggers::All && has_keys {
                    let what = "ENABLE or DISABLE TRIGGER ALL of a table with foreign keys";
                    return Err(SqlError::unsupported(what).with_hint(
                        "Use TRIGGER USER for those that are no part of a constraint.",
                    ));
                }
                definition.triggers.iter().map(|known| known.oid).collect()
            }
        };
        let named = definition.triggers.iter_mut().filter(|known| changed.contains(&known.oid));
        named.for_each(|known| known.mode = mode);
        self.update(definition)?;
        changed.into_iter().try_for_each(|trigger| self.enable_trigger_parts(trigger, mode))
    }

    /// Runs COMMENT ON TRIGGER.
    pub(crate) fn comment_on_trigger(
        &mut self,
        table: &Name,
        name: &str,
        comment: Option<String>,
    ) -> Result<()> {
        let table = self.session.lock_by_name(table, TableLockMode::ShareUpdateExclusive)?;
        let trigger = found(&table, name)?.oid;
        let mut definition = table.definition.clone();
        let named = definition.triggers.iter_mut().filter(|known| known.oid == trigger);
        named.for_each(|known| known.comment.clone_from(&comment));
        self.update(definition)
    }

    /// Fails with 0A000 when a trigger needs a column whose type is to change.
    pub(crate) fn refuse_triggers(&mut self, table: &Relation, position: usize) -> Result<()> {
        let Some(Object::Trigger { trigger, .. }) =
            triggers_on_column(table, position)?.into_iter().next()
        else {
            return Ok(());
        };
        let name = table.triggers.iter().find(|known| known.oid == trigger);
        let name = name.map_or("?", |known| known.name.as_str());
        let message = "cannot alter type of a column used in a trigger definition";
        let detail = format!(
            "trigger {name} on table {} depends on column \"{}\"",
            self.shown_name(table),
            table.columns[position].name
        );
        Err(SqlError::new("0A000", message).with_detail(detail))
    }
}

/// Returns the triggers of a table that need a column: UPDATE OF names the column, or WHEN reads
/// it.
pub(crate) fn triggers_on_column(table: &Relation, position: usize) -> Result<Vec<Object>> {
    let mut objects = Vec::new();
    for trigger in &table.triggers {
        let of = trigger.columns.iter().any(|column| usize::from(*column) == position);
        let read = match &trigger.when {
            Some(when) => condition_columns(when, table)?.contains(&position),
            None => false,
        };
        if of || read {
            objects.push(Object::Trigger { table: table.oid, trigger: trigger.oid });
        }
    }
    Ok(objects)
}

/// Sorts triggers into the order in which they fire: by the bytes of their names.
pub(crate) fn sort(triggers: &mut [Trigger]) {
    triggers.sort_by(|a, b| a.name.cmp(&b.name));
}

fn found<'t>(table: &'t Relation, name: &str) -> Result<&'t Trigger> {
    table.trigger(name).ok_or_else(|| missing(table, name))
}

#[cold]
fn missing(table: &Relation, name: &str) -> SqlError {
    let message = format!("trigger \"{name}\" for table \"{}\" does not exist", table.name);
    SqlError::new("42704", message)
}

fn no_trigger_function(name: &str) -> SqlError {
    SqlError::new("42P17", format!("function {name} must return type trigger"))
}

/// Returns a built-in function, if a trigger can call it.
fn builtin(oid: Oid, name: &str) -> Result<Oid> {
    const OF_OTHERS: [&str; 3] =
        ["tsvector_update_trigger", "tsvector_update_trigger_column", "unique_key_recheck"];
    if oid == SUPPRESS_REDUNDANT {
        return Ok(oid);
    }
    if name.starts_with("RI_FKey_") || OF_OTHERS.contains(&name) {
        return Err(SqlError::unsupported(format!("function {name} of a trigger")));
    }
    Err(no_trigger_function(name))
}

/// Fails with 42809 for a relation other than a table, because only rows of tables can be changed.
fn refuse_no_table(relation: &Relation) -> Result<()> {
    let name = &relation.name;
    match relation.kind {
        RelationKind::Table => Ok(()),
        RelationKind::View => Err(SqlError::new("42809", format!("\"{name}\" is a view"))
            .with_detail("Views cannot have row-level BEFORE or AFTER triggers.")),
        RelationKind::Index | RelationKind::Sequence | RelationKind::MaterializedView => {
            let word = relation.kind.plural();
            let message = format!("relation \"{name}\" cannot have triggers");
            Err(SqlError::new("42809", message)
                .with_detail(format!("This operation is not supported for {word}.")))
        }
    }
}
