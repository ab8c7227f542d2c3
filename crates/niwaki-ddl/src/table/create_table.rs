//! CREATE TABLE with columns, constraints, LIKE and PARTITION OF.

use std::sync::Arc;

use niwaki_catalog::{Column, Oid, PartitionOf, Relation, RelationDefinition, RelationKind};
use niwaki_sql::types::element_of;
use niwaki_sql::utility::{ColumnSpec, CreateTable, SequenceOptions};
use niwaki_sql::{Result, RowExpression, SqlError, define_default, nextval_of, read_generated};
use niwaki_types::{ColumnType, TypeOid};

use crate::column_rules::{
    COLUMNS_MAX, check_column_name, refuse_pseudo, refuse_subquery, too_many_columns,
};
use crate::constraint::{ConstraintNames, set_key_not_null};
use crate::definer::Definer;
use crate::generated_names;
use crate::options;
use crate::partition::attach::columns_of;

impl Definer<'_> {
    /// Creates a table. Returns `None` after a notice when the table exists and IF NOT EXISTS
    /// allows that.
    pub(crate) fn create_table(&mut self, spec: &CreateTable) -> Result<Option<Oid>> {
        let schema = self.creation_schema(&spec.name, spec.persistence)?;
        let logged = self.is_logged(schema, spec.persistence);
        let name = &spec.name.name;
        if !self.name_is_free(schema, name, spec.if_not_exists)? {
            return Ok(None);
        }
        self.name_is_no_type(schema, name)?;
        let (spec, likes) = &self.expand_likes(spec)?;
        check_columns(&spec.columns)?;
        let table_options = options::of_new_table(RelationKind::Table, &spec.options)?;
        let parent = self.parent_of_new(spec)?;
        let oid = self.session.new_oid();
        let mut table = RelationDefinition {
            // A partitioned table has no rows of its own.
            file: if spec.partition_by.is_some() { 0 } else { self.new_file(logged)? },
            logged,
            options: table_options,
            ..RelationDefinition::new(oid, schema, name.clone(), RelationKind::Table)
        };
        if spec.partition_by.is_some() || parent.is_some() {
            self.refuse_temporary(&Relation::unopened(table.clone()))?;
        }
        if spec.partition_by.is_some() && !table.options.0.is_empty() {
            let message = format!("unrecognized parameter \"{}\"", table.options.0[0].0);
            return Err(SqlError::new("22023", message));
        }
        if let Some((parent, bound)) = &parent {
            table.columns = columns_of(parent);
            table.checks.clone_from(&parent.checks);
            let (parent, bound) = (parent.oid, bound.clone());
            table.partition_of = Some(PartitionOf { parent, bound });
            for column in &spec.columns {
                self.change_inherited(&mut table, column)?;
            }
        } else {
            for (position, column) in spec.columns.iter().enumerate() {
                let column = self.new_column(&table, column, position)?;
                table.columns.push(column);
            }
        }
        for position in 0..table.columns.len() {
            let copied = spec.columns.get(position).is_some_and(|column| column.stored);
            let stored = parent.is_some() || copied;
            self.with_texts(stored, |definer| definer.read_generated(&mut table, position))?;
        }
        if let Some(by) = &spec.partition_by {
            table.partition_key = Some(self.partition_key(&table, by)?);
        }
        self.allot_values(&mut table)?;
        let mut taken = ConstraintNames::of(&table, &[]);
        let inherited = table.checks.clone();
        for constraint in &spec.constraints {
            if !self.merges_check(&table, &inherited, constraint)? {
                self.add_check(&mut table, &mut taken, constraint)?;
            }
        }
        for constraint in &spec.constraints {
            set_key_not_null(&mut table, constraint)?;
        }
        let default = match &parent {
            Some((parent, _)) => self.lock_default(parent)?,
            None => None,
        };
        self.create(table.clone())?;
        self.session.note_created(oid);
        if let Some((parent, _)) = &parent {
            self.part_indexes(parent, oid)?;
            self.part_foreign_keys(parent, oid)?;
            self.part_triggers(parent, oid)?;
            self.prove_default(default.as_deref())?;
        }
        self.note_on_commit(oid, spec)?;
        for constraint in &spec.constraints {
            self.add_unique(&table, &mut taken, constraint)?;
        }
        self.copy_likes(oid, &mut taken, likes)?;
        for constraint in &spec.constraints {
            self.add_foreign_key(oid, &mut taken, constraint, false)?;
        }
        Ok(Some(oid))
    }

    /// Calls `run`, which defines expressions. `stored` tells whether their texts come from the
    /// catalog or from a statement.
    pub(crate) fn with_texts<T>(&mut self, stored: bool, run: impl FnOnce(&mut Self) -> T) -> T {
        let before = self.session.set_stored_text(stored);
        let done = run(self);
        self.session.set_stored_text(before);
        done
    }

    /// Reads the expression of a generated column in a new definition. Does nothing for other
    /// columns.
    pub(crate) fn read_generated(
        &mut self,
        table: &mut RelationDefinition,
        position: usize,
    ) -> Result<()> {
        let column = &table.columns[position];
        let (true, Some(text)) = (column.generated, &column.default) else { return Ok(()) };
        let relation = Arc::new(Relation::unopened(table.clone()));
        let target = (column.column_type(), column.name.as_str());
        let read = self
            .session
            .with_analysis(|context| read_generated(text, &relation, target, context))
            .map_err(of_default)?;
        table.columns[position].default = Some(read);
        Ok(())
    }

    /// Refuses a column of a type without a stored form. Only system relations have columns of such
    /// types, and a query or LIKE may copy such a column.
    pub(crate) fn refuse_unstored(&mut self, column: &str, oid: TypeOid) -> Result<()> {
        refuse_pseudo(column, oid)?;
        let inner = element_of(oid).unwrap_or(oid);
        if inner == TypeOid::INET {
            return Err(SqlError::unsupported("type inet"));
        }
        let Some(number) = inner.user_number().filter(|_| inner.is_composite()) else {
            return Ok(());
        };
        // User tables were checked when they were created. Columns of views hold no whole rows, so
        // the recursion ends.
        let state = self.state();
        let rows_of = state.relation(Oid(number));
        let doubtful =
            |relation: &&Arc<Relation>| relation.is_system() || relation.kind == RelationKind::View;
        if let Some(relation) = rows_of.filter(doubtful) {
            for column in &relation.columns {
                self.refuse_unstored(&column.name, column.column_type().oid)?;
            }
        }
        Ok(())
    }

    /// Returns the stored form of a new column. Creates the sequence of a serial or identity
    /// column.
    pub(crate) fn new_column(
        &mut self,
        table: &RelationDefinition,
        spec: &ColumnSpec,
        position: usize,
    ) -> Result<Column> {
        let column_type = match &spec.user_type {
            Some(wanted) => self.column_type_of(wanted)?,
            None => spec.column_type,
        };
        self.refuse_unstored(&spec.name, column_type.oid)?;
        let default = match (&spec.generated, &spec.default) {
            // The expression is read when all columns are known.
            (Some(generated), _) => Some(generated.clone()),
            (None, Some(default)) => {
                let target = (column_type, spec.name.as_str());
                Some(self.with_texts(spec.stored, |definer| definer.new_default(default, target))?)
            }
            (None, None) => None,
        };
        let mut column = Column {
            collation: self.collation(spec.collation, column_type)?,
            not_null: spec.not_null,
            default,
            generated: spec.generated.is_some(),
            ..Column::new(spec.name.clone(), column_type)
        };
        let options = match &spec.identity {
            Some((identity, options)) => {
                column.identity = Some(*identity);
                Some(options.clone())
            }
            None if spec.serial => Some(SequenceOptions::default()),
            None => None,
        };
        if let Some(mut options) = options {
            options.type_oid.get_or_insert(column.type_oid);
            let position = u16::try_from(position).map_err(|_| too_many_columns())?;
            let state = self.state();
            let given = options.sequence_name.take();
            let sequence_name = match given {
                Some(name) => name.name,
                None => generated_names::free_name(
                    &state,
                    table.schema,
                    &[],
                    &table.name,
                    Some(&column.name),
                    "seq",
                ),
            };
            let sequence = self.add_sequence(
                table.schema,
                &sequence_name,
                &options,
                table.logged,
                Some((table.oid, position)),
            )?;
            column.sequence = Some(sequence);
            column.default = Some(nextval_of(sequence));
        }
        Ok(column)
    }

    /// Returns the stored form of a DEFAULT. `target` is the type and name of its column or domain.
    pub(crate) fn new_default(&mut self, text: &str, target: (ColumnType, &str)) -> Result<String> {
        refuse_subquery(text, "DEFAULT expression")?;
        self.session
            .with_analysis(|context| define_default(text, target, context))
            .map_err(of_default)
    }

    /// Reads the defaults and checks of a table again. Refuses expressions that do not fit its
    /// columns any more.
    pub(crate) fn check_expressions(&mut self, oid: Oid) -> Result<()> {
        let relation = self.current(oid)?;
        self.session.with_analysis(|context| {
            for column in relation.columns.iter().filter(|column| !column.dropped) {
                let Some(default) = column.default.as_ref().filter(|_| !column.generated) else {
                    continue;
                };
                let target = (column.column_type(), column.name.as_str());
                RowExpression::new(default, None, target, context).map_err(of_default)?;
            }
            for check in &relation.checks {
                RowExpression::condition(&check.expression, &relation, context)?;
            }
            Ok(())
        })
    }
}

/// Adapts the message of a type error to a default expression.
pub(crate) fn of_default(mut error: SqlError) -> SqlError {
    if error.sqlstate == "42804" {
        error.message = error.message.replace(" but expression is ", " but default expression is ");
    }
    error
}

fn check_columns(columns: &[ColumnSpec]) -> Result<()> {
    if columns.len() > COLUMNS_MAX {
        return Err(too_many_columns());
    }
    for (i, column) in columns.iter().enumerate() {
        check_column_name(&column.name)?;
        if columns[..i].iter().any(|c| c.name == column.name) {
            return Err(SqlError::new(
                "42701",
                format!("column \"{}\" specified more than once", column.name),
            ));
        }
    }
    Ok(())
}
