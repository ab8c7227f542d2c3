//! `niwaki sql`: runs SQL on a data directory, from an argument, a file, or the keyboard.

use std::fs;
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use niwaki::{ColumnInfo, Datum, ResultSink, RowSink, SqlError, TextSettings};

use crate::DataArguments;
use crate::show;
use crate::table::Table;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    data: DataArguments,
    /// SQL to run; may be repeated, and runs in the order given.
    #[arg(short = 'c', long = "command", value_name = "SQL")]
    commands: Vec<String>,
    /// File of SQL to run after the commands; `-` is standard input.
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    files: Vec<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, String> {
    let database = arguments.data.open()?;
    let mut session = database.session();
    let mut failed = false;
    let mut scripts = arguments.commands.clone();
    for file in &arguments.files {
        let text = if file.as_os_str() == "-" {
            io::read_to_string(io::stdin())
        } else {
            fs::read_to_string(file)
        };
        scripts.push(text.map_err(|error| format!("could not read {}: {error}", file.display()))?);
    }
    if scripts.is_empty() {
        failed |= interactive(&mut session)?;
    }
    for script in &scripts {
        failed |= !execute(&mut session, script);
        if failed {
            break;
        }
    }
    drop(session);
    database.close().map_err(|error| format!("could not close cleanly: {error}"))?;
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Reads statements up to `;` and runs each. Returns true when a statement failed and standard
/// input is no terminal.
fn interactive(session: &mut niwaki::Session) -> Result<bool, String> {
    let terminal = io::stdin().is_terminal();
    if terminal {
        show!(
            stdout,
            "Niwaki {}; end a statement with ;, leave with \\q\n",
            env!("CARGO_PKG_VERSION")
        );
    }
    let mut statement = String::new();
    let mut failed = false;
    for line in prompted(terminal) {
        let line = line.map_err(|error| format!("could not read standard input: {error}"))?;
        if statement.trim().is_empty() && matches!(line.trim(), "\\q" | "exit" | "quit") {
            break;
        }
        statement.push_str(&line);
        statement.push('\n');
        if line.trim_end().ends_with(';') {
            failed |= !execute(session, &statement);
            statement.clear();
        }
    }
    if !statement.trim().is_empty() {
        failed |= !execute(session, &statement);
    }
    Ok(failed && !terminal)
}

/// Iterates over the lines of standard input. In a terminal each line has a prompt.
fn prompted(terminal: bool) -> impl Iterator<Item = io::Result<String>> {
    let prompt = move || {
        if terminal {
            show!(stdout, "niwaki> ");
            let _ = io::stdout().flush();
        }
    };
    prompt();
    io::stdin().lock().lines().inspect(move |_| prompt())
}

/// Runs one script and shows its results. Returns false when the script failed.
fn execute(session: &mut niwaki::Session, sql: &str) -> bool {
    let mut printer = Printer::default();
    match session.simple_query(sql, &mut printer) {
        Ok(()) => true,
        Err(error) => {
            report("ERROR", &error, Some(sql));
            false
        }
    }
}

/// Prints an error or notice as psql does, with its position in the statement.
fn report(severity: &str, error: &SqlError, sql: Option<&str>) {
    show!(stderr, "{severity}:  {}: {}\n", error.sqlstate, error.message);
    if let (Some(sql), Some(position)) = (sql, error.position) {
        // Positions count characters from 1, as on the wire.
        let position = usize::try_from(position).unwrap_or(1).saturating_sub(1);
        let before: String = sql.chars().take(position).collect();
        let number = before.matches('\n').count();
        let column = before.rsplit('\n').next().unwrap_or("").chars().count();
        if let Some(line) = sql.lines().nth(number) {
            let label = format!("LINE {}: ", number + 1);
            show!(stderr, "{label}{line}\n");
            show!(stderr, "{}^\n", " ".repeat(label.len() + column));
        }
    }
    for (label, text) in
        [("DETAIL", &error.detail), ("HINT", &error.hint), ("CONTEXT", &error.context)]
    {
        if let Some(text) = text {
            show!(stderr, "{label}:  {text}\n");
        }
    }
}

/// Collects a result and prints it as an aligned table.
#[derive(Default)]
struct Printer {
    table: Option<(Table, Vec<ColumnInfo>)>,
    settings: TextSettings,
    line: Vec<u8>,
}

impl RowSink for Printer {
    fn row(&mut self, row: &[Datum]) -> Result<(), SqlError> {
        if let Some((table, columns)) = &mut self.table {
            table.row(row.iter().zip(columns.iter()).map(|(value, column)| {
                self.line.clear();
                if !matches!(value, Datum::Null) {
                    niwaki_types::write_text(value, column.oid(), &self.settings, &mut self.line);
                }
                String::from_utf8_lossy(&self.line).into_owned()
            }));
        }
        Ok(())
    }
}

impl ResultSink for Printer {
    fn columns(&mut self, columns: &[ColumnInfo]) -> Result<(), SqlError> {
        let names = columns.iter().map(|column| column.name.clone());
        self.table = Some((Table::new(names), columns.to_vec()));
        Ok(())
    }

    fn complete(&mut self, tag: &str) {
        if let Some((table, _)) = self.table.take() {
            show!(stdout, "{table}");
        } else {
            show!(stdout, "{tag}\n");
        }
    }

    fn empty_query(&mut self) {}

    fn notice(&mut self, notice: &SqlError) {
        report(notice.severity.as_str(), notice, None);
    }

    fn parameter_status(&mut self, _name: &str, _value: &str) {}

    fn text_settings(&mut self, settings: &TextSettings) {
        self.settings = settings.clone();
    }

    fn copy_in(&mut self, _columns: usize) -> Result<(), SqlError> {
        Err(SqlError::new("0A000", "COPY FROM STDIN needs a client connection")
            .with_hint("run \"niwaki serve\" and use psql's \\copy"))
    }

    fn copy_in_data(&mut self, _buffer: &mut Vec<u8>) -> Result<bool, SqlError> {
        Ok(false)
    }

    fn copy_out_begin(&mut self, _columns: usize) -> Result<(), SqlError> {
        Ok(())
    }

    fn copy_out(&mut self, line: &[u8]) -> Result<(), SqlError> {
        io::stdout()
            .write_all(line)
            .map_err(|error| SqlError::new("58030", format!("could not write: {error}")))
    }

    fn copy_out_end(&mut self) {}
}
