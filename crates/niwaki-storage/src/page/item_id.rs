//! A line pointer: 32 bits that say where a tuple is and what became of it.
//!
//! ```text
//! bit 0..13   offset of the tuple; of a REDIRECT: the target's offset number
//! bit 13..26  length of the tuple; 0 where nothing is stored
//! bit 26..28  state: 0 UNUSED, 1 NORMAL, 2 REDIRECT, 3 DEAD
//! bit 28..30  mixed (rule 9b.9): 0 no, 1 cleaning, 2 yes
//! bit 30      moved in (rule 9b.6)
//! bit 31      spare, zero
//! ```

use crate::ids::OffsetNumber;

/// State of a line pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ItemState {
    /// Free to be used for a new tuple.
    Unused = 0,
    /// Points at a tuple.
    Normal = 1,
    /// The chain goes on at another line pointer of the page (heap).
    Redirect = 2,
    /// Dead; index entries for it may exist. In an nbtree leaf the tuple is still there.
    Dead = 3,
}

/// Whether index entries with other keys than the newest version's may point at a root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Mixed {
    /// No stale entry exists (X3).
    No = 0,
    /// A cleaner is on its way through the indexes. Read from disk it means [`Mixed::Yes`].
    Cleaning = 1,
    /// Stale entries may exist: recheck.
    Yes = 2,
}

/// A line pointer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct ItemId(pub u32);

const FIELD: u32 = 0x1fff;

impl ItemId {
    /// Free for use.
    pub const UNUSED: Self = Self(0);

    /// Points at `len` bytes at `offset` of the page.
    #[inline]
    pub fn normal(offset: u16, len: u16) -> Self {
        debug_assert!(u32::from(offset) <= FIELD && u32::from(len) <= FIELD);
        Self(
            (u32::from(offset) & FIELD)
                | ((u32::from(len) & FIELD) << 13)
                | ((ItemState::Normal as u32) << 26),
        )
    }

    /// Leads to another line pointer of the page.
    #[inline]
    pub fn redirect(target: OffsetNumber) -> Self {
        Self((u32::from(target.0) & FIELD) | ((ItemState::Redirect as u32) << 26))
    }

    /// Dead, with no tuple.
    #[inline]
    pub fn dead() -> Self {
        Self((ItemState::Dead as u32) << 26)
    }

    /// State.
    #[inline]
    pub fn state(self) -> ItemState {
        match (self.0 >> 26) & 3 {
            0 => ItemState::Unused,
            1 => ItemState::Normal,
            2 => ItemState::Redirect,
            _ => ItemState::Dead,
        }
    }

    /// The same with another state; offset, length and flags stay.
    #[inline]
    pub fn with_state(self, state: ItemState) -> Self {
        Self((self.0 & !(3 << 26)) | ((state as u32) << 26))
    }

    /// Whether it points at a live tuple.
    #[inline]
    pub fn is_normal(self) -> bool {
        self.state() == ItemState::Normal
    }

    /// Where the tuple begins on the page.
    #[inline]
    pub fn offset(self) -> u16 {
        (self.0 & FIELD) as u16
    }

    /// Bytes of the tuple.
    #[inline]
    pub fn len(self) -> u16 {
        ((self.0 >> 13) & FIELD) as u16
    }

    /// Whether no tuple is stored.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Where a REDIRECT leads.
    #[inline]
    pub fn target(self) -> OffsetNumber {
        OffsetNumber(self.offset())
    }

    /// Whether a tuple is stored for it: NORMAL, or DEAD with its bytes still there.
    #[inline]
    pub fn has_storage(self) -> bool {
        self.stored_len() != 0
    }

    /// The mixed flag; the fourth, undefined value reads as yes.
    #[inline]
    pub fn mixed(self) -> Mixed {
        match (self.0 >> 28) & 3 {
            0 => Mixed::No,
            1 => Mixed::Cleaning,
            _ => Mixed::Yes,
        }
    }

    /// The same with another mixed flag.
    #[inline]
    pub fn with_mixed(self, mixed: Mixed) -> Self {
        Self((self.0 & !(3 << 28)) | ((mixed as u32) << 28))
    }

    /// Whether a cross-page update made this root.
    #[inline]
    pub fn moved_in(self) -> bool {
        self.0 & (1 << 30) != 0
    }

    /// The same with another moved-in flag.
    #[inline]
    pub fn with_moved_in(self, moved_in: bool) -> Self {
        Self((self.0 & !(1 << 30)) | (u32::from(moved_in) << 30))
    }

    /// All ones where a tuple may be stored, as [`Self::has_storage`] tells it apart from its length: both states are
    /// odd. For loops over all line pointers of a page, which the compiler makes wide where nothing branches.
    #[inline]
    fn stored_mask(self) -> u32 {
        ((self.0 >> 26) & 1).wrapping_neg()
    }

    /// Bytes that are stored for it.
    #[inline]
    pub(crate) fn stored_len(self) -> u32 {
        (self.0 >> 13) & FIELD & self.stored_mask()
    }

    /// The same flags (mixed, moved in) on another place and length.
    #[inline]
    pub(crate) fn with_offset(self, offset: u16) -> Self {
        Self((self.0 & !FIELD) | (u32::from(offset) & FIELD))
    }

    #[inline]
    pub(crate) fn with_len(self, len: u16) -> Self {
        Self((self.0 & !(FIELD << 13)) | ((u32::from(len) & FIELD) << 13))
    }
}

impl std::fmt::Debug for ItemId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}({}, {})", self.state(), self.offset(), self.len())?;
        if self.mixed() != Mixed::No {
            write!(f, " mixed {:?}", self.mixed())?;
        }
        if self.moved_in() {
            write!(f, " moved in")?;
        }
        Ok(())
    }
}
