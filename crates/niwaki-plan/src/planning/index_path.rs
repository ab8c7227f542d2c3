//! Index access paths: matches conditions with the keys of a table's indexes.

use niwaki_catalog::IndexColumn;
use niwaki_expr::expr::{Expr, ExprKind, compiled, implies};
use niwaki_expr::plan::key_compatible;
use niwaki_expr::plan::{IndexPath, KeyCondition, PathPlan};
use niwaki_expr::query::{SortKey, reads_only, split_conjuncts};
use niwaki_table::KeySource;

use super::comparison::{Comparison, comparison};

use super::cost::{self, IndexRead};
use super::scan::{Candidate, DISABLED_COST, Table};

/// Assumed number of distinct values of a column that was not analyzed: PostgreSQL's guess.
pub(super) const UNKNOWN_GROUPS: f64 = 200.0;

/// The content of an index key column, over the query's row.
enum KeyPart {
    Slot(usize),
    Expression(Expr),
    /// An expression that cannot be compiled. No condition matches it.
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

    /// Returns the table's column, if the key part is a plain column.
    fn column(&self, table: &Table<'_>) -> Option<usize> {
        match self {
            Self::Slot(slot) => slot.checked_sub(table.start),
            Self::Expression(_) | Self::Unknown => None,
        }
    }
}

/// Returns the key columns of an index, and the predicate that its rows satisfy, over the query's
/// row. Returns `None` if the predicate cannot be compiled: nothing implies it then.
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

/// The conditions on one key column.
struct ColumnMatch {
    key: KeyCondition,
    /// Numbers of the conditions that the key stands for.
    covered: Vec<usize>,
    selectivity: f64,
    /// Estimated number of ranges for each range of the preceding columns.
    ranges: f64,
}

/// The row order of an index scan.
#[derive(Clone, Copy)]
pub(super) struct IndexOrder {
    /// True if the scan reads the index in its own order.
    pub(super) forward: bool,
    /// Number of leading keys of the wanted order that hold.
    keys: usize,
    /// Estimated number of groups of rows that are equal in those keys.
    groups: f64,
}

/// A use of an index.
#[derive(Clone)]
pub(super) struct IndexMatch {
    /// Position among the table's indexes.
    pub(super) position: usize,
    pub(super) keys: Vec<KeyCondition>,
    pub(super) bounding: usize,
    /// Numbers of the conditions that the keys ensure.
    pub(super) covered: Vec<usize>,
    /// Conditions that the predicate of a partial index ensures.
    pub(super) ensured: Vec<usize>,
    /// True if the index is partial.
    pub(super) partial: bool,
    /// The part of the wanted order that the index supplies.
    pub(super) order: Option<IndexOrder>,
    /// Share of the entries that satisfy all conditions of the scan.
    pub(super) selectivity: f64,
    /// Share of the entries in the ranges that bound the scan.
    pub(super) read: f64,
    /// Number of descents from the B-tree root.
    pub(super) descents: f64,
    /// True if the scan returns at most one row.
    pub(super) point: bool,
}

impl IndexMatch {
    fn new(position: usize) -> Self {
        Self {
            position,
            keys: Vec::new(),
            bounding: 0,
            covered: Vec::new(),
            ensured: Vec::new(),
            partial: false,
            order: None,
            selectivity: 1.0,
            read: 1.0,
            descents: 1.0,
            point: false,
        }
    }

    /// Returns whether the scan reads less than all rows.
    pub(super) fn bounds(&self) -> bool {
        self.bounding > 0 || self.partial
    }

    /// Returns the numbers of all conditions that the scan's rows satisfy.
    pub(super) fn satisfied(&self) -> Vec<usize> {
        [self.covered.as_slice(), &self.ensured].concat()
    }

    /// Returns the work of the scan in the index.
    pub(super) fn reads(&self, table: &Table<'_>) -> IndexRead {
        let rows = table.size.rows;
        let pages = table
            .relation
            .table
            .as_ref()
            .and_then(|stored| stored.index(self.position).blocks().ok());
        let (read, selectivity) =
            if self.point { (0.0, 0.0) } else { (self.read, self.selectivity) };
        IndexRead {
            entries: (rows * read).max(1.0),
            rows: (rows * selectivity).max(1.0),
            descents: self.descents,
            operators: self.covered.len() as f64,
            // The scan does not read the metapage.
            index_pages: pages.map_or(rows / 250.0, f64::from).max(2.0) - 1.0,
            index_entries: rows.max(1.0),
            loops: table.context.loops,
        }
    }

    pub(super) fn path(
        &self,
        table: &Table<'_>,
        conditions: &[Expr],
        forward: bool,
        only: bool,
    ) -> IndexPath {
        let costs = &table.context.settings.costs;
        // A point statement's plan needs no costs, so the statistics are not read.
        let (rows, cost) = if self.point && table.context.loops <= 1.0 {
            (1.0, 0.0)
        } else {
            let read = self.reads(table);
            (read.rows, cost::index_entries(&read, costs))
        };
        IndexPath {
            index: self.position,
            keys: self.keys.clone(),
            bounding: self.bounding,
            forward,
            only,
            conditions: self.covered.iter().map(|n| column_first(table, &conditions[*n])).collect(),
            ensured: self.ensured.iter().map(|n| conditions[*n].clone()).collect(),
            rows,
            cost,
        }
    }
}

fn match_column(
    table: &Table<'_>,
    conditions: &[Expr],
    comparisons: &[Option<Comparison<'_>>],
    column: &IndexColumn,
    part: &KeyPart,
) -> Option<ColumnMatch> {
    let stored = column.type_oid(table.relation);
    let position = part.column(table);
    let estimator = &table.estimator;
    let matching = |number: usize| {
        let found = comparisons.get(number)?.as_ref()?;
        let value_type = if found.any {
            niwaki_parse::types::element_of(found.value.ty)?
        } else {
            found.value.ty
        };
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
            let (selectivity, values) = estimator.any(position, found.value);
            (KeyCondition::Any(value), selectivity, values)
        } else {
            (KeyCondition::Equal(value), estimator.equal(position, found.value), 1.0)
        };
        return Some(ColumnMatch { key, covered: vec![number], selectivity, ranges });
    }
    let (mut lower, mut upper, mut covered) = (None, None, Vec::new());
    for number in numbers {
        if let Some(negated) = null_test(&conditions[number], part) {
            if !negated {
                return Some(ColumnMatch {
                    key: KeyCondition::Null,
                    covered: vec![number],
                    selectivity: estimator.null(position, false),
                    ranges: 1.0,
                });
            }
            // A bound ensures IS NOT NULL as well.
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
    let selectivity = estimator.range(position, lower.as_ref(), upper.as_ref());
    let key = KeyCondition::Range { lower, upper };
    Some(ColumnMatch { key, covered, selectivity, ranges: 1.0 })
}

/// Puts the table's side of an equality first, as PostgreSQL shows it. Other conditions stay
/// unchanged.
fn column_first(table: &Table<'_>, condition: &Expr) -> Expr {
    let mut condition = condition.clone();
    if let ExprKind::Call { function, arguments } = &mut condition.kind
        && function.name == "="
        && let [left, right] = arguments.as_mut_slice()
        && left.ty == right.ty
    {
        let own = |slot: usize| slot >= table.start && slot < table.start + table.width;
        if reads_only(left, &mut |slot| !own(slot)) && !reads_only(right, &mut |slot| !own(slot)) {
            std::mem::swap(left, right);
        }
    }
    condition
}

/// Recognizes `key IS NULL` (false) or `key IS NOT NULL` (true).
fn null_test(condition: &Expr, key: &KeyPart) -> Option<bool> {
    match &condition.kind {
        ExprKind::IsNull { argument, negated } if key.is(argument) => Some(*negated),
        _ => None,
    }
}

/// Returns the uses of a table's indexes for some conditions. Indexes without a matching condition
/// are included: they may be read for their order.
pub(super) fn index_matches(table: &Table<'_>, conditions: &[Expr]) -> Vec<IndexMatch> {
    let mut found = Vec::new();
    let comparisons: Vec<_> = conditions.iter().map(|part| comparison(part, table)).collect();
    for (position, index) in table.relation.indexes.iter().enumerate() {
        if index.definition.valid {
            match_index(table, conditions, &comparisons, position, &mut found);
        }
    }
    found
}

/// Adds the uses of one index to `out`. `comparisons` has each condition as a comparison, if it is
/// one.
fn match_index(
    table: &Table<'_>,
    conditions: &[Expr],
    comparisons: &[Option<Comparison<'_>>],
    position: usize,
    out: &mut Vec<IndexMatch>,
) {
    let definition = &table.relation.indexes[position].definition;
    let columns = &definition.key;
    let Some((key_parts, predicate)) = index_parts(table, position) else { return };
    if predicate.as_ref().is_some_and(|predicate| !implies(conditions, predicate)) {
        return;
    }
    let mut found = IndexMatch::new(position);
    let mut parts: Vec<Option<ColumnMatch>> = Vec::with_capacity(columns.len());
    let mut open = true;
    for (number, (column, key_part)) in columns.iter().zip(&key_parts).enumerate() {
        let part = match_column(table, conditions, comparisons, column, key_part);
        if let Some(part) = &part {
            found.keys.resize(number, KeyCondition::Free);
            found.keys.push(part.key.clone());
            found.covered.extend(&part.covered);
            found.selectivity *= part.selectivity;
            if open {
                found.bounding = number + 1;
                found.read *= part.selectivity;
                found.descents *= part.ranges;
            }
        }
        open = open && part.as_ref().is_some_and(|p| !matches!(p.key, KeyCondition::Range { .. }));
        parts.push(part);
    }
    // Remove duplicates, in the order of the columns: an index may have a column twice.
    let mut known = Vec::with_capacity(found.covered.len());
    found.covered.retain(|number| {
        let new = !known.contains(number);
        known.push(*number);
        new
    });
    found.order = index_order(table, columns, &key_parts, &found.keys);
    if let Some(predicate) = predicate {
        found.partial = true;
        add_ensured(table, predicate, conditions, &mut found);
    }
    found.point = definition.is_unique_at_once()
        && found.keys.len() == columns.len()
        && found.keys.iter().all(|key| matches!(key, KeyCondition::Equal(_)));
    if table.context.settings.enable_skipscan {
        skip_scans(table, &key_parts, &parts, &found, out);
    }
    out.push(found);
}

/// Notes the conditions that a partial index's predicate ensures. A plain scan need not evaluate
/// them again, because every row that it reaches satisfies them.
fn add_ensured(table: &Table<'_>, predicate: Expr, conditions: &[Expr], found: &mut IndexMatch) {
    let mut parts = Vec::new();
    split_conjuncts(predicate, &mut parts);
    for (number, condition) in conditions.iter().enumerate() {
        if !found.covered.contains(&number) && parts.iter().any(|part| part.same(condition)) {
            let share = table.estimator.condition(condition);
            found.selectivity *= share;
            found.read *= share;
            found.ensured.push(number);
        }
    }
}

/// Adds the skip scans.
///
/// In a skip scan a condition on a later column bounds the scan, too. The scan searches below each
/// value that the columns before it have. Rule: only where ANALYZE counted those values. Each
/// combination of them costs two descents: one to its entries, one past them.
fn skip_scans(
    table: &Table<'_>,
    key_parts: &[KeyPart],
    parts: &[Option<ColumnMatch>],
    plain: &IndexMatch,
    out: &mut Vec<IndexMatch>,
) {
    if parts.iter().skip(plain.bounding).all(Option::is_none) {
        return;
    }
    let mut read = 1.0;
    let mut prefixes = 1.0;
    let mut skips = false;
    for (number, (key, part)) in key_parts.iter().zip(parts).enumerate() {
        let share = part.as_ref().map_or(1.0, |part| part.selectivity);
        read *= share;
        if number >= plain.bounding && part.is_some() && skips {
            out.push(IndexMatch {
                bounding: number + 1,
                read,
                descents: prefixes * 2.0,
                ..plain.clone()
            });
        }
        prefixes *= match part {
            Some(part) if !matches!(part.key, KeyCondition::Range { .. }) => part.ranges,
            _ => {
                skips = true;
                let distinct = table.estimator.distinct(key.column(table));
                let Some(distinct) = distinct else { return };
                (distinct * share).max(1.0)
            }
        };
        if prefixes > table.size.rows {
            return;
        }
    }
}

/// Returns the candidate index scans, in the order of `matches`.
pub(super) fn index_candidates(table: &Table<'_>, matches: &[IndexMatch]) -> Vec<Candidate> {
    let settings = &table.context.settings;
    let costs = &settings.costs;
    let disabled = if settings.enable_indexscan { 0.0 } else { DISABLED_COST };
    let mut candidates = Vec::new();
    for found in matches {
        let columns = &table.relation.indexes[found.position].definition.key;
        let order = found.order;
        let only = settings.enable_indexonlyscan
            && table.covered_by(found.position, &found.ensured).is_some();
        if !found.bounds() && order.is_none() && !only {
            continue;
        }
        // A point lookup in a unique index always wins: it stays the best path however the table
        // grows.
        let forward = order.is_none_or(|order| order.forward);
        let path = found.path(table, table.conditions, forward, only);
        let loops = table.context.loops;
        let cost = if found.point && loops <= 1.0 {
            0.0
        } else {
            let first = columns.first().map(|column| usize::from(column.column));
            let mut correlation = table.estimator.correlation(first);
            if columns.len() > 1 {
                correlation *= 0.75;
            }
            let judging = table.judging(&found.satisfied());
            let read = if only { 1.0 - table.size.all_visible } else { 1.0 };
            path.cost
                + cost::heap_by_index(
                    path.rows,
                    table.size,
                    read,
                    correlation,
                    judging,
                    loops,
                    costs,
                )
        };
        candidates.push(Candidate {
            path: PathPlan::Index(path),
            covered: found.satisfied(),
            rows: if found.point { 1.0 } else { table.output_rows },
            startup: 0.0,
            cost: cost + disabled,
            ordered: match (found.point, order) {
                (true, _) => table.context.order.len(),
                (false, order) => order.map_or(0, |order| order.keys),
            },
            groups: order.map_or(1.0, |order| order.groups),
        });
    }
    candidates
}

/// Returns the part of the wanted order that the index supplies, if there is one.
fn index_order(
    table: &Table<'_>,
    columns: &[IndexColumn],
    parts: &[KeyPart],
    keys: &[KeyCondition],
) -> Option<IndexOrder> {
    let order = table.context.order;
    if order.is_empty() {
        return None;
    }
    // Columns fixed to one value do not affect the order.
    let fixed = |position: usize| {
        matches!(keys.get(position), Some(KeyCondition::Equal(_) | KeyCondition::Null))
    };
    // The scan direction that puts a key column in the order of a wanted key.
    let direction_of = |position: usize, wanted: &SortKey| {
        let column = columns.get(position)?;
        if !parts.get(position)?.is(&wanted.expr) {
            return None;
        }
        let turned = column.descending != wanted.descending;
        (turned == (column.nulls_first != wanted.nulls_first)).then_some(!turned)
    };
    let (mut direction, mut position) = (None, 0);
    let (mut found, mut groups) = (0, 1.0);
    for wanted in order {
        if !(0..keys.len()).any(|at| fixed(at) && parts[at].is(&wanted.expr)) {
            while fixed(position) {
                position += 1;
            }
            match direction_of(position, wanted) {
                Some(this) if direction.is_none_or(|known| known == this) => direction = Some(this),
                _ => break,
            }
            let distinct = table.estimator.distinct(parts[position].column(table));
            groups *= distinct.unwrap_or(UNKNOWN_GROUPS);
            position += 1;
        }
        found += 1;
    }
    // If all found keys are fixed to one value, the index orders nothing.
    if found < order.len() && direction.is_none() {
        return None;
    }
    let groups = groups.clamp(1.0, table.output_rows);
    Some(IndexOrder { forward: direction.unwrap_or(true), keys: found, groups })
}
