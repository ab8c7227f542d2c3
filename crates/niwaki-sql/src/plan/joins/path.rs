//! Ways to the rows of a set of units, and what they cost.

use std::rc::Rc;
use std::sync::Arc;

use super::search::Set;
use crate::context::{CostSettings, PlannerSettings};
use crate::plan::conditions::SlotRange;
use crate::plan::scan::DISABLED_COST;
use crate::plan::{JoinKind, PlanNode, SortKey, cost};

/// How much worse a path may be in total before another one is clearly better.
const CLEARLY: f64 = 1.01;
/// Bytes that a kept row takes besides its values.
const KEPT_ROW_BYTES: f64 = 24.0;
pub(super) const PAGE_BYTES: f64 = 8_192.0;

/// A way to some rows.
#[derive(Clone)]
pub(super) struct Path {
    pub(super) shape: Shape,
    pub(super) rows: f64,
    /// Bytes of a row's values.
    pub(super) width: f64,
    /// What is spent before the first row, and in all.
    pub(super) startup: f64,
    pub(super) total: f64,
    /// Units whose rows it reads, though they are not part of it.
    pub(super) needs: Set,
    /// Join conditions that its rows satisfy already, by number: those with units that it needs.
    pub(super) enforced: Rc<[usize]>,
    /// The order of its rows, as far as it is known.
    pub(super) order: Rc<[SortKey]>,
}

/// What a path does.
#[derive(Clone)]
pub(super) enum Shape {
    /// Not said yet: only its costs are.
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
    /// The inner side runs anew for each row of the outer side.
    pub(super) depends: bool,
    /// Conditions, by number: equalities that are hashed, others of the join, and those that hold above it.
    pub(super) hash: Vec<usize>,
    /// Equalities by which sorted sides are merged, and whether each side is sorted for it.
    pub(super) merge: Vec<usize>,
    pub(super) sorts: (bool, bool),
    pub(super) condition: Vec<usize>,
    pub(super) above: Vec<usize>,
}

/// What joins two paths, for costing.
#[derive(Clone, Copy)]
pub(super) struct Pairing {
    pub(super) kind: JoinKind,
    /// Rows that the join gives.
    pub(super) rows: f64,
    /// Share of the outer rows that have a match.
    pub(super) matched: f64,
    /// Cost of judging the join's other conditions once.
    pub(super) judge: f64,
}

/// The cheapest paths of a set: none is as good as another in every respect.
#[derive(Clone, Default)]
pub(super) struct Paths {
    pub(super) list: Vec<Path>,
}

impl Paths {
    /// Whether no path is there that is as good.
    pub(super) fn wants(&self, path: &Path) -> bool {
        !self.list.iter().any(|other| beats(other, path))
    }

    /// Adds a path if it is wanted; removes those that it beats.
    pub(super) fn add(&mut self, path: Path) {
        if !self.wants(&path) {
            return;
        }
        self.list.retain(|other| !beats(&path, other));
        self.list.push(path);
    }
}

/// Whether `a` is as good as `b` in every respect.
fn beats(a: &Path, b: &Path) -> bool {
    a.total <= b.total * CLEARLY
        && a.startup <= b.startup * CLEARLY
        && a.needs & !b.needs == 0
        && has_order(&a.order, &b.order)
        && (a.needs == b.needs || a.rows <= b.rows)
}

/// Whether rows in the order `has` are in the order `wanted`.
pub(super) fn has_order(has: &[SortKey], wanted: &[SortKey]) -> bool {
    common_order(has, wanted) == wanted.len()
}

/// How many of the keys `wanted`, from the first, rows in the order `has` are in the order of.
pub(super) fn common_order(has: &[SortKey], wanted: &[SortKey]) -> usize {
    let pairs = has.iter().zip(wanted);
    pairs.take_while(|(has, wanted)| has.same(wanted)).count()
}

/// Rows that are scanned again and again of a path's rows that are kept.
fn rescan(path: &Path, costs: &CostSettings) -> f64 {
    path.rows * costs.cpu_operator_cost
}

/// A nested loop: startup and total cost.
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
        // An outer row that has a match needs a part of the inner rows only.
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

/// A hash join over `keys` equalities, of which `share` is the part of the inner rows that an outer row is compared
/// with.
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
        // Both sides are written out in parts and read again.
        let pages = |path: &Path| (bytes(path) / PAGE_BYTES).ceil();
        startup += pages(inner) * costs.seq_page_cost;
        run += (pages(inner) + 2.0 * pages(outer)) * costs.seq_page_cost;
    }
    let disabled = if settings.enable_hashjoin { 0.0 } else { DISABLED_COST };
    (startup + disabled, startup + run + disabled)
}

/// A merge join over `keys` equalities, which `share` of all pairs satisfy; `sorts` says which sides are sorted for it.
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
    // What a side has cost before its first row, and in all.
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
    // Its rows come one by one, those of a hash join in batches.
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
