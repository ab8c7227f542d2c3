//! Work of an autovacuum worker on one table: VACUUM, then ANALYZE.

use std::sync::Arc;
use std::time::Duration;

use niwaki_catalog::{CatalogState, CatalogTransaction, Oid, Relation};
use niwaki_directory::open_database::OpenDatabase;
use niwaki_env::sync::Mutex;
use niwaki_sql::{Result, SqlError};
use niwaki_system::monitor::activity::{Activity, BackendType, State};
use niwaki_system::monitor::progress::Vacuuming;
use niwaki_system::names::schema_name;
use niwaki_txn::{BeginOptions, Durability, SessionControl, TableId, Transaction, WaitPolicy};
use niwaki_vacuum::{VacuumOptions, VacuumSummary};

use crate::autovacuum::need::Need;
use crate::autovacuum::rounds::Autovacuum;
use crate::maintenance::MaintainedTable;
use crate::vacuum_options::of_autovacuum;

/// Report of autovacuum's work on one table.
#[derive(Clone, Debug)]
pub struct AutovacuumReport {
    /// Database of the table.
    pub database: String,
    /// Schema of the table.
    pub schema: String,
    /// Name of the table.
    pub table: String,
    /// True when the table was vacuumed.
    pub vacuumed: bool,
    /// True when the table was analyzed.
    pub analyzed: bool,
    /// The error that ended the work, or part of it. A later round tries again.
    pub error: Option<SqlError>,
}

/// A session of an autovacuum worker. As long as it lives, `pg_stat_activity` shows it.
#[derive(Debug)]
pub(super) struct Worker<'a> {
    autovacuum: &'a Autovacuum,
    pub(super) session: Arc<SessionControl>,
    activity: Arc<Mutex<Activity>>,
}

impl<'a> Worker<'a> {
    /// Registers the session, which gives way to transactions that wait for its locks.
    ///
    /// # Errors
    /// Too many sessions (53300).
    pub(super) fn new(autovacuum: &'a Autovacuum) -> Result<Self> {
        let session = autovacuum.engine.transactions().register_session()?;
        session.give_way();
        let kind = BackendType::AutovacuumWorker;
        let activity = autovacuum.activities.add(session.backend(), kind);
        Ok(Self { autovacuum, session, activity })
    }

    /// Works on the tables of the queue until the queue is empty or the session is told to end.
    /// Passes each table's report to `told`.
    pub(super) fn run(&self, told: &mut dyn FnMut(AutovacuumReport)) {
        while let Some(taken) = self.autovacuum.take(&self.session) {
            if let Some(report) = self.maintain(taken.table) {
                told(report);
            }
            if self.session.is_terminated() {
                return;
            }
        }
    }

    /// Does the work that a table needs. Returns `None` when the need is gone or the lock is not
    /// free.
    fn maintain(&self, table: TableId) -> Option<AutovacuumReport> {
        let clock = &self.autovacuum.engine.storage().env().clock;
        let began = clock.monotonic();
        let (database, relation) = self.autovacuum.databases.table(table)?;
        let oid = relation.oid;
        self.activity.lock().database = Some(database.oid());
        let (need, done) = (None, Done::default());
        let mut work = Work { worker: self, database: &database, table, oid, need, done };
        let result = work.run();
        let Work { done, .. } = work;
        {
            let mut activity = self.activity.lock();
            (activity.state, activity.database) = (State::Idle, None);
            activity.state_since_us = Some(clock.now_unix_us());
        }
        let failed = matches!(&result, Err(error) if !is_cancelled(error));
        let finished = result.is_ok() && !done.busy;
        self.autovacuum.note_end(table, finished, failed);
        let relation = done.relation?;
        let took = clock.monotonic().saturating_sub(began);
        self.log(&database, &relation, done.summary.as_ref(), took, result.as_ref().err());
        let state = database.catalog().state_arc();
        let report = AutovacuumReport {
            database: database.name(),
            schema: schema_name(&state, relation.schema),
            table: relation.name.clone(),
            vacuumed: done.summary.is_some(),
            analyzed: done.analyzed,
            error: result.err(),
        };
        (report.vacuumed || report.analyzed || report.error.is_some()).then_some(report)
    }

    fn log(
        &self,
        database: &OpenDatabase,
        relation: &Relation,
        summary: Option<&VacuumSummary>,
        took: Duration,
        error: Option<&SqlError>,
    ) {
        let state = database.catalog().state_arc();
        let name = format!("{}.{}", database.name(), qualified_name(&state, relation));
        if let Some(error) = error {
            let (code, why) = (error.sqlstate, &error.message);
            let line = format!("automatic vacuum of table \"{name}\": {code}: {why}");
            return self.autovacuum.log.write(&line);
        }
        let min = self.autovacuum.settings.log_min(&relation.options);
        if min.is_none_or(|min| took < min) {
            return;
        }
        let seconds = took.as_millis() as f64 / 1000.0;
        self.autovacuum.log.write(&match summary {
            None => format!("automatic analyze of table \"{name}\": {seconds} s"),
            Some(done) => format!(
                "automatic vacuum of table \"{name}\": {} pages read, {} skipped, {} versions removed, {} kept for open snapshots, {} index entries removed, {} pages truncated, {seconds} s",
                done.pages, done.skipped, done.removed, done.held, done.entries_removed,
                done.cut + done.values_cut,
            ),
        });
    }
}

impl Drop for Worker<'_> {
    fn drop(&mut self) {
        self.autovacuum.activities.remove(self.session.backend(), &self.activity);
    }
}

/// Results of the work on a table so far.
#[derive(Debug, Default)]
struct Done {
    /// The table, if its lock was free.
    relation: Option<Arc<Relation>>,
    /// Another transaction held the lock.
    busy: bool,
    summary: Option<VacuumSummary>,
    analyzed: bool,
}

struct Work<'w, 'a> {
    worker: &'w Worker<'a>,
    database: &'w OpenDatabase,
    table: TableId,
    oid: Oid,
    /// The remaining needs, once decided.
    need: Option<Need>,
    done: Done,
}

impl Work<'_, '_> {
    /// Runs VACUUM and ANALYZE in a transaction each. When ANALYZE is cancelled, VACUUM stays done.
    fn run(&mut self) -> Result<()> {
        // Ends: each step takes away one of two needs, or finds the table busy or gone.
        loop {
            self.step()?;
            if !self.need.is_some_and(|need| need.is_any()) {
                return Ok(());
            }
        }
    }

    fn step(&mut self) -> Result<()> {
        let autovacuum = self.worker.autovacuum;
        let (session, env) = (&self.worker.session, autovacuum.engine.storage().env());
        // Requests to cancel that came during the work on another table no longer count.
        session.begin_statement(None);
        let now_us = env.clock.now_unix_us();
        session.statement_began(now_us);
        let options = BeginOptions { started_us: Some(now_us), ..BeginOptions::default() };
        let transaction = autovacuum.engine.transactions().begin(session, options)?;
        let mut catalog = CatalogTransaction::new(Arc::clone(self.database.catalog()));
        let result = self.locked(&transaction, &mut catalog);
        let committed = result.and_then(|()| {
            match catalog.take_for_commit() {
                None => transaction.commit(Durability::Async)?,
                // Other transactions see the statistics before they can get the lock.
                Some(changes) => {
                    transaction.commit_then(Durability::Async, || changes.publish())?
                }
            };
            catalog.committed();
            Ok(())
        });
        committed.map_err(|error| {
            if is_cancelled(&error) {
                SqlError::new("57014", "canceling autovacuum task")
            } else {
                error
            }
        })
    }

    fn locked(
        &mut self,
        transaction: &Transaction,
        catalog: &mut CatalogTransaction,
    ) -> Result<()> {
        let autovacuum = self.worker.autovacuum;
        let Some(table) = MaintainedTable::lock(transaction, catalog, self.oid, WaitPolicy::Skip)?
        else {
            self.done.busy = catalog.state().relation(self.oid).is_some();
            self.need = None;
            return Ok(());
        };
        let table = table.automatic();
        // Decided only once, because VACUUM stores the size, and the size may be the reason for
        // ANALYZE.
        let need = if let Some(need) = self.need {
            need
        } else {
            let need = autovacuum.still_needs(self.table, table.relation());
            self.show(table.relation(), &need);
            need
        };
        if need.is_any() {
            self.done.relation = Some(Arc::clone(table.relation()));
        }
        if need.vacuum.is_some() {
            let (backend, database) = (transaction.session().backend(), self.database.oid());
            let about = Vacuuming { backend, database, table: self.oid };
            let entry = autovacuum.vacuums.begin(about);
            let options = VacuumOptions {
                progress: Arc::clone(entry.progress()),
                ..of_autovacuum(&autovacuum.options, &table.relation().options)
            };
            let summary = table.vacuum(transaction, catalog, &options)?;
            autovacuum.note_held(self.table, summary.held);
            self.done.summary = Some(summary);
            self.need = Some(Need { vacuum: None, ..need });
        } else if need.analyze.is_some() {
            let options = of_autovacuum(&autovacuum.options, &table.relation().options);
            table.analyze(transaction, catalog, &options)?;
            self.done.analyzed = true;
            self.need = None;
        }
        Ok(())
    }

    fn show(&self, relation: &Relation, need: &Need) {
        let words: Vec<&str> = [(need.vacuum, "VACUUM"), (need.analyze, "ANALYZE")]
            .iter()
            .filter_map(|(needed, word)| needed.map(|_| *word))
            .collect();
        let state = self.database.catalog().state_arc();
        let name = qualified_name(&state, relation);
        let now_us = self.worker.autovacuum.engine.storage().env().clock.now_unix_us();
        let mut activity = self.worker.activity.lock();
        activity.begin(&format!("autovacuum: {} {name}", words.join(" ")), now_us);
    }
}

fn qualified_name(state: &CatalogState, relation: &Relation) -> String {
    format!("{}.{}", schema_name(state, relation.schema), relation.name)
}

fn is_cancelled(error: &SqlError) -> bool {
    error.sqlstate == "57014"
}
