//! Shows an aggregate in EXPLAIN: its grouping keys and its strategy.

use std::cmp::Reverse;

use niwaki_analyze::deparse::plain::{Names, expression};
use niwaki_expr::plan::PlanNode;
use niwaki_plan::planning::estimate;

use super::{Describing, Shown, json};

/// The label of keys without grouping sets, and of an empty grouping set. [`HASH_KEY`] labels each
/// other set.
const GROUP_KEY: &str = "Group Key";
const HASH_KEY: &str = "Hash Key";
/// The label of all grouping sets, in JSON only.
const GROUPING_SETS: &str = "Grouping Sets";

/// Describes an aggregate.
pub(super) fn describe(node: &PlanNode, with: &Describing<'_, '_>) -> Shown {
    let shown = describe_alone(node, with);
    match node {
        PlanNode::Aggregate { workers, .. } if *workers > 0 => {
            let launched = with.measures.map(|measures| measures.of(node).threads);
            added_up(shown, *workers, launched)
        }
        _ => shown,
    }
}

/// Describes an aggregate of parallel workers: partial aggregates, gathered and added up.
fn added_up(mut part: Shown, workers: usize, launched: Option<usize>) -> Shown {
    let node_type = part.node_type;
    let mut whole = Shown::new(node_type, part.rows, part.cost, Vec::new());
    whole.partial_mode = "Finalize";
    whole.title = format!("Finalize {node_type}");
    whole.details = part.details.clone();
    whole.numbers = part.numbers.clone();
    part.partial_mode = "Partial";
    part.title = format!("Partial {node_type}");
    whole.children.push(super::gathered(part, workers, launched));
    whole
}

fn describe_alone(node: &PlanNode, with: &Describing<'_, '_>) -> Shown {
    let PlanNode::Aggregate { input, groups, written, sets, sorted, .. } = node else {
        return super::describe(node, with);
    };
    let child = super::describe(input, with);
    let below = Names::of(input);
    let expected = estimate(node);
    let cost = child.cost + (expected.total - estimate(input).total);
    let rows = match sets.sets.as_slice() {
        [] if groups.is_empty() => 1.0,
        [] => (child.rows / 5.0).max(1.0),
        _ => expected.rows,
    };
    let has_groups = |set: &Vec<usize>| !set.is_empty();
    let node_type = match sets.sets.as_slice() {
        [] if groups.is_empty() => "Aggregate",
        [] if *sorted => "GroupAggregate",
        [] => "HashAggregate",
        sets if sets.iter().all(has_groups) => "HashAggregate",
        sets if sets.iter().any(has_groups) => "MixedAggregate",
        _ => "Aggregate",
    };
    let mut shown = Shown::new(node_type, rows, cost, vec![child]);
    let keys = |numbers: &[usize]| -> Vec<String> {
        let own = numbers.iter().filter(|number| *number < written);
        own.map(|number| expression(&groups[*number], &below, with.exec)).collect()
    };
    if sets.sets.is_empty() {
        if !groups.is_empty() {
            let all: Vec<usize> = (0..groups.len()).collect();
            shown.list(GROUP_KEY, keys(&all));
        }
        return shown;
    }
    // The longest set comes first, as PostgreSQL computes them.
    let mut ordered: Vec<&Vec<usize>> = sets.sets.iter().collect();
    ordered.sort_by_key(|set| Reverse(set.len()));
    let mut all = Vec::with_capacity(ordered.len());
    for set in ordered {
        let label = if set.is_empty() { GROUP_KEY } else { HASH_KEY };
        let keys = keys(set);
        all.push(format!("{{\"{label}s\": [{}]}}", json::list(&keys)));
        let text = if keys.is_empty() { "()".to_owned() } else { keys.join(", ") };
        shown.detail(label, text);
    }
    shown.number(GROUPING_SETS, format!("[{}]", all.join(", ")));
    shown
}

/// Returns how an aggregate with this name in the text form finds its groups; `None` for other
/// steps.
pub(super) fn strategy(node_type: &str) -> Option<&'static str> {
    match node_type {
        "Aggregate" => Some("Plain"),
        "GroupAggregate" => Some("Sorted"),
        "HashAggregate" => Some("Hashed"),
        "MixedAggregate" => Some("Mixed"),
        _ => None,
    }
}

/// Returns true if JSON shows a detail unchanged. The keys of grouping sets are shown together.
pub(super) fn in_json(shown: &Shown, label: &str) -> bool {
    let in_sets = shown.numbers.iter().any(|(number, _)| *number == GROUPING_SETS);
    !(in_sets && matches!(label, GROUP_KEY | HASH_KEY))
}
