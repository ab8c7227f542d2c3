//! The 8 KiB page: header, line pointers, tuples, special area (`docs/format.md`).
//!
//! ```text
//! 0        lsn u64           8        checksum u32      12  flags u16
//! 14       lower u16         16       upper u16         18  special u16
//! 20       kind u8           21       version u8        22  reserved u16 (zero)
//! 24       line pointers, growing up to `lower`
//! upper    tuples, growing down
//! special  access method's own area, to the end of the page
//! ```

use crate::ids::Lsn;

/// Bytes of a page.
pub const PAGE_SIZE: usize = 8192;
/// Bytes of the page header.
pub const HEADER_SIZE: usize = 24;

/// What a page holds (header byte 20).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PageKind {
    /// Never initialised: all bytes zero.
    New = 0,
    /// Heap tuples.
    Heap = 1,
    /// nbtree metapage, inner page or leaf.
    Nbtree = 2,
    /// Free space map.
    FreeSpace = 3,
    /// Visibility map.
    Visibility = 4,
    /// Transaction status.
    XactStatus = 5,
    /// A sequence's state.
    Sequence = 6,
}

/// The bytes of a page.
#[repr(C, align(4096))]
pub struct Page(pub [u8; PAGE_SIZE]);

impl Page {
    /// LSN of the last logged change; W1: the page is not written before the log is flushed to it.
    #[inline]
    pub fn lsn(&self) -> Lsn {
        let mut b = [0; 8];
        b.copy_from_slice(&self.0[0..8]);
        Lsn(u64::from_le_bytes(b))
    }
}
