//! VACUUM and ANALYZE.

use std::sync::Arc;

use niwaki_catalog::{ColumnStats, KeyBytes, Oid, Relation, RelationKind, RelationStats};
use niwaki_sql::SqlError;
use niwaki_sql::utility::Vacuum;
use niwaki_txn::TableLockMode;
use niwaki_types::{Datum, KeyOrder, TypeOid, encode_key};
use niwaki_vacuum::{ColumnStatistics, VacuumOptions};

use super::{Block, Session};
use crate::Result;
use crate::result::ResultSink;

impl Session {
    /// VACUUM: each table in a transaction of its own. No transaction is open.
    pub(super) fn vacuum(&mut self, vacuum: &Vacuum, out: &mut dyn ResultSink) -> Result<()> {
        self.ensure_transaction()?;
        let tables = self.tables_of(vacuum, out)?;
        self.commit()?;
        for oid in tables {
            self.vacuum_table(oid, vacuum, out)?;
        }
        // The answer belongs to an implicit transaction again.
        debug_assert_eq!(self.block, Block::Idle);
        Ok(())
    }

    /// VACUUM of one table, in a transaction of its own. False when the table has gone.
    fn vacuum_table(
        &mut self,
        oid: Oid,
        vacuum: &Vacuum,
        out: &mut dyn ResultSink,
    ) -> Result<bool> {
        self.ensure_transaction()?;
        let Some(relation) = self.lock_table_for_maintenance(oid)? else {
            self.commit()?;
            return Ok(false);
        };
        let table = Arc::clone(table_of(&relation)?);
        let defaults = VacuumOptions::default();
        let options = VacuumOptions {
            freeze_min_age: if vacuum.freeze { 0 } else { defaults.freeze_min_age },
            skip_pages: !vacuum.disable_page_skipping,
            index_cleanup: vacuum.index_cleanup != Some(false),
            ..defaults
        };
        let summary = niwaki_vacuum::vacuum(&table, &self.control, &options)?;
        if vacuum.verbose {
            self.notice(
                out,
                "00000",
                format!(
                    "finished vacuuming \"{}\": {} pages read, {} skipped, {} versions removed, {} remain on pages read, {} line pointers freed, {} index entries removed, {} mixed roots cleared",
                    relation.name,
                    summary.pages,
                    summary.skipped,
                    summary.removed,
                    summary.remaining,
                    summary.freed,
                    summary.entries_removed,
                    summary.cleared
                ),
            );
        }
        let known = (relation.stats.tuples, relation.stats.pages);
        let rows = summary.estimate_rows(known);
        self.store_statistics(&relation, &table, vacuum.analyze, rows)?;
        self.commit()?;
        Ok(true)
    }

    /// ANALYZE, in the transaction that is open.
    pub(super) fn analyze_tables(
        &mut self,
        vacuum: &Vacuum,
        out: &mut dyn ResultSink,
    ) -> Result<()> {
        for oid in self.tables_of(vacuum, out)? {
            if let Some(relation) = self.lock_table_for_maintenance(oid)? {
                let table = Arc::clone(table_of(&relation)?);
                self.store_statistics(&relation, &table, true, 0.0)?;
            }
        }
        Ok(())
    }

    /// Tables that the statement names, or all.
    fn tables_of(&mut self, vacuum: &Vacuum, out: &mut dyn ResultSink) -> Result<Vec<Oid>> {
        if vacuum.targets.is_empty() {
            let mut all: Vec<Oid> = self.catalog.state().tables().map(|t| t.oid).collect();
            all.sort();
            return Ok(all);
        }
        let mut found = Vec::new();
        for target in &vacuum.targets {
            let relation = self.find_relation(&target.name)?;
            for column in &target.columns {
                if relation.column_position(column).is_none() {
                    return Err(SqlError::new(
                        "42703",
                        format!(
                            "column \"{column}\" of relation \"{}\" does not exist",
                            relation.name
                        ),
                    ));
                }
            }
            if relation.kind == RelationKind::Table {
                found.push(relation.oid);
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

    /// Locks a table against other maintenance; `None` when it has gone.
    fn lock_table_for_maintenance(&mut self, oid: Oid) -> Result<Option<Arc<Relation>>> {
        let transaction = self.open_transaction()?;
        transaction.manager().locks().acquire_table(
            transaction,
            niwaki_txn::TableId(u64::from(oid.0)),
            TableLockMode::ShareUpdateExclusive,
            niwaki_txn::WaitPolicy::Block,
        )?;
        Ok(self.catalog.state().relation(oid).cloned())
    }

    /// Stores how large a table is, and its indexes.
    fn store_statistics(
        &mut self,
        relation: &Relation,
        table: &niwaki_table::Table,
        analyze: bool,
        rows: f64,
    ) -> Result<()> {
        let transaction =
            self.transaction.as_ref().ok_or_else(|| SqlError::internal("no transaction"))?;
        let stats = if analyze {
            let snapshot = transaction.snapshot()?;
            let found = niwaki_vacuum::analyze(table, transaction, &snapshot)?;
            let types = table.definition().columns.iter();
            let columns = types.zip(&found.columns).map(|(t, c)| column_stats(t.oid, c)).collect();
            RelationStats { tuples: found.rows, pages: found.blocks, columns }
        } else {
            let columns = relation.stats.columns.clone();
            RelationStats { tuples: rows, pages: table.blocks()?, columns }
        };
        if relation.stats != stats {
            let mut definition = relation.definition.clone();
            definition.stats = stats;
            self.catalog.update(transaction, definition)?;
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

fn table_of(relation: &Relation) -> Result<&Arc<niwaki_table::Table>> {
    relation.table.as_ref().ok_or_else(|| SqlError::internal("a table without rows"))
}
