//! Key conditions of an index scan, column by column, with the walk from one wanted range to the
//! next.
//!
//! The leading columns *bound* the scan: it goes from one range of keys to the next, and reads
//! nothing in between. Columns behind them are only compared. With a list of values for a column,
//! the next range follows from the list (array keys). A column before a bounding one may have a
//! range, or no condition. Then the next value is read from the index (skip scan).
//!
//! One walk does both. It compares the columns of the next key in the index with the wanted ones,
//! from the left. At the first difference it knows the smallest (backward: the greatest) key that
//! can still be wanted.

use std::cmp::Ordering;
use std::ops::Bound;

use niwaki_nbtree::{Direction, KeyBound, KeyRange, Place, RangeSource, RangeStep};
use niwaki_types::{KeyOrder, key_length};

/// The condition on one key column. All bytes are encodings of single values, as the index orders
/// them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ColumnKeys {
    /// No condition.
    Any,
    /// One of these values: ascending, each once.
    Values(Vec<Vec<u8>>),
    /// Values between these bounds. A bound may be the beginning of an encoding, like the marker of
    /// values that are not NULL. Then it covers all encodings with that beginning.
    Range {
        /// Lower bound of the encoding.
        lower: Bound<Vec<u8>>,
        /// Upper bound of the encoding.
        upper: Bound<Vec<u8>>,
    },
}

impl ColumnKeys {
    /// Makes the condition to be one of `values`, given in any order.
    pub fn values(mut values: Vec<Vec<u8>>) -> Self {
        values.sort_unstable();
        values.dedup();
        debug_assert!(values.is_sorted_by(|a, b| a < b), "a value is listed twice");
        Self::Values(values)
    }

    /// Compares an encoded value with the condition: inside, before or after all of it. A value
    /// between two of a list counts as before.
    fn place(&self, value: &[u8]) -> Ordering {
        match self {
            Self::Any => Ordering::Equal,
            Self::Values(values) => match values.binary_search_by(|v| v.as_slice().cmp(value)) {
                Ok(_) => Ordering::Equal,
                Err(at) if at == values.len() => Ordering::Greater,
                Err(_) => Ordering::Less,
            },
            Self::Range { lower, upper } => {
                let head = |bound: &[u8]| value[..value.len().min(bound.len())].cmp(bound);
                let below = match lower {
                    Bound::Unbounded => false,
                    Bound::Included(bound) => head(bound).is_lt(),
                    Bound::Excluded(bound) => head(bound).is_le(),
                };
                let above = match upper {
                    Bound::Unbounded => false,
                    Bound::Included(bound) => head(bound).is_gt(),
                    Bound::Excluded(bound) => head(bound).is_ge(),
                };
                match (below, above) {
                    (true, _) => Ordering::Less,
                    (_, true) => Ordering::Greater,
                    _ => Ordering::Equal,
                }
            }
        }
    }
}

/// The key conditions of a scan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScanKeys {
    /// Conditions on the first key columns, at most as many as the index has; the last one is not
    /// [`ColumnKeys::Any`].
    pub columns: Vec<ColumnKeys>,
    /// The number of columns that bound the scan. The others are compared entry by entry. A column
    /// before the last bounding one that has no list makes the scan a skip scan.
    pub bounding: usize,
}

impl ScanKeys {
    /// Conditions that every key fulfils.
    pub const ALL: Self = Self { columns: Vec::new(), bounding: 0 };

    /// Asserts what a scan of an index with `key_columns` key columns needs of its conditions.
    pub(crate) fn assert_state(&self, key_columns: usize) {
        debug_assert!(self.columns.len() <= key_columns, "a condition on no key column");
        debug_assert!(
            self.bounding <= self.columns.len(),
            "{} columns bound a scan",
            self.bounding
        );
        let is_list = |column: &ColumnKeys| match column {
            ColumnKeys::Values(values) => values.is_sorted_by(|a, b| a < b),
            ColumnKeys::Any | ColumnKeys::Range { .. } => true,
        };
        debug_assert!(self.columns.iter().all(is_list), "the values of a column do not ascend");
    }

    /// Returns true when no key can fulfil the conditions.
    pub fn is_empty(&self) -> bool {
        self.columns.iter().any(|c| matches!(c, ColumnKeys::Values(values) if values.is_empty()))
    }

    /// Returns true when the conditions are one value for each of the index's `columns` key
    /// columns.
    pub(crate) fn is_one_key(&self, columns: usize) -> bool {
        self.bounding == columns
            && self
                .columns
                .iter()
                .all(|c| matches!(c, ColumnKeys::Values(values) if values.len() == 1))
    }

    /// Returns the range that the bounding columns make, if it is one range. `lower` and `upper`
    /// are buffers for its ends.
    pub(crate) fn one_range<'b>(
        &self,
        lower: &'b mut Vec<u8>,
        upper: &'b mut Vec<u8>,
    ) -> Option<KeyRange<'b>> {
        debug_assert!(lower.is_empty(), "the buffer of the lower end is in use");
        debug_assert!(upper.is_empty(), "the buffer of the upper end is in use");
        for column in &self.columns[..self.bounding.saturating_sub(1)] {
            let ColumnKeys::Values(values) = column else { return None };
            let [value] = values.as_slice() else { return None };
            lower.extend_from_slice(value);
        }
        upper.extend_from_slice(lower);
        let last = self.columns[..self.bounding].last();
        let (low, high) = match last {
            None | Some(ColumnKeys::Any) => return Some(KeyRange::ALL),
            Some(ColumnKeys::Values(values)) => {
                let [value] = values.as_slice() else { return None };
                (Bound::Included(value), Bound::Included(value))
            }
            Some(ColumnKeys::Range { lower, upper }) => (lower.as_ref(), upper.as_ref()),
        };
        Some(KeyRange { lower: join(lower, low), upper: join(upper, high) })
    }

    /// Decides whether a key fulfils the conditions that do not bound the scan. Returns `None` for
    /// bytes that are no key.
    #[inline]
    pub(crate) fn compares(&self, key: &[u8], order: &[KeyOrder]) -> Option<bool> {
        if self.columns.len() == self.bounding {
            return Some(true);
        }
        let mut rest = key;
        for (number, column) in self.columns.iter().enumerate() {
            let (value, tail) =
                rest.split_at_checked(key_length(rest, *order.get(number)?).ok()?)?;
            if number >= self.bounding && column.place(value).is_ne() {
                return Some(false);
            }
            rest = tail;
        }
        Some(true)
    }
}

/// Appends a column's bound to `prefix`, which holds the columns before it.
fn join<'b>(prefix: &'b mut Vec<u8>, bound: Bound<&Vec<u8>>) -> KeyBound<'b> {
    match bound {
        Bound::Included(bytes) => {
            prefix.extend_from_slice(bytes);
            KeyBound::Included(prefix)
        }
        Bound::Excluded(bytes) => {
            prefix.extend_from_slice(bytes);
            KeyBound::Excluded(prefix)
        }
        Bound::Unbounded if prefix.is_empty() => KeyBound::Unbounded,
        Bound::Unbounded => KeyBound::Included(prefix),
    }
}

/// The position of a walk over [`ScanKeys`].
#[derive(Debug, Default)]
pub(crate) struct WalkState {
    /// Values of the leading columns of the range given last.
    prefix: Vec<u8>,
    /// The end of each of these values.
    ends: Vec<usize>,
    /// A bound under construction.
    bound: Vec<u8>,
    begun: bool,
}

impl WalkState {
    /// Asserts what holds between two steps: the ends cut the prefix into values of columns.
    fn assert_state(&self, keys: &ScanKeys) {
        let Self { prefix, ends, .. } = self;
        debug_assert!(ends.len() <= keys.bounding, "a value of a column that does not bound");
        debug_assert!(ends.is_sorted(), "a value ends before it begins");
        debug_assert_eq!(ends.last().copied().unwrap_or(0), prefix.len(), "bytes of no value");
    }
}

/// The walk from range to range. It borrows its parts for one step of the scan.
pub(crate) struct KeyWalk<'a> {
    pub(crate) keys: &'a ScanKeys,
    pub(crate) order: &'a [KeyOrder],
    pub(crate) direction: Direction,
    pub(crate) state: &'a mut WalkState,
}

impl KeyWalk<'_> {
    fn forward(&self) -> bool {
        self.direction == Direction::Forward
    }

    fn push(&mut self, value: &[u8]) {
        self.state.prefix.extend_from_slice(value);
        self.state.ends.push(self.state.prefix.len());
        self.state.assert_state(self.keys);
    }

    /// Finds the first wanted range whose leading columns have the values of the prefix.
    fn begin(&mut self, place: &mut Place) -> RangeStep {
        let keys = self.keys;
        self.state.assert_state(keys);
        // Ends: each turn goes one column on.
        loop {
            let column = self.state.ends.len();
            if column == keys.bounding {
                place.set_lower(KeyBound::Included(&self.state.prefix));
                place.set_upper(KeyBound::Included(&self.state.prefix));
                return RangeStep::Range;
            }
            match &keys.columns[column] {
                ColumnKeys::Values(values) => {
                    let value = if self.forward() { values.first() } else { values.last() };
                    let Some(value) = value else { return RangeStep::End };
                    self.push(value);
                }
                ColumnKeys::Range { lower, upper } => {
                    self.bounds(lower.as_ref(), upper.as_ref(), place);
                    let last = column + 1 == keys.bounding;
                    return if last { RangeStep::Range } else { RangeStep::Seek };
                }
                ColumnKeys::Any => {
                    self.bounds(Bound::Unbounded, Bound::Unbounded, place);
                    return RangeStep::Seek;
                }
            }
        }
    }

    /// Sets both bounds: the prefix, followed by a range of the next column.
    fn bounds(&mut self, lower: Bound<&Vec<u8>>, upper: Bound<&Vec<u8>>, place: &mut Place) {
        let state = &mut *self.state;
        state.bound.clone_from(&state.prefix);
        place.set_lower(join(&mut state.bound, lower));
        state.bound.clone_from(&state.prefix);
        place.set_upper(join(&mut state.bound, upper));
    }

    /// Finds the first wanted range behind all keys that begin with the prefix.
    fn carry(&mut self, place: &mut Place) -> RangeStep {
        let keys = self.keys;
        self.state.assert_state(keys);
        // Ends: each turn takes a column off.
        while let Some(end) = self.state.ends.pop() {
            let column = self.state.ends.len();
            let start = self.state.ends.last().copied().unwrap_or(0);
            debug_assert!(start <= end, "the value of column {column} ends before it begins");
            let ColumnKeys::Values(values) = &keys.columns[column] else {
                // Only the index knows the next value.
                let past = &self.state.prefix[..end];
                place.set_lower(KeyBound::Excluded(past));
                place.set_upper(KeyBound::Excluded(past));
                self.state.prefix.truncate(start);
                return RangeStep::Seek;
            };
            let value = &self.state.prefix[start..end];
            let next = self.neighbour(values, value);
            self.state.prefix.truncate(start);
            if let Some(value) = next {
                self.push(value);
                return self.begin(place);
            }
        }
        debug_assert!(self.state.prefix.is_empty(), "a walk ends with no column left");
        RangeStep::End
    }

    /// Returns the next value of a list after `value`, in the direction of the scan.
    fn neighbour<'v>(&self, values: &'v [Vec<u8>], value: &[u8]) -> Option<&'v Vec<u8>> {
        let below = values.partition_point(|v| v.as_slice() < value);
        if self.forward() {
            let same = values.get(below).is_some_and(|v| v == value);
            values.get(below + usize::from(same))
        } else {
            below.checked_sub(1).and_then(|at| values.get(at))
        }
    }
}

impl RangeSource for KeyWalk<'_> {
    fn next(&mut self, found: Option<&[u8]>, place: &mut Place) -> Option<RangeStep> {
        let keys = self.keys;
        let Some(found) = found else {
            let begun = std::mem::replace(&mut self.state.begun, true);
            return Some(if begun { self.carry(place) } else { self.begin(place) });
        };
        self.state.prefix.clear();
        self.state.ends.clear();
        let mut rest = found;
        for (column, wanted) in keys.columns[..keys.bounding].iter().enumerate() {
            let length = key_length(rest, *self.order.get(column)?).ok()?;
            let (value, tail) = rest.split_at_checked(length)?;
            rest = tail;
            let order = wanted.place(value);
            if order.is_eq() {
                let range = matches!(wanted, ColumnKeys::Range { .. });
                if range && column + 1 == keys.bounding {
                    return Some(self.begin(place));
                }
                self.push(value);
                continue;
            }
            if let ColumnKeys::Values(values) = wanted {
                let next = self.neighbour(values, value);
                return Some(match next {
                    Some(value) => {
                        self.push(value);
                        self.begin(place)
                    }
                    None => self.carry(place),
                });
            }
            let ahead = if self.forward() { order.is_lt() } else { order.is_gt() };
            return Some(if ahead { self.begin(place) } else { self.carry(place) });
        }
        Some(self.begin(place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_ascend_and_come_once() {
        let values = ColumnKeys::values(vec![vec![2], vec![1], vec![2]]);
        assert_eq!(values, ColumnKeys::Values(vec![vec![1], vec![2]]));
        ScanKeys { columns: vec![values], bounding: 1 }.assert_state(1);
    }

    #[test]
    #[should_panic(expected = "the values of a column do not ascend")]
    #[cfg(debug_assertions)]
    fn a_list_that_does_not_ascend_is_noticed() {
        let columns = vec![ColumnKeys::Values(vec![vec![2], vec![1]])];
        ScanKeys { columns, bounding: 1 }.assert_state(1);
    }

    #[test]
    #[should_panic(expected = "bytes of no value")]
    #[cfg(debug_assertions)]
    fn a_prefix_without_ends_is_noticed() {
        WalkState { prefix: vec![7], ..WalkState::default() }.assert_state(&ScanKeys::ALL);
    }
}
