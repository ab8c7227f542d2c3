//! Simple queries: query strings of any number of statements.

use niwaki_env::seeded_bug;
use niwaki_sql::Result;
use niwaki_sql::parse::ParsedStatement;

use crate::result::ResultSink;
use crate::session::handle::Session;

impl Session {
    /// Runs a query string of any number of statements. They share one implicit transaction unless
    /// the string says otherwise. A failure ends the string.
    ///
    /// # Errors
    /// The error of the failed statement. The caller reports it and calls [`Session::error`].
    pub fn simple_query(&mut self, sql: &str, out: &mut dyn ResultSink) -> Result<()> {
        // The unnamed statement and portal do not survive a simple query.
        self.statements.remove("");
        self.portals.close("");
        self.begin_statement(sql)?;
        self.report_text_settings(out);
        let result = self.simple_statements(sql, out);
        let refused = result.as_ref().is_err_and(|error| error.sqlstate == "53200");
        if refused && seeded_bug!("refused_is_committed") {
            let _ = self.end_implicit();
        }
        self.end_statement();
        result
    }

    fn simple_statements(&mut self, sql: &str, out: &mut dyn ResultSink) -> Result<()> {
        let statements = niwaki_sql::parse::parse(sql)?;
        if statements.is_empty() {
            // Earlier messages of the same implicit transaction are committed, too.
            self.end_implicit()?;
            out.empty_query();
            return Ok(());
        }
        let last = statements.len() - 1;
        for (i, statement) in statements.iter().enumerate() {
            if i > 0 {
                self.begin_statement(sql)?;
                // The previous statement may have been a SET.
                self.report_text_settings(out);
            }
            self.simple_statement(statement, last > 0, out)?;
            // The commit comes before the client is told that the statement is done.
            if i == last {
                self.end_implicit()?;
            }
            self.complete(out);
        }
        Ok(())
    }

    /// Runs one statement and leaves its tag in `command`.
    fn simple_statement(
        &mut self,
        statement: &ParsedStatement,
        several: bool,
        out: &mut dyn ResultSink,
    ) -> Result<()> {
        if let Some(utility) = niwaki_sql::utility::read(&statement.node, &statement.source)? {
            if !utility.ends_failed_transaction() {
                self.refuse_in_failed_block()?;
            }
            if let Some(columns) = self.utility_columns(&utility)? {
                out.whole_or_nothing();
                if self.gives_binary(&utility) {
                    out.binary_columns(&columns)?;
                } else {
                    out.columns(&columns)?;
                }
            }
            return self.run_utility(&utility, &[], &statement.source, several, out);
        }
        self.refuse_in_failed_block()?;
        self.ensure_transaction()?;
        self.block.note_query(true);
        let planned = self.plan_locked(statement, &[])?;
        if planned.returns_rows() {
            if planned.runs_before_its_rows() {
                out.whole_or_nothing();
            }
            out.columns(&planned.columns())?;
        }
        let completion = self.run_planned(&planned, &[], out)?;
        completion.write_tag(self.command.tag_mut());
        Ok(())
    }
}
