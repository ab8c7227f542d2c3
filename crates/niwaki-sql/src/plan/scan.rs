//! How the rows of one table are reached: index, addresses, or all blocks.

use std::sync::Arc;

use niwaki_catalog::{IndexColumn, Relation};
use niwaki_table::KeySource;
use niwaki_types::{ColumnMask, TypeOid};

use super::SortKey;
use super::conditions::{conjunction, is_volatile, reads_only, split_conjuncts};
use super::implication::implies;
use crate::context::PlannerSettings;
use crate::expr::{Expr, ExprKind};
use crate::index_expression::compiled;

/// Rows assumed for a table that was never counted.
const DEFAULT_ROWS: f64 = 1_000.0;
/// Cost of reading one page in sequence; the unit of all costs.
const PAGE_COST: f64 = 1.0;
/// Cost of reading one page anywhere.
const RANDOM_PAGE_COST: f64 = 4.0;
/// Cost of looking at one row.
const ROW_COST: f64 = 0.01;
/// Added to plans that a setting forbids, so that they are taken only when nothing else is possible.
const DISABLED_COST: f64 = 1.0e10;

/// A scan of a stored table.
#[derive(Clone, Debug)]
pub(crate) struct ScanPlan {
    pub(crate) relation: Arc<Relation>,
    /// Alias or name.
    pub(crate) name: String,
    /// First slot of the table's columns; its system columns follow them.
    pub(crate) start: usize,
    /// Columns that something reads.
    pub(crate) columns: ColumnMask,
    /// System columns that something reads: ctid, tableoid, xmin.
    pub(crate) system: [bool; 3],
    pub(crate) path: ScanPath,
    /// Conditions that the path does not ensure.
    pub(crate) filter: Option<Expr>,
    pub(crate) rows: f64,
    pub(crate) cost: f64,
}

/// How rows are reached.
#[derive(Clone, Debug)]
pub(crate) enum ScanPath {
    Sequential,
    /// Addresses: one or an array of them.
    Tids {
        value: Expr,
        condition: Expr,
    },
    TidRange {
        lower: Option<(Expr, bool)>,
        upper: Option<(Expr, bool)>,
        conditions: Vec<Expr>,
    },
    Index(IndexPath),
}

/// The keys of an index that a scan reads.
#[derive(Clone, Debug)]
pub(crate) struct IndexPath {
    /// Position among the table's indexes.
    pub(crate) index: usize,
    /// Conditions on the first key columns.
    pub(crate) keys: Vec<KeyCondition>,
    /// How many of them bound the scan; the others are compared entry by entry.
    pub(crate) bounding: usize,
    pub(crate) forward: bool,
    /// The conditions as they were written, for EXPLAIN.
    pub(crate) conditions: Vec<Expr>,
}

/// What is known of a key column.
#[derive(Clone, Debug)]
pub(crate) enum KeyCondition {
    /// Nothing.
    Free,
    /// `column = value`
    Equal(Expr),
    /// `column = ANY (array)`
    Any(Expr),
    /// Bounds: value, inclusive. Without any: `column IS NOT NULL`.
    Range { lower: Option<(Expr, bool)>, upper: Option<(Expr, bool)> },
    /// `column IS NULL`
    Null,
}

impl ScanPlan {
    /// Whether the index of this scan gives at most one row: every key column of a unique index is
    /// fixed to one value.
    pub(crate) fn is_unique_point(&self) -> bool {
        match &self.path {
            ScanPath::Index(path) => {
                let definition = &self.relation.indexes[path.index].definition;
                definition.is_unique_at_once() && is_point(definition.key.len(), &path.keys)
            }
            _ => false,
        }
    }
}

/// Whether the conditions fix every one of `columns` key columns to a value.
fn is_point(columns: usize, keys: &[KeyCondition]) -> bool {
    keys.len() == columns && keys.iter().all(|c| matches!(c, KeyCondition::Equal(_)))
}

/// What a scan can rely on.
pub(crate) struct ScanContext<'a> {
    pub(crate) settings: PlannerSettings,
    /// Whether a slot outside the table has its value before the scan starts.
    pub(crate) available: &'a dyn Fn(usize) -> bool,
    /// The order that the query wants, over the table's slots; empty for none.
    pub(crate) order: &'a [SortKey],
    /// Rows that the query wants at most, once they are in order.
    pub(crate) limit: Option<f64>,
}

/// Plans the scan of a table under conditions that read its slots and available ones. Returns the plan
/// and whether its rows come in the wanted order.
pub(crate) fn plan_scan(
    relation: &Arc<Relation>,
    name: &str,
    start: usize,
    used: &[bool],
    conditions: Vec<Expr>,
    context: &ScanContext<'_>,
) -> (ScanPlan, bool) {
    let width = relation.columns.len();
    let stats = relation.stats;
    let rows = if stats.tuples < 0.0 { DEFAULT_ROWS } else { stats.tuples.max(1.0) };
    let pages = if stats.tuples < 0.0 { 10.0 } else { f64::from(stats.pages).max(1.0) };
    let mut selectivity = 1.0;
    for condition in &conditions {
        selectivity *= selectivity_of(condition);
    }
    let sort_cost = if context.order.is_empty() {
        0.0
    } else {
        let result = (rows * selectivity).max(2.0);
        result * result.log2() * ROW_COST * 2.0
    };
    let sequential = pages * PAGE_COST
        + rows * ROW_COST
        + if context.settings.enable_seqscan { 0.0 } else { DISABLED_COST };
    let mut best = Candidate {
        path: ScanPath::Sequential,
        covered: Vec::new(),
        rows: (rows * selectivity).max(1.0),
        cost: sequential,
        ordered: context.order.is_empty(),
    };
    let table = Table { relation, start, width, rows };
    let total = |c: &Candidate| {
        if !c.ordered {
            return c.cost + sort_cost;
        }
        match context.limit {
            // Rows that come in order need not all be read.
            Some(limit) if c.cost < DISABLED_COST => {
                c.cost * (limit / c.rows.max(1.0)).clamp(0.0, 1.0)
            }
            _ => c.cost,
        }
    };
    for candidate in tid_candidates(&table, &conditions, context)
        .into_iter()
        .chain(index_candidates(&table, &conditions, context))
    {
        if total(&candidate) < total(&best) {
            best = candidate;
        }
    }
    let ordered = best.ordered;
    let mut remaining = Vec::new();
    for (number, condition) in conditions.into_iter().enumerate() {
        if !best.covered.contains(&number) {
            remaining.push(condition);
        }
    }
    let system = std::array::from_fn(|i| used.get(start + width + i).copied().unwrap_or(false));
    let columns = (0..width).filter(|i| used.get(start + i).copied().unwrap_or(false)).collect();
    let plan = ScanPlan {
        relation: Arc::clone(relation),
        name: name.to_owned(),
        start,
        columns,
        system,
        path: best.path,
        filter: conjunction(remaining),
        rows: best.rows,
        cost: if best.cost >= DISABLED_COST { best.cost - DISABLED_COST } else { best.cost },
    };
    (plan, ordered)
}

struct Candidate {
    path: ScanPath,
    /// Conditions that the path ensures, by number.
    covered: Vec<usize>,
    rows: f64,
    cost: f64,
    ordered: bool,
}

struct Table<'a> {
    relation: &'a Arc<Relation>,
    start: usize,
    width: usize,
    rows: f64,
}

fn selectivity_of(condition: &Expr) -> f64 {
    match &condition.kind {
        ExprKind::Call { function, .. } => match function.name {
            "=" => 0.005,
            "<>" => 0.995,
            "<" | "<=" | ">" | ">=" => 1.0 / 3.0,
            _ => 0.1,
        },
        ExprKind::ArrayCompare { .. } => 0.02,
        ExprKind::IsNull { negated, .. } => {
            if *negated {
                0.995
            } else {
                0.005
            }
        }
        ExprKind::Or(parts) => parts.iter().map(selectivity_of).sum::<f64>().min(1.0),
        ExprKind::And(parts) => parts.iter().map(selectivity_of).product(),
        _ => 0.5,
    }
}

/// A comparison of something of the table with something known before the scan.
struct Comparison<'c> {
    /// What of the table: a slot or an expression.
    operand: &'c Expr,
    operator: &'static str,
    value: &'c Expr,
    any: bool,
}

impl Comparison<'_> {
    /// The slot that is compared, if it is one.
    fn slot(&self) -> Option<usize> {
        match self.operand.kind {
            ExprKind::Slot { depth: 0, slot } => Some(slot),
            _ => None,
        }
    }
}

/// What a key column of an index holds, over the query's row.
enum KeyPart {
    Slot(usize),
    Expression(Expr),
    /// An expression that cannot be read: nothing matches it.
    Unknown,
}

impl KeyPart {
    fn is(&self, expr: &Expr) -> bool {
        match (self, &expr.kind) {
            (Self::Slot(key), ExprKind::Slot { depth: 0, slot }) => key == slot,
            (Self::Expression(key), _) => key.same(expr),
            _ => false,
        }
    }
}

/// The key columns of an index, and the predicate that its rows satisfy, over the query's row. `None`
/// when the predicate cannot be read: nothing implies it.
fn index_parts(table: &Table<'_>, position: usize) -> Option<(Vec<KeyPart>, Option<Expr>)> {
    let index = table.relation.table.as_ref()?.definition().indexes.get(position)?;
    let key = index.key.iter().map(|key| match &key.source {
        KeySource::Column(column) => KeyPart::Slot(table.start + column),
        KeySource::Expression(expression) => match compiled(&**expression) {
            Some(compiled) => KeyPart::Expression(compiled.expr.shifted(table.start)),
            None => KeyPart::Unknown,
        },
    });
    let predicate = match index.predicate.as_deref() {
        Some(predicate) => Some(compiled(predicate)?.expr.shifted(table.start)),
        None => None,
    };
    Some((key.collect(), predicate))
}

fn flipped(operator: &str) -> &'static str {
    match operator {
        "<" => ">",
        "<=" => ">=",
        ">" => "<",
        ">=" => "<=",
        _ => "=",
    }
}

/// Recognizes `operand op value`, `value op operand` and `operand = ANY (array)`.
fn comparison<'c>(
    condition: &'c Expr,
    table: &Table<'_>,
    context: &ScanContext<'_>,
) -> Option<Comparison<'c>> {
    let in_table = |slot: usize| slot >= table.start && slot < table.start + table.width + 3;
    let known = |expr: &Expr| {
        !is_volatile(expr)
            && reads_only(expr, &mut |slot| !in_table(slot) && (context.available)(slot))
    };
    match &condition.kind {
        ExprKind::Call { function, arguments } => {
            let operator = match function.name {
                name @ ("=" | "<" | "<=" | ">" | ">=") => name,
                _ => return None,
            };
            let [left, right] = arguments.as_slice() else { return None };
            if known(right) {
                return Some(Comparison { operand: left, operator, value: right, any: false });
            }
            if known(left) {
                let operator = flipped(operator);
                return Some(Comparison { operand: right, operator, value: left, any: false });
            }
            None
        }
        ExprKind::ArrayCompare { function, any: true, left, right } if function.name == "=" => {
            known(right).then_some(Comparison {
                operand: left,
                operator: "=",
                value: right,
                any: true,
            })
        }
        _ => None,
    }
}

/// Whether a value of type `value` can be turned into a key of a column of type `column`: the same
/// family of types, so that order and equality mean the same.
fn key_compatible(column: TypeOid, value: TypeOid) -> bool {
    use TypeOid as T;
    let family = |t: TypeOid| match t {
        T::INT2 | T::INT4 | T::INT8 => 1,
        T::TEXT | T::VARCHAR | T::NAME => 2,
        T::OID | T::REGCLASS => 3,
        other => 1_000 + other.0,
    };
    family(column) == family(value)
}

fn tid_candidates(
    table: &Table<'_>,
    conditions: &[Expr],
    context: &ScanContext<'_>,
) -> Vec<Candidate> {
    let ctid = table.start + table.width;
    let mut candidates = Vec::new();
    let mut lower: Option<(Expr, bool)> = None;
    let mut upper: Option<(Expr, bool)> = None;
    let mut range_covered = Vec::new();
    let disabled = if context.settings.enable_tidscan { 0.0 } else { DISABLED_COST };
    for (number, condition) in conditions.iter().enumerate() {
        let Some(found) = comparison(condition, table, context) else { continue };
        if found.slot() != Some(ctid) {
            continue;
        }
        match found.operator {
            "=" => candidates.push(Candidate {
                path: ScanPath::Tids { value: found.value.clone(), condition: condition.clone() },
                covered: vec![number],
                rows: 1.0,
                cost: RANDOM_PAGE_COST + ROW_COST + disabled,
                ordered: context.order.is_empty(),
            }),
            ">" | ">=" if lower.is_none() => {
                lower = Some((found.value.clone(), found.operator == ">="));
                range_covered.push(number);
            }
            "<" | "<=" if upper.is_none() => {
                upper = Some((found.value.clone(), found.operator == "<="));
                range_covered.push(number);
            }
            _ => {}
        }
    }
    if !range_covered.is_empty() {
        let share = if lower.is_some() && upper.is_some() { 0.005 } else { 1.0 / 3.0 };
        candidates.push(Candidate {
            path: ScanPath::TidRange {
                lower,
                upper,
                conditions: range_covered.iter().map(|n| conditions[*n].clone()).collect(),
            },
            covered: range_covered,
            rows: (table.rows * share).max(1.0),
            cost: table.rows * share * ROW_COST * 2.0 + PAGE_COST + disabled,
            ordered: context.order.is_empty(),
        });
    }
    candidates
}

/// What the conditions say about one key column.
struct ColumnMatch {
    key: KeyCondition,
    /// The conditions it stands for, by number.
    covered: Vec<usize>,
    selectivity: f64,
    /// Ranges that the scan has for each of those before it, estimated.
    ranges: f64,
}

fn match_column(
    table: &Table<'_>,
    (column, part): (&IndexColumn, &KeyPart),
    conditions: &[Expr],
    context: &ScanContext<'_>,
) -> Option<ColumnMatch> {
    let stored = column.type_oid(table.relation);
    let matching = |number: usize| {
        let condition = conditions.get(number)?;
        let found = comparison(condition, table, context)?;
        let value_type =
            if found.any { crate::types::element_of(found.value.ty)? } else { found.value.ty };
        (part.is(found.operand)
            && key_compatible(stored, value_type)
            && key_compatible(stored, found.operand.ty))
        .then_some(found)
    };
    let numbers = 0..conditions.len();
    let equal = numbers
        .clone()
        .filter_map(|n| matching(n).map(|f| (n, f)))
        .filter(|(_, f)| f.operator == "=")
        // One value is better than several.
        .min_by_key(|(_, f)| f.any);
    if let Some((number, found)) = equal {
        let value = found.value.clone();
        let (key, selectivity, ranges) = if found.any {
            (KeyCondition::Any(value), 0.02, array_length(found.value))
        } else {
            (KeyCondition::Equal(value), 0.005, 1.0)
        };
        return Some(ColumnMatch { key, covered: vec![number], selectivity, ranges });
    }
    let (mut lower, mut upper, mut covered) = (None, None, Vec::new());
    for number in numbers {
        if let Some(negated) = null_test(&conditions[number], part) {
            if !negated {
                let (key, covered) = (KeyCondition::Null, vec![number]);
                return Some(ColumnMatch { key, covered, selectivity: 0.005, ranges: 1.0 });
            }
            // What a bound ensures as well.
            covered.push(number);
            continue;
        }
        let Some(found) = matching(number) else { continue };
        let inclusive = found.operator.ends_with('=');
        let side = match found.operator {
            ">" | ">=" => &mut lower,
            "<" | "<=" => &mut upper,
            _ => continue,
        };
        if side.is_none() {
            *side = Some((found.value.clone(), inclusive));
            covered.push(number);
        }
    }
    if covered.is_empty() {
        return None;
    }
    let selectivity = match (lower.is_some(), upper.is_some()) {
        (true, true) => 0.005,
        (false, false) => 0.995,
        _ => 1.0 / 3.0,
    };
    Some(ColumnMatch {
        key: KeyCondition::Range { lower, upper },
        covered,
        selectivity,
        ranges: 1.0,
    })
}

/// `key IS NULL` (false) or `IS NOT NULL` (true).
fn null_test(condition: &Expr, key: &KeyPart) -> Option<bool> {
    match &condition.kind {
        ExprKind::IsNull { argument, negated } if key.is(argument) => Some(*negated),
        _ => None,
    }
}

/// How many values a list has, or is taken to have.
fn array_length(array: &Expr) -> f64 {
    match &array.kind {
        ExprKind::Array(values) => values.len() as f64,
        ExprKind::Const(niwaki_types::Datum::Array(_, values)) => values.len() as f64,
        ExprKind::Const(_) => 0.0,
        _ => 10.0,
    }
}

fn index_candidates(
    table: &Table<'_>,
    conditions: &[Expr],
    context: &ScanContext<'_>,
) -> Vec<Candidate> {
    let mut candidates = Vec::new();
    let disabled = if context.settings.enable_indexscan { 0.0 } else { DISABLED_COST };
    for (position, index) in table.relation.indexes.iter().enumerate() {
        if !index.definition.valid {
            continue;
        }
        let columns = &index.definition.key;
        let Some((parts, predicate)) = index_parts(table, position) else { continue };
        let partial = predicate.is_some();
        if predicate.as_ref().is_some_and(|p| !implies(conditions, p)) {
            continue;
        }
        let (mut keys, mut covered) = (Vec::new(), Vec::new());
        let mut bounding = 0;
        let mut open = true;
        let (mut selectivity, mut read, mut ranges) = (1.0, 1.0, 1.0);
        for (number, column) in columns.iter().zip(&parts).enumerate() {
            let Some(found) = match_column(table, column, conditions, context) else {
                open = false;
                continue;
            };
            keys.resize(number, KeyCondition::Free);
            if open {
                bounding = number + 1;
                read *= found.selectivity;
                ranges *= found.ranges;
                open = !matches!(found.key, KeyCondition::Range { .. });
            }
            selectivity *= found.selectivity;
            keys.push(found.key);
            covered.extend(found.covered);
        }
        let order = index_order(columns, &parts, &keys, context.order);
        if bounding == 0 && order.is_none() && !partial {
            continue;
        }
        covered.sort_unstable();
        let shown = covered.iter().map(|n| conditions[*n].clone()).collect();
        if let Some(predicate) = predicate {
            selectivity *= add_ensured(predicate, conditions, &mut covered);
        }
        let point = index.definition.is_unique_at_once() && is_point(columns.len(), &keys);
        let rows = if point { 1.0 } else { (table.rows * selectivity).max(1.0) };
        // A point of a unique index always wins: it stays right however the table grows.
        let cost = if point {
            0.0
        } else {
            // Entries next to each other often lie on the same heap page.
            ranges * 2.0
                + (table.rows * read).max(1.0) * ROW_COST
                + rows * (RANDOM_PAGE_COST / 10.0 + ROW_COST)
        } + disabled;
        candidates.push(Candidate {
            path: ScanPath::Index(IndexPath {
                index: position,
                keys,
                bounding,
                forward: order.unwrap_or(true),
                conditions: shown,
            }),
            covered,
            rows,
            cost,
            ordered: context.order.is_empty() || order.is_some() || point,
        });
    }
    candidates
}

/// Covers the conditions that a partial index's predicate ensures: they need not be judged again, because
/// every row that is reached satisfies it. Returns their selectivity.
fn add_ensured(predicate: Expr, conditions: &[Expr], covered: &mut Vec<usize>) -> f64 {
    let mut parts = Vec::new();
    split_conjuncts(predicate, &mut parts);
    let mut selectivity = 1.0;
    for (number, condition) in conditions.iter().enumerate() {
        if !covered.contains(&number) && parts.iter().any(|part| part.same(condition)) {
            selectivity *= selectivity_of(condition);
            covered.push(number);
        }
    }
    selectivity
}

/// Whether the index gives the wanted order: `Some(true)` forward, `Some(false)` backward.
fn index_order(
    columns: &[IndexColumn],
    parts: &[KeyPart],
    keys: &[KeyCondition],
    order: &[SortKey],
) -> Option<bool> {
    if order.is_empty() {
        return None;
    }
    // Columns fixed to one value have no order of their own.
    let fixed = |position: usize| {
        matches!(keys.get(position), Some(KeyCondition::Equal(_) | KeyCondition::Null))
    };
    let mut direction = None;
    let mut position = 0;
    for wanted in order {
        if (0..keys.len()).any(|at| fixed(at) && parts[at].is(&wanted.expr)) {
            continue;
        }
        while fixed(position) {
            position += 1;
        }
        let column = columns.get(position)?;
        if !parts.get(position)?.is(&wanted.expr) {
            return None;
        }
        let same =
            column.descending == wanted.descending && column.nulls_first == wanted.nulls_first;
        let opposite =
            column.descending != wanted.descending && column.nulls_first != wanted.nulls_first;
        let this = match (same, opposite) {
            (true, _) => true,
            (_, true) => false,
            _ => return None,
        };
        if direction.is_some_and(|d| d != this) {
            return None;
        }
        direction = Some(this);
        position += 1;
    }
    Some(direction.unwrap_or(true))
}
