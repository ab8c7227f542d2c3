//! The analyzer: turns syntax trees into typed, planned statements.
//!
//! It resolves names, derives types and inserts coercions. It raises PostgreSQL's errors for
//! invalid statements.

#![expect(
    clippy::wrong_self_convention,
    reason = "`to_bool(self, expr)` converts the expression, not the analyzer"
)]

mod change;
mod expression;
mod names;
mod query;
mod routine;
mod stored;

use std::sync::Arc;

use niwaki_catalog::{Oid, Relation};
use niwaki_env::hash::HashMap;
use niwaki_expr::analysis::AnalyzeContext;
use niwaki_expr::context::{ColumnInfo, CommandTag};
use niwaki_expr::expr::DomainRules;
use niwaki_expr::query::{SharedQuery, StatementBody, StatementQuery};
use niwaki_parse::error::{Result, SqlError};
use niwaki_parse::parse::position_of;
use niwaki_txn::TableLockMode;
use niwaki_types::TypeOid;
use pg_query::NodeEnum;

pub use change::current_of::CursorTable;
pub use change::write_view::writable;
pub use expression::assigned_value::ValueFor;
pub use expression::assigned_value::assigned_value;
pub(crate) use expression::domain::domain_check;
pub use expression::domain::{check_domain_expression, define_domain_check};
pub(crate) use names::scope::SYSTEM_COLUMNS;
use names::scope::Scope;
use query::cte::{Context, Cte, Recursion};
pub use routine::analyze_function;
pub use routine::check_body;
pub(crate) use stored::text::{
    IndexPart, copy_condition, define_generation, define_index, generation_expression,
    index_expression, stored_expression, table_expression, written_expression,
};
pub use stored::text::{define_check, define_default};
pub(crate) use stored::trigger::shown_condition;
pub use stored::trigger::{
    SUPPRESS_REDUNDANT, check_stored_trigger, check_trigger, condition_columns,
};
pub use stored::view::view_statement;
pub use stored::view::{NewView, analyze_view, check_view, view_not_updatable};
pub(crate) use stored::view::{ViewQuery, view_query};

/// State of the analysis of one statement.
pub struct Analyzer<'a> {
    context: &'a AnalyzeContext<'a>,
    source: &'a str,
    /// Types of the parameters found so far; `UNKNOWN` if not known yet.
    params: Vec<TypeOid>,
    /// True if the statement may have more parameters than the caller gave types for.
    pub infer_params: bool,
    /// Relations that the statement reads or writes, with the needed lock modes.
    relations: Vec<(Arc<Relation>, TableLockMode)>,
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
    names: names::rule::Names<'a>,
    /// Views whose texts are being analyzed, outermost first.
    expanding: Vec<Oid>,
    /// Ranges of `shared` that hold the WITH queries of views.
    shared_of_views: Vec<std::ops::Range<usize>>,
    /// Rules of the domains that the statement's expressions were coerced to.
    domains: HashMap<TypeOid, Arc<DomainRules>>,
    /// Domains whose constraints are being analyzed, outermost first.
    open_domains: Vec<TypeOid>,
    /// The function whose body is being analyzed.
    routine: Option<routine::enclosing::Routine>,
    /// The collation of the function call if it is not the default: the parameters have this
    /// collation.
    input_collation: Option<Oid>,
    /// Location of the function call that is a FROM item.
    from_call: Option<i32>,
    /// True if the next query is a cursor's query, whose rows need their TIDs.
    pub for_cursor: bool,
    /// Tables of the cursor's query whose rows have their TIDs.
    cursor_tables: Vec<CursorTable>,
}

/// A statement after its analysis.
pub struct Analyzed {
    /// The statement.
    pub statement: StatementQuery,
    /// Columns of the rows that the statement returns.
    pub columns: Vec<ColumnInfo>,
    /// The kind of statement.
    pub tag: CommandTag,
    /// Types of the parameters; `UNKNOWN` where no use of the parameter tells its type.
    pub params: Vec<TypeOid>,
    /// Relations that the statement reads or writes, with the needed lock modes.
    pub relations: Vec<(Arc<Relation>, TableLockMode)>,
    /// Tables of a cursor's query whose rows have their TIDs.
    pub cursor_tables: Vec<CursorTable>,
}

impl<'a> Analyzer<'a> {
    /// Creates the analysis of one statement. `source` is its text.
    pub fn new(context: &'a AnalyzeContext<'a>, source: &'a str, params: Vec<TypeOid>) -> Self {
        Self {
            context,
            source,
            params,
            infer_params: false,
            relations: Vec::new(),
            shared: Vec::new(),
            ctes: Vec::new(),
            unseen: Vec::new(),
            recursions: Vec::new(),
            contexts: Vec::new(),
            nested: 0,
            scopes: Vec::new(),
            names: if context.stored {
                names::rule::Names::StoredReferences
            } else {
                names::rule::Names::ByPath
            },
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

    /// Analyzes a statement that returns or changes rows.
    ///
    /// # Errors
    /// As `niwaki_sql::analyze`.
    pub fn analyzed(&mut self, node: &NodeEnum) -> Result<Analyzed> {
        let (statement, columns, tag) = self.statement_query(node)?;
        Ok(self.with_findings(statement, columns, tag))
    }

    /// Returns a statement together with what its analysis found.
    fn with_findings(
        &mut self,
        statement: StatementQuery,
        columns: Vec<ColumnInfo>,
        tag: CommandTag,
    ) -> Analyzed {
        Analyzed {
            statement,
            columns,
            tag,
            params: std::mem::take(&mut self.params),
            relations: std::mem::take(&mut self.relations),
            cursor_tables: std::mem::take(&mut self.cursor_tables),
        }
    }

    /// Returns the analyzed statement, the columns of its rows, and its command tag.
    ///
    /// # Errors
    /// As `niwaki_sql::analyze`; `0A000` for a statement of another kind.
    pub fn statement_query(
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

    /// Notes a relation and its partitions.
    fn note_relation(&mut self, relation: &Arc<Relation>, lock: TableLockMode) {
        note_relation(&mut self.relations, relation, lock);
    }

    /// Notes a relation without its partitions.
    fn note_alone(&mut self, relation: &Arc<Relation>, lock: TableLockMode) {
        note_alone(&mut self.relations, relation, lock);
    }

    fn scope(&mut self) -> Result<&mut Scope> {
        self.scopes.last_mut().ok_or_else(|| SqlError::internal("no query around an expression"))
    }

    /// Returns the relation that a range variable names.
    fn find_relation(&self, var: &pg_query::protobuf::RangeVar) -> Result<Arc<Relation>> {
        let schema = (!var.schemaname.is_empty()).then_some(var.schemaname.as_str());
        let database = (!var.catalogname.is_empty()).then_some(var.catalogname.as_str());
        niwaki_parse::database_name::check_database(
            self.context.catalog,
            database,
            schema,
            &var.relname,
        )
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

/// Notes a relation before its partitions: definitions lock a table before its partitions, too.
pub fn note_relation(
    relations: &mut Vec<(Arc<Relation>, TableLockMode)>,
    relation: &Arc<Relation>,
    lock: TableLockMode,
) {
    note_alone(relations, relation, lock);
    for member in relation.partitions.iter().flat_map(|partitions| &partitions.members) {
        note_relation(relations, &member.relation, lock);
    }
}

fn note_alone(
    relations: &mut Vec<(Arc<Relation>, TableLockMode)>,
    relation: &Arc<Relation>,
    lock: TableLockMode,
) {
    if let Some(known) = relations.iter_mut().find(|(r, _)| r.oid == relation.oid) {
        known.1 = known.1.max(lock);
        return;
    }
    relations.push((Arc::clone(relation), lock));
}
