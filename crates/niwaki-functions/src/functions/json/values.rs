//! Arguments and results of the functions of `json` and `jsonb`.

use std::sync::Arc;

use niwaki_parse::error::{Result, SqlError};
use niwaki_types::growing::{ask_to_grow, charge_more};
use niwaki_types::{Datum, Jsonb};

/// Returns the error for values whose types the analysis should have refused.
pub(super) fn wrong() -> SqlError {
    SqlError::internal("a JSON function was given values of other types")
}

/// Returns the text of a value.
pub(super) fn text(value: &Datum) -> Result<&str> {
    match value {
        Datum::Text(text) => Ok(text),
        _ => Err(wrong()),
    }
}

/// Returns the tree of a `jsonb` value.
pub(super) fn tree(value: &Datum) -> Result<&Arc<Jsonb>> {
    match value {
        Datum::Jsonb(value) => Ok(value),
        _ => Err(wrong()),
    }
}

/// Returns the texts of an array, NULLs as `None`.
pub(super) fn texts(value: &Datum) -> Result<Vec<Option<&str>>> {
    let Datum::Array(_, elements) = value else { return Err(wrong()) };
    let one = |element| match element {
        &Datum::Null => Ok(None),
        element => text(element).map(Some),
    };
    elements.iter().map(one).collect()
}

/// Returns the built text as a value. Texts with parts were charged part by part before.
pub(super) fn string(bytes: Vec<u8>) -> Result<Datum> {
    charge_more(bytes.len(), 0)?;
    // The value is a copy of the bytes.
    ask_to_grow(0, 0, bytes.len())?;
    let text = String::from_utf8(bytes).map_err(|_| wrong())?;
    Ok(Datum::Text(text.into()))
}

/// Returns the error for an argument with a wrong value.
pub(super) fn invalid(message: impl Into<String>) -> SqlError {
    SqlError::new("22023", message)
}
