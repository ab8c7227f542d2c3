//! The state of a sequence: in memory, on its page, and in the log.
//!
//! ```text
//! page 0, kind Sequence, behind the page header
//! 24  value i64       last value that may have been given out, or the first one to give out
//! 32  called u8       1 when `value` may have been given out
//! 33  zero            to the end of the page
//! ```

use niwaki_storage::page::{Page, PageKind};
use niwaki_storage::record::{
    DecodedRecord, LoggedPage, Manager, PageLog, Record, ResourceManager,
};
use niwaki_storage::recovery::{Redo, RedoPage};
use niwaki_storage::{
    BlockNumber, Corruption, Error as StorageError, Fork, Lsn, PageId, RelFile, Storage, Xid,
};

use crate::error::{Error, Result};

/// Bytes of the state on the page and in the record.
const STATE_SIZE: usize = 9;

const _: () = assert!(STATE_SIZE == size_of::<i64>() + size_of::<u8>());
/// Record kind: the whole state.
const KIND_STATE: u8 = 1;

/// Position of a sequence in memory.
#[derive(Debug, Default)]
pub(crate) struct SequenceState {
    /// Files of the sequence, once read.
    pub(crate) file: Option<RelFile>,
    pub(crate) value: i64,
    pub(crate) called: bool,
    /// The number of `nextval` calls that the last log record still covers.
    pub(crate) covered: i64,
    /// LSN of that record: the covered values are safe when the log is durable up to there.
    pub(crate) logged: Lsn,
}

impl SequenceState {
    /// Asserts what holds between two calls. Before the page is read, the state is empty. `covered`
    /// counts calls behind a given-out value.
    pub(crate) fn assert_state(&self) {
        let Self { file, value, called, covered, logged } = *self;
        debug_assert!(covered >= 0, "a record covers {covered} calls");
        debug_assert!(covered == 0 || called, "{covered} calls are covered before the first one");
        debug_assert!(file.is_some() || value == 0, "a value of a sequence that was not read");
        debug_assert!(file.is_some() || !called, "a call of a sequence that was not read");
        debug_assert!(file.is_some() || logged == Lsn(0), "a record of an unknown sequence");
    }
}

/// Writes the real position of a used sequence, where the page has a later one.
pub(crate) fn settle(storage: &Storage, state: &mut SequenceState) -> Result<()> {
    state.assert_state();
    if let Some(file) = state.file
        && state.covered > 0
        && storage.file_exists(file.id)?
    {
        write(storage, file, state.value, state.called)?;
        state.covered = 0;
    }
    state.assert_state();
    Ok(())
}

pub(crate) fn page_id(file: RelFile) -> PageId {
    PageId { file: file.id, fork: Fork::Main, block: BlockNumber(0) }
}

fn encode(value: i64, called: bool) -> [u8; STATE_SIZE] {
    let mut bytes = [0; STATE_SIZE];
    bytes[0..8].copy_from_slice(&value.to_le_bytes());
    bytes[8] = called.into();
    bytes
}

pub(crate) fn decode(page: &Page, file: RelFile) -> Result<Option<(i64, bool)>> {
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
    debug_assert_eq!(state.len(), STATE_SIZE, "a whole state");
    page.init(PageKind::Sequence, 0);
    if let Some(place) = page.raw_mut().get_mut(..state.len()) {
        place.copy_from_slice(state);
    }
}

/// Writes page and log record. A given-out value must survive a crash together with the commit of
/// the transaction that uses it. The record need not be flushed here: that commit comes behind it
/// in the log.
pub(crate) fn write(storage: &Storage, file: RelFile, value: i64, called: bool) -> Result<Lsn> {
    if storage.pool().blocks(file.id, Fork::Main)? == 0 {
        storage.pool().extend(file, Fork::Main, 1)?;
    }
    let state = encode(value, called);
    let mut page = storage.pool().pin(page_id(file))?.into_write();
    let _critical = storage.begin_change()?;
    put(&mut page, &state);
    debug_assert!(
        matches!(decode(&page, file), Ok(Some(found)) if found == (value, called)),
        "a state that was put on its page does not read back",
    );
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unread_sequence_is_in_a_right_state() {
        SequenceState::default().assert_state();
    }

    #[test]
    #[should_panic(expected = "31 calls are covered before the first one")]
    #[cfg(debug_assertions)]
    fn covered_calls_come_behind_a_call() {
        SequenceState { covered: 31, ..SequenceState::default() }.assert_state();
    }
}
