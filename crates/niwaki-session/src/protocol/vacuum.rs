//! VACUUM and ANALYZE statements.

use std::sync::Arc;
use std::time::Duration;

use niwaki_background::maintenance::{MaintainedTable, lock_to_maintain};
use niwaki_background::vacuum_options::of_statement;
use niwaki_catalog::{Oid, Relation, RelationDefinition, RelationStats};
use niwaki_sql::utility::Vacuum;
use niwaki_sql::{Result, SqlError};
use niwaki_system::monitor::progress::Vacuuming;
use niwaki_txn::WaitPolicy;
use niwaki_vacuum::{VacuumOptions, VacuumSummary};

use crate::result::ResultSink;
use crate::session::handle::Session;
use crate::session::state::block::Block;

/// A table that VACUUM or ANALYZE is to process.
struct Listed {
    oid: Oid,
    /// Name of the table in the statement. A table that the statement does not name is skipped
    /// silently.
    name: Option<String>,
}

impl Listed {
    fn unnamed(oid: Oid) -> Self {
        Self { oid, name: None }
    }
}

impl Session {
    /// Runs VACUUM: each table in a transaction of its own. No transaction is open.
    pub(crate) fn vacuum(&mut self, vacuum: &Vacuum, out: &mut dyn ResultSink) -> Result<()> {
        self.ensure_transaction()?;
        let tables = self.tables_of(vacuum, out)?;
        self.commit()?;
        for table in &tables {
            self.vacuum_table(table, vacuum, out)?;
        }
        // The caller opens an implicit transaction again for the answer.
        debug_assert_eq!(self.block.state(), Block::Idle);
        Ok(())
    }

    /// Vacuums one table, in a transaction of its own.
    fn vacuum_table(
        &mut self,
        listed: &Listed,
        vacuum: &Vacuum,
        out: &mut dyn ResultSink,
    ) -> Result<()> {
        self.ensure_transaction()?;
        // READ ONLY as a default does not refuse VACUUM, which changes no row.
        self.open_transaction()?.set_read_only(false);
        if self.is_partitioned(listed.oid) {
            self.analyze_partitioned(listed, vacuum, out)?;
        } else if let Some(table) = self.lock_for_maintenance(listed, vacuum, out)? {
            if vacuum.process_main {
                self.vacuum_locked(&table, vacuum, out)?;
            }
            if vacuum.analyze {
                self.analyze_locked(&table, vacuum, out)?;
            }
        }
        self.commit()
    }

    fn vacuum_locked(
        &mut self,
        table: &MaintainedTable,
        vacuum: &Vacuum,
        out: &mut dyn ResultSink,
    ) -> Result<()> {
        let relation = Arc::clone(table.relation());
        let (backend, database) = (self.identity.control().backend(), self.connection.oid());
        let about = Vacuuming { backend, database, table: relation.oid };
        let entry = self.directory.vacuums().begin(about);
        let options = VacuumOptions {
            progress: Arc::clone(entry.progress()),
            ..of_statement(&self.settings, vacuum, &relation.options)
        };
        if vacuum.verbose {
            let name = self.qualified(&relation);
            self.info(out, format!("vacuuming \"{name}\""), None);
        }
        let clock = Arc::clone(&self.directory.env().clock);
        let (begun, log) =
            (clock.monotonic(), self.directory.engine().storage().wal().insert_lsn());
        let (transaction, catalog) = self.transaction_and_catalog()?;
        let summary = table.vacuum(transaction, catalog, &options)?;
        if vacuum.verbose {
            let log = self.directory.engine().storage().wal().insert_lsn().0 - log.0;
            let text = report(&summary, clock.monotonic().saturating_sub(begun), log);
            let name = self.qualified(&relation);
            self.info(out, format!("finished vacuuming \"{name}\""), Some(text));
        }
        Ok(())
    }

    fn analyze_locked(
        &mut self,
        table: &MaintainedTable,
        vacuum: &Vacuum,
        out: &mut dyn ResultSink,
    ) -> Result<()> {
        if vacuum.verbose {
            let name = self.qualified(table.relation());
            self.info(out, format!("analyzing \"{name}\""), None);
        }
        let options = of_statement(&self.settings, vacuum, &table.relation().options);
        let (transaction, catalog) = self.transaction_and_catalog()?;
        table.analyze(transaction, catalog, &options)
    }

    /// Runs ANALYZE, in the open transaction.
    pub(crate) fn analyze_tables(
        &mut self,
        vacuum: &Vacuum,
        out: &mut dyn ResultSink,
    ) -> Result<()> {
        for listed in self.tables_of(vacuum, out)? {
            if self.is_partitioned(listed.oid) {
                self.analyze_partitioned(&listed, vacuum, out)?;
            } else if let Some(table) = self.lock_for_maintenance(&listed, vacuum, out)? {
                self.analyze_locked(&table, vacuum, out)?;
            }
        }
        Ok(())
    }

    fn is_partitioned(&mut self, oid: Oid) -> bool {
        self.catalog.state().relation(oid).is_some_and(|table| table.is_partitioned())
    }

    /// Analyzes a partitioned table after its partitions: its row count is the sum of theirs.
    fn analyze_partitioned(
        &mut self,
        listed: &Listed,
        vacuum: &Vacuum,
        out: &mut dyn ResultSink,
    ) -> Result<()> {
        let policy = if vacuum.skip_locked { WaitPolicy::Skip } else { WaitPolicy::Block };
        let id = self.table_id(listed.oid);
        let locked = lock_to_maintain(self.open_transaction()?, id, policy)?;
        let found = self.catalog.state().relation(listed.oid).cloned();
        let Some(table) = found.filter(|_| locked) else {
            self.skip(listed, vacuum, out);
            return Ok(());
        };
        let leaves = table.partitions.iter().flat_map(|partitions| &partitions.leaves);
        let counts: Vec<f64> = leaves.map(|leaf| leaf.relation.stats.tuples).collect();
        // A table that never had partitions has no rows to count.
        if counts.is_empty() && table.stats.tuples < 0.0 {
            return Ok(());
        }
        if vacuum.verbose {
            let name = self.qualified(&table);
            self.info(out, format!("analyzing \"{name}\" inheritance tree"), None);
        }
        // The fold begins with 0, because the sum of an empty iterator is -0.
        let tuples = counts.iter().filter(|count| **count >= 0.0).fold(0.0, |sum, n| sum + n);
        let stats = RelationStats { tuples, ..RelationStats::default() };
        if table.stats != stats {
            let definition = RelationDefinition { stats, ..table.definition.clone() };
            let (transaction, catalog) = self.transaction_and_catalog()?;
            catalog.update(transaction, definition)?;
        }
        Ok(())
    }

    fn qualified(&mut self, relation: &Relation) -> String {
        format!("{}.{}", self.schema_name(relation.schema), relation.name)
    }

    /// Lists the tables that the statement names, or all. Partitioned tables come behind their
    /// partitions, and are only analyzed.
    fn tables_of(&mut self, vacuum: &Vacuum, out: &mut dyn ResultSink) -> Result<Vec<Listed>> {
        let analyzed = vacuum.analyze || !vacuum.vacuum;
        if vacuum.targets.is_empty() {
            let state = self.catalog.state();
            let wanted = state.with_rows().filter(|table| analyzed || !table.is_partitioned());
            let mut all: Vec<_> = wanted.map(|table| (table.is_partitioned(), table.oid)).collect();
            all.sort();
            return Ok(all.into_iter().map(|(_, oid)| Listed::unnamed(oid)).collect());
        }
        let mut found = Vec::new();
        for target in &vacuum.targets {
            self.find_schema(&target.name)?;
            let relation = self.find_relation(&target.name)?;
            columns_of(&relation, &target.columns)?;
            let itself = Listed { oid: relation.oid, name: Some(relation.name.clone()) };
            if let Some(partitions) = &relation.partitions {
                let leaves = partitions.leaves.iter().map(|leaf| leaf.relation.oid);
                found.extend(leaves.map(Listed::unnamed));
                if analyzed {
                    for member in &partitions.members {
                        partitioned_below(&member.relation, &mut found);
                    }
                    found.push(itself);
                }
            } else if relation.kind.has_rows() {
                found.push(itself);
            } else {
                let word = if vacuum.vacuum { "vacuum" } else { "analyze" };
                self.warning(
                    out,
                    "01000",
                    format!(
                        "skipping \"{}\" --- cannot {word} non-tables or special system tables",
                        relation.name
                    ),
                );
            }
        }
        Ok(found)
    }

    /// Locks a table against other maintenance. Returns `None` when the table is gone, or when
    /// `SKIP_LOCKED` forbids waiting for it.
    fn lock_for_maintenance(
        &mut self,
        listed: &Listed,
        vacuum: &Vacuum,
        out: &mut dyn ResultSink,
    ) -> Result<Option<MaintainedTable>> {
        let policy = if vacuum.skip_locked { WaitPolicy::Skip } else { WaitPolicy::Block };
        let (transaction, catalog) = self.transaction_and_catalog()?;
        let locked = MaintainedTable::lock(transaction, catalog, listed.oid, policy)?;
        if locked.is_none() {
            self.skip(listed, vacuum, out);
        }
        Ok(locked)
    }

    /// Warns that a table is skipped: it was dropped since the list was made, or its lock is not
    /// available.
    fn skip(&mut self, listed: &Listed, vacuum: &Vacuum, out: &mut dyn ResultSink) {
        let Some(name) = &listed.name else { return };
        let (sqlstate, why) = match self.catalog.state().relation(listed.oid) {
            Some(_) => ("55P03", "lock not available"),
            None => ("42P01", "relation no longer exists"),
        };
        let word = if vacuum.vacuum { "vacuum" } else { "analyze" };
        self.warning(out, sqlstate, format!("skipping {word} of \"{name}\" --- {why}"));
    }
}

/// Adds the partitioned tables of a tree, below the table that the statement names.
fn partitioned_below(table: &Relation, found: &mut Vec<Listed>) {
    let Some(partitions) = &table.partitions else { return };
    for member in &partitions.members {
        partitioned_below(&member.relation, found);
    }
    found.push(Listed::unnamed(table.oid));
}

/// Checks that each column that ANALYZE names exists, and is named once.
fn columns_of(relation: &Relation, columns: &[String]) -> Result<()> {
    for (number, column) in columns.iter().enumerate() {
        let (sqlstate, fault) = if relation.column_position(column).is_none() {
            ("42703", "does not exist")
        } else if columns[..number].contains(column) {
            ("42701", "appears more than once")
        } else {
            continue;
        };
        let message = format!("column \"{column}\" of relation \"{}\" {fault}", relation.name);
        return Err(SqlError::new(sqlstate, message));
    }
    Ok(())
}

/// Returns the final message of VACUUM (VERBOSE).
fn report(summary: &VacuumSummary, took: Duration, log_bytes: u64) -> String {
    let passes = match (summary.index_passes, summary.bypassed) {
        (0, 0) => "not needed".to_owned(),
        (0, roots) => format!("bypassed, {roots} roots wait for another vacuum"),
        (passes, _) => format!("{passes}, {} entries removed", summary.entries_removed),
    };
    let lines = [
        format!("index scans: {passes}"),
        format!(
            "pages: {} scanned, {} skipped as the visibility map has it",
            summary.pages, summary.skipped
        ),
        format!(
            "tuples: {} removed, {} remain on the pages scanned, {} are dead but some snapshot sees them",
            summary.removed, summary.remaining, summary.held
        ),
        format!("frozen: {} tuples", summary.frozen),
        format!(
            "line pointers: {} freed; mixed chains: {} cleared",
            summary.freed, summary.cleared
        ),
        format!(
            "large values: {} pages scanned, {} pieces removed",
            summary.value_pages, summary.pieces_removed
        ),
        format!("truncated: {} pages, {} of large values", summary.cut, summary.values_cut),
        format!("reads: {} pages", summary.reads),
        format!("WAL usage: {log_bytes} bytes, those of other sessions meanwhile included"),
        format!("elapsed: {:.2} s", took.as_secs_f64()),
    ];
    lines.join("\n")
}
