//! Reads that go on while their caller does something else.

use std::fmt::{self, Debug};
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

/// Why a ring does not do what it is asked.
#[derive(Debug)]
pub enum RingError {
    /// It begins nothing any more. Reads that it has begun end as ever, those that it has not begun with an error: both
    /// are still asked for.
    Broken(io::Error),
    /// Nor can it tell when those end that it has begun: their buffers may be written at any time.
    Lost(io::Error),
}

impl fmt::Display for RingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Broken(error) | Self::Lost(error) => fmt::Display::fmt(error, f),
        }
    }
}

impl std::error::Error for RingError {}

/// A place for a bounded number of reads.
///
/// ```text
///           add               submit                 complete
///   free ---------> added --------------> under way ----------> free
///            |         |  complete(true)    ^                    ^
///            |         +--------------------+                    |
///            +---------+--- broken: complete, with an error -----+
/// ```
///
/// Reads end in any order. A ring may be used by several threads at once; those that ask for ends take turns.
///
/// A ring that breaks stays so, and lets go of no buffer early: what the system may have begun is waited for. Where that is in
/// vain the ring is lost, and there is no way on for who owns the buffers.
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
    /// [`RingError::Broken`], now and from then on. What was added may be under way.
    fn submit(&self) -> Result<(), RingError>;

    /// A read that has ended, if there is one; with `wait` this begins what was added and waits for an end, so something must be there to end.
    ///
    /// # Errors
    /// [`RingError::Broken`], to who meets it, and may ask again; [`RingError::Lost`].
    fn complete(&self, wait: bool) -> Result<Option<ReadDone>, RingError>;
}
