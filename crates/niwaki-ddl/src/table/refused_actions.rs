//! ALTER actions that views and indexes do not support.

use niwaki_catalog::{Relation, RelationKind};
use niwaki_sql::utility::{AlterColumn, AlterCommand};
use niwaki_sql::{Result, SqlError};

/// Fails with 42809 for an action that a view, materialized view or index does not support.
pub(crate) fn refuse_actions(relation: &Relation, commands: &[AlterCommand]) -> Result<()> {
    for command in commands {
        match command {
            AlterCommand::SetOptions(_)
            | AlterCommand::ResetOptions(_)
            | AlterCommand::Owner(_)
            | AlterCommand::Column { action: AlterColumn::Statistics, .. }
            | AlterCommand::Nothing => continue,
            AlterCommand::SetTablespace
                if !matches!(relation.kind, RelationKind::View | RelationKind::Sequence) =>
            {
                continue;
            }
            AlterCommand::Column { action: AlterColumn::Default(_), .. }
                if relation.kind == RelationKind::View =>
            {
                return Err(SqlError::unsupported("a default of a view's column"));
            }
            AlterCommand::Column { action: AlterColumn::Nothing(_), .. }
                if relation.index.is_none() =>
            {
                continue;
            }
            AlterCommand::AttachIndex(_) if relation.index.is_some() => continue,
            // An index is attached to an index of a partitioned table without a bound.
            AlterCommand::AttachPartition { .. } if is_partitioned_index(relation) => {
                let message = format!("\"{}\" is not a partitioned table", relation.name);
                return Err(SqlError::new("42P17", message));
            }
            _ => {}
        }
        let action = command.words();
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
