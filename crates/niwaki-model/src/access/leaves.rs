//! Changes of leaves, and their latches.

use crate::rules::Rule;
use crate::scheduler::Actor;
use crate::state::index::{Entry, Leaf, Place};
use crate::state::world::World;

impl World {
    pub(crate) fn leaf(&self, index: usize, leaf: usize) -> &Leaf {
        &self.indexes[index].leaves[leaf]
    }

    /// Returns the leaf for a logged change, and changes its version.
    fn leaf_mut(&mut self, index: usize, leaf: usize) -> &mut Leaf {
        let version = self.next_leaf_version();
        self.touch_leaf(index, leaf);
        let leaf = &mut self.indexes[index].leaves[leaf];
        leaf.version = version;
        leaf
    }

    /// Returns a version that no leaf ever had.
    pub(crate) fn next_leaf_version(&mut self) -> u64 {
        self.leaf_versions += 1;
        self.leaf_versions
    }

    /// Inserts the entry, unless it is there; splits the leaf if it is full. The caller holds the
    /// leaf.
    pub(crate) fn put_entry(&mut self, index: usize, leaf: usize, entry: Entry) {
        let found = self.leaf(index, leaf).find(entry.place());
        if let Some(n) = found.filter(|_| self.rules.has(Rule::NoDuplicates)) {
            self.suppress(index, leaf, n);
            return;
        }
        let name = self.indexes[index].definition.name;
        self.say(|| format!("entry {name} {} -> {}", entry.key, entry.root));
        let mut leaf = leaf;
        if self.leaf(index, leaf).entries.len() >= self.leaf_capacity {
            self.split(index, leaf);
            leaf = self.leaf(index, leaf).beyond(entry.place()).unwrap_or(leaf);
        }
        let entries = &mut self.leaf_mut(index, leaf).entries;
        let at = entries.partition_point(|other| other.place() < entry.place());
        entries.insert(at, entry);
    }

    /// Suppresses a duplicate: the entry is there already (rules `no-duplicates` and
    /// `leaf-version`).
    fn suppress(&mut self, index: usize, leaf: usize, n: usize) {
        self.events.suppressed += 1;
        let entry = self.leaf(index, leaf).entries[n];
        let name = self.indexes[index].definition.name;
        self.say(|| format!("entry {name} {} -> {} is there", entry.key, entry.root));
        if entry.dead && self.rules.has(Rule::Revive) {
            self.events.revived += 1;
            self.indexes[index].leaves[leaf].entries[n].dead = false;
            self.touch();
            if self.rules.has(Rule::ReviveLogged) {
                self.touch_leaf(index, leaf);
                self.log_revival(index, leaf, entry.place());
            }
        }
        if self.rules.has(Rule::SuppressionBumps) {
            let version = self.next_leaf_version();
            self.indexes[index].leaves[leaf].version = version;
        }
    }

    /// Moves the upper half of a leaf to a new right neighbour.
    fn split(&mut self, index: usize, leaf: usize) {
        self.events.splits += 1;
        let new = self.indexes[index].leaves.len();
        self.indexes[index].leaves.push(Leaf::default());
        let left = self.leaf_mut(index, leaf);
        let moved = left.entries.split_off(left.entries.len() / 2);
        let (high, right) = (left.high, left.right);
        let bound = moved[0].place();
        left.high = Some(bound);
        left.right = Some(new);
        let leaf = self.leaf_mut(index, new);
        leaf.entries = moved;
        leaf.high = high;
        leaf.right = right;
        let name = self.indexes[index].definition.name;
        self.say(|| format!("split of {name} at {} {}", bound.0, bound.1));
    }

    /// Deletes an entry, for good. The caller holds the leaf.
    pub(crate) fn delete_entry(&mut self, index: usize, leaf: usize, place: Place) {
        let name = self.indexes[index].definition.name;
        self.say(|| format!("deletes entry {name} {} -> {}", place.0, place.1));
        self.events.deleted += 1;
        self.leaf_mut(index, leaf).entries.retain(|entry| entry.place() != place);
    }

    /// Gives an entry the payload of the version that it leads to (rule `payload-rewritten`). The
    /// caller holds the leaf.
    pub(crate) fn rewrite_payload(
        &mut self,
        index: usize,
        leaf: usize,
        place: Place,
        payload: u16,
    ) {
        let Some(n) = self.leaf(index, leaf).find(place) else { return };
        if self.leaf(index, leaf).entries[n].payload != payload {
            self.leaf_mut(index, leaf).entries[n].payload = payload;
        }
    }

    pub(crate) fn unlatch(&mut self, index: usize, leaf: usize) {
        self.indexes[index].leaves[leaf].latch = None;
    }

    /// Takes the leaf exclusively, if no other actor has it.
    pub(crate) fn try_latch(&mut self, index: usize, leaf: usize, actor: usize) -> bool {
        let latch = &mut self.indexes[index].leaves[leaf].latch;
        if latch.is_none() {
            *latch = Some(actor);
        }
        *latch == Some(actor)
    }
}

/// Latches the leaf that `place` belongs to, moving right past splits.
pub(crate) async fn latch_place(actor: &Actor, index: usize, place: Place) -> usize {
    let mut leaf = actor.world().indexes[index].descend(place);
    if actor.world().splits() {
        // The leaf may be split between the descent and the latch.
        actor.step().await;
    }
    loop {
        latch(actor, index, leaf).await;
        let right = actor.world().leaf(index, leaf).beyond(place);
        let Some(right) = right.filter(|_| actor.rules().has(Rule::MoveRight)) else { return leaf };
        actor.world().unlatch(index, leaf);
        leaf = right;
    }
}

/// Latches a leaf exclusively.
pub(crate) async fn latch(actor: &Actor, index: usize, leaf: usize) {
    while !actor.world().try_latch(index, leaf, actor.id) {
        actor.wait().await;
    }
}
