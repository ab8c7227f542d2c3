//! ALTER TABLE … COLUMN: columns added, dropped and altered.

use niwaki_catalog::{Relation, RelationDefinition, missing_text};
use niwaki_env::seeded_bug;
use niwaki_sql::utility::{AlterColumn, ColumnSpec, ConstraintSpec};
use niwaki_sql::{Result, RowExpression, SqlError};
use niwaki_types::Datum;

use crate::column_rules::{COLUMNS_MAX, check_column_name, too_many_columns};
use crate::definer::Definer;
use crate::depend::{Dependent, still_needed};
use crate::object::Object;
use crate::routine::trigger::triggers_on_column;

impl Definer<'_> {
    pub(crate) fn add_column(
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
        let mut definition = relation.definition.clone();
        let mut column = self.new_column(&definition, spec, definition.columns.len())?;
        let must_not_be_null = column.not_null;
        column.not_null = false;
        let type_of = column.column_type();
        let generated = column.generated;
        let drawn = column.sequence.is_some();
        definition.columns.push(column);
        let position = definition.columns.len() - 1;
        if generated {
            self.read_generated(&mut definition, position)?;
        }
        self.allot_values(&mut definition)?;
        self.update(definition.clone())?;
        let state = self.state();
        let domain = type_of.domain.and_then(|domain| state.domain(domain));
        let inherited = domain.and_then(|domain| domain.default.clone());
        let default = definition.columns[position].default.clone().or(inherited);
        if type_of.domain.is_some_and(|domain| state.is_constrained(domain)) {
            // Existing rows get values that must satisfy the domain. In a table without rows
            // nothing is checked.
            let value = default.unwrap_or_else(|| "NULL".to_owned());
            definition = self.fill_column(relation, position, &value)?;
        } else if let Some(default) = default {
            // The text form of a composite value needs its type, which is not available where the
            // table is opened.
            let composite = type_of.oid.element().unwrap_or(type_of.oid).is_composite();
            if generated || drawn || composite || self.session.is_volatile(&default)? {
                definition = self.fill_column(relation, position, &default)?;
            } else {
                // Existing rows get the default's current value, which is computed once for all of
                // them.
                let value = self.session.evaluate_stored(&default, type_of)?;
                if !matches!(value, Datum::Null) {
                    definition.columns[position].missing = missing_text(&value, type_of);
                    self.update(definition.clone())?;
                }
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

    /// Computes a new column for each existing row. Returns the table's definition after that.
    fn fill_column(
        &mut self,
        relation: &Relation,
        position: usize,
        value: &str,
    ) -> Result<RelationDefinition> {
        let now = self.again(relation)?;
        if !self.has_rows(&now)? {
            return Ok(now.definition.clone());
        }
        let column = &now.columns[position];
        let target = (column.column_type(), column.name.as_str());
        let over = column.generated.then_some(&now);
        let read = self
            .session
            .with_analysis(|context| RowExpression::new(value, over, target, context))?;
        let read = vec![(position, read)];
        let (computed, derived) =
            if column.generated { (Vec::new(), read) } else { (read, Vec::new()) };
        self.rewrite(&now, now.definition.clone(), &computed, &derived)?;
        Ok(self.again(relation)?.definition.clone())
    }

    pub(crate) fn drop_column(
        &mut self,
        relation: &Relation,
        name: &str,
        if_exists: bool,
        cascade: bool,
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
        self.drop_column_dependents(relation, position, number, cascade)?;
        let relation = &*self.again(relation)?;
        // Indexes with the column are dropped with it.
        for (at, index) in relation.indexes.iter().enumerate() {
            let definition = &index.definition;
            let reads = match &relation.table {
                Some(table) => table.index_reads(at, position),
                None => definition.key.iter().any(|key| key.column == number),
            };
            let used = reads || definition.include.contains(&number);
            if used {
                self.remove_index(index.oid)?;
            }
        }
        for member in relation.partitions.iter().flat_map(|partitions| &partitions.members) {
            let below = self.current(member.relation.oid)?;
            self.drop_column(&below, name, true, cascade)?;
        }
        let mut definition = self.again(relation)?.definition.clone();
        let mut kept = Vec::new();
        for check in std::mem::take(&mut definition.checks) {
            // A check over the column is dropped with it, as in PostgreSQL.
            let columns = self.session.columns_of_expression(&check.expression)?;
            if !columns.iter().any(|c| c == name) {
                kept.push(check);
            }
        }
        definition.checks = kept;
        definition.foreign_keys.retain(|key| !key.columns.contains(&number));
        let column = &mut definition.columns[position];
        let sequence = column.sequence.take();
        column.dropped = true;
        column.domain = None;
        column.name = format!("........pg.dropped.{}........", position + 1);
        column.not_null = false;
        column.default = None;
        column.identity = None;
        column.generated = false;
        column.comment = None;
        self.update(definition)?;
        if let Some(sequence) = sequence {
            self.remove_with_files(sequence)?;
        }
        Ok(())
    }

    /// Returns the foreign keys, views and triggers that need a column. Messages call the column
    /// `what`.
    pub(crate) fn dependents_on_column(
        &mut self,
        relation: &Relation,
        number: u16,
        what: &str,
    ) -> Result<Vec<Dependent>> {
        let state = self.state();
        let keys = state.foreign_keys_to(relation.oid).iter();
        let keys = keys.filter_map(|key| state.foreign_key(*key));
        let keys =
            keys.filter(|(_, key)| key.referenced.contains(&number) && key.part_of.is_none());
        let keys = keys
            // The column's own foreign keys are dropped with it.
            .filter(|(own, key)| own.oid != relation.oid || !key.columns.contains(&number))
            .map(|(own, key)| Object::ForeignKey { table: own.oid, constraint: key.oid });
        let views = state.views_of(relation.oid).iter().filter(|view| {
            let query = state.relation(**view).and_then(|view| view.query.as_ref());
            let columns = query.and_then(|query| query.columns_of(relation.oid));
            columns.is_some_and(|columns| columns.contains(&number))
        });
        let triggers = triggers_on_column(relation, usize::from(number))?;
        let objects = keys.chain(views.copied().map(Object::View)).chain(triggers).collect();
        self.dependents_on(objects, what)
    }

    /// Drops the objects that depend on a column: foreign keys that reference it, views, triggers,
    /// and columns computed from it. Without CASCADE they are an error.
    fn drop_column_dependents(
        &mut self,
        relation: &Relation,
        position: usize,
        number: u16,
        cascade: bool,
    ) -> Result<()> {
        let name = &relation.columns[position].name;
        let table = self.shown_name(relation);
        let what = format!("column {name} of table {table}");
        let find = |definer: &mut Self| definer.dependents_on_column(relation, number, &what);
        let mut computed = Vec::new();
        for other in relation.columns.iter().filter(|other| other.generated && !other.dropped) {
            let Some(text) = &other.default else { continue };
            if other.name != *name
                && self.session.columns_of_expression(text)?.iter().any(|read| read == name)
            {
                computed.push(other.name.clone());
            }
        }
        let shown: Vec<String> =
            computed.iter().map(|other| format!("column {other} of table {table}")).collect();
        if !shown.is_empty() && !cascade {
            let mut lines: Vec<String> =
                shown.iter().map(|other| format!("{other} depends on {what}")).collect();
            let dependents = find(self)?;
            lines.extend(self.lines(&dependents)?);
            return Err(still_needed(&what, &lines));
        }
        self.drop_dependents(&what, &find, cascade)?;
        self.cascades(&shown);
        for other in computed {
            let now = self.again(relation)?;
            self.drop_column(&now, &other, true, true)?;
        }
        Ok(())
    }

    pub(crate) fn alter_column(
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
            AlterColumn::Statistics | AlterColumn::Nothing(_) => return Ok(()),
            AlterColumn::Type { column_type, user_type, collation, using } => {
                let relation = self.again(relation)?;
                let to = match user_type {
                    Some(wanted) => self.column_type_of(wanted)?,
                    None => *column_type,
                };
                let collation = self.collation(*collation, to)?;
                return self.alter_type(&relation, position, (to, collation), using.as_deref());
            }
            AlterColumn::AddIdentity(identity, options) => {
                return self.add_identity(relation, position, *identity, options);
            }
            AlterColumn::SetIdentity(identity, options) => {
                return self.set_identity(relation, position, *identity, options);
            }
            AlterColumn::DropIdentity { if_exists } => {
                return self.drop_identity(relation, position, *if_exists);
            }
            AlterColumn::DropExpression { if_exists } => {
                return self.drop_expression(relation, position, *if_exists);
            }
            AlterColumn::Default(default) => {
                let (kind, instead) = match (column.identity, column.generated) {
                    (Some(_), _) => ("an identity", "IDENTITY"),
                    (None, true) => ("a generated", "EXPRESSION"),
                    (None, false) => ("", ""),
                };
                if !kind.is_empty() {
                    let of = &relation.name;
                    let message =
                        format!("column \"{name}\" of relation \"{of}\" is {kind} column");
                    let hint =
                        format!("Use ALTER TABLE ... ALTER COLUMN ... DROP {instead} instead.");
                    let error = SqlError::new("42601", message);
                    return Err(if default.is_none() { error.with_hint(hint) } else { error });
                }
                let target = (column.column_type(), name);
                column.default = match default {
                    Some(default) => Some(self.new_default(default, target)?),
                    None => None,
                };
                if seeded_bug!("default_for_old_rows") {
                    column.missing.clone_from(&column.default);
                }
                return self.update(definition);
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
