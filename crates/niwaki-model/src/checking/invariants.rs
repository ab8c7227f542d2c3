//! The invariants of the design, checked after every step that changed something.

use crate::state::heap::{Mixed, PAGES, Reader, Row, State, Tid, Version};
use crate::state::index::Phase;
use crate::state::transactions::{Csn, Slot, Transactions};
use crate::state::violation::Invariant;
use crate::state::world::World;

type Broken = Option<(Invariant, String)>;

impl World {
    /// Ends a step: logs it, and checks all invariants if something changed.
    pub(crate) fn end_step(&mut self) {
        self.log_step();
        if !std::mem::take(&mut self.changed) || self.violation.is_some() {
            return;
        }
        let broken = self
            .check_entries_of_indexes()
            .or_else(|| self.check_chains())
            .or_else(|| self.check_map())
            .or_else(|| self.check_snapshots())
            .or_else(|| self.check_locks());
        if let Some((invariant, what)) = broken {
            self.violate(invariant, || what);
        }
    }

    /// Checks X2, X3, X4, H2 and B1.
    fn check_entries_of_indexes(&self) -> Broken {
        for index in &self.indexes {
            let definition = &index.definition;
            let name = definition.name;
            for leaf in index.in_order() {
                let leaf = &index.leaves[leaf];
                for (n, entry) in leaf.entries.iter().enumerate() {
                    let (key, root) = entry.place();
                    let at = || format!("entry {name} {key} -> {root}");
                    if leaf.high.is_some_and(|high| entry.place() >= high) {
                        return Some((
                            Invariant::B1,
                            format!("{} beyond its leaf's high key", at()),
                        ));
                    }
                    if n > 0 && leaf.entries[n - 1].place() == entry.place() {
                        return Some((Invariant::X2, format!("{} twice", at())));
                    }
                    match &self.pointer(root).state {
                        State::Unused => return Some((Invariant::X4, format!("{} UNUSED", at()))),
                        State::Normal(version) if version.heap_only => {
                            return Some((Invariant::H2, format!("{} heap-only", at())));
                        }
                        _ => {}
                    }
                    if self.pointer(root).mixed == Mixed::No && !entry.dead {
                        // A version that no snapshot sees does no harm.
                        let other = |version: &Version| {
                            definition.key(&version.values) != Some(key)
                                && self.anybody_sees(version)
                        };
                        if self.versions(root).any(|(_, version)| other(version)) {
                            let what = format!("{} stale, and the root is not mixed", at());
                            return Some((Invariant::X3, what));
                        }
                    }
                }
            }
        }
        None
    }

    /// Checks H1.
    fn check_chains(&self) -> Broken {
        let mut owner = [None; 16];
        for root in Tid::all().filter(|tid| self.is_root(*tid)) {
            for (tid, version) in self.versions(root) {
                let seen = &mut owner[usize::from(tid.page) * 8 + usize::from(tid.offset)];
                if let Some(other) = seen.replace(root) {
                    let what = format!("{tid} belongs to {other} and to {root}");
                    return Some((Invariant::H1, what));
                }
                if version.heap_only && version.root != root.offset {
                    return Some((Invariant::H1, format!("{tid} of {root} names another root")));
                }
            }
        }
        for tid in Tid::all() {
            let Some(version) = self.version(tid) else { continue };
            let owned = owner[usize::from(tid.page) * 8 + usize::from(tid.offset)].is_some();
            if !owned && !self.transactions.aborted(version.xmin) {
                let what = format!("{tid} ({}) is reachable from no root", version.values);
                return Some((Invariant::H1, what));
            }
        }
        None
    }

    /// Checks V1.
    fn check_map(&self) -> Broken {
        for page in 0..PAGES {
            let here = &self.pages[usize::from(page)];
            if !here.all_visible {
                continue;
            }
            for pointer in &here.pointers {
                let wrong = match &pointer.state {
                    State::Dead | State::Stub { .. } => true,
                    State::Unused => false,
                    _ if pointer.mixed != Mixed::No => true,
                    State::Redirect(_) => false,
                    State::Normal(version) => {
                        let begin = self.transactions.csn(version.xmin);
                        let oldest = self.snapshots().map(|(csn, _)| csn).min();
                        let horizon = oldest.map_or(self.transactions.published, |oldest| {
                            oldest.min(self.transactions.published)
                        });
                        begin.is_none_or(|csn| csn > horizon) || !self.not_ended(version)
                    }
                };
                if wrong {
                    let state = pointer.state.name();
                    return Some((Invariant::V1, format!("page {page} all-visible over {state}")));
                }
            }
        }
        None
    }

    fn snapshots(&self) -> impl Iterator<Item = (Csn, bool)> {
        self.transactions.slots.iter().filter_map(|slot| match slot {
            Slot::Snapshot { csn, follows } => Some((*csn, *follows)),
            Slot::Empty | Slot::Pending => None,
        })
    }

    /// Returns the snapshots that a session may take now. With early release a dependent session
    /// takes a newer one.
    fn new_snapshots(&self) -> impl Iterator<Item = (Csn, bool)> {
        let Transactions { published, logged, .. } = self.transactions;
        let ahead = (logged > published).then_some((logged, true));
        std::iter::once((published, true)).chain(ahead)
    }

    /// Returns whether a registered snapshot, or one taken now, sees the version.
    fn anybody_sees(&self, version: &Version) -> bool {
        self.snapshots()
            .chain(self.new_snapshots())
            .any(|(snapshot, _)| self.sees(&Reader { snapshot, own: None, command: 0 }, version))
    }

    /// Checks G1, X1 and H3, for each registered snapshot and for one taken now.
    fn check_snapshots(&self) -> Broken {
        for (csn, follows) in self.snapshots().chain(self.new_snapshots()) {
            let reader = Reader { snapshot: csn, own: None, command: 0 };
            for row in self.oracle.rows() {
                let Some(values) = self.oracle.at(row, csn) else { continue };
                let version = |tid: &Tid| self.version(*tid).is_some_and(|v| v.row == row);
                let mut seen = Tid::all().filter(version).filter(|tid| {
                    self.version(*tid).is_some_and(|version| self.sees(&reader, version))
                });
                let Some(tid) = seen.next() else {
                    let what = format!("row {row} {values} is gone, and snapshot {csn} sees it");
                    return Some((Invariant::G1, what));
                };
                let broken = self
                    .check_has_entries(tid, csn)
                    .or_else(|| if follows { self.check_reaches_newest(tid, row) } else { None });
                if broken.is_some() {
                    return broken;
                }
            }
        }
        None
    }

    /// Checks X1, for a version that a snapshot sees. An entry marked dead does not count: no scan
    /// uses it.
    fn check_has_entries(&self, tid: Tid, csn: Csn) -> Broken {
        let version = self.version(tid)?;
        let root = self.root_of(tid);
        for index in self.indexes.iter().filter(|index| index.phase == Phase::Valid) {
            let Some(key) = index.definition.key(&version.values) else { continue };
            let place = (key, root);
            if !index.entries().any(|entry| entry.place() == place && !entry.dead) {
                let (row, name) = (version.row, index.definition.name);
                let what = format!(
                    "no entry {name} {key} -> {root} for row {row} at {tid}, seen by {csn}"
                );
                return Some((Invariant::X1, what));
            }
        }
        None
    }

    /// Checks H3: a follower reaches the newest version, if the row exists.
    fn check_reaches_newest(&self, start: Tid, row: Row) -> Broken {
        let newest = self.oracle.at(row, self.transactions.published)?;
        let lost = |at: Tid| {
            let what = format!("from row {row} at {start} a follower comes to {at} and no further");
            Some((Invariant::H3, what))
        };
        let (mut at, mut expected) = (start, None);
        // Ends: links lead to newer versions, and a page holds few.
        for _ in 0..32 {
            let (xmin, xmax, link) = match &self.pointer(at).state {
                State::Redirect(offset) => {
                    at.offset = *offset;
                    continue;
                }
                State::Normal(version) => {
                    let link = version.link.filter(|_| !self.not_ended(version));
                    if version.values.serial >= newest.serial && version.row == row {
                        return None;
                    }
                    (version.xmin, version.xmax, link)
                }
                State::Stub { xmin, xmax, link } => (*xmin, *xmax, Some(*link)),
                State::Unused | State::Dead => return lost(at),
            };
            if expected.is_some_and(|expected| expected != xmin) {
                return lost(at);
            }
            let Some(link) = link else { return lost(at) };
            (at, expected) = (link, xmax);
        }
        lost(at)
    }

    fn check_locks(&self) -> Broken {
        let (root, meant, there) = self.lock_of_another_row()?;
        let what = format!("a lock of row {meant} at {root} counts for row {there}");
        Some((Invariant::LostLock, what))
    }

    /// Checks G2 and D1, after vacuum has passed and no other work is left. Only versions that the
    /// held snapshots or the present see may be left.
    pub(crate) fn check_quiet(&mut self) {
        let kept: Vec<Csn> = self.snapshots().map(|(csn, _)| csn).collect();
        let mut needed: Vec<(Row, u16)> = Vec::new();
        for csn in kept.iter().copied().chain([Csn::MAX]) {
            for row in self.oracle.rows() {
                needed.extend(self.oracle.at(row, csn).map(|values| (row, values.serial)));
            }
        }
        needed.sort_unstable();
        needed.dedup();
        let mut there: Vec<(Row, u16)> = Tid::all()
            .filter_map(|tid| self.version(tid))
            .map(|version| (version.row, version.values.serial))
            .collect();
        there.sort_unstable();
        if there != needed {
            self.violate(Invariant::G2, || {
                format!("versions left: {there:?}; needed (row, serial): {needed:?}")
            });
        }
        let left = |state: &State| matches!(state, State::Stub { .. } | State::Dead);
        let stub = Tid::all().find(|tid| left(&self.pointer(*tid).state));
        if let Some(tid) = stub {
            let state = self.pointer(tid).state.name();
            self.violate(Invariant::G2, || format!("{tid} is left as {state}"));
        }
        if kept.is_empty() {
            self.check_sizes();
        }
    }

    /// Checks D1 without snapshots: one entry per row and index, and no mixed root.
    fn check_sizes(&mut self) {
        let rows: Vec<_> = self.oracle.rows().filter_map(|row| self.oracle.newest(row)).collect();
        for index in 0..self.indexes.len() {
            let of = &self.indexes[index];
            let expected = rows.iter().filter(|values| of.definition.key(values).is_some()).count();
            let (found, name) = (of.entries().count(), of.definition.name);
            if of.phase == Phase::Valid && found != expected {
                self.violate(Invariant::D1, || {
                    format!("{found} entries in {name} for {expected} rows")
                });
            }
        }
        let mixed = Tid::all().find(|tid| self.pointer(*tid).mixed != Mixed::No);
        if let Some(tid) = mixed {
            self.violate(Invariant::G2, || format!("{tid} is still mixed"));
        }
    }
}
