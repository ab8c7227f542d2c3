//! ON CONFLICT: infers the arbiter indexes, and analyzes DO UPDATE.

use std::sync::Arc;

use niwaki_catalog::{
    ConstraintTime, IndexColumn, IndexDefinition, IndexEntry, Oid, Relation, StoredExpression,
    type_collation,
};
use niwaki_expr::expr::{Expr, ExprKind, compiled, implies};
use niwaki_expr::query::{ConflictPlan, ConflictUpdate, conjunction, split_conjuncts};
use niwaki_parse::collation::collation_named;
use niwaki_parse::error::{Result, SqlError};
use niwaki_table::{IndexDefinition as OpenIndex, KeySource};
use niwaki_txn::RowLockMode;
use niwaki_types::TypeOid;
use pg_query::protobuf::{self, OnConflictAction, SortByDir, SortByNulls};
use pg_query::{Node, NodeEnum};

use crate::analyze::Analyzer;
use crate::analyze::change::write_view::WriteTarget;
use crate::analyze::names::parts::names_of;
use crate::analyze::names::scope::{Place, Scope};
use crate::analyze::stored::text::{IndexPart, index_expression};

/// Name of the row proposed for insertion.
pub(crate) const EXCLUDED: &str = "excluded";

/// The conflict target: columns and expressions of a key, in any order.
#[derive(Default)]
struct Inferred {
    columns: Vec<usize>,
    expressions: Vec<Expr>,
    /// Keys with a COLLATE clause.
    collations: Vec<(Expr, Oid)>,
    /// Conditions of the target's WHERE clause.
    conditions: Vec<Expr>,
}

impl Inferred {
    /// Returns whether an index has exactly the listed keys, and contains all rows that the
    /// conditions admit.
    fn fits(&self, columns: &[usize], expressions: &[&Expr], predicate: Option<&Expr>) -> bool {
        let same_columns = columns.iter().all(|column| self.columns.contains(column))
            && self.columns.iter().all(|column| columns.contains(column));
        let same_expressions =
            self.expressions.iter().all(|e| expressions.iter().any(|i| i.same(e)))
                && expressions.iter().all(|i| self.expressions.iter().any(|e| i.same(e)));
        let has_rows = predicate.is_none_or(|predicate| implies(&self.conditions, predicate));
        same_columns && same_expressions && has_rows
    }

    /// Returns the same for an open index.
    fn fits_open(&self, index: &OpenIndex) -> bool {
        let mut columns = Vec::new();
        let mut expressions = Vec::new();
        for key in &index.key {
            match &key.source {
                KeySource::Column(column) => columns.push(*column),
                KeySource::Expression(expression) => match compiled(&**expression) {
                    Some(compiled) => expressions.push(&*compiled.expr),
                    None => return false,
                },
            }
        }
        match index.predicate.as_deref().map(compiled) {
            Some(None) => false,
            Some(Some(predicate)) => self.fits(&columns, &expressions, Some(&predicate.expr)),
            None => self.fits(&columns, &expressions, None),
        }
    }
}

impl Analyzer<'_> {
    /// Returns the arbiters of an ON CONFLICT clause. [`check_arbiters`] raises the error if there
    /// are none. [`Analyzer::conflict_update`] analyzes the action.
    pub(crate) fn conflict(
        &mut self,
        clause: &protobuf::OnConflictClause,
        relation: &Arc<Relation>,
        name: &str,
    ) -> Result<ConflictPlan> {
        let Some(target) = clause.infer.as_deref() else {
            if clause.action() == OnConflictAction::OnconflictUpdate {
                return Err(self
                    .error(
                        "42601",
                        "ON CONFLICT DO UPDATE requires inference specification or constraint name",
                        clause.location,
                    )
                    .with_hint("For example, ON CONFLICT (column_name)."));
            }
            let unique = |index: &IndexEntry| index.definition.unique && index.definition.ready;
            let arbiters = positions(relation, |_, index| unique(index));
            return Ok(ConflictPlan { arbiters, inferred: false, update: None });
        };
        let arbiters = if target.conname.is_empty() {
            self.infer(target, relation, name)?
        } else {
            constraint(relation, &target.conname)?
        };
        Ok(ConflictPlan { arbiters, inferred: true, update: None })
    }

    /// Returns the unique indexes whose keys match the target.
    fn infer(
        &mut self,
        target: &protobuf::InferClause,
        relation: &Arc<Relation>,
        name: &str,
    ) -> Result<Vec<usize>> {
        let mut scope = Scope { place: Place::IndexExpression, ..Scope::default() };
        scope.add_relation(relation, name, None);
        // The target cannot name anything outside the INSERT.
        let around = std::mem::replace(&mut self.scopes, vec![scope]);
        let inferred = self.inferred(target, relation);
        self.scopes = around;
        let inferred = inferred?;
        if relation.is_partitioned() {
            return self.infer_above(&inferred, relation);
        }
        let opened = relation
            .table
            .as_ref()
            .ok_or_else(|| SqlError::internal("a table that is not open"))?;
        let definitions = &opened.definition().indexes;
        let arbiters = positions(relation, |position, index| {
            let definition = &index.definition;
            definition.unique
                && definition.valid
                && inferred.fits_open(&definitions[position])
                && self.fits_collations(&inferred, relation, definition)
        });
        Ok(arbiters)
    }

    /// Does the work of [`Analyzer::infer`] for a partitioned table, whose indexes have no entries.
    fn infer_above(&self, inferred: &Inferred, relation: &Arc<Relation>) -> Result<Vec<usize>> {
        // The kind of index expression affects only the words of errors.
        let read = |stored: &StoredExpression| {
            index_expression(&stored.text, relation, self.context, IndexPart::Key)
        };
        let mut arbiters = Vec::new();
        for (position, index) in relation.indexes.iter().enumerate() {
            let index = &index.definition;
            if !index.unique || !index.valid {
                continue;
            }
            let stored = index.key.iter().filter_map(|key| key.expression.as_ref());
            let expressions = stored.map(read).collect::<Result<Vec<Expr>>>()?;
            let expressions: Vec<&Expr> = expressions.iter().collect();
            let plain = index.key.iter().filter(|key| key.expression.is_none());
            let columns: Vec<usize> = plain.map(|key| usize::from(key.column)).collect();
            let predicate = index.predicate.as_ref().map(read).transpose()?;
            if inferred.fits(&columns, &expressions, predicate.as_ref())
                && self.fits_collations(inferred, relation, index)
            {
                arbiters.push(position);
            }
        }
        Ok(arbiters)
    }

    /// Returns whether each key with a COLLATE clause is a key of the index with this collation.
    fn fits_collations(
        &self,
        inferred: &Inferred,
        relation: &Arc<Relation>,
        index: &IndexDefinition,
    ) -> bool {
        let fits = |wanted: &Expr, collation: Oid, key: &IndexColumn| {
            let own = if let Some(stored) = &key.expression {
                let part = IndexPart::Key;
                let read = index_expression(&stored.text, relation, self.context, part);
                if !read.is_ok_and(|read| read.same(wanted)) {
                    return false;
                }
                stored.collation.or_else(|| type_collation(TypeOid(stored.type_oid)))
            } else {
                let column = usize::from(key.column);
                if !matches!(wanted.kind, ExprKind::Slot { depth: 0, slot } if slot == column) {
                    return false;
                }
                self.context.catalog.column_collation(&relation.columns[column])
            };
            key.collation.or(own) == Some(collation)
        };
        inferred
            .collations
            .iter()
            .all(|(wanted, oid)| index.key.iter().any(|key| fits(wanted, *oid, key)))
    }

    fn inferred(
        &mut self,
        target: &protobuf::InferClause,
        relation: &Relation,
    ) -> Result<Inferred> {
        let mut inferred = Inferred::default();
        for node in &target.index_elems {
            let Some(NodeEnum::IndexElem(element)) = &node.node else { continue };
            self.refuse_order(element, target.location)?;
            let mut collation = match names_of(&element.collation).as_slice() {
                [] => None,
                names => Some(
                    collation_named(names)
                        .map_err(|e| e.with_position(self.at(target.location)))?,
                ),
            };
            if element.name.is_empty() {
                let expr = self.expr_of(element.expr.as_deref())?;
                let expr = self.to_output(expr)?;
                collation = collation.or(expr.collation);
                inferred.collations.extend(collation.map(|oid| (expr.clone(), oid)));
                match expr.kind {
                    ExprKind::Slot { depth: 0, slot } => inferred.columns.push(slot),
                    _ => inferred.expressions.push(expr),
                }
                continue;
            }
            let column = relation.column_position(&element.name).ok_or_else(|| {
                let message = format!("column \"{}\" does not exist", element.name);
                self.error("42703", message, target.location)
            })?;
            inferred.columns.push(column);
            let kind = relation.columns[column].column_type();
            inferred.collations.extend(collation.map(|oid| (Expr::slot(column, kind), oid)));
        }
        if let Some(condition) = &target.where_clause {
            self.set_place(Place::IndexPredicate)?;
            split_conjuncts(self.expr(condition)?, &mut inferred.conditions);
        }
        Ok(inferred)
    }

    fn refuse_order(&self, element: &protobuf::IndexElem, location: i32) -> Result<()> {
        let given = |order| !matches!(order, SortByDir::Undefined | SortByDir::SortbyDefault);
        if given(element.ordering()) {
            return Err(self.error(
                "42P10",
                "ASC/DESC is not allowed in ON CONFLICT clause",
                location,
            ));
        }
        let nulls = element.nulls_ordering();
        if !matches!(nulls, SortByNulls::Undefined | SortByNulls::SortbyNullsDefault) {
            return Err(self.error(
                "42P10",
                "NULLS FIRST/LAST is not allowed in ON CONFLICT clause",
                location,
            ));
        }
        if !element.opclass.is_empty() {
            return Err(self.unsupported("an operator class in ON CONFLICT", location));
        }
        Ok(())
    }

    /// Analyzes DO UPDATE. The innermost scope has the table, then EXCLUDED from slot `excluded`
    /// on.
    pub(crate) fn conflict_update(
        &mut self,
        assignments: &[Node],
        condition: Option<&Node>,
        relation: &Arc<Relation>,
        excluded: usize,
    ) -> Result<ConflictUpdate> {
        let written = WriteTarget { table: Arc::clone(relation), view: None };
        let values = self.assignments(&written, assignments)?;
        let condition = conjunction(self.where_conditions(condition)?);
        let changes = |column: u16| values.get(usize::from(column)).is_some_and(Option::is_some);
        // As in PostgreSQL: a key that foreign keys of other rows could reference.
        let names_rows = |indexes: &[IndexEntry], changes: &dyn Fn(u16) -> bool| {
            indexes.iter().map(|index| &index.definition).any(|index| {
                index.unique
                    && index.predicate.is_none()
                    && index.check_time == ConstraintTime::AtOnce
                    && index.key.iter().any(|key| changes(key.column))
            })
        };
        // A partition may have additional keys.
        let mut leaves = relation.partitions.iter().flat_map(|partitions| &partitions.leaves);
        let names_rows = names_rows(&relation.indexes, &changes)
            || leaves.any(|leaf| {
                let places = (0..values.len()).filter(|column| values[*column].is_some());
                let places: Vec<usize> = places.filter_map(|c| leaf.columns.place(c)).collect();
                names_rows(&leaf.relation.indexes, &|column| places.contains(&usize::from(column)))
            });
        let lock = if names_rows { RowLockMode::Update } else { RowLockMode::NoKeyUpdate };
        Ok(ConflictUpdate { excluded, values, condition, lock })
    }
}

/// Returns `42P10` if there is no arbiter index. PostgreSQL looks for one when it plans, so all
/// other errors of the clause come first.
pub(crate) fn check_arbiters(plan: &ConflictPlan) -> Result<()> {
    if !plan.inferred || !plan.arbiters.is_empty() {
        return Ok(());
    }
    let message =
        "there is no unique or exclusion constraint matching the ON CONFLICT specification";
    Err(SqlError::new("42P10", message))
}

/// Returns the positions of the table's indexes that satisfy `which`.
fn positions(relation: &Relation, which: impl Fn(usize, &IndexEntry) -> bool) -> Vec<usize> {
    let indexes = relation.indexes.iter().enumerate();
    indexes.filter(|(position, index)| which(*position, index)).map(|(at, _)| at).collect()
}

/// Returns the position of a constraint's index.
fn constraint(relation: &Relation, name: &str) -> Result<Vec<usize>> {
    let found =
        positions(relation, |_, index| index.definition.constraint.is_some() && index.name == name);
    if let Some(position) = found.first() {
        // An index of a partitioned table that still lacks partitions is no arbiter.
        let valid = relation.indexes[*position].definition.valid;
        return Ok(if valid { found } else { Vec::new() });
    }
    if relation.checks.iter().any(|check| check.name == name) {
        let message = "constraint in ON CONFLICT clause has no associated index";
        return Err(SqlError::new("42809", message));
    }
    let message = format!("constraint \"{name}\" for table \"{}\" does not exist", relation.name);
    Err(SqlError::new("42704", message))
}
