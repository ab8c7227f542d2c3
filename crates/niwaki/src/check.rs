//! `niwaki check`: everything is visited, every invariant tested.

use std::sync::Arc;

use niwaki_catalog::{CatalogState, FIRST_DATABASE};
use niwaki_env::hash::{HashMap, HashSet};
use niwaki_storage::{Corruption, FIRST_FILE, RelFileId};
use niwaki_table::Table;

use crate::Result;
use crate::database::Database;
use crate::databases::Databases;
use crate::open_database::OpenDatabase;
use crate::session::Session;

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
    /// Indexes that are not valid, with their tables: nobody reads them. A statement with
    /// CONCURRENTLY left them behind, or is at work.
    pub invalid_indexes: Vec<String>,
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
        // Every page of every file first: a damaged one ends the visit of its table.
        let storage = self.engine().storage().check()?;
        report.violations.extend(storage.corruptions.iter().map(of_file));
        let databases = self.databases().all();
        for database in &databases {
            let found = self.check_database(database, storage.corruptions.is_empty())?;
            report.tables += found.tables;
            report.indexes += found.indexes;
            report.blocks += found.blocks;
            report.invalid_indexes.extend(found.invalid_indexes);
            report
                .violations
                .extend(found.violations.into_iter().map(|v| in_database(database, v)));
        }
        check_owners(self.databases(), &mut report);
        Ok(report)
    }

    /// `sound`: nothing is known to be wrong with its pages.
    fn check_database(&self, database: &Arc<OpenDatabase>, sound: bool) -> Result<CheckReport> {
        let mut report = CheckReport::default();
        let state = database.catalog().state_arc();
        let mut tables: Vec<(String, Arc<Table>)> = state
            .with_rows()
            .filter_map(|r| Some((r.name.clone(), Arc::clone(r.table.as_ref()?))))
            .collect();
        tables.push(("niwaki_objects".to_owned(), Arc::clone(database.catalog().own_table())));
        tables.sort_by(|a, b| a.0.cmp(&b.0));
        for (name, table) in tables {
            report.tables += 1;
            report.indexes += table.definition().indexes.len();
            let invalid = table.definition().indexes.iter().filter(|index| !index.valid);
            report.invalid_indexes.extend(
                invalid.map(|index| format!("index \"{}\" of table \"{name}\"", index.name)),
            );
            check_table(&name, &table, &mut report)?;
        }
        let mut session = self.session_in(database)?;
        // Rows of damaged pages say nothing reliable.
        if sound && report.violations.is_empty() {
            check_enums(&mut session, &state, &mut report)?;
            check_partitions(&mut session, &state, &mut report)?;
        }
        check_views(&mut session, &state, &mut report)?;
        check_triggers(&mut session, &state, &mut report)?;
        check_expressions(&state, &mut report);
        Ok(report)
    }

    /// Looks for rows that refer to a row that is not there: of all foreign keys that have been proved, one such row each. Reads
    /// the tables whole, without locks that keep anybody from writing: what is seen is one snapshot.
    ///
    /// # Errors
    /// Read errors; such rows are no errors but findings.
    pub fn check_foreign_keys(&self) -> Result<Vec<Violation>> {
        let mut found = Vec::new();
        for database in self.databases().all() {
            let mut session = self.session_in(&database)?;
            let state = database.catalog().state_arc();
            for (table, key) in state.foreign_keys() {
                if key.not_valid {
                    continue;
                }
                if let Some(detail) = session.orphan(&state, key.oid)? {
                    let (file, invariant) = (table.name.clone(), key.name.clone());
                    let (block, item) = (None, None);
                    let violation = Violation { file, block, item, invariant, detail };
                    found.push(in_database(&database, violation));
                }
            }
        }
        Ok(found)
    }
}

/// Whether each partition has the columns and indexes of its table, and rows that belong to it.
fn check_partitions(
    session: &mut Session,
    state: &CatalogState,
    report: &mut CheckReport,
) -> Result<()> {
    // Rows of damaged pages say nothing reliable.
    if !report.violations.is_empty() {
        return Ok(());
    }
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
fn check_views(
    session: &mut Session,
    state: &CatalogState,
    report: &mut CheckReport,
) -> Result<()> {
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
fn check_triggers(
    session: &mut Session,
    state: &CatalogState,
    report: &mut CheckReport,
) -> Result<()> {
    let mut violation = |file: &str, detail: String| {
        report.violations.push(Violation {
            file: file.to_owned(),
            block: None,
            item: None,
            invariant: "T3".to_owned(),
            detail,
        });
    };
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
fn check_enums(
    session: &mut Session,
    state: &CatalogState,
    report: &mut CheckReport,
) -> Result<()> {
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
        Err(niwaki_table::Error::Storage(error)) => {
            report.violations.push(violation(name, &error.into_damage()?));
            Ok(())
        }
        Err(other) => Err(other.into()),
    }
}

/// Tables of the database that is always there are named alone.
fn in_database(database: &OpenDatabase, violation: Violation) -> Violation {
    if database.oid() == FIRST_DATABASE {
        return violation;
    }
    Violation { file: format!("{}.{}", database.name(), violation.file), ..violation }
}

/// Files that relations name, with their database.
fn owned_files(databases: &Databases) -> Vec<(RelFileId, String)> {
    let of = |database: Arc<OpenDatabase>| {
        let (files, name) = (database.catalog().files(), database.name());
        files.into_iter().map(move |file| (file.id, name.clone()))
    };
    databases.all().into_iter().flat_map(of).collect()
}

/// Whether each file belongs to one relation, of one database, and whether relations and the table
/// of files name the same files. All is read twice: what a statement creates or drops meanwhile
/// differs.
fn check_owners(databases: &Databases, report: &mut CheckReport) {
    let mut violation = |file: RelFileId, detail: String| {
        report.violations.push(Violation {
            file: format!("file {}", file.0),
            block: None,
            item: None,
            invariant: "T6".to_owned(),
            detail,
        });
    };
    let read = || {
        let known: HashMap<RelFileId, bool> = databases.settled_files().collect();
        (known, owned_files(databases))
    };
    let ((known, owned), (known_again, owned_again)) = (read(), read());
    let mut owners: HashMap<RelFileId, &str> = HashMap::default();
    for (file, name) in &owned {
        if let Some(before) = owners.insert(*file, name) {
            let detail = format!("belongs to two relations, of database {before} and of {name}");
            violation(*file, detail);
        }
    }
    let owners_again: HashSet<RelFileId> = owned_again.into_iter().map(|(file, _)| file).collect();
    for (file, name) in &owned {
        let created = known.contains_key(file) || known_again.contains_key(file);
        if !created && owners_again.contains(file) {
            violation(*file, format!("of a relation of database {name} was never created"));
        }
    }
    let is_owned = |file: &RelFileId| owners.contains_key(file) || owners_again.contains(file);
    let mut nobodys: Vec<RelFileId> = known
        .into_iter()
        .filter(|(file, committed)| *committed && *file >= FIRST_FILE && !is_owned(file))
        // What is not logged may be a temporary relation of a session.
        .filter_map(|(file, _)| known_again.get(&file).is_some_and(|&still| still).then_some(file))
        .collect();
    nobodys.sort_unstable();
    for file in nobodys {
        violation(file, "was created, and belongs to no relation".to_owned());
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

#[cfg(test)]
mod tests {
    use niwaki_storage::{RelFile, Xid};

    use crate::Database;

    fn found(database: &Database) -> Vec<(String, String)> {
        let violations = database.check().unwrap().violations;
        violations.into_iter().map(|found| (found.invariant, found.file)).collect()
    }

    /// T6, both ways: a file that no relation has, and a relation whose file was never created.
    #[test]
    fn relations_and_the_table_of_files_name_the_same_files() {
        let database = Database::in_memory_without_threads().unwrap();
        database.session().execute("create table t (i int)", ()).unwrap();
        assert_eq!(found(&database), []);
        let storage = database.engine().storage();
        let nobodys = RelFile { id: storage.allocate_file(), logged: true };
        storage.create_file(nobodys, Xid::INVALID).unwrap();
        let named = |file: RelFile| ("T6".to_owned(), format!("file {}", file.id.0));
        assert_eq!(found(&database), [named(nobodys)]);
        storage.drop_file(nobodys).unwrap();
        assert_eq!(found(&database), []);
        let files = database.databases().all()[0].catalog().files();
        let of_t = files.into_iter().max_by_key(|file| file.id).unwrap();
        storage.drop_file(of_t).unwrap();
        assert!(found(&database).contains(&named(of_t)));
    }
}
