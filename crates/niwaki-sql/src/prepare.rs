//! Prepares statements: analyzes, rewrites and plans them, one after the other.

use std::sync::Arc;

use niwaki_analyze::analyze::{
    Analyzed, Analyzer, ValueFor, assigned_value, check_body, note_relation, view_statement,
};
use niwaki_catalog::{FunctionDefinition, Relation};
use niwaki_env::stack;
use niwaki_expr::analysis::AnalyzeContext;
use niwaki_expr::plan::{CalledFunctions, FunctionBodies, PlanNode};
use niwaki_expr::query::StatementQuery;
use niwaki_parse::error::{Result, SqlError};
use niwaki_parse::parse::ParsedStatement;
use niwaki_parse::utility::command_name;
use niwaki_plan::early_evaluation;
use niwaki_plan::planning::plan_statement;
use niwaki_plan::rewrite::{Values, rewrite};
use niwaki_types::{ColumnType, Datum, TypeOid};
use pg_query::NodeEnum;

use crate::explain::ExplainOptions;
use crate::statement::{Planned, Statement};

/// Analyzes and plans one statement. Parameter types given by the client are used unchanged. For
/// the other parameters (0 or `UNKNOWN`) the types are inferred.
///
/// # Errors
/// PostgreSQL's errors, with positions; `0A000` for features that Niwaki lacks.
pub fn analyze(
    statement: &ParsedStatement,
    context: &AnalyzeContext<'_>,
    parameter_types: &[TypeOid],
) -> Result<Statement> {
    let params = parameter_types
        .iter()
        .map(|oid| if oid.0 == 0 { TypeOid::UNKNOWN } else { *oid })
        .collect();
    analyzed(statement, context, params, &[], |analyzer| analyzer.infer_params = true)
}

/// Analyzes and plans one statement for given parameter types and values. The plan is wrong for
/// other values.
///
/// # Errors
/// As [`analyze`].
pub fn analyze_for_values(
    statement: &ParsedStatement,
    context: &AnalyzeContext<'_>,
    parameter_types: &[TypeOid],
    values: &[Datum],
) -> Result<Statement> {
    analyzed(statement, context, parameter_types.to_vec(), values, |_| ())
}

/// Analyzes and plans the query of a cursor, like [`analyze_for_values`]. If the query's rows are
/// rows of tables, WHERE CURRENT OF may mean them. Then each row has its place behind its columns
/// ([`Planned::cursor_tables`]).
///
/// # Errors
/// As [`analyze`].
pub fn analyze_for_cursor(
    statement: &ParsedStatement,
    context: &AnalyzeContext<'_>,
    parameter_types: &[TypeOid],
    values: &[Datum],
) -> Result<Statement> {
    let for_cursor = |analyzer: &mut Analyzer<'_>| analyzer.for_cursor = true;
    analyzed(statement, context, parameter_types.to_vec(), values, for_cursor)
}

/// Analyzes and plans one statement of a simple query, which can have no parameters.
///
/// # Errors
/// As [`analyze`]; `42P02` for a parameter.
pub fn analyze_without_parameters(
    statement: &ParsedStatement,
    context: &AnalyzeContext<'_>,
) -> Result<Statement> {
    analyzed(statement, context, Vec::new(), &[], |_| ())
}

/// Analyzes and plans `SELECT value`, with an assignment cast of the value to the type `wanted`. An
/// object's name becomes its OID.
///
/// # Errors
/// As [`analyze`]. If the value cannot be assigned, the error is `refused` of its shown
/// type. Positions refer to the given text.
pub fn analyze_assigned(
    statement: &ParsedStatement,
    context: &AnalyzeContext<'_>,
    what: ValueFor,
    wanted: ColumnType,
    refused: &dyn Fn(&str) -> SqlError,
) -> Result<Statement> {
    whole_statement(statement.node.bytes(), || {
        let functions = CalledFunctions::new(context, plan_body);
        let context = AnalyzeContext { functions: Some(&functions), ..*context };
        let analyzed = assigned_value(statement, &context, what, wanted, refused)?;
        Ok(Statement::Query(Arc::new(planned(analyzed, &[], &context)?)))
    })
}

/// Plans the query of a stored view, to fill a materialized view.
///
/// # Errors
/// As [`check_view`](crate::check_view).
pub fn analyze_view_rows(relation: &Relation, context: &AnalyzeContext<'_>) -> Result<Statement> {
    whole_statement(0, || {
        let functions = CalledFunctions::new(context, plan_body);
        let context = AnalyzeContext { functions: Some(&functions), ..*context };
        let analyzed = view_statement(relation, &context)?;
        Ok(Statement::Query(Arc::new(planned(analyzed, &[], &context)?)))
    })
}

/// Checks that the body of a function returns the declared result. Bodies of polymorphic functions
/// are only parsed.
///
/// # Errors
/// An error that describes the fault.
pub fn check_function(definition: &FunctionDefinition, context: &AnalyzeContext<'_>) -> Result<()> {
    stack::whole(|| {
        let functions = CalledFunctions::new(context, plan_body);
        let context = AnalyzeContext { functions: Some(&functions), ..*context };
        check_body(definition, &context, &functions)
    })
}

/// Analyzes a statement after `tell` configured the analyzer.
fn analyzed(
    statement: &ParsedStatement,
    context: &AnalyzeContext<'_>,
    parameter_types: Vec<TypeOid>,
    values: &[Datum],
    tell: impl Fn(&mut Analyzer<'_>),
) -> Result<Statement> {
    whole_statement(statement.node.bytes(), || {
        let functions = CalledFunctions::new(context, plan_body);
        let context = AnalyzeContext { functions: Some(&functions), ..*context };
        let mut analyzer = Analyzer::new(&context, &statement.source, parameter_types.clone());
        tell(&mut analyzer);
        any_statement(&mut analyzer, statement, values, &context)
    })
}

/// Builds a statement on one stack segment. Reading its syntax tree takes `bytes` of it. The plan
/// records the stack use.
fn whole_statement(bytes: usize, build: impl Fn() -> Result<Statement>) -> Result<Statement> {
    let _account = early_evaluation::open_account();
    let build = || stack::deeper_by(bytes, &build);
    let (statement, took) = stack::measured(|| stack::whole(build));
    let mut statement = statement?;
    if let Statement::Query(planned) = &mut statement
        && let Some(planned) = Arc::get_mut(planned)
    {
        planned.set_stack(took);
    }
    Ok(statement)
}

fn any_statement(
    analyzer: &mut Analyzer<'_>,
    statement: &ParsedStatement,
    values: &[Datum],
    context: &AnalyzeContext<'_>,
) -> Result<Statement> {
    match &*statement.node {
        NodeEnum::SelectStmt(_)
        | NodeEnum::InsertStmt(_)
        | NodeEnum::UpdateStmt(_)
        | NodeEnum::DeleteStmt(_)
        | NodeEnum::MergeStmt(_) => {
            let planned = planned(analyzer.analyzed(&statement.node)?, values, context)?;
            Ok(Statement::Query(Arc::new(planned)))
        }
        NodeEnum::ExplainStmt(explain) => {
            let mut options = ExplainOptions::parse(&explain.options)?;
            let query = explain
                .query
                .as_ref()
                .and_then(|node| node.node.as_ref())
                .ok_or_else(|| SqlError::internal("EXPLAIN without a statement"))?;
            // EXPLAIN of CREATE TABLE AS shows the plan of its query.
            let query = match query {
                NodeEnum::CreateTableAsStmt(create) if !options.analyze => {
                    let inner = create.query.as_ref().and_then(|node| node.node.as_ref());
                    inner.unwrap_or(query)
                }
                query => query,
            };
            match query {
                create @ NodeEnum::CreateTableAsStmt(_) => Err(SqlError::unsupported(format!(
                    "EXPLAIN ANALYZE of {}",
                    command_name(create)
                ))),
                NodeEnum::SelectStmt(select) if select.into_clause.is_some() => {
                    Err(SqlError::unsupported("EXPLAIN of SELECT INTO"))
                }
                NodeEnum::SelectStmt(_)
                | NodeEnum::InsertStmt(_)
                | NodeEnum::UpdateStmt(_)
                | NodeEnum::DeleteStmt(_)
                | NodeEnum::MergeStmt(_) => {
                    let clock = context.clock;
                    let began = clock();
                    let planned = planned(analyzer.analyzed(query)?, values, context)?;
                    options.planning_us = clock() - began;
                    Ok(Statement::Query(Arc::new(planned.explained(options))))
                }
                other => Err(SqlError::unsupported(format!("EXPLAIN of {}", command_name(other)))),
            }
        }
        _ => Ok(Statement::Utility(statement.clone())),
    }
}

/// Rewrites and plans an analyzed statement. The plan is made for these values of the parameters,
/// or for any values if there are none.
fn planned(analyzed: Analyzed, values: &[Datum], context: &AnalyzeContext<'_>) -> Result<Planned> {
    let Analyzed { mut statement, columns, tag, params, mut relations, cursor_tables } = analyzed;
    if let Some(number) = params.iter().position(|oid| *oid == TypeOid::UNKNOWN) {
        return Err(SqlError::new(
            "42P18",
            format!("could not determine data type of parameter ${}", number + 1),
        ));
    }
    let volatile = statement.is_volatile();
    let mut known = Values::new(values);
    rewrite(&mut statement, &mut known)?;
    known.unfit?;
    let plan = plan_statement(statement, context)?;
    let mut bodies = FunctionBodies::default();
    if let Some(functions) = context.functions {
        let (found, named) = functions.take();
        bodies = found;
        for (relation, lock) in &named {
            note_relation(&mut relations, relation, *lock);
        }
    }
    let wanted = values.is_empty() && (known.wanted || plan.wants_values);
    let planned = Planned::new(
        Arc::new(plan.root),
        columns,
        tag,
        params,
        relations,
        plan.sub_plans,
        context.catalog.version(),
    );
    let planned = planned.with_cursor_tables(cursor_tables);
    Ok(planned.with_functions(bodies).with_volatility(volatile).with_wish(wanted))
}

/// Rewrites and plans a statement of a function's body.
fn plan_body(mut statement: StatementQuery, context: &AnalyzeContext<'_>) -> Result<PlanNode> {
    // A constant that does not fit fails when the function is called.
    rewrite(&mut statement, &mut Values::new(&[]))?;
    Ok(plan_statement(statement, context)?.root)
}
