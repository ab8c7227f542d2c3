//! Shows joins, sorts and other longer steps, above the steps that give them rows.

use niwaki_expr::expr::measure::SpaceUse;
use niwaki_expr::expr::{Expr, ExprKind};
use niwaki_expr::plan::{JoinKey, JoinKind, JoinPlan, PlanNode};
use niwaki_expr::query::SetKind;
use niwaki_types::Datum;

use super::{Shown, add_space};

impl Shown {
    /// Shows a join of an outer and an inner side. `space` is the measured space of a hash table.
    /// `show` writes an expression over the rows of both sides.
    #[inline(never)]
    pub(super) fn of_join(
        join: &JoinPlan,
        (outer, mut inner): (Self, Self),
        space: Option<SpaceUse>,
        show: &dyn Fn(&Expr) -> String,
    ) -> Self {
        let hashed = !join.hash.is_empty();
        let (rows, cost) = (join.estimate.rows, join.estimate.total % 1.0e10);
        let merged = !join.merge.is_empty();
        let mut node_type = "Nested Loop";
        if merged {
            node_type = "Merge Join";
        } else if hashed {
            node_type = "Hash Join";
            inner = inner.below("Hash");
            if let Some(space) = space {
                add_space(&mut inner, space);
            }
        } else if !join.inner_depends
            && outer.rows > 1.0
            && !matches!(&*join.inner, PlanNode::Result)
        {
            inner = inner.below("Materialize");
        }
        let mut shown = Self::new(node_type, rows, cost, vec![outer, inner]);
        shown.join = Some(join.kind);
        if let Some(title) = title_of_join(join.kind, merged, hashed) {
            shown.title = title;
        }
        if merged || hashed {
            let (label, keys) =
                if merged { ("Merge Cond", &join.merge) } else { ("Hash Cond", &join.hash) };
            let pair = |key: &JoinKey| format!("({} = {})", show(&key.outer), show(&key.inner));
            let parts: Vec<String> = keys.iter().map(pair).collect();
            let text = if parts.len() == 1 {
                parts[0].clone()
            } else {
                format!("({})", parts.join(" AND "))
            };
            shown.detail(label, text);
        }
        if let Some(condition) = &join.condition {
            shown.detail("Join Filter", show(condition));
        }
        shown
    }

    /// Shows a step that returns all rows of its input or none. `text` is the condition as text.
    #[inline(never)]
    pub(super) fn of_gate(child: Self, condition: &Expr, text: String) -> Self {
        let never = matches!(condition.kind, ExprKind::Const(Datum::Bool(false) | Datum::Null));
        let (rows, cost) = if never { (0.0, 0.0) } else { (child.rows, child.cost) };
        let children = if never { Vec::new() } else { vec![child] };
        let mut shown = Self::new("Result", rows, cost, children);
        shown.detail("One-Time Filter", text);
        shown
    }

    /// Shows a sort by keys. The input is already sorted by the first `presorted` keys.
    #[inline(never)]
    pub(super) fn of_sort(child: Self, keys: Vec<String>, presorted: usize) -> Self {
        let rows = child.rows;
        let cost = child.cost + rows * rows.max(2.0).log2() * 0.02;
        let node_type = if presorted > 0 { "Incremental Sort" } else { "Sort" };
        let mut shown = Self::new(node_type, rows, cost, vec![child]);
        let presorted: Vec<String> = keys
            .iter()
            .take(presorted)
            .map(|key| key.split(" DESC").next().unwrap_or(key))
            .map(|key| key.split(" NULLS ").next().unwrap_or(key).to_owned())
            .collect();
        shown.list("Sort Key", keys);
        if !presorted.is_empty() {
            shown.list("Presorted Key", presorted);
        }
        shown
    }

    /// Shows LIMIT and OFFSET. `count` is the most rows to return.
    #[inline(never)]
    pub(super) fn of_limit(child: Self, count: Option<&Expr>) -> Self {
        let rows = match count.map(|count| &count.kind) {
            Some(ExprKind::Const(Datum::Int8(n))) => child.rows.min(*n as f64),
            _ => child.rows,
        };
        let cost = child.cost * rows / child.rows.max(1.0);
        Self::new("Limit", rows, cost, vec![child])
    }

    /// Shows UNION, INTERSECT or EXCEPT.
    #[inline(never)]
    pub(super) fn of_set_operation(kind: SetKind, all: bool, left: Self, right: Self) -> Self {
        let (rows, cost) = (left.rows + right.rows, left.cost + right.cost);
        let node_type = match (kind, all) {
            (SetKind::Union, true) => "Append",
            (SetKind::Union, false) => {
                let append = Self::new("Append", rows, cost, vec![left, right]);
                return Self::new("HashAggregate", rows, cost + rows * 0.0125, vec![append]);
            }
            (SetKind::Intersect, false) => "HashSetOp Intersect",
            (SetKind::Intersect, true) => "HashSetOp Intersect All",
            (SetKind::Except, false) => "HashSetOp Except",
            (SetKind::Except, true) => "HashSetOp Except All",
        };
        Self::new(node_type, rows, cost, vec![left, right])
    }
}

/// Returns the title of a join that is not inner; an inner join has the name of its method.
fn title_of_join(kind: JoinKind, merged: bool, hashed: bool) -> Option<String> {
    let word = match kind {
        JoinKind::Inner => return None,
        JoinKind::Left => "Left",
        JoinKind::Right => "Right",
        JoinKind::Full => "Full",
        JoinKind::Semi => "Semi",
        JoinKind::Anti => "Anti",
    };
    let method = match (merged, hashed) {
        (true, _) => "Merge",
        (_, true) => "Hash",
        _ => "Nested Loop",
    };
    Some(format!("{method} {word} Join"))
}
