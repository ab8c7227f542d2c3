//! ALTER COLUMN for identity and generated columns.

use std::sync::Arc;

use niwaki_catalog::{Identity, Relation};
use niwaki_sql::utility::SequenceOptions;
use niwaki_sql::{Result, SqlError, nextval_of};
use niwaki_types::TypeOid;

use crate::definer::Definer;
use crate::generated_names;

fn column_of(relation: &Relation, position: usize) -> String {
    let name = relation.columns.get(position).map_or("?", |column| column.name.as_str());
    format!("column \"{name}\" of relation \"{}\"", relation.name)
}

impl Definer<'_> {
    /// Runs ADD GENERATED … AS IDENTITY.
    pub(crate) fn add_identity(
        &mut self,
        relation: &Relation,
        position: usize,
        identity: Identity,
        options: &SequenceOptions,
    ) -> Result<()> {
        let column = &relation.columns[position];
        let shown = column_of(relation, position);
        if !matches!(column.column_type().oid, TypeOid::INT2 | TypeOid::INT4 | TypeOid::INT8) {
            let message = "identity column type must be smallint, integer, or bigint";
            return Err(SqlError::new("22023", message));
        }
        if !column.not_null {
            let message = format!("{shown} must be declared NOT NULL before identity can be added");
            return Err(SqlError::new("55000", message));
        }
        if column.identity.is_some() {
            return Err(SqlError::new("55000", format!("{shown} is already an identity column")));
        }
        if column.default.is_some() {
            return Err(SqlError::new("55000", format!("{shown} already has a default value")));
        }
        let mut options = options.clone();
        options.type_oid.get_or_insert(column.type_oid);
        let state = self.state();
        let name = if let Some(name) = options.sequence_name.take() {
            name.name
        } else {
            let (schema, table) = (relation.schema, &relation.name);
            generated_names::free_name(&state, schema, &[], table, Some(&column.name), "seq")
        };
        let number = u16::try_from(position).map_err(|_| SqlError::internal("column number"))?;
        let owner = Some((relation.oid, number));
        let sequence =
            self.add_sequence(relation.schema, &name, &options, relation.logged, owner)?;
        let mut definition = relation.definition.clone();
        let column = &mut definition.columns[position];
        column.identity = Some(identity);
        column.sequence = Some(sequence);
        column.default = Some(nextval_of(sequence));
        self.update(definition)
    }

    /// Runs SET GENERATED, and sets the options of the sequence behind the column.
    pub(crate) fn set_identity(
        &mut self,
        relation: &Relation,
        position: usize,
        identity: Option<Identity>,
        options: &SequenceOptions,
    ) -> Result<()> {
        let shown = column_of(relation, position);
        let column = &relation.columns[position];
        let Some(sequence) = column.sequence.filter(|_| column.identity.is_some()) else {
            return Err(SqlError::new("55000", format!("{shown} is not an identity column")));
        };
        if let Some(identity) = identity {
            let mut definition = relation.definition.clone();
            definition.columns[position].identity = Some(identity);
            self.update(definition)?;
        }
        if *options != SequenceOptions::default() {
            let sequence: Arc<Relation> = self.current(sequence)?;
            self.change_sequence(&sequence, options)?;
        }
        Ok(())
    }

    /// Runs DROP IDENTITY.
    pub(crate) fn drop_identity(
        &mut self,
        relation: &Relation,
        position: usize,
        if_exists: bool,
    ) -> Result<()> {
        let mut definition = relation.definition.clone();
        let column = &mut definition.columns[position];
        if column.identity.is_none() {
            let message = format!("{} is not an identity column", column_of(relation, position));
            return self.skip_or_fail(if_exists, message);
        }
        column.identity = None;
        column.default = None;
        let sequence = column.sequence.take();
        self.update(definition)?;
        match sequence {
            Some(sequence) => self.remove_with_files(sequence),
            None => Ok(()),
        }
    }

    /// Runs DROP EXPRESSION. The column keeps its values.
    pub(crate) fn drop_expression(
        &mut self,
        relation: &Relation,
        position: usize,
        if_exists: bool,
    ) -> Result<()> {
        let mut definition = relation.definition.clone();
        let column = &mut definition.columns[position];
        if !column.generated {
            let shown = column_of(relation, position);
            let message = format!("{shown} is not a stored generated column");
            return self.skip_or_fail(if_exists, message);
        }
        column.generated = false;
        column.default = None;
        self.update(definition)
    }

    fn skip_or_fail(&mut self, skip: bool, message: String) -> Result<()> {
        if skip {
            self.notice(format!("{message}, skipping"));
            return Ok(());
        }
        Err(SqlError::new("55000", message))
    }
}
