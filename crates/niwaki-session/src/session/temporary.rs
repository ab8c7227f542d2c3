//! The session's temporary relations when a transaction or the session ends.

use std::sync::Arc;

use niwaki_catalog::{CatalogState, Oid, Relation, RelationKind};
use niwaki_env::stack;
use niwaki_sql::utility::OnCommit;
use niwaki_sql::{Result, SqlError};
use niwaki_storage::{RelFile, RelFileId};
use niwaki_txn::{BeginOptions, Durability};

use crate::session::handle::Session;

impl Session {
    /// Returns the schema of the session's temporary relations.
    pub fn temporary_schema(&mut self) -> Oid {
        let number = self.id();
        self.catalog.temporary_schema(number)
    }

    /// Remembers the ON COMMIT action of a new temporary table.
    pub fn note_on_commit(&mut self, oid: Oid, action: OnCommit) {
        self.block.note_on_commit(oid, action);
    }

    /// Empties or drops the temporary tables with such an ON COMMIT action, in the transaction that
    /// is about to commit.
    pub(crate) fn act_on_commit(&mut self) -> Result<()> {
        if !self.block.has_on_commit() {
            return Ok(());
        }
        // A transaction without a transaction number has written no rows.
        if self.open_transaction()?.xid().is_none() {
            return Ok(());
        }
        // Rows go before tables: an emptied table references no dropped table.
        for oid in self.block.tables_on_commit(OnCommit::DeleteRows) {
            self.empty_at_commit(oid)?;
        }
        for oid in self.block.tables_on_commit(OnCommit::Drop) {
            self.drop_at_commit(oid)?;
        }
        Ok(())
    }

    /// Forgets the actions of tables that are gone, after a commit.
    pub(crate) fn forget_on_commit(&mut self) {
        if self.block.has_on_commit() {
            let state = self.catalog.state();
            self.block.keep_on_commit(|oid| state.relation(oid).is_some());
        }
    }

    fn empty_at_commit(&mut self, oid: Oid) -> Result<()> {
        let state = self.catalog.state();
        let Some(table) = state.relation(oid) else { return Ok(()) };
        self.refuse_emptying(&state, table)?;
        if table.table.as_ref().is_none_or(|t| t.blocks().is_ok_and(|n| n == 0)) {
            return Ok(());
        }
        for relation in belonging(&state, table) {
            if relation.kind != RelationKind::Sequence {
                self.renew_file(relation.definition.clone())?;
            }
        }
        Ok(())
    }

    fn drop_at_commit(&mut self, oid: Oid) -> Result<()> {
        if self.catalog.state().relation(oid).is_none() {
            return Ok(());
        }
        self.release_references(oid)?;
        self.release_readers(oid)?;
        let state = self.catalog.state();
        let Some(table) = state.relation(oid) else { return Ok(()) };
        self.drop_all(belonging(&state, table))
    }

    /// 0A000 when a table that is not emptied references one that is.
    fn refuse_emptying(&self, state: &CatalogState, table: &Relation) -> Result<()> {
        let emptied = self.block.tables_on_commit(OnCommit::DeleteRows);
        for key in state.foreign_keys_to(table.oid) {
            let Some((other, _)) = state.foreign_key(*key) else { continue };
            if !emptied.contains(&other.oid) {
                let message = "unsupported ON COMMIT and foreign key combination";
                return Err(SqlError::new("0A000", message).with_detail(format!(
                    "Table \"{}\" references \"{}\", but they do not have the same ON COMMIT setting.",
                    other.name, table.name
                )));
            }
        }
        Ok(())
    }

    /// Drops the session's temporary relations, for DISCARD TEMP.
    pub(crate) fn discard_temporary(&mut self) -> Result<()> {
        let state = self.catalog.state();
        let Some(schema) = state.temporary_schema() else { return Ok(()) };
        let relations: Vec<_> = state.relations().filter(|r| r.schema == schema).cloned().collect();
        if !relations.is_empty() {
            // READ ONLY allows this. The commit needs a transaction id for the files that go.
            let transaction = self.open_transaction()?;
            let before = transaction.set_writes_temporary(true);
            let written = transaction.write_xid();
            transaction.set_writes_temporary(before);
            written?;
        }
        self.drop_all(relations)
    }

    fn drop_all(&mut self, relations: Vec<Arc<Relation>>) -> Result<()> {
        for relation in relations {
            self.drop_file(&relation.definition)?;
            let (transaction, catalog) = self.transaction_and_catalog()?;
            catalog.remove(transaction, relation.oid)?;
        }
        Ok(())
    }

    /// Removes the files of temporary relations, because the session ends and nothing names them
    /// any more. A file that cannot be removed now is removed like any orphan, when the database is
    /// opened after a crash.
    pub(crate) fn end_temporary(&mut self) {
        let relations = self.catalog.temporary_relations();
        if relations.is_empty() {
            return;
        }
        let engine = self.engine();
        let Ok(transaction) =
            engine.transactions().begin(self.identity.control(), BeginOptions::default())
        else {
            return;
        };
        for relation in &relations {
            for file in relation.files() {
                let file = RelFile { id: RelFileId(file), logged: relation.logged };
                engine.drop_at_commit(&transaction, file);
            }
        }
        if transaction.commit(Durability::Async).is_ok() {
            relations
                .iter()
                .flat_map(|r| r.files())
                .for_each(|file| engine.forget(RelFileId(file)));
        }
    }

    /// Removes the foreign keys of other tables that reference a table which is dropped without a
    /// check for dependents, as ON COMMIT DROP does.
    pub(crate) fn release_references(&mut self, to: Oid) -> Result<()> {
        let state = self.catalog.state();
        for key in state.foreign_keys_to(to) {
            let Some((table, _)) = state.foreign_key(*key) else { continue };
            // The table may have lost another foreign key just now.
            let state = self.catalog.state();
            let Some(table) = state.relation(table.oid) else { continue };
            let mut definition = table.definition.clone();
            definition.foreign_keys.retain(|other| other.oid != *key);
            self.update_definition(definition)?;
        }
        Ok(())
    }

    /// Removes the views that read a relation which is dropped without a check for dependents, as
    /// ON COMMIT DROP does. Also removes the views that read these views.
    pub(crate) fn release_readers(&mut self, of: Oid) -> Result<()> {
        let state = self.catalog.state();
        for view in state.views_of(of) {
            stack::deeper(|| self.release_readers(*view))?;
            // The view may read another relation as well, and may have been removed with it just
            // now.
            if self.catalog.state().relation(*view).is_some() {
                let (transaction, catalog) = self.transaction_and_catalog()?;
                catalog.remove(transaction, *view)?;
            }
        }
        Ok(())
    }
}

/// Returns a table with its indexes, and the sequences that it owns.
fn belonging(state: &CatalogState, table: &Arc<Relation>) -> Vec<Arc<Relation>> {
    let belongs = |r: &&Arc<Relation>| {
        r.oid == table.oid
            || r.index.as_ref().is_some_and(|index| index.table == table.oid)
            || r.sequence
                .as_ref()
                .and_then(|s| s.owned_by)
                .is_some_and(|(owner, _)| owner == table.oid)
    };
    state.relations().filter(belongs).cloned().collect()
}
