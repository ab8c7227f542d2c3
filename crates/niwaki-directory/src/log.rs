//! Receiver of a database's unrequested reports: its background work and the failures of that work.

use std::fmt;
use std::sync::Arc;

type Write = dyn Fn(&str) + Send + Sync;

/// A receiver of text lines. By default there is none.
#[derive(Clone, Default)]
pub struct Log(Option<Arc<Write>>);

impl Log {
    /// Creates a log that passes each line to `write`, without an end of line.
    pub fn new(write: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(write)))
    }

    /// Writes a line.
    pub fn write(&self, line: &str) {
        if let Some(write) = &self.0 {
            write(line);
        }
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Log").field(&self.0.is_some()).finish()
    }
}
