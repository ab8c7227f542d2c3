//! To be replaced by the real modules (numeric, interval, io, key, layout).

use crate::{Datum, TypeOid};

/// `numeric`
#[derive(Clone, Debug, PartialEq)]
pub struct Numeric;
/// `interval`: months, days, microseconds
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// months
    pub months: i32,
    /// days
    pub days: i32,
    /// microseconds
    pub micros: i64,
}

/// A failed conversion or operation on values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct TypeError {
    /// Five characters, as PostgreSQL gives them (`22003`, `22P02`, …).
    pub sqlstate: &'static str,
    /// PostgreSQL's wording where a client may depend on it.
    pub message: String,
    /// Detail line, if any.
    pub detail: Option<String>,
}

/// How values are shown as text (session settings).
#[derive(Clone, Debug)]
pub struct TextSettings {
    /// Session time zone name, as in `SHOW TimeZone`.
    pub time_zone: Arc_str,
    /// `extra_float_digits`
    pub extra_float_digits: i32,
}
/// placeholder
#[allow(non_camel_case_types)]
pub type Arc_str = std::sync::Arc<str>;

/// Type of a stored column: type oid and PostgreSQL's typmod (-1: none).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnType {
    /// The type.
    pub oid: TypeOid,
    /// Length or precision, as PostgreSQL encodes it; -1 when there is none.
    pub typmod: i32,
}

/// How one key column of an index orders its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyOrder {
    /// Type of the column.
    pub oid: TypeOid,
    /// Descending.
    pub descending: bool,
    /// NULLs before all values (in the order of the scan).
    pub nulls_first: bool,
}

/// Appends the order-preserving encoding of `value`: comparing encodings byte by byte gives the
/// column's order, equal encodings mean equal under the operator class, and no encoding is a proper
/// prefix of another one of the same column.
pub fn encode_key(_value: &Datum, _order: KeyOrder, _out: &mut Vec<u8>) {
    unreachable!()
}

/// Decodes one column's key encoding from the front of `bytes`; returns the value and how many
/// bytes it took. `None` when the type's equality is not image equality (numeric, float, char(n)),
/// where the value must be read from the table.
pub fn decode_key(_bytes: &[u8], _order: KeyOrder) -> Result<(Option<Datum>, usize), TypeError> {
    unreachable!()
}

/// Appends the stored form of a row: null bitmap first (only when some value is NULL, told by the
/// result), then each non-null value, packed without alignment; variable-length values with a
/// varint length before them.
pub fn form_row(_columns: &[ColumnType], _values: &[Datum], _out: &mut Vec<u8>) -> bool {
    unreachable!()
}
