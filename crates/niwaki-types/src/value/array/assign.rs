//! Assignments to array subscripts: copies of arrays with other elements in some places.

use super::part::Bounds;
use super::{
    ARRAY_DIMENSIONS_MAX, Array, Dimension, check_dimensions, subscript_error, too_many_dimensions,
    too_many_elements,
};
use crate::error::Result;
use crate::value::datum::Datum;

impl Array {
    /// Returns the array with `value` where the subscripts say. An array of one dimension grows to
    /// reach the subscript, with NULLs between. An empty array gets the subscripts as its bounds.
    ///
    /// # Errors
    /// `2202E` for a wrong number of subscripts or one outside several dimensions, `54000` for too
    /// many elements.
    pub fn with_assigned(&self, subscripts: &[i32], value: Datum) -> Result<Self> {
        if subscripts.len() > ARRAY_DIMENSIONS_MAX {
            return Err(too_many_dimensions(subscripts.len()));
        }
        if self.is_empty() {
            let dimensions: Vec<Dimension> =
                subscripts.iter().map(|lower| Dimension { length: 1, lower: *lower }).collect();
            return Self::new(&dimensions, vec![value]);
        }
        if subscripts.len() != self.dimensions().len() {
            return Err(subscript_error("wrong number of array subscripts"));
        }
        if let (&[only], &[subscript]) = (self.dimensions(), subscripts) {
            let (first, last) = (only.lower.min(subscript), only.upper().max(subscript));
            let mut values = self.widened(only, first, last)?;
            let place = i64::from(subscript).saturating_sub(i64::from(first));
            let place = usize::try_from(place).ok().and_then(|place| values.get_mut(place));
            *place.ok_or_else(too_many_elements)? = value;
            let length = u32::try_from(values.len()).unwrap_or(u32::MAX);
            return Self::new(&[Dimension { length, lower: first }], values);
        }
        let place = self.offset(subscripts);
        let mut values = self.values.to_vec();
        *place
            .and_then(|place| values.get_mut(place))
            .ok_or_else(|| subscript_error("array subscript out of range"))? = value;
        Ok(self.with_values(values))
    }

    /// Returns the elements of a longer array of one dimension, whose new elements are NULL.
    fn widened(&self, only: Dimension, first: i32, last: i32) -> Result<Vec<Datum>> {
        let count = |from: i32, to: i32| {
            usize::try_from(i64::from(to).saturating_sub(i64::from(from))).unwrap_or(0)
        };
        let length = count(first, last).saturating_add(1);
        let length = u32::try_from(length).map_err(|_| too_many_elements())?;
        check_dimensions(&[Dimension { length, lower: first }])?;
        let mut values = vec![Datum::Null; count(first, only.lower)];
        values.extend_from_slice(self);
        values.resize(usize::try_from(length).unwrap_or(usize::MAX), Datum::Null);
        Ok(values)
    }

    /// Returns the array with the first elements of `source` in the places between the bounds, row
    /// by row.
    ///
    /// # Errors
    /// `2202E` for bounds that are missing, reversed or outside several dimensions, and for a
    /// source of too few elements. `54000` for too many elements.
    pub fn with_slice_assigned(&self, bounds: &[Bounds], source: &[Datum]) -> Result<Self> {
        if bounds.len() > ARRAY_DIMENSIONS_MAX {
            return Err(too_many_dimensions(bounds.len()));
        }
        if self.is_empty() {
            return Self::from_slice(bounds, source);
        }
        let dimensions = self.dimensions();
        if bounds.len() > dimensions.len() {
            return Err(subscript_error("wrong number of array subscripts"));
        }
        let mut dimensions = dimensions.to_vec();
        let mut values = self.values.to_vec();
        let mut ranges = Vec::with_capacity(dimensions.len());
        let alone = dimensions.len() == 1;
        for (number, dimension) in dimensions.iter_mut().enumerate() {
            let given = bounds.get(number).copied().unwrap_or_default();
            let lower = given.lower.unwrap_or(dimension.lower);
            let upper = given.upper.unwrap_or(dimension.upper());
            if lower > upper {
                return Err(subscript_error("upper bound cannot be less than lower bound"));
            }
            if alone {
                let first = dimension.lower.min(lower);
                values = self.widened(*dimension, first, dimension.upper().max(upper))?;
                let length = u32::try_from(values.len()).unwrap_or(u32::MAX);
                *dimension = Dimension { length, lower: first };
            }
            let (Some(first), Some(last)) = (dimension.place(lower), dimension.place(upper)) else {
                return Err(subscript_error("array subscript out of range"));
            };
            ranges.push(first..last.saturating_add(1));
        }
        let whole = Self::new(&dimensions, values.clone())?;
        let wanted = ranges.iter().map(ExactSizeIterator::len).product::<usize>();
        if source.len() < wanted {
            return Err(subscript_error("source array too small"));
        }
        let mut source = source.iter();
        whole.for_each_place(&ranges, &mut |place| {
            if let (Some(value), Some(place)) = (source.next(), values.get_mut(place)) {
                *place = value.clone();
            }
        });
        Ok(whole.with_values(values))
    }

    /// Returns the result of assigning to a slice of an empty array.
    fn from_slice(bounds: &[Bounds], source: &[Datum]) -> Result<Self> {
        let mut dimensions = Vec::with_capacity(bounds.len());
        for bounds in bounds {
            let (Some(lower), Some(upper)) = (bounds.lower, bounds.upper) else {
                return Err(subscript_error("array slice subscript must provide both boundaries")
                    .with_detail(
                        "When assigning to a slice of an empty array value, slice boundaries must \
                         be fully specified.",
                    ));
            };
            let length = i64::from(upper).saturating_sub(i64::from(lower)).saturating_add(1);
            if length < 0 {
                return Err(subscript_error("upper bound cannot be less than lower bound"));
            }
            let length = u32::try_from(length).map_err(|_| too_many_elements())?;
            dimensions.push(Dimension { length, lower });
        }
        let wanted = check_dimensions(&dimensions)?;
        let values =
            source.get(..wanted).ok_or_else(|| subscript_error("source array too small"))?;
        Self::new(&dimensions, values.to_vec())
    }
}
