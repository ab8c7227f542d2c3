//! Insertion: appending records to the log.

use std::sync::Arc;

use niwaki_env::Env;
use niwaki_env::seeded_bug;
use niwaki_env::sync::Mutex;
use niwaki_env::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use niwaki_env::sync::plain_atomic::AtomicU64 as Counter;

use super::encode::{
    BLOCK_HEADER_SIZE, FILE_SIZE, Header, IMAGE_HEADER_SIZE, PAGE_IMAGE, PAGE_INIT, PAGE_SAME_FILE,
    PAGE_SHORT_FILE, RECORD_HEADER_SIZE, RECORD_MAX, REMOVES_SIZE, SHORT_FILE_SIZE, length_of,
    padded, place_of, removes_form, seal,
};
use super::leader::{FlushState, Leader};
use super::record::{LoggedPage, MAX_RECORD_PAGES, PageLog, Record};
use super::segment::Segments;
use crate::error::{Error, Result};
use crate::ids::{Csn, Lsn, RelFileId};
use crate::page::PAGE_SIZE;

/// Fraction of a segment that is enough at the end of recovery when there is no room for another
/// segment.
const SHORT_PART: u64 = 16;

/// Bytes of room for everything in front of a record's payload.
const FRONT_MAX: usize = RECORD_HEADER_SIZE
    + REMOVES_SIZE
    + MAX_RECORD_PAGES * (BLOCK_HEADER_SIZE + FILE_SIZE + IMAGE_HEADER_SIZE);

// One bit for each page says whether the record has its image.
const _: () = assert!(MAX_RECORD_PAGES <= u32::BITS as usize);
// A record with images of all its pages is not too long.
const _: () = assert!(FRONT_MAX + MAX_RECORD_PAGES * PAGE_SIZE < RECORD_MAX);

/// Counters of the log since the database was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WalStatistics {
    /// Records inserted.
    pub records: u64,
    /// Page images among them.
    pub images: u64,
    /// Bytes inserted.
    pub bytes: u64,
    /// Times the log was written.
    pub writes: u64,
    /// Times the log was synced.
    pub syncs: u64,
    /// Times an insertion found the buffer full.
    pub buffers_full: u64,
}

#[derive(Default)]
pub(super) struct Counters {
    pub(super) writes: Counter,
    pub(super) syncs: Counter,
    pub(super) buffers_full: Counter,
}

/// Data that the insertion lock guards.
pub(super) struct Tail {
    /// Records not yet taken by a flush.
    pub(super) buffer: Vec<u8>,
    /// Position of the buffer's first byte.
    pub(super) start: u64,
    /// Position of the last record; equal to the end when there is none.
    previous: u64,
    /// Position where recovery would begin. A page whose LSN is not behind this position needs an
    /// image.
    redo: u64,
    records: u64,
    images: u64,
}

impl Tail {
    pub(super) fn end(&self) -> u64 {
        self.start + self.buffer.len() as u64
    }
}

/// The write-ahead log of an open database.
pub struct Wal {
    pub(super) env: Env,
    pub(crate) segments: Segments,
    pub(super) tail: Mutex<Tail>,
    /// Copy of the tail's end, for readers without the lock.
    position: AtomicU64,
    /// Copy of the tail's redo position.
    redo: AtomicU64,
    pub(super) flushed: AtomicU64,
    pub(super) flush: Mutex<FlushState>,
    pub(super) leader: Mutex<Leader>,
    /// While records are replayed, page LSNs cannot be checked against the end of the log.
    replaying: AtomicBool,
    /// The end of recovery uses the rest of the last segment, because there is no room for another.
    is_short: AtomicBool,
    pub(super) counters: Counters,
    /// End of the log when it was opened.
    first: Counter,
    buffer_bytes: usize,
    full_page_writes: bool,
}

/// The positions at which the log continues when it is opened.
pub(crate) struct WalStart {
    /// Position of the next record.
    pub(crate) end: Lsn,
    /// Position of the last record.
    pub(crate) previous: Lsn,
    /// Redo position of the last checkpoint.
    pub(crate) redo: Lsn,
}

impl Wal {
    pub(crate) fn new(
        env: Env,
        segments: Segments,
        buffer_bytes: usize,
        full_page_writes: bool,
    ) -> Arc<Self> {
        let buffer_bytes = buffer_bytes.max(64 * 1024);
        Arc::new(Self {
            env,
            segments,
            tail: Mutex::new(Tail {
                buffer: Vec::with_capacity(buffer_bytes),
                start: 0,
                previous: 0,
                redo: 0,
                records: 0,
                images: 0,
            }),
            position: AtomicU64::new(0),
            redo: AtomicU64::new(0),
            // Until the log continues, all known records were read from disk and synced.
            flushed: AtomicU64::new(u64::MAX),
            flush: Mutex::new(FlushState::default()),
            leader: Mutex::new(Leader::new(buffer_bytes)),
            replaying: AtomicBool::new(true),
            is_short: AtomicBool::new(false),
            counters: Counters::default(),
            first: Counter::new(0),
            buffer_bytes,
            full_page_writes,
        })
    }

    /// Positions the log behind its last record. Everything before is durable.
    pub(crate) fn start_at(&self, start: &WalStart) {
        let mut tail = self.tail.lock();
        debug_assert!(
            tail.buffer.is_empty(),
            "a record was inserted before the log's end was known"
        );
        debug_assert_eq!(tail.records, 0, "the log is opened a second time");
        debug_assert!(start.previous <= start.end, "the last record is at {}", start.previous);
        debug_assert!(start.redo <= start.end, "recovery would begin at {}", start.redo);
        tail.start = start.end.0;
        tail.previous = start.previous.0;
        tail.redo = start.redo.0;
        self.position.store(start.end.0, Ordering::Release);
        self.redo.store(start.redo.0, Ordering::Release);
        self.flushed.store(start.end.0, Ordering::Release);
        self.first.store(start.end.0, Ordering::Relaxed);
        self.replaying.store(false, Ordering::Release);
    }

    /// Returns the end of the log, where the next record will begin.
    #[inline]
    pub fn insert_lsn(&self) -> Lsn {
        Lsn(self.position.load(Ordering::Acquire))
    }

    /// Returns the position up to which the log is durable.
    #[inline]
    pub fn flushed(&self) -> Lsn {
        // Acquire: pairs with the release of the flush that moved it.
        Lsn(self.flushed.load(Ordering::Acquire))
    }

    /// Returns the position where recovery would begin if the process ended now. During a
    /// checkpoint, it is the position that the checkpoint will set.
    pub fn redo_lsn(&self) -> Lsn {
        Lsn(self.redo.load(Ordering::Acquire))
    }

    /// Returns a bound for the LSNs of pages that are read from disk.
    pub(crate) fn end_for_checks(&self) -> Lsn {
        if self.replaying.load(Ordering::Acquire) { Lsn(u64::MAX) } else { self.insert_lsn() }
    }

    /// Returns the counters.
    pub fn statistics(&self) -> WalStatistics {
        let relaxed = Ordering::Relaxed;
        let (records, images) = {
            let tail = self.tail.lock();
            (tail.records, tail.images)
        };
        WalStatistics {
            records,
            images,
            bytes: self.insert_lsn().0.saturating_sub(self.first.load(relaxed)),
            writes: self.counters.writes.load(relaxed),
            syncs: self.counters.syncs.load(relaxed),
            buffers_full: self.counters.buffers_full.load(relaxed),
        }
    }

    /// Fixes the redo position of a checkpoint that begins now. From here on every page needs an
    /// image at its first change.
    pub(crate) fn begin_checkpoint(&self) -> Lsn {
        let mut tail = self.tail.lock();
        debug_assert!(tail.redo <= tail.end(), "the redo position {} moves back", tail.redo);
        tail.redo = tail.end();
        self.redo.store(tail.redo, Ordering::Release);
        Lsn(tail.redo)
    }

    /// Checks that a change may begin: its records have room on disk.
    ///
    /// # Errors
    /// [`crate::Error::DiskFull`].
    #[inline]
    pub(crate) fn ensure_room(&self) -> Result<()> {
        let is_short = self.is_short.load(Ordering::Relaxed);
        let wanted = self.segments.payload() / if is_short { SHORT_PART } else { 1 };
        let enough = self.segments.spare(self.insert_lsn().0) >= wanted;
        if enough && !self.segments.gate.is_closed() {
            return Ok(());
        }
        self.segments.gate.pass()?;
        self.segments.allocate_ahead(self.insert_lsn().0)
    }

    /// Prepares the writes at the end of recovery, after the log was read up to `end`. On a full
    /// disk the rest of the last segment may be enough for them. The checkpoint that follows frees
    /// earlier segments.
    ///
    /// # Errors
    /// [`crate::Error::Io`].
    pub(crate) fn recovery_writes(&self, end: u64) -> Result<()> {
        match self.segments.allocate_ahead(end) {
            Err(Error::DiskFull { .. }) => self.is_short.store(true, Ordering::Relaxed),
            room => room?,
        }
        Ok(())
    }

    /// Ends the writes of recovery.
    pub(crate) fn recovery_wrote(&self) {
        self.is_short.store(false, Ordering::Relaxed);
    }

    /// Ends the log at `end`, behind a shutdown's checkpoint. From then on no change begins, no
    /// record is inserted and nothing is written.
    ///
    /// # Errors
    /// When another record follows the checkpoint's, or the reason why writing had ended before.
    /// Nothing has changed then.
    pub(crate) fn seal(&self, end: Lsn) -> Result<()> {
        let tail = self.tail.lock();
        if tail.end() != end.0 {
            return Err(Error::Refused(format!(
                "the log was written up to {} beside the shutdown, whose checkpoint ends at {end}: \
                 the next start recovers",
                Lsn(tail.end())
            )));
        }
        self.segments.seal()
    }

    /// Appends a record and returns its LSN. The caller holds the pages' latches; the pages' LSNs
    /// are not stamped here.
    ///
    /// # Errors
    /// [`crate::Error::DiskFull`] when there is no room and no page is changed; nothing was
    /// inserted then. With changed pages, all writing ends instead.
    pub(crate) fn insert(&self, record: &Record<'_, '_>) -> Result<Lsn> {
        assert!(record.pages.len() <= MAX_RECORD_PAGES, "a record names too many pages");
        // Ends: the redo position moves once per checkpoint, and a full buffer or segment is
        // handled before the next try.
        loop {
            let redo = self.redo.load(Ordering::Acquire);
            let plan = Plan::new(record, redo, self.full_page_writes);
            let mut tail = self.tail.lock();
            if tail.redo != redo {
                continue;
            }
            // Under the lock, so that no record follows the end of a sealed log.
            if record.pages.is_empty() {
                self.segments.gate.pass()?;
            }
            let size = padded(plan.length);
            let end = tail.end() + size as u64;
            // Once writing has ended, records stay in memory and need no room on disk. Only changes
            // that had begun still insert records, so they are few.
            let stays = self.segments.gate.is_closed();
            if end > self.segments.allocated() && !stays {
                drop(tail);
                self.make_segments(record, end)?;
                continue;
            }
            let is_full = !tail.buffer.is_empty() && tail.buffer.len() + size > self.buffer_bytes;
            if is_full && !stays {
                drop(tail);
                self.counters.buffers_full.fetch_add(1, Ordering::Relaxed);
                self.write_buffer();
                continue;
            }
            plan.append(record, &mut tail, self.flushed.load(Ordering::Relaxed));
            debug_assert_eq!(tail.end(), end, "the record has another length than planned");
            self.position.store(end, Ordering::Release);
            return Ok(Lsn(end));
        }
    }

    /// Makes room for a record that ends at `end`.
    fn make_segments(&self, record: &Record<'_, '_>, end: u64) -> Result<()> {
        match self.segments.allocate_until(end) {
            Ok(()) => Ok(()),
            Err(error) if record.pages.is_empty() => Err(error),
            Err(error) => {
                // Pages hold a change that cannot be logged on disk: its record stays in memory,
                // and writing ends.
                self.segments.gate.close(error);
                Ok(())
            }
        }
    }
}

/// Returns the bytes that a record takes in the log, padding included. `pages` holds the bytes of
/// data of each page. The record has no page image and no data of its own, and its pages are of one
/// file, whose number fits 32 bits.
pub fn record_bytes(pages: &[usize], removes: Option<(Csn, Csn)>) -> usize {
    let (_, interval) = removes_form(removes);
    let named: usize = pages.iter().map(|data| BLOCK_HEADER_SIZE + data).sum();
    let file = if pages.is_empty() { 0 } else { SHORT_FILE_SIZE };
    padded(RECORD_HEADER_SIZE + interval + file + named)
}

/// A record laid out in memory, except for the fields that depend on its position.
struct Plan {
    front: [u8; FRONT_MAX],
    front_bytes: usize,
    /// One bit per page: an image of the page is written.
    with_image: u32,
    images: u64,
    length: usize,
    payload_crc: u32,
}

impl Plan {
    fn new(record: &Record<'_, '_>, redo: u64, full_page_writes: bool) -> Self {
        let mut plan = Self {
            front: [0; FRONT_MAX],
            front_bytes: RECORD_HEADER_SIZE,
            with_image: 0,
            images: 0,
            length: 0,
            payload_crc: 0,
        };
        if let Some((from, to)) = record.removes {
            plan.push(&from.0.to_le_bytes());
            match length_of((from, to)) {
                Some(length) => plan.push(&length.to_le_bytes()),
                None => plan.push(&to.0.to_le_bytes()),
            }
        }
        let mut payload = 0;
        for (index, page) in record.pages.iter().enumerate() {
            let image = match page.mode {
                PageLog::Delta => {
                    let old = page.target.page.lsn().0 <= redo;
                    full_page_writes && old && !seeded_bug!("missing_image")
                }
                PageLog::ForceImage => true,
                PageLog::Init => false,
            };
            if image {
                plan.with_image |= 1 << index;
                plan.images += 1;
            }
            let before = index.checked_sub(1).map(|before| record.pages[before].target.id().file);
            payload += plan.push_page(page, image, before);
        }
        payload += record.body.iter().map(|piece| piece.len()).sum::<usize>();
        plan.length = plan.front_bytes + payload;
        assert!(plan.length <= RECORD_MAX, "a record of {} bytes", plan.length);
        debug_assert!(plan.front_bytes <= FRONT_MAX, "{} bytes in front", plan.front_bytes);
        debug_assert_eq!(plan.images, u64::from(plan.with_image.count_ones()), "images");
        let mut crc = crc32c::crc32c(&plan.front[RECORD_HEADER_SIZE..plan.front_bytes]);
        plan.for_each_piece(record, |piece| crc = crc32c::crc32c_append(crc, piece));
        plan.payload_crc = crc;
        plan
    }

    #[inline]
    fn push(&mut self, bytes: &[u8]) {
        debug_assert!(self.front_bytes + bytes.len() <= FRONT_MAX, "too much in front");
        self.front[self.front_bytes..self.front_bytes + bytes.len()].copy_from_slice(bytes);
        self.front_bytes += bytes.len();
    }

    /// Describes a page, and returns the bytes that the page adds to the payload. `before` is the
    /// file of the previous page.
    fn push_page(
        &mut self,
        page: &LoggedPage<'_>,
        image: bool,
        before: Option<RelFileId>,
    ) -> usize {
        let id = page.target.id();
        let data: usize = if image { 0 } else { page.data.iter().map(|piece| piece.len()).sum() };
        let data_bytes = u16::try_from(data).expect("a page's data has at most 65535 bytes");
        let init = if page.mode == PageLog::Init { PAGE_INIT } else { 0 };
        let flags = if image { PAGE_IMAGE } else { init };
        let short = u32::try_from(id.file.0).ok();
        let file = match short {
            _ if before == Some(id.file) => PAGE_SAME_FILE,
            Some(_) => PAGE_SHORT_FILE,
            None => 0,
        };
        self.push(&id.block.0.to_le_bytes());
        self.push(&[id.fork as u8, flags | file]);
        self.push(&data_bytes.to_le_bytes());
        match short {
            _ if file == PAGE_SAME_FILE => {}
            Some(short) => self.push(&short.to_le_bytes()),
            None => self.push(&id.file.0.to_le_bytes()),
        }
        if !image {
            return data;
        }
        let (hole_offset, hole_bytes) = hole(page);
        let hole_end = usize::from(hole_offset) + usize::from(hole_bytes);
        debug_assert!(hole_end <= PAGE_SIZE, "{id}: a hole up to {hole_end}");
        self.push(&hole_offset.to_le_bytes());
        self.push(&hole_bytes.to_le_bytes());
        PAGE_SIZE - usize::from(hole_bytes)
    }

    /// Calls `f` for every piece of the payload, in order.
    #[inline]
    fn for_each_piece(&self, record: &Record<'_, '_>, mut f: impl FnMut(&[u8])) {
        for (index, page) in record.pages.iter().enumerate() {
            if self.with_image & (1 << index) != 0 {
                let (offset, bytes) = hole(page);
                f(&page.target.page.0[..usize::from(offset)]);
                f(&page.target.page.0[usize::from(offset) + usize::from(bytes)..]);
            } else {
                page.data.iter().for_each(|piece| f(piece));
            }
        }
        record.body.iter().for_each(|piece| f(piece));
    }

    /// Copies the record to the end of the log.
    fn append(&self, record: &Record<'_, '_>, tail: &mut Tail, flushed: u64) {
        let position = tail.end();
        debug_assert!(position.is_multiple_of(8), "the record before ends at {position}");
        debug_assert!(tail.redo <= position, "recovery would begin at {}", tail.redo);
        debug_assert!(tail.previous <= position, "the record before is at {}", tail.previous);
        niwaki_env::invariant!(W2, flushed <= position, "durable up to {flushed} of {position}");
        let distance = |to: u64| u32::try_from(position - to).unwrap_or(u32::MAX);
        let mut header = Header {
            length: self.length as u32,
            crc: 0,
            place: place_of(Lsn(position)),
            previous: distance(tail.previous),
            durable: distance(flushed),
            xid: record.xid.0,
            manager: record.manager as u8,
            kind: record.kind,
            version: record.version,
            flags: removes_form(record.removes).0,
            pages: record.pages.len() as u8,
        };
        let mut bytes = [0; RECORD_HEADER_SIZE];
        header.put(&mut bytes);
        header.crc = seal(self.payload_crc, &bytes, Lsn(position));
        bytes[4..8].copy_from_slice(&header.crc.to_le_bytes());
        tail.buffer.extend_from_slice(&bytes);
        tail.buffer.extend_from_slice(&self.front[RECORD_HEADER_SIZE..self.front_bytes]);
        self.for_each_piece(record, |piece| tail.buffer.extend_from_slice(piece));
        let padding = padded(self.length) - self.length;
        tail.buffer.extend_from_slice(&[0; 8][..padding]);
        tail.previous = position;
        tail.records += 1;
        tail.images += self.images;
    }
}

/// Returns the part of a page that an image leaves out: the bytes between line pointers and tuples.
/// Their contents do not matter, and redo makes them zero.
fn hole(page: &LoggedPage<'_>) -> (u16, u16) {
    let page = &page.target.page;
    let (lower, upper) = (page.lower(), page.upper());
    if !page.is_new()
        && page.kind().is_slotted()
        && lower <= upper
        && usize::from(upper) <= PAGE_SIZE
    {
        (lower, upper - lower)
    } else {
        (0, 0)
    }
}
