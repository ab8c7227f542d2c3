//! Indexes of partitioned tables: one on each partition, and a definition above them that has no entries.

use std::sync::Arc;

use niwaki_catalog::{
    ColumnMap, ConstraintKind, IndexColumn, IndexDefinition, Oid, Relation, RelationDefinition,
};
use niwaki_sql::SqlError;
use niwaki_txn::TableLockMode;

use super::create_index::NewIndex;
use super::{Definer, names};
use crate::Result;

impl Definer<'_> {
    /// Makes the parts of an index of a partitioned table.
    pub(super) fn add_parts(&mut self, index: Oid) -> Result<()> {
        let table = self.current(index)?.index.as_ref().map(|index| index.table);
        let table = table.ok_or_else(|| SqlError::internal("no index"))?;
        let table = self.current(table)?;
        for member in table.partitions.iter().flat_map(|partitions| &partitions.members) {
            self.add_part(index, member.relation.oid)?;
        }
        Ok(())
    }

    /// Makes for a partition the parts of all indexes of its table.
    pub(super) fn part_indexes(&mut self, parent: &Relation, partition: Oid) -> Result<()> {
        for entry in &parent.indexes {
            self.add_part(entry.oid, partition)?;
        }
        Ok(())
    }

    /// Makes one of a partition's indexes a part of an index of its table: one that is there, or a new one.
    fn add_part(&mut self, above: Oid, partition: Oid) -> Result<()> {
        let index = self.current(above)?;
        let index = index.index.clone().ok_or_else(|| SqlError::internal("no index"))?;
        let parent = self.current(index.table)?;
        let own = self.current(partition)?;
        let columns = ColumnMap::between(&parent.definition, &own.definition);
        let wanted = moved(&index, above, partition, &columns)?;
        if let Some(found) = own.indexes.iter().find(|entry| fits(&entry.definition, &wanted)) {
            let mut definition = self.current(found.oid)?.definition.clone();
            if let Some(index) = &mut definition.index {
                index.part_of = Some(above);
            }
            return self.update(definition);
        }
        let state = self.state();
        let label = match index.constraint {
            Some(ConstraintKind::PrimaryKey) => {
                if own.primary_key().is_some() {
                    let message =
                        format!("multiple primary keys for table \"{}\" are not allowed", own.name);
                    return Err(SqlError::new("42P16", message));
                }
                self.set_not_null(&own, &wanted.key)?;
                "pkey"
            }
            Some(ConstraintKind::Unique) => "key",
            None => "idx",
        };
        let shown = wanted.key.iter().map(|key| match &key.expression {
            Some(_) => "expr".to_owned(),
            None => key.shown(&own.definition).to_owned(),
        });
        let included = wanted.include.iter().filter_map(|c| own.columns.get(usize::from(*c)));
        let all: Vec<String> = shown.chain(included.map(|column| column.name.clone())).collect();
        let joined = names::joined(&all);
        let second = (label != "pkey").then_some(joined.as_str());
        let name = names::free_name(&state, own.schema, &[], &own.name, second, label);
        let options = self.current(above)?.options.clone();
        self.add_index(NewIndex { name, definition: wanted, options }).map(drop)
    }

    fn set_not_null(&mut self, table: &Relation, key: &[IndexColumn]) -> Result<()> {
        let mut definition: RelationDefinition = table.definition.clone();
        for key in key {
            if let Some(column) = definition.columns.get_mut(usize::from(key.column)) {
                column.not_null = true;
            }
        }
        if definition == table.definition {
            return Ok(());
        }
        self.refuse_nulls(table, &definition)?;
        self.update(definition)
    }

    /// Removes an index with all parts of it.
    pub(super) fn remove_index(&mut self, oid: Oid) -> Result<()> {
        for part in self.parts_of(oid) {
            if let Some(index) = &part.index {
                self.lock(index.table, TableLockMode::AccessExclusive)?;
            }
            self.remove_index(part.oid)?;
        }
        self.remove_with_files(oid)
    }

    /// The parts of an index on the partitions one step down.
    pub(super) fn parts_of(&mut self, index: Oid) -> Vec<Arc<Relation>> {
        let state = self.state();
        let is_part = |relation: &&Arc<Relation>| {
            relation.index.as_ref().is_some_and(|own| own.part_of == Some(index))
        };
        let mut parts: Vec<Arc<Relation>> = state.relations().filter(is_part).cloned().collect();
        parts.sort_by_key(|part| part.oid);
        parts
    }
}

/// The definition of an index over a partition's own columns.
fn moved(
    index: &IndexDefinition,
    above: Oid,
    partition: Oid,
    columns: &ColumnMap,
) -> Result<IndexDefinition> {
    let place = |column: u16| {
        let place = columns.place(usize::from(column)).and_then(|place| u16::try_from(place).ok());
        place.ok_or_else(|| SqlError::internal("a partition without a column of its table"))
    };
    let mut moved = index.clone();
    for key in moved.key.iter_mut().filter(|key| key.expression.is_none()) {
        key.column = place(key.column)?;
    }
    for column in &mut moved.include {
        *column = place(*column)?;
    }
    moved.table = partition;
    moved.part_of = Some(above);
    moved.constraint_comment = None;
    Ok(moved)
}

/// Whether an index that is there is what is wanted, and no part of another one.
fn fits(index: &IndexDefinition, wanted: &IndexDefinition) -> bool {
    let constraint_comment = None;
    let same = IndexDefinition { part_of: wanted.part_of, constraint_comment, ..index.clone() };
    index.part_of.is_none() && same == *wanted
}
