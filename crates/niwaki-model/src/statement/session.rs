//! Sessions, with transactions, statements, savepoints, and commit in several steps.

use crate::access::snapshots::{collect, take_snapshot};
use crate::access::transaction::{Refused, Transaction};
use crate::plan::{End, Isolation, Statement, TransactionPlan};
use crate::scheduler::Actor;
use crate::state::index::Phase;
use crate::state::oracle::Wanted;
use crate::state::transactions::Status;
use crate::statement::scan::{heap_scan, index_only_scan, index_scan};
use crate::statement::unique::check_deferred;
use crate::statement::update::{How, change, insert};

/// Runs transactions one after the other.
pub(crate) async fn session(actor: Actor, plan: Vec<TransactionPlan>) {
    for transaction in plan {
        run(&actor, &transaction).await;
        actor.step().await;
    }
}

async fn run(actor: &Actor, plan: &TransactionPlan) {
    let mut tx = Transaction::begin(actor, plan.isolation);
    if plan.statements.iter().any(|s| s.writes() || matches!(s, Statement::Insert { .. })) {
        actor.world().transactions.writes(tx.top);
    }
    actor.world().say(|| format!("begins x{}: {plan}", tx.top));
    let mut failed = false;
    for (n, statement) in plan.statements.iter().enumerate() {
        tx.command += 1;
        if n == 0 || tx.isolation == Isolation::ReadCommitted {
            let follows = tx.isolation == Isolation::ReadCommitted && statement.writes();
            tx.snapshot = take_snapshot(actor, follows).await;
        }
        actor.world().say(|| format!("{statement} at {}", tx.snapshot));
        actor.step().await;
        if let Err(why) = execute(actor, &mut tx, statement).await {
            let mut world = actor.world();
            world.say(|| format!("fails: {why:?}"));
            match why {
                Refused::Deadlock => world.events.deadlocks += 1,
                Refused::UniqueViolation => world.events.conflicts += 1,
                Refused::Serialization | Refused::NoRoom => {}
            }
            let goes_on = world.random.one_in(2);
            drop(world);
            failed = !(goes_on && tx.roll_back(actor));
            if failed {
                break;
            }
        }
    }
    actor.step().await;
    let commits = match plan.end {
        End::Commit => true,
        End::Abort => false,
        End::Either => !actor.world().random.one_in(5),
    };
    if failed || !commits || check_deferred(actor, &tx).await.is_err() {
        abort(actor, &tx);
    } else {
        commit(actor, tx, plan.durable).await;
    }
}

async fn execute(
    actor: &Actor,
    tx: &mut Transaction,
    statement: &Statement,
) -> Result<(), Refused> {
    match *statement {
        Statement::Update { wanted, to, place } => {
            write(actor, tx, wanted, How::Update { to, place }).await
        }
        Statement::Delete { wanted } => write(actor, tx, wanted, How::Delete).await,
        Statement::Lock { wanted, exclusive } => {
            write(actor, tx, wanted, How::Lock { exclusive }).await
        }
        Statement::Insert { a, b } => insert(actor, tx, a, b).await,
        Statement::Scan { wanted } => {
            if is_valid(actor, wanted.index) {
                index_scan(actor, tx, wanted).await;
            }
            Ok(())
        }
        Statement::IndexOnly { wanted } => {
            if is_valid(actor, wanted.index) {
                index_only_scan(actor, tx, wanted).await;
            }
            Ok(())
        }
        Statement::HeapScan => {
            heap_scan(actor, tx).await;
            Ok(())
        }
        Statement::Savepoint => {
            tx.savepoint(actor);
            Ok(())
        }
        Statement::RollBack => {
            tx.roll_back(actor);
            Ok(())
        }
        Statement::Release => {
            tx.release();
            Ok(())
        }
        Statement::Prune { page } => {
            let view = collect(actor).await;
            actor.world().prune(page, &view);
            Ok(())
        }
    }
}

/// Returns whether scans may use the index, whatever its phase was when their transaction began.
fn is_valid(actor: &Actor, index: usize) -> bool {
    actor.world().indexes[index].phase == Phase::Valid
}

/// Finds the rows, then changes each.
async fn write(
    actor: &Actor,
    tx: &mut Transaction,
    wanted: Wanted,
    how: How,
) -> Result<(), Refused> {
    if !is_valid(actor, wanted.index) {
        return Ok(());
    }
    for found in index_scan(actor, tx, wanted).await {
        change(actor, tx, found, wanted, how).await?;
    }
    Ok(())
}

fn abort(actor: &Actor, tx: &Transaction) {
    let mut world = actor.world();
    for xid in &tx.xids {
        world.transactions.mark(*xid, Status::Aborted);
    }
    world.events.aborts += 1;
    world.say(|| format!("aborts x{}", tx.top));
    world.leave_slot(actor.id);
}

/// Logs, marks and publishes the commit: three moments, with other actors in between
/// (rule `published`).
async fn commit(actor: &Actor, tx: Transaction, durable: bool) {
    let csn = {
        let mut world = actor.world();
        let csn = world.transactions.next;
        world.transactions.next += 1;
        world.log.commit(csn, &tx.xids, &tx.writes);
        csn
    };
    actor.step().await;
    {
        let mut world = actor.world();
        for xid in &tx.xids {
            world.transactions.mark(*xid, Status::Committed(csn));
        }
        world.events.commits += 1;
        world.say(|| format!("commits x{} as {csn}", tx.top));
        world.oracle_commit(csn, &tx.writes);
        world.touch();
    }
    actor.step().await;
    if durable {
        actor.world().log.flush_commit(csn);
    }
    loop {
        {
            let mut world = actor.world();
            if world.transactions.published + 1 == csn {
                world.transactions.published = csn;
                world.say(|| format!("publishes {csn}"));
                world.leave_slot(actor.id);
                return;
            }
        }
        actor.wait().await;
    }
}
