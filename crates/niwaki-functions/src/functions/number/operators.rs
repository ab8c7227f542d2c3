//! Operators on values other than dates and times: arithmetic, comparison, and others.

use std::cmp::Ordering;

use niwaki_parse::error::{Result, SqlError};
use niwaki_types::growing::charge_whole;
use niwaki_types::{ArithmeticOperator, Datum, TypeError, TypeOid, arithmetic, compare};

use crate::functions::text::pattern::{like, like_bytes};
use crate::functions::text::strings::shown_type;
use crate::functions::{Function, functions, wrong_types};

#[cold]
pub(crate) fn range(type_name: &str) -> SqlError {
    TypeError::out_of_range(type_name).into()
}

/// Returns both integers as int8, with the larger of their two widths.
fn integers(a: &Datum, b: &Datum) -> Option<(i64, i64, u8)> {
    let one = |d: &Datum| match d {
        Datum::Int2(v) => Some((i64::from(*v), 2)),
        Datum::Int4(v) => Some((i64::from(*v), 4)),
        Datum::Int8(v) => Some((*v, 8)),
        _ => None,
    };
    let ((a, wa), (b, wb)) = (one(a)?, one(b)?);
    Some((a, b, wa.max(wb)))
}

/// Returns an integer result in its width, or PostgreSQL's error.
fn integer(value: Option<i64>, width: u8) -> Result<Datum> {
    match width {
        2 => value
            .and_then(|v| i16::try_from(v).ok())
            .map(Datum::Int2)
            .ok_or_else(|| range("smallint")),
        4 => value
            .and_then(|v| i32::try_from(v).ok())
            .map(Datum::Int4)
            .ok_or_else(|| range("integer")),
        _ => value.map(Datum::Int8).ok_or_else(|| range("bigint")),
    }
}

/// Returns both floats as float8.
fn floats(a: &Datum, b: &Datum) -> Option<(f64, f64)> {
    let one = |d: &Datum| match d {
        Datum::Float4(v) => Some(f64::from(*v)),
        Datum::Float8(v) => Some(*v),
        _ => None,
    };
    Some((one(a)?, one(b)?))
}

/// Returns a float result. Infinity from finite operands is an overflow; zero from nonzero operands
/// is an underflow.
pub(crate) fn float(value: f64, finite: bool, nonzero: bool) -> Result<Datum> {
    if value.is_infinite() && finite {
        return Err(SqlError::new("22003", "value out of range: overflow"));
    }
    if value == 0.0 && nonzero {
        return Err(SqlError::new("22003", "value out of range: underflow"));
    }
    Ok(Datum::Float8(value))
}

pub(crate) fn add(a: &Datum, b: &Datum) -> Result<Datum> {
    Ok(arithmetic(ArithmeticOperator::Add, a, b)?)
}

pub(crate) fn subtract(a: &Datum, b: &Datum) -> Result<Datum> {
    Ok(arithmetic(ArithmeticOperator::Subtract, a, b)?)
}

pub(crate) fn multiply(a: &Datum, b: &Datum) -> Result<Datum> {
    Ok(arithmetic(ArithmeticOperator::Multiply, a, b)?)
}

pub(crate) fn divide(a: &Datum, b: &Datum) -> Result<Datum> {
    Ok(arithmetic(ArithmeticOperator::Divide, a, b)?)
}

pub(crate) fn modulo(a: &Datum, b: &Datum) -> Result<Datum> {
    Ok(arithmetic(ArithmeticOperator::Modulo, a, b)?)
}

pub(crate) fn negate(a: &Datum) -> Result<Datum> {
    Ok(niwaki_types::negate(a)?)
}

pub(crate) fn absolute(a: &Datum) -> Result<Datum> {
    Ok(niwaki_types::absolute(a)?)
}

#[expect(clippy::unnecessary_wraps, reason = "the signature of every function")]
fn identity(a: &Datum) -> Result<Datum> {
    Ok(a.clone())
}

fn bitwise(a: &Datum, b: &Datum, operation: fn(i64, i64) -> i64) -> Result<Datum> {
    let (x, y, width) = integers(a, b).ok_or_else(|| wrong_types("&"))?;
    integer(Some(operation(x, y)), width)
}

fn bit_and(a: &Datum, b: &Datum) -> Result<Datum> {
    bitwise(a, b, |x, y| x & y)
}
fn bit_or(a: &Datum, b: &Datum) -> Result<Datum> {
    bitwise(a, b, |x, y| x | y)
}
fn bit_xor(a: &Datum, b: &Datum) -> Result<Datum> {
    bitwise(a, b, |x, y| x ^ y)
}

fn bit_not(a: &Datum) -> Result<Datum> {
    Ok(match a {
        Datum::Int2(v) => Datum::Int2(!v),
        Datum::Int4(v) => Datum::Int4(!v),
        Datum::Int8(v) => Datum::Int8(!v),
        _ => return Err(wrong_types("~")),
    })
}

/// Shifts left. The distance wraps at the width, as on the processors that PostgreSQL runs on.
fn shift_left(a: &Datum, b: &Datum) -> Result<Datum> {
    let Datum::Int4(distance) = b else { return Err(wrong_types("<<")) };
    Ok(match a {
        Datum::Int2(v) => {
            let wide = i32::from(*v).wrapping_shl(distance.cast_unsigned());
            #[expect(clippy::cast_possible_truncation, reason = "bits shifted out are lost")]
            Datum::Int2(wide as i16)
        }
        Datum::Int4(v) => Datum::Int4(v.wrapping_shl(distance.cast_unsigned())),
        Datum::Int8(v) => Datum::Int8(v.wrapping_shl(distance.cast_unsigned())),
        _ => return Err(wrong_types("<<")),
    })
}

fn shift_right(a: &Datum, b: &Datum) -> Result<Datum> {
    let Datum::Int4(distance) = b else { return Err(wrong_types(">>")) };
    Ok(match a {
        Datum::Int2(v) => {
            let wide = i32::from(*v).wrapping_shr(distance.cast_unsigned());
            #[expect(clippy::cast_possible_truncation, reason = "a right shift only shrinks")]
            Datum::Int2(wide as i16)
        }
        Datum::Int4(v) => Datum::Int4(v.wrapping_shr(distance.cast_unsigned())),
        Datum::Int8(v) => Datum::Int8(v.wrapping_shr(distance.cast_unsigned())),
        _ => return Err(wrong_types(">>")),
    })
}

/// Compares two values whose variants determine their types; strings compare byte by byte.
#[inline]
fn order(a: &Datum, b: &Datum) -> Ordering {
    match (a, b) {
        (Datum::Int4(x), Datum::Int4(y)) => x.cmp(y),
        (Datum::Int8(x), Datum::Int8(y)) => x.cmp(y),
        (Datum::Text(x), Datum::Text(y)) => x.as_bytes().cmp(y.as_bytes()),
        (Datum::Oid(x), Datum::Int4(y)) => i64::from(*x).cmp(&i64::from(*y)),
        (Datum::Int4(x), Datum::Oid(y)) => i64::from(*x).cmp(&i64::from(*y)),
        _ => {
            if let Some((x, y, _)) = integers(a, b) {
                return x.cmp(&y);
            }
            if let Some((x, y)) = floats(a, b) {
                return compare(TypeOid::FLOAT8, &Datum::Float8(x), &Datum::Float8(y));
            }
            compare(type_of(a), a, b)
        }
    }
}

/// Returns a type whose values have this variant; enough to compare two values of one variant.
fn type_of(value: &Datum) -> TypeOid {
    if value.is_null() { TypeOid::UNKNOWN } else { shown_type(value) }
}

/// Compares two `char(n)` values; trailing blanks do not count.
fn blank_order(a: &Datum, b: &Datum) -> Ordering {
    compare(TypeOid::BPCHAR, a, b)
}

/// Compares two arrays, which know the type of their elements.
fn array_order(a: &Datum, b: &Datum) -> Ordering {
    compare(TypeOid::TEXT_ARRAY, a, b)
}

macro_rules! comparisons {
    ($($module:ident $order:ident;)*) => {$(
        mod $module {
            use niwaki_types::Datum;
            use niwaki_parse::error::Result;
            pub(crate) fn eq(a: &Datum, b: &Datum) -> Result<Datum> {
                Ok(Datum::Bool(super::$order(a, b).is_eq()))
            }
            pub(crate) fn ne(a: &Datum, b: &Datum) -> Result<Datum> {
                Ok(Datum::Bool(super::$order(a, b).is_ne()))
            }
            pub(crate) fn lt(a: &Datum, b: &Datum) -> Result<Datum> {
                Ok(Datum::Bool(super::$order(a, b).is_lt()))
            }
            pub(crate) fn le(a: &Datum, b: &Datum) -> Result<Datum> {
                Ok(Datum::Bool(super::$order(a, b).is_le()))
            }
            pub(crate) fn gt(a: &Datum, b: &Datum) -> Result<Datum> {
                Ok(Datum::Bool(super::$order(a, b).is_gt()))
            }
            pub(crate) fn ge(a: &Datum, b: &Datum) -> Result<Datum> {
                Ok(Datum::Bool(super::$order(a, b).is_ge()))
            }
        }
    )*};
}

comparisons! {
    plain order;
    blank blank_order;
    array array_order;
}

/// Comparisons of rows, field by field. They fail where the deciding fields have different types.
mod record {
    use std::cmp::Ordering;

    use niwaki_types::Datum;

    use niwaki_parse::error::Result;

    fn order(a: &Datum, b: &Datum, equality: bool) -> Result<Ordering> {
        match (a, b) {
            (Datum::Record(_, a), Datum::Record(_, b)) => Ok(a.try_compare(b, equality)?),
            _ => Err(crate::functions::wrong_types("record")),
        }
    }
    pub(crate) fn eq(a: &Datum, b: &Datum) -> Result<Datum> {
        Ok(Datum::Bool(order(a, b, true)?.is_eq()))
    }
    pub(crate) fn ne(a: &Datum, b: &Datum) -> Result<Datum> {
        Ok(Datum::Bool(order(a, b, true)?.is_ne()))
    }
    pub(crate) fn lt(a: &Datum, b: &Datum) -> Result<Datum> {
        Ok(Datum::Bool(order(a, b, false)?.is_lt()))
    }
    pub(crate) fn le(a: &Datum, b: &Datum) -> Result<Datum> {
        Ok(Datum::Bool(order(a, b, false)?.is_le()))
    }
    pub(crate) fn gt(a: &Datum, b: &Datum) -> Result<Datum> {
        Ok(Datum::Bool(order(a, b, false)?.is_gt()))
    }
    pub(crate) fn ge(a: &Datum, b: &Datum) -> Result<Datum> {
        Ok(Datum::Bool(order(a, b, false)?.is_ge()))
    }
}

/// Comparisons of rows by the images of their fields.
mod image {
    use std::cmp::Ordering;

    use niwaki_types::Datum;

    use niwaki_parse::error::Result;

    fn order(a: &Datum, b: &Datum) -> Result<Ordering> {
        match (a, b) {
            (Datum::Record(_, a), Datum::Record(_, b)) => Ok(a.compare_images(b)?),
            _ => Err(crate::functions::wrong_types("record")),
        }
    }
    pub(crate) fn eq(a: &Datum, b: &Datum) -> Result<Datum> {
        Ok(Datum::Bool(order(a, b)?.is_eq()))
    }
    pub(crate) fn ne(a: &Datum, b: &Datum) -> Result<Datum> {
        Ok(Datum::Bool(order(a, b)?.is_ne()))
    }
    pub(crate) fn lt(a: &Datum, b: &Datum) -> Result<Datum> {
        Ok(Datum::Bool(order(a, b)?.is_lt()))
    }
    pub(crate) fn le(a: &Datum, b: &Datum) -> Result<Datum> {
        Ok(Datum::Bool(order(a, b)?.is_le()))
    }
    pub(crate) fn gt(a: &Datum, b: &Datum) -> Result<Datum> {
        Ok(Datum::Bool(order(a, b)?.is_gt()))
    }
    pub(crate) fn ge(a: &Datum, b: &Datum) -> Result<Datum> {
        Ok(Datum::Bool(order(a, b)?.is_ge()))
    }
}

fn concat_text(a: &Datum, b: &Datum) -> Result<Datum> {
    match (a, b) {
        (Datum::Text(x), Datum::Text(y)) => {
            charge_whole(x.len() + y.len())?;
            let mut text = String::with_capacity(x.len() + y.len());
            text.push_str(x);
            text.push_str(y);
            Ok(Datum::Text(text.into()))
        }
        (Datum::Bytea(x), Datum::Bytea(y)) => {
            charge_whole(x.len() + y.len())?;
            Ok(Datum::Bytea([&x[..], &y[..]].concat().into()))
        }
        _ => Err(wrong_types("||")),
    }
}

pub(crate) fn not_like(a: &Datum, b: &Datum) -> Result<Datum> {
    like(a, b).map(invert)
}
pub(crate) fn not_like_bytes(a: &Datum, b: &Datum) -> Result<Datum> {
    like_bytes(a, b).map(invert)
}

pub(crate) fn invert(value: Datum) -> Datum {
    match value {
        Datum::Bool(value) => Datum::Bool(!value),
        other => other,
    }
}

/// The six comparisons of each pair of types.
macro_rules! operator_table {
    (
        compare { $(($left:ident, $right:ident) $module:ident)* }
        other { $($other:tt)* }
    ) => {
        functions! {
            $(
                "=" ($left, $right) BOOL strict single immutable Binary($module::eq);
                "<>" ($left, $right) BOOL strict single immutable Binary($module::ne);
                "<" ($left, $right) BOOL strict single immutable Binary($module::lt);
                "<=" ($left, $right) BOOL strict single immutable Binary($module::le);
                ">" ($left, $right) BOOL strict single immutable Binary($module::gt);
                ">=" ($left, $right) BOOL strict single immutable Binary($module::ge);
            )*
            $($other)*
        }
    };
}

pub(crate) const OPERATORS: &[Function] = operator_table! {
    compare {
        (BOOL, BOOL) plain
        (INT2, INT2) plain (INT2, INT4) plain (INT2, INT8) plain
        (INT4, INT2) plain (INT4, INT4) plain (INT4, INT8) plain
        (INT8, INT2) plain (INT8, INT4) plain (INT8, INT8) plain
        (FLOAT4, FLOAT4) plain (FLOAT4, FLOAT8) plain (FLOAT8, FLOAT4) plain (FLOAT8, FLOAT8) plain
        (NUMERIC, NUMERIC) plain
        (TEXT, TEXT) plain (NAME, NAME) plain (NAME, TEXT) plain (TEXT, NAME) plain
        (BPCHAR, BPCHAR) blank (CHAR, CHAR) plain
        (BYTEA, BYTEA) plain
        (DATE, DATE) plain (TIMESTAMP, TIMESTAMP) plain (TIMESTAMPTZ, TIMESTAMPTZ) plain
        (INTERVAL, INTERVAL) plain (TIME, TIME) plain (TIMETZ, TIMETZ) plain
        (UUID, UUID) plain
        (OID, OID) plain (TID, TID) plain (LSN, LSN) plain
        (JSONB, JSONB) plain
        (ARRAY, ARRAY) array
        (ENUM, ENUM) plain
        (RECORD, RECORD) record
    }
    other {
        "*=" (RECORD, RECORD) BOOL strict single immutable Binary(image::eq);
        "*<>" (RECORD, RECORD) BOOL strict single immutable Binary(image::ne);
        "*<" (RECORD, RECORD) BOOL strict single immutable Binary(image::lt);
        "*<=" (RECORD, RECORD) BOOL strict single immutable Binary(image::le);
        "*>" (RECORD, RECORD) BOOL strict single immutable Binary(image::gt);
        "*>=" (RECORD, RECORD) BOOL strict single immutable Binary(image::ge);
        "=" (ACL_ITEM, ACL_ITEM) BOOL strict single immutable Binary(plain::eq);
        "=" (XID, XID) BOOL strict single immutable Binary(plain::eq);
        "<>" (XID, XID) BOOL strict single immutable Binary(plain::ne);
        "=" (XID, INT4) BOOL strict single immutable Binary(plain::eq);
        "<>" (XID, INT4) BOOL strict single immutable Binary(plain::ne);
        "+" (INT2, INT2) INT2 strict single immutable Binary(add);
        "+" (INT2, INT4) INT4 strict single immutable Binary(add);
        "+" (INT2, INT8) INT8 strict single immutable Binary(add);
        "+" (INT4, INT2) INT4 strict single immutable Binary(add);
        "+" (INT4, INT4) INT4 strict single immutable Binary(add);
        "+" (INT4, INT8) INT8 strict single immutable Binary(add);
        "+" (INT8, INT2) INT8 strict single immutable Binary(add);
        "+" (INT8, INT4) INT8 strict single immutable Binary(add);
        "+" (INT8, INT8) INT8 strict single immutable Binary(add);
        "+" (FLOAT4, FLOAT4) FLOAT4 strict single immutable Binary(add);
        "+" (FLOAT4, FLOAT8) FLOAT8 strict single immutable Binary(add);
        "+" (FLOAT8, FLOAT4) FLOAT8 strict single immutable Binary(add);
        "+" (FLOAT8, FLOAT8) FLOAT8 strict single immutable Binary(add);
        "+" (NUMERIC, NUMERIC) NUMERIC strict single immutable Binary(add);
        "+" (LSN, NUMERIC) LSN strict single immutable Binary(add);
        "+" (NUMERIC, LSN) LSN strict single immutable Binary(add);
        "-" (INT2, INT2) INT2 strict single immutable Binary(subtract);
        "-" (INT2, INT4) INT4 strict single immutable Binary(subtract);
        "-" (INT2, INT8) INT8 strict single immutable Binary(subtract);
        "-" (INT4, INT2) INT4 strict single immutable Binary(subtract);
        "-" (INT4, INT4) INT4 strict single immutable Binary(subtract);
        "-" (INT4, INT8) INT8 strict single immutable Binary(subtract);
        "-" (INT8, INT2) INT8 strict single immutable Binary(subtract);
        "-" (INT8, INT4) INT8 strict single immutable Binary(subtract);
        "-" (INT8, INT8) INT8 strict single immutable Binary(subtract);
        "-" (FLOAT4, FLOAT4) FLOAT4 strict single immutable Binary(subtract);
        "-" (FLOAT4, FLOAT8) FLOAT8 strict single immutable Binary(subtract);
        "-" (FLOAT8, FLOAT4) FLOAT8 strict single immutable Binary(subtract);
        "-" (FLOAT8, FLOAT8) FLOAT8 strict single immutable Binary(subtract);
        "-" (NUMERIC, NUMERIC) NUMERIC strict single immutable Binary(subtract);
        "-" (LSN, LSN) NUMERIC strict single immutable Binary(subtract);
        "-" (LSN, NUMERIC) LSN strict single immutable Binary(subtract);
        "*" (INT2, INT2) INT2 strict single immutable Binary(multiply);
        "*" (INT2, INT4) INT4 strict single immutable Binary(multiply);
        "*" (INT2, INT8) INT8 strict single immutable Binary(multiply);
        "*" (INT4, INT2) INT4 strict single immutable Binary(multiply);
        "*" (INT4, INT4) INT4 strict single immutable Binary(multiply);
        "*" (INT4, INT8) INT8 strict single immutable Binary(multiply);
        "*" (INT8, INT2) INT8 strict single immutable Binary(multiply);
        "*" (INT8, INT4) INT8 strict single immutable Binary(multiply);
        "*" (INT8, INT8) INT8 strict single immutable Binary(multiply);
        "*" (FLOAT4, FLOAT4) FLOAT4 strict single immutable Binary(multiply);
        "*" (FLOAT4, FLOAT8) FLOAT8 strict single immutable Binary(multiply);
        "*" (FLOAT8, FLOAT4) FLOAT8 strict single immutable Binary(multiply);
        "*" (FLOAT8, FLOAT8) FLOAT8 strict single immutable Binary(multiply);
        "*" (NUMERIC, NUMERIC) NUMERIC strict single immutable Binary(multiply);
        "/" (INT2, INT2) INT2 strict single immutable Binary(divide);
        "/" (INT2, INT4) INT4 strict single immutable Binary(divide);
        "/" (INT2, INT8) INT8 strict single immutable Binary(divide);
        "/" (INT4, INT2) INT4 strict single immutable Binary(divide);
        "/" (INT4, INT4) INT4 strict single immutable Binary(divide);
        "/" (INT4, INT8) INT8 strict single immutable Binary(divide);
        "/" (INT8, INT2) INT8 strict single immutable Binary(divide);
        "/" (INT8, INT4) INT8 strict single immutable Binary(divide);
        "/" (INT8, INT8) INT8 strict single immutable Binary(divide);
        "/" (FLOAT4, FLOAT4) FLOAT4 strict single immutable Binary(divide);
        "/" (FLOAT4, FLOAT8) FLOAT8 strict single immutable Binary(divide);
        "/" (FLOAT8, FLOAT4) FLOAT8 strict single immutable Binary(divide);
        "/" (FLOAT8, FLOAT8) FLOAT8 strict single immutable Binary(divide);
        "/" (NUMERIC, NUMERIC) NUMERIC strict single immutable Binary(divide);
        "%" (INT2, INT2) INT2 strict single immutable Binary(modulo);
        "%" (INT4, INT4) INT4 strict single immutable Binary(modulo);
        "%" (INT8, INT8) INT8 strict single immutable Binary(modulo);
        "%" (NUMERIC, NUMERIC) NUMERIC strict single immutable Binary(modulo);
        "-" (INT2) INT2 strict single immutable Unary(negate);
        "-" (INT4) INT4 strict single immutable Unary(negate);
        "-" (INT8) INT8 strict single immutable Unary(negate);
        "-" (FLOAT4) FLOAT4 strict single immutable Unary(negate);
        "-" (FLOAT8) FLOAT8 strict single immutable Unary(negate);
        "-" (NUMERIC) NUMERIC strict single immutable Unary(negate);
        "+" (INT2) INT2 strict single immutable Unary(identity);
        "+" (INT4) INT4 strict single immutable Unary(identity);
        "+" (INT8) INT8 strict single immutable Unary(identity);
        "+" (FLOAT4) FLOAT4 strict single immutable Unary(identity);
        "+" (FLOAT8) FLOAT8 strict single immutable Unary(identity);
        "+" (NUMERIC) NUMERIC strict single immutable Unary(identity);
        "@" (INT2) INT2 strict single immutable Unary(absolute);
        "@" (INT4) INT4 strict single immutable Unary(absolute);
        "@" (INT8) INT8 strict single immutable Unary(absolute);
        "@" (FLOAT4) FLOAT4 strict single immutable Unary(absolute);
        "@" (FLOAT8) FLOAT8 strict single immutable Unary(absolute);
        "@" (NUMERIC) NUMERIC strict single immutable Unary(absolute);
        "^" (FLOAT8, FLOAT8) FLOAT8 strict single immutable Binary(crate::functions::number::math::power);
        "^" (NUMERIC, NUMERIC) NUMERIC strict single immutable Binary(crate::functions::number::math::power);
        "|/" (FLOAT8) FLOAT8 strict single immutable Unary(crate::functions::number::math::square_root);
        "||/" (FLOAT8) FLOAT8 strict single immutable Unary(crate::functions::number::math::cube_root);
        "&" (INT2, INT2) INT2 strict single immutable Binary(bit_and);
        "&" (INT4, INT4) INT4 strict single immutable Binary(bit_and);
        "&" (INT8, INT8) INT8 strict single immutable Binary(bit_and);
        "|" (INT2, INT2) INT2 strict single immutable Binary(bit_or);
        "|" (INT4, INT4) INT4 strict single immutable Binary(bit_or);
        "|" (INT8, INT8) INT8 strict single immutable Binary(bit_or);
        "#" (INT2, INT2) INT2 strict single immutable Binary(bit_xor);
        "#" (INT4, INT4) INT4 strict single immutable Binary(bit_xor);
        "#" (INT8, INT8) INT8 strict single immutable Binary(bit_xor);
        "~" (INT2) INT2 strict single immutable Unary(bit_not);
        "~" (INT4) INT4 strict single immutable Unary(bit_not);
        "~" (INT8) INT8 strict single immutable Unary(bit_not);
        "<<" (INT2, INT4) INT2 strict single immutable Binary(shift_left);
        "<<" (INT4, INT4) INT4 strict single immutable Binary(shift_left);
        "<<" (INT8, INT4) INT8 strict single immutable Binary(shift_left);
        ">>" (INT2, INT4) INT2 strict single immutable Binary(shift_right);
        ">>" (INT4, INT4) INT4 strict single immutable Binary(shift_right);
        ">>" (INT8, INT4) INT8 strict single immutable Binary(shift_right);
        "||" (TEXT, TEXT) TEXT strict single immutable Binary(concat_text);
        "||" (BYTEA, BYTEA) BYTEA strict single immutable Binary(concat_text);
        "||" (TEXT, NONARRAY) TEXT strict single stable Binary(concat_text);
        "||" (NONARRAY, TEXT) TEXT strict single stable Binary(concat_text);
        "~~" (TEXT, TEXT) BOOL strict single immutable Binary(like);
        "~~" (NAME, TEXT) BOOL strict single immutable Binary(like);
        "~~" (BPCHAR, TEXT) BOOL strict single immutable Binary(like);
        "!~~" (TEXT, TEXT) BOOL strict single immutable Binary(not_like);
        "!~~" (NAME, TEXT) BOOL strict single immutable Binary(not_like);
        "!~~" (BPCHAR, TEXT) BOOL strict single immutable Binary(not_like);
        "~~" (BYTEA, BYTEA) BOOL strict single immutable Binary(like_bytes);
        "!~~" (BYTEA, BYTEA) BOOL strict single immutable Binary(not_like_bytes);
        "^@" (TEXT, TEXT) BOOL strict single immutable Binary(crate::functions::text::strings::starts_with);
        "~<~" (TEXT, TEXT) BOOL strict single immutable Binary(plain::lt);
        "~<=~" (TEXT, TEXT) BOOL strict single immutable Binary(plain::le);
        "~>=~" (TEXT, TEXT) BOOL strict single immutable Binary(plain::ge);
        "~>~" (TEXT, TEXT) BOOL strict single immutable Binary(plain::gt);
        "~<~" (BPCHAR, BPCHAR) BOOL strict single immutable Binary(blank::lt);
        "~<=~" (BPCHAR, BPCHAR) BOOL strict single immutable Binary(blank::le);
        "~>=~" (BPCHAR, BPCHAR) BOOL strict single immutable Binary(blank::ge);
        "~>~" (BPCHAR, BPCHAR) BOOL strict single immutable Binary(blank::gt);
    }
};
