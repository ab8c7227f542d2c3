//! Sessions, with transactions, statements, savepoints, and commit in several steps.

use crate::access::early_release::{Kind, delay, publish_dependence, publish_until};
use crate::access::snapshots::{collect, take_snapshot};
use crate::access::transaction::{Dependence, LogFailed, Refused, Transaction};
use crate::plan::{End, Isolation, Statement, TransactionPlan};
use crate::rules::Rule;
use crate::scheduler::Actor;
use crate::state::index::Phase;
use crate::state::oracle::Wanted;
use crate::state::transactions::Status;
use crate::state::violation::Invariant;
use crate::statement::scan::{heap_scan, index_only_scan, index_scan};
use crate::statement::unique::check_deferred;
use crate::statement::update::{How, change, insert};

/// Runs transactions one after the other, until the log fails.
pub(crate) async fn session(actor: Actor, plan: Vec<TransactionPlan>) {
    let mut dependence = Dependence::default();
    for transaction in plan {
        let mut tx = Transaction::begin(&actor, transaction.isolation);
        if !actor.rules().has(Rule::Carried) {
            dependence.on.set(0);
        }
        tx.dependence = dependence;
        if let Err(LogFailed) = run(&actor, &mut tx, &transaction).await {
            return;
        }
        dependence = tx.dependence;
        actor.step().await;
    }
    // The client has no more to send, and waits for the answers. When the log failed, it gets none.
    let _ = answer(&actor, &dependence, false).await;
}

async fn run(actor: &Actor, tx: &mut Transaction, plan: &TransactionPlan) -> Result<(), LogFailed> {
    if plan.statements.iter().any(|s| s.writes() || matches!(s, Statement::Insert { .. })) {
        actor.world().transactions.writes(tx.top);
    }
    actor.world().say(|| format!("begins x{}: {plan}", tx.top));
    let mut failed = false;
    for (n, statement) in plan.statements.iter().enumerate() {
        tx.command += 1;
        let met = tx.dependence.met.get();
        if n == 0 || tx.isolation == Isolation::ReadCommitted {
            let follows = tx.isolation == Isolation::ReadCommitted && statement.writes();
            tx.snapshot = take_snapshot(actor, &tx.dependence, follows).await;
        }
        actor.world().say(|| format!("{statement} at {}", tx.snapshot));
        actor.step().await;
        let result = execute(actor, tx, statement).await;
        if let Err(Refused::LogFailed) = result {
            return Err(LogFailed);
        }
        // A repeatable read keeps its snapshot, whatever it meets later.
        if (n == 0 || tx.isolation == Isolation::ReadCommitted) && tx.snapshot < met {
            actor.world().violate(Invariant::Causality, || {
                let snapshot = tx.snapshot;
                format!("the snapshot {snapshot} misses commit {met}, which its session has met")
            });
        }
        answer(actor, &tx.dependence, plan.pipelined).await?;
        if let Err(why) = result {
            let goes_on = {
                let mut world = actor.world();
                world.say(|| format!("fails: {why:?}"));
                match why {
                    Refused::Deadlock => world.events.deadlocks += 1,
                    Refused::UniqueViolation => world.events.conflicts += 1,
                    Refused::Serialization | Refused::NoRoom | Refused::LogFailed => {}
                }
                world.random.one_in(2)
            };
            failed = !(goes_on && roll_back(actor, tx).await?);
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
    if failed || !commits || check_deferred(actor, tx).await.is_err() {
        abort(actor, tx).await?;
    } else if actor.world().early_release {
        release_early(actor, tx, plan).await?;
    } else {
        commit(actor, tx, plan.durable).await;
    }
    answer(actor, &tx.dependence, plan.pipelined).await
}

/// Answers the client, unless it is pipelined: then the answer waits in the session's buffer. An
/// answer leaves when the commits behind it are published (rule `early-release`).
async fn answer(actor: &Actor, dependence: &Dependence, pipelined: bool) -> Result<(), LogFailed> {
    if pipelined && actor.world().early_release {
        return Ok(());
    }
    {
        let mut world = actor.world();
        if dependence.on.get() > world.transactions.published {
            world.events.awaited += 1;
        }
        if !world.rules.has(Rule::DurableAnswer) {
            world.answer(dependence);
        }
    }
    publish_dependence(actor, dependence).await?;
    actor.world().answer(dependence);
    Ok(())
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
            roll_back(actor, tx).await?;
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

/// Rolls back to the innermost savepoint; false if there is none. Its locks may have been written
/// over those of commits that it depends on.
async fn roll_back(actor: &Actor, tx: &mut Transaction) -> Result<bool, LogFailed> {
    if tx.has_savepoint() && actor.rules().has(Rule::DurableAbort) {
        publish_dependence(actor, &tx.dependence).await?;
    }
    Ok(tx.roll_back(actor))
}

async fn abort(actor: &Actor, tx: &Transaction) -> Result<(), LogFailed> {
    if actor.rules().has(Rule::DurableAbort) {
        publish_dependence(actor, &tx.dependence).await?;
    }
    let mut world = actor.world();
    for xid in &tx.xids {
        world.transactions.mark(*xid, Status::Aborted);
    }
    world.events.aborts += 1;
    world.say(|| format!("aborts x{}", tx.top));
    world.leave_slot(actor.id);
    Ok(())
}

/// Logs and marks the commit in one moment (rule `early-release`). The acknowledgement waits for
/// the publication.
async fn release_early(
    actor: &Actor,
    tx: &Transaction,
    plan: &TransactionPlan,
) -> Result<(), LogFailed> {
    let csn = {
        let mut world = actor.world();
        let csn = world.log_commit(tx, Kind { durable: plan.durable, late: plan.late });
        world.leave_slot(actor.id);
        csn
    };
    actor.step().await;
    if !actor.rules().has(Rule::InOrder) {
        delay(actor, 40).await;
        actor.world().mark_alone(csn);
        actor.step().await;
    }
    tx.dependence.note(csn);
    actor.world().meets(tx, csn);
    // A waiter for an unmarked commit does not flush. So the session does it before it goes on.
    if plan.pipelined && actor.world().is_marked(csn) {
        return Ok(());
    }
    let published = publish_until(actor, csn).await;
    if published.is_err() && !actor.rules().has(Rule::MarkedStays) {
        actor.world().withdraw(csn);
    }
    published
}

/// Logs, marks and publishes the commit: three moments, with other actors in between
/// (rule `published`).
async fn commit(actor: &Actor, tx: &Transaction, durable: bool) {
    let csn = {
        let mut world = actor.world();
        let csn = world.transactions.next;
        world.transactions.next += 1;
        if !durable {
            world.transactions.asynchronous.insert(csn);
        }
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
                world.transactions.logged = csn;
                world.meets(tx, csn);
                world.say(|| format!("publishes {csn}"));
                world.leave_slot(actor.id);
                return;
            }
        }
        actor.wait().await;
    }
}
