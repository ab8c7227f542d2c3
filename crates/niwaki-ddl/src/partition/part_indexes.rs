//! Indexes of partitioned tables: one index on each partition, below a definition that has no
//! entries.

use niwaki_catalog::{
    ColumnMap, ConstraintKind, IndexColumn, IndexDefinition, Oid, Relation, RelationDefinition,
    RelationKind,
};
use niwaki_session::parts_of;
use niwaki_sql::utility::Name;
use niwaki_sql::{Result, SqlError};
use niwaki_txn::TableLockMode;

use crate::definer::{Definer, is_not, table_of};
use crate::generated_names;
use crate::index::new_index::{NewIndex, Takes};
use crate::partition::alter_only::has_partitions;
use crate::partition::attach::refuse_without_key;

impl Definer<'_> {
    /// Stores an index of a partitioned table, and makes its parts.
    pub(crate) fn add_index_above(&mut self, new: NewIndex, takes: Takes) -> Result<Oid> {
        let table = self.current(new.definition.table)?;
        let index = self.add_index_alone(new)?;
        for member in table.partitions.iter().flat_map(|partitions| &partitions.members) {
            self.add_part(index, member.relation.oid, takes)?;
        }
        self.complete(index)?;
        Ok(index)
    }

    /// Stores an index of a partitioned table without parts. It is not valid, unless there are no
    /// partitions. For any other table, this is [`Definer::add_index`].
    pub(crate) fn add_index_alone(&mut self, mut new: NewIndex) -> Result<Oid> {
        let table = self.current(new.definition.table)?;
        if !table.is_partitioned() {
            return self.add_index(new);
        }
        if new.definition.unique {
            let columns: Vec<u16> = new.definition.key.iter().map(|key| key.column).collect();
            let word = match new.definition.constraint {
                Some(ConstraintKind::PrimaryKey) => "PRIMARY KEY",
                _ => "UNIQUE",
            };
            refuse_without_key(&table, &columns, word)?;
        }
        new.definition.valid = !has_partitions(&table);
        self.store_index(new)
    }

    /// Makes an index of a partitioned table valid if each partition has a valid part of it.
    /// Returns false if nothing changes.
    fn complete(&mut self, index: Oid) -> Result<bool> {
        let above = self.current(index)?;
        let of = above.index.as_ref().ok_or_else(|| SqlError::internal("no index"))?;
        let table = self.current(of.table)?;
        let has_part = |partition: &Relation| {
            let mut parts = partition.indexes.iter().map(|entry| &entry.definition);
            parts.any(|part| part.part_of == Some(index) && part.valid)
        };
        let mut members = table.partitions.iter().flat_map(|partitions| &partitions.members);
        if of.valid || !members.all(|member| has_part(&member.relation)) {
            return Ok(false);
        }
        self.change_index(index, |own| own.valid = true)?;
        Ok(true)
    }

    /// Runs ALTER INDEX … ATTACH PARTITION: an index of a partition becomes a part of an index
    /// above it. That index may become valid then, and so may the indexes above.
    pub(crate) fn attach_index(&mut self, name: &Name, part: &Name) -> Result<()> {
        let mode = TableLockMode::ShareUpdateExclusive;
        let gone = || SqlError::internal("an index has gone");
        let table =
            |found: &Relation| table_of(found).ok_or_else(|| is_not(found, RelationKind::Index));
        let (above, table) = self.lock_index(name, [mode, mode], table)?;
        let table = self.current(table)?;
        if !table.is_partitioned() {
            let what = "ALTER action ATTACH PARTITION cannot be performed on relation";
            return Err(SqlError::new("42809", format!("{what} \"{}\"", above.name))
                .with_detail("This operation is not supported for indexes."));
        }
        let table_of_part = |found: &Relation| {
            table_of(found).ok_or_else(|| {
                SqlError::new("42P17", format!("\"{}\" is not an index", found.name))
            })
        };
        let (own, _) = self.lock_index(part, [mode, mode], table_of_part)?;
        if own.index.as_ref().is_some_and(|index| index.part_of == Some(above.oid)) {
            return Ok(());
        }
        self.refuse_attaching(&above, &own)?;
        self.change_index(own.oid, |index| index.part_of = Some(above.oid))?;
        let mut next = Some(above.oid);
        // Ends: each index is of a table further up.
        while let Some(index) = next {
            if !self.complete(index)? {
                break;
            }
            next = self.current(index)?.index.as_ref().and_then(|index| index.part_of);
            if let Some(above) = next {
                let table = self.current(above)?.index.as_ref().map(|index| index.table);
                self.lock(table.ok_or_else(gone)?, mode)?;
                self.lock(above, mode)?;
            }
        }
        Ok(())
    }

    /// Fails if an index of a partition cannot become a part of an index above it.
    fn refuse_attaching(&mut self, above: &Relation, own: &Relation) -> Result<()> {
        let (Some(index), Some(part)) = (&above.index, &own.index) else {
            return Err(SqlError::internal("no index"));
        };
        let (table, partition) = (self.current(index.table)?, self.current(part.table)?);
        let refused = |sqlstate, detail: String| {
            let (own, above) = (&own.name, &above.name);
            let message =
                format!("cannot attach index \"{own}\" as a partition of index \"{above}\"");
            Err(SqlError::new(sqlstate, message).with_detail(detail))
        };
        if partition.indexes.iter().any(|entry| entry.definition.part_of == Some(above.oid)) {
            let detail =
                format!("Another index is already attached for partition \"{}\".", partition.name);
            return refused("55000", detail);
        }
        if part.part_of.is_some() {
            let detail = format!("Index \"{}\" is already attached to another index.", own.name);
            return refused("55000", detail);
        }
        if partition.partition_of.as_ref().is_none_or(|of| of.parent != table.oid) {
            return refused(
                "55000",
                format!(
                    "Index \"{}\" is not an index on any partition of table \"{}\".",
                    own.name, table.name
                ),
            );
        }
        let columns = ColumnMap::between(&table.definition, &partition.definition);
        if !is_same(part, &moved(index, above.oid, partition.oid, &columns)?) {
            return refused("42P17", "The index definitions do not match.".to_owned());
        }
        if index.constraint.is_some() && part.constraint.is_none() {
            let (own, above, table) = (&own.name, &above.name, &table.name);
            return refused(
                "42P17",
                format!(
                    "The index \"{above}\" belongs to a constraint in table \"{table}\" but no constraint exists for index \"{own}\"."
                ),
            );
        }
        Ok(())
    }

    /// Makes the parts of all indexes of a table for one partition.
    pub(crate) fn part_indexes(&mut self, parent: &Relation, partition: Oid) -> Result<()> {
        for entry in &parent.indexes {
            self.add_part(entry.oid, partition, Takes::Valid)?;
        }
        Ok(())
    }

    /// Makes an index of a partition a part of an index of its table: an existing one, or a new
    /// one.
    fn add_part(&mut self, above: Oid, partition: Oid, takes: Takes) -> Result<()> {
        let index = self.current(above)?;
        let index = index.index.clone().ok_or_else(|| SqlError::internal("no index"))?;
        let parent = self.current(index.table)?;
        let own = self.current(partition)?;
        let columns = ColumnMap::between(&parent.definition, &own.definition);
        let wanted = moved(&index, above, partition, &columns)?;
        let may = |part: &IndexDefinition| {
            part.part_of.is_none()
                && (part.valid || takes == Takes::All)
                && (part.constraint.is_some() || wanted.constraint.is_none())
                && is_same(part, &wanted)
        };
        if let Some(found) = own.indexes.iter().find(|entry| may(&entry.definition)) {
            return self.change_index(found.oid, |index| index.part_of = Some(above));
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
        // An expression has the name of its column in the index above.
        let columns = self.current(above)?.shown_columns(&state);
        let shown = wanted.key.iter().zip(columns).map(|(key, column)| match &key.expression {
            Some(_) => column.name,
            None => key.shown(&own.definition).to_owned(),
        });
        let included = wanted.include.iter().filter_map(|c| own.columns.get(usize::from(*c)));
        let all: Vec<String> = shown.chain(included.map(|column| column.name.clone())).collect();
        let joined = generated_names::joined(&all);
        let second = (label != "pkey").then_some(joined.as_str());
        let name = generated_names::free_name(&state, own.schema, &[], &own.name, second, label);
        let options = self.current(above)?.options.clone();
        let new = NewIndex { name, definition: wanted, options };
        if own.is_partitioned() {
            self.add_index_above(new, takes).map(drop)
        } else {
            self.add_index(new).map(drop)
        }
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

    /// Removes an index with all its parts.
    pub(crate) fn remove_index(&mut self, oid: Oid) -> Result<()> {
        for part in parts_of(&self.state(), oid) {
            if let Some(index) = &part.index {
                self.lock(index.table, TableLockMode::AccessExclusive)?;
            }
            self.remove_index(part.oid)?;
        }
        self.remove_with_files(oid)
    }
}

/// Returns the definition of an index over a partition's own columns.
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
    moved.valid = true;
    moved.constraint_comment = None;
    Ok(moved)
}

/// Decides whether an index fits as a part of another index. The sort direction and NULLS position
/// of its keys, its name and its options do not matter.
fn is_same(index: &IndexDefinition, wanted: &IndexDefinition) -> bool {
    let keys = |index: &IndexDefinition| -> Vec<IndexColumn> {
        let plain = |key: &IndexColumn| IndexColumn {
            descending: false,
            nulls_first: false,
            ..key.clone()
        };
        index.key.iter().map(plain).collect()
    };
    index.unique == wanted.unique
        && index.nulls_not_distinct == wanted.nulls_not_distinct
        && index.check_time == wanted.check_time
        && index.include == wanted.include
        && index.predicate == wanted.predicate
        && keys(index) == keys(wanted)
}
