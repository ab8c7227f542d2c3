//! Makes rows of JSON objects: rows in FROM, the values of a set, or one composite value.

use std::sync::Arc;

use niwaki_types::{Datum, Record, TypeOid};

use super::kept_rows::{KeptReader, RowKeeper};
use crate::error::{Result, SqlError};
use crate::expr::{Expr, Runtime};
use crate::functions::fields_of_objects;
use crate::query::JsonRecords;

/// Returns the rows of a function in FROM.
pub(super) fn rows(
    records: &JsonRecords,
    arguments: &[Expr],
    row: &[Datum],
    rt: &mut Runtime<'_, '_>,
) -> Result<KeptReader> {
    let values = evaluated(arguments, row, rt)?;
    let mut found = RowKeeper::new(rt.exec);
    each(records, &values, rt, &mut |row| found.push(&row))?;
    Ok(found.finish()?.read())
}

/// Returns the rows as composite values, of the type of the row argument.
pub(super) fn set_values(
    records: &JsonRecords,
    arguments: &[Expr],
    row: &[Datum],
    rt: &mut Runtime<'_, '_>,
) -> Result<Vec<Datum>> {
    let kind = arguments.first().map_or(TypeOid::RECORD, |row| row.ty);
    let values = evaluated(arguments, row, rt)?;
    refuse_no_row(records, kind)?;
    let mut found = Vec::new();
    let (mut bytes, limit) = (rt.state.memory, rt.exec.memory_limit);
    each(records, &values, rt, &mut |row| {
        let value = composite(records, kind, row);
        bytes += super::row_bytes(std::slice::from_ref(&value));
        found.push(value);
        if bytes > limit {
            let detail = "The rows that a function gives in a target list must stay in memory.";
            return Err(SqlError::new("53200", "out of memory").with_detail(detail));
        }
        Ok(())
    })?;
    Ok(found)
}

/// Returns the one composite value, or NULL if there is neither a row nor an object.
pub(crate) fn populated(
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
fn refuse_no_row(records: &JsonRecords, kind: TypeOid) -> Result<()> {
    if kind.is_record() {
        return Ok(());
    }
    let message = format!("first argument of {} must be a row type", records.function.name);
    Err(SqlError::new("42804", message))
}

fn evaluated(arguments: &[Expr], row: &[Datum], rt: &mut Runtime<'_, '_>) -> Result<Vec<Datum>> {
    arguments.iter().map(|argument| argument.eval(row, rt)).collect()
}

fn composite(records: &JsonRecords, kind: TypeOid, row: Vec<Datum>) -> Datum {
    let kinds: Vec<TypeOid> = records.fields.iter().map(|(_, column)| column.oid).collect();
    Datum::Record(kind, Arc::new(Record::new(kinds, row)))
}

/// Calls `emit` with each row. The first argument may be a row whose values serve as defaults.
fn each(
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
            fields_of_objects(records.function, json, &records.fields, rt.exec, emit)?;
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
