//! Plans of prepared statements for the values that their parameters have.
//!
//! A plan for any values guesses how many rows a range or a pattern has. As in PostgreSQL the first executions of a statement whose rows
//! depend on that have plans of their own; then it is known whether these cost less, the planning included, or the one plan serves.

use std::sync::Arc;

use niwaki_env::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use niwaki_sql::settings::PlanCacheMode;
use niwaki_sql::{Planned, SqlError, Statement as Analyzed};
use niwaki_types::Datum;

use super::Session;
use super::extended::Statement;
use crate::Result;

/// Executions that have plans of their own in any case.
const FIRST: u32 = 5;
/// What planning costs, in units of `cpu_operator_cost`, for each relation and once more.
const PLANNING: f64 = 1000.0;

/// What is known of a statement's plans for values.
#[derive(Debug, Default)]
pub(super) struct CustomPlans {
    made: AtomicU32,
    /// Their costs in all, as the bits of a float.
    cost: AtomicU64,
    /// It is known that one plan for any values costs less; no more are made then that could say otherwise.
    dearer: AtomicBool,
}

impl CustomPlans {
    /// How many there were.
    pub(super) fn made(&self) -> u32 {
        // Relaxed, here and below: a session has its statements for itself.
        self.made.load(Ordering::Relaxed)
    }

    fn add(&self, cost: f64) {
        let sum = f64::from_bits(self.cost.load(Ordering::Relaxed)) + cost;
        self.cost.store(sum.to_bits(), Ordering::Relaxed);
        self.made.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether the next execution is to have a plan of its own, where one for any values costs so much.
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
    /// Whether the next execution of a statement is to have a plan for its values. `planned` is the one for any.
    pub(super) fn wants_custom_plan(&self, statement: &Statement, planned: &Planned) -> bool {
        planned.wants_values()
            && match self.settings.hot().plan_cache_mode {
                PlanCacheMode::Generic => false,
                PlanCacheMode::Custom => true,
                PlanCacheMode::Auto => statement.custom.serve(|| planned.cost()),
            }
    }

    /// The plan for an execution with these values. The locks of the statement's own plan are held, and it is right for the catalog of now.
    pub(super) fn custom_plan(
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

    /// Counts a plan that was made for values.
    pub(super) fn note_custom_plan(&self, statement: &Statement, planned: &Planned) {
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
