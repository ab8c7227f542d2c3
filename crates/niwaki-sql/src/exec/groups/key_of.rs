//! Which of the group expressions make the key of a group.

use crate::query::GroupingSets;

/// Bytes of the number of a set in front of a key.
const NUMBER_BYTES: usize = 2;

/// The part of the group expressions that a row is grouped by.
#[derive(Clone, Copy)]
pub(super) enum KeyOf<'p> {
    All,
    /// Those of a set, whose number stands in front of the key.
    Set {
        number: u16,
        groups: &'p [usize],
    },
}

impl<'p> KeyOf<'p> {
    /// The keys of a row, one for each group that it counts for.
    pub(super) fn each(sets: &'p GroupingSets) -> impl Iterator<Item = Self> {
        let all = sets.sets.is_empty().then_some(Self::All);
        let each = (0..).zip(&sets.sets).map(|(number, groups)| Self::Set { number, groups });
        all.into_iter().chain(each)
    }

    /// Begins a key.
    pub(super) fn begin(self, key: &mut Vec<u8>) {
        key.clear();
        if let Self::Set { number, .. } = self {
            key.extend_from_slice(&number.to_be_bytes());
        }
    }

    /// Whether a group expression, by its number, belongs to it. The values of others are NULL in the group.
    pub(super) fn has(self, group: usize) -> bool {
        match self {
            Self::All => true,
            Self::Set { groups, .. } => groups.contains(&group),
        }
    }

    /// It is that of a set without groups: all rows are one group, which is there even without any.
    pub(super) fn is_empty_set(self) -> bool {
        matches!(self, Self::Set { groups: [], .. })
    }
}

/// The number of the set that a key is of, if there are sets.
pub(super) fn set_of(key: &[u8]) -> usize {
    let number = key.first_chunk::<NUMBER_BYTES>().copied().unwrap_or_default();
    usize::from(u16::from_be_bytes(number))
}
