//! Parallel plans: decides which steps several threads share (`niwaki-exec`).

use std::sync::Arc;

use niwaki_catalog::FunctionVolatility;
use niwaki_expr::expr::{Expr, ExprKind};
use niwaki_expr::function::AggregateKind;
use niwaki_expr::plan::{JoinPlan, PathPlan, PlanNode};
use niwaki_expr::query::{AggregateCall, Grouping};
use niwaki_settings::planner_settings::PlannerSettings;

use super::scan::table_size;

/// Returns the number of blocks that the threads divide among them. They belong to the driving
/// table, whose rows are joined with all other tables, if it is read in full.
fn driving_blocks(input: &PlanNode) -> Option<f64> {
    match input {
        PlanNode::Scan(scan) if matches!(scan.path, PathPlan::Sequential) => {
            Some(table_size(&scan.relation).pages)
        }
        PlanNode::Append(append) => {
            append.members.iter().map(|member| driving_blocks(&member.scan)).sum()
        }
        PlanNode::Filter { input, .. } => driving_blocks(input),
        PlanNode::Join(join) => driving_blocks(&join.outer),
        _ => None,
    }
}

/// Returns the number of worker threads that may help to aggregate these rows.
pub(super) fn workers(input: &PlanNode, grouping: &Grouping, settings: &PlannerSettings) -> usize {
    let possible = settings.parallel_workers > 0
        && grouping.groups.iter().all(is_for_threads)
        && grouping.calls.iter().all(can_be_put_together)
        && steps_are_for_threads(input);
    match driving_blocks(input) {
        Some(blocks) if possible => by_size(blocks, settings),
        _ => 0,
    }
}

/// Lets threads read the large inner sides of hash joins, which are read in full.
pub(super) fn gather_inner(node: &mut PlanNode, settings: &PlannerSettings) {
    if settings.parallel_workers == 0 {
        return;
    }
    match node {
        PlanNode::Filter { input, .. } | PlanNode::Gate { input, .. } => {
            gather_inner(Arc::make_mut(input), settings);
        }
        PlanNode::Join(join) => {
            gather_inner(Arc::make_mut(&mut join.outer), settings);
            gather_inner(Arc::make_mut(&mut join.inner), settings);
            if join.hash.is_empty() || join.inner_depends || !steps_are_for_threads(&join.inner) {
                return;
            }
            let blocks = driving_blocks(&join.inner);
            let workers = blocks.map_or(0, |blocks| by_size(blocks, settings));
            if workers > 0 {
                let input = Arc::clone(&join.inner);
                join.inner = Arc::new(PlanNode::Gather { input, workers });
            }
        }
        _ => {}
    }
}

/// Returns PostgreSQL's number of workers: one for a table of the minimum size, one more for each
/// threefold size.
fn by_size(pages: f64, settings: &PlannerSettings) -> usize {
    if pages < settings.parallel_table_blocks {
        return 0;
    }
    let times = pages / settings.parallel_table_blocks.max(1.0);
    let more = times.max(1.0).log(3.0).floor();
    (1..=settings.parallel_workers).take_while(|count| *count as f64 <= 1.0 + more).count()
}

/// Returns whether worker threads can evaluate an expression. It must not need the session, and
/// must depend only on its row.
fn is_for_threads(expr: &Expr) -> bool {
    !expr.any(&mut |part| match &part.kind {
        ExprKind::Call { function, .. } => function.volatility != FunctionVolatility::Immutable,
        ExprKind::Slot { depth, .. } => *depth > 0,
        ExprKind::UserCall { .. }
        | ExprKind::Populated { .. }
        | ExprKind::Domain { .. }
        | ExprKind::SubQuery(_) => true,
        _ => false,
    })
}

/// Returns whether the partial states of two threads combine to the state of a single thread over
/// all rows.
fn can_be_put_together(call: &AggregateCall) -> bool {
    use AggregateKind as K;
    let kind = matches!(
        call.kind,
        K::CountRows
            | K::Count
            | K::SumInt
            | K::SumNumeric
            | K::SumFloat8
            | K::AverageNumeric
            | K::AverageFloat
            | K::Min
            | K::Max
            | K::BoolAnd
            | K::BoolOr
            | K::BitAnd
            | K::BitOr
            | K::BitXor
    );
    kind && !call.distinct
        && call.order.is_empty()
        && call.arguments.iter().chain(&call.filter).all(is_for_threads)
}

/// Returns whether worker threads can execute all steps up to the driving scan.
fn steps_are_for_threads(input: &PlanNode) -> bool {
    match input {
        PlanNode::Scan(scan) => scan.exprs().all(is_for_threads),
        PlanNode::Append(append) => {
            let mut members = append.members.iter();
            append.prune.iter().all(is_for_threads)
                && members.all(|member| {
                    member.copies.is_empty()
                        && member.filter.as_ref().is_none_or(is_for_threads)
                        && steps_are_for_threads(&member.scan)
                })
        }
        PlanNode::Filter { input, condition } => {
            is_for_threads(condition) && steps_are_for_threads(input)
        }
        PlanNode::Join(join) => is_join_for_threads(join) && steps_are_for_threads(&join.outer),
        _ => false,
    }
}

/// Returns whether the join is a hash join, or a nested loop into an index, that worker threads can
/// execute.
fn is_join_for_threads(join: &JoinPlan) -> bool {
    if !join.condition.iter().all(is_for_threads) {
        return false;
    }
    match &*join.inner {
        _ if !join.hash.is_empty() && !join.inner_depends => {
            join.hash.iter().all(|key| is_for_threads(&key.outer))
        }
        PlanNode::Scan(scan) => {
            join.inner_depends
                && join.merge.is_empty()
                && matches!(scan.path, PathPlan::Index(_))
                && scan.exprs().all(is_for_threads)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_threefold_size_brings_a_thread() {
        let settings = PlannerSettings { parallel_workers: 3, ..PlannerSettings::default() };
        let counts =
            [(1_023.0, 0), (1_024.0, 1), (3_071.0, 1), (3_072.0, 2), (9_216.0, 3), (1e9, 3)];
        for (pages, workers) in counts {
            assert_eq!(by_size(pages, &settings), workers, "{pages} pages");
        }
        let any = PlannerSettings { parallel_table_blocks: 0.0, ..settings };
        assert_eq!(by_size(0.0, &any), 1);
        assert_eq!(by_size(9.0, &any), 3);
        assert_eq!(by_size(1e9, &PlannerSettings::default()), 0);
    }
}
