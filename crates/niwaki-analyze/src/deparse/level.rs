//! Names slots inside a query.

use niwaki_expr::expr::{Expr, ExprKind};
use niwaki_expr::query::{
    AggregateCall, From, FromItem, Grouping, ItemKind, SetCall, SharedQuery, Windowing,
};
use niwaki_types::{ColumnType, TypeOid, quote_identifier};

use super::expression::{Parent, Writer};
use crate::analyze::SYSTEM_COLUMNS;

/// One query around an expression.
pub struct Level<'l> {
    /// The next outer query.
    pub(super) up: Option<&'l Level<'l>>,
    pub(super) row: Row<'l>,
    /// Set-returning functions of the query's targets.
    pub(super) sets: &'l [SetCall],
    /// Window functions of the query.
    pub(super) windowing: Option<&'l Windowing>,
    pub(super) shared: &'l [SharedQuery],
}

/// The row that expressions of a level read.
pub(super) enum Row<'l> {
    /// The row of FROM: the names of its slots.
    From(Vec<Option<SlotName>>),
    /// The groups, followed by the aggregates, which are computed over the row of `below`.
    Groups { grouping: &'l Grouping, below: &'l Level<'l> },
}

/// The name of a slot.
pub(super) struct SlotName {
    table: String,
    column: String,
    ty: ColumnType,
}

impl SlotName {
    /// Decides whether an expression reads the slot as its own type, not as another type of the
    /// same bytes. A domain's value used as a value of the base type is shown with a conversion.
    fn is_of_its_type(&self, expr: &Expr) -> bool {
        let domain_kept = self.ty.domain.is_none() || expr.domain.is_some();
        self.ty.oid == TypeOid::UNKNOWN || self.ty.oid == expr.ty && domain_kept
    }
}

impl<'l> Level<'l> {
    fn at(&self, depth: usize) -> Option<&Level<'l>> {
        match depth {
            0 => Some(self),
            _ => self.up?.at(depth - 1),
        }
    }

    /// Writes a slot as text; `writer` writes the expressions inside.
    pub fn slot(
        &self,
        (depth, slot): (usize, usize),
        expr: &Expr,
        parent: Parent<'_>,
        writer: &Writer<'_, '_>,
    ) -> String {
        let Some(level) = self.at(depth) else { return "?".to_owned() };
        match &level.row {
            Row::From(names) => match names.get(slot) {
                Some(Some(name)) => {
                    let column = quote_identifier(&name.column);
                    let shown = match name.table.as_str() {
                        "" => column,
                        table => format!("{}.{column}", quote_identifier(table)),
                    };
                    let same = name.is_of_its_type(expr);
                    if same { shown } else { writer.relabelled(&shown, expr) }
                }
                _ => "?".to_owned(),
            },
            Row::Groups { grouping, below } => {
                let writer = writer.on(below);
                match slot.checked_sub(grouping.groups.len()) {
                    None => writer.show(&grouping.groups[slot], parent),
                    Some(number) => {
                        if let Some(call) = grouping.calls.get(number) {
                            aggregate(call, &writer)
                        } else {
                            let calls = &grouping.sets.calls;
                            match calls.get(number - grouping.calls.len()) {
                                Some(arguments) => {
                                    let shown = arguments.iter().map(|group| {
                                        writer.show(&grouping.groups[*group], Parent::None)
                                    });
                                    format!("GROUPING({})", shown.collect::<Vec<_>>().join(", "))
                                }
                                None => "?".to_owned(),
                            }
                        }
                    }
                }
            }
        }
    }

    /// Returns the column name of an expression that is a column.
    pub(super) fn column_name(&self, expr: &Expr) -> Option<&str> {
        let (ExprKind::Slot { depth, slot }, None) = (&expr.kind, expr.collation) else {
            return None;
        };
        let (depth, slot) = (*depth, *slot);
        let level = self.at(depth)?;
        match &level.row {
            Row::From(names) => {
                let name = names.get(slot)?.as_ref()?;
                name.is_of_its_type(expr).then_some(name.column.as_str())
            }
            Row::Groups { grouping, below } => below.column_name(grouping.groups.get(slot)?),
        }
    }

    /// Writes a set-returning function of the targets.
    pub fn set(&self, number: usize, writer: &Writer<'_, '_>) -> String {
        let Some(call) = self.sets.get(number) else { return "?".to_owned() };
        writer.set_call(&call.function, &call.arguments)
    }
}

/// Writes a call of an aggregate.
pub(super) fn aggregate(call: &AggregateCall, writer: &Writer<'_, '_>) -> String {
    let mut text = format!("{}(", quote_identifier(&call.name));
    if call.distinct {
        text.push_str("DISTINCT ");
    }
    match call.arguments.as_slice() {
        [] => text.push('*'),
        arguments => {
            text.push_str(&writer.list(&arguments[..call.direct.unwrap_or(arguments.len())]));
        }
    }
    if call.direct.is_some() {
        text.push_str(") WITHIN GROUP (ORDER BY ");
    } else if !call.order.is_empty() {
        text.push_str(" ORDER BY ");
    }
    if !call.order.is_empty() {
        let keys = call.order.iter().map(|(expr, descending, nulls_first)| {
            let key = sort_key(expr, writer);
            key + direction(*descending, *nulls_first)
        });
        text.push_str(&keys.collect::<Vec<_>>().join(", "));
    }
    text.push(')');
    if let Some(filter) = &call.filter {
        let filter = writer.show(filter, Parent::None);
        text.push_str(&format!(" FILTER (WHERE {filter})"));
    }
    text
}

/// Writes an expression that rows are sorted or grouped by: in brackets, unless it is a column or a
/// constant.
pub(super) fn sort_key(expr: &Expr, writer: &Writer<'_, '_>) -> String {
    let text = writer.show(expr, Parent::None);
    let plain = match &expr.kind {
        _ if expr.collation.is_some() => !writer.is_pretty(),
        // A cast is shown as such.
        _ if expr.made_type().is_some_and(|made| made != expr.ty) => !writer.is_pretty(),
        ExprKind::Const(_) => true,
        ExprKind::Window(_) | ExprKind::SetReturning(_) => false,
        ExprKind::Slot { .. } if writer.stands_for_grouping(expr) => !writer.is_pretty(),
        ExprKind::Slot { .. } => !writer.stands_for_call(expr),
        ExprKind::Call { function, .. } => {
            let is_operator = !function.name.starts_with(|c: char| c.is_ascii_alphabetic());
            is_operator && !writer.is_pretty()
        }
        _ => !writer.is_pretty(),
    };
    if plain { text } else { format!("({text})") }
}

/// Returns the words that follow a sort key.
pub(super) fn direction(descending: bool, nulls_first: bool) -> &'static str {
    match (descending, nulls_first) {
        (false, false) => "",
        (false, true) => " NULLS FIRST",
        (true, true) => " DESC",
        (true, false) => " DESC NULLS LAST",
    }
}

impl Level<'_> {
    /// Decides whether a slot stands for GROUPING.
    pub(crate) fn is_grouping(&self, expr: &Expr) -> bool {
        let ExprKind::Slot { depth, slot } = expr.kind else { return false };
        match self.at(depth).map(|level| &level.row) {
            Some(Row::Groups { grouping, .. }) => {
                slot >= grouping.groups.len() + grouping.calls.len()
            }
            _ => false,
        }
    }

    /// Returns the type of the group that a slot stands for, if any.
    pub(crate) fn group_type(&self, expr: &Expr) -> Option<TypeOid> {
        let ExprKind::Slot { depth, slot } = expr.kind else { return None };
        match self.at(depth).map(|level| &level.row) {
            Some(Row::Groups { grouping, .. }) => grouping.groups.get(slot).map(|group| group.ty),
            _ => None,
        }
    }

    /// Decides whether a slot stands for an aggregate or a computed group.
    pub fn is_computed(&self, expr: &Expr) -> bool {
        let ExprKind::Slot { depth, slot } = expr.kind else { return false };
        match self.at(depth).map(|level| &level.row) {
            Some(Row::Groups { grouping, .. }) => {
                let group = grouping.groups.get(slot);
                !group.is_some_and(|group| matches!(group.kind, ExprKind::Slot { .. }))
            }
            _ => false,
        }
    }
}

/// Returns the names of the slots of FROM.
pub(super) fn slot_names(from: &From, shared: &[SharedQuery]) -> Vec<Option<SlotName>> {
    let mut names: Vec<Option<SlotName>> = Vec::new();
    names.resize_with(from.width, || None);
    for item in &from.items {
        for (number, (column, ty)) in columns_of(item, shared).into_iter().enumerate() {
            if let Some(place) = names.get_mut(item.slots.start + number) {
                *place = Some(SlotName { table: item.shown_name().to_owned(), column, ty });
            }
        }
    }
    names
}

/// Returns the names and types of an item's columns.
pub(super) fn columns_of(item: &FromItem, shared: &[SharedQuery]) -> Vec<(String, ColumnType)> {
    let mut aliases = item.aliases.iter();
    let mut named = |own: &str| aliases.next().map_or_else(|| own.to_owned(), String::clone);
    let infos = |columns: &[niwaki_expr::context::ColumnInfo],
                 named: &mut dyn FnMut(&str) -> String| {
        columns.iter().map(|c| (named(&c.name), c.column_type)).collect()
    };
    match &item.kind {
        ItemKind::Table(relation) | ItemKind::View(relation) => {
            let mut columns: Vec<(String, ColumnType)> = Vec::new();
            for column in &relation.columns {
                let name = if column.dropped { String::new() } else { named(&column.name) };
                columns.push((name, column.column_type()));
            }
            let system = |(name, ty, _): &(&str, TypeOid, i16)| ((*name).to_owned(), (*ty).into());
            columns.extend(SYSTEM_COLUMNS.iter().map(system));
            columns
        }
        ItemKind::Query(query) => infos(&query.columns, &mut named),
        ItemKind::Shared { number } | ItemKind::Working { number } => {
            shared.get(*number).map_or_else(Vec::new, |with| infos(&with.query.columns, &mut named))
        }
        ItemKind::Function { function, arguments, ordinality } => {
            let mut columns: Vec<(String, ColumnType)> =
                if let Some(all) = function.fields(arguments) {
                    all.iter().map(|(name, kind)| (named(name), *kind)).collect()
                } else {
                    let own = function.column_name().unwrap_or(&item.name);
                    // The arguments may decide the type.
                    vec![(named(own), TypeOid::UNKNOWN.into())]
                };
            if *ordinality {
                columns.push((named("ordinality"), TypeOid::INT8.into()));
            }
            columns
        }
        ItemKind::Single { expr, ordinality } => {
            let own = expr.lone_column().unwrap_or(&item.name);
            let mut columns = vec![(named(own), expr.column_type())];
            if *ordinality {
                columns.push((named("ordinality"), TypeOid::INT8.into()));
            }
            columns
        }
    }
}
