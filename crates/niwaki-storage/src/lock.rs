//! The lock of the directory may be lost: somebody removes the lock file, or the whole directory. Then
//! another process may get in, so this one writes nothing any more.

use crate::error::{Error, Result};
use crate::recovery::LOCK;
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
        // What cannot be looked at now is looked at later.
        if self.wal.segments.is_lost() || self.env.vfs.holds_lock(LOCK).unwrap_or(true) {
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
