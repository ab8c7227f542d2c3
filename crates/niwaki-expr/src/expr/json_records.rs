//! Makes rows and composite values of JSON objects.

use std::sync::Arc;

use niwaki_parse::error::{Result, SqlError};
use niwaki_types::{Datum, Record, TypeOid};

use super::{Expr, Runtime};
use crate::function::Eval;
use crate::query::JsonRecords;

/// Returns the one composite value, or NULL if there is neither a row nor an object.
///
/// # Errors
/// `42804` if the value to populate is not a row; the errors of the evaluation.
pub fn populated(
    records: &JsonRecords,
    arguments: &[Expr],
    row: &[Datum],
    rt: &mut Runtime<'_, '_>,
) -> Result<Datum> {
    let kind = arguments.first().map_or(TypeOid::RECORD, |row| row.ty);
    let values = evaluated(arguments, row, rt)?;
    refuse_no_row(records, kind)?;
    // Without a JSON object the given row stays as it is.
    if let [given, Datum::Null] = values.as_slice() {
        return Ok(given.clone());
    }
    let mut value = Datum::Null;
    each(records, &values, rt, &mut |row| {
        value = composite(records, kind, row);
        Ok(())
    })?;
    Ok(value)
}

/// Returns error 42804 if the value to populate is not a row.
///
/// # Errors
/// `42804` for a type that is no row type.
pub fn refuse_no_row(records: &JsonRecords, kind: TypeOid) -> Result<()> {
    if kind.is_record() {
        return Ok(());
    }
    let message = format!("first argument of {} must be a row type", records.function.name);
    Err(SqlError::new("42804", message))
}

/// Evaluates the arguments.
///
/// # Errors
/// The errors of the evaluation.
pub fn evaluated(
    arguments: &[Expr],
    row: &[Datum],
    rt: &mut Runtime<'_, '_>,
) -> Result<Vec<Datum>> {
    arguments.iter().map(|argument| argument.eval(row, rt)).collect()
}

/// Returns the composite value that these field values make.
pub fn composite(records: &JsonRecords, kind: TypeOid, row: Vec<Datum>) -> Datum {
    let kinds: Vec<TypeOid> = records.fields.iter().map(|(_, column)| column.oid).collect();
    Datum::Record(kind, Arc::new(Record::new(kinds, row)))
}

/// Calls `emit` with each row. The first argument may be a row whose values serve as defaults.
///
/// # Errors
/// The errors of reading the JSON value, of converting its fields, and of `emit`.
pub fn each(
    records: &JsonRecords,
    values: &[Datum],
    rt: &mut Runtime<'_, '_>,
    emit: &mut dyn FnMut(Vec<Datum>) -> Result<()>,
) -> Result<()> {
    let width = records.fields.len();
    let base = match values.split_last() {
        Some((_, [Datum::Record(_, base)])) => Some(base.values()),
        _ => None,
    };
    let mut objects = Vec::new();
    match values.last() {
        Some(Datum::Null) | None if records.function.returns_set() => {}
        Some(Datum::Null) | None => objects.push(vec![None; width]),
        Some(json) => {
            let emit = &mut |object| objects.push(object);
            let Eval::Objects(objects) = &records.function.eval else {
                let name = records.function.name;
                return Err(SqlError::internal(format!("{name} makes no rows of objects")));
            };
            (objects.body)(records.function, json, &records.fields, rt.exec, emit)?;
        }
    }
    for object in objects {
        rt.tick()?;
        let mut row = Vec::with_capacity(width);
        for (at, (field, value)) in object.into_iter().zip(&records.values).enumerate() {
            let kept = base.and_then(|base| base.get(at)).filter(|_| field.is_none());
            row.push(match kept {
                Some(kept) => kept.clone(),
                // A domain may refuse NULL.
                None => value.eval(&[field.unwrap_or(Datum::Null)], rt)?,
            });
        }
        emit(row)?;
    }
    Ok(())
}
