//! Memory that statements of a session use one after the other.

use niwaki_sql::Scratch;
use niwaki_table::{Lookup, TempSpace, Workspace};

/// Buffers of a session, and its temporary space.
pub(crate) struct Buffers {
    work: Workspace,
    lookup: Lookup,
    scratch: Scratch,
    /// Temporary space for rows and values that do not fit into memory.
    temp: TempSpace,
}

impl Buffers {
    /// Creates empty buffers beside a temporary space.
    pub(crate) fn new(temp: TempSpace) -> Self {
        let (work, lookup, scratch) = Default::default();
        Self { work, lookup, scratch, temp }
    }

    /// Returns the memory for changes of tables.
    pub(crate) fn work_mut(&mut self) -> &mut Workspace {
        &mut self.work
    }

    /// Returns the temporary space.
    pub(crate) fn temp(&self) -> &TempSpace {
        &self.temp
    }

    /// Returns all buffers and the temporary space, for a running statement.
    pub(crate) fn parts(&mut self) -> (&mut Workspace, &mut Lookup, &mut Scratch, &TempSpace) {
        (&mut self.work, &mut self.lookup, &mut self.scratch, &self.temp)
    }
}
