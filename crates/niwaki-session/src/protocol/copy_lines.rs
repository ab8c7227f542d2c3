//! Lines of COPY FROM, read into rows.

use niwaki_catalog::Relation;
use niwaki_sql::copy::{Fields, binary_fields, context, context_column};
use niwaki_sql::utility::CopyOptions;
use niwaki_sql::{Result, RowExpression, SqlError};
use niwaki_txn::Snapshot;
use niwaki_types::{ColumnType, Datum, InputContext, TextSettings};

/// Reader that turns input lines into rows.
pub(crate) struct LineReader<'r> {
    pub(crate) relation: &'r Relation,
    pub(crate) positions: &'r [usize],
    pub(crate) options: &'r CopyOptions,
    pub(crate) text: &'r TextSettings,
    pub(crate) now: i64,
    pub(crate) fields: Fields,
    /// Set for columns where the text that stands for NULL is a value (`FORCE_NOT_NULL`).
    pub(crate) not_null: Vec<bool>,
    /// Set for columns where the text that stands for NULL is NULL even if quoted (`FORCE_NULL`).
    pub(crate) null: Vec<bool>,
    /// Condition on the copied rows. Without it, all rows are copied.
    pub(crate) filter: Option<CopyFilter>,
}

impl LineReader<'_> {
    /// Reads a line into `row`. Columns that the line does not have stay as they are.
    pub(crate) fn read(&mut self, line: &[u8], number: u64, row: &mut [Datum]) -> Result<()> {
        if self.options.binary {
            return self.read_binary(line, number, row);
        }
        let table = &self.relation.name;
        self.fields.split(line, self.options).map_err(|error| match error.sqlstate {
            // The quote that is not closed may be anywhere in the line.
            "22P04" => error.with_context(context(table, number, line)),
            _ => error.with_context(format!("COPY {table}, line {number}")),
        })?;
        if self.fields.len() > self.positions.len() {
            return Err(SqlError::new("22P04", "extra data after last expected column")
                .with_context(context(table, number, line)));
        }
        let input = InputContext { settings: self.text, now: self.now };
        for (i, position) in self.positions.iter().enumerate() {
            let column = &self.relation.columns[*position];
            if i >= self.fields.len() {
                return Err(SqlError::new(
                    "22P04",
                    format!("missing data for column \"{}\"", column.name),
                )
                .with_context(context(table, number, line)));
            }
            let null = self.options.null.as_str();
            let value = match self.fields.get(i) {
                None if self.not_null.get(i) == Some(&true) => Some(null),
                Some(text) if text == null && self.null.get(i) == Some(&true) => None,
                value => value,
            };
            let wanted: ColumnType = column.column_type();
            row[*position] = match value {
                None => Datum::Null,
                Some(text) => niwaki_types::input(wanted, text, &input).map_err(|e| {
                    SqlError::from(e).within_context(context_column(
                        table,
                        number,
                        &column.name,
                        Some(text),
                    ))
                })?,
            };
        }
        Ok(())
    }

    /// Returns the CONTEXT of an error in a row.
    pub(crate) fn place(&self, number: u64, line: &[u8]) -> String {
        let table = &self.relation.name;
        if self.options.binary {
            format!("COPY {table}, line {number}")
        } else {
            context(table, number, line)
        }
    }

    fn read_binary(&self, line: &[u8], number: u64, row: &mut [Datum]) -> Result<()> {
        let values = binary_fields(line, self.positions.len())
            .map_err(|error| error.with_context(self.place(number, line)))?;
        for (value, position) in values.into_iter().zip(self.positions) {
            let column = &self.relation.columns[*position];
            row[*position] = match value {
                None => Datum::Null,
                Some(bytes) => {
                    let kind = column.column_type();
                    niwaki_types::read_binary(kind, bytes, &self.text.types).map_err(|error| {
                        let place = format!("{}, column {}", self.place(number, line), column.name);
                        SqlError::from(error).within_context(place)
                    })?
                }
            };
        }
        Ok(())
    }

    /// Fails with 23502 for a NULL in a NOT NULL column.
    pub(crate) fn refuse_nulls(
        &self,
        line: &[u8],
        number: u64,
        row: &[Datum],
        schema: &mut dyn FnMut(niwaki_catalog::Oid) -> String,
    ) -> Result<()> {
        for (position, column) in self.relation.visible_columns() {
            if column.not_null && matches!(row[position], Datum::Null) {
                let table = &self.relation.name;
                let shown: Vec<String> = self
                    .relation
                    .visible_columns()
                    .map(|(p, c)| match &row[p] {
                        Datum::Null => "null".to_owned(),
                        value => niwaki_types::to_text(value, c.column_type().oid, self.text),
                    })
                    .collect();
                return Err(SqlError::new(
                    "23502",
                    format!(
                        "null value in column \"{}\" of relation \"{table}\" violates not-null constraint",
                        column.name
                    ),
                )
                .with_detail(format!("Failing row contains ({}).", shown.join(", ")))
                .with_table(schema(self.relation.schema), table.clone())
                .with_column(column.name.clone())
                .with_context(self.place(number, line)));
            }
        }
        Ok(())
    }
}

/// A condition on copied rows, with the snapshot for its functions.
pub(crate) struct CopyFilter {
    pub(crate) condition: RowExpression,
    pub(crate) snapshot: Snapshot,
}
