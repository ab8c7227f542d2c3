//! Messages of clients: statements prepared, bound and run, and utility statements.

pub(crate) mod copy;
pub(crate) mod copy_file;
pub(crate) mod copy_filter;
pub(crate) mod copy_lines;
pub(crate) mod cursor;
pub(crate) mod custom_plans;
pub(crate) mod databases;
pub(crate) mod extended;
pub(crate) mod maintain;
pub(crate) mod notify;
pub(crate) mod portal_rows;
pub(crate) mod prepared;
pub(crate) mod simple;
pub(crate) mod utility;
