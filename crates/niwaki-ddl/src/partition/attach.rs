//! Partitioned tables: PARTITION BY, PARTITION OF, ATTACH and DETACH PARTITION.

use std::sync::Arc;

use niwaki_catalog::{
    Column, ForeignKey, Oid, PartitionBound, PartitionKey, PartitionOf, PartitionStrategy,
    Relation, RelationDefinition, RelationKind, is_hashable_key,
};
use niwaki_sql::utility::{
    AlterColumn, AlterCommand, BoundSpec, ColumnSpec, ConstraintSpecKind, CreateTable, Name,
    PartitionBy,
};
use niwaki_sql::{Result, SqlError};
use niwaki_txn::TableLockMode;
use niwaki_types::ColumnType;

use crate::column_rules::SYSTEM_COLUMNS;
use crate::definer::{Definer, is_not};
use crate::index::operator_class;

/// Greatest number of columns of a partition key, as in PostgreSQL.
const KEY_COLUMNS_MAX: usize = 32;

/// Greatest number of levels in a tree of partitions. Code that walks a tree recurses, so the depth
/// needs a bound.
const LEVELS_MAX: usize = 100;

impl Definer<'_> {
    /// Returns the partition key of a new table, whose columns are in `table` already.
    pub(crate) fn partition_key(
        &mut self,
        table: &RelationDefinition,
        spec: &PartitionBy,
    ) -> Result<PartitionKey> {
        if spec.columns.len() > KEY_COLUMNS_MAX {
            let message = format!("cannot partition using more than {KEY_COLUMNS_MAX} columns");
            return Err(SqlError::new("54011", message));
        }
        let mut columns = Vec::with_capacity(spec.columns.len());
        let mut collations = Vec::with_capacity(spec.columns.len());
        for (name, collation, at) in &spec.columns {
            let placed = |error: SqlError| error.with_position(*at);
            if SYSTEM_COLUMNS.contains(&name.as_str()) {
                let message = format!("cannot use system column \"{name}\" in partition key");
                return Err(placed(SqlError::new("42P17", message)));
            }
            let found = table.columns.iter().position(|c| !c.dropped && c.name == *name);
            let Some(position) = found else {
                let message = format!("column \"{name}\" named in partition key does not exist");
                return Err(placed(SqlError::new("42703", message)));
            };
            let column = &table.columns[position];
            if column.generated {
                let message = "cannot use generated column in partition key";
                return Err(placed(SqlError::new("42P17", message))
                    .with_detail(format!("Column \"{name}\" is a generated column.")));
            }
            let ty = column.column_type();
            let collation = self.collation(*collation, ty).map_err(placed)?;
            collations.push(collation.filter(|_| collation != column.collation));
            operator_class::choose(&self.state(), &self.session.types(), ty.oid, None).map_err(|error| {
                error.with_hint(
                    "You must specify a btree operator class or define a default btree operator class for the data type.",
                )
            })?;
            if ty.domain.is_some() || ty.oid.user_number().is_some() {
                return Err(placed(SqlError::unsupported("a partition key of a user's type")));
            }
            if spec.strategy == PartitionStrategy::Hash && !is_hashable_key(ty.oid) {
                let what = "PARTITION BY HASH of a column of this type";
                return Err(placed(SqlError::unsupported(what)));
            }
            columns.push(u16::try_from(position).map_err(|_| SqlError::internal("column"))?);
        }
        if collations.iter().all(Option::is_none) {
            collations.clear();
        }
        Ok(PartitionKey { strategy: spec.strategy, columns, collations })
    }

    /// Returns the parent of a new partition, locked, and the bound.
    pub(crate) fn parent_of_new(
        &mut self,
        spec: &CreateTable,
    ) -> Result<Option<(Arc<Relation>, PartitionBound)>> {
        let Some(of) = &spec.partition_of else { return Ok(None) };
        let mode = TableLockMode::ShareUpdateExclusive;
        let parent = self.session.lock_by_name(&of.parent, mode)?;
        refuse_unpartitioned(&parent, "")?;
        self.refuse_levels(&parent, 1)?;
        self.refuse_temporary(&parent)?;
        let bound = self.bound(&parent, &spec.name.name, &of.bound)?;
        Ok(Some((parent, bound)))
    }

    /// Fails with 54001 if `below` levels below a table would make its tree deeper than
    /// `LEVELS_MAX`.
    fn refuse_levels(&mut self, parent: &Relation, below: usize) -> Result<()> {
        let state = self.state();
        let parent_of = |oid: &Oid| Some(state.relation(*oid)?.partition_of.as_ref()?.parent);
        let above = std::iter::successors(Some(parent.oid), parent_of);
        if above.take(LEVELS_MAX).count() + below > LEVELS_MAX {
            return Err(SqlError::new("54001", "stack depth limit exceeded")
                .with_detail(format!("A tree of partitions has at most {LEVELS_MAX} levels.")));
        }
        Ok(())
    }

    /// Fails with 0A000 for a temporary table in a tree of partitions.
    pub(crate) fn refuse_temporary(&mut self, table: &Relation) -> Result<()> {
        if self.state().temporary_schema() == Some(table.schema) {
            return Err(SqlError::unsupported("a temporary partition or partitioned table"));
        }
        Ok(())
    }

    /// Locks and returns the default partition of a table. Its rows may belong to a new partition.
    pub(crate) fn lock_default(&mut self, parent: &Relation) -> Result<Option<Arc<Relation>>> {
        let partitions = parent.partitions.as_ref();
        let default = partitions.and_then(|all| all.members.get(all.default_member()?));
        let Some(default) = default else { return Ok(None) };
        self.lock_tree(&default.relation, TableLockMode::AccessExclusive)?;
        self.current(default.relation.oid).map(Some)
    }

    /// Locks a table and all tables below it.
    pub(crate) fn lock_tree(&mut self, table: &Relation, mode: TableLockMode) -> Result<()> {
        self.lock(table.oid, mode)?;
        let now = self.current(table.oid)?;
        for member in now.partitions.iter().flat_map(|partitions| &partitions.members) {
            self.lock_tree(&member.relation, mode)?;
        }
        Ok(())
    }

    /// Returns a table with all tables below it, from the top down.
    pub(crate) fn tree_of(&mut self, table: &Arc<Relation>) -> Vec<Arc<Relation>> {
        let mut found = vec![Arc::clone(table)];
        let mut at = 0;
        // Ends: a table is below one other at most.
        while let Some(next) = found.get(at).cloned() {
            let members = next.partitions.iter().flat_map(|partitions| &partitions.members);
            found.extend(members.map(|member| Arc::clone(&member.relation)));
            at += 1;
        }
        found
    }

    /// Fails if rows of the default partition now belong to another one.
    pub(crate) fn prove_default(&mut self, default: Option<&Relation>) -> Result<()> {
        let Some(default) = default else { return Ok(()) };
        if self.session.belongs(default.oid)? {
            return Ok(());
        }
        let message = format!(
            "updated partition constraint for default partition \"{}\" would be violated by some row",
            default.name
        );
        Err(SqlError::new("23514", message)
            .with_table(self.session.schema_name(default.schema), default.name.clone()))
    }

    pub(crate) fn attach_partition(
        &mut self,
        parent: &Arc<Relation>,
        name: &Name,
        spec: &BoundSpec,
    ) -> Result<()> {
        refuse_unpartitioned(parent, "table ")?;
        let child = self.session.lock_by_name(name, TableLockMode::AccessExclusive)?;
        if child.kind == RelationKind::Index {
            return Err(SqlError::new("42809", format!("\"{}\" is an index", child.name)));
        }
        if child.kind != RelationKind::Table {
            return Err(is_not(&child, RelationKind::Table));
        }
        self.lock_tree(&child, TableLockMode::AccessExclusive)?;
        self.refuse_temporary(&child)?;
        self.refuse_temporary(parent)?;
        if child.partition_of.is_some() {
            let message = format!("\"{}\" is already a partition", child.name);
            return Err(SqlError::new("42809", message));
        }
        if self.tree_of(&child).iter().any(|below| below.oid == parent.oid) {
            return Err(SqlError::new("42P07", "circular inheritance not allowed").with_detail(
                format!("\"{}\" is already a child of \"{}\".", parent.name, child.name),
            ));
        }
        for (_, column) in child.visible_columns() {
            if parent.column_position(&column.name).is_none() {
                let message = format!(
                    "table \"{}\" contains column \"{}\" not found in parent \"{}\"",
                    child.name, column.name, parent.name
                );
                return Err(SqlError::new("42804", message).with_detail(
                    "The new partition may contain only the columns present in parent.",
                ));
            }
        }
        self.refuse_levels(parent, levels(&child))?;
        let bound = self.bound(parent, &child.name, spec)?;
        refuse_different(parent, &child)?;
        let default = self.lock_default(parent)?;
        let mut definition = child.definition.clone();
        definition.partition_of = Some(PartitionOf { parent: parent.oid, bound });
        self.update(definition)?;
        self.part_indexes(parent, child.oid)?;
        self.part_triggers(parent, child.oid)?;
        let tree = self.tree_of(&child);
        let of_child = |key: &&ForeignKey| tree.iter().any(|below| below.oid == key.references);
        if let Some(key) = parent.foreign_keys.iter().find(of_child) {
            let message = format!(
                "cannot attach table \"{}\" as a partition because it is referenced by foreign key \"{}\"",
                child.name, key.name
            );
            return Err(SqlError::new("0A000", message));
        }
        for key in self.part_foreign_keys(parent, child.oid)? {
            self.prove_foreign_key(key)?;
        }
        if !self.session.belongs(child.oid)? {
            let message = format!(
                "partition constraint of relation \"{}\" is violated by some row",
                child.name
            );
            return Err(SqlError::new("23514", message)
                .with_table(self.session.schema_name(child.schema), child.name.clone()));
        }
        self.prove_default(default.as_deref())
    }

    pub(crate) fn detach_partition(&mut self, parent: &Arc<Relation>, name: &Name) -> Result<()> {
        refuse_unpartitioned(parent, "table ")?;
        let child = self.session.lock_by_name(name, TableLockMode::AccessExclusive)?;
        if child.partition_of.as_ref().map(|of| of.parent) != Some(parent.oid) {
            let message = format!(
                "relation \"{}\" is not a partition of relation \"{}\"",
                child.name, parent.name
            );
            return Err(SqlError::new("42P01", message));
        }
        self.lock_tree(&child, TableLockMode::AccessExclusive)?;
        // Later rows in the detached partition's bound go to the default partition.
        self.lock_default(parent)?;
        let mut definition = child.definition.clone();
        definition.partition_of = None;
        self.update(definition)?;
        self.prove_without(parent, &child)?;
        self.release_foreign_keys(child.oid)?;
        self.release_triggers(child.oid)?;
        for entry in child.indexes.iter().filter(|entry| entry.definition.part_of.is_some()) {
            self.change_index(entry.oid, |index| index.part_of = None)?;
        }
        Ok(())
    }

    /// Refuses commands that a partitioned table, or a single partition, does not support.
    pub(crate) fn refuse_for_partitions(
        &mut self,
        relation: &Relation,
        command: &AlterCommand,
    ) -> Result<()> {
        if relation.is_partitioned() {
            let known = match command {
                AlterCommand::AddColumn { constraints, .. } => constraints.is_empty(),
                AlterCommand::AddConstraint(constraint) => {
                    !constraint.not_valid
                        || !matches!(constraint.kind, ConstraintSpecKind::Check { .. })
                }
                AlterCommand::DropColumn { .. }
                | AlterCommand::AttachPartition { .. }
                | AlterCommand::AttachIndex(_)
                | AlterCommand::DetachPartition(_)
                | AlterCommand::DropConstraint { .. }
                | AlterCommand::AlterConstraint { .. }
                | AlterCommand::ValidateConstraint(_)
                | AlterCommand::EnableTrigger { .. }
                | AlterCommand::Owner(_)
                | AlterCommand::SetTablespace
                | AlterCommand::Nothing
                | AlterCommand::Column {
                    action:
                        AlterColumn::Statistics
                        | AlterColumn::Nothing(_)
                        | AlterColumn::Default(_)
                        | AlterColumn::SetNotNull
                        | AlterColumn::DropNotNull
                        | AlterColumn::AddIdentity(..)
                        | AlterColumn::SetIdentity(..)
                        | AlterColumn::DropIdentity { .. }
                        | AlterColumn::Type { .. },
                    ..
                } => true,
                _ => false,
            };
            if !known {
                let what = format!("ALTER TABLE {} of a partitioned table", command.words());
                return Err(SqlError::unsupported(what));
            }
        }
        let Some(of) = &relation.partition_of else { return Ok(()) };
        let parent = self.current(of.parent)?;
        let above = |name: &str| {
            parent.visible_columns().find(|(_, c)| c.name == name).map(|(_, column)| column)
        };
        let refused = |message: String| Err(SqlError::new("42P16", message));
        match command {
            AlterCommand::AddColumn { .. } => {
                Err(SqlError::new("42809", "cannot add column to a partition"))
            }
            AlterCommand::DropColumn { name, .. } if above(name).is_some() => {
                refused(format!("cannot drop inherited column \"{name}\""))
            }
            AlterCommand::Column { name, action: AlterColumn::Type { .. } }
                if above(name).is_some() =>
            {
                refused(format!("cannot alter inherited column \"{name}\""))
            }
            AlterCommand::Column { name, action: AlterColumn::DropNotNull }
                if above(name).is_some_and(|column| column.not_null) =>
            {
                refused(format!("column \"{name}\" is marked NOT NULL in parent table"))
            }
            AlterCommand::Column { action: AlterColumn::DropExpression { .. }, .. } => {
                Err(SqlError::unsupported("ALTER COLUMN DROP EXPRESSION of a partition"))
            }
            AlterCommand::DropConstraint { name, .. } => {
                let part = relation.indexes.iter().find(|index| index.name == *name);
                let above = part.and_then(|part| part.definition.part_of);
                let holds = |above: &Relation| {
                    above.index.as_ref().is_some_and(|index| index.constraint.is_some())
                };
                let is_part = |key: &ForeignKey| key.name == *name && key.part_of.is_some();
                let inherited = parent.checks.iter().any(|check| check.name == *name)
                    || relation.foreign_keys.iter().any(is_part)
                    || above
                        .map(|above| self.current(above))
                        .transpose()?
                        .is_some_and(|found| holds(&found));
                if !inherited {
                    return Ok(());
                }
                refused(format!(
                    "cannot drop inherited constraint \"{name}\" of relation \"{}\"",
                    relation.name
                ))
            }
            _ => Ok(()),
        }
    }

    /// Applies the column options of a new partition to a column inherited from its table.
    pub(crate) fn change_inherited(
        &mut self,
        table: &mut RelationDefinition,
        spec: &ColumnSpec,
    ) -> Result<()> {
        let column = table.columns.iter_mut().find(|column| column.name == spec.name);
        let Some(column) = column else {
            return Err(SqlError::new("42703", format!("column \"{}\" does not exist", spec.name)));
        };
        if spec.generated.is_some() || column.generated && spec.default.is_some() {
            return Err(SqlError::unsupported("a generated column of a partition of its own"));
        }
        column.not_null |= spec.not_null;
        if let Some(default) = &spec.default {
            column.default = Some(self.new_default(default, (column.column_type(), &spec.name))?);
        }
        Ok(())
    }
}

/// Returns the columns of a new partition: the columns of its table, without identities and
/// sequences.
pub(crate) fn columns_of(parent: &Relation) -> Vec<Column> {
    let column = |column: &Column| Column {
        identity: None,
        sequence: None,
        missing: None,
        comment: None,
        default: column.default.clone().filter(|_| column.identity.is_none()),
        ..column.clone()
    };
    parent.visible_columns().map(|(_, found)| column(found)).collect()
}

/// Returns the number of levels in the tree of partitions below and including a table.
fn levels(table: &Relation) -> usize {
    let members = table.partitions.iter().flat_map(|partitions| &partitions.members);
    1 + members.map(|member| levels(&member.relation)).max().unwrap_or(0)
}

fn refuse_unpartitioned(table: &Relation, word: &str) -> Result<()> {
    if table.is_partitioned() {
        return Ok(());
    }
    let message = format!("{word}\"{}\" is not partitioned", table.name);
    Err(SqlError::new("42P17", message))
}

/// Fails with 42804 for a table whose columns or checks do not fit the partitioned table.
fn refuse_different(parent: &Relation, child: &Relation) -> Result<()> {
    let refused = |message: String| Err(SqlError::new("42804", message));
    for (_, column) in parent.visible_columns() {
        let name = &column.name;
        let Some(place) = child.column_position(name) else {
            return refused(format!("child table is missing column \"{name}\""));
        };
        let own = &child.columns[place];
        let types = |column: &Column| {
            let ColumnType { oid, typmod, domain, .. } = column.column_type();
            (oid, typmod, domain)
        };
        if types(own) != types(column) {
            return refused(format!(
                "child table \"{}\" has different type for column \"{name}\"",
                child.name
            ));
        }
        if own.collation != column.collation {
            let message = format!(
                "child table \"{}\" has different collation for column \"{name}\"",
                child.name
            );
            return Err(SqlError::new("42P21", message));
        }
        if column.not_null && !own.not_null {
            return refused(format!("column \"{name}\" in child table must be marked NOT NULL"));
        }
        if column.generated && !own.generated {
            return refused(format!("column \"{name}\" in child table must be a generated column"));
        }
        if own.generated && (!column.generated || own.default != column.default) {
            return Err(SqlError::unsupported(
                "attaching a table whose generated columns are not those of the partitioned table",
            ));
        }
    }
    for check in &parent.checks {
        let Some(own) = child.checks.iter().find(|own| own.name == check.name) else {
            return refused(format!("child table is missing constraint \"{}\"", check.name));
        };
        if own.expression != check.expression {
            return refused(format!(
                "child table \"{}\" has different definition for check constraint \"{}\"",
                child.name, check.name
            ));
        }
        if own.not_valid {
            let message = format!(
                "constraint \"{}\" conflicts with NOT VALID constraint on child table \"{}\"",
                check.name, child.name
            );
            return Err(SqlError::new("42P17", message));
        }
    }
    Ok(())
}

/// Fails with 0A000 if a unique index of a partitioned table lacks a column of the partition key.
/// Otherwise equal rows could be in two partitions.
pub(crate) fn refuse_without_key(table: &Relation, columns: &[u16], word: &str) -> Result<()> {
    let Some(key) = &table.partition_key else { return Ok(()) };
    for column in &key.columns {
        if columns.contains(column) {
            continue;
        }
        let name = &table.columns[usize::from(*column)].name;
        let message =
            "unique constraint on partitioned table must include all partitioning columns";
        return Err(SqlError::new("0A000", message).with_detail(format!(
            "{word} constraint on table \"{}\" lacks column \"{name}\" which is part of the partition key.",
            table.name
        )));
    }
    Ok(())
}
