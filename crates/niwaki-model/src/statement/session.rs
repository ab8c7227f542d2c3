//! Sessions, with transactions, statements, savepoints, and commit in several steps.

use crate::plan::{End, Isolation, Statement, TransactionPlan};
use crate::scheduler::Actor;
use crate::state::heap::{Reader, Tid};
use crate::state::index::{Entry, Key, Phase};
use crate::state::oracle::{Wanted, Writes};
use crate::state::transactions::{Csn, Deadlock, Status, Xid, collect, take_snapshot};
use crate::statement::scan::{heap_scan, index_only_scan, index_scan};
use crate::statement::unique::check_deferred;
use crate::statement::update::{How, change};

/// The reason why a statement failed; its transaction or its savepoint rolls back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refused {
    /// REPEATABLE READ: another transaction changed the row.
    Serialization,
    UniqueViolation,
    Deadlock,
    /// Both pages are full.
    NoRoom,
}

impl From<Deadlock> for Refused {
    fn from(_: Deadlock) -> Self {
        Self::Deadlock
    }
}

/// A session's state of its transaction.
pub(crate) struct Transaction {
    pub(crate) top: Xid,
    /// The top transaction, or the subtransaction of the innermost savepoint.
    pub(crate) current: Xid,
    /// All ids of the transaction that were not rolled back.
    xids: Vec<Xid>,
    pub(crate) command: u16,
    pub(crate) snapshot: Csn,
    pub(crate) isolation: Isolation,
    pub(crate) writes: Writes,
    savepoints: Vec<Savepoint>,
    /// The phases of the indexes when the transaction began.
    pub(crate) known: Vec<Phase>,
    /// Keys to be checked before the commit.
    pub(crate) deferred: Vec<(usize, Key)>,
}

struct Savepoint {
    writes: Writes,
    /// Number of ids that the transaction had.
    xids: usize,
    outer: Xid,
}

impl Transaction {
    pub(crate) fn begin(actor: &Actor, isolation: Isolation) -> Self {
        let mut world = actor.world();
        let top = world.transactions.begin(None);
        Self {
            top,
            current: top,
            xids: vec![top],
            command: 0,
            snapshot: 0,
            isolation,
            writes: Writes::new(),
            savepoints: Vec::new(),
            known: world.indexes.iter().map(|index| index.phase).collect(),
            deferred: Vec::new(),
        }
    }

    pub(crate) fn reader(&self) -> Reader {
        Reader { snapshot: self.snapshot, own: Some(self.top), command: self.command }
    }

    /// Returns whether the transaction puts entries into the index.
    pub(crate) fn inserts_into(&self, index: usize) -> bool {
        self.known[index] >= Phase::Ready
    }

    fn savepoint(&mut self, actor: &Actor) {
        let mut world = actor.world();
        let xid = world.transactions.begin(Some(self.top));
        world.say(|| format!("savepoint: x{xid}"));
        let outer = std::mem::replace(&mut self.current, xid);
        let savepoint = Savepoint { writes: self.writes.clone(), xids: self.xids.len(), outer };
        self.savepoints.push(savepoint);
        self.xids.push(xid);
    }

    /// Rolls back to the savepoint; false if there is none.
    fn roll_back(&mut self, actor: &Actor) -> bool {
        let Some(savepoint) = self.savepoints.pop() else { return false };
        let mut world = actor.world();
        for xid in self.xids.drain(savepoint.xids..) {
            world.transactions.mark(xid, Status::Aborted);
        }
        world.events.rolled_back += 1;
        world.touch();
        world.say(|| "rolls back to its savepoint".to_owned());
        self.writes = savepoint.writes;
        self.current = savepoint.outer;
        true
    }

    fn release(&mut self) {
        if let Some(savepoint) = self.savepoints.pop() {
            self.current = savepoint.outer;
        }
    }
}

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
        Statement::Insert { a, b } => crate::statement::update::insert(actor, tx, a, b).await,
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

/// Makes an entry that a write has to insert.
pub(crate) fn entry(key: Key, root: Tid, payload: u16) -> Entry {
    Entry { key, root, payload, dead: false }
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
