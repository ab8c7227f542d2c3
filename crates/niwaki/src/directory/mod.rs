//! The open databases of a directory, and what their sessions share.

pub(crate) mod databases;
pub(crate) mod helpers;
pub(crate) mod log;
pub(crate) mod notifications;
pub(crate) mod open_database;
