//! Output of a session: the results for its client and their formats.

use std::sync::Arc;

use niwaki_sql::{ColumnInfo, Result, RowSink, SqlError};

/// Outcome of executing a portal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExecuteOutcome {
    /// The statement is done. [`ResultSink::complete`] was called.
    Complete,
    /// The row limit was reached. Executing the portal again continues.
    Suspended,
    /// The portal's statement was empty. [`ResultSink::empty_query`] was called.
    Empty,
}

/// Format codes of a portal's columns: 0 for text, 1 for binary. Any other code is refused with the
/// first row, as in PostgreSQL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResultFormats {
    /// All columns have this code.
    All(i16),
    /// Each column has its own code.
    Each(Arc<[i16]>),
}

impl Default for ResultFormats {
    fn default() -> Self {
        Self::All(0)
    }
}

impl ResultFormats {
    /// Collects the format codes of Bind: none (text), one for all columns, or one for each.
    pub fn of_codes(mut codes: impl Iterator<Item = i16> + Clone) -> Self {
        let each = codes.clone();
        let first = codes.next().unwrap_or(0);
        // Nearly always all codes are equal, and `All` takes no heap memory.
        if codes.all(|code| code == first) { Self::All(first) } else { Self::Each(each.collect()) }
    }

    /// Returns the code of a column, counted from 0.
    #[inline]
    pub fn of(&self, column: usize) -> i16 {
        match self {
            Self::All(code) => *code,
            Self::Each(codes) => codes.get(column).copied().unwrap_or(0),
        }
    }

    /// Checks the codes for rows of `columns` columns.
    ///
    /// # Errors
    /// 22023 for a code that is neither 0 nor 1.
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

/// Receives the results of statements, in the order in which a client must see them. Rows come
/// through [`RowSink::row`], and are valid during the call only.
pub trait ResultSink: RowSink {
    /// Announces rows of this shape. Only simple queries call it; the extended protocol asks
    /// [`Session::portal_columns`](crate::Session::portal_columns).
    ///
    /// # Errors
    /// Any error of the receiver. The statement fails with it.
    fn columns(&mut self, columns: &[ColumnInfo]) -> Result<()>;
    /// As [`ResultSink::columns`], for rows that the client gets in binary form: rows of a BINARY
    /// cursor.
    ///
    /// # Errors
    /// The errors of [`ResultSink::columns`].
    fn binary_columns(&mut self, columns: &[ColumnInfo]) -> Result<()> {
        self.columns(columns)
    }
    /// Announces a statement that should give all its rows or, if it fails, neither rows nor their
    /// description. The receiver may ignore that once it has passed too much on.
    fn whole_or_nothing(&mut self) {}
    /// Ends a statement. `tag` is the text of `CommandComplete`, for instance `INSERT 0 1`.
    fn complete(&mut self, tag: &str);
    /// Ends a query string that held no statement.
    fn empty_query(&mut self);
    /// Passes on a notice or warning.
    fn notice(&mut self, notice: &SqlError);
    /// Passes on a change of a reported setting.
    fn parameter_status(&mut self, name: &str, value: &str);
    /// Sets how values are shown as text from now on (`TimeZone`, `extra_float_digits`, …). The
    /// session calls it before its first rows and after each change.
    fn text_settings(&mut self, settings: &niwaki_types::TextSettings) {
        let _ = settings;
    }
    /// Announces whether the next COPY is in the binary format.
    fn copy_format(&mut self, binary: bool) {
        let _ = binary;
    }
    /// Begins COPY FROM STDIN: asks the client to send data for this many columns.
    ///
    /// # Errors
    /// The receiver cannot deliver COPY data.
    fn copy_in(&mut self, columns: usize) -> Result<()>;
    /// Appends more COPY data to `buffer`. Returns false when the client has sent all data.
    ///
    /// # Errors
    /// The client gave up (57014), or is gone.
    fn copy_in_data(&mut self, buffer: &mut Vec<u8>) -> Result<bool>;
    /// Begins COPY TO STDOUT.
    ///
    /// # Errors
    /// The receiver cannot take COPY data.
    fn copy_out_begin(&mut self, columns: usize) -> Result<()>;
    /// Passes on one line of COPY data, its newline included.
    ///
    /// # Errors
    /// Any error of the receiver. The statement fails with it.
    fn copy_out(&mut self, line: &[u8]) -> Result<()>;
    /// Ends COPY TO STDOUT.
    fn copy_out_end(&mut self);
}
