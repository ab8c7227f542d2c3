//! The gardener's own thread: rounds over the tables whose writers have gone (niwaki-table's `rounds.rs`).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use niwaki_catalog::{Catalog, Oid};
use niwaki_env::sync::Signal;
use niwaki_env::sync::thread::{self, JoinHandle};
use niwaki_storage::Lsn;
use niwaki_table::{Engine, Rounds};
use niwaki_txn::{BeginOptions, Durability, SessionControl, TableId, TableLockMode, WaitPolicy};

use crate::{Result, SqlError};

/// Between rounds, when there is more to do and when there is not.
const SHORT: Duration = Duration::from_millis(50);
const LONG: Duration = Duration::from_millis(500);
/// For the thread, a page is quiet when nobody has changed it for so long, twice that at most.
const QUIET: Duration = Duration::from_secs(1);

/// Goes round the tables of a database.
pub(crate) struct Gardener {
    engine: Arc<Engine>,
    catalog: Arc<Catalog>,
    session: Arc<SessionControl>,
    tables: HashMap<Oid, Rounds>,
    quiet_for: Duration,
    /// Where the log ended, a while ago, and when that was on the monotonic clock.
    quiet: Lsn,
    marked: (Duration, Lsn),
}

impl Gardener {
    /// For these tables. A page is visited when nobody has changed it between two rounds that are so far apart.
    ///
    /// # Errors
    /// Too many sessions (53300).
    pub(crate) fn new(
        engine: Arc<Engine>,
        catalog: Arc<Catalog>,
        quiet_for: Duration,
    ) -> Result<Self> {
        let session = engine.transactions().register_session()?;
        let storage = engine.storage();
        let marked = (storage.env().clock.monotonic(), storage.wal().insert_lsn());
        let (tables, quiet) = (HashMap::new(), Lsn(0));
        Ok(Self { engine, catalog, session, tables, quiet_for, quiet, marked })
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
        let state = self.catalog.state();
        self.tables.retain(|oid, _| state.relation(*oid).is_some());
        let wanted = state.tables().filter_map(|relation| {
            let table = relation.table.as_ref()?;
            // A table that cannot be read is no less visited: then the error is told.
            table.wants_round().unwrap_or(true).then_some(relation.oid)
        });
        let (mut soon, mut result) = (false, Ok(()));
        for oid in wanted.collect::<Vec<_>>() {
            match self.visit(oid) {
                Ok(more) => soon |= more,
                Err(error) => result = result.and(Err(error)),
            }
        }
        result.map(|()| soon)
    }

    /// One round over a table, if it is still there and nobody is in the way.
    fn visit(&mut self, oid: Oid) -> Result<bool> {
        let transactions = self.engine.transactions();
        let transaction = transactions.begin(&self.session, BeginOptions::default())?;
        let mut soon = false;
        if transactions.locks().acquire_table(
            &transaction,
            TableId(u64::from(oid.0)),
            TableLockMode::RowExclusive,
            WaitPolicy::Skip,
        )? {
            // As it is now that the lock is held.
            let state = self.catalog.state();
            if let Some(table) = state.relation(oid).and_then(|relation| relation.table.as_ref()) {
                let round = table.round(self.tables.entry(oid).or_default(), self.quiet)?;
                soon = round.more && round.passes > 0;
            }
        }
        transaction.commit(Durability::Async)?;
        Ok(soon)
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
    pub(crate) fn start(engine: Arc<Engine>, catalog: Arc<Catalog>) -> Result<Self> {
        let mut gardener = Gardener::new(engine, catalog, QUIET)?;
        let signal = Arc::<Signal>::default();
        let told = Arc::clone(&signal);
        let body = move || {
            let mut pause = LONG;
            // Ends when the handle says stop.
            while !told.wait(pause) {
                // What fails here is tried again; sessions meet the same error themselves.
                pause = if gardener.round().unwrap_or(false) { SHORT } else { LONG };
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
