//! Reads that go on while their caller does something else.

use std::fmt::Debug;
use std::io::{self, IoSliceMut};
use std::sync::Arc;

use super::VfsFile;

/// A read that has ended.
#[derive(Debug)]
pub struct ReadDone {
    /// What [`ReadRing::add`] was given.
    pub token: usize,
    /// How many bytes were read, from the beginning of the first buffer on. Fewer than there is room for, and an error,
    /// say nothing about the rest: who wants it reads it as usual.
    pub result: io::Result<usize>,
}

/// A place for a bounded number of reads.
///
/// ```text
///           add               submit                 complete
///   free ---------> added --------------> under way ----------> free
///                     |     complete(true)    ^
///                     +-----------------------+
/// ```
///
/// Reads end in any order. A ring may be used by several threads at once; those that ask for ends take turns.
pub trait ReadRing: Send + Sync + Debug {
    /// Most reads at a time.
    fn capacity(&self) -> usize;

    /// Adds a read of `bufs`, one after the other, at `offset`: the next [`ReadRing::submit`], of whichever thread, begins it. The ring keeps
    /// the file open until the read has ended. `token` is below [`ReadRing::capacity`] and names no other read that has not ended.
    ///
    /// # Safety
    /// Until [`ReadRing::complete`] has returned the token, the memory of the buffers stays allocated, and nobody reads
    /// or writes it, whatever happens to the caller: it may be written at any moment.
    unsafe fn add(
        &self,
        token: usize,
        file: Arc<dyn VfsFile>,
        bufs: &mut [IoSliceMut<'_>],
        offset: u64,
    );

    /// Begins the reads that were added.
    ///
    /// # Errors
    /// Those after which the ring is of no use. What was added may be under way.
    fn submit(&self) -> io::Result<()>;

    /// A read that has ended, if there is one; with `wait` this begins what was added and waits for an end, so something must be there to end.
    ///
    /// # Errors
    /// As [`ReadRing::submit`].
    fn complete(&self, wait: bool) -> io::Result<Option<ReadDone>>;
}
