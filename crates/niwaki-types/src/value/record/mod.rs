//! Values made of fields: of composite types, and rows without a declared type.

pub(crate) mod record_order;

use std::sync::Arc;

use super::datum::{Datum, elements_bytes};
use crate::error::{Result, TypeError};
use crate::types::oid::TypeOid;
use crate::types::user_types::{Attribute, UserTypes};
use crate::work::charge::{charge_more, charge_whole};

/// Most nested composite values in a stored value.
pub const RECORD_DEPTH_MAX: usize = 64;

/// Most nested rows in a value that a statement makes. The functions that read, write and drop
/// values are recursive over them.
pub const ROWS_DEPTH_MAX: usize = 1000;

/// The fields of a composite value: their types and values. The names are there if no composite
/// type has them.
#[derive(Clone, Debug)]
pub struct Record {
    kinds: Arc<[TypeOid]>,
    names: Option<Arc<[Arc<str>]>>,
    values: Vec<Datum>,
    /// Number of nested rows, this one included.
    depth: usize,
    /// See [`Record::bytes`].
    bytes: usize,
    shown: Shown,
}

/// Returns the number of nested rows in a value.
fn depth_of(value: &Datum) -> usize {
    match value {
        Datum::Record(_, record) => record.depth,
        // Arrays have no arrays in them, and all elements are of one kind.
        Datum::Array(_, values)
            if values.iter().any(|value| matches!(value, Datum::Record(..))) =>
        {
            values.iter().map(depth_of).max().unwrap_or(0)
        }
        _ => 0,
    }
}

/// Estimated bytes of a value's text, with the bytes that are doubled inside a row or an array.
/// Each level doubles them, so that a few nested rows can be shown as terabytes.
#[derive(Clone, Copy, Debug, Default)]
struct Shown {
    bytes: usize,
    doubled: usize,
}

impl Shown {
    /// The estimate of a value that is no container, and of types other than texts.
    const SCALAR: Self = Self { bytes: 32, doubled: 0 };

    fn of(value: &Datum) -> Self {
        match value {
            Datum::Text(text) => {
                let doubled = text.bytes().filter(|byte| matches!(byte, b'"' | b'\\')).count();
                Self { bytes: text.len(), doubled }
            }
            // A digit pair for each byte, behind a backslash.
            Datum::Bytea(bytes) => Self { bytes: bytes.len().saturating_mul(2), doubled: 1 },
            Datum::Jsonb(json) => Self { bytes: json.memory(), doubled: json.memory() },
            Datum::Array(_, values) => Self::over(values),
            Datum::Record(_, record) => record.shown,
            _ => Self::SCALAR,
        }
    }

    /// Returns the estimate of a container of these parts, each in quotes.
    fn over(values: &[Datum]) -> Self {
        values.iter().map(Self::of).fold(Self { bytes: 2, doubled: 0 }, |whole, part| Self {
            bytes: whole
                .bytes
                .saturating_add(part.bytes)
                .saturating_add(part.doubled)
                .saturating_add(3),
            doubled: whole.doubled.saturating_add(part.doubled.saturating_mul(2)).saturating_add(2),
        })
    }
}

fn bytes_over(values: &[Datum]) -> usize {
    elements_bytes(values).saturating_add(64)
}

fn depth_over(values: &[Datum]) -> usize {
    values.iter().map(depth_of).max().unwrap_or(0).saturating_add(1)
}

impl Record {
    /// Makes a value of fields of these types.
    ///
    /// # Panics
    /// If there are not as many types as values.
    pub fn new(kinds: impl Into<Arc<[TypeOid]>>, values: Vec<Datum>) -> Self {
        let kinds = kinds.into();
        assert_eq!(kinds.len(), values.len(), "each field has a type");
        let (depth, bytes) = (depth_over(&values), bytes_over(&values));
        let shown = Shown::over(&values);
        Self { kinds, names: None, values, depth, bytes, shown }
    }

    /// Returns the same fields under names, as many as there are fields.
    ///
    /// # Panics
    /// If there are fewer or more.
    #[must_use]
    pub fn with_names(self, names: Arc<[Arc<str>]>) -> Self {
        assert_eq!(names.len(), self.values.len(), "each field has a name");
        Self { names: Some(names), ..self }
    }

    /// Returns the estimated bytes of the value. Memory that its fields share counts for each of
    /// them.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Refuses a row that is no value. More than [`ROWS_DEPTH_MAX`] rows are nested in such a row,
    /// or the row or its text would be longer than a value may be.
    ///
    /// # Errors
    /// `54001`; `54000`.
    pub fn check(&self) -> Result<()> {
        charge_whole(self.bytes)?;
        charge_more(0, self.shown.bytes)?;
        if self.depth > ROWS_DEPTH_MAX {
            return Err(TypeError::new("54001", "stack depth limit exceeded"));
        }
        Ok(())
    }

    /// Returns the types of the fields.
    pub fn kinds(&self) -> &[TypeOid] {
        &self.kinds
    }

    /// Returns the values of the fields.
    pub fn values(&self) -> &[Datum] {
        &self.values
    }

    /// Returns the own names of the fields.
    pub fn names(&self) -> Option<&Arc<[Arc<str>]>> {
        self.names.as_ref()
    }

    /// Returns the type and value of each field.
    pub fn fields(&self) -> impl ExactSizeIterator<Item = (TypeOid, &Datum)> {
        self.kinds.iter().copied().zip(&self.values)
    }

    /// Returns the name of a field of a value of type `oid`. That is the value's own name, the name
    /// of the type's attribute, or `f1`, `f2` and so on.
    pub fn name_of(&self, field: usize, oid: TypeOid, types: &UserTypes) -> Arc<str> {
        let own = self.names.as_ref().and_then(|names| names.get(field).cloned());
        let attribute = || Some(Arc::clone(&types.composite(oid)?.attributes.get(field)?.name));
        own.or_else(attribute).unwrap_or_else(|| Arc::from(format!("f{}", field.saturating_add(1))))
    }

    /// Returns the same value with another value of a field; unchanged where there is no such
    /// field.
    #[must_use]
    pub fn with_field(&self, field: usize, value: Datum) -> Self {
        let mut changed = self.clone();
        if let Some(place) = changed.values.get_mut(field) {
            *place = value;
        }
        changed.depth = depth_over(&changed.values);
        changed.bytes = bytes_over(&changed.values);
        changed.shown = Shown::over(&changed.values);
        changed
    }

    /// Decides whether all fields are NULL (`IS NULL`). A field that is itself a value made of
    /// NULLs is not NULL.
    pub fn all_null(&self) -> bool {
        self.values.iter().all(Datum::is_null)
    }

    /// Decides whether no field is NULL (`IS NOT NULL`).
    pub fn none_null(&self) -> bool {
        !self.values.iter().any(Datum::is_null)
    }
}

/// Returns the attributes of a composite type.
///
/// # Errors
/// `0A000` where they are not known: of `record` there are none.
pub(crate) fn attributes_of(oid: TypeOid, types: &UserTypes) -> Result<&[Attribute]> {
    match types.composite(oid) {
        Some(found) => Ok(&found.attributes),
        None if oid == TypeOid::RECORD => {
            Err(TypeError::new("0A000", "input of anonymous composite types is not implemented"))
        }
        None => Err(TypeError::unsupported(
            "reading a composite value where the attributes of its type are not known",
        )),
    }
}

#[cfg(test)]
mod tests;
