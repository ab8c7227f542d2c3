//! The bytes of a record.
//!
//! ```text
//! 0   length u32       of everything up to the end of the body, without padding
//! 4   crc32c u32       over bytes 32.., then bytes 0..4 and 8..32, then the position (u64)
//! 8   place u32        an eighth of the position: rules out a record of an older use of the file;
//!                      the checksum does so for certain
//! 12  previous u32     distance back to the record before; 0 for the first
//! 16  durable u32      distance back to the durable position at insertion; u32::MAX when unknown
//! 20  xid u64
//! 28  manager u8  29 kind u8  30 version u8
//! 31  u8: flags (1: removes, 2: removes, short form) and, from bit 3 on, the number of pages
//! 32  [removes: from u64, to u64; short form: from u64, length u32]
//!     per page: block u32, fork u8,
//!               flags u8 (1 image, 2 init, 4: file, short form, 8: same file as the page before),
//!               data bytes u16
//!               [file u64; short form: u32; nothing for the same file as the page before]
//!               [image: hole offset u16, hole bytes u16]
//!     per page: [image without its hole] data
//!     body; the next record begins at the next multiple of 8
//! ```
#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use niwaki_env::seeded_bug;

use super::record::{DecodedImage, DecodedPage, DecodedRecord, MAX_RECORD_PAGES, Manager};
use crate::disk::cursor::Cursor;
use crate::error::{Corruption, Error, Result};
use crate::ids::{BlockNumber, Csn, Fork, Lsn, PageId, RelFileId, Xid};
use crate::page::PAGE_SIZE;

/// Bytes of a record's header.
pub const RECORD_HEADER_SIZE: usize = 32;
/// Bytes of the interval that a record removes, when its length does not fit 32 bits.
pub const REMOVES_SIZE: usize = 16;
/// Bytes of the interval that a record removes, when its length fits 32 bits, as it mostly does.
pub const SHORT_REMOVES_SIZE: usize = 12;
/// Bytes that name one page in a record, without its file.
pub const BLOCK_HEADER_SIZE: usize = 8;
/// Bytes of a page's file number, when it does not fit 32 bits. They follow the page's name.
pub const FILE_SIZE: usize = 8;
/// Bytes of a page's file number, when it fits 32 bits. A page of the same file as the page before
/// needs none.
pub const SHORT_FILE_SIZE: usize = 4;
/// Bytes that describe a page image, after the page's name.
pub const IMAGE_HEADER_SIZE: usize = 4;
/// Length of the longest record, in bytes: a reader must be able to hold it.
pub(crate) const RECORD_MAX: usize = 1 << 30;

pub(crate) const FLAG_REMOVES: u8 = 1;
pub(crate) const FLAG_SHORT_REMOVES: u8 = 2;
/// Shift of the number of pages, which shares a byte with the flags.
const PAGES_SHIFT: u8 = 3;
/// All flags of a record.
const FLAGS: u8 = FLAG_REMOVES | FLAG_SHORT_REMOVES;
pub(crate) const PAGE_IMAGE: u8 = 1;
pub(crate) const PAGE_INIT: u8 = 2;
pub(crate) const PAGE_SHORT_FILE: u8 = 4;
pub(crate) const PAGE_SAME_FILE: u8 = 8;

// The sizes of the picture at the top.
const _: () = assert!(RECORD_HEADER_SIZE == 5 * size_of::<u32>() + size_of::<Xid>() + 4);
const _: () = assert!(RECORD_HEADER_SIZE.is_multiple_of(8));
const _: () = assert!(REMOVES_SIZE == 2 * size_of::<Csn>());
const _: () = assert!(SHORT_REMOVES_SIZE == size_of::<Csn>() + size_of::<u32>());
const _: () = assert!(BLOCK_HEADER_SIZE == size_of::<BlockNumber>() + 2 + size_of::<u16>());
const _: () = assert!(FILE_SIZE == size_of::<RelFileId>());
const _: () = assert!(SHORT_FILE_SIZE == size_of::<u32>());
const _: () = assert!(IMAGE_HEADER_SIZE == 2 * size_of::<u16>());
// The flags of a record and its number of pages share a byte.
const _: () = assert!(FLAGS < 1 << PAGES_SHIFT);
const _: () = assert!(MAX_RECORD_PAGES < 1 << (u8::BITS - PAGES_SHIFT as u32));
// Each flag of a page has a bit of its own.
const _: () =
    assert!((PAGE_IMAGE | PAGE_INIT | PAGE_SHORT_FILE | PAGE_SAME_FILE).count_ones() == 4);
// The length of a record, and the data and the hole of a page, fit their fields.
const _: () = assert!(RECORD_MAX <= u32::MAX as usize);
const _: () = assert!(PAGE_SIZE <= u16::MAX as usize);

/// The fixed part of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) length: u32,
    pub(crate) crc: u32,
    pub(crate) place: u32,
    pub(crate) previous: u32,
    pub(crate) durable: u32,
    pub(crate) xid: u64,
    pub(crate) manager: u8,
    pub(crate) kind: u8,
    pub(crate) version: u8,
    pub(crate) flags: u8,
    pub(crate) pages: u8,
}

impl Header {
    /// Writes the header over `out`, which has [`RECORD_HEADER_SIZE`] bytes.
    pub(crate) fn put(&self, out: &mut [u8; RECORD_HEADER_SIZE]) {
        debug_assert!(self.length as usize >= RECORD_HEADER_SIZE, "{} bytes", self.length);
        debug_assert!(self.length as usize <= RECORD_MAX, "{} bytes", self.length);
        debug_assert!(self.flags & !FLAGS == 0, "unknown flags: {:#x}", self.flags);
        debug_assert!(usize::from(self.pages) <= MAX_RECORD_PAGES, "{} pages", self.pages);
        out[0..4].copy_from_slice(&self.length.to_le_bytes());
        out[4..8].copy_from_slice(&self.crc.to_le_bytes());
        out[8..12].copy_from_slice(&self.place.to_le_bytes());
        out[12..16].copy_from_slice(&self.previous.to_le_bytes());
        out[16..20].copy_from_slice(&self.durable.to_le_bytes());
        out[20..28].copy_from_slice(&self.xid.to_le_bytes());
        out[28] = self.manager;
        out[29] = self.kind;
        out[30] = self.version;
        out[31] = self.flags | self.pages << PAGES_SHIFT;
    }

    /// Decodes a header; `None` when the bytes cannot be one.
    pub(crate) fn get(bytes: &[u8]) -> Option<Self> {
        let mut cursor = Cursor(bytes.get(..RECORD_HEADER_SIZE)?);
        let header = Self {
            length: cursor.u32()?,
            crc: cursor.u32()?,
            place: cursor.u32()?,
            previous: cursor.u32()?,
            durable: cursor.u32()?,
            xid: cursor.u64()?,
            manager: cursor.u8()?,
            kind: cursor.u8()?,
            version: cursor.u8()?,
            flags: cursor.0.first()? & ((1 << PAGES_SHIFT) - 1),
            pages: cursor.u8()? >> PAGES_SHIFT,
        };
        let plausible = header.flags & !FLAGS == 0
            && (RECORD_HEADER_SIZE..=RECORD_MAX).contains(&(header.length as usize));
        plausible.then_some(header)
    }
}

/// Returns the `place` field of a record at this position.
pub(crate) fn place_of(position: Lsn) -> u32 {
    (position.0 / 8) as u32
}

/// Computes a record's checksum from the payload's checksum and the header. The payload comes
/// first, so that its part needs no position.
pub(crate) fn seal(payload_crc: u32, header: &[u8; RECORD_HEADER_SIZE], position: Lsn) -> u32 {
    let position = if seeded_bug!("stale_segment") { 0 } else { position.0 };
    let crc = crc32c::crc32c_append(payload_crc, &header[0..4]);
    let crc = crc32c::crc32c_append(crc, &header[8..]);
    crc32c::crc32c_append(crc, &position.to_le_bytes())
}

/// Returns whether the bytes of a whole record carry the right checksum for this position.
pub(crate) fn is_intact(record: &[u8], position: Lsn) -> bool {
    let Some((head, payload)) = record.split_first_chunk::<RECORD_HEADER_SIZE>() else {
        return false;
    };
    let Some(header) = Header::get(head) else { return false };
    let crc = crc32c::crc32c(payload);
    header.length as usize == record.len() && seal(crc, head, position) == header.crc
}

/// Returns the flag of a record with this interval, and the bytes that the interval takes.
pub(crate) fn removes_form(removes: Option<(Csn, Csn)>) -> (u8, usize) {
    match removes {
        None => (0, 0),
        Some(removes) if length_of(removes).is_some() => (FLAG_SHORT_REMOVES, SHORT_REMOVES_SIZE),
        Some(_) => (FLAG_REMOVES, REMOVES_SIZE),
    }
}

/// Returns the length of an interval if it fits 32 bits.
pub(crate) fn length_of((from, to): (Csn, Csn)) -> Option<u32> {
    u32::try_from(to.0.checked_sub(from.0)?).ok()
}

/// Rounds a record's length up to the start of the next record.
pub(crate) fn padded(length: usize) -> usize {
    length.next_multiple_of(8)
}

/// Decodes the record at `position`. The caller has verified its checksum; contents that do not fit
/// are still damage.
///
/// # Errors
/// [`Error::Corruption`] (format).
pub(crate) fn decode(record: &[u8], position: Lsn) -> Result<DecodedRecord<'_>> {
    decode_parts(record, position).ok_or_else(|| {
        Error::Corruption(Box::new(Corruption {
            file: "wal".into(),
            block: None,
            item: None,
            invariant: "format",
            detail: format!("the record at {position} cannot be taken apart"),
        }))
    })
}

fn decode_parts(record: &[u8], position: Lsn) -> Option<DecodedRecord<'_>> {
    struct Part {
        id: PageId,
        flags: u8,
        data: usize,
        hole_offset: u16,
        hole_bytes: u16,
    }
    let header = Header::get(record)?;
    let mut cursor = Cursor(record.get(RECORD_HEADER_SIZE..)?);
    let removes = match header.flags & FLAGS {
        0 => None,
        FLAG_REMOVES => Some((Csn(cursor.u64()?), Csn(cursor.u64()?))),
        FLAG_SHORT_REMOVES => {
            let from = cursor.u64()?;
            Some((Csn(from), Csn(from.checked_add(cursor.u32()?.into())?)))
        }
        _ => return None,
    };
    let count = usize::from(header.pages);
    if count > MAX_RECORD_PAGES {
        return None;
    }
    let mut parts: Vec<Part> = Vec::with_capacity(count);
    for _ in 0..count {
        let block = BlockNumber(cursor.u32()?);
        let fork = match cursor.u8()? {
            0 => Fork::Main,
            1 => Fork::FreeSpace,
            2 => Fork::Visibility,
            _ => return None,
        };
        let flags = cursor.u8()?;
        let data = usize::from(cursor.u16()?);
        let file = match flags & (PAGE_SHORT_FILE | PAGE_SAME_FILE) {
            0 => RelFileId(cursor.u64()?),
            PAGE_SHORT_FILE => RelFileId(cursor.u32()?.into()),
            PAGE_SAME_FILE => parts.last()?.id.file,
            _ => return None,
        };
        let (hole_offset, hole_bytes) =
            if flags & PAGE_IMAGE != 0 { (cursor.u16()?, cursor.u16()?) } else { (0, 0) };
        if usize::from(hole_offset).checked_add(usize::from(hole_bytes))? > PAGE_SIZE {
            return None;
        }
        parts.push(Part { id: PageId { file, fork, block }, flags, data, hole_offset, hole_bytes });
    }
    let mut pages = Vec::with_capacity(count);
    for part in parts {
        let image = if part.flags & PAGE_IMAGE != 0 {
            let len = PAGE_SIZE.checked_sub(usize::from(part.hole_bytes))?;
            let bytes = cursor.take(len)?;
            let (hole_offset, hole_bytes) = (part.hole_offset, part.hole_bytes);
            // Redo copies the bytes around the hole without another check.
            debug_assert!(usize::from(hole_offset) <= bytes.len(), "a hole behind the page");
            Some(DecodedImage { hole_offset, hole_bytes, bytes })
        } else {
            None
        };
        let data = cursor.take(part.data)?;
        pages.push(DecodedPage { id: part.id, init: part.flags & PAGE_INIT != 0, image, data });
    }
    debug_assert_eq!(pages.len(), count, "pages of the record at {position}");
    let end = position.0.checked_add(padded(record.len()) as u64)?;
    debug_assert!(end > position.0, "a record of no byte at {position}");
    Some(DecodedRecord {
        start: position,
        lsn: Lsn(end),
        manager: Manager::from_byte(header.manager)?,
        kind: header.kind,
        version: header.version,
        xid: Xid(header.xid),
        removes,
        pages,
        body: cursor.0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Encodes a record whose pages have these block numbers, flags and file bytes.
    fn record(names: &[(u32, u8, &[u8])]) -> Vec<u8> {
        let mut out = vec![0; RECORD_HEADER_SIZE];
        for (block, flags, file) in names {
            out.extend_from_slice(&block.to_le_bytes());
            out.extend_from_slice(&[0, *flags, 0, 0]);
            out.extend_from_slice(file);
        }
        let header = Header {
            length: out.len() as u32,
            crc: 0,
            place: 0,
            previous: 0,
            durable: 0,
            xid: 0,
            manager: Manager::Heap as u8,
            kind: 1,
            version: 1,
            flags: 0,
            pages: names.len() as u8,
        };
        header.put(out.first_chunk_mut().expect("a header"));
        out
    }

    #[test]
    fn a_page_is_named_by_its_file_in_short_in_full_or_as_before() {
        let (short, full) = (7u32.to_le_bytes(), (1u64 << 40).to_le_bytes());
        let bytes = record(&[
            (1, PAGE_SHORT_FILE, &short),
            (2, PAGE_SAME_FILE, &[]),
            (3, PAGE_INIT, &full),
            (4, PAGE_SAME_FILE, &[]),
        ]);
        let pages = decode(&bytes, Lsn(0)).expect("a record").pages;
        let names: Vec<_> = pages.iter().map(|page| (page.id.file.0, page.id.block.0)).collect();
        assert_eq!(names, [(7, 1), (7, 2), (1 << 40, 3), (1 << 40, 4)]);
        assert_eq!(pages.iter().filter(|page| page.init).count(), 1);
    }

    #[test]
    fn a_page_without_a_file_is_refused() {
        for names in [
            &[(1, PAGE_SAME_FILE, &[][..])][..],
            &[(1, PAGE_SHORT_FILE | PAGE_SAME_FILE, &[7, 0, 0, 0])],
            &[(1, PAGE_SHORT_FILE, &[7, 0, 0])],
            &[(1, 0, &[7, 0, 0, 0])],
        ] {
            assert!(decode(&record(names), Lsn(0)).is_err(), "{names:?}");
        }
    }
}
