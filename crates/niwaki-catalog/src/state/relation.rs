//! A relation that statements can use.

use std::sync::Arc;

use niwaki_table::{Sequence, Table};

use crate::definition::constraint::ConstraintKind;
use crate::definition::relation_definition::{
    Column, IndexDefinition, RelationDefinition, RelationKind,
};
use crate::rows::oid::Oid;
use crate::state::partitions::Partitions;
use crate::state::system::VirtualTable;

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

/// One relation of a [`crate::CatalogState`]. A relation is immutable. DDL publishes another one
/// with the same oid, so `Arc::ptr_eq` shows whether the relation changed.
#[derive(Debug)]
pub struct Relation {
    /// The stored definition. Its fields are reachable directly (`relation.name`).
    pub definition: RelationDefinition,
    /// Indexes of a table, in the order of oids, which is also the order of `table.indexes`.
    pub indexes: Vec<IndexEntry>,
    /// Set for a table with rows of its own.
    pub table: Option<Arc<Table>>,
    /// Set for a sequence.
    pub number_generator: Option<Arc<Sequence>>,
    /// Set for a partitioned table.
    pub partitions: Option<Arc<Partitions>>,
    /// Set for a system view. A user's view has its query in its definition.
    pub view: Option<Arc<dyn VirtualTable>>,
}

impl std::ops::Deref for Relation {
    type Target = RelationDefinition;
    fn deref(&self) -> &RelationDefinition {
        &self.definition
    }
}

impl Relation {
    /// Creates a relation with only the definition: names can be looked up, rows cannot be read.
    /// The catalog adds the rest.
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
    /// Creates a system view.
    pub fn of_view(definition: RelationDefinition, view: Arc<dyn VirtualTable>) -> Self {
        Self { view: Some(view), ..Self::unopened(definition) }
    }
    /// Returns a partitioned table as ONLY reads it: without its partitions, so without rows.
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
    /// Decides whether this is a system relation, whose rows are computed.
    pub fn is_system(&self) -> bool {
        self.view.is_some()
    }
    /// Returns the position, from 0, of the visible column of this name.
    pub fn column_position(&self, name: &str) -> Option<usize> {
        self.definition.columns.iter().position(|c| !c.dropped && c.name == name)
    }
    /// Iterates over the visible columns with their positions, in order, as `SELECT *` shows them.
    pub fn visible_columns(&self) -> impl Iterator<Item = (usize, &Column)> {
        self.definition.columns.iter().enumerate().filter(|(_, c)| !c.dropped)
    }
    /// Returns the primary key's index, as a position in [`Relation::indexes`].
    pub fn primary_key(&self) -> Option<usize> {
        self.indexes
            .iter()
            .position(|i| i.definition.constraint == Some(ConstraintKind::PrimaryKey))
    }
    /// Decides whether rows can be read from the relation: a table, a system view, or a sequence.
    pub fn is_readable(&self) -> bool {
        self.definition.kind != RelationKind::Index
    }
    /// Decides whether the table is partitioned, so that its rows are in its partitions.
    pub fn is_partitioned(&self) -> bool {
        self.definition.partition_key.is_some()
    }
}
