//! COPY with a file of the server's: a sink whose COPY data are the file's, and all else the client's.

use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, Read, Write};
use std::path::Path;

use niwaki_sql::{ColumnInfo, RowSink, SqlError};
use niwaki_types::Datum;

use crate::Result;
use crate::result::ResultSink;

/// So much is read at once.
const CHUNK: u64 = 64 * 1024;

enum State {
    /// Whether the table is there and may be copied is asked first.
    NotOpen,
    Reading(File),
    Writing(BufWriter<File>),
}

/// The file, by its absolute name.
pub(super) struct CopyFile<'o> {
    name: &'o str,
    state: State,
    out: &'o mut dyn ResultSink,
}

impl<'o> CopyFile<'o> {
    /// # Errors
    /// 42602 for a relative name: what it would be relative to, a client cannot know.
    pub(super) fn new(name: &'o str, is_from: bool, out: &'o mut dyn ResultSink) -> Result<Self> {
        if !Path::new(name).is_absolute() {
            let way = if is_from { "from" } else { "to" };
            let message = format!("relative path not allowed for COPY {way} file");
            return Err(SqlError::new("42602", message));
        }
        Ok(Self { name, state: State::NotOpen, out })
    }

    /// Everything was copied.
    ///
    /// # Errors
    /// What was written last did not reach the file.
    pub(super) fn finish(&mut self) -> Result<()> {
        let State::Writing(file) = &mut self.state else { return Ok(()) };
        file.flush().map_err(|error| failed(&error, "write to COPY file", ""))
    }

    fn open(&self, options: &std::fs::OpenOptions, way: &str) -> Result<File> {
        let name = self.name;
        if Path::new(name).is_dir() {
            return Err(SqlError::new("42809", format!("\"{name}\" is a directory")));
        }
        options.open(name).map_err(|error| {
            let failed = failed(&error, &format!("open file \"{name}\""), way);
            match error.kind() {
                ErrorKind::NotFound | ErrorKind::PermissionDenied => failed.with_hint(
                    "The file is one of the server's. psql's \\copy has those of the client's machine.",
                ),
                _ => failed,
            }
        })
    }
}

fn failed(error: &io::Error, what: &str, way: &str) -> SqlError {
    let sqlstate = match error.kind() {
        ErrorKind::NotFound => "58P01",
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => "42501",
        ErrorKind::NotADirectory | ErrorKind::IsADirectory => "42809",
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "53100",
        _ => "58030",
    };
    let shown = error.to_string();
    let cause = shown.split(" (os error").next().unwrap_or_default();
    SqlError::new(sqlstate, format!("could not {what}{way}: {cause}"))
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
        let file = self.open(std::fs::OpenOptions::new().read(true), " for reading")?;
        self.state = State::Reading(file);
        Ok(())
    }

    fn copy_in_data(&mut self, buffer: &mut Vec<u8>) -> Result<bool> {
        let State::Reading(file) = &self.state else { return Ok(false) };
        let read = file.take(CHUNK).read_to_end(buffer);
        Ok(read.map_err(|error| failed(&error, "read from COPY file", ""))? > 0)
    }

    fn copy_out_begin(&mut self, _columns: usize) -> Result<()> {
        let mut options = std::fs::OpenOptions::new();
        let file = self.open(options.write(true).create(true).truncate(true), " for writing")?;
        self.state = State::Writing(BufWriter::new(file));
        Ok(())
    }

    fn copy_out(&mut self, line: &[u8]) -> Result<()> {
        let State::Writing(file) = &mut self.state else { return Ok(()) };
        file.write_all(line).map_err(|error| failed(&error, "write to COPY file", ""))
    }

    fn copy_out_end(&mut self) {}
}
