//! The group expressions that make up the key of a group.

use niwaki_expr::query::GroupingSets;

/// The size in bytes of the set's number before a key.
const NUMBER_BYTES: usize = 2;

/// The group expressions that make up a key.
#[derive(Clone, Copy)]
pub(super) enum GroupKey<'p> {
    All,
    /// The expressions of a grouping set, whose number stands before the key.
    Set {
        number: u16,
        groups: &'p [usize],
    },
}

impl<'p> GroupKey<'p> {
    /// Returns one choice of expressions for each group that a row counts for.
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

    /// Decides whether the key has the group expression with this number. The group's value of any
    /// other expression is NULL.
    pub(super) fn has(self, group: usize) -> bool {
        match self {
            Self::All => true,
            Self::Set { groups, .. } => groups.contains(&group),
        }
    }

    /// Decides whether this is the empty grouping set. All rows form its one group, which exists
    /// even without rows.
    pub(super) fn is_empty_set(self) -> bool {
        matches!(self, Self::Set { groups: [], .. })
    }
}

/// Returns the number of the grouping set of a key, if there are sets.
pub(super) fn set_of(key: &[u8]) -> usize {
    let number = key.first_chunk::<NUMBER_BYTES>().copied().unwrap_or_default();
    usize::from(u16::from_be_bytes(number))
}
