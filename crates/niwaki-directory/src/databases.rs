//! The open databases of a directory.
//!
//! All databases are opened with the directory, because the database's own work (the gardener,
//! autovacuum, `check`) covers all of them. The catalog of the first database, which always exists,
//! has the list of databases.

use std::collections::BTreeMap;
use std::sync::Arc;

use niwaki_catalog::{
    Catalog, CatalogFiles, CatalogState, DatabaseDefinition, FIRST_DATABASE, Oid, Relation,
    RelationDefinition, SharedCatalog, of_table_number,
};
use niwaki_env::hash::HashSet;
use niwaki_env::seeded_bug;
use niwaki_env::sync::Mutex;
use niwaki_sql::{Result, SqlError};
use niwaki_storage::{RelFile, RelFileId, Xid};
use niwaki_system::catalogs;
use niwaki_table::{Engine, Sequence};
use niwaki_txn::{BeginOptions, Durability, TableId, Transaction, XidStatus};

use crate::log::Log;
use crate::open_database::{JUST_DROPPED, OpenDatabase, no_database};

/// The databases that are open.
pub struct Databases {
    engine: Arc<Engine>,
    shared: Arc<SharedCatalog>,
    first: Arc<OpenDatabase>,
    /// Files that were created since the directory was opened have this number or a higher one.
    first_new: RelFileId,
    /// All databases but the first.
    others: Mutex<BTreeMap<Oid, Arc<OpenDatabase>>>,
}

impl std::fmt::Debug for Databases {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Databases").field("shared", &self.shared).finish_non_exhaustive()
    }
}

impl Databases {
    /// Opens all databases; fills the catalog of the first one when the directory is new.
    ///
    /// # Errors
    /// Storage errors; a catalog that is damaged.
    pub fn open(engine: &Arc<Engine>) -> Result<Self> {
        let first_new = engine.storage().next_file_number();
        fill_first(engine)?;
        let shared = SharedCatalog::new(engine);
        let first = open_one(engine, &shared, &DatabaseDefinition::first())?;
        let mut others = BTreeMap::new();
        for definition in shared.databases().iter().filter(|database| !database.is_first()) {
            others.insert(definition.oid, open_one(engine, &shared, definition)?);
        }
        let (engine, others) = (Arc::clone(engine), Mutex::new(others));
        Ok(Self { engine, shared, first, first_new, others })
    }

    /// Returns all open databases in the order of their numbers. The first database, which always
    /// exists, comes first.
    pub fn all(&self) -> Vec<Arc<OpenDatabase>> {
        let others = self.others.lock();
        std::iter::once(&self.first).chain(others.values()).cloned().collect()
    }

    /// Returns the definition of the database of this name.
    ///
    /// # Errors
    /// 3D000 when there is no such database.
    pub fn definition(&self, name: &str) -> Result<Arc<DatabaseDefinition>> {
        let databases = self.shared.databases();
        databases.by_name(name).cloned().ok_or_else(|| no_database(name))
    }

    /// Returns an open database. Opens it first when it was created after the directory was opened
    /// and is not open yet.
    ///
    /// # Errors
    /// Storage errors; a catalog that is damaged; too many sessions (53300).
    pub fn get(&self, definition: &DatabaseDefinition) -> Result<Arc<OpenDatabase>> {
        if definition.is_first() {
            return Ok(Arc::clone(&self.first));
        }
        let mut others = self.others.lock();
        if let Some(found) = others.get(&definition.oid) {
            return Ok(Arc::clone(found));
        }
        // DROP DATABASE removes the database from the shared list before it calls
        // [`Databases::forget`].
        if self.shared.databases().get(definition.oid).is_none() {
            return Err(no_database(&definition.name).with_detail(JUST_DROPPED));
        }
        let opened = open_one(&self.engine, &self.shared, definition)?;
        others.insert(definition.oid, Arc::clone(&opened));
        Ok(opened)
    }

    /// Removes a database that was dropped.
    pub fn forget(&self, oid: Oid) {
        self.others.lock().remove(&oid);
        self.engine.forget_tables(|table| of_table_number(table).0 == oid);
    }

    /// Returns the database and the relation of a table number, which locks use
    /// ([`table_number`](niwaki_catalog::table_number)).
    pub fn table(&self, number: TableId) -> Option<(Arc<OpenDatabase>, Arc<Relation>)> {
        let (database, table) = of_table_number(number);
        let open = match database {
            FIRST_DATABASE => Arc::clone(&self.first),
            other => self.others.lock().get(&other).cloned()?,
        };
        let relation = open.catalog().state().relation(table).cloned()?;
        Some((open, relation))
    }

    /// Creates the files and the catalog of a new database: empty, or a copy of the template's. The
    /// caller still has to enter the database in the list. No session may change the template
    /// meanwhile.
    ///
    /// # Errors
    /// Storage errors; the session's interrupts.
    pub fn create(
        &self,
        transaction: &Transaction,
        name: &str,
        template: Option<&OpenDatabase>,
    ) -> Result<DatabaseDefinition> {
        let file = || Ok::<_, SqlError>(self.engine.create_file(transaction, true)?.id.0);
        let files = CatalogFiles { objects: file()?, by_oid: file()?, by_name: file()? };
        let definition = DatabaseDefinition::new(self.shared.new_oid(), name.to_owned(), files);
        let Some(template) = template else {
            Catalog::bootstrap(&self.engine, &definition, transaction)?;
            return Ok(definition);
        };
        let state = template.catalog().state_arc();
        let copied = &mut |relation: &RelationDefinition, file| {
            self.copy_file(transaction, &state, relation, file)
        };
        template.catalog().copy_to(&definition, transaction, copied)?;
        Ok(definition)
    }

    /// Copies a file of a relation to a new file.
    fn copy_file(
        &self,
        transaction: &Transaction,
        state: &CatalogState,
        relation: &RelationDefinition,
        from: RelFile,
    ) -> Result<RelFile> {
        let to = self.engine.create_file(transaction, from.logged)?;
        let known = state.relation(relation.oid);
        if let Some(numbers) = known.and_then(|relation| relation.number_generator.as_ref()) {
            // The file holds a number ahead of the last one given out.
            let (value, called) = numbers.state()?;
            let copy = Sequence::open(&self.engine, to, *numbers.options());
            copy.setval(transaction, value, called)?;
            return Ok(to);
        }
        let (session, xid) = (transaction.session(), transaction.write_xid()?);
        let step =
            &mut || Ok::<_, SqlError>(session.check_interrupts().map_err(niwaki_txn::Error::from)?);
        self.engine.storage().copy_file(from.id, to, xid, step)?;
        Ok(to)
    }

    /// Returns the files that the table of files names. The flag is true when a relation must have
    /// the file: the file is logged, and its creation is known to have committed.
    pub fn settled_files(&self) -> impl Iterator<Item = (RelFileId, bool)> {
        let files = self.engine.storage().known_files();
        files.into_iter().map(|(file, creator)| (file.id, file.logged && self.committed(creator)))
    }

    fn committed(&self, creator: Xid) -> bool {
        let status = || self.engine.transactions().status(creator);
        creator == Xid::INVALID || matches!(status(), XidStatus::Committed(_))
    }

    /// Empties unlogged relations and removes the files that no relation has. Such a file belongs
    /// to a transaction that a crash cut off. When the creating transaction has committed, the file
    /// has a relation, or was dropped and the log says so. Any other file is moved aside, and `log`
    /// reports that. Returns whether a file was moved aside.
    ///
    /// # Errors
    /// Storage errors.
    pub fn tidy_after_crash(&self, log: &Log) -> Result<bool> {
        let storage = self.engine.storage();
        let mut known = HashSet::default();
        for database in self.all() {
            let state = database.catalog().state();
            let unlogged = |relation: &&Arc<Relation>| !relation.logged;
            for relation in state.relations().filter(unlogged) {
                for file in files_of(relation) {
                    storage.reset_unlogged(file)?;
                    self.engine.forget(file);
                }
            }
            known.extend(database.catalog().files().into_iter().map(|file| file.id));
        }
        let created: BTreeMap<RelFileId, (RelFile, Xid)> =
            storage.known_files().into_iter().map(|entry| (entry.0.id, entry)).collect();
        let listed = storage.list_files()?;
        let nobodys = |id: &RelFileId| *id >= niwaki_storage::FIRST_FILE && !known.contains(id);
        let mut moved = false;
        for id in listed.iter().copied().filter(nobodys) {
            let in_vain = match created.get(&id) {
                Some((file, creator)) => !file.logged || !self.committed(*creator),
                // At the crash the log had no record yet that the file was created.
                None => storage.is_blank(id)?,
            };
            if in_vain || seeded_bug!("nobodys_files_are_removed") {
                storage.drop_file(RelFile { id, logged: true })?;
                continue;
            }
            moved = true;
            self.move_aside(id, log)?;
        }
        // An earlier start moved these aside, and ended before the table of files was written
        // without them.
        for id in created.into_keys().filter(nobodys).filter(|id| !listed.contains(id)) {
            storage.drop_file(RelFile { id, logged: true })?;
        }
        Ok(moved)
    }

    /// Moves the unlogged files aside that no relation has, in a directory that was closed. Older
    /// versions left the files of temporary relations there. Returns whether a file was moved.
    ///
    /// # Errors
    /// Storage errors.
    pub fn tidy_after_stop(&self, log: &Log) -> Result<bool> {
        let nobodys = self.unnamed_unlogged();
        for file in &nobodys {
            self.move_aside(file.id, log)?;
        }
        Ok(!nobodys.is_empty())
    }

    /// Removes the files of temporary relations. The databases are about to be closed, no
    /// transaction is open, and none begins. Only temporary relations have unlogged files of this
    /// opening that no relation of a catalog names.
    pub fn end_temporary(&self) {
        let of_this_life = |file: &RelFile| file.id >= self.first_new;
        for file in self.unnamed_unlogged().into_iter().filter(of_this_life) {
            self.engine.forget(file.id);
            // A file that cannot be removed now is an orphan, as at the end of a session.
            let _ = self.engine.storage().drop_file(file);
        }
    }

    /// Returns the unlogged files that no relation of a catalog has. Returns none when some
    /// database is not open: it was created a moment ago, or could not be opened then.
    fn unnamed_unlogged(&self) -> Vec<RelFile> {
        // The order matters: a database that is on the list now and opened later is missing from
        // `open`.
        let listed = self.shared.databases();
        let open = self.all();
        if listed.iter().any(|listed| open.iter().all(|open| open.oid() != listed.oid)) {
            return Vec::new();
        }
        let named: HashSet<RelFileId> = open
            .iter()
            .flat_map(|database| database.catalog().files())
            .map(|file| file.id)
            .collect();
        let known = self.engine.storage().known_files().into_iter().map(|(file, _)| file);
        known.filter(|file| !file.logged && !named.contains(&file.id)).collect()
    }

    fn move_aside(&self, id: RelFileId, log: &Log) -> Result<()> {
        let names = self.engine.storage().move_aside(id)?;
        if names.is_empty() {
            return Ok(());
        }
        log.write(&format!(
            "no relation has the relation file {id}, and nothing says that it was dropped: it is \
             now {}; once nothing is missing in the database, it may be deleted",
            names.join(", ")
        ));
        Ok(())
    }
}

fn files_of(relation: &RelationDefinition) -> impl Iterator<Item = RelFileId> {
    relation.files().map(RelFileId)
}

/// Fills the catalog of the first database when the directory is new, or when a crash cut the
/// filling off.
fn fill_first(engine: &Arc<Engine>) -> Result<()> {
    let transactions = engine.transactions();
    let session = transactions.register_session()?;
    let begin = || transactions.begin(&session, BeginOptions::default());
    let storage = engine.storage();
    let first = DatabaseDefinition::first();
    // A missing file that should exist ends the start here with an error.
    let mut filled = true;
    for file in first.files.all() {
        filled &= storage.file_exists(file.id)?;
    }
    if filled {
        let transaction = begin()?;
        filled = Catalog::is_filled(engine, &transaction)?;
        transaction.commit(Durability::Async)?;
    }
    if !filled && !storage.is_new() && !seeded_bug!("catalog_is_filled_again") {
        // Never create a new catalog in place of definitions that cannot be read.
        let message = "the catalog of database \"postgres\" is empty, and the directory is not new";
        let detail = "The files base/2.main, base/3.main or base/4.main were damaged or replaced.";
        return Err(SqlError::new("XX001", message)
            .with_detail(detail)
            .with_hint("Nothing was changed. Restore the directory from a backup."));
    }
    if !filled {
        let transaction = begin()?;
        let xid = transaction.write_xid()?;
        for file in first.files.all() {
            // The files of an earlier attempt that was cut off are empty, or hold rows of a
            // transaction that never committed.
            if !storage.file_exists(file.id)? {
                storage.create_file(file, xid)?;
            }
        }
        Catalog::bootstrap(engine, &first, &transaction)?;
        transaction.commit(Durability::Flush)?;
    }
    storage.set_filled()?;
    Ok(())
}

fn open_one(
    engine: &Arc<Engine>,
    shared: &Arc<SharedCatalog>,
    definition: &DatabaseDefinition,
) -> Result<Arc<OpenDatabase>> {
    let transactions = engine.transactions();
    let session = transactions.register_session()?;
    let transaction = transactions.begin(&session, BeginOptions::default())?;
    let compiler = Arc::new(niwaki_sql::IndexExpressions);
    let catalog =
        Catalog::open(engine, shared, definition, &transaction, catalogs::all(), compiler)?;
    transaction.commit(Durability::Async)?;
    Ok(Arc::new(OpenDatabase::new(catalog)))
}
