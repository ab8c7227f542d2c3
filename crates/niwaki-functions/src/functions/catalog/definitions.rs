//! Shows objects as the statements that make them: `pg_get_constraintdef`, `pg_get_expr`, ….

use std::fmt::Write as _;
use std::sync::Arc;

use niwaki_catalog::{
    CatalogState, ConstraintKind, ConstraintTime, ForeignKey, FunctionDefinition,
    FunctionParameter, NumberedConstraint, Oid, ReferentialAction, Relation, TableConstraint,
    builtin_functions, builtin_rows,
};
use niwaki_expr::context::ExecContext;
use niwaki_expr::expr::type_name;
use niwaki_parse::error::{Result, SqlError};
use niwaki_types::{Datum, TypeOid, quote_identifier};

use crate::functions::{Function, functions};

fn wrong() -> SqlError {
    SqlError::internal("a catalog function was given values of other types")
}

fn string(text: String) -> Datum {
    Datum::Text(text.into())
}

/// Decides whether the last argument asks for a text without needless brackets.
fn is_pretty(values: &[Datum]) -> bool {
    matches!(values.last(), Some(Datum::Bool(true)))
}

/// `pg_get_expr(expression, relation [, pretty])`: the catalog keeps expressions as text.
fn expression(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    let [Datum::Text(text), Datum::Oid(relation), ..] = values else { return Err(wrong()) };
    let pretty = is_pretty(values);
    let Some(relation) = exec.catalog.relation(Oid(*relation)) else { return Ok(Datum::Null) };
    // A partition bound is not an expression.
    if relation.partition_of.is_some() && (text.starts_with("FOR VALUES") || &**text == "DEFAULT") {
        return Ok(Datum::Text(Arc::clone(text)));
    }
    let column = relation.columns.iter().find(|column| column.default.as_deref() == Some(text));
    let target = column.map(|column| (column.column_type(), column.name.as_str()));
    // Expressions of indexes read the columns of the index's table.
    let table = match &relation.index {
        Some(index) => exec.catalog.relation(index.table).unwrap_or(relation),
        None => relation,
    };
    // Generated columns are computed from the other columns.
    let generated = column.is_some_and(|column| column.generated);
    let over = (target.is_none() || generated).then_some(table);
    let shown = exec.definitions.expression(text, over, target, exec.catalog, exec.path, pretty);
    Ok(string(shown.unwrap_or_else(|_| text.to_string())))
}

/// `pg_get_constraintdef(constraint [, pretty])`
fn constraint_definition(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    let [Datum::Oid(oid), ..] = values else { return Err(wrong()) };
    if let Some((domain, check)) = exec.catalog.domain_check(Oid(*oid)) {
        let (text, pretty) = (&check.expression, is_pretty(values));
        let shown =
            exec.definitions.domain_check(text, domain.below(), exec.catalog, exec.path, pretty);
        let validity = if check.not_valid { " NOT VALID" } else { "" };
        let shown = shown.unwrap_or_else(|_| text.clone());
        return Ok(string(format!("CHECK ({shown}){validity}")));
    }
    let Some(found) = exec.catalog.constraint(Oid(*oid)) else { return Ok(Datum::Null) };
    Ok(string(constraint_text(&found, exec, is_pretty(values))))
}

fn constraint_text(found: &NumberedConstraint<'_>, exec: &ExecContext<'_>, pretty: bool) -> String {
    let index = match found.constraint {
        TableConstraint::Check(check) => {
            let text = &check.expression;
            let over = Some(found.table);
            let shown =
                exec.definitions.expression(text, over, None, exec.catalog, exec.path, pretty);
            let shown = shown.unwrap_or_else(|_| text.clone());
            let inherited = if check.no_inherit { " NO INHERIT" } else { "" };
            return format!("CHECK ({shown}){inherited}{}", validity(found));
        }
        TableConstraint::ForeignKey(key) => return foreign_key_text(found, key, exec),
        TableConstraint::Index(index) => index,
    };
    let Some(definition) = &index.index else { return String::new() };
    let names = |columns: &mut dyn Iterator<Item = u16>| column_names(found.table, columns);
    let kind = match definition.constraint {
        Some(ConstraintKind::PrimaryKey) => "PRIMARY KEY",
        _ if definition.nulls_not_distinct => "UNIQUE NULLS NOT DISTINCT",
        _ => "UNIQUE",
    };
    let key = names(&mut definition.key.iter().map(|key| key.column));
    let mut text = format!("{kind} ({key})");
    if !definition.include.is_empty() {
        let included = names(&mut definition.include.iter().copied());
        // Writing to a string cannot fail.
        let _ = write!(text, " INCLUDE ({included})");
    }
    text.push_str(deferral(definition.check_time));
    text
}

/// Returns the names of columns by their positions, with commas.
fn column_names(table: &Relation, columns: &mut dyn Iterator<Item = u16>) -> String {
    let named = columns.filter_map(|column| table.columns.get(usize::from(column)));
    named.map(|column| quote_identifier(&column.name)).collect::<Vec<_>>().join(", ")
}

fn deferral(time: ConstraintTime) -> &'static str {
    match time {
        ConstraintTime::AtOnce => "",
        ConstraintTime::Statement => " DEFERRABLE",
        ConstraintTime::Transaction => " DEFERRABLE INITIALLY DEFERRED",
    }
}

fn validity(found: &NumberedConstraint<'_>) -> &'static str {
    if found.is_validated() { "" } else { " NOT VALID" }
}

fn foreign_key_text(
    found: &NumberedConstraint<'_>,
    key: &ForeignKey,
    exec: &ExecContext<'_>,
) -> String {
    let Some(referenced) = exec.catalog.relation(key.references) else { return String::new() };
    let mut text = format!(
        "FOREIGN KEY ({}) REFERENCES {}({})",
        column_names(found.table, &mut key.columns.iter().copied()),
        niwaki_expr::expr::object_name(key.references.0, TypeOid::REGCLASS, exec),
        column_names(referenced, &mut key.referenced.iter().copied()),
    );
    if key.match_full {
        text.push_str(" MATCH FULL");
    }
    for (event, action) in [("UPDATE", key.on_update), ("DELETE", key.on_delete)] {
        if action != ReferentialAction::NoAction {
            // Writing to a string cannot fail.
            let _ = write!(text, " ON {event} {}", action.words());
        }
    }
    if !key.set_columns.is_empty() {
        let columns = column_names(found.table, &mut key.set_columns.iter().copied());
        let _ = write!(text, " ({columns})");
    }
    text.push_str(deferral(key.check_time));
    text.push_str(validity(found));
    text
}

/// `pg_get_viewdef`: system views are computed, and have no text.
fn view_definition(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    let oid = match values.first() {
        Some(Datum::Oid(oid)) => *oid,
        Some(Datum::Text(name)) => {
            match niwaki_expr::expr::object_input(name, TypeOid::REGCLASS, exec.catalog, exec.path)?
            {
                Datum::Oid(oid) => oid,
                _ => return Err(wrong()),
            }
        }
        _ => return Err(wrong()),
    };
    // In PostgreSQL a number is the column at which lines are wrapped, and needless brackets are
    // left out too. Here each target has a line of its own.
    let pretty = matches!(values.get(1), Some(Datum::Bool(true) | Datum::Int4(_)));
    match exec.catalog.relation(Oid(oid)) {
        Some(relation) if relation.is_system() => {
            Err(SqlError::unsupported("the definition of a system view"))
        }
        Some(relation) if relation.query.is_some() => {
            exec.definitions.view(relation, exec.catalog, exec.path, pretty, exec.text).map(string)
        }
        _ => Ok(Datum::Null),
    }
}

/// Returns NULL: there are no rules and statistics objects to ask about.
fn no_definition(_: &[Datum]) -> Result<Datum> {
    Ok(Datum::Null)
}

/// The parameters of a function as `pg_proc` has them.
struct Parameters {
    /// All types, including the result columns.
    types: Vec<TypeOid>,
    /// The mode letter of each parameter; empty where all are inputs.
    modes: Vec<char>,
    names: Vec<String>,
    /// Texts of the defaults, where there are any.
    defaults: Vec<Option<String>>,
    result: TypeOid,
    returns_set: bool,
    is_variadic: bool,
}

/// Reads the parameters of the function with this number.
fn parameters(number: u32) -> Option<Parameters> {
    const COLUMNS: [&str; 7] = [
        "oid",
        "provariadic",
        "proretset",
        "prorettype",
        "proallargtypes",
        "proargmodes",
        "proargnames",
    ];
    let function = builtin_functions().by_oid(number)?;
    let rows = builtin_rows("pg_proc")?;
    let places =
        COLUMNS.map(|name| rows.columns().iter().position(|column| *column == name).unwrap_or(0));
    let wanted = number.to_string();
    let row = rows.rows().find_map(|row| {
        let row: Vec<Option<&'static str>> = row.collect();
        (row.first().copied().flatten() == Some(wanted.as_str())).then_some(row)
    })?;
    let [_, variadic, set, result, types, modes, names] =
        places.map(|place| row.get(place).copied().flatten().unwrap_or(""));
    let list = |text: &'static str| {
        let text = text.trim_matches(['{', '}']);
        text.split(',').filter(|part| !part.is_empty()).map(|part| part.trim_matches('"'))
    };
    let all: Vec<TypeOid> = list(types).filter_map(|oid| oid.parse().ok()).map(TypeOid).collect();
    Some(Parameters {
        types: if all.is_empty() { function.arguments.clone() } else { all },
        modes: list(modes).filter_map(|mode| mode.chars().next()).collect(),
        names: list(names).map(str::to_owned).collect(),
        defaults: Vec::new(),
        result: TypeOid(result.parse().ok()?),
        returns_set: set == "t",
        is_variadic: variadic != "0",
    })
}

impl Parameters {
    /// Writes the parameters of some modes, each with its name and type, and with its default if
    /// wanted.
    fn shown(
        &self,
        wanted: impl Fn(char) -> bool,
        with_defaults: bool,
        exec: &ExecContext<'_>,
    ) -> String {
        let mut parts = Vec::new();
        for (at, kind) in self.types.iter().enumerate() {
            let mode = self.modes.get(at).copied().unwrap_or('i');
            if !wanted(mode) {
                continue;
            }
            let last = at + 1 == self.types.len() && self.modes.is_empty() && self.is_variadic;
            let word = match mode {
                'v' => "VARIADIC ",
                _ if last => "VARIADIC ",
                'o' => "OUT ",
                'b' => "INOUT ",
                _ => "",
            };
            let name = self.names.get(at).filter(|name| !name.is_empty());
            let name = name.map(|name| format!("{} ", quote_identifier(name))).unwrap_or_default();
            let default = self.defaults.get(at).and_then(Option::as_ref).filter(|_| with_defaults);
            let default = default.map(|text| format!(" DEFAULT {text}")).unwrap_or_default();
            parts.push(format!("{word}{name}{}{default}", type_name(*kind, exec)));
        }
        parts.join(", ")
    }

    /// Writes the text after RETURNS.
    fn result(&self, exec: &ExecContext<'_>) -> String {
        if self.modes.contains(&'t') {
            return format!("TABLE({})", self.shown(|mode| mode == 't', false, exec));
        }
        let set = if self.returns_set { "SETOF " } else { "" };
        format!("{set}{}", type_name(self.result, exec))
    }
}

fn parameters_of_user(function: &FunctionDefinition, exec: &ExecContext<'_>) -> Parameters {
    let all = if function.parameters.is_empty() {
        function.inputs()
    } else {
        function.parameters.clone()
    };
    let default = |parameter: &FunctionParameter| {
        let text = parameter.default.as_deref()?;
        let kind = exec.text.types.column_type(TypeOid(parameter.kind));
        let target = Some((kind, parameter.name.as_str()));
        let target = target.filter(|_| !niwaki_parse::types::is_polymorphic(kind.oid));
        let shown = exec.definitions.expression(text, None, target, exec.catalog, exec.path, false);
        Some(shown.unwrap_or_else(|_| text.to_owned()))
    };
    Parameters {
        types: all.iter().map(|parameter| TypeOid(parameter.kind)).collect(),
        modes: all.iter().filter_map(|parameter| parameter.mode.letter().chars().next()).collect(),
        names: all.iter().map(|parameter| parameter.name.clone()).collect(),
        defaults: all.iter().map(default).collect(),
        result: TypeOid(function.returns),
        returns_set: function.returns_set,
        is_variadic: function.is_variadic(),
    }
}

/// Writes the arguments of a user's function as in CREATE FUNCTION, and the text after RETURNS.
pub(crate) fn signature_of_user(
    function: &FunctionDefinition,
    exec: &ExecContext<'_>,
) -> (String, String) {
    let found = parameters_of_user(function, exec);
    (found.shown(|mode| mode != 't', true, exec), found.result(exec))
}

fn of_function(
    exec: &ExecContext<'_>,
    values: &[Datum],
    show: impl Fn(&Parameters) -> String,
) -> Result<Datum> {
    let [Datum::Oid(number)] = values else { return Err(wrong()) };
    let found = match exec.catalog.function(Oid(*number)) {
        Some(function) => Some(parameters_of_user(function, exec)),
        None => parameters(*number),
    };
    Ok(found.map_or(Datum::Null, |found| string(show(&found))))
}

fn function_arguments(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    of_function(exec, values, |found| found.shown(|mode| mode != 't', true, exec))
}

fn function_identity(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    of_function(exec, values, |found| found.shown(|mode| mode != 't', false, exec))
}

fn function_result(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    of_function(exec, values, |found| found.result(exec))
}

/// Returns the sequence that a column owns: `pg_get_serial_sequence(table, column)`.
fn serial_sequence(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    let [Datum::Text(table), Datum::Text(name)] = values else { return Err(wrong()) };
    let oid = niwaki_expr::expr::object_input(table, TypeOid::REGCLASS, exec.catalog, exec.path)?;
    let Datum::Oid(oid) = oid else { return Err(wrong()) };
    let relation = exec.catalog.relation(Oid(oid)).ok_or_else(wrong)?;
    let Some((_, column)) = relation.visible_columns().find(|(_, c)| c.name == **name) else {
        return Err(SqlError::new(
            "42703",
            format!("column \"{name}\" of relation \"{}\" does not exist", relation.name),
        ));
    };
    let sequence = column.sequence.and_then(|sequence| exec.catalog.relation(sequence));
    Ok(sequence.map_or(Datum::Null, |sequence| {
        string(qualified(exec.catalog, sequence.schema, &sequence.name))
    }))
}

/// `schema.name`
fn qualified(catalog: &CatalogState, schema: Oid, name: &str) -> String {
    let name = quote_identifier(name);
    match catalog.schema(schema) {
        Some(schema) => format!("{}.{name}", quote_identifier(&schema.name)),
        None => name,
    }
}

pub(crate) const FUNCTIONS: &[Function] = functions! {
    "pg_get_expr" (NODE_TREE, OID) TEXT strict single stable Context(expression);
    "pg_get_expr" (NODE_TREE, OID, BOOL) TEXT strict single stable Context(expression);
    "pg_get_constraintdef" (OID) TEXT strict single stable Context(constraint_definition);
    "pg_get_constraintdef" (OID, BOOL) TEXT strict single stable Context(constraint_definition);
    "pg_get_viewdef" (OID) TEXT strict single stable Context(view_definition);
    "pg_get_viewdef" (OID, BOOL) TEXT strict single stable Context(view_definition);
    "pg_get_viewdef" (OID, INT4) TEXT strict single stable Context(view_definition);
    "pg_get_viewdef" (TEXT) TEXT strict single stable Context(view_definition);
    "pg_get_viewdef" (TEXT, BOOL) TEXT strict single stable Context(view_definition);
    "pg_get_ruledef" (OID) TEXT strict single stable Pure(no_definition);
    "pg_get_ruledef" (OID, BOOL) TEXT strict single stable Pure(no_definition);
    "pg_get_statisticsobjdef" (OID) TEXT strict single stable Pure(no_definition);
    "pg_get_statisticsobjdef_columns" (OID) TEXT strict single stable Pure(no_definition);
    "pg_get_function_sqlbody" (OID) TEXT strict single stable Pure(no_definition);
    "pg_get_function_arguments" (OID) TEXT strict single stable Context(function_arguments);
    "pg_get_function_identity_arguments" (OID) TEXT strict single stable Context(function_identity);
    "pg_get_function_result" (OID) TEXT strict single stable Context(function_result);
    "pg_get_serial_sequence" (TEXT, TEXT) TEXT strict single stable Context(serial_sequence);
};
