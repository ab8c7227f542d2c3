//! ALTER TABLE ONLY of a table with partitions: the commands that work without the partitions.

use std::sync::Arc;

use niwaki_catalog::Relation;
use niwaki_sql::utility::{AlterColumn, AlterCommand, ConstraintSpec, ConstraintSpecKind};
use niwaki_sql::{Result, SqlError};

use crate::constraint::ConstraintNames;
use crate::definer::Definer;
use crate::partition::alter_partitioned::refuse_own_key;

/// Returns whether a table has partitions now.
pub(crate) fn has_partitions(table: &Relation) -> bool {
    table.partitions.as_ref().is_some_and(|partitions| !partitions.members.is_empty())
}

impl Definer<'_> {
    /// Applies a command to a table with partitions, and not to the partitions. Returns false for a
    /// command that concerns the table alone anyway, or that fails for another reason first.
    pub(crate) fn alter_alone(
        &mut self,
        table: &Arc<Relation>,
        command: &AlterCommand,
    ) -> Result<bool> {
        let missing = |name: &str| table.column_position(name).is_none();
        match command {
            AlterCommand::AddColumn { column, .. } if missing(&column.name) => {
                Err(SqlError::new("42P16", "column must be added to child tables too"))
            }
            AlterCommand::DropColumn { name, .. } if !missing(name) => {
                refuse_own_key(table, name, "drop")?;
                Err(not_alone("drop column"))
            }
            AlterCommand::Column { action: AlterColumn::DropNotNull, .. } => {
                Err(not_alone("remove constraint"))
            }
            AlterCommand::Column { name, action } if !missing(name) => match action {
                AlterColumn::Type { .. } => {
                    refuse_own_key(table, name, "alter")?;
                    let message = format!(
                        "type of inherited column \"{name}\" must be changed in child tables too"
                    );
                    Err(SqlError::new("42P16", message))
                }
                AlterColumn::Default(_) | AlterColumn::SetNotNull => {
                    if matches!(action, AlterColumn::SetNotNull) {
                        self.refuse_nullable_below(table, name)?;
                    }
                    self.alter_column(table, name, action)?;
                    Ok(true)
                }
                _ => Ok(false),
            },
            AlterCommand::AddConstraint(constraint) => self.add_constraint_alone(table, constraint),
            AlterCommand::DropConstraint { name, .. }
                if table.checks.iter().any(|check| check.name == *name) =>
            {
                Err(not_alone("remove constraint"))
            }
            _ => Ok(false),
        }
    }

    fn add_constraint_alone(
        &mut self,
        table: &Arc<Relation>,
        constraint: &ConstraintSpec,
    ) -> Result<bool> {
        match &constraint.kind {
            ConstraintSpecKind::Check { .. } => {
                // Other faults of the check are reported first. NOT VALID saves reading the rows.
                let unproven = ConstraintSpec { not_valid: true, ..constraint.clone() };
                self.add_constraint(table, &unproven)?;
                Err(SqlError::new("42P16", "constraint must be added to child tables too"))
            }
            ConstraintSpecKind::Unique { primary, columns, .. } => {
                for name in columns.iter().filter(|_| *primary) {
                    self.refuse_nullable_below(table, name)?;
                }
                let mut definition = table.definition.clone();
                let mut taken = ConstraintNames::of(&definition, &table.indexes);
                self.set_key_not_null(table, &mut definition, constraint)?;
                let new = self.read_unique(&definition, &mut taken, constraint)?;
                self.add_index_alone(new.ok_or_else(|| SqlError::internal("no key"))?)?;
                Ok(true)
            }
            ConstraintSpecKind::Foreign(_) => Ok(false),
        }
    }

    /// Fails with 42P16 for a column that becomes NOT NULL and may be NULL in a table below.
    fn refuse_nullable_below(&mut self, table: &Arc<Relation>, name: &str) -> Result<()> {
        for below in self.tree_of(table).iter().skip(1) {
            if below.visible_columns().all(|(_, column)| column.name != name || column.not_null) {
                continue;
            }
            let detail = format!(
                "Column \"{name}\" of relation \"{}\" is not already NOT NULL.",
                below.name
            );
            return Err(SqlError::new("42P16", "constraint must be added to child tables too")
                .with_detail(detail)
                .with_hint("Do not specify the ONLY keyword."));
        }
        Ok(())
    }
}

fn not_alone(what: &str) -> SqlError {
    let message = format!("cannot {what} from only the partitioned table when partitions exist");
    SqlError::new("42P16", message).with_hint("Do not specify the ONLY keyword.")
}
