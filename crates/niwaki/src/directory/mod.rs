//! The open databases of a directory, and what their sessions share.
//!
//! - `log`: the receiver of lines about background work.
//! - `helpers`: the limit of parallel workers.
//! - `notifications`: messages between the sessions of a database.
//! - `open_database`: an open database with its connected sessions.
//! - `databases`: all databases of the directory.

pub(crate) mod databases;
pub(crate) mod helpers;
pub(crate) mod log;
pub(crate) mod notifications;
pub(crate) mod open_database;
