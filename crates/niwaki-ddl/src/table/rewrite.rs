//! Table rewrite: new files, and every row with other values in it.
//!
//! As in PostgreSQL, the rewrite takes the rows that are committed now, whatever the transaction's
//! snapshot. The new versions belong to the transaction itself.

use std::sync::Arc;

use niwaki_catalog::{Relation, RelationDefinition, RelationStats};
use niwaki_session::Session;
use niwaki_session::{key_text, of_table};
use niwaki_sql::store::BATCH_BYTES;
use niwaki_sql::{Progress, Result, RowExpression, RowSink, SqlError};
use niwaki_table::{Error as TableError, InsertOptions};
use niwaki_types::Datum;
use niwaki_types::growing::value_bytes;

use crate::definer::Definer;

/// Greatest number of rows that are written at once.
pub(crate) const BATCH_ROWS: u64 = 1000;

/// Expressions that a rewrite computes, each with the position of its column.
pub(crate) type Computed = Vec<(usize, RowExpression)>;

/// Batch of rows in stored form: objects are numbers, not names. A batch with large values ends
/// early.
#[derive(Default)]
pub(crate) struct StoredRows {
    pub(crate) rows: Vec<Vec<Datum>>,
    /// Bytes of the values in the batch.
    bytes: usize,
}

impl StoredRows {
    pub(crate) fn push(&mut self, row: Vec<Datum>) {
        self.bytes += row.iter().map(value_bytes).sum::<usize>();
        self.rows.push(row);
    }
}

impl RowSink for StoredRows {
    fn row(&mut self, row: &[Datum]) -> Result<()> {
        self.push(row.to_vec());
        Ok(())
    }
    fn takes_numbers(&self, _column: usize) -> bool {
        true
    }
    fn is_full(&self) -> bool {
        self.rows.len() as u64 >= BATCH_ROWS || self.bytes >= BATCH_BYTES
    }
}

impl Definer<'_> {
    /// Returns whether the table has a committed row, or one of this transaction.
    pub(crate) fn has_rows(&mut self, relation: &Relation) -> Result<bool> {
        let table = self.session.qualified_name(relation);
        let sql = format!("SELECT 1 FROM {table} LIMIT 1");
        let rows = self.session.at_latest(|session| session.internal_query(&sql))?;
        Ok(!rows.is_empty())
    }

    /// Gives a table the definition `new` and new files, with all rows of `old`. `computed` reads
    /// rows of the old table, `derived` reads rows of the new one. The locks keep all other
    /// sessions out.
    pub(crate) fn rewrite(
        &mut self,
        old: &Arc<Relation>,
        mut new: RelationDefinition,
        computed: &Computed,
        derived: &Computed,
    ) -> Result<()> {
        let sql = format!("SELECT * FROM {}", self.session.qualified_name(old));
        let statements = niwaki_sql::parse::parse(&sql)?;
        let statement = statements.first().ok_or_else(|| SqlError::internal("no statement"))?;
        let planned = self.session.plan_locked(statement, &[])?;
        // The new rows have a value in every column.
        new.columns.iter_mut().for_each(|column| column.missing = None);
        new.stats = RelationStats::default();
        self.session.renew_file(new)?;
        for index in &old.indexes {
            let definition = self.definition_to_change(index.oid)?;
            self.session.renew_file(definition)?;
        }
        let now = self.current(old.oid)?;
        self.session.note_created(old.oid);
        self.session.at_latest(|session| {
            let mut running = session.start(&planned, Vec::new())?;
            loop {
                let mut rows = StoredRows::default();
                let progress = session.advance(&mut running, BATCH_ROWS, &mut rows)?;
                let rows = converted(session, old, &now, rows.rows, computed, derived)?;
                write_anew(session, &now, &rows, InsertOptions::default())?;
                if matches!(progress, Progress::Complete(_)) {
                    // Later parts of the same statement read these rows.
                    session.open_transaction()?.next_command()?;
                    return Ok(());
                }
            }
        })
    }
}

/// Converts rows of the old table to rows of the new one.
fn converted(
    session: &mut Session,
    old: &Relation,
    new: &Relation,
    rows: Vec<Vec<Datum>>,
    computed: &Computed,
    derived: &Computed,
) -> Result<Vec<Vec<Datum>>> {
    let visible: Vec<usize> = old.visible_columns().map(|(at, _)| at).collect();
    let snapshot = session.open_transaction()?.snapshot()?;
    let mut given = rows.into_iter();
    let mut result = Vec::with_capacity(given.len());
    let schema = session.schema_name(new.schema);
    session.with_context(&snapshot, &mut |exec| {
        for values in given.by_ref() {
            let mut before = vec![Datum::Null; old.columns.len()];
            for (at, value) in visible.iter().zip(values) {
                before[*at] = value;
            }
            let mut after = before.clone();
            after.resize(new.columns.len(), Datum::Null);
            for (at, expression) in computed {
                after[*at] = expression.evaluate(exec, &before)?;
            }
            for (at, expression) in derived {
                after[*at] = expression.evaluate(exec, &after)?;
            }
            let mut columns = new.columns.iter().zip(&after);
            let null = columns.find(|(c, v)| c.not_null && !c.dropped && v.is_null());
            if let Some((column, _)) = null {
                let (name, table) = (&column.name, &new.name);
                let message =
                    format!("column \"{name}\" of relation \"{table}\" contains null values");
                return Err(SqlError::new("23502", message)
                    .with_table(schema.clone(), table.clone())
                    .with_column(name.clone()));
            }
            result.push(after);
        }
        Ok(())
    })?;
    Ok(result)
}

/// Writes rows into new files, which only this transaction sees.
pub(crate) fn write_anew(
    session: &mut Session,
    relation: &Relation,
    rows: &[Vec<Datum>],
    options: InsertOptions,
) -> Result<()> {
    let table = relation.table.as_ref();
    let table = table.ok_or_else(|| SqlError::internal("a table without rows"))?;
    let (transaction, work) = session.transaction_and_workspace()?;
    let written = table.insert_many(transaction, rows, options, work);
    written.map_err(|error| {
        let state = session.state();
        let duplicate = match &error {
            TableError::UniqueViolation(violation) => Some((
                violation.index_name.clone(),
                key_text(relation, violation, &state)
                    .map(|key| format!("Key {key} is duplicated.")),
            )),
            _ => None,
        };
        let mut error = of_table(error, relation, &state);
        if let Some((index, detail)) = duplicate {
            error.message = format!("could not create unique index \"{index}\"");
            error.detail = detail;
        }
        error
    })
}
