//! COPY with a file on the server: a sink that has the COPY data in the file and passes everything
//! else to the client.

use std::io::{self, ErrorKind, Read, Write};
use std::path::Path;

use niwaki_env::outside;
use niwaki_sql::{ColumnInfo, Result, RowSink, SqlError};
use niwaki_types::Datum;

use crate::result::ResultSink;

/// Bytes that one read takes from the file at most.
const CHUNK: u64 = 64 * 1024;

enum State {
    /// Before the checks of the table, which come first.
    NotOpen,
    Reading(Box<dyn Read>),
    Writing(Box<dyn Write>),
}

/// Sink for COPY with a file, which has an absolute name.
pub(crate) struct CopyFile<'o> {
    name: &'o str,
    state: State,
    out: &'o mut dyn ResultSink,
}

impl<'o> CopyFile<'o> {
    /// Makes a sink. The file is opened later.
    ///
    /// # Errors
    /// 42602 for a relative name, because a client cannot know the server's directory.
    pub(crate) fn new(name: &'o str, is_from: bool, out: &'o mut dyn ResultSink) -> Result<Self> {
        if !Path::new(name).is_absolute() {
            let way = if is_from { "from" } else { "to" };
            let message = format!("relative path not allowed for COPY {way} file");
            return Err(SqlError::new("42602", message));
        }
        Ok(Self { name, state: State::NotOpen, out })
    }

    /// Flushes the file, after everything was copied.
    ///
    /// # Errors
    /// The last bytes did not reach the file.
    pub(crate) fn finish(&mut self) -> Result<()> {
        let State::Writing(file) = &mut self.state else { return Ok(()) };
        file.flush().map_err(|error| failed(&error, "write to COPY file"))
    }

    fn not_open(&self, error: &io::Error, way: &str) -> SqlError {
        let name = self.name;
        if error.kind() == ErrorKind::IsADirectory {
            return SqlError::new("42809", format!("\"{name}\" is a directory"));
        }
        let failed = failed(error, &format!("open file \"{name}\" for {way}"));
        match error.kind() {
            ErrorKind::NotFound | ErrorKind::PermissionDenied => failed.with_hint(
                "The file is one of the server's. psql's \\copy has those of the client's machine.",
            ),
            _ => failed,
        }
    }
}

fn failed(error: &io::Error, what: &str) -> SqlError {
    let sqlstate = match error.kind() {
        ErrorKind::NotFound => "58P01",
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => "42501",
        ErrorKind::NotADirectory | ErrorKind::IsADirectory => "42809",
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "53100",
        _ => "58030",
    };
    let shown = error.to_string();
    let cause = shown.split(" (os error").next().unwrap_or_default();
    SqlError::new(sqlstate, format!("could not {what}: {cause}"))
}

impl RowSink for CopyFile<'_> {
    fn row(&mut self, row: &[Datum]) -> Result<()> {
        self.out.row(row)
    }
}

impl ResultSink for CopyFile<'_> {
    fn columns(&mut self, columns: &[ColumnInfo]) -> Result<()> {
        self.out.columns(columns)
    }

    fn complete(&mut self, tag: &str) {
        self.out.complete(tag);
    }

    fn empty_query(&mut self) {
        self.out.empty_query();
    }

    fn notice(&mut self, notice: &SqlError) {
        self.out.notice(notice);
    }

    fn parameter_status(&mut self, name: &str, value: &str) {
        self.out.parameter_status(name, value);
    }

    fn copy_in(&mut self, _columns: usize) -> Result<()> {
        let file = outside::open_to_read(Path::new(self.name));
        self.state = State::Reading(file.map_err(|error| self.not_open(&error, "reading"))?);
        Ok(())
    }

    fn copy_in_data(&mut self, buffer: &mut Vec<u8>) -> Result<bool> {
        let State::Reading(file) = &mut self.state else { return Ok(false) };
        let read = file.take(CHUNK).read_to_end(buffer);
        Ok(read.map_err(|error| failed(&error, "read from COPY file"))? > 0)
    }

    fn copy_out_begin(&mut self, _columns: usize) -> Result<()> {
        let file = outside::open_to_write(Path::new(self.name));
        self.state = State::Writing(file.map_err(|error| self.not_open(&error, "writing"))?);
        Ok(())
    }

    fn copy_out(&mut self, line: &[u8]) -> Result<()> {
        let State::Writing(file) = &mut self.state else { return Ok(()) };
        file.write_all(line).map_err(|error| failed(&error, "write to COPY file"))
    }

    fn copy_out_end(&mut self) {}
}
