//! The gardener's own thread: rounds over the tables whose writers have gone (niwaki-table's `rounds.rs`).
//!
//! Only tables that were changed are visited, until nothing is left to do in them: what an idle database costs does not
//! depend on how many tables it has.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use niwaki_env::hash::HashMap;
use niwaki_env::sync::Signal;
use niwaki_env::sync::thread::{self, JoinHandle};
use niwaki_storage::Lsn;
use niwaki_table::{Engine, Round, Rounds};
use niwaki_txn::{BeginOptions, Durability, SessionControl, TableId, TableLockMode, WaitPolicy};

use crate::databases::Databases;
use crate::{Result, SqlError};

/// Between rounds, when there is more to do and when there is not.
const SHORT: Duration = Duration::from_millis(50);
const LONG: Duration = Duration::from_millis(500);
/// For the thread, a page is quiet when nobody has changed it for so long, twice that at most.
const QUIET: Duration = Duration::from_secs(1);
/// So many tables that were changed before anybody knows them are remembered: those of transactions that have not committed,
/// or never will.
const UNKNOWN_MAX: usize = 1024;

/// Goes round the tables of all databases.
pub(crate) struct Gardener {
    engine: Arc<Engine>,
    databases: Arc<Databases>,
    session: Arc<SessionControl>,
    /// Tables with something to do, by number (`table_number`).
    tables: HashMap<TableId, Visited>,
    /// Tables that were changed, and are in no catalog.
    unknown: BTreeSet<TableId>,
    quiet_for: Duration,
    /// Where the log ended, a while ago, and when that was on the monotonic clock.
    quiet: Lsn,
    marked: (Duration, Lsn),
}

/// What is known of a table that is visited.
#[derive(Debug, Default)]
struct Visited {
    rounds: Rounds,
    /// The last round found nothing left to do. If the next one says the same, it was the last: a change that was made when
    /// the table was taken from the list of those changed may not have come to it again.
    rested: bool,
}

/// What became of a visit.
enum Visit {
    /// There was a round.
    Made(Round),
    /// Somebody is in the way.
    Locked,
}

impl Gardener {
    /// For these tables. A page is visited when nobody has changed it between two rounds that are so far apart.
    ///
    /// # Errors
    /// Too many sessions (53300).
    pub(crate) fn new(
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

    /// One round over each table that may need one and that nobody holds against writers. Whether the next should come soon.
    ///
    /// # Errors
    /// Storage's, of the first table that had one; the others were visited all the same.
    pub(crate) fn round(&mut self) -> Result<bool> {
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
                        let rested = std::mem::replace(&mut visited.rested, round.rests);
                        if rested && round.rests {
                            self.tables.remove(&number);
                        }
                    }
                }
                // It is visited again: then the error is told again.
                Err(error) => result = result.and(Err(error)),
            }
        }
        result.map(|()| soon)
    }

    /// Takes over the tables that were changed, and leaves those that have gone.
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
        // The oldest have waited longest in vain.
        while self.unknown.len() > UNKNOWN_MAX {
            self.unknown.pop_first();
        }
    }

    /// One round over a table, if it is still there and nobody is in the way.
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
            // As it is now that the lock is held.
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

/// The running thread; it ends with this handle.
pub(crate) struct GardenerThread {
    signal: Arc<Signal>,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for GardenerThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GardenerThread").finish_non_exhaustive()
    }
}

impl GardenerThread {
    /// Starts it.
    ///
    /// # Errors
    /// The system has no thread to give (53000); too many sessions (53300).
    pub(crate) fn start(engine: Arc<Engine>, databases: Arc<Databases>) -> Result<Self> {
        let mut gardener = Gardener::new(engine, databases, QUIET)?;
        let signal = Arc::<Signal>::default();
        let told = Arc::clone(&signal);
        let storage = Arc::clone(gardener.engine.storage());
        let body = move || {
            let mut pause = LONG;
            // Ends when the handle says stop.
            while !told.wait(pause) {
                let soon = storage.attempt("the gardener", || match gardener.round() {
                    // The database closes.
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
            // It says nothing when it ends.
            let _ = thread.join();
        }
    }
}
