//! ALTER actions that views and indexes do not support.

use niwaki_catalog::{Relation, RelationKind, TriggerMode};
use niwaki_sql::utility::{AlterColumn, AlterCommand};
use niwaki_sql::{Result, SqlError};

/// Fails with 42809 for an action that a view, materialized view or index does not support.
pub(crate) fn refuse_actions(relation: &Relation, commands: &[AlterCommand]) -> Result<()> {
    for command in commands {
        let action = match command {
            AlterCommand::SetOptions(_)
            | AlterCommand::ResetOptions(_)
            | AlterCommand::Owner(_)
            | AlterCommand::Nothing => continue,
            AlterCommand::Column { action: AlterColumn::Default(_), .. }
                if relation.kind == RelationKind::View =>
            {
                return Err(SqlError::unsupported("a default of a view's column"));
            }
            AlterCommand::AddColumn { .. } => "ADD COLUMN",
            AlterCommand::DropColumn { .. } => "DROP COLUMN",
            AlterCommand::AddConstraint(_) | AlterCommand::AddConstraintUsingIndex { .. } => {
                "ADD CONSTRAINT"
            }
            AlterCommand::DropConstraint { .. } => "DROP CONSTRAINT",
            AlterCommand::EnableTrigger { mode, .. } => match mode {
                TriggerMode::Disabled => "DISABLE TRIGGER",
                _ => "ENABLE TRIGGER",
            },
            AlterCommand::ValidateConstraint(_) => "VALIDATE CONSTRAINT",
            AlterCommand::AlterConstraint { .. } => "ALTER CONSTRAINT",
            AlterCommand::AttachIndex(_) if relation.index.is_some() => continue,
            // An index is attached to an index of a partitioned table without a bound.
            AlterCommand::AttachPartition { .. } if is_partitioned_index(relation) => {
                let message = format!("\"{}\" is not a partitioned table", relation.name);
                return Err(SqlError::new("42P17", message));
            }
            AlterCommand::AttachPartition { .. } | AlterCommand::AttachIndex(_) => {
                "ATTACH PARTITION"
            }
            AlterCommand::DetachPartition(_) => "DETACH PARTITION",
            AlterCommand::Column { action, .. } => match action {
                AlterColumn::Statistics => continue,
                AlterColumn::Nothing(_) if relation.index.is_none() => continue,
                AlterColumn::Nothing(action) => action,
                AlterColumn::Default(_) => "ALTER COLUMN ... SET DEFAULT",
                AlterColumn::SetNotNull => "ALTER COLUMN ... SET NOT NULL",
                AlterColumn::DropNotNull => "ALTER COLUMN ... DROP NOT NULL",
                AlterColumn::Type { .. } => "ALTER COLUMN ... SET DATA TYPE",
                AlterColumn::AddIdentity(..) => "ALTER COLUMN ... ADD IDENTITY",
                AlterColumn::SetIdentity(..) => "ALTER COLUMN ... SET IDENTITY",
                AlterColumn::DropIdentity { .. } => "ALTER COLUMN ... DROP IDENTITY",
                AlterColumn::DropExpression { .. } => "ALTER COLUMN ... DROP EXPRESSION",
            },
        };
        let message =
            format!("ALTER action {action} cannot be performed on relation \"{}\"", relation.name);
        let kind = if is_partitioned_index(relation) {
            "partitioned indexes"
        } else {
            relation.kind.plural()
        };
        let detail = format!("This operation is not supported for {kind}.");
        return Err(SqlError::new("42809", message).with_detail(detail));
    }
    Ok(())
}

/// Returns whether the relation is the index of a partitioned table, which has no file.
fn is_partitioned_index(relation: &Relation) -> bool {
    relation.index.is_some() && relation.file == 0
}
