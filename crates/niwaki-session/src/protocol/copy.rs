//! COPY between tables or queries and the client, a file, or a stream.

use std::ops::Range;
use std::sync::Arc;

use niwaki_catalog::{Relation, RelationKind};
use niwaki_env::seeded_bug;
use niwaki_sql::copy::{CopyInput, CopyOutput, Fields};
use niwaki_sql::utility::{ColumnChoice, Copy, CopyDirection, CopyOptions, CopySource};
use niwaki_sql::{Planned, Result, RowSink, SqlError};
use niwaki_table::{Error as TableError, InsertOptions, Table};
use niwaki_txn::TableLockMode;
use niwaki_types::{Datum, TextSettings, TypeOid};

use crate::protocol::copy_file::CopyFile;
use crate::protocol::copy_lines::LineReader;
use crate::result::ResultSink;
use crate::session::epoch::UNIX_TO_POSTGRES_US;
use crate::session::errors::of_table;
use crate::session::handle::Session;
use crate::session::statement::statement_of;

/// Greatest number of rows that are inserted in one batch.
const BATCH_ROWS: usize = 1000;
/// Bytes of input after which a batch is inserted, even if it has few rows.
const BATCH_BYTES: usize = 256 * 1024;

impl Session {
    /// Runs COPY. Returns the number of rows.
    pub(crate) fn copy(
        &mut self,
        copy: &Copy,
        source: &str,
        out: &mut dyn ResultSink,
    ) -> Result<u64> {
        let Some(name) = &copy.file else { return self.copy_streams(copy, source, out) };
        let mut file = CopyFile::new(name, copy.direction == CopyDirection::From, out)?;
        let rows = self.copy_streams(copy, source, &mut file)?;
        file.finish()?;
        Ok(rows)
    }

    /// Runs COPY FROM STDIN and COPY TO STDOUT, with `out` as the stream.
    fn copy_streams(&mut self, copy: &Copy, source: &str, out: &mut dyn ResultSink) -> Result<u64> {
        // PostgreSQL reports the position of the table name for other statements only.
        let unplaced = |mut error: SqlError| {
            error.position = None;
            error
        };
        match (&copy.source, copy.direction) {
            (CopySource::Table { name, columns }, CopyDirection::From) => {
                let relation =
                    self.lock_by_name(name, TableLockMode::RowExclusive).map_err(unplaced)?;
                self.copy_from(&relation, columns, copy, out)
            }
            (CopySource::Table { name, columns }, CopyDirection::To) => {
                let relation =
                    self.lock_by_name(name, TableLockMode::AccessShare).map_err(unplaced)?;
                if relation.kind != RelationKind::Table {
                    let error = SqlError::new(
                        "42809",
                        format!("cannot copy from {} \"{}\"", relation.kind.word(), relation.name),
                    );
                    return Err(match relation.kind {
                        RelationKind::View | RelationKind::MaterializedView => {
                            error.with_hint("Try the COPY (SELECT ...) TO variant.")
                        }
                        _ => error,
                    });
                }
                if relation.is_partitioned() {
                    let message =
                        format!("cannot copy from partitioned table \"{}\"", relation.name);
                    return Err(SqlError::new("42809", message)
                        .with_hint("Try the COPY (SELECT ...) TO variant."));
                }
                let positions = positions_of(&relation, columns)?;
                let list: Vec<String> = positions
                    .iter()
                    .map(|p| format!("\"{}\"", relation.columns[*p].name.replace('"', "\"\"")))
                    .collect();
                let sql =
                    format!("SELECT {} FROM {}", list.join(", "), self.qualified_name(&relation));
                let statements = niwaki_sql::parse::parse(&sql)?;
                let statement =
                    statements.first().ok_or_else(|| SqlError::internal("no statement"))?;
                let planned = self.plan_locked(statement, &[])?;
                self.copy_to(&planned, Some(&relation), &copy.options, out)
            }
            (CopySource::Query(query), _) => {
                let statement = statement_of(query, source);
                let planned = self.plan_locked(&statement, &[])?;
                if !planned.returns_rows() {
                    return Err(SqlError::new("0A000", "COPY query must have a RETURNING clause"));
                }
                self.copy_to(&planned, None, &copy.options, out)
            }
        }
    }

    fn copy_to(
        &mut self,
        planned: &Arc<Planned>,
        relation: Option<&Relation>,
        options: &CopyOptions,
        out: &mut dyn ResultSink,
    ) -> Result<u64> {
        let columns = planned.columns();
        let types = columns.iter().map(niwaki_sql::ColumnInfo::oid).collect();
        let quoted = match options.csv.as_ref().map(|csv| &csv.force_quote) {
            Some(ColumnChoice::All) => vec![true; columns.len()],
            Some(ColumnChoice::Named(named)) => {
                let names: Vec<&str> = columns.iter().map(|c| c.name.as_str()).collect();
                chosen(named, &names, relation, "FORCE_QUOTE")?
            }
            None => Vec::new(),
        };
        let output = CopyOutput::new(options.clone(), types, self.text.settings().clone());
        let mut sink = CopySink { output: output.with_quotes(quoted), out, rows: 0 };
        sink.out.copy_format(options.binary);
        sink.out.copy_out_begin(columns.len())?;
        if options.header {
            let line = sink.output.header(columns.iter().map(|c| c.name.as_str()));
            sink.out.copy_out(line)?;
        }
        self.run_planned(planned, &[], &mut sink)?;
        let end = sink.output.end();
        if !end.is_empty() {
            sink.out.copy_out(end)?;
        }
        sink.out.copy_out_end();
        Ok(sink.rows)
    }

    fn copy_from(
        &mut self,
        relation: &Arc<Relation>,
        columns: &[String],
        copy: &Copy,
        out: &mut dyn ResultSink,
    ) -> Result<u64> {
        let options = &copy.options;
        if relation.kind != RelationKind::Table {
            let error = SqlError::new(
                "42809",
                format!("cannot copy to {} \"{}\"", relation.kind.word(), relation.name),
            );
            return Err(match relation.kind {
                RelationKind::View => error.with_hint(
                    "To enable copying to a view, provide an INSTEAD OF INSERT trigger.",
                ),
                _ => error,
            });
        }
        if options.freeze && relation.is_partitioned() {
            let message = "cannot perform COPY FREEZE on a partitioned table";
            return Err(SqlError::new("0A000", message));
        }
        if options.freeze && !self.block.is_created_here(relation.oid) {
            return Err(SqlError::new(
                "55000",
                "cannot perform COPY FREEZE because the table was not created or truncated in the current subtransaction",
            ));
        }
        let positions = positions_of(relation, columns)?;
        let missing: Vec<usize> = relation
            .visible_columns()
            .filter(|(p, c)| c.default.is_some() && !positions.contains(p))
            .map(|(p, _)| p)
            .collect();
        let filter = match &copy.condition {
            Some(condition) => Some(self.copy_filter(condition, relation, &missing)?),
            None => None,
        };
        let now = self.open_transaction()?.started_us() - UNIX_TO_POSTGRES_US;
        self.refresh_types();
        let text = self.text.settings().clone();
        let names: Vec<&str> =
            positions.iter().map(|p| relation.columns[*p].name.as_str()).collect();
        let forced = |named: Option<&Vec<String>>, option: &str| match named {
            Some(named) => chosen(named, &names, Some(relation), option),
            None => Ok(Vec::new()),
        };
        let csv = options.csv.as_ref();
        let mut reader = LineReader {
            relation,
            not_null: forced(csv.map(|csv| &csv.force_not_null), "FORCE_NOT_NULL")?,
            null: forced(csv.map(|csv| &csv.force_null), "FORCE_NULL")?,
            positions: &positions,
            options,
            text: &text,
            now,
            fields: Fields::new(),
            filter,
        };
        let of_domains = relation.visible_columns().any(|(_, column)| column.domain.is_some());
        out.copy_format(options.binary);
        // Checks, triggers, bounds, domains and computed defaults need the executor, row by row.
        let plain = relation.checks.is_empty()
            && relation.triggers.is_empty()
            && relation.partition_of.is_none()
            && !relation.is_partitioned();
        let rows = if plain && missing.is_empty() && !of_domains {
            out.copy_in(positions.len())?;
            self.copy_in_batches(&mut reader, out)?
        } else {
            let insert = self.insert_plan(relation, &positions)?;
            out.copy_in(positions.len())?;
            self.copy_in_rows(&mut reader, &insert, out)?
        };
        Ok(rows)
    }

    /// Copies rows in batches straight into the table. This is the fast way.
    fn copy_in_batches(
        &mut self,
        reader: &mut LineReader<'_>,
        out: &mut dyn ResultSink,
    ) -> Result<u64> {
        let relation = reader.relation;
        let table =
            relation.table.as_ref().ok_or_else(|| SqlError::internal("a table without rows"))?;
        let width = relation.columns.len();
        let mut input = CopyInput::of(reader.options);
        let mut rows: Vec<Vec<Datum>> = Vec::with_capacity(BATCH_ROWS);
        // Rows of the last batch, kept to reuse their memory.
        let mut spare: Vec<Vec<Datum>> = Vec::new();
        let mut first_line = 1;
        let mut bytes = 0;
        let mut total = 0;
        skip_header(reader, &mut input, out)?;
        loop {
            let line = next_line(reader, &mut input, out)?;
            let full = rows.len() >= BATCH_ROWS || bytes >= BATCH_BYTES;
            if (line.is_none() || full) && !rows.is_empty() {
                self.insert_batch(relation, table, &rows, reader.options.freeze, first_line)?;
                total += rows.len() as u64;
                spare.append(&mut rows);
                bytes = 0;
            }
            let Some(line) = line else { return Ok(total) };
            if rows.is_empty() {
                first_line = input.line_number();
                self.identity.check_interrupts()?;
            }
            let mut row = spare.pop().unwrap_or_else(|| vec![Datum::Null; width]);
            let text = input.line(&line);
            bytes += text.len();
            reader.read(text, input.line_number(), &mut row)?;
            if !self.passes(reader, input.line_number(), text, &row)? {
                spare.push(row);
                continue;
            }
            reader
                .refuse_nulls(text, input.line_number(), &row, &mut |oid| self.schema_name(oid))?;
            rows.push(row);
        }
    }

    fn insert_batch(
        &mut self,
        relation: &Relation,
        table: &Table,
        rows: &[Vec<Datum>],
        freeze: bool,
        first_line: u64,
    ) -> Result<()> {
        let transaction = self
            .transaction
            .as_ref()
            .ok_or_else(|| SqlError::internal("no transaction is open"))?;
        let frozen = freeze || seeded_bug!("copied_rows_stay");
        let options = InsertOptions { frozen };
        table.insert_many(transaction, rows, options, self.buffers.work_mut()).map_err(
            |error| {
                let line = first_line + failed_row(table, &error, rows) as u64;
                let state = self.catalog.state();
                of_table(error, relation, &state)
                    .with_context(format!("COPY {}, line {line}", relation.name))
            },
        )?;
        if !relation.foreign_keys.is_empty() {
            rows.iter().for_each(|row| self.checks.queue_mut().inserted(relation, row));
        }
        Ok(())
    }

    /// Copies each row by an INSERT, with its defaults and checks. This is the general way.
    fn copy_in_rows(
        &mut self,
        reader: &mut LineReader<'_>,
        insert: &Arc<Planned>,
        out: &mut dyn ResultSink,
    ) -> Result<u64> {
        if reader.options.freeze {
            return Err(SqlError::unsupported(
                "COPY FREEZE into a table with CHECK constraints, triggers or computed defaults",
            ));
        }
        let relation = reader.relation;
        let mut input = CopyInput::of(reader.options);
        let mut row = vec![Datum::Null; relation.columns.len()];
        let mut nowhere: Vec<Vec<Datum>> = Vec::new();
        let mut total = 0;
        skip_header(reader, &mut input, out)?;
        // The statement ends with the last row. An error ends it, too.
        self.checks.set_in_parts(true);
        while let Some(line) = next_line(reader, &mut input, out)? {
            let number = input.line_number();
            reader.read(input.line(&line), number, &mut row)?;
            if !self.passes(reader, number, input.line(&line), &row)? {
                continue;
            }
            let parameters: Vec<Datum> = reader.positions.iter().map(|p| row[*p].clone()).collect();
            let done = self
                .run_planned(insert, &parameters, &mut nowhere)
                .map_err(|error| error.within_context(reader.place(number, input.line(&line))))?;
            // A trigger may have skipped the row.
            total += done.rows;
        }
        self.checks.set_in_parts(false);
        Ok(total)
    }

    /// Plans `INSERT INTO table (columns) VALUES ($1, …)`. Its locks are held.
    fn insert_plan(&mut self, relation: &Relation, positions: &[usize]) -> Result<Arc<Planned>> {
        let names: Vec<String> = positions
            .iter()
            .map(|p| format!("\"{}\"", relation.columns[*p].name.replace('"', "\"\"")))
            .collect();
        let values: Vec<String> = (1..=positions.len()).map(|n| format!("${n}")).collect();
        let types: Vec<TypeOid> =
            positions.iter().map(|p| relation.columns[*p].column_type().oid).collect();
        let sql = format!(
            "INSERT INTO {} ({}) OVERRIDING SYSTEM VALUE VALUES ({})",
            self.qualified_name(relation),
            names.join(", "),
            values.join(", ")
        );
        let statements = niwaki_sql::parse::parse(&sql)?;
        let statement = statements.first().ok_or_else(|| SqlError::internal("no statement"))?;
        self.plan_locked(statement, &types)
    }
}

/// Row sink that turns rows of a query into COPY data.
struct CopySink<'o> {
    output: CopyOutput,
    out: &'o mut dyn ResultSink,
    rows: u64,
}

impl RowSink for CopySink<'_> {
    fn row(&mut self, row: &[Datum]) -> Result<()> {
        self.rows += 1;
        self.out.copy_out(self.output.row(row)?)
    }
}

fn skip_header(
    reader: &LineReader<'_>,
    input: &mut CopyInput,
    out: &mut dyn ResultSink,
) -> Result<()> {
    if reader.options.header {
        next_line(reader, input, out)?;
    }
    Ok(())
}

/// Reads the next line. An error names the line's number.
fn next_line(
    reader: &LineReader<'_>,
    input: &mut CopyInput,
    out: &mut dyn ResultSink,
) -> Result<Option<Range<usize>>> {
    let number = input.line_number() + 1;
    let line = input.next_line(&mut |buffer| out.copy_in_data(buffer));
    line.map_err(|error| {
        error.with_context(format!("COPY {}, line {number}", reader.relation.name))
    })
}

/// Returns for each copied column whether an option names it.
fn chosen(
    named: &[String],
    columns: &[&str],
    relation: Option<&Relation>,
    option: &str,
) -> Result<Vec<bool>> {
    if let Some(name) = named.iter().find(|name| !columns.contains(&name.as_str())) {
        return Err(match relation {
            Some(relation) if relation.column_position(name).is_none() => SqlError::new(
                "42703",
                format!("column \"{name}\" of relation \"{}\" does not exist", relation.name),
            ),
            Some(_) => {
                let message = format!("{option} column \"{name}\" not referenced by COPY");
                SqlError::new("42P10", message)
            }
            None => SqlError::new("42703", format!("column \"{name}\" does not exist")),
        });
    }
    Ok(columns.iter().map(|column| named.iter().any(|name| name == column)).collect())
}

/// Returns the positions of the columns that COPY names. Without names, these are all columns that
/// are not generated.
fn positions_of(relation: &Relation, columns: &[String]) -> Result<Vec<usize>> {
    if columns.is_empty() {
        let stored = relation.visible_columns().filter(|(_, column)| !column.generated);
        return Ok(stored.map(|(p, _)| p).collect());
    }
    let mut positions = Vec::with_capacity(columns.len());
    for name in columns {
        let position = relation.column_position(name).ok_or_else(|| {
            SqlError::new(
                "42703",
                format!("column \"{name}\" of relation \"{}\" does not exist", relation.name),
            )
        })?;
        if relation.columns[position].generated {
            let message = format!("column \"{name}\" is a generated column");
            return Err(SqlError::new("42P10", message)
                .with_detail("Generated columns cannot be used in COPY."));
        }
        if positions.contains(&position) {
            return Err(SqlError::new(
                "42701",
                format!("column \"{name}\" specified more than once"),
            ));
        }
        positions.push(position);
    }
    Ok(positions)
}

/// Finds the row of a batch that violated a unique key: the second row with that key, or else the
/// first.
fn failed_row(table: &Table, error: &TableError, rows: &[Vec<Datum>]) -> usize {
    let TableError::UniqueViolation(violation) = error else { return 0 };
    let mut same = rows.iter().enumerate().filter(|(_, row)| {
        let Ok(key) = table.key_values(violation.index, row) else { return false };
        key.iter().zip(&violation.key).all(|(a, b)| same_value(a, b))
    });
    let first = same.next();
    same.next().or(first).map_or(0, |(i, _)| i)
}

/// Compares two values of one column by their text, for finding a row again.
fn same_value(a: &Datum, b: &Datum) -> bool {
    let settings = TextSettings::default();
    niwaki_types::to_text(a, TypeOid::TEXT, &settings)
        == niwaki_types::to_text(b, TypeOid::TEXT, &settings)
}
