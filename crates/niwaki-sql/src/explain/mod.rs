//! Writes a plan as EXPLAIN text, with PostgreSQL's names for its steps.

mod aggregate;
mod change;
mod json;
mod options;
mod output;
mod partitions;
mod steps;

use niwaki_analyze::deparse::plain::{Names, expression, sort_key};
use niwaki_env::stack;
use niwaki_expr::context::ExecContext;
use niwaki_expr::expr::measure::{Measure, Measures, SpaceUse};
use niwaki_expr::expr::{Expr, ExprKind, Nested, Quantifier, SubQueryKind};
use niwaki_expr::plan::{BitmapPlan, JoinKind, PathPlan, PlanNode, ScanPlan};
use niwaki_expr::query::SortKey;
use niwaki_expr::store::ScanEffort;
use niwaki_parse::error::Result;
use niwaki_plan::planning::estimate;
use niwaki_settings::settings::changed_settings;

use json::json_string;
pub use options::ExplainOptions;

/// One step as EXPLAIN shows it.
struct Shown {
    /// The label of an init plan, subplan or CTE, shown as a line of its own. `None` for a step
    /// that gives rows to the step above.
    label: Option<String>,
    title: String,
    node_type: &'static str,
    /// True if several threads divide the rows among them.
    parallel: bool,
    /// The mode of an aggregate: computed whole, in parts, or from parts.
    partial_mode: &'static str,
    relation: Option<String>,
    /// The name of a scan's rows in the query.
    alias: Option<String>,
    index: Option<String>,
    /// The kind of a join step.
    join: Option<JoinKind>,
    /// The step's output columns, with VERBOSE.
    output: Vec<String>,
    rows: f64,
    cost: f64,
    /// The measured work of the step, once it has run. Some steps exist in EXPLAIN's output only.
    measure: Option<Measure>,
    /// Lines below the title.
    details: Vec<(&'static str, Detail)>,
    /// Lines below the details, in text only. `numbers` holds the JSON form of the same facts:
    /// label, value.
    lines: Vec<String>,
    numbers: Vec<(&'static str, String)>,
    children: Vec<Shown>,
}

/// The value of a line below a step's title.
#[derive(Clone)]
enum Detail {
    Text(String),
    Number(u64),
    /// A list: text puts commas between its parts, JSON shows an array.
    List(Vec<String>),
}

impl Detail {
    fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Number(number) => number.to_string(),
            Self::List(parts) => parts.join(", "),
        }
    }

    fn json(&self) -> String {
        match self {
            Self::Text(text) => json_string(text),
            Self::Number(number) => number.to_string(),
            Self::List(parts) => json::list(parts),
        }
    }
}

impl Shown {
    fn new(node_type: &'static str, rows: f64, cost: f64, children: Vec<Shown>) -> Self {
        Self {
            label: None,
            title: node_type.to_owned(),
            node_type,
            parallel: false,
            partial_mode: "Simple",
            relation: None,
            alias: None,
            index: None,
            join: None,
            output: Vec::new(),
            rows,
            cost,
            measure: None,
            details: Vec::new(),
            lines: Vec::new(),
            numbers: Vec::new(),
            children,
        }
    }

    /// Adds a step of EXPLAIN's output above this one, which passes this one's rows on.
    fn below(self, node_type: &'static str) -> Self {
        let (measure, output) = (self.measure, self.output.clone());
        let above = Self::new(node_type, self.rows, self.cost, vec![self]);
        Self { output, measure, ..above }
    }

    fn number(&mut self, label: &'static str, value: String) {
        self.numbers.push((label, value));
    }

    fn detail(&mut self, label: &'static str, text: String) {
        self.details.push((label, Detail::Text(text)));
    }

    fn count(&mut self, label: &'static str, count: u64) {
        self.details.push((label, Detail::Number(count)));
    }

    fn list(&mut self, label: &'static str, parts: Vec<String>) {
        self.details.push((label, Detail::List(parts)));
    }
}

/// Returns the lines of EXPLAIN. `measured` holds the measured work of each step of a run, and the
/// run's microseconds.
pub(crate) fn explain(
    root: &PlanNode,
    options: &ExplainOptions,
    measured: Option<(&Measures, i64)>,
    exec: &ExecContext<'_>,
) -> Result<Vec<String>> {
    let measures = measured.map(|(measures, _)| measures);
    let shown = describe(root, &Describing { exec, measures, verbose: options.verbose });
    let settings =
        options.settings.then(|| changed_settings(|name| exec.environment.setting(name)));
    if options.json {
        let mut text = String::from("[\n  {\n    \"Plan\": ");
        json::write(&shown, None, 4, options, &mut text);
        if let Some(settings) = settings {
            text.push_str(",\n    \"Settings\": {\n");
            let lines: Vec<String> = settings
                .iter()
                .map(|(name, value)| format!("      \"{name}\": {}", json_string(value)))
                .collect();
            text.push_str(&lines.join(",\n"));
            text.push_str(if lines.is_empty() { "    }" } else { "\n    }" });
        }
        if options.summary {
            let planning = milliseconds(options.planning_us);
            text.push_str(&format!(",\n    \"Planning Time\": {planning}"));
        }
        if let (Some((_, micros)), true) = (measured, options.summary) {
            text.push_str(&format!(",\n    \"Execution Time\": {}", milliseconds(micros)));
        }
        text.push_str("\n  }\n]");
        return Ok(vec![text]);
    }
    let mut lines = Vec::new();
    text(&shown, None, options, &mut lines);
    if let Some(settings) = settings.filter(|settings| !settings.is_empty()) {
        let settings: Vec<String> =
            settings.iter().map(|(name, value)| format!("{name} = '{value}'")).collect();
        lines.push(format!("Settings: {}", settings.join(", ")));
    }
    if options.summary {
        lines.push(format!("Planning Time: {} ms", milliseconds(options.planning_us)));
    }
    for fired in measures.iter().flat_map(|measures| &measures.triggers) {
        let (name, calls) = (&fired.name, fired.calls);
        lines.push(if options.timing {
            format!("Trigger {name}: time={} calls={calls}", milliseconds(fired.took_us))
        } else {
            format!("Trigger {name}: calls={calls}")
        });
    }
    if let (Some((_, micros)), true) = (measured, options.summary) {
        lines.push(format!("Execution Time: {} ms", milliseconds(micros)));
    }
    Ok(lines)
}

/// Adds the pages and heap fetches of an index-only or bitmap scan, as PostgreSQL shows them.
fn add_effort(shown: &mut Shown, effort: ScanEffort) {
    match shown.node_type {
        "Index Only Scan" => shown.count("Heap Fetches", effort.heap_fetches),
        "Bitmap Heap Scan" => {
            let kinds = [("exact", effort.exact_pages), ("lossy", effort.lossy_pages)];
            let found: Vec<String> = kinds
                .iter()
                .filter(|(_, pages)| *pages > 0)
                .map(|(kind, pages)| format!("{kind}={pages}"))
                .collect();
            if !found.is_empty() {
                shown.lines.push(format!("Heap Blocks: {}", found.join(" ")));
            }
            shown.number("Exact Heap Blocks", effort.exact_pages.to_string());
            shown.number("Lossy Heap Blocks", effort.lossy_pages.to_string());
        }
        _ => {}
    }
}

/// Adds the memory and disk space of a sort or hash table, as PostgreSQL shows them.
fn add_space(shown: &mut Shown, space: SpaceUse) {
    if space.batches == 0 {
        return;
    }
    let (batches, spilled) = (space.batches, space.disk > 0);
    let memory = (space.memory as u64).div_ceil(1024);
    let disk = space.disk.div_ceil(1024);
    match shown.node_type {
        "Sort" => {
            let (method, kind, used) = if spilled {
                ("external merge", "Disk", disk)
            } else if space.top {
                ("top-N heapsort", "Memory", memory)
            } else {
                ("quicksort", "Memory", memory)
            };
            shown.lines.push(format!("Sort Method: {method}  {kind}: {used}kB"));
            shown.number("Sort Method", json_string(method));
            shown.number("Sort Space Used", used.to_string());
            shown.number("Sort Space Type", json_string(kind));
        }
        "HashAggregate" | "MixedAggregate" => {
            let mut line = format!("Batches: {batches}  Memory Usage: {memory}kB");
            if spilled {
                line.push_str(&format!("  Disk Usage: {disk}kB"));
            }
            shown.lines.push(line);
            shown.number("HashAgg Batches", batches.to_string());
            shown.number("Peak Memory Usage", memory.to_string());
            shown.number("Disk Usage", disk.to_string());
        }
        "Hash" => {
            let buckets = space.keys.next_power_of_two().max(1024);
            shown
                .lines
                .push(format!("Buckets: {buckets}  Batches: {batches}  Memory Usage: {memory}kB"));
            shown.number("Hash Buckets", buckets.to_string());
            shown.number("Hash Batches", batches.to_string());
            shown.number("Peak Memory Usage", memory.to_string());
        }
        _ => {}
    }
}

fn milliseconds(micros: i64) -> String {
    format!("{}.{:03}", micros / 1000, (micros % 1000).abs())
}

/// Writes a step and the steps below. `at` is the column of the step's arrow; the first step has
/// none.
fn text(shown: &Shown, at: Option<usize>, options: &ExplainOptions, lines: &mut Vec<String>) {
    let mut line = match at {
        Some(at) => format!("{}->  {}", " ".repeat(at), shown.title),
        None => shown.title.clone(),
    };
    if options.costs {
        line.push_str(&format!(
            "  (cost=0.00..{:.2} rows={:.0} width=0)",
            shown.cost,
            shown.rows.max(1.0)
        ));
    }
    match shown.measure.map(Averages::of) {
        None => {}
        Some(None) => line.push_str(" (never executed)"),
        Some(Some(Averages { first, total, rows, loops })) => {
            line.push_str(" (actual ");
            if options.timing {
                line.push_str(&format!("time={first}..{total} "));
            }
            line.push_str(&format!("rows={rows} loops={loops})"));
        }
    }
    lines.push(line);
    let below = at.map_or(2, |at| at + 6);
    let inner = " ".repeat(below);
    if !shown.output.is_empty() {
        lines.push(format!("{inner}Output: {}", shown.output.join(", ")));
    }
    for (label, detail) in &shown.details {
        lines.push(format!("{inner}{label}: {}", detail.text()));
    }
    lines.extend(shown.lines.iter().map(|line| format!("{inner}{line}")));
    for child in &shown.children {
        if let Some(label) = &child.label {
            lines.push(format!("{inner}{label}"));
        }
        let at = below + if child.label.is_some() { 2 } else { 0 };
        text(child, Some(at), options, lines);
    }
}

/// A step's averages over its runs; times in milliseconds.
struct Averages {
    first: String,
    total: String,
    rows: u64,
    loops: u64,
}

impl Averages {
    /// Computes the averages; `None` for a step that never ran.
    fn of(measure: Measure) -> Option<Self> {
        let Measure { loops, rows, first_us, total_us, .. } = measure;
        let runs = i64::try_from(loops).unwrap_or(i64::MAX);
        Some(Self {
            first: milliseconds(first_us.checked_div(runs)?),
            total: milliseconds(total_us.checked_div(runs)?),
            rows: (rows + loops / 2).checked_div(loops)?,
            loops,
        })
    }
}

fn named(relation: &str, name: &str) -> String {
    let relation_name = niwaki_types::quote_identifier(relation);
    if relation == name {
        relation_name
    } else {
        format!("{relation_name} {}", niwaki_types::quote_identifier(name))
    }
}

/// The context of describing a plan.
struct Describing<'d, 'e> {
    exec: &'d ExecContext<'e>,
    /// The measured work of the steps, if they ran.
    measures: Option<&'d Measures>,
    verbose: bool,
}

fn describe(node: &PlanNode, with: &Describing<'_, '_>) -> Shown {
    describe_named(node, &Names::of(node), with)
}

fn describe_named(node: &PlanNode, names: &Names, with: &Describing<'_, '_>) -> Shown {
    let mut shown = stack::room(0, || describe_step(node, names, with));
    // A hidden step gives its measure to the step below, which is shown with the rows that go up.
    shown.measure = with.measures.map(|measures| measures.of(node));
    if let Some(measure) = shown.measure {
        add_space(&mut shown, measure.space);
    }
    if with.verbose {
        output::add(node, &mut shown, names, with);
    }
    add_nested(node, &mut shown, with);
    shown
}

#[expect(clippy::too_many_lines, reason = "one flat match over the steps of plans")]
fn describe_step(node: &PlanNode, names: &Names, with: &Describing<'_, '_>) -> Shown {
    let show = |expr: &Expr| expression(expr, names, with.exec);
    match node {
        PlanNode::Result => Shown::new("Result", 1.0, 0.01, Vec::new()),
        PlanNode::Scan(scan) => {
            let mut shown = describe_scan(scan, names, with);
            if let Some(measures) = with.measures {
                add_effort(&mut shown, measures.of(node).effort);
            }
            shown
        }
        PlanNode::Append(append) => partitions::describe(append, names, with),
        PlanNode::Virtual { relation, name, filter, start, .. } => {
            let names = &names.scanning(*start, relation.columns.len());
            let mut shown = Shown::new("Seq Scan", 100.0, 10.0, Vec::new());
            shown.title = format!("Seq Scan on {}", named(&relation.name, name));
            shown.relation = Some(relation.name.clone());
            shown.alias = Some(name.clone());
            add_filter(&mut shown, filter.as_ref(), names, with);
            shown
        }
        PlanNode::SubQuery { plan, name, filter, .. } => {
            let child = describe(&plan.root, with);
            if filter.is_none() {
                // The step only passes rows on.
                return child;
            }
            let mut shown = Shown::new("Subquery Scan", child.rows, child.cost, vec![child]);
            shown.title = format!("Subquery Scan on {name}");
            shown.alias = Some(name.clone());
            add_filter(&mut shown, filter.as_ref(), names, with);
            shown
        }
        PlanNode::Shared { plan, query, name, filter, .. } => {
            let below = plan.estimate;
            let cost = below.total + below.rows * 0.02;
            let mut shown = Shown::new("CTE Scan", below.rows, cost, Vec::new());
            shown.title = format!("CTE Scan on {}", named(query, name));
            shown.alias = Some(name.clone());
            add_filter(&mut shown, filter.as_ref(), names, with);
            shown
        }
        PlanNode::Working(plan) => {
            let mut shown = Shown::new("WorkTable Scan", plan.rows, plan.rows * 0.0225, Vec::new());
            shown.title = format!("WorkTable Scan on {}", named(&plan.query, &plan.name));
            add_filter(&mut shown, plan.filter.as_ref(), names, with);
            shown
        }
        PlanNode::Recursive(plan) => {
            let (rows, cost) = (estimate(node).rows, estimate(node).total);
            let children = vec![describe(&plan.left, with), describe(&plan.right, with)];
            Shown::new("Recursive Union", rows, cost, children)
        }
        PlanNode::With { input, queries } => {
            let mut shown = describe(input, with);
            let described = queries.iter().map(|query| {
                let mut child = describe(&query.plan.root, with);
                child.label = Some(format!("CTE {}", query.name));
                child
            });
            shown.children.splice(0..0, described);
            shown
        }
        PlanNode::Function { function, name, filter, .. } => {
            let rows = function.rows().unwrap_or(1000.0);
            let mut shown = Shown::new("Function Scan", rows, rows * 0.01, Vec::new());
            shown.title = format!("Function Scan on {}", named(function.name(), name));
            shown.alias = Some(name.clone());
            add_filter(&mut shown, filter.as_ref(), names, with);
            shown
        }
        PlanNode::Single { name, filter, .. } => {
            let mut shown = Shown::new("Function Scan", 1.0, 0.01, Vec::new());
            shown.title = format!("Function Scan on {name}");
            shown.alias = Some(name.clone());
            add_filter(&mut shown, filter.as_ref(), names, with);
            shown
        }
        PlanNode::Values { rows } => {
            let count = rows.len() as f64;
            let mut shown = Shown::new("Values Scan", count, count * 0.0125, Vec::new());
            shown.title = "Values Scan on \"*VALUES*\"".to_owned();
            shown
        }
        PlanNode::Join(join) => {
            let outer = describe_child(&join.outer, names, with);
            let inner = describe_child(&join.inner, names, with);
            let space = with.measures.map(|measures| measures.of(node).space);
            Shown::of_join(join, (outer, inner), space, &show)
        }
        PlanNode::Filter { input, condition } => {
            let mut child = describe_child(input, names, with);
            let once = matches!(**input, PlanNode::Result);
            child.detail(if once { "One-Time Filter" } else { "Filter" }, show(condition));
            child
        }
        PlanNode::Gate { input, condition } => {
            Shown::of_gate(describe_child(input, names, with), condition, show(condition))
        }
        PlanNode::Gather { input, workers } => {
            let launched = with.measures.map(|measures| measures.of(node).threads);
            gathered(describe_child(input, names, with), *workers, launched)
        }
        PlanNode::Aggregate { .. } => aggregate::describe(node, with),
        PlanNode::Window { input, .. } => {
            let expected = estimate(node);
            Shown::new("WindowAgg", expected.rows, expected.total, vec![describe(input, with)])
        }
        PlanNode::Project { input, sets, .. } => {
            let child = describe(input, with);
            if sets.is_empty() {
                return child;
            }
            Shown::new("ProjectSet", child.rows * 1000.0, child.cost + 5.0, vec![child])
        }
        PlanNode::Sort { input, keys, presorted } => {
            let child = describe(input, with);
            let below = Names::of(input);
            Shown::of_sort(child, sort_keys(keys, &below, with), *presorted)
        }
        PlanNode::Unique { input, keys } => {
            let child = describe_child(input, names, with);
            let (rows, cost) = (child.rows, child.cost + child.rows * 0.0125);
            let mut shown = Shown::new("HashAggregate", rows, cost, vec![child]);
            let keys: Vec<String> = keys.iter().map(show).collect();
            shown.list("Group Key", keys);
            shown
        }
        PlanNode::First { input, .. } => {
            let child = describe(input, with);
            Shown::new("Unique", estimate(node).rows, child.cost, vec![child])
        }
        PlanNode::Distinct { input, .. } => {
            let child = describe(input, with);
            Shown::new("HashAggregate", child.rows, child.cost + child.rows * 0.0125, vec![child])
        }
        PlanNode::Limit { input, count, .. } => {
            Shown::of_limit(describe(input, with), count.as_ref())
        }
        PlanNode::LockRows { input, .. } => {
            let child = describe(input, with);
            Shown::new("LockRows", child.rows, child.cost + child.rows * 0.01, vec![child])
        }
        PlanNode::SetOperation { kind, all, left, right, .. } => {
            Shown::of_set_operation(*kind, *all, describe(left, with), describe(right, with))
        }
        PlanNode::Modify(modify) => change::describe_modify(modify, with),
        PlanNode::Merge(merge) => change::describe_merge(merge, with),
    }
}

/// Writes the sort keys of rows.
fn sort_keys(keys: &[SortKey], names: &Names, with: &Describing<'_, '_>) -> Vec<String> {
    let shown = |key: &SortKey| {
        let mut text = sort_key(&key.expr, names, with.exec);
        if key.descending {
            text.push_str(" DESC");
        }
        if key.nulls_first != key.descending {
            text.push_str(if key.nulls_first { " NULLS FIRST" } else { " NULLS LAST" });
        }
        text
    };
    keys.iter().map(shown).collect()
}

/// Adds the Gather step above `part`, which each parallel worker runs, as PostgreSQL shows it.
fn gathered(mut part: Shown, workers: usize, launched: Option<usize>) -> Shown {
    fn mark(shown: &mut Shown) {
        if matches!(shown.node_type, "Seq Scan" | "Append") {
            shown.title = format!("Parallel {}", shown.title);
            shown.parallel = true;
        }
        if shown.node_type == "Append" {
            shown.children.iter_mut().for_each(mark);
        } else if let Some(first) = shown.children.first_mut() {
            mark(first);
        }
    }
    mark(&mut part);
    let mut gather = Shown::new("Gather", part.rows, part.cost, vec![part]);
    let counts = [("Workers Planned", Some(workers)), ("Workers Launched", launched)];
    for (label, count) in counts.into_iter().filter_map(|(label, count)| Some((label, count?))) {
        gather.lines.push(format!("{label}: {count}"));
        gather.number(label, count.to_string());
    }
    gather
}

/// Describes a step below a join, where the columns of all the join's tables have names.
fn describe_child(node: &PlanNode, names: &Names, with: &Describing<'_, '_>) -> Shown {
    match node {
        PlanNode::Scan(_)
        | PlanNode::Append(_)
        | PlanNode::Join(_)
        | PlanNode::Filter { .. }
        | PlanNode::Gate { .. }
        | PlanNode::Gather { .. }
        | PlanNode::Unique { .. }
        | PlanNode::Virtual { .. } => describe_named(node, names, with),
        _ => describe(node, with),
    }
}

fn add_filter(shown: &mut Shown, filter: Option<&Expr>, names: &Names, with: &Describing<'_, '_>) {
    if let Some(filter) = filter {
        shown.detail("Filter", expression(filter, names, with.exec));
    }
}

fn describe_scan(scan: &ScanPlan, names: &Names, with: &Describing<'_, '_>) -> Shown {
    let target = named(&scan.relation.name, &scan.name);
    let names = &names.scanning(scan.start, scan.relation.columns.len());
    let all = |conditions: &[Expr]| {
        let parts: Vec<String> =
            conditions.iter().map(|c| expression(c, names, with.exec)).collect();
        if parts.len() == 1 { parts[0].clone() } else { format!("({})", parts.join(" AND ")) }
    };
    let mut shown = Shown::new("Seq Scan", scan.rows, scan.cost, Vec::new());
    shown.relation = Some(scan.relation.name.clone());
    shown.alias = Some(scan.name.clone());
    match &scan.path {
        PathPlan::Sequential => shown.title = format!("Seq Scan on {target}"),
        PathPlan::Tids { condition, .. } => {
            shown.node_type = "Tid Scan";
            shown.title = format!("Tid Scan on {target}");
            shown.detail("TID Cond", expression(condition, names, with.exec));
        }
        PathPlan::TidRange { conditions, .. } => {
            shown.node_type = "Tid Range Scan";
            shown.title = format!("Tid Range Scan on {target}");
            shown.detail("TID Cond", all(conditions));
        }
        PathPlan::Index(path) => {
            let index = &scan.relation.indexes[path.index].name;
            shown.node_type = if path.only { "Index Only Scan" } else { "Index Scan" };
            let direction = if path.forward { "" } else { " Backward" };
            shown.title = format!(
                "{}{direction} using {} on {target}",
                shown.node_type,
                niwaki_types::quote_identifier(index)
            );
            shown.index = Some(index.clone());
            if shown.cost == 0.0 {
                shown.cost = 8.0;
            }
            if !path.conditions.is_empty() {
                shown.detail("Index Cond", all(&path.conditions));
            }
        }
        PathPlan::Bitmap(path) => {
            shown.node_type = "Bitmap Heap Scan";
            shown.title = format!("Bitmap Heap Scan on {target}");
            if let Some(recheck) = &path.recheck {
                shown.detail("Recheck Cond", expression(recheck, names, with.exec));
            }
            shown.children.push(describe_bitmap(&path.plan, scan, &all));
        }
    }
    add_filter(&mut shown, scan.filter.as_ref(), names, with);
    shown
}

fn describe_bitmap(plan: &BitmapPlan, scan: &ScanPlan, all: &dyn Fn(&[Expr]) -> String) -> Shown {
    let (node_type, plans) = match plan {
        BitmapPlan::Index(path) => {
            let index = &scan.relation.indexes[path.index].name;
            let mut shown = Shown::new("Bitmap Index Scan", path.rows, path.cost, Vec::new());
            let name = niwaki_types::quote_identifier(index);
            shown.title = format!("Bitmap Index Scan on {name}");
            shown.index = Some(index.clone());
            if !path.conditions.is_empty() {
                shown.detail("Index Cond", all(&path.conditions));
            }
            return shown;
        }
        BitmapPlan::And(plans) => ("BitmapAnd", plans),
        BitmapPlan::Or(plans) => ("BitmapOr", plans),
    };
    let children: Vec<Shown> = plans.iter().map(|plan| describe_bitmap(plan, scan, all)).collect();
    let cost = children.iter().map(|child| child.cost).sum();
    Shown::new(node_type, scan.rows, cost, children)
}

/// Adds the nested queries of a step's expressions below the step.
fn add_nested(node: &PlanNode, shown: &mut Shown, with: &Describing<'_, '_>) {
    let mut exprs: Vec<&Expr> = Vec::new();
    match node {
        PlanNode::Project { exprs: list, .. } => exprs.extend(list),
        PlanNode::Filter { condition, .. } | PlanNode::Gate { condition, .. } => {
            exprs.push(condition);
        }
        PlanNode::Window { plan, .. } => {
            exprs.extend(plan.over_kept.calls.iter().flat_map(|(_, body)| body.exprs()));
        }
        PlanNode::Join(join) => exprs.extend(&join.condition),
        PlanNode::Scan(scan) => exprs.extend(&scan.filter),
        PlanNode::Modify(modify) => {
            exprs.extend(modify.values.iter().flatten());
            if let Some(update) = modify.conflict.as_ref().and_then(|c| c.update.as_ref()) {
                exprs.extend(update.values.iter().flatten());
                exprs.extend(&update.condition);
            }
        }
        PlanNode::Merge(merge) => {
            for action in &merge.actions {
                exprs.extend(&action.condition);
                let values = action.change.iter().flat_map(|change| &change.values);
                exprs.extend(values.flatten());
            }
        }
        _ => {}
    }
    let mut found = Vec::new();
    for expr in exprs {
        nested(expr, &mut found);
    }
    for sub in found {
        let Nested::Plan(plan) = &sub.query else { continue };
        let mut child = describe(&plan.root, with);
        let kind = match &sub.kind {
            SubQueryKind::Exists | SubQueryKind::Compare { .. } => "SubPlan",
            SubQueryKind::CompareRows(rows) if rows.with != Quantifier::Only => "SubPlan",
            _ if plan.correlated => "SubPlan",
            _ => "InitPlan",
        };
        child.label = Some(format!("{kind} {}", plan.number + 1));
        shown.children.push(child);
    }
}

fn nested<'e>(expr: &'e Expr, found: &mut Vec<&'e niwaki_expr::expr::SubQuery>) {
    if let ExprKind::SubQuery(sub) = &expr.kind {
        found.push(sub);
    }
    expr.for_each_child(&mut |child| nested(child, found));
}
