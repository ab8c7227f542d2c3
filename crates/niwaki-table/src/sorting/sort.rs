//! External sort of records in bounded memory: sorted runs in temporary files, merged k ways.
//!
//! ```text
//!  push ──> buffer ──full──> sorted run 0 │ run 1 │ run 2 …   ──merge──> next, next, next …
//!                             (a file each; too many runs of about one length are merged into one)
//! ```
//!
//! The buffer, its list of records and the read buffers of a merge together stay within the limit.
//! A sort that fits never touches a file. The buffer is sorted slice by slice, and slices are
//! merged as runs are. So no step takes long, and a sort can be interrupted.

use std::sync::Arc;

use niwaki_env::memory;
use niwaki_types::growing;

use crate::error::{Error, Result};
use crate::sorting::runs::{RecordFormat, Run, RunReader, RunWriter};
use crate::sorting::temp_files::TempSpace;

/// The least bytes that one read or write of a run moves.
const CHUNK_BYTES_MIN: usize = 16 << 10;
/// The most bytes that one read or write of a run moves.
const CHUNK_BYTES_MAX: usize = 256 << 10;
/// The records sorted in one go: this takes some milliseconds.
const SLICE_RECORDS: usize = 32 << 10;
/// The most runs merged at once: each is an open file.
const WAYS_MAX: usize = 64;
/// The number of records between two checks for interrupts.
const RECORDS_PER_CHECK: u32 = 1024;

const _: () = assert!(CHUNK_BYTES_MIN <= CHUNK_BYTES_MAX);
// A merge of fewer than two runs would make no progress.
const _: () = assert!(WAYS_MAX >= 2);
const _: () = assert!(SLICE_RECORDS >= 4);

/// Resources of a sort: temporary files and memory.
#[derive(Clone, Debug)]
pub struct SortSpace {
    files: TempSpace,
    /// The most bytes in memory.
    memory_bytes: usize,
    /// The least bytes that one read or write of a run moves.
    chunk_bytes: usize,
}

impl SortSpace {
    /// Makes a space of about `memory_bytes` in memory, but with room for a few chunks.
    pub fn new(files: TempSpace, memory_bytes: usize) -> Self {
        Self::with_chunks(files, memory_bytes, CHUNK_BYTES_MIN)
    }

    /// Makes a space as [`SortSpace::new`] does, with smaller or larger chunks.
    pub fn with_chunks(files: TempSpace, memory_bytes: usize, chunk_bytes: usize) -> Self {
        debug_assert!(chunk_bytes > 0, "a chunk has at least a byte");
        Self { files, memory_bytes: memory_bytes.max(4 * chunk_bytes), chunk_bytes }
    }

    /// Returns the number of runs merged at once. `largest` is the size of their largest record:
    /// one record of each run is in memory as a whole. One chunk is for writing.
    fn ways(&self, largest: usize) -> usize {
        let of_a_run = self.chunk_bytes.max(largest);
        (self.memory_bytes / of_a_run).saturating_sub(1).clamp(2, WAYS_MAX)
    }
}

/// Records in memory.
#[derive(Debug, Default)]
struct SortBuffer {
    bytes: Vec<u8>,
    /// The beginning of each record.
    starts: Vec<usize>,
}

impl SortBuffer {
    fn record<L: RecordFormat>(&self, number: usize) -> Option<L::Record<'_>> {
        L::read(&self.bytes[*self.starts.get(number)?..])
    }

    /// Sorts the last slice.
    fn sort_last<L: RecordFormat>(&mut self) {
        let bytes = &self.bytes;
        let begin = self.starts.len().saturating_sub(1) / SLICE_RECORDS * SLICE_RECORDS;
        debug_assert!(self.starts.len() - begin <= SLICE_RECORDS, "a slice has too many records");
        debug_assert!(self.starts.last().is_none_or(|start| *start < bytes.len()));
        // Pushed records read back, so both sides are `Some`.
        let record = |start: usize| L::read(&bytes[start..]);
        self.starts[begin..].sort_unstable_by(|a, b| match (record(*a), record(*b)) {
            (Some(a), Some(b)) => L::order(&a, &b),
            _ => std::cmp::Ordering::Equal,
        });
    }
}

/// A sort that takes records.
#[derive(Debug)]
pub struct Sorter<L> {
    space: SortSpace,
    buffer: SortBuffer,
    /// The runs, each with its level: the number of times its records have been merged. Later runs
    /// have lower levels.
    runs: Vec<(u32, Run<L>)>,
    /// The most bytes held at once.
    peak_bytes: usize,
    first: Option<First>,
}

/// The state of a sort that needs only its first records.
#[derive(Debug)]
struct First {
    count: usize,
    /// A record with at least `count` records before it: records behind it are not wanted.
    bound: Option<Vec<u8>>,
}

impl<L: RecordFormat> Sorter<L> {
    /// Makes an empty sort.
    pub fn new(space: SortSpace) -> Self {
        Self { space, buffer: SortBuffer::default(), runs: Vec::new(), peak_bytes: 0, first: None }
    }

    /// Limits the result to its first `count` records. Called before the first push.
    pub fn only_first(&mut self, count: usize) {
        debug_assert!(self.buffer.starts.is_empty(), "records were pushed without the limit");
        debug_assert!(self.runs.is_empty(), "a run was written without the limit");
        // A larger number would need more than one slice.
        if (1..=SLICE_RECORDS / 4).contains(&count) {
            self.first = Some(First { count, bound: None });
        }
    }

    /// Returns true when a record may be among those that will be read. Otherwise pushing it does
    /// nothing.
    pub fn wants(&self, record: &L::Record<'_>) -> bool {
        let bound = self.first.as_ref().and_then(|first| first.bound.as_deref());
        let bound = bound.and_then(|bound| L::read(bound));
        bound.is_none_or(|bound| L::order(record, &bound).is_le())
    }

    /// Returns true when unwanted records were left out.
    fn leaves_out(&self) -> bool {
        self.first.as_ref().is_some_and(|first| first.bound.is_some())
    }

    /// Forgets held records that are not wanted, if there are many.
    fn leave_out(&mut self) {
        let Some(First { count, bound }) = &mut self.first else { return };
        if self.buffer.starts.len() < *count * 2 {
            return;
        }
        debug_assert!(
            self.buffer.starts.len() <= SLICE_RECORDS,
            "the records in memory are one slice"
        );
        self.buffer.sort_last::<L>();
        let mut kept = SortBuffer { bytes: Vec::new(), starts: Vec::with_capacity(*count * 2) };
        for number in 0..*count {
            if let Some(record) = self.buffer.record::<L>(number) {
                kept.starts.push(kept.bytes.len());
                L::write(&record, &mut kept.bytes);
            }
        }
        debug_assert_eq!(kept.starts.len(), *count, "records that are still wanted");
        if let Some(last) = kept.starts.last() {
            *bound = Some(kept.bytes[*last..].to_vec());
        }
        self.note_peak(kept.bytes.capacity());
        self.buffer = kept;
    }

    /// Takes a record, and may write a run. `check` is called now and then, and may end the push.
    ///
    /// # Errors
    /// The errors of writing, and of `check`.
    pub fn push<E: From<Error>>(
        &mut self,
        record: &L::Record<'_>,
        check: &mut dyn FnMut() -> Result<(), E>,
    ) -> Result<(), E> {
        if !self.wants(record) {
            return Ok(());
        }
        self.leave_out();
        let size = L::stored_bytes(record);
        self.make_room::<E>(size, check)?;
        let bytes = &self.buffer.bytes;
        growing::ask_to_grow(bytes.capacity(), bytes.len(), size).map_err(Error::from)?;
        let start = self.buffer.bytes.len();
        self.buffer.starts.push(start);
        L::write(record, &mut self.buffer.bytes);
        debug_assert_eq!(self.buffer.bytes.len() - start, size, "bytes of a record in memory");
        if self.buffer.starts.len().is_multiple_of(SLICE_RECORDS) {
            self.buffer.sort_last::<L>();
        }
        Ok(())
    }

    /// Returns the most bytes of memory that the sort has held so far.
    pub fn peak_bytes(&self) -> usize {
        self.peak_bytes
    }

    /// Grows the buffers within the limit and while memory is left, or empties them into a run.
    fn make_room<E: From<Error>>(
        &mut self,
        size: usize,
        check: &mut dyn FnMut() -> Result<(), E>,
    ) -> Result<(), E> {
        let list_bytes = |records: usize| records * size_of::<usize>();
        // While a run is written, a chunk is held too.
        debug_assert!(self.space.chunk_bytes < self.space.memory_bytes, "a chunk is all memory");
        let limit = self.space.memory_bytes - self.space.chunk_bytes;
        let fits = |bytes: usize, records: usize| bytes + list_bytes(records) <= limit;
        let SortBuffer { bytes, starts } = &mut self.buffer;
        if bytes.len() + size > bytes.capacity() {
            let doubled = (bytes.capacity() * 2).max(size).max(self.space.chunk_bytes);
            let most = limit.saturating_sub(list_bytes(starts.capacity().max(1)));
            let wanted = doubled.min(most);
            if wanted >= bytes.len() + size && memory::has_room(wanted) {
                bytes.reserve_exact(wanted - bytes.len());
            } else if !starts.is_empty() {
                return self.write_run::<E>(check);
            }
        }
        if starts.len() == starts.capacity() {
            let wanted = (starts.capacity() * 2).max(64);
            if fits(bytes.capacity(), wanted) && memory::has_room(list_bytes(wanted)) {
                starts.reserve_exact(wanted - starts.len());
            } else if !starts.is_empty() {
                return self.write_run::<E>(check);
            }
        }
        self.note_peak(0);
        Ok(())
    }

    fn note_peak(&mut self, more: usize) {
        let SortBuffer { bytes, starts } = &self.buffer;
        let held_bytes = bytes.capacity() + starts.capacity() * size_of::<usize>() + more;
        self.peak_bytes = self.peak_bytes.max(held_bytes);
    }

    fn write_run<E: From<Error>>(
        &mut self,
        check: &mut dyn FnMut() -> Result<(), E>,
    ) -> Result<(), E> {
        debug_assert!(!self.buffer.starts.is_empty(), "a run has at least one record");
        self.note_peak(self.space.chunk_bytes);
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.sort_last::<L>();
        let buffer = Arc::new(buffer);
        let mut sorted = Sorted::<L>::of(Cursor::slices(&buffer).collect());
        let run = sorted.write::<E>(&self.space, check)?;
        debug_assert_eq!(run.records(), buffer.starts.len() as u64, "records of a run");
        self.runs.push((0, run));
        drop(sorted);
        // The buffers are used again.
        if let Ok(mut buffer) = Arc::try_unwrap(buffer) {
            buffer.bytes.clear();
            buffer.starts.clear();
            self.buffer = buffer;
        }
        self.merge_equals(check)
    }

    /// Merges the last runs while too many of them have the same level.
    fn merge_equals<E: From<Error>>(
        &mut self,
        check: &mut dyn FnMut() -> Result<(), E>,
    ) -> Result<(), E> {
        // Ends: every turn makes fewer runs.
        while let Some(&(level, _)) = self.runs.last() {
            let count = self.runs.iter().rev().take_while(|(other, _)| *other == level).count();
            let group = &self.runs[self.runs.len() - count..];
            if count < self.space.ways(largest(group.iter().map(|(_, run)| run))) {
                break;
            }
            // The buffer's memory goes to the merge.
            self.buffer = SortBuffer::default();
            let group = self.runs.split_off(self.runs.len() - count);
            debug_assert!(group.len() >= 2, "a merge makes fewer runs");
            let group: Vec<Run<L>> = group.into_iter().map(|(_, run)| run).collect();
            let mut merged = Sorted::of_runs(group, self.space.chunk_bytes)?;
            let run = merged.write::<E>(&self.space, check)?;
            self.runs.push((level + 1, run));
        }
        debug_assert!(
            self.runs.is_sorted_by(|(earlier, _), (later, _)| earlier >= later),
            "a later run has a higher level than an earlier one",
        );
        Ok(())
    }

    /// Ends the input. The records of all `sorters` come out in one order. `check` is called now
    /// and then while runs are merged, and may end the merge.
    ///
    /// # Errors
    /// The errors of reading and writing, and of `check`.
    pub fn finish<E: From<Error>>(
        mut sorters: Vec<Self>,
        check: &mut dyn FnMut() -> Result<(), E>,
    ) -> Result<Sorted<L>, E> {
        let Some(space) = sorters.first().map(|sorter| sorter.space.clone()) else {
            return Ok(Sorted::of(Vec::new()));
        };
        let memory_bytes: usize = sorters.iter().map(|sorter| sorter.space.memory_bytes).sum();
        let peak_bytes = sorters.iter().map(|sorter| sorter.peak_bytes).sum();
        let left_out = sorters.iter().any(Self::leaves_out);
        let spilled = sorters.iter().any(|sorter| !sorter.runs.is_empty());
        let mut cursors = Vec::new();
        if !spilled {
            for sorter in sorters {
                let mut buffer = sorter.buffer;
                buffer.sort_last::<L>();
                cursors.extend(Cursor::slices(&Arc::new(buffer)));
            }
            return Ok(Sorted { peak_bytes, left_out, ..Sorted::of(cursors) });
        }
        let mut runs = Vec::new();
        for sorter in &mut sorters {
            if !sorter.buffer.starts.is_empty() {
                sorter.write_run::<E>(check)?;
            }
            runs.append(&mut sorter.runs);
        }
        // The sorters' memory goes to the merge.
        drop(sorters);
        let disk_bytes = runs.iter().map(|(_, run)| run.bytes()).sum();
        let space = SortSpace { memory_bytes, ..space };
        let chunk_bytes = space.chunk_bytes;
        // The shortest runs are merged first, and only as many as needed. Ends: every turn makes
        // fewer runs.
        let mut runs: Vec<Run<L>> = runs.into_iter().map(|(_, run)| run).collect();
        runs.sort_by_key(Run::bytes);
        let ways = space.ways(largest(&runs));
        while runs.len() > ways {
            let count = (runs.len() - ways + 1).min(ways);
            debug_assert!(count >= 2, "a merge makes fewer runs");
            let group: Vec<Run<L>> = runs.drain(..count).collect();
            let mut merged = Sorted::of_runs(group, chunk_bytes)?;
            let run = merged.write::<E>(&space, check)?;
            let place = runs.partition_point(|other| other.bytes() < run.bytes());
            runs.insert(place, run);
            debug_assert!(runs.is_sorted_by_key(Run::bytes), "the shortest runs come first");
        }
        let most = CHUNK_BYTES_MAX.max(chunk_bytes);
        let chunk = (memory_bytes / runs.len().max(1)).clamp(chunk_bytes, most);
        Ok(Sorted { peak_bytes, disk_bytes, left_out, ..Sorted::of_runs(runs, chunk)? })
    }
}

/// Returns the bytes of the largest record of all runs.
fn largest<'r, L: RecordFormat + 'r>(runs: impl IntoIterator<Item = &'r Run<L>>) -> usize {
    runs.into_iter().map(Run::largest).max().unwrap_or(0)
}

/// A place in sorted records.
#[derive(Debug)]
enum Cursor<L> {
    /// A position in a slice of a buffer.
    Memory {
        buffer: Arc<SortBuffer>,
        next: usize,
        end: usize,
    },
    Run(RunReader<L>),
}

impl<L: RecordFormat> Cursor<L> {
    fn slices(buffer: &Arc<SortBuffer>) -> impl Iterator<Item = Self> {
        let count = buffer.starts.len();
        (0..count).step_by(SLICE_RECORDS).map(move |next| {
            let end = (next + SLICE_RECORDS).min(count);
            Self::Memory { buffer: Arc::clone(buffer), next, end }
        })
    }

    /// Returns the record at this position; `None` at the end.
    #[inline]
    fn record(&self) -> Option<L::Record<'_>> {
        match self {
            Self::Memory { buffer, next, end } if next < end => buffer.record::<L>(*next),
            Self::Memory { .. } => None,
            Self::Run(reader) => reader.record(),
        }
    }

    fn advance(&mut self) -> Result<()> {
        match self {
            Self::Memory { next, end, .. } => {
                debug_assert!(*next < *end, "a cursor goes on behind its last record");
                *next += 1;
                Ok(())
            }
            Self::Run(reader) => reader.advance(),
        }
    }
}

/// Sorted records, one after the other.
#[derive(Debug)]
pub struct Sorted<L> {
    cursors: Vec<Cursor<L>>,
    /// Numbers of the cursors that have a record, as a binary heap with the least record first.
    heap: Vec<usize>,
    /// True when the first cursor of the heap stands on the record given last.
    primed: bool,
    peak_bytes: usize,
    disk_bytes: u64,
    left_out: bool,
}

impl<L: RecordFormat> Sorted<L> {
    fn of(cursors: Vec<Cursor<L>>) -> Self {
        Self {
            cursors,
            heap: Vec::new(),
            primed: false,
            peak_bytes: 0,
            disk_bytes: 0,
            left_out: false,
        }
    }

    fn of_runs(runs: Vec<Run<L>>, chunk_bytes: usize) -> Result<Self> {
        let mut cursors = Vec::with_capacity(runs.len());
        for run in runs {
            let mut reader = run.read(chunk_bytes);
            reader.fill()?;
            cursors.push(Cursor::Run(reader));
        }
        Ok(Self::of(cursors))
    }

    /// Returns the most bytes of memory held while records were taken.
    pub fn peak_bytes(&self) -> usize {
        self.peak_bytes
    }

    /// Returns the bytes of the written runs; 0 if none was needed.
    pub fn disk_bytes(&self) -> u64 {
        self.disk_bytes
    }

    /// Returns true when records were left out because only the first ones were wanted.
    pub fn left_out(&self) -> bool {
        self.left_out
    }

    /// Writes all records into a run.
    fn write<E: From<Error>>(
        &mut self,
        space: &SortSpace,
        check: &mut dyn FnMut() -> Result<(), E>,
    ) -> Result<Run<L>, E> {
        let mut run = RunWriter::new(space.files.clone(), space.chunk_bytes);
        let mut number = 0u32;
        while let Some(record) = self.next()? {
            run.push(&record)?;
            number = number.wrapping_add(1);
            if number.is_multiple_of(RECORDS_PER_CHECK) {
                check()?;
            }
        }
        Ok(run.finish()?)
    }

    /// Returns the record that [`Sorted::next`] gave; `None` before the first and at the end.
    pub fn current(&self) -> Option<L::Record<'_>> {
        let first = self.heap.first().filter(|_| self.primed)?;
        self.cursors[*first].record()
    }

    /// Returns the next record in order; `None` at the end.
    ///
    /// # Errors
    /// The errors of reading.
    #[expect(clippy::should_implement_trait, reason = "what it gives is borrowed, and it can fail")]
    pub fn next(&mut self) -> Result<Option<L::Record<'_>>> {
        if self.primed {
            if let Some(&first) = self.heap.first() {
                self.cursors[first].advance()?;
                if self.cursors[first].record().is_none() {
                    self.heap.swap_remove(0);
                }
                self.sift_down(0);
            }
        } else {
            self.heap = (0..self.cursors.len())
                .filter(|number| self.cursors[*number].record().is_some())
                .collect();
            for at in (0..self.heap.len() / 2).rev() {
                self.sift_down(at);
            }
            self.primed = true;
        }
        debug_assert!(self.heap.len() <= self.cursors.len(), "a cursor is in the heap twice");
        debug_assert!(
            (1..self.heap.len().min(3)).all(|child| !self.is_less(child, 0)),
            "the first record of the heap is not the least",
        );
        Ok(self.heap.first().and_then(|first| self.cursors[*first].record()))
    }

    fn is_less(&self, a: usize, b: usize) -> bool {
        match (self.cursors[self.heap[a]].record(), self.cursors[self.heap[b]].record()) {
            (Some(a), Some(b)) => L::order(&a, &b).is_lt(),
            _ => false,
        }
    }

    fn sift_down(&mut self, mut at: usize) {
        // Ends: at the latest at a leaf of the heap.
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
    use niwaki_env::Env;
    use niwaki_storage::Tid;
    use proptest::prelude::*;

    use super::*;
    use crate::sorting::runs::{IndexEntries, KeyedRow, KeyedRows, SortEntry};
    use crate::sorting::temp_files::{TempFiles, TempQuota};

    const MEMORY_BYTES_MIN: usize = 4 * CHUNK_BYTES_MIN;

    type Sorter = super::Sorter<IndexEntries>;

    struct Space {
        env: Env,
        files: Arc<TempFiles>,
        quota: Arc<TempQuota>,
        sort: SortSpace,
    }

    fn space(memory_bytes: usize) -> Space {
        let (env, files) = (Env::memory(), Arc::<TempFiles>::default());
        let quota = Arc::<TempQuota>::default();
        let space = TempSpace::new(env.clone(), Arc::clone(&files), Arc::clone(&quota), "sort");
        Space { env, files, quota, sort: SortSpace::new(space, memory_bytes) }
    }

    fn never() -> impl FnMut() -> Result<()> {
        || Ok(())
    }

    /// Returns keys that look random and repeat.
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
        let mut result = Sorter::finish(sorters, &mut never()).unwrap();
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
        let entry = SortEntry { key, payload: &key[..1], tid, live };
        sorter.push(&entry, &mut never()).unwrap();
    }

    #[test]
    fn order_does_not_depend_on_memory() {
        let mut expected = keys(30_000);
        // More runs than one pass can merge, some runs, and no run.
        for (memory, spills) in [(0, true), (256 << 10, true), (64 << 20, false)] {
            for workers in [1, 2] {
                let space = space(memory);
                let mut sorters: Vec<Sorter> =
                    (0..workers).map(|_| Sorter::new(space.sort.clone())).collect();
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
        assert!(sorted(vec![Sorter::new(space(0).sort)]).is_empty());
        assert!(sorted(Vec::new()).is_empty());
    }

    /// Regression test: the number of merged runs counted chunks only, although a large record of
    /// each run was in memory.
    #[test]
    fn few_runs_of_large_records_are_merged_at_once() {
        let sort = SortSpace::new(space(0).sort.files, 4 << 20);
        let ways = [0, 16 << 10, 100 << 10, 1 << 20, 10 << 20].map(|largest| sort.ways(largest));
        assert_eq!(ways, [64, 64, 39, 3, 2]);
    }

    #[test]
    fn an_entry_larger_than_the_memory_is_sorted_too() {
        let mut sorter = Sorter::new(space(0).sort);
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
        let mut sorter = Sorter::new(space.sort.clone());
        let (mut checks, mut stopped) = (0, None);
        for (key, tid) in keys(30_000) {
            let record = SortEntry { key: &key, payload: &[], tid, live: false };
            let mut stop = || {
                checks += 1;
                if checks > 20 { Err(Error::Limit("stop".to_owned())) } else { Ok(()) }
            };
            stopped = sorter.push(&record, &mut stop).err();
            if stopped.is_some() {
                break;
            }
        }
        assert!(matches!(stopped, Some(Error::Limit(_))), "{stopped:?}");
        drop(sorter);
        assert!(space.env.vfs.list(DIR_FOR_TESTS).unwrap().is_empty());
    }

    /// A length in a damaged file led behind its end. The merge took that for the end of the run,
    /// and left out the records that follow.
    #[test]
    fn a_damaged_file_ends_a_merge() {
        use niwaki_env::vfs::OpenMode;

        // The length of the first key; bytes of keys and addresses; a byte near the end.
        for at in [0, 1, 7, 9, 20, 5_000, 16_000, 16_390, 40_000] {
            let space = space(0);
            let mut sorter = Sorter::new(space.sort.clone());
            for (key, tid) in keys(30_000) {
                push(&mut sorter, &key, tid);
            }
            let name = space.env.vfs.list(DIR_FOR_TESTS).unwrap().pop().unwrap();
            let path = format!("{DIR_FOR_TESTS}/{name}");
            let file = space.env.vfs.open(&path, OpenMode::Existing).unwrap();
            let mut byte = [0];
            assert_eq!(file.read_at(&mut byte, at).unwrap(), 1, "the file is that long");
            file.write_at(&[!byte[0]], at).unwrap();
            let mut found = 0;
            let merge = || {
                let mut sorted = Sorter::finish(vec![sorter], &mut never())?;
                while sorted.next()?.is_some() {
                    found += 1;
                }
                Ok(())
            };
            let error: Result<()> = merge();
            let damaged = |error: &Error| {
                matches!(error, Error::Storage(niwaki_storage::Error::Corruption(_)))
            };
            assert!(error.as_ref().is_err_and(damaged), "byte {at}: {error:?}, {found} records");
            assert!(space.env.vfs.list(DIR_FOR_TESTS).unwrap().is_empty());
        }
    }

    #[test]
    fn a_quota_ends_a_sort() {
        let space = space(0);
        space.quota.set_limit(Some(100 << 10));
        let mut sorter = Sorter::new(space.sort.clone());
        let record = SortEntry { key: &[7; 1000], payload: &[], tid: Tid::new(1, 1), live: false };
        let refused = (0..200).find_map(|_| sorter.push(&record, &mut never()).err());
        assert!(matches!(refused, Some(Error::TempFileLimit { kilobytes: 100 })), "{refused:?}");
        drop(sorter);
        assert_eq!(space.quota.used(), 0);
        assert!(space.env.vfs.list(DIR_FOR_TESTS).unwrap().is_empty());
    }

    #[test]
    fn few_files_are_open_however_many_runs_are_written() {
        let space = space(0);
        let mut sorter = Sorter::new(space.sort.clone());
        let mut most = 0;
        for n in 0..400_000u32 {
            let key = n.wrapping_mul(2_654_435_761).to_be_bytes();
            push(&mut sorter, &key, Tid::new(n, 1));
            if n % 5_000 == 0 {
                let files = space.env.vfs.list(DIR_FOR_TESTS).unwrap_or_default();
                most = most.max(files.len());
            }
        }
        assert!(space.files.made() > 200 && most < 20, "{most} of {}", space.files.made());
        let found = sorted(vec![sorter]);
        assert!(found.len() == 400_000 && found.is_sorted());
    }

    proptest! {
        #[test]
        fn rows_are_sorted_and_keep_their_order(
            rows in proptest::collection::vec((proptest::collection::vec(0u8..3, 0..4), proptest::collection::vec(any::<u8>(), 0..40)), 0..300),
            memory in 0usize..4000,
            chunk in 32usize..200,
            wanted in 1usize..400,
        ) {
            let Space { env, sort, quota, .. } = space(0);
            let sort = SortSpace::with_chunks(sort.files, memory, chunk);
            let mut sorter = super::Sorter::<KeyedRows>::new(sort);
            sorter.only_first(wanted);
            for (number, (key, row)) in rows.iter().enumerate() {
                let record = KeyedRow { key, number: number as u64, row };
                sorter.push(&record, &mut never()).unwrap();
            }
            let mut sorted = super::Sorter::finish(vec![sorter], &mut never()).unwrap();
            let mut found = Vec::new();
            while found.len() < wanted && let Some(record) = sorted.next().unwrap() {
                found.push((record.key.to_vec(), record.row.to_vec()));
            }
            // Leaving out holds the remaining records twice for a moment.
            prop_assert!(sorted.peak_bytes() <= 2 * memory.max(4 * chunk));
            let mut expected = rows.clone();
            expected.sort_by(|a, b| a.0.cmp(&b.0));
            expected.truncate(wanted);
            prop_assert_eq!(found, expected);
            drop(sorted);
            prop_assert_eq!(quota.used(), 0);
            prop_assert!(env.vfs.list(DIR_FOR_TESTS).unwrap_or_default().is_empty());
        }
    }
}
