//! The order of rows.

use std::cmp::Ordering;

use super::Record;
use crate::error::{Result, TypeError};
use crate::types::oid::TypeOid;
use crate::value::compare::compare;
use crate::value::datum::Datum;

impl Record {
    /// Compares two rows by the first fields that differ, NULL behind all values. The order is
    /// total, also for rows whose fields have different types, which [`Record::try_compare`]
    /// refuses.
    pub fn compare(&self, other: &Self) -> Ordering {
        let mut fields = self.fields().zip(other.fields());
        let differing = fields.find_map(|((kind, a), (other, b))| {
            let order = kind.0.cmp(&other.0).then_with(|| compare(kind, a, b));
            order.is_ne().then_some(order)
        });
        differing.unwrap_or_else(|| self.values.len().cmp(&other.values.len()))
    }

    /// Compares two rows as operators do, for their order or only for `equality`.
    ///
    /// # Errors
    /// `42804` where the first fields that differ are of different types, or where all are equal
    /// and one row has more. `42883` for fields of a type that has no order.
    pub fn try_compare(&self, other: &Self, equality: bool) -> Result<Ordering> {
        let pairs = self.fields().zip(other.fields());
        for (number, ((kind, a), (other_kind, b))) in pairs.enumerate() {
            same_kinds(kind, other_kind, number)?;
            let name = match kind {
                TypeOid::JSON | TypeOid::JSON_ARRAY => Some("json"),
                TypeOid::JSONPATH | TypeOid::JSONPATH_ARRAY => Some("jsonpath"),
                _ => None,
            };
            if let Some(name) = name {
                let what = if equality { "an equality operator" } else { "a comparison function" };
                let message = format!("could not identify {what} for type {name}");
                return Err(TypeError::new("42883", message));
            }
            let order = match (a, b) {
                (Datum::Record(_, a), Datum::Record(_, b)) => a.try_compare(b, equality)?,
                _ => compare(kind, a, b),
            };
            if order.is_ne() {
                return Ok(order);
            }
        }
        self.same_width(other)?;
        Ok(Ordering::Equal)
    }

    /// Fails unless both rows, whose common fields are equal, have the same number of fields.
    pub(crate) fn same_width(&self, other: &Self) -> Result<()> {
        if self.values.len() == other.values.len() {
            return Ok(());
        }
        let message = "cannot compare record types with different numbers of columns";
        Err(TypeError::new("42804", message))
    }
}

/// Fails unless the fields of this number, counted from 0, are of one type in both rows.
pub(crate) fn same_kinds(kind: TypeOid, other: TypeOid, number: usize) -> Result<()> {
    if kind == other {
        return Ok(());
    }
    let (left, right) = (kind.display_name(), other.display_name());
    let column = number.saturating_add(1);
    let message = format!(
        "cannot compare dissimilar column types {left} and {right} at record column {column}"
    );
    Err(TypeError::new("42804", message))
}
