//! Parts of the session that the end of a statement uses.

use std::cell::RefCell;
use std::sync::Arc;

use niwaki_catalog::{CatalogState, CatalogTransaction};
use niwaki_sql::settings::Settings;
use niwaki_sql::{AnalyzeContext, ExecContext, Planned, Result, SqlError, Statement as Analyzed};
use niwaki_txn::Transaction;
use niwaki_types::TypeOid;

use crate::execution::planning::{lock_relations, planner_settings};
use crate::session::after_trigger_queue::AfterTriggerQueue;
use crate::session::reference_plans::Plans;
use crate::session::state::deferred::Deferred;

/// Parts of the session that it lends for the end of statements.
pub(crate) struct AfterTriggerContext<'s> {
    pub(crate) transaction: &'s Transaction,
    pub(crate) settings: &'s RefCell<&'s mut Settings>,
    pub(crate) catalog: &'s RefCell<&'s mut CatalogTransaction>,
    pub(crate) deferred: RefCell<&'s mut Deferred>,
    pub(crate) plans: RefCell<&'s mut Plans>,
    pub(crate) queue: &'s RefCell<&'s mut AfterTriggerQueue>,
}

impl AfterTriggerContext<'_> {
    /// Returns the current state of the catalog.
    pub(crate) fn state(&self) -> Arc<CatalogState> {
        self.catalog.borrow_mut().state()
    }

    /// Returns the versions that plans depend on. A plan is valid while they stay the same.
    pub(crate) fn plan_version(&self) -> (u64, u64) {
        let catalog = self.catalog.borrow_mut().version();
        (catalog, self.settings.borrow().hot().plan_version)
    }

    /// Takes the table locks of a plan. Returns false when the catalog changed since the plan was
    /// made.
    pub(crate) fn lock_for(&self, planned: &Planned, version: (u64, u64)) -> Result<bool> {
        lock_relations(self.transaction, self.catalog.borrow().catalog(), planned)?;
        Ok(self.plan_version() == version)
    }

    /// Plans a query of the session's own. On return its locks are held, and the plan is valid for
    /// the current catalog.
    pub(crate) fn plan(
        &self,
        sql: &str,
        parameter_types: &[TypeOid],
        exec: &ExecContext<'_>,
    ) -> Result<Arc<Planned>> {
        let statements = niwaki_sql::parse::parse(sql)?;
        let statement = statements.first().ok_or_else(|| SqlError::internal("no statement"))?;
        let now = exec.environment.transaction_timestamp();
        loop {
            let version = self.plan_version();
            let state = self.state();
            let planner = planner_settings(self.settings.borrow().hot(), now);
            let context = AnalyzeContext {
                catalog: &state,
                path: exec.path,
                text: exec.text,
                now,
                planner,
                interrupts: &|| {
                    let control = self.transaction.session();
                    Ok(control.check_interrupts().map_err(niwaki_txn::Error::from)?)
                },
                clock: &|| exec.environment.clock_timestamp(),
                functions: None,
                stored: false,
            };
            let analyzed = niwaki_sql::analyze(statement, &context, parameter_types)?;
            let Analyzed::Query(planned) = analyzed else {
                return Err(SqlError::internal("not a query"));
            };
            if self.lock_for(&planned, version)? {
                return Ok(planned);
            }
            // Locks are kept, so only DDL on other relations can cause another round.
        }
    }
}
