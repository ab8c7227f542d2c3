//! Common conjuncts of an OR: `(a AND b) OR (a AND c)` becomes `a AND (b OR c)`.
//!
//! If each side of an OR repeats a condition, a join can now use it as a key, and a scan as a
//! search condition.

use niwaki_expr::expr::{Expr, ExprKind};
use niwaki_expr::query::{From, JoinTree, conjunction, split_conjuncts, volatile_inside};
use niwaki_types::TypeOid;

/// Moves common conjuncts out of the ORs among a level's conditions.
pub(super) fn take_out(from: &mut From) {
    from.conditions = taken_out(std::mem::take(&mut from.conditions));
    if let Some(tree) = &mut from.tree {
        walk(tree);
    }
}

fn walk(tree: &mut JoinTree) {
    let JoinTree::Join(join) = tree else { return };
    join.on = taken_out(std::mem::take(&mut join.on));
    walk(&mut join.left);
    walk(&mut join.right);
}

fn taken_out(conditions: Vec<Expr>) -> Vec<Expr> {
    let mut out = Vec::with_capacity(conditions.len());
    for condition in conditions {
        match condition.kind {
            ExprKind::Or(sides) => split(sides, condition.location, &mut out),
            kind => out.push(Expr { kind, ..condition }),
        }
    }
    out
}

/// Appends the conjuncts that an OR of these sides is equivalent to.
fn split(sides: Vec<Expr>, location: i32, out: &mut Vec<Expr>) {
    let mut sides: Vec<Vec<Expr>> = sides
        .into_iter()
        .map(|side| {
            let mut parts = Vec::new();
            split_conjuncts(side, &mut parts);
            parts
        })
        .collect();
    let has = |side: &[Expr], part: &Expr| side.iter().any(|other| other.same(part));
    let common: Vec<Expr> = match sides.split_first() {
        Some((first, others)) => first
            .iter()
            .filter(|part| !volatile_inside(part) && others.iter().all(|side| has(side, part)))
            .cloned()
            .collect(),
        None => Vec::new(),
    };
    for side in &mut sides {
        side.retain(|part| !has(&common, part));
    }
    out.extend(common);
    // If a side has nothing beyond the common parts, the OR adds no condition.
    let sides: Option<Vec<Expr>> = sides.into_iter().map(conjunction).collect();
    out.extend(sides.map(|sides| Expr::new(ExprKind::Or(sides), TypeOid::BOOL, location)));
}
