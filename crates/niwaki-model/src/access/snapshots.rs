//! Snapshots, the view that a collector reads of them, and waits for transactions.

use crate::access::early_release::publish_until;
use crate::access::transaction::{Dependence, Refused, Transaction};
use crate::rules::Rule;
use crate::scheduler::Actor;
use crate::state::heap::Version;
use crate::state::transactions::{Csn, Slot, Status, Until, View, Xid};
use crate::state::violation::Invariant;
use crate::state::world::World;

impl World {
    /// Returns the state by which cleaners, builds and waiters for locks in memory act: a commit
    /// counts once it is published (rule `published`).
    pub(crate) fn settled(&self, xid: Xid) -> Status {
        match self.transactions.marked(xid) {
            Status::Committed(csn)
                if csn > self.transactions.published && self.rules.has(Rule::Published) =>
            {
                Status::Running
            }
            status => status,
        }
    }

    /// Returns the state by which a transaction judges versions and keys. With early release a
    /// commit counts once it is marked, and the transaction depends on it then.
    pub(crate) fn status_for(&self, tx: &Transaction, xid: Xid) -> Status {
        let status =
            if self.early_release { self.transactions.marked(xid) } else { self.settled(xid) };
        if let Status::Committed(csn) = status {
            if self.early_release && self.rules.has(Rule::DependenceNoted) {
                tx.dependence.note(csn);
            }
            self.meets(tx, csn);
        }
        status
    }

    /// Records for the checks that a transaction acts on a commit.
    pub(crate) fn meets(&self, tx: &Transaction, csn: Csn) {
        let durable = !self.transactions.asynchronous.contains(&csn);
        tx.dependence.meet(csn, if durable { csn } else { 0 });
    }

    /// Returns the state of a holder of locks in memory. A transaction that waits for one reads no
    /// version, and notes no dependence.
    pub(crate) fn holder_status(&self, xid: Xid) -> Status {
        if self.early_release && !self.rules.has(Rule::DurableLocks) {
            self.transactions.marked(xid)
        } else {
            self.settled(xid)
        }
    }

    /// Answers the question of a wait, as its waiter asks it afterwards (rule `early-release`).
    fn has_ended(&self, tx: &Transaction, xid: Xid, until: Until) -> bool {
        let one = self.rules.has(Rule::OnePredicate);
        let status = match until {
            Until::Published if one => self.holder_status(xid),
            Until::Published | Until::Logged => self.status_for(tx, xid),
        };
        status != Status::Running
    }

    /// Chooses the number of a snapshot. A dependent session sees the commit that it met, and maybe
    /// newer ones.
    fn snapshot_for(&mut self, dependence: &Dependence) -> Csn {
        let on = dependence.on.get();
        if on <= self.transactions.published || !self.rules.has(Rule::Depends) {
            return self.transactions.published;
        }
        self.events.ahead += 1;
        if self.random.one_in(2) { self.transactions.logged } else { on }
    }

    /// Notes the dependence on a new snapshot, and checks that the definitions are as new.
    fn note_snapshot(&mut self, dependence: &Dependence, csn: Csn) {
        if self.early_release && self.rules.has(Rule::SnapshotDepends) {
            dependence.note(csn);
        }
        dependence.meet(csn, self.transactions.durable_until(csn));
        let seen = self.transactions.late.range(..=csn).next_back().copied();
        if let Some(late) = seen.filter(|late| *late > self.transactions.defined) {
            self.violate(Invariant::Definitions, || {
                format!("the snapshot {csn} sees {late}, whose definitions are not in force")
            });
        }
    }

    /// Returns whether no snapshot sees the version, now or later (rule `removable`).
    pub(crate) fn removable(&self, version: &Version, view: &View) -> bool {
        match self.transactions.marked(version.xmin) {
            Status::Aborted => true,
            Status::Running => false,
            Status::Committed(begin) => {
                let end = version.xmax.and_then(|xmax| self.transactions.csn(xmax));
                end.is_some_and(|end| {
                    (end <= view.published || !self.rules.has(Rule::EndPublished))
                        && !view.snapshots.iter().any(|(csn, _)| begin <= *csn && *csn < end)
                })
            }
        }
    }

    /// Releases the snapshot in the slot for the actor that took it.
    pub(crate) fn leave_slot(&mut self, slot: usize) {
        self.shares[slot].left = true;
        if self.shares[slot].workers == 0 {
            self.transactions.slots[slot] = Slot::Empty;
        }
        self.touch();
    }
}

/// Reads the published CSN and the slots, one after the other.
pub(crate) async fn collect(actor: &Actor) -> View {
    let first = actor.rules().has(Rule::PublishedFirst);
    let read = || {
        let world = actor.world();
        let durable = !world.early_release || world.rules.has(Rule::DurableCollector);
        if durable { world.transactions.published } else { world.transactions.logged }
    };
    let mut published = 0;
    if first {
        published = read();
        actor.step().await;
    }
    let mut snapshots = Vec::new();
    let slots = actor.world().transactions.slots.len();
    for slot in 0..slots {
        loop {
            let value = actor.world().transactions.slots[slot];
            match value {
                Slot::Pending => actor.wait().await,
                Slot::Empty => break,
                Slot::Snapshot { csn, follows } => {
                    snapshots.push((csn, follows));
                    break;
                }
            }
        }
        // Not after each slot, which would only make schedules longer.
        if actor.world().random.one_in(2) {
            actor.step().await;
        }
    }
    if !first {
        actor.step().await;
        published = read();
    }
    View { published, snapshots }
}

/// Takes a snapshot into the actor's slot. `follows`: its statement may follow chains
/// (rule `stub`).
pub(crate) async fn take_snapshot(actor: &Actor, dependence: &Dependence, follows: bool) -> Csn {
    let slot = actor.id;
    let held = actor.world().transactions.slots[slot] != Slot::Empty;
    if !held || actor.rules().has(Rule::Pending) {
        actor.world().transactions.slots[slot] = Slot::Pending;
        actor.step().await;
    }
    let csn = actor.world().snapshot_for(dependence);
    actor.step().await;
    let mut world = actor.world();
    world.note_snapshot(dependence, csn);
    world.transactions.slots[slot] = Slot::Snapshot { csn, follows };
    world.touch();
    csn
}

/// Waits until the transaction has ended: aborted, or its commit marked or published. No latch may
/// be held.
pub(crate) async fn wait_for(
    actor: &Actor,
    tx: &Transaction,
    xid: Xid,
    until: Until,
) -> Result<(), Refused> {
    let own = tx.top;
    {
        let mut world = actor.world();
        world.transactions.waits_for(own, xid)?;
        if tx.waited_for.get() == Some((xid, until)) {
            world.violate(Invariant::Spins, || {
                format!("x{own} waits for x{xid} again, whose end it has waited for")
            });
        }
        world.events.waits += 1;
        world.say(|| format!("waits for x{xid}"));
    }
    loop {
        actor.wait().await;
        let marked = {
            let mut world = actor.world();
            if world.has_ended(tx, xid, until) {
                world.transactions.waits.remove(&own);
                tx.waited_for.set(Some((xid, until)));
                return Ok(());
            }
            if world.log.failed {
                return Err(Refused::LogFailed);
            }
            world.transactions.csn(xid)
        };
        // The holder's session may wait for this one before it flushes.
        if let Some(csn) = marked.filter(|_| actor.world().early_release) {
            publish_until(actor, csn).await?;
        }
    }
}
