//! VACUUM and ANALYZE of one table, in a transaction that the caller opens and commits: for statements and for those who
//! maintain tables without one.

use std::sync::Arc;

use niwaki_catalog::{CatalogTransaction, ColumnStats, KeyBytes, Oid, Relation, RelationStats};
use niwaki_sql::SqlError;
use niwaki_table::Table;
use niwaki_txn::{TableId, TableLockMode, Transaction, WaitPolicy};
use niwaki_types::{Datum, KeyOrder, TypeOid, encode_key};
use niwaki_vacuum::{ColumnStatistics, LockedTable, VacuumOptions, VacuumSummary};

use crate::Result;

/// A table that is held against other maintenance, until the transaction ends.
#[derive(Debug)]
pub(crate) struct MaintainedTable {
    relation: Arc<Relation>,
    table: Arc<Table>,
    /// Nobody asked for it.
    automatic: bool,
}

/// Takes the lock of those who maintain a table, SHARE UPDATE EXCLUSIVE; false under [`WaitPolicy::Skip`] when it is not free.
///
/// # Errors
/// Those of the wait: deadlock, the session's interrupts, 55P03.
pub(crate) fn lock_to_maintain(
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
    /// Locks a table in SHARE UPDATE EXCLUSIVE mode. `None` when it has gone, and under [`WaitPolicy::Skip`] when it is
    /// not free.
    ///
    /// # Errors
    /// Those of the wait: deadlock, the session's interrupts, 55P03.
    pub(crate) fn lock(
        transaction: &Transaction,
        catalog: &mut CatalogTransaction,
        oid: Oid,
        policy: WaitPolicy,
    ) -> Result<Option<Self>> {
        let id = catalog.catalog().table_number(oid);
        let locked = lock_to_maintain(transaction, id, policy)?;
        // As it is now that the lock is held.
        let found = catalog.state().relation(oid).filter(|_| locked).cloned();
        Ok(found.and_then(|relation| {
            let table = relation.table.clone()?;
            Some(Self { relation, table, automatic: false })
        }))
    }

    /// The same, for autovacuum: it counts as such.
    pub(crate) fn automatic(self) -> Self {
        Self { automatic: true, ..self }
    }

    /// The table, as it was when it was locked.
    pub(crate) fn relation(&self) -> &Arc<Relation> {
        &self.relation
    }

    /// VACUUM: removes what no snapshot sees, and stores how large the table is, which
    /// [`MaintainedTable::analyze`] may correct.
    ///
    /// # Errors
    /// Storage's; the session's interrupts. What was done to pages stays done.
    pub(crate) fn vacuum(
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

    /// How many rows there are after a vacuum. Of pages that it left out nobody can say how many rows each has; but what was
    /// inserted and deleted since the rows were counted is known, if that was after the start.
    fn rows_after(&self, summary: &VacuumSummary) -> f64 {
        let known = &self.relation.stats;
        let since = self.table.maintenance_stats();
        if summary.skipped > 0 && known.tuples >= 0.0 && (since.vacuumed || since.analyzed) {
            return (known.tuples + since.rows_more as f64).max(0.0);
        }
        summary.estimate_rows((known.tuples, known.pages))
    }

    /// ANALYZE: stores what the planner asks about the table's contents.
    ///
    /// # Errors
    /// Storage's; the session's interrupts.
    pub(crate) fn analyze(
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

    /// Stores statistics, if they say something new.
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

/// What the catalog keeps of a column's statistics: values as index keys, cut short.
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
