//! A relation, ready to be used by statements.

use std::sync::Arc;

use niwaki_table::{Sequence, Table};

use crate::definition::{Column, IndexDefinition, Oid, RelationDefinition, RelationKind};
use crate::partition::Partitions;
use crate::system::VirtualTable;

/// One index of a table, as the table's relation lists it.
#[derive(Clone, Debug)]
pub struct IndexEntry {
    /// The index's own relation.
    pub oid: Oid,
    /// Name.
    pub name: String,
    /// Keys, uniqueness, constraint.
    pub definition: IndexDefinition,
}

/// One relation of a [`crate::CatalogState`]. Immutable: DDL publishes another one under the same oid,
/// so that `Arc::ptr_eq` tells whether anything changed.
#[derive(Debug)]
pub struct Relation {
    /// What the catalog stores; its fields are reachable directly (`relation.name`).
    pub definition: RelationDefinition,
    /// Indexes of a table, in the order of oids: the same positions as `table.indexes`.
    pub indexes: Vec<IndexEntry>,
    /// Set when it is a table with rows of its own.
    pub table: Option<Arc<Table>>,
    /// Set when it is a sequence.
    pub number_generator: Option<Arc<Sequence>>,
    /// Set when it is a partitioned table.
    pub partitions: Option<Arc<Partitions>>,
    /// Set when it is a system view; a user's has its query in its definition.
    pub view: Option<Arc<dyn VirtualTable>>,
}

impl std::ops::Deref for Relation {
    type Target = RelationDefinition;
    fn deref(&self) -> &RelationDefinition {
        &self.definition
    }
}

impl Relation {
    /// Only the definition: names can be looked up, rows cannot be read. The catalog adds the rest.
    pub fn unopened(definition: RelationDefinition) -> Self {
        Self {
            definition,
            indexes: Vec::new(),
            table: None,
            number_generator: None,
            partitions: None,
            view: None,
        }
    }
    /// A system view.
    pub fn of_view(definition: RelationDefinition, view: Arc<dyn VirtualTable>) -> Self {
        Self { view: Some(view), ..Self::unopened(definition) }
    }
    /// A partitioned table as ONLY means it: without its partitions, so without rows.
    pub fn alone(&self) -> Self {
        let key = self.definition.partition_key.as_ref();
        Self {
            definition: self.definition.clone(),
            indexes: self.indexes.clone(),
            table: self.table.clone(),
            number_generator: self.number_generator.clone(),
            partitions: key.map(|key| Arc::new(Partitions::of(&self.definition, key, &[]))),
            view: self.view.clone(),
        }
    }
    /// Whether it is one of the system's relations, whose rows are computed.
    pub fn is_system(&self) -> bool {
        self.view.is_some()
    }
    /// Position (from 0) of the visible column of this name.
    pub fn column_position(&self, name: &str) -> Option<usize> {
        self.definition.columns.iter().position(|c| !c.dropped && c.name == name)
    }
    /// Visible columns with their positions, in order: what `SELECT *` shows.
    pub fn visible_columns(&self) -> impl Iterator<Item = (usize, &Column)> {
        self.definition.columns.iter().enumerate().filter(|(_, c)| !c.dropped)
    }
    /// The primary key's index, as position in [`Relation::indexes`].
    pub fn primary_key(&self) -> Option<usize> {
        self.indexes
            .iter()
            .position(|i| i.definition.constraint == Some(crate::ConstraintKind::PrimaryKey))
    }
    /// Whether rows can be read from it: a table, a system view, or a sequence.
    pub fn is_readable(&self) -> bool {
        self.definition.kind != RelationKind::Index
    }
}
