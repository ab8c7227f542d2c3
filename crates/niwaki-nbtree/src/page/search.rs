//! Finds a key on a page by comparison and binary search, straight on the page's bytes.
//!
//! Most comparisons are decided by the first 16 bytes of the keys, compared as one number; the rest
//! goes to `memcmp`. A search first looks at the place that interpolation between the numbers of
//! the first and the last item suggests. Keys are often spread evenly (numbers, times). Then a
//! search touches a few neighbouring tuples instead of jumping over the page, where each jump is a
//! cache miss. Text is not spread evenly over bytes (digits, a gap, letters): a guess there costs
//! more looks than it spares.

use std::cmp::Ordering;

use niwaki_env::seeded_bug;
use niwaki_storage::page::{HEADER_SIZE, ItemId, PAGE_SIZE, Page};
use niwaki_storage::{BlockNumber, OptimisticRead, Tid};

use crate::page::layout::{
    FLAGS_AT, HIGH_KEY, IndexPage, LINE_POINTER, NEXT_AT, NO_BLOCK, SPECIAL_SIZE, flag,
};
use crate::page::tuple::{INFO_AT, PIVOT_MAX, TUPLE_HEADER, info, sort_key, tid_number};

/// Bytes of a key that are compared as one number.
const WORD: usize = 16;
/// The least number of items for which a search interpolates; fewer are searched by halving alone.
const INTERPOLATE_MIN: u16 = 32;
/// Distances, in items, of the next looks from the guessed place, until the bound lies in between.
const INTERPOLATE_NEAR: [u16; 2] = [2, 12];

const _: () = assert!(WORD == size_of::<u128>());
// The first bytes of the last key on a page may reach into the special area, but not beyond.
const _: () = assert!(WORD <= SPECIAL_SIZE);
const _: () = assert!(INTERPOLATE_NEAR[0] < INTERPOLATE_NEAR[1]);
// A range that is interpolated has room for all looks.
const _: () = assert!(INTERPOLATE_NEAR[1] < INTERPOLATE_MIN);

/// A place in the order of (key, TID): at, before or after entries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target<'a> {
    key: &'a [u8],
    tid: u64,
    /// True for the place after every key that starts with `key`.
    after: bool,
    /// The key's first bytes as a number, the first byte highest; zeros where the key is shorter.
    word: u128,
    /// The bits of another key's number that count: the bits of `key`, if longer keys count as
    /// equal.
    mask: u128,
}

/// Returns a word in which all bits of the first `bytes` bytes are set.
#[inline]
fn first_bytes(bytes: usize) -> u128 {
    match bytes {
        0 => 0,
        WORD.. => u128::MAX,
        _ => u128::MAX << (8 * (WORD - bytes)),
    }
}

#[inline]
fn word_of(key: &[u8]) -> u128 {
    if let Some(bytes) = key.first_chunk::<WORD>() {
        u128::from_be_bytes(*bytes)
    } else {
        let mut bytes = [0; WORD];
        bytes[..key.len()].copy_from_slice(key);
        u128::from_be_bytes(bytes)
    }
}

impl<'a> Target<'a> {
    #[inline]
    fn new(key: &'a [u8], tid: u64, after: bool) -> Self {
        let mask = if after { first_bytes(key.len()) } else { u128::MAX };
        let word = word_of(key);
        debug_assert_eq!(word & mask, word, "all bits of the key count");
        Self { key, tid, after, word, mask }
    }

    /// Returns the place of the entry (key, TID).
    #[inline]
    pub(crate) fn entry(key: &'a [u8], tid: Tid) -> Self {
        Self::new(key, tid_number(tid), false)
    }

    /// Returns the place before the first entry whose key is at least `prefix`, reached from the
    /// left. A search descends past a pivot that equals `prefix` and has no TID, since all entries
    /// left of that pivot are smaller.
    #[inline]
    pub(crate) fn before(prefix: &'a [u8]) -> Self {
        Self::new(prefix, 1, false)
    }

    /// Returns the same place as [`Target::before`], but reached from the right: a search descends
    /// to the last page with smaller entries.
    #[inline]
    pub(crate) fn up_to(prefix: &'a [u8]) -> Self {
        Self::new(prefix, 0, false)
    }

    /// Returns the place after the last entry whose key starts with `prefix`.
    #[inline]
    pub(crate) fn after(prefix: &'a [u8]) -> Self {
        Self::new(prefix, u64::MAX, true)
    }

    /// Returns the place of a key and a TID given as its number.
    #[inline]
    pub(crate) fn numbered(key: &'a [u8], tid: u64) -> Self {
        Self::new(key, tid, false)
    }

    /// Returns the place of a pivot.
    #[inline]
    pub(crate) fn pivot(key: &'a [u8], tid: Option<Tid>) -> Self {
        Self::new(key, tid.map_or(0, tid_number), false)
    }

    /// Compares a tuple with this place.
    #[inline]
    pub(crate) fn order_of(&self, tuple: &[u8]) -> Ordering {
        self.order_behind(0, tuple)
    }

    /// Compares a tuple with this place, given that the keys agree in their first `same` bytes, as
    /// far as both are that long.
    #[inline]
    fn order_behind(&self, same: usize, tuple: &[u8]) -> Ordering {
        let (key, tid) = sort_key(tuple);
        let common = key.len().min(self.key.len());
        if same < common {
            match key[same..common].cmp(&self.key[same..common]) {
                Ordering::Equal => {}
                unequal => return unequal,
            }
        }
        match key.len().cmp(&self.key.len()) {
            Ordering::Less => Ordering::Less,
            _ if self.after => Ordering::Less,
            Ordering::Greater => Ordering::Greater,
            Ordering::Equal => tid.cmp(&self.tid),
        }
    }
}

/// The view that a search has of a page: of a page under its latch, or of an
/// [`OptimisticRead`]. There all values are arbitrary until the read is known to hold.
pub(crate) trait Keys {
    /// Returns the number of items.
    fn items(&self) -> u16;
    /// Returns the right sibling; [`NO_BLOCK`] if there is none.
    fn right(&self) -> BlockNumber;
    /// Decides whether the page's range of keys belongs to its right sibling.
    fn gave_up_range(&self) -> bool;
    /// Returns the beginning of an item's tuple: its info word, and the first bytes of its key as a
    /// number. On a damaged page they are arbitrary numbers.
    fn head(&self, item: u16) -> (u16, u128);
    /// Compares an item with `target`, given that the keys agree in their first `same` bytes, as
    /// far as both are that long.
    fn order_behind(&self, same: usize, item: u16, target: &Target<'_>) -> Ordering;
}

/// Returns the start of a tuple, limited so that the tuple's head ends on the page. A key never
/// reaches the last 16 bytes of the page: the special area is there.
#[inline]
fn head_at(id: ItemId) -> usize {
    usize::from(id.offset()).min(PAGE_SIZE - TUPLE_HEADER - WORD)
}

/// Returns the place of the head of an item; `None`: a page has no such item.
#[inline]
fn place_of_head(page: &Page, item: u16) -> Option<usize> {
    let slot = HEADER_SIZE + usize::from(item).wrapping_sub(1) * LINE_POINTER;
    let id = page.0.get(slot..)?.first_chunk::<LINE_POINTER>()?;
    Some(head_at(ItemId(u32::from_le_bytes(*id))))
}

/// Begins to load the head of an item that a search will soon look at (prefetch). Returns the place
/// of the head.
#[inline]
fn prefetch(page: &Page, item: u16) -> usize {
    let at = place_of_head(page, item).unwrap_or(0);
    debug_assert!(at + TUPLE_HEADER + WORD <= PAGE_SIZE, "the head ends on the page");
    page.prefetch(at);
    // The head may lie on two cache lines.
    page.prefetch(at + TUPLE_HEADER + WORD - 1);
    at
}

impl Keys for Page {
    #[inline]
    fn items(&self) -> u16 {
        self.item_count()
    }

    #[inline]
    fn right(&self) -> BlockNumber {
        self.next()
    }

    #[inline]
    fn gave_up_range(&self) -> bool {
        self.is_half_dead() && !seeded_bug!("half_dead_page_keeps_its_range")
    }

    #[inline]
    fn head(&self, item: u16) -> (u16, u128) {
        let Some(at) = place_of_head(self, item) else { return (0, 0) };
        let head = &self.0[at..at + TUPLE_HEADER + WORD];
        let mut key = [0; WORD];
        key.copy_from_slice(&head[TUPLE_HEADER..]);
        (u16::from_le_bytes([head[INFO_AT], head[INFO_AT + 1]]), u128::from_be_bytes(key))
    }

    #[inline]
    fn order_behind(&self, same: usize, item: u16, target: &Target<'_>) -> Ordering {
        target.order_behind(same, self.tuple(item))
    }
}

impl Keys for OptimisticRead<'_> {
    #[inline]
    fn items(&self) -> u16 {
        self.item_count()
    }

    #[inline]
    fn right(&self) -> BlockNumber {
        BlockNumber(self.u32_at(PAGE_SIZE - SPECIAL_SIZE + NEXT_AT))
    }

    #[inline]
    fn gave_up_range(&self) -> bool {
        self.u16_at(PAGE_SIZE - SPECIAL_SIZE + FLAGS_AT) & flag::HALF_DEAD != 0
    }

    #[inline]
    fn head(&self, item: u16) -> (u16, u128) {
        let at = head_at(self.item_id(item));
        let half = |at| u128::from(self.u64_at(at).swap_bytes());
        let key = (half(at + TUPLE_HEADER) << 64) | half(at + TUPLE_HEADER + WORD / 2);
        ((self.u64_at(at) >> (8 * INFO_AT)) as u16, key)
    }

    fn order_behind(&self, same: usize, item: u16, target: &Target<'_>) -> Ordering {
        /// Most tuples are shorter; a larger buffer would cost more to clear than the comparison.
        const SHORT: usize = 128;
        let id = self.item_id(item);
        let (at, len) = (usize::from(id.offset()), usize::from(id.len()).min(PIVOT_MAX));
        if len <= SHORT {
            let mut bytes = [0; SHORT];
            self.copy(at, &mut bytes[..len]);
            target.order_behind(same, &bytes[..len])
        } else {
            let mut bytes = [0; PIVOT_MAX];
            self.copy(at, &mut bytes[..len]);
            target.order_behind(same, &bytes[..len])
        }
    }
}

/// Returns the first bytes of an item's key as a number; bytes that the key does not have are zero.
#[inline]
fn item_word(page: &impl Keys, item: u16) -> u128 {
    let (info, word) = page.head(item);
    word & first_bytes(usize::from(info & info::KEY_LENGTH))
}

/// Decides whether an item lies before `target`.
#[inline]
fn is_before(page: &impl Keys, item: u16, target: &Target<'_>) -> bool {
    match (item_word(page, item) & target.mask).cmp(&target.word) {
        Ordering::Less => true,
        Ordering::Greater => false,
        // This is rare where keys differ early; there the compiler keeps it out of the loop.
        Ordering::Equal => page.order_behind(WORD, item, target) == Ordering::Less,
    }
}

/// Decides whether an item is at `target`: begins with that key and TID.
#[inline]
pub(crate) fn is_at(page: &Page, item: u16, target: &Target<'_>) -> bool {
    item_word(page, item) & target.mask == target.word
        && page.order_behind(WORD, item, target) == Ordering::Equal
}

/// Returns the first item in `from..=item_count()` that is not before `target`; `item_count() + 1`
/// if all are.
#[inline]
pub(crate) fn lower_bound(page: &Page, from: u16, target: &Target<'_>) -> u16 {
    bound(page, from, target)
}

/// Does the same as [`lower_bound`], also on a page that is read optimistically.
#[inline]
fn bound(page: &impl Keys, from: u16, target: &Target<'_>) -> u16 {
    debug_assert!(from > 0, "offset numbers begin at 1");
    let mut low = from;
    let mut high = page.items() + 1;
    let end = high.max(from);
    if high.saturating_sub(low) >= INTERPOLATE_MIN {
        (low, high) = narrow(page, low, high, target);
    }
    while low < high {
        let middle = low + (high - low) / 2;
        if is_before(page, middle, target) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    debug_assert!(low >= from, "the search goes on from here");
    debug_assert!(low <= end, "at most, all items are before the target");
    low
}

/// Decides whether keys look like text, by the first two bytes in which not all three keys agree.
/// About one in some hundred numbers looks like text, too.
#[inline]
fn is_text([first, target, last]: [u128; 3]) -> bool {
    let same = (first ^ last).leading_zeros() & !7;
    let bytes = [first, target, last].map(|word| ((word << same) >> (u128::BITS - 16)) as u16);
    bytes.iter().flat_map(|two| two.to_be_bytes()).all(|byte| (b'0'..=b'z').contains(&byte))
}

/// Narrows the range in which the bound lies. It looks at the place where the bound would be if
/// keys were spread evenly, and a little further on: five looks at most, whatever the result. The
/// high key serves as well as the last item, and was looked at before.
#[inline]
fn narrow(page: &impl Keys, mut low: u16, mut high: u16, target: &Target<'_>) -> (u16, u16) {
    debug_assert!(low + INTERPOLATE_MIN <= high, "few items are searched by halving alone");
    let first = item_word(page, low) & target.mask;
    let has_high_key = page.right() != NO_BLOCK && low > HIGH_KEY;
    let end = if has_high_key { high } else { high - 1 };
    let last = item_word(page, if has_high_key { HIGH_KEY } else { end }) & target.mask;
    if !(first < target.word && target.word < last) || is_text([first, target.word, last]) {
        return (low, high);
    }
    // For a guess, 32 significant bits of the distances are enough.
    let shift = (u128::BITS - (last - first).leading_zeros()).saturating_sub(32);
    let (part, whole) = ((target.word - first) >> shift, (last - first) >> shift);
    debug_assert!(part <= whole, "the target lies between the first and the last item");
    debug_assert!(whole <= u128::from(u32::MAX), "the product below does not overflow");
    let guess = low + (u128::from(end - low) * part / whole.max(1)) as u16;
    // Both ends are decided already.
    (low, high) = (low + 1, end);
    let guess = guess.clamp(low, high - 1);
    if is_before(page, guess, target) {
        low = guess + 1;
        for near in INTERPOLATE_NEAR {
            let further = guess + near;
            if further >= high {
                break;
            }
            if !is_before(page, further, target) {
                high = further;
                break;
            }
            low = further + 1;
        }
    } else {
        high = guess;
        for near in INTERPOLATE_NEAR {
            let further = guess.saturating_sub(near);
            if further < low {
                break;
            }
            if is_before(page, further, target) {
                low = further + 1;
                break;
            }
            high = further;
        }
    }
    debug_assert!(low <= high, "the bound lies between both ends");
    (low, high)
}

/// The number of targets that are searched for in step: a processor does not wait for more cache
/// misses at once.
const IN_STEP: usize = 16;
/// Bytes of a key that are compared in one look, behind the bytes with which all keys in question
/// begin.
const WINDOW: usize = 8;
const _: () = assert!(WINDOW == size_of::<u64>());
const _: () = assert!(WINDOW <= WORD);

/// One target of a search in step, with the state of its search.
#[derive(Clone, Copy, Default)]
struct Look {
    /// The target's bytes in the window, as a number, and the bits of an item's number that count.
    word: u64,
    mask: u64,
    /// The bound so far: it is this item, or one behind it.
    bound: u16,
    /// The place of the head of the item that is looked at.
    head: usize,
}

/// Returns the bytes of a word from `skip` on that a look compares, as a number.
#[inline]
fn window(word: u128, skip: usize) -> u64 {
    debug_assert!(skip + WINDOW <= WORD, "the window lies in the word");
    ((word << (8 * skip)) >> (8 * (WORD - WINDOW))) as u64
}

/// Returns the same bytes of the key whose item's head is at `at`.
#[inline]
fn window_at(page: &Page, at: usize, skip: usize) -> u64 {
    debug_assert!(skip + WINDOW <= WORD, "the window lies in the head");
    let head = page.0.get(at..).and_then(|bytes| bytes.first_chunk::<{ TUPLE_HEADER + WORD }>());
    let Some(head) = head else { return 0 };
    let info = u16::from_le_bytes([head[INFO_AT], head[INFO_AT + 1]]);
    let length = usize::from(info & info::KEY_LENGTH);
    let Some(bytes) = head[TUPLE_HEADER..].get(skip..).and_then(|key| key.first_chunk()) else {
        return 0;
    };
    let bytes = u64::from_be_bytes(*bytes);
    // This case is rare: most keys are longer.
    if length < skip + WINDOW { bytes & first_bytes_of(length.saturating_sub(skip)) } else { bytes }
}

/// Returns all bits of the first `bytes` bytes; `bytes` is less than a window.
#[cold]
fn first_bytes_of(bytes: usize) -> u64 {
    debug_assert!(bytes < WINDOW, "a whole window needs no mask");
    !(u64::MAX >> (8 * bytes))
}

/// Replaces the contents of `bounds` by the [`lower_bound`] of each of the targets, which are given
/// ascending.
///
/// The searches halve their ranges in step. Each look is a cache miss of its own, and all misses of
/// one step begin together.
pub(crate) fn lower_bounds(page: &Page, from: u16, targets: &[Target<'_>], bounds: &mut Vec<u16>) {
    debug_assert!(from > 0, "offset numbers begin at 1");
    bounds.clear();
    bounds.resize(targets.len(), from);
    // The number of items. Each item may be the bound, or no item is.
    let items = (page.item_count() + 1).saturating_sub(from);
    let (Some(first), Some(last), 1..) = (targets.first(), targets.last(), items) else { return };
    // All keys between the first and the last begin with the bytes that these two have in common.
    let ends = [first.word, last.word, item_word(page, from + items - 1)];
    let word = item_word(page, from);
    let differ = ends.into_iter().fold(0, |bits, end| bits | (end ^ word));
    let skip = (differ.leading_zeros() as usize / 8).min(WORD - WINDOW);
    let mut looks = [Look::default(); IN_STEP];
    for (targets, bounds) in targets.chunks(IN_STEP).zip(bounds.chunks_mut(IN_STEP)) {
        let looks = &mut looks[..targets.len()];
        for (look, target) in looks.iter_mut().zip(targets) {
            let (word, mask) = (window(target.word, skip), window(target.mask, skip));
            *look = Look { word, mask, bound: from, head: 0 };
        }
        let mut left = items;
        while left > 0 {
            let step = left.div_ceil(2);
            for look in &mut *looks {
                look.head = prefetch(page, look.bound.wrapping_add(step - 1));
            }
            for (at, look) in looks.iter_mut().enumerate() {
                let its = window_at(page, look.head, skip) & look.mask;
                let is_before = if its == look.word {
                    let item = look.bound.wrapping_add(step - 1);
                    page.order_behind(skip + WINDOW, item, &targets[at]) == Ordering::Less
                } else {
                    its < look.word
                };
                look.bound = look.bound.wrapping_add(if is_before { step } else { 0 });
            }
            left -= step;
        }
        for (bound, look) in bounds.iter_mut().zip(looks) {
            debug_assert!(look.bound >= from, "the search goes on from here");
            debug_assert!(look.bound <= from + items, "at most, all items are before the target");
            *bound = look.bound;
        }
    }
}

/// Returns the first item from `from` on that is not before `target`. The search is fast when the
/// item is near `from`.
#[inline]
pub(crate) fn lower_bound_near(page: &Page, from: u16, target: &Target<'_>) -> u16 {
    debug_assert!(from > 0, "offset numbers begin at 1");
    let end = page.item_count() + 1;
    if from >= end || !is_before(page, from, target) {
        return from;
    }
    if from + 1 >= end || !is_before(page, from + 1, target) {
        return from + 1;
    }
    lower_bound(page, from + 2, target)
}

/// Decides whether `target` lies beyond the page's high key, so that the search goes on to the
/// right. Everything lies beyond a half-dead page.
#[inline]
pub(crate) fn is_beyond(page: &Page, target: &Target<'_>) -> bool {
    lies_beyond(page, target)
}

/// Does the same as [`is_beyond`], also on a page that is read optimistically.
#[inline]
pub(crate) fn lies_beyond(page: &impl Keys, target: &Target<'_>) -> bool {
    page.right() != NO_BLOCK && (page.gave_up_range() || is_before(page, HIGH_KEY, target))
}

/// Returns the item of an inner page whose downlink leads to `target`: the last pivot before it.
/// The first pivot counts as minus infinity. `None` on an empty page, which an inner page never is.
#[inline]
pub(crate) fn downlink_item(page: &impl Keys, target: &Target<'_>) -> Option<u16> {
    let first = if page.right() == NO_BLOCK { HIGH_KEY } else { HIGH_KEY + 1 };
    if first > page.items() {
        return None;
    }
    let item = bound(page, first + 1, target) - 1;
    debug_assert!(item >= first, "the high key is no downlink");
    Some(item)
}

#[cfg(test)]
mod tests {
    use niwaki_storage::{BlockNumber, OffsetNumber};

    use super::*;
    use crate::page::tuple::{push_leaf, push_pivot};

    fn leaf(entries: &[(&[u8], u16)]) -> Page {
        let mut page = Page::zeroed();
        page.init_index(0, flag::LEAF);
        for (number, (key, offset)) in entries.iter().enumerate() {
            let mut tuple = Vec::new();
            push_leaf(&mut tuple, key, b"", Tid::new(0, *offset));
            assert!(page.insert_item(OffsetNumber(number as u16 + 1), &tuple));
        }
        page
    }

    #[test]
    fn places_among_duplicates() {
        let page = leaf(&[(b"a", 1), (b"b", 1), (b"b", 5), (b"b", 9), (b"ba", 1), (b"c", 1)]);
        let find = |target: Target<'_>| lower_bound(&page, 1, &target);
        assert_eq!(find(Target::before(b"b")), 2);
        assert_eq!(find(Target::up_to(b"b")), 2);
        assert_eq!(find(Target::entry(b"b", Tid::new(0, 5))), 3);
        assert_eq!(find(Target::entry(b"b", Tid::new(0, 6))), 4);
        assert_eq!(find(Target::after(b"b")), 6, "after every key that starts with it");
        assert_eq!(find(Target::after(b"")), 7);
        assert_eq!(find(Target::before(b"")), 1);
        for from in 1..=7 {
            let target = Target::after(b"b");
            assert_eq!(lower_bound_near(&page, from, &target), find(target).max(from));
        }
    }

    proptest::proptest! {
        /// The fast search finds the same place as a comparison with every item, on any sorted
        /// page.
        #[test]
        fn the_bound_is_where_comparison_puts_it(
            keys in proptest::collection::btree_set(
                proptest::collection::vec(proptest::prelude::prop_oneof![
                    proptest::prelude::Just(0u8), 250u8..=255, 0u8..=255,
                ], 0..20),
                1..200,
            ),
            numbers in proptest::prelude::any::<bool>(),
            wanted in proptest::collection::vec(0u8..=255, 0..20),
            pick in proptest::prelude::any::<proptest::sample::Index>(),
        ) {
            let keys: Vec<Vec<u8>> = if numbers {
                (0..keys.len() as u64 * 3).step_by(3).map(|n| n.to_be_bytes().to_vec()).collect()
            } else {
                keys.into_iter().collect()
            };
            let entries: Vec<(&[u8], u16)> = keys.iter().map(|key| (&key[..], 7)).collect();
            let page = leaf(&entries);
            let present = pick.get(&keys);
            let mut bounds = Vec::new();
            for key in [&wanted[..], &present[..], &present[..present.len() / 2]] {
                for target in [
                    Target::before(key),
                    Target::up_to(key),
                    Target::after(key),
                    Target::entry(key, Tid::new(0, 7)),
                    Target::entry(key, Tid::new(0, 8)),
                ] {
                    let before =
                        (1..=page.item_count()).filter(|&n| target.order_of(page.tuple(n)).is_lt());
                    let bound = before.count() as u16 + 1;
                    proptest::prop_assert_eq!(lower_bound(&page, 1, &target), bound);
                    let end = page.item_count() + 1;
                    let targets = [Target::before(b""), target, target, Target::before(&[255; 21])];
                    lower_bounds(&page, 1, &targets, &mut bounds);
                    proptest::prop_assert_eq!(&bounds, &[1, bound, bound, end]);
                    lower_bounds(&page, 1, &[target; 20], &mut bounds);
                    proptest::prop_assert_eq!(&bounds, &[bound; 20]);
                    lower_bounds(&page, bound, &[target], &mut bounds);
                    proptest::prop_assert_eq!(&bounds, &[bound]);
                }
            }
            let mut all: Vec<&[u8]> = keys.iter().map(|key| &key[..]).chain([&wanted[..]]).collect();
            all.sort_unstable();
            let targets: Vec<_> = all.iter().map(|key| Target::entry(key, Tid::new(0, 7))).collect();
            lower_bounds(&page, 1, &targets, &mut bounds);
            let each: Vec<u16> = targets.iter().map(|it| lower_bound(&page, 1, it)).collect();
            proptest::prop_assert_eq!(&bounds, &each);
        }
    }

    #[test]
    fn a_truncated_pivot_is_minus_infinity() {
        let mut page = Page::zeroed();
        page.init_index(1, 0);
        let pivots: [(&[u8], Option<Tid>); 4] =
            [(b"", None), (b"b", None), (b"d", Some(Tid::new(0, 5))), (b"f", None)];
        for (number, (key, tid)) in pivots.iter().enumerate() {
            let mut tuple = Vec::new();
            push_pivot(&mut tuple, BlockNumber(10 + number as u32), key, *tid);
            assert!(page.insert_item(OffsetNumber(number as u16 + 1), &tuple));
        }
        let find = |target: Target<'_>| downlink_item(&page, &target).unwrap();
        assert_eq!(find(Target::entry(b"a", Tid::MAX)), 1);
        assert_eq!(find(Target::before(b"b")), 2, "b itself lies right of its truncated pivot");
        assert_eq!(find(Target::up_to(b"b")), 1, "what is smaller than b lies left of it");
        assert_eq!(find(Target::entry(b"d", Tid::new(0, 5))), 2, "equal to a full pivot: left");
        assert_eq!(find(Target::entry(b"d", Tid::new(0, 6))), 3);
        assert_eq!(find(Target::after(b"")), 4);
    }
}
