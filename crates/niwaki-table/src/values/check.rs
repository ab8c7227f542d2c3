//! Check of versions against pieces (`docs/internals/invariants.md`).
//!
//! H3.a: every value that a snapshot may see is whole. H1.a: every piece that a snapshot may need
//! belongs to a version.

use niwaki_env::hash::{HashMap, HashSet};
use niwaki_heap::{Live, VersionRow};
use niwaki_storage::{Corruption, Tid};
use niwaki_txn::Horizon;
use niwaki_types::{ColumnMask, Datum, ValuePointer};

use crate::error::{Error, Result};
use crate::relation::table::Table;
use crate::values::pieces;

impl Table {
    /// Examines the value heap, and compares it with the versions of the heap. The table must not
    /// be written meanwhile.
    ///
    /// # Errors
    /// Storage's errors, except damage, which goes into the report.
    pub(crate) fn check_values(&self, report: &mut Vec<Corruption>) -> Result<u64> {
        let Some(values) = self.value_heap() else { return Ok(0) };
        let blocks = values.blocks()?;
        let before = report.len();
        for block in 0..blocks {
            values.check_page(block, report, |_, _| {}, |_| {})?;
        }
        values.check_visibility_map(report)?;
        if report.len() > before {
            return Ok(u64::from(blocks));
        }
        let horizon = self.engine.transactions().horizon();
        let named = self.check_named(&horizon, report)?;
        for block in 0..blocks {
            let mut found = Vec::new();
            values.visit_versions(Live::AtVisit(&|_| false), block, &horizon, |row, _| {
                found.push(row.root);
            })?;
            for tid in found.into_iter().filter(|tid| !named.contains(tid)) {
                report.push(Corruption {
                    file: format!("values of table \"{}\"", self.definition.name),
                    block: Some(tid.block.0),
                    item: Some(tid.offset.0),
                    invariant: "H1.a",
                    detail: "a piece belongs to no version that somebody may see".to_owned(),
                });
            }
        }
        Ok(u64::from(blocks))
    }

    /// Reads every value of every version that a snapshot may see. Returns the addresses of their
    /// pieces.
    fn check_named(&self, horizon: &Horizon, report: &mut Vec<Corruption>) -> Result<HashSet<Tid>> {
        let mut named = HashSet::default();
        // By first piece: an address belongs to one value.
        let mut known: HashMap<Tid, ValuePointer> = HashMap::default();
        let mut row = vec![Datum::Null; self.definition.columns.len()];
        for block in 0..self.blocks()? {
            let mut versions: Vec<(Tid, VersionRow)> = Vec::new();
            self.heap().visit_versions(Live::AtVisit(&|_| false), block, horizon, |row, _| {
                versions.push((row.root, row.into()));
            })?;
            for (root, version) in versions {
                let pointers = match self.pointers_of(&version) {
                    Ok(pointers) => pointers,
                    Err(error) => {
                        report.push(self.unreadable(root, &error));
                        continue;
                    }
                };
                if pointers.iter().all(|(_, p)| known.get(&pieces::first_piece(p)) == Some(p)) {
                    // No value out of line, or all seen with another version.
                    continue;
                }
                for (_, pointer) in pointers {
                    let Some(values) = self.value_heap() else { continue };
                    known.insert(pieces::first_piece(&pointer), pointer);
                    match pieces::addresses(values, &pointer)? {
                        Ok(addresses) => named.extend(addresses),
                        Err(lost) => report.push(self.lost_piece(&pointer, lost)),
                    }
                }
                let all = ColumnMask::all(row.len());
                debug_assert!(
                    usize::from(version.natts) <= row.len(),
                    "a version that was decoded"
                );
                let VersionRow { natts, has_nulls, bytes } = &version;
                match self.deform_parts(*natts, *has_nulls, bytes, &all, &mut row) {
                    // A missing piece was reported.
                    Ok(_) | Err(Error::Storage(niwaki_storage::Error::Corruption(_))) => {}
                    Err(Error::Type(error)) => {
                        report.push(self.unreadable(root, &Error::Type(error)));
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(named)
    }

    fn unreadable(&self, root: Tid, error: &Error) -> Corruption {
        Corruption {
            file: format!("table \"{}\"", self.definition.name),
            block: Some(root.block.0),
            item: Some(root.offset.0),
            invariant: "H3.a",
            detail: format!("a value of a version of this row cannot be read: {error}"),
        }
    }
}
