//! User functions and triggers: `pg_proc`, `pg_trigger`, `pg_language`, and their rows of
//! `information_schema`.

use std::sync::Arc;

use niwaki_catalog::{
    CatalogState, FunctionDefinition, FunctionLanguage, FunctionParameter, Oid, ParameterMode,
    Relation, Trigger, TriggerEvent,
};
use niwaki_types::{Datum, TypeOid, quote_identifier};

use crate::names::schema_name;
use crate::roles::OWNER;
use crate::system_relation::{
    Computed, Emit, Reader, Result, array, int4, number, optional, small, text, vector,
};

/// PostgreSQL's number of language `plpgsql`.
pub(crate) const PLPGSQL: u32 = 13563;

/// PostgreSQL's number of language `sql`.
const SQL: u32 = 14;

/// Returns the number of a function's language.
pub(crate) fn language_of(function: &FunctionDefinition) -> u32 {
    match function.language {
        FunctionLanguage::PlPgSql => PLPGSQL,
        FunctionLanguage::Sql => SQL,
    }
}

/// The language that is an extension in PostgreSQL and built in here.
pub(crate) const PG_LANGUAGE: Computed = Computed {
    name: "pg_language",
    columns: &["oid", "lanname", "lanowner", "lanispl", "lanpltrusted"],
    keys: &[],
    rows: |_, emit| {
        let yes = Datum::Bool(true);
        emit(&[Datum::Oid(PLPGSQL), text("plpgsql"), number(OWNER), yes.clone(), yes])
    },
};

/// User functions, beside the recorded ones.
pub(crate) const PG_PROC: Computed = Computed {
    name: "pg_proc",
    columns: &[
        "oid",
        "proname",
        "pronamespace",
        "proowner",
        "prolang",
        "procost",
        "prorows",
        "provariadic",
        "prokind",
        "proleakproof",
        "proisstrict",
        "proretset",
        "provolatile",
        "proparallel",
        "pronargs",
        "pronargdefaults",
        "prorettype",
        "proargtypes",
        "proallargtypes",
        "proargmodes",
        "proargnames",
        "prosrc",
    ],
    keys: &[],
    rows: pg_proc,
};

fn pg_proc(reader: &Reader<'_>, emit: Emit<'_>) -> Result<()> {
    for function in reader.state.functions() {
        let arguments = function.arguments.iter().map(|oid| Datum::Oid(*oid));
        emit(&[
            number(function.oid),
            text(&function.name),
            number(function.schema),
            number(OWNER),
            Datum::Oid(language_of(function)),
            Datum::Float4(function.cost() as f32),
            Datum::Float4(function.rows() as f32),
            Datum::Oid(variadic_element(function)),
            text("f"),
            Datum::Bool(function.traits.leakproof),
            Datum::Bool(function.traits.strict),
            Datum::Bool(function.returns_set),
            text(function.traits.volatility.letter()),
            text(function.traits.parallel.letter()),
            small(function.arguments.len()),
            small(function.inputs().iter().filter(|input| input.default.is_some()).count()),
            Datum::Oid(function.returns),
            vector(TypeOid::OID, arguments),
            all_of(function, is_more_than_in, TypeOid::OID, |p| Datum::Oid(p.kind)),
            all_of(function, is_more_than_in, TypeOid::CHAR, |p| text(p.mode.letter())),
            all_of(function, has_name, TypeOid::TEXT, |p| text(&p.name)),
            text(&function.body),
        ])?;
    }
    Ok(())
}

/// Returns the type of the values that a variadic parameter takes, or 0.
fn variadic_element(function: &FunctionDefinition) -> u32 {
    let last = function.inputs().pop().filter(|_| function.is_variadic());
    last.and_then(|last| niwaki_sql::types::variadic_element(TypeOid(last.kind)))
        .map_or(0, |kind| kind.0)
}

fn is_more_than_in(parameter: &FunctionParameter) -> bool {
    parameter.mode != ParameterMode::In
}

fn has_name(parameter: &FunctionParameter) -> bool {
    !parameter.name.is_empty()
}

/// Returns an array of a value of each parameter, if `worth` holds for one of them; else NULL.
fn all_of(
    function: &FunctionDefinition,
    worth: fn(&FunctionParameter) -> bool,
    element: TypeOid,
    value: impl Fn(&FunctionParameter) -> Datum,
) -> Datum {
    if function.parameters.iter().any(worth) {
        array(element, function.parameters.iter().map(value))
    } else {
        Datum::Null
    }
}

pub(crate) const PG_TRIGGER: Computed = Computed {
    name: "pg_trigger",
    columns: &[
        "oid",
        "tgrelid",
        "tgname",
        "tgfoid",
        "tgtype",
        "tgenabled",
        "tgnargs",
        "tgattr",
        "tgargs",
        "tgqual",
        "tgparentid",
    ],
    keys: &["tgrelid"],
    rows: pg_trigger,
};

/// Returns the triggers that a reader wants: all, or the triggers of the key's table.
fn wanted<'r>(reader: &Reader<'r>) -> Vec<(&'r Arc<Relation>, &'r Trigger)> {
    let mut all = reader.state.triggers();
    if let Some(table) = reader.wanted_oid("tgrelid") {
        all.retain(|(relation, _)| relation.oid.0 == table);
    }
    all
}

fn pg_trigger(reader: &Reader<'_>, emit: Emit<'_>) -> Result<()> {
    for (table, trigger) in wanted(reader) {
        let columns = trigger.columns.iter().map(|at| small(usize::from(*at) + 1));
        let mut arguments = Vec::new();
        for argument in &trigger.arguments {
            arguments.extend_from_slice(argument.as_bytes());
            arguments.push(0);
        }
        emit(&[
            number(trigger.oid),
            number(table.oid),
            text(&trigger.name),
            number(trigger.function),
            Datum::Int2(trigger.type_bits()),
            text(trigger.mode.letter()),
            small(trigger.arguments.len()),
            vector(TypeOid::INT2, columns),
            Datum::Bytea(arguments.into()),
            optional(trigger.when.as_ref()),
            number(trigger.part_of.unwrap_or(Oid(0))),
        ])?;
    }
    Ok(())
}

pub(crate) const TRIGGERS: Computed = Computed {
    name: "triggers",
    columns: &[
        "trigger_catalog",
        "trigger_schema",
        "trigger_name",
        "event_manipulation",
        "event_object_catalog",
        "event_object_schema",
        "event_object_table",
        "action_order",
        "action_condition",
        "action_statement",
        "action_orientation",
        "action_timing",
    ],
    keys: &[],
    rows: triggers,
};

fn triggers(reader: &Reader<'_>, emit: Emit<'_>) -> Result<()> {
    let state = reader.state;
    let path = reader.shown_path();
    for (table, trigger) in state.triggers() {
        let condition = trigger
            .when
            .as_ref()
            .map(|when| niwaki_sql::trigger_condition(when, table, state, &path, false));
        for event in trigger.events() {
            let schema = text(schema_name(state, table.schema));
            emit(&[
                reader.database(),
                schema.clone(),
                text(&trigger.name),
                text(event.word()),
                reader.database(),
                schema,
                text(&table.name),
                int4(place_of(table, trigger, event)),
                optional(condition.as_ref()),
                text(call_text(state, trigger)),
                text("ROW"),
                text(trigger.time.word()),
            ])?;
        }
    }
    Ok(())
}

/// Returns the firing position of a trigger, from 1, among the triggers of its table, time and
/// event.
fn place_of(table: &Relation, trigger: &Trigger, event: TriggerEvent) -> usize {
    let same = |other: &&Trigger| {
        other.time == trigger.time && other.is_for(event) && other.name <= trigger.name
    };
    table.triggers.iter().filter(same).count()
}

/// Returns the text `EXECUTE FUNCTION f('argument')`.
fn call_text(state: &CatalogState, trigger: &Trigger) -> String {
    let name = match state.function(trigger.function) {
        Some(function) if function.schema == niwaki_catalog::PUBLIC_SCHEMA => {
            quote_identifier(&function.name)
        }
        Some(function) => {
            let schema = quote_identifier(&schema_name(state, function.schema));
            format!("{schema}.{}", quote_identifier(&function.name))
        }
        None => {
            let builtin = niwaki_catalog::builtin_functions().by_oid(trigger.function.0);
            builtin.map_or_else(String::new, |function| quote_identifier(function.name))
        }
    };
    let quoted = |argument: &String| format!("'{}'", argument.replace('\'', "''"));
    let arguments: Vec<String> = trigger.arguments.iter().map(quoted).collect();
    format!("EXECUTE FUNCTION {name}({})", arguments.join(", "))
}

pub(crate) const TRIGGERED_UPDATE_COLUMNS: Computed = Computed {
    name: "triggered_update_columns",
    columns: &[
        "trigger_catalog",
        "trigger_schema",
        "trigger_name",
        "event_object_catalog",
        "event_object_schema",
        "event_object_table",
        "event_object_column",
    ],
    keys: &[],
    rows: triggered_update_columns,
};

fn triggered_update_columns(reader: &Reader<'_>, emit: Emit<'_>) -> Result<()> {
    for (table, trigger) in reader.state.triggers() {
        let named = trigger.columns.iter().filter_map(|at| table.columns.get(usize::from(*at)));
        for column in named {
            let schema = text(schema_name(reader.state, table.schema));
            emit(&[
                reader.database(),
                schema.clone(),
                text(&trigger.name),
                reader.database(),
                schema,
                text(&table.name),
                text(&column.name),
            ])?;
        }
    }
    Ok(())
}

/// User functions. PostgreSQL's own functions are missing.
pub(crate) const ROUTINES: Computed = Computed {
    name: "routines",
    columns: &[
        "specific_catalog",
        "specific_schema",
        "specific_name",
        "routine_catalog",
        "routine_schema",
        "routine_name",
        "routine_type",
        "data_type",
        "type_udt_catalog",
        "type_udt_schema",
        "type_udt_name",
        "dtd_identifier",
        "routine_body",
        "routine_definition",
        "external_language",
        "parameter_style",
        "is_deterministic",
        "sql_data_access",
        "is_null_call",
        "schema_level_routine",
        "max_dynamic_result_sets",
        "security_type",
        "as_locator",
        "is_udt_dependent",
    ],
    keys: &[],
    rows: routines,
};

fn routines(reader: &Reader<'_>, emit: Emit<'_>) -> Result<()> {
    for function in reader.state.functions() {
        routine(reader, function, emit)?;
    }
    Ok(())
}

/// Returns the type's name in `information_schema`, then its schema and its own name.
fn type_of(state: &CatalogState, oid: TypeOid) -> [String; 3] {
    let array = niwaki_sql::types::element_of(oid);
    let Some(number) = oid.user_number().map(Oid) else {
        let shown = match array {
            Some(_) => "ARRAY".to_owned(),
            None => niwaki_sql::types::format_oid(oid),
        };
        return [shown, "pg_catalog".to_owned(), niwaki_sql::types::type_name(oid)];
    };
    let of_type = state.user_type(number).map(|found| (found.schema, found.name.clone()));
    let of_rows = || state.relation(number).map(|found| (found.schema, found.name.clone()));
    let (schema, name) = of_type.or_else(of_rows).unwrap_or((Oid::INVALID, String::new()));
    let schema = schema_name(state, schema);
    match array {
        Some(_) => ["ARRAY".to_owned(), schema, format!("_{name}")],
        None => ["USER-DEFINED".to_owned(), schema, name],
    }
}

fn routine(reader: &Reader<'_>, function: &FunctionDefinition, emit: Emit<'_>) -> Result<()> {
    use niwaki_catalog::FunctionVolatility as V;
    let schema = text(schema_name(reader.state, function.schema));
    let word = |is: bool| text(if is { "YES" } else { "NO" });
    let [data_type, type_schema, type_name] = type_of(reader.state, TypeOid(function.returns));
    let is_sql = function.language == FunctionLanguage::Sql;
    emit(&[
        reader.database(),
        schema.clone(),
        text(format!("{}_{}", function.name, function.oid)),
        reader.database(),
        schema,
        text(&function.name),
        text("FUNCTION"),
        text(data_type),
        reader.database(),
        text(type_schema),
        text(type_name),
        text("0"),
        text(if is_sql { "SQL" } else { "EXTERNAL" }),
        text(&function.body),
        text(function.language.name().to_uppercase()),
        text("GENERAL"),
        word(function.traits.volatility == V::Immutable),
        text("MODIFIES"),
        word(function.traits.strict),
        word(true),
        Datum::Int4(0),
        text("INVOKER"),
        word(false),
        word(false),
    ])
}
