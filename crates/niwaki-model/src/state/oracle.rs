//! The oracle: the rows that must be seen, as versions in the order of commits.

use std::collections::BTreeMap;

use crate::state::heap::{Row, Values};
use crate::state::index::Definition;
use crate::state::transactions::{Csn, Xid};

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
    pub(crate) fn commit(&mut self, csn: Csn, writes: &Writes) -> Result<(), String> {
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

    /// Forgets a commit that was taken back.
    pub(crate) fn forget(&mut self, commit: Csn) {
        for row in &mut self.rows {
            row.retain(|(csn, _)| *csn != commit);
        }
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
