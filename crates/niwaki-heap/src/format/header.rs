//! The tuple header: 24 bytes in front of each row (`docs/internals/format.md`).
//!
//! ```text
//!  0  xmin u32         inserter, relative to the page's xid base; 0 invalid, 1 frozen
//!  4  xmax u32         deleter, updater or exclusive locker, likewise
//!  8  cid u32          command of the inserter or of the deleter, or a combo number
//! 12  link block u32   next version; the block is 2^32 - 1 when there is none
//! 16  link offset u16
//! 18  root u16         offset of the chain's root line pointer
//! 20  flags u16
//! 22  natts u16        columns stored
//! ```

use niwaki_storage::{BlockNumber, OffsetNumber, Tid, Xid};
use niwaki_txn::TupleCid;

/// Bytes of a tuple header.
pub const TUPLE_HEADER_SIZE: usize = 24;

/// Link of a version that has no next version.
pub(crate) const NO_LINK: Tid = Tid { block: BlockNumber::INVALID, offset: OffsetNumber(0) };

const _: () = assert!(TUPLE_HEADER_SIZE == 4 * size_of::<u32>() + 4 * size_of::<u16>());
const _: () = assert!(NO_LINK.block.0 == u32::MAX, "the format says which block is none");

/// Flags of a tuple header. Numbers are part of the format.
pub mod flags {
    /// The values begin with a null bitmap.
    pub const HAS_NULLS: u16 = 1 << 0;
    /// Some value lies out of line.
    pub const HAS_EXTERNAL: u16 = 1 << 1;
    /// xmax only locks the row.
    pub const XMAX_LOCK_ONLY: u16 = 1 << 2;
    /// xmax is as strong as FOR UPDATE: the transaction deletes the row, changes a key, or locks
    /// the row in that mode. Without this flag, xmax is as strong as FOR NO KEY UPDATE.
    pub const KEYS_UPDATED: u16 = 1 << 3;
    /// This version was made by an update.
    pub const UPDATED: u16 = 1 << 4;
    /// No index entry points to this line pointer; entries point to the chain root (H2).
    pub const HEAP_ONLY: u16 = 1 << 5;
    /// The next version is heap-only, on this page.
    pub const HEAP_UPDATED: u16 = 1 << 6;
    /// A stub: only the header of a moved-in chain root is left. Its version was removed while the
    /// row lives on (rule `stub`).
    pub const STUB: u16 = 1 << 7;
    /// `cid` is a combo number.
    pub const COMBO_CID: u16 = 1 << 8;
    /// xmax and link come from a removed successor (relinking,
    /// docs/internals/design.md, "Garbage by interval").
    pub const RELINKED: u16 = 1 << 9;
    /// Hint: xmin committed before every snapshot, and its commit is flushed.
    pub const XMIN_ALL_VISIBLE: u16 = 1 << 10;
    /// Hint: xmin aborted.
    pub const XMIN_ABORTED: u16 = 1 << 11;
    /// Hint: xmax aborted.
    pub const XMAX_ABORTED: u16 = 1 << 12;
    /// The deletion is one half of an update that moved the row to another table.
    pub const MOVED: u16 = 1 << 13;
    /// Flags that may differ between a page and its redo, because they may be lost at any time.
    pub const HINTS: u16 = XMIN_ALL_VISIBLE | XMIN_ABORTED | XMAX_ABORTED;
    /// Flags that describe xmax.
    pub(crate) const OF_XMAX: u16 =
        XMAX_LOCK_ONLY | KEYS_UPDATED | HEAP_UPDATED | RELINKED | XMAX_ABORTED | MOVED;
    /// Bits without a meaning yet; zero.
    pub const RESERVED: u16 = 0b1100_0000_0000_0000;

    const _: () = assert!(HINTS.count_ones() == 3, "two hints share a bit");
    const _: () = assert!(OF_XMAX.count_ones() == 6, "two facts about xmax share a bit");
    const _: () = assert!(HINTS & RESERVED == 0);
    const _: () = assert!(OF_XMAX & RESERVED == 0);
    // A new end of a version leaves the facts about its inserter as they are.
    const _: () = assert!(HINTS & OF_XMAX == XMAX_ABORTED);
    const _: () = assert!(OF_XMAX & (HEAP_ONLY | STUB | UPDATED | COMBO_CID) == 0);
}

// A relative id that is not normal is the id itself.
const _: () = assert!(Xid::INVALID.0 < Xid::FROZEN.0 && Xid::FROZEN.0 < Xid::FIRST_NORMAL.0);
const _: () = assert!(Xid::FIRST_NORMAL.0 <= u32::MAX as u64);

/// Returns the absolute id for a relative one.
#[inline]
pub(crate) fn absolute(base: u64, relative: u32) -> Xid {
    if relative < Xid::FIRST_NORMAL.0 as u32 {
        Xid(u64::from(relative))
    } else {
        Xid(base.wrapping_add(u64::from(relative)))
    }
}

/// Returns the relative form of an id, if the page's base allows it.
#[inline]
pub(crate) fn relative(base: u64, xid: Xid) -> Option<u32> {
    if !xid.is_normal() {
        return u32::try_from(xid.0).ok();
    }
    let difference = xid.0.checked_sub(base)?;
    let found = u32::try_from(difference).ok().filter(|r| *r >= Xid::FIRST_NORMAL.0 as u32);
    debug_assert!(found.is_none_or(|r| absolute(base, r) == xid), "{xid} reads back from {base}");
    found
}

/// A stored tuple: header and values. At least as long as a header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tuple<'p> {
    header: &'p [u8; TUPLE_HEADER_SIZE],
    data: &'p [u8],
}

impl<'p> Tuple<'p> {
    /// Splits the bytes into header and values; returns `None` when they are too few for a header.
    #[inline]
    pub(crate) fn new(bytes: &'p [u8]) -> Option<Self> {
        let (header, data) = bytes.split_first_chunk::<TUPLE_HEADER_SIZE>()?;
        Some(Self { header, data })
    }

    #[inline]
    fn u32_at<const AT: usize>(self) -> u32 {
        let h = self.header;
        u32::from_le_bytes([h[AT], h[AT + 1], h[AT + 2], h[AT + 3]])
    }

    #[inline]
    fn u16_at<const AT: usize>(self) -> u16 {
        u16::from_le_bytes([self.header[AT], self.header[AT + 1]])
    }

    /// Returns the inserter as a relative id.
    #[inline]
    pub(crate) fn xmin(self) -> u32 {
        self.u32_at::<0>()
    }

    /// Returns the deleter, updater or locker as a relative id.
    #[inline]
    pub(crate) fn xmax(self) -> u32 {
        self.u32_at::<4>()
    }

    /// Returns the command field.
    #[inline]
    pub(crate) fn cid(self) -> TupleCid {
        TupleCid { raw: self.u32_at::<8>(), combo: self.has(flags::COMBO_CID) }
    }

    /// Returns the TID of the next version.
    #[inline]
    pub(crate) fn link(self) -> Tid {
        Tid { block: BlockNumber(self.u32_at::<12>()), offset: OffsetNumber(self.u16_at::<16>()) }
    }

    /// Returns the offset of the chain root.
    #[inline]
    pub(crate) fn root(self) -> u16 {
        self.u16_at::<18>()
    }

    #[inline]
    pub(crate) fn flags(self) -> u16 {
        self.u16_at::<20>()
    }

    #[inline]
    pub(crate) fn has(self, flag: u16) -> bool {
        self.flags() & flag != 0
    }

    /// Returns the number of columns stored.
    #[inline]
    pub(crate) fn natts(self) -> u16 {
        self.u16_at::<22>()
    }

    /// Returns the stored values.
    #[inline]
    pub(crate) fn data(self) -> &'p [u8] {
        self.data
    }

    /// Returns whether xmax, as far as the header shows, deletes or replaces this version.
    #[inline]
    pub(crate) fn has_deleter(self) -> bool {
        self.xmax() != 0 && !self.has(flags::XMAX_LOCK_ONLY | flags::XMAX_ABORTED)
    }
}

/// All fields of a tuple header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) xmin: u32,
    pub(crate) xmax: u32,
    pub(crate) cid: u32,
    pub(crate) link: Tid,
    pub(crate) root: u16,
    pub(crate) flags: u16,
    pub(crate) natts: u16,
}

impl Header {
    /// Reads the header of a tuple.
    pub(crate) fn of(tuple: Tuple<'_>) -> Self {
        Self {
            xmin: tuple.xmin(),
            xmax: tuple.xmax(),
            cid: tuple.cid().raw,
            link: tuple.link(),
            root: tuple.root(),
            flags: tuple.flags(),
            natts: tuple.natts(),
        }
    }

    /// Encodes the header as bytes.
    #[inline]
    pub(crate) fn to_bytes(self) -> [u8; TUPLE_HEADER_SIZE] {
        let mut b = [0; TUPLE_HEADER_SIZE];
        b[0..4].copy_from_slice(&self.xmin.to_le_bytes());
        b[4..8].copy_from_slice(&self.xmax.to_le_bytes());
        b[8..12].copy_from_slice(&self.cid.to_le_bytes());
        b[12..16].copy_from_slice(&self.link.block.0.to_le_bytes());
        b[16..18].copy_from_slice(&self.link.offset.0.to_le_bytes());
        b[18..20].copy_from_slice(&self.root.to_le_bytes());
        b[20..22].copy_from_slice(&self.flags.to_le_bytes());
        b[22..24].copy_from_slice(&self.natts.to_le_bytes());
        debug_assert_eq!(Tuple::new(&b).map(Self::of), Some(self), "a header reads back");
        b
    }
}

/// Number of columns in the header of a row that is a piece of a key; other rows have 0.
pub(crate) const OF_KEY: u16 = 1;
const _: () = assert!(OF_KEY != 0, "each piece would outlast its value");

/// Returns whether the row is a piece of a key.
pub(crate) fn is_of_key(tuple: Tuple<'_>) -> bool {
    tuple.natts() == OF_KEY
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_reads_back_as_written() {
        let header = Header {
            xmin: 0x0102_0304,
            xmax: 0x1112_1314,
            cid: 0x2122_2324,
            link: Tid::new(0x3132_3334, 0x4142),
            root: 0x5152,
            flags: flags::HAS_NULLS | flags::COMBO_CID,
            natts: 0x7172,
        };
        let mut bytes = header.to_bytes().to_vec();
        bytes.push(7);
        let tuple = Tuple::new(&bytes).unwrap();
        assert_eq!(Header::of(tuple), header);
        assert_eq!(tuple.data(), [7]);
        assert!(Tuple::new(&bytes[..23]).is_none());
    }

    #[test]
    fn ids_are_relative_to_the_base() {
        assert_eq!(relative(0, Xid(7)), Some(7));
        assert_eq!(relative(1 << 40, Xid((1 << 40) + 3)), Some(3));
        assert_eq!(relative(1 << 40, Xid((1 << 40) + 2)), None);
        assert_eq!(relative(1 << 40, Xid(5)), None);
        assert_eq!(relative(5, Xid(5 + (1 << 32))), None);
        assert_eq!(relative(1 << 40, Xid::FROZEN), Some(1));
        assert_eq!(absolute(1 << 40, 9), Xid((1 << 40) + 9));
        assert_eq!(absolute(1 << 40, 1), Xid::FROZEN);
    }
}
