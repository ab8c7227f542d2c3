//! Two heap pages: line pointers, versions, chains.

use std::fmt::{Display, Formatter};
use std::ops::Deref;

use crate::rules::Rule;
use crate::transactions::{Csn, Xid};
use crate::world::World;

/// Heap pages. Two suffice: a row is on this page or on the other one.
pub(crate) const PAGES: u8 = 2;
/// Line pointers on a page: few, so that they are reused at once.
pub(crate) const OFFSETS: u8 = 5;

/// Which row a version belongs to. Only the oracle and the checks look at it.
pub(crate) type Row = u8;

/// Where a line pointer is.
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

    /// All line pointers.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        (0..PAGES).flat_map(Self::on_page)
    }

    /// All line pointers of a page.
    pub(crate) fn on_page(page: u8) -> impl Iterator<Item = Self> {
        (0..OFFSETS).map(move |offset| Self { page, offset })
    }
}

impl Display for Tid {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "({},{})", self.page, self.offset)
    }
}

/// The columns of a row. `serial` counts its versions: so two versions of a row always differ.
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
    /// The (sub)transaction that inserted it, and the command within.
    pub(crate) xmin: Xid,
    pub(crate) cmin: u16,
    /// The (sub)transaction that replaced or deleted it, and the command within.
    pub(crate) xmax: Option<Xid>,
    pub(crate) cmax: u16,
    /// Who holds the row FOR UPDATE without having changed it. In the engine this is an xmax that only
    /// locks: an end takes its place.
    pub(crate) locker: Option<Xid>,
    /// Its successor, when it was replaced.
    pub(crate) link: Option<Tid>,
    /// It is not the root of its chain.
    pub(crate) heap_only: bool,
    /// The offset of its root; its own when it is the root (rule 9b.15).
    pub(crate) root: u8,
}

/// What a line pointer holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    Unused,
    Normal(Version),
    Redirect(u8),
    /// Index entries may be left; nothing else is.
    Dead,
    /// What is left of a moved-in root for those who follow chains (rule 9b.6).
    Stub {
        xmin: Xid,
        xmax: Option<Xid>,
        link: Tid,
    },
}

/// Whether entries of a root may have other keys than the visible version (rule 9b.9).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mixed {
    No,
    Yes,
    /// A cleaner is visiting the indexes, and nobody has changed the chain's keys since it began.
    Cleaning,
}

/// A line pointer, with what belongs to the root that lives there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinePointer {
    pub(crate) state: State,
    pub(crate) mixed: Mixed,
    /// The root was created by an update of a row on another page.
    pub(crate) moved_in: bool,
    /// Who created the root.
    pub(crate) born: Xid,
    /// How often the line pointer was freed.
    pub(crate) incarnation: u32,
}

/// A heap page.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    pub(crate) pointers: [LinePointer; OFFSETS as usize],
    /// Its bit in the visibility map.
    pub(crate) all_visible: bool,
    /// Moves with every change.
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

/// Where the walk along a chain leaves the page: the target and the xmin expected there.
pub(crate) type Hop = (Tid, Option<Xid>);

impl World {
    pub(crate) fn pointer(&self, tid: Tid) -> &LinePointer {
        &self.pages[usize::from(tid.page)].pointers[usize::from(tid.offset)]
    }

    /// The line pointer, to be changed; the page counts as changed.
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

    /// The version, to be changed. Must be there.
    pub(crate) fn version_mut(&mut self, tid: Tid) -> &mut Version {
        match &mut self.pointer_mut(tid).state {
            State::Normal(version) => version,
            other => panic!("{tid} holds no version: {other:?}"),
        }
    }

    pub(crate) fn unused(&self, page: u8) -> Option<Tid> {
        Tid::on_page(page).find(|tid| matches!(self.pointer(*tid).state, State::Unused))
    }

    /// Whether index entries may name the line pointer.
    pub(crate) fn is_root(&self, tid: Tid) -> bool {
        match &self.pointer(tid).state {
            State::Unused => false,
            State::Normal(version) => !version.heap_only,
            State::Redirect(_) | State::Dead | State::Stub { .. } => true,
        }
    }

    /// The root of the chain that the version at `tid` belongs to.
    pub(crate) fn root_of(&self, tid: Tid) -> Tid {
        match self.version(tid) {
            Some(version) if version.heap_only => Tid::on(tid.page, version.root),
            _ => tid,
        }
    }

    /// The versions of a chain on its page, from the line pointer `root` on (rule 9b.7), and where the
    /// row goes on.
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
            // A link is followed only if it was not aborted (rule 9b.7).
            let Some(link) = version.link.filter(|_| !self.not_ended(version)) else { break };
            if link.page != root.page {
                return (chain, Some((link, version.xmax)));
            }
            (at, expected) = (link, version.xmax);
        }
        (chain, None)
    }

    /// The versions of a chain on its page.
    pub(crate) fn chain(&self, root: Tid) -> Chain {
        self.chain_and_hop(root).0
    }

    /// The versions of a chain themselves.
    pub(crate) fn versions(&self, root: Tid) -> impl Iterator<Item = (Tid, &Version)> {
        let chain = self.chain(root);
        (0..chain.len).filter_map(move |n| {
            let tid = Tid::on(root.page, chain.offsets[n]);
            self.version(tid).map(|version| (tid, version))
        })
    }

    /// Whether nobody replaced or deleted it, or whoever did was rolled back.
    pub(crate) fn not_ended(&self, version: &Version) -> bool {
        version.xmax.is_none_or(|xmax| self.transactions.aborted(xmax))
    }

    /// The version that is the whole chain, committed and undeleted (rules 9b.8 and 9b.9): what a cleaner
    /// needs to find before it clears `mixed`.
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

    /// What `snapshot` and the transaction `own` at its command see of a version.
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

/// Through whose eyes versions are seen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader {
    pub(crate) snapshot: Csn,
    /// The top transaction whose own changes count, those of earlier commands.
    pub(crate) own: Option<Xid>,
    pub(crate) command: u16,
}
