#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod analyze;
mod skip;
mod vacuum;

pub use analyze::{ColumnStatistics, TableStatistics, analyze};
pub use vacuum::{VacuumOptions, VacuumSummary, vacuum};
