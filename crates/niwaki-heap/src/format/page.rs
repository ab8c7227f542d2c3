//! Access to a heap page: the special area, tuples and chains of versions.
//!
//! ```text
//! special area, 16 bytes
//!  0  xid base u64       base of the 32-bit transaction ids of the page's tuples
//!  8  incarnation u32    changes when a line pointer of the page becomes UNUSED
//! 12  prune xid u32      hint: oldest id, relative, whose end may make something removable; 0 none
//! ```

use niwaki_env::invariant;
use niwaki_storage::page::{HEADER_SIZE, ITEM_ID_SIZE, ItemState, PAGE_SIZE, Page, PageKind};
use niwaki_storage::{ItemId, Mixed, OffsetNumber, Xid};

use crate::format::header::{TUPLE_HEADER_SIZE, Tuple, absolute, flags, relative};

/// Size of a heap page's special area, in bytes.
pub const SPECIAL_SIZE: usize = 16;
/// Size of a line pointer, in bytes.
pub(crate) const LINE_POINTER_SIZE: usize = 4;
/// Size of the longest tuple that a page can hold, header included, in bytes.
pub const MAX_TUPLE_SIZE: usize = PAGE_SIZE - HEADER_SIZE - SPECIAL_SIZE - LINE_POINTER_SIZE;
/// The most line pointers on a page. DEAD line pointers take no room for tuples, so room alone
/// would not limit their number.
pub(crate) const MAX_ITEMS: u16 = 512;

const _: () = assert!(SPECIAL_SIZE == size_of::<u64>() + 2 * size_of::<u32>());
const _: () = assert!(MAX_TUPLE_SIZE == 8148);
const _: () = assert!(LINE_POINTER_SIZE == ITEM_ID_SIZE);
// The length field of a line pointer has 13 bits.
const _: () = assert!(MAX_TUPLE_SIZE < 1 << 13);
const _: () = assert!(TUPLE_HEADER_SIZE < MAX_TUPLE_SIZE);
// A page full of DEAD line pointers still has room for rows.
const _: () = assert!(MAX_ITEMS as usize * LINE_POINTER_SIZE < MAX_TUPLE_SIZE / 2);

/// Returns the xid base of a new page. Half of the 32-bit range lies before `xid`, half after it.
pub(crate) fn initial_base(xid: Xid) -> u64 {
    let base = xid.0.saturating_sub(1 << 31);
    debug_assert!(relative(base, xid).is_some(), "a new page for {xid} takes its rows");
    base
}

/// Initialises an empty heap page.
pub(crate) fn init(page: &mut Page, base: u64) {
    page.init(PageKind::Heap, SPECIAL_SIZE);
    set_base(page, base);
    debug_assert_eq!(page.special_size(), SPECIAL_SIZE, "a special area of its own size");
    debug_assert_eq!(self::base(page), base, "the base reads back");
    debug_assert_eq!(page.item_count(), 0, "a new page has no line pointer");
    debug_assert_eq!(prune_xid(page), 0, "a new page has nothing to prune");
}

fn special_u32(page: &Page, at: usize) -> u32 {
    match page.special().get(at..at + 4) {
        Some(b) => u32::from_le_bytes([b[0], b[1], b[2], b[3]]),
        None => 0,
    }
}

fn put_special(page: &mut Page, at: usize, bytes: &[u8]) {
    if let Some(place) = page.special_mut().get_mut(at..at + bytes.len()) {
        place.copy_from_slice(bytes);
    }
}

/// Returns the base of the page's 32-bit transaction ids.
#[inline]
pub(crate) fn base(page: &Page) -> u64 {
    match page.special().first_chunk::<8>() {
        Some(b) => u64::from_le_bytes(*b),
        None => 0,
    }
}

pub(crate) fn set_base(page: &mut Page, base: u64) {
    put_special(page, 0, &base.to_le_bytes());
}

/// Returns the page's incarnation, which changes with each change that makes line pointers UNUSED.
pub(crate) fn incarnation(page: &Page) -> u32 {
    special_u32(page, 8)
}

pub(crate) fn bump_incarnation(page: &mut Page) {
    let next = incarnation(page).wrapping_add(1);
    put_special(page, 8, &next.to_le_bytes());
}

/// Returns the oldest id, relative, whose end may make something on the page removable; 0 when
/// there is none.
#[inline]
pub(crate) fn prune_xid(page: &Page) -> u32 {
    special_u32(page, 12)
}

pub(crate) fn set_prune_xid(page: &mut Page, relative: u32) {
    put_special(page, 12, &relative.to_le_bytes());
}

/// Notes in the prune hint that the end of `relative` may make something removable.
#[inline]
pub(crate) fn note_prunable(page: &mut Page, relative: u32) {
    let noted = prune_xid(page);
    if noted == 0 || relative < noted {
        set_prune_xid(page, relative);
    }
}

/// Returns the tuple at a NORMAL line pointer.
#[inline]
pub(crate) fn tuple(page: &Page, offset: u16) -> Option<Tuple<'_>> {
    let id = page.item_id(OffsetNumber(offset));
    if id.is_normal() { tuple_at(page, id) } else { None }
}

/// Returns the tuple that a NORMAL line pointer of the page points to.
#[inline]
pub(crate) fn tuple_at(page: &Page, id: ItemId) -> Option<Tuple<'_>> {
    Tuple::new(page.item_at(id)?)
}

/// Returns the header bytes of the tuple at a NORMAL line pointer for a change.
#[inline]
pub(crate) fn header_mut(page: &mut Page, offset: u16) -> Option<&mut [u8; TUPLE_HEADER_SIZE]> {
    let number = OffsetNumber(offset);
    if !page.item_id(number).is_normal() {
        return None;
    }
    page.item_mut(number)?.first_chunk_mut()
}

/// The versions of a chain on one page, from the chain root on, read under one latch hold
/// (rule `follow-again`).
///
/// Each step requires three things of the next version. The transaction that replaced the version
/// before inserted it (rule `hop-check`), it is heap-only, and it names this root.
pub(crate) struct Chain<'p> {
    page: &'p Page,
    root: u16,
    next: u16,
    /// The xmin expected of the next version, relative; 0 for the first version.
    expected: u32,
    /// Steps left: on a damaged page, links may form a circle.
    steps: u16,
}

impl<'p> Chain<'p> {
    /// Returns the chain whose root is at `root`; the chain is empty when there is no root.
    #[inline]
    pub(crate) fn new(page: &'p Page, root: u16) -> Self {
        let id = page.item_id(OffsetNumber(root));
        let (next, steps) = match id.state() {
            ItemState::Normal => (root, page.item_count()),
            ItemState::Redirect => (id.target().0, page.item_count()),
            ItemState::Unused | ItemState::Dead => (0, 0),
        };
        Self { page, root, next, expected: 0, steps }
    }
}

impl<'p> Iterator for Chain<'p> {
    type Item = (u16, Tuple<'p>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.next == 0 || self.steps == 0 {
            return None;
        }
        self.steps -= 1;
        let offset = std::mem::take(&mut self.next);
        let tuple = tuple(self.page, offset)?;
        debug_assert!(
            (1..=self.page.item_count()).contains(&offset),
            "the chain at {} has a version outside of the page, at {offset}",
            self.root
        );
        let heap_only = tuple.has(flags::HEAP_ONLY);
        // Entering at a heap-only line pointer (an old TID, reused) finds nothing: H2.
        if heap_only != (offset != self.root)
            || (heap_only && tuple.root() != self.root)
            || (self.expected != 0 && tuple.xmin() != self.expected)
        {
            return None;
        }
        if tuple.has(flags::HEAP_UPDATED) && tuple.has_deleter() {
            self.next = tuple.link().offset.0;
            self.expected = tuple.xmax();
            debug_assert_ne!(self.expected, 0, "the next version is taken without a check");
        }
        Some((offset, tuple))
    }
}

/// Returns the transaction id in a tuple's xmin.
#[inline]
pub(crate) fn xmin(base: u64, tuple: Tuple<'_>) -> Xid {
    absolute(base, tuple.xmin())
}

/// Returns the transaction id in a tuple's xmax.
#[inline]
pub(crate) fn xmax(base: u64, tuple: Tuple<'_>) -> Xid {
    absolute(base, tuple.xmax())
}

/// Clears everything that may differ between a heap page and its redo. These are hints, also the
/// page's own, and command numbers, which mean nothing after a crash. Pages of other kinds stay
/// unchanged.
pub fn mask_hints(page: &mut Page) {
    if page.kind() != PageKind::Heap {
        return;
    }
    set_prune_xid(page, 0);
    for offset in 1..=page.item_count() {
        let number = OffsetNumber(offset);
        let id = page.item_id(number);
        // Only memory knows the state `cleaning`: on disk, `cleaning` means `yes`
        // (rule `mixed-flag`).
        if id.mixed() == Mixed::Cleaning {
            page.set_item_id(number, id.with_mixed(Mixed::Yes));
        }
        let Some(header) = header_mut(page, offset) else { continue };
        let Some(tuple) = Tuple::new(header.as_slice()) else { continue };
        let kept = tuple.flags() & !(flags::HINTS | flags::COMBO_CID);
        header[8..12].fill(0);
        header[20..22].copy_from_slice(&kept.to_le_bytes());
    }
}

/// Returns whether a tuple of `len` bytes can be placed on the page as it is.
pub(crate) fn has_room(page: &Page, len: usize) -> bool {
    page.free_for_item() >= len
        && (page.item_count() < MAX_ITEMS || (page.has_unused() && page.first_unused().is_some()))
}

/// Returns the line pointer that the next tuple gets.
pub(crate) fn next_offset(page: &Page) -> u16 {
    let unused = if page.has_unused() { page.first_unused() } else { None };
    let next = unused.map_or_else(|| page.item_count() + 1, |number| number.0);
    debug_assert_ne!(next, 0, "line pointers are numbered from 1");
    let state = page.item_id(OffsetNumber(next)).state();
    invariant!(X4, state == ItemState::Unused, "the line pointer {next} is in use");
    next
}
