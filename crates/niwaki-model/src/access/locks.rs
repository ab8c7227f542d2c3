//! Row locks. FOR UPDATE is recorded in the version. FOR KEY SHARE, which keeps others from
//! deleting a row or changing its key, is kept in memory.
//!
//! A lock in memory is keyed by the row's root and the incarnation of that line pointer
//! (rule `root-identity`). An update that gives the row a new root carries the locks to it. A lock
//! in the version moves to memory before a savepoint's level overwrites it.

use crate::access::transaction::Transaction;
use crate::rules::Rule;
use crate::state::heap::{Row, Tid, Version};
use crate::state::row_locks::Held;
use crate::state::transactions::{Status, Xid};
use crate::state::world::World;

impl World {
    fn lock_key(&self, root: Tid) -> (Tid, u32) {
        let counts = self.rules.has(Rule::LockedRootStays);
        (root, if counts { self.pointer(root).incarnation } else { 0 })
    }

    fn hold(&mut self, root: Tid, held: Held) {
        let key = self.lock_key(root);
        self.locks.held.entry(key).or_default().push(held);
    }

    /// Locks the row whose newest version is `version`, at `tid`. The caller holds the page, and
    /// has checked that no other lock conflicts.
    pub(crate) fn lock_row(
        &mut self,
        tid: Tid,
        tx: &Transaction,
        version: &Version,
        exclusive: bool,
    ) {
        self.events.locked += 1;
        let row = version.row;
        self.say(|| format!("locks row {row} at {tid}, exclusive: {exclusive}"));
        let own = |xid: Xid| self.transactions.is_running_part(xid, tx.top);
        if !exclusive {
            let root = self.root_of(tid);
            self.hold(root, Held { xid: tx.current, row, exclusive });
        } else if !version.locker.is_some_and(own) {
            self.version_mut(tid).locker = Some(tx.current);
        } else {
            // The lock of an outer level, which lives longer, is there.
            return;
        }
        self.oracle.locked.push((row, tx.current, exclusive));
    }

    /// Moves an outer level's lock to memory before an end is written over it: a rollback to the
    /// savepoint would lose the lock.
    pub(crate) fn keep_outer_lock(&mut self, tid: Tid, tx: &Transaction) {
        let Some(version) = self.version(tid).copied() else { return };
        let outer =
            |xid: &Xid| *xid != tx.current && self.transactions.is_running_part(*xid, tx.top);
        let Some(xid) = version.locker.filter(outer) else { return };
        if self.rules.has(Rule::OuterLockMoves) {
            let root = self.root_of(tid);
            self.events.outer_locks += 1;
            self.hold(root, Held { xid, row: version.row, exclusive: true });
        }
    }

    /// Returns another transaction than `own` that holds a lock in memory on the row at `root`: any
    /// lock if `strong`, else FOR UPDATE.
    pub(crate) fn lock_holder(&self, root: Tid, own: Xid, strong: bool) -> Option<Xid> {
        let held = self.locks.held.get(&self.lock_key(root))?;
        let other = held.iter().find(|held| {
            (strong || held.exclusive)
                && self.transactions.top(held.xid) != own
                && self.holder_status(held.xid) == Status::Running
        });
        other.map(|held| held.xid)
    }

    /// Carries the locks of the row at `from` to its new root `to`. The caller holds both pages.
    pub(crate) fn carry_locks(&mut self, from: Tid, to: Tid) {
        if !self.rules.has(Rule::LocksCarried) {
            return;
        }
        if let Some(held) = self.locks.held.get(&self.lock_key(from)).cloned() {
            self.events.carried += 1;
            let key = self.lock_key(to);
            self.locks.held.entry(key).or_default().extend(held);
        }
    }

    /// Returns whether the line pointer must stay because of locks that name it.
    pub(crate) fn locks_keep(&self, root: Tid) -> bool {
        self.rules.has(Rule::LockedRootStays) && self.lock_holder(root, Xid::MAX, true).is_some()
    }

    /// Returns a lock that would count for another row: (root, the row meant, the row there).
    pub(crate) fn lock_of_another_row(&self) -> Option<(Tid, Row, Row)> {
        self.locks.held.iter().find_map(|(key, held)| {
            let root = key.0;
            if *key != self.lock_key(root) || !self.is_root(root) {
                return None;
            }
            let there = self.versions(root).next()?.1.row;
            let running = |xid: Xid| self.holder_status(xid) == Status::Running;
            let meant = held.iter().find(|held| held.row != there && running(held.xid));
            meant.map(|held| (root, held.row, there))
        })
    }
}
