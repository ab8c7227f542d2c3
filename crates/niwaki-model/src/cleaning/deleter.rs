//! Bottom-up deletion: it finds and deletes the unneeded entries of a leaf.

use crate::access::leaves::latch;
use crate::access::snapshots::collect;
use crate::rules::Rule;
use crate::scheduler::Actor;
use crate::state::heap::{Tid, Values};
use crate::state::index::{Entry, Phase};
use crate::state::transactions::View;
use crate::state::world::World;

/// Visits leaves at random.
pub(crate) async fn deleter(actor: Actor, rounds: usize) {
    for _ in 0..rounds {
        actor.step().await;
        let view = collect(&actor).await;
        let (index, leaf, computed) = {
            let mut world = actor.world();
            let ready: Vec<usize> = (0..world.indexes.len())
                .filter(|index| world.indexes[*index].phase >= Phase::Ready)
                .collect();
            let index = world.random.pick(&ready);
            let leaves = world.indexes[index].leaves.len();
            (index, world.random.below(leaves), world.indexes[index].definition.expression)
        };
        if computed {
            delete_by_copies(&actor, index, leaf, &view).await;
        } else {
            delete_at_once(&actor, index, leaf, &view).await;
        }
    }
}

/// Judges and deletes entries under one hold of the leaf.
async fn delete_at_once(actor: &Actor, index: usize, leaf: usize, view: &View) {
    latch(actor, index, leaf).await;
    let entries = actor.world().leaf(index, leaf).entries.clone();
    for entry in entries {
        // A mark is enough to delete. Only some of the other entries are judged, because a pass
        // visits few heap pages.
        if !entry.dead {
            if actor.world().random.one_in(2) {
                continue;
            }
            actor.step().await;
            if !actor.world().deletable(index, entry.key, entry.root, view) {
                continue;
            }
        }
        actor.world().delete_entry(index, leaf, entry.place());
    }
    actor.step().await;
    actor.world().unlatch(index, leaf);
}

/// Judges on copies, and deletes only entries of an unchanged leaf and page
/// (rule `bytes-under-latch`). Used where keys are expressions, which are not computed under
/// latches.
async fn delete_by_copies(actor: &Actor, index: usize, leaf: usize, view: &View) {
    latch(actor, index, leaf).await;
    let (entries, leaf_version) = {
        let mut world = actor.world();
        let page = world.leaf(index, leaf);
        let copied = (page.entries.clone(), page.version);
        world.unlatch(index, leaf);
        copied
    };
    for entry in entries {
        actor.step().await;
        let (copies, page_version) = actor.world().copy_needed(entry.root, view);
        actor.step().await;
        let definition = actor.world().indexes[index].definition;
        let needed = |values: &Values| definition.key(values) == Some(entry.key);
        if copies.iter().any(needed) {
            continue;
        }
        latch(actor, index, leaf).await;
        let mut world = actor.world();
        let page = &world.pages[usize::from(entry.root.page)];
        let unchanged =
            page.version == page_version && world.leaf(index, leaf).version == leaf_version;
        if unchanged || !world.rules.has(Rule::CopiesChecked) {
            delete_if_there(&mut world, index, leaf, &entry);
        }
        world.unlatch(index, leaf);
        if unchanged {
            // This deletion has changed the leaf's version.
            return;
        }
    }
}

fn delete_if_there(world: &mut World, index: usize, leaf: usize, entry: &Entry) {
    if world.leaf(index, leaf).find(entry.place()).is_some() {
        world.delete_entry(index, leaf, entry.place());
    }
}

impl World {
    /// Returns the values of a chain's versions that a snapshot may see, and the version of its
    /// page.
    fn copy_needed(&self, root: Tid, view: &View) -> (Vec<Values>, u64) {
        let versions = self.versions(root).map(|(_, version)| version);
        let needed = versions.filter(|version| !self.removable(version, view));
        (needed.map(|v| v.values).collect(), self.pages[usize::from(root.page)].version)
    }
}
