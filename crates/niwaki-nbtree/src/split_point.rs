//! Where to divide a full page: free space weighed against the length of the new pivot.
//!
//! Every legal point is looked at. The best division of space names an interval of points that are
//! about as good, and in it the point with the shortest pivot wins. What counts as the best division
//! depends on the page: halves, or, at the right end of a level, a left page filled to the
//! fillfactor, since ascending keys come only to the right. Strategies for many duplicates, for one
//! value and for ascending groups inside a composite key will choose another interval
//! ([`interval_bytes`]) or another balance ([`Balance`]).
//!
//! Source: design section 6; thread 003.

use niwaki_storage::Tid;

use crate::options::SplitStrategy;
use crate::page::{LINE_POINTER, USABLE_BYTES};
use crate::separator::separator;
use crate::tuple::{TUPLE_HEADER, pivot_size};

/// Fillfactor of inner pages that are split at the right end.
const INNER_FILLFACTOR: u8 = 70;

/// One entry of the page to be split.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SplitItem<'a> {
    pub(crate) key: &'a [u8],
    /// Its TID; of a pivot without one: [`Tid::MIN`].
    pub(crate) tid: Tid,
    /// Bytes, line pointer included.
    pub(crate) bytes: usize,
}

/// What the choice depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SplitPage<'a> {
    /// The page's entries in order, the new one in place.
    pub(crate) items: &'a [SplitItem<'a>],
    pub(crate) leaf: bool,
    pub(crate) rightmost: bool,
    /// Bytes of the page's high key, line pointer included; 0 on the rightmost page.
    pub(crate) high_key_bytes: usize,
    /// Of the index, for leaves.
    pub(crate) fillfactor: u8,
    pub(crate) strategy: SplitStrategy,
    pub(crate) truncate: bool,
    pub(crate) items_max: usize,
}

/// How the free bytes of both sides are compared.
#[derive(Clone, Copy, Debug)]
enum Balance {
    /// As equal as possible.
    Half,
    /// The left side filled to so many percent.
    Fill(u8),
}

#[derive(Clone, Copy, Debug)]
struct Candidate {
    first_right: usize,
    left_free: usize,
    /// Distance from the perfect balance.
    delta: usize,
}

/// Chooses where to split a full page so that both halves keep room and the new pivot is short.
///
/// Caller holds the page's exclusive latch. Returns the first item that goes right, in
/// `1..items.len()`; `None` if no legal point exists, which cannot happen within the size limits.
pub(crate) fn choose(page: &SplitPage<'_>) -> Option<usize> {
    let balance = match (page.rightmost, page.leaf) {
        (true, true) => Balance::Fill(page.fillfactor),
        (true, false) => Balance::Fill(INNER_FILLFACTOR),
        (false, _) => Balance::Half,
    };
    let candidates = candidates(page, balance);
    let best = candidates.iter().min_by_key(|candidate| candidate.delta)?;
    let tolerance = match page.strategy {
        SplitStrategy::Half => return Some(best.first_right),
        SplitStrategy::Informed => interval_bytes(page.leaf),
    };
    candidates
        .iter()
        .filter(|candidate| candidate.left_free.abs_diff(best.left_free) <= tolerance)
        .min_by_key(|candidate| (pivot_bytes(page, candidate.first_right), candidate.delta))
        .map(|candidate| candidate.first_right)
}

/// How far, in bytes, the division of space may be from the best one for a shorter pivot.
fn interval_bytes(leaf: bool) -> usize {
    if leaf { USABLE_BYTES / 20 } else { USABLE_BYTES * 3 / 40 }
}

/// Bytes of the pivot, and of the left page's high key, for this split point.
fn pivot_bytes(page: &SplitPage<'_>, first_right: usize) -> usize {
    let right = page.items[first_right];
    if !page.leaf {
        return right.bytes;
    }
    let left = page.items[first_right - 1];
    let cut = separator((left.key, left.tid), (right.key, right.tid), page.truncate);
    pivot_size(cut.key.len(), cut.tid.is_some()) + LINE_POINTER
}

/// All points that leave both sides within their limits.
fn candidates(page: &SplitPage<'_>, balance: Balance) -> Vec<Candidate> {
    let count = page.items.len();
    let total: usize = page.items.iter().map(|item| item.bytes).sum();
    let mut found = Vec::with_capacity(count);
    let mut left_items = 0;
    for first_right in 1..count {
        left_items += page.items[first_right - 1].bytes;
        let left = left_items + pivot_bytes(page, first_right);
        // The first pivot of an inner page loses its key.
        let lost =
            if page.leaf { 0 } else { page.items[first_right].bytes - TUPLE_HEADER - LINE_POINTER };
        let right = total - left_items - lost + page.high_key_bytes;
        let fits = left <= USABLE_BYTES
            && right <= USABLE_BYTES
            && first_right <= page.items_max
            && count - first_right <= page.items_max;
        if !fits {
            continue;
        }
        let (left_free, right_free) = (USABLE_BYTES - left, USABLE_BYTES - right);
        let delta = match balance {
            Balance::Half => left_free.abs_diff(right_free),
            Balance::Fill(percent) => {
                let fill = usize::from(percent.clamp(10, 100));
                (fill * left_free).abs_diff((100 - fill) * right_free) / 100
            }
        };
        found.push(Candidate { first_right, left_free, delta });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn split<'a>(items: &'a [SplitItem<'a>]) -> SplitPage<'a> {
        SplitPage {
            items,
            leaf: true,
            rightmost: false,
            high_key_bytes: 20,
            fillfactor: 90,
            strategy: SplitStrategy::Informed,
            truncate: true,
            items_max: usize::MAX,
        }
    }

    fn items(keys: &[Vec<u8>]) -> Vec<SplitItem<'_>> {
        keys.iter()
            .map(|key| SplitItem { key, tid: Tid::new(1, 1), bytes: 12 + key.len() })
            .collect()
    }

    fn numbers(range: std::ops::Range<u32>) -> Vec<Vec<u8>> {
        range.map(|n| n.to_be_bytes().to_vec()).collect()
    }

    #[test]
    fn a_short_pivot_near_the_middle_wins() {
        // Ten entries right of the middle is a boundary at which the last byte is not needed.
        let keys = numbers(0x1_0100 - 265..0x1_0100 + 245);
        let items = items(&keys);
        let first_right = choose(&split(&items)).unwrap();
        assert_eq!(keys[first_right], 0x1_0100u32.to_be_bytes());
        let half = SplitPage { strategy: SplitStrategy::Half, ..split(&items) };
        assert!(choose(&half).unwrap().abs_diff(255) <= 1);
    }

    #[test]
    fn the_right_end_is_filled_to_the_fillfactor() {
        let keys = numbers(0..510);
        let items = items(&keys);
        for fillfactor in [50, 70, 90, 100] {
            let page =
                SplitPage { rightmost: true, high_key_bytes: 0, fillfactor, ..split(&items) };
            let first_right = choose(&SplitPage { strategy: SplitStrategy::Half, ..page }).unwrap();
            let left: usize = items[..first_right].iter().map(|item| item.bytes).sum();
            let percent = left * 100 / USABLE_BYTES;
            assert!(percent.abs_diff(usize::from(fillfactor)) <= 1, "{fillfactor}: {percent}");
        }
        let inner = SplitPage { rightmost: true, leaf: false, high_key_bytes: 0, ..split(&items) };
        let left: usize = items[..choose(&inner).unwrap()].iter().map(|item| item.bytes).sum();
        assert!((left * 100 / USABLE_BYTES).abs_diff(70) <= 8);
    }

    #[test]
    fn duplicates_are_parted_from_their_neighbour_where_possible() {
        // 240 copies of one key, then 270 of another: the boundary needs no TID.
        let mut keys = vec![b"aaaa".to_vec(); 240];
        keys.resize(510, b"bbbb".to_vec());
        let items: Vec<SplitItem<'_>> = keys
            .iter()
            .enumerate()
            .map(|(n, key)| SplitItem { key, tid: Tid::new(n as u32, 1), bytes: 16 })
            .collect();
        assert_eq!(choose(&split(&items)), Some(240));
    }

    proptest! {
        #[test]
        fn both_sides_always_fit(
            sizes in prop::collection::vec(0usize..2690, 1..60),
            leaf: bool, rightmost: bool, truncate: bool, half: bool, fillfactor in 10u8..=100,
        ) {
            // The largest set of entries that a full page and one more entry can hold.
            let mut keys: Vec<Vec<u8>> = Vec::new();
            let mut used = 0;
            for (n, size) in sizes.iter().enumerate() {
                let mut key = (n as u32).to_be_bytes().to_vec();
                key.resize(4 + size, 0);
                used += key.len() + 12;
                keys.push(key);
                if used > USABLE_BYTES { break; }
            }
            prop_assume!(used > USABLE_BYTES);
            let items = items(&keys);
            let page = SplitPage {
                leaf, rightmost, truncate, fillfactor,
                high_key_bytes: 0,
                strategy: if half { SplitStrategy::Half } else { SplitStrategy::Informed },
                ..split(&items)
            };
            let first_right = choose(&page);
            prop_assert!(first_right.is_some_and(|at| (1..items.len()).contains(&at)));
        }
    }
}
