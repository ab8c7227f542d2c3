//! The order of arrays.

use std::cmp::Ordering;

use super::Array;
use crate::types::oid::TypeOid;
use crate::value::compare::compare;

impl Array {
    /// Compares in the order of PostgreSQL's `array_ops`: by the elements, then by their number.
    /// Then follow the number of dimensions, their lengths, their lower bounds.
    pub(crate) fn compare(&self, element: TypeOid, other: &Self) -> Ordering {
        let lengths =
            |array: &Self| array.dimensions().iter().map(|d| d.length).collect::<Vec<_>>();
        let lowers = |array: &Self| array.dimensions().iter().map(|d| d.lower).collect::<Vec<_>>();
        self.values
            .iter()
            .zip(&other.values)
            .map(|(a, b)| compare(element, a, b))
            .find(|order| order.is_ne())
            .unwrap_or_else(|| self.values.len().cmp(&other.values.len()))
            .then_with(|| {
                if self.dimensions() == other.dimensions() {
                    return Ordering::Equal;
                }
                self.count
                    .cmp(&other.count)
                    .then_with(|| lengths(self).cmp(&lengths(other)))
                    .then_with(|| lowers(self).cmp(&lowers(other)))
            })
    }
}
