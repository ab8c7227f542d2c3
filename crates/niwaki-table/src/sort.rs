//! Sorting index entries in bounded memory: sorted runs in temporary files, merged k ways.
//!
//! ```text
//!  push ──> buffer ──full──> sorted run 0 │ run 1 │ run 2 …   ──merge──> next, next, next …
//!                            (a file each; too many for one pass are merged into fewer, longer ones)
//! ```
//!
//! The buffer, its list of entries and the read buffers of a merge together stay within the limit. A
//! sort that fits never touches a file.

use std::cmp::Ordering;
use std::sync::Arc;

use niwaki_env::Env;
use niwaki_storage::{BlockNumber, OffsetNumber, Tid};

use crate::error::Result;
use crate::temp::{TempFile, TempFiles};

/// Least bytes that a run is read or written by at a time.
const CHUNK_BYTES_MIN: usize = 16 << 10;
/// Most bytes that a run is read or written by at a time.
const CHUNK_BYTES_MAX: usize = 256 << 10;
/// Least memory of a sort: room for a few chunks.
const MEMORY_BYTES_MIN: usize = 4 * CHUNK_BYTES_MIN;
/// Key length, payload length, block, offset, flags.
const HEADER_BYTES: usize = 2 + 2 + 4 + 2 + 1;

/// An entry of an index to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SortEntry<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) payload: &'a [u8],
    pub(crate) tid: Tid,
    /// Some version with this key is live and the index is unique: two such entries of one key
    /// violate it.
    pub(crate) live: bool,
}

impl SortEntry<'_> {
    fn order(&self, other: &SortEntry<'_>) -> Ordering {
        self.key.cmp(other.key).then_with(|| self.tid.cmp(&other.tid))
    }

    fn stored_bytes(&self) -> usize {
        HEADER_BYTES + self.key.len() + self.payload.len()
    }

    /// Lengths fit: callers check them against the index's limits.
    fn push_to(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.key.len() as u16).to_le_bytes());
        out.extend_from_slice(&(self.payload.len() as u16).to_le_bytes());
        out.extend_from_slice(&self.tid.block.0.to_le_bytes());
        out.extend_from_slice(&self.tid.offset.0.to_le_bytes());
        out.push(self.live.into());
        out.extend_from_slice(self.key);
        out.extend_from_slice(self.payload);
    }

    /// The entry that begins at the front of `bytes`, if it is there as a whole.
    fn read(bytes: &[u8]) -> Option<SortEntry<'_>> {
        let header = bytes.get(..HEADER_BYTES)?;
        let u16_at = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
        let key_end = HEADER_BYTES + usize::from(u16_at(0));
        let end = key_end + usize::from(u16_at(2));
        Some(SortEntry {
            key: bytes.get(HEADER_BYTES..key_end)?,
            payload: bytes.get(key_end..end)?,
            tid: Tid {
                block: BlockNumber(u32::from_le_bytes([
                    header[4], header[5], header[6], header[7],
                ])),
                offset: OffsetNumber(u16_at(8)),
            },
            live: header[10] != 0,
        })
    }
}

/// What a sort needs besides entries.
#[derive(Clone, Debug)]
pub(crate) struct SortSpace {
    pub(crate) env: Env,
    pub(crate) files: Arc<TempFiles>,
    /// Most bytes in memory.
    pub(crate) memory_bytes: usize,
}

/// A sort that takes entries.
#[derive(Debug)]
pub(crate) struct Sorter {
    space: SortSpace,
    bytes: Vec<u8>,
    /// Where each entry begins.
    starts: Vec<usize>,
    runs: Vec<TempFile>,
    /// Most bytes that were held at once.
    peak_bytes: usize,
}

impl Sorter {
    pub(crate) fn new(space: SortSpace) -> Self {
        let space = SortSpace { memory_bytes: space.memory_bytes.max(MEMORY_BYTES_MIN), ..space };
        Self { space, bytes: Vec::new(), starts: Vec::new(), runs: Vec::new(), peak_bytes: 0 }
    }

    /// Takes an entry; may write a run.
    pub(crate) fn push(&mut self, entry: &SortEntry<'_>) -> Result<()> {
        let size = entry.stored_bytes();
        self.make_room(size)?;
        self.starts.push(self.bytes.len());
        entry.push_to(&mut self.bytes);
        Ok(())
    }

    fn held_entry(&self, number: usize) -> Option<SortEntry<'_>> {
        SortEntry::read(&self.bytes[*self.starts.get(number)?..])
    }

    /// Most bytes of memory that the sort has held so far.
    pub(crate) fn peak_bytes(&self) -> usize {
        self.peak_bytes
    }

    /// Grows the buffers within the limit, or empties them into a run.
    fn make_room(&mut self, size: usize) -> Result<()> {
        let list_bytes = |entries: usize| entries * size_of::<usize>();
        // While a run is written, a chunk is held too.
        let limit = self.space.memory_bytes - CHUNK_BYTES_MIN;
        let fits = |bytes: usize, entries: usize| bytes + list_bytes(entries) <= limit;
        if self.bytes.len() + size > self.bytes.capacity() {
            let doubled = (self.bytes.capacity() * 2).max(size).max(CHUNK_BYTES_MIN);
            let most = limit.saturating_sub(list_bytes(self.starts.capacity().max(1)));
            let wanted = doubled.min(most);
            if wanted >= self.bytes.len() + size {
                self.bytes.reserve_exact(wanted - self.bytes.len());
            } else if !self.starts.is_empty() {
                return self.write_run().map(|()| self.shrink_for(size));
            }
        }
        if self.starts.len() == self.starts.capacity() {
            let wanted = (self.starts.capacity() * 2).max(64);
            if fits(self.bytes.capacity(), wanted) {
                self.starts.reserve_exact(wanted - self.starts.len());
            } else if !self.starts.is_empty() {
                return self.write_run().map(|()| self.shrink_for(size));
            }
        }
        self.note_peak(0);
        Ok(())
    }

    /// An entry larger than the buffers, which are empty now, gets its room alone.
    fn shrink_for(&mut self, size: usize) {
        if self.bytes.capacity() < size {
            self.bytes = Vec::with_capacity(size);
        }
    }

    fn note_peak(&mut self, more: usize) {
        let held = self.bytes.capacity() + self.starts.capacity() * size_of::<usize>() + more;
        self.peak_bytes = self.peak_bytes.max(held);
    }

    fn sort_held(&mut self) {
        let bytes = &self.bytes;
        // What was pushed reads back.
        let entry = |start: usize| SortEntry::read(&bytes[start..]);
        self.starts.sort_unstable_by(|a, b| match (entry(*a), entry(*b)) {
            (Some(a), Some(b)) => a.order(&b),
            _ => Ordering::Equal,
        });
    }

    fn write_run(&mut self) -> Result<()> {
        self.sort_held();
        self.note_peak(CHUNK_BYTES_MIN);
        let mut run = RunWriter::create(&self.space, CHUNK_BYTES_MIN)?;
        for start in &self.starts {
            if let Some(entry) = SortEntry::read(&self.bytes[*start..]) {
                run.push(&entry)?;
            }
        }
        self.runs.push(run.finish()?);
        self.bytes.clear();
        self.starts.clear();
        Ok(())
    }

    /// Ends the taking: entries come out in order, those of several sorts together. `check` is called
    /// now and then while runs are merged, and may end it.
    pub(crate) fn finish(
        mut sorters: Vec<Self>,
        check: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Sorted> {
        let Some(space) = sorters.first().map(|sorter| sorter.space.clone()) else {
            return Ok(Sorted { cursors: Vec::new(), heap: Vec::new(), primed: true });
        };
        let memory_bytes: usize = sorters.iter().map(|sorter| sorter.space.memory_bytes).sum();
        let spilled = sorters.iter().any(|sorter| !sorter.runs.is_empty());
        let mut cursors = Vec::new();
        if !spilled {
            for mut sorter in sorters {
                sorter.sort_held();
                cursors.push(Cursor::Memory { sorter, next: 0 });
            }
            return Ok(Sorted { cursors, heap: Vec::new(), primed: false });
        }
        let mut runs = Vec::new();
        for sorter in &mut sorters {
            if !sorter.starts.is_empty() {
                sorter.write_run()?;
            }
            runs.append(&mut sorter.runs);
        }
        // Their memory goes to the merge.
        drop(sorters);
        let space = SortSpace { memory_bytes, ..space };
        // One chunk is for writing.
        let ways = (memory_bytes / CHUNK_BYTES_MIN - 1).max(2);
        // Ends: every turn makes `ways` runs into one.
        while runs.len() > ways {
            let group: Vec<TempFile> = runs.drain(..ways).collect();
            let mut merged = Sorted::of_runs(group, CHUNK_BYTES_MIN)?;
            let mut run = RunWriter::create(&space, CHUNK_BYTES_MIN)?;
            let mut number = 0u32;
            while let Some(entry) = merged.next()? {
                run.push(&entry)?;
                number = number.wrapping_add(1);
                if number.is_multiple_of(4096) {
                    check()?;
                }
            }
            runs.push(run.finish()?);
        }
        let chunk = (memory_bytes / runs.len().max(1)).clamp(CHUNK_BYTES_MIN, CHUNK_BYTES_MAX);
        Sorted::of_runs(runs, chunk)
    }
}

/// Writes a run chunk by chunk.
struct RunWriter {
    file: TempFile,
    chunk: Vec<u8>,
    chunk_bytes: usize,
}

impl RunWriter {
    fn create(space: &SortSpace, chunk_bytes: usize) -> Result<Self> {
        let file = space.files.create(&space.env)?;
        Ok(Self { file, chunk: Vec::with_capacity(chunk_bytes), chunk_bytes })
    }

    fn push(&mut self, entry: &SortEntry<'_>) -> Result<()> {
        if self.chunk.len() + entry.stored_bytes() > self.chunk_bytes {
            self.file.append(&self.chunk)?;
            self.chunk.clear();
        }
        entry.push_to(&mut self.chunk);
        Ok(())
    }

    fn finish(mut self) -> Result<TempFile> {
        self.file.append(&self.chunk)?;
        Ok(self.file)
    }
}

/// A place in sorted entries.
#[derive(Debug)]
enum Cursor {
    Memory {
        sorter: Sorter,
        next: usize,
    },
    Run {
        file: TempFile,
        /// Where in the file the chunk ends.
        read_to: u64,
        chunk: Vec<u8>,
        at: usize,
        chunk_bytes: usize,
    },
}

impl Cursor {
    /// The entry here; `None` at the end.
    fn entry(&self) -> Option<SortEntry<'_>> {
        match self {
            Self::Memory { sorter, next } => sorter.held_entry(*next),
            Self::Run { chunk, at, .. } => SortEntry::read(chunk.get(*at..)?),
        }
    }

    fn advance(&mut self) -> Result<()> {
        let size = self.entry().map_or(0, |entry| entry.stored_bytes());
        match self {
            Self::Memory { next, .. } => *next += 1,
            Self::Run { at, .. } => {
                *at += size;
                self.fill()?;
            }
        }
        Ok(())
    }

    /// Sees to it that the entry here is in memory as a whole.
    fn fill(&mut self) -> Result<()> {
        let Self::Run { file, read_to, chunk, at, chunk_bytes } = self else { return Ok(()) };
        // Ends: every turn reads more, or there is no more.
        while SortEntry::read(&chunk[*at..]).is_none() && *read_to < file.len() {
            chunk.drain(..*at);
            *at = 0;
            let kept = chunk.len();
            let more =
                (*chunk_bytes).min(usize::try_from(file.len() - *read_to).unwrap_or(usize::MAX));
            chunk.resize(kept + more, 0);
            file.read_exact_at(&mut chunk[kept..], *read_to)?;
            *read_to += more as u64;
        }
        Ok(())
    }
}

/// Sorted entries, one after the other.
#[derive(Debug)]
pub(crate) struct Sorted {
    cursors: Vec<Cursor>,
    /// Numbers of cursors that have an entry, as a binary heap with the least first.
    heap: Vec<usize>,
    /// Whether the first cursor of the heap stands on an entry not yet given.
    primed: bool,
}

impl Sorted {
    fn of_runs(runs: Vec<TempFile>, chunk_bytes: usize) -> Result<Self> {
        let mut cursors = Vec::with_capacity(runs.len());
        for file in runs {
            let mut cursor =
                Cursor::Run { file, read_to: 0, chunk: Vec::new(), at: 0, chunk_bytes };
            cursor.fill()?;
            cursors.push(cursor);
        }
        Ok(Self { cursors, heap: Vec::new(), primed: false })
    }

    /// The next entry in order of (key, TID); `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<SortEntry<'_>>> {
        if self.primed {
            if let Some(&first) = self.heap.first() {
                self.cursors[first].advance()?;
                if self.cursors[first].entry().is_none() {
                    self.heap.swap_remove(0);
                }
                self.sift_down(0);
            }
        } else {
            self.heap = (0..self.cursors.len())
                .filter(|number| self.cursors[*number].entry().is_some())
                .collect();
            for at in (0..self.heap.len() / 2).rev() {
                self.sift_down(at);
            }
            self.primed = true;
        }
        Ok(self.heap.first().and_then(|first| self.cursors[*first].entry()))
    }

    fn is_less(&self, a: usize, b: usize) -> bool {
        match (self.cursors[self.heap[a]].entry(), self.cursors[self.heap[b]].entry()) {
            (Some(a), Some(b)) => a.order(&b).is_lt(),
            _ => false,
        }
    }

    fn sift_down(&mut self, mut at: usize) {
        // Ends at the latest at a leaf of the heap.
        loop {
            let mut least = at;
            for child in [2 * at + 1, 2 * at + 2] {
                if child < self.heap.len() && self.is_less(child, least) {
                    least = child;
                }
            }
            if least == at {
                return;
            }
            self.heap.swap(at, least);
            at = least;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space(memory_bytes: usize) -> SortSpace {
        SortSpace { env: Env::memory(), files: Arc::new(TempFiles::default()), memory_bytes }
    }

    /// Numbers that look random and repeat.
    fn keys(count: u64) -> Vec<(Vec<u8>, Tid)> {
        (0..count)
            .map(|n| {
                let mixed = n.wrapping_mul(0x9E37_79B9_7F4A_7C15);
                let key = (mixed % (count / 3 + 1)).to_be_bytes()[5..].repeat(1 + (n % 7) as usize);
                (key, Tid::new(n as u32, 1 + (n % 5) as u16))
            })
            .collect()
    }

    fn sorted(sorters: Vec<Sorter>) -> Vec<(Vec<u8>, Tid)> {
        let mut result = Sorter::finish(sorters, &mut || Ok(())).unwrap();
        let mut found = Vec::new();
        while let Some(entry) = result.next().unwrap() {
            assert_eq!(entry.payload, &entry.key[..1]);
            assert_eq!(entry.live, entry.tid.block.0 % 2 == 0);
            found.push((entry.key.to_vec(), entry.tid));
        }
        assert!(result.next().unwrap().is_none());
        found
    }

    fn push(sorter: &mut Sorter, key: &[u8], tid: Tid) {
        let live = tid.block.0.is_multiple_of(2);
        sorter.push(&SortEntry { key, payload: &key[..1], tid, live }).unwrap();
    }

    #[test]
    fn order_does_not_depend_on_memory() {
        let mut expected = keys(30_000);
        // So many runs that one pass cannot merge them, some, and none.
        for (memory, spills) in [(0, true), (256 << 10, true), (64 << 20, false)] {
            for workers in [1, 2] {
                let space = space(memory);
                let mut sorters: Vec<Sorter> =
                    (0..workers).map(|_| Sorter::new(space.clone())).collect();
                for (n, (key, tid)) in keys(30_000).iter().enumerate() {
                    push(&mut sorters[n % workers], key, *tid);
                }
                for sorter in &sorters {
                    assert!(sorter.peak_bytes() <= memory.max(MEMORY_BYTES_MIN));
                    assert_eq!(!sorter.runs.is_empty(), spills, "{memory}");
                }
                let found = sorted(sorters);
                expected.sort();
                assert_eq!(found, expected, "memory {memory}");
                let left = space.env.vfs.list(DIR_FOR_TESTS).unwrap_or_default();
                assert!(left.is_empty(), "{left:?}");
                assert_eq!(space.files.bytes_written() > 0, spills);
            }
        }
    }

    const DIR_FOR_TESTS: &str = "tmp";

    #[test]
    fn nothing_sorts_to_nothing() {
        assert!(sorted(vec![Sorter::new(space(0))]).is_empty());
        assert!(sorted(Vec::new()).is_empty());
    }

    #[test]
    fn an_entry_larger_than_the_memory_is_sorted_too() {
        let mut sorter = Sorter::new(space(0));
        let (small, large) = (vec![1u8; 10], vec![2u8; 60_000]);
        for n in 0..40u32 {
            let key = if n % 2 == 0 { &large } else { &small };
            push(&mut sorter, key, Tid::new(n, 1));
        }
        let found = sorted(vec![sorter]);
        assert_eq!(found.len(), 40);
        assert!(found.is_sorted());
    }

    #[test]
    fn an_interrupt_ends_a_merge_and_leaves_no_file() {
        let space = space(0);
        let mut sorter = Sorter::new(space.clone());
        for (key, tid) in keys(30_000) {
            push(&mut sorter, &key, tid);
        }
        assert!(sorter.runs.len() > 3);
        let stop = || Err(crate::Error::Limit("stop".to_owned()));
        assert!(Sorter::finish(vec![sorter], &mut { stop }).is_err());
        assert!(space.env.vfs.list(DIR_FOR_TESTS).unwrap().is_empty());
    }
}
