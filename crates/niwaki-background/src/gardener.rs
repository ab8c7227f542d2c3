//! The gardener's thread, which cleans up in rounds the tables whose writers have gone
//! (niwaki-table's `rounds.rs`).
//!
//! The rounds visit only changed tables, until nothing is left to do in them. The cost of an idle
//! database therefore does not depend on its number of tables.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use niwaki_directory::databases::Databases;
use niwaki_env::hash::HashMap;
use niwaki_env::sync::Signal;
use niwaki_env::sync::thread::{self, JoinHandle};
use niwaki_sql::{Result, SqlError};
use niwaki_storage::Lsn;
use niwaki_table::{Engine, Round, Rounds};
use niwaki_txn::{BeginOptions, Durability, SessionControl, TableId, TableLockMode, WaitPolicy};

/// Pause between rounds when more work is waiting.
const SHORT: Duration = Duration::from_millis(50);
/// Pause between rounds when no work is waiting.
const LONG: Duration = Duration::from_millis(500);
/// Time that a page must stay unchanged before the thread takes it for quiet. The real wait is up
/// to twice that.
const QUIET: Duration = Duration::from_secs(1);
/// Most numbers of changed tables that no catalog knows yet. Their transactions have not committed,
/// or never will.
const UNKNOWN_MAX: usize = 1024;

/// Cleans up the tables of all databases in rounds.
pub struct Gardener {
    engine: Arc<Engine>,
    databases: Arc<Databases>,
    session: Arc<SessionControl>,
    /// Tables with work to do, by number (`table_number`).
    tables: HashMap<TableId, Visited>,
    /// Changed tables that no catalog has.
    unknown: BTreeSet<TableId>,
    quiet_for: Duration,
    /// End of the log one quiet period ago or longer. A page without later changes is quiet.
    quiet: Lsn,
    /// A later end of the log, with the time on the monotonic clock at which it was read.
    marked: (Duration, Lsn),
}

/// State of a table that the rounds visit.
#[derive(Debug, Default)]
struct Visited {
    rounds: Rounds,
    /// The last round found nothing left to do. Only a second such round in a row is the last one.
    /// A change may happen while the table is being taken from the list of changed tables. Such a
    /// change may not have put the table on the list again.
    rested: bool,
}

/// Outcome of a visit.
enum Visit {
    /// The visit made a round.
    Made(Round),
    /// Another transaction holds the table's lock.
    Locked,
}

impl Gardener {
    /// Creates a gardener for these databases. A page is visited when it stays unchanged between
    /// two rounds that are `quiet_for` apart.
    ///
    /// # Errors
    /// Too many sessions (53300).
    pub fn new(
        engine: Arc<Engine>,
        databases: Arc<Databases>,
        quiet_for: Duration,
    ) -> Result<Self> {
        let session = engine.transactions().register_session()?;
        let storage = engine.storage();
        let marked = (storage.env().clock.monotonic(), storage.wal().insert_lsn());
        let (tables, unknown, quiet) = (HashMap::default(), BTreeSet::new(), Lsn(0));
        Ok(Self { engine, databases, session, tables, unknown, quiet_for, quiet, marked })
    }

    /// Makes one round over each table that may need one and that no transaction locks against
    /// writers. Returns whether the next round should come soon.
    ///
    /// # Errors
    /// The first storage error of a table. The other tables are visited all the same.
    pub fn round(&mut self) -> Result<bool> {
        let storage = self.engine.storage();
        let now = storage.env().clock.monotonic();
        if now.saturating_sub(self.marked.0) >= self.quiet_for {
            self.quiet = self.marked.1;
            self.marked = (now, storage.wal().insert_lsn());
        }
        self.find_changed();
        let (mut soon, mut result) = (false, Ok(()));
        for number in self.tables.keys().copied().collect::<Vec<_>>() {
            match self.visit(number) {
                Ok(Visit::Locked) => {}
                Ok(Visit::Made(round)) => {
                    soon |= round.soon;
                    if let Some(visited) = self.tables.get_mut(&number) {
                        let rested = std::mem::replace(&mut visited.rested, round.is_idle);
                        if rested && round.is_idle {
                            self.tables.remove(&number);
                        }
                    }
                }
                // The next round visits the table again and reports the error again.
                Err(error) => result = result.and(Err(error)),
            }
        }
        result.map(|()| soon)
    }

    /// Takes the changed tables over from the engine, and forgets the tables that are gone.
    fn find_changed(&mut self) {
        let databases = &self.databases;
        self.tables.retain(|table, _| databases.table(*table).is_some());
        let changed = self.engine.take_changed_tables();
        for table in std::mem::take(&mut self.unknown).into_iter().chain(changed) {
            if databases.table(table).is_some() {
                let visited = self.tables.entry(table).or_default();
                visited.rounds.changed();
                visited.rested = false;
            } else {
                self.unknown.insert(table);
            }
        }
        // The oldest tables have waited longest without a catalog entry.
        while self.unknown.len() > UNKNOWN_MAX {
            self.unknown.pop_first();
        }
    }

    /// Makes one round over a table, if it still exists and no other transaction blocks its lock.
    fn visit(&mut self, number: TableId) -> Result<Visit> {
        let transactions = self.engine.transactions();
        let transaction = transactions.begin(&self.session, BeginOptions::default())?;
        let mut visit = Visit::Locked;
        if transactions.locks().acquire_table(
            &transaction,
            number,
            TableLockMode::RowExclusive,
            WaitPolicy::Skip,
        )? {
            // Read the catalog only now, while the lock is held.
            let found = self.databases.table(number);
            if let Some(table) = found.as_ref().and_then(|(_, table)| table.table.as_ref()) {
                let visited = self.tables.entry(number).or_default();
                visit = Visit::Made(table.round(&self.session, &mut visited.rounds, self.quiet)?);
            }
        }
        transaction.commit(Durability::Async)?;
        Ok(visit)
    }
}

/// Handle of the running thread. Dropping the handle stops the thread.
pub struct GardenerThread {
    signal: Arc<Signal>,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for GardenerThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GardenerThread").finish_non_exhaustive()
    }
}

impl GardenerThread {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system has no thread to give (53000); too many sessions (53300).
    pub fn start(engine: Arc<Engine>, databases: Arc<Databases>) -> Result<Self> {
        let mut gardener = Gardener::new(engine, databases, QUIET)?;
        let signal = Arc::<Signal>::default();
        let told = Arc::clone(&signal);
        let storage = Arc::clone(gardener.engine.storage());
        let body = move || {
            let mut pause = LONG;
            // Ends: `wait` returns true when the handle is dropped.
            while !told.wait(pause) {
                let soon = storage.attempt("the gardener", || match gardener.round() {
                    // The database is being closed.
                    Err(error) if error.sqlstate == "57P01" => Ok(false),
                    round => round,
                });
                pause = if soon == Some(true) { SHORT } else { LONG };
            }
        };
        let thread = thread::spawn_named("niwaki-gardener", body).map_err(|error| {
            SqlError::new("53000", format!("could not start a background thread: {error}"))
        })?;
        Ok(Self { signal, thread: Some(thread) })
    }
}

impl Drop for GardenerThread {
    fn drop(&mut self) {
        self.signal.set_stop(true);
        if let Some(thread) = self.thread.take() {
            // The thread returns no result.
            let _ = thread.join();
        }
    }
}
