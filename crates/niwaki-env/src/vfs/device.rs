//! Files on a simulated slow device.

use std::io::{self, IoSliceMut};
use std::sync::Arc;
use std::time::Duration;

use super::deferred::{DeferredReads, Device};
use super::{DirectoryLock, OpenMode, ReadRing, Vfs, VfsFile};
use crate::clock::ManualClock;

/// Other files, each of whose reads takes `latency` on a clock that moves on request only. A
/// synchronous read moves the clock by `latency`. Reads in a ring run beside each other, `width` at
/// a time, and a wait for one moves the clock to its end. For one thread.
#[derive(Debug)]
pub struct SlowVfs {
    files: Arc<dyn Vfs>,
    device: Device,
}

impl SlowVfs {
    /// Puts these files on such a device.
    ///
    /// # Panics
    /// If `width` is 0.
    pub fn new(
        files: Arc<dyn Vfs>,
        clock: Arc<ManualClock>,
        latency: Duration,
        width: usize,
    ) -> Self {
        assert!(width > 0, "a device does one read at a time at least");
        Self { files, device: Device { clock, latency, width, timed: Arc::default() } }
    }
}

impl Vfs for SlowVfs {
    fn open(&self, path: &str, mode: OpenMode) -> io::Result<Arc<dyn VfsFile>> {
        let file = self.files.open(path, mode)?;
        Ok(Arc::new(SlowFile { file, device: self.device.clone() }))
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.files.remove(path)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.files.rename(from, to)
    }

    fn exists(&self, path: &str) -> io::Result<bool> {
        self.files.exists(path)
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        self.files.list(dir)
    }

    fn create_dir(&self, dir: &str) -> io::Result<()> {
        self.files.create_dir(dir)
    }

    fn sync_dir(&self, dir: &str) -> io::Result<()> {
        self.files.sync_dir(dir)
    }

    fn lock_exclusive(&self, path: &str) -> io::Result<Box<dyn DirectoryLock>> {
        self.files.lock_exclusive(path)
    }

    fn lock_shared(&self, path: &str) -> io::Result<Box<dyn DirectoryLock>> {
        self.files.lock_shared(path)
    }

    fn read_ring(&self) -> io::Result<Arc<dyn ReadRing>> {
        Ok(Arc::new(DeferredReads::on(self.device.clone())))
    }
}

#[derive(Debug)]
struct SlowFile {
    file: Arc<dyn VfsFile>,
    device: Device,
}

impl VfsFile for SlowFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.device.wait();
        self.file.read_at(buf, offset)
    }

    fn read_vectored_at(&self, bufs: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<usize> {
        self.device.wait();
        self.file.read_vectored_at(bufs, offset)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_at(buf, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        self.file.allocate(offset, len)
    }
}
