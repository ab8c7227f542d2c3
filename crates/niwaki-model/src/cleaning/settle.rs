//! Settling: clearing roots and freeing line pointers by counting removed versions
//! (rule `complete-record`).
//!
//! ```text
//! a root becomes mixed      a version of it is removed     its entries are cleaned up
//! ────────────────────►  0  ─────────────────────────►  1  ─────────────────────────────►  0
//!                              goes to a queue                by the tender
//! ```
//!
//! At 0 every entry of the root has the key of a version that is on the page. Pruning then clears
//! `mixed` of a root with one version, and frees a root that is DEAD. No actor writes *cleaning*:
//! all of this happens in one hold of the page. A removal that is lost from the queue stays
//! counted, and a crash loses all counts.
//!
//! A root that is not mixed has entries of one key in each index, so it needs no count while it has
//! versions. When a pass removes its last version, that version's keys are all the keys there can
//! be:
//!
//! ```text
//! no version is left: the row was deleted or moved, or its inserter aborted
//! ────────────────────────────────────────────────────────────────────►  1  ────►  0   DEAD: freed
//!                                    the last of the chain goes to the queue
//! ```
//!
//! The last *of the chain*: beside the chain there may be an aborted version. Its update may not
//! have known of a later index. That version has no entry in the later index, and the row's version
//! has another key. An older version of the chain may be of that kind as well.
//!
//! A tender visits the indexes that it knows. A transaction that drops an index knows too few until
//! it commits: a rollback brings the index back, with its entries. So such a transaction leaves the
//! queue as it is.
//!
//! The pass also notes which keys only the removed version had. The versions that come to a root
//! are counted (the root change counter, `arrivals`). While that count is unchanged, the note still
//! holds, and the chain need not be read again.

use crate::access::leaves::latch_place;
use crate::access::snapshots::collect;
use crate::rules::Rule;
use crate::scheduler::Actor;
use crate::state::heap::{Mixed, State, Tid, Values};
use crate::state::index::Phase;
use crate::state::settling::{Removed, Seen};
use crate::state::world::World;

/// Position of the index that is dropped.
const DROPPED: usize = 2;

/// Cleans up the entries of removed versions, in rounds.
pub(crate) async fn tender(actor: Actor, rounds: usize) {
    for _ in 0..rounds {
        tend(&actor, None).await;
    }
}

/// Drops an index in a transaction, writes to the table, and rolls back; then goes on as a tender.
/// In the engine the transaction has the table to itself meanwhile. Here other actors go on, and
/// know the index.
pub(crate) async fn dropper(actor: Actor, rounds: usize) {
    for _ in 0..rounds {
        if actor.rules().has(Rule::ChangesWait) {
            actor.step().await;
        } else {
            tend(&actor, Some(DROPPED)).await;
        }
    }
    actor.world().say(|| "rolls back".to_owned());
    tender(actor, rounds).await;
}

/// Cleans up the entries of a removed version, except in the index that the actor has dropped.
async fn tend(actor: &Actor, dropped: Option<usize>) {
    if actor.world().settling.queue.is_empty() {
        actor.wait().await;
    }
    actor.step().await;
    let removed = {
        let mut world = actor.world();
        let waiting = world.settling.queue.len();
        if waiting == 0 {
            return;
        }
        let taken = world.random.below(waiting);
        world.settling.queue.swap_remove(taken)
    };
    if !actor.rules().has(Rule::SeenAfter) {
        actor.world().see(&removed);
    }
    let mut missed = false;
    let indexes = actor.world().indexes.len();
    for index in (0..indexes).filter(|index| Some(*index) != dropped) {
        let (phase, definition) = {
            let of = &actor.world().indexes[index];
            (of.phase, of.definition)
        };
        // An index that no transaction knows yet gets no entries of removed versions.
        let unbuilt = !matches!(phase, Phase::Absent | Phase::Valid);
        missed |= unbuilt && actor.rules().has(Rule::BuildEndsRecords);
        if let Some(key) = definition.key(&removed.values).filter(|_| phase == Phase::Valid) {
            let decided = visit(actor, index, key, &removed).await;
            // The engine reads the unknown versions and visits the leaf again, a limited number of
            // times.
            missed |= !decided && actor.rules().has(Rule::UnknownStays);
        }
    }
    if !missed && actor.rules().has(Rule::SeenAfter) {
        actor.step().await;
        actor.world().see(&removed);
    }
    let view = collect(actor).await;
    if actor.world().random.one_in(2) {
        actor.world().prune(removed.root.page, &view);
    }
}

/// Deletes the entry if no version has its key. Returns false if that is unknown: a version has
/// come whose key is an expression, which is not computed under the latch.
async fn visit(actor: &Actor, index: usize, key: u8, removed: &Removed) -> bool {
    let root = removed.root;
    let computed = actor.world().indexes[index].definition.expression;
    let learned = actor.world().values_of(root);
    let mut decided = true;
    let view = collect(actor).await;
    let leaf = latch_place(actor, index, (key, root)).await;
    if actor.world().leaf(index, leaf).find((key, root)).is_some() {
        actor.step().await;
        let deletable = {
            let mut world = actor.world();
            let known = !computed && world.is_left(removed, index);
            world.events.unlooked += u64::from(known);
            let mut now = world.values_of(root);
            now.retain(|values| computed && !learned.contains(values));
            decided = now.is_empty();
            decided && (known || world.deletable(index, key, root, &view))
        };
        actor.step().await;
        if deletable {
            actor.world().delete_entry(index, leaf, (key, root));
        }
    }
    actor.world().unlatch(index, leaf);
    actor.step().await;
    decided
}

impl World {
    fn values_of(&self, root: Tid) -> Vec<Values> {
        self.versions(root).map(|(_, version)| version.values).collect()
    }

    /// Notes a removed version, of the root's chain or beside it; one in eight is lost from the
    /// queue.
    pub(crate) fn note_removed(&mut self, root: Tid, values: Values, of_chain: bool) {
        if self.pointer(root).mixed != Mixed::No {
            let lost = self.random.one_in(8);
            self.settling.remove(root, values, lost);
        } else if of_chain || !self.rules.has(Rule::LastOfChain) {
            self.settling.last.insert(root, values);
        }
    }

    /// Begins the counts of roots that are not mixed and have no version any more, in the pass that
    /// took the last version. A stub that leads to another page has no version either, and becomes
    /// DEAD when no follower may need it.
    pub(crate) fn note_deaths(&mut self) {
        for (root, values) in std::mem::take(&mut self.settling.last) {
            if self.chain(root).is_empty() {
                self.events.deaths += 1;
                let lost = self.random.one_in(8);
                self.settling.begin(root);
                self.settling.remove(root, values, lost);
            }
        }
    }

    /// Notes a version that comes to the root.
    pub(crate) fn note_arrival(&mut self, root: Tid) {
        if self.rules.has(Rule::ArrivalsCounted) {
            *self.settling.arrivals.entry(root).or_default() += 1;
        }
    }

    fn arrived(&self, root: Tid) -> u64 {
        self.settling.arrivals.get(&root).copied().unwrap_or_default()
    }

    /// Notes, at the end of a pass, which keys of removed versions no remaining version has.
    pub(crate) fn note_left(&mut self, page: u8) {
        for at in 0..self.settling.queue.len() {
            let Removed { root, values, seen, .. } = self.settling.queue[at];
            if root.page != page || seen.is_some() {
                continue;
            }
            let is_left = |index: &usize| {
                let definition = self.indexes[*index].definition;
                let key = definition.key(&values);
                !self.versions(root).any(|(_, stays)| definition.key(&stays.values) == key)
            };
            let left = (0..self.indexes.len()).filter(is_left).fold(0, |left, at| left | 1 << at);
            self.settling.queue[at].seen = Some(Seen { left, arrived: self.arrived(root) });
        }
    }

    /// Returns whether the note of a pass still holds: no version of the root has the removed one's
    /// key in the index.
    fn is_left(&self, removed: &Removed, index: usize) -> bool {
        let Some(seen) = removed.seen else { return false };
        seen.left & 1 << index != 0 && seen.arrived == self.arrived(removed.root)
    }

    fn see(&mut self, removed: &Removed) {
        let own = self.rules.has(Rule::OwnRecord);
        self.settling.see(removed, own);
    }

    /// Clears and frees the roots of a page where that is allowed.
    pub(crate) fn settle(&mut self, page: u8) {
        // A cleaner or a build that remembers roots for long excludes settling (rules `one-cleaner`
        // and `index-build`).
        let cleaned = self.cleaner.is_some() && self.rules.has(Rule::OneCleaner);
        let built = self.builds > 0 && self.rules.has(Rule::BuildExcludesCleaners);
        if cleaned || built {
            return;
        }
        let payloads = self.indexes.iter().any(|index| index.definition.includes_serial);
        for root in Tid::on_page(page) {
            let Some(count) = self.settling.counts.get(&root) else { continue };
            if count.unseen > 0 && self.rules.has(Rule::CompleteRecord) {
                continue;
            }
            if matches!(self.pointer(root).state, State::Dead) {
                if !self.locks_keep(root) {
                    self.events.settled += 1;
                    self.events.returned += u64::from(self.pointer(root).mixed == Mixed::No);
                    self.free(root);
                }
            } else if !payloads
                && self.pointer(root).mixed != Mixed::No
                && self.only_version(root).is_some()
            {
                self.events.settled += 1;
                self.clear_mixed(root);
            }
        }
    }
}
