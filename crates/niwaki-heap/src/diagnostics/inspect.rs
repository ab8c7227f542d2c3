//! The stored form of a page, for display.

use niwaki_storage::page::ItemState;
use niwaki_storage::{Mixed, OffsetNumber, PageKind, Tid, Xid};

use crate::error::Result;
use crate::format::header::{NO_LINK, Tuple, flags};
use crate::format::page;
use crate::relation::Heap;

/// One line pointer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinePointer {
    /// The line pointer's number, from 1.
    pub number: u16,
    /// The line pointer's state.
    pub state: ItemState,
    /// The byte of the page at which the tuple begins; 0 without a tuple.
    pub at: u16,
    /// Bytes of the tuple, header included; 0 without a tuple.
    pub len: u16,
    /// Target of a REDIRECT.
    pub target: Option<u16>,
    /// The root's `mixed` flag: entries with other keys may lead to this root.
    pub mixed: Mixed,
    /// The row came from another page (rule `stub`).
    pub moved_in: bool,
    /// The tuple of the line pointer.
    pub tuple: Option<StoredTuple>,
}

/// One version in its stored form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredTuple {
    /// Inserter.
    pub xmin: Xid,
    /// Deleter, updater or locker; [`Xid::INVALID`] for none.
    pub xmax: Xid,
    /// The command field.
    pub command: u32,
    /// The next version.
    pub link: Option<Tid>,
    /// Offset of the chain root.
    pub root: u16,
    /// The tuple's [`flags`].
    pub flags: u16,
    /// Columns stored.
    pub natts: u16,
    /// The values.
    pub data: Vec<u8>,
}

impl StoredTuple {
    fn of(base: u64, tuple: Tuple<'_>) -> Self {
        Self {
            xmin: page::xmin(base, tuple),
            xmax: page::xmax(base, tuple),
            command: tuple.cid().raw,
            link: Some(tuple.link()).filter(|link| *link != NO_LINK),
            root: tuple.root(),
            flags: tuple.flags(),
            natts: tuple.natts(),
            data: tuple.data().to_vec(),
        }
    }

    /// Returns the names of the flags that are set, in the order of their bits.
    pub fn flag_names(&self) -> impl Iterator<Item = &'static str> {
        let flags = self.flags;
        NAMES.iter().filter(move |(flag, _)| flags & flag != 0).map(|&(_, name)| name)
    }

    /// Returns whether a flag is set.
    pub fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }
}

/// Names of the flags, in the order of their bits.
const NAMES: [(u16, &str); 14] = [
    (flags::HAS_NULLS, "has_nulls"),
    (flags::HAS_EXTERNAL, "has_external"),
    (flags::XMAX_LOCK_ONLY, "xmax_lock_only"),
    (flags::KEYS_UPDATED, "keys_updated"),
    (flags::UPDATED, "updated"),
    (flags::HEAP_ONLY, "heap_only"),
    (flags::HEAP_UPDATED, "heap_updated"),
    (flags::STUB, "stub"),
    (flags::COMBO_CID, "combo_cid"),
    (flags::RELINKED, "relinked"),
    (flags::XMIN_ALL_VISIBLE, "xmin_all_visible"),
    (flags::XMIN_ABORTED, "xmin_aborted"),
    (flags::XMAX_ABORTED, "xmax_aborted"),
    (flags::MOVED, "moved"),
];
const _: () = assert!(NAMES.len() as u32 + flags::RESERVED.count_ones() == u16::BITS);
const _: () = {
    let mut at = 0;
    while at < NAMES.len() {
        assert!(NAMES[at].0 == 1 << at, "a flag has another place than its bit");
        at += 1;
    }
};

impl Heap<'_> {
    /// Copies the line pointers of a page, and their tuples. A page that is not used yet has none.
    /// Takes one hold of the shared latch.
    ///
    /// # Errors
    /// Storage's; an error when there is no such block.
    pub fn line_pointers(&self, block: u32) -> Result<Vec<LinePointer>> {
        let pin = self.pin(block)?;
        let page = pin.read();
        if page.kind() != PageKind::Heap {
            return Ok(Vec::new());
        }
        let base = page::base(&page);
        let read = |number: u16| {
            let id = page.item_id(OffsetNumber(number));
            let stored = id.has_storage();
            LinePointer {
                number,
                state: id.state(),
                at: if stored { id.offset() } else { 0 },
                len: if stored { id.len() } else { 0 },
                target: (id.state() == ItemState::Redirect).then(|| id.target().0),
                mixed: id.mixed(),
                moved_in: id.moved_in(),
                tuple: page::tuple(&page, number).map(|tuple| StoredTuple::of(base, tuple)),
            }
        };
        Ok((1..=page.item_count()).map(read).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flag_has_a_name() {
        let named = NAMES.iter().fold(0, |all, (flag, _)| all | flag);
        assert_eq!(named | flags::RESERVED, u16::MAX);
        assert!(NAMES.is_sorted_by_key(|(flag, _)| *flag));
    }
}
