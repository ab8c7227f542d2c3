//! Indexes, with their definitions, leaves, entries and latches.

use crate::state::heap::{Tid, Values};

/// A key value.
pub(crate) type Key = u8;

/// The definition of an index.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Definition {
    pub(crate) name: &'static str,
    pub(crate) column: Column,
    /// The key is an expression of the column (its half), so it is not computed under a latch.
    pub(crate) expression: bool,
    /// Only rows with b > 0 have entries.
    pub(crate) partial: bool,
    pub(crate) unique: Unique,
    /// Entries carry the row's serial number (INCLUDE).
    pub(crate) includes_serial: bool,
}

/// The column that the key comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Column {
    A,
    B,
}

/// The uniqueness of keys, with the time of the check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unique {
    No,
    AtOnce,
    AtCommit,
}

impl Definition {
    /// Returns the key of a row; `None` when the predicate does not hold for it.
    pub(crate) fn key(&self, values: &Values) -> Option<Key> {
        let column = if self.column == Column::A { values.a } else { values.b };
        let holds = !self.partial || values.b > 0;
        holds.then_some(if self.expression { column / 2 } else { column })
    }

    /// Returns the payload of entries: their data besides key and root.
    pub(crate) fn payload(&self, values: &Values) -> u16 {
        if self.includes_serial { values.serial } else { 0 }
    }
}

/// The progress of building an index.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Phase {
    /// No transaction knows of the index.
    Absent,
    /// Updates compare keys of the index.
    Defined,
    /// The index takes entries.
    Ready,
    /// Scans use the index.
    Valid,
}

/// An entry: a key, the chain root it leads to, its payload, and the hint that it is dead to
/// everyone (LP_DEAD).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) key: Key,
    pub(crate) root: Tid,
    pub(crate) payload: u16,
    pub(crate) dead: bool,
}

impl Entry {
    /// Returns the entry's place in the index's order.
    pub(crate) fn place(&self) -> Place {
        (self.key, self.root)
    }
}

/// Makes an entry that a write has to insert.
pub(crate) fn entry(key: Key, root: Tid, payload: u16) -> Entry {
    Entry { key, root, payload, dead: false }
}

/// A place in the order of an index.
pub(crate) type Place = (Key, Tid);

/// A leaf page.
#[derive(Clone, Debug, Default)]
pub(crate) struct Leaf {
    /// Entries in order.
    pub(crate) entries: Vec<Entry>,
    /// Changes with every change of the leaf, and also when a duplicate is suppressed
    /// (rule `leaf-version`).
    pub(crate) version: u64,
    /// The actor that holds the leaf exclusively. Shared latches last for one step and are not
    /// recorded.
    pub(crate) latch: Option<usize>,
    /// High key: entries of this leaf are smaller. `None`: no bound.
    pub(crate) high: Option<Place>,
    pub(crate) right: Option<usize>,
}

/// An index: leaves from left to right, linked; leaf 0 is the leftmost.
#[derive(Clone, Debug)]
pub(crate) struct Index {
    pub(crate) definition: Definition,
    pub(crate) phase: Phase,
    pub(crate) leaves: Vec<Leaf>,
}

impl Index {
    pub(crate) fn new(definition: Definition, phase: Phase) -> Self {
        Self { definition, phase, leaves: vec![Leaf::default()] }
    }

    /// Returns the leaves from left to right.
    pub(crate) fn in_order(&self) -> impl Iterator<Item = usize> {
        std::iter::successors(Some(0), |leaf| self.leaves[*leaf].right)
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.in_order().flat_map(|leaf| &self.leaves[leaf].entries)
    }

    /// Returns the leaf where a descent for `place` ends, as the leaves are now.
    pub(crate) fn descend(&self, place: Place) -> usize {
        let mut leaf = 0;
        while let Some(right) = self.leaves[leaf].beyond(place) {
            leaf = right;
        }
        leaf
    }
}

impl Leaf {
    /// Returns the right neighbour, if `place` is beyond this leaf.
    pub(crate) fn beyond(&self, place: Place) -> Option<usize> {
        self.high.filter(|high| place >= *high).and(self.right)
    }

    pub(crate) fn find(&self, place: Place) -> Option<usize> {
        self.entries.iter().position(|entry| entry.place() == place)
    }
}
