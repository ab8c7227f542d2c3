//! CREATE INDEX, REINDEX and DROP INDEX CONCURRENTLY: several transactions, with waits between
//! them.
//!
//! ```text
//!  defined, neither ready nor valid ──wait──> built, ready ──wait──> validated, valid
//!                    for writers without it          for writers that do not insert
//! ```
//!
//! Through all steps and waits the session keeps one lock on the table. It excludes vacuum and
//! other definitions, but not writers. Writers are kept from freeing line pointers. So until the
//! index is complete, the table is not dropped and none of its line pointers is freed.
//!
//! A writer that this session waits for may want to define something, too. Then that writer waits
//! for this session. The deadlock is found like any other.
//!
//! `Table::validate_index` explains why every version gets its index entry. It also explains why no
//! wait for old snapshots is necessary before the index becomes valid.

use std::sync::Arc;

use niwaki_catalog::{IndexDefinition, Oid, Relation, RelationKind};
use niwaki_env::seeded_bug;
use niwaki_heap::FreeingPaused;
use niwaki_sql::utility::{CreateIndex, Drop, Name, Reindex, ReindexTarget};
use niwaki_sql::{Result, SqlError};
use niwaki_system::monitor::progress::ProgressEntry;
use niwaki_table::Phase;
use niwaki_txn::{SessionLock, TableLockMode};

use crate::definer::{Definer, is_not, table_of};
use crate::generated_names;
use crate::index::new_index::NewIndex;

/// Lock on the table through all steps: keeps out vacuum and other definitions, but not writers.
const STEP: TableLockMode = TableLockMode::ShareUpdateExclusive;

/// Lock on the table while REINDEX without CONCURRENTLY builds: keeps out writers, vacuum and
/// another REINDEX, but not readers.
const BUILD: TableLockMode = TableLockMode::ShareRowExclusive;

/// Hold on the table through all steps: the lock, and the pause in freeing its line pointers.
struct Kept {
    _freeing: FreeingPaused,
    _lock: SessionLock,
}

impl Definer<'_> {
    /// Runs CREATE INDEX CONCURRENTLY. No transaction is open.
    pub(crate) fn create_index_concurrently(&mut self, spec: &CreateIndex) -> Result<()> {
        let progress = self.session.begin_progress("CREATE INDEX CONCURRENTLY");
        let made = self.step(|definer| {
            let Some(mut new) = definer.read_index(spec, STEP)? else { return Ok(None) };
            new.definition.valid = false;
            new.definition.ready = false;
            let table = new.definition.table;
            let index = definer.store_index(new)?;
            Ok(Some((table, index, definer.keep_lock(table)?)))
        })?;
        let Some((table, index, _kept)) = made else { return Ok(()) };
        progress.concerns(table, index);
        self.build_in_steps(table, index, &progress)?;
        self.step(|definer| definer.change_index(index, |i| i.valid = true))
    }

    /// Fills a stored index while other sessions write to its table. Afterwards the index is
    /// complete, and not valid yet.
    fn build_in_steps(&mut self, table: Oid, index: Oid, progress: &ProgressEntry) -> Result<()> {
        let result = self.build_steps(table, index, progress);
        result.map_err(|error| self.left_behind(index, error))
    }

    /// Adds a hint to an error about the index that earlier steps left behind.
    fn left_behind(&self, index: Oid, error: SqlError) -> SqlError {
        let state = self.session.committed().state();
        match state.relation(index) {
            Some(left) if error.hint.is_none() => error.with_hint(format!(
                "Index \"{}\" is left behind, not valid. Drop it, or rebuild it with REINDEX.",
                left.name
            )),
            _ => error,
        }
    }

    fn build_steps(&mut self, table: Oid, index: Oid, progress: &ProgressEntry) -> Result<()> {
        let writers = TableLockMode::Share;
        self.wait_for_holders(table, writers, progress, Phase::WaitingBeforeBuild)?;
        self.step(|definer| {
            // The build has a file of its own, so a failed build leaves nothing: its file goes with
            // the transaction.
            let definition = definer.current(index)?.definition.clone();
            definer.session.renew_file_beside_writers(definition)?;
            definer.fill_index_beside_writers(index, progress)?;
            definer.change_index(index, |i| i.ready = true)
        })?;
        if !seeded_bug!("index_validated_without_waiting") {
            self.wait_for_holders(table, writers, progress, Phase::WaitingBeforeValidation)?;
        }
        self.step(|definer| {
            let (relation, position) = definer.index_of(index)?;
            let stored = relation.table.as_ref().ok_or_else(|| SqlError::internal("no table"))?;
            let options = definer.build_options(Arc::clone(progress.progress()));
            let validated = stored.validate_index(definer.transaction()?, position, &options);
            validated.map_err(|error| definer.not_built(error, &relation, index))
        })
    }

    /// Runs DROP INDEX CONCURRENTLY. No transaction is open.
    pub(crate) fn drop_index_concurrently(&mut self, spec: &Drop) -> Result<()> {
        let refused = |message: &str| Err(SqlError::new("0A000", message));
        let [name] = spec.names.as_slice() else {
            return refused("DROP INDEX CONCURRENTLY does not support dropping multiple objects");
        };
        if spec.cascade {
            return refused("DROP INDEX CONCURRENTLY does not support CASCADE");
        }
        let progress = self.session.begin_progress("DROP INDEX CONCURRENTLY");
        let found = self.step(|definer| {
            let modes = [STEP, STEP];
            let found = definer.lock_owned(name, "index", modes, spec.if_exists, table_of)?;
            let Some(relation) = found else { return Ok(None) };
            let table = definer.may_drop_index(&relation, STEP)?;
            definer.change_index(relation.oid, |i| i.valid = false)?;
            Ok(Some((table, relation.oid, definer.keep_lock(table)?)))
        })?;
        match found {
            Some((table, index, _kept)) => {
                progress.concerns(table, index);
                self.drop_in_steps(table, index, &progress)
            }
            None => Ok(()),
        }
    }

    /// Removes an index that is not valid any more, while other sessions may still use it.
    fn drop_in_steps(&mut self, table: Oid, index: Oid, progress: &ProgressEntry) -> Result<()> {
        let result = self.drop_steps(table, index, progress);
        result.map_err(|error| self.left_behind(index, error))
    }

    fn drop_steps(&mut self, table: Oid, index: Oid, progress: &ProgressEntry) -> Result<()> {
        let all = TableLockMode::AccessExclusive;
        // Running readers need an up-to-date index until they end …
        self.wait_for_holders(table, all, progress, Phase::WaitingBeforeDead)?;
        self.step(|definer| definer.change_index(index, |i| i.ready = false))?;
        // … and writers need its file until they end.
        self.wait_for_holders(table, all, progress, Phase::WaitingBeforeDrop)?;
        self.step(|definer| definer.remove_with_files(index))
    }

    /// Runs a REINDEX that needs transactions of its own. No transaction is open.
    pub(crate) fn reindex_in_steps(&mut self, spec: &Reindex) -> Result<()> {
        if !spec.concurrently {
            for table in self.step(|definer| definer.tables_to_reindex(&spec.target))? {
                self.step(|definer| definer.reindex_table(table, spec.verbose))?;
            }
            return Ok(());
        }
        let indexes = self.step(|definer| definer.indexes_to_reindex(&spec.target))?;
        for (table, index) in indexes {
            self.reindex_concurrently(table, index, spec.verbose)?;
        }
        Ok(())
    }

    /// Builds a copy of an index beside it, gives the index the copy's file, and drops the old one.
    fn reindex_concurrently(&mut self, table: Oid, index: Oid, verbose: bool) -> Result<()> {
        let progress = self.session.begin_progress("REINDEX CONCURRENTLY");
        let made = self.step(|definer| {
            definer.lock(table, STEP)?;
            // The index may have been dropped since the statement began.
            let Some(own) = definer.state().relation(index).cloned() else { return Ok(None) };
            let own = own.definition.clone();
            let Some(of) = own.index else { return Err(SqlError::internal("no index")) };
            let state = definer.state();
            let name =
                generated_names::free_name(&state, own.schema, &[], &own.name, None, "ccnew");
            let definition = IndexDefinition {
                constraint: None,
                part_of: None,
                valid: false,
                ready: false,
                ..of
            };
            let copy = definer.store_index(NewIndex { name, definition, options: own.options })?;
            Ok(Some((copy, definer.keep_lock(table)?)))
        })?;
        let Some((copy, _kept)) = made else { return Ok(()) };
        progress.concerns(table, copy);
        self.build_in_steps(table, copy, &progress)?;
        let pages = self.step(|definer| {
            let pages = [definer.index_pages(copy)?, definer.index_pages(index)?];
            definer.exchange_files(index, copy)?;
            Ok(pages)
        })?;
        self.drop_in_steps(table, copy, &progress)?;
        if verbose {
            let state = self.session.committed().state();
            let name = state.relation(index).map(|r| (r.schema, r.name.clone()));
            let (schema, name) = name.unwrap_or_default();
            let message =
                format!("index \"{}.{name}\" was reindexed", self.session.schema_name(schema));
            self.session.info(self.out, message, Some(page_counts(pages)));
        }
        Ok(())
    }

    /// Runs one step in a transaction of its own.
    fn step<T>(&mut self, run: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.session.ensure_transaction()?;
        // The session has refused what READ ONLY does not allow. REINDEX changes no row.
        self.transaction()?.set_read_only(false);
        let result = run(self);
        match result {
            Ok(value) => self.session.end_implicit().map(|()| value),
            Err(error) => {
                self.session.undo_implicit();
                Err(error)
            }
        }
    }

    /// Waits for the transactions that now hold the table in a mode that conflicts with `mode`.
    fn wait_for_holders(
        &mut self,
        table: Oid,
        mode: TableLockMode,
        progress: &ProgressEntry,
        phase: Phase,
    ) -> Result<()> {
        progress.progress().begin(phase);
        self.session.ensure_transaction()?;
        let transaction = self.transaction()?;
        let waited = transaction.manager().locks().wait_for_holders(
            transaction,
            self.session.table_id(table),
            mode,
            &mut |total, left, backend| {
                progress.progress().waiting(total as u64, left as u64, backend);
            },
        );
        match waited {
            Ok(()) => self.session.end_implicit(),
            Err(error) => {
                self.session.undo_implicit();
                Err(error.into())
            }
        }
    }
}

impl Definer<'_> {
    /// Gives the index the file of its copy, which is complete. The copy gets the old file. Writers
    /// keep the copy up while readers may still use it, and it is not valid.
    fn exchange_files(&mut self, index: Oid, copy: Oid) -> Result<()> {
        let mut own = self.definition_to_change(index)?;
        let mut other = self.definition_to_change(copy)?;
        std::mem::swap(&mut own.file, &mut other.file);
        other.name =
            generated_names::free_name(&self.state(), own.schema, &[], &own.name, None, "ccold");
        if let (Some(own), Some(other)) = (&mut own.index, &mut other.index) {
            // The old file keeps taking entries only if it took entries before.
            other.ready = own.ready;
            other.valid = false;
            own.ready = true;
            own.valid = true;
        }
        self.update(own)?;
        self.update(other)
    }

    /// Returns the tables that REINDEX of a schema or database visits.
    fn tables_to_reindex(&mut self, target: &ReindexTarget) -> Result<Vec<Oid>> {
        let state = self.state();
        let schema = match target {
            ReindexTarget::Schema(name) => {
                let missing = || SqlError::undefined_schema(name);
                Some(state.schema_by_name(name).ok_or_else(missing)?.oid)
            }
            _ => None,
        };
        let mut tables: Vec<Oid> = state
            .with_rows()
            .filter(|t| schema.is_none_or(|schema| t.schema == schema))
            // A partitioned table has no file to rebuild.
            .filter(|t| !t.is_partitioned())
            .map(|t| t.oid)
            .collect();
        tables.sort();
        Ok(tables)
    }

    /// Returns the indexes that REINDEX CONCURRENTLY visits, each with its table.
    fn indexes_to_reindex(&mut self, target: &ReindexTarget) -> Result<Vec<(Oid, Oid)>> {
        let tables = match target {
            ReindexTarget::Index(name) => {
                let (index, table) = self.lock_index(name, [STEP, STEP], index_to_reindex)?;
                return Ok(vec![(table, index.oid)]);
            }
            ReindexTarget::Table(name) if self.session.find_relation(name)?.is_system() => {
                let message = "cannot reindex system catalogs concurrently";
                return Err(SqlError::new("0A000", message));
            }
            ReindexTarget::Table(name) => vec![self.table_to_reindex(name, STEP)?.oid],
            _ => self.tables_to_reindex(target)?,
        };
        let mut indexes = Vec::new();
        for oid in tables {
            let Some(table) = self.state().relation(oid).cloned() else { continue };
            for index in &table.indexes {
                if index.definition.valid {
                    indexes.push((oid, index.oid));
                    continue;
                }
                let schema = self.session.schema_name(table.schema);
                let message = format!(
                    "cannot reindex invalid index \"{schema}.{}\" concurrently, skipping",
                    index.name
                );
                self.session.warning(self.out, "0A000", message);
            }
        }
        Ok(indexes)
    }

    fn table_to_reindex(&mut self, name: &Name, mode: TableLockMode) -> Result<Arc<Relation>> {
        let relation = self.session.lock_by_name(name, mode)?;
        if !relation.kind.has_rows() {
            return Err(SqlError::new(
                "42809",
                format!("\"{}\" is not a table or materialized view", relation.name),
            ));
        }
        refuse_partitioned(&relation)?;
        Ok(relation)
    }

    /// Runs REINDEX of one index or one table, in the open transaction.
    ///
    /// Reading goes on while an index is built, also by means of the index, whose old file stays
    /// until the end. Writing does not go on. Only at the end is the table locked against all other
    /// sessions: plans that read an index lock its table, and the old file must not vanish under
    /// them. The first lock excludes itself. So of two REINDEX of a table, one waits before it has
    /// done anything.
    pub(crate) fn reindex(&mut self, spec: &Reindex) -> Result<()> {
        match &spec.target {
            ReindexTarget::Index(name) => {
                let all = TableLockMode::AccessExclusive;
                let (index, table) = self.lock_index(name, [BUILD, all], index_to_reindex)?;
                let of = self.current(table)?;
                self.refuse_pending(&of, "REINDEX INDEX")?;
                self.reindex_one(index.oid, spec.verbose)?;
                self.lock(table, all)
            }
            ReindexTarget::Table(name) => {
                let table = self.table_to_reindex(name, BUILD)?;
                self.reindex_table(table.oid, spec.verbose)
            }
            _ => Err(SqlError::internal("REINDEX of this needs transactions of its own")),
        }
    }

    fn reindex_table(&mut self, oid: Oid, verbose: bool) -> Result<()> {
        self.lock(oid, BUILD)?;
        let Some(table) = self.state().relation(oid).cloned() else { return Ok(()) };
        self.refuse_pending(&table, "REINDEX TABLE")?;
        for index in &table.indexes {
            self.reindex_one(index.oid, verbose)?;
        }
        self.lock(oid, TableLockMode::AccessExclusive)
    }

    /// Gives an index a new file and fills it. A rollback restores the old file.
    fn reindex_one(&mut self, oid: Oid, verbose: bool) -> Result<()> {
        let before = self.index_pages(oid)?;
        let definition = self.definition_to_change(oid)?;
        // A new, empty one. The old one goes when the transaction commits.
        self.session.renew_file(definition)?;
        let progress = self.session.begin_progress("REINDEX");
        self.fill_index(oid, &progress)?;
        self.change_index(oid, |index| (index.ready, index.valid) = (true, true))?;
        if verbose {
            let message = format!("index \"{}\" was reindexed", self.current(oid)?.name);
            let pages = [self.index_pages(oid)?, before];
            self.session.info(self.out, message, Some(page_counts(pages)));
        }
        Ok(())
    }

    /// Pages of an index's file.
    fn index_pages(&mut self, oid: Oid) -> Result<u32> {
        let (table, position) = self.index_of(oid)?;
        let stored = table.table.as_ref().ok_or_else(|| SqlError::internal("no table"))?;
        Ok(stored.index(position).blocks().map_err(niwaki_table::Error::from)?)
    }

    /// Turns the step's lock on the table into the session's lock, before other sessions see the
    /// step's definitions.
    fn keep_lock(&mut self, table: Oid) -> Result<Kept> {
        let kept = self.transaction()?.keep_table_lock(self.session.table_id(table), STEP);
        let lock = kept.ok_or_else(|| SqlError::internal("the table is not locked"))?;
        let relation = self.current(table)?;
        let stored = relation.table.as_ref().ok_or_else(|| SqlError::internal("no table"))?;
        Ok(Kept { _freeing: stored.heap().pause_freeing().forgetting(), _lock: lock })
    }
}

/// Returns the table of an index that REINDEX INDEX may name.
fn index_to_reindex(found: &Relation) -> Result<Oid> {
    let table = table_of(found).ok_or_else(|| is_not(found, RelationKind::Index))?;
    refuse_partitioned(found)?;
    Ok(table)
}

/// DETAIL of what REINDEX (VERBOSE) tells.
fn page_counts([now, before]: [u32; 2]) -> String {
    format!("It has {now} pages now, and had {before}.")
}

/// Fails with 0A000 for REINDEX of a partitioned table or index, which has no entries.
fn refuse_partitioned(relation: &Relation) -> Result<()> {
    match relation.letter() {
        "p" | "I" => Err(SqlError::unsupported("REINDEX of a partitioned table or index")),
        _ => Ok(()),
    }
}
