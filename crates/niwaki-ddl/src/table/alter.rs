//! ALTER TABLE and ALTER INDEX, command by command.

use std::sync::Arc;

use niwaki_catalog::{
    Check, ConstraintKind, ConstraintTime, IndexColumn, Oid, Relation, RelationDefinition,
    RelationKind,
};
use niwaki_sql::utility::{AlterCommand, ConstraintSpec, ConstraintSpecKind, Name, alter_tag};
use niwaki_sql::{Result, SqlError};
use niwaki_txn::TableLockMode;
use niwaki_types::quote_identifier;

use crate::constraint::{ConstraintNames, set_key_not_null};
use crate::definer::{Definer, is_not, refuse_system, wrong_kind};
use crate::options;
use crate::partition::alter_only::has_partitions;
use crate::table::refused_actions::refuse_actions;

impl Definer<'_> {
    pub(crate) fn alter(
        &mut self,
        name: &Name,
        kind: RelationKind,
        if_exists: bool,
        commands: &[AlterCommand],
    ) -> Result<&'static str> {
        let tag = alter_tag(kind);
        if let [AlterCommand::AttachIndex(part)] = commands {
            self.attach_index(name, part)?;
            return Ok(tag);
        }
        // As in PostgreSQL, the strongest lock that any command needs is taken at once. Commands on
        // properties that readers do not depend on need a weaker lock.
        let mode = commands.iter().map(lock_of).max().unwrap_or(TableLockMode::AccessExclusive);
        let mild = mode == TableLockMode::ShareUpdateExclusive;
        let found = self.lock_relation(name, "relation", mode, if_exists)?;
        let Some(relation) = found else { return Ok(tag) };
        refuse_system(&relation)?;
        let of_view = matches!(kind, RelationKind::View | RelationKind::MaterializedView);
        if of_view && relation.kind != kind {
            return Err(is_not(&relation, kind));
        }
        let of_index = kind == RelationKind::Index && relation.index.is_some();
        let moves = |command: &AlterCommand| *command == AlterCommand::SetTablespace;
        let moves_sequence = relation.kind == RelationKind::Sequence && commands.iter().any(moves);
        if relation.query.is_some() || of_index || moves_sequence {
            refuse_actions(&relation, commands)?;
        }
        let allowed = relation.kind == kind
            || (kind == RelationKind::Table && relation.kind == RelationKind::MaterializedView)
            || (kind == RelationKind::Table
                && commands.iter().all(|c| {
                    matches!(
                        c,
                        AlterCommand::SetOptions(_)
                            | AlterCommand::ResetOptions(_)
                            | AlterCommand::Owner(_)
                            | AlterCommand::SetTablespace
                            | AlterCommand::Nothing
                    )
                }));
        if !allowed {
            let attaches = |c: &AlterCommand| matches!(c, AlterCommand::AttachPartition { .. });
            if kind == RelationKind::Table
                && relation.index.is_some()
                && commands.iter().any(attaches)
            {
                refuse_actions(&relation, commands)?;
            }
            return Err(match kind {
                RelationKind::Index => is_not(&relation, kind),
                kind => wrong_kind(&relation, kind),
            });
        }
        if relation.kind.has_rows() && !mild {
            self.refuse_use(&relation, tag)?;
        }
        self.lock_tree(&relation, mode)?;
        for command in commands {
            self.alter_one(relation.oid, command, name.only)?;
        }
        Ok(tag)
    }

    /// Does one command. `only` leaves out the table's partitions.
    fn alter_one(&mut self, oid: Oid, command: &AlterCommand, only: bool) -> Result<()> {
        let relation = self.current(oid)?;
        self.refuse_for_partitions(&relation, command)?;
        if only && has_partitions(&relation) && self.alter_alone(&relation, command)? {
            return Ok(());
        }
        if relation.is_partitioned() && self.alter_partitioned(&relation, command)? {
            return Ok(());
        }
        match command {
            AlterCommand::AttachPartition { name, bound } => {
                self.attach_partition(&relation, name, bound)
            }
            AlterCommand::AttachIndex(_) => Err(SqlError::internal("an index is attached alone")),
            AlterCommand::DetachPartition(name) => self.detach_partition(&relation, name),
            AlterCommand::AddColumn { column, constraints, if_not_exists } => {
                self.add_column(&relation, column, constraints, *if_not_exists)
            }
            AlterCommand::DropColumn { name, if_exists, cascade } => {
                self.drop_column(&relation, name, *if_exists, *cascade)
            }
            AlterCommand::Column { name, action } => self.alter_column(&relation, name, action),
            AlterCommand::AddConstraint(constraint) => self.add_constraint(&relation, constraint),
            AlterCommand::AddConstraintUsingIndex { name, primary, index, check_time } => {
                let name = name.as_deref();
                self.add_constraint_using_index(&relation, name, *primary, index, *check_time)
            }
            AlterCommand::ValidateConstraint(name) => self.validate_constraint(&relation, name),
            AlterCommand::AlterConstraint { name, check_time } => {
                self.alter_constraint(&relation, name, *check_time)
            }
            AlterCommand::EnableTrigger { which, mode } => {
                self.enable_trigger(&relation, which, *mode)
            }
            AlterCommand::Owner(role) => self.may_own(role),
            AlterCommand::DropConstraint { name, if_exists, cascade } => {
                if self.drop_constraint(&relation, name, *cascade)? {
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
                if relation.kind == RelationKind::View {
                    self.check_view_options(&relation, &definition.options)?;
                }
                self.update(definition)
            }
            AlterCommand::ResetOptions(names) => {
                let mut definition = relation.definition.clone();
                options::reset(relation.kind, &mut definition.options, names)?;
                self.update(definition)
            }
            AlterCommand::SetTablespace | AlterCommand::Nothing => Ok(()),
        }
    }

    /// Fails with 42704 for a role that does not exist. The one role that exists owns everything.
    pub(crate) fn may_own(&self, role: &str) -> Result<()> {
        self.session.may_own(role)
    }

    /// Adds a constraint to a table that may have rows.
    pub(crate) fn add_constraint(
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
                if constraint.not_valid {
                    let check = definition.checks.iter_mut().find(|c| c.name == added.name);
                    check.into_iter().for_each(|check| check.not_valid = true);
                }
                self.update(definition)?;
                if constraint.not_valid { Ok(()) } else { self.prove_check(relation, &added) }
            }
            ConstraintSpecKind::Foreign(_) => {
                self.add_foreign_key(relation.oid, &mut taken, constraint, true)
            }
            ConstraintSpecKind::Unique { .. } => {
                self.set_key_not_null(relation, &mut definition, constraint)?;
                self.add_unique(&definition, &mut taken, constraint)
            }
        }
    }

    /// Makes the columns of a key that is to be added NOT NULL.
    pub(crate) fn set_key_not_null(
        &mut self,
        relation: &Relation,
        definition: &mut RelationDefinition,
        constraint: &ConstraintSpec,
    ) -> Result<()> {
        set_key_not_null(definition, constraint)?;
        self.refuse_nulls(relation, definition)?;
        if *definition == relation.definition { Ok(()) } else { self.update(definition.clone()) }
    }

    /// Fails when a row does not satisfy a check.
    pub(crate) fn prove_check(&mut self, relation: &Relation, check: &Check) -> Result<()> {
        let table = self.session.qualified_name(relation);
        let sql = format!("SELECT 1 FROM {table} WHERE NOT ({}) LIMIT 1", check.expression);
        let rows = self.session.at_latest(|session| session.stored_query(&sql))?;
        if rows.is_empty() {
            return Ok(());
        }
        let message = format!(
            "check constraint \"{}\" of relation \"{}\" is violated by some row",
            check.name, relation.name
        );
        Err(SqlError::new("23514", message)
            .with_constraint(check.name.clone())
            .with_table(self.session.schema_name(relation.schema), relation.name.clone()))
    }

    /// Fails when a column that becomes NOT NULL has a NULL.
    pub(crate) fn refuse_nulls(&mut self, old: &Relation, new: &RelationDefinition) -> Result<()> {
        let mut columns = Vec::new();
        for (before, after) in old.columns.iter().zip(&new.columns) {
            if after.not_null && !before.not_null {
                columns.push(after.name.clone());
            }
        }
        for name in columns {
            let table = self.session.qualified_name(old);
            let sql =
                format!("SELECT 1 FROM {table} WHERE {} IS NULL LIMIT 1", quote_identifier(&name));
            let rows = self.session.at_latest(|session| session.internal_query(&sql))?;
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

    /// Makes an existing unique index hold a constraint. The index takes the constraint's name.
    fn add_constraint_using_index(
        &mut self,
        relation: &Relation,
        name: Option<&str>,
        primary: bool,
        index: &str,
        check_time: ConstraintTime,
    ) -> Result<()> {
        let entry = relation.indexes.iter().find(|i| i.name == index);
        let elsewhere =
            self.state().lookup(relation.schema, index).is_some_and(|r| r.index.is_some());
        let entry = entry.ok_or_else(|| {
            if elsewhere {
                SqlError::new(
                    "55000",
                    format!("index \"{index}\" does not belong to table \"{}\"", relation.name),
                )
            } else {
                SqlError::new("42704", format!("index \"{index}\" does not exist"))
            }
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
        let plain = |k: &IndexColumn| {
            !k.descending && !k.nulls_first && k.operator_class.is_none() && k.collation.is_none()
        };
        if let Some(at) = entry.definition.key.iter().position(|k| !plain(k)) {
            let number = at + 1;
            let message = format!(
                "index \"{index}\" column number {number} does not have default sorting behavior"
            );
            return Err(SqlError::new("42809", message).with_detail(
                "Cannot create a primary key or unique constraint using such an index.",
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
        let mut own = self.definition_to_change(entry.oid)?;
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

    /// Returns the current version of the relation, after a change.
    pub(crate) fn again(&mut self, relation: &Relation) -> Result<Arc<Relation>> {
        self.current(relation.oid)
    }
}

/// Returns the weakest lock under which a command is safe, the same as PostgreSQL's.
fn lock_of(command: &AlterCommand) -> TableLockMode {
    match command {
        AlterCommand::SetOptions(_)
        | AlterCommand::ResetOptions(_)
        | AlterCommand::AttachPartition { .. }
        | AlterCommand::ValidateConstraint(_) => TableLockMode::ShareUpdateExclusive,
        AlterCommand::EnableTrigger { .. } => TableLockMode::ShareRowExclusive,
        AlterCommand::AddConstraint(constraint)
            if matches!(constraint.kind, ConstraintSpecKind::Foreign(_)) =>
        {
            TableLockMode::ShareRowExclusive
        }
        _ => TableLockMode::AccessExclusive,
    }
}
