//! Row locks in memory.

use std::collections::BTreeMap;

use crate::state::heap::{Row, Tid};
use crate::state::transactions::Xid;

/// A lock in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    /// The (sub)transaction that holds it.
    pub(crate) xid: Xid,
    /// The row that was meant.
    pub(crate) row: Row,
    /// FOR UPDATE.
    pub(crate) exclusive: bool,
}

/// Locks in memory, by root and incarnation.
#[derive(Clone, Debug, Default)]
pub(crate) struct RowLocks {
    pub(crate) held: BTreeMap<(Tid, u32), Vec<Held>>,
}
