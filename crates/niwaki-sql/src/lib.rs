#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

// EXPLAIN.
mod explain;
// A prepared statement, and its execution.
mod statement;
// Text to a plan.
mod prepare;
// Fuzz targets of the decoders.
#[doc(hidden)]
#[cfg(any(test, feature = "hostile"))]
pub mod hostile;

pub use explain::ExplainOptions;
pub use niwaki_analyze::analyze::{
    CursorTable, NewView, SUPPRESS_REDUNDANT, ValueFor, analyze_function, analyze_view,
    check_domain_expression, check_stored_trigger, check_trigger, check_view, condition_columns,
    define_check, define_default, define_domain_check, view_not_updatable, writable,
};
pub use niwaki_analyze::deparse::expression::{
    deparse_domain_check, deparse_expression, trigger_condition,
};
pub use niwaki_analyze::deparse::index_text::index_definition_text;
pub use niwaki_analyze::deparse::{definitions, view_text};
pub use niwaki_analyze::generated::{RowExpression, read_generated};
pub use niwaki_analyze::index_expression::{
    IndexExpressions, IndexKey, read_index_key, read_index_predicate, rename_in_expression,
    retyped_index_part,
};
pub use niwaki_analyze::plpgsql::read_body;
pub use niwaki_exec::RandomAccessTuplestore;
pub use niwaki_expr::analysis::AnalyzeContext;
pub use niwaki_expr::context::{
    AdvisoryLock, AdvisoryNumber, AfterTriggers, Calls, ColumnInfo, CommandTag, Completion,
    Environment, ExecContext, NoAfterTriggers, RecordFields, RowSink, Scratch, TEMP_CHUNK_BYTES,
};
pub use niwaki_expr::definitions::{Definitions, Writable};
pub use niwaki_expr::expr::object_input as object_number;
pub use niwaki_expr::plan::CalledFunctions;
pub use niwaki_expr::spool::{Tuplestore, TuplestoreReader, TuplestoreWriter};
pub use niwaki_expr::store;
pub use niwaki_expr::store::FiredTrigger;
pub use niwaki_functions::catalog_functions::{is_function_shown, is_operator_shown};
pub use niwaki_parse::collation::refuse_uncollated;
pub use niwaki_parse::column_names::{rename_column, rename_field};
pub use niwaki_parse::copy;
pub use niwaki_parse::database_name::check_database;
pub use niwaki_parse::error::{ErrorFields, Result, Severity, SqlError};
pub use niwaki_parse::parse;
pub use niwaki_parse::stored_references::{Named, nextval_of, objects_named, type_number};
pub use niwaki_parse::tree::SyntaxTree;
pub use niwaki_parse::types;
pub use niwaki_parse::utility;
pub use niwaki_parse::walk;
pub use niwaki_settings::planner_settings::{CostSettings, PlannerSettings};
pub use niwaki_settings::settings;
pub use prepare::{
    analyze, analyze_assigned, analyze_for_cursor, analyze_for_values, analyze_view_rows,
    analyze_without_parameters, check_function,
};
pub use statement::{Execution, Planned, Progress, Statement};
