//! Pruning: one pass over a heap page, under its latch.
//!
//! ```text
//! before                          removable      after
//! root v1 ─ v2 ─ v3               v1             REDIRECT ──► v2 ─ v3
//! root v1 ─ v2 ─ v3               v2             v1 ─ v3            (relinked, with v2's xmax)
//! root v1                         v1             DEAD
//! moved-in root v1 ─ v2           v1             stub ──► v2        (while it may be followed)
//! moved-in root v1 ──► other page v1             stub ──► other page
//! root v1 (─ v2 aborted)          v2             v1, its end forgotten
//! ```

use crate::access::snapshots::collect;
use crate::rules::Rule;
use crate::scheduler::Actor;
use crate::state::heap::{Mixed, PAGES, State, Tid, Values, Version};
use crate::state::transactions::{Status, View};
use crate::state::world::World;

/// Prunes one page after the other, as any reader or writer might on its way.
pub(crate) async fn pruner(actor: Actor, rounds: u8) {
    for round in 0..rounds {
        actor.step().await;
        let view = collect(&actor).await;
        actor.world().prune(round % PAGES, &view);
    }
}

impl World {
    /// Removes versions that `view` allows to remove, and sets the page all-visible if it is.
    pub(crate) fn prune(&mut self, page: u8, view: &View) {
        self.say(|| {
            let at = view.published;
            let snapshots: Vec<_> = view.snapshots.iter().map(|(csn, _)| csn).collect();
            format!("prunes page {page} (published {at}, snapshots {snapshots:?})")
        });
        // One verdict per version and pass (rule `removable`).
        let removable: Vec<bool> = Tid::on_page(page)
            .map(|tid| self.version(tid).is_some_and(|version| self.removable(version, view)))
            .collect();
        for root in Tid::on_page(page) {
            if self.is_root(root) && !matches!(self.pointer(root).state, State::Dead) {
                self.prune_chain(root, &removable, view);
            }
        }
        self.prune_aborted(page);
        self.note_deaths();
        self.note_left(page);
        self.settle(page);
        self.break_rules(page);
        self.set_all_visible(page, view);
    }

    fn prune_chain(&mut self, root: Tid, removable: &[bool], view: &View) {
        let (chain, hop) = self.chain_and_hop(root);
        let was = self.pointer(root).state;
        let mut first = None;
        let mut before: Option<Tid> = None;
        for &offset in &*chain {
            let tid = Tid::on(root.page, offset);
            if !removable[usize::from(offset)] {
                first = first.or(Some(tid));
                before = Some(tid);
                continue;
            }
            let gone = *self.version(tid).expect("chains consist of versions");
            self.events.pruned += 1;
            self.remember_keys(root, &gone.values);
            self.note_removed(root, gone.values, true);
            if let Some(before) = before {
                self.events.relinked += 1;
                let with_xmax = self.rules.has(Rule::RelinkXmax);
                let version = self.version_mut(before);
                version.link = gone.link;
                if with_xmax {
                    version.xmax = gone.xmax;
                    version.cmax = gone.cmax;
                }
            }
            if tid != root {
                self.pointer_mut(tid).state = State::Unused;
            }
        }
        if matches!(was, State::Normal(_)) && !removable[usize::from(root.offset)] {
            return;
        }
        let pointer = self.pointer(root);
        let born = pointer.born;
        let horizon = if self.rules.has(Rule::StubsForFollowers) {
            view.follower_horizon()
        } else {
            view.horizon()
        };
        let passed = match self.transactions.marked(born) {
            Status::Aborted => true,
            Status::Running => false,
            Status::Committed(csn) => csn <= horizon,
        };
        // A redirect proves that an earlier pass saw the root as passed: the view of this pass may
        // be older.
        let redirect = matches!(was, State::Redirect(_));
        let stays = pointer.moved_in && !passed && !redirect && self.rules.has(Rule::Stub);
        let on_page = first.map(|tid| (tid, self.version(tid).map(|version| version.xmin)));
        let state = match (on_page, hop) {
            (Some((link, xmax)), _) if stays => State::Stub { xmin: born, xmax, link },
            (Some((tid, _)), _) => State::Redirect(tid.offset),
            (None, Some((link, xmax))) if stays => State::Stub { xmin: born, xmax, link },
            (None, _) => State::Dead,
        };
        if state != was {
            if matches!(state, State::Stub { .. }) {
                self.events.stubs += 1;
            }
            self.say(|| format!("{root} becomes {}", state.name()));
            self.pointer_mut(root).state = state;
        }
    }

    /// Removes aborted heap-only versions, which belong to no chain.
    fn prune_aborted(&mut self, page: u8) {
        for tid in Tid::on_page(page) {
            let Some(version) = self.version(tid).copied() else { continue };
            if !version.heap_only || !self.transactions.aborted(version.xmin) {
                continue;
            }
            self.events.orphans += 1;
            let root = Tid::on(page, version.root);
            self.remember_keys(root, &version.values);
            self.note_removed(root, version.values, false);
            self.say(|| format!("{tid} was aborted: UNUSED"));
            self.pointer_mut(tid).state = State::Unused;
            // The predecessor's end is cleared in the same operation (rule `hop-check`).
            for other in Tid::on_page(page) {
                let refers = |v: &Version| v.link == Some(tid) && self.not_ended(v);
                if self.version(other).is_some_and(refers) {
                    let predecessor = self.version_mut(other);
                    predecessor.link = None;
                    predecessor.xmax = None;
                }
            }
            if !self.rules.has(Rule::AbortKeepsMixed) {
                self.pointer_mut(root).mixed = Mixed::No;
            }
        }
    }

    /// Breaks the rules of pruning that are left out.
    fn break_rules(&mut self, page: u8) {
        for tid in Tid::on_page(page) {
            let pointer = self.pointer(tid);
            let dead = matches!(pointer.state, State::Dead);
            let mixed = pointer.mixed != Mixed::No;
            if dead && !self.rules.has(Rule::ReuseAfterEntries) {
                self.free(tid);
            }
            if mixed && !self.rules.has(Rule::ClearByVisit) && self.chain(tid).len() == 1 {
                self.pointer_mut(tid).mixed = Mixed::No;
            }
        }
    }

    /// Notes the keys of a removed version for the gardener.
    fn remember_keys(&mut self, root: Tid, values: &Values) {
        for index in 0..self.indexes.len() {
            let Some(key) = self.indexes[index].definition.key(values) else { continue };
            let record = self.records.entry(root).or_default();
            if !record.keys.contains(&(index, key)) {
                record.keys.push((index, key));
            }
        }
    }

    fn set_all_visible(&mut self, page: u8, view: &View) {
        let horizon = view.horizon();
        let any_commit = !self.rules.has(Rule::MapHorizon);
        let any_root = !self.rules.has(Rule::MapUnmixed);
        let here = &self.pages[usize::from(page)];
        let visible = here.pointers.iter().all(|pointer| {
            (pointer.mixed == Mixed::No || any_root)
                && match &pointer.state {
                    State::Unused | State::Redirect(_) => true,
                    State::Dead | State::Stub { .. } => false,
                    State::Normal(version) => {
                        let begin = self.transactions.csn(version.xmin);
                        self.not_ended(version)
                            && begin.is_some_and(|csn| csn <= horizon || any_commit)
                    }
                }
        });
        if visible && !here.all_visible {
            self.events.all_visible += 1;
            self.say(|| format!("page {page} is all-visible"));
            self.touch_page(page);
            self.pages[usize::from(page)].all_visible = true;
        }
    }

    /// Makes a DEAD line pointer UNUSED. Allowed only after every entry for it is gone.
    pub(crate) fn free(&mut self, tid: Tid) {
        self.events.freed += 1;
        self.say(|| format!("frees {tid}"));
        let pointer = self.pointer_mut(tid);
        pointer.state = State::Unused;
        pointer.incarnation += 1;
        pointer.mixed = Mixed::No;
        pointer.moved_in = false;
        self.records.remove(&tid);
        self.settling.end(tid);
    }

    /// Clears `mixed` of a root whose entries all belong to its only version.
    pub(crate) fn clear_mixed(&mut self, root: Tid) {
        self.events.cleared += 1;
        self.say(|| format!("{root} is not mixed any more"));
        self.unmix += 1;
        self.pointer_mut(root).mixed = Mixed::No;
        self.records.remove(&root);
        self.settling.end(root);
    }

    /// Returns whether no version of the chain that a snapshot may see has this key, so that the
    /// entry may be deleted.
    pub(crate) fn deletable(&self, index: usize, key: u8, root: Tid, view: &View) -> bool {
        let definition = self.indexes[index].definition;
        match self.pointer(root).state {
            State::Dead => true,
            // X4 is broken; its own check reports that.
            State::Unused => false,
            _ => !self.versions(root).any(|(_, version)| {
                definition.key(&version.values) == Some(key) && !self.removable(version, view)
            }),
        }
    }
}

impl State {
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Unused => "UNUSED".to_owned(),
            Self::Normal(version) => format!("row {} {}", version.row, version.values),
            Self::Redirect(offset) => format!("REDIRECT to {offset}"),
            Self::Dead => "DEAD".to_owned(),
            Self::Stub { link, .. } => format!("stub to {link}"),
        }
    }
}
