//! ALTER … RENAME of relations, columns and constraints.

use std::sync::Arc;

use niwaki_catalog::{Column, Oid, Relation, RelationKind};
use niwaki_sql::utility::{Rename, RenameTarget, alter_tag};
use niwaki_sql::{Result, SqlError, nextval_of, rename_column, rename_field, rename_in_expression};
use niwaki_txn::TableLockMode;

use crate::column_rules::check_column_name;
use crate::constraint::ConstraintNames;
use crate::definer::{Definer, is_not, refuse_system, table_of, wrong_kind};
use crate::expression_dependents::draws_by_name;
use crate::partition::alter_only::has_partitions;

impl Definer<'_> {
    pub(crate) fn rename(&mut self, spec: &Rename) -> Result<&'static str> {
        let tag = alter_tag(spec.kind);
        let refuse = |relation: &Relation| {
            refuse_system(relation)?;
            // ALTER TABLE may rename any relation, as in PostgreSQL. ALTER INDEX may, too.
            match spec.kind {
                RelationKind::Table | RelationKind::Index => Ok(()),
                kind if relation.kind == kind => Ok(()),
                kind @ (RelationKind::View | RelationKind::MaterializedView) => {
                    Err(is_not(relation, kind))
                }
                kind => Err(wrong_kind(relation, kind)),
            }
        };
        // Refuses before it waits.
        if let Ok(found) = self.session.find_relation(&spec.relation) {
            refuse(&found)?;
        }
        let modes = [TableLockMode::AccessExclusive; 2];
        // The table of an index has its name.
        let found = self.lock_owned(&spec.relation, "relation", modes, spec.if_exists, table_of)?;
        let Some(relation) = found else { return Ok(tag) };
        refuse(&relation)?;
        if !matches!(spec.target, RenameTarget::Relation) {
            self.refuse_inherited(&relation, &spec.target)?;
            self.lock_tree(&relation, TableLockMode::AccessExclusive)?;
            let relation = self.current(relation.oid)?;
            if let RenameTarget::Column(from) = &spec.target {
                if spec.relation.only && has_partitions(&relation) {
                    let message =
                        format!("inherited column \"{from}\" must be renamed in child tables too");
                    return Err(SqlError::new("42P16", message));
                }
                for each in self.tree_of(&relation) {
                    self.rename_column(&each, from, &spec.to)?;
                }
                return Ok(tag);
            }
        }
        let mut definition = relation.definition.clone();
        match &spec.target {
            RenameTarget::Constraint(from)
                if relation.checks.iter().any(|check| check.name == *from) =>
            {
                if spec.relation.only && has_partitions(&relation) {
                    let message = format!(
                        "inherited constraint \"{from}\" must be renamed in child tables too"
                    );
                    return Err(SqlError::new("42P16", message));
                }
                // As in PostgreSQL, the partitions come before the table itself.
                let tree = self.tree_of(&relation);
                for each in tree.iter().skip(1).chain([&relation]) {
                    self.rename_check(each, from, &spec.to)?;
                }
            }
            RenameTarget::Relation => {
                self.name_is_free(relation.schema, &spec.to, false)?;
                definition.name.clone_from(&spec.to);
                self.update(definition)?;
                if relation.kind == RelationKind::Sequence {
                    self.number_in_default(&relation)?;
                }
            }
            RenameTarget::Column(_) => {}
            RenameTarget::Constraint(from) => {
                let index = relation
                    .indexes
                    .iter()
                    .find(|i| i.name == *from && i.definition.constraint.is_some());
                let mut taken = ConstraintNames::of(&definition, &relation.indexes);
                if index.is_some() || definition.foreign_key(from).is_some() {
                    taken.take(&spec.to, &relation.name)?;
                }
                if let Some(index) = index {
                    self.name_is_free(relation.schema, &spec.to, false)?;
                    let mut definition = self.definition_to_change(index.oid)?;
                    definition.name.clone_from(&spec.to);
                    self.update(definition)?;
                } else if let Some(key) =
                    definition.foreign_keys.iter_mut().find(|key| key.name == *from)
                {
                    key.name.clone_from(&spec.to);
                    self.update(definition)?;
                } else {
                    return Err(SqlError::new(
                        "42704",
                        format!(
                            "constraint \"{from}\" for table \"{}\" does not exist",
                            relation.name
                        ),
                    ));
                }
            }
        }
        Ok(tag)
    }

    /// Renames a check of one table.
    fn rename_check(&mut self, relation: &Relation, from: &str, to: &str) -> Result<()> {
        let mut definition = relation.definition.clone();
        ConstraintNames::of(&definition, &relation.indexes).take(to, &relation.name)?;
        let check = definition.checks.iter_mut().find(|check| check.name == from);
        let check = check.ok_or_else(|| SqlError::internal("a partition without a check"))?;
        to.clone_into(&mut check.name);
        definition.checks.sort_by(|a, b| a.name.cmp(&b.name));
        self.update(definition)
    }

    /// Renames a column of one table.
    fn rename_column(&mut self, relation: &Relation, from: &str, to: &str) -> Result<()> {
        let mut definition = relation.definition.clone();
        check_column_name(to)?;
        let position = relation
            .column_position(from)
            .ok_or_else(|| SqlError::new("42703", format!("column \"{from}\" does not exist")))?;
        if relation.column_position(to).is_some() {
            return Err(SqlError::new(
                "42701",
                format!("column \"{}\" of relation \"{}\" already exists", to, relation.name),
            ));
        }
        to.clone_into(&mut definition.columns[position].name);
        for check in &mut definition.checks {
            check.expression = rename_column(&check.expression, from, to)?;
        }
        for when in definition.triggers.iter_mut().filter_map(|t| t.when.as_mut()) {
            *when = rename_field(when, from, to)?;
        }
        for column in definition.columns.iter_mut().filter(|c| c.generated) {
            if let Some(text) = &column.default {
                column.default = Some(rename_column(text, from, to)?);
            }
        }
        // Index texts and the column change in one step, because neither is right alone.
        let renamed = Arc::new(Relation::unopened(definition.clone()));
        self.update(definition)?;
        for entry in &relation.indexes {
            if entry.definition.expressions().next().is_none() {
                continue;
            }
            let mut own = self.definition_to_change(entry.oid)?;
            let Some(index) = &mut own.index else { continue };
            let keys = index.key.iter_mut().filter_map(|k| k.expression.as_mut());
            for stored in keys.chain(&mut index.predicate) {
                *stored = self.session.with_analysis(|context| {
                    rename_in_expression(stored, from, to, &renamed, context)
                })?;
            }
            self.update(own)?;
        }
        Ok(())
    }

    /// Fails with 42P16 for a column or constraint that a partition has from its table.
    fn refuse_inherited(&mut self, relation: &Relation, target: &RenameTarget) -> Result<()> {
        let Some(of) = &relation.partition_of else { return Ok(()) };
        let parent = self.current(of.parent)?;
        let inherited = match target {
            RenameTarget::Column(name) if parent.column_position(name).is_some() => {
                Some(("column", name))
            }
            RenameTarget::Constraint(name) if parent.checks.iter().any(|c| c.name == *name) => {
                Some(("constraint", name))
            }
            _ => None,
        };
        let Some((word, name)) = inherited else { return Ok(()) };
        let message = format!("cannot rename inherited {word} \"{name}\"");
        Err(SqlError::new("42P16", message))
    }

    /// Renews column defaults that name a renamed sequence. Defaults name a sequence by number,
    /// except in older databases, where they have its name. In those the default must change when
    /// the sequence gets another name.
    pub(crate) fn number_in_default(&mut self, sequence: &Relation) -> Result<()> {
        let state = self.state();
        let draws = |c: &Column| c.sequence == Some(sequence.oid) && draws_by_name(c);
        let users = state.tables().filter(|table| table.columns.iter().any(draws));
        let mut users: Vec<Oid> = users.map(|table| table.oid).collect();
        users.sort_unstable();
        for table in users {
            self.lock(table, TableLockMode::AccessExclusive)?;
            self.change_columns(table, |column| {
                if draws(column) {
                    column.default = Some(nextval_of(sequence.oid));
                }
            })?;
        }
        Ok(())
    }
}
