//! Expressions that the catalog keeps as text: defaults, checks, generated columns, parts of indexes, conditions of triggers.
//!
//! Where one is defined, its names mean what the search path says. What they mean is noted, and the names of users' objects
//! are stored as numbers ([`crate::numbered`]); so whoever reads the text later reads what was meant.

use std::cell::RefCell;
use std::sync::Arc;

use niwaki_catalog::{Oid, Relation};
use niwaki_env::stack;
use niwaki_types::{ColumnType, DateOrder, Datum, IntervalStyle, TextSettings, TypeOid};
use pg_query::{Node, NodeEnum, protobuf};

use super::Analyzer;
use super::scope::{ItemColumn, Place, Scope};
use super::view::Names;
use crate::column_names::unqualified;
use crate::context::AnalyzeContext;
use crate::error::{Result, SqlError};
use crate::expr::Expr;
use crate::numbered::{InNumbers, Number, number_of, numbered, string_of};
use crate::plpgsql::RowName;
use crate::types::{CastContext, is_polymorphic};

/// Which part of an index an expression is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IndexPart {
    Key,
    Predicate,
}

impl IndexPart {
    /// How messages call one of them.
    pub(crate) fn one(self) -> &'static str {
        match self {
            Self::Key => "index expression",
            Self::Predicate => "index predicate",
        }
    }
}

/// What the columns are that an expression can read, from slot 0 on.
#[derive(Clone, Copy)]
enum Over<'e> {
    Nothing,
    /// A row of a table.
    Row(&'e Arc<Relation>),
    /// The rows before and after a change, with their names.
    Change(&'e Arc<Relation>),
    /// The value of a domain, of the type that is given.
    Value(ColumnType),
}

/// What the value of an expression is made.
#[derive(Clone, Copy)]
enum Becomes<'e> {
    /// A value of a column or domain: its type and name.
    Assigned(ColumnType, &'e str),
    /// A condition, as messages call it.
    Condition(&'static str),
    /// The argument of a parameter.
    Argument(TypeOid),
    /// Whatever it is.
    Output,
    /// Whatever it is, an untyped literal of this type.
    Literal(ColumnType),
}

/// A kind of stored expression.
#[derive(Clone, Copy)]
pub(super) struct Form<'e> {
    over: Over<'e>,
    place: Place,
    becomes: Becomes<'e>,
    /// Domains whose constraints are being analyzed, outermost first.
    open: &'e [TypeOid],
}

impl<'e> Form<'e> {
    /// DEFAULT of a column or domain (`target`: its type and name).
    fn default((column_type, name): (ColumnType, &'e str)) -> Self {
        let becomes = Becomes::Assigned(column_type, name);
        Self { over: Over::Nothing, place: Place::Default, becomes, open: &[] }
    }

    /// DEFAULT of a parameter.
    pub(super) fn of_parameter(kind: TypeOid) -> Self {
        let becomes = Becomes::Argument(kind);
        Self { over: Over::Nothing, place: Place::ParameterDefault, becomes, open: &[] }
    }

    /// CHECK of a table.
    fn check(table: &'e Arc<Relation>) -> Self {
        let becomes = Becomes::Condition("CHECK");
        Self { over: Over::Row(table), place: Place::Check, becomes, open: &[] }
    }

    /// CHECK of a domain over values of the type `value`, inside of the constraints of the domains `open`.
    pub(super) fn of_domain(value: ColumnType, open: &'e [TypeOid]) -> Self {
        let becomes = Becomes::Condition("CHECK");
        Self { over: Over::Value(value), place: Place::Check, becomes, open }
    }

    /// GENERATED ALWAYS AS of a column (`target`: its type and name).
    fn generation(table: &'e Arc<Relation>, (column_type, name): (ColumnType, &'e str)) -> Self {
        let becomes = Becomes::Assigned(column_type, name);
        Self { over: Over::Row(table), place: Place::Generation, becomes, open: &[] }
    }

    fn index(table: &'e Arc<Relation>, part: IndexPart) -> Self {
        let (place, becomes) = match part {
            IndexPart::Key => (Place::IndexExpression, Becomes::Output),
            IndexPart::Predicate => (Place::IndexPredicate, Becomes::Condition("WHERE")),
        };
        Self { over: Over::Row(table), place, becomes, open: &[] }
    }

    /// WHEN of a trigger.
    pub(super) fn when(table: &'e Arc<Relation>) -> Self {
        let becomes = Becomes::Condition("WHEN");
        Self { over: Over::Change(table), place: Place::TriggerWhen, becomes, open: &[] }
    }

    /// Analyzes a text; whether it is a stored one, the context says. Positions are dropped: they are those of a text that
    /// is no part of the statement.
    ///
    /// # Errors
    /// As [`super::analyze`].
    pub(super) fn read(&self, text: &str, context: &AnalyzeContext<'_>) -> Result<Expr> {
        let names = || if context.stored { Names::Numbered } else { Names::ByPath };
        self.analyze(text, context, names).map(|(expr, _)| expr)
    }

    /// [`Form::read`] for a stored text, whose literals are read as with the default styles.
    pub(super) fn read_stored(&self, text: &str, context: &AnalyzeContext<'_>) -> Result<Expr> {
        with_stored_styles(context, |context| self.read(text, context))
    }

    /// Analyzes a text that somebody wrote; returns it as it is stored. One that is stored already stays as it is.
    ///
    /// # Errors
    /// As [`super::analyze`]; `0A000` for literals that the session's settings give another meaning than the default ones.
    pub(super) fn define(&self, text: &str, context: &AnalyzeContext<'_>) -> Result<String> {
        stack::whole(|| self.define_here(text, context))
    }

    fn define_here(&self, text: &str, context: &AnalyzeContext<'_>) -> Result<String> {
        if context.stored {
            return self.read_stored(text, context).map(|_| text.to_owned());
        }
        let names = || Names::Numbering(RefCell::default());
        let (given, names) = self.analyze(text, context, names)?;
        let Names::Numbering(noted) = names else {
            return Err(SqlError::internal("the meanings of an expression's names got lost"));
        };
        let mut stored = numbered(text, noted.into_inner())?;
        if matches!(self.over, Over::Row(_)) {
            stored = unqualified(&stored)?;
        }
        let again = self.read_stored(&stored, context);
        if has_default_styles(context.text) {
            return again.map(|_| stored);
        }
        match again {
            Ok(again) if again.same(&given) => Ok(stored),
            _ => Err(depends_on_styles()),
        }
    }

    fn scope(&self, context: &AnalyzeContext<'_>) -> Scope {
        let mut scope = Scope { place: self.place, ..Scope::default() };
        match self.over {
            Over::Nothing => {}
            Over::Row(relation) => {
                let schema = context.catalog.schema(relation.schema);
                let schema = schema.map(|schema| schema.name.clone());
                scope.add_relation(relation, &relation.name, schema);
            }
            Over::Change(relation) => {
                // Columns are found by their own names only to be told that they could be of either row.
                scope.add_record(RowName::Old.word(), relation, true);
                scope.add_record(RowName::New.word(), relation, true);
            }
            Over::Value(value) => scope.add_value(ItemColumn {
                name: "value".to_owned(),
                expr: Expr::slot(0, value),
                origin: (0, 0),
                bare: true,
                hidden: false,
                fields: None,
            }),
        }
        scope
    }

    fn analyze(
        &self,
        text: &str,
        context: &AnalyzeContext<'_>,
        names: impl Fn() -> Names<'static>,
    ) -> Result<(Expr, Names<'static>)> {
        let query = format!("SELECT {text}");
        let bytes = crate::parse::stack_bytes(&query);
        stack::whole(|| stack::deeper_by(bytes, || self.analyze_here(&query, context, names())))
    }

    fn analyze_here(
        &self,
        query: &str,
        context: &AnalyzeContext<'_>,
        names: Names<'static>,
    ) -> Result<(Expr, Names<'static>)> {
        let node = expression_node(query)?;
        let mut analyzer = Analyzer::new(context, query, Vec::new());
        analyzer.names = names;
        analyzer.open_domains = self.open.to_vec();
        analyzer.scopes.push(self.scope(context));
        let value = analyzer.expr_of(node.as_deref());
        let value = value.and_then(|value| analyzer.finish(value, self.becomes));
        let value = value.map_err(|mut error| {
            error.position = None;
            error
        })?;
        match std::mem::take(&mut analyzer.names) {
            Names::Numbering(noted) => Ok((value, Names::Numbering(noted))),
            _ => Ok((value, Names::ByPath)),
        }
    }
}

impl Analyzer<'_> {
    /// Whether the text is that of a stored expression, new or stored.
    pub(super) fn is_of_expression(&self) -> bool {
        matches!(self.names, Names::Numbering(_) | Names::Numbered)
    }

    /// Whether names of users' objects are numbers.
    pub(super) fn reads_numbers(&self) -> bool {
        matches!(self.names, Names::Numbered)
    }

    /// Notes by which number a name in the text of an expression is stored.
    pub(super) fn note_number(&self, location: i32, number: Number) -> Result<()> {
        let Names::Numbering(noted) = &self.names else { return Ok(()) };
        let at = usize::try_from(location)
            .map_err(|_| SqlError::internal("a name in an expression stands nowhere"))?;
        noted.borrow_mut().push((at, number));
        Ok(())
    }

    /// The user's type that has a number. Of an enum that is all there is to know.
    pub(super) fn numbered_type(&self, oid: TypeOid) -> Option<ColumnType> {
        if oid.is_enum() {
            return Some(ColumnType::new(oid));
        }
        let found = self.context.catalog.user_type(Oid(oid.user_number()?))?;
        Some(found.column_type())
    }

    /// A call in the text of a stored expression that stands for the value of an enum, or for a cast.
    pub(super) fn numbered_call(&mut self, call: &protobuf::FuncCall) -> Result<Option<Expr>> {
        if !self.reads_numbers() {
            return Ok(None);
        }
        let location = call.location;
        match (number_of(&call.funcname), call.args.as_slice()) {
            (Some(InNumbers::Label), [kind, position]) => {
                let number =
                    |node: &Node| string_of(node).and_then(|text| text.parse::<u64>().ok());
                let kind = number(kind).and_then(|kind| u32::try_from(kind).ok()).map(TypeOid);
                let (Some(kind), Some(position)) = (kind, number(position)) else {
                    return Err(SqlError::internal("a label without a number"));
                };
                let value = Datum::Enum(kind, position);
                Ok(Some(Expr::constant(value, kind, location)))
            }
            (Some(InNumbers::Number(number)), [argument]) => {
                let Some(to) = self.numbered_type(TypeOid(number)) else { return Ok(None) };
                let argument = self.expr(argument)?;
                self.cast(argument, to, location).map(Some)
            }
            _ => Ok(None),
        }
    }

    fn finish(&mut self, value: Expr, becomes: Becomes<'_>) -> Result<Expr> {
        match becomes {
            Becomes::Assigned(column_type, name) => self.assign(value, column_type, name, -1),
            Becomes::Condition(what) => self.to_bool(value, what),
            Becomes::Output => self.to_output(value),
            Becomes::Literal(column) if value.ty == TypeOid::UNKNOWN => {
                self.cast(value, ColumnType::new(column.oid), -1)
            }
            Becomes::Literal(_) => self.to_output(value),
            Becomes::Argument(kind) if is_polymorphic(kind) => Ok(value),
            Becomes::Argument(kind) => {
                let wanted = self.context.text.types.column_type(kind);
                let from = self.format_oid(value.declared());
                let argument = self.coerce(value, wanted.oid, CastContext::Assignment)?;
                argument.ok_or_else(|| {
                    let shown = self.format_oid(kind);
                    let message =
                        format!("argument of DEFAULT must be type {shown}, not type {from}");
                    SqlError::new("42804", message)
                })
            }
        }
    }
}

/// The expression that a text of the form `SELECT expression` selects.
pub(super) fn expression_node(query: &str) -> Result<Option<Box<Node>>> {
    let statements = crate::parse::parse(query)?;
    let Some(NodeEnum::SelectStmt(select)) = statements.first().map(|s| &**s.node) else {
        return Err(SqlError::internal("a stored expression is no expression"));
    };
    match select.target_list.first().and_then(|node| node.node.as_ref()) {
        Some(NodeEnum::ResTarget(target)) => Ok(target.val.clone()),
        _ => Err(SqlError::internal("a stored expression is empty")),
    }
}

/// Calls `run` with a context in which texts are stored ones, and literals are read with the default styles.
fn with_stored_styles<T>(
    context: &AnalyzeContext<'_>,
    run: impl FnOnce(&AnalyzeContext<'_>) -> T,
) -> T {
    if has_default_styles(context.text) {
        return run(&AnalyzeContext { stored: true, ..*context });
    }
    let text = TextSettings {
        date_order: DateOrder::default(),
        interval_style: IntervalStyle::default(),
        ..context.text.clone()
    };
    run(&AnalyzeContext { text: &text, stored: true, ..*context })
}

/// Whether literals are read as by default.
fn has_default_styles(text: &TextSettings) -> bool {
    text.date_order == DateOrder::default() && text.interval_style == IntervalStyle::default()
}

fn depends_on_styles() -> SqlError {
    SqlError::unsupported(
        "a literal in a default or check that depends on the session's DateStyle or IntervalStyle",
    )
    .with_hint("Write dates in ISO form, and a sign before each part of an interval.")
}

/// Analyzes a stored default (`target`: type and name of its column) or check over the columns of a table, none when
/// `relation` is absent. The result reads the table's columns from slot 0 on.
///
/// Its literals are read as with the default `DateStyle` and `IntervalStyle`, whatever the session's are; those that were
/// meant otherwise are refused where they are defined.
///
/// # Errors
/// As [`super::analyze`].
pub(crate) fn table_expression(
    text: &str,
    relation: Option<&Arc<Relation>>,
    context: &AnalyzeContext<'_>,
    target: Option<(ColumnType, &str)>,
) -> Result<Expr> {
    of_table(relation, target).read_stored(text, context)
}

/// [`table_expression`] for a text that a statement has, whose names mean what the search path says.
pub(crate) fn written_expression(
    text: &str,
    relation: Option<&Arc<Relation>>,
    context: &AnalyzeContext<'_>,
    target: (ColumnType, &str),
) -> Result<Expr> {
    of_table(relation, Some(target)).analyze(text, context, || Names::ByPath).map(|(expr, _)| expr)
}

fn of_table<'e>(
    relation: Option<&'e Arc<Relation>>,
    target: Option<(ColumnType, &'e str)>,
) -> Form<'e> {
    let (place, becomes) = match target {
        Some((column_type, name)) => (Place::Default, Becomes::Assigned(column_type, name)),
        None => (Place::Check, Becomes::Condition("CHECK")),
    };
    Form { over: relation.map_or(Over::Nothing, Over::Row), place, becomes, open: &[] }
}

/// Analyzes a stored expression to be shown: over the columns of a table, or of a column's type where it has none of
/// its own.
///
/// # Errors
/// As [`super::analyze`].
pub(crate) fn stored_expression(
    text: &str,
    relation: Option<&Arc<Relation>>,
    context: &AnalyzeContext<'_>,
    target: Option<ColumnType>,
) -> Result<Expr> {
    let becomes = target.map_or(Becomes::Output, Becomes::Literal);
    let over = relation.map_or(Over::Nothing, Over::Row);
    let form = Form { over, place: Place::default(), becomes, open: &[] };
    form.read(text, &AnalyzeContext { stored: true, ..*context })
}

/// Reads the DEFAULT of a column or domain (`target`: its type and name); returns the text to be stored.
///
/// # Errors
/// Analysis's; `0A000` where it would mean something else in a session with other settings.
pub fn define_default(
    text: &str,
    target: (ColumnType, &str),
    context: &AnalyzeContext<'_>,
) -> Result<String> {
    Form::default(target).define(text, context)
}

/// Reads a CHECK over the columns of `relation`; returns the text to be stored.
///
/// # Errors
/// As [`define_default`].
pub fn define_check(
    text: &str,
    relation: &Arc<Relation>,
    context: &AnalyzeContext<'_>,
) -> Result<String> {
    Form::check(relation).define(text, context)
}

/// An expression of an index over the columns of its table: how it is stored.
///
/// # Errors
/// As [`define_default`].
pub(crate) fn define_index(
    text: &str,
    relation: &Arc<Relation>,
    context: &AnalyzeContext<'_>,
    part: IndexPart,
) -> Result<String> {
    Form::index(relation, part).define(text, context)
}

/// Analyzes the condition of COPY FROM … WHERE, over the columns of the table that is copied into.
///
/// # Errors
/// As [`super::analyze`].
pub(crate) fn copy_condition(
    text: &str,
    relation: &Arc<Relation>,
    context: &AnalyzeContext<'_>,
) -> Result<Expr> {
    let becomes = Becomes::Condition("WHERE");
    let form = Form { over: Over::Row(relation), place: Place::CopyWhere, becomes, open: &[] };
    form.analyze(text, context, || Names::ByPath).map(|(expr, _)| expr)
}

/// Analyzes a stored expression of an index over the columns of its table, which it reads from slot 0 on.
///
/// # Errors
/// As [`super::analyze`].
pub(crate) fn index_expression(
    text: &str,
    relation: &Arc<Relation>,
    context: &AnalyzeContext<'_>,
    part: IndexPart,
) -> Result<Expr> {
    Form::index(relation, part).read(text, &AnalyzeContext { stored: true, ..*context })
}

/// What GENERATED ALWAYS AS says of a column (`target`, its type and name), over the columns of its table: how it is stored.
///
/// # Errors
/// As [`define_default`].
pub(crate) fn define_generation(
    text: &str,
    relation: &Arc<Relation>,
    context: &AnalyzeContext<'_>,
    target: (ColumnType, &str),
) -> Result<String> {
    Form::generation(relation, target).define(text, context)
}

/// Analyzes what is stored of a generated column (`target`, its type and name), over the columns of its table, which the
/// result reads from slot 0 on.
///
/// # Errors
/// As [`super::analyze`].
pub(crate) fn generation_expression(
    text: &str,
    relation: &Arc<Relation>,
    context: &AnalyzeContext<'_>,
    target: (ColumnType, &str),
) -> Result<Expr> {
    Form::generation(relation, target).read(text, &AnalyzeContext { stored: true, ..*context })
}
