//! Where a session sends what a client sees, and in which formats.

use std::sync::Arc;

use niwaki_sql::{ColumnInfo, RowSink, SqlError};

use crate::Result;

/// How executing a portal ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExecuteOutcome {
    /// The statement is done; [`ResultSink::complete`] was called.
    Complete,
    /// The row limit was reached; executing the portal again goes on.
    Suspended,
    /// The portal's statement was empty; [`ResultSink::empty_query`] was called.
    Empty,
}

/// The format codes of a portal's columns: 0 for text, 1 for binary. Any other is refused with the
/// first row, as in PostgreSQL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResultFormats {
    /// All columns have this code.
    All(i16),
    /// Each column has its own.
    Each(Arc<[i16]>),
}

impl Default for ResultFormats {
    fn default() -> Self {
        Self::All(0)
    }
}

impl ResultFormats {
    /// The formats that Bind asks for by no code (text), one for all columns, or one for each.
    pub fn of_codes(mut codes: impl Iterator<Item = i16> + Clone) -> Self {
        let each = codes.clone();
        let first = codes.next().unwrap_or(0);
        // Nearly always the same one, which takes no memory.
        if codes.all(|code| code == first) { Self::All(first) } else { Self::Each(each.collect()) }
    }

    /// The code of a column, counted from 0.
    #[inline]
    pub fn of(&self, column: usize) -> i16 {
        match self {
            Self::All(code) => *code,
            Self::Each(codes) => codes.get(column).copied().unwrap_or(0),
        }
    }

    /// Judges the codes that a row of `columns` columns is sent in.
    ///
    /// # Errors
    /// 22023 for one that is neither 0 nor 1.
    #[inline]
    pub fn check(&self, columns: usize) -> Result<()> {
        let codes: &[i16] = match self {
            Self::All(code) => std::slice::from_ref(code),
            Self::Each(codes) => codes,
        };
        match codes.iter().take(columns).find(|code| !(0..=1).contains(*code)) {
            None => Ok(()),
            Some(code) => Err(SqlError::new("22023", format!("unsupported format code: {code}"))),
        }
    }
}

/// Receives what statements produce, in the order in which a client must see it. Rows come through
/// [`RowSink::row`], valid during the call only.
pub trait ResultSink: RowSink {
    /// Rows of this shape follow. Called by simple queries only; the extended protocol asks
    /// [`crate::Session::portal_columns`].
    ///
    /// # Errors
    /// Whatever the receiver meets; the statement fails with it.
    fn columns(&mut self, columns: &[ColumnInfo]) -> Result<()>;
    /// As [`ResultSink::columns`], of rows that the client gets in binary form: those of a BINARY cursor.
    ///
    /// # Errors
    /// Those of [`ResultSink::columns`].
    fn binary_columns(&mut self, columns: &[ColumnInfo]) -> Result<()> {
        self.columns(columns)
    }
    /// The statement that begins now should give all its rows or, if it fails, neither rows nor their
    /// description. The receiver may ignore that once it has passed too much on.
    fn whole_or_nothing(&mut self) {}
    /// A statement is done; `tag` is the text of CommandComplete, for instance `INSERT 0 1`.
    fn complete(&mut self, tag: &str);
    /// The query string held no statement.
    fn empty_query(&mut self);
    /// A notice or warning.
    fn notice(&mut self, notice: &SqlError);
    /// A reported setting changed.
    fn parameter_status(&mut self, name: &str, value: &str);
    /// How values are to be shown as text from now on (`TimeZone`, `extra_float_digits`, …); called
    /// before the first rows of a session and after each change.
    fn text_settings(&mut self, settings: &niwaki_types::TextSettings) {
        let _ = settings;
    }
    /// Whether the COPY that begins next is in the binary format.
    fn copy_format(&mut self, binary: bool) {
        let _ = binary;
    }
    /// COPY FROM STDIN begins: the client is told to send data for this many columns.
    ///
    /// # Errors
    /// When the receiver cannot deliver COPY data.
    fn copy_in(&mut self, columns: usize) -> Result<()>;
    /// Appends more COPY data to `buffer`; false when the client said that there is no more.
    ///
    /// # Errors
    /// The client gave up (57014), or is gone.
    fn copy_in_data(&mut self, buffer: &mut Vec<u8>) -> Result<bool>;
    /// COPY TO STDOUT begins.
    ///
    /// # Errors
    /// When the receiver cannot take COPY data.
    fn copy_out_begin(&mut self, columns: usize) -> Result<()>;
    /// One line of COPY data, its newline included.
    ///
    /// # Errors
    /// Whatever the receiver meets; the statement fails with it.
    fn copy_out(&mut self, line: &[u8]) -> Result<()>;
    /// COPY TO STDOUT is complete.
    fn copy_out_end(&mut self);
}
