//! The beginning of time: 1970 in Unix, 2000 in PostgreSQL.

/// Microseconds between 1970 and 2000.
pub(crate) const UNIX_TO_POSTGRES_US: i64 = 946_684_800_000_000;
