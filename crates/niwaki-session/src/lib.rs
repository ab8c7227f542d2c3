#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

// The wings, lowest first. A wing names only itself and the wings before it in this list.

// What clients receive.
mod result;

// The handle of an open directory.
mod directory;

// The session: its handle, its state, and its transaction.
mod session;

// Queries of a session, and the end of each statement.
mod execution;

// Messages of clients, and utility statements.
mod protocol;

pub use directory::{Directory, Options};
pub use execution::constraints::parts_of;
pub use result::{ExecuteOutcome, ResultFormats, ResultSink};
pub use session::definitions::Definitions;
pub use session::errors::{key_text, of_table};
pub use session::handle::Session;
pub use session::running_query::Running;
pub use session::statement::{Prepared, Statement, statement_of};
pub use session::terminator::Terminator;
pub use session::type_names::{no_modifier, shown_type, shown_with_modifier, type_in_sql};
