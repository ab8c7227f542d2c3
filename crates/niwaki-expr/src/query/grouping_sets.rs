//! GROUPING SETS, ROLLUP and CUBE: the clause as written, and its expansion into grouping sets.

use niwaki_env::hash::HashSet;

/// Most grouping sets that GROUP BY may expand to, as in PostgreSQL.
pub const SETS_MAX: usize = 4_096;

/// Most elements of a CUBE, as in PostgreSQL.
pub const CUBE_MAX: usize = 12;

/// The grouping sets of a query. Each row counts for one group of each set.
#[derive(Clone, Debug, Default)]
pub struct GroupingSets {
    /// The group expressions of each set, by number, ascending. If empty, there is a single set
    /// with all group expressions.
    pub sets: Vec<Vec<usize>>,
    /// The arguments of each GROUPING (…), by the numbers of the group expressions. In the output
    /// row, the GROUPING results follow the aggregate results.
    pub calls: Vec<Vec<usize>>,
}

/// The GROUP BY clause as written, if it has grouping sets.
#[derive(Clone, Debug)]
pub struct GroupingClause {
    /// The items of GROUP BY.
    pub items: Vec<GroupingItem>,
    /// True for GROUP BY DISTINCT.
    pub distinct: bool,
}

/// An item of GROUP BY. Group expressions are given by number.
#[derive(Clone, Debug)]
pub enum GroupingItem {
    /// `a`, `(a, b)` or `()`.
    Simple(Vec<usize>),
    /// ROLLUP
    Rollup(Vec<GroupingItem>),
    /// CUBE
    Cube(Vec<GroupingItem>),
    /// GROUPING SETS
    Sets(Vec<GroupingItem>),
}

impl GroupingSets {
    /// Returns the value of a GROUPING call for rows of a set. The value has one bit for each
    /// argument, the last argument's bit lowest. A bit is set if the set lacks the argument.
    pub fn grouping(&self, call: usize, set: usize) -> i32 {
        let Some(set) = self.sets.get(set) else { return 0 };
        let arguments = self.calls.get(call).map_or(&[][..], Vec::as_slice);
        arguments.iter().fold(0, |bits, argument| (bits << 1) | i32::from(!set.contains(argument)))
    }

    /// Returns whether every input row counts for a group, and all sets contain these groups. Then
    /// a condition on the groups may be evaluated before grouping.
    pub fn all_have(&self, groups: &[usize]) -> bool {
        let has = |set: &Vec<usize>| !set.is_empty() && groups.iter().all(|g| set.contains(g));
        self.sets.iter().all(has)
    }
}

impl GroupingItem {
    /// Returns the number of sets that the item expands to (saturating).
    fn count(&self) -> usize {
        match self {
            Self::Simple(_) => 1,
            Self::Rollup(parts) => parts.len() + 1,
            Self::Cube(parts) => 1 << parts.len().min(CUBE_MAX),
            Self::Sets(parts) => {
                parts.iter().fold(0, |count: usize, part| count.saturating_add(part.count()))
            }
        }
    }

    /// Returns the sets that the item expands to.
    fn sets(&self) -> Vec<Vec<usize>> {
        // The elements of ROLLUP and CUBE are simple.
        let of_parts = |parts: &mut dyn Iterator<Item = &GroupingItem>| -> Vec<usize> {
            parts.flat_map(|part| part.sets().into_iter().flatten()).collect()
        };
        match self {
            Self::Simple(groups) => vec![groups.clone()],
            Self::Rollup(parts) => {
                (0..=parts.len()).rev().map(|n| of_parts(&mut parts.iter().take(n))).collect()
            }
            Self::Cube(parts) => (0..self.count())
                .map(|bits| {
                    let mut chosen =
                        parts.iter().enumerate().filter(|(n, _)| (bits >> n) & 1 == 1).map(|p| p.1);
                    of_parts(&mut chosen)
                })
                .collect(),
            Self::Sets(parts) => parts.iter().flat_map(Self::sets).collect(),
        }
    }
}

impl GroupingClause {
    /// Returns the sets that the clause expands to, the shortest first. Each set has its groups
    /// without duplicates, ascending. Returns `None` for more than [`SETS_MAX`] sets.
    pub fn expand(&self) -> Option<Vec<Vec<usize>>> {
        let count = self.items.iter().fold(1, |n: usize, item| n.saturating_mul(item.count()));
        if count > SETS_MAX {
            return None;
        }
        // The cross product: one set of each item, combined.
        let mut sets: Vec<Vec<usize>> = vec![Vec::new()];
        for item in &self.items {
            let more = item.sets();
            let joined = sets.iter().flat_map(|set| {
                more.iter().map(move |other| set.iter().chain(other).copied().collect())
            });
            sets = joined.collect();
        }
        for set in &mut sets {
            set.sort_unstable();
            set.dedup();
        }
        if self.distinct {
            let mut known = HashSet::default();
            sets.retain(|set| known.insert(set.clone()));
        }
        sets.sort_by_key(Vec::len);
        Some(sets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn simple(groups: &[usize]) -> GroupingItem {
        GroupingItem::Simple(groups.to_vec())
    }

    fn expand(items: Vec<GroupingItem>, distinct: bool) -> Option<Vec<Vec<usize>>> {
        GroupingClause { items, distinct }.expand()
    }

    #[test]
    fn items_are_combined_with_one_another() {
        let rollup = GroupingItem::Rollup(vec![simple(&[0]), simple(&[2, 1])]);
        assert_eq!(expand(vec![rollup.clone()], false).unwrap(), [vec![], vec![0], vec![0, 1, 2]]);
        let cube = GroupingItem::Cube(vec![simple(&[0]), simple(&[1])]);
        let both = expand(vec![rollup.clone(), cube.clone()], false).unwrap();
        assert_eq!(both.len(), 12);
        assert_eq!(both[0], Vec::<usize>::new());
        let once = expand(vec![rollup.clone(), cube], true).unwrap();
        assert_eq!(
            once,
            [vec![], vec![0], vec![1], vec![0, 1], vec![0, 1, 2]],
            "of twelve, five differ"
        );
        let nested = GroupingItem::Sets(vec![rollup, simple(&[]), simple(&[3])]);
        let nested = expand(vec![simple(&[4]), nested], false).unwrap();
        assert_eq!(nested, [vec![4], vec![4], vec![0, 4], vec![3, 4], vec![0, 1, 2, 4]]);
    }

    #[test]
    fn there_is_a_bound() {
        let cube = |count: usize| GroupingItem::Cube((0..count).map(|n| simple(&[n])).collect());
        assert_eq!(expand(vec![cube(CUBE_MAX)], false).unwrap().len(), SETS_MAX);
        assert!(expand(vec![cube(CUBE_MAX), cube(1)], true).is_none());
        assert!(expand((0..100).map(|_| cube(CUBE_MAX)).collect(), true).is_none());
    }

    #[test]
    fn grouping_has_a_bit_for_each_argument_that_is_missing() {
        let sets = GroupingSets {
            sets: vec![vec![], vec![0], vec![0, 1, 2]],
            calls: vec![vec![0, 1], vec![2, 2, 0]],
        };
        let values: Vec<_> =
            (0..3).map(|set| [0, 1].map(|call| sets.grouping(call, set))).collect();
        assert_eq!(values, [[3, 7], [1, 6], [0, 0]]);
        assert!(!sets.all_have(&[]), "nothing may be left of an empty set's rows");
        let sets = GroupingSets { sets: vec![vec![0], vec![0, 1]], calls: Vec::new() };
        assert!(sets.all_have(&[0]) && sets.all_have(&[]) && !sets.all_have(&[1]));
    }
}
