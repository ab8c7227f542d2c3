//! Makes rows of JSON objects: rows in FROM, the values of a set, or one composite value.

use niwaki_expr::expr::json_records::{composite, each, evaluated, refuse_no_row};
use niwaki_expr::expr::{Expr, Runtime};
use niwaki_expr::query::JsonRecords;
use niwaki_expr::spool::{TuplestoreReader, TuplestoreWriter};
use niwaki_parse::error::{Result, SqlError};
use niwaki_types::{Datum, TypeOid};

/// Returns the rows of a function in FROM.
pub(crate) fn rows(
    records: &JsonRecords,
    arguments: &[Expr],
    row: &[Datum],
    rt: &mut Runtime<'_, '_>,
) -> Result<TuplestoreReader> {
    let values = evaluated(arguments, row, rt)?;
    let mut found = TuplestoreWriter::new(rt.exec);
    each(records, &values, rt, &mut |row| found.push(&row))?;
    Ok(found.finish()?.read())
}

/// Returns the rows as composite values, of the type of the row argument.
pub(crate) fn set_values(
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
        bytes += niwaki_expr::spool::row_bytes(std::slice::from_ref(&value));
        found.push(value);
        if bytes > limit {
            let detail = "The rows that a function gives in a target list must stay in memory.";
            return Err(SqlError::new("53200", "out of memory").with_detail(detail));
        }
        Ok(())
    })?;
    Ok(found)
}
