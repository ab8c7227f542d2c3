//! The bits of a heap's pages in memory: a reader needs one atomic load.
//!
//! A thread changes the bits under the heap page's exclusive latch. The bits are kept in segments,
//! each as long as all segments before it together. Segments are added as the heap grows, and never
//! move. The memory of all heaps is bounded: a segment without memory has its bits on the map's
//! pages only.
//!
//! Memory order: a writer clears a bit before its change commits, and before the change is in any
//! index (`Release`). A reader sees the bit cleared if it has taken a snapshot that sees the
//! change. The same holds for the latch of a leaf that has the change's entry. Every other reader
//! sees the row as it was when the bit was set.

use std::sync::OnceLock;

use niwaki_env::SIMULATED;
use niwaki_env::invariant;
use niwaki_env::sync::atomic::{AtomicU64, Ordering};
use niwaki_env::sync::plain_atomic::{
    AtomicBool, AtomicU32, AtomicUsize, Ordering as PlainOrdering,
};
use niwaki_env::sync::{Arc, MODEL_CHECKED, Mutex, SCHEDULED};

use crate::format::map_page::{BITS, PageVisibility};

const MASK: u64 = 3;
const BLOCKS_PER_WORD: u32 = u64::BITS / BITS;
/// Number of words of the first segment: 256 bytes, for 1,024 pages.
const FIRST: u32 = if MODEL_CHECKED || SCHEDULED { 1 } else { 32 };
/// Number of segments: enough for every possible block.
const SEGMENTS: usize = 2 + (u32::MAX / BLOCKS_PER_WORD / FIRST).ilog2() as usize;

const _: () = assert!(MASK == (1 << BITS) - 1);
const _: () = assert!(BLOCKS_PER_WORD * BITS == u64::BITS);
const _: () = assert!(FIRST > 0 && (SEGMENTS as u32) < u64::BITS);

/// Memory used by the bits of all heaps of one database, in bytes.
#[derive(Debug, Default)]
pub(crate) struct MapMemory(AtomicUsize);

impl MapMemory {
    fn take(&self, bytes: usize, max: usize) -> bool {
        let more = |used: usize| used.checked_add(bytes).filter(|&sum| sum <= max);
        self.0.fetch_update(PlainOrdering::Relaxed, PlainOrdering::Relaxed, more).is_ok()
    }

    #[cfg(test)]
    fn used(&self) -> usize {
        self.0.load(PlainOrdering::Relaxed)
    }
}

/// The place of a page's bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// The bits are in memory, with this state.
    Here(PageVisibility),
    /// The bits are on the map's page only.
    OnPage,
}

/// The bits of one heap.
#[derive(Debug)]
pub(crate) struct Bits {
    /// The segments. An empty one: none of its pages has a bit. `None`: its bits are on the map's
    /// pages.
    segments: [OnceLock<Option<Box<[AtomicU64]>>>; SEGMENTS],
    memory: Arc<MapMemory>,
}

/// Returns the segment with a block's word, and the word's place there.
fn place(block: u32) -> (usize, usize) {
    let word = block / BLOCKS_PER_WORD;
    let (segment, word) = match (word / FIRST).checked_ilog2() {
        None => (0, word as usize),
        Some(power) => (1 + power as usize, (word - (FIRST << power)) as usize),
    };
    debug_assert!(segment < SEGMENTS, "there are segments for every block, {block} too");
    debug_assert!(word < words(segment), "word {word} of block {block} lies in another segment");
    (segment, word)
}

fn words(segment: usize) -> usize {
    match segment.checked_sub(1) {
        None => FIRST as usize,
        Some(power) => (FIRST as usize) << power,
    }
}

fn shift(block: u32) -> u32 {
    BITS * (block % BLOCKS_PER_WORD)
}

impl Bits {
    pub(crate) fn new(memory: Arc<MapMemory>) -> Self {
        Self { segments: std::array::from_fn(|_| OnceLock::new()), memory }
    }

    /// Returns the state of a page, or that its bits are elsewhere.
    #[inline]
    pub(crate) fn get(&self, block: u32) -> Kept {
        let (segment, word) = place(block);
        let Some(kept) = self.segments[segment].get() else {
            return Kept::Here(PageVisibility::Unknown);
        };
        let Some(words) = kept else { return Kept::OnPage };
        let bits = words[word].load(Ordering::Acquire) >> shift(block) & MASK;
        Kept::Here(PageVisibility::from_bits(bits as u8).unwrap_or_default())
    }

    /// Returns the first page from `from` on, before `end`, that is not marked here. Pages whose
    /// bits are not in memory are skipped.
    pub(crate) fn next_unknown(&self, from: u32, end: u32) -> Option<u32> {
        /// Mask of the lower bit of each page.
        const VISIBLE: u64 = u64::MAX / MASK;
        let mut block = from;
        while block < end {
            let (segment, word) = place(block);
            let said = match self.segments[segment].get() {
                None => return Some(block),
                Some(None) => VISIBLE,
                Some(Some(words)) => words[word].load(Ordering::Relaxed),
            };
            let unknown = (!said & VISIBLE) >> shift(block);
            if unknown != 0 {
                let found = block + unknown.trailing_zeros() / BITS;
                debug_assert!(found >= from, "page {found} lies before the first one asked for");
                debug_assert_eq!(place(found), (segment, word), "its bits lie in another word");
                return Some(found).filter(|&block| block < end);
            }
            block = (block / BLOCKS_PER_WORD + 1).checked_mul(BLOCKS_PER_WORD)?;
        }
        None
    }

    /// Changes a page's bits, under the page's exclusive latch; `max` bytes may be in use for the
    /// bits of all heaps.
    pub(crate) fn set(&self, block: u32, to: PageVisibility, max: usize) {
        let (segment, word) = place(block);
        let Some(words) = self.segment(segment, max) else { return };
        let (shift, bits) = (shift(block), to as u64);
        // Other threads may change the other bits of the word, but not these two.
        let was = words[word].load(Ordering::Relaxed) >> shift & MASK;
        if bits & !was != 0 {
            let before = words[word].fetch_or(bits << shift, Ordering::Release) >> shift & MASK;
            invariant!(V1, before == was, "page {block} was marked without its latch");
        }
        if was & !bits != 0 {
            let clear = !((was & !bits) << shift);
            let before = words[word].fetch_and(clear, Ordering::Release) >> shift & MASK;
            invariant!(V1, before == was | bits, "page {block} was marked without its latch");
        }
    }

    /// Returns a segment, and creates it if necessary; `None` if its bits are kept on the map's
    /// pages.
    fn segment(&self, segment: usize, max: usize) -> Option<&[AtomicU64]> {
        let kept = self.segments[segment].get_or_init(|| {
            let words = words(segment);
            let taken = self.memory.take(words * size_of::<u64>(), max);
            taken.then(|| (0..words).map(|_| AtomicU64::new(0)).collect())
        });
        debug_assert!(
            kept.as_deref().is_none_or(|kept| kept.len() == words(segment)),
            "segment {segment} has another length"
        );
        kept.as_deref()
    }

    /// Decides for the first `blocks` pages whether their bits are kept in memory.
    pub(crate) fn reach(&self, blocks: u32, max: usize) {
        let Some(last) = blocks.checked_sub(1) else { return };
        for segment in 0..=place(last).0 {
            self.segment(segment, max);
        }
    }

    /// Returns the bytes of memory that the bits of this heap take.
    pub(crate) fn bytes(&self) -> usize {
        let kept = self.segments.iter().filter_map(|segment| segment.get()?.as_deref());
        // As `segment` counts them: an atomic of the deterministic scheduler is larger.
        kept.map(|words| words.len() * size_of::<u64>()).sum()
    }
}

impl Drop for Bits {
    fn drop(&mut self) {
        let bytes = self.bytes();
        let used = self.memory.0.fetch_sub(bytes, PlainOrdering::Relaxed);
        debug_assert!(used >= bytes, "a map of {bytes} bytes goes, and all maps had {used}");
    }
}

/// The least number of pages of a heap with a map. In a smaller heap, the map saves less than a
/// look at it costs.
const BLOCKS_MIN: u32 = if SIMULATED || SCHEDULED { 1 } else { 32 };
/// Options for the visibility maps of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapOptions {
    /// Heaps with fewer pages have no map.
    pub blocks_min: u32,
    /// True to keep bits in memory. Otherwise each test pins the map's page, as
    /// thread `no-page-flag` first had it: for measurements.
    pub resident: bool,
}

impl MapOptions {
    /// No heap is large enough for a map. Bits from earlier maps are still cleared when they become
    /// wrong.
    pub const NONE: Self = Self { blocks_min: u32::MAX, resident: true };
}

impl Default for MapOptions {
    fn default() -> Self {
        Self { blocks_min: BLOCKS_MIN, resident: true }
    }
}

/// The map of one open heap.
#[derive(Debug)]
pub(crate) struct VisibilityMap {
    pub(crate) options: MapOptions,
    pub(crate) bits: Bits,
    /// Number of pages that the map marks as visible to all.
    pub(crate) all_visible: AtomicU32,
    /// True once the map's pages were read, which happens once, before the first change. After
    /// that, `bits` only needs the changes.
    pub(crate) loaded: AtomicBool,
    pub(crate) loading: Mutex<()>,
}

impl VisibilityMap {
    pub(crate) fn new(options: MapOptions, memory: Arc<MapMemory>) -> Self {
        Self {
            options,
            bits: Bits::new(memory),
            all_visible: AtomicU32::new(0),
            loaded: AtomicBool::new(false),
            loading: Mutex::default(),
        }
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    #[test]
    fn every_block_has_a_place_of_its_own() {
        let mut before = None;
        for block in (0..1 << 16).chain(u32::MAX - 100..=u32::MAX) {
            let (segment, word) = place(block);
            assert!(segment < SEGMENTS && word < words(segment), "{block}");
            let here = (segment, word, shift(block));
            assert!(before.is_none_or(|before| before < here), "{block}");
            before = Some(here);
        }
    }

    #[test]
    fn bits_are_changed_alone() {
        use PageVisibility::{AllFrozen, AllVisible, Unknown};
        let bits = Bits::new(Arc::default());
        let blocks = [0, 1, 2, 31, 32, 33, 1023, 1024, 1025, 5000];
        let mut expected = [Unknown; 10];
        for step in 0..100 {
            let at = step * 7 % blocks.len();
            expected[at] = [AllVisible, AllFrozen, Unknown, AllFrozen, AllVisible][step % 5];
            bits.set(blocks[at], expected[at], usize::MAX);
            assert_eq!(blocks.map(|block| bits.get(block)), expected.map(Kept::Here));
        }
    }

    #[test]
    fn pages_of_which_nothing_is_said_are_found() {
        let bits = Bits::new(Arc::default());
        assert_eq!((bits.next_unknown(7, 9), bits.next_unknown(9, 9)), (Some(7), None));
        (0..3000).for_each(|block| bits.set(block, PageVisibility::AllVisible, usize::MAX));
        (0..3000)
            .step_by(3)
            .for_each(|block| bits.set(block, PageVisibility::AllFrozen, usize::MAX));
        assert_eq!(bits.next_unknown(0, 3000), None);
        let cleared = [0, 31, 32, 40, 1023, 1024, 2999];
        cleared.iter().for_each(|&block| bits.set(block, PageVisibility::Unknown, usize::MAX));
        let mut found = Vec::new();
        while let Some(block) = bits.next_unknown(found.last().map_or(0, |last| last + 1), 3000) {
            found.push(block);
        }
        assert_eq!(found, cleared);
        assert_eq!(bits.next_unknown(3000, 3001), Some(3000));
        assert_eq!(bits.next_unknown(u32::MAX - 1, u32::MAX), Some(u32::MAX - 1));
    }

    #[test]
    fn memory_is_bounded_and_comes_back() {
        let memory = Arc::<MapMemory>::default();
        let (first, second) = (Bits::new(memory.clone()), Bits::new(memory.clone()));
        let segment = FIRST as usize * size_of::<u64>();
        first.set(0, PageVisibility::AllVisible, segment);
        second.set(0, PageVisibility::AllVisible, segment);
        assert_eq!(first.get(0), Kept::Here(PageVisibility::AllVisible));
        assert_eq!(second.get(0), Kept::OnPage, "no memory is left");
        assert_eq!((memory.used(), first.bytes(), second.bytes()), (segment, segment, 0));
        drop(first);
        assert_eq!(memory.used(), 0);
        assert_eq!(second.get(0), Kept::OnPage, "where bits are is decided once");
    }
}

/// Every execution of a few steps: `cargo test -p niwaki-heap --features loom --lib model`.
#[cfg(all(test, feature = "loom"))]
mod model {
    use niwaki_env::sync::atomic::{AtomicBool, Ordering};
    use niwaki_env::sync::{Arc, thread};

    use super::*;

    /// A writer clears the bit, then commits. Inserting its entry is equivalent: a release
    /// publishes either. A reader that sees the commit must not find the bit still set, because it
    /// would take the entry's row for visible.
    #[test]
    fn who_sees_a_commit_sees_the_bit_cleared() {
        loom::model(|| {
            let bits = Arc::new(Bits::new(Arc::default()));
            bits.set(0, PageVisibility::AllVisible, usize::MAX);
            let committed = Arc::new(AtomicBool::new(false));
            let writer = {
                let (bits, committed) = (bits.clone(), committed.clone());
                thread::spawn(move || {
                    bits.set(0, PageVisibility::Unknown, usize::MAX);
                    committed.store(true, Ordering::Release);
                })
            };
            let seen = committed.load(Ordering::Acquire);
            let bit = bits.get(0);
            assert!(!seen || bit == Kept::Here(PageVisibility::Unknown));
            writer.join().unwrap();
        });
    }

    /// A reader that finds the bit set sees everything that was done before it was set.
    #[test]
    fn who_sees_the_bit_sees_the_cleaned_page() {
        loom::model(|| {
            let bits = Arc::new(Bits::new(Arc::default()));
            let cleaned = Arc::new(AtomicBool::new(false));
            let cleaner = {
                let (bits, cleaned) = (bits.clone(), cleaned.clone());
                thread::spawn(move || {
                    cleaned.store(true, Ordering::Relaxed);
                    bits.set(0, PageVisibility::AllVisible, usize::MAX);
                })
            };
            if bits.get(0) == Kept::Here(PageVisibility::AllVisible) {
                assert!(cleaned.load(Ordering::Relaxed));
            }
            cleaner.join().unwrap();
        });
    }

    /// Two pages share a word; each page's latch has its own holder.
    #[test]
    fn neighbours_do_not_lose_each_others_bits() {
        loom::model(|| {
            let bits = Arc::new(Bits::new(Arc::default()));
            bits.set(1, PageVisibility::AllFrozen, usize::MAX);
            let other = {
                let bits = bits.clone();
                thread::spawn(move || bits.set(0, PageVisibility::AllVisible, usize::MAX))
            };
            bits.set(1, PageVisibility::AllVisible, usize::MAX);
            other.join().unwrap();
            let both = [bits.get(0), bits.get(1)];
            assert_eq!(both, [Kept::Here(PageVisibility::AllVisible); 2]);
        });
    }
}
