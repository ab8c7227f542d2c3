//! Snapshots, the view that a collector reads of them, and waits for transactions.

use crate::rules::Rule;
use crate::scheduler::Actor;
use crate::state::heap::Version;
use crate::state::transactions::{Csn, Deadlock, Slot, Status, View, Xid};
use crate::state::world::World;

impl World {
    /// Returns the state that others may act on: a commit counts once it is published
    /// (rule `published`).
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
    let mut published = 0;
    if first {
        published = actor.world().transactions.published;
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
        published = actor.world().transactions.published;
    }
    View { published, snapshots }
}

/// Takes a snapshot into the actor's slot. `follows`: its statement may follow chains
/// (rule `stub`).
pub(crate) async fn take_snapshot(actor: &Actor, follows: bool) -> Csn {
    let slot = actor.id;
    let held = actor.world().transactions.slots[slot] != Slot::Empty;
    if !held || actor.rules().has(Rule::Pending) {
        actor.world().transactions.slots[slot] = Slot::Pending;
        actor.step().await;
    }
    let csn = actor.world().transactions.published;
    actor.step().await;
    let mut world = actor.world();
    world.transactions.slots[slot] = Slot::Snapshot { csn, follows };
    world.touch();
    csn
}

/// Waits until the transaction has ended, and its commit is published. No latch may be held.
pub(crate) async fn wait_for(actor: &Actor, own: Xid, xid: Xid) -> Result<(), Deadlock> {
    {
        let mut world = actor.world();
        world.transactions.waits_for(own, xid)?;
        world.events.waits += 1;
        world.say(|| format!("waits for x{xid}"));
    }
    loop {
        actor.wait().await;
        let mut world = actor.world();
        if world.settled(xid) != Status::Running {
            world.transactions.waits.remove(&own);
            return Ok(());
        }
    }
}
