//! Scratch memory of a session, so that writing a row allocates nothing once warm.

use niwaki_storage::Tid;

/// Buffers that operations on any table reuse. One per session.
#[derive(Debug, Default)]
pub struct Workspace {
    /// Stored form of a row.
    pub(crate) row: Vec<u8>,
    /// An index key.
    pub(crate) key: Vec<u8>,
    /// The key it replaces.
    pub(crate) old_key: Vec<u8>,
    /// An INCLUDE payload.
    pub(crate) payload: Vec<u8>,
    /// Addresses of the rows of a multi-insert.
    pub(crate) tids: Vec<Tid>,
}

impl Workspace {
    /// Empty buffers.
    pub fn new() -> Self {
        Self::default()
    }
}
