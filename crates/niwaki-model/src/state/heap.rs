//! Two heap pages, with their line pointers, versions and chains.

use std::fmt::{Display, Formatter};
use std::ops::Deref;

use crate::rules::Rule;
use crate::state::transactions::{Csn, Xid};
use crate::state::world::World;

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
    offsets: [u8; OFFSETS as usize],
    len: usize,
}

impl Deref for Chain {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.offsets[..self.len]
    }
}

/// The target of a link that leaves the page, with the xmin expected there.
pub(crate) type Hop = (Tid, Option<Xid>);

impl World {
    pub(crate) fn pointer(&self, tid: Tid) -> &LinePointer {
        &self.pages[usize::from(tid.page)].pointers[usize::from(tid.offset)]
    }

    /// Returns the line pointer, to change it; the page counts as changed.
    pub(crate) fn pointer_mut(&mut self, tid: Tid) -> &mut LinePointer {
        self.touch_page(tid.page);
        &mut self.pages[usize::from(tid.page)].pointers[usize::from(tid.offset)]
    }

    pub(crate) fn version(&self, tid: Tid) -> Option<&Version> {
        match &self.pointer(tid).state {
            State::Normal(version) => Some(version),
            _ => None,
        }
    }

    /// Returns the version, to change it. The version must exist.
    pub(crate) fn version_mut(&mut self, tid: Tid) -> &mut Version {
        match &mut self.pointer_mut(tid).state {
            State::Normal(version) => version,
            other => panic!("{tid} holds no version: {other:?}"),
        }
    }

    pub(crate) fn unused(&self, page: u8) -> Option<Tid> {
        Tid::on_page(page).find(|tid| matches!(self.pointer(*tid).state, State::Unused))
    }

    /// Returns whether index entries may name the line pointer.
    pub(crate) fn is_root(&self, tid: Tid) -> bool {
        match &self.pointer(tid).state {
            State::Unused => false,
            State::Normal(version) => !version.heap_only,
            State::Redirect(_) | State::Dead | State::Stub { .. } => true,
        }
    }

    /// Returns the root of the chain that the version at `tid` belongs to.
    pub(crate) fn root_of(&self, tid: Tid) -> Tid {
        match self.version(tid) {
            Some(version) if version.heap_only => Tid::on(tid.page, version.root),
            _ => tid,
        }
    }

    /// Returns the versions of a chain on its page, from the line pointer `root` on
    /// (rule `hop-check`). Also returns the link by which the row leaves the page.
    pub(crate) fn chain_and_hop(&self, root: Tid) -> (Chain, Option<Hop>) {
        let mut chain = Chain { offsets: [0; OFFSETS as usize], len: 0 };
        let (mut at, mut expected) = match self.pointer(root).state {
            State::Normal(_) => (root, None),
            State::Redirect(offset) => (Tid::on(root.page, offset), None),
            State::Stub { xmax, link, .. } if link.page == root.page => (link, xmax),
            State::Stub { xmax, link, .. } => return (chain, Some((link, xmax))),
            State::Unused | State::Dead => return (chain, None),
        };
        while let Some(version) = self.version(at) {
            let other = expected.is_some_and(|xmin| xmin != version.xmin);
            if other && self.rules.has(Rule::HopCheck) || chain.contains(&at.offset) {
                break;
            }
            chain.offsets[chain.len] = at.offset;
            chain.len += 1;
            // A link is followed only if the transaction that set it did not abort
            // (rule `hop-check`).
            let Some(link) = version.link.filter(|_| !self.not_ended(version)) else { break };
            if link.page != root.page {
                return (chain, Some((link, version.xmax)));
            }
            (at, expected) = (link, version.xmax);
        }
        (chain, None)
    }

    /// Returns the offsets of the versions of a chain on its page.
    pub(crate) fn chain(&self, root: Tid) -> Chain {
        self.chain_and_hop(root).0
    }

    /// Returns the versions of a chain on its page.
    pub(crate) fn versions(&self, root: Tid) -> impl Iterator<Item = (Tid, &Version)> {
        let chain = self.chain(root);
        (0..chain.len).filter_map(move |n| {
            let tid = Tid::on(root.page, chain.offsets[n]);
            self.version(tid).map(|version| (tid, version))
        })
    }

    /// Returns whether the version was not replaced or deleted, or only by an aborted transaction.
    pub(crate) fn not_ended(&self, version: &Version) -> bool {
        version.xmax.is_none_or(|xmax| self.transactions.aborted(xmax))
    }

    /// Returns the version that is the whole chain, committed and undeleted
    /// (rules `complete-record` and `mixed-flag`). A cleaner needs such a version to clear `mixed`.
    pub(crate) fn only_version(&self, root: Tid) -> Option<Version> {
        let chain = self.chain(root);
        let &[offset] = &*chain else { return None };
        let version = *self.version(Tid::on(root.page, offset))?;
        let outside = |tid: Tid| {
            tid.offset != offset
                && self.version(tid).is_some_and(|v| v.heap_only && v.root == root.offset)
        };
        let alone = !self.rules.has(Rule::OutsideChain) || !Tid::on_page(root.page).any(outside);
        (alone && self.settled(version.xmin).is_committed() && self.not_ended(&version))
            .then_some(version)
    }

    /// Returns whether `reader` sees a version.
    pub(crate) fn sees(&self, reader: &Reader, version: &Version) -> bool {
        self.has_happened(reader, version.xmin, version.cmin)
            && !version.xmax.is_some_and(|xmax| self.has_happened(reader, xmax, version.cmax))
    }

    fn has_happened(&self, reader: &Reader, xid: Xid, command: u16) -> bool {
        if reader.own.is_some_and(|own| self.transactions.is_running_part(xid, own)) {
            return command < reader.command;
        }
        self.transactions.csn(xid).is_some_and(|csn| csn <= reader.snapshot)
    }
}

/// A snapshot, with the transaction and command that read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader {
    pub(crate) snapshot: Csn,
    /// The top transaction whose own changes count, if made by earlier commands.
    pub(crate) own: Option<Xid>,
    pub(crate) command: u16,
}
