//! The state of packing: how full leaves are to be, and how far a look at them has come.

use niwaki_env::sync::Mutex;
use niwaki_env::sync::plain_atomic::{AtomicU64, Ordering};

use crate::page::separator::OwnedSeparator;

/// The number of parts of a page's room: the unit for the fullness of a leaf.
pub(crate) const PARTS: usize = 32;

/// The way to pack leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Density {
    /// The number of full parts of a packed leaf.
    pub(crate) packed_parts: usize,
    /// Leaves are worth packing if on average they have this many full parts, or fewer.
    sparse_mean_parts: usize,
    /// The number of neighbours that are judged, and packed, together.
    pub(crate) together: usize,
    /// After this many deletions per page, leaves in memory are looked at.
    pub(crate) due_per_page: u64,
}

impl Density {
    /// Leaves room for insertions; packs leaves that have lost a third.
    pub(crate) const WITH_ROOM: Self =
        Self { packed_parts: 28, sparse_mean_parts: 21, together: usize::MAX, due_per_page: 32 };
    /// For an index without further insertions; packs leaves that have lost an eighth.
    pub(crate) const FULL: Self =
        Self { packed_parts: PARTS, sparse_mean_parts: 28, together: 32, due_per_page: 8 };
}

// Packed leaves are not sparse: packing ends.
const _: () = assert!(Density::WITH_ROOM.sparse_mean_parts < Density::WITH_ROOM.packed_parts);
const _: () = assert!(Density::FULL.sparse_mean_parts < Density::FULL.packed_parts);
const _: () = assert!(Density::WITH_ROOM.packed_parts < Density::FULL.packed_parts);
const _: () = assert!(Density::FULL.packed_parts <= PARTS);
// A leaf gives its entries to a neighbour, so two leaves at least are judged together.
const _: () = assert!(Density::FULL.together >= 2);
const _: () = assert!(Density::FULL.due_per_page < Density::WITH_ROOM.due_per_page);

/// The fullness of a set of leaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fullness {
    leaves: usize,
    parts: usize,
}

impl Fullness {
    pub(crate) fn add(&mut self, parts: usize) {
        self.leaves += 1;
        self.parts += parts;
    }

    /// Decides whether these leaves are sparse by `density` (a third or an eighth too many), and
    /// packing makes them fewer.
    pub(crate) fn is_sparse(self, density: Density) -> bool {
        self.parts <= self.leaves * density.sparse_mean_parts
            && self.parts.div_ceil(density.packed_parts) < self.leaves
    }
}

/// The packing state of an index, for the maintenance of quiet tables.
#[derive(Debug, Default)]
pub(crate) struct Packing {
    /// Entries deleted since the last look at the leaves.
    pub(crate) deleted: AtomicU64,
    /// Splits of leaves until then, and those splits that were at the right end.
    pub(crate) splits: AtomicU64,
    pub(crate) end_splits: AtomicU64,
    /// The place where the look under way goes on, and its density.
    pub(crate) at: Mutex<Option<(PackedTo, Density)>>,
}

impl Packing {
    /// Adds to the count of deleted entries.
    pub(crate) fn deleted(&self, entries: u64) {
        // Relaxed: the count only decides when a look is made.
        self.deleted.fetch_add(entries, Ordering::Relaxed);
    }
}

/// The place that packing has reached.
#[derive(Debug)]
pub(crate) enum PackedTo {
    /// Packing begins.
    Nothing,
    /// Packing has passed the page of level 1 with this high key, and all pages left of it.
    Bound(OwnedSeparator),
}
