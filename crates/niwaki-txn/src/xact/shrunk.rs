//! Shrunk segments: their status pages, and what memory keeps of them.
//!
//! A status page never changes. Memory keeps one CSN for all commits of its segment, as long as a
//! snapshot is older than that.

use std::collections::BTreeMap;

use niwaki_env::invariant;
use niwaki_env::sync::atomic::AtomicBool;
use niwaki_env::sync::{Mutex, RwLock, thread};
use niwaki_storage::{
    BlockNumber, Corruption, Csn, FIRST_FILE, Fork, LoggedPage, Manager, PageId, PageKind, Record,
    RelFile, RelFileId, Storage, Xid,
};

use crate::error::{Error, Result};
use crate::xact::record::RECORD_SHRUNK;
use crate::xact::segment::{ABORTED, ANCIENT, RUNNING, place_of, segment_of};
use crate::xact::status_cache::StatusCache;
use crate::xact::status_page::{PackedStates, unpack};

/// The relation of the status pages; its number is reserved.
pub(crate) const STATUS_FILE: RelFile = RelFile { id: RelFileId(1), logged: true };

const _: () = assert!(STATUS_FILE.id.0 < FIRST_FILE.0, "a table would get the file's number");

/// CSN of commits that every snapshot sees.
pub(crate) const ANCIENT_CSN: Csn = Csn(ANCIENT);
/// Attempts to pin a status page while the pool has no free frame.
const PIN_TRIES: u32 = 10_000;

/// The state of the shrinking: shrunk segments, and facts that recovery collected.
#[derive(Debug, Default)]
pub(crate) struct Shrunk {
    /// One CSN for all commits of a segment, while some snapshot may be older.
    pub(crate) recent: RwLock<BTreeMap<u64, Csn>>,
    /// True if a segment was opened since the last look for segments to shrink.
    pub(crate) due: AtomicBool,
    /// Held by the one thread that shrinks, and while a thread logs the states that are not shrunk.
    pub(crate) shrinking: Mutex<()>,
    /// The highest segment that recovery met.
    pub(crate) highest: Mutex<Option<u64>>,
    /// The next id according to the last checkpoint that recovery met.
    pub(crate) logged_next: Mutex<Option<Xid>>,
    /// Copies of status pages: reading a copy pins no frame and cannot fail.
    pub(crate) cache: StatusCache,
}

fn status_page_of(segment: u64) -> Result<PageId> {
    let block = u32::try_from(segment).ok().filter(|block| *block < u32::MAX);
    let block = block.ok_or(Error::OutOfMemory { what: "transaction numbers" })?;
    Ok(PageId { file: STATUS_FILE.id, fork: Fork::Main, block: BlockNumber(block) })
}

/// Writes and logs the status page of a segment.
pub(crate) fn write_status_page(
    storage: &Storage,
    segment: u64,
    packed: &PackedStates,
) -> Result<()> {
    let id = status_page_of(segment)?;
    let blocks = storage.pool().blocks(id.file, id.fork)?;
    if blocks <= id.block.0 {
        storage.pool().extend(STATUS_FILE, id.fork, id.block.0 - blocks + 1)?;
    }
    let pin = storage.pool().pin(id)?;
    let mut page = pin.write();
    let _change = storage.begin_change()?;
    page.init(PageKind::XactStatus, 0);
    page.raw_mut().copy_from_slice(&packed.0[..]);
    storage.log(Record {
        manager: Manager::Transaction,
        kind: RECORD_SHRUNK,
        version: 1,
        xid: Xid::INVALID,
        body: &[&segment.to_le_bytes()],
        pages: &mut [LoggedPage::image(&mut page)],
        removes: None,
    })?;
    Ok(())
}

/// Reads a status page.
fn read_status_page(storage: &Storage, segment: u64) -> Result<PackedStates> {
    let id = status_page_of(segment)?;
    let mut tries = 0;
    let pin = loop {
        match storage.pool().pin(id) {
            // Ends: other threads return their pins, or the bound is met.
            Err(niwaki_storage::Error::NoBuffers) if tries < PIN_TRIES => {
                tries += 1;
                thread::yield_now();
            }
            pin => break pin?,
        }
    };
    let page = pin.read();
    if page.kind() != PageKind::XactStatus {
        return Err(corrupt_page(id, "it is not a status page").into());
    }
    PackedStates::from_bytes(page.raw())
        .ok_or_else(|| corrupt_page(id, "it has another size").into())
}

impl Shrunk {
    /// Returns the first segment that has commits and none that this snapshot sees.
    pub(crate) fn first_unseen(&self, snapshot: Csn) -> Option<u64> {
        let recent = self.recent.read();
        recent.iter().find(|(_, csn)| **csn > snapshot).map(|(segment, _)| *segment)
    }

    /// Returns the state of a transaction according to its segment's status page.
    pub(crate) fn page_state(&self, storage: &Storage, xid: Xid) -> Result<u64> {
        debug_assert!(xid.is_normal(), "a status page is asked for the reserved id {xid}");
        if let Some(state) = self.cache.state(xid) {
            return Ok(state);
        }
        let segment = segment_of(xid);
        let states = read_status_page(storage, segment)?;
        let csn = self.recent.read().get(&segment).copied().unwrap_or(ANCIENT_CSN);
        let state = state_on_page(&states, xid);
        invariant!(S1, csn >= ANCIENT_CSN, "{csn} stands for the commits of segment {segment}");
        self.cache.keep(segment, states, csn.0);
        let state = state?;
        debug_assert!(matches!(state, ABORTED | ANCIENT), "a status page says {state} of {xid}");
        Ok(if state == ANCIENT { csn.0 } else { state })
    }
}

fn state_on_page(states: &PackedStates, xid: Xid) -> Result<u64> {
    let id = status_page_of(segment_of(xid))?;
    match unpack(&states.0[..], place_of(xid)) {
        Some(RUNNING) => {
            let detail = format!("transaction {xid} is neither committed nor aborted");
            Err(corrupt_page(id, &detail).into())
        }
        Some(state) => Ok(state),
        None => Err(corrupt_page(id, &format!("transaction {xid} has meaningless bits")).into()),
    }
}

fn corrupt_page(id: PageId, detail: &str) -> niwaki_storage::Error {
    niwaki_storage::Error::Corruption(Box::new(Corruption {
        file: format!("file {}", id.file),
        block: Some(id.block.0),
        item: None,
        invariant: "format",
        detail: detail.to_owned(),
    }))
}
