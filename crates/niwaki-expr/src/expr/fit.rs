//! Fits integers to the width of the type that a column has.

use niwaki_types::{Datum, TypeOid};

/// A value converted to the column's own type, if the type can represent it.
pub enum Fit {
    /// The value of the other type.
    Value(Datum),
    /// Smaller than all values of the type.
    Below,
    /// Greater than all values of the type.
    Above,
    /// No value: it was NULL.
    Null,
}

/// Converts an integer to the width of the column's type.
pub fn fit(value: &Datum, column: TypeOid) -> Fit {
    let integer = match value {
        Datum::Null => return Fit::Null,
        Datum::Int2(v) if column != TypeOid::INT2 => i64::from(*v),
        Datum::Int4(v) if column != TypeOid::INT4 => i64::from(*v),
        Datum::Int8(v) if column != TypeOid::INT8 => *v,
        value => return Fit::Value(value.clone()),
    };
    let fitted = match column {
        TypeOid::INT2 => i16::try_from(integer).ok().map(Datum::Int2),
        TypeOid::INT4 => i32::try_from(integer).ok().map(Datum::Int4),
        TypeOid::INT8 => Some(Datum::Int8(integer)),
        _ => Some(value.clone()),
    };
    match fitted {
        Some(value) => Fit::Value(value),
        None if integer < 0 => Fit::Below,
        None => Fit::Above,
    }
}
