//! Conversions between types.
//!
//! The analyzer decides whether a cast is allowed in its context.

use std::sync::Arc;

use super::checked_arithmetic::{float_overflow, float_underflow};
use super::jsonb_cast::jsonb_to_scalar;
use crate::datetime;
use crate::error::{Result, TypeError};
use crate::numeric::Numeric;
use crate::scalar::quoted_char;
use crate::settings::InputContext;
use crate::text_io::input::{check_text, fit_length, input, truncated_name};
use crate::text_io::output::to_text;
use crate::types::column::ColumnType;
use crate::types::oid::TypeOid;
use crate::value::compare::bpchar_trimmed;
use crate::value::datum::Datum;

/// Converts `value` of type `from` to type `to`, its typmod included. NULL stays NULL.
///
/// `explicit` says that the cast was written out. Then a text that is too long for `varchar(n)` or
/// `char(n)` is cut, where an assignment gives an error.
///
/// # Errors
/// `22003` out of range, `22001` too long, `22P02` and others for text that is no value of the
/// type. `42846` for a pair of types without a conversion.
pub fn cast(
    value: &Datum,
    from: TypeOid,
    to: ColumnType,
    explicit: bool,
    context: &InputContext<'_>,
) -> Result<Datum> {
    if value.is_null() {
        return Ok(Datum::Null);
    }
    if from == to.oid && to.typmod < 0 {
        return Ok(value.clone());
    }
    convert(value, from, to, explicit, context)
}

#[cold]
fn no_cast(from: TypeOid, to: TypeOid) -> TypeError {
    TypeError::new(
        "42846",
        format!("cannot cast type {} to {}", from.display_name(), to.display_name()),
    )
}

#[expect(clippy::too_many_lines, reason = "one flat match over types")]
fn convert(
    value: &Datum,
    from: TypeOid,
    to: ColumnType,
    explicit: bool,
    context: &InputContext<'_>,
) -> Result<Datum> {
    if matches!(to.oid, TypeOid::JSON | TypeOid::JSONPATH) {
        return match value {
            Datum::Text(text) => input(to, text, context),
            Datum::Jsonb(value) => Ok(Datum::text(&value.to_string())),
            _ => Err(no_cast(from, to.oid)),
        };
    }
    if to.oid.is_text() {
        return to_text_type(value, from, to, explicit, context);
    }
    if let Datum::Text(text) = value {
        return match (from, to.oid) {
            // The result is the code of the one character, not a number that it may look like.
            (TypeOid::CHAR, TypeOid::INT4) => {
                Ok(Datum::Int4(quoted_char::byte(text).cast_signed().into()))
            }
            (TypeOid::CHAR, _) => Err(no_cast(from, to.oid)),
            _ => input(to, text, context),
        };
    }
    if let Datum::Jsonb(json) = value
        && to.oid != TypeOid::JSONB
    {
        let scalar = jsonb_to_scalar(json, to.oid)?;
        // A number may have to fit a precision.
        return cast(&scalar, to.oid, to, explicit, context);
    }
    let none = || no_cast(from, to.oid);
    let settings = context.settings;
    match to.oid {
        TypeOid::BOOL => match value {
            Datum::Bool(value) => Ok(Datum::Bool(*value)),
            Datum::Int4(value) => Ok(Datum::Bool(*value != 0)),
            _ => Err(none()),
        },
        TypeOid::INT2 => to_int2(value).unwrap_or_else(|| Err(none())).map(Datum::Int2),
        TypeOid::INT4 => to_int4(value).unwrap_or_else(|| Err(none())).map(Datum::Int4),
        TypeOid::INT8 => to_int8(value).unwrap_or_else(|| Err(none())).map(Datum::Int8),
        TypeOid::FLOAT4 => to_float4(value).unwrap_or_else(|| Err(none())).map(Datum::Float4),
        TypeOid::FLOAT8 => to_float8(value).unwrap_or_else(|| Err(none())).map(Datum::Float8),
        TypeOid::NUMERIC => {
            let number = to_numeric(value).ok_or_else(none)?;
            if to.typmod < 4 {
                return Ok(Datum::Numeric(number));
            }
            Ok(Datum::Numeric(Arc::new(number.apply_typmod(to.typmod)?)))
        }
        number if number.is_number_of_object() => match value {
            Datum::Oid(value) => Ok(Datum::Oid(*value)),
            // The four bytes of an int4 are taken as they are.
            Datum::Int4(value) => Ok(Datum::Oid(*value as u32)),
            Datum::Int2(value) => Ok(Datum::Oid(i32::from(*value) as u32)),
            Datum::Int8(value) => u32::try_from(*value)
                .map(Datum::Oid)
                .map_err(|_| TypeError::new("22003", "OID out of range")),
            _ => Err(none()),
        },
        TypeOid::DATE => match value {
            Datum::Date(value) => Ok(*value),
            Datum::Timestamp(value) => datetime::timestamp_to_date(*value),
            Datum::TimestampTz(value) => datetime::timestamptz_to_date(*value, &settings.zone),
            _ => Err(none()),
        }
        .map(Datum::Date),
        TypeOid::TIMESTAMP => match value {
            Datum::Timestamp(value) => Ok(*value),
            Datum::Date(value) => datetime::date_to_timestamp(*value),
            Datum::TimestampTz(value) => datetime::timestamptz_to_timestamp(*value, &settings.zone),
            _ => Err(none()),
        }
        .and_then(|value| datetime::round_to_precision(value, to.typmod))
        .map(Datum::Timestamp),
        TypeOid::TIMESTAMPTZ => match value {
            Datum::TimestampTz(value) => Ok(*value),
            Datum::Date(value) => datetime::date_to_timestamptz(*value, &settings.zone),
            Datum::Timestamp(value) => datetime::timestamp_to_timestamptz(*value, &settings.zone),
            _ => Err(none()),
        }
        .and_then(|value| datetime::round_to_precision(value, to.typmod))
        .map(Datum::TimestampTz),
        TypeOid::INTERVAL => match value {
            Datum::Interval(value) => Ok(Datum::Interval(Arc::new(value.apply_typmod(to.typmod)?))),
            Datum::Time(value) => {
                let value = datetime::time_to_interval(*value).apply_typmod(to.typmod)?;
                Ok(Datum::Interval(Arc::new(value)))
            }
            _ => Err(none()),
        },
        TypeOid::TIME => {
            let time = match value {
                Datum::Time(value) => Some(*value),
                Datum::TimeTz(value) => Some(value.time),
                Datum::Interval(value) => Some(datetime::interval_to_time(value)),
                Datum::Timestamp(value) => datetime::timestamp_to_time(*value),
                Datum::TimestampTz(value) => datetime::timestamptz_to_time(*value, &settings.zone)?,
                _ => return Err(none()),
            };
            // An infinite moment has no time of day.
            Ok(time.map_or(Datum::Null, |time| Datum::Time(datetime::round_time(time, to.typmod))))
        }
        TypeOid::TIMETZ => {
            let time = match value {
                Datum::TimeTz(value) => Some(*value),
                Datum::Time(value) => {
                    Some(datetime::time_to_timetz(*value, &settings.zone, context.now)?)
                }
                Datum::TimestampTz(value) => {
                    datetime::timestamptz_to_timetz(*value, &settings.zone)?
                }
                _ => return Err(none()),
            };
            Ok(time.map_or(Datum::Null, |time| Datum::TimeTz(time.round(to.typmod))))
        }
        TypeOid::PG_LSN => match value {
            Datum::Lsn(value) => Ok(Datum::Lsn(*value)),
            _ => Err(none()),
        },
        other => {
            if let (Some(element), Datum::Array(from_element, array)) = (other.element(), value) {
                let to = ColumnType::with_typmod(element, to.typmod);
                let values = array
                    .iter()
                    .map(|value| cast(value, *from_element, to, explicit, context))
                    .collect::<Result<Vec<_>>>()?;
                return Ok(Datum::Array(element, Arc::new(array.with_values(values))));
            }
            if from == other { Ok(value.clone()) } else { Err(none()) }
        }
    }
}

fn to_text_type(
    value: &Datum,
    from: TypeOid,
    to: ColumnType,
    explicit: bool,
    context: &InputContext<'_>,
) -> Result<Datum> {
    let shown;
    let text: &str = match value {
        // The padding of char(n) has no meaning in any other type.
        Datum::Text(text) if from == TypeOid::BPCHAR && to.oid != TypeOid::BPCHAR => {
            bpchar_trimmed(text)
        }
        Datum::Text(text) if from == TypeOid::CHAR && to.oid != TypeOid::CHAR => {
            shown = quoted_char::shown(text);
            &shown
        }
        Datum::Text(text) => text,
        Datum::Int4(code) if to.oid == TypeOid::CHAR => {
            let byte = i8::try_from(*code).map_err(|_| TypeError::out_of_range("\"char\""))?;
            return Ok(Datum::Text(quoted_char::of_byte(byte.cast_unsigned()).into()));
        }
        _ if to.oid == TypeOid::CHAR => return Err(no_cast(from, to.oid)),
        // A cast shows the word, the output function a letter.
        Datum::Bool(true) if to.oid != TypeOid::NAME => "true",
        Datum::Bool(false) if to.oid != TypeOid::NAME => "false",
        other => {
            shown = to_text(other, from, context.settings).into();
            &shown
        }
    };
    Ok(match to.oid {
        TypeOid::NAME => Datum::Text(Arc::from(truncated_name(text))),
        TypeOid::CHAR => return input(to, text, context),
        _ => match (value, fit_length(to, text, explicit)?) {
            // Nothing was cut or added: the text is shared.
            (Datum::Text(shared), fitted) if shared.len() == fitted.len() => {
                Datum::Text(Arc::clone(shared))
            }
            (_, fitted) => Datum::Text(Arc::from(check_text(&fitted)?)),
        },
    })
}

fn to_int2(value: &Datum) -> Option<Result<i16>> {
    let name = "smallint";
    let narrow = |value: i64| i16::try_from(value).map_err(|_| TypeError::out_of_range(name));
    Some(match value {
        Datum::Int2(value) => Ok(*value),
        Datum::Int4(value) => narrow((*value).into()),
        Datum::Int8(value) => narrow(*value),
        Datum::Float4(value) => float_to_integer((*value).into(), 15, name).and_then(narrow),
        Datum::Float8(value) => float_to_integer(*value, 15, name).and_then(narrow),
        Datum::Numeric(value) => value.to_i16(),
        _ => return None,
    })
}

fn to_int4(value: &Datum) -> Option<Result<i32>> {
    let name = "integer";
    let narrow = |value: i64| i32::try_from(value).map_err(|_| TypeError::out_of_range(name));
    Some(match value {
        Datum::Int4(value) => Ok(*value),
        Datum::Int2(value) => Ok((*value).into()),
        Datum::Int8(value) => narrow(*value),
        Datum::Float4(value) => float_to_integer((*value).into(), 31, name).and_then(narrow),
        Datum::Float8(value) => float_to_integer(*value, 31, name).and_then(narrow),
        Datum::Numeric(value) => value.to_i32(),
        Datum::Bool(value) => Ok((*value).into()),
        Datum::Oid(value) => Ok(*value as i32),
        _ => return None,
    })
}

fn to_int8(value: &Datum) -> Option<Result<i64>> {
    let name = "bigint";
    Some(match value {
        Datum::Int8(value) => Ok(*value),
        Datum::Int4(value) => Ok((*value).into()),
        Datum::Int2(value) => Ok((*value).into()),
        Datum::Float4(value) => float_to_integer((*value).into(), 63, name),
        Datum::Float8(value) => float_to_integer(*value, 63, name),
        Datum::Numeric(value) => value.to_i64(),
        Datum::Oid(value) => Ok((*value).into()),
        _ => return None,
    })
}

/// Rounds half to even, as PostgreSQL rounds floats (and only floats), to an integer of `bits` and
/// a sign.
fn float_to_integer(value: f64, bits: i32, name: &str) -> Result<i64> {
    let rounded = value.round_ties_even();
    let limit = f64::powi(2.0, bits);
    if rounded.is_nan() || rounded < -limit || rounded >= limit {
        return Err(TypeError::out_of_range(name));
    }
    Ok(rounded as i64)
}

fn to_float4(value: &Datum) -> Option<Result<f32>> {
    Some(match value {
        Datum::Float4(value) => Ok(*value),
        Datum::Float8(value) => {
            let narrow = *value as f32;
            if narrow.is_infinite() && !value.is_infinite() {
                Err(float_overflow())
            } else if narrow == 0.0 && *value != 0.0 {
                Err(float_underflow())
            } else {
                Ok(narrow)
            }
        }
        Datum::Int2(value) => Ok((*value).into()),
        Datum::Int4(value) => Ok(*value as f32),
        Datum::Int8(value) => Ok(*value as f32),
        Datum::Numeric(value) => value.to_f32(),
        _ => return None,
    })
}

fn to_float8(value: &Datum) -> Option<Result<f64>> {
    Some(match value {
        Datum::Float8(value) => Ok(*value),
        Datum::Float4(value) => Ok((*value).into()),
        Datum::Int2(value) => Ok((*value).into()),
        Datum::Int4(value) => Ok((*value).into()),
        Datum::Int8(value) => Ok(*value as f64),
        Datum::Numeric(value) => value.to_f64(),
        _ => return None,
    })
}

fn to_numeric(value: &Datum) -> Option<Arc<Numeric>> {
    Some(Arc::new(match value {
        Datum::Numeric(value) => return Some(Arc::clone(value)),
        Datum::Int2(value) => Numeric::from(*value),
        Datum::Int4(value) => Numeric::from(*value),
        Datum::Int8(value) => Numeric::from(*value),
        Datum::Float4(value) => Numeric::from_f32(*value),
        Datum::Float8(value) => Numeric::from_f64(*value),
        _ => return None,
    }))
}
