//! The 8 KiB page: header, line pointers, tuples, special area (`docs/internals/format.md`).
//!
//! ```text
//! 0        lsn u64           8        checksum u32      12  flags u16
//! 14       lower u16         16       upper u16         18  special u16
//! 20       kind u8           21       version u8        22  reserved u16 (zero)
//! 24       line pointers, growing up to `lower`
//! upper    tuples, growing down
//! special  access method's own area, to the end of the page
//! ```
//!
//! A page is *slotted* or *raw*. Slotted pages (heap, nbtree) hold line pointers and tuples. In raw
//! pages (maps) everything after the header belongs to the access method, and a full-page image has
//! no hole to leave out.

mod check;
mod checksum;
mod item_id;
mod items;
mod prefetch;

pub use item_id::{ItemId, ItemState, Mixed};
pub use items::ITEM_ID_SIZE;
pub(crate) use prefetch::prefetch;

use crate::ids::Lsn;

/// Bytes of a page.
pub const PAGE_SIZE: usize = 8192;
/// Bytes of the page header.
pub const HEADER_SIZE: usize = 24;
/// Version of the page layout (header byte 21).
pub const PAGE_VERSION: u8 = 1;

pub(crate) const LSN_AT: usize = 0;
pub(crate) const CHECKSUM_AT: usize = 8;
pub(crate) const FLAGS_AT: usize = 12;
pub(crate) const LOWER_AT: usize = 14;
pub(crate) const UPPER_AT: usize = 16;
pub(crate) const SPECIAL_AT: usize = 18;
pub(crate) const KIND_AT: usize = 20;
pub(crate) const VERSION_AT: usize = 21;
pub(crate) const RESERVED_AT: usize = 22;

/// Header flag of this crate: at least one line pointer may be UNUSED, so that a search for one is
/// worth its time. The low byte of the flags belongs to the access method.
pub(crate) const FLAG_HAS_UNUSED: u16 = 0x8000;

/// The kind of a page's contents (header byte 20).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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

impl PageKind {
    /// Returns the kind of this header byte.
    pub fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            0 => Self::New,
            1 => Self::Heap,
            2 => Self::Nbtree,
            3 => Self::FreeSpace,
            4 => Self::Visibility,
            5 => Self::XactStatus,
            6 => Self::Sequence,
            _ => return None,
        })
    }

    /// Returns whether pages of this kind hold line pointers and tuples.
    pub fn is_slotted(self) -> bool {
        matches!(self, Self::Heap | Self::Nbtree)
    }
}

/// The bytes of a page.
///
/// The alignment suits the fields and is no stricter, because pages are also made on the stack.
/// LLVM 22 sometimes loses the prologue of a function whose stack needs a stricter alignment than
/// memory pages have. Frames of the buffer pool are aligned to memory pages all the same.
#[repr(C, align(16))]
#[derive(Clone)]
pub struct Page(pub [u8; PAGE_SIZE]);

impl std::fmt::Debug for Page {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Page")
            .field("lsn", &self.lsn())
            .field("kind", &self.kind())
            .field("lower", &self.lower())
            .field("upper", &self.upper())
            .field("special", &self.special_offset())
            .finish_non_exhaustive()
    }
}

impl Default for Page {
    fn default() -> Self {
        Self::zeroed()
    }
}

impl Page {
    /// Returns a page of zeros, the contents of a new block.
    pub const fn zeroed() -> Self {
        Self([0; PAGE_SIZE])
    }

    #[inline]
    pub(crate) fn u16_at(&self, at: usize) -> u16 {
        u16::from_le_bytes([self.0[at], self.0[at + 1]])
    }

    #[inline]
    pub(crate) fn put_u16(&mut self, at: usize, value: u16) {
        self.0[at..at + 2].copy_from_slice(&value.to_le_bytes());
    }

    /// Makes this an empty page of `kind`. A slotted page (heap or nbtree) gets `special_bytes` at
    /// its end. A raw page (any other kind) must have `special_bytes` 0. The LSN stays: logging the
    /// change stamps the new one.
    ///
    /// # Panics
    /// If `special_bytes` does not fit, which is a mistake of the caller.
    pub fn init(&mut self, kind: PageKind, special_bytes: usize) {
        assert!(special_bytes <= PAGE_SIZE - HEADER_SIZE, "special area of {special_bytes} bytes");
        debug_assert!(kind != PageKind::New, "a page is made empty of no kind");
        let lsn = self.lsn();
        self.0.fill(0);
        self.set_lsn(lsn);
        self.0[KIND_AT] = kind as u8;
        self.0[VERSION_AT] = PAGE_VERSION;
        if kind.is_slotted() {
            let special = (PAGE_SIZE - special_bytes) as u16;
            self.set_lower(HEADER_SIZE as u16);
            self.set_upper(special);
            self.put_u16(SPECIAL_AT, special);
            debug_assert_eq!(self.item_count(), 0, "an empty page has a line pointer");
            debug_assert_eq!(self.special_size(), special_bytes, "another special area");
        } else {
            assert!(special_bytes == 0, "a raw page has no special area");
            self.set_lower(PAGE_SIZE as u16);
            self.set_upper(PAGE_SIZE as u16);
            self.put_u16(SPECIAL_AT, PAGE_SIZE as u16);
        }
    }

    /// Returns whether the page was never initialised (its kind byte is 0).
    #[inline]
    pub fn is_new(&self) -> bool {
        self.0[KIND_AT] == PageKind::New as u8
    }

    /// Returns the LSN of the last logged change. W1: the page is not written before the log is
    /// flushed up to this LSN.
    #[inline]
    pub fn lsn(&self) -> Lsn {
        let mut b = [0; 8];
        b.copy_from_slice(&self.0[LSN_AT..LSN_AT + 8]);
        Lsn(u64::from_le_bytes(b))
    }

    /// Stamps the LSN. Only `Storage::log` and redo do this.
    #[inline]
    pub(crate) fn set_lsn(&mut self, lsn: Lsn) {
        self.0[LSN_AT..LSN_AT + 8].copy_from_slice(&lsn.0.to_le_bytes());
    }

    /// Returns the kind of the page's contents. The pool refuses pages with an unknown kind byte,
    /// so none gets here; such a byte would read as [`PageKind::New`].
    #[inline]
    pub fn kind(&self) -> PageKind {
        PageKind::from_byte(self.0[KIND_AT]).unwrap_or(PageKind::New)
    }

    /// Returns the access method's own flags, the low byte of the header's flags.
    #[inline]
    pub fn flags(&self) -> u8 {
        self.0[FLAGS_AT]
    }

    /// Replaces the access method's own flags.
    #[inline]
    pub fn set_flags(&mut self, flags: u8) {
        self.0[FLAGS_AT] = flags;
    }

    /// Returns the end of the line pointers.
    #[inline]
    pub fn lower(&self) -> u16 {
        self.u16_at(LOWER_AT)
    }

    #[inline]
    pub(crate) fn set_lower(&mut self, lower: u16) {
        self.put_u16(LOWER_AT, lower);
    }

    /// Returns the start of the tuples.
    #[inline]
    pub fn upper(&self) -> u16 {
        self.u16_at(UPPER_AT)
    }

    #[inline]
    pub(crate) fn set_upper(&mut self, upper: u16) {
        self.put_u16(UPPER_AT, upper);
    }

    /// Returns the start of the special area; [`PAGE_SIZE`] when there is none.
    #[inline]
    pub fn special_offset(&self) -> u16 {
        self.u16_at(SPECIAL_AT)
    }

    /// Returns the size of the special area, in bytes.
    #[inline]
    pub fn special_size(&self) -> usize {
        PAGE_SIZE.saturating_sub(usize::from(self.special_offset()))
    }

    /// Returns the access method's own area; empty when there is none.
    #[inline]
    pub fn special(&self) -> &[u8] {
        self.0.get(usize::from(self.special_offset())..).unwrap_or(&[])
    }

    /// Returns the access method's own area, to change.
    #[inline]
    pub fn special_mut(&mut self) -> &mut [u8] {
        let at = usize::from(self.special_offset());
        self.0.get_mut(at..).unwrap_or(&mut [])
    }

    /// Returns everything after the header: the contents of a raw page.
    #[inline]
    pub fn raw(&self) -> &[u8] {
        &self.0[HEADER_SIZE..]
    }

    /// Returns everything after the header, to change. For raw pages only.
    #[inline]
    pub fn raw_mut(&mut self) -> &mut [u8] {
        &mut self.0[HEADER_SIZE..]
    }

    /// Returns whether some line pointer may be UNUSED; false is certain.
    #[inline]
    pub fn has_unused(&self) -> bool {
        self.u16_at(FLAGS_AT) & FLAG_HAS_UNUSED != 0
    }

    #[inline]
    pub(crate) fn set_has_unused(&mut self, value: bool) {
        let flags = self.u16_at(FLAGS_AT) & !FLAG_HAS_UNUSED;
        self.put_u16(FLAGS_AT, if value { flags | FLAG_HAS_UNUSED } else { flags });
    }
}

const _: () = assert!(size_of::<Page>() == PAGE_SIZE);
const _: () = assert!(align_of::<Page>() == 16);

// Offsets and lengths on a page fit 16 bits, the end of the page included.
const _: () = assert!(PAGE_SIZE.is_power_of_two());
const _: () = assert!(PAGE_SIZE <= u16::MAX as usize);
// The fields of the header follow each other without a gap, and fill it.
const _: () = assert!(LSN_AT == 0);
const _: () = assert!(CHECKSUM_AT == LSN_AT + size_of::<Lsn>());
const _: () = assert!(FLAGS_AT == CHECKSUM_AT + size_of::<u32>());
const _: () = assert!(LOWER_AT == FLAGS_AT + size_of::<u16>());
const _: () = assert!(UPPER_AT == LOWER_AT + size_of::<u16>());
const _: () = assert!(SPECIAL_AT == UPPER_AT + size_of::<u16>());
const _: () = assert!(KIND_AT == SPECIAL_AT + size_of::<u16>());
const _: () = assert!(VERSION_AT == KIND_AT + size_of::<PageKind>());
const _: () = assert!(RESERVED_AT == VERSION_AT + size_of::<u8>());
const _: () = assert!(HEADER_SIZE == RESERVED_AT + size_of::<u16>());
// Line pointers begin right after the header, at multiples of their size.
const _: () = assert!(HEADER_SIZE.is_multiple_of(ITEM_ID_SIZE));
// The low byte of the flags belongs to the access method.
const _: () = assert!(FLAG_HAS_UNUSED & 0xff == 0);

#[cfg(test)]
mod tests;
