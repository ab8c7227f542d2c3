//! Long readers: an old snapshot, and a worker that shares another actor's snapshot.

use crate::access::snapshots::take_snapshot;
use crate::access::transaction::Transaction;
use crate::plan::Isolation;
use crate::rules::Rule;
use crate::scheduler::Actor;
use crate::state::oracle::Wanted;
use crate::state::share::Share;
use crate::state::transactions::{Csn, Slot, Status};
use crate::statement::scan::{heap_scan, index_only_scan, index_scan};

/// Takes a snapshot early and reads with it again and again. With `held`, keeps the snapshot to the
/// end.
pub(crate) async fn old_reader(actor: Actor, held: bool) {
    let mut tx = Transaction::begin(&actor, Isolation::RepeatableRead);
    tx.snapshot = take_snapshot(&actor, &tx.dependence, false).await;
    for round in 0..3 {
        for _ in 0..12 {
            actor.step().await;
        }
        let wanted = Wanted { index: round % 2, key: None };
        if round == 2 {
            index_only_scan(&actor, &tx, wanted).await;
        } else {
            index_scan(&actor, &tx, wanted).await;
        }
    }
    heap_scan(&actor, &tx).await;
    let mut world = actor.world();
    world.transactions.mark(tx.top, Status::Aborted);
    if !held {
        world.leave_slot(actor.id);
    }
}

/// Reads with the snapshot of the actor `leader`, whose slot keeps it (rule `snapshot-slot`).
pub(crate) async fn worker(actor: Actor, leader: usize) {
    let mut csn = None;
    let delay = actor.world().random.below(30);
    for _ in 0..delay {
        actor.wait().await;
    }
    for _ in 0..20 {
        if let Slot::Snapshot { csn: there, .. } = actor.world().transactions.slots[leader] {
            csn = Some(there);
            break;
        }
        actor.wait().await;
    }
    let Some(csn) = csn else { return };
    let shared = actor.rules().has(Rule::SnapshotShared);
    if shared {
        actor.world().shares[leader].workers += 1;
    } else {
        actor.world().transactions.slots[actor.id] = Slot::Pending;
        actor.step().await;
        actor.world().transactions.slots[actor.id] = Slot::Snapshot { csn, follows: false };
        actor.world().touch();
    }
    read(&actor, csn).await;
    let mut world = actor.world();
    if shared {
        world.shares[leader].workers -= 1;
        let Share { workers, left } = world.shares[leader];
        if workers == 0 && left {
            world.transactions.slots[leader] = Slot::Empty;
        }
    } else {
        world.leave_slot(actor.id);
    }
    world.touch();
}

async fn read(actor: &Actor, csn: Csn) {
    let mut tx = Transaction::begin(actor, Isolation::RepeatableRead);
    tx.snapshot = csn;
    for index in 0..2 {
        actor.step().await;
        index_scan(actor, &tx, Wanted { index, key: None }).await;
    }
    heap_scan(actor, &tx).await;
    actor.world().transactions.mark(tx.top, Status::Aborted);
}
