//! Row locks in memory: FOR KEY SHARE, which forbids others to delete a row or to change its key.
//!
//! A lock is keyed by the root of the row and the incarnation of that line pointer (rule 9b.15). An
//! update that gives the row a new root takes its locks along.

use std::collections::BTreeMap;

use crate::heap::{Row, Tid};
use crate::rules::Rule;
use crate::transactions::{Status, Xid};
use crate::world::World;

/// Locks by root and incarnation: the (sub)transactions that hold them, and the row they meant.
#[derive(Clone, Debug, Default)]
pub(crate) struct RowLocks {
    held: BTreeMap<(Tid, u32), Vec<(Xid, Row)>>,
}

impl World {
    fn lock_key(&self, root: Tid) -> (Tid, u32) {
        let counts = self.rules.has(Rule::LockedRootStays);
        (root, if counts { self.pointer(root).incarnation } else { 0 })
    }

    /// Caller holds the row's page.
    pub(crate) fn lock_row(&mut self, root: Tid, xid: Xid, row: Row) {
        self.events.locked += 1;
        self.say(|| format!("KEY SHARE on row {row} at {root}"));
        let key = self.lock_key(root);
        self.locks.held.entry(key).or_default().push((xid, row));
        self.oracle.key_shares.push((row, xid));
    }

    /// Somebody other than the top transaction `own` who holds the row at `root`.
    pub(crate) fn lock_holder(&self, root: Tid, own: Xid) -> Option<Xid> {
        let held = self.locks.held.get(&self.lock_key(root))?;
        let other = held.iter().find(|(xid, _)| {
            self.transactions.top(*xid) != own && self.settled(*xid) == Status::Running
        });
        other.map(|(xid, _)| *xid)
    }

    /// The row at `from` gets the new root `to`; caller holds both pages.
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

    /// Whether the line pointer must stay because of locks that name it.
    pub(crate) fn locks_keep(&self, root: Tid) -> bool {
        self.rules.has(Rule::LockedRootStays) && self.lock_holder(root, Xid::MAX).is_some()
    }

    /// A lock that would be taken for one of another row: (where, the row meant, the row there).
    pub(crate) fn lock_of_another_row(&self) -> Option<(Tid, Row, Row)> {
        self.locks.held.iter().find_map(|(key, held)| {
            let root = key.0;
            if *key != self.lock_key(root) || !self.is_root(root) {
                return None;
            }
            let there = self.versions(root).next()?.1.row;
            let running = |xid: Xid| self.settled(xid) == Status::Running;
            let meant = held.iter().find(|(xid, row)| *row != there && running(*xid));
            meant.map(|(_, row)| (root, *row, there))
        })
    }
}
