//! Custom plans: plans of prepared statements for particular values of their parameters.
//!
//! A generic plan, for any values, guesses the number of rows of a range or a pattern. As in
//! PostgreSQL, the first executions of a statement that depends on such guesses have custom plans.
//! Then the costs decide: custom plans go on while they cost less, planning included. Otherwise the
//! generic plan serves.

use std::sync::Arc;

use niwaki_env::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use niwaki_sql::settings::PlanCacheMode;
use niwaki_sql::{Planned, SqlError, Statement as Analyzed};
use niwaki_types::Datum;

use crate::Result;
use crate::protocol::extended::Statement;
use crate::session::handle::Session;

/// Number of first executions that have custom plans in any case.
const FIRST: u32 = 5;
/// Cost of planning, in units of `cpu_operator_cost`, for each relation and once more.
const PLANNING: f64 = 1000.0;

/// Costs of a statement's custom plans so far.
#[derive(Debug, Default)]
pub(crate) struct CustomPlans {
    made: AtomicU32,
    /// Sum of the costs of all custom plans, as the bits of a float.
    cost: AtomicU64,
    /// Set once the generic plan is known to cost less. Then no more custom plans are made that
    /// could show otherwise.
    dearer: AtomicBool,
}

impl CustomPlans {
    /// Returns the number of custom plans made.
    pub(crate) fn made(&self) -> u32 {
        // Relaxed, here and below: a session has its statements for itself.
        self.made.load(Ordering::Relaxed)
    }

    fn add(&self, cost: f64) {
        let sum = f64::from_bits(self.cost.load(Ordering::Relaxed)) + cost;
        self.cost.store(sum.to_bits(), Ordering::Relaxed);
        self.made.fetch_add(1, Ordering::Relaxed);
    }

    /// Decides whether the next execution gets a custom plan. `generic` returns the cost of the
    /// generic plan.
    fn serve(&self, generic: impl FnOnce() -> f64) -> bool {
        if self.dearer.load(Ordering::Relaxed) {
            return false;
        }
        let (made, cost) = (self.made(), f64::from_bits(self.cost.load(Ordering::Relaxed)));
        let serve = made < FIRST || cost / f64::from(made) <= generic();
        self.dearer.store(!serve, Ordering::Relaxed);
        serve
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cheaper_plans_are_made() {
        let (cheap, dear) = (CustomPlans::default(), CustomPlans::default());
        for _ in 0..FIRST {
            assert!(cheap.serve(|| 0.0) && dear.serve(|| 0.0), "nothing is known yet");
            cheap.add(10.0);
            dear.add(1000.0);
        }
        assert!(cheap.serve(|| 100.0));
        assert!(!dear.serve(|| 100.0));
        assert!(!dear.serve(|| unreachable!("it is known")));
        assert_eq!(dear.made(), FIRST);
    }
}
