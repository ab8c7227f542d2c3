//! Rings: asynchronous reads.

use std::fmt::{self, Debug};
use std::io::{self, IoSliceMut};
use std::sync::Arc;

use super::VfsFile;

/// A read that has ended.
#[derive(Debug)]
pub struct ReadDone {
    /// The token given to [`ReadRing::add`].
    pub token: usize,
    /// The number of bytes read, from the beginning of the first buffer. Fewer bytes than the
    /// buffers hold, or an error, say nothing about the rest: a caller that needs the rest reads it
    /// as usual.
    pub result: io::Result<usize>,
}

/// Reason for the failure of a ring.
#[derive(Debug)]
pub enum RingError {
    /// The ring begins no further read. Reads that it has begun end as ever, and the others end
    /// with an error. The caller still has to ask for both.
    Broken(io::Error),
    /// The ring also cannot tell when begun reads end: their buffers may be written at any time.
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
/// Reads end in any order. Several threads may use a ring at once; threads that ask for ends take
/// turns.
///
/// A broken ring stays broken, and frees no buffer early: it waits for reads that the system may
/// have begun. If that wait fails, the ring is lost, and the owner of the buffers cannot go on.
pub trait ReadRing: Send + Sync + Debug {
    /// Returns the greatest number of reads at a time.
    fn capacity(&self) -> usize;

    /// Adds a read of `bufs`, one after the other, at `offset`. The next [`ReadRing::submit`], of
    /// any thread, begins it. The ring keeps the file open until the read has ended. `token` is
    /// below [`ReadRing::capacity`] and names no other read that has not ended.
    ///
    /// # Safety
    /// Until [`ReadRing::complete`] has returned the token, the memory of the buffers stays
    /// allocated. No code reads or writes it, even if the caller fails: the ring may write it
    /// at any moment.
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
    /// [`RingError::Broken`], now and from then on. Added reads may be under way.
    fn submit(&self) -> Result<(), RingError>;

    /// Returns a read that has ended, if there is one. With `wait` the call begins the added reads
    /// and waits for an end, so there must be a read that can end.
    ///
    /// # Errors
    /// [`RingError::Broken`] for the caller that meets the failure, which may ask again;
    /// [`RingError::Lost`].
    fn complete(&self, wait: bool) -> Result<Option<ReadDone>, RingError>;
}
