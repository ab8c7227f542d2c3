//! ALTER TABLE … COLUMN.

use niwaki_catalog::{Relation, missing_text};
use niwaki_sql::SqlError;
use niwaki_sql::utility::{AlterColumn, ColumnSpec, ConstraintSpec};
use niwaki_types::Datum;

use super::Definer;
use super::create_table::{COLUMNS_MAX, check_column_name, too_many_columns};
use crate::Result;

impl Definer<'_> {
    pub(super) fn add_column(
        &mut self,
        relation: &Relation,
        spec: &ColumnSpec,
        constraints: &[ConstraintSpec],
        if_not_exists: bool,
    ) -> Result<()> {
        check_column_name(&spec.name)?;
        if relation.column_position(&spec.name).is_some() {
            let message = format!(
                "column \"{}\" of relation \"{}\" already exists",
                spec.name, relation.name
            );
            if if_not_exists {
                self.session.notice(self.out, "42701", format!("{message}, skipping"));
                return Ok(());
            }
            return Err(SqlError::new("42701", message));
        }
        if relation.columns.len() >= COLUMNS_MAX {
            return Err(too_many_columns());
        }
        if spec.serial || spec.identity.is_some() {
            let table = self.session.qualified_name(relation);
            let rows = self.session.internal_query(&format!("SELECT 1 FROM {} LIMIT 1", table))?;
            if !rows.is_empty() {
                return Err(SqlError::unsupported(
                    "ADD COLUMN of a serial or identity column to a table with rows",
                ));
            }
        }
        let mut definition = relation.definition.clone();
        let mut column = self.new_column(&definition, spec, definition.columns.len())?;
        let must_not_be_null = column.not_null;
        column.not_null = false;
        let type_of = column.column_type();
        let default = column.default.clone().filter(|_| column.sequence.is_none());
        definition.columns.push(column);
        self.allot_values(&mut definition)?;
        let position = definition.columns.len() - 1;
        self.update(definition.clone())?;
        self.check_expressions(relation.oid)?;
        // Rows that are there get the default's value of now, once for all of them.
        if let Some(default) = default {
            if self.session.is_volatile(&default)? {
                return Err(SqlError::unsupported("ADD COLUMN with a volatile default"));
            }
            let value = self.session.evaluate_as(&default, type_of)?;
            if !matches!(value, Datum::Null) {
                definition.columns[position].missing = missing_text(&value, type_of);
                self.update(definition.clone())?;
            }
        }
        if must_not_be_null {
            let before = self.again(relation)?;
            definition.columns[position].not_null = true;
            self.refuse_nulls(&before, &definition)?;
            self.update(definition)?;
        }
        for constraint in constraints {
            let now = self.again(relation)?;
            self.add_constraint(&now, constraint)?;
        }
        Ok(())
    }

    pub(super) fn drop_column(
        &mut self,
        relation: &Relation,
        name: &str,
        if_exists: bool,
    ) -> Result<()> {
        let Some(position) = relation.column_position(name) else {
            let message =
                format!("column \"{name}\" of relation \"{}\" does not exist", relation.name);
            if if_exists {
                self.notice(format!("{message}, skipping"));
                return Ok(());
            }
            return Err(SqlError::new("42703", message));
        };
        let number = u16::try_from(position).map_err(|_| SqlError::internal("column number"))?;
        // Indexes with the column go with it.
        for (at, index) in relation.indexes.iter().enumerate() {
            let definition = &index.definition;
            let reads = relation.table.as_ref().is_some_and(|t| t.index_reads(at, position));
            let used = reads || definition.include.contains(&number);
            if used {
                self.remove_with_files(index.oid)?;
            }
        }
        let mut definition = self.again(relation)?.definition.clone();
        let mut kept = Vec::new();
        for check in std::mem::take(&mut definition.checks) {
            // A check over the column goes with it, as in PostgreSQL.
            let columns = self.session.columns_of_expression(&check.expression)?;
            if !columns.iter().any(|c| c == name) {
                kept.push(check);
            }
        }
        definition.checks = kept;
        let column = &mut definition.columns[position];
        let sequence = column.sequence.take();
        column.dropped = true;
        column.name = format!("........pg.dropped.{}........", position + 1);
        column.not_null = false;
        column.default = None;
        column.identity = None;
        self.update(definition)?;
        if let Some(sequence) = sequence {
            self.remove_with_files(sequence)?;
        }
        Ok(())
    }

    pub(super) fn alter_column(
        &mut self,
        relation: &Relation,
        name: &str,
        action: &AlterColumn,
    ) -> Result<()> {
        let position = relation.column_position(name).ok_or_else(|| {
            SqlError::new(
                "42703",
                format!("column \"{name}\" of relation \"{}\" does not exist", relation.name),
            )
        })?;
        let mut definition = relation.definition.clone();
        let column = &mut definition.columns[position];
        match action {
            AlterColumn::Nothing => return Ok(()),
            AlterColumn::Default(default) => {
                if column.identity.is_some() {
                    return Err(SqlError::new(
                        "42601",
                        format!(
                            "column \"{name}\" of relation \"{}\" is an identity column",
                            relation.name
                        ),
                    ));
                }
                column.default.clone_from(default);
                self.update(definition)?;
                return self.check_expressions(relation.oid);
            }
            AlterColumn::SetNotNull => {
                if column.not_null {
                    return Ok(());
                }
                column.not_null = true;
                self.refuse_nulls(relation, &definition)?;
            }
            AlterColumn::DropNotNull => {
                let primary = relation.primary_key().and_then(|p| relation.indexes.get(p));
                let number =
                    u16::try_from(position).map_err(|_| SqlError::internal("column number"))?;
                if primary.is_some_and(|p| p.definition.key.iter().any(|k| k.column == number)) {
                    return Err(SqlError::new(
                        "42P16",
                        format!("column \"{name}\" is in a primary key"),
                    ));
                }
                if column.identity.is_some() {
                    return Err(SqlError::new(
                        "42601",
                        format!(
                            "column \"{name}\" of relation \"{}\" is an identity column",
                            relation.name
                        ),
                    ));
                }
                column.not_null = false;
            }
        }
        self.update(definition)
    }
}
