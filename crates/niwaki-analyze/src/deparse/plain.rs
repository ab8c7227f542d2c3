//! Writes expressions as text, with the names of the columns they read.

use std::rc::Rc;

use niwaki_catalog::Relation;
use niwaki_env::hash::HashMap;
use niwaki_env::stack;
use niwaki_expr::context::ExecContext;
use niwaki_expr::expr::{
    BoolTest, CastPurpose, Expr, ExprKind, Nested, SubQuery, Subscripts, is_hashed, value_text,
};
use niwaki_expr::function::Function;
use niwaki_expr::plan::{ModifyPlan, PlanNode};
use niwaki_expr::query::{AggregateCall, ConflictUpdate, WindowBody};
use niwaki_functions::functions::{arguments_text, string_constant};
use niwaki_parse::types::format_type;
use niwaki_types::{ColumnType, Datum, TypeOid};

/// The computation of a step.
#[derive(Clone)]
enum Computed {
    Expr(Expr),
    Window(WindowBody),
}

/// The names of slots.
#[derive(Clone, Default)]
pub struct Names {
    slots: HashMap<usize, (String, String)>,
    /// Slots whose values a step below computes.
    computed: HashMap<usize, (Rc<Names>, Computed)>,
    tables: usize,
    /// Slots whose names are written without a table.
    own: std::ops::Range<usize>,
}

impl Names {
    /// Collects the names of a plan step's input columns.
    pub fn of(node: &PlanNode) -> Self {
        let mut names = Self::default();
        names.collect(node);
        names
    }

    /// Collects the names of the existing row, and of `excluded`, the row proposed for insertion.
    pub fn of_conflict(modify: &ModifyPlan, update: &ConflictUpdate) -> Self {
        let mut names = Self::default();
        names.add_relation(&modify.relation, &modify.name, modify.start);
        names.add_relation(&modify.relation, "excluded", update.excluded);
        names
    }

    fn collect(&mut self, node: &PlanNode) {
        match node {
            PlanNode::Scan(scan) => {
                self.add_relation(&scan.relation, &scan.name, scan.start);
            }
            PlanNode::Append(append) => {
                self.add_relation(&append.relation, &append.name, append.start);
                // The partitions are tables of the query too.
                self.tables += 1;
            }
            PlanNode::Virtual { relation, name, start, .. } => {
                self.add_relation(relation, name, *start);
            }
            PlanNode::SubQuery { plan, name, start, .. }
            | PlanNode::Shared { plan, name, start, .. } => {
                self.tables += 1;
                for (number, column) in plan.columns.iter().enumerate() {
                    self.slots.insert(start + number, (name.clone(), column.name.clone()));
                }
            }
            PlanNode::Working(plan) => {
                self.tables += 1;
                for (number, column) in plan.columns.iter().enumerate() {
                    let name = (plan.name.clone(), column.name.clone());
                    self.slots.insert(plan.start + number, name);
                }
            }
            PlanNode::Function { function, arguments, name, start, .. } => {
                self.tables += 1;
                let columns: Vec<String> = match function.fields(arguments) {
                    Some(all) => all.iter().map(|(column, _)| column.to_string()).collect(),
                    None => vec![function.column_name().unwrap_or(name).to_owned()],
                };
                for (number, column) in columns.into_iter().enumerate() {
                    self.slots.insert(start + number, (name.clone(), column));
                }
            }
            PlanNode::Single { expr, name, start, .. } => {
                self.tables += 1;
                let column = expr.lone_column().unwrap_or(name).to_owned();
                self.slots.insert(*start, (name.clone(), column));
            }
            PlanNode::Join(join) => {
                self.collect(&join.outer);
                self.collect(&join.inner);
            }
            PlanNode::Filter { input, .. }
            | PlanNode::Gate { input, .. }
            | PlanNode::Gather { input, .. }
            | PlanNode::LockRows { input, .. }
            | PlanNode::Limit { input, .. }
            | PlanNode::Unique { input, .. }
            | PlanNode::With { input, .. }
            | PlanNode::First { input, .. }
            | PlanNode::Distinct { input, .. } => self.collect(input),
            PlanNode::Sort { input, .. } => self.collect(input),
            PlanNode::Project { input, exprs, .. } => {
                self.collect_computed(Rc::new(Self::of(input)), exprs);
            }
            PlanNode::Window { input, plan } => {
                let below = Rc::new(Self::of(input));
                self.clone_from(&below);
                for (slot, body) in &plan.over_input.calls {
                    let computed = (Rc::clone(&below), Computed::Window(body.clone()));
                    self.computed.insert(*slot, computed);
                }
            }
            PlanNode::Aggregate { input, groups, sets, calls, .. } => {
                self.collect_groups(&Self::of(input), groups, calls, &sets.calls);
            }
            PlanNode::Result
            | PlanNode::Values { .. }
            | PlanNode::SetOperation { .. }
            | PlanNode::Recursive(_) => {}
            PlanNode::Modify(modify) => self.collect(&modify.input),
            PlanNode::Merge(merge) => self.collect(&merge.input),
        }
    }

    /// Collects the names of expressions over the rows below.
    fn collect_computed(&mut self, below: Rc<Self>, exprs: &[Expr]) {
        self.tables = below.tables;
        for (number, expr) in exprs.iter().enumerate() {
            if let ExprKind::Slot { depth: 0, slot } = &expr.kind {
                if let Some(name) = below.slots.get(slot) {
                    self.slots.insert(number, name.clone());
                } else if let Some(computed) = below.computed.get(slot) {
                    self.computed.insert(number, computed.clone());
                }
            } else if !matches!(expr.kind, ExprKind::SetReturning(_)) {
                let computed = (Rc::clone(&below), Computed::Expr(expr.clone()));
                self.computed.insert(number, computed);
            }
        }
    }

    /// Collects the names of groups over the rows below: group expressions, aggregates, and the
    /// results of GROUPING, whose arguments `groupings` lists.
    fn collect_groups(
        &mut self,
        below: &Self,
        groups: &[Expr],
        calls: &[AggregateCall],
        groupings: &[Vec<usize>],
    ) {
        self.tables = below.tables;
        for (number, expr) in groups.iter().enumerate() {
            if let ExprKind::Slot { depth: 0, slot } = &expr.kind
                && let Some(name) = below.slots.get(slot)
            {
                self.slots.insert(number, name.clone());
            }
        }
        for (number, call) in calls.iter().enumerate() {
            let text = if call.arguments.is_empty() {
                format!("{}(*)", call.name)
            } else {
                format!("{}(…)", call.name)
            };
            self.slots.insert(groups.len() + number, (String::new(), text));
        }
        let first = groups.len() + calls.len();
        for (number, arguments) in groupings.iter().enumerate() {
            let names: Vec<String> = arguments.iter().map(|group| self.slot(*group)).collect();
            let text = format!("GROUPING({})", names.join(", "));
            self.slots.insert(first + number, (String::new(), text));
        }
    }

    /// Adds the columns of a relation, from slot `start` on.
    pub fn add_relation(&mut self, relation: &Relation, name: &str, start: usize) {
        self.tables += 1;
        for (number, column) in relation.columns.iter().enumerate() {
            self.slots.insert(start + number, (name.to_owned(), column.name.clone()));
        }
        let first = start + relation.columns.len();
        for (number, system) in ["ctid", "tableoid", "xmin"].iter().enumerate() {
            self.slots.insert(first + number, (name.to_owned(), (*system).to_owned()));
        }
    }

    /// Returns the same names for the conditions of a scan. Columns of the scanned table, from slot
    /// `start` on, are written without the table.
    pub fn scanning(&self, start: usize, width: usize) -> Self {
        Self { own: start..start + width + 3, ..self.clone() }
    }

    /// Returns the same names, each with its table.
    pub fn qualified(&self) -> Self {
        Self { tables: self.tables + 2, own: 0..0, ..self.clone() }
    }

    /// Returns the names of a range of slots, in slot order. Slots without a name are left out.
    pub fn range(&self, range: std::ops::Range<usize>) -> Vec<String> {
        let mut slots: Vec<usize> =
            self.slots.keys().copied().filter(|slot| range.contains(slot)).collect();
        slots.sort_unstable();
        slots.into_iter().map(|slot| self.slot(slot)).collect()
    }

    fn slot(&self, slot: usize) -> String {
        match self.slots.get(&slot) {
            Some((table, column)) => {
                let column = if column.contains('(') {
                    column.clone()
                } else {
                    niwaki_types::quote_identifier(column)
                };
                if self.tables > 1 && !table.is_empty() && !self.own.contains(&slot) {
                    format!("{}.{column}", niwaki_types::quote_identifier(table))
                } else {
                    column
                }
            }
            None => format!("column{}", slot + 1),
        }
    }
}

/// Writes an expression over the columns of one table as text.
pub(crate) fn table_expression(expr: &Expr, relation: &Relation, exec: &ExecContext<'_>) -> String {
    let mut names = Names::default();
    names.add_relation(relation, &relation.name, 0);
    expression(expr, &names, exec)
}

/// Writes a sort key as text: results of steps below stand in brackets.
pub fn sort_key(expr: &Expr, names: &Names, exec: &ExecContext<'_>) -> String {
    let text = expression(expr, names, exec);
    let ExprKind::Slot { depth: 0, slot } = expr.kind else { return text };
    match names.slots.get(&slot) {
        Some((table, column))
            if table.is_empty() && column.contains('(') && !names.computed.contains_key(&slot) =>
        {
            format!("({text})")
        }
        _ => text,
    }
}

/// Writes an expression as text.
pub fn expression(expr: &Expr, names: &Names, exec: &ExecContext<'_>) -> String {
    stack::room(0, || expression_here(expr, names, exec))
}

fn expression_here(expr: &Expr, names: &Names, exec: &ExecContext<'_>) -> String {
    let show = |e: &Expr| expression(e, names, exec);
    let list = |exprs: &[Expr]| exprs.iter().map(&show).collect::<Vec<_>>().join(", ");
    let joined = |exprs: &[Expr], word: &str| {
        format!("({})", exprs.iter().map(&show).collect::<Vec<_>>().join(word))
    };
    match &expr.kind {
        ExprKind::Const(value) => constant(value, expr.ty, exec),
        ExprKind::Param(number) => format!("${}", number + 1),
        ExprKind::Slot { depth: 0, slot } => match names.computed.get(slot) {
            Some((below, Computed::Expr(expr))) => format!("({})", expression(expr, below, exec)),
            Some((below, Computed::Window(body))) => {
                format!("({} OVER (?))", window_function(body, below, exec))
            }
            None => names.slot(*slot),
        },
        ExprKind::Slot { .. } => "$0".to_owned(),
        ExprKind::Call { function, arguments } => call_text(function, arguments, names, exec),
        ExprKind::UserCall { function, arguments } => {
            function.call(arguments.iter().map(&show).collect(), exec.catalog, exec.path)
        }
        ExprKind::Populated { records, arguments } => {
            format!("{}({})", records.function.name, list(arguments))
        }
        ExprKind::Cast { argument, purpose: CastPurpose::Compared, .. } => show(argument),
        ExprKind::Cast { argument, .. }
        | ExprKind::Length { argument, .. }
        | ExprKind::Domain { argument, .. } => {
            format!("({})::{}", show(argument), type_text(expr.column_type(), exec))
        }
        ExprKind::And(parts) => joined(parts, " AND "),
        ExprKind::Or(parts) => joined(parts, " OR "),
        ExprKind::Not(part) => format!("(NOT {})", show(part)),
        ExprKind::IsNull { argument, negated } => {
            format!("({} IS {}NULL)", show(argument), if *negated { "NOT " } else { "" })
        }
        ExprKind::BoolTest { argument, test } => {
            let word = test_word(*test);
            format!("({} IS {word})", show(argument))
        }
        ExprKind::Case { operand, branches, default } => {
            let (operand, default) = (operand.as_deref(), default.as_deref());
            case_text(expr.ty, operand, branches, default, names, exec)
        }
        ExprKind::CaseOperand => "CASE_TEST_EXPR".to_owned(),
        ExprKind::Coalesce(parts) => format!("COALESCE({})", list(parts)),
        ExprKind::NullIf { result, equal } => match &equal.kind {
            ExprKind::Call { arguments, .. } if arguments.len() == 2 => {
                format!("NULLIF({}, {})", show(result), show(&arguments[1]))
            }
            _ => format!("NULLIF({})", show(result)),
        },
        ExprKind::MinMax { greatest, arguments } => {
            format!("{}({})", if *greatest { "GREATEST" } else { "LEAST" }, list(arguments))
        }
        ExprKind::Distinct { left, right, negated, .. } => {
            let word = if *negated { "IS NOT DISTINCT FROM" } else { "IS DISTINCT FROM" };
            format!("({} {word} {})", show(left), show(right))
        }
        ExprKind::Array(parts) => match constants_text(parts, exec) {
            Some(values) => format!("'{{{values}}}'::{}", shown_type(expr.ty, exec)),
            None => format!("ARRAY[{}]", list(parts)),
        },
        ExprKind::Row(row) => match &row.of_item {
            Some((item, _)) => format!("{}.*", niwaki_types::quote_identifier(item)),
            None if expr.ty.is_composite() => {
                format!("ROW({})::{}", list(&row.fields), shown_type(expr.ty, exec))
            }
            None => format!("ROW({})", list(&row.fields)),
        },
        ExprKind::Field { argument, name, .. } => {
            format!("({}).{}", show(argument), niwaki_types::quote_identifier(name))
        }
        ExprKind::RowNull { argument, negated } => {
            format!("({} IS {}NULL)", show(argument), if *negated { "NOT " } else { "" })
        }
        ExprKind::AssignField { record, name, .. } => {
            format!("({}).{}", show(record), niwaki_types::quote_identifier(name))
        }
        ExprKind::Subscript { array, subscripts }
        | ExprKind::AssignPart { array, subscripts, .. } => {
            format!("{}{}", show(array), subscripts_text(subscripts, names, exec))
        }
        ExprKind::ArrayCompare { function, any, left, right, .. } => {
            let word = if *any { "ANY" } else { "ALL" };
            format!("({} {} {word} ({}))", show(left), function.name, show(right))
        }
        ExprKind::SubQuery(sub) => sub_query_text(sub),
        ExprKind::CurrentOf { cursor, .. } => {
            format!("CURRENT OF {}", niwaki_types::quote_identifier(cursor))
        }
        ExprKind::Aggregate(_)
        | ExprKind::Grouping(_)
        | ExprKind::Window(_)
        | ExprKind::SetReturning(_) => "…".to_owned(),
    }
}

/// Writes a call of a built-in function or operator.
#[inline(never)]
fn call_text(
    function: &'static Function,
    arguments: &[Expr],
    names: &Names,
    exec: &ExecContext<'_>,
) -> String {
    let show = |e: &Expr| expression(e, names, exec);
    let is_operator = !function.name.starts_with(|c: char| c.is_ascii_alphabetic());
    match (is_operator, arguments) {
        (true, [left, right]) => format!("({} {} {})", show(left), function.name, show(right)),
        (true, [only]) => format!("({} {})", function.name, show(only)),
        _ => {
            let arguments = arguments_text(function, arguments.iter().map(show).collect());
            format!("{}({arguments})", function.name)
        }
    }
}

fn test_word(test: BoolTest) -> &'static str {
    match test {
        BoolTest::True => "TRUE",
        BoolTest::NotTrue => "NOT TRUE",
        BoolTest::False => "FALSE",
        BoolTest::NotFalse => "NOT FALSE",
        BoolTest::Unknown => "UNKNOWN",
        BoolTest::NotUnknown => "NOT UNKNOWN",
    }
}

/// Writes CASE of type `ty`.
#[inline(never)]
fn case_text(
    ty: TypeOid,
    operand: Option<&Expr>,
    branches: &[(Expr, Expr)],
    default: Option<&Expr>,
    names: &Names,
    exec: &ExecContext<'_>,
) -> String {
    let show = |e: &Expr| expression(e, names, exec);
    let mut text = "CASE".to_owned();
    if let Some(operand) = operand {
        text.push_str(&format!(" {}", show(operand)));
    }
    for (condition, result) in branches {
        // With an operand, the analyzed condition holds the comparison; the text shows only its
        // right side.
        let shown = match (operand, &condition.kind) {
            (Some(_), ExprKind::Call { arguments, .. }) if arguments.len() == 2 => {
                show(&arguments[1])
            }
            _ => show(condition),
        };
        text.push_str(&format!(" WHEN {shown} THEN {}", show(result)));
    }
    let otherwise = default.map_or_else(|| format!("NULL::{}", shown_type(ty, exec)), show);
    text.push_str(&format!(" ELSE {otherwise} END"));
    text
}

/// Writes the elements of an array if all are constants, and none is NULL.
fn constants_text(parts: &[Expr], exec: &ExecContext<'_>) -> Option<String> {
    let constant = |part: &Expr| match &part.kind {
        ExprKind::Const(value) if !value.is_null() => Some(value_text(value, part.ty, exec)),
        _ => None,
    };
    let values: Option<Vec<String>> = parts.iter().map(constant).collect();
    values.map(|values| values.join(","))
}

/// Writes the subscripts behind an array.
#[inline(never)]
fn subscripts_text(subscripts: &Subscripts, names: &Names, exec: &ExecContext<'_>) -> String {
    let show = |bound: &Option<Expr>| {
        bound.as_ref().map_or_else(String::new, |bound| expression(bound, names, exec))
    };
    let mut text = String::new();
    for [lower, upper] in &subscripts.bounds {
        text.push_str(&if subscripts.slice {
            format!("[{}:{}]", show(lower), show(upper))
        } else {
            format!("[{}]", show(upper))
        });
    }
    text
}

fn sub_query_text(sub: &SubQuery) -> String {
    match &sub.query {
        Nested::Plan(plan) => {
            let hashed = if is_hashed(sub, plan) { "hashed " } else { "" };
            format!("({hashed}SubPlan {})", plan.number + 1)
        }
        Nested::Query(_) => "(SubPlan)".to_owned(),
    }
}

/// Writes a call of a window function, without its window.
fn window_function(body: &WindowBody, names: &Names, exec: &ExecContext<'_>) -> String {
    let list = |exprs: &[Expr]| {
        exprs.iter().map(|e| expression(e, names, exec)).collect::<Vec<_>>().join(", ")
    };
    match body {
        WindowBody::Function(function, arguments) => {
            format!("{}({})", function.name(), list(arguments))
        }
        WindowBody::Aggregate(call) => {
            let arguments =
                if call.arguments.is_empty() { "*".to_owned() } else { list(&call.arguments) };
            let filter = call.filter.as_ref().map_or_else(String::new, |filter| {
                format!(" FILTER (WHERE {})", expression(filter, names, exec))
            });
            format!("{}({arguments}){filter}", call.name)
        }
    }
}

fn constant(value: &Datum, ty: TypeOid, exec: &ExecContext<'_>) -> String {
    match value {
        Datum::Null => format!("NULL::{}", shown_type(ty, exec)),
        Datum::Int4(v) if *v >= 0 => v.to_string(),
        Datum::Numeric(_) => value_text(value, ty, exec),
        Datum::Bool(v) => v.to_string(),
        value => {
            format!("{}::{}", string_constant(&value_text(value, ty, exec)), shown_type(ty, exec))
        }
    }
}

fn shown_type(oid: TypeOid, exec: &ExecContext<'_>) -> String {
    type_text(oid.into(), exec)
}

/// Returns a type's name for expressions. A user's type has its schema where the search path does
/// not find the type.
pub(crate) fn type_text(column: ColumnType, exec: &ExecContext<'_>) -> String {
    let declared = column.declared();
    exec.text.types.shown(declared).unwrap_or_else(|| format_type(column))
}
