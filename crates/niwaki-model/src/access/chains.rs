//! Line pointers, chains of versions, and the versions that a reader sees.

use crate::rules::Rule;
use crate::state::heap::{Chain, Hop, LinePointer, OFFSETS, Reader, State, Tid, Version};
use crate::state::transactions::Xid;
use crate::state::world::World;

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
