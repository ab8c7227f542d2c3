//! VACUUM and ANALYZE.

use niwaki_catalog::{CatalogTransaction, Oid, RelationKind};
use niwaki_sql::SqlError;
use niwaki_sql::utility::Vacuum;
use niwaki_storage::ReadAhead;
use niwaki_txn::{Transaction, WaitPolicy};
use niwaki_vacuum::VacuumOptions;

use super::{Block, Session};
use crate::Result;
use crate::maintenance::MaintainedTable;
use crate::result::ResultSink;

impl Session {
    /// How far VACUUM and index builds read ahead.
    pub(super) fn maintenance_read_ahead(&self) -> ReadAhead {
        let hot = self.settings.hot();
        ReadAhead { concurrency: hot.maintenance_io_concurrency, combine: hot.io_combine_pages }
    }

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
        let Some(table) = self.lock_table_for_maintenance(oid)? else {
            self.commit()?;
            return Ok(false);
        };
        let defaults = VacuumOptions::default();
        let options = VacuumOptions {
            freeze_min_age: if vacuum.freeze { 0 } else { defaults.freeze_min_age },
            skip_pages: !vacuum.disable_page_skipping,
            index_cleanup: vacuum.index_cleanup != Some(false),
            read_ahead: self.maintenance_read_ahead(),
            ..defaults
        };
        let (transaction, catalog) = self.transaction_and_catalog()?;
        let summary = table.vacuum(transaction, catalog, &options)?;
        if vacuum.analyze {
            table.analyze(transaction, catalog)?;
        }
        if vacuum.verbose {
            self.notice(
                out,
                "00000",
                format!(
                    "finished vacuuming \"{}\": {} pages read, {} skipped, {} versions removed, {} remain on pages read, {} line pointers freed, {} index entries removed, {} mixed roots cleared",
                    table.relation().name,
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
            if let Some(table) = self.lock_table_for_maintenance(oid)? {
                let (transaction, catalog) = self.transaction_and_catalog()?;
                table.analyze(transaction, catalog)?;
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
    fn lock_table_for_maintenance(&mut self, oid: Oid) -> Result<Option<MaintainedTable>> {
        let (transaction, catalog) = self.transaction_and_catalog()?;
        MaintainedTable::lock(transaction, catalog, oid, WaitPolicy::Block)
    }

    /// The open transaction, and what it changes in the catalog.
    fn transaction_and_catalog(&mut self) -> Result<(&Transaction, &mut CatalogTransaction)> {
        let transaction = self.transaction.as_ref();
        let transaction =
            transaction.ok_or_else(|| SqlError::internal("no transaction is open"))?;
        Ok((transaction, &mut self.catalog))
    }
}
