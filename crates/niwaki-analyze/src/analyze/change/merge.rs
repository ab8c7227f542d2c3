//! MERGE: joins a source with a table, and changes or inserts table rows.
//!
//! A left join is used if source rows without a match are to be inserted. The `ctid` of the table's
//! row decides which actions apply: it is NULL for rows without a match.

use std::sync::Arc;

use niwaki_catalog::{RelationKind, TriggerEvent};
use niwaki_expr::expr::Expr;
use niwaki_expr::query::{
    From, ItemKind, JoinForm, JoinNode, JoinTree, JoinType, MergeAction, MergeQuery, ModifyKind,
    ModifyQuery, ModifySource, conjunction, split_conjuncts,
};
use niwaki_parse::error::{Result, SqlError};
use pg_query::protobuf::{self, CmdType, MergeMatchKind};
use pg_query::{Node, NodeEnum};

use crate::analyze::Analyzer;
use crate::analyze::change::write_view::WriteTarget;
use crate::analyze::names::scope::{Place, Scope};
use crate::analyze::stored::trigger::FiredBy;

/// Slot of the table's first column.
const START: usize = 0;

/// Returns whether the action is for matching rows (WHEN MATCHED).
fn is_for_matches(clause: &protobuf::MergeWhenClause) -> bool {
    clause.match_kind() == MergeMatchKind::MergeWhenMatched
}

/// Refuses an unreachable action: one after an unconditional action of the same kind.
fn refuse_unreachable(clauses: &[&protobuf::MergeWhenClause]) -> Result<()> {
    let mut closed = [false; 2];
    for clause in clauses {
        if clause.match_kind() == MergeMatchKind::MergeWhenNotMatchedBySource {
            return Err(SqlError::unsupported("WHEN NOT MATCHED BY SOURCE"));
        }
        let closed = &mut closed[usize::from(is_for_matches(clause))];
        if *closed {
            let message = "unreachable WHEN clause specified after unconditional WHEN clause";
            return Err(SqlError::new("42601", message));
        }
        *closed = clause.condition.is_none();
    }
    Ok(())
}

impl Analyzer<'_> {
    pub(crate) fn merge(&mut self, merge: &protobuf::MergeStmt) -> Result<MergeQuery> {
        if merge.returning_clause.is_some() {
            return Err(SqlError::unsupported("RETURNING of MERGE"));
        }
        if let Some(with) = &merge.with_clause {
            if with.recursive {
                let message = "WITH RECURSIVE is not supported for MERGE statement";
                return Err(SqlError::new("42601", message));
            }
            self.with_clause(with)?;
        }
        let clauses: Vec<&protobuf::MergeWhenClause> = merge
            .merge_when_clauses
            .iter()
            .filter_map(|node| match &node.node {
                Some(NodeEnum::MergeWhenClause(clause)) => Some(&**clause),
                _ => None,
            })
            .collect();
        refuse_unreachable(&clauses)?;
        let (Some(var), Some(source), Some(condition)) =
            (&merge.relation, &merge.source_relation, &merge.join_condition)
        else {
            return Err(SqlError::internal("MERGE without a table, a source or a condition"));
        };
        let relation = self.find_relation(var)?;
        if relation.kind == RelationKind::Index {
            return Err(SqlError::new("42809", format!("\"{}\" is an index", relation.name)));
        }
        if relation.kind != RelationKind::Table && !relation.is_system() {
            let message = format!("cannot execute MERGE on relation \"{}\"", relation.name);
            let detail = format!("This operation is not supported for {}.", relation.kind.plural());
            return Err(SqlError::new("0A000", message).with_detail(detail));
        }
        let written = self.target_relation(var, ModifyKind::Update)?;
        self.scopes.push(Scope::default());
        let result = self.merge_in_scope(var, &written, source, condition, &clauses);
        self.scopes.pop();
        result
    }

    fn merge_in_scope(
        &mut self,
        var: &protobuf::RangeVar,
        written: &WriteTarget,
        source: &Node,
        condition: &Node,
        clauses: &[&protobuf::MergeWhenClause],
    ) -> Result<MergeQuery> {
        let relation = &written.table;
        let (name, schema) = self.target_names(var, written);
        let scope = self.scope()?;
        scope.add_relation(relation, &name, schema);
        let (kind, alias) = (ItemKind::Table(Arc::clone(relation)), var.alias.as_ref());
        let target = scope.add_source(kind, name.clone(), START, alias, None);
        self.set_place(Place::From)?;
        let source = self.without_target(&name, |this| this.from_item(source))?;
        if self.scope()?.items.iter().skip(1).any(|item| item.name == name) {
            let message = format!("name \"{name}\" specified more than once");
            let detail = "The name is used both as MERGE target table and data source.";
            return Err(SqlError::new("42712", message).with_detail(detail));
        }
        self.set_place(Place::JoinCondition)?;
        let on = self.expr(condition)?;
        let mut parts = Vec::new();
        split_conjuncts(self.to_bool(on, "JOIN/ON")?, &mut parts);
        let mut actions = Vec::with_capacity(clauses.len());
        for clause in clauses {
            actions.push(if is_for_matches(clause) {
                self.merge_action(clause, written, &name)?
            } else {
                self.without_target(&name, |this| this.merge_action(clause, written, &name))?
            });
        }
        let change = |action: &MergeAction| action.change.as_ref().map(|change| change.kind);
        let inserts = actions.iter().any(|action| change(action) == Some(ModifyKind::Insert));
        let kind = if inserts { JoinType::Left } else { JoinType::Inner };
        // For an inner join, the conditions of the query level serve as the recheck.
        let recheck = inserts.then(|| parts.clone());
        let form = JoinForm::On { turned: false };
        let (left, right, on) = (source, target, parts);
        let tree = JoinTree::Join(Box::new(JoinNode { kind, left, right, on, form }));
        let scope = self.scope()?;
        let items = std::mem::take(&mut scope.sources);
        let width = scope.width();
        for change in actions.iter_mut().filter_map(|action| action.change.as_mut()) {
            change.width = width;
        }
        let from = From { items, tree: Some(tree), conditions: Vec::new(), width, recheck };
        let relation = Arc::clone(relation);
        Ok(MergeQuery { relation, name, start: START, from, actions })
    }

    /// Runs `read` while the table, the scope's first item, is out of sight.
    fn without_target<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let scope = self.scope()?;
        let target = scope.items.remove(0);
        scope.out_of_sight.push(name.to_owned());
        let result = read(self);
        let scope = self.scope()?;
        scope.out_of_sight.pop();
        scope.items.insert(0, target);
        result
    }

    /// Analyzes one WHEN clause.
    fn merge_action(
        &mut self,
        clause: &protobuf::MergeWhenClause,
        written: &WriteTarget,
        name: &str,
    ) -> Result<MergeAction> {
        let mut condition = Vec::new();
        if let Some(node) = &clause.condition {
            self.set_place(Place::MergeWhen)?;
            let when = self.expr(node)?;
            split_conjuncts(self.to_bool(when, "WHEN")?, &mut condition);
        }
        let change = match clause.command_type() {
            CmdType::CmdNothing => None,
            CmdType::CmdDelete => {
                Some(self.merge_change(ModifyKind::Delete, written, name, Vec::new())?)
            }
            CmdType::CmdUpdate => {
                let values = self.assignments(written, &clause.target_list)?;
                Some(self.merge_change(ModifyKind::Update, written, name, values)?)
            }
            CmdType::CmdInsert => {
                let (columns, values) = (&clause.target_list, &clause.values);
                let row = self.merged_row(written, columns, values, clause.r#override())?;
                let row = row.into_iter().map(Some).collect();
                Some(self.merge_change(ModifyKind::Insert, written, name, row)?)
            }
            _ => return Err(SqlError::internal("an action of unknown kind in MERGE")),
        };
        let (matched, condition) = (is_for_matches(clause), conjunction(condition));
        Ok(MergeAction { matched, condition, change })
    }

    /// Builds the change that an action makes to one row.
    fn merge_change(
        &mut self,
        kind: ModifyKind,
        written: &WriteTarget,
        name: &str,
        values: Vec<Option<Expr>>,
    ) -> Result<ModifyQuery> {
        let (table, name) = (Arc::clone(&written.table), name.to_owned());
        let source = ModifySource::Row;
        let mut query = self.modify(kind, table, name, source, START, values, Vec::new())?;
        let given = query.values.clone();
        let (event, values) = match kind {
            // The listed columns of an INSERT do not matter to triggers.
            ModifyKind::Insert => (TriggerEvent::Insert, &[][..]),
            ModifyKind::Update => (TriggerEvent::Update, given.as_slice()),
            ModifyKind::Delete => (TriggerEvent::Delete, &[][..]),
        };
        self.set_triggers(&mut query, &[FiredBy { event, values }])?;
        Ok(query)
    }
}
