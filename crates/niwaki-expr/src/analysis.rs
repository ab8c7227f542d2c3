//! The input of analysis and planning.

use niwaki_catalog::{CatalogState, SearchPath};
use niwaki_parse::error::Result;
use niwaki_settings::planner_settings::PlannerSettings;
use niwaki_types::TextSettings;

use crate::plan::CalledFunctions;

/// The input of analysis and planning.
#[derive(Clone, Copy)]
pub struct AnalyzeContext<'a> {
    /// The catalog that the statement sees.
    pub catalog: &'a CatalogState,
    /// The search path for names without a schema.
    pub path: &'a SearchPath,
    /// Settings for parsing date and time literals.
    pub text: &'a TextSettings,
    /// Start of the transaction, in microseconds since 2000-01-01 UTC: the value of the literal
    /// `now`.
    pub now: i64,
    /// The planner settings.
    pub planner: PlannerSettings,
    /// Interrupt check, as in `Environment::check_interrupts`. It is called between planning
    /// steps, since planning takes long for many tables.
    pub interrupts: &'a dyn Fn() -> Result<()>,
    /// Clock, in microseconds, for EXPLAIN's planning time.
    pub clock: &'a dyn Fn() -> i64,
    /// Collector of the users' functions that the statement calls; `None` if their bodies are not
    /// analyzed.
    pub functions: Option<&'a CalledFunctions<'a>>,
    /// True if the text is a stored one, in which names of users' objects are numbers.
    pub stored: bool,
}
