//! The running command: its beginning, its tag, and its warnings.

use niwaki_sql::SqlError;

/// State of the command that runs, or ran last.
#[derive(Default)]
pub(crate) struct Command {
    /// Start of the running statement, in microseconds since 1970.
    started_us: i64,
    /// Command tag of the last statement.
    tag: String,
    /// Warnings from functions of the running statement.
    warnings: Vec<SqlError>,
    /// Set while the session runs a statement of its own, over texts of the catalog.
    stored_text: bool,
}

impl Command {
    /// Begins a statement, at this time in microseconds since 1970.
    pub(crate) fn begin(&mut self, now_us: i64) {
        self.started_us = now_us;
    }

    /// Returns the start of the statement, in microseconds since 1970. It is 0 before the first.
    pub(crate) fn started_us(&self) -> i64 {
        self.started_us
    }

    /// Returns the command tag.
    pub(crate) fn tag(&self) -> &str {
        &self.tag
    }

    /// Returns the command tag, to write it.
    pub(crate) fn tag_mut(&mut self) -> &mut String {
        &mut self.tag
    }

    /// Sets the command tag.
    pub(crate) fn set_tag(&mut self, tag: &str) {
        self.tag.clear();
        self.tag.push_str(tag);
    }

    /// Returns the warnings of functions.
    pub(crate) fn warnings_mut(&mut self) -> &mut Vec<SqlError> {
        &mut self.warnings
    }

    /// Takes the warnings of functions.
    pub(crate) fn take_warnings(&mut self) -> Vec<SqlError> {
        std::mem::take(&mut self.warnings)
    }

    /// Returns whether the analyzed texts come from the catalog.
    pub(crate) fn has_stored_text(&self) -> bool {
        self.stored_text
    }

    /// Sets whether the analyzed texts come from the catalog. Returns the former value.
    pub(crate) fn set_stored_text(&mut self, stored: bool) -> bool {
        std::mem::replace(&mut self.stored_text, stored)
    }
}
