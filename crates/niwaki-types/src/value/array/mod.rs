//! The value of an array: its elements and their place in up to six dimensions.
#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

mod array_order;
mod assign;
mod join;
mod part;
#[cfg(test)]
mod tests;

use std::ops::Deref;
use std::sync::Arc;

use super::datum::Datum;
use crate::error::{Result, TypeError};
use crate::types::oid::TypeOid;
use crate::work;
use crate::work::charge::{Charge, VALUE_BYTES_MAX, ask_for};

pub use part::Bounds;

/// Most dimensions an array may have (PostgreSQL's limit).
pub const ARRAY_DIMENSIONS_MAX: usize = 6;
/// Most elements an array may have (PostgreSQL's limit).
pub const ARRAY_ELEMENTS_MAX: usize = 134_217_727;

/// One dimension of an array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dimension {
    /// Number of subscripts; at least one, except in vectors.
    pub length: u32,
    /// The first subscript.
    pub lower: i32,
}

impl Dimension {
    /// Returns a dimension that begins at 1.
    pub const fn new(length: u32) -> Self {
        Self { length, lower: 1 }
    }

    /// Returns the last subscript.
    pub fn upper(self) -> i32 {
        // `Array::new` holds the sum to the type's range.
        let upper = i64::from(self.lower).saturating_add(i64::from(self.length));
        i32::try_from(upper.saturating_sub(1)).unwrap_or(i32::MAX)
    }

    /// Returns the place of a subscript, counted from 0; `None` for a subscript outside the
    /// dimension.
    pub fn place(self, subscript: i32) -> Option<usize> {
        let place = i64::from(subscript).checked_sub(i64::from(self.lower))?;
        let place = u32::try_from(place).ok().filter(|place| *place < self.length)?;
        usize::try_from(place).ok()
    }
}

/// The elements of an array in row-major order (the last subscript moves fastest), and its
/// dimensions. An array without elements has no dimensions, except for [`Datum::vector`].
#[derive(Clone, Debug)]
pub struct Array {
    count: u8,
    dimensions: [Dimension; ARRAY_DIMENSIONS_MAX],
    values: Box<[Datum]>,
}

impl Deref for Array {
    type Target = [Datum];

    /// Returns all elements.
    fn deref(&self) -> &[Datum] {
        &self.values
    }
}

impl Datum {
    /// Returns an array of one dimension that begins at 1.
    pub fn array(element: TypeOid, values: impl IntoIterator<Item = Self>) -> Self {
        Self::Array(element, Arc::new(Array::list(values.into_iter().collect())))
    }

    /// Makes a value of `int2vector` or `oidvector`: an array of one dimension that begins at 0. As
    /// in PostgreSQL, the vector has that dimension without elements, too.
    pub fn vector(element: TypeOid, values: impl IntoIterator<Item = Self>) -> Self {
        let mut array = Array::list(values.into_iter().collect());
        array.dimensions[0].lower = 0;
        array.count = 1;
        Self::Array(element, Arc::new(array))
    }
}

impl Array {
    /// Returns an array of one dimension that begins at 1, or an empty one.
    pub fn list(values: Vec<Datum>) -> Self {
        let length = u32::try_from(values.len()).unwrap_or(u32::MAX);
        let mut dimensions = [Dimension::default(); ARRAY_DIMENSIONS_MAX];
        dimensions[0] = Dimension::new(length);
        Self { count: (!values.is_empty()).into(), dimensions, values: values.into() }
    }

    /// Makes an array of these dimensions. A dimension of length 0 makes an array without elements.
    ///
    /// # Errors
    /// `54000` for too many dimensions or elements, or subscripts beyond an integer. `XX000` when
    /// the number of elements is not the number that the dimensions give.
    pub fn new(dimensions: &[Dimension], values: Vec<Datum>) -> Result<Self> {
        let elements = check_dimensions(dimensions)?;
        if elements != values.len() {
            return Err(TypeError::new(
                "XX000",
                format!("an array of {elements} elements was given {}", values.len()),
            ));
        }
        if elements == 0 {
            return Ok(Self::list(Vec::new()));
        }
        let mut all = [Dimension::default(); ARRAY_DIMENSIONS_MAX];
        for (place, dimension) in all.iter_mut().zip(dimensions) {
            *place = *dimension;
        }
        let count = u8::try_from(dimensions.len()).unwrap_or(u8::MAX);
        Ok(Self { count, dimensions: all, values: values.into() })
    }

    /// Makes [`Array::new`] from stored parts: a vector without elements stays one.
    pub(crate) fn stored(dimensions: &[Dimension], values: Vec<Datum>) -> Result<Self> {
        let mut array = Self::new(dimensions, values)?;
        if let [only @ Dimension { length: 0, lower: 0 }] = dimensions {
            array.dimensions[0] = *only;
            array.count = 1;
        }
        Ok(array)
    }

    /// Returns the same dimensions with as many other elements.
    #[must_use]
    pub fn with_values(&self, values: Vec<Datum>) -> Self {
        debug_assert_eq!(values.len(), self.values.len(), "as many elements as before");
        Self { count: self.count, dimensions: self.dimensions, values: values.into() }
    }

    /// Returns the dimensions, the outermost first. An empty array has none.
    pub fn dimensions(&self) -> &[Dimension] {
        self.dimensions.get(..usize::from(self.count)).unwrap_or_default()
    }

    /// Returns dimension `number`, counted from 1.
    pub fn dimension(&self, number: i32) -> Option<Dimension> {
        let index = usize::try_from(number).ok()?.checked_sub(1)?;
        self.dimensions().get(index).copied()
    }

    /// Returns the dimensions as they are shown: `[1:2][0:4]`.
    pub fn dimensions_text(&self) -> String {
        let shown = |dimension: &Dimension| format!("[{}:{}]", dimension.lower, dimension.upper());
        self.dimensions().iter().map(shown).collect()
    }

    /// Decides whether some element is NULL.
    pub fn has_nulls(&self) -> bool {
        self.values.iter().any(Datum::is_null)
    }
}

/// Returns the number of elements of an array of these dimensions.
///
/// # Errors
/// `54000`, see [`Array::new`].
pub(crate) fn check_dimensions(dimensions: &[Dimension]) -> Result<usize> {
    if dimensions.len() > ARRAY_DIMENSIONS_MAX {
        return Err(too_many_dimensions(dimensions.len()));
    }
    let mut elements = usize::from(!dimensions.is_empty());
    for dimension in dimensions {
        let length = usize::try_from(dimension.length).unwrap_or(usize::MAX);
        elements = elements
            .checked_mul(length)
            .filter(|elements| *elements <= ARRAY_ELEMENTS_MAX)
            .ok_or_else(too_many_elements)?;
    }
    if elements > 0 {
        for dimension in dimensions {
            let end = i64::from(dimension.lower).saturating_add(i64::from(dimension.length));
            if end > i64::from(i32::MAX) {
                let message = format!("array lower bound is too large: {}", dimension.lower);
                return Err(TypeError::new("54000", message));
            }
        }
    }
    Ok(elements)
}

/// Charges `count` elements of an array, of `bytes` bytes in all beside their places.
///
/// # Errors
/// `54000` where they would take more than a value may.
#[inline]
pub fn charge_elements(charge: &mut Charge, count: usize, bytes: usize) -> Result<()> {
    let more = count.saturating_mul(size_of::<Datum>()).saturating_add(bytes);
    work::tick(more)?;
    let all = charge.bytes.saturating_add(more);
    if all > VALUE_BYTES_MAX {
        return Err(TypeError::new(
            "54000",
            format!("array size exceeds the maximum allowed ({VALUE_BYTES_MAX})"),
        ));
    }
    ask_for(more)?;
    charge.bytes = all;
    Ok(())
}

#[cold]
pub(crate) fn too_many_elements() -> TypeError {
    let message = format!("array size exceeds the maximum allowed ({ARRAY_ELEMENTS_MAX})");
    TypeError::new("54000", message)
}

#[cold]
pub(crate) fn too_many_dimensions(count: usize) -> TypeError {
    let message = format!(
        "number of array dimensions ({count}) exceeds the maximum allowed ({ARRAY_DIMENSIONS_MAX})"
    );
    TypeError::new("54000", message)
}

/// Returns the error `2202E`: subscripts that do not fit their array.
#[cold]
fn subscript_error(message: &str) -> TypeError {
    TypeError::new("2202E", message)
}
