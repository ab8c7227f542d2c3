#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod analyze;
mod cost;
mod delay;
mod progress;
mod skip;
mod truncate;
mod vacuum;

pub use analyze::{ColumnStatistics, TableStatistics, analyze};
pub use cost::CostOptions;
pub use progress::{VacuumPhase, VacuumProgress, VacuumState};
pub use truncate::LockedTable;
pub use vacuum::{IndexCleanup, VacuumOptions, VacuumSummary, vacuum};
