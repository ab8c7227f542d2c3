//! CREATE, ALTER and DROP DATABASE.

use std::sync::Arc;

use niwaki_catalog::{Catalog, DatabaseDefinition, FIRST_DATABASE, Oid, table_number};
use niwaki_directory::open_database::no_database;
use niwaki_sql::utility::{
    DatabaseOptions, DatabaseStatement, SetCommand, check_database_tablespace,
};
use niwaki_sql::{Result, SqlError};
use niwaki_txn::{TableId, TableLockMode, WaitPolicy};

use crate::result::ResultSink;
use crate::session::handle::Session;

/// Template databases that PostgreSQL has and Niwaki has not. A database made from one of them is
/// empty.
const EMPTY_TEMPLATES: [&str; 2] = ["template0", "template1"];

impl Session {
    /// Runs CREATE DATABASE, DROP DATABASE and ALTER DATABASE SET TABLESPACE, which have a
    /// transaction of their own.
    pub(crate) fn change_databases(
        &mut self,
        statement: &DatabaseStatement,
        out: &mut dyn ResultSink,
    ) -> Result<()> {
        self.ensure_transaction()?;
        match statement {
            DatabaseStatement::Create { name, template, options } => {
                self.create_database(name, template.as_deref(), options)
            }
            DatabaseStatement::Drop { name, if_exists, force } => {
                self.drop_database(name, *if_exists, *force, out)
            }
            DatabaseStatement::Tablespace { name, tablespace } => {
                self.move_database(name, tablespace)
            }
            _ => Err(SqlError::internal("a statement about a database that needs no transaction")),
        }
    }

    fn create_database(
        &mut self,
        name: &str,
        template: Option<&str>,
        options: &DatabaseOptions,
    ) -> Result<()> {
        self.may_own_database(options)?;
        let databases = Arc::clone(self.directory.databases());
        let source = match template.filter(|name| !EMPTY_TEMPLATES.contains(name)) {
            None => None,
            Some(template) => {
                let found = self.lock_database(template, TableLockMode::Share)?;
                let missing = || {
                    let message = format!("template database \"{template}\" does not exist");
                    SqlError::new("3D000", message)
                };
                let found = found.ok_or_else(missing)?;
                Some(databases.get(&found)?)
            }
        };
        refuse_taken(&self.catalog.state().databases(), name)?;
        // The source must not change while it is copied. So no session may connect to it, and the
        // tables are locked against background maintenance (gardener, autovacuum).
        let closed = match &source {
            None => None,
            Some(source) => {
                let closed = source.close(self.identity.control(), "source database", false)?;
                self.lock_tables_of(source.catalog(), TableLockMode::Share)?;
                Some(closed)
            }
        };
        let (transaction, catalog) = self.transaction_and_catalog()?;
        let mut definition = databases.create(transaction, name, source.as_deref())?;
        say(&mut definition, options);
        catalog.create_database(transaction, definition.clone())?;
        self.commit()?;
        drop(closed);
        // Opens the database, so that background maintenance covers it from now on. A failure here
        // happens again when a client connects, so it is ignored.
        let _ = databases.get(&definition);
        Ok(())
    }

    fn drop_database(
        &mut self,
        name: &str,
        if_exists: bool,
        force: bool,
        out: &mut dyn ResultSink,
    ) -> Result<()> {
        let Some(definition) = self.lock_database(name, TableLockMode::AccessExclusive)? else {
            if !if_exists {
                return Err(no_database(name));
            }
            self.notice(out, "00000", format!("database \"{name}\" does not exist, skipping"));
            return self.commit();
        };
        if definition.is_template {
            return Err(SqlError::new("42809", "cannot drop a template database"));
        }
        if definition.oid == self.connection.oid() {
            return Err(SqlError::new("55006", "cannot drop the currently open database"));
        }
        refuse_first(&definition, "DROP DATABASE")?;
        let databases = Arc::clone(self.directory.databases());
        let database = databases.get(&definition)?;
        let closed = database.close(self.identity.control(), "database", force)?;
        let catalog = database.catalog();
        self.lock_tables_of(catalog, TableLockMode::AccessExclusive)?;
        let engine = Arc::clone(self.engine());
        let (transaction, own) = self.transaction_and_catalog()?;
        for file in catalog.files() {
            engine.drop_at_commit(transaction, file);
        }
        own.remove_database(transaction, catalog)?;
        self.commit()?;
        databases.forget(definition.oid);
        closed.gone();
        Ok(())
    }

    /// Runs ALTER DATABASE SET TABLESPACE. All databases are in the one tablespace, so nothing
    /// moves.
    fn move_database(&mut self, name: &str, tablespace: &str) -> Result<()> {
        let found = self.lock_database(name, TableLockMode::AccessExclusive)?;
        let definition = found.ok_or_else(|| no_database(name))?;
        if definition.oid == self.connection.oid() {
            let message = "cannot change the tablespace of the currently open database";
            return Err(SqlError::new("55006", message));
        }
        check_database_tablespace(tablespace)?;
        self.commit()
    }

    /// Locks all tables of a database against background maintenance, which works without a
    /// connection: the gardener, autovacuum.
    fn lock_tables_of(&self, catalog: &Catalog, mode: TableLockMode) -> Result<()> {
        let mut tables: Vec<Oid> = catalog.state().with_rows().map(|table| table.oid).collect();
        tables.sort_unstable();
        for table in tables {
            self.lock_number(catalog.table_number(table), mode)?;
        }
        Ok(())
    }

    /// Runs ALTER DATABASE.
    pub(crate) fn alter_database(&mut self, statement: &DatabaseStatement) -> Result<()> {
        let (name, mode) = match statement {
            DatabaseStatement::Rename { name, .. } => (name, TableLockMode::AccessExclusive),
            DatabaseStatement::Create { name, .. }
            | DatabaseStatement::Drop { name, .. }
            | DatabaseStatement::Alter { name, .. }
            | DatabaseStatement::Set { name, .. }
            | DatabaseStatement::Tablespace { name, .. }
            | DatabaseStatement::Owner { name, .. } => (name, TableLockMode::ShareUpdateExclusive),
        };
        let found = self.lock_database(name, mode)?.ok_or_else(|| no_database(name))?;
        let mut definition = DatabaseDefinition::clone(&found);
        match statement {
            DatabaseStatement::Create { .. }
            | DatabaseStatement::Drop { .. }
            | DatabaseStatement::Tablespace { .. } => {
                return Err(SqlError::internal("the statement has a transaction of its own"));
            }
            DatabaseStatement::Alter { options, .. } => {
                let current = found.oid == self.connection.oid();
                if options.allow_connections == Some(false) && current {
                    let message = "cannot disallow connections for current database";
                    return Err(SqlError::new("22023", message));
                }
                self.may_own_database(options)?;
                say(&mut definition, options);
            }
            DatabaseStatement::Set { command, .. } => {
                self.set_of_database(&mut definition, command)?;
            }
            DatabaseStatement::Rename { to, .. } => {
                refuse_taken(&self.catalog.state().databases(), to)?;
                if found.oid == self.connection.oid() {
                    return Err(SqlError::new("0A000", "current database cannot be renamed"));
                }
                refuse_first(&found, "RENAME")?;
                self.directory.databases().get(&found)?.refuse_connected()?;
                definition.name.clone_from(to);
            }
            DatabaseStatement::Owner { role, .. } => {
                return self.may_own(role);
            }
        }
        self.update_database(definition)
    }

    /// Runs COMMENT ON DATABASE. Returns false when no database has this name.
    ///
    /// # Errors
    /// The errors of a lock wait; errors of the table of databases.
    pub fn comment_on_database(&mut self, name: &str, comment: Option<String>) -> Result<bool> {
        let mode = TableLockMode::ShareUpdateExclusive;
        let Some(found) = self.lock_database(name, mode)? else { return Ok(false) };
        self.update_database(DatabaseDefinition { comment, ..DatabaseDefinition::clone(&found) })?;
        Ok(true)
    }

    fn update_database(&mut self, definition: DatabaseDefinition) -> Result<()> {
        let (transaction, catalog) = self.transaction_and_catalog()?;
        Ok(catalog.update_database(transaction, definition)?)
    }

    /// Runs ALTER DATABASE SET: checks the setting now, for sessions that begin later.
    fn set_of_database(
        &self,
        definition: &mut DatabaseDefinition,
        command: &SetCommand,
    ) -> Result<()> {
        match command {
            SetCommand::Value { name, value, .. } => {
                self.settings.for_session().set_at_start(name, value, false)?;
                let name = niwaki_sql::settings::full_name(name);
                match definition.settings.iter_mut().find(|(other, _)| *other == name) {
                    Some((_, said)) => said.clone_from(value),
                    None => definition.settings.push((name.to_owned(), value.clone())),
                }
            }
            // As in PostgreSQL, the name of a setting is not checked when the database has no
            // settings.
            SetCommand::Default { .. } if definition.settings.is_empty() => {}
            SetCommand::Default { name, .. } => {
                self.settings.show(name)?;
                let name = niwaki_sql::settings::full_name(name);
                definition.settings.retain(|(other, _)| *other != name);
            }
            SetCommand::ResetAll => definition.settings.clear(),
            SetCommand::Transaction { .. } => {
                return Err(SqlError::unsupported("ALTER DATABASE SET TRANSACTION"));
            }
        }
        Ok(())
    }

    /// Finds a database and locks it against other statements about it.
    fn lock_database(
        &mut self,
        name: &str,
        mode: TableLockMode,
    ) -> Result<Option<Arc<DatabaseDefinition>>> {
        loop {
            let Some(found) = self.catalog.state().databases().by_name(name).cloned() else {
                return Ok(None);
            };
            self.lock_number(table_number(FIRST_DATABASE, found.oid), mode)?;
            let again = self.catalog.state().databases().by_name(name).cloned();
            if again.as_ref().is_some_and(|again| again.oid == found.oid) {
                return Ok(again);
            }
            // Each round waits for the end of a transaction that renamed or dropped the database.
        }
    }

    fn lock_number(&self, number: TableId, mode: TableLockMode) -> Result<()> {
        let transaction = self.open_transaction()?;
        let locks = transaction.manager().locks();
        locks.acquire_table(transaction, number, mode, WaitPolicy::Block)?;
        Ok(())
    }

    fn may_own_database(&self, options: &DatabaseOptions) -> Result<()> {
        options.owner.as_deref().map_or(Ok(()), |role| self.may_own(role))
    }
}

/// Applies the options to a definition.
fn say(definition: &mut DatabaseDefinition, options: &DatabaseOptions) {
    if let Some(allowed) = options.allow_connections {
        definition.refuses_connections = !allowed;
    }
    if let Some(limit) = options.connection_limit {
        definition.connection_limit = limit;
    }
    if let Some(is_template) = options.is_template {
        definition.is_template = is_template;
    }
}

fn refuse_taken(list: &niwaki_catalog::DatabaseList, name: &str) -> Result<()> {
    // PostgreSQL has databases of these names.
    if list.by_name(name).is_none() && !EMPTY_TEMPLATES.contains(&name) {
        return Ok(());
    }
    Err(SqlError::new("42P04", format!("database \"{name}\" already exists")))
}

/// Refuses the first database, which has the list of the others.
fn refuse_first(definition: &DatabaseDefinition, what: &str) -> Result<()> {
    if !definition.is_first() {
        return Ok(());
    }
    let name = &definition.name;
    Err(SqlError::unsupported(format!("{what} of \"{name}\", which has the list of databases,")))
}
