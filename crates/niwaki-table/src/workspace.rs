//! Scratch memory of a session, so that writing a row allocates nothing once warm.

use std::cell::RefCell;

use niwaki_storage::Tid;
use niwaki_types::ValuePointer;

use crate::dead_entries::OwnChurn;
use crate::deferred::DeferredKey;

/// Buffers that operations on any table reuse. One per session.
#[derive(Debug, Default)]
pub struct Workspace {
    /// Stored form of a row.
    pub(crate) row: Vec<u8>,
    /// Where the large values of the row that was formed last are, with their columns.
    pub(crate) values: Vec<(usize, ValuePointer)>,
    /// An index key.
    pub(crate) key: Vec<u8>,
    /// The key it replaces.
    pub(crate) old_key: Vec<u8>,
    /// An INCLUDE payload.
    pub(crate) payload: Vec<u8>,
    /// Addresses of the rows of a multi-insert.
    pub(crate) tids: Vec<Tid>,
    /// Keys that may be there twice, of deferrable indexes.
    pub(crate) deferred: Vec<DeferredKey>,
    /// Index leaves that the operation split for want of room that only an old snapshot kept.
    pub(crate) held_splits: u32,
    /// Where room was looked for in vain.
    pub(crate) churn: RefCell<OwnChurn>,
}

impl Workspace {
    /// Keys of deferrable indexes that statements since the last call have made doubtful: to be
    /// checked when their constraints say so, or forgotten when the statement is rolled back.
    pub fn take_deferred(&mut self) -> Vec<DeferredKey> {
        std::mem::take(&mut self.deferred)
    }

    /// Empty buffers.
    pub fn new() -> Self {
        Self::default()
    }
}
