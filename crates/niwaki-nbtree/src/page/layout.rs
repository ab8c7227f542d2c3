//! Layout of index pages: the special area, its flags, and the metapage.
//!
//! ```text
//! special area, 16 bytes at the end of every page
//! 0  prev u32    left sibling, 0 = none        8  level u16   0 = leaf
//! 4  next u32    right sibling, 0 = none      10  flags u16   12  reserved u32 (zero)
//! ```
//!
//! Item 1 of a page that has a right sibling is its high key; its entries follow. Block 0 is the
//! metapage, so 0 serves as "none" in links.

use niwaki_storage::page::{Page, PageKind};
use niwaki_storage::{BlockNumber, Corruption, OffsetNumber, PageId};

/// Bytes of the special area.
pub(crate) const SPECIAL_SIZE: usize = 16;
/// Bytes of line pointers and tuples that a page can hold.
pub(crate) const USABLE_BYTES: usize =
    niwaki_storage::page::PAGE_SIZE - niwaki_storage::page::HEADER_SIZE - SPECIAL_SIZE;
/// The item that is the high key on a page with a right sibling, and the first entry on a page
/// without.
pub(crate) const HIGH_KEY: u16 = 1;
/// Bytes of a line pointer, which every tuple costs besides its own bytes.
pub(crate) const LINE_POINTER: usize = 4;
/// The block of the metapage.
pub(crate) const META_BLOCK: BlockNumber = BlockNumber(0);
/// The link value that means "no sibling".
pub(crate) const NO_BLOCK: BlockNumber = BlockNumber(0);

const PREV_AT: usize = 0;
pub(crate) const NEXT_AT: usize = 4;
pub(crate) const LEVEL_AT: usize = 8;
pub(crate) const FLAGS_AT: usize = 10;
const RESERVED_AT: usize = 12;

// The fields of the special area lie one behind the other, and fill it.
const _: () = assert!(NEXT_AT == PREV_AT + size_of::<BlockNumber>());
const _: () = assert!(LEVEL_AT == NEXT_AT + size_of::<BlockNumber>());
const _: () = assert!(FLAGS_AT == LEVEL_AT + size_of::<u16>());
const _: () = assert!(RESERVED_AT == FLAGS_AT + size_of::<u16>());
const _: () = assert!(SPECIAL_SIZE == RESERVED_AT + size_of::<u32>());
const _: () = assert!(LINE_POINTER == niwaki_storage::page::ITEM_ID_SIZE);
// A link to the metapage cannot exist, so its number is free to mean "no sibling".
const _: () = assert!(NO_BLOCK.0 == META_BLOCK.0);

/// Flags of the special area.
pub(crate) mod flag {
    /// A leaf page.
    pub(crate) const LEAF: u16 = 1;
    /// The metapage.
    pub(crate) const META: u16 = 2;
    /// The parent has no downlink to the right sibling yet; the next inserter that comes by adds
    /// it.
    pub(crate) const INCOMPLETE_SPLIT: u16 = 4;
    /// The page is being deleted: the parent leads past it, and its range belongs to its right
    /// sibling.
    pub(crate) const HALF_DEAD: u16 = 8;
    /// The page is deleted: nothing leads to it, and it may be used again.
    pub(crate) const DELETED: u16 = 16;
    /// Every flag of this format version.
    pub(crate) const ALL: u16 = LEAF | META | INCOMPLETE_SPLIT | HALF_DEAD | DELETED;
    // Each of the five flags has a bit of its own.
    const _: () = assert!(ALL.count_ones() == 5);
}

#[inline]
pub(crate) fn read_u16(bytes: &[u8], at: usize) -> u16 {
    match bytes.get(at..at + 2) {
        Some(b) => u16::from_le_bytes([b[0], b[1]]),
        None => 0,
    }
}

#[inline]
pub(crate) fn read_u32(bytes: &[u8], at: usize) -> u32 {
    match bytes.get(at..at + 4) {
        Some(b) => u32::from_le_bytes([b[0], b[1], b[2], b[3]]),
        None => 0,
    }
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    if let Some(place) = bytes.get_mut(at..at + value.len()) {
        place.copy_from_slice(value);
    }
}

/// The index's view of a page. On bytes that are no index page the answers are harmless zeros;
/// [`IndexPage::verify`] detects such bytes.
pub(crate) trait IndexPage {
    fn area(&self) -> &[u8];
    fn area_mut(&mut self) -> &mut [u8];
    /// Makes the page an empty index page.
    fn init_index(&mut self, level: u16, flags: u16);
    /// Returns the first item that is an entry and not the high key.
    fn first_entry(&self) -> u16;
    /// Returns the number of entries.
    fn entry_count(&self) -> u16;
    /// Returns the high key's tuple; `None` on the rightmost page of a level.
    fn high_key(&self) -> Option<&[u8]>;
    /// Returns the tuple of an item; empty where the page has no such item.
    fn tuple(&self, offset: u16) -> &[u8];
    /// Checks that this is an index page, of the expected level. Also checks its links to siblings
    /// ([`IndexPage::leads_astray`]).
    fn verify(&self, id: PageId, level: Option<u16>) -> Result<(), Box<Corruption>>;

    /// Returns the free bytes for line pointers and tuples, as they would be after compaction.
    fn room(&self) -> usize;

    #[inline]
    fn prev(&self) -> BlockNumber {
        BlockNumber(read_u32(self.area(), PREV_AT))
    }
    #[inline]
    fn next(&self) -> BlockNumber {
        BlockNumber(read_u32(self.area(), NEXT_AT))
    }
    /// Returns whether a link of the page at `block` leads back to this page, or both links lead to
    /// one page. A thread that follows such a link under the page's latch, or under those of the
    /// page and its left sibling, would wait for itself.
    #[inline]
    fn leads_astray(&self, block: BlockNumber) -> bool {
        let (prev, next) = (self.prev(), self.next());
        prev == block || next == block || (prev == next && next != NO_BLOCK)
    }
    #[inline]
    fn level(&self) -> u16 {
        read_u16(self.area(), LEVEL_AT)
    }
    #[inline]
    fn index_flags(&self) -> u16 {
        read_u16(self.area(), FLAGS_AT)
    }
    #[inline]
    fn reserved(&self) -> u32 {
        read_u32(self.area(), RESERVED_AT)
    }
    #[inline]
    fn is_leaf(&self) -> bool {
        self.index_flags() & flag::LEAF != 0
    }
    #[inline]
    fn is_rightmost(&self) -> bool {
        self.next() == NO_BLOCK
    }
    #[inline]
    fn is_incomplete(&self) -> bool {
        self.index_flags() & flag::INCOMPLETE_SPLIT != 0
    }
    #[inline]
    fn is_half_dead(&self) -> bool {
        self.index_flags() & flag::HALF_DEAD != 0
    }
    #[inline]
    fn is_deleted(&self) -> bool {
        self.index_flags() & flag::DELETED != 0
    }
    fn set_prev(&mut self, block: BlockNumber) {
        put(self.area_mut(), PREV_AT, &block.0.to_le_bytes());
    }
    fn set_next(&mut self, block: BlockNumber) {
        put(self.area_mut(), NEXT_AT, &block.0.to_le_bytes());
    }
    fn set_index_flags(&mut self, flags: u16) {
        put(self.area_mut(), FLAGS_AT, &flags.to_le_bytes());
    }
    fn set_level(&mut self, level: u16) {
        put(self.area_mut(), LEVEL_AT, &level.to_le_bytes());
    }
}

impl IndexPage for Page {
    #[inline]
    fn area(&self) -> &[u8] {
        self.special()
    }

    #[inline]
    fn area_mut(&mut self) -> &mut [u8] {
        self.special_mut()
    }

    fn init_index(&mut self, level: u16, flags: u16) {
        self.init(PageKind::Nbtree, SPECIAL_SIZE);
        self.set_level(level);
        self.set_index_flags(flags);
        debug_assert_eq!(self.special_size(), SPECIAL_SIZE, "the area has the index's fields");
        debug_assert_eq!(self.level(), level, "the level was stored");
        debug_assert_eq!(self.item_count(), 0, "a new page has no items");
        debug_assert!(self.is_rightmost(), "a new page has no siblings yet");
        debug_assert_eq!(self.reserved(), 0, "a new page has no reserved bytes set");
    }

    #[inline]
    fn first_entry(&self) -> u16 {
        if self.is_rightmost() { 1 } else { 2 }
    }

    #[inline]
    fn entry_count(&self) -> u16 {
        (self.item_count() + 1).saturating_sub(self.first_entry())
    }

    #[inline]
    fn high_key(&self) -> Option<&[u8]> {
        if self.is_rightmost() { None } else { self.item(OffsetNumber(1)) }
    }

    #[inline]
    fn tuple(&self, offset: u16) -> &[u8] {
        self.item(OffsetNumber(offset)).unwrap_or(&[])
    }

    #[inline]
    fn room(&self) -> usize {
        self.free_bytes_compacted()
    }

    #[inline]
    fn verify(&self, id: PageId, level: Option<u16>) -> Result<(), Box<Corruption>> {
        let leaf_fits = self.is_leaf() == (self.level() == 0);
        let unusable = flag::META | flag::DELETED;
        if self.kind() == PageKind::Nbtree
            && self.special_size() == SPECIAL_SIZE
            && leaf_fits
            && self.index_flags() & unusable == 0
            && level.is_none_or(|level| level == self.level())
        {
            if self.leads_astray(id.block) {
                return Err(astray(self, id));
            }
            return Ok(());
        }
        Err(not_expected(self, id, level))
    }
}

#[cold]
fn not_expected(page: &Page, id: PageId, level: Option<u16>) -> Box<Corruption> {
    let expected = level.map_or(String::new(), |level| format!(" of level {level}"));
    damage(
        id,
        None,
        "B2",
        format!(
            "found kind {:?}, special area of {} bytes, level {}, flags {:#x} where an index page{expected} was expected",
            page.kind(),
            page.special_size(),
            page.level(),
            page.index_flags()
        ),
    )
}

#[cold]
fn astray(page: &Page, id: PageId) -> Box<Corruption> {
    let detail = format!("links to {} on the left and {} on the right", page.prev(), page.next());
    damage(id, None, "B2", detail)
}

/// Returns a report of damage on a page of an index.
#[cold]
pub(crate) fn damage(
    id: PageId,
    item: Option<u16>,
    invariant: &'static str,
    detail: impl Into<String>,
) -> Box<Corruption> {
    Box::new(Corruption {
        file: format!("{}.main", id.file),
        block: Some(id.block.0),
        item,
        invariant,
        detail: detail.into(),
    })
}

/// The contents of the metapage: its item 1.
///
/// ```text
/// 0  magic u32   4  version u16   6  flags u16   8  root u32   12  fast root u32   16  level u16
/// 18 fast level u16   20  deleted pages u32   24  reserved u64 (zero)
/// ```
///
/// Fast root (the one page of the lowest level that has only one page) and deleted pages are
/// reserved. The fast root is the root, and deleted pages are not counted here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Meta {
    pub(crate) root: BlockNumber,
    pub(crate) level: u16,
    pub(crate) fast_root: BlockNumber,
    pub(crate) fast_level: u16,
    pub(crate) deleted_pages: u32,
}

// Root and fast root lie between the first fields and the levels.
const _: () = assert!(Meta::LEVEL_AT == Meta::ROOT_AT + 2 * size_of::<BlockNumber>());
const _: () = assert!(Meta::SIZE + LINE_POINTER <= USABLE_BYTES);

impl Meta {
    pub(crate) const SIZE: usize = 32;
    pub(crate) const MAGIC: u32 = 0x4257_694e;
    pub(crate) const VERSION: u16 = 1;
    /// Byte position of the level. Optimistic reads and the test of the format description use it.
    pub(crate) const LEVEL_AT: usize = 16;
    /// Byte position of the root.
    pub(crate) const ROOT_AT: usize = 8;

    pub(crate) fn new(root: BlockNumber, level: u16) -> Self {
        Self { root, level, fast_root: root, fast_level: level, deleted_pages: 0 }
    }

    pub(crate) fn encode(&self) -> [u8; Self::SIZE] {
        // `read` refuses what is refused here.
        debug_assert_ne!(self.root, META_BLOCK, "the metapage is no root");
        debug_assert_ne!(self.fast_root, META_BLOCK, "the metapage is no fast root");
        let mut b = [0; Self::SIZE];
        put(&mut b, 0, &Self::MAGIC.to_le_bytes());
        put(&mut b, 4, &Self::VERSION.to_le_bytes());
        put(&mut b, Self::ROOT_AT, &self.root.0.to_le_bytes());
        put(&mut b, 12, &self.fast_root.0.to_le_bytes());
        put(&mut b, Self::LEVEL_AT, &self.level.to_le_bytes());
        put(&mut b, 18, &self.fast_level.to_le_bytes());
        put(&mut b, 20, &self.deleted_pages.to_le_bytes());
        b
    }

    /// Reads a metapage.
    pub(crate) fn read(page: &Page, id: PageId) -> Result<Self, Box<Corruption>> {
        let b = page.tuple(1);
        if page.kind() != PageKind::Nbtree
            || page.index_flags() != flag::META
            || b.len() != Self::SIZE
            || read_u32(b, 0) != Self::MAGIC
        {
            return Err(damage(id, None, "format", "not the metapage of an index"));
        }
        if read_u16(b, 4) != Self::VERSION || read_u16(b, 6) != 0 || b[24..].iter().any(|&x| x != 0)
        {
            let detail = format!("index format version {} with unknown content", read_u16(b, 4));
            return Err(damage(id, None, "format", detail));
        }
        let meta = Self {
            root: BlockNumber(read_u32(b, Self::ROOT_AT)),
            fast_root: BlockNumber(read_u32(b, 12)),
            level: read_u16(b, Self::LEVEL_AT),
            fast_level: read_u16(b, 18),
            deleted_pages: read_u32(b, 20),
        };
        if meta.root == META_BLOCK || meta.fast_root == META_BLOCK || meta.fast_level > meta.level {
            return Err(damage(id, None, "format", format!("impossible {meta:?}")));
        }
        Ok(meta)
    }

    /// Makes `page` a metapage with these contents.
    pub(crate) fn write_new(&self, page: &mut Page) {
        page.init_index(0, flag::META);
        let stored = page.insert_item(OffsetNumber(1), &self.encode());
        debug_assert!(stored, "a metapage is empty when it is made");
        debug_assert_eq!(page.item_count(), 1, "a metapage has one item");
        debug_assert_eq!(page.tuple(1).len(), Self::SIZE, "the item has all fields");
    }

    /// Replaces the contents of a metapage.
    pub(crate) fn overwrite(bytes: &[u8], page: &mut Page) -> bool {
        bytes.len() == Self::SIZE && page.overwrite_item(OffsetNumber(1), bytes)
    }
}
