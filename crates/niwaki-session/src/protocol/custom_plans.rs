//! Custom plans: plans of prepared statements for particular values of their parameters.
//!
//! A generic plan, for any values, guesses the number of rows of a range or a pattern. As in
//! PostgreSQL, the first executions of a statement that depends on such guesses have custom plans.
//! Then the costs decide: custom plans go on while they cost less, planning included. Otherwise the
//! generic plan serves.

use std::sync::Arc;

use niwaki_sql::settings::PlanCacheMode;
use niwaki_sql::{Planned, Result, SqlError, Statement as Analyzed};
use niwaki_types::Datum;

use crate::session::handle::Session;
use crate::session::statement::Statement;

/// Cost of planning, in units of `cpu_operator_cost`, for each relation and once more.
const PLANNING: f64 = 1000.0;

impl Session {
    /// Decides whether the next execution of a statement gets a custom plan. `planned` is the
    /// generic plan.
    pub(crate) fn wants_custom_plan(&self, statement: &Statement, planned: &Planned) -> bool {
        planned.wants_values()
            && match self.settings.hot().plan_cache_mode {
                PlanCacheMode::Generic => false,
                PlanCacheMode::Custom => true,
                PlanCacheMode::Auto => statement.custom.serve(|| planned.cost()),
            }
    }

    /// Returns the plan for an execution with these values. The locks of the generic plan are held,
    /// and the generic plan is valid for the current catalog.
    pub(crate) fn custom_plan(
        &mut self,
        statement: &Statement,
        values: &[Datum],
    ) -> Result<Arc<Planned>> {
        let Some(parsed) = &statement.parsed else {
            return Err(SqlError::internal("a plan of no statement"));
        };
        let types = &statement.described.parameters;
        let analyzed = self.with_analysis(|context| {
            niwaki_sql::analyze_for_values(parsed, context, types, values)
        })?;
        let Analyzed::Query(planned) = analyzed else {
            return Err(SqlError::internal("not a query"));
        };
        self.note_custom_plan(statement, &planned);
        Ok(planned)
    }

    /// Counts a custom plan and its cost.
    pub(crate) fn note_custom_plan(&self, statement: &Statement, planned: &Planned) {
        let operator = self.settings.hot().costs.cpu_operator_cost;
        let planning = PLANNING * operator * (planned.relations().len() + 1) as f64;
        statement.custom.add(planned.cost() + planning);
    }
}
