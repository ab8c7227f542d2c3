//! Optimistic reads: copies of pages, read without a pin, a latch or any write to shared memory.
//!
//! Pages that are read often and seldom changed (the inner pages of indexes) are copied here by a
//! thread that latched one to read it. A reader notes the copy's sequence number and reads the
//! bytes that it needs. Then the reader checks that the number is still the same: if so, the bytes
//! are the page's contents at that moment.
//!
//! ```text
//!   reader                                writer of the copy
//!   sequence even?   (acquire)            sequence: even -> odd        (acquire; taken by one)
//!   read words       (relaxed)            fence                        (release)
//!   fence            (acquire)            write words                  (relaxed)
//!   sequence same?   (relaxed)            sequence: odd -> next even   (release)
//! ```
//!
//! If a reader sees a word that was written after its first look, the reader's fence pairs with the
//! writer's. The second look then sees an odd or later number. Numbers only grow.
//!
//! Reads use copies, not the frames themselves. Bytes that are read beside a write must be written
//! through atomics too, or there is a data race. A frame with an inner page may hold a heap page a
//! moment later, while a thread with an old hint still reads the frame. So every write to every
//! page would have to be atomic, including the disk's reads. The copies are words that are never
//! accessed in another way. They also make usage counts unnecessary, which readers without a pin
//! could not raise: the frame of a page with a copy may be evicted.
//!
//! **A copy is the page**. A thread that latches a page exclusively first drops the page's copy.
//! Only a thread that latched the page shared makes one. [`COPIED`](super::frame::COPIED) on the
//! frame means that there may be a copy. When a page comes into the pool, the flag is set if the
//! page has a copy.

use std::sync::OnceLock;

use niwaki_env::seeded_bug;
use niwaki_env::sync::atomic::{AtomicU64, Ordering, fence};
use niwaki_env::sync::plain_atomic::AtomicU32 as Counter;
#[cfg(not(all(feature = "loom", not(feature = "shuttle"))))]
use niwaki_env::sync::plain_atomic::AtomicU64 as Word;
use niwaki_env::sync::{MODEL_CHECKED, yield_point};

// The model checker must see the words too: it decides which values a relaxed load may return.
#[cfg(all(feature = "loom", not(feature = "shuttle")))]
use niwaki_env::sync::atomic::AtomicU64 as Word;

use super::frame::Tag;
use crate::ids::{BlockNumber, Fork, RelFileId};
use crate::page::{HEADER_SIZE, ITEM_ID_SIZE, ItemId, LOWER_AT, PAGE_SIZE, Page};

const WORD_BYTES: usize = size_of::<u64>();
/// Words of a copy; a power of two.
const WORDS: usize = if MODEL_CHECKED { 2 } else { PAGE_SIZE / WORD_BYTES };
/// Places that the copy of a page can be in.
const WAYS: usize = 4;
/// Frames per copy: inner pages are one in a hundred pages or fewer.
const FRAMES_PER_COPY: usize = 32;
/// Misses in a full set after which one miss replaces a copy. So a set with too few places for its
/// pages does not copy all the time.
const MISSES_PER_REPLACEMENT: u32 = 16;
/// Tag of a place without a page.
const NO_PAGE: Tag = Tag { file: u64::MAX, place: u64::MAX };

// A copy holds a whole page, and positions wrap round by a mask.
const _: () = assert!(MODEL_CHECKED || WORDS * WORD_BYTES == PAGE_SIZE);
const _: () = assert!(WORDS.is_power_of_two());
// The count of misses may wrap round: the places of a set keep their turns.
const _: () = assert!(WAYS.is_power_of_two());
const _: () = assert!(MISSES_PER_REPLACEMENT.is_power_of_two());

/// A place for one copy. Its words are allocated when it is first used.
#[repr(align(64))]
struct PageCopy {
    /// Odd while a thread changes the rest.
    sequence: AtomicU64,
    file: Word,
    place: Word,
    words: OnceLock<Box<[Word; WORDS]>>,
}

impl PageCopy {
    fn new() -> Self {
        Self {
            sequence: AtomicU64::new(0),
            file: Word::new(NO_PAGE.file),
            place: Word::new(NO_PAGE.place),
            words: OnceLock::new(),
        }
    }

    /// Relaxed: the tag is valid only if the sequence number is the same before and after.
    #[inline]
    fn tag(&self) -> Tag {
        Tag { file: self.file.load(Ordering::Relaxed), place: self.place.load(Ordering::Relaxed) }
    }

    #[inline]
    fn read_optimistically(&self, tag: Tag) -> Option<OptimisticRead<'_>> {
        // Acquire: pairs with the release in `change`, so that the words are at least as new.
        let sequence = self.sequence.load(Ordering::Acquire);
        yield_point();
        if self.tag() != tag || sequence & 1 != 0 {
            return None;
        }
        Some(OptimisticRead { copied: self, words: self.words.get()?, sequence })
    }

    /// Makes this the copy of another page, or of none, if the number is still `sequence` and even.
    /// Otherwise changes nothing and returns false.
    fn change(&self, sequence: u64, tag: Tag, word: impl Fn(usize) -> u64) -> bool {
        // Acquire: changes of one place come one after the other.
        let taken = sequence & 1 == 0
            && self
                .sequence
                .compare_exchange(sequence, sequence + 1, Ordering::Acquire, Ordering::Relaxed)
                .is_ok();
        if !taken {
            return false;
        }
        // Pairs with the fence in `OptimisticRead::holds`: a thread that sees one of these words
        // sees the odd number.
        fence(Ordering::Release);
        self.file.store(tag.file, Ordering::Relaxed);
        self.place.store(tag.place, Ordering::Relaxed);
        if tag != NO_PAGE {
            let words = self.words.get_or_init(|| Box::new(std::array::from_fn(|_| Word::new(0))));
            for (at, place) in words.iter().enumerate() {
                place.store(word(at), Ordering::Relaxed);
                if at == WORDS / 2 {
                    yield_point();
                }
            }
        }
        self.sequence.store(sequence + 2, Ordering::Release);
        true
    }

    /// Drops the copy of this page. Does nothing where another page's copy is. The caller keeps all
    /// threads from copying this page, so a copy that is being written now is of another page.
    fn drop_copy(&self, tag: Tag) {
        let sequence = self.sequence.load(Ordering::Acquire);
        if self.tag() == tag {
            self.change(sequence, NO_PAGE, |_| 0);
        }
    }
}

/// A page's contents, read optimistically: without a pin or latch. The bytes may be anything until
/// [`OptimisticRead::holds`] returns true: read, copy out, check, and only then believe. Positions
/// beyond the page wrap round.
#[derive(Clone, Copy)]
pub struct OptimisticRead<'p> {
    copied: &'p PageCopy,
    words: &'p [Word; WORDS],
    sequence: u64,
}

impl OptimisticRead<'_> {
    #[inline]
    fn word(&self, number: usize) -> u64 {
        // Relaxed: the fence in `holds` orders all of them.
        self.words[number % WORDS].load(Ordering::Relaxed)
    }

    /// Returns eight bytes from anywhere on the page, as a little-endian number.
    #[inline]
    pub fn u64_at(&self, at: usize) -> u64 {
        let (number, shift) = (at / WORD_BYTES, at % WORD_BYTES * 8);
        let low = self.word(number) >> shift;
        // Shifting by 64 would be an overflow where `at` is aligned.
        let high = (self.word(number + 1) << 1) << (63 - shift);
        low | high
    }

    /// Returns four bytes at a multiple of four.
    #[inline]
    pub fn u32_at(&self, at: usize) -> u32 {
        debug_assert!(at.is_multiple_of(4));
        (self.word(at / WORD_BYTES) >> (at % WORD_BYTES * 8)) as u32
    }

    /// Returns the number of line pointers, like [`Page::item_count`].
    #[inline]
    pub fn item_count(&self) -> u16 {
        let end = usize::from(self.u16_at(LOWER_AT)).clamp(HEADER_SIZE, PAGE_SIZE);
        ((end - HEADER_SIZE) / ITEM_ID_SIZE) as u16
    }

    /// Returns line pointer `number`, from 1 on.
    #[inline]
    pub fn item_id(&self, number: u16) -> ItemId {
        let slot = HEADER_SIZE + usize::from(number).wrapping_sub(1).wrapping_mul(ITEM_ID_SIZE);
        ItemId(self.u32_at(slot))
    }

    /// Returns two bytes at a multiple of two.
    #[inline]
    pub fn u16_at(&self, at: usize) -> u16 {
        debug_assert!(at.is_multiple_of(2));
        (self.word(at / WORD_BYTES) >> (at % WORD_BYTES * 8)) as u16
    }

    /// Copies the bytes from `at` on.
    pub fn copy(&self, at: usize, out: &mut [u8]) {
        for (number, part) in out.chunks_mut(WORD_BYTES).enumerate() {
            let bytes = self.u64_at(at + number * WORD_BYTES).to_le_bytes();
            part.copy_from_slice(&bytes[..part.len()]);
        }
    }

    /// Returns whether everything read until now is what the page held, at this moment.
    #[inline]
    pub fn holds(&self) -> bool {
        // Pairs with the fence in `PageCopy::change`.
        fence(Ordering::Acquire);
        self.copied.sequence.load(Ordering::Relaxed) == self.sequence
            || seeded_bug!("glance_unchecked")
    }
}

impl std::fmt::Debug for OptimisticRead<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OptimisticRead").field("sequence", &self.sequence).finish_non_exhaustive()
    }
}

/// The copies of one pool.
pub(crate) struct PageCopies {
    /// The places, in sets of [`WAYS`].
    places: Box<[PageCopy]>,
    misses: Counter,
}

impl PageCopies {
    pub(crate) fn new(frames: usize) -> Self {
        let sets = (frames / (FRAMES_PER_COPY * WAYS)).max(1).next_power_of_two();
        Self {
            places: (0..sets * WAYS).map(|_| PageCopy::new()).collect(),
            misses: Counter::new(0),
        }
    }

    #[inline]
    fn set(&self, tag: Tag) -> &[PageCopy] {
        let sets = self.places.len() / WAYS;
        debug_assert!(sets.is_power_of_two(), "a mask of the hash selects a set");
        debug_assert_eq!(self.places.len(), sets * WAYS, "sets are full");
        let first = (tag.hash() >> 32) as usize & (sets - 1);
        &self.places[first * WAYS..(first + 1) * WAYS]
    }

    /// Returns an optimistic read of a page's copy, if there is one.
    #[inline]
    pub(crate) fn read_optimistically(&self, tag: Tag) -> Option<OptimisticRead<'_>> {
        self.set(tag).iter().find_map(|place| place.read_optimistically(tag))
    }

    /// Returns whether a page has a copy. The page is just coming into the pool, so no thread can
    /// be copying it.
    pub(crate) fn has(&self, tag: Tag) -> bool {
        self.set(tag).iter().any(|place| place.tag() == tag)
    }

    /// Copies a page that the caller has latched for reading. Returns false when all places are
    /// taken and it is not this page's turn, or when another thread changes the place.
    pub(crate) fn make(&self, tag: Tag, page: &Page) -> bool {
        debug_assert!(tag != NO_PAGE, "a copy of no page");
        let set = self.set(tag);
        let mut free = None;
        for place in set {
            let sequence = place.sequence.load(Ordering::Acquire);
            let now = place.tag();
            if now == tag {
                return true;
            }
            if now == NO_PAGE && sequence & 1 == 0 {
                free = free.or(Some((place, sequence)));
            }
        }
        let chosen = free.or_else(|| {
            // Relaxed: counts lost under contention do not matter, because any choice is as good.
            let misses = self.misses.fetch_add(1, Ordering::Relaxed);
            let place = &set[(misses / MISSES_PER_REPLACEMENT) as usize % WAYS];
            misses
                .is_multiple_of(MISSES_PER_REPLACEMENT)
                .then(|| (place, place.sequence.load(Ordering::Acquire)))
        });
        let words = |at: usize| {
            let bytes = page.0[at * WORD_BYTES..].first_chunk().copied();
            u64::from_le_bytes(bytes.unwrap_or_default())
        };
        chosen.is_some_and(|(place, sequence)| place.change(sequence, tag, words))
    }

    /// Drops the copies of a page that the caller has latched for writing.
    #[cold]
    pub(crate) fn drop_copy(&self, tag: Tag) {
        // Two readers may have made one copy each.
        self.set(tag).iter().for_each(|place| place.drop_copy(tag));
    }

    /// Drops the copies of a fork's pages from `first` on, which are no longer used.
    pub(crate) fn forget(&self, file: RelFileId, fork: Fork, first: BlockNumber) {
        for place in &self.places {
            let tag = place.tag();
            let id = tag.id();
            if tag != NO_PAGE && id.file == file && id.fork == fork && id.block >= first {
                place.drop_copy(tag);
            }
        }
    }
}

#[cfg(all(test, not(any(feature = "shuttle", feature = "loom"))))]
mod tests {
    use super::*;
    use crate::ids::PageId;

    fn tag(block: u32) -> Tag {
        Tag::of(PageId { file: RelFileId(7), fork: Fork::Main, block: BlockNumber(block) })
    }

    fn page(seed: u8) -> Page {
        let mut page = Page::zeroed();
        for (at, byte) in page.0.iter_mut().enumerate() {
            *byte = (at as u8).wrapping_mul(31).wrapping_add((at >> 8) as u8).wrapping_add(seed);
        }
        page
    }

    #[test]
    fn an_optimistic_read_reads_the_page_from_anywhere() {
        let copies = PageCopies::new(64);
        let original = page(3);
        assert!(copies.read_optimistically(tag(1)).is_none());
        assert!(copies.make(tag(1), &original));
        let read = copies.read_optimistically(tag(1)).unwrap();
        for at in (0..20).chain(8175..8184) {
            let bytes = original.0[at..at + 8].try_into().unwrap();
            assert_eq!(read.u64_at(at), u64::from_le_bytes(bytes), "at {at}");
            if at % 4 == 0 {
                let bytes = original.0[at..at + 4].try_into().unwrap();
                assert_eq!(read.u32_at(at), u32::from_le_bytes(bytes));
            }
            if at % 2 == 0 {
                let bytes = original.0[at..at + 2].try_into().unwrap();
                assert_eq!(read.u16_at(at), u16::from_le_bytes(bytes));
            }
        }
        for len in 0..40 {
            let mut out = vec![0; len];
            read.copy(101, &mut out);
            assert_eq!(out, original.0[101..101 + len]);
        }
        // Nothing is out of bounds.
        assert!(read.u64_at(usize::MAX - 7) > 0 && read.holds());
    }

    #[test]
    fn a_change_ends_every_optimistic_read() {
        let copies = PageCopies::new(64);
        assert!(copies.make(tag(1), &page(1)));
        assert!(copies.make(tag(1), &page(1)), "it is there");
        let read = copies.read_optimistically(tag(1)).unwrap();
        assert!(read.holds() && copies.has(tag(1)));
        copies.drop_copy(tag(1));
        assert!(
            !read.holds() && !copies.has(tag(1)) && copies.read_optimistically(tag(1)).is_none()
        );
        assert!(copies.make(tag(1), &page(2)));
        assert!(!read.holds(), "an old number never returns");
        assert_eq!(copies.read_optimistically(tag(1)).unwrap().u16_at(0) as u8, page(2).0[0]);
    }

    #[test]
    fn more_pages_than_places_take_turns() {
        const PAGES: u32 = if cfg!(miri) { 20 } else { 200 };
        let copies = PageCopies::new(1);
        for block in 0..PAGES {
            copies.make(tag(block), &page(block as u8));
        }
        let served: Vec<u32> =
            (0..PAGES).filter(|&block| copies.read_optimistically(tag(block)).is_some()).collect();
        assert_eq!(served.len(), WAYS);
        for block in served {
            assert_eq!(
                copies.read_optimistically(tag(block)).unwrap().u16_at(0) as u8,
                page(block as u8).0[0]
            );
        }
        copies.forget(RelFileId(7), Fork::Main, BlockNumber(0));
        assert!((0..PAGES).all(|block| !copies.has(tag(block))));
    }

    /// Under Miri this is the proof that no access is a data race.
    #[test]
    fn readers_never_believe_a_torn_copy() {
        use niwaki_env::sync::thread;
        const ROUNDS: u8 = if cfg!(miri) { 3 } else { 200 };
        let copies = PageCopies::new(1);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut last = 0;
                    for _ in 0..u32::from(ROUNDS) * 4 {
                        let Some(read) = copies.read_optimistically(tag(1)) else { continue };
                        let (first, end) = (read.u64_at(1), read.u64_at(PAGE_SIZE - 9));
                        if read.holds() {
                            assert_eq!(first, end, "two versions in one");
                            assert!(first >= last, "an older version came back");
                            last = first;
                        }
                    }
                });
            }
            for round in 1..ROUNDS {
                let mut page = Page::zeroed();
                page.0.fill(round);
                copies.drop_copy(tag(1));
                assert!(copies.make(tag(1), &page));
            }
        });
    }
}

#[cfg(all(test, feature = "loom", not(feature = "shuttle")))]
mod model {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;

    use loom::thread;
    use niwaki_env::bugs;

    use super::*;

    static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());

    fn check(bug: Option<&'static str>, model: fn()) -> bool {
        let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        bugs::plant(bug);
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        let passed = catch_unwind(AssertUnwindSafe(|| builder.check(model))).is_ok();
        bugs::plant(None);
        passed
    }

    const MINE: Tag = Tag { file: 1, place: 1 };
    const OTHER: Tag = Tag { file: 1, place: 2 };

    /// Drops a copy, makes it again, and gives its place to another page. A reader that believes
    /// its words saw one version of its page.
    fn one_version_of_one_page() {
        let copied = Arc::new(PageCopy::new());
        assert!(copied.change(0, MINE, |_| 10));
        let writer = {
            let copied = Arc::clone(&copied);
            thread::spawn(move || {
                copied.drop_copy(MINE);
                assert!(copied.change(4, MINE, |_| 20));
                assert!(copied.change(6, OTHER, |_| 30));
            })
        };
        if let Some(read) = copied.read_optimistically(MINE) {
            let (a, b) = (read.word(0), read.word(1));
            if read.holds() {
                assert!(a == b && (a == 10 || a == 20), "{a} and {b} of one page");
            }
        }
        writer.join().expect("the writer ends");
    }

    #[test]
    fn an_optimistic_read_is_of_one_version() {
        assert!(check(None, one_version_of_one_page));
    }

    #[test]
    fn believing_without_asking_is_found() {
        assert!(!check(Some("glance_unchecked"), one_version_of_one_page));
    }

    /// One thread copies another page to the place. A second thread drops its page's copy before it
    /// changes the page: no copy of the old page is left.
    fn a_dropped_copy_stays_away() {
        let copied = Arc::new(PageCopy::new());
        assert!(copied.change(0, MINE, |_| 10));
        let copier = {
            let copied = Arc::clone(&copied);
            thread::spawn(move || copied.change(2, OTHER, |_| 30))
        };
        copied.drop_copy(MINE);
        // No matter how far the copier is, no reader gets the old page from here on.
        if let Some(read) = copied.read_optimistically(MINE) {
            assert!(!read.holds(), "a copy of the old page was believed");
        }
        let _ = copier.join().expect("the copier ends");
        assert!(copied.tag() != MINE);
    }

    #[test]
    fn what_was_dropped_is_not_believed() {
        assert!(check(None, a_dropped_copy_stays_away));
    }
}
