//! Two heap pages, with their line pointers, versions and chains.

use std::fmt::{Display, Formatter};
use std::ops::Deref;

use crate::state::transactions::{Csn, Xid};

/// Number of heap pages. Two are enough: a row is on this page or on the other one.
pub(crate) const PAGES: u8 = 2;
/// Line pointers per page: few, so that they are soon reused.
pub(crate) const OFFSETS: u8 = 5;

/// The row that a version belongs to. Only the oracle and the checks use it.
pub(crate) type Row = u8;

/// The address of a line pointer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Tid {
    pub(crate) page: u8,
    pub(crate) offset: u8,
}

impl Tid {
    pub(crate) const MIN: Self = Self { page: 0, offset: 0 };

    pub(crate) fn on(page: u8, offset: u8) -> Self {
        Self { page, offset }
    }

    /// Returns all line pointers.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        (0..PAGES).flat_map(Self::on_page)
    }

    /// Returns all line pointers of a page.
    pub(crate) fn on_page(page: u8) -> impl Iterator<Item = Self> {
        (0..OFFSETS).map(move |offset| Self { page, offset })
    }
}

impl Display for Tid {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "({},{})", self.page, self.offset)
    }
}

/// The columns of a row. `serial` counts the row's versions, so that two versions of a row always
/// differ.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Values {
    pub(crate) a: u8,
    pub(crate) b: u8,
    pub(crate) serial: u16,
}

impl Display for Values {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "[a={} b={} #{}]", self.a, self.b, self.serial)
    }
}

/// A version of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Version {
    pub(crate) row: Row,
    pub(crate) values: Values,
    /// The (sub)transaction that inserted the version, and the command within.
    pub(crate) xmin: Xid,
    pub(crate) cmin: u16,
    /// The (sub)transaction that replaced or deleted the version, and the command within.
    pub(crate) xmax: Option<Xid>,
    pub(crate) cmax: u16,
    /// The transaction that holds the row FOR UPDATE without having changed it. In the engine this
    /// is an xmax that only locks, and an end replaces it.
    pub(crate) locker: Option<Xid>,
    /// The successor, when the version was replaced.
    pub(crate) link: Option<Tid>,
    /// The version is not the root of its chain.
    pub(crate) heap_only: bool,
    /// The offset of the version's root; its own offset when it is the root (rule `root-identity`).
    pub(crate) root: u8,
}

/// The contents of a line pointer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    Unused,
    Normal(Version),
    Redirect(u8),
    /// Nothing is left, except perhaps index entries.
    Dead,
    /// The rest of a moved-in root, for followers of chains (rule `stub`).
    Stub {
        xmin: Xid,
        xmax: Option<Xid>,
        link: Tid,
    },
}

/// Decides whether entries of a root may have other keys than the visible version
/// (rule `mixed-flag`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mixed {
    No,
    Yes,
    /// A cleaner is visiting the indexes, and the chain's keys are unchanged since it began.
    Cleaning,
}

/// A line pointer, with the data of the root that lives there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinePointer {
    pub(crate) state: State,
    pub(crate) mixed: Mixed,
    /// The root was created by an update of a row on another page.
    pub(crate) moved_in: bool,
    /// The transaction that created the root.
    pub(crate) born: Xid,
    /// Number of times that the line pointer was freed.
    pub(crate) incarnation: u32,
}

/// A heap page.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    pub(crate) pointers: [LinePointer; OFFSETS as usize],
    /// The page's bit in the visibility map.
    pub(crate) all_visible: bool,
    /// Changes with every change of the page.
    pub(crate) version: u64,
}

impl Page {
    pub(crate) fn new() -> Self {
        let pointer = LinePointer {
            state: State::Unused,
            mixed: Mixed::No,
            moved_in: false,
            born: 0,
            incarnation: 0,
        };
        Self { pointers: [pointer; OFFSETS as usize], all_visible: false, version: 0 }
    }
}

/// Offsets of versions on one page, in the order of the chain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chain {
    pub(crate) offsets: [u8; OFFSETS as usize],
    pub(crate) len: usize,
}

impl Deref for Chain {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.offsets[..self.len]
    }
}

/// The target of a link that leaves the page, with the xmin expected there.
pub(crate) type Hop = (Tid, Option<Xid>);

/// A snapshot, with the transaction and command that read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader {
    pub(crate) snapshot: Csn,
    /// The top transaction whose own changes count, if made by earlier commands.
    pub(crate) own: Option<Xid>,
    pub(crate) command: u16,
}
