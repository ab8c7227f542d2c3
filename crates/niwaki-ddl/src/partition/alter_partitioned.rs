//! ALTER TABLE of a partitioned table, as it affects the partitions.

use std::sync::Arc;

use niwaki_catalog::{Check, Relation};
use niwaki_sql::utility::{AlterColumn, AlterCommand, ColumnSpec, ConstraintSpecKind};
use niwaki_sql::{Result, SqlError};

use crate::column_rules::check_column_name;
use crate::constraint::{ConstraintNames, put_check};
use crate::definer::Definer;

impl Definer<'_> {
    /// Applies a command to a partitioned table and all tables below it. Returns false for a
    /// command that concerns the table alone.
    pub(crate) fn alter_partitioned(
        &mut self,
        table: &Arc<Relation>,
        command: &AlterCommand,
    ) -> Result<bool> {
        match command {
            AlterCommand::AddColumn { column, if_not_exists, .. } => {
                self.add_column_above(table, column, *if_not_exists)?;
            }
            AlterCommand::DropColumn { name, .. } => {
                self.refuse_key_column(table, name, "drop")?;
                return Ok(false);
            }
            AlterCommand::Column {
                name,
                action:
                    action @ (AlterColumn::Type { .. }
                    | AlterColumn::Default(_)
                    | AlterColumn::SetNotNull
                    | AlterColumn::DropNotNull),
            } => {
                if matches!(action, AlterColumn::Type { .. }) {
                    self.refuse_key_column(table, name, "alter")?;
                }
                for each in self.tree_of(table) {
                    let each = self.current(each.oid)?;
                    self.alter_column(&each, name, action)?;
                }
            }
            AlterCommand::AddConstraint(constraint)
                if matches!(constraint.kind, ConstraintSpecKind::Check { .. }) =>
            {
                let before = table.checks.clone();
                self.add_constraint(table, constraint)?;
                let now = self.current(table.oid)?;
                let added = now.checks.iter().find(|check| !before.contains(check)).cloned();
                let added = added.ok_or_else(|| SqlError::internal("no check was added"))?;
                for below in self.tree_of(&now).iter().skip(1) {
                    self.inherit_check(below, &added)?;
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Adds a check of a partitioned table to a table below it. All rows are known to satisfy the
    /// check.
    fn inherit_check(&mut self, below: &Relation, check: &Check) -> Result<()> {
        let mut definition = self.current(below.oid)?.definition.clone();
        if let Some(own) = definition.checks.iter().find(|own| own.name == check.name) {
            if own.expression == check.expression {
                return Ok(());
            }
            let message = format!(
                "child table \"{}\" has different definition for check constraint \"{}\"",
                below.name, check.name
            );
            return Err(SqlError::new("42804", message));
        }
        ConstraintNames::of(&definition, &below.indexes).take(&check.name, &below.name)?;
        let check = Check { comment: None, ..check.clone() };
        put_check(&mut definition.checks, check, "table", &below.name)?;
        self.update(definition)
    }

    /// Runs ADD COLUMN for a partitioned table.
    fn add_column_above(
        &mut self,
        table: &Arc<Relation>,
        spec: &ColumnSpec,
        if_not_exists: bool,
    ) -> Result<()> {
        check_column_name(&spec.name)?;
        if table.column_position(&spec.name).is_some() {
            // `add_column` reports that the column exists.
            return self.add_column(table, spec, &[], if_not_exists);
        }
        if spec.serial || spec.identity.is_some() || spec.generated.is_some() {
            return Err(SqlError::unsupported(
                "a serial, identity or generated column that is added to a partitioned table",
            ));
        }
        let mut definition = table.definition.clone();
        let column = self.new_column(&definition, spec, definition.columns.len())?;
        definition.columns.push(column);
        self.update(definition)?;
        self.check_expressions(table.oid)?;
        for member in table.partitions.iter().flat_map(|partitions| &partitions.members) {
            let below = self.current(member.relation.oid)?;
            if below.is_partitioned() {
                self.add_column_above(&below, spec, false)?;
            } else {
                self.add_column(&below, spec, &[], false)?;
            }
        }
        Ok(())
    }

    /// Fails with 42P16 for a column in the partition key of a table, or of a table below it.
    fn refuse_key_column(&mut self, table: &Arc<Relation>, name: &str, verb: &str) -> Result<()> {
        self.tree_of(table).iter().try_for_each(|each| refuse_own_key(each, name, verb))
    }
}

/// Fails with 42P16 for a column in the partition key of a table.
pub(crate) fn refuse_own_key(table: &Relation, name: &str, verb: &str) -> Result<()> {
    let position = table.column_position(name);
    let mut in_key = table.partition_key.iter().flat_map(|key| &key.columns);
    if !in_key.any(|column| Some(usize::from(*column)) == position) {
        return Ok(());
    }
    let message = format!(
        "cannot {verb} column \"{name}\" because it is part of the partition key of relation \"{}\"",
        table.name
    );
    Err(SqlError::new("42P16", message))
}
