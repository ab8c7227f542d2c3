//! Relations and schemas by name, with their locks.

use std::sync::Arc;

use niwaki_catalog::{Oid, Relation, SearchPath};
use niwaki_sql::utility::Name;
use niwaki_sql::{Result, SqlError};
use niwaki_system::roles::DATABASE_OWNER;
use niwaki_txn::{TableLockMode, WaitPolicy};
use niwaki_types::quote_identifier;

use crate::session::handle::Session;

impl Session {
    /// Returns the search path, resolved for the current catalog and settings.
    pub fn search_path(&mut self) -> Arc<SearchPath> {
        let version = self.plan_version();
        if let Some(path) = self.path.get(version) {
            return path;
        }
        let path = Arc::new(
            self.catalog.state().search_path(&self.settings.search_path(), self.identity.user()),
        );
        self.path.set(version, &path);
        path
    }

    /// Fails with 3F000 if a name has a schema that does not exist.
    ///
    /// # Errors
    /// 3F000 when the schema of the name does not exist.
    pub fn find_schema(&mut self, name: &Name) -> Result<()> {
        match name.schema.as_deref().filter(|schema| *schema != "pg_temp") {
            Some(schema) if self.catalog.state().schema_by_name(schema).is_none() => {
                Err(SqlError::undefined_schema(schema))
            }
            _ => Ok(()),
        }
    }

    /// Finds a relation by name.
    ///
    /// # Errors
    /// 42P01 and 3F000 for a missing name, 0A000 for another database.
    pub fn find_relation(&mut self, name: &Name) -> Result<Arc<Relation>> {
        let path = self.search_path();
        let state = self.catalog.state();
        let schema = name.schema.as_deref();
        niwaki_sql::check_database(&state, name.database.as_deref(), schema, &name.name)
            .map_err(|error| error.with_position(name.position))?;
        self.find_schema(name)?;
        match state.resolve(&path, name.schema.as_deref(), &name.name) {
            Ok(relation) => Ok(Arc::clone(relation)),
            Err(error) => Err(SqlError::from(error).with_position(name.position)),
        }
    }

    /// Finds a relation and locks it. While this waits for the lock, the name may come to mean
    /// another relation. So the name is looked up until lock and name agree.
    ///
    /// # Errors
    /// 42P01 and 3F000 for a missing name; the errors of a lock wait.
    pub fn lock_by_name(&mut self, name: &Name, mode: TableLockMode) -> Result<Arc<Relation>> {
        self.lock_by_name_unless(name, mode, WaitPolicy::Block, |_| Ok(()))
    }

    /// Locks as [`Session::lock_by_name`] does. `refused` is asked before each wait.
    pub(crate) fn lock_by_name_unless(
        &mut self,
        name: &Name,
        mode: TableLockMode,
        policy: WaitPolicy,
        refused: impl Fn(&Relation) -> Result<()>,
    ) -> Result<Arc<Relation>> {
        loop {
            let found = self.find_relation(name)?;
            refused(&found)?;
            self.lock_relation(&found, mode, policy)?;
            let again = self.find_relation(name)?;
            if again.oid == found.oid {
                return Ok(again);
            }
            // Each round waits for the end of a transaction that renamed or replaced the relation.
        }
    }

    /// Locks a relation, which may be another one afterwards, or gone.
    pub(crate) fn lock_relation(
        &self,
        relation: &Relation,
        mode: TableLockMode,
        policy: WaitPolicy,
    ) -> Result<()> {
        let transaction = self.open_transaction()?;
        let locks = transaction.manager().locks();
        let locked = locks.acquire_table(transaction, self.table_id(relation.oid), mode, policy);
        locked.map(drop).map_err(|error| match error {
            niwaki_txn::Error::LockNotAvailable { .. } => {
                let message = format!("could not obtain lock on relation \"{}\"", relation.name);
                SqlError::new("55P03", message)
            }
            other => other.into(),
        })
    }

    /// Returns the name of a schema; an empty one when the schema is gone.
    pub fn schema_name(&mut self, oid: Oid) -> String {
        self.catalog.state().schema(oid).map(|s| s.name.clone()).unwrap_or_default()
    }

    /// Returns `schema.name` as SQL text.
    pub fn qualified_name(&mut self, relation: &Relation) -> String {
        let schema = quote_identifier(&self.schema_name(relation.schema));
        format!("{schema}.{}", quote_identifier(&relation.name))
    }

    /// Checks that a role may own objects. Only the session's own role does.
    ///
    /// # Errors
    /// 42704 for a role that does not exist, 0A000 for `pg_database_owner`.
    pub fn may_own(&self, role: &str) -> Result<()> {
        if role == self.identity.user() {
            return Ok(());
        }
        // This role owns a schema, as in PostgreSQL, and nothing can be given to it.
        if role == DATABASE_OWNER.1 {
            return Err(SqlError::unsupported(format!("{role} as an owner")));
        }
        Err(SqlError::new("42704", format!("role \"{role}\" does not exist")))
    }
}
