//! Shows functions and triggers of users as the statements that make them: `pg_get_functiondef`,
//! `pg_get_triggerdef`.

use std::fmt::Write as _;

use niwaki_catalog::{
    FunctionDefinition, FunctionParallel, FunctionVolatility, Oid, Relation, Trigger, TriggerEvent,
    builtin_functions,
};
use niwaki_expr::context::ExecContext;
use niwaki_parse::error::{Result, SqlError};
use niwaki_types::{Datum, quote_identifier};

use crate::functions::catalog::definitions::signature_of_user;
use crate::functions::{Function, functions, string_constant};

fn wrong() -> SqlError {
    SqlError::internal("a catalog function was given values of other types")
}

/// `pg_get_functiondef(function)`: PostgreSQL's own functions have no body to show.
fn function_definition(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    let [Datum::Oid(number)] = values else { return Err(wrong()) };
    if let Some(function) = exec.catalog.function(Oid(*number)) {
        return Ok(Datum::Text(function_text(function, exec).into()));
    }
    match builtin_functions().by_oid(*number) {
        Some(_) => Err(SqlError::unsupported("the definition of a built-in function")),
        None => Ok(Datum::Null),
    }
}

/// Writes CREATE FUNCTION with PostgreSQL's line breaks.
fn function_text(function: &FunctionDefinition, exec: &ExecContext<'_>) -> String {
    let schema = exec.catalog.schema(function.schema);
    let schema = schema.map_or_else(String::new, |schema| quote_identifier(&schema.name));
    let name = quote_identifier(&function.name);
    let (arguments, result) = signature_of_user(function, exec);
    let language = function.language.name();
    let mut text = format!(
        "CREATE OR REPLACE FUNCTION {schema}.{name}({arguments})\n RETURNS {result}\n LANGUAGE {language}\n"
    );
    let traits = &function.traits;
    let mut words: Vec<String> = Vec::new();
    match traits.volatility {
        FunctionVolatility::Immutable => words.push("IMMUTABLE".to_owned()),
        FunctionVolatility::Stable => words.push("STABLE".to_owned()),
        FunctionVolatility::Volatile => {}
    }
    match traits.parallel {
        FunctionParallel::Safe => words.push("PARALLEL SAFE".to_owned()),
        FunctionParallel::Restricted => words.push("PARALLEL RESTRICTED".to_owned()),
        FunctionParallel::Unsafe => {}
    }
    if traits.strict {
        words.push("STRICT".to_owned());
    }
    if traits.leakproof {
        words.push("LEAKPROOF".to_owned());
    }
    if let Some(cost) = traits.cost.filter(|_| function.has_unusual_cost()) {
        words.push(format!("COST {cost}"));
    }
    if let Some(rows) = function.traits.rows.filter(|_| function.has_unusual_rows()) {
        words.push(format!("ROWS {rows}"));
    }
    if !words.is_empty() {
        // Writing to a string cannot fail.
        let _ = writeln!(text, " {}", words.join(" "));
    }
    // Dollar quotes that do not occur in the body.
    let mut quote = "$function$".to_owned();
    while function.body.contains(&quote) {
        quote.insert(quote.len() - 1, 'x');
    }
    let _ = writeln!(text, "AS {quote}{}{quote}", function.body);
    text
}

/// `pg_get_triggerdef(trigger [, pretty])`
fn trigger_definition(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    let [Datum::Oid(number), ..] = values else { return Err(wrong()) };
    let pretty = matches!(values.get(1), Some(Datum::Bool(true)));
    let Some((table, trigger)) = exec.catalog.trigger(Oid(*number)) else {
        return Ok(Datum::Null);
    };
    Ok(Datum::Text(trigger_text(table, trigger, exec, pretty).into()))
}

fn trigger_text(
    table: &std::sync::Arc<Relation>,
    trigger: &Trigger,
    exec: &ExecContext<'_>,
    pretty: bool,
) -> String {
    let of = || {
        let named = trigger.columns.iter().filter_map(|at| table.columns.get(usize::from(*at)));
        named.map(|column| quote_identifier(&column.name)).collect::<Vec<_>>().join(", ")
    };
    let events = trigger.events().map(|event| match event {
        TriggerEvent::Update if !trigger.columns.is_empty() => format!("UPDATE OF {}", of()),
        event => event.word().to_owned(),
    });
    let events = events.collect::<Vec<_>>().join(" OR ");
    let visible = pretty && {
        let found = exec.catalog.resolve(exec.path, None, &table.name);
        found.is_ok_and(|found| found.oid == table.oid)
    };
    let name = quote_identifier(&table.name);
    let on = match exec.catalog.schema(table.schema).filter(|_| !visible) {
        Some(schema) => format!("{}.{name}", quote_identifier(&schema.name)),
        None => name,
    };
    let mut text = format!(
        "CREATE TRIGGER {} {} {events} ON {on} FOR EACH ROW ",
        quote_identifier(&trigger.name),
        trigger.time.word(),
    );
    if let Some(when) = &trigger.when {
        let shown =
            exec.definitions.trigger_condition(when, table, exec.catalog, exec.path, pretty);
        // Writing to a string cannot fail.
        let _ = write!(text, "WHEN ({shown}) ");
    }
    text.push_str(&call_text(trigger, exec));
    text
}

/// `EXECUTE FUNCTION f('argument')`
fn call_text(trigger: &Trigger, exec: &ExecContext<'_>) -> String {
    let name = niwaki_expr::expr::function_name(trigger.function.0, exec);
    let arguments: Vec<String> =
        trigger.arguments.iter().map(|argument| string_constant(argument)).collect();
    format!("EXECUTE FUNCTION {name}({})", arguments.join(", "))
}

pub(crate) const FUNCTIONS: &[Function] = functions! {
    "pg_get_functiondef" (OID) TEXT strict single stable Context(function_definition);
    "pg_get_triggerdef" (OID) TEXT strict single stable Context(trigger_definition);
    "pg_get_triggerdef" (OID, BOOL) TEXT strict single stable Context(trigger_definition);
};
