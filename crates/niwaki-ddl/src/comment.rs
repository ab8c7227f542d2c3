//! COMMENT ON: the comment is stored in the definition of its object, and is dropped with it.

use niwaki_catalog::{Relation, RelationKind, SchemaEntry};
use niwaki_sql::utility::{CommentTarget, Name};
use niwaki_sql::{Result, SqlError};
use niwaki_txn::TableLockMode;

use crate::definer::{Definer, is_not, refuse_system};

impl Definer<'_> {
    pub(crate) fn comment(&mut self, target: &CommentTarget, text: Option<&str>) -> Result<()> {
        match target {
            CommentTarget::Relation { kind, name } => {
                let relation = self.commented(name, Some(*kind))?;
                let mut definition = relation.definition.clone();
                definition.comment = text.map(str::to_owned);
                self.update(definition)
            }
            CommentTarget::Column { relation, column } => {
                let relation = self.commented(relation, None)?;
                let at = relation.column_position(column).ok_or_else(|| {
                    let of = &relation.name;
                    let message =
                        format!("column \"{column}\" of relation \"{of}\" does not exist");
                    SqlError::new("42703", message)
                })?;
                let mut definition = relation.definition.clone();
                definition.columns[at].comment = text.map(str::to_owned);
                self.update(definition)
            }
            CommentTarget::Constraint { relation, name } => {
                self.comment_on_constraint(relation, name, text)
            }
            CommentTarget::Type { name, domain } => {
                self.comment_on_type(name, *domain, text.map(str::to_owned))
            }
            CommentTarget::DomainConstraint { domain, name } => {
                self.comment_on_domain_constraint(domain, name, text.map(str::to_owned))
            }
            CommentTarget::Function(function) => {
                self.comment_on_function(function, text.map(str::to_owned))
            }
            CommentTarget::Trigger { relation, name } => {
                self.comment_on_trigger(relation, name, text.map(str::to_owned))
            }
            CommentTarget::Schema(name) => {
                let state = self.state();
                let schema =
                    state.schema_by_name(name).ok_or_else(|| SqlError::undefined_schema(name))?;
                if schema.oid < niwaki_catalog::Oid::FIRST_USER
                    && schema.oid != niwaki_catalog::PUBLIC_SCHEMA
                    || state.temporary_schema() == Some(schema.oid)
                {
                    let message = format!("permission denied for schema {name}");
                    return Err(SqlError::new("42501", message));
                }
                let comment = text.map(str::to_owned);
                let (transaction, catalog) = self.session.transaction_and_catalog()?;
                let schema = SchemaEntry { comment, ..schema.clone() };
                Ok(catalog.update_schema(transaction, schema)?)
            }
            CommentTarget::Database(name) => {
                if !self.session.comment_on_database(name, text.map(str::to_owned))? {
                    // A warning instead of an error lets a dump be restored into a database of
                    // another name.
                    let message = format!("database \"{name}\" does not exist");
                    self.session.warning(self.out, "3D000", message);
                }
                Ok(())
            }
        }
    }

    fn comment_on_constraint(
        &mut self,
        table: &Name,
        name: &str,
        text: Option<&str>,
    ) -> Result<()> {
        let table = self.commented(table, Some(RelationKind::Table))?;
        let text = text.map(str::to_owned);
        let mut definition = table.definition.clone();
        if let Some(check) = definition.checks.iter_mut().find(|check| check.name == name) {
            check.comment = text;
            return self.update(definition);
        }
        if let Some(key) = definition.foreign_keys.iter_mut().find(|key| key.name == name) {
            key.comment = text;
            return self.update(definition);
        }
        let held =
            |i: &&niwaki_catalog::IndexEntry| i.name == name && i.definition.constraint.is_some();
        if let Some(index) = table.indexes.iter().find(held) {
            return self.change_index(index.oid, |index| index.constraint_comment = text);
        }
        let message = format!("constraint \"{name}\" for table \"{}\" does not exist", table.name);
        Err(SqlError::new("42704", message))
    }

    /// Locks the relation that gets the comment, or whose column gets it.
    fn commented(
        &mut self,
        name: &Name,
        kind: Option<RelationKind>,
    ) -> Result<std::sync::Arc<Relation>> {
        let mode = TableLockMode::ShareUpdateExclusive;
        let relation = self.session.lock_by_name(name, mode).map_err(|mut error| {
            error.position = None;
            error
        })?;
        refuse_system(&relation)?;
        let fits = match kind {
            Some(kind) => relation.kind == kind,
            None => relation.kind.has_row_type(),
        };
        if fits {
            Ok(relation)
        } else {
            Err(is_not(&relation, kind.unwrap_or(RelationKind::Table)))
        }
    }
}
