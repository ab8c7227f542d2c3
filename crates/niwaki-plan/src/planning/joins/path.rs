//! Paths: alternative plans of a set of units, with their costs.

use std::rc::Rc;
use std::sync::Arc;

use niwaki_expr::plan::{JoinKind, PlanNode};
use niwaki_expr::query::{SlotRange, SortKey};
use niwaki_settings::planner_settings::{CostSettings, PlannerSettings};

use super::search::Set;
use crate::planning::cost;
use crate::planning::scan::DISABLED_COST;

/// Cost factor below which two paths count as equally expensive, as in PostgreSQL's fuzzy
/// comparison.
const CLEARLY: f64 = 1.01;
/// Overhead of a kept row, in bytes, besides its values.
const KEPT_ROW_BYTES: f64 = 24.0;
pub(super) const PAGE_BYTES: f64 = 8_192.0;

/// One plan alternative for the rows of a set of units.
#[derive(Clone)]
pub(super) struct Path {
    pub(super) shape: Shape,
    pub(super) rows: f64,
    /// Bytes of a row's values.
    pub(super) width: f64,
    /// Cost before the first row. `total` is the whole cost.
    pub(super) startup: f64,
    pub(super) total: f64,
    /// Units outside the path whose rows the path reads.
    pub(super) needs: Set,
    /// Numbers of the join conditions that the rows already satisfy: those with needed units.
    pub(super) enforced: Rc<[usize]>,
    /// The known order of the rows.
    pub(super) order: Rc<[SortKey]>,
}

/// The steps of a path.
#[derive(Clone)]
pub(super) enum Shape {
    /// Not built yet: only the costs are known.
    Undecided,
    Ready(Arc<PlanNode>),
    Join(Rc<JoinShape>),
}

/// A join of two paths.
pub(super) struct JoinShape {
    pub(super) kind: JoinKind,
    pub(super) outer: Path,
    pub(super) inner: Path,
    pub(super) outer_slots: Rc<[SlotRange]>,
    pub(super) inner_slots: Rc<[SlotRange]>,
    /// True if the inner side runs anew for each outer row.
    pub(super) depends: bool,
    /// Numbers of the equalities that are hashed. `condition` has other conditions of the join;
    /// `above` has those checked above it.
    pub(super) hash: Vec<usize>,
    /// Equalities by which the sorted sides are merged. `sorts` says which side needs a sort for
    /// it.
    pub(super) merge: Vec<usize>,
    pub(super) sorts: (bool, bool),
    pub(super) condition: Vec<usize>,
    pub(super) above: Vec<usize>,
}

/// Cost parameters of a join of two paths.
#[derive(Clone, Copy)]
pub(super) struct Pairing {
    pub(super) kind: JoinKind,
    /// Number of rows that the join returns.
    pub(super) rows: f64,
    /// Share of the outer rows that have a match.
    pub(super) matched: f64,
    /// Cost of evaluating the join's remaining conditions once.
    pub(super) judge: f64,
}

/// The cheapest paths of a set. Each is better than every other path in some respect.
#[derive(Clone, Default)]
pub(super) struct Paths {
    pub(super) list: Vec<Path>,
}

impl Paths {
    /// Returns whether no existing path is as good.
    pub(super) fn wants(&self, path: &Path) -> bool {
        !self.list.iter().any(|other| beats(other, path))
    }

    /// Adds a path if no existing one is as good. Removes the paths that the new one beats.
    pub(super) fn add(&mut self, path: Path) {
        if !self.wants(&path) {
            return;
        }
        self.list.retain(|other| !beats(&path, other));
        self.list.push(path);
    }
}

/// Returns whether `a` is as good as `b` in every respect.
fn beats(a: &Path, b: &Path) -> bool {
    a.total <= b.total * CLEARLY
        && a.startup <= b.startup * CLEARLY
        && a.needs & !b.needs == 0
        && has_order(&a.order, &b.order)
        && (a.needs == b.needs || a.rows <= b.rows)
}

/// Returns whether rows in the order `has` are in the order `wanted`.
pub(super) fn has_order(has: &[SortKey], wanted: &[SortKey]) -> bool {
    common_order(has, wanted) == wanted.len()
}

/// Returns the number of leading keys of `wanted` by which rows in the order `has` are sorted.
pub(super) fn common_order(has: &[SortKey], wanted: &[SortKey]) -> usize {
    let pairs = has.iter().zip(wanted);
    pairs.take_while(|(has, wanted)| has.same(wanted)).count()
}

/// Returns the cost of reading the kept rows of a path once more.
fn rescan(path: &Path, costs: &CostSettings) -> f64 {
    path.rows * costs.cpu_operator_cost
}

/// Returns startup and total cost of a nested loop.
pub(super) fn nested_loop(
    outer: &Path,
    inner: &Path,
    depends: bool,
    pairing: &Pairing,
    settings: &PlannerSettings,
) -> (f64, f64) {
    let costs = &settings.costs;
    let again = if depends { inner.total } else { rescan(inner, costs) };
    let startup = outer.startup + inner.startup;
    let pair = costs.cpu_tuple_cost + pairing.judge;
    let loops = outer.rows.max(1.0);
    let (mut run, mut pairs) = (inner.total + (loops - 1.0) * again, loops * inner.rows);
    if matches!(pairing.kind, JoinKind::Semi | JoinKind::Anti) {
        // An outer row with a match reads only a part of the inner rows.
        let matches = (pairing.rows / loops).max(1.0);
        let part = 2.0 / (matches + 1.0);
        let met = 1.0 - pairing.matched * (1.0 - part.min(1.0));
        pairs *= met;
        if depends {
            run *= met;
        }
    }
    let total = outer.total + run + pairs * pair;
    let disabled = if settings.enable_nestloop { 0.0 } else { DISABLED_COST };
    (startup + disabled, total + disabled)
}

/// Returns startup and total cost of a hash join over `keys` equalities. Each outer row is compared
/// with the part `share` of the inner rows.
pub(super) fn hash_join(
    outer: &Path,
    inner: &Path,
    keys: f64,
    share: f64,
    pairing: &Pairing,
    settings: &PlannerSettings,
) -> (f64, f64) {
    let costs = &settings.costs;
    let mut startup = outer.startup
        + inner.total
        + inner.rows * (costs.cpu_tuple_cost + keys * costs.cpu_operator_cost);
    let mut run = outer.total - outer.startup;
    run += outer.rows * keys * costs.cpu_operator_cost;
    let compared = (inner.rows * share).max(1.0) * 0.5;
    run += outer.rows * compared * keys * costs.cpu_operator_cost;
    run += pairing.rows * (costs.cpu_tuple_cost + pairing.judge);
    let bytes = |path: &Path| path.rows * (path.width + KEPT_ROW_BYTES);
    if bytes(inner) > settings.hash_memory {
        // Both sides are written to disk in batches, and read again.
        let pages = |path: &Path| (bytes(path) / PAGE_BYTES).ceil();
        startup += pages(inner) * costs.seq_page_cost;
        run += (pages(inner) + 2.0 * pages(outer)) * costs.seq_page_cost;
    }
    let disabled = if settings.enable_hashjoin { 0.0 } else { DISABLED_COST };
    (startup + disabled, startup + run + disabled)
}

/// Returns startup and total cost of a merge join over `keys` equalities. The part `share` of all
/// pairs satisfies them. `sorts` says which sides need a sort.
pub(super) fn merge_join(
    outer: &Path,
    inner: &Path,
    keys: f64,
    share: f64,
    sorts: (bool, bool),
    pairing: &Pairing,
    settings: &PlannerSettings,
) -> (f64, f64) {
    let costs = &settings.costs;
    // Startup and total cost of one side.
    let side = |path: &Path, sorts: bool| {
        if !sorts {
            return (path.startup, path.total);
        }
        let sorted = path.total + cost::sort(path.rows, costs);
        (sorted, sorted + path.rows * costs.cpu_operator_cost)
    };
    let ((outer_startup, outer_total), (inner_startup, inner_total)) =
        (side(outer, sorts.0), side(inner, sorts.1));
    let startup = outer_startup + inner_startup;
    // A merge join handles rows one by one; a hash join handles batches.
    let compared =
        (outer.rows + inner.rows) * (keys * costs.cpu_operator_cost + costs.cpu_tuple_cost);
    let total = outer_total
        + inner_total
        + compared
        + inner.rows * costs.cpu_operator_cost
        + pairing.rows.max(outer.rows * inner.rows * share)
            * (costs.cpu_tuple_cost + pairing.judge);
    let disabled = if settings.enable_mergejoin { 0.0 } else { DISABLED_COST };
    (startup + disabled, total + disabled)
}
