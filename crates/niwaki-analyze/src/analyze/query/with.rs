//! WITH: common table expressions.
//!
//! The queries of WITH RECURSIVE may name one another in any order, so each is analyzed when it is
//! first named. A query that is named while it is being analyzed names itself, or is part of a
//! cycle. Cycles are refused. [`Analyzer::contexts`] has the enclosing query parts in which a query
//! must not name itself.

use niwaki_catalog::collation_name;
use niwaki_expr::context::ColumnInfo;
use niwaki_expr::expr::ExprKind;
use niwaki_expr::query::{Body, ItemKind, ModifyQuery, Query, SharedQuery, count_named};
use niwaki_parse::error::{Result, SqlError};
use niwaki_parse::tree::Tree;
use pg_query::NodeEnum;
use pg_query::protobuf::{self, CteMaterialize, SetOperation};

use crate::analyze::Analyzer;
use crate::analyze::expression::expr::EXPRESSION_UNITS;
use crate::analyze::names::parts::names_of;
use crate::analyze::names::scope::Scope;
use crate::analyze::query::cte::{Context, Cte, CteState, Form, Recursion};

impl Analyzer<'_> {
    /// Makes the queries of a WITH clause visible to the rest of the statement.
    pub(crate) fn with_clause(&mut self, with: &protobuf::WithClause) -> Result<()> {
        // Data changes are allowed only at the top level.
        let outermost = self.scopes.is_empty() && self.nested == 0;
        let (first, level) = (self.ctes.len(), self.scopes.len());
        let list: Vec<&protobuf::CommonTableExpr> = with
            .ctes
            .iter()
            .filter_map(|node| match &node.node {
                Some(NodeEnum::CommonTableExpr(cte)) => Some(&**cte),
                _ => None,
            })
            .collect();
        for (number, cte) in list.iter().enumerate() {
            if list[..number].iter().any(|other| other.ctename == cte.ctename) {
                let message =
                    format!("WITH query name \"{}\" specified more than once", cte.ctename);
                return Err(self.error("42712", message, cte.location));
            }
            if !outermost && form_of(cte) == Form::Change {
                let message =
                    "WITH clause containing a data-modifying statement must be at the top level";
                return Err(self.error("0A000", message, cte.location));
            }
        }
        if !with.recursive {
            let before = self.unseen.len();
            self.unseen.extend(list.iter().rev().map(|cte| cte.ctename.clone()));
            for cte in list {
                let number = self.new_shared(cte);
                let query = self.at_level(level, |this| this.with_query(cte, number, None))?;
                self.unseen.pop();
                let at = self.ctes.len();
                let (name, columns) = (cte.ctename.clone(), query.columns.clone());
                let state = self.share(number, query);
                self.ctes.push(Cte { name, number, columns, state, list: (at, at + 1), level });
            }
            self.unseen.truncate(before);
            return Ok(());
        }
        let bounds = (first, first + list.len());
        for cte in &list {
            let number = self.new_shared(cte);
            let state = CteState::Pending(Tree::of_with_query(cte));
            let (name, columns) = (cte.ctename.clone(), Vec::new());
            self.ctes.push(Cte { name, number, columns, state, list: bounds, level });
        }
        for at in first..bounds.1 {
            self.analyze_pending(at)?;
        }
        Ok(())
    }

    fn new_shared(&mut self, cte: &protobuf::CommonTableExpr) -> usize {
        let materialized = match cte.ctematerialized() {
            CteMaterialize::Always => Some(true),
            CteMaterialize::Never => Some(false),
            _ => None,
        };
        let (name, query) = (cte.ctename.clone(), Query::empty());
        let aliases = names_of(&cte.aliascolnames).into_iter().map(str::to_owned).collect();
        let own_names = Vec::new();
        let shared = SharedQuery { name, aliases, own_names, query, references: 0, materialized };
        self.shared.push(shared);
        self.shared.len() - 1
    }

    /// Runs `what` while only the outer `level` query levels are visible.
    fn at_level<T>(
        &mut self,
        level: usize,
        what: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let inner = self.scopes.split_off(level);
        self.nested += 1;
        let result = what(self);
        self.nested -= 1;
        self.scopes.extend(inner);
        result
    }

    /// Stores an analyzed query. Its rows are computed once for the whole statement, unless it is
    /// correlated.
    fn share(&mut self, number: usize, query: Query) -> CteState {
        if query.is_correlated() {
            return CteState::Dependent { query, named: false };
        }
        let silent = matches!(&query.body, Body::Modify(_)) && query.columns.is_empty();
        self.shared[number].query = query;
        if silent { CteState::Silent } else { CteState::Known }
    }

    /// Analyzes a query of WITH RECURSIVE, unless that has been done.
    fn analyze_pending(&mut self, at: usize) -> Result<()> {
        let cte = match self.ctes.get(at).map(|cte| &cte.state) {
            Some(CteState::Pending(cte)) => cte.clone(),
            _ => return Ok(()),
        };
        let Cte { list, level, .. } = self.ctes[at];
        self.ctes[at].state = CteState::Begun;
        let hidden = self.ctes.split_off(list.1);
        self.recursions.push(Recursion {
            cte: at,
            list: list.0,
            form: form_of(&cte),
            location: cte.location,
            references: 0,
            contexts: self.contexts.len(),
        });
        let number = self.ctes[at].number;
        let query = self.at_level(level, |this| this.with_query(&cte, number, Some(at)));
        self.recursions.pop();
        self.ctes.truncate(list.1);
        self.ctes.extend(hidden);
        let query = query?;
        self.ctes[at].columns.clone_from(&query.columns);
        self.ctes[at].state = self.share(self.ctes[at].number, query);
        Ok(())
    }

    /// Analyzes the query in the parentheses. `at` is the index of a WITH RECURSIVE query.
    fn with_query(
        &mut self,
        cte: &protobuf::CommonTableExpr,
        number: usize,
        at: Option<usize>,
    ) -> Result<Query> {
        let node = cte.ctequery.as_ref().and_then(|query| query.node.as_ref());
        let before = self.ctes.len();
        let changed = match node {
            Some(NodeEnum::SelectStmt(select)) => {
                if let (Some(at), true) = (at, names_itself(cte, select)) {
                    return self.recursive_query(cte, at, select);
                }
                let mut query = self.nested_query(select, None)?;
                let own = query.columns.iter().map(|column| column.name.clone());
                self.shared[number].own_names = own.collect();
                self.name_columns(cte, &mut query.columns)?;
                return Ok(query);
            }
            Some(NodeEnum::InsertStmt(insert)) => self.insert(insert),
            Some(NodeEnum::UpdateStmt(update)) => self.update(update),
            Some(NodeEnum::DeleteStmt(delete)) => self.delete(delete),
            Some(NodeEnum::MergeStmt(_)) => {
                let message = "MERGE not supported in WITH query";
                return Err(self.error("0A000", message, cte.location));
            }
            _ => return Err(self.unsupported("this statement in WITH", cte.location)),
        };
        self.ctes.truncate(before);
        let (modify, mut columns): (ModifyQuery, _) = changed?;
        self.name_columns(cte, &mut columns)?;
        let body = Body::Modify(Box::new(modify));
        Ok(Query { body, columns, order: Vec::new(), limit: None, offset: None })
    }

    fn name_columns(
        &self,
        cte: &protobuf::CommonTableExpr,
        columns: &mut [ColumnInfo],
    ) -> Result<()> {
        let names = names_of(&cte.aliascolnames);
        if names.len() > columns.len() {
            let message = format!(
                "WITH query \"{}\" has {} columns available but {} columns specified",
                cte.ctename,
                columns.len(),
                names.len()
            );
            return Err(self.error("42P10", message, cte.location));
        }
        for (column, name) in columns.iter_mut().zip(names) {
            name.clone_into(&mut column.name);
        }
        Ok(())
    }

    /// Analyzes a UNION that may name itself in its right side.
    fn recursive_query(
        &mut self,
        cte: &protobuf::CommonTableExpr,
        at: usize,
        select: &protobuf::SelectStmt,
    ) -> Result<Query> {
        let before = self.ctes.len();
        if let Some(with) = &select.with_clause {
            self.within_own("a subquery", at, |this| this.with_clause(with))?;
        }
        self.scopes.push(Scope::default());
        let query = self.recursive_terms(cte, at, select);
        self.scopes.pop();
        self.ctes.truncate(before);
        query
    }

    fn recursive_terms(
        &mut self,
        cte: &protobuf::CommonTableExpr,
        at: usize,
        select: &protobuf::SelectStmt,
    ) -> Result<Query> {
        let (Some(left), Some(right)) = (&select.larg, &select.rarg) else {
            return Err(SqlError::internal("a set operation with one side"));
        };
        let left =
            self.within_own("its non-recursive term", at, |this| this.set_side(left, true))?;
        // The recursive term sees the columns of the non-recursive term.
        let mut columns = left.columns.clone();
        for column in &mut columns {
            (column.table, column.attribute) = (0, 0);
        }
        self.name_columns(cte, &mut columns)?;
        self.ctes[at].columns.clone_from(&columns);
        let right = self.set_side(right, false)?;
        let (mut set, mut infos) = self.united(select, left, right)?;
        self.name_columns(cte, &mut infos)?;
        if self.recursions.last().is_none_or(|recursion| recursion.references == 0) {
            return self.order_and_limit(select, Body::Set(Box::new(set)), infos);
        }
        let refused = [
            (!select.sort_clause.is_empty(), "ORDER BY"),
            (select.limit_offset.is_some(), "OFFSET"),
            (select.limit_count.is_some(), "LIMIT"),
            (!select.locking_clause.is_empty(), "FOR UPDATE/SHARE"),
        ];
        if let Some((_, clause)) = refused.iter().find(|(there, _)| *there) {
            let message = format!("{clause} in a recursive query is not implemented");
            return Err(self.error("0A000", message, cte.location));
        }
        if cte.search_clause.is_some() {
            return Err(self.unsupported("SEARCH", cte.location));
        }
        if cte.cycle_clause.is_some() {
            return Err(self.unsupported("CYCLE", cte.location));
        }
        for (number, (first, overall)) in columns.iter().zip(&infos).enumerate() {
            if first.column_type != overall.column_type {
                let message = format!(
                    "recursive query \"{}\" column {} has type {} in non-recursive term but type {} overall",
                    cte.ctename,
                    number + 1,
                    self.format_column_type(first.column_type),
                    self.format_column_type(overall.column_type)
                );
                return Err(self
                    .error("42804", message, cte.location)
                    .with_hint("Cast the output of the non-recursive term to the correct type."));
            }
        }
        for (number, (first, overall)) in columns.iter().zip(&infos).enumerate() {
            if first.collation != overall.collation {
                let name = |column: &ColumnInfo| {
                    column.at_slot(0).derived.oid().and_then(collation_name).unwrap_or_default()
                };
                let message = format!(
                    "recursive query \"{}\" column {} has collation \"{}\" in non-recursive term but collation \"{}\" overall",
                    cte.ctename,
                    number + 1,
                    name(first),
                    name(overall)
                );
                return Err(self.error("42P21", message, cte.location).with_hint(
                    "Use the COLLATE clause to set the collation of the non-recursive term.",
                ));
            }
        }
        set.recursive = Some(self.ctes[at].number);
        let body = Body::Set(Box::new(set));
        Ok(Query { body, columns: infos, order: Vec::new(), limit: None, offset: None })
    }

    /// Runs `what` inside a query part in which no recursive query may name itself.
    pub(crate) fn within<T>(
        &mut self,
        context: &'static str,
        what: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        self.contexts.push(Context { part: context, of: None });
        let result = what(self);
        self.contexts.pop();
        result
    }

    /// Does the same for a single query, given by its index.
    fn within_own<T>(
        &mut self,
        context: &'static str,
        at: usize,
        what: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        self.contexts.push(Context { part: context, of: Some(at) });
        let result = what(self);
        self.contexts.pop();
        result
    }

    /// Resolves a FROM item's name as a WITH query, if there is one.
    pub(crate) fn named_query(
        &mut self,
        name: &str,
        location: i32,
    ) -> Result<Option<(ItemKind, Vec<ColumnInfo>)>> {
        let Some(at) = self.ctes.iter().rposition(|cte| cte.name == name) else { return Ok(None) };
        self.analyze_pending(at)?;
        let depth = self.scopes.len();
        let cte = &mut self.ctes[at];
        let number = cte.number;
        match &mut cte.state {
            CteState::Dependent { query, named } => {
                // Such a query's rows would have to be kept for each enclosing row.
                let once = query.is_volatile() || query.locks_rows() || query.has_recursion();
                let again = std::mem::replace(named, true);
                if again && once {
                    let what = "naming a WITH query twice that is recursive or volatile and reads rows of a query around it";
                    return Err(self.unsupported(what, location));
                }
                niwaki_types::work::tick(query.nodes().saturating_mul(EXPRESSION_UNITS))?;
                let (mut query, by) = (query.clone(), depth - cte.level);
                if again {
                    count_named(&mut self.shared, &query);
                }
                query.outer_slots_mut(1, &mut |slot, _| {
                    if let ExprKind::Slot { depth, .. } = &mut slot.kind {
                        *depth += by;
                    }
                });
                Ok(Some((ItemKind::Query(Box::new(query)), cte.columns.clone())))
            }
            CteState::Silent => {
                let message = format!("WITH query \"{name}\" does not have a RETURNING clause");
                Err(self.error("0A000", message, location))
            }
            CteState::Begun => {
                self.refuse_misplaced(at, location)?;
                Ok(Some((ItemKind::Working { number }, self.ctes[at].columns.clone())))
            }
            CteState::Known | CteState::Pending(_) => {
                let columns = cte.columns.clone();
                self.shared[number].references += 1;
                Ok(Some((ItemKind::Shared { number }, columns)))
            }
        }
    }

    /// Counts a query's reference to itself, and refuses invalid references.
    fn refuse_misplaced(&mut self, at: usize, location: i32) -> Result<()> {
        let name = self.ctes[at].name.clone();
        let refused = |this: &Self, sqlstate, message: String, location| {
            Err(this.error(sqlstate, message, location))
        };
        let Some(depth) = self.recursions.iter().position(|recursion| recursion.cte == at) else {
            return Err(SqlError::internal("a WITH query that is never done"));
        };
        let Recursion { list, form, location: own, contexts, .. } = self.recursions[depth];
        if self.recursions[depth + 1..].iter().any(|later| later.list == list) {
            let message = "mutual recursion between WITH items is not implemented".to_owned();
            return refused(self, "0A000", message, own);
        }
        match form {
            Form::Union => {}
            Form::Change => {
                let message = format!(
                    "recursive query \"{name}\" must not contain data-modifying statements"
                );
                return refused(self, "42P19", message, own);
            }
            Form::Other => {
                let message = format!(
                    "recursive query \"{name}\" does not have the form non-recursive-term UNION [ALL] recursive-term"
                );
                return refused(self, "42P19", message, own);
            }
        }
        let around = &self.contexts[contexts..];
        let own_context = |context: &&Context| context.of.is_none_or(|of| of == at);
        if let Some(Context { part: context, .. }) = around.iter().rev().find(own_context) {
            let message =
                format!("recursive reference to query \"{name}\" must not appear within {context}");
            return refused(self, "42P19", message, location);
        }
        self.recursions[depth].references += 1;
        if self.recursions[depth].references > 1 {
            let message =
                format!("recursive reference to query \"{name}\" must not appear more than once");
            return refused(self, "42P19", message, location);
        }
        Ok(())
    }

    /// Adds a hint to the error for an unknown table, if a WITH query of that name exists but is
    /// not visible.
    pub(crate) fn hint_at_with(&self, name: &str, error: SqlError) -> SqlError {
        if error.sqlstate != "42P01" || !self.unseen.iter().any(|unseen| unseen == name) {
            return error;
        }
        error
            .with_detail(format!(
                "There is a WITH item named \"{name}\", but it cannot be referenced from this part of the query."
            ))
            .with_hint(
                "Use WITH RECURSIVE, or re-order the WITH items to remove forward references.",
            )
    }
}

fn form_of(cte: &protobuf::CommonTableExpr) -> Form {
    match cte.ctequery.as_ref().and_then(|query| query.node.as_ref()) {
        Some(NodeEnum::SelectStmt(select)) if select.op() == SetOperation::SetopUnion => {
            Form::Union
        }
        Some(NodeEnum::SelectStmt(_)) => Form::Other,
        _ => Form::Change,
    }
}

/// Returns whether a query is a UNION with its own name among the FROM items of its sides. A
/// reference to itself is allowed only there. The name is not resolved.
fn names_itself(cte: &protobuf::CommonTableExpr, select: &protobuf::SelectStmt) -> bool {
    form_of(cte) == Form::Union && in_from(&cte.ctename, select)
}

fn in_from(name: &str, select: &protobuf::SelectStmt) -> bool {
    let node = |node: &pg_query::Node| in_item(name, node);
    select.with_clause.iter().flat_map(|with| &with.ctes).any(node)
        || select.from_clause.iter().any(node)
        || select.larg.iter().chain(&select.rarg).any(|side| in_from(name, side))
}

fn in_item(name: &str, node: &pg_query::Node) -> bool {
    let inside = |node: &Option<Box<pg_query::Node>>| {
        node.as_deref().is_some_and(|node| in_item(name, node))
    };
    match &node.node {
        Some(NodeEnum::RangeVar(var)) => var.schemaname.is_empty() && var.relname == name,
        Some(NodeEnum::RangeSubselect(sub)) => inside(&sub.subquery),
        Some(NodeEnum::JoinExpr(join)) => inside(&join.larg) || inside(&join.rarg),
        Some(NodeEnum::CommonTableExpr(cte)) => inside(&cte.ctequery),
        Some(NodeEnum::SelectStmt(select)) => in_from(name, select),
        _ => false,
    }
}
