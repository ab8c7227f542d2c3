//! The oracle: the rows that must be seen, as versions in the order of commits.

use std::collections::BTreeMap;

use crate::checking::invariants::Invariant;
use crate::state::heap::{Reader, Row, Values, Version};
use crate::state::index::Definition;
use crate::state::transactions::{Csn, Xid};
use crate::state::world::World;

/// The effect of a transaction on a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Write {
    /// The row as the transaction sees it now; `None` when deleted.
    pub(crate) now: Option<Values>,
    /// The serial number of the committed version that was replaced; 0 for an insertion.
    pub(crate) base: u16,
}

/// All effects of a transaction, by row.
pub(crate) type Writes = BTreeMap<Row, Write>;

/// All versions of all rows, in the order of commits.
#[derive(Clone, Debug, Default)]
pub(crate) struct Oracle {
    rows: Vec<Vec<(Csn, Option<Values>)>>,
    /// Row locks that a (sub)transaction was granted: FOR UPDATE if true, else FOR KEY SHARE.
    pub(crate) locked: Vec<(Row, Xid, bool)>,
}

impl Oracle {
    /// Returns a number for a new row.
    pub(crate) fn new_row(&mut self) -> Row {
        self.rows.push(Vec::new());
        Row::try_from(self.rows.len() - 1).expect("few rows")
    }

    /// Returns the row as of the newest commit that was marked.
    pub(crate) fn newest(&self, row: Row) -> Option<Values> {
        self.at(row, Csn::MAX)
    }

    /// Returns the row as `snapshot` sees it.
    pub(crate) fn at(&self, row: Row, snapshot: Csn) -> Option<Values> {
        let seen = self.rows[usize::from(row)].iter().filter(|(csn, _)| *csn <= snapshot);
        seen.max_by_key(|(csn, _)| *csn).and_then(|(_, values)| *values)
    }

    pub(crate) fn rows(&self) -> impl Iterator<Item = Row> + use<> {
        0..Row::try_from(self.rows.len()).expect("few rows")
    }

    /// Returns all rows that `snapshot` sees, with the `writes` of its own transaction applied.
    pub(crate) fn expected(
        &self,
        snapshot: Csn,
        writes: &Writes,
    ) -> impl Iterator<Item = (Row, Values)> {
        self.rows().filter_map(move |row| {
            let values = match writes.get(&row) {
                Some(write) => write.now,
                None => self.at(row, snapshot),
            };
            values.map(|values| (row, values))
        })
    }

    /// Records a commit. Returns an error if it lost an update or changed a deleted row.
    fn commit(&mut self, csn: Csn, writes: &Writes) -> Result<(), String> {
        let mut wrong = Ok(());
        for (row, write) in writes {
            let newest = self.newest(*row);
            let exists = !self.rows[usize::from(*row)].is_empty();
            match newest {
                Some(values) if values.serial != write.base => {
                    wrong = Err(format!("row {row}: #{} over {values}", write.base));
                }
                None if exists => wrong = Err(format!("row {row} had been deleted")),
                _ => {}
            }
            self.rows[usize::from(*row)].push((csn, write.now));
        }
        wrong
    }

    /// Forgets the commits after `last`, which a crash lost.
    pub(crate) fn forget_after(&mut self, last: Csn) {
        for row in &mut self.rows {
            row.retain(|(csn, _)| *csn <= last);
        }
        self.locked.clear();
    }

    /// Returns whether the commit is recorded already.
    pub(crate) fn has_commit(&self, csn: Csn) -> bool {
        self.rows.iter().flatten().any(|(other, _)| *other == csn)
    }
}

/// The rows that a statement selects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Wanted {
    pub(crate) index: usize,
    /// The key; any key if `None`.
    pub(crate) key: Option<u8>,
}

impl Wanted {
    pub(crate) fn matches(self, definition: &Definition, values: &Values) -> bool {
        let key = definition.key(values);
        key.is_some() && (self.key.is_none() || key == self.key)
    }
}

impl World {
    /// Records the transaction's commit in the oracle, and checks for lost updates and duplicate
    /// keys.
    pub(crate) fn oracle_commit(&mut self, csn: Csn, writes: &Writes) {
        if let Err(what) = self.oracle.commit(csn, writes) {
            self.violate(Invariant::LostUpdate, || what);
        }
        for index in 0..self.indexes.len() {
            let definition = self.indexes[index].definition;
            if definition.unique == crate::state::index::Unique::No {
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
    pub(crate) fn concludes_unlocked(&mut self, version: &Version, own: Xid, strong: bool) {
        let holder = self.oracle.locked.iter().find(|(row, xid, exclusive)| {
            *row == version.row
                && (strong || *exclusive)
                && self.transactions.top(*xid) != own
                && !self.transactions.aborted(*xid)
                && !self.transactions.marked(*xid).is_committed()
        });
        if let Some((row, xid, _)) = holder.copied() {
            self.violate(Invariant::LostLock, || {
                format!("x{own} is let to row {row}, which x{xid} holds")
            });
        }
    }
}
