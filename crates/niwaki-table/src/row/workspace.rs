//! Reusable buffers of a session, so that writing a row allocates nothing once warm.

use std::cell::RefCell;

use niwaki_storage::Tid;
use niwaki_types::ValuePointer;

use crate::entry::dead_entries::OwnChurn;
use crate::row::deferred::DeferredKey;

/// Buffers that operations on any table reuse. One per session.
#[derive(Debug, Default)]
pub struct Workspace {
    /// Stored form of a row.
    pub(crate) row: Vec<u8>,
    /// The positions of the large values of the row formed last, with their columns.
    pub(crate) values: Vec<(usize, ValuePointer)>,
    /// An index key.
    pub(crate) key: Vec<u8>,
    /// The key it replaces.
    pub(crate) old_key: Vec<u8>,
    /// An INCLUDE payload.
    pub(crate) payload: Vec<u8>,
    /// Addresses of the rows of a multi-insert.
    pub(crate) tids: Vec<Tid>,
    /// Keys of deferrable indexes that may be duplicates.
    pub(crate) deferred: Vec<DeferredKey>,
    /// Index leaves that the operation split for lack of room that only an old snapshot kept.
    pub(crate) held_splits: u32,
    /// The failed tries to free room on leaves.
    pub(crate) churn: RefCell<OwnChurn>,
}

impl Workspace {
    /// Takes the keys of deferrable indexes that may be duplicates, from statements since the last
    /// call. They are checked when their constraints say so, or forgotten when the statement is
    /// rolled back.
    pub fn take_deferred(&mut self) -> Vec<DeferredKey> {
        std::mem::take(&mut self.deferred)
    }

    /// Makes empty buffers.
    pub fn new() -> Self {
        Self::default()
    }
}
