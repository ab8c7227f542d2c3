//! ALTER TABLE and ALTER INDEX.

use std::sync::Arc;

use niwaki_catalog::{ConstraintKind, ConstraintTime, Oid, Relation, RelationKind};
use niwaki_sql::SqlError;
use niwaki_sql::utility::{AlterCommand, ConstraintSpec, ConstraintSpecKind, Name};
use niwaki_txn::TableLockMode;

use super::constraint::{ConstraintNames, set_key_not_null};
use super::create_table::quoted;
use super::{Definer, options, wrong_kind};
use crate::Result;

impl Definer<'_> {
    pub(super) fn alter(
        &mut self,
        name: &Name,
        kind: RelationKind,
        if_exists: bool,
        commands: &[AlterCommand],
    ) -> Result<&'static str> {
        let tag = match kind {
            RelationKind::Index => "ALTER INDEX",
            RelationKind::Sequence => "ALTER SEQUENCE",
            _ => "ALTER TABLE",
        };
        // As in PostgreSQL the strongest lock that any command needs is taken at once; options that
        // readers do not depend on need less.
        let mild = commands
            .iter()
            .all(|c| matches!(c, AlterCommand::SetOptions(_) | AlterCommand::ResetOptions(_)));
        let mode =
            if mild { TableLockMode::ShareUpdateExclusive } else { TableLockMode::AccessExclusive };
        let found = self.lock_relation(name, "relation", mode, if_exists)?;
        let Some(relation) = found else { return Ok(tag) };
        if relation.kind == RelationKind::View {
            return Err(SqlError::new(
                "42501",
                format!("permission denied: \"{}\" is a system catalog", relation.name),
            ));
        }
        let allowed = relation.kind == kind
            || (kind == RelationKind::Table
                && commands.iter().all(|c| {
                    matches!(
                        c,
                        AlterCommand::SetOptions(_)
                            | AlterCommand::ResetOptions(_)
                            | AlterCommand::Nothing
                    )
                }));
        if !allowed {
            return Err(wrong_kind(&relation, kind));
        }
        if relation.kind == RelationKind::Table && !mild {
            self.refuse_pending(&relation, tag)?;
        }
        for command in commands {
            self.alter_one(relation.oid, command)?;
        }
        Ok(tag)
    }

    fn alter_one(&mut self, oid: Oid, command: &AlterCommand) -> Result<()> {
        let relation = self.current(oid)?;
        match command {
            AlterCommand::AddColumn { column, constraints, if_not_exists } => {
                self.add_column(&relation, column, constraints, *if_not_exists)
            }
            AlterCommand::DropColumn { name, if_exists, .. } => {
                self.drop_column(&relation, name, *if_exists)
            }
            AlterCommand::Column { name, action } => self.alter_column(&relation, name, action),
            AlterCommand::AddConstraint(constraint) => self.add_constraint(&relation, constraint),
            AlterCommand::AddConstraintUsingIndex { name, primary, index, check_time } => {
                let name = name.as_deref();
                self.add_constraint_using_index(&relation, name, *primary, index, *check_time)
            }
            AlterCommand::DropConstraint { name, if_exists } => {
                if self.drop_constraint(&relation, name)? {
                    return Ok(());
                }
                let message = format!(
                    "constraint \"{name}\" of relation \"{}\" does not exist",
                    relation.name
                );
                if *if_exists {
                    self.notice(format!("{message}, skipping"));
                    return Ok(());
                }
                Err(SqlError::new("42704", message))
            }
            AlterCommand::SetOptions(given) => {
                let mut definition = relation.definition.clone();
                options::set(relation.kind, &mut definition.options, given)?;
                self.update(definition)
            }
            AlterCommand::ResetOptions(names) => {
                let mut definition = relation.definition.clone();
                options::reset(relation.kind, &mut definition.options, names)?;
                self.update(definition)
            }
            AlterCommand::Nothing => Ok(()),
        }
    }

    /// Adds a constraint to a table that may have rows.
    pub(super) fn add_constraint(
        &mut self,
        relation: &Relation,
        constraint: &ConstraintSpec,
    ) -> Result<()> {
        let mut definition = relation.definition.clone();
        let mut taken = ConstraintNames::of(&definition, &relation.indexes);
        match &constraint.kind {
            ConstraintSpecKind::Check { .. } => {
                let before: Vec<String> =
                    definition.checks.iter().map(|c| c.name.clone()).collect();
                self.add_check(&mut definition, &mut taken, constraint)?;
                let added = definition
                    .checks
                    .iter()
                    .find(|c| !before.contains(&c.name))
                    .cloned()
                    .ok_or_else(|| SqlError::internal("a check was not added"))?;
                self.update(definition)?;
                self.check_expressions(relation.oid)?;
                let table = self.session.qualified_name(relation);
                let rows = self.session.internal_query(&format!(
                    "SELECT 1 FROM {} WHERE NOT ({}) LIMIT 1",
                    table, added.expression
                ))?;
                if !rows.is_empty() {
                    return Err(SqlError::new(
                        "23514",
                        format!(
                            "check constraint \"{}\" of relation \"{}\" is violated by some row",
                            added.name, relation.name
                        ),
                    )
                    .with_constraint(added.name)
                    .with_table(self.session.schema_name(relation.schema), relation.name.clone()));
                }
                Ok(())
            }
            ConstraintSpecKind::Unique { .. } => {
                set_key_not_null(&mut definition, constraint)?;
                self.refuse_nulls(relation, &definition)?;
                if definition != relation.definition {
                    self.update(definition.clone())?;
                }
                self.add_unique(&mut definition, &mut taken, constraint)
            }
        }
    }

    /// Fails when a column that becomes NOT NULL has a NULL.
    pub(super) fn refuse_nulls(
        &mut self,
        old: &Relation,
        new: &niwaki_catalog::RelationDefinition,
    ) -> Result<()> {
        let mut columns = Vec::new();
        for (before, after) in old.columns.iter().zip(&new.columns) {
            if after.not_null && !before.not_null {
                columns.push(after.name.clone());
            }
        }
        for name in columns {
            let table = self.session.qualified_name(old);
            let rows = self.session.internal_query(&format!(
                "SELECT 1 FROM {} WHERE {} IS NULL LIMIT 1",
                table,
                quoted(&name)
            ))?;
            if !rows.is_empty() {
                return Err(SqlError::new(
                    "23502",
                    format!("column \"{name}\" of relation \"{}\" contains null values", old.name),
                )
                .with_table(self.session.schema_name(old.schema), old.name.clone())
                .with_column(name));
            }
        }
        Ok(())
    }

    /// Makes an existing unique index hold a constraint; it takes the constraint's name.
    fn add_constraint_using_index(
        &mut self,
        relation: &Relation,
        name: Option<&str>,
        primary: bool,
        index: &str,
        check_time: ConstraintTime,
    ) -> Result<()> {
        let entry =
            relation.indexes.iter().find(|i| i.name == index).ok_or_else(|| {
                SqlError::new("42704", format!("index \"{index}\" does not exist"))
            })?;
        if entry.definition.constraint.is_some() {
            return Err(SqlError::new(
                "55000",
                format!("index \"{index}\" is already associated with a constraint"),
            ));
        }
        if !entry.definition.unique {
            return Err(SqlError::new("42809", format!("\"{index}\" is not a unique index"))
                .with_detail(
                    "Cannot create a primary key or unique constraint using such an index.",
                ));
        }
        let unfit = if !entry.definition.valid {
            Some(("55000", format!("index \"{index}\" is not valid")))
        } else if entry.definition.key.iter().any(|k| k.expression.is_some()) {
            Some(("42809", format!("index \"{index}\" contains expressions")))
        } else if entry.definition.predicate.is_some() {
            Some(("42809", format!("\"{index}\" is a partial index")))
        } else {
            None
        };
        if let Some((sqlstate, message)) = unfit {
            let error = SqlError::new(sqlstate, message);
            return Err(if sqlstate == "42809" {
                error.with_detail(
                    "Cannot create a primary key or unique constraint using such an index.",
                )
            } else {
                error
            });
        }
        let plain = entry
            .definition
            .key
            .iter()
            .all(|k| !k.descending && !k.nulls_first && k.operator_class.is_none());
        if !plain {
            return Err(SqlError::new(
                "42809",
                format!("index \"{index}\" column does not have default sorting behavior"),
            ));
        }
        if primary {
            if relation.primary_key().is_some() {
                return Err(SqlError::new(
                    "42P16",
                    format!(
                        "multiple primary keys for table \"{}\" are not allowed",
                        relation.name
                    ),
                ));
            }
            let mut definition = relation.definition.clone();
            for key in &entry.definition.key {
                if let Some(column) = definition.columns.get_mut(usize::from(key.column)) {
                    column.not_null = true;
                }
            }
            self.refuse_nulls(relation, &definition)?;
            self.update(definition)?;
        }
        let mut own = self.current(entry.oid)?.definition.clone();
        if let Some(name) = name.filter(|n| *n != own.name) {
            self.name_is_free(own.schema, name, false)?;
            self.notice(format!(
                "ALTER TABLE / ADD CONSTRAINT USING INDEX will rename index \"{}\" to \"{name}\"",
                own.name
            ));
            name.clone_into(&mut own.name);
        }
        if let Some(index) = &mut own.index {
            index.check_time = check_time;
            index.constraint =
                Some(if primary { ConstraintKind::PrimaryKey } else { ConstraintKind::Unique });
        }
        self.update(own)
    }

    /// The relation again, after a change.
    pub(super) fn again(&mut self, relation: &Relation) -> Result<Arc<Relation>> {
        self.current(relation.oid)
    }
}
