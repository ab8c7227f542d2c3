//! Checks of commits, of the rows that scans return, and of the conclusions of followers.

use crate::access::transaction::Transaction;
use crate::state::heap::{Reader, Row, Values, Version};
use crate::state::index::Unique;
use crate::state::oracle::{Wanted, Writes};
use crate::state::transactions::{Csn, Status, Xid};
use crate::state::violation::Invariant;
use crate::state::world::World;

impl World {
    /// Records the transaction's commit in the oracle, and checks for lost updates and duplicate
    /// keys.
    pub(crate) fn oracle_commit(&mut self, csn: Csn, writes: &Writes) {
        if let Err(what) = self.oracle.commit(csn, writes) {
            self.violate(Invariant::LostUpdate, || what);
        }
        for index in 0..self.indexes.len() {
            let definition = self.indexes[index].definition;
            if definition.unique == Unique::No {
                continue;
            }
            let newest = self.oracle.rows().filter_map(|row| self.oracle.newest(row));
            let mut keys: Vec<_> = newest.filter_map(|values| definition.key(&values)).collect();
            let rows = keys.len();
            keys.sort_unstable();
            keys.dedup();
            if keys.len() != rows {
                self.violate(Invariant::Unique, || {
                    format!("two committed rows have the same key in {}", definition.name)
                });
            }
        }
    }

    /// Compares the rows of a scan with the rows that must be seen.
    pub(crate) fn check_rows(
        &mut self,
        what: &str,
        reader: &Reader,
        writes: &Writes,
        wanted: Option<Wanted>,
        found: &[(Row, Values)],
    ) {
        self.events.scans += 1;
        let matches = |values: &Values| {
            wanted.is_none_or(|w| w.matches(&self.indexes[w.index].definition, values))
        };
        let mut expected: Vec<_> = self
            .oracle
            .expected(reader.snapshot, writes)
            .filter(|(_, values)| matches(values))
            .collect();
        let mut found = found.to_vec();
        expected.sort_unstable();
        found.sort_unstable();
        if found != expected {
            let snapshot = reader.snapshot;
            let show = |rows: &[(Row, Values)]| {
                let rows = rows.iter().map(|(row, values)| format!(" row {row} {values}"));
                rows.collect::<String>()
            };
            self.violate(Invariant::Answer, || {
                format!(
                    "{what} {wanted:?} at {snapshot} gives{}; must give{}",
                    show(&found),
                    show(&expected)
                )
            });
        }
    }

    /// Compares the result of an index-only scan, which has only keys and payloads.
    pub(crate) fn check_entries(
        &mut self,
        reader: &Reader,
        writes: &Writes,
        wanted: Wanted,
        mut found: Vec<(u8, u16)>,
    ) {
        self.events.scans += 1;
        let definition = self.indexes[wanted.index].definition;
        let mut expected: Vec<_> = self
            .oracle
            .expected(reader.snapshot, writes)
            .filter(|(_, values)| wanted.matches(&definition, values))
            .filter_map(|(_, values)| Some((definition.key(&values)?, definition.payload(&values))))
            .collect();
        expected.sort_unstable();
        found.sort_unstable();
        if found != expected {
            self.violate(Invariant::Answer, || {
                format!(
                    "index-only scan {wanted:?} at {} gives {found:?}; must give {expected:?}",
                    reader.snapshot
                )
            });
        }
    }

    /// Checks a follower's conclusion that the row was deleted.
    pub(crate) fn concludes_deleted(&mut self, row: Row, why: &str) {
        if let Some(values) = self.oracle.newest(row) {
            self.violate(Invariant::MissedUpdate, || {
                format!("row {row} taken for deleted ({why}), but it is {values}")
            });
        }
    }

    /// Checks that a transaction may write to a row, or lock it. With `strong`, no other
    /// transaction may hold any lock on the row; otherwise none may hold it FOR UPDATE.
    /// A transaction that gets a lock has met the commits of the holders before.
    pub(crate) fn concludes_unlocked(&mut self, version: &Version, tx: &Transaction, strong: bool) {
        let own = tx.top;
        let conflicts = |(row, xid, exclusive): &&(Row, Xid, bool)| {
            *row == version.row && (strong || *exclusive) && self.transactions.top(*xid) != own
        };
        let mut holder = None;
        for held in self.oracle.locked.iter().filter(conflicts) {
            match self.transactions.marked(held.1) {
                Status::Aborted => {}
                Status::Committed(csn) => self.meets(tx, csn),
                Status::Running => holder = holder.or(Some(*held)),
            }
        }
        if let Some((row, xid, _)) = holder {
            self.violate(Invariant::LostLock, || {
                format!("x{own} is let to row {row}, which x{xid} holds")
            });
        }
    }
}
