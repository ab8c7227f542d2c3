//! Elements and slices of an array by their subscripts.

use super::{Array, Dimension};
use crate::value::datum::Datum;

/// The bounds of a slice in one dimension. A bound that is left out is the array's bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// First subscript.
    pub lower: Option<i32>,
    /// Last subscript.
    pub upper: Option<i32>,
}

impl Array {
    /// Returns the element that a subscript for each dimension names.
    pub fn element(&self, subscripts: &[i32]) -> Option<&Datum> {
        self.values.get(self.offset(subscripts)?)
    }

    /// Returns the place of the element that a subscript for each dimension names.
    pub(super) fn offset(&self, subscripts: &[i32]) -> Option<usize> {
        if subscripts.len() != self.dimensions().len() || subscripts.is_empty() {
            return None;
        }
        let mut offset = 0usize;
        for (dimension, subscript) in self.dimensions().iter().zip(subscripts) {
            offset = offset
                .checked_mul(usize::try_from(dimension.length).ok()?)?
                .checked_add(dimension.place(*subscript)?)?;
        }
        Some(offset)
    }

    /// Returns the part between bounds; a dimension without bounds is taken whole. Places outside
    /// the array are left out, and the result begins at 1.
    #[must_use]
    pub fn slice(&self, bounds: &[Bounds]) -> Self {
        let empty = || Self::list(Vec::new());
        if bounds.len() > self.dimensions().len() {
            return empty();
        }
        let mut ranges = Vec::with_capacity(self.dimensions().len());
        let mut dimensions = Vec::with_capacity(self.dimensions().len());
        for (number, dimension) in self.dimensions().iter().enumerate() {
            let bounds = bounds.get(number).copied().unwrap_or_default();
            let lower = bounds.lower.unwrap_or(dimension.lower).max(dimension.lower);
            let upper = bounds.upper.unwrap_or(dimension.upper()).min(dimension.upper());
            let (Some(first), Some(last)) = (dimension.place(lower), dimension.place(upper)) else {
                return empty();
            };
            let Some(length) = last.checked_sub(first).and_then(|n| n.checked_add(1)) else {
                return empty();
            };
            ranges.push(first..first.saturating_add(length));
            dimensions.push(Dimension::new(u32::try_from(length).unwrap_or(u32::MAX)));
        }
        let mut values = Vec::new();
        self.for_each_place(&ranges, &mut |place| {
            values.extend(self.values.get(place).cloned());
        });
        Self::new(&dimensions, values).unwrap_or_else(|_| empty())
    }

    /// Calls `visit` with the place of each element whose place in each dimension is in the
    /// dimension's range.
    pub(super) fn for_each_place(
        &self,
        ranges: &[std::ops::Range<usize>],
        visit: &mut dyn FnMut(usize),
    ) {
        visit_places(self.dimensions(), ranges, 0, visit);
    }
}

fn visit_places(
    dimensions: &[Dimension],
    ranges: &[std::ops::Range<usize>],
    before: usize,
    visit: &mut dyn FnMut(usize),
) {
    let (Some((dimension, dimensions)), Some((range, ranges))) =
        (dimensions.split_first(), ranges.split_first())
    else {
        return visit(before);
    };
    let length = usize::try_from(dimension.length).unwrap_or(usize::MAX);
    let before = before.saturating_mul(length);
    for place in range.clone() {
        visit_places(dimensions, ranges, before.saturating_add(place), visit);
    }
}
