//! The planner: chooses for an analyzed query the cheapest plan that it knows.

mod append;
mod bitmap_path;
mod comparison;
mod cost;
mod derived;
mod estimate;
mod group_count;
mod index_path;
mod joins;
mod min_max;
mod parallel;
mod planner;
mod scan;
mod selectivity;
mod system_view_key;
mod tid_path;
mod window_order;

pub use estimate::estimate;
pub use planner::{StatementPlan, plan_statement};
