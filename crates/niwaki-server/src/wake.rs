//! Waking of an idle session when other sessions have messages for it.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::connection::Socket;

/// Second descriptor that a listening session waits on, beside its client's. It is a pair of
/// sockets, and any thread may write to one end.
pub(crate) struct Wake {
    reading: UnixStream,
    writing: Arc<UnixStream>,
}

/// Result of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    /// The client sent bytes, or is gone.
    ByClient,
    /// Another session has a message for this one.
    ByOther,
    /// The timeout passed without an event.
    TimedOut,
}

impl Wake {
    pub(crate) fn new() -> io::Result<Self> {
        let (reading, writing) = UnixStream::pair()?;
        reading.set_nonblocking(true)?;
        writing.set_nonblocking(true)?;
        Ok(Self { reading, writing: Arc::new(writing) })
    }

    /// Returns a function that wakes the session, from any thread, without blocking.
    pub(crate) fn waker(&self) -> Arc<dyn Fn() + Send + Sync> {
        let writing = Arc::clone(&self.writing);
        Arc::new(move || {
            // A full pipe already wakes the session. A closed one has no session to wake.
            let _ = (&*writing).write(&[1]);
        })
    }

    /// Waits for the client or a wake-up, at most for `timeout`.
    pub(crate) fn wait(&self, socket: &Socket, timeout: Option<Duration>) -> io::Result<Woken> {
        let timeout = timeout.map(|timeout| Timespec {
            tv_sec: timeout.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        });
        let mut waited = [
            PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN),
            PollFd::new(&self.reading, PollFlags::IN),
        ];
        match poll(&mut waited, timeout.as_ref()) {
            Ok(0) => return Ok(Woken::TimedOut),
            Ok(_) => {}
            // The caller checks again.
            Err(rustix::io::Errno::INTR) => return Ok(Woken::ByOther),
            Err(error) => return Err(error.into()),
        }
        let [client, other] = waited.map(|one| !one.revents().is_empty());
        if other {
            let mut bytes = [0; 64];
            // Ends: the pipe gets empty, because wake-ups of a full pipe are dropped.
            while matches!((&self.reading).read(&mut bytes), Ok(count) if count == bytes.len()) {}
        }
        Ok(if client { Woken::ByClient } else { Woken::ByOther })
    }
}
