//! A heap page: what its special area says, and the way along a chain.
//!
//! ```text
//! special area, 16 bytes
//!  0  xid base u64       what the 32-bit ids of its tuples are relative to
//!  8  incarnation u32    moves when a line pointer of the page becomes UNUSED
//! 12  prune xid u32      hint: oldest id, relative, whose end may make something removable; 0 none
//! ```

use niwaki_storage::page::{HEADER_SIZE, ItemState, PAGE_SIZE, Page, PageKind};
use niwaki_storage::{ItemId, Mixed, OffsetNumber, Xid};

use crate::header::{TUPLE_HEADER_SIZE, Tuple, absolute, flags};

/// Bytes of a heap page's special area.
pub const SPECIAL_SIZE: usize = 16;
/// Bytes of a line pointer.
pub(crate) const LINE_POINTER_SIZE: usize = 4;
/// Longest tuple, header included, that a page can hold.
pub const MAX_TUPLE_SIZE: usize = PAGE_SIZE - HEADER_SIZE - SPECIAL_SIZE - LINE_POINTER_SIZE;
/// Most line pointers on a page. Dead ones take no room for tuples, so something must limit them.
pub(crate) const MAX_ITEMS: u16 = 512;

const _: () = assert!(MAX_TUPLE_SIZE == 8148);

/// The xid base that a new page gets: room for half of the ids before `xid`, half after.
pub(crate) fn initial_base(xid: Xid) -> u64 {
    xid.0.saturating_sub(1 << 31)
}

/// Makes an empty heap page.
pub(crate) fn init(page: &mut Page, base: u64) {
    page.init(PageKind::Heap, SPECIAL_SIZE);
    set_base(page, base);
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

/// What the 32-bit ids of the page are relative to.
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

/// How often line pointers of the page became UNUSED.
pub(crate) fn incarnation(page: &Page) -> u32 {
    special_u32(page, 8)
}

pub(crate) fn bump_incarnation(page: &mut Page) {
    let next = incarnation(page).wrapping_add(1);
    put_special(page, 8, &next.to_le_bytes());
}

/// Oldest id, relative, whose end may make something on the page removable; 0 when none.
#[inline]
pub(crate) fn prune_xid(page: &Page) -> u32 {
    special_u32(page, 12)
}

pub(crate) fn set_prune_xid(page: &mut Page, relative: u32) {
    put_special(page, 12, &relative.to_le_bytes());
}

/// Notes that the end of `relative` may make something removable.
#[inline]
pub(crate) fn note_prunable(page: &mut Page, relative: u32) {
    let noted = prune_xid(page);
    if noted == 0 || relative < noted {
        set_prune_xid(page, relative);
    }
}

/// The tuple at a NORMAL line pointer.
#[inline]
pub(crate) fn tuple(page: &Page, offset: u16) -> Option<Tuple<'_>> {
    let id = page.item_id(OffsetNumber(offset));
    if id.is_normal() { tuple_at(page, id) } else { None }
}

/// The tuple that a NORMAL line pointer of the page names.
#[inline]
pub(crate) fn tuple_at(page: &Page, id: ItemId) -> Option<Tuple<'_>> {
    Tuple::new(page.item_at(id)?)
}

/// The header bytes of the tuple at a NORMAL line pointer, to change.
#[inline]
pub(crate) fn header_mut(page: &mut Page, offset: u16) -> Option<&mut [u8; TUPLE_HEADER_SIZE]> {
    let number = OffsetNumber(offset);
    if !page.item_id(number).is_normal() {
        return None;
    }
    page.item_mut(number)?.first_chunk_mut()
}

/// The versions of a chain on one page, from the root on; all under one latch hold (rule 9b.5).
///
/// Each step requires that the next version was inserted by whoever replaced the one before
/// (rule 9b.7), is heap-only and names this root.
pub(crate) struct Chain<'p> {
    page: &'p Page,
    root: u16,
    next: u16,
    /// xmin expected there, relative; 0 for the first.
    expected: u32,
    /// Steps left: a damaged page may link in a circle.
    steps: u16,
}

impl<'p> Chain<'p> {
    /// The chain whose root is at `root`; empty when there is no root.
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
        let heap_only = tuple.has(flags::HEAP_ONLY);
        // Entering at a heap-only pointer (an old TID, reused) finds nothing: H2.
        if heap_only != (offset != self.root)
            || (heap_only && tuple.root() != self.root)
            || (self.expected != 0 && tuple.xmin() != self.expected)
        {
            return None;
        }
        if tuple.has(flags::HEAP_UPDATED) && tuple.has_deleter() {
            self.next = tuple.link().offset.0;
            self.expected = tuple.xmax();
        }
        Some((offset, tuple))
    }
}

/// The id in a tuple's xmin.
#[inline]
pub(crate) fn xmin(base: u64, tuple: Tuple<'_>) -> Xid {
    absolute(base, tuple.xmin())
}

/// The id in a tuple's xmax.
#[inline]
pub(crate) fn xmax(base: u64, tuple: Tuple<'_>) -> Xid {
    absolute(base, tuple.xmax())
}

/// Clears what may differ between a heap page and its redo: hints, the page's own among them, and
/// command numbers, which mean nothing after a crash. Does nothing to pages of other kinds.
pub fn mask_hints(page: &mut Page) {
    if page.kind() != PageKind::Heap {
        return;
    }
    set_prune_xid(page, 0);
    for offset in 1..=page.item_count() {
        let number = OffsetNumber(offset);
        let id = page.item_id(number);
        // `cleaning` is known in memory only: on disk it means yes (rule 9b.9).
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
