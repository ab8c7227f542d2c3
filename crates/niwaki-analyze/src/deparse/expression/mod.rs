//! Shows stored expressions as PostgreSQL does: defaults, checks, keys and predicates of indexes.

mod syntax;

use std::sync::Arc;

use niwaki_catalog::{
    CatalogState, Column, Relation, RelationDefinition, SearchPath, collation_name,
};
use niwaki_env::stack;
use niwaki_expr::analysis::AnalyzeContext;
use niwaki_expr::context::ExecContext;
use niwaki_expr::expr::{BoolTest, CastPurpose, Expr, ExprKind, UserFunction};
use niwaki_expr::function::Function;
use niwaki_expr::query::SetFunction;
use niwaki_expr::sessionless;
use niwaki_functions::functions::arguments_text;
use niwaki_parse::error::{Result, SqlError};
use niwaki_types::{ColumnType, Datum, TextSettings, TypeOid, quote_identifier};

use super::plain::{table_expression, type_text};
use super::{Level, nested};
use crate::analyze::{SYSTEM_COLUMNS, domain_check, shown_condition, stored_expression};

/// Values of the session with names of their own, which are shown instead of function calls.
const VALUE_FUNCTIONS: &[&str] = &[
    "CURRENT_DATE",
    "CURRENT_TIME",
    "CURRENT_TIMESTAMP",
    "LOCALTIME",
    "LOCALTIMESTAMP",
    "CURRENT_USER",
    "SESSION_USER",
];

/// Shows an expression over the columns of `relation`, or the default of a column (`target`: type
/// and name), as PostgreSQL does, with all brackets.
///
/// # Errors
/// Errors of analysis, when the text cannot be read any more.
pub fn deparse_expression(
    text: &str,
    relation: Option<&Arc<Relation>>,
    target: Option<(ColumnType, &str)>,
    catalog: &CatalogState,
    path: &SearchPath,
) -> Result<String> {
    show(text, relation, target, catalog, path, false)
}

/// Does the work of [`deparse_expression`], without needless brackets if `pretty`.
///
/// # Errors
/// As [`deparse_expression`].
pub fn show(
    text: &str,
    relation: Option<&Arc<Relation>>,
    target: Option<(ColumnType, &str)>,
    catalog: &CatalogState,
    path: &SearchPath,
    pretty: bool,
) -> Result<String> {
    let word = text.trim().to_ascii_uppercase();
    if VALUE_FUNCTIONS.contains(&word.as_str()) {
        return Ok(word);
    }
    let settings = TextSettings { types: catalog.types_shown(path), ..TextSettings::default() };
    let context =
        AnalyzeContext { catalog, path, text: &settings, ..sessionless::analyze_context(0) };
    stack::whole(|| {
        let expr = stored_expression(text, relation, &context, target.map(|(column, _)| column))?;
        // A conversion that the assignment implies is not shown.
        let expr = match expr.kind {
            ExprKind::Cast { argument, purpose: CastPurpose::Implied, .. }
            | ExprKind::Length { argument, explicit: false } => *argument,
            _ => expr,
        };
        Ok(written(&expr, &context, relation, pretty, false))
    })
}

/// Shows the CHECK of a domain over values of the type `value`, as PostgreSQL does: with all
/// brackets, or without needless ones if `pretty`.
///
/// # Errors
/// Errors of analysis, when the text cannot be read any more.
pub fn deparse_domain_check(
    text: &str,
    value: ColumnType,
    catalog: &CatalogState,
    path: &SearchPath,
    pretty: bool,
) -> Result<String> {
    let settings = TextSettings { types: catalog.types_shown(path), ..TextSettings::default() };
    let context =
        AnalyzeContext { catalog, path, text: &settings, ..sessionless::analyze_context(0) };
    // A row with the value as its only column.
    let columns = vec![Column::new(VALUE, value)];
    let row = Arc::new(Relation::unopened(RelationDefinition { columns, ..nothing() }));
    stack::whole(|| {
        let expr = domain_check(text, value, &context)?;
        Ok(written(&expr, &context, Some(&row), pretty, true))
    })
}

/// Shows the WHEN condition of a trigger as PostgreSQL does: with all brackets, or without needless
/// ones if `pretty`.
pub fn trigger_condition(
    text: &str,
    table: &Arc<Relation>,
    catalog: &CatalogState,
    path: &SearchPath,
    pretty: bool,
) -> String {
    let plain = || if pretty { text.to_owned() } else { format!("({text})") };
    let settings = TextSettings { types: catalog.types_shown(path), ..TextSettings::default() };
    let context =
        AnalyzeContext { catalog, path, text: &settings, ..sessionless::analyze_context(0) };
    // A row with the columns of both rows. Its column names stand for the dotted names, such as
    // `new.a`.
    let stand_in = |row: &str, at: usize| format!("niwaki_{row}_{at}_");
    let of_row = |row: &'static str| {
        table
            .columns
            .iter()
            .enumerate()
            .map(move |(at, column)| Column { name: stand_in(row, at), ..column.clone() })
    };
    let columns: Vec<Column> = of_row("old").chain(of_row("new")).collect();
    let row = Arc::new(Relation::unopened(RelationDefinition { columns, ..nothing() }));
    let shown = stack::whole(|| {
        let expr = shown_condition(text, table, &context)?;
        Ok::<_, SqlError>(expr.map(|expr| written(&expr, &context, Some(&row), pretty, false)))
    });
    let Ok(Some(mut shown)) = shown else { return plain() };
    for row in ["old", "new"] {
        for (at, column) in table.columns.iter().enumerate() {
            let name = format!("{row}.{}", quote_identifier(&column.name));
            shown = shown.replace(&stand_in(row, at), &name);
        }
    }
    shown
}

/// The name of the value in the checks of a domain.
const VALUE: &str = "VALUE";

fn written(
    expr: &Expr,
    context: &AnalyzeContext<'_>,
    relation: Option<&Arc<Relation>>,
    pretty: bool,
    of_domain: bool,
) -> String {
    sessionless::with_names(context, |exec| {
        let writer = Writer { relation, level: None, pretty, of_domain, indent: 0, exec };
        writer.show(expr, Parent::None)
    })
}

/// Shows an analyzed expression over the columns of a table, with all brackets.
pub(crate) fn deparse_over(
    expr: &Expr,
    relation: &Arc<Relation>,
    context: &AnalyzeContext<'_>,
) -> String {
    written(expr, context, Some(relation), false, false)
}

/// The construct around an expression, which decides whether brackets are needless.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Parent<'p> {
    /// No construct, or one with brackets of its own.
    None,
    /// AND
    And,
    /// OR
    Or,
    /// NOT
    Not,
    /// An operator; true for the left operand.
    Operator(&'p str, bool),
    /// A construct that binds tighter than all operators.
    Tight,
}

/// Writes expressions: over the columns of a relation, or inside a query.
pub struct Writer<'w, 'e> {
    relation: Option<&'w Arc<Relation>>,
    /// The query around the expression, which knows the names of slots.
    level: Option<&'w Level<'w>>,
    pretty: bool,
    /// True if the relation is the row that a domain's check reads.
    of_domain: bool,
    /// The columns that lines inside an expression are indented by.
    indent: usize,
    exec: &'w ExecContext<'e>,
}

/// Returns the integer form in which a constant of another type was written.
fn written_as_integer(value: &Datum) -> Option<i32> {
    match value {
        // A constant written with a point would have digits after it, or would not be an integer.
        Datum::Numeric(number) => {
            let text = number.to_string();
            text.parse().ok()
        }
        #[expect(clippy::cast_possible_truncation, reason = "compared with the integer right away")]
        Datum::Float8(number) => {
            let integer = *number as i32;
            (f64::from(integer).to_bits() == number.to_bits()).then_some(integer)
        }
        _ => None,
    }
}

/// Returns the precedence of an arithmetic operator; higher binds tighter.
fn tightness(operator: &str) -> Option<u8> {
    match operator {
        "+" | "-" => Some(1),
        "*" | "/" | "%" => Some(2),
        _ => None,
    }
}

impl<'w, 'e> Writer<'w, 'e> {
    /// Creates a writer for expressions inside a query.
    pub fn over(
        level: &'w Level<'w>,
        pretty: bool,
        indent: usize,
        exec: &'w ExecContext<'e>,
    ) -> Self {
        let (relation, of_domain) = (None, false);
        Self { relation, level: Some(level), pretty, of_domain, indent, exec }
    }

    /// Creates a writer in the same style for expressions on another level.
    pub fn on<'o>(&'o self, level: &'o Level<'o>) -> Writer<'o, 'e> {
        Writer { level: Some(level), ..*self }
    }

    /// Returns the query level, if there is one.
    pub fn level(&self) -> Option<&'w Level<'w>> {
        self.level
    }

    pub(crate) fn is_pretty(&self) -> bool {
        self.pretty
    }

    /// Returns the columns by which lines are indented.
    pub fn indent(&self) -> usize {
        self.indent
    }

    /// Writes a call of a set-returning function.
    pub(crate) fn set_call(&self, function: &SetFunction, arguments: &[Expr]) -> String {
        let name = match function {
            SetFunction::Builtin(function) => function.sql_name(),
            SetFunction::Records(records) => records.function.sql_name(),
            SetFunction::User { function, .. } => return self.user_call(function, arguments),
        };
        format!("{name}({})", self.list(arguments))
    }

    fn user_call(&self, function: &UserFunction, arguments: &[Expr]) -> String {
        function.call(self.each(arguments), self.exec.catalog, self.exec.path)
    }

    /// Returns the context in which constants are shown.
    pub fn exec(&self) -> &'w ExecContext<'e> {
        self.exec
    }

    /// Decides whether a slot stands for a computed value.
    pub(crate) fn stands_for_call(&self, expr: &Expr) -> bool {
        self.level.is_some_and(|level| level.is_computed(expr))
    }

    /// Decides whether a slot stands for GROUPING.
    pub(crate) fn stands_for_grouping(&self, expr: &Expr) -> bool {
        self.level.is_some_and(|level| level.is_grouping(expr))
    }

    /// Writes the name of a column with a cast to another type of the same bytes.
    pub(crate) fn relabelled(&self, name: &str, expr: &Expr) -> String {
        let kind = self.type_name(ColumnType { typmod: -1, ..expr.column_type() });
        if self.pretty { format!("{name}::{kind}") } else { format!("({name})::{kind}") }
    }
}

impl Writer<'_, '_> {
    /// Puts brackets around a text, unless they are needless and left out.
    fn bracketed(&self, text: String, needed: bool) -> String {
        if needed || !self.pretty { format!("({text})") } else { text }
    }

    /// Adds brackets to a query in pretty style. The query already has brackets of its own.
    fn bracketed_pretty(&self, text: String) -> String {
        if self.pretty { format!("({text})") } else { text }
    }

    /// Returns the texts of expressions, with commas between them.
    pub fn list(&self, exprs: &[Expr]) -> String {
        self.each(exprs).join(", ")
    }

    fn each(&self, exprs: &[Expr]) -> Vec<String> {
        exprs.iter().map(|e| self.show(e, Parent::None)).collect()
    }

    fn operator(&self, name: &str, operands: &[Expr], parent: Parent<'_>) -> String {
        let text = match operands {
            [left, right] => format!(
                "{} {name} {}",
                self.show(left, Parent::Operator(name, true)),
                self.show(right, Parent::Operator(name, false))
            ),
            operands => {
                let shown = operands.iter().map(|e| self.show(e, Parent::Operator(name, false)));
                format!("{name} {}", shown.collect::<Vec<_>>().join(" "))
            }
        };
        let needed = match parent {
            Parent::None | Parent::And | Parent::Or | Parent::Not => false,
            Parent::Tight => true,
            Parent::Operator(outer, left) => match (tightness(outer), tightness(name)) {
                (Some(outer), Some(own)) => !(own > outer || (own == outer && left)),
                _ => true,
            },
        };
        self.bracketed(text, needed)
    }

    /// Returns the text of an expression inside `parent`.
    pub fn show(&self, expr: &Expr, parent: Parent<'_>) -> String {
        stack::room(0, || self.show_here(expr, parent))
    }

    fn show_here(&self, expr: &Expr, parent: Parent<'_>) -> String {
        if let Some(name) = expr.collation.and_then(collation_name) {
            let plain = Expr { collation: None, ..expr.clone() };
            let text =
                format!("{} COLLATE {}", self.show(&plain, Parent::Tight), quote_identifier(name));
            return self.bracketed(text, parent != Parent::None);
        }
        // Another type for the same bytes is a cast without work, so the expression tree has no
        // node for it.
        let of_group = || self.level.and_then(|level| level.group_type(expr));
        if let Some(own) = expr.made_type().or_else(of_group).filter(|own| *own != expr.ty) {
            let argument = Expr { ty: own, typmod: -1, domain: None, ..expr.clone() };
            let kind = ExprKind::Cast {
                argument: Box::new(argument),
                from: own,
                purpose: CastPurpose::Written,
            };
            return self.show(&Expr::new(kind, expr.ty, expr.location), parent);
        }
        if let Some(text) = self.level.and_then(|level| self.inside(level, expr, parent)) {
            return text;
        }
        match &expr.kind {
            ExprKind::Slot { depth: 0, slot } => self.slot(*slot, expr),
            ExprKind::Const(value) => match written_as_integer(value) {
                Some(integer) => {
                    let text = match integer {
                        0.. => integer.to_string(),
                        _ => format!("'{integer}'::integer"),
                    };
                    let text = if self.pretty { text } else { format!("({text})") };
                    format!("{text}::{}", self.type_name(expr.ty.into()))
                }
                None => self.constant(value, expr, parent),
            },
            ExprKind::Distinct { left, right, negated, .. } => {
                let word = if *negated { "IS NOT DISTINCT FROM" } else { "IS DISTINCT FROM" };
                let left = self.show(left, Parent::Tight);
                let text = format!("{left} {word} {}", self.show(right, Parent::Tight));
                self.bracketed(text, matches!(parent, Parent::Operator(..) | Parent::Tight))
            }
            ExprKind::Call { function, arguments } => self.call(function, arguments, expr, parent),
            ExprKind::UserCall { function, arguments } => self.user_call(function, arguments),
            ExprKind::Populated { records, arguments } => {
                format!("{}({})", records.function.sql_name(), self.list(arguments))
            }
            // The comparison takes both types, so the cast is not shown.
            ExprKind::Cast { argument, purpose: CastPurpose::Compared, .. } => {
                self.show(argument, parent)
            }
            ExprKind::Cast { argument, .. }
            | ExprKind::Length { argument, .. }
            | ExprKind::Domain { argument, .. } => self.cast(expr, argument),
            ExprKind::And(parts) => {
                let shown = parts.iter().map(|part| self.show(part, Parent::And));
                let text = shown.collect::<Vec<_>>().join(" AND ");
                self.bracketed(text, !matches!(parent, Parent::None | Parent::And | Parent::Or))
            }
            ExprKind::Or(parts) => {
                let shown = parts.iter().map(|part| self.show(part, Parent::Or));
                let text = shown.collect::<Vec<_>>().join(" OR ");
                self.bracketed(text, !matches!(parent, Parent::None | Parent::Or))
            }
            ExprKind::Not(part) => {
                let text = format!("NOT {}", self.show(part, Parent::Not));
                self.bracketed(text, matches!(parent, Parent::Operator(..) | Parent::Tight))
            }
            ExprKind::IsNull { argument, negated } => self.null_test(argument, *negated, parent),
            ExprKind::BoolTest { argument, test } => {
                let word = test_words(*test);
                let text = format!("{} {word}", self.show(argument, Parent::Tight));
                self.bracketed(text, matches!(parent, Parent::Operator(..) | Parent::Tight))
            }
            ExprKind::Coalesce(parts) => format!("COALESCE({})", self.list(parts)),
            ExprKind::MinMax { greatest, arguments } => {
                let name = if *greatest { "GREATEST" } else { "LEAST" };
                format!("{name}({})", self.list(arguments))
            }
            ExprKind::Row(row) if row.of_item.is_none() => {
                let text = format!("ROW({})", self.list(&row.fields));
                if expr.ty.is_composite() {
                    format!("{text}::{}", self.type_name(expr.ty.into()))
                } else {
                    text
                }
            }
            ExprKind::Field { argument, name, .. } => {
                format!("({}).{}", self.show(argument, Parent::None), quote_identifier(name))
            }
            ExprKind::RowNull { argument, negated } => self.null_test(argument, *negated, parent),
            ExprKind::Array(parts) if parts.is_empty() => {
                format!("'{{}}'::{}", self.type_name(expr.ty.into()))
            }
            ExprKind::Array(parts) => format!("ARRAY[{}]", self.list(parts)),
            ExprKind::ArrayCompare { function, any, left, right, .. } => {
                self.array_compare(function.name, *any, left, right, parent)
            }
            ExprKind::Case { operand, branches, default } => {
                self.case(expr.ty, operand.as_deref(), branches, default.as_deref())
            }
            _ => self.plain(expr),
        }
    }

    /// Returns the text of a column of the relation.
    fn slot(&self, slot: usize, expr: &Expr) -> String {
        let Some(column) = self.relation.and_then(|table| table.columns.get(slot)) else {
            let behind = self.relation.and_then(|t| slot.checked_sub(t.columns.len()));
            let system = behind.and_then(|number| SYSTEM_COLUMNS.get(number));
            return match system.filter(|(_, own, _)| *own != expr.ty) {
                Some((name, ..)) => self.relabelled(name, expr),
                None => self.plain(expr),
            };
        };
        let name = if self.of_domain { VALUE.to_owned() } else { quote_identifier(&column.name) };
        let as_domain = column.domain.is_none() || expr.domain.is_some();
        if expr.ty.0 == column.type_oid && as_domain {
            return name;
        }
        // The column is read as another type of the same bytes.
        self.relabelled(&name, expr)
    }

    /// Returns the text of a call of a built-in function or operator.
    #[inline(never)]
    fn call(
        &self,
        function: &'static Function,
        arguments: &[Expr],
        expr: &Expr,
        parent: Parent<'_>,
    ) -> String {
        if function.name.starts_with(|c: char| c.is_ascii_alphabetic()) {
            let word = function.name.to_ascii_uppercase();
            if arguments.is_empty() && VALUE_FUNCTIONS.contains(&word.as_str()) {
                return word;
            }
            if let Some(text) = self.own_syntax(function.name, arguments, expr.own_syntax) {
                return text;
            }
            let name = quote_identifier(function.name);
            return format!("{name}({})", arguments_text(function, self.each(arguments)));
        }
        self.operator(function.name, arguments, parent)
    }

    /// Returns the text of `argument` with a cast to the type of `expr`.
    #[inline(never)]
    fn cast(&self, expr: &Expr, argument: &Expr) -> String {
        let made;
        // A value that is fitted to a length already has the type.
        let argument = match (&expr.kind, argument.made_type()) {
            (ExprKind::Length { .. }, Some(ty)) => {
                made = Box::new(Expr { ty, ..argument.clone() });
                &*made
            }
            _ => argument,
        };
        let inner = self.show(argument, Parent::Tight);
        let is_query = matches!(argument.kind, ExprKind::SubQuery(_));
        let plain = self.pretty && !is_query;
        let text = if plain { inner } else { format!("({inner})") };
        format!("{text}::{}", self.type_name(expr.column_type()))
    }

    /// Returns the text of a comparison with ANY or ALL elements of an array.
    #[inline(never)]
    fn array_compare(
        &self,
        operator: &str,
        any: bool,
        left: &Expr,
        right: &Expr,
        parent: Parent<'_>,
    ) -> String {
        let word = if any { "ANY" } else { "ALL" };
        let left = self.show(left, Parent::Operator(operator, true));
        let shown = self.show(right, Parent::None);
        // After ANY, a bare query would mean its rows, not the array that it returns.
        let shown = match &right.kind {
            ExprKind::SubQuery(_) => {
                format!("{}::{}", self.bracketed_pretty(shown), self.type_name(right.ty.into()))
            }
            _ => shown,
        };
        let text = format!("{left} {operator} {word} ({shown})");
        self.bracketed(text, parent != Parent::None)
    }

    pub(crate) fn type_name(&self, column: ColumnType) -> String {
        type_text(column, self.exec)
    }

    /// Writes a constant. Among the integer types, only `integer` is left unnamed.
    fn constant(&self, value: &Datum, expr: &Expr, parent: Parent<'_>) -> String {
        match value {
            // In a query, a constant may decide the type of a column, so its type is shown.
            Datum::Int2(_) | Datum::Int8(_)
                if self.level.is_some() && !matches!(parent, Parent::Operator(..)) =>
            {
                let number = match value {
                    Datum::Int2(v) => i64::from(*v),
                    Datum::Int8(v) => *v,
                    _ => 0,
                };
                match i32::try_from(number) {
                    Ok(number) if number >= 0 => {
                        let text =
                            if self.pretty { number.to_string() } else { format!("({number})") };
                        format!("{text}::{}", self.type_name(expr.ty.into()))
                    }
                    _ => self.plain(expr),
                }
            }
            // An operator of two integer types takes the literal as it is.
            Datum::Int2(v) if *v >= 0 => v.to_string(),
            Datum::Int8(v) if (0..=i64::from(i32::MAX)).contains(v) => v.to_string(),
            _ => self.plain(expr),
        }
    }

    fn null_test(&self, argument: &Expr, negated: bool, parent: Parent<'_>) -> String {
        let word = if negated { "IS NOT NULL" } else { "IS NULL" };
        let shown = self.show(argument, Parent::Tight);
        let shown = match &argument.kind {
            ExprKind::SubQuery(_) => self.bracketed_pretty(shown),
            _ => shown,
        };
        self.bracketed(
            format!("{shown} {word}"),
            matches!(parent, Parent::Operator(..) | Parent::Tight),
        )
    }

    /// Writes an expression as a column. A whole row gets its type, because without the type it
    /// would mean all of its columns.
    pub fn column(&self, expr: &Expr) -> String {
        let text = self.show(expr, Parent::None);
        match &expr.kind {
            ExprKind::Row(row) if row.of_item.is_some() => {
                format!("{text}::{}", self.type_name(expr.ty.into()))
            }
            _ => text,
        }
    }

    /// Writes a CASE, each part on a line of its own.
    fn case(
        &self,
        ty: TypeOid,
        operand: Option<&Expr>,
        branches: &[(Expr, Expr)],
        default: Option<&Expr>,
    ) -> String {
        let line = |more: usize| format!("\n{}", " ".repeat(self.indent + more));
        let mut text = line(0) + "CASE";
        if let Some(operand) = operand {
            text.push_str(&format!(" {}", self.show(operand, Parent::None)));
        }
        for (condition, result) in branches {
            // With an operand, the analyzed condition holds the comparison; the text shows only its
            // right side.
            let condition = match (operand, &condition.kind) {
                (Some(_), ExprKind::Call { arguments, .. }) => {
                    arguments.last().unwrap_or(condition)
                }
                _ => condition,
            };
            let condition = self.show(condition, Parent::None);
            let result = self.show(result, Parent::None);
            text.push_str(&format!("{}WHEN {condition} THEN {result}", line(4)));
        }
        let otherwise = match default {
            Some(default) => self.show(default, Parent::None),
            None => format!("NULL::{}", self.type_name(ty.into())),
        };
        text.push_str(&format!("{}ELSE {otherwise}{}END", line(4), line(0)));
        text
    }

    /// Writes expressions that occur only inside queries.
    fn inside(&self, level: &Level<'_>, expr: &Expr, parent: Parent<'_>) -> Option<String> {
        Some(match &expr.kind {
            ExprKind::Slot { depth, slot } => level.slot((*depth, *slot), expr, parent, self),
            ExprKind::SetReturning(number) => level.set(*number, self),
            ExprKind::Window(number) => level.window(*number, self),
            ExprKind::SubQuery(sub) => {
                let text = nested(sub, self)?;
                let scalar = matches!(sub.kind, niwaki_expr::expr::SubQueryKind::Scalar);
                let within = matches!(parent, Parent::Operator(..));
                if scalar && within && self.pretty { format!("({text})") } else { text }
            }
            ExprKind::NullIf { result, equal } => match &equal.kind {
                ExprKind::Call { arguments, .. } if arguments.len() == 2 => {
                    let result = self.show(result, Parent::None);
                    format!("NULLIF({result}, {})", self.show(&arguments[1], Parent::None))
                }
                _ => format!("NULLIF({})", self.show(result, Parent::None)),
            },
            ExprKind::Subscript { array, subscripts } => {
                let mut text = self.show(array, Parent::Tight);
                if !matches!(array.kind, ExprKind::Slot { .. }) && !text.starts_with('(') {
                    text = format!("({text})");
                }
                let shown = |bound: &Option<Expr>| {
                    bound.as_ref().map_or_else(String::new, |e| self.show(e, Parent::None))
                };
                for [lower, upper] in &subscripts.bounds {
                    text.push_str(&if subscripts.slice {
                        format!("[{}:{}]", shown(lower), shown(upper))
                    } else {
                        format!("[{}]", shown(upper))
                    });
                }
                text
            }
            _ => return None,
        })
    }

    /// Writes expressions that have no rule in this module.
    fn plain(&self, expr: &Expr) -> String {
        match self.relation {
            Some(relation) if self.of_domain => {
                let shown = table_expression(expr, relation, self.exec);
                shown.replace(&quote_identifier(VALUE), VALUE)
            }
            Some(relation) => table_expression(expr, relation, self.exec),
            None => {
                let nothing = Relation::unopened(nothing());
                table_expression(expr, &nothing, self.exec)
            }
        }
    }
}

fn test_words(test: BoolTest) -> &'static str {
    match test {
        BoolTest::True => "IS TRUE",
        BoolTest::NotTrue => "IS NOT TRUE",
        BoolTest::False => "IS FALSE",
        BoolTest::NotFalse => "IS NOT FALSE",
        BoolTest::Unknown => "IS UNKNOWN",
        BoolTest::NotUnknown => "IS NOT UNKNOWN",
    }
}

/// Returns a relation without columns, for expressions that read no column.
fn nothing() -> RelationDefinition {
    RelationDefinition::new(
        niwaki_catalog::Oid::INVALID,
        niwaki_catalog::Oid::INVALID,
        String::new(),
        niwaki_catalog::RelationKind::View,
    )
}
