//! Rows as readers get them: in place under a latch, or copied so that none is held.

use niwaki_storage::page::Page;
use niwaki_storage::{Mixed, Tid};

use crate::format::header::{Tuple, flags};

/// One visible row.
#[derive(Clone, Copy, Debug)]
pub struct RowRef<'a> {
    /// Chain root: the row's address for updates, deletions and locks, and in indexes.
    pub root: Tid,
    /// Columns the bytes hold; the table may have gained columns since.
    pub natts: u16,
    /// True if the bytes begin with a null bitmap.
    pub has_nulls: bool,
    /// Entries with other keys than this version's may lead to the row: recheck
    /// (rule `unmix-counter`).
    pub mixed: bool,
    /// The stored values (`niwaki_types::RowView` reads them).
    pub bytes: &'a [u8],
}

/// Returns the row of a tuple in the chain at `root`.
#[inline]
pub(crate) fn row_ref<'p>(page: &Page, root: Tid, tuple: Tuple<'p>) -> RowRef<'p> {
    RowRef {
        root,
        natts: tuple.natts(),
        has_nulls: tuple.has(flags::HAS_NULLS),
        mixed: page.item_id(root.offset).mixed() != Mixed::No,
        bytes: tuple.data(),
    }
}

/// Contents of one version, copied from its page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VersionRow {
    /// Columns the bytes hold.
    pub natts: u16,
    /// True if the bytes begin with a null bitmap.
    pub has_nulls: bool,
    /// The stored values.
    pub bytes: Vec<u8>,
}

impl From<RowRef<'_>> for VersionRow {
    fn from(row: RowRef<'_>) -> Self {
        Self { natts: row.natts, has_nulls: row.has_nulls, bytes: row.bytes.to_vec() }
    }
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    root: Tid,
    natts: u16,
    has_nulls: bool,
    mixed: bool,
    start: u32,
    len: u16,
}

/// The visible rows of the page that a scan read last. Reused from page to page.
#[derive(Debug, Default)]
pub struct PageRows {
    slots: Vec<Slot>,
    bytes: Vec<u8>,
    /// Number of rows in a buffer that only counts; such a buffer keeps no row.
    counted: Option<usize>,
}

impl PageRows {
    /// Returns an empty buffer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns an empty buffer that counts rows and keeps none.
    pub fn counting() -> Self {
        Self { counted: Some(0), ..Self::default() }
    }

    /// Returns whether the buffer only counts rows.
    #[inline]
    pub fn is_counting(&self) -> bool {
        self.counted.is_some()
    }

    /// Returns the number of rows.
    #[inline]
    pub fn len(&self) -> usize {
        debug_assert!(
            self.counted.is_none() || self.slots.is_empty(),
            "a buffer that counts rows keeps none"
        );
        self.counted.unwrap_or(self.slots.len())
    }

    /// Returns whether there is no row.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns row number `position`, from 0. Returns `None` past the end, and in a buffer that
    /// only counts rows.
    #[inline]
    pub fn get(&self, position: usize) -> Option<RowRef<'_>> {
        let slot = self.slots.get(position)?;
        let start = slot.start as usize;
        Some(RowRef {
            root: slot.root,
            natts: slot.natts,
            has_nulls: slot.has_nulls,
            mixed: slot.mixed,
            bytes: &self.bytes[start..start + usize::from(slot.len)],
        })
    }

    /// Returns the rows, in the order of their line pointers.
    pub fn iter(&self) -> impl Iterator<Item = RowRef<'_>> {
        (0..self.slots.len()).filter_map(|position| self.get(position))
    }

    /// Forgets the rows, keeps the memory.
    #[inline]
    pub fn clear(&mut self) {
        self.slots.clear();
        self.bytes.clear();
        if let Some(count) = &mut self.counted {
            *count = 0;
        }
    }

    /// Adds to the number of rows, in a buffer that only counts.
    #[inline]
    pub(crate) fn count(&mut self, rows: usize) {
        debug_assert!(self.is_counting(), "rows are counted in a buffer that keeps them");
        if let Some(count) = &mut self.counted {
            *count += rows;
        }
    }

    /// Appends a row; a page's worth of bytes fits the 32-bit start and 16-bit length.
    #[inline]
    pub(crate) fn push(&mut self, row: RowRef<'_>) {
        if self.is_counting() {
            return self.count(1);
        }
        debug_assert!(u16::try_from(row.bytes.len()).is_ok(), "a row lies on one page");
        debug_assert!(
            self.slots.last().is_none_or(|last| last.root.block == row.root.block),
            "the row at {} is of another page",
            row.root
        );
        debug_assert!(u32::try_from(self.bytes.len()).is_ok(), "rows of one page fill 4 GiB");
        self.slots.push(Slot {
            root: row.root,
            natts: row.natts,
            has_nulls: row.has_nulls,
            mixed: row.mixed,
            start: self.bytes.len() as u32,
            len: row.bytes.len() as u16,
        });
        self.bytes.extend_from_slice(row.bytes);
    }
}
