//! Row triggers: finds the triggers that a statement fires, and analyzes their conditions and
//! bodies.

use std::sync::Arc;

use niwaki_catalog::{Oid, Relation, Trigger, TriggerEvent, TriggerTime};
use niwaki_env::stack;
use niwaki_expr::analysis::AnalyzeContext;
use niwaki_expr::context::ColumnInfo;
use niwaki_expr::expr::{Expr, ExprKind};
use niwaki_expr::query::{
    ModifyQuery, RowName, RowTriggers, StepKind, TriggerAction, TriggerBody, TriggerCall,
    TriggerStep, reads_slots,
};
use niwaki_parse::error::{Result, SqlError};
use niwaki_parse::types::{CastContext, cast_path};
use niwaki_parse::walk::each_node;
use niwaki_types::{ColumnType, Datum, TypeOid, quote_identifier};
use pg_query::NodeEnum;

use crate::analyze::Analyzer;
use crate::analyze::names::parts::names_of;
use crate::analyze::names::scope::{Place, SYSTEM_COLUMNS, Scope};
use crate::analyze::stored::text::{Form, expression_node};
use crate::plpgsql::{BodyAction, read_body};

/// PostgreSQL's OID of `suppress_redundant_updates_trigger`.
pub const SUPPRESS_REDUNDANT: Oid = Oid(1291);

/// Variables of every trigger function, with their types. The rows `new` and `old` are not among
/// them.
const VARIABLES: [(&str, TypeOid); 11] = [
    ("tg_op", TypeOid::TEXT),
    ("tg_name", TypeOid::NAME),
    ("tg_when", TypeOid::TEXT),
    ("tg_level", TypeOid::TEXT),
    ("tg_relid", TypeOid::OID),
    ("tg_relname", TypeOid::NAME),
    ("tg_table_name", TypeOid::NAME),
    ("tg_table_schema", TypeOid::NAME),
    ("tg_nargs", TypeOid::INT4),
    ("tg_argv", TypeOid::TEXT_ARRAY),
    ("found", TypeOid::BOOL),
];

/// A change that fires triggers. `values` has the columns that an UPDATE sets.
pub(crate) struct FiredBy<'s> {
    pub(crate) event: TriggerEvent,
    pub(crate) values: &'s [Option<Expr>],
}

impl Analyzer<'_> {
    /// Finds the triggers that a statement fires. For a partitioned table these are its partitions'
    /// triggers, which include its own.
    pub(crate) fn set_triggers(
        &mut self,
        query: &mut ModifyQuery,
        changes: &[FiredBy<'_>],
    ) -> Result<()> {
        let Some(partitions) = &query.relation.partitions else {
            query.triggers = self.row_triggers(&query.relation, changes, &query.generated)?;
            return Ok(());
        };
        let moves = changes.iter().any(|change| change.event == TriggerEvent::Update);
        for (leaf, rules) in partitions.leaves.iter().zip(&mut query.leaves) {
            if leaf.relation.triggers.is_empty() {
                continue;
            }
            let own = |values: &[Option<Expr>]| {
                let mut own = vec![None; leaf.relation.columns.len()];
                for (column, value) in values.iter().enumerate() {
                    if let Some(place) = leaf.columns.place(column) {
                        own[place].clone_from(value);
                    }
                }
                own
            };
            let mut fired: Vec<(TriggerEvent, Vec<Option<Expr>>)> =
                changes.iter().map(|change| (change.event, own(change.values))).collect();
            // A row that moves to another partition is deleted here and inserted there.
            for event in [TriggerEvent::Insert, TriggerEvent::Delete] {
                if moves && fired.iter().all(|(known, _)| *known != event) {
                    fired.push((event, Vec::new()));
                }
            }
            let fired: Vec<FiredBy<'_>> =
                fired.iter().map(|(event, values)| FiredBy { event: *event, values }).collect();
            rules.triggers = self.row_triggers(&leaf.relation, &fired, &rules.generated)?;
        }
        Ok(())
    }

    /// Returns the triggers that changes of a table fire. `generated` has the expressions of its
    /// generated columns.
    fn row_triggers(
        &mut self,
        relation: &Arc<Relation>,
        changes: &[FiredBy<'_>],
        generated: &[(usize, Expr)],
    ) -> Result<Option<Arc<RowTriggers>>> {
        if relation.triggers.is_empty() {
            return Ok(None);
        }
        let mut calls = Vec::new();
        for trigger in relation.triggers.iter().filter(|trigger| trigger.mode.fires()) {
            for change in changes.iter().filter(|change| trigger.is_for(change.event)) {
                let fired = trigger.columns.is_empty()
                    || change.event != TriggerEvent::Update
                    || trigger.columns.iter().any(|column| {
                        is_updated(usize::from(*column), relation, change.values, generated)
                    });
                if fired {
                    calls.push(Arc::new(self.trigger_call(relation, trigger, change.event)?));
                }
            }
        }
        if calls.is_empty() {
            return Ok(None);
        }
        let generated = generated.iter().map(|(column, _)| *column).collect();
        Ok(Some(Arc::new(RowTriggers { calls, width: relation.columns.len(), generated })))
    }

    fn trigger_call(
        &mut self,
        relation: &Arc<Relation>,
        trigger: &Trigger,
        event: TriggerEvent,
    ) -> Result<TriggerCall> {
        let when = trigger.when.as_deref();
        let when = when.map(|text| condition(text, relation, self.context)).transpose()?;
        let action = if trigger.function == SUPPRESS_REDUNDANT {
            TriggerAction::SuppressRedundant
        } else {
            TriggerAction::Body(self.trigger_body(relation, trigger, event)?)
        };
        let (name, time) = (trigger.name.clone(), trigger.time);
        let is_part = trigger.part_of.is_some();
        Ok(TriggerCall { name, is_part, time, event, when, action })
    }

    fn trigger_body(
        &mut self,
        relation: &Arc<Relation>,
        trigger: &Trigger,
        event: TriggerEvent,
    ) -> Result<TriggerBody> {
        let catalog = self.context.catalog;
        // Another session can drop the function although a temporary table of this session uses it.
        let missing = || {
            let name = &trigger.name;
            SqlError::new(
                "42883",
                format!("the function of trigger \"{name}\" does not exist any more"),
            )
        };
        let function = catalog.function(trigger.function).ok_or_else(missing)?;
        let name = quote_identifier(&function.name);
        let visible = catalog.resolve_function(self.context.path, None, &function.name, &[]);
        let shown = match visible {
            Some(found) if found.oid == function.oid => format!("{name}()"),
            _ => format!("{}.{name}()", quote_identifier(&self.schema_name(function.schema))),
        };
        let mut steps = Vec::new();
        for statement in read_body(&function.body)? {
            let line = statement.line;
            let kind = match statement.action {
                BodyAction::Nothing => continue,
                BodyAction::Return(row) => StepKind::Return(row),
                BodyAction::Assign { row, column, text, expression } => {
                    let place = format!("PL/pgSQL function {shown} line {line} at assignment");
                    self.assignment(relation, row, &column, &expression, &text)
                        .unwrap_or_else(|error| StepKind::Wrong(error.within_context(place)))
                }
            };
            steps.push(TriggerStep { line, kind });
        }
        let variables = self.variables(relation, trigger, event);
        Ok(TriggerBody { function: shown, steps, variables })
    }

    /// Returns the values of [`VARIABLES`].
    fn variables(&self, relation: &Relation, trigger: &Trigger, event: TriggerEvent) -> Vec<Datum> {
        let text = |text: &str| Datum::Text(text.into());
        let arguments = match trigger.arguments.as_slice() {
            [] => Datum::Null,
            given => {
                let given: Vec<Datum> = given.iter().map(|argument| text(argument)).collect();
                // The array's subscripts start at 0.
                Datum::vector(TypeOid::TEXT, given)
            }
        };
        let count = i32::try_from(trigger.arguments.len()).unwrap_or(i32::MAX);
        vec![
            text(event.word()),
            text(&trigger.name),
            text(trigger.time.word()),
            text("ROW"),
            Datum::Oid(relation.oid.0),
            text(&relation.name),
            text(&relation.name),
            text(&self.schema_name(relation.schema)),
            Datum::Int4(count),
            arguments,
            Datum::Bool(false),
        ]
    }

    /// Analyzes an assignment.
    fn assignment(
        &mut self,
        relation: &Arc<Relation>,
        row: RowName,
        name: &str,
        expression: &str,
        text: &str,
    ) -> Result<StepKind> {
        // A missing record field is reported when the value is computed.
        let no_field = |row: RowName, name: &str| {
            let message = format!("record \"{}\" has no field \"{name}\"", row.word());
            SqlError::new("42703", message).with_context(format!("PL/pgSQL assignment \"{text}\""))
        };
        let column = relation.column_position(name).ok_or_else(|| no_field(row, name))?;
        for (row, field) in fields_read(expression)? {
            if let Some(field) = field.filter(|field| relation.column_position(field).is_none()) {
                return Err(no_field(row, &field));
            }
        }
        let definition = &relation.columns[column];
        let target = (definition.column_type(), definition.name.as_str());
        let value = over_rows(expression, relation, self.context, |a, value| {
            a.assign_variable(value, target)
        })?;
        Ok(StepKind::Assign { row, column, value, text: text.to_owned() })
    }

    /// Converts a value as a PL/pgSQL assignment does: through text if there is no assignment cast.
    fn assign_variable(&mut self, value: Expr, (to, name): (ColumnType, &str)) -> Result<Expr> {
        let known = value.ty == TypeOid::UNKNOWN
            || value.ty == to.oid
            || cast_path(value.ty, to.oid, CastContext::Assignment).is_some();
        if known {
            return self.assign(value, to, name, -1);
        }
        let location = value.location;
        let text = self.coerce(value.clone(), TypeOid::TEXT, CastContext::Explicit)?;
        let read = match text {
            Some(text) => self.coerce(text, to.oid, CastContext::Explicit)?,
            None => None,
        };
        match read {
            Some(read) => {
                let read = Self::with_typmod(read, to.typmod, false);
                self.as_domain(read, to.domain)
            }
            None => self.assign(value, to, name, location),
        }
    }
}

/// Returns whether an UPDATE sets a column, or a column that it is generated from.
fn is_updated(
    column: usize,
    relation: &Relation,
    values: &[Option<Expr>],
    generated: &[(usize, Expr)],
) -> bool {
    let given = |column: usize| values.get(column).is_some_and(Option::is_some);
    let Some((_, computed)) = generated.iter().find(|(number, _)| *number == column) else {
        return given(column);
    };
    // A BEFORE trigger may set a column that the generated column reads.
    let is_before = |trigger: &Trigger| trigger.update && trigger.time == TriggerTime::Before;
    let mut found = relation.triggers.iter().any(is_before);
    reads_slots(computed, &mut |slot| found |= given(slot));
    found
}

/// Analyzes an expression of a function's body. It reads the rows before and after a change, then
/// the variables.
fn over_rows(
    text: &str,
    relation: &Arc<Relation>,
    context: &AnalyzeContext<'_>,
    finish: impl Fn(&mut Analyzer<'_>, Expr) -> Result<Expr>,
) -> Result<Expr> {
    let query = format!("SELECT {text}");
    let bytes = niwaki_parse::parse::stack_bytes(&query);
    stack::whole(|| stack::deeper_by(bytes, || over_rows_here(&query, relation, context, &finish)))
}

fn over_rows_here(
    query: &str,
    relation: &Arc<Relation>,
    context: &AnalyzeContext<'_>,
    finish: impl Fn(&mut Analyzer<'_>, Expr) -> Result<Expr>,
) -> Result<Expr> {
    let mut analyzer = Analyzer::new(context, query, Vec::new());
    let mut scope = Scope { place: Place::Assignment, ..Scope::default() };
    scope.add_record(RowName::Old.word(), relation, false);
    scope.add_record(RowName::New.word(), relation, false);
    let variable =
        |(name, oid): &(&str, TypeOid)| ColumnInfo::computed(*name, ColumnType::new(*oid));
    let variables: Vec<ColumnInfo> = VARIABLES.iter().map(variable).collect();
    scope.add_columns("", &variables);
    analyzer.scopes.push(scope);
    let statements = niwaki_parse::parse::parse(query)?;
    let node = expression_node(&statements)?;
    let value = analyzer.expr_of(node);
    value.and_then(|value| finish(&mut analyzer, value)).map_err(|mut error| {
        error.position = None;
        error
    })
}

/// Analyzes a stored WHEN condition, over the rows before and after the change.
pub(crate) fn condition(
    text: &str,
    relation: &Arc<Relation>,
    context: &AnalyzeContext<'_>,
) -> Result<Expr> {
    Form::when(relation).read_stored(text, context)
}

/// Returns the rows that an expression names, each with the named field; `None` stands for the
/// whole row.
fn fields_read(text: &str) -> Result<Vec<(RowName, Option<String>)>> {
    let mut found = Vec::new();
    each_node(text, |node| {
        let NodeEnum::ColumnRef(column) = node else { return };
        let names = names_of(&column.fields);
        let row = names.first().and_then(|name| RowName::of_word(name));
        if let (Some(row), [_]) = (row, column.fields.as_slice()) {
            found.push((row, None));
        } else if let (Some(row), [_, _]) = (row, column.fields.as_slice()) {
            found.push((row, names.get(1).map(|field| (*field).to_owned())));
        }
    })?;
    Ok(found)
}

/// Returns the positions of the columns that a WHEN condition reads, ascending. Whole-row
/// references are ignored.
///
/// # Errors
/// The errors of the parser.
pub fn condition_columns(text: &str, relation: &Relation) -> Result<Vec<usize>> {
    let read = fields_read(text)?.into_iter().filter_map(|(_, field)| field);
    let mut columns: Vec<usize> =
        read.filter_map(|field| relation.column_position(&field)).collect();
    columns.sort_unstable();
    columns.dedup();
    Ok(columns)
}

/// Checks that a trigger could be fired as declared; returns its condition as text to store.
///
/// # Errors
/// `42P17` and `0A000`, as in PostgreSQL, for WHEN conditions; the errors of the analysis; `0A000`
/// for literals that depend on the session's settings.
pub fn check_trigger(
    trigger: &Trigger,
    relation: &Arc<Relation>,
    context: &AnalyzeContext<'_>,
) -> Result<Option<String>> {
    let Some(text) = &trigger.when else { return Ok(None) };
    for (row, field) in fields_read(text)? {
        let invalid = |message: &str| Err(SqlError::new("42P17", message));
        match row {
            RowName::Old if trigger.insert => {
                return invalid("INSERT trigger's WHEN condition cannot reference OLD values");
            }
            RowName::New if trigger.delete => {
                return invalid("DELETE trigger's WHEN condition cannot reference NEW values");
            }
            _ => {}
        }
        let before_new = row == RowName::New && trigger.time == TriggerTime::Before;
        let generated = |name: &str| {
            let detail = format!("Column \"{name}\" is a generated column.");
            let message = "BEFORE trigger's WHEN condition cannot reference NEW generated columns";
            SqlError::new("42P17", message).with_detail(detail)
        };
        let Some(field) = field else {
            if before_new && relation.has_generated() {
                let message =
                    "BEFORE trigger's WHEN condition cannot reference NEW generated columns";
                return Err(SqlError::new("42P17", message).with_detail(
                    "A whole-row reference is used and the table contains generated columns.",
                ));
            }
            continue;
        };
        let column = relation.column_position(&field).map(|at| &relation.columns[at]);
        let is_system = SYSTEM_COLUMNS.iter().any(|(name, ..)| *name == field)
            || matches!(field.as_str(), "xmax" | "cmin" | "cmax");
        match column {
            Some(column) if before_new && column.generated => {
                return Err(generated(&column.name));
            }
            None if is_system && before_new => {
                let message = "BEFORE trigger's WHEN condition cannot reference NEW system columns";
                return Err(SqlError::new("0A000", message));
            }
            None if is_system => {
                return Err(SqlError::unsupported("a system column in a trigger's WHEN condition"));
            }
            _ => {}
        }
    }
    Form::when(relation).define(text, context).map(Some)
}

/// Checks that a stored trigger can be fired: its function is a trigger function, and its condition
/// can be analyzed.
///
/// # Errors
/// An error that describes the fault.
pub fn check_stored_trigger(
    trigger: &Trigger,
    relation: &Arc<Relation>,
    context: &AnalyzeContext<'_>,
) -> Result<()> {
    let wrong =
        |what: &str| Err(SqlError::internal(format!("trigger \"{}\" {what}", trigger.name)));
    if let Some(text) = &trigger.when {
        stack::whole(|| condition(text, relation, context).map(drop))?;
    }
    let exists = |column: &u16| {
        relation.columns.get(usize::from(*column)).is_some_and(|column| !column.dropped)
    };
    if !trigger.columns.iter().all(exists) {
        return wrong("is for columns that are not there");
    }
    if trigger.events().next().is_none() {
        return wrong("is for no change");
    }
    if trigger.function == SUPPRESS_REDUNDANT {
        return Ok(());
    }
    match context.catalog.function(trigger.function) {
        Some(function) if function.is_for_triggers() && function.arguments.is_empty() => Ok(()),
        Some(_) => wrong("calls a function that is none for triggers"),
        None => wrong("calls a function that is not there"),
    }
}

/// Analyzes a WHEN condition for display, over a relation with the columns of both rows, first the
/// old row's. Returns `None` if it cannot be shown.
pub(crate) fn shown_condition(
    text: &str,
    relation: &Arc<Relation>,
    context: &AnalyzeContext<'_>,
) -> Result<Option<Expr>> {
    if fields_read(text)?.iter().any(|(_, field)| field.is_none()) {
        // Whole rows have been expanded into their columns.
        return Ok(None);
    }
    let expr = condition(text, relation, context)?;
    // A constant alone reads no relation over which it could be shown.
    Ok((!matches!(expr.kind, ExprKind::Const(_))).then_some(expr))
}
