//! FOR UPDATE and similar clauses: determines the rows that a query locks.

use std::sync::Arc;

use niwaki_catalog::{Relation, RelationKind};
use niwaki_expr::query::{Body, Distinct, FromItem, ItemKind, LockTarget, Query};
use niwaki_parse::error::{Result, SqlError};
use niwaki_txn::{RowLockMode, TableLockMode, WaitPolicy};
use pg_query::protobuf::{LockClauseStrength, LockWaitPolicy, LockingClause};
use pg_query::{Node, NodeEnum};

use crate::analyze::Analyzer;

fn lock_of(clause: &LockingClause) -> RowLockMode {
    match clause.strength() {
        LockClauseStrength::LcsForkeyshare => RowLockMode::KeyShare,
        LockClauseStrength::LcsForshare => RowLockMode::Share,
        LockClauseStrength::LcsFornokeyupdate => RowLockMode::NoKeyUpdate,
        _ => RowLockMode::Update,
    }
}

/// Returns the first lock strength that a query asks for, whether or not rows can have it.
pub(crate) fn asked_lock(nodes: &[Node]) -> Option<RowLockMode> {
    nodes.iter().find_map(|node| match &node.node {
        Some(NodeEnum::LockingClause(clause)) => Some(lock_of(clause)),
        _ => None,
    })
}

impl Analyzer<'_> {
    pub(crate) fn locking_clause(&mut self, nodes: &[Node]) -> Result<Vec<LockTarget>> {
        let mut targets: Vec<LockTarget> = Vec::new();
        for node in nodes {
            let Some(NodeEnum::LockingClause(clause)) = &node.node else { continue };
            let lock = lock_of(clause);
            let wait = match clause.wait_policy() {
                LockWaitPolicy::LockWaitSkip => WaitPolicy::Skip,
                LockWaitPolicy::LockWaitError => WaitPolicy::NoWait,
                _ => WaitPolicy::Block,
            };
            let mut names = Vec::new();
            for node in &clause.locked_rels {
                if let Some(NodeEnum::RangeVar(var)) = &node.node {
                    names.push((var.relname.clone(), var.location));
                }
            }
            let mut inside = Vec::new();
            let scope = self.scope()?;
            for source in &mut scope.sources {
                if !source.of_function
                    && let ItemKind::Query(query) = &mut source.kind
                    && (names.is_empty() || names.iter().any(|(name, _)| *name == source.name))
                {
                    lock_inside(query, lock, wait, &mut inside)?;
                }
            }
            for (name, location) in &names {
                let with = scope.sources.iter().any(|source| {
                    source.name == *name
                        && matches!(source.kind, ItemKind::Shared { .. } | ItemKind::Working { .. })
                });
                if with {
                    let message = format!("{} cannot be applied to a WITH query", lock.clause());
                    return Err(self.error("0A000", message, *location));
                }
                if scope.sources.iter().any(|source| source.name == *name && source.of_function) {
                    let message = format!("{} cannot be applied to a function", lock.clause());
                    return Err(self.error("0A000", message, *location));
                }
                let query = |source: &FromItem| {
                    source.name == *name && matches!(source.kind, ItemKind::Query(_))
                };
                if !scope.items.iter().any(|item| item.name == *name && item.relation.is_some())
                    && !scope.sources.iter().any(query)
                {
                    let message = format!(
                        "relation \"{name}\" in FOR UPDATE clause not found in FROM clause"
                    );
                    return Err(self.error("42P01", message, *location));
                }
            }
            for item in &scope.items {
                let Some(relation) = &item.relation else { continue };
                if !names.is_empty() && !names.iter().any(|(n, _)| *n == item.name) {
                    continue;
                }
                refuse_materialized(relation)?;
                if relation.kind != RelationKind::Table {
                    continue;
                }
                if let Some(known) = targets.iter_mut().find(|t| t.start == item.start) {
                    known.lock = known.lock.max(lock);
                    continue;
                }
                targets.push(LockTarget {
                    relation: Arc::clone(relation),
                    start: item.start,
                    lock,
                    wait,
                });
            }
            for relation in &inside {
                self.note_relation(relation, TableLockMode::RowShare);
            }
        }
        Ok(targets)
    }
}

/// Raises `42809`: no statement changes single rows of a materialized view.
fn refuse_materialized(relation: &Relation) -> Result<()> {
    if relation.kind != RelationKind::MaterializedView {
        return Ok(());
    }
    let message = format!("cannot lock rows in materialized view \"{}\"", relation.name);
    Err(SqlError::new("42809", message))
}

/// Locks the rows of the tables of a query in FROM, as if that query had the locking clause itself.
fn lock_inside(
    query: &mut Query,
    lock: RowLockMode,
    wait: WaitPolicy,
    relations: &mut Vec<Arc<Relation>>,
) -> Result<()> {
    let refused = |what: &str| {
        Err(SqlError::new("0A000", format!("{} is not allowed with {what}", lock.clause())))
    };
    let select = match &mut query.body {
        Body::Select(select) => select,
        Body::Values(_) | Body::Modify(_) => return Ok(()),
        Body::Set(_) => return refused("UNION/INTERSECT/EXCEPT"),
    };
    if select.distinct != Distinct::None {
        return refused("DISTINCT clause");
    }
    if !select.windowing.is_empty() {
        return refused("window functions");
    }
    if let Some(grouping) = &select.grouping {
        return refused(if grouping.groups.is_empty() {
            "aggregate functions"
        } else {
            "GROUP BY clause"
        });
    }
    for item in &mut select.from.items {
        match &mut item.kind {
            ItemKind::Table(relation) => {
                refuse_materialized(relation)?;
                let start = item.slots.start;
                if let Some(known) = select.locks.iter_mut().find(|known| known.start == start) {
                    known.lock = known.lock.max(lock);
                    continue;
                }
                relations.push(Arc::clone(relation));
                let relation = Arc::clone(relation);
                select.locks.push(LockTarget { relation, start, lock, wait });
            }
            ItemKind::Query(query) if !item.of_function => {
                lock_inside(query, lock, wait, relations)?;
            }
            _ => {}
        }
    }
    Ok(())
}
