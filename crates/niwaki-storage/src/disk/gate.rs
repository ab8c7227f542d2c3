//! The gate that ends all writing to a data directory: of the log, of pages and of other files.
//!
//! Three events close the gate:
//!
//! - The lock of the directory is lost, because the lock file or the whole directory was removed.
//!   Another process may use the directory then.
//! - A write failed whose effect memory cannot undo and only recovery repairs. The files then stay
//!   as they are until the directory is opened again.
//! - The directory was shut down. A handle that is left would share the directory with its next
//!   user.

use std::sync::{Arc, OnceLock};

use crate::error::{Error, Result};

/// Decides whether this process may write the directory. All writers share one gate, which closes
/// once and stays closed.
///
/// A write that passed the gate may still be under way when the gate closes. The same may happen
/// when the lock is lost. No write begins after the gate has closed. Pages in memory stay readable.
#[derive(Clone, Debug, Default)]
pub struct WriteGate {
    /// The reason why the gate is closed.
    closed: Arc<OnceLock<Error>>,
}

impl WriteGate {
    /// Returns whether writing has ended.
    #[inline]
    pub fn is_closed(&self) -> bool {
        self.closed.get().is_some()
    }

    /// Ends all writing; every later attempt to write gets the error `why`. The first reason stays.
    pub(crate) fn close(&self, why: Error) {
        let _ = self.closed.set(why);
    }

    /// Ends all writing because the database is closed.
    ///
    /// # Errors
    /// The reason why writing had ended already.
    pub(crate) fn seal(&self) -> Result<()> {
        match self.closed.set(Error::Refused("the database is closed".to_owned())) {
            Ok(()) => Ok(()),
            Err(_) => self.pass(),
        }
    }

    /// Checks that writing is allowed; every caller that is about to write calls this first.
    ///
    /// # Errors
    /// The reason why writing has ended.
    #[inline]
    pub fn pass(&self) -> Result<()> {
        self.closed.get().map_or(Ok(()), |why| Err(why.clone()))
    }
}
