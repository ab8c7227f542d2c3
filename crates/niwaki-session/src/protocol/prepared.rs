//! Named prepared statements: PREPARE, EXECUTE, DEALLOCATE.

use std::sync::Arc;

use niwaki_sql::parse::ParsedStatement;
use niwaki_sql::utility::UserTypeName;
use niwaki_sql::{Result, SqlError, SyntaxTree, ValueFor};
use niwaki_types::{ColumnType, Datum, TypeOid};
use pg_query::NodeEnum;

use crate::result::ResultSink;
use crate::session::handle::Session;
use crate::session::statement::{Action, Named, Statement, no_statement, statement_of};
use crate::session::type_names::{no_modifier, shown_type};

impl Session {
    /// Gives a statement a name. Fails with 42P05 if another statement has it.
    pub(crate) fn name_statement(
        &mut self,
        name: &str,
        statement: Statement,
        from_sql: bool,
    ) -> Result<()> {
        if !name.is_empty() && self.statements.has(name) {
            let message = format!("prepared statement \"{name}\" already exists");
            return Err(SqlError::new("42P05", message));
        }
        let statement = Arc::new(statement);
        let prepared_us = self.command.started_us();
        let named = Named { statement, prepared_us, from_sql, runs: 0 };
        self.statements.insert(name.to_owned(), named);
        Ok(())
    }

    /// Returns a statement that is about to run once more, and counts the run.
    pub(crate) fn used_statement(&mut self, name: &str) -> Result<Arc<Statement>> {
        self.statements.used(name).ok_or_else(|| no_statement(name))
    }

    /// Runs PREPARE.
    pub(crate) fn prepare_by_name(
        &mut self,
        name: &str,
        types: &[(ColumnType, Option<UserTypeName>)],
        query: &SyntaxTree,
        source: &str,
    ) -> Result<()> {
        let parsed = statement_of(query, source);
        let types = types
            .iter()
            .map(|(own, of_user)| match of_user {
                None => Ok(own.oid),
                Some(wanted) => self.user_type_named(wanted),
            })
            .collect::<Result<_>>()?;
        let statement = self.prepare_parsed(Some(parsed), types)?;
        self.name_statement(name, statement, true)
    }

    fn user_type_named(&mut self, wanted: &UserTypeName) -> Result<TypeOid> {
        let (path, state) = (self.search_path(), self.catalog.state());
        let name = &wanted.name;
        let found = state.resolve_type(&path, name.schema.as_deref(), &name.name);
        let found = found.ok_or_else(|| {
            if let Some(schema) = name.schema.as_deref()
                && state.schema_by_name(schema).is_none()
            {
                return SqlError::undefined_schema(schema).with_position(name.position);
            }
            let array = if wanted.array { "[]" } else { "" };
            SqlError::new("42704", format!("type \"{name}{array}\" does not exist"))
                .with_position(name.position)
        })?;
        if wanted.modified {
            return Err(no_modifier(name));
        }
        let oid = found.type_oid();
        if !wanted.array {
            return Ok(oid);
        }
        oid.array().ok_or_else(|| SqlError::unsupported("an array of a domain"))
    }

    /// Runs EXECUTE.
    pub(crate) fn execute_by_name(
        &mut self,
        name: &str,
        parameters: &[String],
        out: &mut dyn ResultSink,
    ) -> Result<()> {
        let (statement, values) = self.with_values(name, parameters)?;
        self.run_prepared(statement, values, out)
    }

    /// Runs EXPLAIN EXECUTE, which shows the plan of the prepared statement.
    pub(crate) fn explain_by_name(
        &mut self,
        name: &str,
        parameters: &[String],
        explain: &NodeEnum,
        out: &mut dyn ResultSink,
    ) -> Result<()> {
        let (statement, values) = self.with_values(name, parameters)?;
        let (Some(parsed), NodeEnum::ExplainStmt(explain)) = (&statement.parsed, explain) else {
            return Err(SqlError::unsupported("EXPLAIN EXECUTE of this statement"));
        };
        let explain = parsed.node.explained(explain);
        let types = &statement.described.parameters;
        let explain = statement_of(&explain, &parsed.source);
        let planned = match &statement.action {
            Action::Query(planned) if self.wants_custom_plan(&statement, planned) => {
                let custom = self.plan_until_locked(|context| {
                    niwaki_sql::analyze_for_values(&explain, context, types, &values)
                })?;
                self.note_custom_plan(&statement, &custom);
                custom
            }
            _ => self.plan_locked(&explain, types)?,
        };
        let completion = self.run_planned(&planned, &values, out)?;
        completion.write_tag(self.command.tag_mut());
        Ok(())
    }

    /// Returns the query of a prepared statement for CREATE TABLE AS EXECUTE, and the values of its
    /// parameters.
    ///
    /// # Errors
    /// 26000 when there is no such statement; errors of the parameters.
    pub fn query_by_name(
        &mut self,
        name: &str,
        parameters: &[String],
    ) -> Result<(ParsedStatement, Vec<(TypeOid, Datum)>)> {
        let (statement, values) = self.with_values(name, parameters)?;
        let parsed = statement.parsed.clone();
        let parsed = parsed.filter(|parsed| matches!(&*parsed.node, NodeEnum::SelectStmt(_)));
        let parsed =
            parsed.ok_or_else(|| SqlError::new("42809", "prepared statement is not a SELECT"))?;
        let types = statement.described.parameters.iter().copied();
        Ok((parsed, types.zip(values).collect()))
    }

    /// Returns a prepared statement, and evaluates the expressions for its parameters.
    fn with_values(
        &mut self,
        name: &str,
        parameters: &[String],
    ) -> Result<(Arc<Statement>, Vec<Datum>)> {
        let named = self.statements.get(name).ok_or_else(|| no_statement(name))?;
        let statement = Arc::clone(&named.statement);
        let types = Arc::clone(&statement.described.parameters);
        if types.len() != parameters.len() {
            return Err(SqlError::new(
                "42601",
                format!("wrong number of parameters for prepared statement \"{name}\""),
            )
            .with_detail(format!(
                "Expected {} parameters but got {}.",
                types.len(),
                parameters.len()
            )));
        }
        let mut values = Vec::with_capacity(types.len());
        for (number, (text, oid)) in parameters.iter().zip(types.iter()).enumerate() {
            // The checks and the length limit of a domain apply where the statement uses the value.
            let wanted = self.text.settings().types.column_type(*oid).oid;
            let shown = shown_type(&self.types(), *oid);
            let refused = |given: &str| {
                let message = format!(
                    "parameter ${} of type {given} cannot be coerced to the expected type {shown}",
                    number + 1
                );
                SqlError::new("42804", message)
                    .with_hint("You will need to rewrite or cast the expression.")
            };
            let wanted = (ValueFor::Parameter, ColumnType::new(wanted));
            values.push(self.evaluate_as(text, wanted, &refused)?);
        }
        // A failed parameter is not counted as a run of the statement.
        self.used_statement(name)?;
        Ok((statement, values))
    }

    /// Runs a prepared statement to its end and leaves its tag in `command`.
    fn run_prepared(
        &mut self,
        statement: Arc<Statement>,
        parameters: Vec<Datum>,
        out: &mut dyn ResultSink,
    ) -> Result<()> {
        match &statement.action {
            Action::Empty => {
                self.command.tag_mut().clear();
                Ok(())
            }
            Action::Utility(_) => Err(SqlError::unsupported("EXECUTE of a utility statement")),
            Action::Query(_) => {
                let mut portal = self.new_portal(statement, parameters);
                let planned = self.lock_portal(&mut portal)?;
                let completion = self.run_planned(&planned, &portal.parameters, out)?;
                completion.write_tag(self.command.tag_mut());
                Ok(())
            }
        }
    }

    /// Runs DEALLOCATE and returns its tag. Without a name, all statements go.
    pub(crate) fn deallocate(&mut self, name: Option<&str>) -> Result<&'static str> {
        let Some(name) = name else {
            self.statements.clear();
            return Ok("DEALLOCATE ALL");
        };
        self.statements.remove(name).then_some("DEALLOCATE").ok_or_else(|| no_statement(name))
    }
}
