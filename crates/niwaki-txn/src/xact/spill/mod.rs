//! Spilled segments: states in a temporary file that cannot be shrunk yet and are too many for
//! memory.
//!
//! ```text
//! frame, 256 KiB of memory           slot of tmp/states: blocks of 1,023 states with a checksum
//!   csn csn running csn aborted … ──►  csn csn   │   csn aborted …    read through a bounded cache
//!                                      open: running                  in memory, and stored to
//! ```
//!
//! The state of an ended transaction never changes, so its copy in the file stays true.
//! Transactions that ran when their segment was copied are kept in memory, one word each. The end
//! of such a transaction is stored there instead of the frame. States are stored under the commit
//! queue's lock, and a segment moves from frame to file under it. So no end falls between the two.
//!
//! A reader looks for a segment in the order in which it moves: frame, then file, then status page.
//! A segment stands in its new place before it leaves the old one, so one of the looks finds it.
//!
//! The file is never synced: after a crash the states come from the log.

mod moving;

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, OnceLock};

use niwaki_env::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use niwaki_env::sync::{Mutex, RwLock};
use niwaki_env::vfs::{OpenMode, VfsFile};
use niwaki_env::{Env, invariant};
use niwaki_storage::{Corruption, Error as StorageError, Storage, WriteGate, Xid};

use crate::error::Result;
use crate::options::limit;
use crate::xact::segment::{RUNNING, Summary, XIDS_PER_SEGMENT, place_of, segment_of};
use crate::xact::status_page::PackedStates;

/// The folder of temporary files. Opening a database empties the folder.
const DIR: &str = "tmp";
const PATH: &str = "tmp/states";

/// States in a block: 8 KiB with the checksum, which is the word in front of them.
const BLOCK_STATES: usize = limit(1023, 3, 2);
const BLOCK_BYTES: usize = (BLOCK_STATES + 1) * WORD;
const WORD: usize = size_of::<u64>();
/// Blocks of a segment.
const BLOCKS: usize = (XIDS_PER_SEGMENT as usize).div_ceil(BLOCK_STATES);
const SLOT_BYTES: u64 = (BLOCKS * BLOCK_BYTES) as u64;

/// The greatest number of blocks that are kept in memory: 24 MiB.
const BLOCKS_KEPT: usize = limit(3072, 2, 1);
/// The greatest number of running transactions of a spilled segment: each takes a word in memory. A
/// segment with more is not spilled.
const OPEN_MAX: usize = limit(256, 4, 2);

const _: () =
    assert!(BLOCKS * BLOCK_STATES >= XIDS_PER_SEGMENT as usize, "some states have no block");
const _: () = assert!((BLOCKS - 1) * BLOCK_STATES < XIDS_PER_SEGMENT as usize, "a block is empty");
const _: () = assert!(OPEN_MAX <= XIDS_PER_SEGMENT as usize, "a segment has no more transactions");

type Block = Box<[u64]>;

/// Transactions that ran when their segment was copied, by place, each with its state since.
type Open = Box<[(usize, AtomicU64)]>;

/// States of segments that are in the file.
#[derive(Debug, Default)]
pub(crate) struct Spilled {
    segments: RwLock<BTreeMap<u64, Arc<SpilledSegment>>>,
    /// Number of spilled segments. A reader that finds a frame gone and no spilled segment finds
    /// the status page.
    count: AtomicUsize,
    /// Copies of blocks, by segment and number.
    blocks: RwLock<BTreeMap<(u64, usize), Block>>,
    file: OnceLock<SpillFile>,
    slots: Arc<Mutex<Slots>>,
}

/// A segment whose states are in the file.
#[derive(Debug)]
pub(crate) struct SpilledSegment {
    number: u64,
    slot: Slot,
    /// Lowest and highest CSN in the file.
    commits: Option<(u64, u64)>,
    open: Open,
}

#[derive(Debug, Default)]
struct Slots {
    /// Slots at or past this were never used.
    used: u64,
    free: Vec<u64>,
}

/// A place in the file. The place is free again when no thread can read it any more.
#[derive(Debug)]
struct Slot {
    number: u64,
    slots: Arc<Mutex<Slots>>,
}

impl Slot {
    fn take(slots: &Arc<Mutex<Slots>>) -> Self {
        let mut all = slots.lock();
        let number = all.free.pop().unwrap_or_else(|| {
            all.used += 1;
            all.used - 1
        });
        all.assert_state();
        debug_assert!(number < all.used, "slot {number} was never used");
        Self { number, slots: Arc::clone(slots) }
    }

    fn offset(&self, block: usize) -> u64 {
        debug_assert!(block < BLOCKS, "block {block} is in the slot of another segment");
        self.number * SLOT_BYTES + (block * BLOCK_BYTES) as u64
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut slots = self.slots.lock();
        debug_assert!(self.number < slots.used, "slot {} is not in the file", self.number);
        slots.free.push(self.number);
        slots.assert_state();
    }
}

impl Slots {
    /// Asserts what holds between two operations: only slots that were used are free.
    fn assert_state(&self) {
        let free = self.free.len();
        debug_assert!(free as u64 <= self.used, "{free} of {} slots are free", self.used);
    }
}

#[derive(Debug)]
struct SpillFile {
    env: Env,
    /// Absent when the database is closed.
    file: RwLock<Option<Arc<dyn VfsFile>>>,
    /// The gate tells when the database is closed: then another process may have a file of this
    /// name.
    gate: WriteGate,
}

impl Drop for SpillFile {
    fn drop(&mut self) {
        // A file that is not removed now is removed when the database is opened.
        if !self.gate.is_closed() {
            let _ = self.env.vfs.remove(PATH);
        }
    }
}

fn failed(action: &str, error: io::Error) -> StorageError {
    StorageError::io(format!("could not {action} {PATH}"), error)
}

impl SpillFile {
    /// Opens the file and empties it: an earlier process may have left states in it.
    fn open(storage: &Storage) -> Result<Self> {
        let (env, gate) = (storage.env(), storage.write_gate());
        gate.pass()?;
        env.vfs.create_dir(DIR).map_err(|error| failed("create the folder of", error))?;
        let file = env.vfs.open(PATH, OpenMode::CreateIfAbsent);
        let file = file.map_err(|error| failed("open", error))?;
        file.set_len(0).map_err(|error| failed("empty", error))?;
        Ok(Self { env: env.clone(), file: RwLock::new(Some(file)), gate: gate.clone() })
    }

    fn file(&self) -> Result<Arc<dyn VfsFile>> {
        let closed = || StorageError::Refused("the database is closed".to_owned());
        Ok(self.file.read().clone().ok_or_else(closed)?)
    }

    fn write(&self, segment: &SpilledSegment, states: &[u64]) -> Result<()> {
        debug_assert_eq!(states.len(), XIDS_PER_SEGMENT as usize, "no whole segment is written");
        self.gate.pass()?;
        let mut bytes = Vec::with_capacity(BLOCKS * BLOCK_BYTES);
        for (block, states) in states.chunks(BLOCK_STATES).enumerate() {
            let start = bytes.len();
            bytes.resize(start + WORD, 0);
            states.iter().for_each(|state| bytes.extend_from_slice(&state.to_le_bytes()));
            bytes.resize(start + BLOCK_BYTES, 0);
            let checksum = checksum(segment.number, block, &bytes[start + WORD..]);
            bytes[start..start + WORD].copy_from_slice(&checksum.to_le_bytes());
        }
        debug_assert_eq!(bytes.len() as u64, SLOT_BYTES, "the segment does not fill its slot");
        let written = self.file()?.write_at(&bytes, segment.slot.offset(0));
        Ok(written.map_err(|error| failed("write to", error))?)
    }

    fn read(&self, segment: &SpilledSegment, block: usize) -> Result<Block> {
        let mut bytes = [0; BLOCK_BYTES];
        let read = self.file()?.read_at(&mut bytes, segment.slot.offset(block));
        let read = read.map_err(|error| failed("read", error))?;
        let (words, _) = bytes.as_chunks::<WORD>();
        let (first, states) = words.split_first().expect("a checksum stands in front");
        let expected = checksum(segment.number, block, &bytes[WORD..]);
        if read < BLOCK_BYTES || u64::from_le_bytes(*first) != expected {
            return Err(StorageError::Corruption(Box::new(Corruption {
                file: PATH.to_owned(),
                block: u32::try_from(segment.slot.offset(block) / BLOCK_BYTES as u64).ok(),
                item: None,
                invariant: "format",
                detail: format!("states of segment {} have another checksum", segment.number),
            }))
            .into());
        }
        Ok(states.iter().map(|word| u64::from_le_bytes(*word)).collect())
    }
}

/// Computes a checksum over segment, block and states, so that a block in a wrong place has a wrong
/// checksum.
fn checksum(segment: u64, block: usize, states: &[u8]) -> u64 {
    let place = [segment.to_le_bytes(), (block as u64).to_le_bytes()].concat();
    u64::from(crc32c::crc32c_append(crc32c::crc32c(&place), states))
}

impl SpilledSegment {
    /// Asserts what holds from the copy of the segment on.
    fn assert_state(&self) {
        let (open, number) = (&self.open, self.number);
        debug_assert!(open.is_sorted_by(|a, b| a.0 < b.0), "a search in {number} would miss some");
        debug_assert!(open.len() <= OPEN_MAX, "{} transactions of {number} run", open.len());
        let in_order = self.commits.is_none_or(|(first, last)| first <= last);
        invariant!(S1, in_order, "the first commit of {number} is after the last");
    }

    fn open(&self, place: usize) -> Option<&AtomicU64> {
        let at = self.open.binary_search_by_key(&place, |(place, _)| *place).ok()?;
        Some(&self.open[at].1)
    }

    /// Stores the states of the transactions that ran when the segment was copied.
    pub(crate) fn pack_ends(&self, packed: &mut PackedStates) {
        for (place, state) in &self.open {
            packed.set(*place, state.load(Ordering::Acquire));
        }
    }

    fn summary(&self) -> Summary {
        let mut summary = Summary { running: false, commits: self.commits };
        self.open.iter().for_each(|(_, state)| summary.add(state.load(Ordering::Acquire)));
        summary
    }
}

impl Spilled {
    /// Returns the segments in the file, ascending.
    pub(crate) fn all(&self) -> Vec<(u64, Arc<SpilledSegment>)> {
        let segments = self.segments.read();
        segments.iter().map(|(number, segment)| (*number, Arc::clone(segment))).collect()
    }

    /// Returns whether the segment is in the file.
    pub(crate) fn has(&self, segment: u64) -> bool {
        self.segments.read().contains_key(&segment)
    }

    pub(crate) fn count(&self) -> usize {
        // Acquire: pairs with the release of the thread that removed the last segment, whose status
        // page is in place.
        self.count.load(Ordering::Acquire)
    }

    /// Returns the bytes of memory: of cached blocks, and of transactions that may still end.
    pub(crate) fn bytes(&self) -> usize {
        let open: usize = self.segments.read().values().map(|s| size_of_val(&*s.open)).sum();
        self.blocks.read().len() * BLOCK_STATES * WORD + open
    }

    fn find(&self, segment: u64) -> Option<Arc<SpilledSegment>> {
        self.segments.read().get(&segment).cloned()
    }

    /// Returns the state of a transaction, or `None` when its segment is not in the file.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub(crate) fn state(&self, xid: Xid) -> Option<Result<u64>> {
        if self.count() == 0 {
            return None;
        }
        let segment = self.find(segment_of(xid))?;
        let place = place_of(xid);
        if let Some(state) = segment.open(place) {
            // Acquire: pairs with the release of the state's writer.
            return Some(Ok(state.load(Ordering::Acquire)));
        }
        Some(self.state_in_file(&segment, place))
    }

    fn state_in_file(&self, segment: &SpilledSegment, place: usize) -> Result<u64> {
        debug_assert!(place < XIDS_PER_SEGMENT as usize, "no segment has a place {place}");
        let (block, at) = (place / BLOCK_STATES, place % BLOCK_STATES);
        if let Some(states) = self.blocks.read().get(&(segment.number, block)) {
            return Ok(states[at]);
        }
        let states = self.read(segment, block)?;
        let state = states[at];
        let number = segment.number;
        debug_assert_ne!(state, RUNNING, "place {place} of {number} ran and is not in memory");
        // A thread that forgets the segment removes its cached blocks afterwards.
        let segments = self.segments.read();
        if segments.contains_key(&segment.number) {
            let mut blocks = self.blocks.write();
            // Evicts any block, but the same one in every run of a schedule.
            let victim = place % BLOCKS_KEPT;
            if blocks.len() >= BLOCKS_KEPT
                && let Some(victim) = blocks.keys().nth(victim).copied()
            {
                blocks.remove(&victim);
            }
            blocks.insert((segment.number, block), states);
            debug_assert!(blocks.len() <= BLOCKS_KEPT, "{} blocks are kept", blocks.len());
        }
        Ok(state)
    }

    fn read(&self, segment: &SpilledSegment, block: usize) -> Result<Block> {
        let file = self.file.get().expect("a segment was written to the file");
        file.read(segment, block)
    }

    /// Returns the states of a segment as they were written: transactions that ran then are
    /// running.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub(crate) fn pack_written(&self, segment: &SpilledSegment) -> Result<PackedStates> {
        let mut packed = PackedStates::new();
        for block in 0..BLOCKS {
            let states = self.read(segment, block)?;
            let first = block * BLOCK_STATES;
            let places = first..(first + BLOCK_STATES).min(XIDS_PER_SEGMENT as usize);
            places.zip(&states).for_each(|(place, state)| packed.set(place, *state));
        }
        Ok(packed)
    }

    /// Removes a segment whose states are found elsewhere from now on. The file is truncated when
    /// no segment is left in it.
    pub(crate) fn forget(&self, segment: u64) -> Result<()> {
        if self.segments.write().remove(&segment).is_some() {
            let before = self.count.fetch_sub(1, Ordering::Release);
            debug_assert!(before > 0, "segment {segment} was not counted");
        }
        self.blocks.write().retain(|(of, _), _| *of != segment);
        let Some(file) = self.file.get() else { return Ok(()) };
        let mut slots = self.slots.lock();
        slots.assert_state();
        if slots.used > 0 && slots.free.len() as u64 == slots.used && !file.gate.is_closed() {
            file.file()?.set_len(0).map_err(|error| failed("empty", error))?;
            *slots = Slots::default();
        }
        Ok(())
    }
}

#[cfg(all(test, not(any(feature = "shuttle", feature = "loom"))))]
mod tests;
