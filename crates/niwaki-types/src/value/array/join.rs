//! Construction of one array from several.

use super::{
    ARRAY_DIMENSIONS_MAX, Array, Dimension, charge_elements, subscript_error, too_many_dimensions,
};
use crate::error::{Result, TypeError};
use crate::value::datum::{Datum, elements_bytes, value_bytes};
use crate::work::charge::Charge;

impl Array {
    /// Appends one array to the other, or adds one as the last or the first element of the other.
    ///
    /// # Errors
    /// `2202E` when the dimensions do not fit, `54000` for too many elements.
    pub fn concat(&self, other: &Self) -> Result<Self> {
        let (a, b) = (self.dimensions(), other.dimensions());
        if a.is_empty() {
            return Ok(other.clone());
        }
        if b.is_empty() {
            return Ok(self.clone());
        }
        let incompatible = |detail: String| {
            subscript_error("cannot concatenate incompatible arrays").with_detail(detail)
        };
        let inside = |dimensions: &[Dimension]| dimensions.get(1..).unwrap_or_default().to_vec();
        let (dimensions, added, fits) = if a.len() == b.len() {
            let added = b.first().map_or(0, |first| first.length);
            (a, added, inside(a) == inside(b))
        } else if a.len() == b.len().saturating_add(1) {
            (a, 1, inside(a) == b)
        } else if b.len() == a.len().saturating_add(1) {
            (b, 1, inside(b) == a)
        } else {
            return Err(incompatible(format!(
                "Arrays of {} and {} dimensions are not compatible for concatenation.",
                a.len(),
                b.len()
            )));
        };
        if !fits {
            let what = if a.len() == b.len() { "element dimensions" } else { "dimensions" };
            return Err(incompatible(format!(
                "Arrays with differing {what} are not compatible for concatenation."
            )));
        }
        let mut dimensions = dimensions.to_vec();
        if let Some(first) = dimensions.first_mut() {
            first.length = first.length.saturating_add(added);
        }
        charge_elements(
            &mut Charge::default(),
            1,
            elements_bytes(self).saturating_add(elements_bytes(other)),
        )?;
        Self::new(&dimensions, self.iter().chain(other.iter()).cloned().collect())
    }

    /// Adds a value behind the last, or before the first, element of an array of one dimension.
    ///
    /// # Errors
    /// `22000` for an array of several dimensions, `54000` for too many elements.
    pub fn with_element(&self, value: Datum, first: bool) -> Result<Self> {
        let lower = match self.dimensions() {
            [] => 1,
            [only] => only.lower,
            _ => {
                let message = "argument must be empty or one-dimensional array";
                return Err(TypeError::new("22000", message));
            }
        };
        // PostgreSQL calls an index beyond the last integer out of range.
        if !first && self.dimensions().first().is_some_and(|d| d.upper() == i32::MAX) {
            return Err(TypeError::out_of_range("integer"));
        }
        let added = value_bytes(&value);
        charge_elements(&mut Charge::default(), 1, elements_bytes(self).saturating_add(added))?;
        let mut values = Vec::with_capacity(self.len().saturating_add(1));
        if first {
            values.push(value.clone());
        }
        values.extend_from_slice(self);
        if !first {
            values.push(value);
        }
        let length = u32::try_from(values.len()).unwrap_or(u32::MAX);
        Self::new(&[Dimension { length, lower }], values)
    }

    /// Makes an array of arrays, as `ARRAY[…]` does. If all are NULL or empty, the result is empty.
    ///
    /// # Errors
    /// `2202E` when the arrays differ in their dimensions, `54000` for too many dimensions or
    /// elements.
    pub fn of_arrays(arrays: &[Datum]) -> Result<Self> {
        let unlike = || {
            subscript_error(
                "multidimensional arrays must have array expressions with matching dimensions",
            )
        };
        let mut inner: Option<&Self> = None;
        let mut empty = false;
        let mut values = Vec::new();
        let mut charge = Charge::default();
        for array in arrays {
            let Datum::Array(_, array) = array else {
                empty = true;
                continue;
            };
            if array.is_empty() {
                empty = true;
                continue;
            }
            match inner {
                None => inner = Some(array),
                Some(first) if first.dimensions() != array.dimensions() => return Err(unlike()),
                Some(_) => {}
            }
            charge_elements(&mut charge, 0, elements_bytes(array))?;
            values.extend_from_slice(array);
        }
        let Some(inner) = inner else { return Ok(Self::list(Vec::new())) };
        if empty {
            return Err(unlike());
        }
        Self::nested(arrays.len(), inner, values)
    }

    /// Makes the array that aggregates of arrays give: as [`Array::of_arrays`], but every array
    /// must be non-empty and have the same dimensions.
    ///
    /// # Errors
    /// `22004` for NULL, `2202E` for empty arrays and for arrays that differ in their dimensions.
    /// `54000` for too many dimensions or elements.
    pub fn accumulated(arrays: &[Datum]) -> Result<Self> {
        let mut inner: Option<&Self> = None;
        let mut values = Vec::new();
        for array in arrays {
            let Datum::Array(_, array) = array else {
                return Err(TypeError::new("22004", "cannot accumulate null arrays"));
            };
            match inner {
                None if array.is_empty() => {
                    return Err(subscript_error("cannot accumulate empty arrays"));
                }
                None => inner = Some(array),
                Some(first) if first.dimensions() != array.dimensions() => {
                    let message = "cannot accumulate arrays of different dimensionality";
                    return Err(subscript_error(message));
                }
                Some(_) => {}
            }
            values.extend_from_slice(array);
        }
        match inner {
            Some(inner) => Self::nested(arrays.len(), inner, values),
            None => Ok(Self::list(Vec::new())),
        }
    }

    fn nested(count: usize, inner: &Self, values: Vec<Datum>) -> Result<Self> {
        let inner = inner.dimensions();
        if inner.len() >= ARRAY_DIMENSIONS_MAX {
            return Err(too_many_dimensions(inner.len().saturating_add(1)));
        }
        let outer = Dimension::new(u32::try_from(count).unwrap_or(u32::MAX));
        let dimensions: Vec<Dimension> =
            std::iter::once(outer).chain(inner.iter().copied()).collect();
        Self::new(&dimensions, values)
    }
}
