//! Triggers of partitioned tables: each partition has a copy of its own, and only the copies fire.

use niwaki_catalog::{ColumnMap, Oid, Relation, Trigger, TriggerMode};
use niwaki_sql::{Result, SqlError};
use niwaki_txn::TableLockMode;

use crate::definer::Definer;
use crate::routine::trigger::sort;

impl Definer<'_> {
    /// Gives a partition the triggers of its table.
    pub(crate) fn part_triggers(&mut self, parent: &Relation, partition: Oid) -> Result<()> {
        for trigger in &self.current(parent.oid)?.triggers {
            self.add_trigger_part(trigger, parent, partition)?;
        }
        Ok(())
    }

    /// Gives the partitions of a table copies of its trigger, in place of older copies.
    pub(crate) fn add_trigger_parts(&mut self, above: &Trigger, table: Oid) -> Result<()> {
        let table = self.current(table)?;
        for member in table.partitions.iter().flat_map(|partitions| &partitions.members) {
            self.lock(member.relation.oid, TableLockMode::ShareRowExclusive)?;
            self.add_trigger_part(above, &table, member.relation.oid)?;
        }
        Ok(())
    }

    fn add_trigger_part(
        &mut self,
        above: &Trigger,
        parent: &Relation,
        partition: Oid,
    ) -> Result<()> {
        let own = self.current(partition)?;
        let known = own.trigger(&above.name);
        if known.is_some_and(|known| known.part_of != Some(above.oid)) {
            let message =
                format!("trigger \"{}\" for relation \"{}\" already exists", above.name, own.name);
            return Err(SqlError::new("42710", message));
        }
        let map = ColumnMap::between(&parent.definition, &own.definition);
        let place = |column: &u16| {
            let place = map.place(usize::from(*column)).and_then(|at| u16::try_from(at).ok());
            place.ok_or_else(|| SqlError::internal("a partition without a column of its table"))
        };
        let trigger = Trigger {
            oid: known.map_or_else(|| self.session.new_oid(), |known| known.oid),
            columns: above.columns.iter().map(place).collect::<Result<_>>()?,
            part_of: Some(above.oid),
            comment: known.and_then(|known| known.comment.clone()),
            ..above.clone()
        };
        let mut definition = own.definition.clone();
        definition.triggers.retain(|known| known.oid != trigger.oid);
        definition.triggers.push(trigger.clone());
        sort(&mut definition.triggers);
        self.update(definition)?;
        self.add_trigger_parts(&trigger, partition)
    }

    /// Returns the copies of a trigger in partitions at any depth, as pairs of table and number.
    pub(crate) fn trigger_parts(&mut self, above: Oid) -> Vec<(Oid, Oid)> {
        let state = self.state();
        let triggers = state.triggers();
        let (mut parts, mut next) = (Vec::new(), vec![above]);
        // Ends: each trigger is a copy of one other at most.
        while let Some(above) = next.pop() {
            for (table, part) in triggers.iter().filter(|(_, part)| part.part_of == Some(above)) {
                parts.push((table.oid, part.oid));
                next.push(part.oid);
            }
        }
        parts
    }

    /// Changes the copies of a trigger.
    pub(crate) fn change_trigger_parts(
        &mut self,
        above: Oid,
        change: &dyn Fn(&mut Trigger),
    ) -> Result<()> {
        for (table, part) in self.trigger_parts(above) {
            self.lock(table, TableLockMode::AccessExclusive)?;
            let mut definition = self.current(table)?.definition.clone();
            definition.triggers.iter_mut().filter(|known| known.oid == part).for_each(change);
            sort(&mut definition.triggers);
            self.update(definition)?;
        }
        Ok(())
    }

    /// Sets when the copies of a trigger fire.
    pub(crate) fn enable_trigger_parts(&mut self, above: Oid, mode: TriggerMode) -> Result<()> {
        self.change_trigger_parts(above, &|part| part.mode = mode)
    }

    /// Removes copies of triggers from a table that is no partition any more.
    pub(crate) fn release_triggers(&mut self, partition: Oid) -> Result<()> {
        for trigger in &self.current(partition)?.triggers {
            if trigger.part_of.is_some() {
                self.remove_trigger(partition, trigger.oid)?;
            }
        }
        Ok(())
    }

    /// Returns the names of the table above and of the trigger that this one is a copy of.
    pub(crate) fn trigger_above(&mut self, trigger: &Trigger) -> Option<(String, String)> {
        let above = trigger.part_of?;
        let state = self.state();
        let triggers = state.triggers();
        let (table, found) = triggers.into_iter().find(|(_, known)| known.oid == above)?;
        let (table, name) = (table.clone(), found.name.clone());
        Some((self.shown_name(&table), name))
    }
}
