//! Expressions that the catalog stores as text: defaults, checks, generated columns, index parts,
//! trigger conditions.
//!
//! At definition time, the search path resolves the names. The meanings are noted, and the names of
//! users' objects are stored as numbers ([`niwaki_parse::stored_references`]). So every later
//! reader resolves the text to the same objects.

use std::cell::RefCell;
use std::sync::Arc;

use niwaki_catalog::{Oid, Relation};
use niwaki_env::stack;
use niwaki_expr::analysis::AnalyzeContext;
use niwaki_expr::expr::Expr;
use niwaki_expr::query::RowName;
use niwaki_parse::column_names::unqualified;
use niwaki_parse::error::{Result, SqlError};
use niwaki_parse::parse::{ParsedStatement, parse};
use niwaki_parse::stored_references::{
    ParsedReference, StoredReference, reference_of, string_of, with_references,
};
use niwaki_parse::types::{CastContext, is_polymorphic};
use niwaki_types::{ColumnType, DateOrder, Datum, IntervalStyle, TextSettings, TypeOid};
use pg_query::{Node, NodeEnum, protobuf};

use crate::analyze::Analyzer;
use crate::analyze::names::rule::Names;
use crate::analyze::names::scope::{ItemColumn, Place, Scope};

/// The kinds of index expressions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IndexPart {
    Key,
    Predicate,
}

impl IndexPart {
    /// Returns the name of one such expression in messages.
    pub(crate) fn one(self) -> &'static str {
        match self {
            Self::Key => "index expression",
            Self::Predicate => "index predicate",
        }
    }
}

/// The columns that an expression can read, from slot 0 on.
#[derive(Clone, Copy)]
enum Over<'e> {
    Nothing,
    /// A row of a table.
    Row(&'e Arc<Relation>),
    /// The rows before and after a change, with their names.
    Change(&'e Arc<Relation>),
    /// The value of a domain with this base type.
    Value(ColumnType),
}

/// The conversion of an expression's value.
#[derive(Clone, Copy)]
enum Becomes<'e> {
    /// Assignment to a column or domain: its type and name.
    Assigned(ColumnType, &'e str),
    /// Conversion to boolean for a condition; the text is the condition's name in messages.
    Condition(&'static str),
    /// Conversion to a parameter's type.
    Argument(TypeOid),
    /// No conversion.
    Output,
    /// No conversion, except that an untyped literal gets this type.
    Literal(ColumnType),
}

/// The kind of a stored expression.
#[derive(Clone, Copy)]
pub(crate) struct Form<'e> {
    over: Over<'e>,
    place: Place,
    becomes: Becomes<'e>,
    /// Domains whose constraints are being analyzed, outermost first.
    open: &'e [TypeOid],
}

impl<'e> Form<'e> {
    /// Returns the form of the DEFAULT of a column or domain (`target`: its type and name).
    fn default((column_type, name): (ColumnType, &'e str)) -> Self {
        let becomes = Becomes::Assigned(column_type, name);
        Self { over: Over::Nothing, place: Place::Default, becomes, open: &[] }
    }

    /// Returns the form of a parameter's DEFAULT.
    pub(crate) fn of_parameter(kind: TypeOid) -> Self {
        let becomes = Becomes::Argument(kind);
        Self { over: Over::Nothing, place: Place::ParameterDefault, becomes, open: &[] }
    }

    /// Returns the form of a table's CHECK.
    fn check(table: &'e Arc<Relation>) -> Self {
        let becomes = Becomes::Condition("CHECK");
        Self { over: Over::Row(table), place: Place::Check, becomes, open: &[] }
    }

    /// Returns the form of a domain's CHECK over values of the type `value`. `open` are the domains
    /// whose constraints contain it.
    pub(crate) fn of_domain(value: ColumnType, open: &'e [TypeOid]) -> Self {
        let becomes = Becomes::Condition("CHECK");
        Self { over: Over::Value(value), place: Place::Check, becomes, open }
    }

    /// Returns the form of a column's GENERATED ALWAYS AS (`target`: its type and name).
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

    /// Returns the form of a trigger's WHEN.
    pub(crate) fn when(table: &'e Arc<Relation>) -> Self {
        let becomes = Becomes::Condition("WHEN");
        Self { over: Over::Change(table), place: Place::TriggerWhen, becomes, open: &[] }
    }

    /// Analyzes a text. The context says whether it is a stored one. Positions are dropped, because
    /// they refer to a text outside of the statement.
    ///
    /// # Errors
    /// As `niwaki_sql::analyze`.
    pub(crate) fn read(&self, text: &str, context: &AnalyzeContext<'_>) -> Result<Expr> {
        let names = || if context.stored { Names::StoredReferences } else { Names::ByPath };
        self.analyze(text, context, names).map(|(expr, _)| expr)
    }

    /// Does [`Form::read`] for a stored text, whose literals are read with the default styles.
    pub(crate) fn read_stored(&self, text: &str, context: &AnalyzeContext<'_>) -> Result<Expr> {
        with_stored_styles(context, |context| self.read(text, context))
    }

    /// Analyzes a text of a statement, and returns the text to store. A text that is already stored
    /// stays unchanged.
    ///
    /// # Errors
    /// As `niwaki_sql::analyze`; `0A000` for literals that mean something else under the default
    /// settings.
    pub(crate) fn define(&self, text: &str, context: &AnalyzeContext<'_>) -> Result<String> {
        stack::whole(|| self.define_here(text, context))
    }

    fn define_here(&self, text: &str, context: &AnalyzeContext<'_>) -> Result<String> {
        if context.stored {
            return self.read_stored(text, context).map(|_| text.to_owned());
        }
        let names = || Names::StoringReferences(RefCell::default());
        let (given, names) = self.analyze(text, context, names)?;
        let Names::StoringReferences(noted) = names else {
            return Err(SqlError::internal("the meanings of an expression's names got lost"));
        };
        let mut stored = with_references(text, noted.into_inner())?;
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
                // Unqualified column names are found only to raise the error that they are
                // ambiguous.
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
        let bytes = niwaki_parse::parse::stack_bytes(&query);
        stack::whole(|| stack::deeper_by(bytes, || self.analyze_here(&query, context, names())))
    }

    fn analyze_here(
        &self,
        query: &str,
        context: &AnalyzeContext<'_>,
        names: Names<'static>,
    ) -> Result<(Expr, Names<'static>)> {
        let statements = parse(query)?;
        let node = expression_node(&statements)?;
        let mut analyzer = Analyzer::new(context, query, Vec::new());
        analyzer.names = names;
        analyzer.open_domains = self.open.to_vec();
        analyzer.scopes.push(self.scope(context));
        let value = analyzer.expr_of(node);
        let value = value.and_then(|value| analyzer.finish(value, self.becomes));
        let value = value.map_err(|mut error| {
            error.position = None;
            error
        })?;
        match std::mem::take(&mut analyzer.names) {
            Names::StoringReferences(noted) => Ok((value, Names::StoringReferences(noted))),
            _ => Ok((value, Names::ByPath)),
        }
    }
}

impl Analyzer<'_> {
    /// Returns whether the text is a stored expression, or one to be stored.
    pub(crate) fn is_of_expression(&self) -> bool {
        matches!(self.names, Names::StoringReferences(_) | Names::StoredReferences)
    }

    /// Returns whether names of users' objects are numbers.
    pub(crate) fn reads_numbers(&self) -> bool {
        matches!(self.names, Names::StoredReferences)
    }

    /// Notes the number under which a name in an expression's text is stored.
    pub(crate) fn note_reference(&self, location: i32, number: StoredReference) -> Result<()> {
        let Names::StoringReferences(noted) = &self.names else { return Ok(()) };
        let at = usize::try_from(location)
            .map_err(|_| SqlError::internal("a name in an expression stands nowhere"))?;
        noted.borrow_mut().push((at, number));
        Ok(())
    }

    /// Returns the user's type with a number. For an enum, the type is known without the catalog.
    pub(crate) fn numbered_type(&self, oid: TypeOid) -> Option<ColumnType> {
        if oid.is_enum() {
            return Some(ColumnType::new(oid));
        }
        let found = self.context.catalog.user_type(Oid(oid.user_number()?))?;
        Some(found.column_type())
    }

    /// Resolves a call in a stored expression's text that stands for an enum value or for a cast.
    pub(crate) fn numbered_call(&mut self, call: &protobuf::FuncCall) -> Result<Option<Expr>> {
        if !self.reads_numbers() {
            return Ok(None);
        }
        let location = call.location;
        match (reference_of(&call.funcname), call.args.as_slice()) {
            (Some(ParsedReference::Label), [kind, position]) => {
                let number =
                    |node: &Node| string_of(node).and_then(|text| text.parse::<u64>().ok());
                let kind = number(kind).and_then(|kind| u32::try_from(kind).ok()).map(TypeOid);
                let (Some(kind), Some(position)) = (kind, number(position)) else {
                    return Err(SqlError::internal("a label without a number"));
                };
                let value = Datum::Enum(kind, position);
                Ok(Some(Expr::constant(value, kind, location)))
            }
            (Some(ParsedReference::Object(number)), [argument]) => {
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

/// Returns the expression that a parsed text of the form `SELECT expression` selects.
pub(crate) fn expression_node(statements: &[ParsedStatement]) -> Result<Option<&Node>> {
    let Some(NodeEnum::SelectStmt(select)) = statements.first().map(|s| &*s.node) else {
        return Err(SqlError::internal("a stored expression is no expression"));
    };
    match select.target_list.first().and_then(|node| node.node.as_ref()) {
        Some(NodeEnum::ResTarget(target)) => Ok(target.val.as_deref()),
        _ => Err(SqlError::internal("a stored expression is empty")),
    }
}

/// Calls `run` with a context for stored texts, whose literals are read with the default styles.
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

/// Returns whether the default styles for literals are in effect.
fn has_default_styles(text: &TextSettings) -> bool {
    text.date_order == DateOrder::default() && text.interval_style == IntervalStyle::default()
}

fn depends_on_styles() -> SqlError {
    SqlError::unsupported(
        "a literal in a default or check that depends on the session's DateStyle or IntervalStyle",
    )
    .with_hint("Write dates in ISO form, and a sign before each part of an interval.")
}

/// Analyzes a stored default or check. For a default, `target` is the type and name of its column.
/// The result reads the columns of `relation`, if given, from slot 0 on.
///
/// Its literals are read with the default `DateStyle` and `IntervalStyle`, whatever the session's
/// settings are. A definition with literals that mean something else under the session's settings
/// was refused.
///
/// # Errors
/// As `niwaki_sql::analyze`.
pub(crate) fn table_expression(
    text: &str,
    relation: Option<&Arc<Relation>>,
    context: &AnalyzeContext<'_>,
    target: Option<(ColumnType, &str)>,
) -> Result<Expr> {
    of_table(relation, target).read_stored(text, context)
}

/// Does [`table_expression`] for a statement's own text. The search path resolves its names.
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

/// Analyzes a stored expression for display, over the columns of a table. `target` is the type for
/// an untyped literal.
///
/// # Errors
/// As `niwaki_sql::analyze`.
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

/// Analyzes the DEFAULT of a column or domain (`target`: its type and name); returns the text to
/// store.
///
/// # Errors
/// As `niwaki_sql::analyze`; `0A000` if the text would mean something else in a session with other
/// settings.
pub fn define_default(
    text: &str,
    target: (ColumnType, &str),
    context: &AnalyzeContext<'_>,
) -> Result<String> {
    Form::default(target).define(text, context)
}

/// Analyzes a CHECK over the columns of `relation`; returns the text to store.
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

/// Analyzes an index expression over the columns of its table; returns the text to store.
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

/// Analyzes the condition of COPY FROM … WHERE, over the columns of the target table.
///
/// # Errors
/// As `niwaki_sql::analyze`.
pub(crate) fn copy_condition(
    text: &str,
    relation: &Arc<Relation>,
    context: &AnalyzeContext<'_>,
) -> Result<Expr> {
    let becomes = Becomes::Condition("WHERE");
    let form = Form { over: Over::Row(relation), place: Place::CopyWhere, becomes, open: &[] };
    form.analyze(text, context, || Names::ByPath).map(|(expr, _)| expr)
}

/// Analyzes a stored index expression. The result reads the columns of the table from slot 0 on.
///
/// # Errors
/// As `niwaki_sql::analyze`.
pub(crate) fn index_expression(
    text: &str,
    relation: &Arc<Relation>,
    context: &AnalyzeContext<'_>,
    part: IndexPart,
) -> Result<Expr> {
    Form::index(relation, part).read(text, &AnalyzeContext { stored: true, ..*context })
}

/// Analyzes GENERATED ALWAYS AS of a column (`target`: its type and name), over the columns of its
/// table; returns the text to store.
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

/// Analyzes the stored expression of a generated column (`target`: its type and name). The result
/// reads the columns of the table from slot 0 on.
///
/// # Errors
/// As `niwaki_sql::analyze`.
pub(crate) fn generation_expression(
    text: &str,
    relation: &Arc<Relation>,
    context: &AnalyzeContext<'_>,
    target: (ColumnType, &str),
) -> Result<Expr> {
    Form::generation(relation, target).read(text, &AnalyzeContext { stored: true, ..*context })
}
