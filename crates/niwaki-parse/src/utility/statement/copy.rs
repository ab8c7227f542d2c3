//! COPY and its options.

use super::Name;
use crate::tree::SyntaxTree;

/// The direction of COPY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyDirection {
    /// COPY … FROM: reads data.
    From,
    /// COPY … TO: writes data.
    To,
}

/// The source of COPY.
#[derive(Clone, Debug, PartialEq)]
pub enum CopySource {
    /// A table.
    Table {
        /// Name.
        name: Name,
        /// Columns; empty for all.
        columns: Vec<String>,
    },
    /// The rows of a query.
    Query(SyntaxTree),
}

/// Format options of COPY.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyOptions {
    /// Delimiter between columns; one byte.
    pub delimiter: u8,
    /// The representation of NULL.
    pub null: String,
    /// True if the first line has the column names.
    pub header: bool,
    /// FREEZE
    pub freeze: bool,
    /// The options of the CSV format, if that is the format.
    pub csv: Option<Csv>,
    /// True for the binary format.
    pub binary: bool,
}

impl Default for CopyOptions {
    fn default() -> Self {
        let (delimiter, null) = (b'\t', "\\N".to_owned());
        Self { delimiter, null, header: false, freeze: false, csv: None, binary: false }
    }
}

/// Options of COPY's CSV format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Csv {
    /// Quote around values; one byte.
    pub quote: u8,
    /// Escape before quotes and before itself, inside quotes; one byte.
    pub escape: u8,
    /// Columns whose values are always quoted.
    pub force_quote: ColumnChoice,
    /// Columns in which the NULL representation is an ordinary value.
    pub force_not_null: Vec<String>,
    /// Columns in which even the quoted NULL representation is NULL.
    pub force_null: Vec<String>,
}

/// All columns, or some.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ColumnChoice {
    /// `*`
    All,
    /// The named columns.
    Named(Vec<String>),
}

/// COPY
#[derive(Clone, Debug, PartialEq)]
pub struct Copy {
    /// Table or query.
    pub source: CopySource,
    /// Direction.
    pub direction: CopyDirection,
    /// A file on the server, instead of STDIN or STDOUT.
    pub file: Option<String>,
    /// Format.
    pub options: CopyOptions,
    /// WHERE of COPY FROM, as SQL text.
    pub condition: Option<String>,
}
