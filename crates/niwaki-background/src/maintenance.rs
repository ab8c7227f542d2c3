//! VACUUM and ANALYZE of one table, in a transaction that the caller opens and commits. Statements
//! and autovacuum use it.

use std::sync::Arc;

use niwaki_catalog::{CatalogTransaction, ColumnStats, KeyBytes, Oid, Relation, RelationStats};
use niwaki_sql::{Result, SqlError};
use niwaki_table::Table;
use niwaki_txn::{TableId, TableLockMode, Transaction, WaitPolicy};
use niwaki_types::{Datum, KeyOrder, TypeOid, encode_key};
use niwaki_vacuum::{ColumnStatistics, LockedTable, VacuumOptions, VacuumSummary};

/// A table that is locked against other maintenance until the transaction ends.
#[derive(Debug)]
pub struct MaintainedTable {
    relation: Arc<Relation>,
    table: Arc<Table>,
    /// Autovacuum does the work, not a statement.
    automatic: bool,
}

/// Takes the lock for maintenance of a table, SHARE UPDATE EXCLUSIVE. Returns false under
/// [`WaitPolicy::Skip`] when the lock is not free.
///
/// # Errors
/// The errors of a lock wait: deadlock, the session's interrupts, 55P03.
pub fn lock_to_maintain(
    transaction: &Transaction,
    table: TableId,
    policy: WaitPolicy,
) -> Result<bool> {
    Ok(transaction.manager().locks().acquire_table(
        transaction,
        table,
        TableLockMode::ShareUpdateExclusive,
        policy,
    )?)
}

impl MaintainedTable {
    /// Locks a table in SHARE UPDATE EXCLUSIVE mode. Returns `None` when the table is gone, and
    /// under [`WaitPolicy::Skip`] when the lock is not free.
    ///
    /// # Errors
    /// The errors of a lock wait: deadlock, the session's interrupts, 55P03.
    pub fn lock(
        transaction: &Transaction,
        catalog: &mut CatalogTransaction,
        oid: Oid,
        policy: WaitPolicy,
    ) -> Result<Option<Self>> {
        let id = catalog.catalog().table_number(oid);
        let locked = lock_to_maintain(transaction, id, policy)?;
        // Read the catalog only now, while the lock is held.
        let found = catalog.state().relation(oid).filter(|_| locked).cloned();
        Ok(found.and_then(|relation| {
            let table = relation.table.clone()?;
            Some(Self { relation, table, automatic: false })
        }))
    }

    /// Marks the work as autovacuum's, so that it is counted there.
    pub(crate) fn automatic(self) -> Self {
        Self { automatic: true, ..self }
    }

    /// Returns the relation as it was when it was locked.
    pub fn relation(&self) -> &Arc<Relation> {
        &self.relation
    }

    /// Runs VACUUM. Removes the versions that no snapshot sees, and stores the table's size, which
    /// [`MaintainedTable::analyze`] may correct.
    ///
    /// # Errors
    /// Storage errors; the session's interrupts. Changes of pages stay done.
    pub fn vacuum(
        &self,
        transaction: &Transaction,
        catalog: &mut CatalogTransaction,
        options: &VacuumOptions,
    ) -> Result<VacuumSummary> {
        let id = self.table.definition().id;
        let locked = Some(LockedTable { transaction, id });
        let summary = niwaki_vacuum::vacuum(&self.table, transaction.session(), locked, options)?;
        let known = &self.relation.stats;
        let stats = RelationStats {
            tuples: self.rows_after(&summary),
            pages: self.table.blocks()?,
            columns: known.columns.clone(),
        };
        self.store(transaction, catalog, stats)?;
        self.table.note_vacuum(self.automatic, summary.held);
        Ok(summary)
    }

    /// Estimates the number of rows after a vacuum. The row counts of skipped pages are unknown.
    /// The rows inserted and deleted since the last count are known, if that count was after the
    /// start.
    fn rows_after(&self, summary: &VacuumSummary) -> f64 {
        let known = &self.relation.stats;
        let since = self.table.maintenance_stats();
        if summary.skipped > 0 && known.tuples >= 0.0 && (since.vacuumed || since.analyzed) {
            return (known.tuples + since.rows_more as f64).max(0.0);
        }
        summary.estimate_rows((known.tuples, known.pages))
    }

    /// Runs ANALYZE: stores the statistics that the planner reads.
    ///
    /// # Errors
    /// Storage errors; the session's interrupts.
    pub fn analyze(
        &self,
        transaction: &Transaction,
        catalog: &mut CatalogTransaction,
        options: &VacuumOptions,
    ) -> Result<()> {
        let before = self.table.stats();
        let snapshot = transaction.snapshot()?;
        let found = niwaki_vacuum::analyze(&self.table, transaction, &snapshot, options)?;
        let types = self.table.definition().columns.iter();
        let columns = types.zip(&found.columns).map(|(t, c)| column_stats(t.oid, c)).collect();
        let stats = RelationStats { tuples: found.rows, pages: found.blocks, columns };
        self.store(transaction, catalog, stats)?;
        self.table.note_analyze(self.automatic, &before);
        Ok(())
    }

    /// Stores statistics if they are new.
    fn store(
        &self,
        transaction: &Transaction,
        catalog: &mut CatalogTransaction,
        stats: RelationStats,
    ) -> Result<()> {
        let state = catalog.state();
        let known = state.relation(self.relation.oid);
        let known = known.ok_or_else(|| SqlError::internal("a locked table has gone"))?;
        if known.stats != stats {
            let mut definition = known.definition.clone();
            definition.stats = stats;
            catalog.update(transaction, definition)?;
        }
        Ok(())
    }
}

/// Converts a column's statistics to their stored form: values as index keys, cut short.
fn column_stats(oid: TypeOid, found: &ColumnStatistics) -> ColumnStats {
    let key = |value: &Datum| {
        let mut bytes = Vec::new();
        encode_key(value, KeyOrder::ascending(oid), &mut bytes);
        bytes
    };
    let whole = |(value, share): &(Datum, f64)| {
        let bytes = key(value);
        (bytes.len() <= ColumnStats::KEY_BYTES).then_some((KeyBytes(bytes), *share))
    };
    let cut = |value: &Datum| {
        let mut bytes = key(value);
        bytes.truncate(ColumnStats::KEY_BYTES);
        KeyBytes(bytes)
    };
    ColumnStats {
        null_fraction: found.null_fraction,
        distinct: found.distinct,
        correlation: found.correlation,
        common: found.common.iter().filter_map(whole).collect(),
        bounds: found.histogram.iter().map(cut).collect(),
    }
}
