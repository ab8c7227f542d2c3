//! Ends a session from another thread.

use niwaki_sql::Result;
use niwaki_txn::SessionControl;

/// Handle that ends a session from another thread.
#[derive(Clone, Debug)]
pub struct Terminator {
    pub(crate) control: std::sync::Weak<SessionControl>,
}

impl Terminator {
    /// Asks the session to end (57P01). The running statement is interrupted.
    pub fn terminate(&self) {
        if let Some(control) = self.control.upgrade() {
            control.terminate();
        }
    }

    /// Returns whether the session was asked to end, or has ended.
    pub fn is_terminated(&self) -> bool {
        self.control.upgrade().is_none_or(|control| control.is_terminated())
    }

    /// Checks whether the session should stop waiting for its client in the middle of a statement.
    ///
    /// # Errors
    /// 57014 when the statement is cancelled or out of time, 57P01 when the session is to end.
    pub fn interrupted(&self) -> Result<()> {
        match self.control.upgrade() {
            Some(control) => Ok(control.interrupted().map_err(niwaki_txn::Error::from)?),
            None => Err(niwaki_txn::Error::Terminated.into()),
        }
    }
}
