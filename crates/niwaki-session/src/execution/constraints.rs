//! Deferrable constraints: when the effects of statements are checked.
//!
//! A statement leaves possibly duplicate keys in the workspace, and notes the changes that concern
//! foreign keys. At its end the constraints that are immediate now are checked. The others wait for
//! SET CONSTRAINTS … IMMEDIATE or the commit.
//!
//! A rollback to a savepoint forgets what came after it. An event noted before a savepoint and
//! checked after it stays noted. The reason: the rollback may bring back a row that was gone during
//! the check.

use std::sync::Arc;

use niwaki_catalog::{CatalogState, ConstraintTime, Oid, Relation};
use niwaki_sql::utility::Name;
use niwaki_sql::{Result, SqlError};

use crate::result::ResultSink;
use crate::session::handle::Session;

impl Session {
    /// Ends a statement: checks immediate constraints and keeps deferred events.
    pub(crate) fn check_after_statement(&mut self) -> Result<()> {
        if self.checks.is_in_parts() {
            return Ok(());
        }
        let keys = self.buffers.work_mut().take_deferred();
        if !self.checks.ended(keys) {
            return Ok(());
        }
        let snapshot = self.open_transaction()?.snapshot()?;
        self.with_context(&snapshot, &mut |context| context.after_triggers.end(0, context))
    }

    /// Checks everything before the commit.
    pub(crate) fn check_before_commit(&mut self) -> Result<()> {
        self.check_after_statement()?;
        // Ends as a statement does: an action that follows from a change may be deferred again.
        while self.checks.make_due() {
            self.check_after_statement()?;
        }
        Ok(())
    }

    /// Runs SET CONSTRAINTS. Constraints that become immediate are checked now, for all earlier
    /// changes.
    pub(crate) fn set_constraints(
        &mut self,
        names: &[Name],
        deferred: bool,
        in_block: bool,
        out: &mut dyn ResultSink,
    ) -> Result<&'static str> {
        if !in_block {
            let message = "SET CONSTRAINTS can only be used in transaction blocks";
            self.warning(out, "25P01", message);
        }
        let mut constraints = Vec::new();
        for name in names {
            constraints.extend(self.constraints_named(name, deferred)?);
        }
        let all = names.is_empty();
        if all {
            self.checks.deferred_mut().set_all(deferred);
        }
        self.checks.deferred_mut().set_each(&constraints, deferred);
        if !deferred {
            let concerned = |constraint: Oid| all || constraints.contains(&constraint);
            let (keys, references) = self.checks.deferred().waiting(concerned);
            self.checks.queue_mut().due(keys, references);
            self.check_after_statement()?;
            let mark = self.block.innermost().map(|level| &level.deferred);
            self.checks.deferred_mut().forget_made(mark, concerned);
        }
        Ok("SET CONSTRAINTS")
    }

    /// Returns the deferrable constraints of this name, in the first schema that has any constraint
    /// of the name. Constraints that are not deferrable are skipped, unless `deferred`: then they
    /// are an error.
    fn constraints_named(&mut self, name: &Name, deferred: bool) -> Result<Vec<Oid>> {
        self.find_schema(name)?;
        let state = self.catalog.state();
        let path = self.search_path();
        let schemas: Vec<Oid> = match &name.schema {
            None => path.schemas.clone(),
            Some(schema) => state.schema_by_name(schema).map(|s| s.oid).into_iter().collect(),
        };
        for schema in schemas {
            let index = state.lookup(schema, &name.name);
            let index = index.and_then(|r| Some((r.oid, r.index.as_ref()?)));
            let index = index.filter(|(_, index)| index.constraint.is_some());
            let mut found: Vec<(Oid, ConstraintTime)> =
                index.map(|(oid, index)| (oid, index.check_time)).into_iter().collect();
            let mut has_check = false;
            for table in state.tables().filter(|table| table.schema == schema) {
                let keys = table.foreign_keys.iter().filter(|key| key.name == name.name);
                found.extend(keys.map(|key| (key.oid, key.check_time)));
                has_check |= table.checks.iter().any(|check| check.name == name.name);
            }
            if found.is_empty() && !has_check {
                continue;
            }
            let all = found.len();
            found.retain(|(_, time)| *time != ConstraintTime::AtOnce);
            if deferred && (has_check || found.len() < all) {
                let message = format!("constraint \"{}\" is not deferrable", name.name);
                return Err(SqlError::new("42809", message));
            }
            let mut found: Vec<Oid> = found.into_iter().map(|(oid, _)| oid).collect();
            // A constraint of a partitioned table includes the corresponding constraints of its
            // partitions.
            let keys = state.foreign_keys();
            let mut at = 0;
            while let Some(above) = found.get(at).copied() {
                let parts = keys.iter().filter(|(_, key)| key.part_of == Some(above));
                found.extend(parts.map(|(_, key)| key.oid));
                found.extend(parts_of(&state, above).iter().map(|index| index.oid));
                at += 1;
            }
            found.sort_unstable();
            found.dedup();
            return Ok(found);
        }
        let message = format!("constraint \"{}\" does not exist", name.name);
        Err(SqlError::new("42704", message))
    }
}

/// Returns the parts of an index on the partitions one step down.
pub fn parts_of(state: &CatalogState, index: Oid) -> Vec<Arc<Relation>> {
    let is_part = |relation: &&Arc<Relation>| {
        relation.index.as_ref().is_some_and(|own| own.part_of == Some(index))
    };
    let mut parts: Vec<Arc<Relation>> = state.relations().filter(is_part).cloned().collect();
    parts.sort_by_key(|part| part.oid);
    parts
}
