//! What one transaction holds, so that it can give it back.

use std::cell::RefCell;

use super::LockKey;

/// A session's fast-path locks.
#[derive(Debug, Default)]
pub(crate) struct FastSlots;

impl FastSlots {
    pub(crate) fn new() -> Self {
        Self
    }
}

/// Locks of one transaction in the order they were taken.
#[derive(Debug, Default)]
pub(crate) struct HeldLocks {
    pub(crate) queued: RefCell<Vec<(LockKey, u8)>>,
}

/// A place in [`HeldLocks`]: what was taken after it goes when a savepoint is rolled back.
#[derive(Clone, Debug)]
pub(crate) struct LockMark {
    pub(crate) queued: usize,
}

impl HeldLocks {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn mark(&self) -> LockMark {
        LockMark { queued: self.queued.borrow().len() }
    }
}
