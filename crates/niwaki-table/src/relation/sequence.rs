//! Sequences: numbers that are never given out twice, also after rollbacks.
//!
//! Every 32nd `nextval` logs a record, and writes the page, with a value 32 steps ahead. The calls
//! in between touch memory only. After a crash the sequence goes on behind the logged value:
//! numbers are skipped, never repeated. A clean stop writes the real position.

use std::sync::Arc;

use niwaki_env::seeded_bug;
use niwaki_env::sync::Mutex;
use niwaki_storage::{Fork, Lsn, RelFile, Storage};
use niwaki_txn::Transaction;

use crate::error::{Error, Result};
use crate::relation::engine::Engine;
use crate::relation::sequence_state::{SequenceState, decode, page_id, write};

/// Values given out between two log records.
const LOG_AHEAD: i64 = 32;

const _: () = assert!(LOG_AHEAD > 0);

/// The counting rules of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceOptions {
    /// First value.
    pub start: i64,
    /// Step; negative counts down; not 0.
    pub increment: i64,
    /// Smallest value.
    pub minimum: i64,
    /// Largest value.
    pub maximum: i64,
    /// True to begin again at the other end instead of failing.
    pub cycle: bool,
}

impl Default for SequenceOptions {
    fn default() -> Self {
        Self { start: 1, increment: 1, minimum: 1, maximum: i64::MAX, cycle: false }
    }
}

/// One sequence, as the catalog describes it.
#[derive(Debug)]
pub struct Sequence {
    storage: Arc<Storage>,
    file: RelFile,
    options: SequenceOptions,
    state: Arc<Mutex<SequenceState>>,
}

impl Sequence {
    /// Opens the sequence in `file`, which [`Engine::create_file`] made. Does no I/O.
    pub fn open(engine: &Engine, file: RelFile, options: SequenceOptions) -> Self {
        let storage = Arc::clone(engine.storage());
        Self { storage, file, options, state: engine.sequence(file.id) }
    }

    /// Returns the next value.
    ///
    /// A log record makes `tx` a writing transaction. A value that another session's record covers
    /// does so, too, while that record is not durable: the commit then waits for it. So a value of
    /// a committed transaction is not given out again after a crash. A value of a transaction that
    /// never committed may be given out again, as in PostgreSQL: nothing durable holds it.
    ///
    /// # Errors
    /// [`Error::SequenceLimit`]; storage's; an error if `tx` is read-only.
    pub fn nextval(&self, tx: &Transaction) -> Result<i64> {
        let mut state = self.state.lock();
        self.read(&mut state)?;
        let value = if state.called { self.step(state.value)? } else { state.value };
        debug_assert!(state.covered < LOG_AHEAD, "a record covers {} calls", state.covered);
        if state.covered > 0 {
            state.covered -= 1;
            // Another session's record may not be flushed yet: this commit waits for it.
            if self.storage.wal().flushed() < state.logged {
                tx.write_xid()?;
            }
        } else {
            // The record covers future values: all up to there may be given out.
            let ahead = if seeded_bug!("sequence_not_ahead") { value } else { self.ahead(value) };
            debug_assert!(
                self.options.cycle
                    || (ahead >= value) == (self.options.increment > 0)
                    || ahead == value,
                "the value {ahead} that is logged ahead of {value} lies behind it",
            );
            tx.write_xid()?;
            state.logged = write(&self.storage, self.file, ahead, true)?;
            state.covered = LOG_AHEAD - 1;
        }
        state.value = value;
        state.called = true;
        state.assert_state();
        Ok(value)
    }

    /// Moves to `value`. The next `nextval` gives `value` when `is_called` is false, else the value
    /// after it.
    ///
    /// # Errors
    /// Storage's. The caller checks the bounds.
    pub fn setval(&self, tx: &Transaction, value: i64, is_called: bool) -> Result<()> {
        let mut state = self.state.lock();
        self.read(&mut state)?;
        tx.write_xid()?;
        let logged = if seeded_bug!("setval_unlogged") {
            Lsn(0)
        } else {
            write(&self.storage, self.file, value, is_called)?
        };
        let file = Some(self.file);
        *state = SequenceState { file, value, called: is_called, covered: 0, logged };
        Ok(())
    }

    /// Returns the last value, and whether it was given out.
    ///
    /// # Errors
    /// Storage's.
    pub fn state(&self) -> Result<(i64, bool)> {
        let mut state = self.state.lock();
        self.read(&mut state)?;
        Ok((state.value, state.called))
    }

    /// Returns the counting rules.
    pub fn options(&self) -> &SequenceOptions {
        &self.options
    }

    /// Returns the value after `value`.
    fn step(&self, value: i64) -> Result<i64> {
        let SequenceOptions { increment, minimum, maximum, cycle, .. } = self.options;
        let next = value.checked_add(increment);
        if let Some(next) = next.filter(|next| (minimum..=maximum).contains(next)) {
            return Ok(next);
        }
        let (which, limit, other) = if increment > 0 {
            ("maximum", maximum, minimum)
        } else {
            ("minimum", minimum, maximum)
        };
        if cycle { Ok(other) } else { Err(Error::SequenceLimit { which, limit }) }
    }

    /// Returns the value that [`LOG_AHEAD`] − 1 further calls lead to, at most.
    fn ahead(&self, value: i64) -> i64 {
        let mut ahead = value;
        for _ in 1..LOG_AHEAD {
            match self.step(ahead) {
                // At a wrap-around, a crash may repeat values that a cycle repeats anyway.
                Ok(next) => ahead = next,
                Err(_) => break,
            }
        }
        ahead
    }

    /// Reads the page on the first call.
    fn read(&self, state: &mut SequenceState) -> Result<()> {
        state.assert_state();
        let is_its = |file: RelFile| file.id == self.file.id;
        debug_assert!(state.file.is_none_or(is_its), "the state is of another file");
        if state.file.is_some() {
            return Ok(());
        }
        let blocks = self.storage.pool().blocks(self.file.id, Fork::Main)?;
        let mut found = None;
        if blocks > 0 {
            let pin = self.storage.pool().pin(page_id(self.file))?;
            found = decode(&pin.read(), self.file)?;
        }
        let (value, called) = found.unwrap_or((self.options.start, false));
        let (file, logged) = (Some(self.file), Lsn(0));
        *state = SequenceState { file, value, called, covered: 0, logged };
        state.assert_state();
        Ok(())
    }
}
