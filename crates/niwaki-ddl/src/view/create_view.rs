//! CREATE VIEW, and the effect of other definitions on the views that read the changed relation.

use niwaki_catalog::{
    Column, Meaning, Oid, Relation, RelationDefinition, RelationKind, RelationOptions,
    collation_name,
};
use niwaki_session::{shown_type, shown_with_modifier};
use niwaki_sql::utility::{CreateView, Persistence};
use niwaki_sql::{NewView, Result, SqlError, analyze_view};
use niwaki_txn::TableLockMode;
use pg_query::NodeEnum;

use crate::collation::undetermined;
use crate::column_rules::refuse_pseudo;
use crate::definer::Definer;
use crate::options;

impl Definer<'_> {
    /// Returns the columns of a view. `names` are names for the first columns.
    pub(crate) fn view_columns(
        &mut self,
        new: &NewView,
        names: &[String],
        materialized: bool,
    ) -> Result<Vec<Column>> {
        if names.len() > new.columns.len() {
            let message = if materialized {
                "too many column names were specified"
            } else {
                "CREATE VIEW specifies more column names than columns"
            };
            return Err(SqlError::new("42601", message));
        }
        let mut columns = Vec::with_capacity(new.columns.len());
        for (at, of) in new.columns.iter().enumerate() {
            let name = names.get(at).unwrap_or(&of.name);
            if materialized {
                self.refuse_unstored(name, of.column_type.oid)?;
            } else {
                refuse_pseudo(name, of.column_type.oid)?;
            }
            if of.collation == Some(Oid::INVALID) {
                return Err(undetermined(if materialized {
                    let shown = shown_type(&self.session.types(), of.column_type.oid);
                    format!(
                        "no collation was derived for column \"{name}\" with collatable type {shown}"
                    )
                } else {
                    format!("could not determine which collation to use for view column \"{name}\"")
                }));
            }
            let collation = self.collation(of.collation, of.column_type)?;
            columns.push(Column { collation, ..Column::new(&**name, of.column_type) });
        }
        Ok(columns)
    }

    pub(crate) fn create_view(&mut self, spec: &CreateView, source: &str) -> Result<()> {
        let mut view_options = RelationOptions::default();
        options::set(RelationKind::View, &mut view_options, &spec.options)?;
        if let Some(check) = spec.check {
            view_options.set("check_option", check.word());
        }
        let new = self.read_view(&spec.query, source, false)?;
        may_check(new.not_updatable, &view_options)?;
        let columns = self.view_columns(&new, &spec.columns, false)?;
        let temporary = self.state().temporary_schema();
        let reads_temporary = new.relations.iter().any(|r| temporary == Some(r.schema));
        let persistence = match spec.persistence {
            Persistence::Permanent if reads_temporary => {
                self.notice(format!("view \"{}\" will be a temporary view", spec.name.name));
                Persistence::Temporary
            }
            given => given,
        };
        let schema = self.creation_schema(&spec.name, persistence)?;
        let name = &spec.name.name;
        refuse_repeated(&columns)?;
        if spec.replace {
            let find = |definer: &mut Self| -> Result<Option<Oid>> {
                Ok(definer.state().lookup(schema, name).map(|old| old.oid))
            };
            let old =
                self.lock_found(TableLockMode::AccessExclusive, find, |old: &Option<Oid>| {
                    old.iter().copied().collect()
                })?;
            if let Some(old) = old {
                return self.replace_view(old, columns, view_options, new);
            }
        }
        if !self.name_is_free(schema, name, false)? {
            return Ok(());
        }
        self.name_is_no_type(schema, name)?;
        let oid = self.session.new_oid();
        self.create(RelationDefinition {
            columns,
            options: view_options,
            query: Some(new.definition),
            ..RelationDefinition::new(oid, schema, name.clone(), RelationKind::View)
        })
    }

    /// Analyzes the query. The objects that it names are locked, and stay as long as this
    /// transaction runs.
    pub(crate) fn read_view(
        &mut self,
        query: &NodeEnum,
        source: &str,
        materialized: bool,
    ) -> Result<NewView> {
        let NodeEnum::SelectStmt(select) = query else {
            return Err(SqlError::internal("a view that is no query"));
        };
        let analyzed = |definer: &mut Self| {
            let session = &mut *definer.session;
            session.with_analysis(|context| analyze_view(select, source, materialized, context))
        };
        self.lock_found(TableLockMode::AccessShare, analyzed, |new: &NewView| {
            let relations = new.relations.iter().filter(|r| !r.is_system()).map(|r| r.oid);
            let functions = new.definition.names.iter().filter_map(|name| match name.meaning {
                Meaning::Function(oid) => Some(oid),
                _ => None,
            });
            relations.chain(new.definition.types.iter().copied()).chain(functions).collect()
        })
    }

    /// CREATE OR REPLACE VIEW of what is there, and locked.
    fn replace_view(
        &mut self,
        oid: Oid,
        columns: Vec<Column>,
        view_options: RelationOptions,
        new: NewView,
    ) -> Result<()> {
        let old = self.current(oid)?;
        if old.kind != RelationKind::View || old.query.is_none() {
            return Err(SqlError::new("42809", format!("\"{}\" is not a view", old.name)));
        }
        let refused = |message: String| SqlError::new("42P16", message);
        if columns.len() < old.columns.len() {
            return Err(refused("cannot drop columns from view".to_owned()));
        }
        let state = self.state();
        for (was, is) in old.columns.iter().zip(&columns) {
            if was.name != is.name {
                let message = format!(
                    "cannot change name of view column \"{}\" to \"{}\"",
                    was.name, is.name
                );
                return Err(refused(message).with_hint(
                    "Use ALTER VIEW ... RENAME COLUMN ... to change name of view column instead.",
                ));
            }
            if was.column_type() != is.column_type() {
                let types = self.session.types();
                let shown = |column: &Column| shown_with_modifier(&types, column.column_type());
                return Err(refused(format!(
                    "cannot change data type of view column \"{}\" from {} to {}",
                    was.name,
                    shown(was),
                    shown(is)
                )));
            }
        }
        for (was, is) in old.columns.iter().zip(&columns) {
            let (before, now) = (state.column_collation(was), state.column_collation(is));
            if before != now {
                let name = |oid: Option<Oid>| oid.and_then(collation_name).unwrap_or_default();
                return Err(refused(format!(
                    "cannot change collation of view column \"{}\" from \"{}\" to \"{}\"",
                    was.name,
                    name(before),
                    name(now)
                )));
            }
        }
        self.refuse_recursion(oid, &old.name, &new)?;
        let mut definition = old.definition.clone();
        let added = columns.into_iter().skip(old.columns.len());
        definition.columns.extend(added);
        definition.options = view_options;
        definition.query = Some(new.definition);
        self.update(definition)
    }

    /// Refuses a changed `check_option` of a view whose rows cannot be written.
    pub(crate) fn check_view_options(
        &mut self,
        view: &Relation,
        given: &RelationOptions,
    ) -> Result<()> {
        if given.get("check_option").is_none() {
            return Ok(());
        }
        let reason =
            self.session.with_analysis(|context| niwaki_sql::view_not_updatable(view, context))?;
        may_check(reason, given)
    }

    /// Fails with 42P17 when a view would read itself.
    fn refuse_recursion(&mut self, oid: Oid, name: &str, new: &NewView) -> Result<()> {
        let state = self.state();
        let mut waiting: Vec<Oid> = new.definition.sources.iter().map(|s| s.relation).collect();
        let mut seen: Vec<Oid> = Vec::new();
        // Ends: each relation is visited once.
        while let Some(source) = waiting.pop() {
            if source == oid {
                let message =
                    format!("infinite recursion detected in rules for relation \"{name}\"");
                return Err(SqlError::new("42P17", message));
            }
            if !seen.contains(&source) {
                seen.push(source);
                let query = state.relation(source).and_then(|relation| relation.query.as_ref());
                waiting.extend(query.iter().flat_map(|query| &query.sources).map(|s| s.relation));
            }
        }
        Ok(())
    }

    /// Fails with 0A000 when a view reads a column whose type is to change.
    pub(crate) fn refuse_readers(&mut self, table: &Relation, position: usize) -> Result<()> {
        let state = self.state();
        for view in state.views_of(table.oid).iter().filter_map(|view| state.relation(*view)) {
            let columns = view.query.as_ref().and_then(|query| query.columns_of(table.oid));
            if columns.is_some_and(|columns| columns.iter().any(|c| usize::from(*c) == position)) {
                let message = "cannot alter type of a column used by a view or rule";
                return Err(SqlError::new("0A000", message).with_detail(format!(
                    "rule _RETURN on {} {} depends on column \"{}\"",
                    view.kind.word(),
                    self.shown_name(view),
                    table.columns[position].name
                )));
            }
        }
        Ok(())
    }
}

/// Fails with 42701 for two columns of one name.
pub(crate) fn refuse_repeated(columns: &[Column]) -> Result<()> {
    for (at, column) in columns.iter().enumerate() {
        if columns[..at].iter().any(|other| other.name == column.name) {
            let message = format!("column \"{}\" specified more than once", column.name);
            return Err(SqlError::new("42701", message));
        }
    }
    Ok(())
}

/// Checks that a view with WITH CHECK OPTION is updatable.
fn may_check(not_updatable: Option<&'static str>, given: &RelationOptions) -> Result<()> {
    match (given.get("check_option"), not_updatable) {
        (Some(_), Some(reason)) => {
            let message = "WITH CHECK OPTION is supported only on automatically updatable views";
            Err(SqlError::new("0A000", message).with_hint(reason))
        }
        _ => Ok(()),
    }
}
