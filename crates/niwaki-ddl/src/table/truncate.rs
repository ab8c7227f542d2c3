//! TRUNCATE: gives tables new, empty files, so that a rollback restores the rows.

use std::sync::Arc;

use niwaki_catalog::{Oid, Relation, RelationKind, RelationStats};
use niwaki_sql::utility::Name;
use niwaki_sql::{Result, SqlError};
use niwaki_txn::TableLockMode;

use crate::definer::Definer;

impl Definer<'_> {
    pub(crate) fn truncate(
        &mut self,
        names: &[Name],
        restart_identity: bool,
        cascade: bool,
    ) -> Result<()> {
        let mut tables: Vec<Arc<Relation>> = Vec::new();
        for name in names {
            let relation = self.session.lock_by_name(name, TableLockMode::AccessExclusive)?;
            if relation.kind != RelationKind::Table {
                return Err(SqlError::new(
                    "42809",
                    format!("\"{}\" is not a table", relation.name),
                ));
            }
            if name.only && relation.is_partitioned() {
                let message = "cannot truncate only a partitioned table";
                return Err(SqlError::new("42809", message).with_hint(
                    "Do not specify the ONLY keyword, or use TRUNCATE ONLY on the partitions directly.",
                ));
            }
            self.lock_tree(&relation, TableLockMode::AccessExclusive)?;
            let relation = self.current(relation.oid)?;
            for relation in self.tree_of(&relation) {
                self.refuse_use(&relation, "TRUNCATE")?;
                if !tables.iter().any(|table| table.oid == relation.oid) {
                    tables.push(relation);
                }
            }
        }
        self.with_references(&mut tables, cascade)?;
        for relation in tables {
            let mut files = Vec::new();
            // A partitioned table has no files.
            if !relation.is_partitioned() {
                files.push(relation.oid);
                files.extend(relation.indexes.iter().map(|i| i.oid));
            }
            if restart_identity {
                // This includes sequences that were made separately: ALTER SEQUENCE … OWNED BY.
                let owner = |r: &Relation| r.sequence.as_ref().and_then(|s| s.owned_by);
                let owned =
                    |r: &&Arc<Relation>| owner(r).is_some_and(|(table, _)| table == relation.oid);
                let state = self.state();
                for sequence in state.in_order().into_iter().filter(owned) {
                    // Other sessions may draw from the sequence without a look at the table.
                    self.lock(sequence.oid, TableLockMode::AccessExclusive)?;
                    if self.state().relation(sequence.oid).is_some() {
                        files.push(sequence.oid);
                    }
                }
            }
            for oid in files {
                let mut definition = self.definition_to_change(oid)?;
                definition.stats = RelationStats::default();
                self.session.renew_file(definition)?;
            }
            self.session.note_created(relation.oid);
        }
        Ok(())
    }

    /// Adds the tables that reference a table in the list. Without CASCADE such a table is an
    /// error.
    fn with_references(&mut self, tables: &mut Vec<Arc<Relation>>, cascade: bool) -> Result<()> {
        let mut at = 0;
        // Ends: a round adds a table, waits for a transaction that changed one, or goes on.
        while let Some(table) = tables.get(at) {
            let Some(other) = self.referring(table, tables) else {
                at += 1;
                continue;
            };
            if !cascade {
                let message = "cannot truncate a table referenced in a foreign key constraint";
                let (own, other) = (&table.name, &other.name);
                return Err(SqlError::new("0A000", message)
                    .with_detail(format!("Table \"{other}\" references \"{own}\"."))
                    .with_hint(format!(
                        "Truncate table \"{other}\" at the same time, or use TRUNCATE ... CASCADE."
                    )));
            }
            self.lock(other.oid, TableLockMode::AccessExclusive)?;
            if self.referring(table, tables).is_none_or(|now| now.oid != other.oid) {
                continue;
            }
            self.lock_tree(&other, TableLockMode::AccessExclusive)?;
            let other = self.current(other.oid)?;
            for other in self.tree_of(&other) {
                if tables.iter().any(|known| known.oid == other.oid) {
                    continue;
                }
                self.notice(format!("truncate cascades to table \"{}\"", other.name));
                self.refuse_use(&other, "TRUNCATE")?;
                tables.push(other);
            }
        }
        Ok(())
    }

    /// A table that references one, and is not among those that are known.
    fn referring(&mut self, table: &Relation, known: &[Arc<Relation>]) -> Option<Arc<Relation>> {
        let state = self.state();
        let is_known = |oid: Oid| known.iter().any(|table| table.oid == oid);
        // What refers to a table refers to its partitions.
        let above = |oid| state.relation(oid).and_then(|table| table.partition_of.as_ref());
        let of = std::iter::successors(Some(table.oid), |oid| above(*oid).map(|of| of.parent));
        let of = of.take_while(|oid| *oid == table.oid || !is_known(*oid));
        let keys = of.flat_map(|table| state.foreign_keys_to(table));
        let mut keys = keys.filter_map(|key| state.foreign_key(*key));
        // Partitions come with the table that they are of.
        let other = keys.find(|(other, key)| key.part_of.is_none() && !is_known(other.oid));
        other.map(|(other, _)| Arc::clone(other))
    }
}
