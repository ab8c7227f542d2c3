//! `niwaki check`: everything is visited, every invariant tested.

use std::sync::Arc;

use niwaki_catalog::CatalogState;
use niwaki_storage::Corruption;
use niwaki_table::Table;

use crate::Result;
use crate::database::Database;

/// One broken invariant that [`Database::check`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Relation or file.
    pub file: String,
    /// Block, when one is concerned.
    pub block: Option<u32>,
    /// Item on the block, when one is concerned.
    pub item: Option<u16>,
    /// Name of the invariant (`X1`, `B2`, `checksum`, …).
    pub invariant: String,
    /// What was found.
    pub detail: String,
}

/// What [`Database::check`] visited and found.
#[derive(Clone, Debug, Default)]
pub struct CheckReport {
    /// Tables visited.
    pub tables: usize,
    /// Indexes visited.
    pub indexes: usize,
    /// Blocks read.
    pub blocks: u64,
    /// Broken invariants; empty when all is well.
    pub violations: Vec<Violation>,
}

impl Database {
    /// Visits every table and index, the catalog's own included, and reports every invariant that
    /// does not hold. Nobody else should write meanwhile.
    ///
    /// # Errors
    /// Read errors; damage is no error but a finding.
    pub fn check(&self) -> Result<CheckReport> {
        let mut report = CheckReport::default();
        let state = self.catalog().state_arc();
        let mut tables: Vec<(String, Arc<Table>)> = state
            .with_rows()
            .filter_map(|r| Some((r.name.clone(), Arc::clone(r.table.as_ref()?))))
            .collect();
        tables.push(("niwaki_objects".to_owned(), Arc::clone(self.catalog().own_table())));
        tables.sort_by(|a, b| a.0.cmp(&b.0));
        // Every page of every file first: a damaged one ends the visit of its table.
        let storage = self.engine().storage().check()?;
        report.violations.extend(storage.corruptions.iter().map(of_file));
        for (name, table) in tables {
            report.tables += 1;
            report.indexes += table.definition().indexes.len();
            check_table(&name, &table, &mut report)?;
        }
        // Rows of damaged pages say nothing reliable.
        if report.violations.is_empty() {
            self.check_enums(&state, &mut report)?;
        }
        self.check_partitions(&state, &mut report)?;
        self.check_views(&state, &mut report)?;
        self.check_triggers(&state, &mut report)?;
        check_expressions(&state, &mut report);
        Ok(report)
    }

    /// Whether each partition has the columns and indexes of its table, and rows that belong to it.
    fn check_partitions(&self, state: &CatalogState, report: &mut CheckReport) -> Result<()> {
        // Rows of damaged pages say nothing reliable.
        if !report.violations.is_empty() {
            return Ok(());
        }
        let mut session = self.session();
        for table in state.tables().filter(|table| table.partition_of.is_some()) {
            let found = session.misplaced(state, table)?;
            report.violations.extend(found.map(|detail| Violation {
                file: table.name.clone(),
                block: None,
                item: None,
                invariant: "T5".to_owned(),
                detail,
            }));
        }
        Ok(())
    }

    /// Whether each view can still be read: what the names in its text mean is there, and it has its columns.
    fn check_views(&self, state: &CatalogState, report: &mut CheckReport) -> Result<()> {
        let mut session = self.session();
        for view in state.in_order().into_iter().filter(|relation| relation.query.is_some()) {
            if let Some(detail) = session.unreadable(view)? {
                report.violations.push(Violation {
                    file: view.name.clone(),
                    block: None,
                    item: None,
                    invariant: "T2".to_owned(),
                    detail,
                });
            }
        }
        Ok(())
    }

    /// Whether each trigger can be fired, and each function be run.
    fn check_triggers(&self, state: &CatalogState, report: &mut CheckReport) -> Result<()> {
        let mut violation = |file: &str, detail: String| {
            report.violations.push(Violation {
                file: file.to_owned(),
                block: None,
                item: None,
                invariant: "T3".to_owned(),
                detail,
            });
        };
        let mut session = self.session();
        for (table, trigger) in state.triggers() {
            if let Some(detail) = session.unfireable(table, trigger)? {
                violation(&table.name, detail);
            }
        }
        for function in state.functions() {
            if let Some(detail) = crate::session::unrunnable(function, state) {
                violation(&function.name, detail);
            }
        }
        Ok(())
    }

    /// Whether each value of an enum is a label of its type.
    fn check_enums(&self, state: &CatalogState, report: &mut CheckReport) -> Result<()> {
        let mut session = self.session();
        for table in state.with_rows() {
            for (_, column) in table.visible_columns() {
                let found = session.unlabelled(state, table, column)?;
                report.violations.extend(found.map(|detail| Violation {
                    file: table.name.clone(),
                    block: None,
                    item: None,
                    invariant: "T1".to_owned(),
                    detail,
                }));
            }
        }
        Ok(())
    }
}

impl Database {
    /// Looks for rows that refer to a row that is not there: of all foreign keys that have been proved, one such row each. Reads
    /// the tables whole, without locks that keep anybody from writing: what is seen is one snapshot.
    ///
    /// # Errors
    /// Read errors; such rows are no errors but findings.
    pub fn check_foreign_keys(&self) -> Result<Vec<Violation>> {
        let mut session = self.session();
        let state = self.catalog().state_arc();
        let mut found = Vec::new();
        for (table, key) in state.foreign_keys() {
            if key.not_valid {
                continue;
            }
            if let Some(detail) = session.orphan(&state, key.oid)? {
                found.push(Violation {
                    file: table.name.clone(),
                    block: None,
                    item: None,
                    invariant: key.name.clone(),
                    detail,
                });
            }
        }
        Ok(found)
    }
}

/// Whether each stored expression can be read, and what it names is there.
fn check_expressions(state: &CatalogState, report: &mut CheckReport) {
    for (file, detail) in crate::session::unreadable_expressions(state) {
        let (block, item, invariant) = (None, None, "T4".to_owned());
        report.violations.push(Violation { file, block, item, invariant, detail });
    }
}

fn check_table(name: &str, table: &Table, report: &mut CheckReport) -> Result<()> {
    match table.check() {
        Ok(found) => {
            report.blocks += found.blocks;
            report.violations.extend(found.corruptions.iter().map(|c| violation(name, c)));
            Ok(())
        }
        Err(niwaki_table::Error::Storage(niwaki_storage::Error::Corruption(corruption))) => {
            report.violations.push(violation(name, &corruption));
            Ok(())
        }
        Err(other) => Err(other.into()),
    }
}

fn violation(table: &str, corruption: &Corruption) -> Violation {
    let file = format!("{} (table {table})", corruption.file);
    Violation { file, ..of_file(corruption) }
}

fn of_file(corruption: &Corruption) -> Violation {
    Violation {
        file: corruption.file.clone(),
        block: corruption.block,
        item: corruption.item,
        invariant: corruption.invariant.to_owned(),
        detail: corruption.detail.clone(),
    }
}
