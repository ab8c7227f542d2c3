//! Chooses where to divide a full page: free space is weighed against the length of the new pivot.
//!
//! Every legal point is considered. The best division of the space depends on the page
//! ([`Balance`]). The best point names an interval of points that are about as good, and in this
//! interval the shortest pivot wins. The pattern of the entries decides which of these strategies
//! is used ([`SplitKind`]):
//!
//! ```text
//! right end        | ........................ | ..|  to the fillfactor: ascending keys come here
//!                                                    only
//! after new item   | a1 a2 a3 a4 new | b1 b2 ...  |  a group that grows at its end: it has the
//!                                                    left page for itself, the items behind stay
//!                                                    whole
//! halves           | ........... | .............  |  the shortest pivot near the middle
//! many duplicates  | a | b b b b b b b b b b b b  |  no key ends near the middle: at the end of a
//!                                                    key, so that no pivot needs a TID
//! single value     | k k k k k k k k k k k k k | k|  TIDs ascend like keys at the right end
//! ```
//!
//! Source: docs/internals/design.md, "Split points"; thread `tid-key`.

use niwaki_storage::Tid;

use crate::memory::options::SplitStrategy;
use crate::page::layout::{LINE_POINTER, USABLE_BYTES};
use crate::page::posting_lists::SINGLE_VALUE_FILL;
use crate::page::separator::{common_prefix, separator};
use crate::page::tuple::{TUPLE_HEADER, pivot_size};

/// Fill factor, in percent, of inner pages that are split at the right end.
const INNER_FILLFACTOR: u8 = 70;
/// The number of entries before the new one, with TIDs ascending up to the new TID, that show that
/// their group grows at its end. In random order that happens once in 720 times.
const ASCENDING_RUN: usize = 5;

/// The bytes around the best division of a leaf within which the shortest pivot wins.
const HALVES_TOLERANCE: usize = USABLE_BYTES / 20;
/// The same for entries that go over to the right sibling: there is less room to divide.
const SHIFT_TOLERANCE: usize = USABLE_BYTES / 40;
/// The limit of that tolerance, as one part in `SHIFT_TOLERANCE_PART` of the existing room.
const SHIFT_TOLERANCE_PART: usize = 8;

const _: () = assert!(INNER_FILLFACTOR <= 100);
const _: () = assert!(SHIFT_TOLERANCE <= HALVES_TOLERANCE);
// A single value fills the left page further than any fillfactor of inner pages does.
const _: () = assert!(SINGLE_VALUE_FILL > INNER_FILLFACTOR as usize);

/// One entry or posting list of the page to be split.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SplitItem<'a> {
    pub(crate) key: &'a [u8],
    /// The entry's TID, or a posting list's first TID. For a pivot without a TID: [`Tid::MIN`].
    pub(crate) tid: Tid,
    /// The last TID of a posting list; otherwise the same as `tid`.
    pub(crate) last_tid: Tid,
    /// Bytes, line pointer included.
    pub(crate) bytes: usize,
}

/// The input of the choice of a split point.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SplitPage<'a> {
    /// The page's entries in order, the new one in place.
    pub(crate) items: &'a [SplitItem<'a>],
    /// The number of the new item; the number of items if there is none.
    pub(crate) new_at: usize,
    pub(crate) leaf: bool,
    /// The key of the page's high key; `None` on the rightmost page.
    pub(crate) high_key: Option<&'a [u8]>,
    /// Bytes of the page's high key, line pointer included; 0 on the rightmost page.
    pub(crate) high_key_bytes: usize,
    /// The fillfactor of the index, for leaves.
    pub(crate) fillfactor: u8,
    pub(crate) strategy: SplitStrategy,
    pub(crate) truncate: bool,
    pub(crate) items_max: usize,
}

impl SplitPage<'_> {
    /// Asserts what each choice of a point relies on.
    fn assert_state(&self) {
        debug_assert!(self.new_at <= self.items.len(), "the new item is in its place, or absent");
        debug_assert!(self.high_key_bytes <= USABLE_BYTES, "the high key is on the page");
    }
}

/// The reason for the place where a page was divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SplitKind {
    /// The rightmost page of a level, filled to the fillfactor.
    RightEnd,
    /// Behind the new entry, whose group grows at its end. If that place is near the page's end, at
    /// the fillfactor instead.
    AfterNew,
    /// Near the middle.
    Halves,
    /// Between two keys, on a page with few keys.
    ManyDuplicates,
    /// Within the one key of the page, which grows at its end.
    SingleValue,
}

/// The place where a page is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SplitPoint {
    /// The first item that goes right, in `1..items.len()`.
    pub(crate) first_right: usize,
    pub(crate) kind: SplitKind,
}

/// The rule by which the free bytes of both sides are compared.
#[derive(Clone, Copy, Debug)]
enum Balance {
    /// As equal as possible.
    Half,
    /// The left side is filled to this percentage.
    Fill(usize),
}

impl Balance {
    /// Returns the distance of a point from the perfect balance.
    fn distance(self, point: &Candidate) -> usize {
        match self {
            Self::Half => point.left_free.abs_diff(point.right_free),
            Self::Fill(percent) => {
                let fill = percent.clamp(10, 100);
                (fill * point.left_free).abs_diff((100 - fill) * point.right_free) / 100
            }
        }
    }
}

/// A legal point.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    first_right: usize,
    left_free: usize,
    right_free: usize,
    /// Bytes of the new pivot.
    pivot: usize,
}

/// Chooses where to split a full page so that both halves keep room and the new pivot is short.
///
/// The caller holds the page's exclusive latch. `None` if no legal point exists, which cannot
/// happen within the size limits.
pub(crate) fn choose(page: &SplitPage<'_>) -> Option<SplitPoint> {
    page.assert_state();
    let candidates = candidates(page);
    let rightmost = page.high_key.is_none();
    let (balance, kind) = match (rightmost, page.leaf) {
        (true, true) => (Balance::Fill(page.fillfactor.into()), SplitKind::RightEnd),
        (true, false) => (Balance::Fill(INNER_FILLFACTOR.into()), SplitKind::RightEnd),
        (false, _) => (Balance::Half, SplitKind::Halves),
    };
    let best = |balance: Balance| candidates.iter().min_by_key(|point| balance.distance(point));
    let at = |point: &Candidate, kind| SplitPoint { first_right: point.first_right, kind };
    if page.strategy == SplitStrategy::Half {
        return best(balance).map(|point| at(point, kind));
    }
    if !page.leaf {
        return shortest_near(&candidates, balance, USABLE_BYTES * 3 / 40).map(|p| at(p, kind));
    }
    if is_single_value(page) {
        // Elsewhere, if the value goes on to the right, its TIDs come in no order.
        let ends_here = page.high_key.is_none_or(|high_key| high_key != page.items[0].key);
        return if ends_here {
            best(Balance::Fill(SINGLE_VALUE_FILL)).map(|p| at(p, SplitKind::SingleValue))
        } else {
            best(Balance::Half).map(|point| at(point, SplitKind::Halves))
        };
    }
    let (balance, kind) = if ascending_group(page) && !rightmost {
        let behind = candidates.iter().find(|point| point.first_right == page.new_at + 1);
        // The group goes on on the left page, which is not filled beyond the fillfactor.
        let full = USABLE_BYTES * usize::from(page.fillfactor) / 100;
        match behind.filter(|point| USABLE_BYTES - point.left_free <= full) {
            Some(point) => return Some(at(point, SplitKind::AfterNew)),
            None => (Balance::Fill(page.fillfactor.into()), SplitKind::AfterNew),
        }
    } else {
        (balance, kind)
    };
    let near = shortest_near(&candidates, balance, HALVES_TOLERANCE)?;
    if between_keys(page, near) {
        return Some(at(near, kind));
    }
    // Only TIDs tell neighbours apart there. A pivot with a TID would stand between entries of one
    // key for good. So the page is rather parted between two keys, wherever that is.
    candidates
        .iter()
        .filter(|point| between_keys(page, point))
        .min_by_key(|point| balance.distance(point))
        .map(|point| at(point, SplitKind::ManyDuplicates))
        .or(Some(at(near, kind)))
}

/// Room on the right sibling of a full leaf.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    pub(crate) bytes: usize,
    /// The number of additional items that the sibling may hold.
    pub(crate) items: usize,
}

/// Decides whether a full leaf may be parted so that the entries behind go over to its right
/// sibling. A leaf that a split would not divide near its middle, between two keys, is packed as it
/// is for a reason.
pub(crate) fn may_shift(page: &SplitPage<'_>) -> bool {
    page.assert_state();
    let divided_anywhere = page.strategy == SplitStrategy::Informed && page.high_key.is_some();
    if !divided_anywhere || is_single_value(page) || ascending_group(page) {
        return false;
    }
    // A point farther from the middle than this is not among the points near the best: a pivot is
    // no longer than an entry.
    let longest = page.items.iter().map(|item| item.bytes).fold(page.high_key_bytes, usize::max);
    let near = 2 * (HALVES_TOLERANCE + 3 * longest);
    let points = candidates_where(page, |left, right| left.abs_diff(right) <= near);
    let middle = shortest_near(&points, Balance::Half, HALVES_TOLERANCE);
    middle.is_some_and(|middle| between_keys(page, middle))
}

/// Chooses where to part a full leaf so that the entries behind go over to its right sibling:
/// between two keys, with a short pivot. The leaf then has about `shares` times as much room as the
/// sibling, and at least `freed_min` bytes. `None` where there is no such point. Called only where
/// [`may_shift`] allows.
pub(crate) fn choose_shift(
    page: &SplitPage<'_>,
    room: Room,
    shares: usize,
    freed_min: usize,
) -> Option<usize> {
    page.assert_state();
    debug_assert!(shares > 0, "the leaf itself takes part");
    debug_assert!(page.leaf, "only leaves shift entries");
    let after_shift = |point: &Candidate| {
        debug_assert!(point.right_free + page.high_key_bytes <= USABLE_BYTES, "the rest goes over");
        let taken_over = USABLE_BYTES - page.high_key_bytes - point.right_free;
        let right_free = room.bytes.checked_sub(taken_over)?;
        let fits = page.items.len() - point.first_right <= room.items
            && point.left_free >= freed_min
            && between_keys(page, point);
        fits.then_some(Candidate { right_free, ..*point })
    };
    let points = candidates_where(page, |_, right| right <= room.bytes);
    let points: Vec<Candidate> = points.iter().filter_map(after_shift).collect();
    let (balance, tolerance) = match shares {
        0 | 1 => (Balance::Half, SHIFT_TOLERANCE.min(room.bytes / SHIFT_TOLERANCE_PART)),
        _ => (Balance::Fill(100 / (shares + 1)), room.bytes / SHIFT_TOLERANCE_PART),
    };
    shortest_near(&points, balance, tolerance).map(|point| point.first_right)
}

/// Chooses where to part a leaf so that the entries behind go over to its right sibling and fill
/// `room` there: between two keys, with a short pivot. `None` where there is no such point.
pub(crate) fn choose_packed(page: &SplitPage<'_>, room: Room) -> Option<usize> {
    page.assert_state();
    debug_assert!(page.leaf, "only leaves are packed");
    let left_free = |point: &Candidate| {
        debug_assert!(point.right_free + page.high_key_bytes <= USABLE_BYTES, "the rest goes over");
        let taken_over = USABLE_BYTES - page.high_key_bytes - point.right_free;
        let left = room.bytes.checked_sub(taken_over)?;
        let items = page.items.len() - point.first_right;
        (items <= room.items && between_keys(page, point)).then_some((left, *point))
    };
    let points: Vec<(usize, Candidate)> = candidates(page).iter().filter_map(left_free).collect();
    let best = points.iter().map(|(left, _)| *left).min()?;
    let near = points.iter().filter(|(left, _)| *left <= best + room.bytes / SHIFT_TOLERANCE_PART);
    near.min_by_key(|(left, point)| (point.pivot, *left)).map(|(_, point)| point.first_right)
}

/// Returns the point with the shortest pivot among the points whose division of space is nearly as
/// good as the best one. Of several such points the best balanced wins. `tolerance` is in bytes.
fn shortest_near(
    candidates: &[Candidate],
    balance: Balance,
    tolerance: usize,
) -> Option<&Candidate> {
    let best = candidates.iter().min_by_key(|point| balance.distance(point))?;
    candidates
        .iter()
        .filter(|point| point.left_free.abs_diff(best.left_free) <= tolerance)
        .min_by_key(|point| (point.pivot, balance.distance(point)))
}

/// Decides whether the point parts two keys, and not the TIDs of one.
fn between_keys(page: &SplitPage<'_>, point: &Candidate) -> bool {
    debug_assert!(point.first_right > 0, "an item stays on the left");
    debug_assert!(point.first_right < page.items.len(), "an item goes to the right");
    page.items[point.first_right - 1].key != page.items[point.first_right].key
}

/// Decides whether all entries have one key.
fn is_single_value(page: &SplitPage<'_>) -> bool {
    match page.items {
        [first, .., last] => first.key == last.key,
        _ => false,
    }
}

/// Decides whether the new entry stands at the end of a group of entries that was filled in
/// ascending order. Examples are order lines within a district, or events of a device. The common
/// beginnings of keys reveal groups: the new key has more leading bytes in common with the key
/// before than with the key behind. The TIDs reveal that the group grows, since rows go into a
/// table one behind the other. Either the row before is the new row's neighbour in the table, or
/// the TIDs of several entries ascend.
fn ascending_group(page: &SplitPage<'_>) -> bool {
    let (before, rest) = page.items.split_at(page.new_at);
    let [new, behind @ ..] = rest else { return false };
    let Some(last) = before.last() else { return false };
    let inside = common_prefix(last.key, new.key);
    let outside = match (behind.first(), page.high_key) {
        (Some(next), _) => common_prefix(new.key, next.key),
        (None, Some(high_key)) => common_prefix(new.key, high_key),
        (None, None) => 0,
    };
    if inside <= outside || last.key == new.key {
        return false;
    }
    let group = before.iter().rev().take_while(|item| common_prefix(item.key, new.key) > outside);
    let mut above = new.tid;
    let run = group
        .take_while(|item| {
            let ascends = item.last_tid < above;
            above = item.tid;
            ascends
        })
        .take(ASCENDING_RUN)
        .count();
    run == ASCENDING_RUN || are_neighbours(last.last_tid, new.tid)
}

/// Decides whether a row was stored right behind another.
fn are_neighbours(row: Tid, next: Tid) -> bool {
    row < next
        && (row.block == next.block || (row.block.0 + 1 == next.block.0 && next.offset.0 == 1))
}

/// Returns all points that leave both sides within their limits.
fn candidates(page: &SplitPage<'_>) -> Vec<Candidate> {
    candidates_where(page, |_, _| true)
}

/// Returns the legal points for which `wanted` accepts the bytes of items on the left and on the
/// right.
fn candidates_where(page: &SplitPage<'_>, wanted: impl Fn(usize, usize) -> bool) -> Vec<Candidate> {
    let count = page.items.len();
    let total: usize = page.items.iter().map(|item| item.bytes).sum();
    let mut found = Vec::new();
    let mut left_items = 0;
    for first_right in 1..count {
        left_items += page.items[first_right - 1].bytes;
        debug_assert!(left_items < total, "the items on the right have bytes, too");
        if !wanted(left_items, total - left_items) {
            continue;
        }
        let pivot = pivot_bytes(page, first_right);
        let left = left_items + pivot;
        // The first pivot of an inner page loses its key.
        let lost =
            if page.leaf { 0 } else { page.items[first_right].bytes - TUPLE_HEADER - LINE_POINTER };
        let right = total - left_items - lost + page.high_key_bytes;
        let fits = left <= USABLE_BYTES
            && right <= USABLE_BYTES
            && first_right <= page.items_max
            && count - first_right <= page.items_max;
        if fits {
            let (left_free, right_free) = (USABLE_BYTES - left, USABLE_BYTES - right);
            found.push(Candidate { first_right, left_free, right_free, pivot });
        }
    }
    found
}

/// Returns the bytes of the pivot, and of the left page's high key, for this split point.
fn pivot_bytes(page: &SplitPage<'_>, first_right: usize) -> usize {
    let right = page.items[first_right];
    if !page.leaf {
        return right.bytes;
    }
    let left = page.items[first_right - 1];
    let cut = separator((left.key, left.last_tid), (right.key, right.tid), page.truncate);
    pivot_size(cut.key.len(), cut.tid.is_some()) + LINE_POINTER
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn split<'a>(items: &'a [SplitItem<'a>]) -> SplitPage<'a> {
        SplitPage {
            items,
            new_at: 0,
            leaf: true,
            high_key: Some(b"zzzz"),
            high_key_bytes: 20,
            fillfactor: 90,
            strategy: SplitStrategy::Informed,
            truncate: true,
            items_max: usize::MAX,
        }
    }

    fn item(key: &[u8], tid: Tid) -> SplitItem<'_> {
        SplitItem { key, tid, last_tid: tid, bytes: 12 + key.len() }
    }

    fn items(keys: &[Vec<u8>]) -> Vec<SplitItem<'_>> {
        keys.iter().map(|key| item(key, Tid::new(1, 1))).collect()
    }

    fn first_right(page: &SplitPage<'_>) -> usize {
        choose(page).unwrap().first_right
    }

    fn numbers(range: std::ops::Range<u32>) -> Vec<Vec<u8>> {
        range.map(|n| n.to_be_bytes().to_vec()).collect()
    }

    #[test]
    #[should_panic(expected = "the new item is in its place, or absent")]
    #[cfg(debug_assertions)]
    fn a_new_item_behind_all_items_is_noticed() {
        choose(&SplitPage { new_at: 1, ..split(&[]) });
    }

    #[test]
    fn a_short_pivot_near_the_middle_wins() {
        // Ten entries right of the middle is a boundary at which the last byte is not needed.
        let keys = numbers(0x1_0100 - 265..0x1_0100 + 245);
        let items = items(&keys);
        let point = first_right(&split(&items));
        assert_eq!(keys[point], 0x1_0100u32.to_be_bytes());
        let half = SplitPage { strategy: SplitStrategy::Half, ..split(&items) };
        assert!(first_right(&half).abs_diff(255) <= 1);
    }

    #[test]
    fn the_right_end_is_filled_to_the_fillfactor() {
        let keys = numbers(0..510);
        let items = items(&keys);
        for fillfactor in [50, 70, 90, 100] {
            let page = SplitPage { high_key: None, high_key_bytes: 0, fillfactor, ..split(&items) };
            let first_right = first_right(&SplitPage { strategy: SplitStrategy::Half, ..page });
            let left: usize = items[..first_right].iter().map(|item| item.bytes).sum();
            let percent = left * 100 / USABLE_BYTES;
            assert!(percent.abs_diff(usize::from(fillfactor)) <= 1, "{fillfactor}: {percent}");
        }
        let inner = SplitPage { high_key: None, leaf: false, high_key_bytes: 0, ..split(&items) };
        let left: usize = items[..first_right(&inner)].iter().map(|item| item.bytes).sum();
        assert!((left * 100 / USABLE_BYTES).abs_diff(70) <= 8);
    }

    #[test]
    fn duplicates_are_parted_from_their_neighbour_where_possible() {
        // 240 copies of one key, then 270 of another: the boundary needs no TID.
        let mut keys = vec![b"aaaa".to_vec(); 240];
        keys.resize(510, b"bbbb".to_vec());
        let items: Vec<SplitItem<'_>> =
            keys.iter().enumerate().map(|(n, key)| item(key, Tid::new(n as u32, 1))).collect();
        assert_eq!(first_right(&split(&items)), 240);
    }

    /// Returns entries with 8-byte keys: a group byte, then a number. Their rows went into the
    /// table in turns of the groups.
    fn grouped(groups: &[(u8, u32)]) -> Vec<(Vec<u8>, Tid)> {
        let mut row = 0;
        let mut entries: Vec<(Vec<u8>, Tid)> = Vec::new();
        // The groups take turns, so neighbours in the index are not neighbours in the table.
        for number in 0..groups.iter().map(|group| group.1).max().unwrap_or(0) {
            for &(group, count) in groups {
                if number < count {
                    row += 1;
                    let key = [&[group, 0, 0, 0][..], &number.to_be_bytes()].concat();
                    entries.push((key, Tid::new(row * 2, 1)));
                }
            }
        }
        entries.sort();
        entries
    }

    #[test]
    fn a_group_that_grows_at_its_end_has_the_left_page() {
        let entries = grouped(&[(1, 150), (2, 250)]);
        let mut items: Vec<SplitItem<'_>> =
            entries.iter().map(|(key, tid)| item(key, *tid)).collect();
        let new_key = [1, 0, 0, 0, 0, 0, 0, 150];
        items.insert(150, item(&new_key, Tid::new(9_000, 1)));
        let page = SplitPage { new_at: 150, ..split(&items) };
        let point = choose(&page).unwrap();
        assert_eq!(point, SplitPoint { first_right: 151, kind: SplitKind::AfterNew });
        // TIDs in no order: the entry came there by chance.
        let shuffled: Vec<SplitItem<'_>> = items
            .iter()
            .enumerate()
            .map(|(at, one)| item(one.key, Tid::new((at as u32 * 7919) % 401, 1)))
            .collect();
        assert_eq!(
            choose(&SplitPage { items: &shuffled, ..page }).unwrap().kind,
            SplitKind::Halves
        );
        // The TIDs of the group do not ascend, but the row before is the new row's neighbour.
        let mut two: Vec<SplitItem<'_>> = shuffled.clone();
        two[149].tid = Tid::new(5_000, 3);
        two[149].last_tid = two[149].tid;
        two[150].tid = Tid::new(5_000, 4);
        two[150].last_tid = two[150].tid;
        assert_eq!(choose(&SplitPage { items: &two, ..page }).unwrap().first_right, 151);
        // In the middle of its group an entry shows nothing.
        let middle = SplitPage { new_at: 100, ..page };
        assert_eq!(choose(&middle).unwrap().kind, SplitKind::Halves);
    }

    #[test]
    fn a_group_at_the_end_of_its_page_leaves_it_at_the_fillfactor() {
        let entries = grouped(&[(1, 408)]);
        let items: Vec<SplitItem<'_>> = entries.iter().map(|(key, tid)| item(key, *tid)).collect();
        let page = SplitPage { new_at: 407, high_key: Some(&[2]), ..split(&items) };
        let point = choose(&page).unwrap();
        assert_eq!(point.kind, SplitKind::AfterNew);
        let left: usize = items[..point.first_right].iter().map(|item| item.bytes).sum();
        assert!((left * 100 / USABLE_BYTES).abs_diff(90) <= 5, "{left}");
        // If the high key shows that the group goes on on the right, this is not the group's end.
        let goes_on = SplitPage { high_key: Some(&[1, 0, 0, 0, 0, 0, 1, 200]), ..page };
        assert_eq!(choose(&goes_on).unwrap().kind, SplitKind::Halves);
    }

    #[test]
    fn few_keys_on_a_page_are_parted_from_each_other() {
        // The only place between two keys is far from the middle.
        let mut keys = vec![b"aaaa".to_vec(); 30];
        keys.resize(510, b"bbbb".to_vec());
        let items: Vec<SplitItem<'_>> =
            keys.iter().enumerate().map(|(n, key)| item(key, Tid::new(n as u32, 1))).collect();
        for truncate in [true, false] {
            let point = choose(&SplitPage { truncate, ..split(&items) }).unwrap();
            let expected = SplitPoint { first_right: 30, kind: SplitKind::ManyDuplicates };
            assert_eq!(point, expected);
        }
    }

    #[test]
    fn one_value_is_packed_where_it_ends_and_halved_where_it_goes_on() {
        let keys = vec![b"aaaa".to_vec(); 509];
        let items: Vec<SplitItem<'_>> =
            keys.iter().enumerate().map(|(n, key)| item(key, Tid::new(n as u32, 1))).collect();
        let fill = |high_key| {
            let point = choose(&SplitPage { high_key, ..split(&items) }).unwrap();
            let left: usize = items[..point.first_right].iter().map(|item| item.bytes).sum();
            (point.kind, left * 100 / USABLE_BYTES)
        };
        for high_key in [None, Some(&b"ab"[..])] {
            let (kind, percent) = fill(high_key);
            assert_eq!(kind, SplitKind::SingleValue);
            assert!(percent.abs_diff(SINGLE_VALUE_FILL) <= 1, "{percent}");
        }
        let (kind, percent) = fill(Some(b"aaaa"));
        assert_eq!(kind, SplitKind::Halves);
        assert!(percent.abs_diff(49) <= 1, "{percent}");
    }

    proptest! {
        #[test]
        fn both_sides_always_fit(
            sizes in prop::collection::vec(0usize..2690, 1..60),
            leaf: bool, rightmost: bool, truncate: bool, half: bool, fillfactor in 10u8..=100,
            new_at in any::<prop::sample::Index>(), equal: bool,
        ) {
            // The largest set of entries that a full page and one more entry can hold.
            let mut keys: Vec<Vec<u8>> = Vec::new();
            let mut used = 0;
            for (n, size) in sizes.iter().enumerate() {
                let mut key = if equal { vec![7; 4] } else { (n as u32).to_be_bytes().to_vec() };
                key.resize(4 + size, 0);
                used += key.len() + 12;
                keys.push(key);
                if used > USABLE_BYTES { break; }
            }
            prop_assume!(used > USABLE_BYTES);
            let mut items = items(&keys);
            for (n, item) in items.iter_mut().enumerate() {
                item.tid = Tid::new(n as u32, 1);
                item.last_tid = item.tid;
            }
            let page = SplitPage {
                leaf, truncate, fillfactor,
                new_at: new_at.index(items.len()),
                high_key: if rightmost { None } else { Some(&[9]) },
                high_key_bytes: 0,
                strategy: if half { SplitStrategy::Half } else { SplitStrategy::Informed },
                ..split(&items)
            };
            let point = choose(&page);
            prop_assert!(point.is_some_and(|at| (1..items.len()).contains(&at.first_right)));
        }
    }
}
