//! Statements of sessions, long readers and index builds.

pub(crate) mod build;
pub(crate) mod reader;
pub(crate) mod scan;
pub(crate) mod session;
pub(crate) mod unique;
pub(crate) mod update;
