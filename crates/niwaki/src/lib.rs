#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod activity;
mod api;
mod autovacuum;
mod background_tasks;
mod check;
mod database;
mod databases;
mod gardener;
mod helpers;
mod index_counters;
mod log;
mod maintenance;
mod memory;
mod notifications;
mod open_database;
mod progress;
mod read_ahead;
mod result;
mod session;
mod snapshots;
mod statistics;
mod system;
mod table_counters;
mod vacuum_options;

pub use api::{
    FromValue, Params, PreparedQuery, Query, QuerySource, Row, Rows, ToValue, Transaction,
};
pub use autovacuum::AutovacuumReport;
pub use check::{CheckReport, Violation};
pub use database::{Database, Options};
pub use niwaki_sql::{ColumnInfo, ErrorFields, RowSink, Severity, SqlError};
pub use niwaki_txn::SessionControl;
pub use niwaki_types::{ColumnType, Datum, TextSettings, TypeOid};
pub use notifications::Notification;
pub use result::{ExecuteOutcome, ResultFormats, ResultSink};
pub use session::{Prepared, Session, Terminator};
pub use system::type_length;

/// Result of the functions of this crate.
pub type Result<T> = std::result::Result<T, SqlError>;
