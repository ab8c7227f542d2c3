//! A client's socket with its input and output buffers, without any protocol.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use niwaki::Terminator;

/// Size to which an idle connection's input buffer shrinks, in bytes.
const INPUT_BYTES: usize = 8 << 10;
/// Size of waiting output, in bytes, from which it is written even in the middle of a result.
const OUTPUT_FLUSH_BYTES: usize = 64 << 10;
/// Longest wait of a write for a client that does not read. After it the write checks whether the
/// session must end.
pub(crate) const WRITE_STEP: Duration = Duration::from_millis(50);
/// Number of such steps that output without a session waits for its client: before a session
/// begins, and after it has ended.
const STEPS_WITHOUT_SESSION: u32 = 20;
/// Capacity, in bytes, above which a buffer is freed after a large message.
const BUFFER_KEEP_BYTES: usize = 256 << 10;

/// A TCP or Unix-domain socket.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    /// Makes a blocked or later read see the end of the stream. Writing still works.
    pub(crate) fn end_reading(&self) {
        // The connection may be gone already, which has the same effect.
        let _ = match self {
            Self::Tcp(stream) => stream.shutdown(Shutdown::Read),
            Self::Unix(stream) => stream.shutdown(Shutdown::Read),
        };
    }

    /// Bounds every later blocking read; `None` means no bound.
    pub(crate) fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.set_read_timeout(timeout),
            Self::Unix(stream) => stream.set_read_timeout(timeout),
        }
    }

    /// Bounds every later blocking write; `None` means no bound.
    pub(crate) fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.set_write_timeout(timeout),
            Self::Unix(stream) => stream.set_write_timeout(timeout),
        }
    }

    /// Returns the client's address and port, as `pg_stat_activity` shows them. `None` for a client
    /// that has none, or is gone.
    pub(crate) fn client(&self) -> Option<(IpAddr, u16)> {
        match self {
            Self::Tcp(stream) => {
                let address = stream.peer_addr().ok()?;
                // A socket for both IP versions shows addresses of version 4 as mapped addresses of
                // version 6.
                Some((address.ip().to_canonical(), address.port()))
            }
            Self::Unix(_) => None,
        }
    }

    /// Returns the descriptor to wait on.
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
        }
    }

    fn read(&self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => (&*stream).read(bytes),
            Self::Unix(stream) => (&*stream).read(bytes),
        }
    }

    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => (&*stream).write(bytes),
            Self::Unix(stream) => (&*stream).write(bytes),
        }
    }
}

/// Decides whether a read or write exceeded the socket's time limit.
pub(crate) fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// Received bytes that are not used yet.
#[derive(Debug)]
pub(crate) struct Input {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Bytes still to come of a message that was given up.
    dropping: usize,
}

impl Input {
    pub(crate) fn new() -> Self {
        Self { buffer: vec![0; INPUT_BYTES], start: 0, end: 0, dropping: 0 }
    }

    /// Creates an input without a buffer, which stands in while a message borrows from the real
    /// one.
    pub(crate) fn empty() -> Self {
        Self { buffer: Vec::new(), start: 0, end: 0, dropping: 0 }
    }

    /// Returns the bytes that are not used yet.
    pub(crate) fn pending(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Marks `count` bytes as used.
    pub(crate) fn consume(&mut self, count: usize) {
        self.start += count;
        debug_assert!(self.start <= self.end);
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
            if self.buffer.len() > BUFFER_KEEP_BYTES {
                self.buffer = vec![0; INPUT_BYTES];
            }
        }
    }

    /// Gives up the first message, which takes `bytes` bytes and has not wholly arrived. Its
    /// remaining bytes are dropped as they arrive.
    pub(crate) fn give_up(&mut self, bytes: usize) {
        let arrived = self.end - self.start;
        debug_assert!(arrived < bytes);
        self.dropping = bytes - arrived;
        self.consume(arrived);
    }

    /// Waits for more bytes. Returns false at the end of the stream.
    ///
    /// The buffer doubles only when it is full of bytes that really arrived, so a client's
    /// announced length never makes it grow. The error is `OutOfMemory` when the server has no
    /// memory for more.
    pub(crate) fn fill(&mut self, socket: &Socket) -> io::Result<bool> {
        if self.end == self.buffer.len() {
            if self.start > 0 {
                self.buffer.copy_within(self.start..self.end, 0);
                self.end -= self.start;
                self.start = 0;
            } else {
                if niwaki_env::memory::room(self.buffer.len()).is_err() {
                    return Err(io::ErrorKind::OutOfMemory.into());
                }
                self.buffer.resize(self.buffer.len() * 2, 0);
            }
        }
        niwaki_env::memory::waits();
        loop {
            match socket.read(&mut self.buffer[self.end..]) {
                Ok(0) => return Ok(false),
                Ok(count) => {
                    self.end += count;
                    let dropped = self.dropping.min(count);
                    self.dropping -= dropped;
                    self.consume(dropped);
                    return Ok(true);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Output that waits to be sent.
#[derive(Debug)]
pub(crate) struct Output {
    /// Messages not sent yet.
    pub(crate) bytes: Vec<u8>,
    /// The first failed write. All later output is dropped, and the session ends at its next read.
    failed: Option<io::Error>,
    /// Handle to check whether the session must end. `None` before the session begins, and for its
    /// last messages.
    session: Option<Terminator>,
}

impl Output {
    pub(crate) fn new() -> Self {
        Self { bytes: Vec::with_capacity(INPUT_BYTES), failed: None, session: None }
    }

    /// Sets the session. A blocked write then waits until this session is told to end; with `None`
    /// it waits for one second.
    pub(crate) fn set_session(&mut self, session: Option<Terminator>) {
        self.session = session;
    }

    /// Returns the session of this output.
    pub(crate) fn session(&self) -> Option<&Terminator> {
        self.session.as_ref()
    }

    /// Sends everything. A failure is kept for [`Output::failure`], because a statement runs to its
    /// end even if its client is gone.
    pub(crate) fn flush(&mut self, socket: &Socket) {
        if self.bytes.is_empty() {
            return;
        }
        if self.failed.is_none()
            && let Err(error) = self.write_all(socket)
        {
            self.failed = Some(error);
        }
        self.bytes.clear();
        if self.bytes.capacity() > BUFFER_KEEP_BYTES {
            self.bytes = Vec::with_capacity(INPUT_BYTES);
        }
    }

    /// Writes all bytes to a socket whose writes wait for at most [`WRITE_STEP`].
    fn write_all(&self, socket: &Socket) -> io::Result<()> {
        let mut rest = self.bytes.as_slice();
        let mut steps = 0;
        // Ends: each turn writes bytes, was interrupted, or counts one more step of waiting for the
        // client.
        while !rest.is_empty() {
            match socket.write(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => rest = &rest[count..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_timeout(&error) => {
                    steps += 1;
                    let gives_up = match &self.session {
                        // The client could not get the reason either, because the socket is full.
                        Some(session) => session.is_terminated(),
                        None => steps >= STEPS_WITHOUT_SESSION,
                    };
                    if gives_up {
                        return Err(error);
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Sends the waiting output if it is large.
    pub(crate) fn flush_if_large(&mut self, socket: &Socket) {
        if self.bytes.len() >= OUTPUT_FLUSH_BYTES {
            self.flush(socket);
        }
    }

    /// Returns the error after which the client cannot be reached, if there was one.
    pub(crate) fn failure(&self) -> Option<&io::Error> {
        self.failed.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The next message may arrive together with any part of the given up message.
    #[test]
    fn the_rest_of_a_message_that_was_given_up_is_dropped() {
        for arrived in 1..10 {
            let (ours, mut theirs) = UnixStream::pair().expect("a pair");
            let socket = Socket::Unix(ours);
            let mut input = Input::new();
            theirs.write_all(&b"0123456789"[..arrived]).expect("room");
            assert!(input.fill(&socket).expect("bytes"));
            input.give_up(10);
            theirs.write_all(&b"0123456789"[arrived..]).expect("room");
            theirs.write_all(b"next").expect("room");
            drop(theirs);
            while input.fill(&socket).expect("bytes or their end") {}
            assert_eq!(input.pending(), b"next", "{arrived} bytes had arrived");
        }
    }
}
