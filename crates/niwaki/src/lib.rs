#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

// The wings, lowest first. A wing names only itself and the wings before it in this list.

// What clients receive.
mod result;

// The handle of an open directory.
mod database;

// The session: its handle, its state, and its transaction.
mod session;

// Queries of a session, and the end of each statement.
mod execution;

// Data definition statements.
mod ddl;

// Messages of clients, and utility statements.
mod protocol;

// `niwaki check`.
mod check;

// The interface for programs.
mod api;

pub use api::{
    FromValue, Params, PreparedQuery, Query, QuerySource, Row, Rows, ToValue, Transaction,
};
pub use check::visit::{CheckReport, Violation};
pub use database::{Database, Options};
pub use niwaki_background::autovacuum::work::AutovacuumReport;
pub use niwaki_directory::notifications::Notification;
pub use niwaki_sql::{ColumnInfo, ErrorFields, RowSink, Severity, SqlError};
pub use niwaki_system::catalogs::type_length;
pub use niwaki_txn::SessionControl;
pub use niwaki_types::{ColumnType, Datum, TextSettings, TypeOid};
pub use result::{ExecuteOutcome, ResultFormats, ResultSink};
pub use session::handle::Session;
pub use session::statement::Prepared;
pub use session::terminator::Terminator;

/// Result of the functions of this crate.
pub type Result<T> = std::result::Result<T, SqlError>;
