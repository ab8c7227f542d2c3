//! A latched page, as the log sees it.

use std::fmt;

use super::frame::Frame;
use crate::ids::PageId;
use crate::page::Page;

/// Access to an exclusively latched page for logging.
pub(crate) struct LogTarget<'a> {
    pub(crate) page: &'a mut Page,
    pub(crate) changed: &'a mut bool,
    pub(crate) frame: &'a Frame,
}

impl LogTarget<'_> {
    #[inline]
    pub(crate) fn id(&self) -> PageId {
        self.frame.tag().id()
    }

    #[inline]
    pub(crate) fn mark_dirty(&self) {
        self.frame.mark_dirty();
    }

    /// Notes that the change is logged or marked.
    #[inline]
    pub(crate) fn settle(&mut self) {
        *self.changed = false;
    }
}

impl fmt::Debug for LogTarget<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LogTarget({})", self.id())
    }
}
