//! A set of rows of one page: a bit for each line pointer.

use niwaki_storage::OffsetNumber;

const WORD_BITS: usize = u64::BITS as usize;

/// Rows of one page. Line pointers below 128 need no memory beside the set, and most pages have no
/// more.
#[derive(Clone, Debug)]
pub(crate) enum RowSet {
    Small([u64; 2]),
    Large(Vec<u64>),
}

const _: () = assert!(size_of::<RowSet>() == size_of::<Vec<u64>>(), "a small set takes more");

impl Default for RowSet {
    fn default() -> Self {
        Self::Small([0; 2])
    }
}

impl RowSet {
    fn words(&self) -> &[u64] {
        match self {
            Self::Small(words) => words,
            Self::Large(words) => words,
        }
    }

    /// Returns the word with the row's bit, and the bit as a mask. Grows the set if necessary.
    fn word(&mut self, row: OffsetNumber) -> (&mut u64, u64) {
        let (at, bit) = place(row);
        if at >= self.words().len() {
            let mut words = self.words().to_vec();
            words.resize(at + 1, 0);
            *self = Self::Large(words);
        }
        match self {
            Self::Small(words) => (&mut words[at], bit),
            Self::Large(words) => (&mut words[at], bit),
        }
    }

    pub(crate) fn insert(&mut self, row: OffsetNumber) {
        let (word, bit) = self.word(row);
        *word |= bit;
    }

    pub(crate) fn remove(&mut self, row: OffsetNumber) {
        if self.contains(row) {
            let (word, bit) = self.word(row);
            *word &= !bit;
        }
    }

    #[inline]
    pub(crate) fn contains(&self, row: OffsetNumber) -> bool {
        let (at, bit) = place(row);
        self.words().get(at).is_some_and(|word| word & bit != 0)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.words().iter().all(|word| *word == 0)
    }

    /// Returns the rows, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = OffsetNumber> {
        let words = self.words().len();
        debug_assert!(words * WORD_BITS <= 1 << 16, "{words} words have rows without an offset");
        (0_u16..).zip(self.words()).flat_map(|(at, word)| {
            let mut left = *word;
            std::iter::from_fn(move || {
                let bit = u16::try_from(left.trailing_zeros()).ok().filter(|_| left != 0)?;
                left &= left - 1;
                // The offset is at most the greatest row that was inserted.
                Some(OffsetNumber(at * WORD_BITS as u16 + bit))
            })
        })
    }
}

fn place(row: OffsetNumber) -> (usize, u64) {
    let row = usize::from(row.0);
    (row / WORD_BITS, 1 << (row % WORD_BITS))
}

#[cfg(all(test, not(any(feature = "shuttle", feature = "loom"))))]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_set(steps in proptest::collection::vec((any::<bool>(), any::<u16>(), 0..300_u16), 1..60)) {
            let (mut set, mut model) = (RowSet::default(), BTreeSet::new());
            for (inserts, any, low) in steps {
                // Mostly a row that a page has, and now and then a row that no page has.
                let row = if any % 50 == 0 { any } else { low };
                if inserts {
                    set.insert(OffsetNumber(row));
                    model.insert(row);
                } else {
                    set.remove(OffsetNumber(row));
                    model.remove(&row);
                }
                prop_assert_eq!(set.contains(OffsetNumber(row)), inserts);
                prop_assert!(!set.contains(OffsetNumber(u16::MAX)) || model.contains(&u16::MAX));
            }
            prop_assert_eq!(set.is_empty(), model.is_empty());
            let rows: BTreeSet<u16> = set.iter().map(|row| row.0).collect();
            prop_assert_eq!(rows, model);
        }
    }

    #[test]
    fn a_common_page_needs_no_memory_beside_the_set() {
        let mut set = RowSet::default();
        (1..128).for_each(|row| set.insert(OffsetNumber(row)));
        assert!(matches!(set, RowSet::Small(_)));
        assert_eq!(size_of::<RowSet>(), size_of::<Vec<u64>>());
    }
}
