//! Constraints of tables: CHECK, PRIMARY KEY, UNIQUE.

use std::sync::Arc;

use niwaki_catalog::{
    CHECKS_MAX, Check, ConstraintKind, IndexColumn, IndexDefinition, IndexEntry, Relation,
    RelationDefinition, RelationKind,
};
use niwaki_sql::utility::{ConstraintSpec, ConstraintSpecKind};
use niwaki_sql::{Result, SqlError, define_check};

use crate::column_rules::refuse_subquery;
use crate::definer::Definer;
use crate::generated_names;
use crate::index::new_index::NewIndex;
use crate::index::operator_class;
use crate::options;

/// Names of a table's constraints, both given and generated ones.
pub(crate) struct ConstraintNames(Vec<String>);

impl ConstraintNames {
    pub(crate) fn of(table: &RelationDefinition, indexes: &[IndexEntry]) -> Self {
        let checks = table.checks.iter().map(|c| c.name.clone());
        let indexes =
            indexes.iter().filter(|i| i.definition.constraint.is_some()).map(|i| i.name.clone());
        let foreign = table.foreign_keys.iter().map(|key| key.name.clone());
        Self(checks.chain(indexes).chain(foreign).collect())
    }

    pub(crate) fn names(&self) -> &[String] {
        &self.0
    }

    /// Takes a given name. Fails if the name is taken.
    pub(crate) fn take(&mut self, name: &str, table: &str) -> Result<()> {
        if self.0.iter().any(|n| n == name) {
            return Err(SqlError::new(
                "42710",
                format!("constraint \"{name}\" for relation \"{table}\" already exists"),
            ));
        }
        self.0.push(name.to_owned());
        Ok(())
    }
}

/// Makes the columns of a primary key NOT NULL.
pub(crate) fn set_key_not_null(
    table: &mut RelationDefinition,
    constraint: &ConstraintSpec,
) -> Result<()> {
    if let ConstraintSpecKind::Unique { primary: true, columns, .. } = &constraint.kind {
        for name in columns {
            let column = table.columns.iter_mut().find(|c| !c.dropped && c.name == *name);
            column.ok_or_else(|| no_key_column(name))?.not_null = true;
        }
    }
    Ok(())
}

/// Adds a check to the checks of a table or domain, which are sorted by name. `kind` is the word
/// for `name` in messages: table or domain.
///
/// # Errors
/// 54000 for a check without a number of its own.
pub(crate) fn put_check(
    checks: &mut Vec<Check>,
    check: Check,
    kind: &str,
    name: &str,
) -> Result<()> {
    if checks.len() >= CHECKS_MAX {
        let message =
            format!("{kind} \"{name}\" cannot have more than {CHECKS_MAX} check constraints");
        return Err(SqlError::new("54000", message));
    }
    checks.push(check);
    checks.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(())
}

pub(crate) fn no_key_column(name: &str) -> SqlError {
    SqlError::new("42703", format!("column \"{name}\" named in key does not exist"))
}

pub(crate) fn no_second_key(table: &str) -> SqlError {
    let message = format!("multiple primary keys for table \"{table}\" are not allowed");
    SqlError::new("42P16", message)
}

impl Definer<'_> {
    /// Adds a CHECK constraint to a definition. Does nothing for other constraints.
    pub(crate) fn add_check(
        &mut self,
        table: &mut RelationDefinition,
        taken: &mut ConstraintNames,
        constraint: &ConstraintSpec,
    ) -> Result<()> {
        let ConstraintSpecKind::Check { expression, no_inherit, .. } = &constraint.kind else {
            return Ok(());
        };
        let no_inherit = *no_inherit;
        if no_inherit && table.partition_key.is_some() {
            let message =
                format!("cannot add NO INHERIT constraint to partitioned table \"{}\"", table.name);
            return Err(SqlError::new("42P16", message));
        }
        // A check over one column is named after it.
        let mut columns = self.session.columns_of_expression(expression)?;
        columns.sort();
        columns.dedup();
        let column = match columns.as_slice() {
            [one] => Some(one.as_str()),
            _ => None,
        };
        let name = if let Some(name) = &constraint.name {
            taken.take(name, &table.name)?;
            name.clone()
        } else {
            // Checks have no relation of their own, so only the table's names count.
            let mut number = 0u32;
            loop {
                let label = if number == 0 { "check".to_owned() } else { format!("check{number}") };
                let name = generated_names::object_name(&table.name, column, &label);
                if taken.take(&name, &table.name).is_ok() {
                    break name;
                }
                number += 1;
            }
        };
        let expression = self.check_text(table, expression, constraint.stored)?;
        let check = Check { name, expression, not_valid: false, no_inherit, comment: None };
        put_check(&mut table.checks, check, "table", &table.name)
    }

    /// Returns the condition of a CHECK constraint in its stored form.
    fn check_text(
        &mut self,
        table: &RelationDefinition,
        expression: &str,
        stored: bool,
    ) -> Result<String> {
        refuse_subquery(expression, "check constraint")?;
        let over = Arc::new(Relation::unopened(table.clone()));
        self.with_texts(stored, |definer| {
            definer.session.with_analysis(|context| define_check(expression, &over, context))
        })
    }

    /// Decides whether a CHECK constraint of a new partition merges with one inherited from its
    /// table. A merge is reported by a notice.
    pub(crate) fn merges_check(
        &mut self,
        table: &RelationDefinition,
        inherited: &[Check],
        constraint: &ConstraintSpec,
    ) -> Result<bool> {
        let (Some(name), ConstraintSpecKind::Check { expression, no_inherit, .. }) =
            (&constraint.name, &constraint.kind)
        else {
            return Ok(false);
        };
        let Some(known) = inherited.iter().find(|check| check.name == *name) else {
            return Ok(false);
        };
        let merged = self.check_text(table, expression, constraint.stored)? == known.expression;
        if merged && *no_inherit {
            let table = &table.name;
            let message = format!(
                "constraint \"{name}\" conflicts with inherited constraint on relation \"{table}\""
            );
            return Err(SqlError::new("42P17", message));
        }
        if merged {
            self.notice(format!("merging constraint \"{name}\" with inherited definition"));
        }
        Ok(merged)
    }

    /// Creates the index of a PRIMARY KEY or UNIQUE constraint. Does nothing for other constraints.
    /// `table` is stored already.
    pub(crate) fn add_unique(
        &mut self,
        table: &RelationDefinition,
        taken: &mut ConstraintNames,
        constraint: &ConstraintSpec,
    ) -> Result<()> {
        match self.read_unique(table, taken, constraint)? {
            Some(new) => self.add_index(new).map(drop),
            None => Ok(()),
        }
    }

    /// Returns the index that a PRIMARY KEY or UNIQUE constraint needs. It is not created yet.
    pub(crate) fn read_unique(
        &mut self,
        table: &RelationDefinition,
        taken: &mut ConstraintNames,
        constraint: &ConstraintSpec,
    ) -> Result<Option<NewIndex>> {
        let ConstraintSpecKind::Unique {
            primary,
            columns,
            include,
            nulls_not_distinct,
            check_time,
            options,
        } = &constraint.kind
        else {
            return Ok(None);
        };
        let relation = self.current(table.oid)?;
        if *primary && relation.primary_key().is_some() {
            return Err(no_second_key(&table.name));
        }
        let position = |name: &String| {
            let found = table.columns.iter().position(|c| !c.dropped && c.name == *name);
            found.and_then(|p| u16::try_from(p).ok()).ok_or_else(|| no_key_column(name))
        };
        let mut key = Vec::with_capacity(columns.len());
        for (i, name) in columns.iter().enumerate() {
            if columns[..i].contains(name) {
                let what = if *primary { "primary key" } else { "unique" };
                return Err(SqlError::new(
                    "42701",
                    format!("column \"{name}\" appears twice in {what} constraint"),
                ));
            }
            let column = IndexColumn::ascending(position(name)?);
            operator_class::choose(
                &self.state(),
                &self.session.types(),
                column.type_oid(table),
                None,
            )?;
            key.push(column);
        }
        let include_positions = include.iter().map(position).collect::<Result<Vec<_>>>()?;
        let state = self.state();
        let name = if let Some(name) = &constraint.name {
            taken.take(name, &table.name)?;
            self.name_is_free(table.schema, name, false)?;
            name.clone()
        } else {
            let joined;
            let (second, label) = if *primary {
                (None, "pkey")
            } else {
                let all: Vec<String> = columns.iter().chain(include).cloned().collect();
                joined = generated_names::joined(&all);
                (Some(joined.as_str()), "key")
            };
            let name = generated_names::free_name(
                &state,
                table.schema,
                &taken.0,
                &table.name,
                second,
                label,
            );
            taken.take(&name, &table.name)?;
            name
        };
        let mut index_options = niwaki_catalog::RelationOptions::default();
        options::set(RelationKind::Index, &mut index_options, options)?;
        let kind = if *primary { ConstraintKind::PrimaryKey } else { ConstraintKind::Unique };
        let definition = IndexDefinition {
            include: include_positions,
            unique: true,
            constraint: Some(kind),
            nulls_not_distinct: *nulls_not_distinct,
            check_time: *check_time,
            ..IndexDefinition::new(table.oid, key)
        };
        Ok(Some(NewIndex { name, definition, options: index_options }))
    }
}
