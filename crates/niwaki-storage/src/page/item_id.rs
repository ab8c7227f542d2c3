//! A line pointer: 32 bits that locate a tuple and hold its state.
//!
//! ```text
//! bit 0..13   offset of the tuple; of a REDIRECT: the target's offset number
//! bit 13..26  length of the tuple; 0 where nothing is stored
//! bit 26..28  state: 0 UNUSED, 1 NORMAL, 2 REDIRECT, 3 DEAD
//! bit 28..30  mixed (rule `mixed-flag`): 0 no, 1 cleaning, 2 yes
//! bit 30      moved in (rule `stub`)
//! bit 31      spare, zero
//! ```

use super::PAGE_SIZE;
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

/// Decides whether index entries with keys other than the newest version's may point at a chain
/// root (a mixed root, or root with several keys).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Mixed {
    /// No stale entry exists (X3).
    No = 0,
    /// A cleaner is visiting the indexes. A page read from disk with this value counts as
    /// [`Mixed::Yes`].
    Cleaning = 1,
    /// Stale entries may exist: recheck.
    Yes = 2,
}

/// A line pointer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct ItemId(pub u32);

const FIELD: u32 = 0x1fff;

// A field holds each offset on a page, and no larger number.
const _: () = assert!(FIELD as usize == PAGE_SIZE - 1);
// Exactly the states that may have tuple bytes are odd: see `stored_mask`.
const _: () = assert!((ItemState::Unused as u32).is_multiple_of(2));
const _: () = assert!(!(ItemState::Normal as u32).is_multiple_of(2));
const _: () = assert!((ItemState::Redirect as u32).is_multiple_of(2));
const _: () = assert!(!(ItemState::Dead as u32).is_multiple_of(2));
// State and flag take two bits each.
const _: () = assert!((ItemState::Dead as u32) < 4);
const _: () = assert!((Mixed::Yes as u32) < 4);

impl ItemId {
    /// Free for use.
    pub const UNUSED: Self = Self(0);

    /// Makes a NORMAL line pointer to `len` bytes at `offset` of the page.
    #[inline]
    pub fn normal(offset: u16, len: u16) -> Self {
        debug_assert!(u32::from(offset) <= FIELD, "offset {offset} is not on a page");
        debug_assert!(u32::from(len) <= FIELD, "{len} bytes are more than a page");
        Self(
            (u32::from(offset) & FIELD)
                | ((u32::from(len) & FIELD) << 13)
                | ((ItemState::Normal as u32) << 26),
        )
    }

    /// Makes a REDIRECT to another line pointer of the page.
    #[inline]
    pub fn redirect(target: OffsetNumber) -> Self {
        Self((u32::from(target.0) & FIELD) | ((ItemState::Redirect as u32) << 26))
    }

    /// Makes a DEAD line pointer without a tuple.
    #[inline]
    pub fn dead() -> Self {
        Self((ItemState::Dead as u32) << 26)
    }

    /// Returns the state.
    #[inline]
    pub fn state(self) -> ItemState {
        match (self.0 >> 26) & 3 {
            0 => ItemState::Unused,
            1 => ItemState::Normal,
            2 => ItemState::Redirect,
            _ => ItemState::Dead,
        }
    }

    /// Returns a copy with another state; offset, length and flags stay.
    #[inline]
    pub fn with_state(self, state: ItemState) -> Self {
        Self((self.0 & !(3 << 26)) | ((state as u32) << 26))
    }

    /// Returns whether the state is NORMAL.
    #[inline]
    pub fn is_normal(self) -> bool {
        self.state() == ItemState::Normal
    }

    /// Returns the offset of the tuple on the page.
    #[inline]
    pub fn offset(self) -> u16 {
        (self.0 & FIELD) as u16
    }

    /// Returns the length of the tuple, in bytes.
    #[inline]
    pub fn len(self) -> u16 {
        ((self.0 >> 13) & FIELD) as u16
    }

    /// Returns whether the length field is 0: no tuple is stored.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Returns the target of a REDIRECT.
    #[inline]
    pub fn target(self) -> OffsetNumber {
        OffsetNumber(self.offset())
    }

    /// Returns whether the line pointer has tuple bytes: NORMAL, or DEAD with its bytes still
    /// there.
    #[inline]
    pub fn has_storage(self) -> bool {
        self.stored_len() != 0
    }

    /// Returns the mixed flag; the fourth, undefined value reads as yes.
    #[inline]
    pub fn mixed(self) -> Mixed {
        match (self.0 >> 28) & 3 {
            0 => Mixed::No,
            1 => Mixed::Cleaning,
            _ => Mixed::Yes,
        }
    }

    /// Returns a copy with another mixed flag.
    #[inline]
    pub fn with_mixed(self, mixed: Mixed) -> Self {
        Self((self.0 & !(3 << 28)) | ((mixed as u32) << 28))
    }

    /// Returns whether a cross-page update made this root.
    #[inline]
    pub fn moved_in(self) -> bool {
        self.0 & (1 << 30) != 0
    }

    /// Returns a copy with another moved-in flag.
    #[inline]
    pub fn with_moved_in(self, moved_in: bool) -> Self {
        Self((self.0 & !(1 << 30)) | (u32::from(moved_in) << 30))
    }

    /// Returns all ones for a state that may have tuple bytes, NORMAL or DEAD, else 0: both states
    /// are odd. A length above 0 then decides, as in [`Self::has_storage`]. Loops over all line
    /// pointers of a page stay free of branches with this, so that the compiler vectorises them.
    #[inline]
    fn stored_mask(self) -> u32 {
        ((self.0 >> 26) & 1).wrapping_neg()
    }

    /// Returns the length of the stored tuple, in bytes.
    #[inline]
    pub(crate) fn stored_len(self) -> u32 {
        (self.0 >> 13) & FIELD & self.stored_mask()
    }

    /// Returns a copy with another offset; state, length and flags stay.
    #[inline]
    pub(crate) fn with_offset(self, offset: u16) -> Self {
        debug_assert!(u32::from(offset) <= FIELD, "offset {offset} is not on a page");
        Self((self.0 & !FIELD) | (u32::from(offset) & FIELD))
    }

    #[inline]
    pub(crate) fn with_len(self, len: u16) -> Self {
        debug_assert!(u32::from(len) <= FIELD, "{len} bytes are more than a page");
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
