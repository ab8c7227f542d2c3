//! `niwaki check`: a visit of every relation that tests every invariant.

use std::sync::Arc;

use niwaki_catalog::{CatalogState, FIRST_DATABASE};
use niwaki_directory::databases::Databases;
use niwaki_directory::open_database::OpenDatabase;
use niwaki_env::hash::{HashMap, HashSet};
use niwaki_session::Session;
use niwaki_storage::{Corruption, FIRST_FILE, RelFileId};
use niwaki_table::Table;

use crate::Result;
use crate::check::enum_values::unlabelled;
use crate::check::expressions::unreadable_expressions;
use crate::check::partitions::misplaced;
use crate::check::views::{unfireable, unreadable, unrunnable};
use crate::database::Database;

/// One broken invariant that [`Database::check`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Relation or file that is broken.
    pub file: String,
    /// Block that is broken, if the violation concerns one.
    pub block: Option<u32>,
    /// Item on the block, if the violation concerns one.
    pub item: Option<u16>,
    /// Name of the invariant (`X1`, `B2`, `checksum`, …).
    pub invariant: String,
    /// Description of the violation.
    pub detail: String,
}

/// Counts and findings of [`Database::check`].
#[derive(Clone, Debug, Default)]
pub struct CheckReport {
    /// Tables visited.
    pub tables: usize,
    /// Indexes visited.
    pub indexes: usize,
    /// Blocks read.
    pub blocks: u64,
    /// Invalid indexes, with their tables. No query reads an invalid index. A statement with
    /// CONCURRENTLY left the index behind, or is still at work.
    pub invalid_indexes: Vec<String>,
    /// Broken invariants; empty when all is well.
    pub violations: Vec<Violation>,
}

impl Database {
    /// Visits every table and index, the catalog's own included, and reports every invariant that
    /// does not hold. No other session should write meanwhile.
    ///
    /// # Errors
    /// Read errors. Damage is a finding and no error.
    pub fn check(&self) -> Result<CheckReport> {
        let mut report = CheckReport::default();
        // Every page of every file comes first, because a damaged page ends the visit of its table.
        let storage = self.directory().engine().storage().check()?;
        report.violations.extend(storage.corruptions.iter().map(of_file));
        let databases = self.directory().databases().all();
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
        check_owners(self.directory().databases(), &mut report);
        Ok(report)
    }

    /// Checks one database. `sound` says that no damage of its pages is known.
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
        // Rows on damaged pages prove nothing.
        if sound && report.violations.is_empty() {
            check_enums(&mut session, &state, &mut report)?;
            check_partitions(&mut session, &state, &mut report)?;
        }
        check_views(&mut session, &state, &mut report)?;
        check_triggers(&mut session, &state, &mut report)?;
        check_expressions(&state, &mut report);
        Ok(report)
    }

    /// Looks for rows whose referenced row does not exist. Reports one such row for each foreign
    /// key that is validated. Reads the tables whole in one snapshot, without locks that block
    /// writers.
    ///
    /// # Errors
    /// Read errors. Such rows are findings and no errors.
    pub fn check_foreign_keys(&self) -> Result<Vec<Violation>> {
        let mut found = Vec::new();
        for database in self.directory().databases().all() {
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

/// Checks that each partition has the columns and indexes of its table, and only rows that belong
/// to the partition.
fn check_partitions(
    session: &mut Session,
    state: &CatalogState,
    report: &mut CheckReport,
) -> Result<()> {
    // Rows on damaged pages prove nothing.
    if !report.violations.is_empty() {
        return Ok(());
    }
    for table in state.tables().filter(|table| table.partition_of.is_some()) {
        let found = misplaced(session, state, table)?;
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

/// Checks that each view can still be read: the objects that its text names exist, and its columns
/// are as stored.
fn check_views(
    session: &mut Session,
    state: &CatalogState,
    report: &mut CheckReport,
) -> Result<()> {
    for view in state.in_order().into_iter().filter(|relation| relation.query.is_some()) {
        if let Some(detail) = unreadable(session, view)? {
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

/// Checks that each trigger can fire, and that each function can run.
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
        if let Some(detail) = unfireable(session, table, trigger)? {
            violation(&table.name, detail);
        }
    }
    for function in state.functions() {
        if let Some(detail) = unrunnable(function, state) {
            violation(&function.name, detail);
        }
    }
    Ok(())
}

/// Checks that each value of an enum is a label of its type.
fn check_enums(
    session: &mut Session,
    state: &CatalogState,
    report: &mut CheckReport,
) -> Result<()> {
    for table in state.with_rows() {
        for (_, column) in table.visible_columns() {
            let found = unlabelled(session, state, table, column)?;
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

/// Checks that each stored expression can be read, and that the objects it names exist.
fn check_expressions(state: &CatalogState, report: &mut CheckReport) {
    for (file, detail) in unreadable_expressions(state) {
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

/// Adds the database's name to a violation. Tables of the first database, which always exists, keep
/// their plain names.
fn in_database(database: &OpenDatabase, violation: Violation) -> Violation {
    if database.oid() == FIRST_DATABASE {
        return violation;
    }
    Violation { file: format!("{}.{}", database.name(), violation.file), ..violation }
}

/// Returns the files that relations name, with the name of each one's database.
fn owned_files(databases: &Databases) -> Vec<(RelFileId, String)> {
    let of = |database: Arc<OpenDatabase>| {
        let (files, name) = (database.catalog().files(), database.name());
        files.into_iter().map(move |file| (file.id, name.clone()))
    };
    databases.all().into_iter().flat_map(of).collect()
}

/// Checks that each file belongs to one relation of one database. Also checks that the relations
/// and the table of files name the same files. Reads everything twice, because files that a
/// statement creates or drops meanwhile differ between the two.
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
        // An unlogged file may belong to a temporary relation of a session.
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
    use niwaki_catalog::RelationDefinition;
    use niwaki_storage::{RelFile, Xid};

    use crate::{Database, Session};

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
        let storage = database.directory().engine().storage();
        let nobodys = RelFile { id: storage.allocate_file(), logged: true };
        storage.create_file(nobodys, Xid::INVALID).unwrap();
        let named = |file: RelFile| ("T6".to_owned(), format!("file {}", file.id.0));
        assert_eq!(found(&database), [named(nobodys)]);
        storage.drop_file(nobodys).unwrap();
        assert_eq!(found(&database), []);
        let files = database.directory().databases().all()[0].catalog().files();
        let of_t = files.into_iter().max_by_key(|file| file.id).unwrap();
        storage.drop_file(of_t).unwrap();
        assert!(found(&database).contains(&named(of_t)));
    }

    /// Breaks T6 on purpose, within a database and between two.
    #[test]
    fn a_file_of_two_relations_is_found() {
        let database = Database::in_memory_without_threads().unwrap();
        let mut first = database.session();
        first.execute("create table t (a int)", ()).unwrap();
        first.execute("create database d template postgres", ()).unwrap();
        let mut other = database.session_as("postgres", "d", &[]).unwrap();
        other.execute("create table u (a int)", ()).unwrap();
        let found = || -> Vec<String> {
            let report = database.check().unwrap();
            report
                .violations
                .into_iter()
                .map(|v| format!("{}: {}", v.invariant, v.detail))
                .collect()
        };
        assert_eq!(found(), Vec::<String>::new());
        let file_of = |session: &mut Session, name: &str| {
            let state = session.inner.state();
            let table = state.relations().find(|relation| relation.name == name).cloned();
            table.unwrap().definition.clone()
        };
        let (here, there) = (file_of(&mut first, "t"), file_of(&mut other, "t"));
        assert_ne!(here.file, there.file, "a copy has files of its own");
        let own = file_of(&mut other, "u");
        for file in [there.file, here.file] {
            let broken = RelationDefinition { file, ..own.clone() };
            other.execute("begin", ()).unwrap();
            let (transaction, catalog) = other.inner.transaction_and_catalog().unwrap();
            catalog.update(transaction, broken).unwrap();
            other.execute("commit", ()).unwrap();
            let found = found();
            assert!(found.iter().any(|v| v.starts_with("T6: belongs to two")), "{found:?}");
        }
    }

    /// A row of a foreign key that was marked as proved and is not.
    #[test]
    fn a_row_that_refers_to_none_is_found() {
        let database = Database::in_memory_without_threads().unwrap();
        let mut session = database.session();
        let mut run = |sql: &str| session.execute(sql, ()).unwrap();
        run("create table parent (a int, b text, primary key (a, b))");
        run("create table child (a int, b text, n int)");
        run("insert into parent values (1, 'one')");
        run("insert into child values (1, 'one', 1), (2, null, 2)");
        run("alter table child add constraint known foreign key (a, b) references parent");
        assert_eq!(database.check_foreign_keys().unwrap(), []);
        run("alter table child drop constraint known");
        run("insert into child values (2, 'two', 3)");
        run(
            "alter table child add constraint known foreign key (a, b) references parent not valid",
        );
        assert_eq!(database.check_foreign_keys().unwrap(), [], "nobody says that it holds");
        // Marks the constraint as proved.
        run("begin");
        let state = session.inner.state();
        let known = state.tables().find(|table| table.name == "child").unwrap();
        let mut definition = known.definition.clone();
        definition.foreign_keys[0].not_valid = false;
        let (transaction, catalog) = session.inner.transaction_and_catalog().unwrap();
        catalog.update(transaction, definition).unwrap();
        session.execute("commit", ()).unwrap();
        let found = database.check_foreign_keys().unwrap();
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((&*found[0].invariant, &*found[0].file), ("known", "child"));
        assert_eq!(found[0].detail, "Key (a, b)=(2, two) is not present in table \"parent\".");
    }
}
