#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod aggregates;
mod analyze;
mod context;
pub mod copy;
mod error;
mod exec;
mod explain;
mod expr;
mod functions;
pub mod parse;
mod plan;
pub mod settings;
mod statement;
pub mod store;
pub mod types;
pub mod utility;

pub use analyze::{analyze, analyze_without_parameters};
pub use context::{
    AnalyzeContext, ColumnInfo, CommandTag, Completion, Environment, ExecContext, PlannerSettings,
    RowSink, Scratch,
};
pub use error::{ErrorFields, Result, Severity, SqlError};
pub use explain::ExplainOptions;
pub use statement::{Execution, Planned, Progress, Statement};
