//! The gardener: a cleaner that takes up the roots that pruning noted, one by one
//! (docs/internals/design.md, "Gardener").
//!
//! ```text
//! look at the root   every (index, key) of its record:                      look at it again
//! ───────────────►   latch the leaf, judge, delete or rewrite, unlatch  ──► free, or clear `mixed`
//! writes `cleaning`                                                         if it still says so
//! ```

use crate::access::leaves::latch_place;
use crate::access::snapshots::collect;
use crate::rules::Rule;
use crate::scheduler::Actor;
use crate::state::heap::{Mixed, State, Tid, Version};
use crate::state::index::{Key, Phase};
use crate::state::transactions::View;
use crate::state::world::World;

/// Waits until no other cleaner is at work and no index is being built, and becomes the cleaner.
pub(crate) async fn become_cleaner(actor: &Actor) {
    loop {
        {
            let mut world = actor.world();
            let alone = world.cleaner.is_none() || !world.rules.has(Rule::OneCleaner);
            let no_build = world.builds == 0 || !world.rules.has(Rule::BuildExcludesCleaners);
            if alone && no_build {
                world.cleaner = Some(actor.id);
                return;
            }
        }
        actor.wait().await;
    }
}

pub(crate) fn cease_cleaning(actor: &Actor) {
    let mut world = actor.world();
    if world.cleaner == Some(actor.id) {
        world.cleaner = None;
    }
}

/// A root to be cleaned, as it was when the work began.
struct Job {
    root: Tid,
    incarnation: u32,
    dead: bool,
    /// The chain's only version, if the chain is a single version.
    only: Option<Version>,
    keys: Vec<(usize, Key)>,
    /// Number of keys that the record had.
    recorded: usize,
}

/// Cleans in rounds; one round in eight loses the record it took up (rule `complete-record`).
pub(crate) async fn gardener(actor: Actor, rounds: usize) {
    for _ in 0..rounds {
        if actor.world().records.values().all(|record| record.keys.is_empty()) {
            actor.wait().await;
        }
        actor.step().await;
        let view = collect(&actor).await;
        become_cleaner(&actor).await;
        round(&actor, &view).await;
        cease_cleaning(&actor);
    }
}

async fn round(actor: &Actor, view: &View) {
    if actor.world().random.one_in(3) {
        let page = u8::from(actor.world().random.one_in(2));
        actor.world().prune(page, view);
        actor.step().await;
    }
    let Some(job) = actor.world().take_job() else { return };
    let mut clean = true;
    for &(index, key) in &job.keys {
        clean &= visit(actor, &job, index, key).await;
        actor.step().await;
    }
    if clean {
        actor.world().finish_job(&job);
    }
}

/// Deletes the entry, or gives it the payload of the only version. Returns false if the entry is
/// neither.
async fn visit(actor: &Actor, job: &Job, index: usize, key: Key) -> bool {
    let view = collect(actor).await;
    let place = (key, job.root);
    let definition = actor.world().indexes[index].definition;
    let leaf = latch_place(actor, index, place).await;
    let mut clean = true;
    let there = actor.world().leaf(index, leaf).find(place).is_some();
    if !actor.rules().has(Rule::OneHold) {
        actor.world().unlatch(index, leaf);
    }
    if there {
        actor.step().await;
        // Judged under the leaf's latch, which is kept until the entry is deleted
        // (rule `one-hold`).
        let deletable = actor.world().deletable(index, key, job.root, &view);
        actor.step().await;
        let mut world = actor.world();
        if deletable {
            world.delete_entry(index, leaf, place);
        } else {
            let only = world.only_version(job.root);
            match only.filter(|version| definition.key(&version.values) == Some(key)) {
                Some(version) if world.rules.has(Rule::PayloadRewritten) => {
                    world.rewrite_payload(index, leaf, place, definition.payload(&version.values));
                }
                Some(_) => {}
                None => clean = false,
            }
        }
    }
    if actor.rules().has(Rule::OneHold) {
        actor.world().unlatch(index, leaf);
    }
    clean
}

impl World {
    /// Takes a root to clean, and writes `cleaning` before any index is visited
    /// (rule `mixed-flag`).
    fn take_job(&mut self) -> Option<Job> {
        let noted: Vec<Tid> = self
            .records
            .iter()
            .filter(|(_, record)| !record.keys.is_empty())
            .map(|(root, _)| *root)
            .collect();
        if noted.is_empty() {
            return None;
        }
        let root = self.random.pick(&noted);
        if !self.is_root(root) {
            self.records.remove(&root);
            return None;
        }
        if self.random.one_in(8) {
            self.say(|| format!("loses its record of {root}"));
            let record = self.records.entry(root).or_default();
            record.keys.clear();
            record.incomplete = true;
            return None;
        }
        let only = self.only_version(root);
        self.start_cleaning(root, only.is_some());
        let mut keys = self.records[&root].keys.clone();
        let recorded = keys.len();
        if let Some(version) = &only {
            for (index, of) in self.indexes.iter().enumerate() {
                let key = of.definition.key(&version.values).map(|key| (index, key));
                keys.extend(key.filter(|key| of.phase >= Phase::Ready && !keys.contains(key)));
            }
        }
        let pointer = self.pointer(root);
        let (incarnation, dead) = (pointer.incarnation, matches!(pointer.state, State::Dead));
        self.say(|| format!("cleans {root}: (index, key) {keys:?}"));
        Some(Job { root, incarnation, dead, only, keys, recorded })
    }

    /// Marks a root whose chain is a single version as `cleaning`; a cleaner does this first.
    pub(crate) fn start_cleaning(&mut self, root: Tid, single: bool) {
        let begins = single && self.pointer(root).mixed == Mixed::Yes;
        if begins && self.rules.has(Rule::Cleaning) {
            self.pointer_mut(root).mixed = Mixed::Cleaning;
        }
    }

    /// Returns whether the chain's keys are unchanged since `start_cleaning`.
    pub(crate) fn is_still_cleaning(&self, root: Tid) -> bool {
        let wanted = if self.rules.has(Rule::Cleaning) { Mixed::Cleaning } else { Mixed::Yes };
        self.pointer(root).mixed == wanted
    }

    /// Finishes a job after all entries of the record are gone: frees the line pointer, or clears
    /// `mixed`.
    fn finish_job(&mut self, job: &Job) {
        let record = self.records.get(&job.root);
        let lost = record.is_some_and(|record| record.incomplete);
        let grown = record.is_some_and(|record| record.keys.len() != job.recorded);
        let other = self.pointer(job.root).incarnation != job.incarnation;
        if lost && self.rules.has(Rule::CompleteRecord) || other && self.rules.has(Rule::OneCleaner)
        {
            return;
        }
        if job.dead {
            if matches!(self.pointer(job.root).state, State::Dead) && !self.locks_keep(job.root) {
                self.free(job.root);
            }
        } else if job.only.is_some()
            && (!grown || !self.rules.has(Rule::Cleaning))
            && self.only_version(job.root).is_some()
            && self.is_still_cleaning(job.root)
        {
            self.clear_mixed(job.root);
        }
    }
}
