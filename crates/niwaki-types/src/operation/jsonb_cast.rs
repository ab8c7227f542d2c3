//! `jsonb` as a boolean or a number.

use std::sync::Arc;

use crate::error::{Result, TypeError};
use crate::json::json_tree::Jsonb;
use crate::types::oid::TypeOid;
use crate::value::datum::Datum;

/// Returns the value of a lone boolean or number as type `to`.
///
/// # Errors
/// `22023` when it is something else, `22003` for a number out of range, `42846` for another type.
pub fn jsonb_to_scalar(value: &Jsonb, to: TypeOid) -> Result<Datum> {
    let wrong = |what: &str| {
        TypeError::new("22023", format!("cannot cast jsonb {what} to type {}", to.display_name()))
    };
    let number = match value {
        Jsonb::Bool(value) if to == TypeOid::BOOL => return Ok(Datum::Bool(*value)),
        Jsonb::Number(number) if to != TypeOid::BOOL => number,
        Jsonb::Number(_) => return Err(wrong("numeric")),
        other => return Err(wrong(other.type_name())),
    };
    Ok(match to {
        TypeOid::NUMERIC => Datum::Numeric(Arc::new(number.clone())),
        TypeOid::INT2 => Datum::Int2(number.to_i16()?),
        TypeOid::INT4 => Datum::Int4(number.to_i32()?),
        TypeOid::INT8 => Datum::Int8(number.to_i64()?),
        TypeOid::FLOAT4 => Datum::Float4(number.to_f32()?),
        TypeOid::FLOAT8 => Datum::Float8(number.to_f64()?),
        _ => {
            let name = to.display_name();
            return Err(TypeError::new("42846", format!("cannot cast type jsonb to {name}")));
        }
    })
}
