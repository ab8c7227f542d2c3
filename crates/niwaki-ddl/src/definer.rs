//! Data definition statements: CREATE, ALTER, DROP, TRUNCATE.
//!
//! Each statement resolves its names and takes the lock that PostgreSQL takes. It resolves the
//! names again if the catalog changed during the wait. Then it changes the catalog in the session's
//! transaction.

use std::sync::Arc;

use niwaki_catalog::{
    CatalogState, Column, IndexDefinition, Oid, PG_CATALOG, Relation, RelationDefinition,
    RelationKind, TypeDefinition,
};
use niwaki_session::ResultSink;
use niwaki_session::Session;
use niwaki_sql::utility::{Name, Persistence, Utility};
use niwaki_sql::{Result, SqlError};
use niwaki_txn::{TableLockMode, Transaction, WaitPolicy};

/// Runs a data definition statement, whose text is `source`. Returns its command tag.
pub(crate) fn run(
    session: &mut Session,
    utility: &Utility,
    source: &str,
    out: &mut dyn ResultSink,
) -> Result<&'static str> {
    let mut definer = Definer { session, out };
    match utility {
        Utility::CreateSchema { name, if_not_exists } => {
            definer.create_schema(name, *if_not_exists)?;
            Ok("CREATE SCHEMA")
        }
        Utility::CreateTable(table) => {
            definer.create_table(table)?;
            Ok("CREATE TABLE")
        }
        Utility::CreateView(view) => {
            definer.create_view(view, source)?;
            Ok("CREATE VIEW")
        }
        Utility::CreateIndex(index) => {
            definer.create_index(index)?;
            Ok("CREATE INDEX")
        }
        Utility::CreateSequence { name, options, if_not_exists, persistence } => {
            definer.create_sequence(name, options, *if_not_exists, *persistence)?;
            Ok("CREATE SEQUENCE")
        }
        Utility::AlterSequence { name, options, if_exists } => {
            definer.alter_sequence(name, options, *if_exists)?;
            Ok("ALTER SEQUENCE")
        }
        Utility::Type(statement) => definer.type_statement(statement),
        Utility::Function(statement) => definer.function_statement(statement),
        Utility::Trigger(statement) => definer.trigger_statement(statement),
        Utility::Drop(drop) => definer.drop(drop),
        Utility::Reindex(reindex) => {
            definer.reindex(reindex)?;
            Ok("REINDEX")
        }
        Utility::Alter { name, kind, if_exists, commands } => {
            definer.alter(name, *kind, *if_exists, commands)
        }
        Utility::Rename(rename) => definer.rename(rename),
        Utility::RenameSchema { name, to } => {
            definer.rename_schema(name, to)?;
            Ok("ALTER SCHEMA")
        }
        Utility::SchemaOwner { name, role } => {
            if definer.state().schema_by_name(name).is_none() {
                return Err(SqlError::undefined_schema(name));
            }
            definer.may_own(role)?;
            Ok("ALTER SCHEMA")
        }
        Utility::SetSchema { relation, kind, schema, if_exists } => {
            definer.set_schema(relation, *kind, schema, *if_exists)
        }
        Utility::Comment { target, text } => {
            definer.comment(target, text.as_deref())?;
            Ok("COMMENT")
        }
        Utility::Refresh { name, concurrently, with_data } => {
            definer.refresh(name, *concurrently, *with_data)?;
            Ok("REFRESH MATERIALIZED VIEW")
        }
        Utility::Truncate { names, restart_identity, cascade } => {
            definer.truncate(names, *restart_identity, *cascade)?;
            Ok("TRUNCATE TABLE")
        }
        _ => Err(SqlError::internal("not a defining statement")),
    }
}

/// Context of a running data definition statement.
pub(crate) struct Definer<'s> {
    pub(crate) session: &'s mut Session,
    pub(crate) out: &'s mut dyn ResultSink,
}

impl Definer<'_> {
    pub(crate) fn state(&mut self) -> Arc<CatalogState> {
        self.session.state()
    }

    pub(crate) fn transaction(&self) -> Result<&Transaction> {
        self.session.open_transaction()
    }

    pub(crate) fn notice(&mut self, message: impl Into<String>) {
        self.session.notice(self.out, "00000", message);
    }

    /// Returns the schema in which `name` is to be created.
    pub(crate) fn creation_schema(&mut self, name: &Name, persistence: Persistence) -> Result<Oid> {
        let first = |session: &Session| session.settings().search_path().first().cloned();
        let in_temporary = match &name.schema {
            Some(schema) => schema == "pg_temp",
            None => first(self.session).as_deref() == Some("pg_temp"),
        };
        if in_temporary && persistence == Persistence::Unlogged {
            let message = "only temporary relations may be created in temporary schemas";
            return Err(SqlError::new("42P16", message).with_position(name.position));
        }
        if in_temporary || persistence == Persistence::Temporary {
            return self.temporary_schema(name);
        }
        // DROP SCHEMA waits for the end of this transaction, or ends first.
        let find = |definer: &mut Self| definer.schema_to_create_in(name);
        self.lock_found(TableLockMode::AccessShare, find, |schema: &Oid| vec![*schema])
    }

    /// Returns the schema that `name` or the search path gives, without locking it.
    fn schema_to_create_in(&mut self, name: &Name) -> Result<Oid> {
        let state = self.state();
        let oid = match &name.schema {
            Some(schema) => {
                state
                    .schema_by_name(schema)
                    .ok_or_else(|| SqlError::undefined_schema(schema).with_position(name.position))?
                    .oid
            }
            None => self.session.search_path().creation.ok_or_else(|| {
                SqlError::new("3F000", "no schema has been selected to create in")
                    .with_position(name.position)
            })?,
        };
        if oid == PG_CATALOG || oid == niwaki_catalog::INFORMATION_SCHEMA {
            return Err(SqlError::new("42501", format!("permission denied to create \"{name}\""))
                .with_detail("System catalog modifications are currently disallowed."));
        }
        Ok(oid)
    }

    /// Returns whether `name` is free in the schema. Returns false after a notice when the name is
    /// taken and IF NOT EXISTS allows that.
    pub(crate) fn name_is_free(
        &mut self,
        schema: Oid,
        name: &str,
        if_not_exists: bool,
    ) -> Result<bool> {
        // A composite type counts as a relation, too.
        let state = self.state();
        let composite = |found: &Arc<TypeDefinition>| found.attributes().is_some();
        if state.lookup(schema, name).is_none()
            && !state.lookup_type(schema, name).is_some_and(composite)
        {
            return Ok(true);
        }
        if !if_not_exists {
            return Err(SqlError::new("42P07", format!("relation \"{name}\" already exists")));
        }
        self.session.notice(
            self.out,
            "42P07",
            format!("relation \"{name}\" already exists, skipping"),
        );
        Ok(false)
    }

    /// Fails with 42710 when a type of the schema has the name.
    pub(crate) fn name_is_no_type(&mut self, schema: Oid, name: &str) -> Result<()> {
        if self.state().lookup_type(schema, name).is_none() {
            return Ok(());
        }
        let message = format!("type \"{name}\" already exists");
        Err(SqlError::new("42710", message).with_hint(
            "A relation has an associated type of the same name, so you must use a name that \
             doesn't conflict with any existing type.",
        ))
    }

    /// Finds and locks a relation. Returns `None` after a notice when the relation is missing and
    /// that is allowed.
    pub(crate) fn lock_relation(
        &mut self,
        name: &Name,
        word: &str,
        mode: TableLockMode,
        if_exists: bool,
    ) -> Result<Option<Arc<Relation>>> {
        match self.session.lock_by_name(name, mode) {
            Ok(relation) => Ok(Some(relation)),
            Err(error) if if_exists && matches!(error.sqlstate, "42P01" | "3F000") => {
                let missing = match word {
                    // The message of ALTER names no schema.
                    "relation" => format!("relation \"{}\" does not exist", name.name),
                    _ if error.sqlstate == "3F000" => error.message.clone(),
                    _ => format!("{word} \"{}\" does not exist", name.name),
                };
                self.notice(format!("{missing}, skipping"));
                Ok(None)
            }
            Err(error) if error.sqlstate == "42P01" => {
                // The message of DROP names no schema.
                let message = match word {
                    "relation" => format!("relation \"{name}\" does not exist"),
                    _ => format!("{word} \"{}\" does not exist", name.name),
                };
                let sqlstate = if word == "index" { "42704" } else { "42P01" };
                Err(SqlError::new(sqlstate, message).with_position(name.position))
            }
            Err(error) => Err(error),
        }
    }

    /// Finds and locks a relation as [`Definer::lock_relation`] does, its owner first. `owner_of`
    /// returns the owner, if the relation has one. All code that locks both uses this order.
    pub(crate) fn lock_owned(
        &mut self,
        name: &Name,
        word: &str,
        [of_owner, mode]: [TableLockMode; 2],
        if_exists: bool,
        owner_of: fn(&Relation) -> Option<Oid>,
    ) -> Result<Option<Arc<Relation>>> {
        loop {
            let owner = self.session.find_relation(name).ok().and_then(|found| owner_of(&found));
            if let Some(owner) = owner {
                self.lock(owner, of_owner)?;
            }
            match self.lock_relation(name, word, mode, if_exists)? {
                // Ends: each round waits for a transaction that replaced the relation.
                Some(relation) if owner_of(&relation) != owner => {}
                found => return Ok(found),
            }
        }
    }

    /// Finds an index and locks it, its table first. Returns the index and the table's number.
    /// `table` returns that number, or refuses the relation.
    pub(crate) fn lock_index(
        &mut self,
        name: &Name,
        modes: [TableLockMode; 2],
        table: fn(&Relation) -> Result<Oid>,
    ) -> Result<(Arc<Relation>, Oid)> {
        // Refuses before it waits.
        let found = self.session.find_relation(name)?;
        table(&found)?;
        let found = self.lock_owned(name, "relation", modes, false, table_of)?;
        let index = found.ok_or_else(|| SqlError::internal("a relation that may be missing"))?;
        let table = table(&index)?;
        Ok((index, table))
    }

    /// Refuses (55006) while an open cursor reads the table, since the cursor may come back to its
    /// rows, and while deferred checks of its keys wait.
    pub(crate) fn refuse_use(&self, table: &Relation, word: &str) -> Result<()> {
        if self.session.is_read_by_cursor(table.oid) {
            let why = "it is being used by active queries in this session";
            let message = format!("cannot {word} \"{}\" because {why}", table.name);
            return Err(SqlError::new("55006", message));
        }
        self.refuse_pending(table, word)
    }

    /// Fails with 55006 while keys of the table wait to be checked, because the table must not
    /// change before the check.
    pub(crate) fn refuse_pending(&self, table: &Relation, word: &str) -> Result<()> {
        if !self.session.defers_checks_of(table.oid) {
            return Ok(());
        }
        let name = &table.name;
        let message = format!("cannot {word} \"{name}\" because it has pending trigger events");
        Err(SqlError::new("55006", message))
    }

    /// Locks another relation that belongs to a locked one.
    pub(crate) fn lock(&self, oid: Oid, mode: TableLockMode) -> Result<()> {
        let transaction = self.transaction()?;
        transaction.manager().locks().acquire_table(
            transaction,
            self.session.table_id(oid),
            mode,
            WaitPolicy::Block,
        )?;
        Ok(())
    }

    /// Finds objects, locks the objects that `owners` returns for them, and finds them again until
    /// no definition changed in between.
    pub(crate) fn lock_found<T>(
        &mut self,
        mode: TableLockMode,
        find: impl Fn(&mut Self) -> Result<T>,
        owners: impl Fn(&T) -> Vec<Oid>,
    ) -> Result<T> {
        loop {
            let version = self.session.catalog_version();
            let found = match find(self) {
                // The search met definitions of two versions.
                Err(_) if self.session.catalog_version() != version => continue,
                found => found?,
            };
            for oid in owners(&found) {
                self.lock(oid, mode)?;
            }
            // Ends: each round waits for a transaction that changed a definition. Locks stay.
            if self.session.catalog_version() == version {
                return Ok(found);
            }
        }
    }

    /// The relation as it is now.
    pub(crate) fn current(&mut self, oid: Oid) -> Result<Arc<Relation>> {
        self.state()
            .relation(oid)
            .cloned()
            .ok_or_else(|| SqlError::internal(format!("relation {oid} has gone")))
    }

    /// Locks an index or a sequence of a locked table, and returns its definition for a change.
    /// Other sessions change the definition under the lock of the index or the sequence alone.
    pub(crate) fn definition_to_change(&mut self, oid: Oid) -> Result<RelationDefinition> {
        self.lock(oid, TableLockMode::ShareUpdateExclusive)?;
        Ok(self.current(oid)?.definition.clone())
    }

    /// Changes the stored definition of an index.
    pub(crate) fn change_index(
        &mut self,
        oid: Oid,
        change: impl FnOnce(&mut IndexDefinition),
    ) -> Result<()> {
        let mut definition = self.definition_to_change(oid)?;
        definition.index.as_mut().map(change);
        self.update(definition)
    }

    /// Changes columns of a locked table.
    pub(crate) fn change_columns(
        &mut self,
        table: Oid,
        change: impl FnMut(&mut Column),
    ) -> Result<()> {
        let mut definition = self.current(table)?.definition.clone();
        definition.columns.iter_mut().for_each(change);
        self.update(definition)
    }

    fn create_schema(&mut self, name: &str, if_not_exists: bool) -> Result<()> {
        if name.starts_with("pg_") {
            return Err(SqlError::new("42939", format!("unacceptable schema name \"{name}\""))
                .with_detail("The prefix \"pg_\" is reserved for system schemas."));
        }
        if self.state().schema_by_name(name).is_some() {
            let message = format!("schema \"{name}\" already exists");
            if !if_not_exists {
                return Err(SqlError::new("42P06", message));
            }
            self.session.notice(self.out, "42P06", format!("{message}, skipping"));
            return Ok(());
        }
        let (transaction, catalog) = self.session.transaction_and_catalog()?;
        catalog.create_schema(transaction, name)?;
        Ok(())
    }

    pub(crate) fn create(&mut self, definition: RelationDefinition) -> Result<()> {
        let (transaction, catalog) = self.session.transaction_and_catalog()?;
        Ok(catalog.create(transaction, definition)?)
    }

    pub(crate) fn update(&mut self, definition: RelationDefinition) -> Result<()> {
        self.session.update_definition(definition)
    }

    pub(crate) fn remove(&mut self, oid: Oid) -> Result<()> {
        let (transaction, catalog) = self.session.transaction_and_catalog()?;
        Ok(catalog.remove(transaction, oid)?)
    }

    pub(crate) fn new_file(&self, logged: bool) -> Result<u64> {
        self.session.new_file(logged)
    }

    pub(crate) fn drop_file(&mut self, definition: &RelationDefinition) -> Result<()> {
        self.session.drop_file(definition)
    }

    pub(crate) fn allot_values(&self, table: &mut RelationDefinition) -> Result<()> {
        self.session.allot_values(table)
    }
}

/// The table of an index.
pub(crate) fn table_of(relation: &Relation) -> Option<Oid> {
    relation.index.as_ref().map(|index| index.table)
}

/// Fails with 42501 for a system relation, which no statement changes.
pub(crate) fn refuse_system(relation: &Relation) -> Result<()> {
    if !relation.is_system() {
        return Ok(());
    }
    let message = format!("permission denied: \"{}\" is a system catalog", relation.name);
    Err(SqlError::new("42501", message))
}

/// Returns the error 42809 for a statement that met another kind of relation than it needs.
pub(crate) fn is_not(relation: &Relation, wanted: RelationKind) -> SqlError {
    let article = |word: &str| if word.starts_with('i') { "an" } else { "a" };
    let word = wanted.word();
    SqlError::new("42809", format!("\"{}\" is not {} {word}", relation.name, article(word)))
}

/// Does [`is_not`] with a hint at the right statement.
pub(crate) fn wrong_kind(relation: &Relation, wanted: RelationKind) -> SqlError {
    let error = is_not(relation, wanted);
    match relation.kind {
        RelationKind::Table => error.with_hint("Use DROP TABLE to remove a table."),
        RelationKind::Index => error.with_hint("Use DROP INDEX to remove an index."),
        RelationKind::Sequence => error.with_hint("Use DROP SEQUENCE to remove a sequence."),
        RelationKind::View => error.with_hint("Use DROP VIEW to remove a view."),
        RelationKind::MaterializedView => {
            error.with_hint("Use DROP MATERIALIZED VIEW to remove a materialized view.")
        }
    }
}
