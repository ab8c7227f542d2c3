//! Files of relations: new ones, and those that go when the transaction commits.

use niwaki_catalog::RelationDefinition;
use niwaki_heap::FreeingPaused;
use niwaki_sql::Result;
use niwaki_storage::{RelFile, RelFileId};

use crate::session::handle::Session;

impl Session {
    /// Changes the definition of a relation.
    ///
    /// # Errors
    /// Errors of the catalog's table.
    pub fn update_definition(&mut self, definition: RelationDefinition) -> Result<()> {
        let (transaction, catalog) = self.transaction_and_catalog()?;
        Ok(catalog.update(transaction, definition)?)
    }

    /// Creates new, empty files.
    ///
    /// # Errors
    /// Write errors.
    pub fn new_file(&self, logged: bool) -> Result<u64> {
        Ok(self.engine().create_file(self.open_transaction()?, logged)?.id.0)
    }

    /// Creates empty files for the large values of a table, if it can have some and has no such
    /// files.
    ///
    /// # Errors
    /// Write errors.
    pub fn allot_values(&self, table: &mut RelationDefinition) -> Result<()> {
        if table.values.is_none() && table.can_have_large_values() {
            table.values = Some(self.new_file(table.logged)?);
        }
        Ok(())
    }

    /// Drops the files of a relation when the transaction commits. A rollback restores an index,
    /// with entries for chain roots that all other indexes may have reported removed meanwhile. So
    /// no line pointer is freed until then.
    ///
    /// # Errors
    /// XX000 when no transaction is open, which is a fault of the caller.
    pub fn drop_file(&mut self, definition: &RelationDefinition) -> Result<()> {
        if let Some(index) = &definition.index
            && let Some(table) = self.catalog.state().relation(index.table)
            && let Some(table) = &table.table
        {
            self.block.pause_freeing(table.heap().pause_freeing().changing());
        }
        self.drop_files_at_commit(definition)
    }

    /// Drops the files of a relation when the transaction commits.
    pub(crate) fn drop_files_at_commit(&self, definition: &RelationDefinition) -> Result<()> {
        for file in definition.files() {
            let id = RelFileId(file);
            let file = RelFile { id, logged: definition.logged };
            self.engine().drop_at_commit(self.open_transaction()?, file);
        }
        Ok(())
    }

    /// Gives a relation new, empty files. The old ones go when the transaction commits.
    ///
    /// # Errors
    /// Write errors; errors of the catalog's table.
    pub fn renew_file(&mut self, definition: RelationDefinition) -> Result<()> {
        self.drop_file(&definition)?;
        self.replace_file(definition)
    }

    /// Does [`Session::renew_file`] for an index that is not in use yet, while other sessions write
    /// to its table. The session that builds the index keeps line pointers from being freed.
    ///
    /// # Errors
    /// Write errors; errors of the catalog's table.
    pub fn renew_file_beside_writers(&mut self, definition: RelationDefinition) -> Result<()> {
        self.drop_files_at_commit(&definition)?;
        self.replace_file(definition)
    }

    fn replace_file(&mut self, mut definition: RelationDefinition) -> Result<()> {
        definition.file = self.new_file(definition.logged)?;
        definition.values = None;
        if definition.kind.has_rows() {
            let (table, file) = (self.table_id(definition.oid), RelFileId(definition.file));
            self.engine().note_emptied(table, file);
        }
        self.allot_values(&mut definition)?;
        self.update_definition(definition)
    }

    /// Keeps line pointers of a table from being freed until the transaction ends.
    pub fn pause_freeing(&mut self, paused: FreeingPaused) {
        self.block.pause_freeing(paused);
    }

    /// Notes that the index is built for which freeing was paused last.
    pub fn note_built(&mut self) {
        self.block.note_built();
    }
}
