//! The lock of the directory may be lost: somebody removes the lock file, or the whole directory. Then
//! another process may get in, so this one logs nothing any more.

use crate::error::{Error, Result};
use crate::storage::Storage;

impl Storage {
    /// `tell` hears once, and why, when the lock of the directory is lost: changes and checkpoints fail
    /// from then on. A server ends its process.
    pub fn when_lost(&self, tell: impl Fn(&str) + Send + Sync + 'static) {
        *self.when_lost.lock() = Some(Box::new(tell));
    }

    /// Looks whether the directory's lock is still this process's; the checkpointer does so each
    /// second, and each checkpoint before it begins.
    ///
    /// # Errors
    /// [`Error::Refused`] when it is not, now and from then on.
    pub fn check_lock(&self) -> Result<()> {
        let lock = self.lock.lock();
        // A shutdown has given it back; and what cannot be looked at now is looked at later.
        let held = lock.as_ref().is_none_or(|lock| lock.is_held().unwrap_or(true));
        drop(lock);
        if held || self.wal.segments.is_lost() {
            return self.wal.segments.refuse_lost();
        }
        self.wal.segments.lose();
        let lost = self.wal.segments.refuse_lost();
        if let (Err(Error::Refused(why)), Some(tell)) = (&lost, self.when_lost.lock().take()) {
            tell(why);
        }
        lost
    }
}
