//! Sequences: numbers that are never given out twice, also after rollbacks.
//!
//! ```text
//! page 0, kind Sequence, behind the page header
//! 24  value i64       last value that may have been given out, or the first one to give out
//! 32  called u8       1 when `value` may have been given out
//! 33  zero            to the end of the page
//! ```
//!
//! Every 32nd `nextval` logs a record, and writes the page, with a value 32 steps ahead. The calls
//! in between touch memory only. After a crash the sequence goes on behind the logged value:
//! numbers are skipped, never repeated. A clean stop writes the real position.

use std::sync::Arc;

use niwaki_env::seeded_bug;
use niwaki_env::sync::Mutex;
use niwaki_storage::page::{Page, PageKind};
use niwaki_storage::record::{
    DecodedRecord, LoggedPage, Manager, PageLog, Record, ResourceManager,
};
use niwaki_storage::recovery::{Redo, RedoPage};
use niwaki_storage::{
    BlockNumber, Corruption, Error as StorageError, Fork, Lsn, PageId, RelFile, Storage, Xid,
};

use niwaki_txn::Transaction;

use crate::error::{Error, Result};
use crate::relation::engine::Engine;

/// Values given out between two log records.
const LOG_AHEAD: i64 = 32;
/// Bytes of the state on the page and in the record.
const STATE_SIZE: usize = 9;
/// Record kind: the whole state.
const KIND_STATE: u8 = 1;

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

/// Position of a sequence in memory.
#[derive(Debug, Default)]
pub(crate) struct SequenceState {
    /// Files of the sequence, once read.
    file: Option<RelFile>,
    value: i64,
    called: bool,
    /// The number of `nextval` calls that the last log record still covers.
    covered: i64,
    /// LSN of that record: the covered values are safe when the log is durable up to there.
    logged: Lsn,
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
        if state.covered > 0 {
            state.covered -= 1;
            // Another session's record may not be flushed yet: this commit waits for it.
            if self.storage.wal().flushed() < state.logged {
                tx.write_xid()?;
            }
        } else {
            // The record covers future values: all up to there may be given out.
            let ahead = if seeded_bug!("sequence_not_ahead") { value } else { self.ahead(value) };
            tx.write_xid()?;
            state.logged = write(&self.storage, self.file, ahead, true)?;
            state.covered = LOG_AHEAD - 1;
        }
        state.value = value;
        state.called = true;
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
        let logged = match seeded_bug!("setval_unlogged") {
            true => Lsn(0),
            false => write(&self.storage, self.file, value, is_called)?,
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
        Ok(())
    }
}

/// Writes the real position of a used sequence, where the page has a later one.
pub(crate) fn settle(storage: &Storage, state: &mut SequenceState) -> Result<()> {
    if let Some(file) = state.file
        && state.covered > 0
        && storage.file_exists(file.id)?
    {
        write(storage, file, state.value, state.called)?;
        state.covered = 0;
    }
    Ok(())
}

fn page_id(file: RelFile) -> PageId {
    PageId { file: file.id, fork: Fork::Main, block: BlockNumber(0) }
}

fn encode(value: i64, called: bool) -> [u8; STATE_SIZE] {
    let mut bytes = [0; STATE_SIZE];
    bytes[0..8].copy_from_slice(&value.to_le_bytes());
    bytes[8] = called.into();
    bytes
}

fn decode(page: &Page, file: RelFile) -> Result<Option<(i64, bool)>> {
    let damage = |detail: &str| {
        Error::Storage(StorageError::Corruption(Box::new(Corruption {
            file: format!("base/{}", file.id),
            block: Some(0),
            item: None,
            invariant: "format",
            detail: detail.to_owned(),
        })))
    };
    if page.is_new() {
        // The file grew, and a crash came before the record.
        return Ok(None);
    }
    if page.kind() != PageKind::Sequence {
        return Err(damage("not a page of a sequence"));
    }
    let bytes = page.raw();
    match (bytes.first_chunk::<8>(), bytes.get(8)) {
        (Some(value), Some(called @ (0 | 1))) => {
            Ok(Some((i64::from_le_bytes(*value), *called == 1)))
        }
        _ => Err(damage("a state of unknown form")),
    }
}

/// Writes a state onto the page.
fn put(page: &mut Page, state: &[u8]) {
    page.init(PageKind::Sequence, 0);
    if let Some(place) = page.raw_mut().get_mut(..state.len()) {
        place.copy_from_slice(state);
    }
}

/// Writes page and log record. A given-out value must survive a crash together with the commit of
/// the transaction that uses it. The record need not be flushed here: that commit comes behind it
/// in the log.
fn write(storage: &Storage, file: RelFile, value: i64, called: bool) -> Result<Lsn> {
    if storage.pool().blocks(file.id, Fork::Main)? == 0 {
        storage.pool().extend(file, Fork::Main, 1)?;
    }
    let state = encode(value, called);
    let mut page = storage.pool().pin(page_id(file))?.into_write();
    let _critical = storage.begin_change()?;
    put(&mut page, &state);
    storage
        .log_for(
            file.logged,
            Record {
                manager: Manager::Sequence,
                kind: KIND_STATE,
                version: 1,
                xid: Xid::INVALID,
                body: &[],
                pages: &mut [LoggedPage::new(&mut page, PageLog::Init, &[&state])],
                removes: None,
            },
        )
        .map_err(Error::from)
}

/// Redo of sequence records.
#[derive(Debug)]
pub(crate) struct SequenceManager;

impl ResourceManager for SequenceManager {
    fn manager(&self) -> Manager {
        Manager::Sequence
    }

    fn redo(&self, record: &DecodedRecord<'_>, redo: &Redo<'_>) -> niwaki_storage::Result<()> {
        if let RedoPage::NeedsRedo(mut page) = redo.page(0)? {
            let state = record.pages.first().map_or(&[][..], |page| page.data);
            if record.kind != KIND_STATE || state.len() != STATE_SIZE {
                // Half a state would begin the numbers again.
                return Err(StorageError::Corruption(Box::new(Corruption {
                    file: format!("base/{}", page.id().file),
                    block: Some(0),
                    item: None,
                    invariant: "W3",
                    detail: format!("sequence record of {} bytes at {}", state.len(), record.start),
                })));
            }
            put(&mut page, state);
        }
        Ok(())
    }

    fn describe(&self, record: &DecodedRecord<'_>) -> String {
        let data = record.pages.first().map_or(&[][..], |page| page.data);
        match data.first_chunk::<8>() {
            Some(value) => format!("sequence value {}", i64::from_le_bytes(*value)),
            None => "sequence state of unknown form".to_owned(),
        }
    }
}
