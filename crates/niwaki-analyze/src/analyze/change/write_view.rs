//! INSERT, UPDATE and DELETE through a view: rewrites them into changes of the base table.

use std::sync::Arc;

use niwaki_catalog::{CatalogState, CheckOption, Relation, RelationKind};
use niwaki_env::stack::TooDeep;
use niwaki_expr::analysis::AnalyzeContext;
use niwaki_expr::definitions::Writable;
use niwaki_expr::expr::{Expr, ExprKind};
use niwaki_expr::query::{
    DEPTH_MAX, ModifyKind, Query, conjunction, depth, expr_outer_slots, expr_outer_slots_mut,
    nodes, reads_slots, shift_depth,
};
use niwaki_parse::error::{Result, SqlError};
use niwaki_txn::TableLockMode;
use niwaki_types::{ColumnType, TextSettings};

use crate::analyze::change::updatable::{base, not_updatable};
use crate::analyze::expression::expr::EXPRESSION_UNITS;
use crate::analyze::names::scope::{Item, ItemColumn, column_of};
use crate::analyze::{Analyzer, SYSTEM_COLUMNS};

/// The target of a change: a table, and the view through which the statement changes it.
#[derive(Clone)]
pub(crate) struct WriteTarget {
    pub(crate) table: Arc<Relation>,
    pub(crate) view: Option<Arc<WrittenView>>,
}

/// A view through which a table is changed. Its expressions are over the table's row, from slot 0
/// on.
pub(crate) struct WrittenView {
    relation: Arc<Relation>,
    columns: Vec<WrittenColumn>,
    /// The WHERE conditions of the view.
    pub(crate) conditions: Vec<Expr>,
    /// The check options for new rows: view name and condition, the innermost view first.
    pub(crate) checks: Vec<(String, Expr)>,
}

/// A column of a view.
#[derive(Clone)]
struct WrittenColumn {
    value: Expr,
    target: ColumnTarget,
}

/// The target of an assignment to a view column.
#[derive(Clone, Copy)]
enum ColumnTarget {
    /// A column of the table.
    Column(usize),
    /// No target: the column shows a system column.
    System,
    /// No target: the column is computed.
    Computed,
}

/// Returns the permitted changes of a relation in a catalog.
pub fn writable(relation: &Arc<Relation>, catalog: &CatalogState) -> Writable {
    if relation.kind == RelationKind::Table {
        let columns = relation.columns.iter().map(|column| !column.dropped).collect();
        return Writable { rows: true, columns };
    }
    let Some(definition) = relation.query.as_ref().filter(|_| relation.kind == RelationKind::View)
    else {
        return Writable::default();
    };
    let settings =
        TextSettings { types: Arc::clone(catalog.types_of_values()), ..TextSettings::default() };
    let context =
        AnalyzeContext { catalog, text: &settings, ..niwaki_expr::sessionless::analyze_context(0) };
    let mut analyzer = Analyzer::new(&context, "", Vec::new());
    let written = analyzer
        .view_rows(relation, definition)
        .and_then(|query| Analyzer::written(relation, &query, ModifyKind::Delete, false));
    match written {
        Ok((_, written)) => {
            let columns = written.columns.iter().map(|c| c.table_column().is_some()).collect();
            Writable { rows: true, columns }
        }
        Err(_) => Writable::default(),
    }
}

/// Returns the words for a kind of change in errors about views.
fn words(kind: ModifyKind) -> (&'static str, &'static str, &'static str) {
    match kind {
        ModifyKind::Insert => ("insert into", "inserting into", "INSERT"),
        ModifyKind::Update => ("update", "updating", "UPDATE"),
        ModifyKind::Delete => ("delete from", "deleting from", "DELETE"),
    }
}

impl WriteTarget {
    /// Returns the relation that the statement names.
    pub(crate) fn named(&self) -> &Arc<Relation> {
        self.view.as_ref().map_or(&self.table, |view| &view.relation)
    }

    /// Returns the target columns of an INSERT without a column list. `None` stands for a column
    /// that cannot be written.
    pub(crate) fn all_columns(&self) -> Vec<Option<usize>> {
        match &self.view {
            None => self.table.visible_columns().map(|(number, _)| Some(number)).collect(),
            Some(view) => view.columns.iter().map(WrittenColumn::table_column).collect(),
        }
    }

    /// Returns the error `0A000` for a view column that cannot be written, given its position.
    pub(crate) fn refused(&self, number: usize, kind: ModifyKind) -> SqlError {
        let Some(view) = &self.view else {
            return SqlError::internal("a table's column that cannot be written");
        };
        let name = view.relation.columns.get(number).map_or("?", |column| column.name.as_str());
        let (verb, ..) = words(kind);
        let message = format!("cannot {verb} column \"{name}\" of view \"{}\"", view.relation.name);
        let detail = match view.columns.get(number).map(|column| column.target) {
            Some(ColumnTarget::System) => {
                "View columns that refer to system columns are not updatable."
            }
            _ => "View columns that are not columns of their base relation are not updatable.",
        };
        SqlError::new("0A000", message).with_detail(detail)
    }

    /// Returns the table's column that a name means; `Err` has the position of a view column that
    /// cannot be written.
    pub(crate) fn column(&self, name: &str) -> Option<std::result::Result<usize, usize>> {
        let number = self.named().column_position(name)?;
        match &self.view {
            None => Some(Ok(number)),
            Some(view) => Some(view.columns.get(number)?.table_column().ok_or(number)),
        }
    }
}

impl WrittenColumn {
    fn table_column(&self) -> Option<usize> {
        match self.target {
            ColumnTarget::Column(column) => Some(column),
            ColumnTarget::System | ColumnTarget::Computed => None,
        }
    }
}

impl WrittenView {
    /// Turns the table's item, whose columns begin at slot `item.start`, into an item of the view.
    pub(crate) fn show_in(&self, item: &mut Item) {
        let columns = self.relation.columns.iter().zip(&self.columns).enumerate();
        item.columns = columns
            .map(|(number, (column, written))| ItemColumn {
                name: column.name.clone(),
                expr: moved(&written.value, item.start),
                origin: (self.relation.oid.0, i16::try_from(number + 1).unwrap_or(0)),
                bare: true,
                hidden: false,
                fields: None,
            })
            .collect();
        // A view has no system columns.
        item.relation = None;
        item.view = Some(Arc::clone(&self.relation));
    }
}

/// Shifts an expression from a row at slot 0 to a row at slot `start`.
fn moved(expr: &Expr, start: usize) -> Expr {
    let mut expr = expr.clone();
    expr_outer_slots_mut(&mut expr, 0, &mut |slot, level| {
        if let ExprKind::Slot { depth, slot } = &mut slot.kind
            && *depth == level
        {
            *slot += start;
        }
    });
    expr
}

/// Rewrites an expression over a view's columns, from slot `start` on, into one over the base row.
/// A column that is read twice is copied twice at each view level, so the copies count as work.
///
/// # Errors
/// The errors that end the statement; `54001` if the result would nest more deeply than any view by
/// itself.
fn over(expr: &Expr, start: usize, columns: &[WrittenColumn]) -> Result<Expr> {
    let (mut written, mut deepest) = (0_usize, 0_usize);
    expr_outer_slots(expr, 0, &mut |place, level| {
        if let ExprKind::Slot { depth: of, slot } = place.kind
            && of == level
            && let Some(column) = slot.checked_sub(start).and_then(|number| columns.get(number))
        {
            written += nodes(&column.value);
            deepest = deepest.max(depth(&column.value));
        }
    });
    niwaki_types::work::tick(written.saturating_mul(EXPRESSION_UNITS))?;
    if deepest > DEPTH_MAX && !matches!(expr.kind, ExprKind::Slot { .. }) {
        return Err(SqlError::from(TooDeep));
    }
    let mut expr = expr.clone();
    expr_outer_slots_mut(&mut expr, 0, &mut |place, level| {
        if let ExprKind::Slot { depth, slot } = place.kind
            && depth == level
            && let Some(column) = slot.checked_sub(start).and_then(|number| columns.get(number))
        {
            let (ty, typmod, domain) = (place.ty, place.typmod, place.domain);
            *place = column.value.clone();
            shift_depth(place, level);
            (place.ty, place.typmod, place.domain) = (ty, typmod, domain);
        }
    });
    Ok(expr)
}

impl Analyzer<'_> {
    /// Resolves a view as the target of a change.
    pub(crate) fn written_view(
        &mut self,
        view: &Arc<Relation>,
        kind: ModifyKind,
    ) -> Result<WriteTarget> {
        let Some(definition) = &view.query else {
            return Err(SqlError::internal("a relation that is no view of a user"));
        };
        self.note_relation(view, TableLockMode::RowExclusive);
        let before = self.shared.len();
        let query = self.view_rows(view, definition)?;
        let (table, written) = Self::written(view, &query, kind, false)?;
        if self.shared.len() > before {
            // The conditions and values are copied, but the references in them were counted only
            // once.
            return Err(SqlError::unsupported(
                "writing through a view with WITH in a nested query",
            ));
        }
        self.note_relation(&table, TableLockMode::RowExclusive);
        Ok(WriteTarget { table, view: Some(Arc::new(written)) })
    }

    /// Returns the base table, and the view over it. `checked`: a view above has CASCADED CHECK
    /// OPTION, so the conditions of inner views must hold, too.
    fn written(
        view: &Arc<Relation>,
        query: &Query,
        kind: ModifyKind,
        checked: bool,
    ) -> Result<(Arc<Relation>, WrittenView)> {
        let text = view.query.as_ref().map_or("", |definition| &definition.text);
        let statements = niwaki_parse::parse::parse(text)?;
        let select = crate::analyze::stored::view::the_select(&statements)?;
        let reason = match base(select, query) {
            Err(reason) => Some(reason),
            Ok(_) if kind == ModifyKind::Delete => None,
            Ok(_) => not_updatable(select, query),
        };
        let base = match (reason, base(select, query)) {
            (None, Ok(base)) => base,
            (reason, _) => return Err(cannot_write(view, kind, reason.unwrap_or_default())),
        };
        let option = view.options.get("check_option").and_then(CheckOption::of_word);
        let cascaded = checked || option == Some(CheckOption::Cascaded);
        let (table, inner) = match base.query {
            Some(query) => {
                let (table, inner) = Self::written(base.relation, query, kind, cascaded)?;
                (table, Some(inner))
            }
            None if base.relation.kind == RelationKind::Table => (Arc::clone(base.relation), None),
            None => {
                let message = format!("cannot change view \"{}\"", base.relation.name);
                return Err(SqlError::new("42809", message));
            }
        };
        // The columns of the base relation, by slot.
        let below: Vec<WrittenColumn> = if let Some(inner) = &inner {
            inner.columns.clone()
        } else {
            let own = table.columns.iter().enumerate();
            let own = own.map(|(number, column)| column_of(&table, column, number));
            let system = SYSTEM_COLUMNS.iter().enumerate().map(|(number, (_, ty, _))| {
                Expr::slot(table.columns.len() + number, ColumnType::new(*ty))
            });
            own.chain(system)
                .enumerate()
                .map(|(number, value)| WrittenColumn {
                    value,
                    target: if number < table.columns.len() {
                        ColumnTarget::Column(number)
                    } else {
                        ColumnTarget::System
                    },
                })
                .collect()
        };
        let columns = base.targets.iter().enumerate().map(|(number, target)| {
            let shown = match target.kind {
                ExprKind::Slot { depth: 0, slot } => slot.checked_sub(base.start),
                _ => None,
            };
            let found = shown.and_then(|slot| below.get(slot)).map(|column| column.target);
            let target_of = match found {
                // A column with another type is computed.
                Some(ColumnTarget::Column(_)) if base.column(number).is_none() => None,
                found => found,
            };
            Ok(WrittenColumn {
                value: over(target, base.start, &below)?,
                target: target_of.unwrap_or(ColumnTarget::Computed),
            })
        });
        let columns = columns.collect::<Result<_>>()?;
        let own = base.conditions.iter().map(|condition| over(condition, base.start, &below));
        let own: Vec<Expr> = own.collect::<Result<_>>()?;
        let (mut conditions, mut checks) =
            inner.map_or_else(Default::default, |inner| (inner.conditions, inner.checks));
        if (checked || option.is_some())
            && let Some(condition) = conjunction(own.clone())
        {
            let mut system = false;
            reads_slots(&condition, &mut |slot| system = system || slot >= table.columns.len());
            if system {
                return Err(SqlError::unsupported("a check option that reads system columns"));
            }
            checks.push((view.name.clone(), condition));
        }
        conditions.extend(own);
        let relation = Arc::clone(view);
        Ok((table, WrittenView { relation, columns, conditions, checks }))
    }
}

/// Returns the error `55000` for a view that is not updatable.
fn cannot_write(view: &Relation, kind: ModifyKind, reason: &str) -> SqlError {
    let (verb, doing, event) = words(kind);
    SqlError::new("55000", format!("cannot {verb} view \"{}\"", view.name))
        .with_detail(reason)
        .with_hint(format!(
            "To enable {doing} the view, provide an INSTEAD OF {event} trigger or an unconditional ON {event} DO INSTEAD rule."
        ))
}
