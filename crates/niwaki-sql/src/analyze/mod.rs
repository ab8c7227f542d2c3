//! The analyzer: turns syntax trees into typed, planned statements.
//!
//! It resolves names, derives types and inserts coercions. It raises PostgreSQL's errors for
//! invalid statements.

#![expect(
    clippy::wrong_self_convention,
    reason = "`to_bool(self, expr)` converts the expression, not the analyzer"
)]

mod array;
mod assigned_value;
mod call;
mod coerce;
mod collations;
mod composite;
mod conflict;
mod current_of;
mod dml;
mod domain;
mod expr;
mod from;
mod function_call;
mod group_by;
mod grouping;
mod insert;
mod json_records;
mod locking;
mod merge;
mod named_arguments;
mod names;
mod operators;
mod order_by;
mod partitions;
mod routine;
mod row_queries;
mod rows;
mod scope;
mod select;
mod set_operation;
mod similar_names;
mod stored;
mod targets;
mod trigger;
mod type_names;
mod updatable;
mod values;
mod view;
mod window;
mod with;
mod write_view;

use std::sync::Arc;

use niwaki_catalog::{Oid, Relation};
use niwaki_env::hash::HashMap;
use niwaki_env::stack;
use niwaki_types::{Datum, TypeOid};
use pg_query::{Node, NodeEnum};

use crate::ahead;
use crate::context::{AnalyzeContext, ColumnInfo, CommandTag};
use crate::error::{Result, SqlError};
use crate::explain::ExplainOptions;
use crate::expr::DomainRules;
use crate::parse::{ParsedStatement, position_of};
use crate::plan::{CalledFunctions, FunctionBodies, plan_statement};
use crate::query::{SharedQuery, StatementBody, StatementQuery};
use crate::rewrite::{Values, rewrite};
use crate::statement::{Planned, Statement};
use crate::store::TableLock;

pub use assigned_value::{ValueFor, analyze_assigned};
pub use current_of::CursorTable;
pub(crate) use domain::domain_check;
pub use domain::{check_domain_expression, define_domain_check};
pub use routine::{analyze_function, check_function};
pub(crate) use scope::SYSTEM_COLUMNS;
use scope::Scope;
pub(crate) use stored::{
    IndexPart, copy_condition, define_generation, define_index, generation_expression,
    index_expression, stored_expression, table_expression, written_expression,
};
pub use stored::{define_check, define_default};
pub(crate) use trigger::shown_condition;
pub use trigger::{SUPPRESS_REDUNDANT, check_stored_trigger, check_trigger, condition_columns};
pub use view::{NewView, analyze_view, analyze_view_rows, check_view, view_not_updatable};
pub(crate) use view::{ViewQuery, view_query};
use with::{Context, Cte, Recursion};

/// State of the analysis of one statement.
pub(crate) struct Analyzer<'a> {
    context: &'a AnalyzeContext<'a>,
    source: &'a str,
    /// Types of the parameters found so far; `UNKNOWN` if not known yet.
    params: Vec<TypeOid>,
    /// True if the statement may have more parameters than the caller gave types for.
    infer_params: bool,
    /// Parameter values that the plan is made for; empty for a generic plan.
    values: &'a [Datum],
    /// Relations that the statement reads or writes, with the needed lock modes.
    relations: Vec<(Arc<Relation>, TableLock)>,
    /// WITH queries of the whole statement.
    shared: Vec<SharedQuery>,
    /// WITH queries that are visible here, innermost last.
    ctes: Vec<Cte>,
    /// Names of WITH queries that are not visible yet.
    unseen: Vec<String>,
    /// Queries of WITH RECURSIVE that are being analyzed, innermost last.
    recursions: Vec<Recursion>,
    /// Enclosing query parts in which recursive queries must not name themselves, innermost last.
    contexts: Vec<Context>,
    /// Number of enclosing statements without a scope.
    nested: usize,
    /// Queries around the expression being analyzed, innermost last.
    scopes: Vec<Scope>,
    /// The rule for resolving object names.
    names: view::Names<'a>,
    /// Views whose texts are being analyzed, outermost first.
    expanding: Vec<Oid>,
    /// Ranges of `shared` that hold the WITH queries of views.
    shared_of_views: Vec<std::ops::Range<usize>>,
    /// Rules of the domains that the statement's expressions were coerced to.
    domains: HashMap<TypeOid, Arc<DomainRules>>,
    /// Domains whose constraints are being analyzed, outermost first.
    open_domains: Vec<TypeOid>,
    /// The function whose body is being analyzed.
    routine: Option<routine::Routine>,
    /// The collation of the function call if it is not the default: the parameters have this
    /// collation.
    input_collation: Option<Oid>,
    /// Location of the function call that is a FROM item.
    from_call: Option<i32>,
    /// True if the next query is a cursor's query, whose rows need their TIDs.
    for_cursor: bool,
    /// Tables of the cursor's query whose rows have their TIDs.
    cursor_tables: Vec<CursorTable>,
}

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

/// Analyzes a statement after `tell` configured the analyzer.
fn analyzed(
    statement: &ParsedStatement,
    context: &AnalyzeContext<'_>,
    parameter_types: Vec<TypeOid>,
    values: &[Datum],
    tell: impl Fn(&mut Analyzer<'_>),
) -> Result<Statement> {
    whole_statement(statement.node.bytes(), || {
        let functions = CalledFunctions::new(context);
        let context = AnalyzeContext { functions: Some(&functions), ..*context };
        let mut analyzer = Analyzer::new(&context, &statement.source, parameter_types.clone());
        analyzer.values = values;
        tell(&mut analyzer);
        analyzer.any_statement(statement)
    })
}

/// Builds a statement on one stack segment. Reading its syntax tree takes `bytes` of it. The plan
/// records the stack use.
fn whole_statement(bytes: usize, build: impl Fn() -> Result<Statement>) -> Result<Statement> {
    let _account = ahead::of_statement();
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

impl<'a> Analyzer<'a> {
    fn any_statement(&mut self, statement: &ParsedStatement) -> Result<Statement> {
        let analyzer = self;
        match &**statement.node {
            NodeEnum::SelectStmt(_)
            | NodeEnum::InsertStmt(_)
            | NodeEnum::UpdateStmt(_)
            | NodeEnum::DeleteStmt(_)
            | NodeEnum::MergeStmt(_) => {
                let planned = analyzer.statement(&statement.node)?;
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
                    NodeEnum::CreateTableAsStmt(_) => {
                        Err(SqlError::unsupported("EXPLAIN ANALYZE of CREATE TABLE AS"))
                    }
                    NodeEnum::SelectStmt(select) if select.into_clause.is_some() => {
                        Err(SqlError::unsupported("EXPLAIN of SELECT INTO"))
                    }
                    NodeEnum::SelectStmt(_)
                    | NodeEnum::InsertStmt(_)
                    | NodeEnum::UpdateStmt(_)
                    | NodeEnum::DeleteStmt(_)
                    | NodeEnum::MergeStmt(_) => {
                        let clock = analyzer.context.clock;
                        let began = clock();
                        let planned = analyzer.statement(query)?;
                        options.planning_us = clock() - began;
                        Ok(Statement::Query(Arc::new(planned.explained(options))))
                    }
                    _ => Err(SqlError::unsupported("EXPLAIN of this statement")),
                }
            }
            _ => Ok(Statement::Utility(statement.clone())),
        }
    }

    pub(crate) fn new(
        context: &'a AnalyzeContext<'a>,
        source: &'a str,
        params: Vec<TypeOid>,
    ) -> Self {
        Self {
            context,
            source,
            params,
            infer_params: false,
            values: &[],
            relations: Vec::new(),
            shared: Vec::new(),
            ctes: Vec::new(),
            unseen: Vec::new(),
            recursions: Vec::new(),
            contexts: Vec::new(),
            nested: 0,
            scopes: Vec::new(),
            names: if context.stored { view::Names::Numbered } else { view::Names::ByPath },
            expanding: Vec::new(),
            shared_of_views: Vec::new(),
            domains: HashMap::default(),
            open_domains: Vec::new(),
            routine: None,
            input_collation: None,
            from_call: None,
            for_cursor: false,
            cursor_tables: Vec::new(),
        }
    }

    fn statement(&mut self, node: &NodeEnum) -> Result<Planned> {
        let (statement, columns, tag) = self.statement_query(node)?;
        self.planned(statement, columns, tag)
    }

    fn planned(
        &mut self,
        mut statement: StatementQuery,
        columns: Vec<ColumnInfo>,
        tag: CommandTag,
    ) -> Result<Planned> {
        if let Some(number) = self.params.iter().position(|oid| *oid == TypeOid::UNKNOWN) {
            return Err(SqlError::new(
                "42P18",
                format!("could not determine data type of parameter ${}", number + 1),
            ));
        }
        let volatile = statement.is_volatile();
        let mut values = Values::new(self.values);
        rewrite(&mut statement, &mut values)?;
        values.unfit?;
        let plan = plan_statement(statement, self.context)?;
        let mut bodies = FunctionBodies::default();
        if let Some(functions) = self.context.functions {
            let (found, relations) = functions.take();
            bodies = found;
            for (relation, lock) in &relations {
                self.note_relation(relation, *lock);
            }
        }
        let wanted = self.values.is_empty() && (values.wanted || plan.wants_values);
        let planned = Planned::new(
            Arc::new(plan.root),
            columns,
            tag,
            std::mem::take(&mut self.params),
            std::mem::take(&mut self.relations),
            plan.sub_plans,
            self.context.catalog.version(),
        );
        let planned = planned.with_cursor_tables(std::mem::take(&mut self.cursor_tables));
        Ok(planned.with_functions(bodies).with_volatility(volatile).with_wish(wanted))
    }

    /// Returns the analyzed statement, the columns of its rows, and its command tag.
    pub(crate) fn statement_query(
        &mut self,
        node: &NodeEnum,
    ) -> Result<(StatementQuery, Vec<ColumnInfo>, CommandTag)> {
        let (body, columns, tag) = match node {
            NodeEnum::SelectStmt(select) => {
                let query = self.query(select, None, true)?;
                let columns = query.columns.clone();
                (StatementBody::Select(query), columns, CommandTag::Select)
            }
            NodeEnum::InsertStmt(insert) => {
                let (query, columns) = self.insert(insert)?;
                (StatementBody::Modify(Box::new(query)), columns, CommandTag::Insert)
            }
            NodeEnum::UpdateStmt(update) => {
                let (query, columns) = self.update(update)?;
                (StatementBody::Modify(Box::new(query)), columns, CommandTag::Update)
            }
            NodeEnum::DeleteStmt(delete) => {
                let (query, columns) = self.delete(delete)?;
                (StatementBody::Modify(Box::new(query)), columns, CommandTag::Delete)
            }
            NodeEnum::MergeStmt(merge) => {
                let query = self.merge(merge)?;
                (StatementBody::Merge(Box::new(query)), Vec::new(), CommandTag::Merge)
            }
            _ => return Err(SqlError::unsupported("this statement")),
        };
        let statement = StatementQuery { body, shared: std::mem::take(&mut self.shared) };
        Ok((statement, columns, tag))
    }

    /// Returns the error position of a location in the syntax tree.
    fn at(&self, location: i32) -> Option<u32> {
        position_of(self.source, location)
    }

    fn error(&self, sqlstate: &'static str, message: impl Into<String>, location: i32) -> SqlError {
        SqlError::new(sqlstate, message).with_position(self.at(location))
    }

    fn unsupported(&self, construct: impl std::fmt::Display, location: i32) -> SqlError {
        SqlError::unsupported(construct).with_position(self.at(location))
    }

    /// Notes a relation before its partitions: definitions lock a table before its partitions, too.
    fn note_relation(&mut self, relation: &Arc<Relation>, lock: TableLock) {
        self.note_alone(relation, lock);
        for member in relation.partitions.iter().flat_map(|partitions| &partitions.members) {
            self.note_relation(&member.relation, lock);
        }
    }

    /// Notes a relation without its partitions.
    fn note_alone(&mut self, relation: &Arc<Relation>, lock: TableLock) {
        if let Some(known) = self.relations.iter_mut().find(|(r, _)| r.oid == relation.oid) {
            if (lock as u8) > (known.1 as u8) {
                known.1 = lock;
            }
            return;
        }
        self.relations.push((Arc::clone(relation), lock));
    }

    fn scope(&mut self) -> Result<&mut Scope> {
        self.scopes.last_mut().ok_or_else(|| SqlError::internal("no query around an expression"))
    }

    /// Returns the relation that a range variable names.
    fn find_relation(&self, var: &pg_query::protobuf::RangeVar) -> Result<Arc<Relation>> {
        let schema = (!var.schemaname.is_empty()).then_some(var.schemaname.as_str());
        let database = (!var.catalogname.is_empty()).then_some(var.catalogname.as_str());
        crate::check_database(self.context.catalog, database, schema, &var.relname)
            .map_err(|error| error.with_position(self.at(var.location)))?;
        self.context
            .catalog
            .resolve(self.context.path, schema, &var.relname)
            .cloned()
            .map_err(|error| SqlError::from(error).with_position(self.at(var.location)))
    }

    fn schema_name(&self, schema: Oid) -> String {
        self.context.catalog.schema(schema).map_or_else(String::new, |s| s.name.clone())
    }
}

/// Returns the parts of a dotted name.
fn names_of(nodes: &[Node]) -> Vec<&str> {
    nodes
        .iter()
        .filter_map(|node| match node.node.as_ref() {
            Some(NodeEnum::String(s)) => Some(s.sval.as_str()),
            _ => None,
        })
        .collect()
}
