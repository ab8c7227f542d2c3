//! Insertion of index entries, after their unique checks (rule `unique-check`).

use crate::access::leaves::latch_place;
use crate::access::snapshots::{collect, wait_for};
use crate::access::transaction::{Refused, Transaction};
use crate::rules::Rule;
use crate::scheduler::Actor;
use crate::state::heap::Tid;
use crate::state::index::{Entry, Key, Unique};
use crate::state::transactions::{Status, Until, View, Xid};
use crate::state::violation::Invariant;
use crate::state::world::World;

/// The meaning of a chain for a transaction that wants its key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Judged {
    Free,
    /// Another transaction inserted or deleted a version with the key, and is still running.
    Busy(Xid),
    Taken,
}

/// Puts the entry into the index, unless it is there or its key is taken.
pub(crate) async fn insert_entry(
    actor: &Actor,
    tx: &mut Transaction,
    index: usize,
    entry: Entry,
) -> Result<(), Refused> {
    let definition = actor.world().indexes[index].definition;
    let rules = actor.rules();
    // An inserter holds the first leaf where the key may be, so that two inserters of one key
    // exclude each other.
    let first_place =
        if definition.unique == Unique::No { entry.place() } else { (entry.key, Tid::MIN) };
    loop {
        // Some checks also mark dead entries.
        let marks = definition.unique == Unique::AtOnce && actor.world().random.one_in(4);
        let view = if marks { Some(collect(actor).await) } else { None };
        let early = actor.world().may_be_taken(index, &entry, tx);
        let first = latch_place(actor, index, first_place).await;
        let there = actor.world().leaf(index, first).find(entry.place()).is_some();
        let shortcut = there && !rules.has(Rule::UniqueBeforeDuplicate);
        if definition.unique == Unique::AtOnce && !shortcut {
            match check(actor, tx, index, &entry, first, view.as_ref()).await {
                Judged::Free => {}
                Judged::Busy(xid) => {
                    actor.world().unlatch(index, first);
                    wait_for(actor, tx, xid, Until::Logged).await?;
                    continue;
                }
                Judged::Taken => {
                    actor.world().unlatch(index, first);
                    return Err(Refused::UniqueViolation);
                }
            }
        }
        if definition.unique == Unique::AtCommit {
            let mut world = actor.world();
            let now = world.may_be_taken(index, &entry, tx);
            if if rules.has(Rule::DeferredNotes) { now } else { early } {
                world.say(|| format!("notes key {} for its commit", entry.key));
                tx.deferred.push((index, entry.key));
            }
        }
        actor.step().await;
        // The entry's own leaf may be to the right of the key's first leaf.
        let target = actor.world().leaf(index, first).beyond(entry.place());
        if target.is_some() && rules.has(Rule::MoveRight) {
            let leaf = latch_place(actor, index, entry.place()).await;
            actor.world().put_entry(index, leaf, entry);
            actor.world().unlatch(index, leaf);
        } else {
            actor.world().put_entry(index, first, entry);
        }
        actor.world().unlatch(index, first);
        return Ok(());
    }
}

/// Examines every entry with the key, each under its heap page's latch. With a `view`, marks
/// entries on `leaf` that no snapshot sees. The caller holds `leaf`, so its version needs no check.
async fn check(
    actor: &Actor,
    tx: &Transaction,
    index: usize,
    entry: &Entry,
    leaf: usize,
    view: Option<&View>,
) -> Judged {
    let roots = actor.world().roots_with(index, entry.key);
    for root in roots {
        if root == entry.root && actor.rules().has(Rule::UniqueOwnRoot) {
            continue;
        }
        actor.step().await;
        let mut world = actor.world();
        let judged = world.judge_key(index, entry.key, root, tx);
        if judged == Judged::Taken {
            world.check_conflict(tx, index, entry);
        }
        if judged != Judged::Free {
            return judged;
        }
        if let Some(view) = view {
            world.mark_if_dead(index, leaf, (entry.key, root), view);
        }
    }
    Judged::Free
}

/// Makes the checks that were deferred to the commit. A check that has to wait starts again
/// afterwards.
pub(crate) async fn check_deferred(actor: &Actor, tx: &Transaction) -> Result<(), Refused> {
    for (index, key) in &tx.deferred {
        'again: loop {
            let roots = actor.world().roots_with(*index, *key);
            let mut live = 0;
            for root in roots {
                actor.step().await;
                let judged = actor.world().judge_key(*index, *key, root, tx);
                match judged {
                    Judged::Free => {}
                    Judged::Taken => live += 1,
                    Judged::Busy(xid) => {
                        wait_for(actor, tx, xid, Until::Logged).await?;
                        continue 'again;
                    }
                }
            }
            actor.world().events.deferred += 1;
            if live > 1 {
                return Err(Refused::UniqueViolation);
            }
            break;
        }
    }
    Ok(())
}

impl World {
    fn roots_with(&self, index: usize, key: Key) -> Vec<Tid> {
        let entries = self.indexes[index].entries();
        entries.filter(|entry| entry.key == key && !entry.dead).map(|entry| entry.root).collect()
    }

    /// Judges the key by every version of the chain (rule `unique-check`).
    fn judge_key(&self, index: usize, key: Key, root: Tid, tx: &Transaction) -> Judged {
        let definition = self.indexes[index].definition;
        let is_own = |xid: Xid| self.transactions.is_running_part(xid, tx.top);
        let newest = self.chain(root).len().saturating_sub(1);
        let mut judged = Judged::Free;
        for (n, (_, version)) in self.versions(root).enumerate() {
            let counts = n == newest || self.rules.has(Rule::UniqueAllVersions);
            if !counts || definition.key(&version.values) != Some(key) {
                continue;
            }
            match self.status_for(tx, version.xmin) {
                Status::Aborted => continue,
                Status::Running if !is_own(version.xmin) => {
                    judged = Judged::Busy(version.xmin);
                    continue;
                }
                _ => {}
            }
            match version.xmax.map(|xmax| (xmax, self.status_for(tx, xmax))) {
                None | Some((_, Status::Aborted)) => return Judged::Taken,
                Some((_, Status::Committed(_))) => {}
                Some((xmax, Status::Running)) if is_own(xmax) => {}
                Some((xmax, Status::Running)) => judged = Judged::Busy(xmax),
            }
        }
        judged
    }

    /// Returns whether another root may hold the key now or later.
    fn may_be_taken(&self, index: usize, entry: &Entry, tx: &Transaction) -> bool {
        let mut roots = self.roots_with(index, entry.key).into_iter();
        roots.any(|root| {
            root != entry.root && self.judge_key(index, entry.key, root, tx) != Judged::Free
        })
    }

    /// Checks a refusal: a row other than the inserted one must have the key.
    fn check_conflict(&mut self, tx: &Transaction, index: usize, entry: &Entry) {
        let definition = self.indexes[index].definition;
        let own = self.versions(entry.root).last().map(|(_, version)| version.row);
        let rows = self.oracle.expected(u32::MAX, &tx.writes);
        let taken = rows
            .filter(|(row, values)| Some(*row) != own && definition.key(values) == Some(entry.key))
            .count();
        if taken == 0 {
            self.violate(Invariant::Unique, || {
                format!("key {} refused in {}, and nobody has it", entry.key, definition.name)
            });
        }
    }
}
