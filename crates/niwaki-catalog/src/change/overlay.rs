//! The catalog as a transaction with DDL sees it, until its changes become visible to all.

use std::sync::Arc;

use niwaki_env::seeded_bug;
use niwaki_txn::Transaction;

use crate::change::apply::{Change, apply};
use crate::change::catalog::Catalog;
use crate::change::temporary::Temporary;
use crate::definition::database::DatabaseDefinition;
use crate::definition::function_definition::FunctionDefinition;
use crate::definition::relation_definition::RelationDefinition;
use crate::definition::relation_object::relation_object;
use crate::definition::remark::definition_of;
use crate::definition::schema::SchemaEntry;
use crate::definition::type_definition::TypeDefinition;
use crate::error::{Error, Result};
use crate::rows::objects::{Object, ObjectKind};
use crate::rows::oid::Oid;
use crate::state::catalog_state::CatalogState;
use crate::state::relation::Relation;

/// Changes of one transaction in the catalog. There are none before its first DDL statement, and
/// they cost nothing until then.
///
/// The caller must end these changes with the transaction. At a commit the caller calls
/// [`CatalogTransaction::take_for_commit`], and publishes the changes after the commit while the
/// transaction's locks are still held. At a rollback it calls [`CatalogTransaction::rolled_back`].
#[derive(Debug)]
pub struct CatalogTransaction {
    catalog: Arc<Catalog>,
    /// Relations that only this session has.
    temporary: Temporary,
    /// Changes of temporary relations in a committing transaction, and the state that its
    /// statements saw last.
    committing: Option<(Vec<Change>, Arc<CatalogState>)>,
    changes: Vec<Change>,
    overlay: Option<Overlay>,
    /// Counter that gives each overlay a version of its own.
    overlays: u64,
}

#[derive(Debug)]
struct Overlay {
    base: u64,
    temporary: u64,
    changes: usize,
    state: Arc<CatalogState>,
}

/// First version of overlays. No published state ever has such a version.
const OVERLAY_VERSIONS: u64 = 1 << 63;

impl CatalogTransaction {
    /// Creates the changes of one session, which uses them for one transaction after the other.
    pub fn new(catalog: Arc<Catalog>) -> Self {
        let temporary = Temporary::default();
        Self {
            catalog,
            temporary,
            committing: None,
            changes: Vec::new(),
            overlay: None,
            overlays: 0,
        }
    }

    /// Returns the catalog.
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// Decides whether the transaction has changed nothing yet.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Decides whether statements see the committed state unchanged.
    #[inline]
    fn is_plain(&self) -> bool {
        self.changes.is_empty() && self.temporary.is_empty()
    }

    /// Returns the version of the state that the transaction's statements see now.
    #[inline]
    pub fn version(&mut self) -> u64 {
        if self.is_plain() { self.catalog.version() } else { self.state().version() }
    }

    /// Returns the state that the transaction's statements see now.
    pub fn state(&mut self) -> Arc<CatalogState> {
        if self.is_plain() {
            return self.catalog.state_arc();
        }
        let base = self.catalog.state();
        if let Some(overlay) = &self.overlay
            && overlay.base == base.version()
            && overlay.temporary == self.temporary.version
            && overlay.changes == self.changes.len()
        {
            return Arc::clone(&overlay.state);
        }
        let mut state = CatalogState::clone(&base);
        self.temporary.lay_over(&mut state);
        apply(self.catalog.engine(), self.catalog.compiler(), &mut state, &self.changes);
        self.overlays += 1;
        state.set_version(OVERLAY_VERSIONS + self.overlays);
        let state = Arc::new(state);
        self.overlay = Some(Overlay {
            base: base.version(),
            temporary: self.temporary.version,
            changes: self.changes.len(),
            state: Arc::clone(&state),
        });
        state
    }

    /// Returns a mark for [`CatalogTransaction::rollback_to`]: a savepoint.
    pub fn mark(&self) -> usize {
        self.changes.len()
    }

    /// Forgets the changes since the mark. The transaction rolls their rows back.
    pub fn rollback_to(&mut self, mark: usize) {
        self.changes.truncate(mark);
        if !seeded_bug!("savepoint_keeps_definition") {
            self.overlay = None;
        }
    }

    /// Forgets all changes after the transaction was rolled back.
    pub fn rolled_back(&mut self) {
        self.committing = None;
        if !seeded_bug!("rolled_back_definition_stays") {
            self.changes.clear();
        }
        self.overlay = None;
    }

    /// Returns the changes so far, which a hook inside the commit publishes. Changes of temporary
    /// relations wait for [`CatalogTransaction::committed`].
    pub fn take_for_commit(&mut self) -> Option<CatalogChanges> {
        if self.changes.is_empty() {
            return None;
        }
        let state = self.state();
        let changes = std::mem::take(&mut self.changes);
        self.overlay = None;
        let (own, shared): (Vec<_>, Vec<_>) = self.temporary.split(changes);
        if !own.is_empty() {
            self.committing = Some((own, Arc::clone(&state)));
        }
        let catalog = Arc::clone(&self.catalog);
        (!shared.is_empty()).then_some(CatalogChanges { catalog, changes: shared, _seen: state })
    }

    /// Adds the committed transaction's temporary relations to the session.
    pub fn committed(&mut self) {
        if let Some((changes, state)) = self.committing.take() {
            self.temporary.committed(self.catalog.engine(), &changes, &state);
        }
    }

    /// Returns the schema of this session's temporary relations, and creates it first if necessary.
    /// `number` distinguishes it from other sessions' schemas.
    pub fn temporary_schema(&mut self, number: i32) -> Oid {
        let catalog = &self.catalog;
        let name = format!("pg_temp_{number}");
        self.temporary.schema(|| SchemaEntry::new(catalog.new_oid(), name))
    }

    /// Returns the temporary relations that committed transactions of this session left, in the
    /// order of their creation.
    pub fn temporary_relations(&self) -> Vec<Arc<Relation>> {
        self.temporary.relations().cloned().collect()
    }

    /// Adds a relation.
    ///
    /// # Errors
    /// [`crate::Error::Duplicate`] when the schema has a relation of this name.
    pub fn create(
        &mut self,
        transaction: &Transaction,
        definition: RelationDefinition,
    ) -> Result<()> {
        if !self.temporary.is_schema(definition.schema) {
            self.catalog.objects.insert(transaction, &relation_object(&definition)?)?;
        } else if self.state().lookup(definition.schema, &definition.name).is_some() {
            return Err(Error::Duplicate { kind: "relation", name: definition.name });
        }
        self.changes.push(Change::Put(Arc::new(definition)));
        Ok(())
    }

    /// Replaces a relation's definition. The caller holds a lock that excludes other changes.
    ///
    /// # Errors
    /// [`crate::Error::Duplicate`] when a new name is taken.
    pub fn update(
        &mut self,
        transaction: &Transaction,
        definition: RelationDefinition,
    ) -> Result<()> {
        if !self.temporary.is_schema(definition.schema) {
            self.catalog.objects.update(transaction, &relation_object(&definition)?)?;
        } else if let Some(other) = self.state().lookup(definition.schema, &definition.name)
            && other.oid != definition.oid
        {
            return Err(Error::Duplicate { kind: "relation", name: definition.name });
        }
        self.changes.push(Change::Put(Arc::new(definition)));
        if seeded_bug!("definition_before_commit") {
            self.catalog.publish(&self.changes);
        }
        Ok(())
    }

    /// Removes a relation. The caller removes the files.
    ///
    /// # Errors
    /// Storage errors.
    pub fn remove(&mut self, transaction: &Transaction, oid: Oid) -> Result<()> {
        let state = self.state();
        if !state.relation(oid).is_some_and(|r| self.temporary.is_schema(r.schema)) {
            self.catalog.objects.delete(transaction, oid)?;
        }
        self.changes.push(Change::Remove(oid));
        Ok(())
    }

    /// Adds a type.
    ///
    /// # Errors
    /// [`crate::Error::Duplicate`] when the schema has a type or relation of this name.
    pub fn create_type(
        &mut self,
        transaction: &Transaction,
        definition: TypeDefinition,
    ) -> Result<()> {
        self.catalog.objects.insert(transaction, &definition.object()?)?;
        self.changes.push(Change::PutType(Arc::new(definition)));
        Ok(())
    }

    /// Replaces a type's definition. The caller holds a lock that excludes other changes.
    ///
    /// # Errors
    /// Storage errors.
    pub fn update_type(
        &mut self,
        transaction: &Transaction,
        definition: TypeDefinition,
    ) -> Result<()> {
        self.catalog.objects.update(transaction, &definition.object()?)?;
        self.changes.push(Change::PutType(Arc::new(definition)));
        Ok(())
    }

    /// Removes a type that no object uses.
    ///
    /// # Errors
    /// Storage errors.
    pub fn remove_type(&mut self, transaction: &Transaction, oid: Oid) -> Result<()> {
        self.catalog.objects.delete(transaction, oid)?;
        self.changes.push(Change::RemoveType(oid));
        Ok(())
    }

    /// Adds a function.
    ///
    /// # Errors
    /// [`crate::Error::Duplicate`] when the schema has a function of this name with these
    /// arguments.
    pub fn create_function(
        &mut self,
        transaction: &Transaction,
        definition: FunctionDefinition,
    ) -> Result<()> {
        self.catalog.objects.insert(transaction, &definition.object()?)?;
        self.changes.push(Change::PutFunction(Arc::new(definition)));
        Ok(())
    }

    /// Replaces a function's definition. The caller holds a lock that excludes other changes.
    ///
    /// # Errors
    /// As [`CatalogTransaction::create_function`], for a new name or schema.
    pub fn update_function(
        &mut self,
        transaction: &Transaction,
        definition: FunctionDefinition,
    ) -> Result<()> {
        self.catalog.objects.update(transaction, &definition.object()?)?;
        self.changes.push(Change::PutFunction(Arc::new(definition)));
        Ok(())
    }

    /// Removes a function that no object uses.
    ///
    /// # Errors
    /// Storage errors.
    pub fn remove_function(&mut self, transaction: &Transaction, oid: Oid) -> Result<()> {
        self.catalog.objects.delete(transaction, oid)?;
        self.changes.push(Change::RemoveFunction(oid));
        Ok(())
    }

    /// Adds a schema.
    ///
    /// # Errors
    /// [`crate::Error::Duplicate`] when a schema of this name exists.
    pub fn create_schema(&mut self, transaction: &Transaction, name: &str) -> Result<Oid> {
        let oid = self.catalog.new_oid();
        let object = Object {
            oid,
            schema: Oid::INVALID,
            name: name.to_owned(),
            kind: ObjectKind::Schema,
            definition: "{}".to_owned(),
        };
        self.catalog.objects.insert(transaction, &object)?;
        self.changes.push(Change::PutSchema(SchemaEntry::new(oid, name)));
        Ok(oid)
    }

    /// Replaces a schema's name or comment. The caller excludes other changes.
    ///
    /// # Errors
    /// [`crate::Error::Duplicate`] when a new name is taken.
    pub fn update_schema(&mut self, transaction: &Transaction, schema: SchemaEntry) -> Result<()> {
        let object = Object {
            oid: schema.oid,
            schema: Oid::INVALID,
            name: schema.name.clone(),
            kind: ObjectKind::Schema,
            definition: definition_of(schema.comment.as_deref()),
        };
        self.catalog.objects.update(transaction, &object)?;
        self.changes.push(Change::PutSchema(schema));
        Ok(())
    }

    /// Adds a database whose files exist and whose catalog is filled.
    ///
    /// # Errors
    /// [`crate::Error::Duplicate`] when a database of this name exists.
    pub fn create_database(
        &mut self,
        transaction: &Transaction,
        definition: DatabaseDefinition,
    ) -> Result<()> {
        self.catalog.shared().objects().insert(transaction, &definition.object()?)?;
        self.changes.push(Change::PutDatabase(Arc::new(definition)));
        Ok(())
    }

    /// Replaces a database's definition. The caller excludes other changes.
    ///
    /// # Errors
    /// As [`CatalogTransaction::create_database`], for a new name.
    pub fn update_database(
        &mut self,
        transaction: &Transaction,
        definition: DatabaseDefinition,
    ) -> Result<()> {
        self.catalog.shared().objects().put(transaction, &definition.object()?)?;
        self.changes.push(Change::PutDatabase(Arc::new(definition)));
        Ok(())
    }

    /// Removes the database with this catalog, which must not be the first. The caller handles its
    /// files and connections. From the commit on, the catalog is empty.
    ///
    /// # Errors
    /// Storage errors.
    pub fn remove_database(
        &mut self,
        transaction: &Transaction,
        dropped: &Arc<Catalog>,
    ) -> Result<()> {
        self.catalog.shared().objects().delete(transaction, dropped.database_oid())?;
        self.changes.push(Change::RemoveDatabase(Arc::clone(dropped)));
        Ok(())
    }

    /// Removes an empty schema.
    ///
    /// # Errors
    /// Storage errors.
    pub fn remove_schema(&mut self, transaction: &Transaction, oid: Oid) -> Result<()> {
        self.catalog.objects.delete(transaction, oid)?;
        self.changes.push(Change::RemoveSchema(oid));
        Ok(())
    }
}

/// Changes of a committing transaction.
#[derive(Debug)]
pub struct CatalogChanges {
    catalog: Arc<Catalog>,
    changes: Vec<Change>,
    /// The state that the transaction's statements saw. It keeps new sequences and indexes open
    /// until other sessions see them.
    _seen: Arc<CatalogState>,
}

impl CatalogChanges {
    /// Makes the changes visible to all sessions. The transaction still holds its locks.
    pub fn publish(self) {
        self.catalog.publish(&self.changes);
    }
}
