#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

// The modules, lowest first. A module names only the modules before it in this list.

// An open database.
mod database;

// A session of a database.
mod session;

// The methods of a session that a server calls, message by message.
mod protocol;

// The interface for programs.
mod api;

// `niwaki check`.
mod check;

pub use api::{
    FromValue, Params, PreparedQuery, Query, QuerySource, Row, Rows, ToValue, Transaction,
};
pub use check::visit::{CheckReport, Violation};
pub use database::Database;
pub use niwaki_background::autovacuum::work::AutovacuumReport;
pub use niwaki_directory::notifications::Notification;
pub use niwaki_session::{
    ExecuteOutcome, Options, Prepared, ResultFormats, ResultSink, Terminator,
};
pub use niwaki_sql::{ColumnInfo, ErrorFields, RowSink, Severity, SqlError};
pub use niwaki_system::catalogs::type_length;
pub use niwaki_txn::SessionControl;
pub use niwaki_types::{ColumnType, Datum, TextSettings, TypeOid};
pub use session::Session;

/// Result of the functions of this crate.
pub type Result<T> = std::result::Result<T, SqlError>;
