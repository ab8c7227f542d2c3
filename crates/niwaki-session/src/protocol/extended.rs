//! The extended protocol: prepared statements and portals, message by message.

use std::sync::Arc;

use niwaki_sql::parse::ParsedStatement;
use niwaki_sql::types::{format_oid, is_absent_type, type_name};
use niwaki_sql::utility::{RowsOf, Utility};
use niwaki_sql::{ColumnInfo, Completion, Planned, Result, SqlError, Statement as Analyzed};
use niwaki_types::{Datum, TypeOid};

use crate::result::{ExecuteOutcome, ResultFormats, ResultSink};
use crate::session::handle::Session;
use crate::session::plan_costs::CustomPlans;
use crate::session::portal::{Portal, PortalState};
use crate::session::state::block::Block;
use crate::session::statement::{Action, Prepared, Statement, no_statement, statement_of};

impl Session {
    /// Prepares a statement under a name. A new unnamed statement replaces the old one.
    /// `param_types` may be shorter than the list of parameters, and holds 0 where the type is to
    /// be inferred.
    ///
    /// # Errors
    /// Errors of syntax and analysis, and 42P05 when the name is taken.
    pub fn parse(&mut self, name: &str, sql: &str, param_types: &[u32]) -> Result<()> {
        self.begin_statement(sql)?;
        let mut statements = niwaki_sql::parse::parse(sql)?;
        if statements.len() > 1 {
            return Err(SqlError::new(
                "42601",
                "cannot insert multiple commands into a prepared statement",
            ));
        }
        let types: Vec<TypeOid> = param_types.iter().map(|t| TypeOid(*t)).collect();
        let statement = self.prepare_parsed(statements.pop(), types)?;
        self.name_statement(name, statement, false)
    }

    /// Analyzes a statement. The result can be kept.
    pub(crate) fn prepare_parsed(
        &mut self,
        parsed: Option<ParsedStatement>,
        given_types: Vec<TypeOid>,
    ) -> Result<Statement> {
        let Some(parsed) = parsed else {
            return Ok(Statement {
                described: Prepared { parameters: Arc::from([]), columns: None },
                parsed: None,
                given_types,
                action: Action::Empty,
                version: (0, 0),
                custom: CustomPlans::default(),
            });
        };
        if let Some(utility) = niwaki_sql::utility::read(&parsed.node, &parsed.source)? {
            if self.block.state() == Block::Failed && !utility.ends_failed_transaction() {
                self.refuse_in_failed_block()?;
            }
            let columns = self.utility_columns(&utility)?;
            let query = match &utility {
                Utility::DeclareCursor(declared) => Some(&declared.query),
                Utility::CreateTableAs(spec) => match &spec.rows {
                    RowsOf::Query(query) => Some(query),
                    RowsOf::Execute { .. } => None,
                },
                _ => None,
            };
            let parameters = if let Some(query) = query {
                let inner = statement_of(query, &parsed.source);
                self.prepare_parsed(Some(inner), given_types.clone())?.described.parameters
            } else {
                let unknown = |kind: &TypeOid| matches!(*kind, TypeOid(0) | TypeOid::UNKNOWN);
                if let Some(at) = given_types.iter().position(unknown) {
                    let message = format!("could not determine data type of parameter ${}", at + 1);
                    return Err(SqlError::new("42P18", message));
                }
                Arc::from(given_types.clone())
            };
            return Ok(Statement {
                described: Prepared { parameters, columns },
                parsed: Some(parsed),
                given_types,
                action: Action::Utility(Arc::new(utility)),
                version: (0, 0),
                custom: CustomPlans::default(),
            });
        }
        self.refuse_in_failed_block()?;
        self.ensure_transaction()?;
        let version = self.plan_version();
        match self.analyze(&parsed, &given_types)? {
            Analyzed::Query(planned) => {
                Ok(Statement::of_query(parsed, given_types, planned, version))
            }
            Analyzed::Utility(_) => Err(SqlError::unsupported("this statement")),
        }
    }

    /// Returns the description of a prepared statement.
    ///
    /// # Errors
    /// 26000 when no statement has this name.
    #[inline]
    pub fn statement(&mut self, name: &str) -> Result<&Prepared> {
        let named = self.statements.get(name).ok_or_else(|| no_statement(name))?;
        Ok(&named.statement.described)
    }

    /// Makes a portal of a prepared statement. `parameter` is called once for each parameter in
    /// order, with its number from 0 and its type. It may return an object's name where the
    /// object's number is wanted.
    ///
    /// # Errors
    /// 26000, 08P01 when `count` is not the statement's number of parameters, 42P03 when the portal
    /// exists, and errors of `parameter`.
    pub fn bind(
        &mut self,
        portal: &str,
        statement: &str,
        parameter: &mut dyn FnMut(usize, TypeOid) -> Result<Datum>,
        count: usize,
    ) -> Result<()> {
        let found = self.used_statement(statement)?;
        let found = self.with_columns_of_now(found)?;
        let types = &found.described.parameters;
        if types.len() != count {
            return Err(SqlError::new(
                "08P01",
                format!(
                    "bind message supplies {count} parameters, but prepared statement \"{statement}\" requires {}",
                    types.len()
                ),
            ));
        }
        if self.block.state() == Block::Failed {
            let ends = matches!(&found.action, Action::Utility(u) if u.ends_failed_transaction());
            if !ends {
                self.refuse_in_failed_block()?;
            }
        }
        if !portal.is_empty() && self.portals.is_open(portal) {
            return Err(SqlError::new("42P03", format!("cursor \"{portal}\" already exists")));
        }
        if count > 0 {
            niwaki_env::memory::check()?;
        }
        let mut parameters = self.portals.parameter_buffer();
        for (i, type_oid) in types.iter().enumerate() {
            // A value of a domain comes as a value of the base type. The domain's checks run where
            // the statement uses the value.
            let type_oid = &self.text.settings().types.column_type(*type_oid).oid;
            let value = parameter(i, *type_oid).map_err(|error| match *type_oid {
                absent if is_absent_type(&type_name(absent)) => {
                    SqlError::unsupported(format!("type {}", format_oid(absent)))
                }
                _ => error,
            })?;
            let value = match value {
                Datum::Text(name) if type_oid.is_object_name() => {
                    let path = self.search_path();
                    niwaki_sql::object_number(&name, *type_oid, &self.catalog.state(), &path)?
                }
                value => value,
            };
            parameters.push(value);
        }
        let portal_entry = self.new_portal(found, parameters);
        self.portals.insert(portal.to_owned(), portal_entry);
        Ok(())
    }

    /// Renews the columns of FETCH and EXECUTE at Bind. They depend on the cursor or statement that
    /// has the name then.
    fn with_columns_of_now(&mut self, statement: Arc<Statement>) -> Result<Arc<Statement>> {
        let Action::Utility(utility) = &statement.action else { return Ok(statement) };
        if !matches!(**utility, Utility::Fetch(_) | Utility::Execute { .. }) {
            return Ok(statement);
        }
        let described = Prepared {
            parameters: Arc::clone(&statement.described.parameters),
            columns: self.utility_columns(utility)?,
        };
        Ok(Arc::new(Statement {
            described,
            parsed: statement.parsed.clone(),
            given_types: statement.given_types.clone(),
            action: statement.action.clone(),
            version: statement.version,
            custom: CustomPlans::default(),
        }))
    }

    /// Makes a portal that has not begun.
    pub(crate) fn new_portal(&self, statement: Arc<Statement>, parameters: Vec<Datum>) -> Portal {
        Portal::new(statement, parameters, self.block.depth(), self.command.started_us())
    }

    /// Returns the columns of a portal's result. Empty when it returns no rows.
    ///
    /// # Errors
    /// 34000 when there is no such portal.
    #[inline]
    pub fn portal_columns(&self, portal: &str) -> Result<&[ColumnInfo]> {
        let portal = self.portals.get(portal).ok_or_else(|| no_portal(portal))?;
        Ok(portal.statement.described.columns.as_deref().unwrap_or_default())
    }

    /// Returns whether a portal's statement returns rows at all. (A row description may have no
    /// columns.)
    ///
    /// # Errors
    /// 34000 when there is no such portal.
    #[inline]
    pub fn portal_returns_rows(&self, portal: &str) -> Result<bool> {
        let portal = self.portals.get(portal).ok_or_else(|| no_portal(portal))?;
        Ok(portal.statement.described.columns.is_some())
    }

    /// Returns the formats in which a client wants the rows of a portal. A cursor has text format,
    /// because no Bind message made it.
    ///
    /// # Errors
    /// 34000 when there is no such portal.
    #[inline]
    pub fn portal_formats(&self, portal: &str) -> Result<&ResultFormats> {
        let portal = self.portals.get(portal).ok_or_else(|| no_portal(portal))?;
        Ok(&portal.formats)
    }

    /// Sets the formats in which a client wants the rows of a portal.
    ///
    /// # Errors
    /// 34000 when there is no such portal.
    #[inline]
    pub fn set_portal_formats(&mut self, portal: &str, formats: ResultFormats) -> Result<()> {
        let portal = self.portals.get_mut(portal).ok_or_else(|| no_portal(portal))?;
        portal.formats = formats;
        Ok(())
    }

    /// Runs a portal, or continues it, up to `max_rows` rows (0: all).
    ///
    /// # Errors
    /// 34000, and errors of the statement.
    pub fn execute_portal(
        &mut self,
        portal: &str,
        max_rows: u64,
        out: &mut dyn ResultSink,
    ) -> Result<ExecuteOutcome> {
        // The portal leaves the session while it runs, because it runs in the session.
        let (name, mut running) = self.portals.take(portal).ok_or_else(|| no_portal(portal))?;
        self.begin_statement(running.statement.text())?;
        self.portals.begin(name);
        self.report_text_settings(out);
        let outcome = match self.check_portal(portal, &running) {
            Ok(()) => self.run_portal(&mut running, max_rows, out),
            Err(error) => Err(error),
        };
        self.end_statement();
        self.put_back(running, outcome.is_err());
        let ran = matches!(outcome, Ok(ExecuteOutcome::Complete | ExecuteOutcome::Suspended));
        self.block.note_message(ran);
        outcome
    }

    /// Fails with 25P02 in a failed transaction, and with 55000 for a portal that cannot be run
    /// again.
    fn check_portal(&self, name: &str, portal: &Portal) -> Result<()> {
        match &portal.statement.action {
            Action::Empty => return Ok(()),
            Action::Utility(utility) if utility.ends_failed_transaction() => {}
            Action::Utility(_) | Action::Query(_) => self.refuse_in_failed_block()?,
        }
        portal.check_usable(name)
    }

    pub(crate) fn run_portal(
        &mut self,
        portal: &mut Portal,
        max_rows: u64,
        out: &mut dyn ResultSink,
    ) -> Result<ExecuteOutcome> {
        match &portal.statement.action {
            Action::Empty => {
                out.empty_query();
                Ok(ExecuteOutcome::Empty)
            }
            Action::Utility(_) if portal.statement.described.columns.is_some() => {
                self.execute_utility_with_rows(portal, max_rows, out)
            }
            Action::Utility(_) => {
                out.whole_or_nothing();
                self.run_utility_of(portal, out)?;
                self.complete(out);
                Ok(ExecuteOutcome::Complete)
            }
            Action::Query(_) => self.execute_query(portal, max_rows, out),
        }
    }

    /// Runs the utility statement of a portal, and leaves its tag in `command`.
    fn run_utility_of(&mut self, portal: &mut Portal, out: &mut dyn ResultSink) -> Result<()> {
        let statement = Arc::clone(&portal.statement);
        let Action::Utility(utility) = &statement.action else {
            return Err(SqlError::internal("not a utility statement"));
        };
        portal.state = PortalState::Done;
        let types = statement.described.parameters.iter().copied();
        let values = std::mem::take(&mut portal.parameters);
        let parameters: Vec<(TypeOid, Datum)> = types.zip(values).collect();
        self.run_utility(utility, &parameters, statement.text(), false, out)
    }

    /// Runs FETCH, EXECUTE, SHOW and other utility statements with rows. They run to their end at
    /// the first Execute. With a limit, their rows are kept and each Execute gives the next ones.
    fn execute_utility_with_rows(
        &mut self,
        portal: &mut Portal,
        max_rows: u64,
        out: &mut dyn ResultSink,
    ) -> Result<ExecuteOutcome> {
        if portal.state == PortalState::Ready {
            if max_rows == 0 {
                out.whole_or_nothing();
                self.run_utility_of(portal, out)?;
                portal.ran_unread(self.command.tag());
                self.complete(out);
                return Ok(ExecuteOutcome::Complete);
            }
            let mut kept = self.new_kept(0);
            self.run_utility_of(portal, &mut kept.filled_by(out))?;
            portal.ran_into(kept, self.command.tag());
        }
        let rows = self.forward(portal, (max_rows > 0).then_some(max_rows), out)?;
        if !portal.place.at_end {
            return Ok(ExecuteOutcome::Suspended);
        }
        self.command.set_tag(portal.utility_tag());
        // A tag that counts rows counts only the rows of the last call.
        let tag = self.command.tag_mut();
        if let Some(end) = tag.rfind(' ')
            && tag[end + 1..].parse::<u64>().is_ok()
        {
            tag.truncate(end + 1);
            tag.push_str(&rows.to_string());
        }
        self.complete(out);
        Ok(ExecuteOutcome::Complete)
    }

    fn execute_query(
        &mut self,
        portal: &mut Portal,
        max_rows: u64,
        out: &mut dyn ResultSink,
    ) -> Result<ExecuteOutcome> {
        self.refuse_in_failed_block()?;
        self.ensure_transaction()?;
        self.block.note_query(true);
        match portal.state {
            PortalState::Ready if max_rows == 0 => {
                // The query runs in one go, and nothing is kept between calls.
                let planned = self.lock_portal(portal)?;
                if planned.runs_before_its_rows() {
                    out.whole_or_nothing();
                }
                let completion = self.run_planned(&planned, &portal.parameters, out)?;
                portal.ran(completion.rows);
                self.portals.keep_buffer(std::mem::take(&mut portal.parameters));
                completion.write_tag(self.command.tag_mut());
                self.complete(out);
                return Ok(ExecuteOutcome::Complete);
            }
            PortalState::Ready => self.start_portal(portal)?,
            PortalState::Begun | PortalState::Done | PortalState::Failed => {}
        }
        let rows = self.forward(portal, (max_rows > 0).then_some(max_rows), out)?;
        if !portal.place.at_end {
            return Ok(ExecuteOutcome::Suspended);
        }
        let mut done = portal.take_completion();
        if portal.statement.described.columns.is_some()
            && let Action::Query(planned) = &portal.statement.action
        {
            // Where rows are given, the tag counts only the rows of the last call.
            done = Some(Completion { tag: planned.tag(), rows });
        }
        let done = done.ok_or_else(|| SqlError::internal("a statement without an end"))?;
        done.write_tag(self.command.tag_mut());
        self.complete(out);
        Ok(ExecuteOutcome::Complete)
    }

    /// Locks the relations of a portal's plan and returns the plan to run. Makes the plan again
    /// when the catalog changed, or for the values of the parameters.
    pub(crate) fn lock_portal(&mut self, portal: &mut Portal) -> Result<Arc<Planned>> {
        loop {
            let Action::Query(planned) = &portal.statement.action else {
                return Err(SqlError::internal("not a query"));
            };
            if self.lock_for(planned, portal.statement.version)? {
                if self.wants_custom_plan(&portal.statement, planned) {
                    return self.custom_plan(&portal.statement, &portal.parameters);
                }
                return Ok(Arc::clone(planned));
            }
            let renewed = self.renew(&portal.statement)?;
            portal.statement = renewed;
            // Locks are kept, so only DDL on other relations can cause another round.
        }
    }

    /// Begins a portal that may be stopped and continued.
    pub(crate) fn start_portal(&mut self, portal: &mut Portal) -> Result<()> {
        let planned = self.lock_portal(portal)?;
        let parameters = std::mem::take(&mut portal.parameters);
        portal.running = Some(self.start(&planned, parameters)?);
        portal.state = PortalState::Begun;
        Ok(())
    }

    /// Prepares the same statement again, with a plan for the current catalog. The next Bind finds
    /// the new one, too.
    fn renew(&mut self, old: &Arc<Statement>) -> Result<Arc<Statement>> {
        let new = self.prepare_parsed(old.parsed.clone(), old.given_types.clone())?;
        // A column may now come from another table of the same name.
        let shape = |statement: &Statement| -> Vec<_> {
            let columns = statement.described.columns.iter().flat_map(|columns| columns.iter());
            columns.map(|c| (c.name.clone(), c.column_type)).collect()
        };
        if shape(&new) != shape(old) || new.described.parameters != old.described.parameters {
            return Err(SqlError::new("0A000", "cached plan must not change result type"));
        }
        let new = Arc::new(new);
        self.statements.replace(old, &new);
        Ok(new)
    }

    /// Forgets a prepared statement. A name without a statement is no error.
    #[inline]
    pub fn close_statement(&mut self, name: &str) {
        self.statements.remove(name);
    }

    /// Forgets a portal. A name without a portal is no error.
    #[inline]
    pub fn close_portal(&mut self, name: &str) {
        self.portals.close(name);
    }

    /// Ends the implicit transaction of the messages since the last call. It commits, or rolls back
    /// after [`Session::error`].
    ///
    /// # Errors
    /// Errors of the commit.
    #[inline]
    pub fn sync(&mut self, out: &mut dyn ResultSink) -> Result<()> {
        let result = self.end_implicit();
        self.note_rest();
        self.report_text_settings(out);
        result
    }

    /// Prepares a statement without a name.
    ///
    /// # Errors
    /// Syntax errors and errors of the analysis.
    pub fn prepare_text(&mut self, sql: &str) -> Result<Arc<Statement>> {
        self.begin_statement(sql)?;
        let mut statements = niwaki_sql::parse::parse(sql)?;
        if statements.len() > 1 {
            return Err(SqlError::new(
                "42601",
                "cannot insert multiple commands into a prepared statement",
            ));
        }
        Ok(Arc::new(self.prepare_parsed(statements.pop(), Vec::new())?))
    }

    /// Runs a statement to its end, without a named portal.
    ///
    /// # Errors
    /// Any error of the statement.
    pub fn run_prepared_once(
        &mut self,
        statement: Arc<Statement>,
        parameters: Vec<Datum>,
        out: &mut dyn ResultSink,
    ) -> Result<()> {
        self.begin_statement(statement.text())?;
        let mut portal = self.new_portal(statement, parameters);
        let result = self.run_portal(&mut portal, 0, out);
        self.end_statement();
        result.map(|_| ())
    }

    /// Ends the implicit transaction of one of the program's own statements.
    ///
    /// # Errors
    /// The errors of the commit.
    #[inline]
    pub fn end_message(&mut self) -> Result<()> {
        let result = self.end_implicit();
        self.note_rest();
        result
    }

    /// Tells the sink that a statement is done, after its warnings.
    pub(crate) fn complete(&mut self, out: &mut dyn ResultSink) {
        self.report_text_settings(out);
        for warning in self.command.take_warnings() {
            self.send(out, &warning);
        }
        out.complete(self.command.tag());
    }
}

fn no_portal(name: &str) -> SqlError {
    SqlError::new("34000", format!("portal \"{name}\" does not exist"))
}
