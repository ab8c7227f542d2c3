//! The state of a transaction in its session, with its savepoints.

use crate::plan::Isolation;
use crate::scheduler::Actor;
use crate::state::heap::Reader;
use crate::state::index::{Key, Phase};
use crate::state::oracle::Writes;
use crate::state::transactions::{Csn, Deadlock, Status, Xid};

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

    pub(crate) fn savepoint(&mut self, actor: &Actor) {
        let mut world = actor.world();
        let xid = world.transactions.begin(Some(self.top));
        world.say(|| format!("savepoint: x{xid}"));
        let outer = std::mem::replace(&mut self.current, xid);
        let savepoint = Savepoint { writes: self.writes.clone(), xids: self.xids.len(), outer };
        self.savepoints.push(savepoint);
        self.xids.push(xid);
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
