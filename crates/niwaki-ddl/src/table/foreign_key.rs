//! FOREIGN KEY constraints: their definition, their proof for existing rows, and changes of them.

use std::sync::Arc;

use niwaki_catalog::{ConstraintTime, ForeignKey, Oid, ReferentialAction, Relation, RelationKind};
use niwaki_session::shown_type;
use niwaki_sql::types::can_reference;
use niwaki_sql::utility::{ConstraintSpec, ConstraintSpecKind, ForeignKeySpec};
use niwaki_sql::{Result, SqlError};
use niwaki_txn::TableLockMode;
use niwaki_types::{ColumnType, UserTypes};

use crate::column_rules::SYSTEM_COLUMNS;
use crate::constraint::ConstraintNames;
use crate::definer::{Definer, refuse_system};
use crate::generated_names;

/// Greatest number of columns of a foreign key, as in PostgreSQL.
const KEY_COLUMNS_MAX: usize = 32;

impl Definer<'_> {
    /// Adds a FOREIGN KEY constraint to a stored table. Does nothing for other constraints. `prove`
    /// is set when the table may have rows.
    pub(crate) fn add_foreign_key(
        &mut self,
        table: Oid,
        taken: &mut ConstraintNames,
        constraint: &ConstraintSpec,
        prove: bool,
    ) -> Result<()> {
        let ConstraintSpecKind::Foreign(spec) = &constraint.kind else { return Ok(()) };
        let mode = TableLockMode::ShareRowExclusive;
        let referenced = self.session.lock_by_name(&spec.references, mode)?;
        self.lock_referenced(referenced.oid)?;
        let table = self.current(table)?;
        self.may_reference(&table, &referenced)?;
        if prove && constraint.not_valid && table.is_partitioned() {
            let (own, other) = (&table.name, &referenced.name);
            return Err(SqlError::new("42809", format!("cannot add NOT VALID foreign key on partitioned table \"{own}\" referencing relation \"{other}\""))
                .with_detail("This feature is not yet supported on partitioned tables."));
        }
        let columns = positions(&table, &spec.columns)?;
        let set_columns = set_columns(&table, &columns, spec)?;
        let (index, referenced_columns) = if spec.referenced.is_empty() {
            primary_key(&referenced)?
        } else {
            let positions = positions(&referenced, &spec.referenced)?;
            (unique_index(&referenced, &positions)?, positions)
        };
        refuse_generated(&table, &columns, spec)?;
        if columns.len() != referenced_columns.len() {
            let message = "number of referencing and referenced columns for foreign key disagree";
            return Err(SqlError::new("42830", message));
        }
        let name = self.foreign_key_name(&table, taken, constraint, spec)?;
        let key = ForeignKey {
            oid: self.session.new_oid(),
            name,
            columns,
            references: referenced.oid,
            referenced: referenced_columns,
            index,
            on_update: spec.on_update,
            on_delete: spec.on_delete,
            set_columns,
            match_full: spec.match_full,
            check_time: spec.check_time,
            not_valid: prove && constraint.not_valid,
            part_of: None,
            comment: None,
        };
        refuse_types(&key, &table, &referenced, &self.session.types())?;
        let (oid, not_valid) = (key.oid, key.not_valid);
        let mut definition = table.definition.clone();
        definition.foreign_keys.push(key.clone());
        self.update(definition)?;
        for member in table.partitions.iter().flat_map(|partitions| &partitions.members) {
            self.add_key_part(&key, &table, member.relation.oid)?;
        }
        if prove && !not_valid { self.prove_foreign_key(oid) } else { Ok(()) }
    }

    fn may_reference(&mut self, table: &Relation, referenced: &Relation) -> Result<()> {
        match referenced.kind {
            RelationKind::Table => {}
            RelationKind::Index
            | RelationKind::Sequence
            | RelationKind::View
            | RelationKind::MaterializedView => {
                refuse_system(referenced)?;
                let message = format!("referenced relation \"{}\" is not a table", referenced.name);
                return Err(SqlError::new("42809", message));
            }
        }
        let temporary = self.state().temporary_schema();
        let is_temporary = |relation: &Relation| temporary == Some(relation.schema);
        let (own, other) = (is_temporary(table), is_temporary(referenced));
        let refused = match (own, table.logged, other, referenced.logged) {
            (true, _, false, _) => Some(("temporary", "temporary")),
            (false, true, true, _) | (false, true, false, false) => {
                Some(("permanent", "permanent"))
            }
            (false, false, true, _) => Some(("unlogged", "permanent or unlogged")),
            _ => None,
        };
        let Some((own, allowed)) = refused else { return Ok(()) };
        let message = format!("constraints on {own} tables may reference only {allowed} tables");
        Err(SqlError::new("42P16", message))
    }

    fn foreign_key_name(
        &mut self,
        table: &Relation,
        taken: &mut ConstraintNames,
        constraint: &ConstraintSpec,
        spec: &ForeignKeySpec,
    ) -> Result<String> {
        if let Some(name) = &constraint.name {
            taken.take(name, &table.name)?;
            return Ok(name.clone());
        }
        Ok(self.free_key_name(table, taken, &generated_names::joined(&spec.columns)))
    }

    /// Returns a generated name for a foreign key over columns of these names. It is unique in the
    /// schema, as in PostgreSQL.
    pub(crate) fn free_key_name(
        &mut self,
        table: &Relation,
        taken: &mut ConstraintNames,
        joined: &str,
    ) -> String {
        let state = self.state();
        let elsewhere = |name: &str| {
            state.tables().filter(|other| other.schema == table.schema).any(|other| {
                other.foreign_key(name).is_some()
                    || other.checks.iter().any(|check| check.name == name)
                    || other
                        .indexes
                        .iter()
                        .any(|index| index.definition.constraint.is_some() && index.name == name)
            })
        };
        let mut number = 0u32;
        loop {
            let label = if number == 0 { "fkey".to_owned() } else { format!("fkey{number}") };
            let name = generated_names::object_name(&table.name, Some(joined), &label);
            if !elsewhere(&name) && taken.take(&name, &table.name).is_ok() {
                return name;
            }
            // Ends: the constraints are fewer than the numbers.
            number += 1;
        }
    }

    /// Checks all rows of the referencing table, partition by partition.
    pub(crate) fn prove_foreign_key(&mut self, oid: Oid) -> Result<()> {
        let state = self.state();
        let Some((table, _)) = state.foreign_key(oid) else { return Ok(()) };
        let members = table.partitions.iter().flat_map(|partitions| &partitions.members);
        let members = members.filter_map(|member| state.relation(member.relation.oid));
        let part = |member: &Arc<Relation>| {
            member.foreign_keys.iter().find(|key| key.part_of == Some(oid)).map(|key| key.oid)
        };
        let parts: Vec<Oid> = members.filter_map(part).collect();
        if !parts.is_empty() {
            return parts.into_iter().try_for_each(|part| self.prove_foreign_key(part));
        }
        let orphan = self.session.at_latest(|session| session.orphan_key(&state, oid))?;
        match orphan {
            None => Ok(()),
            Some(row) => Err(self.session.refused_reference(&state, oid, &row)),
        }
    }

    /// Runs VALIDATE CONSTRAINT.
    pub(crate) fn validate_constraint(&mut self, relation: &Relation, name: &str) -> Result<()> {
        let mut definition = relation.definition.clone();
        if let Some(key) = definition.foreign_keys.iter_mut().find(|key| key.name == name) {
            if !std::mem::take(&mut key.not_valid) {
                return Ok(());
            }
            let (oid, referenced) = (key.oid, key.references);
            self.lock(referenced, TableLockMode::RowShare)?;
            self.prove_foreign_key(oid)?;
            return self.update(definition);
        }
        if let Some(check) = definition.checks.iter_mut().find(|check| check.name == name) {
            if !std::mem::take(&mut check.not_valid) {
                return Ok(());
            }
            let check = check.clone();
            self.prove_check(relation, &check)?;
            return self.update(definition);
        }
        self.other_constraint(relation, name, "a foreign key or check constraint")
    }

    pub(crate) fn alter_constraint(
        &mut self,
        relation: &Relation,
        name: &str,
        check_time: ConstraintTime,
    ) -> Result<()> {
        let mut definition = relation.definition.clone();
        let found = definition.foreign_keys.iter_mut().find(|key| key.name == name);
        let Some(key) = found else {
            return self.other_constraint(relation, name, "a foreign key constraint");
        };
        key.check_time = check_time;
        let key = key.clone();
        self.refuse_part(relation, &key)?;
        self.update(definition)?;
        for (table, part) in self.key_parts(key.oid) {
            let mut definition = self.current(table)?.definition.clone();
            let found = definition.foreign_keys.iter_mut().find(|key| key.oid == part);
            found.into_iter().for_each(|key| key.check_time = check_time);
            self.update(definition)?;
        }
        Ok(())
    }

    fn other_constraint(&mut self, relation: &Relation, name: &str, wanted: &str) -> Result<()> {
        let index = |i: &&niwaki_catalog::IndexEntry| i.definition.constraint.is_some();
        let exists = relation.indexes.iter().filter(index).any(|index| index.name == name)
            || relation.checks.iter().any(|check| check.name == name);
        let of = format!("constraint \"{name}\" of relation \"{}\"", relation.name);
        Err(if exists {
            SqlError::new("42809", format!("{of} is not {wanted}"))
        } else {
            SqlError::new("42704", format!("{of} does not exist"))
        })
    }
}

/// Returns the positions of the columns that a foreign key names.
fn positions(relation: &Relation, names: &[String]) -> Result<Vec<u16>> {
    if names.len() > KEY_COLUMNS_MAX {
        let message = format!("cannot have more than {KEY_COLUMNS_MAX} keys in a foreign key");
        return Err(SqlError::new("54011", message));
    }
    let position = |name: &String| {
        let found = relation.column_position(name).and_then(|at| u16::try_from(at).ok());
        found.ok_or_else(|| {
            if SYSTEM_COLUMNS.contains(&name.as_str()) {
                return SqlError::new("0A000", "system columns cannot be used in foreign keys");
            }
            let message =
                format!("column \"{name}\" referenced in foreign key constraint does not exist");
            SqlError::new("42703", message)
        })
    };
    names.iter().map(position).collect()
}

fn set_columns(table: &Relation, columns: &[u16], spec: &ForeignKeySpec) -> Result<Vec<u16>> {
    let mut set = positions(table, &spec.set_columns)?;
    for (at, name) in set.iter().zip(&spec.set_columns) {
        if !columns.contains(at) {
            let message = format!(
                "column \"{name}\" referenced in ON DELETE SET action must be part of foreign key"
            );
            return Err(SqlError::new("42P10", message));
        }
    }
    // A repeated column changes nothing.
    let mut seen = Vec::new();
    set.retain(|column| {
        !seen.contains(column) && {
            seen.push(*column);
            true
        }
    });
    Ok(set)
}

/// Refuses actions that would set a generated column.
fn refuse_generated(table: &Relation, columns: &[u16], spec: &ForeignKeySpec) -> Result<()> {
    use ReferentialAction as A;
    let generated = |at: &u16| table.columns.get(usize::from(*at)).is_some_and(|c| c.generated);
    if !columns.iter().any(generated) {
        return Ok(());
    }
    let when = if matches!(spec.on_update, A::SetNull | A::SetDefault | A::Cascade) {
        "UPDATE"
    } else if matches!(spec.on_delete, A::SetNull | A::SetDefault) {
        "DELETE"
    } else {
        return Ok(());
    };
    let message =
        format!("invalid ON {when} action for foreign key constraint containing generated column");
    Err(SqlError::new("42601", message))
}

fn primary_key(referenced: &Relation) -> Result<(Oid, Vec<u16>)> {
    let index = referenced.primary_key().and_then(|at| referenced.indexes.get(at));
    let Some(index) = index else {
        let message =
            format!("there is no primary key for referenced table \"{}\"", referenced.name);
        return Err(SqlError::new("42704", message));
    };
    if index.definition.check_time != ConstraintTime::AtOnce {
        let message = format!(
            "cannot use a deferrable primary key for referenced table \"{}\"",
            referenced.name
        );
        return Err(SqlError::new("55000", message));
    }
    Ok((index.oid, index.definition.key.iter().map(|key| key.column).collect()))
}

/// Finds the unique index with exactly these columns, in any order.
fn unique_index(referenced: &Relation, columns: &[u16]) -> Result<Oid> {
    let mut sorted = columns.to_vec();
    sorted.sort_unstable();
    if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
        let message = "foreign key referenced-columns list must not contain duplicates";
        return Err(SqlError::new("42830", message));
    }
    let mut deferrable = false;
    for index in &referenced.indexes {
        let definition = &index.definition;
        let plain = definition.unique
            && definition.valid
            && definition.predicate.is_none()
            && definition.key.iter().all(|key| key.expression.is_none());
        let mut own: Vec<u16> = definition.key.iter().map(|key| key.column).collect();
        own.sort_unstable();
        if !plain || own != sorted {
            continue;
        }
        if definition.check_time == ConstraintTime::AtOnce {
            return Ok(index.oid);
        }
        deferrable = true;
    }
    let name = &referenced.name;
    Err(if deferrable {
        SqlError::new(
            "55000",
            format!("cannot use a deferrable unique constraint for referenced table \"{name}\""),
        )
    } else {
        SqlError::new(
            "42830",
            format!(
                "there is no unique constraint matching given keys for referenced table \"{name}\""
            ),
        )
    })
}

/// Fails with 42804 unless each pair of columns can be compared.
pub(crate) fn refuse_types(
    key: &ForeignKey,
    table: &Relation,
    referenced: &Relation,
    types: &UserTypes,
) -> Result<()> {
    for (own, other) in key.columns.iter().zip(&key.referenced) {
        let own = table.columns.get(usize::from(*own));
        let other = referenced.columns.get(usize::from(*other));
        let (Some(own), Some(other)) = (own, other) else { continue };
        let (own_type, other_type) = (own.column_type(), other.column_type());
        if can_reference(other_type.oid, own_type.oid) {
            continue;
        }
        let plain = |of: ColumnType| shown_type(types, of.oid);
        let message = format!("foreign key constraint \"{}\" cannot be implemented", key.name);
        return Err(SqlError::new("42804", message).with_detail(format!(
            "Key columns \"{}\" and \"{}\" are of incompatible types: {} and {}.",
            own.name,
            other.name,
            plain(own_type),
            plain(other_type)
        )));
    }
    Ok(())
}
