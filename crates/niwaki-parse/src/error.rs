//! The error type of the SQL layer, with all fields that a client receives.
//!
//! The conversions below assign SQLSTATEs to the errors of the lower layers.

use std::fmt;
use std::ops::{Deref, DerefMut};

use niwaki_settings::settings::SettingError;

/// The severity of a report, with PostgreSQL's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The statement failed; its transaction is aborted.
    Error,
    /// The session ends.
    Fatal,
    /// The server ends.
    Panic,
    /// The statement continues; something is suspicious.
    Warning,
    /// The statement continues; something is worth knowing.
    Notice,
    /// Output that the statement was asked for (VERBOSE). No setting suppresses it.
    Info,
}

impl Severity {
    /// Returns the word for the fields `S` and `V` of a protocol message.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "ERROR",
            Self::Fatal => "FATAL",
            Self::Panic => "PANIC",
            Self::Warning => "WARNING",
            Self::Notice => "NOTICE",
            Self::Info => "INFO",
        }
    }
}

/// The fields of an error or a notice, as in PostgreSQL's protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorFields {
    /// The severity.
    pub severity: Severity,
    /// The SQLSTATE: five characters, for instance `42P01`.
    pub sqlstate: &'static str,
    /// The message: one line, lower case, without a full stop.
    pub message: String,
    /// Details of this case.
    pub detail: Option<String>,
    /// Advice on solving the problem.
    pub hint: Option<String>,
    /// Position in the query text, in characters, from 1.
    pub position: Option<u32>,
    /// The place of the error, for instance `COPY t, line 3, column a: "x"`.
    pub context: Option<String>,
    /// Schema of the object concerned.
    pub schema: Option<String>,
    /// Table concerned.
    pub table: Option<String>,
    /// Column concerned.
    pub column: Option<String>,
    /// Data type concerned.
    pub data_type: Option<String>,
    /// Constraint concerned.
    pub constraint: Option<String>,
}

/// An error that a client receives. It is one pointer wide, so that results on hot paths stay
/// small.
#[derive(Clone, PartialEq, Eq)]
pub struct SqlError(Box<ErrorFields>);

/// The result type of the SQL layer.
pub type Result<T> = std::result::Result<T, SqlError>;

impl SqlError {
    /// Creates an error with SQLSTATE and message. The `with_` methods add the other fields.
    #[cold]
    pub fn new(sqlstate: &'static str, message: impl Into<String>) -> Self {
        Self(Box::new(ErrorFields {
            severity: Severity::Error,
            sqlstate,
            message: message.into(),
            detail: None,
            hint: None,
            position: None,
            context: None,
            schema: None,
            table: None,
            column: None,
            data_type: None,
            constraint: None,
        }))
    }

    /// Creates `0A000`, for a construct that Niwaki lacks.
    #[cold]
    pub fn unsupported(construct: impl fmt::Display) -> Self {
        Self::new("0A000", format!("{construct} is not supported yet"))
    }

    /// Creates `3F000`: there is no schema of this name.
    #[cold]
    pub fn undefined_schema(name: impl fmt::Display) -> Self {
        Self::new("3F000", format!("schema \"{name}\" does not exist"))
    }

    /// Creates `XX000`: an impossible state, reported instead of a panic.
    #[cold]
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new("XX000", message)
    }

    /// Adds the detail line.
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.0.detail = Some(detail.into());
        self
    }

    /// Adds the hint line.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// Adds a position, in characters from 1, unless there is one.
    #[must_use]
    pub fn with_position(mut self, position: Option<u32>) -> Self {
        if self.0.position.is_none() {
            self.0.position = position;
        }
        self
    }

    /// Adds the place of the error, unless it is known.
    #[must_use]
    pub fn with_context(mut self, context: impl Into<String>) -> Self {
        if self.0.context.is_none() {
            self.0.context = Some(context.into());
        }
        self
    }

    /// Adds the place of the error, on a line after the known places.
    #[must_use]
    pub fn within_context(mut self, context: impl AsRef<str>) -> Self {
        let known = self.0.context.get_or_insert_default();
        if !known.is_empty() {
            known.push('\n');
        }
        known.push_str(context.as_ref());
        self
    }

    /// Changes the severity.
    #[must_use]
    pub fn with_severity(mut self, severity: Severity) -> Self {
        self.0.severity = severity;
        self
    }

    /// Names the table concerned.
    #[must_use]
    pub fn with_table(mut self, schema: impl Into<String>, table: impl Into<String>) -> Self {
        self.0.schema = Some(schema.into());
        self.0.table = Some(table.into());
        self
    }

    /// Names the column concerned.
    #[must_use]
    pub fn with_column(mut self, column: impl Into<String>) -> Self {
        self.0.column = Some(column.into());
        self
    }

    /// Names the data type concerned.
    #[must_use]
    pub fn with_data_type(mut self, schema: impl Into<String>, name: impl Into<String>) -> Self {
        self.0.schema = Some(schema.into());
        self.0.data_type = Some(name.into());
        self
    }

    /// Names the constraint concerned.
    #[must_use]
    pub fn with_constraint(mut self, constraint: impl Into<String>) -> Self {
        self.0.constraint = Some(constraint.into());
        self
    }
}

impl Deref for SqlError {
    type Target = ErrorFields;
    fn deref(&self) -> &ErrorFields {
        &self.0
    }
}

impl DerefMut for SqlError {
    fn deref_mut(&mut self) -> &mut ErrorFields {
        &mut self.0
    }
}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.severity.as_str(), self.message)
    }
}

impl fmt::Debug for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl std::error::Error for SqlError {}

impl From<SettingError> for SqlError {
    fn from(error: SettingError) -> Self {
        let mut result = Self::new(error.sqlstate, error.message);
        if let Some(detail) = error.detail {
            result = result.with_detail(detail);
        }
        match error.hint {
            Some(hint) => result.with_hint(hint),
            None => result,
        }
    }
}

impl From<niwaki_types::TypeError> for SqlError {
    fn from(error: niwaki_types::TypeError) -> Self {
        let mut result = Self::new(error.sqlstate, error.message);
        result.detail = error.detail;
        result.hint = error.hint.map(str::to_owned);
        result.context = error.context.map(String::from);
        result
    }
}

impl From<niwaki_env::stack::TooDeep> for SqlError {
    #[cold]
    fn from(_: niwaki_env::stack::TooDeep) -> Self {
        Self::new("54001", "stack depth limit exceeded")
            .with_hint("Write it with fewer levels: what stands in one another takes stack.")
    }
}

impl From<niwaki_env::memory::Full> for SqlError {
    #[cold]
    fn from(full: niwaki_env::memory::Full) -> Self {
        niwaki_types::TypeError::from(full).into()
    }
}

impl From<niwaki_storage::Error> for SqlError {
    fn from(error: niwaki_storage::Error) -> Self {
        use niwaki_storage::Error as E;
        let sqlstate = match &error {
            E::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => "58P01",
            E::Io { .. } => "58030",
            E::DiskFull { .. } => "53100",
            // B1 to B3 are the invariants of indexes: REINDEX is the remedy.
            E::Corruption(damage) if matches!(damage.invariant, "B1" | "B2" | "B3") => "XX002",
            E::Corruption(_) => "XX001",
            E::NoBuffers => "53000",
            E::Refused(_) => "55000",
        };
        Self::new(sqlstate, error.to_string())
    }
}

impl From<niwaki_catalog::Error> for SqlError {
    fn from(error: niwaki_catalog::Error) -> Self {
        use niwaki_catalog::Error as E;
        let sqlstate = match &error {
            E::Undefined { kind: "schema", .. } => "3F000",
            E::Undefined { kind: "relation" | "table" | "view" | "sequence", .. } => "42P01",
            E::Undefined { .. } => "42704",
            E::Duplicate { kind: "schema", .. } => "42P06",
            E::Duplicate { kind: "constraint", .. } => "42710",
            E::Duplicate { kind: "database", .. } => "42P04",
            E::Duplicate { .. } => "42P07",
            E::Damaged { .. } => "XX001",
            E::ConcurrentChange { .. } => "XX000",
            E::Unsupported { what } => return Self::unsupported(what),
            E::Table(inner) => return inner.clone().into(),
            E::Transaction(inner) => return inner.clone().into(),
            E::Storage(inner) => return inner.clone().into(),
        };
        Self::new(sqlstate, error.to_string())
    }
}

impl From<niwaki_txn::Error> for SqlError {
    fn from(error: niwaki_txn::Error) -> Self {
        use niwaki_txn::Error as E;
        let sqlstate = match &error {
            E::Deadlock { .. } => "40P01",
            E::LockTimeout | E::LockNotAvailable { .. } => "55P03",
            E::StatementTimeout | E::Cancelled => "57014",
            E::Terminated => "57P01",
            E::SerializationFailure { .. } => "40001",
            E::SerializableUnsupported => "0A000",
            E::ReadOnly => "25006",
            E::NoSuchSavepoint(_) => "3B001",
            E::TooManyCommands => "54000",
            E::OutOfMemory { .. } | E::TooManyRowLocks { .. } => "53200",
            E::TooManySessions => "53300",
            E::ShuttingDown => "57P03",
            E::StillInUse { .. } => "55006",
            E::Storage(inner) => return inner.clone().into(),
        };
        let result = Self::new(sqlstate, error.to_string());
        match error {
            E::Deadlock { detail } => {
                result.with_detail(detail).with_hint("See server log for query details.")
            }
            E::Terminated | E::ShuttingDown => result.with_severity(Severity::Fatal),
            E::TooManyRowLocks { most } => result.with_hint(format!(
                "Increase max_row_locks (now {most}), or share fewer rows in one transaction."
            )),
            E::StillInUse { .. } => result.with_hint(
                "end their transactions and close it again, or drop all handles and sessions",
            ),
            _ => result,
        }
    }
}

impl From<niwaki_table::Error> for SqlError {
    fn from(error: niwaki_table::Error) -> Self {
        use niwaki_table::Error as E;
        let sqlstate = match &error {
            E::Storage(inner) => return inner.clone().into(),
            E::Transaction(inner) => return inner.clone().into(),
            E::Type(inner) => return inner.clone().into(),
            // This layer created the expression, so the error is one of this layer.
            E::Expression(inner) => {
                return inner
                    .downcast_ref::<Self>()
                    .cloned()
                    .unwrap_or_else(|| Self::internal(inner.to_string()));
            }
            E::RowTooBig { .. } | E::ValueTooBig { .. } | E::KeyTooBig { .. } | E::Limit(_) => {
                "54000"
            }
            E::TempFileLimit { .. } => "53400",
            E::UniqueViolation(_) => "23505",
            E::RowNotAvailable { .. } => "55P03",
            E::RowMoved => "40001",
            E::SequenceLimit { .. } => "2200H",
        };
        Self::new(sqlstate, error.to_string())
    }
}
