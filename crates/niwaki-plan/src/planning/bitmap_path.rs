//! Bitmap scans over several conditions: one bitmap per index, combined by AND and OR.

use niwaki_expr::expr::{Expr, ExprKind};
use niwaki_expr::plan::{BitmapPath, BitmapPlan, PathPlan};
use niwaki_expr::query::{conjunction, split_conjuncts};
use niwaki_types::TypeOid;

use super::cost;
use super::index_path::{IndexMatch, index_matches};
use super::scan::{Candidate, DISABLED_COST, Table};

/// A candidate bitmap.
#[derive(Clone)]
struct Part {
    plan: BitmapPlan,
    /// Numbers of the conditions that the bitmap uses. `covered` has the conditions that it fully
    /// ensures.
    used: Vec<usize>,
    covered: Vec<usize>,
    selectivity: f64,
    cost: f64,
}

/// Returns the candidate bitmap scans of the heap.
pub(super) fn bitmap_candidates(table: &Table<'_>, matches: &[IndexMatch]) -> Vec<Candidate> {
    let mut parts: Vec<Part> = matches
        .iter()
        .filter(|found| found.bounds() && !found.point)
        .map(|found| part_of(table, found, table.conditions))
        .collect();
    for (number, condition) in table.conditions.iter().enumerate() {
        parts.extend(alternatives(table, number, condition));
    }
    let Some(best) = combine(table, parts) else { return Vec::new() };
    let rows = (table.size.rows * best.selectivity).max(1.0);
    let costs = &table.context.settings.costs;
    // Every row is rechecked, by the conditions of the bitmap and by the remaining ones.
    let heap = cost::heap_by_bitmap(rows, table.size, table.judging(&[]), costs);
    let disabled = if table.context.settings.enable_bitmapscan { 0.0 } else { DISABLED_COST };
    let recheck = conditions_of(&best.plan);
    vec![Candidate {
        path: PathPlan::Bitmap(Box::new(BitmapPath { plan: best.plan, recheck })),
        covered: best.covered,
        rows: table.output_rows,
        startup: best.cost,
        cost: best.cost + heap + disabled,
        ordered: 0,
        groups: 1.0,
    }]
}

fn part_of(table: &Table<'_>, found: &IndexMatch, conditions: &[Expr]) -> Part {
    let path = found.path(table, conditions, true, false);
    let cost = path.cost + cost::bitmap_insert(path.rows, &table.context.settings.costs);
    Part {
        used: found.satisfied(),
        covered: found.satisfied(),
        selectivity: found.selectivity,
        cost,
        plan: BitmapPlan::Index(path),
    }
}

/// Returns a bitmap for `a OR b` if some index answers each side.
fn alternatives(table: &Table<'_>, number: usize, condition: &Expr) -> Option<Part> {
    let ExprKind::Or(sides) = &condition.kind else { return None };
    let (mut plans, mut cost, mut selectivity, mut whole) = (Vec::new(), 0.0, 0.0, true);
    for side in sides {
        let mut conditions = Vec::new();
        split_conjuncts(side.clone(), &mut conditions);
        let matches = index_matches(table, &conditions);
        let usable = matches.iter().filter(|found| found.bounds());
        let side = usable
            .map(|found| part_of(table, found, &conditions))
            .min_by(|a, b| total(table, a).total_cmp(&total(table, b)))?;
        whole &= side.covered.len() == conditions.len();
        cost += side.cost;
        selectivity += side.selectivity - selectivity * side.selectivity;
        plans.push(side.plan);
    }
    Some(Part {
        plan: BitmapPlan::Or(plans),
        used: vec![number],
        covered: if whole { vec![number] } else { Vec::new() },
        selectivity,
        cost,
    })
}

/// Returns the cost of a scan by this bitmap, without the conditions that the bitmap does not use.
fn total(table: &Table<'_>, part: &Part) -> f64 {
    let rows = (table.size.rows * part.selectivity).max(1.0);
    let costs = &table.context.settings.costs;
    part.cost + cost::heap_by_bitmap(rows, table.size, costs.cpu_operator_cost, costs)
}

/// Combines parts into the best bitmap. It starts with the cheapest part. It adds parts with
/// further conditions while each saves more heap pages than its index costs.
fn combine(table: &Table<'_>, mut parts: Vec<Part>) -> Option<Part> {
    parts.sort_by(|a, b| total(table, a).total_cmp(&total(table, b)));
    let mut parts = parts.into_iter();
    let mut best = parts.next()?;
    for part in parts {
        if part.used.iter().any(|number| best.used.contains(number)) {
            continue;
        }
        let mut both = Part {
            plan: BitmapPlan::And(Vec::new()),
            used: [best.used.as_slice(), &part.used].concat(),
            covered: [best.covered.as_slice(), &part.covered].concat(),
            selectivity: best.selectivity * part.selectivity,
            cost: best.cost + part.cost,
        };
        if total(table, &both) < total(table, &best) {
            let mut plans = match best.plan {
                BitmapPlan::And(plans) => plans,
                plan => vec![plan],
            };
            plans.push(part.plan);
            both.plan = BitmapPlan::And(plans);
            best = both;
        }
    }
    Some(best)
}

/// Returns the condition that the rows of a bitmap satisfy, if nothing has changed and no page is
/// lossy. Returns `None` if that is only the predicate of a partial index, which the query's other
/// conditions imply.
pub(super) fn conditions_of(plan: &BitmapPlan) -> Option<Expr> {
    match plan {
        BitmapPlan::Index(path) => {
            conjunction(path.conditions.iter().chain(&path.ensured).cloned().collect())
        }
        BitmapPlan::And(plans) => {
            let mut parts = Vec::new();
            for condition in plans.iter().filter_map(conditions_of) {
                split_conjuncts(condition, &mut parts);
            }
            conjunction(parts)
        }
        BitmapPlan::Or(plans) => {
            let sides = plans.iter().map(conditions_of).collect::<Option<Vec<Expr>>>()?;
            Some(Expr::new(ExprKind::Or(sides), TypeOid::BOOL, -1))
        }
    }
}
