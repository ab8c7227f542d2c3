//! Domains in the catalogs: their rows of `pg_type` and `pg_constraint`, and `information_schema`.

use std::sync::Arc;

use niwaki_catalog::{
    CatalogState, Check, DomainDefinition, Oid, Relation, SearchPath, TypeDefinition, builtin_rows,
    builtin_value, check_oid,
};
use niwaki_sql::{deparse_domain_check, deparse_expression};
use niwaki_types::{Datum, TypeOid};

use crate::information::information_schema::{measures, place};
use crate::names::builtin_function;
use crate::stored_types::{self, domain_of, udt};
use crate::system_relation::{
    Computed, Emit, Reader, Result, int4, number, optional, text, yes_or_no,
};

/// Returns the domains in the order of their numbers.
fn in_order(state: &CatalogState) -> Vec<(&Arc<TypeDefinition>, &DomainDefinition)> {
    let all = stored_types::in_order(state).into_iter();
    all.filter_map(|definition| Some((definition, definition.domain()?))).collect()
}

/// Returns the text of a domain's default, as PostgreSQL shows it.
pub(crate) fn shown_default(
    state: &CatalogState,
    definition: &TypeDefinition,
    domain: &DomainDefinition,
    path: &SearchPath,
) -> Option<String> {
    let text = domain.default.as_ref()?;
    let target = Some((domain.below(), definition.name.as_str()));
    Some(deparse_expression(text, None, target, state, path).unwrap_or_else(|_| text.clone()))
}

fn shown_check(reader: &Reader<'_>, domain: &DomainDefinition, check: &Check) -> String {
    let path = reader.shown_path();
    let shown = deparse_domain_check(&check.expression, domain.below(), reader.state, &path, false);
    shown.unwrap_or_else(|_| check.expression.clone())
}

/// Returns `typoutput`, `typsend` and `typanalyze` of a type. A domain over the type has the same.
pub(crate) fn functions_of(oid: TypeOid) -> [Datum; 3] {
    if oid.user_number().is_some() {
        let is_array = oid.element().is_some();
        let name = match oid {
            _ if is_array => "array",
            oid if oid.is_composite() => "record",
            _ => "enum",
        };
        let function = |suffix: &str| Datum::Oid(builtin_function(&format!("{name}_{suffix}")));
        let analyze = if is_array { function("typanalyze") } else { Datum::Oid(0) };
        return [function("out"), function("send"), analyze];
    }
    let none = || [Datum::Oid(0), Datum::Oid(0), Datum::Oid(0)];
    let Some(recorded) = builtin_rows("pg_type") else { return none() };
    let at = |name: &str| recorded.columns().iter().position(|column| *column == name);
    let wanted = oid.0.to_string();
    let row = recorded
        .rows()
        .map(Iterator::collect::<Vec<_>>)
        .find(|row| row.first().copied().flatten() == Some(wanted.as_str()));
    let Some(row) = row else { return none() };
    ["typoutput", "typsend", "typanalyze"].map(|name| {
        let cell = at(name).and_then(|at| row.get(at)).copied().flatten();
        builtin_value(cell, TypeOid::REGPROC)
    })
}

/// Returns the checks of domains for `pg_constraint`: number of the check, domain, the check.
pub(crate) fn checks<'r>(reader: &Reader<'r>) -> Vec<(Oid, &'r Arc<TypeDefinition>, &'r Check)> {
    if reader.wanted_oid("conrelid").is_some_and(|table| table != 0) {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (definition, domain) in in_order(reader.state) {
        let own = definition.type_oid().0;
        if reader.wanted_oid("contypid").is_some_and(|wanted| wanted != own) {
            continue;
        }
        for (position, check) in domain.checks.iter().enumerate() {
            let oid = check_oid(definition.oid, position);
            if reader.wanted_oid("oid").is_none_or(|wanted| wanted == oid.0) {
                found.push((oid, definition, check));
            }
        }
    }
    found
}

pub(crate) const DOMAINS: Computed = Computed {
    name: "domains",
    columns: &[
        "domain_catalog",
        "domain_schema",
        "domain_name",
        "data_type",
        "character_maximum_length",
        "character_octet_length",
        "numeric_precision",
        "numeric_precision_radix",
        "numeric_scale",
        "datetime_precision",
        "domain_default",
        "udt_catalog",
        "udt_schema",
        "udt_name",
        "dtd_identifier",
    ],
    keys: &[],
    rows: domains,
};

fn domains(reader: &Reader<'_>, emit: Emit<'_>) -> Result<()> {
    let (state, path) = (reader.state, reader.shown_path());
    for (definition, domain) in in_order(state) {
        let below = domain.below();
        let size = measures(below);
        let count = |value: Option<usize>| value.map_or(Datum::Null, int4);
        let [catalog, schema, name] = udt(state, definition.column_type());
        let [udt_catalog, udt_schema, udt_name] = udt(state, below);
        let data_type = match stored_types::user_type(state, below.declared()) {
            Some(_) => "USER-DEFINED".to_owned(),
            None => niwaki_sql::types::format_oid(below.oid),
        };
        emit(&[
            catalog,
            schema,
            name,
            text(data_type),
            count(size.characters),
            count(size.octets),
            count(size.precision),
            count(size.radix),
            count(size.scale),
            count(size.datetime),
            optional(shown_default(state, definition, domain, &path)),
            udt_catalog,
            udt_schema,
            udt_name,
            text("1"),
        ])?;
    }
    Ok(())
}

pub(crate) const DOMAIN_CONSTRAINTS: Computed = Computed {
    name: "domain_constraints",
    columns: &[
        "constraint_catalog",
        "constraint_schema",
        "constraint_name",
        "domain_catalog",
        "domain_schema",
        "domain_name",
        "is_deferrable",
        "initially_deferred",
    ],
    keys: &[],
    rows: domain_constraints,
};

fn domain_constraints(reader: &Reader<'_>, emit: Emit<'_>) -> Result<()> {
    for (definition, domain) in in_order(reader.state) {
        let [catalog, schema, name] = udt(reader.state, definition.column_type());
        for check in &domain.checks {
            emit(&[
                catalog.clone(),
                schema.clone(),
                text(&check.name),
                catalog.clone(),
                schema.clone(),
                name.clone(),
                yes_or_no(false),
                yes_or_no(false),
            ])?;
        }
    }
    Ok(())
}

/// Emits the rows of `information_schema.check_constraints`.
pub(crate) fn check_constraints(reader: &Reader<'_>, emit: Emit<'_>) -> Result<()> {
    for (definition, domain) in in_order(reader.state) {
        let [catalog, schema, _] = udt(reader.state, definition.column_type());
        for check in &domain.checks {
            let validity = if check.not_valid { " NOT VALID" } else { "" };
            let clause = format!("({}){validity}", shown_check(reader, domain, check));
            emit(&[catalog.clone(), schema.clone(), text(&check.name), text(clause)])?;
        }
    }
    Ok(())
}

pub(crate) const DOMAIN_UDT_USAGE: Computed = Computed {
    name: "domain_udt_usage",
    columns: &[
        "udt_catalog",
        "udt_schema",
        "udt_name",
        "domain_catalog",
        "domain_schema",
        "domain_name",
    ],
    keys: &[],
    rows: domain_udt_usage,
};

fn domain_udt_usage(reader: &Reader<'_>, emit: Emit<'_>) -> Result<()> {
    for (definition, domain) in in_order(reader.state) {
        let mut row = udt(reader.state, domain.below()).to_vec();
        row.extend(udt(reader.state, definition.column_type()));
        emit(&row)?;
    }
    Ok(())
}

pub(crate) const COLUMN_DOMAIN_USAGE: Computed = Computed {
    name: "column_domain_usage",
    columns: &[
        "domain_catalog",
        "domain_schema",
        "domain_name",
        "table_catalog",
        "table_schema",
        "table_name",
        "column_name",
    ],
    keys: &[],
    rows: column_domain_usage,
};

fn column_domain_usage(reader: &Reader<'_>, emit: Emit<'_>) -> Result<()> {
    let in_order = reader.state.in_order();
    let tables = in_order.into_iter().filter(|relation| relation.table.is_some());
    for table in tables {
        columns_of_domains(reader, table, emit)?;
    }
    Ok(())
}

fn columns_of_domains(reader: &Reader<'_>, table: &Relation, emit: Emit<'_>) -> Result<()> {
    for (_, column) in table.visible_columns().filter(|(_, column)| column.domain.is_some()) {
        let mut row = domain_of(reader.state, column.column_type()).to_vec();
        row.extend(place(reader, table));
        row.push(text(&column.name));
        emit(&row)?;
    }
    Ok(())
}

/// Returns `pg_constraint.connamespace` of a check, and the number of its domain.
pub(crate) fn numbers(definition: &TypeDefinition) -> [Datum; 2] {
    [number(definition.schema), Datum::Oid(definition.type_oid().0)]
}
