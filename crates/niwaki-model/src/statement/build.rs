//! CREATE INDEX CONCURRENTLY (rule `index-build`): defined, then built and ready, then validated
//! and valid.
//!
//! ```text
//! DEFINED ─ wait ─► read the heap, load ─► READY ─ wait ─► read the heap, add the rest ─► VALID
//!   updates compare its keys                 updates insert into it       scans use it
//! ```
//! Each wait is for the transactions that write and know only the phase before.

use crate::access::leaves::latch_place;
use crate::access::snapshots::collect;
use crate::rules::Rule;
use crate::scheduler::Actor;
use crate::state::heap::{Mixed, PAGES, Reader, Tid};
use crate::state::index::{Entry, Phase, entry};
use crate::state::transactions::{Status, View};
use crate::state::world::World;

/// Builds the index, once.
pub(crate) async fn build(actor: Actor, index: usize) {
    set_phase(&actor, index, Phase::Defined).await;
    exclude_cleaners(&actor).await;
    let mut found = Vec::new();
    let view = collect(&actor).await;
    for page in 0..PAGES {
        found.extend(actor.world().entries_of(index, page, &view, false));
        actor.step().await;
    }
    {
        // No other actor reads the new leaf, so it is loaded at once.
        let mut world = actor.world();
        world.say(|| "loads the index".to_owned());
        for entry in found {
            let leaf = world.indexes[index].descend(entry.place());
            world.put_entry(index, leaf, entry);
        }
    }
    admit_cleaners(&actor);
    set_phase(&actor, index, Phase::Ready).await;
    exclude_cleaners(&actor).await;
    validate(&actor, index).await;
    admit_cleaners(&actor);
    actor.step().await;
    let mut world = actor.world();
    // The catalog records the phase in a durable commit.
    world.log.flush();
    world.indexes[index].phase = Phase::Valid;
    world.events.built += 1;
    world.touch();
    world.say(|| "index valid".to_owned());
}

/// Adds entries of versions that the build could not see. Entries that exist already are
/// suppressed.
async fn validate(actor: &Actor, index: usize) {
    let view = collect(actor).await;
    for page in 0..PAGES {
        let found = actor.world().entries_of(index, page, &view, true);
        for entry in found {
            actor.step().await;
            let leaf = latch_place(actor, index, entry.place()).await;
            actor.world().put_entry(index, leaf, entry);
            actor.world().unlatch(index, leaf);
        }
        actor.step().await;
    }
}

/// Moves the index to the next phase, and waits for all writers that do not know of it. Readers are
/// not waited for, however old their snapshots.
async fn set_phase(actor: &Actor, index: usize, phase: Phase) {
    let running = {
        let mut world = actor.world();
        world.indexes[index].phase = phase;
        world.say(|| format!("index {phase:?}"));
        world.transactions.running_writers()
    };
    for xid in running {
        while actor.world().settled(xid) == Status::Running {
            actor.wait().await;
        }
    }
    actor.step().await;
}

async fn exclude_cleaners(actor: &Actor) {
    actor.world().builds += 1;
    while actor.world().cleaner.is_some() && actor.rules().has(Rule::BuildExcludesCleaners) {
        actor.wait().await;
    }
}

fn admit_cleaners(actor: &Actor) {
    let mut world = actor.world();
    world.builds -= 1;
    // Earlier clean-up did not cover this index, so its records end.
    if world.rules.has(Rule::BuildEndsRecords) {
        world.settling.end_all();
    }
}

impl World {
    /// Returns the entries that the rows on a page need, and sets `mixed` where a root gets more
    /// than one key.
    fn entries_of(&mut self, index: usize, page: u8, view: &View, again: bool) -> Vec<Entry> {
        let definition = self.indexes[index].definition;
        let now = Reader { snapshot: self.transactions.published, own: None, command: 0 };
        let only_seen = again && !self.rules.has(Rule::ValidateAll);
        let mut entries: Vec<Entry> = Vec::new();
        for root in Tid::on_page(page) {
            if !self.is_root(root) {
                continue;
            }
            let before = entries.len();
            for (_, version) in self.versions(root) {
                if self.removable(version, view) || only_seen && !self.sees(&now, version) {
                    continue;
                }
                let Some(key) = definition.key(&version.values) else { continue };
                if !entries[before..].iter().any(|other| other.key == key) {
                    entries.push(entry(key, root, definition.payload(&version.values)));
                }
            }
            // A version without a key counts as another key: the entries of its root must be
            // rechecked.
            let keys = self.versions(root).filter(|(_, version)| !self.removable(version, view));
            let mut keys: Vec<_> = keys.map(|(_, v)| definition.key(&v.values)).collect();
            keys.dedup();
            if keys.len() > 1 && self.rules.has(Rule::BuildSetsMixed) {
                self.pointer_mut(root).mixed = Mixed::Yes;
                self.pages[usize::from(page)].all_visible = false;
            }
        }
        entries
    }
}
