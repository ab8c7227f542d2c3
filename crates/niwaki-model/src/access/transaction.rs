//! The state of a transaction in its session, with its savepoints.

use std::cell::Cell;

use crate::plan::Isolation;
use crate::scheduler::Actor;
use crate::state::heap::Reader;
use crate::state::index::{Key, Phase};
use crate::state::oracle::Writes;
use crate::state::transactions::{Csn, Deadlock, Status, Until, Xid};

/// The reason why a statement failed; its transaction or its savepoint rolls back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refused {
    /// REPEATABLE READ: another transaction changed the row.
    Serialization,
    UniqueViolation,
    Deadlock,
    /// Both pages are full.
    NoRoom,
    /// The log takes no more: the session ends.
    LogFailed,
}

impl From<LogFailed> for Refused {
    fn from(_: LogFailed) -> Self {
        Self::LogFailed
    }
}

/// The error of a flush on a failed device.
#[derive(Debug)]
pub(crate) struct LogFailed;

/// The commits that a session depends on (rule `early-release`).
#[derive(Clone, Debug, Default)]
pub(crate) struct Dependence {
    /// The newest commit that the session noted. Answers and snapshots go by it.
    pub(crate) on: Cell<Csn>,
    /// The newest commit that the session met, noted or not. Only checks use it.
    pub(crate) met: Cell<Csn>,
    /// The newest of these commits that a crash may not lose once published. Only checks use it.
    pub(crate) durable: Cell<Csn>,
}

impl Dependence {
    pub(crate) fn note(&self, csn: Csn) {
        self.on.set(self.on.get().max(csn));
    }

    /// Records for the checks that commits up to `csn`, and the durable ones up to `durable`, are
    /// behind what the session knows.
    pub(crate) fn meet(&self, csn: Csn, durable: Csn) {
        self.met.set(self.met.get().max(csn));
        self.durable.set(self.durable.get().max(durable));
    }
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
    pub(crate) xids: Vec<Xid>,
    pub(crate) command: u16,
    pub(crate) snapshot: Csn,
    pub(crate) isolation: Isolation,
    pub(crate) writes: Writes,
    savepoints: Vec<Savepoint>,
    /// The phases of the indexes when the transaction began.
    pub(crate) known: Vec<Phase>,
    /// Keys to be checked before the commit.
    pub(crate) deferred: Vec<(usize, Key)>,
    pub(crate) dependence: Dependence,
    /// The last wait that found the end of a transaction. Only a check uses it.
    pub(crate) waited_for: Cell<Option<(Xid, Until)>>,
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
            dependence: Dependence::default(),
            waited_for: Cell::new(None),
        }
    }

    pub(crate) fn reader(&self) -> Reader {
        Reader { snapshot: self.snapshot, own: Some(self.top), command: self.command }
    }

    /// Returns whether the transaction puts entries into the index.
    pub(crate) fn inserts_into(&self, index: usize) -> bool {
        self.known[index] >= Phase::Ready
    }

    pub(crate) fn savepoint(&mut self, actor: &Actor) {
        let mut world = actor.world();
        let xid = world.transactions.begin(Some(self.top));
        world.say(|| format!("savepoint: x{xid}"));
        let outer = std::mem::replace(&mut self.current, xid);
        let savepoint = Savepoint { writes: self.writes.clone(), xids: self.xids.len(), outer };
        self.savepoints.push(savepoint);
        self.xids.push(xid);
    }

    pub(crate) fn has_savepoint(&self) -> bool {
        !self.savepoints.is_empty()
    }

    /// Rolls back to the savepoint; false if there is none.
    pub(crate) fn roll_back(&mut self, actor: &Actor) -> bool {
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

    pub(crate) fn release(&mut self) {
        if let Some(savepoint) = self.savepoints.pop() {
            self.current = savepoint.outer;
        }
    }
}
