//! Segment files: the log's bytes cut into files of one size, preallocated and reused.
//!
//! ```text
//! 0   magic u64 "NIWAKWAL"   8   format u32       12  timeline u32
//! 16  system u64             24  number u64       32  file bytes u64
//! 40  zero u32               44  crc32c u32 over bytes 0..44
//! 48  zeros up to 4096, then the log's bytes
//! ```
//!
//! A new segment is filled with zeros, or is an old one renamed. It gets its header and is synced
//! before it takes its name, and before any record is written to it. So a segment that holds
//! records has a sound header. Later syncs of it need no change of the file system's own metadata.

use std::io;
use std::sync::Arc;

use niwaki_env::Env;
use niwaki_env::hash::HashMap;
use niwaki_env::seeded_bug;
use niwaki_env::sync::Mutex;
use niwaki_env::sync::atomic::{AtomicU64, Ordering};
use niwaki_env::sync::plain_atomic::AtomicBool;
use niwaki_env::vfs::{OpenMode, VfsFile};

use crate::disk::control::FORMAT_VERSION;
use crate::disk::cursor::Cursor;
use crate::disk::gate::WriteGate;
use crate::error::{Corruption, Error, Result};
use crate::ids::Lsn;

/// Folder of the log.
pub(crate) const WAL_FOLDER: &str = "wal";
/// Bytes in front of a segment's part of the log. The header has a block of its own, so that a torn
/// write of a record cannot damage it.
pub const SEGMENT_HEADER_SIZE: u64 = 4096;
const MAGIC: u64 = u64::from_le_bytes(*b"NIWAKWAL");
/// The most segment files that are kept open.
const OPEN_MAX: usize = 8;
// A torn write of a record cannot reach the header, which has blocks of its own.
const _: () = assert!(SegmentHeader::BYTES as u64 <= SEGMENT_HEADER_SIZE);
const _: () = assert!(SEGMENT_HEADER_SIZE.is_multiple_of(4096));
// The segment that was opened last is never the one farthest away.
const _: () = assert!(OPEN_MAX >= 2);
/// Path of a segment under construction.
const NEW_SEGMENT: &str = "wal/new";

/// The header of a segment file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// Format of the data directory.
    pub format: u32,
    /// Timeline.
    pub timeline: u32,
    /// System identifier.
    pub system: u64,
    /// Number of the segment: which part of the log it holds, from 0.
    pub number: u64,
    /// Bytes of the file.
    pub file_bytes: u64,
}

impl SegmentHeader {
    /// Bytes of the header that carry data.
    pub const BYTES: usize = 48;

    /// Encodes the header.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut out = [0; Self::BYTES];
        out[0..8].copy_from_slice(&MAGIC.to_le_bytes());
        out[8..12].copy_from_slice(&self.format.to_le_bytes());
        out[12..16].copy_from_slice(&self.timeline.to_le_bytes());
        out[16..24].copy_from_slice(&self.system.to_le_bytes());
        out[24..32].copy_from_slice(&self.number.to_le_bytes());
        out[32..40].copy_from_slice(&self.file_bytes.to_le_bytes());
        let crc = crc32c::crc32c(&out[..44]);
        out[44..48].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// Decodes a header; `None` when the bytes are no header.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let checked = bytes.get(..44)?;
        let mut cursor = Cursor(bytes);
        if cursor.u64()? != MAGIC {
            return None;
        }
        let header = Self {
            format: cursor.u32()?,
            timeline: cursor.u32()?,
            system: cursor.u64()?,
            number: cursor.u64()?,
            file_bytes: cursor.u64()?,
        };
        let zero = cursor.u32()?;
        (zero == 0 && cursor.u32()? == crc32c::crc32c(checked)).then_some(header)
    }
}

/// The segment files of one log.
pub(crate) struct Segments {
    env: Env,
    pub(super) system: u64,
    pub(super) timeline: u32,
    file_bytes: u64,
    /// End of the last segment that is ready.
    allocated: AtomicU64,
    /// Descriptors that are kept open. The flushing thread keeps its own reference to a segment
    /// that it wrote until the segment is synced ([`super::flush`]).
    open: Mutex<HashMap<u64, Arc<dyn VfsFile>>>,
    /// Held while segments are made or removed.
    making: Mutex<()>,
    /// The last attempt to make a segment failed.
    is_stuck: AtomicBool,
    /// Closed when another process may use the directory.
    pub(crate) gate: WriteGate,
}

impl Segments {
    pub(crate) fn new(env: Env, system: u64, timeline: u32, file_bytes: u64) -> Self {
        let file_bytes = file_bytes.max(4 * SEGMENT_HEADER_SIZE) & !4095;
        debug_assert!(file_bytes > SEGMENT_HEADER_SIZE, "a segment of {file_bytes} bytes");
        debug_assert!(file_bytes.is_multiple_of(4096), "a segment of {file_bytes} bytes");
        Self {
            env,
            system,
            timeline,
            file_bytes,
            allocated: AtomicU64::new(0),
            open: Mutex::new(HashMap::default()),
            making: Mutex::new(()),
            is_stuck: AtomicBool::new(false),
            gate: WriteGate::default(),
        }
    }

    /// Returns the bytes of the log in one segment.
    #[inline]
    pub(crate) fn payload(&self) -> u64 {
        self.file_bytes - SEGMENT_HEADER_SIZE
    }

    pub(crate) fn path(&self, number: u64) -> String {
        format!("{WAL_FOLDER}/{:08x}{number:016x}", self.timeline)
    }

    /// Returns the number of the segment with this file name; `None` for names of other timelines.
    fn number_of(&self, name: &str) -> Option<u64> {
        let timeline = u32::from_str_radix(name.get(..8)?, 16).ok()?;
        let number = u64::from_str_radix(name.get(8..)?, 16).ok()?;
        (name.len() == 24 && timeline == self.timeline).then_some(number)
    }

    /// Returns the end of the part of the log that has its space on disk.
    #[inline]
    pub(crate) fn allocated(&self) -> u64 {
        // Acquire: pairs with the release when a segment is ready.
        self.allocated.load(Ordering::Acquire)
    }

    /// Returns the bytes of ready space behind `position`.
    #[inline]
    pub(crate) fn spare(&self, position: u64) -> u64 {
        self.allocated().saturating_sub(position)
    }

    /// Makes space ready behind `position`: as much as a whole segment holds.
    pub(crate) fn allocate_ahead(&self, position: u64) -> Result<()> {
        self.allocate_until(position + self.payload())
    }

    /// Makes space ready when less than a segment is left behind `position`. A failure is ignored
    /// here, because the next change meets it.
    pub(crate) fn allocate_if_low(&self, position: u64) {
        if self.spare(position) < self.payload() {
            let _ = self.allocate_ahead(position);
        }
    }

    /// Ends all writing for good: another process may open the directory. Waits for a thread that
    /// is making a segment.
    ///
    /// # Errors
    /// The reason why writing had ended before.
    pub(super) fn seal(&self) -> Result<()> {
        let _making = self.making.lock();
        self.gate.seal()
    }

    /// Closes the open files. All writes through them are synced.
    pub(crate) fn close_all(&self) {
        self.open.lock().clear();
    }

    /// Makes the space up to `end` ready.
    pub(crate) fn allocate_until(&self, end: u64) -> Result<()> {
        let _making = self.making.lock();
        while self.allocated() < end {
            self.gate.pass()?;
            let allocated = self.allocated();
            debug_assert!(allocated.is_multiple_of(self.payload()), "a part of a segment is ready");
            let number = allocated / self.payload();
            let made = self.make(number);
            self.is_stuck.store(made.is_err(), Ordering::Relaxed);
            made?;
            self.allocated.store((number + 1) * self.payload(), Ordering::Release);
        }
        Ok(())
    }

    /// Returns whether the last attempt to make a segment failed. Then only a checkpoint makes
    /// room: it frees the segments before its redo position.
    pub(crate) fn is_stuck(&self) -> bool {
        self.is_stuck.load(Ordering::Relaxed)
    }

    fn header(&self, number: u64) -> [u8; SegmentHeader::BYTES] {
        let header = SegmentHeader {
            format: FORMAT_VERSION,
            timeline: self.timeline,
            system: self.system,
            number,
            file_bytes: self.file_bytes,
        };
        let bytes = header.encode();
        debug_assert_eq!(SegmentHeader::decode(&bytes), Some(header), "as it will be read");
        bytes
    }

    fn make(&self, number: u64) -> Result<()> {
        let failed = |e| Error::io(format!("could not make {}", self.path(number)), e);
        let file =
            self.env.vfs.open_reserved(NEW_SEGMENT, OpenMode::CreateIfAbsent).map_err(failed)?;
        // A leftover of a crash may hold records of any age.
        file.set_len(0).map_err(failed)?;
        if let Err(error) = self.clear(&file, 0) {
            // The room that the file took is needed elsewhere.
            let _ = file.set_len(0);
            return Err(failed(error));
        }
        self.finish(&file, NEW_SEGMENT, number)
    }

    /// Writes a file's header and renames the file to its final name.
    fn finish(&self, file: &Arc<dyn VfsFile>, from: &str, number: u64) -> Result<()> {
        let failed = |e| Error::io(format!("could not make {}", self.path(number)), e);
        file.write_at(&self.header(number), 0).map_err(failed)?;
        if let Err(e) = file.sync_data() {
            self.env.abort(&format!("could not sync a new segment of the log: {e}"));
        }
        self.env.vfs.rename(from, &self.path(number)).map_err(failed)?;
        self.sync_folder()?;
        self.keep_open(number, file);
        Ok(())
    }

    /// Keeps a descriptor open, and drops the one of the segment farthest away if there are too
    /// many. Writes through the dropped one are synced, or the flushing thread holds it too.
    fn keep_open(&self, number: u64, file: &Arc<dyn VfsFile>) {
        let mut open = self.open.lock();
        open.insert(number, Arc::clone(file));
        if open.len() > OPEN_MAX
            && let Some(farthest) = open.keys().copied().max_by_key(|n| n.abs_diff(number))
        {
            open.remove(&farthest);
        }
        debug_assert!(open.len() <= OPEN_MAX, "{} segments are open", open.len());
        debug_assert!(open.contains_key(&number), "segment {number} was closed at once");
    }

    /// Makes names in the folder durable. A failed sync ends the process. A missing folder is an
    /// error.
    fn sync_folder(&self) -> Result<()> {
        if seeded_bug!("no_folder_sync") {
            return Ok(());
        }
        if let Err(e) = self.env.vfs.sync_dir(WAL_FOLDER) {
            if e.kind() == io::ErrorKind::NotFound {
                let what = format!("could not open the folder {WAL_FOLDER} to sync it");
                return Err(Error::io(what, e));
            }
            self.env.abort(&format!("could not sync the folder {WAL_FOLDER}: {e}"));
        }
        Ok(())
    }

    /// Returns the numbers of the segment files on disk, ascending.
    pub(crate) fn list(&self) -> Result<Vec<u64>> {
        let names = self
            .env
            .vfs
            .list(WAL_FOLDER)
            .map_err(|e| Error::io(format!("could not list the folder {WAL_FOLDER}"), e))?;
        let mut numbers: Vec<u64> = names.iter().filter_map(|name| self.number_of(name)).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Opens a segment; `None` when it does not exist, or when its header is not sound.
    pub(crate) fn open(&self, number: u64) -> Result<Option<Arc<dyn VfsFile>>> {
        if let Some(file) = self.open.lock().get(&number) {
            return Ok(Some(Arc::clone(file)));
        }
        let path = self.path(number);
        let file = match self.env.vfs.open_reserved(&path, OpenMode::Existing) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(Error::io(format!("could not open {path}"), e)),
        };
        let mut bytes = [0; SegmentHeader::BYTES];
        let got = file
            .read_at(&mut bytes, 0)
            .map_err(|e| Error::io(format!("could not read {path}"), e))?;
        if got < bytes.len() || bytes != self.header(number) {
            return Ok(None);
        }
        self.keep_open(number, &file);
        Ok(Some(file))
    }

    /// Refuses a segment file without a sound header or with fewer bytes than it should have.
    pub(super) fn check_whole(&self, number: u64) -> Result<()> {
        let path = self.path(number);
        let found = match self.open(number)? {
            None => "its header is damaged".to_owned(),
            Some(file) => {
                let bytes = file
                    .len()
                    .map_err(|e| Error::io(format!("could not read the length of {path}"), e))?;
                if bytes >= self.file_bytes {
                    return Ok(());
                }
                format!("it has {bytes} bytes of {}", self.file_bytes)
            }
        };
        Err(Error::Corruption(Box::new(Corruption {
            file: path,
            block: None,
            item: None,
            invariant: "W2",
            detail: format!(
                "{found}, and the log may go on there; nothing was changed. Put a sound copy of the \
                 file in its place, or restore the directory from a backup"
            ),
        })))
    }

    /// Reads the log's bytes at `position`. Reads less than `buf` only at the end of the segment,
    /// and 0 bytes when the segment does not exist.
    pub(crate) fn read(&self, position: u64, buf: &mut [u8]) -> Result<usize> {
        let number = position / self.payload();
        let within = position % self.payload();
        let Some(file) = self.open(number)? else { return Ok(0) };
        let here = ((self.payload() - within).min(buf.len() as u64)) as usize;
        debug_assert!(here > 0 || buf.is_empty(), "nothing of segment {number} is read");
        let Some(part) = buf.get_mut(..here) else { return Ok(0) };
        file.read_at(part, SEGMENT_HEADER_SIZE + within)
            .map_err(|e| Error::io(format!("could not read {}", self.path(number)), e))
    }

    /// Writes bytes of the log into ready segments, and adds the written segments to `unsynced`.
    pub(super) fn write(
        &self,
        start: u64,
        bytes: &[u8],
        unsynced: &mut Vec<Arc<dyn VfsFile>>,
    ) -> io::Result<()> {
        let mut position = start;
        let mut rest = bytes;
        while !rest.is_empty() {
            let number = position / self.payload();
            let within = position % self.payload();
            let here = ((self.payload() - within) as usize).min(rest.len());
            debug_assert!(here > 0, "nothing is written to segment {number}");
            let (part, tail) = rest.split_at(here);
            let file = self.open(number).map_err(io::Error::other)?;
            let Some(file) = file else {
                return Err(io::Error::other(format!("segment {number} is not ready")));
            };
            file.write_at(part, SEGMENT_HEADER_SIZE + within)?;
            if !unsynced.iter().any(|other| Arc::ptr_eq(other, &file)) {
                unsynced.push(file);
            }
            position += here as u64;
            rest = tail;
        }
        debug_assert_eq!(position, start + bytes.len() as u64, "bytes were left out");
        Ok(())
    }

    /// Writes the log between two positions again, and syncs it. Bytes from a killed process may be
    /// only in the system's memory, and after a failed sync the system takes them for clean. The
    /// log must be durable before pages reach the device.
    pub(crate) fn write_again(&self, from: Lsn, to: Lsn) -> Result<()> {
        debug_assert!(from <= to, "the log is durable up to {from}, behind its end {to}");
        let mut bytes = vec![0; 256 * 1024];
        let mut unsynced = Vec::new();
        let mut position = from.0;
        // Ends: every round reads at least a byte.
        while position < to.0 {
            let here = (to.0 - position).min(bytes.len() as u64) as usize;
            let path = self.path(position / self.payload());
            let got = self.read(position, &mut bytes[..here])?;
            debug_assert!(got <= here, "{got} bytes of {here}");
            if got == 0 {
                let ends = io::ErrorKind::UnexpectedEof.into();
                return Err(Error::io(format!("could not read {path} a second time"), ends));
            }
            if seeded_bug!("log_trusts_cache") {
                unsynced.extend(self.open(position / self.payload())?);
            } else if let Err(e) = self.write(position, &bytes[..got], &mut unsynced) {
                return Err(Error::io(format!("could not write {path} again"), e));
            }
            position += got as u64;
        }
        for file in unsynced {
            if let Err(e) = file.sync_data() {
                self.env.abort(&format!("could not sync the log before recovery: {e}"));
            }
        }
        Ok(())
    }

    /// Continues after a clean shutdown: the log ends at `end`, and nothing was written behind it.
    /// Segments that were ready before are still ready.
    pub(crate) fn resume(&self, end: Lsn) -> Result<()> {
        let _making = self.making.lock();
        let mut ready = end.0 / self.payload();
        // Ends: with the first missing segment.
        while self.open(ready)?.is_some() {
            ready += 1;
        }
        self.allocated.store(ready * self.payload(), Ordering::Release);
        Ok(())
    }

    /// Ends the log at `end`, after recovery. Clears the bytes that follow, so that no later
    /// recovery takes leftovers for records. The segments up to the one of `end` count as ready.
    pub(crate) fn cut(&self, end: Lsn) -> Result<()> {
        let _making = self.making.lock();
        let current = end.0 / self.payload();
        let mut changed = false;
        for number in self.list()?.into_iter().rev().filter(|&n| n > current) {
            let path = self.path(number);
            self.env
                .vfs
                .remove(&path)
                .map_err(|e| Error::io(format!("could not remove {path}"), e))?;
            self.open.lock().remove(&number);
            changed = true;
        }
        if changed {
            self.sync_folder()?;
        }
        let mut ready = current;
        if let Some(file) = self.open(current)? {
            let path = self.path(current);
            self.clear(&file, SEGMENT_HEADER_SIZE + end.0 % self.payload())
                .map_err(|e| Error::io(format!("could not clear the end of {path}"), e))?;
            if let Err(e) = file.sync_data() {
                self.env.abort(&format!("could not sync {path}: {e}"));
            }
            ready = current + 1;
        }
        self.allocated.store(ready * self.payload(), Ordering::Release);
        Ok(())
    }

    /// Writes zeros from `at` to the end of a segment file.
    fn clear(&self, file: &Arc<dyn VfsFile>, mut at: u64) -> io::Result<()> {
        let zeros = vec![0; 256 * 1024];
        while at < self.file_bytes {
            let here = (self.file_bytes - at).min(zeros.len() as u64);
            file.write_at(&zeros[..here as usize], at)?;
            at += here;
        }
        Ok(())
    }

    /// Reuses segments that end before `redo` as new ones behind the last one, up to `keep` spare
    /// ones, and removes the others.
    pub(crate) fn recycle(&self, redo: Lsn, keep: u64, position: u64) -> Result<()> {
        debug_assert!(redo.0 <= position, "recovery would begin at {redo}, behind {position}");
        let _making = self.making.lock();
        let first_needed = redo.0 / self.payload();
        for number in self.list()?.into_iter().filter(|&n| n < first_needed) {
            self.gate.pass()?;
            let path = self.path(number);
            let file = self.open(number)?;
            self.open.lock().remove(&number);
            let next = self.allocated() / self.payload();
            debug_assert!(number < next, "segment {number} is needed, or is used again as {next}");
            match file {
                Some(file) if next.saturating_sub(position / self.payload()) <= keep => {
                    // The old name goes first: a crash in between leaves only `wal/new`.
                    self.env
                        .vfs
                        .rename(&path, NEW_SEGMENT)
                        .map_err(|e| Error::io(format!("could not rename {path}"), e))?;
                    self.finish(&file, NEW_SEGMENT, next)?;
                    self.allocated.store((next + 1) * self.payload(), Ordering::Release);
                    self.is_stuck.store(false, Ordering::Relaxed);
                }
                _ => {
                    self.env
                        .vfs
                        .remove(&path)
                        .map_err(|e| Error::io(format!("could not remove {path}"), e))?;
                }
            }
        }
        Ok(())
    }
}
