//! Users' views: analyzes their text with the meanings that its names had at CREATE VIEW.
//!
//! At creation, the text is analyzed once while the meaning of each name is noted
//! ([`Names::Recording`]). A reader analyzes the text again with these meanings ([`Names::Given`]).
//! The result is a query among the FROM items.

use std::cell::RefCell;
use std::sync::Arc;

use niwaki_catalog::{
    BoundName, LiteralSettings, Meaning, Oid, Relation, ViewDefinition, ViewSource,
};
use niwaki_env::stack;
use niwaki_expr::analysis::AnalyzeContext;
use niwaki_expr::context::{ColumnInfo, CommandTag};
use niwaki_expr::expr::{Expr, ExprKind, Nested};
use niwaki_expr::query::{
    AggregateCall, Body, ItemKind, Query, Select, SharedQuery, SlotRange, StatementBody,
    StatementQuery, reads_slots,
};
use niwaki_parse::error::{Result, SqlError};
use niwaki_parse::parse::ParsedStatement;
use niwaki_parse::stored_references::{REFERENCES_SCHEMA, StoredReference};
use niwaki_types::{ColumnType, DateOrder, Datum, IntervalStyle, TextSettings, TypeOid};
use pg_query::{NodeEnum, protobuf};

use crate::analyze::change::updatable::not_updatable;
use crate::analyze::names::rule::{Names, RecordedNames};
use crate::analyze::{Analyzed, Analyzer};

/// A view to be created.
#[derive(Debug)]
pub struct NewView {
    /// The columns of the view.
    pub columns: Vec<ColumnInfo>,
    /// The stored definition.
    pub definition: ViewDefinition,
    /// The relations that the view's text names.
    pub relations: Vec<Arc<Relation>>,
    /// The reason why the view is not updatable, in PostgreSQL's words.
    pub not_updatable: Option<&'static str>,
}

/// The query of a view, with its names resolved.
pub(crate) struct ViewQuery {
    pub query: Query,
    /// WITH queries of the view, and of views that it reads.
    pub shared: Vec<SharedQuery>,
}

/// Analyzes the query of a view to be created, materialized or not. `source` is the text of the
/// statement.
///
/// # Errors
/// As `niwaki_sql::analyze`; `0A000` for changes of data in WITH.
pub fn analyze_view(
    select: &protobuf::SelectStmt,
    source: &str,
    materialized: bool,
    context: &AnalyzeContext<'_>,
) -> Result<NewView> {
    let bytes = niwaki_parse::parse::stack_bytes(source);
    stack::whole(|| stack::deeper_by(bytes, || new_view(select, source, materialized, context)))
}

fn new_view(
    select: &protobuf::SelectStmt,
    source: &str,
    materialized: bool,
    context: &AnalyzeContext<'_>,
) -> Result<NewView> {
    if select.into_clause.is_some() {
        return Err(SqlError::new("0A000", "views must not contain SELECT INTO"));
    }
    // First analyze the query in the statement's text, so that errors have the statement's
    // positions.
    let given = Analyzer::new(context, source, Vec::new()).nested_query(select, None)?;
    for column in &given.columns {
        let kind = column.column_type.oid;
        let inner = kind.element().unwrap_or(kind);
        if inner == TypeOid::RECORD {
            let shown = niwaki_parse::types::format_oid(kind);
            let message = format!("column \"{}\" has pseudo-type {shown}", column.name);
            return Err(SqlError::new("42P16", message));
        }
        let number = inner.user_number().filter(|_| inner.is_composite());
        if number.is_some_and(|number| context.catalog.relation(Oid(number)).is_some()) {
            return Err(SqlError::unsupported("a view's column of the type of a relation's rows"));
        }
    }
    let bytes = niwaki_parse::parse::stack_bytes(source);
    let text = stack::of_thread(bytes, || niwaki_parse::utility::query_text(select))?;
    let statements = niwaki_parse::parse::parse(&text)?;
    let select = the_select(&statements)?;
    let mut analyzer = Analyzer::new(context, &text, Vec::new());
    analyzer.names = Names::Recording(RefCell::default());
    let query = analyzer.nested_query(select, None)?;
    if analyzer.shared.iter().any(|shared| matches!(shared.query.body, Body::Modify(_))) {
        let message = if materialized {
            "materialized views must not use data-modifying statements in WITH"
        } else {
            "views must not contain data-modifying statements in WITH"
        };
        return Err(SqlError::new("0A000", message));
    }
    if given.columns != query.columns {
        return Err(SqlError::internal("a view means something else when it is written anew"));
    }
    let Names::Recording(noted) = std::mem::take(&mut analyzer.names) else {
        return Err(SqlError::internal("the meanings of a view's names got lost"));
    };
    let RecordedNames { mut names, keys } = noted.into_inner();
    names.sort_by_key(|name| name.at);
    names.dedup();
    if names.windows(2).any(|two| two.first().map(|n| n.at) == two.last().map(|n| n.at)) {
        return Err(SqlError::unsupported("a view in which a name means two things"));
    }
    refuse_inner_recursion(&query, &analyzer.shared)?;
    let mut sources = analyzer.sources_of(&query);
    let mut types: Vec<Oid> = query
        .columns
        .iter()
        .filter_map(|c| c.column_type.declared().user_number())
        .map(Oid)
        .collect();
    for name in &names {
        match &name.meaning {
            Meaning::Relation(oid, _) => sources.whole(*oid),
            Meaning::Type(oid) => types.push(*oid),
            Meaning::Function(_) => {}
            Meaning::Object(number) if context.catalog.relation(Oid(*number)).is_some() => {
                sources.whole(Oid(*number));
            }
            Meaning::Object(number) => types.extend(TypeOid(*number).user_number().map(Oid)),
        }
    }
    keys.into_iter().for_each(|key| sources.whole(key));
    types.sort_unstable();
    types.dedup();
    let relations = names.iter().filter_map(|name| match &name.meaning {
        Meaning::Relation(oid, _) => context.catalog.relation(*oid).cloned(),
        _ => None,
    });
    let relations = relations.collect();
    let settings = settings_of(context);
    // Every reader of the view must be able to use these settings.
    text_settings(&TextSettings::default(), &settings)?;
    let definition =
        ViewDefinition { text: text.clone(), names, sources: sources.found, types, settings };
    let not_updatable = not_updatable(select, &query);
    Ok(NewView { columns: query.columns, definition, relations, not_updatable })
}

/// Analyzes a stored view, to show it or to check that it is still valid.
///
/// # Errors
/// As `niwaki_sql::analyze`; none can happen as long as the objects that the view reads exist.
pub(crate) fn view_query(relation: &Relation, context: &AnalyzeContext<'_>) -> Result<ViewQuery> {
    let Some(definition) = &relation.query else {
        return Err(SqlError::internal("a relation that is no view of a user"));
    };
    stack::whole(|| {
        let mut analyzer = Analyzer::new(context, "", Vec::new());
        let query = analyzer.view_rows(relation, definition)?;
        Ok(ViewQuery { query, shared: analyzer.shared })
    })
}

/// Returns the query of a stored view as a statement.
///
/// # Errors
/// As `niwaki_sql::analyze`; `XX000` for a relation that is no view of a user.
pub fn view_statement(relation: &Relation, context: &AnalyzeContext<'_>) -> Result<Analyzed> {
    let Some(definition) = &relation.query else {
        return Err(SqlError::internal("a relation that is no view of a user"));
    };
    let mut analyzer = Analyzer::new(context, "", Vec::new());
    let query = analyzer.view_rows(relation, definition)?;
    let columns = query.columns.clone();
    let shared = std::mem::take(&mut analyzer.shared);
    let statement = StatementQuery { body: StatementBody::Select(query), shared };
    Ok(analyzer.with_findings(statement, columns, CommandTag::Select))
}

/// Checks that a stored view is valid. It must have the columns of its definition, and read only
/// the columns listed there.
///
/// # Errors
/// An error that describes the fault.
pub fn check_view(relation: &Relation, context: &AnalyzeContext<'_>) -> Result<()> {
    let Some(definition) = &relation.query else {
        return Err(SqlError::internal("a relation that is no view of a user"));
    };
    let mut analyzer = Analyzer::new(context, "", Vec::new());
    let query = analyzer.view_rows(relation, definition)?;
    // The view's own range has all queries; the ranges of inner views are smaller.
    analyzer.shared_of_views.pop();
    for source in analyzer.sources_of(&query).found {
        let known = definition.columns_of(source.relation);
        let is_known = |known: &[u16]| source.columns.iter().all(|column| known.contains(column));
        if !known.is_some_and(is_known) {
            let message = format!(
                "view \"{}\" reads more of relation {} than its definition says",
                relation.name, source.relation
            );
            return Err(SqlError::internal(message));
        }
    }
    Ok(())
}

/// Refuses a view with a correlated recursive WITH query, which could not be shown.
fn refuse_inner_recursion(query: &Query, shared: &[SharedQuery]) -> Result<()> {
    let inside = |shared: &SharedQuery| match &shared.query.body {
        Body::Set(set) => set.left.query.has_recursion() || set.right.query.has_recursion(),
        _ => shared.query.has_recursion(),
    };
    if query.has_recursion() || shared.iter().any(inside) {
        let what = "a view with a recursive WITH query that reads rows of a query around it";
        return Err(SqlError::unsupported(what));
    }
    Ok(())
}

/// Returns the reason why a stored view is not updatable, in PostgreSQL's words.
///
/// # Errors
/// As [`check_view`].
pub fn view_not_updatable(
    relation: &Relation,
    context: &AnalyzeContext<'_>,
) -> Result<Option<&'static str>> {
    stack::whole(|| {
        let view = view_query(relation, context)?;
        let text = relation.query.as_ref().map_or("", |definition| &definition.text);
        Ok(not_updatable(the_select(&niwaki_parse::parse::parse(text)?)?, &view.query))
    })
}

impl Analyzer<'_> {
    /// Returns the rows of a user's view as a query. The query's columns are the view's.
    pub(crate) fn view_rows(
        &mut self,
        relation: &Relation,
        definition: &ViewDefinition,
    ) -> Result<Query> {
        let bytes = niwaki_parse::parse::stack_bytes(&definition.text);
        stack::deeper_by(bytes, || self.view_rows_here(relation, definition))
    }

    fn view_rows_here(
        &mut self,
        relation: &Relation,
        definition: &ViewDefinition,
    ) -> Result<Query> {
        if self.expanding.contains(&relation.oid) {
            let message =
                format!("infinite recursion detected in rules for relation \"{}\"", relation.name);
            return Err(SqlError::new("42P17", message));
        }
        let text = text_settings(self.context.text, &definition.settings)?;
        let context = AnalyzeContext { text: &text, now: definition.settings.now, ..*self.context };
        let mut inner = Analyzer::new(&context, &definition.text, Vec::new());
        inner.names = Names::Given(definition);
        inner.nested = 1;
        inner.expanding = std::mem::take(&mut self.expanding);
        inner.expanding.push(relation.oid);
        inner.shared = std::mem::take(&mut self.shared);
        inner.shared_of_views = std::mem::take(&mut self.shared_of_views);
        inner.relations = std::mem::take(&mut self.relations);
        let first = inner.shared.len();
        let query = inner.whole_text();
        self.expanding = std::mem::take(&mut inner.expanding);
        self.expanding.pop();
        self.shared = std::mem::take(&mut inner.shared);
        self.shared_of_views = std::mem::take(&mut inner.shared_of_views);
        self.shared_of_views.push(first..self.shared.len());
        self.relations = std::mem::take(&mut inner.relations);
        // Positions in the view's text mean nothing to the caller.
        let mut query = query.map_err(|mut error| {
            error.position = None;
            error
        })?;
        let columns = relation.columns.iter();
        let fits = query.columns.len() == relation.columns.len()
            && query
                .columns
                .iter()
                .zip(columns.clone())
                .all(|(is, was)| is.column_type == was.column_type());
        if !fits {
            let message = format!("view \"{}\" does not have its columns any more", relation.name);
            return Err(SqlError::internal(message));
        }
        for (number, (info, column)) in query.columns.iter_mut().zip(columns).enumerate() {
            info.name.clone_from(&column.name);
            info.table = relation.oid.0;
            info.attribute = i16::try_from(number + 1).unwrap_or(0);
        }
        Ok(query)
    }

    /// Returns the columns that a query and its WITH queries read. The WITH queries of inner views
    /// do not count.
    fn sources_of(&self, query: &Query) -> Sources {
        let mut sources = Sources::default();
        sources.query(query);
        for (number, shared) in self.shared.iter().enumerate() {
            if !self.shared_of_views.iter().any(|of_view| of_view.contains(&number)) {
                sources.query(&shared.query);
            }
        }
        sources
    }

    /// Returns whether the text is a view's, stored or to be stored.
    pub(crate) fn is_of_view(&self) -> bool {
        matches!(self.names, Names::Recording(_) | Names::Given(_))
    }

    /// Returns whether the text is a stored view's, whose names have given meanings.
    pub(crate) fn reads_view(&self) -> bool {
        matches!(self.names, Names::Given(_))
    }

    /// Analyzes the whole source text as one query.
    fn whole_text(&mut self) -> Result<Query> {
        let statements = niwaki_parse::parse::parse(self.source)?;
        self.nested_query(the_select(&statements)?, None)
    }

    /// Returns the given meaning of a name at a location of the text.
    pub(crate) fn meaning(&self, location: i32) -> Option<&Meaning> {
        let Names::Given(definition) = &self.names else { return None };
        definition.meaning_at(u32::try_from(location).ok()?)
    }

    pub(crate) fn note(&self, location: i32, meaning: impl FnOnce() -> Meaning) -> Result<()> {
        let Names::Recording(noted) = &self.names else { return Ok(()) };
        let at = u32::try_from(location)
            .map_err(|_| SqlError::internal("a name in a view stands nowhere"))?;
        noted.borrow_mut().names.push(BoundName { at, meaning: meaning() });
        Ok(())
    }

    /// Returns the relation that a name in a view's text means, and the names of its columns there.
    pub(crate) fn given_relation(
        &self,
        location: i32,
    ) -> Result<Option<(Arc<Relation>, Vec<String>)>> {
        let Names::Given(_) = &self.names else { return Ok(None) };
        let Some(Meaning::Relation(oid, columns)) = self.meaning(location) else {
            return Err(SqlError::internal("a name in a view has no meaning"));
        };
        let relation = self.context.catalog.relation(*oid);
        let relation = relation
            .ok_or_else(|| SqlError::internal(format!("relation {oid} of a view has gone")))?;
        Ok(Some((Arc::clone(relation), columns.clone())))
    }

    /// Notes that a name means a relation, which is the newest item.
    pub(crate) fn note_name(&self, location: i32, relation: Oid) -> Result<()> {
        let item = self.scopes.last().and_then(|scope| scope.items.last());
        let columns = item.iter().flat_map(|item| &item.columns);
        let names =
            columns.map(|column| if column.hidden { String::new() } else { column.name.clone() });
        self.note(location, || Meaning::Relation(relation, names.collect()))
    }

    /// Gives the newest item's columns the names in the view's text, and hides all others. Columns
    /// dropped since then stay visible: the text reads none of them, but an alias may count them.
    pub(crate) fn freeze_names(&mut self, names: &[String]) -> Result<()> {
        if let Some(item) = self.scope()?.items.last_mut() {
            let mut names = names.iter();
            for column in &mut item.columns {
                match names.next() {
                    Some(name) if !name.is_empty() => {
                        column.name.clone_from(name);
                        column.hidden = false;
                    }
                    _ => column.hidden = true,
                }
            }
        }
        Ok(())
    }

    /// Returns the user's type that a name means.
    pub(crate) fn user_type(
        &self,
        location: i32,
        schema: Option<&str>,
        name: &str,
    ) -> Option<ColumnType> {
        let catalog = self.context.catalog;
        let found = match (&self.names, schema) {
            (Names::Given(_), _) => match self.meaning(location)? {
                Meaning::Type(oid) => catalog.user_type(*oid),
                _ => None,
            },
            (Names::StoredReferences, Some(REFERENCES_SCHEMA)) => {
                return self.numbered_type(TypeOid(name.parse().ok()?));
            }
            (_, Some("pg_catalog")) => None,
            (_, schema) => catalog.resolve_type(self.context.path, schema, name),
        };
        found.map(|found| found.column_type())
    }

    /// Notes the user's type that a name means.
    pub(crate) fn note_type(&self, location: i32, oid: TypeOid) -> Result<()> {
        let Some(number) = oid.user_number() else { return Ok(()) };
        self.note_reference(location, StoredReference::Name(oid.0))?;
        self.note(location, || Meaning::Type(Oid(number)))
    }

    /// Parses a literal that names an object or an enum label.
    pub(crate) fn naming_literal(&self, text: &str, to: TypeOid, location: i32) -> Result<Datum> {
        if let Some(Meaning::Object(number)) = self.meaning(location) {
            return Ok(Datum::Oid(*number));
        }
        let value = self.input(text, to)?;
        if let Some(number) = StoredReference::of_value(&value, to) {
            self.note_reference(location, number)?;
        }
        if let Datum::Oid(number) = value {
            self.note(location, || Meaning::Object(number))?;
        }
        Ok(value)
    }

    /// Notes that the columns of a unique index functionally determine other columns.
    pub(crate) fn note_key(&self, index: Oid) {
        if let Names::Recording(noted) = &self.names {
            noted.borrow_mut().keys.push(index);
        }
    }
}

pub(crate) fn the_select(statements: &[ParsedStatement]) -> Result<&protobuf::SelectStmt> {
    match statements {
        [one] => match &*one.node {
            NodeEnum::SelectStmt(select) => Ok(select.as_ref()),
            _ => Err(SqlError::internal("the text of a view is no query")),
        },
        _ => Err(SqlError::internal("the text of a view is not one query")),
    }
}

const ORDERS: [(&str, DateOrder); 3] = [
    ("MDY", DateOrder::MonthDayYear),
    ("DMY", DateOrder::DayMonthYear),
    ("YMD", DateOrder::YearMonthDay),
];

const STYLES: [(&str, IntervalStyle); 4] = [
    ("postgres", IntervalStyle::Postgres),
    ("postgres_verbose", IntervalStyle::PostgresVerbose),
    ("sql_standard", IntervalStyle::SqlStandard),
    ("iso_8601", IntervalStyle::Iso8601),
];

/// Returns the word of a value; the first word if the value has none.
fn word<T: PartialEq>(words: &[(&'static str, T)], value: &T) -> String {
    let found = words.iter().find(|(_, known)| known == value).or(words.first());
    found.map_or("", |(word, _)| *word).to_owned()
}

fn value<T: Copy>(words: &[(&str, T)], wanted: &str) -> Result<T> {
    let found = words.iter().find(|(word, _)| *word == wanted).map(|(_, value)| *value);
    found.ok_or_else(|| SqlError::internal(format!("\"{wanted}\" is no setting of a view")))
}

fn settings_of(context: &AnalyzeContext<'_>) -> LiteralSettings {
    LiteralSettings {
        time_zone: context.text.time_zone.to_string(),
        date_order: word(&ORDERS, &context.text.date_order),
        interval_style: word(&STYLES, &context.text.interval_style),
        now: context.now,
    }
}

/// Returns the session's settings, with the stored settings for literals.
fn text_settings(session: &TextSettings, stored: &LiteralSettings) -> Result<TextSettings> {
    let mut text = session.clone();
    if *text.time_zone != *stored.time_zone {
        text.set_time_zone(&stored.time_zone)?;
    }
    text.date_order = value(&ORDERS, &stored.date_order)?;
    text.interval_style = value(&STYLES, &stored.interval_style)?;
    Ok(text)
}

/// The relations and columns that a query reads.
#[derive(Default)]
struct Sources {
    /// Sorted by the relations' OIDs.
    found: Vec<ViewSource>,
}

impl Sources {
    /// Adds a relation that is read or otherwise needed.
    fn whole(&mut self, relation: Oid) {
        let at = self.found.partition_point(|source| source.relation < relation);
        if self.found.get(at).is_none_or(|source| source.relation != relation) {
            self.found.insert(at, ViewSource { relation, columns: Vec::new() });
        }
    }

    fn column(&mut self, relation: Oid, column: u16) {
        self.whole(relation);
        let source = self.found.iter_mut().find(|source| source.relation == relation);
        if let Some(source) = source
            && let Err(at) = source.columns.binary_search(&column)
        {
            source.columns.insert(at, column);
        }
    }

    /// Adds a query with everything nested in it. Views that it reads are added as relations,
    /// without their queries.
    fn query(&mut self, query: &Query) {
        match &query.body {
            Body::Select(select) => self.select(select),
            Body::Set(set) => {
                self.query(&set.left.query);
                self.query(&set.right.query);
            }
            Body::Values(_) | Body::Modify(_) => {}
        }
        query.for_each_expr(&mut |expr| self.nested(expr));
    }

    /// Adds the queries nested in an expression.
    fn nested(&mut self, expr: &Expr) {
        if let ExprKind::SubQuery(sub) = &expr.kind
            && let Nested::Query(query) = &sub.query
        {
            self.query(query);
        }
        expr.for_each_child(&mut |child| self.nested(child));
    }

    fn select(&mut self, select: &Select) {
        let mut read = Vec::new();
        let mut reads = |expr: &Expr| reads_slots(expr, &mut |slot| read.push(slot));
        select.from.for_each_expr(&mut reads);
        if let Some(grouping) = &select.grouping {
            // Expressions above the grouping read groups.
            grouping.groups.iter().for_each(&mut reads);
            grouping.calls.iter().flat_map(AggregateCall::exprs).for_each(&mut reads);
        } else {
            select.windowing.row_exprs().for_each(&mut reads);
            select.targets.iter().for_each(&mut reads);
            select.sets.iter().flat_map(|set| &set.arguments).for_each(&mut reads);
        }
        select.from.for_each_item_query(&mut |query| read.extend(query.reads()));
        for item in &select.from.items {
            let relation = match (&item.kind, &item.view) {
                (_, Some(view)) => view,
                (ItemKind::Table(relation) | ItemKind::View(relation), None) => relation,
                (ItemKind::Query(query), None) => {
                    self.query(query);
                    continue;
                }
                _ => continue,
            };
            self.whole(relation.oid);
            let SlotRange { start, .. } = item.slots;
            for slot in &read {
                if let Some(column) = slot.checked_sub(start)
                    && column < relation.columns.len()
                {
                    self.column(relation.oid, u16::try_from(column).unwrap_or(u16::MAX));
                }
            }
        }
    }
}
