//! Subscripts of arrays: reads and assigns elements and slices.

use std::sync::Arc;

use niwaki_parse::error::{Result, SqlError};
use niwaki_types::{Array, Bounds, Datum, TypeOid};

use super::walk::Likeness;
use super::{Expr, Runtime};

/// The bounds in the brackets behind an array, one item for each dimension.
#[derive(Clone, Debug)]
pub struct Subscripts {
    /// Set for a slice rather than one element.
    pub slice: bool,
    /// The lower and upper bounds. A bound that is left out is the array's own. An element's
    /// subscript is the upper bound.
    pub bounds: Vec<[Option<Expr>; 2]>,
}

/// Evaluated subscripts.
enum Place {
    Element(Vec<i32>),
    Slice(Vec<Bounds>),
}

impl Subscripts {
    /// Returns the bounds.
    pub fn exprs(&self) -> impl Iterator<Item = &Expr> {
        self.bounds.iter().flatten().flatten()
    }

    /// Decides whether both are the same subscripts of the same row.
    pub(crate) fn is_like(&self, other: &Self, how: Likeness) -> bool {
        let same = |a: &Option<Expr>, b: &Option<Expr>| match (a, b) {
            (Some(a), Some(b)) => a.is_like(b, how),
            (None, None) => true,
            _ => false,
        };
        self.slice == other.slice
            && self.bounds.len() == other.bounds.len()
            && self
                .bounds
                .iter()
                .zip(&other.bounds)
                .all(|([a, b], [c, d])| same(a, c) && same(b, d))
    }

    /// Evaluates the subscripts. Returns `None` if one is NULL.
    fn place(&self, row: &[Datum], rt: &mut Runtime<'_, '_>) -> Result<Option<Place>> {
        let mut number = |bound: &Option<Expr>| -> Result<Option<Option<i32>>> {
            Ok(match bound {
                None => Some(None),
                Some(bound) => match bound.eval(row, rt)? {
                    Datum::Int4(value) => Some(Some(value)),
                    _ => None,
                },
            })
        };
        let mut bounds = Vec::with_capacity(self.bounds.len());
        for [lower, upper] in &self.bounds {
            let (Some(lower), Some(upper)) = (number(lower)?, number(upper)?) else {
                return Ok(None);
            };
            bounds.push(Bounds { lower, upper });
        }
        Ok(Some(if self.slice {
            Place::Slice(bounds)
        } else {
            Place::Element(bounds.iter().filter_map(|bounds| bounds.upper).collect())
        }))
    }

    /// Reads the element or slice of an array; NULL if there is none.
    pub(super) fn read(
        &self,
        array: &Datum,
        row: &[Datum],
        rt: &mut Runtime<'_, '_>,
    ) -> Result<Datum> {
        let Datum::Array(element, array) = array else { return Ok(Datum::Null) };
        Ok(match self.place(row, rt)? {
            None => Datum::Null,
            Some(Place::Element(subscripts)) => {
                array.element(&subscripts).cloned().unwrap_or(Datum::Null)
            }
            Some(Place::Slice(bounds)) => Datum::Array(*element, Arc::new(array.slice(&bounds))),
        })
    }

    /// Returns the array with another value at the subscripts.
    pub(super) fn assign(
        &self,
        array: &Datum,
        element: TypeOid,
        value: Datum,
        row: &[Datum],
        rt: &mut Runtime<'_, '_>,
    ) -> Result<Datum> {
        let place = self.place(row, rt)?.ok_or_else(|| {
            SqlError::new("22004", "array subscript in assignment must not be null")
        })?;
        let empty = Array::list(Vec::new());
        let old = if let Datum::Array(_, array) = array { array } else { &empty };
        let new = match (place, value) {
            (Place::Element(subscripts), value) => old.with_assigned(&subscripts, value)?,
            (Place::Slice(bounds), Datum::Array(_, source)) => {
                old.with_slice_assigned(&bounds, &source)?
            }
            // NULL does not say what the elements should be, so the array stays as it is.
            (Place::Slice(_), _) => return Ok(array.clone()),
        };
        Ok(Datum::Array(element, Arc::new(new)))
    }
}
