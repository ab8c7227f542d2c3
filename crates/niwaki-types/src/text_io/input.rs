//! Text to value, per type.

use std::borrow::Cow;
use std::sync::Arc;

use super::array_text::parse_array;
use super::record_text::parse_record;
use crate::datetime;
use crate::error::{Result, TypeError};
use crate::json::json_tree::Jsonb;
use crate::json::path::JsonPath;
use crate::json::raw::json_shape;
use crate::numeric::Numeric;
use crate::scalar::bytes::parse_bytea;
use crate::scalar::float::{parse_float4, parse_float8};
use crate::scalar::integer::{parse_int2, parse_int4, parse_int8, parse_u32, parse_xid};
use crate::scalar::quoted_char;
use crate::scalar::space::is_space;
use crate::scalar::uuid::parse_uuid;
use crate::settings::InputContext;
use crate::types::column::ColumnType;
use crate::types::oid::TypeOid;
use crate::value::datum::Datum;

/// Longest `name`, in bytes.
pub(crate) const NAME_BYTES_MAX: usize = 63;

/// Reads a value of type `kind` from `text`, as PostgreSQL's input function for the type does. A
/// typmod is applied as an assignment applies it (a text that is too long is an error).
///
/// # Errors
/// PostgreSQL's. `22P02` for bad syntax, `22003` out of range, `22001` too long, `22007` and
/// `22008` for dates and times. `22021` for a zero byte, `22P05` and `54001` for JSON, `0A000` for
/// a type that cannot be read.
pub fn input(kind: ColumnType, text: &str, context: &InputContext<'_>) -> Result<Datum> {
    Ok(match kind.oid {
        TypeOid::INT4 => Datum::Int4(parse_int4(text)?),
        TypeOid::INT8 => Datum::Int8(parse_int8(text)?),
        TypeOid::INT2 => Datum::Int2(parse_int2(text)?),
        TypeOid::TEXT | TypeOid::UNKNOWN => Datum::Text(Arc::from(check_text(text)?)),
        TypeOid::VARCHAR | TypeOid::BPCHAR => {
            Datum::Text(Arc::from(fit_length(kind, check_text(text)?, false)?))
        }
        TypeOid::BOOL => Datum::Bool(parse_bool(text)?),
        TypeOid::FLOAT8 => Datum::Float8(parse_float8(text)?),
        TypeOid::FLOAT4 => Datum::Float4(parse_float4(text)?),
        TypeOid::NUMERIC => {
            let value = Numeric::parse(text)?;
            Datum::Numeric(Arc::new(if kind.typmod >= 4 {
                value.apply_typmod(kind.typmod)?
            } else {
                value
            }))
        }
        TypeOid::JSON => {
            let text = check_text(text)?;
            json_shape(text)?;
            Datum::Text(Arc::from(text))
        }
        TypeOid::JSONPATH => Datum::text(&JsonPath::parse(check_text(text)?)?.to_string()),
        TypeOid::JSONB => Datum::Jsonb(Jsonb::parse(check_text(text)?)?),
        TypeOid::BYTEA => Datum::Bytea(parse_bytea(text)?.into()),
        TypeOid::NAME => Datum::Text(Arc::from(truncated_name(check_text(text)?))),
        TypeOid::CHAR => Datum::Text(quoted_char::parse(check_text(text)?).into()),
        // `-` stands for the number 0, which names no object.
        object if object.is_object_name() && text == "-" => Datum::Oid(0),
        TypeOid::XID => Datum::Oid(parse_xid(text)),
        number if number.is_number_of_object() => Datum::Oid(parse_u32(text, "oid")?),
        TypeOid::TID => parse_tid(text)?,
        TypeOid::PG_LSN => Datum::Lsn(parse_lsn(text)?),
        TypeOid::DATE => Datum::Date(datetime::parse_date(text, context)?),
        TypeOid::TIMESTAMP => Datum::Timestamp(datetime::round_to_precision(
            datetime::parse_timestamp(text, context)?,
            kind.typmod,
        )?),
        TypeOid::TIMESTAMPTZ => Datum::TimestampTz(datetime::round_to_precision(
            datetime::parse_timestamptz(text, context)?,
            kind.typmod,
        )?),
        TypeOid::INTERVAL => Datum::Interval(Arc::new(
            datetime::parse_interval(text, kind.typmod, context.settings.interval_style)?
                .apply_typmod(kind.typmod)?,
        )),
        TypeOid::TIME => {
            let time = datetime::parse_time(text, context)?;
            Datum::Time(datetime::round_time(time, kind.typmod))
        }
        TypeOid::TIMETZ => {
            let value = datetime::parse_timetz(text, context)?;
            Datum::TimeTz(value.round(kind.typmod))
        }
        TypeOid::UUID => Datum::Uuid(parse_uuid(text)?),
        TypeOid::VOID => Datum::Text(Arc::from("")),
        TypeOid::INT2VECTOR | TypeOid::OIDVECTOR => {
            let element =
                if kind.oid == TypeOid::INT2VECTOR { TypeOid::INT2 } else { TypeOid::OID };
            let values = text
                .split_ascii_whitespace()
                .map(|value| input(ColumnType::new(element), value, context));
            Datum::vector(element, values.collect::<Result<Vec<Datum>>>()?)
        }
        oid if oid.is_enum() => Datum::Enum(oid, context.settings.types.read_label(oid, text)?),
        record if record.is_record() => parse_record(record, text, context)?,
        array => match array.element() {
            Some(element) => {
                parse_array(ColumnType::with_typmod(element, kind.typmod), text, context)?
            }
            None => {
                return Err(TypeError::unsupported(format!(
                    "reading a value of the type with OID {} is not supported yet",
                    array.0
                )));
            }
        },
    })
}

/// Returns the text if it may be stored: without zero bytes.
///
/// # Errors
/// `22021`
pub(crate) fn check_text(text: &str) -> Result<&str> {
    if text.as_bytes().contains(&0) {
        return Err(TypeError::new("22021", "invalid byte sequence for encoding \"UTF8\": 0x00"));
    }
    Ok(text)
}

/// Returns `text` as `varchar(n)` or `char(n)` keep it. Characters beyond `n` are cut off if all of
/// them are
/// blanks or the cast is explicit. `char(n)` is padded with blanks.
///
/// # Errors
/// `22001` when other characters would be lost.
pub(crate) fn fit_length(kind: ColumnType, text: &str, explicit: bool) -> Result<Cow<'_, str>> {
    let Some(limit) = kind.length_limit() else { return Ok(Cow::Borrowed(text)) };
    let padded = kind.oid == TypeOid::BPCHAR;
    // A text has no more characters than bytes, so short ones need no counting.
    if text.len() <= limit && !padded {
        return Ok(Cow::Borrowed(text));
    }
    match text.char_indices().nth(limit) {
        Some((cut, _)) => {
            let (kept, lost) = text.split_at(cut);
            if !explicit && lost.bytes().any(|byte| byte != b' ') {
                let name = if padded { "character" } else { "character varying" };
                return Err(TypeError::new(
                    "22001",
                    format!("value too long for type {name}({limit})"),
                ));
            }
            Ok(Cow::Borrowed(kept))
        }
        None if padded => {
            let characters = text.chars().count();
            if characters == limit {
                return Ok(Cow::Borrowed(text));
            }
            let mut filled = String::with_capacity(text.len() + (limit - characters));
            filled.push_str(text);
            filled.extend(std::iter::repeat_n(' ', limit - characters));
            Ok(Cow::Owned(filled))
        }
        None => Ok(Cow::Borrowed(text)),
    }
}

/// Returns `text` cut to the bytes of a `name`, at a character's boundary.
pub(crate) fn truncated_name(text: &str) -> &str {
    let mut end = text.len().min(NAME_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Reads a boolean: any beginning of a word for true or false, in either case, or a digit.
///
/// # Errors
/// 22P02 for anything else.
pub fn parse_bool(text: &str) -> Result<bool> {
    let trimmed = text.trim_matches(is_space);
    // Any beginning of a word is accepted, except that `o` could be either of two.
    let begins = |word: &str, least: usize| {
        trimmed.len() >= least
            && word.get(..trimmed.len()).is_some_and(|start| start.eq_ignore_ascii_case(trimmed))
    };
    if begins("true", 1) || begins("yes", 1) || begins("on", 2) || trimmed == "1" {
        Ok(true)
    } else if begins("false", 1) || begins("no", 1) || begins("off", 2) || trimmed == "0" {
        Ok(false)
    } else {
        Err(TypeError::invalid_text("boolean", text))
    }
}

fn parse_tid(text: &str) -> Result<Datum> {
    let parse = || {
        let (block, offset) =
            text.trim_matches(is_space).strip_prefix('(')?.strip_suffix(')')?.split_once(',')?;
        let block = block.trim_start_matches(is_space);
        // As PostgreSQL reads them, a negative block number stands for its two's complement.
        let block = block
            .parse::<u32>()
            .or_else(|_| block.parse::<i32>().map(|block| block as u32))
            .ok()?;
        Some(Datum::Tid(block, offset.trim_start_matches(is_space).parse().ok()?))
    };
    parse().ok_or_else(|| TypeError::invalid_text("tid", text))
}

fn parse_lsn(text: &str) -> Result<u64> {
    let parse = || {
        let (high, low) = text.split_once('/')?;
        let part = |part: &str| {
            let digits =
                (1..=8).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_hexdigit());
            digits.then(|| u64::from_str_radix(part, 16).ok()).flatten()
        };
        Some(part(high)? << 32 | part(low)?)
    };
    parse().ok_or_else(|| TypeError::invalid_text("pg_lsn", text))
}
