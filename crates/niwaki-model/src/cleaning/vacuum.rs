//! Vacuum: the cleaner that needs no clean-up ledger, because it visits every entry.

use crate::access::leaves::latch;
use crate::access::snapshots::collect;
use crate::cleaning::gardener::{become_cleaner, cease_cleaning};
use crate::rules::Rule;
use crate::scheduler::Actor;
use crate::state::heap::{Mixed, PAGES, State, Tid};
use crate::state::index::Phase;
use crate::state::transactions::View;
use crate::state::world::World;

/// A root that an index pass looks for.
struct Target {
    root: Tid,
    incarnation: u32,
    dead: bool,
    /// Every entry found was right or was deleted.
    clean: bool,
}

/// Makes whole passes over table and indexes.
pub(crate) async fn vacuum(actor: Actor, passes: usize) {
    for _ in 0..passes {
        actor.step().await;
        become_cleaner(&actor).await;
        pass(&actor).await;
        cease_cleaning(&actor);
    }
}

async fn pass(actor: &Actor) {
    let view = collect(actor).await;
    let mut targets = Vec::new();
    for page in 0..PAGES {
        targets.extend(actor.world().prune_for_vacuum(page, &view));
        actor.step().await;
    }
    let indexes = actor.world().indexes.len();
    for index in 0..indexes {
        if actor.world().indexes[index].phase >= Phase::Ready {
            clean_index(actor, index, &mut targets).await;
        }
    }
    actor.world().finish(&targets);
    actor.step().await;
    let view = collect(actor).await;
    for page in 0..PAGES {
        actor.world().prune(page, &view);
    }
}

/// Visits every entry of the targets, leaf by leaf, each under one hold of its latch.
async fn clean_index(actor: &Actor, index: usize, targets: &mut [Target]) {
    let view = collect(actor).await;
    let mut next = Some(0);
    while let Some(leaf) = next {
        latch(actor, index, leaf).await;
        let entries = actor.world().leaf(index, leaf).entries.clone();
        for entry in entries {
            let Some(target) = targets.iter_mut().find(|target| target.root == entry.root) else {
                continue;
            };
            actor.step().await;
            target.clean &= actor.world().clean_entry(index, leaf, entry.place(), &view);
        }
        next = actor.world().leaf(index, leaf).right;
        actor.world().unlatch(index, leaf);
        actor.step().await;
    }
}

impl World {
    /// Prunes a page, and returns the targets of the index passes, all in one latch hold.
    fn prune_for_vacuum(&mut self, page: u8, view: &View) -> Vec<Target> {
        self.prune(page, view);
        Tid::on_page(page).filter_map(|root| self.target(root)).collect()
    }

    fn target(&mut self, root: Tid) -> Option<Target> {
        let dead = matches!(self.pointer(root).state, State::Dead);
        let single = self.pointer(root).mixed != Mixed::No && self.only_version(root).is_some();
        self.start_cleaning(root, single);
        let incarnation = self.pointer(root).incarnation;
        (dead || single).then_some(Target { root, incarnation, dead, clean: true })
    }

    /// Deletes the entry or rewrites its payload. Returns false if the entry is neither dead nor of
    /// the only version.
    fn clean_entry(&mut self, index: usize, leaf: usize, place: (u8, Tid), view: &View) -> bool {
        let (key, root) = place;
        if self.deletable(index, key, root, view) {
            self.delete_entry(index, leaf, place);
            return true;
        }
        let definition = self.indexes[index].definition;
        let Some(version) = self.only_version(root) else { return false };
        if definition.key(&version.values) != Some(key) {
            return false;
        }
        if self.rules.has(Rule::PayloadRewritten) {
            self.rewrite_payload(index, leaf, place, definition.payload(&version.values));
        }
        true
    }

    fn finish(&mut self, targets: &[Target]) {
        for target in targets {
            let root = target.root;
            let pointer = self.pointer(root);
            if pointer.incarnation != target.incarnation && self.rules.has(Rule::OneCleaner) {
                continue;
            }
            if target.dead {
                if matches!(pointer.state, State::Dead) && !self.locks_keep(root) {
                    self.free(root);
                }
            } else if target.clean
                && self.only_version(root).is_some()
                && self.is_still_cleaning(root)
            {
                self.clear_mixed(root);
            }
        }
    }
}
