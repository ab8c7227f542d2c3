//! A set of row addresses (TIDs), in bounded memory.
//!
//! A page is *exact* (a bit for each line pointer) as long as there is room. Then pages become
//! *lossy*: one bit says that the page may hold rows of the set, and the page must be read in full.

use std::collections::BTreeMap;
use std::collections::btree_map::IntoIter;
use std::iter::Peekable;

use niwaki_storage::{BlockNumber, Tid};

/// The most line pointers of an exact page, and the number of blocks in a lossy chunk.
const BITS: u32 = 512;
const WORDS: usize = BITS as usize / 64;
/// The bytes of an entry of either map, tree and allocation included.
const ENTRY_BYTES: usize = 112;
/// The least number of entries a set may have, however little memory it gets.
const ENTRIES_MIN: usize = 16;

const _: () = assert!(WORDS * 64 == BITS as usize);
// Half of the room has place for an exact page and a lossy chunk.
const _: () = assert!(ENTRIES_MIN / 2 >= 2);
// Offset numbers have 16 bits.
const _: () = assert!(BITS <= u16::MAX as u32);

type Bits = [u64; WORDS];

fn set(bits: &mut Bits, bit: u32) {
    debug_assert!(bit < BITS, "a page has no bit {bit}");
    bits[(bit / 64) as usize] |= 1 << (bit % 64);
}

fn is_set(bits: &Bits, bit: u32) -> bool {
    debug_assert!(bit < BITS, "a page has no bit {bit}");
    bits[(bit / 64) as usize] >> (bit % 64) & 1 == 1
}

fn ones(bits: &Bits) -> impl Iterator<Item = u32> + '_ {
    (0..BITS).filter(|&bit| is_set(bits, bit))
}

/// The set. It is ordered, so that its users behave the same in every run.
#[derive(Clone, Debug)]
pub(crate) struct TidBitmap {
    /// Line pointers by block; bit 0 is offset 1.
    exact: BTreeMap<u32, Box<Bits>>,
    /// Blocks by block / 512. No block is in both maps.
    lossy: BTreeMap<u32, Box<Bits>>,
    entries_max: usize,
}

impl TidBitmap {
    /// Makes an empty set that takes about `memory_bytes` at most.
    pub(crate) fn new(memory_bytes: usize) -> Self {
        let entries_max = (memory_bytes / ENTRY_BYTES).max(ENTRIES_MIN);
        Self { exact: BTreeMap::new(), lossy: BTreeMap::new(), entries_max }
    }

    fn is_lossy(&self, block: u32) -> bool {
        self.lossy.get(&(block / BITS)).is_some_and(|chunk| is_set(chunk, block % BITS))
    }

    /// Adds a row.
    pub(crate) fn insert(&mut self, tid: Tid) {
        let (block, offset) = (tid.block.0, u32::from(tid.offset.0));
        if let Some(page) = self.exact.get_mut(&block)
            && (1..=BITS).contains(&offset)
        {
            set(page, offset - 1);
            return;
        }
        if self.is_lossy(block) {
            return;
        }
        if (1..=BITS).contains(&offset) {
            let mut bits = Box::new([0; WORDS]);
            set(&mut bits, offset - 1);
            self.exact.insert(block, bits);
            self.shrink();
        } else {
            // No page has this line pointer: the reader of the page finds that out.
            self.make_lossy(block);
        }
    }

    fn make_lossy(&mut self, block: u32) {
        self.exact.remove(&block);
        set(self.lossy.entry(block / BITS).or_default(), block % BITS);
        debug_assert!(self.is_lossy(block), "block {block} was lost");
    }

    /// Makes pages lossy, chunk after chunk, until half of the room is free again.
    fn shrink(&mut self) {
        debug_assert!(self.entries_max >= ENTRIES_MIN, "a set of {} entries", self.entries_max);
        if self.exact.len() + self.lossy.len() <= self.entries_max {
            return;
        }
        let target = self.entries_max / 2;
        // Ends: each turn removes at least one exact page.
        while self.exact.len() + self.lossy.len() > target {
            let Some((&first, _)) = self.exact.first_key_value() else { break };
            let chunk = first / BITS;
            let rest = match (chunk + 1).checked_mul(BITS) {
                Some(end) => self.exact.split_off(&end),
                None => BTreeMap::new(),
            };
            let pages = std::mem::replace(&mut self.exact, rest);
            debug_assert!(!pages.is_empty(), "a turn makes no page lossy");
            debug_assert!(pages.keys().all(|block| block / BITS == chunk), "pages of two chunks");
            let bits = self.lossy.entry(chunk).or_default();
            pages.keys().for_each(|block| set(bits, block % BITS));
        }
        // A set so scattered that lossy chunks fill the room gets more room: no coarser form
        // exists.
        self.entries_max = self.entries_max.max(2 * self.lossy.len());
        debug_assert!(
            self.exact.len() + self.lossy.len() <= self.entries_max,
            "the set has no room after pages became lossy",
        );
    }

    /// Keeps the rows that are, or may be, in both sets.
    pub(crate) fn intersect(&mut self, mut other: Self) {
        let mut exact = BTreeMap::new();
        for (block, mut bits) in std::mem::take(&mut self.exact) {
            if let Some(theirs) = other.exact.remove(&block) {
                bits.iter_mut().zip(*theirs).for_each(|(mine, theirs)| *mine &= theirs);
            } else if !other.is_lossy(block) {
                continue;
            }
            if bits.iter().any(|word| *word != 0) {
                exact.insert(block, bits);
            }
        }
        // Exact pages of the other set that are lossy here: the exact form says more.
        for (block, bits) in other.exact {
            if self.is_lossy(block) {
                let before = exact.insert(block, bits);
                debug_assert!(before.is_none(), "block {block} is exact and lossy");
            }
        }
        self.lossy.retain(|chunk, bits| {
            let Some(theirs) = other.lossy.get(chunk) else { return false };
            bits.iter_mut().zip(**theirs).for_each(|(mine, theirs)| *mine &= theirs);
            bits.iter().any(|word| *word != 0)
        });
        self.exact = exact;
        self.shrink();
    }

    /// Adds the rows of another set.
    pub(crate) fn unite(&mut self, other: Self) {
        for (chunk, bits) in other.lossy {
            for bit in ones(&bits) {
                self.make_lossy(chunk * BITS + bit);
            }
        }
        for (block, bits) in other.exact {
            if self.is_lossy(block) {
                continue;
            }
            if let Some(mine) = self.exact.get_mut(&block) {
                mine.iter_mut().zip(*bits).for_each(|(mine, bits)| *mine |= bits);
            } else {
                self.exact.insert(block, bits);
                self.shrink();
            }
        }
        self.shrink();
    }

    /// Returns the pages of the set, by block.
    pub(crate) fn into_pages(self) -> BitmapPages {
        BitmapPages {
            exact: self.exact.into_iter().peekable(),
            lossy: self.lossy.into_iter().peekable(),
        }
    }
}

/// One page of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BitmapPage {
    /// A block with its row bits.
    Exact(BlockNumber, Box<Bits>),
    /// A block that may have any of its rows in the set.
    Lossy(BlockNumber),
}

impl BitmapPage {
    /// Returns the block of the page.
    pub(crate) fn block(&self) -> BlockNumber {
        match self {
            Self::Exact(block, _) | Self::Lossy(block) => *block,
        }
    }

    /// Returns the offsets of an exact page's roots.
    pub(crate) fn offsets(bits: &Bits) -> impl Iterator<Item = u16> + '_ {
        ones(bits).map(|bit| bit as u16 + 1)
    }
}

/// The pages of a set, in the order of their blocks.
#[derive(Debug)]
pub(crate) struct BitmapPages {
    exact: Peekable<IntoIter<u32, Box<Bits>>>,
    lossy: Peekable<IntoIter<u32, Box<Bits>>>,
}

impl Iterator for BitmapPages {
    type Item = BitmapPage;

    fn next(&mut self) -> Option<BitmapPage> {
        // Ends: each turn returns a page or removes an empty chunk.
        loop {
            let chunk = self.lossy.peek().map(|(chunk, bits)| (*chunk, ones(bits).next()));
            let lossy = match chunk {
                None => None,
                Some((chunk, Some(bit))) => Some(chunk * BITS + bit),
                Some((_, None)) => {
                    self.lossy.next();
                    continue;
                }
            };
            let first_exact = self.exact.peek().map(|(block, _)| *block);
            debug_assert!(
                lossy.is_none() || lossy != first_exact,
                "block {lossy:?} is exact and lossy",
            );
            return match (lossy, first_exact) {
                (Some(lossy), exact) if exact.is_none_or(|exact| lossy < exact) => {
                    if let Some((_, bits)) = self.lossy.peek_mut() {
                        let bit = lossy % BITS;
                        bits[(bit / 64) as usize] &= !(1 << (bit % 64));
                    }
                    Some(BitmapPage::Lossy(BlockNumber(lossy)))
                }
                _ => self
                    .exact
                    .next()
                    .map(|(block, bits)| BitmapPage::Exact(BlockNumber(block), bits)),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn bitmap(tids: &[(u32, u16)], memory: usize) -> TidBitmap {
        let mut set = TidBitmap::new(memory);
        tids.iter().for_each(|&(block, offset)| set.insert(Tid::new(block, offset)));
        set
    }

    /// Returns the rows of exact pages, and the lossy pages. Blocks ascend.
    fn contents(set: TidBitmap) -> (BTreeSet<(u32, u16)>, BTreeSet<u32>) {
        let (mut rows, mut lossy) = (BTreeSet::new(), BTreeSet::new());
        let mut last = None;
        for page in set.into_pages() {
            let block = match &page {
                BitmapPage::Lossy(block) => {
                    lossy.insert(block.0);
                    block.0
                }
                BitmapPage::Exact(block, bits) => {
                    rows.extend(BitmapPage::offsets(bits).map(|offset| (block.0, offset)));
                    block.0
                }
            };
            assert!(last < Some(block), "pages come in order, each once");
            last = Some(block);
        }
        (rows, lossy)
    }

    fn tids() -> impl Strategy<Value = Vec<(u32, u16)>> {
        let block = prop_oneof![6 => 0u32..60, 2 => 0u32..3000, 1 => 4_294_967_000u32..=u32::MAX];
        prop::collection::vec((block, 1u16..=512), 0..120)
    }

    fn memory() -> impl Strategy<Value = usize> {
        prop_oneof![Just(0), Just(40 * ENTRY_BYTES), Just(1 << 20)]
    }

    proptest! {
        /// No row of the result is missing. With enough room, the set has no other rows.
        #[test]
        fn sets_hold_what_they_must(a in tids(), b in tids(), m in memory(), n in memory()) {
            let (left, right): (BTreeSet<_>, BTreeSet<_>) =
                (a.iter().copied().collect(), b.iter().copied().collect());
            let mut both = bitmap(&a, m);
            both.intersect(bitmap(&b, n));
            let mut either = bitmap(&a, m);
            either.unite(bitmap(&b, n));
            let results = [(both, &left & &right, m.min(n)), (either, &left | &right, m.min(n))];
            for (set, expected, room) in results {
                let size = set.exact.len() + set.lossy.len();
                prop_assert!(size <= set.entries_max);
                let (rows, lossy) = contents(set);
                for row in &expected {
                    prop_assert!(rows.contains(row) || lossy.contains(&row.0));
                }
                for row in &rows {
                    prop_assert!(left.contains(row) || right.contains(row));
                }
                if room == 1 << 20 {
                    prop_assert!(lossy.is_empty());
                    prop_assert_eq!(rows, expected);
                }
            }
        }
    }

    #[test]
    fn without_room_pages_become_lossy() {
        let all: Vec<(u32, u16)> = (0..2000).map(|block| (block, 7)).collect();
        let set = bitmap(&all, 0);
        assert!(set.exact.len() + set.lossy.len() <= ENTRIES_MIN);
        let (rows, lossy) = contents(set);
        assert_eq!(rows.len() + lossy.len(), 2000);
        assert!(lossy.len() > 1900);
    }
}
