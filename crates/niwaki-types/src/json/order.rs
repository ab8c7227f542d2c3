//! Order, equality and hash of `jsonb`, as in PostgreSQL's btree and hash operator classes.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use super::json_tree::Jsonb;

impl Jsonb {
    /// Compares two whole values. Null < strings < numbers < booleans < arrays < objects. An array
    /// of more items is greater, and an object of more pairs, whatever they are. An array without
    /// items is less than anything else, but only where it is the whole value. The reason:
    /// PostgreSQL keeps a lone scalar as an array of one.
    pub fn compare(&self, other: &Self) -> Ordering {
        match (self.is_empty_array(), other.is_empty_array()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
            (false, false) => self.compare_part(other),
        }
    }

    /// Decides whether the value is `[]`.
    pub(crate) fn is_empty_array(&self) -> bool {
        matches!(self, Self::Array(array) if array.items().is_empty())
    }

    /// Compares parts of values.
    fn compare_part(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Bool(a), Self::Bool(b)) => a.cmp(b),
            (Self::Number(a), Self::Number(b)) => a.cmp(b),
            (Self::String(a), Self::String(b)) => a.as_bytes().cmp(b.as_bytes()),
            (Self::Array(a), Self::Array(b)) => {
                let (a, b) = (a.items(), b.items());
                a.len().cmp(&b.len()).then_with(|| {
                    let mut both = a.iter().zip(b);
                    both.find_map(|(a, b)| different(a, b)).unwrap_or(Ordering::Equal)
                })
            }
            (Self::Object(a), Self::Object(b)) => {
                let (a, b) = (a.pairs(), b.pairs());
                a.len().cmp(&b.len()).then_with(|| {
                    let mut both = a.iter().zip(b);
                    both.find_map(|((a, x), (b, y))| match a.as_bytes().cmp(b.as_bytes()) {
                        Ordering::Equal => different(x, y),
                        order => Some(order),
                    })
                    .unwrap_or(Ordering::Equal)
                })
            }
            _ => self.rank().cmp(&other.rank()),
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Null => 0,
            Self::String(_) => 1,
            Self::Number(_) => 2,
            Self::Bool(_) => 3,
            Self::Array(_) => 4,
            Self::Object(_) => 5,
        }
    }

    /// Feeds the value to `state`; equal values hash alike.
    pub fn hash_into<H: Hasher>(&self, state: &mut H) {
        state.write_u8(self.rank());
        match self {
            Self::Null => {}
            Self::Bool(value) => state.write_u8((*value).into()),
            Self::Number(number) => number.hash(state),
            Self::String(text) => text.hash(state),
            Self::Array(array) => {
                state.write_usize(array.items().len());
                array.items().iter().for_each(|item| item.hash_into(state));
            }
            Self::Object(object) => {
                state.write_usize(object.pairs().len());
                for (key, value) in object.pairs() {
                    key.hash(state);
                    value.hash_into(state);
                }
            }
        }
    }
}

/// Returns the order of two parts that differ; `None` for equal parts.
fn different(a: &Arc<Jsonb>, b: &Arc<Jsonb>) -> Option<Ordering> {
    if Arc::ptr_eq(a, b) {
        return None;
    }
    Some(a.compare_part(b)).filter(|order| order.is_ne())
}

impl PartialEq for Jsonb {
    /// Compares by SQL equality: `1.0` is `1`.
    fn eq(&self, other: &Self) -> bool {
        self.compare(other).is_eq()
    }
}

impl Eq for Jsonb {}
