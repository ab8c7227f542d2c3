#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod context;
pub mod copy;
mod error;
pub mod parse;
pub mod settings;
pub mod store;
pub mod utility;

pub use context::{
    AnalyzeContext, ColumnInfo, CommandTag, Completion, Environment, ExecContext, PlannerSettings,
    RowSink,
};
pub use error::{ErrorFields, Result, Severity, SqlError};
