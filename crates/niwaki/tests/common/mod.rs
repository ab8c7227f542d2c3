//! A client's view of a session, as lines of text.

use niwaki::{ColumnInfo, Datum, ResultSink, RowSink, Session, SqlError, TypeOid};

/// Collects rows.
#[derive(Default)]
pub(crate) struct Lines {
    lines: Vec<String>,
    types: Vec<TypeOid>,
    text: niwaki::TextSettings,
    /// Lines before the statement that gives all its rows or none.
    whole_from: Option<usize>,
    /// True when tags and notices become lines too.
    told: bool,
    /// True when values are shown as bytes.
    binary: bool,
    /// Data for COPY FROM STDIN.
    pub(crate) copy: Vec<u8>,
}

impl Lines {
    fn bytes_of(&self, value: &Datum, oid: TypeOid) -> String {
        let mut bytes = Vec::new();
        niwaki_types::write_binary(value, oid, &self.text.types, &mut bytes);
        bytes.iter().fold("\\x".to_owned(), |shown, byte| format!("{shown}{byte:02x}"))
    }
}

impl RowSink for Lines {
    fn row(&mut self, row: &[Datum]) -> niwaki::Result<()> {
        let values: Vec<String> = row
            .iter()
            .zip(&self.types)
            .map(|(value, oid)| match value {
                Datum::Null => "NULL".to_owned(),
                value if self.binary => self.bytes_of(value, *oid),
                value => niwaki_types::to_text(value, *oid, &self.text),
            })
            .collect();
        self.lines.push(values.join("|"));
        Ok(())
    }

    fn takes_numbers(&self, _: usize) -> bool {
        self.binary
    }
}

impl ResultSink for Lines {
    fn columns(&mut self, columns: &[ColumnInfo]) -> niwaki::Result<()> {
        self.types = columns.iter().map(ColumnInfo::oid).collect();
        self.binary = false;
        Ok(())
    }
    fn binary_columns(&mut self, columns: &[ColumnInfo]) -> niwaki::Result<()> {
        self.columns(columns)?;
        self.binary = true;
        Ok(())
    }
    fn whole_or_nothing(&mut self) {
        self.whole_from = Some(self.lines.len());
    }
    fn complete(&mut self, tag: &str) {
        self.whole_from = None;
        if self.told {
            self.lines.push(tag.to_owned());
        }
    }
    fn empty_query(&mut self) {}
    fn notice(&mut self, notice: &SqlError) {
        if self.told {
            let severity = notice.severity.as_str();
            self.lines.push(format!("{severity} {}: {}", notice.sqlstate, notice.message));
        }
    }
    fn text_settings(&mut self, settings: &niwaki::TextSettings) {
        self.text = settings.clone();
    }
    fn parameter_status(&mut self, _: &str, _: &str) {}
    fn copy_in(&mut self, _: usize) -> niwaki::Result<()> {
        Ok(())
    }
    fn copy_in_data(&mut self, buffer: &mut Vec<u8>) -> niwaki::Result<bool> {
        buffer.append(&mut self.copy);
        Ok(false)
    }
    fn copy_out_begin(&mut self, _: usize) -> niwaki::Result<()> {
        Ok(())
    }
    fn copy_out(&mut self, _: &[u8]) -> niwaki::Result<()> {
        Ok(())
    }
    fn copy_out_end(&mut self) {}
}

/// Runs a query string. Returns rows and errors as lines.
pub(crate) fn run(session: &mut Session, sql: &str) -> String {
    answer(session, sql, false)
}

/// Does the same as [`run`], with tags and notices too.
#[allow(dead_code, reason = "not every test asks for them")]
pub(crate) fn run_told(session: &mut Session, sql: &str) -> String {
    answer(session, sql, true)
}

fn answer(session: &mut Session, sql: &str, told: bool) -> String {
    // The data of a COPY follows the statement.
    let copies = sql.get(..5).is_some_and(|word| word.eq_ignore_ascii_case("copy "));
    let (sql, data) = sql.split_once('\n').filter(|_| copies).unwrap_or((sql, ""));
    let copy = format!("{data}\n").into_bytes();
    let mut lines = Lines { text: session.text_settings().clone(), told, copy, ..Lines::default() };
    if let Err(error) = session.simple_query(sql, &mut lines) {
        session.error();
        if let Some(from) = lines.whole_from {
            lines.lines.truncate(from);
        }
        lines.lines.push(format!("error {}: {}", error.sqlstate, error.message));
        let fields = [
            ("detail", &error.detail),
            ("hint", &error.hint),
            ("schema", &error.schema),
            ("table", &error.table),
            ("column", &error.column),
            ("datatype", &error.data_type),
            ("constraint", &error.constraint),
        ];
        for (name, value) in fields {
            if let Some(value) = value {
                lines.lines.push(format!("{name}: {value}"));
            }
        }
    }
    lines.lines.join("\n")
}
