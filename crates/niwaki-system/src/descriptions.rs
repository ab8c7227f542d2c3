//! Texts of COMMENT, in `pg_description` and `pg_shdescription`. PostgreSQL's comments on its own
//! functions, types and operators are missing.

use niwaki_catalog::{Oid, check_oid};
use niwaki_sql::utility::EXTENSIONS;

use crate::class_numbers::{CLASS, CONSTRAINT, NAMESPACE, PROC, TRIGGER};
use crate::constraints;
use crate::pg_class::relations;
use crate::stored_types::in_order;
use crate::system_relation::{Computed, Emit, Reader, Result, int4, number, text};

/// The number of `pg_type`.
const TYPE: Oid = Oid(1247);
/// The number of `pg_extension`.
const EXTENSION: Oid = Oid(3079);
/// The number of `pg_database`.
const DATABASE: Oid = Oid(1262);

pub(crate) const PG_DESCRIPTION: Computed = Computed {
    name: "pg_description",
    columns: &["objoid", "classoid", "objsubid", "description"],
    keys: &["objoid"],
    rows: pg_description,
};

fn pg_description(reader: &Reader<'_>, emit: Emit<'_>) -> Result<()> {
    let state = reader.state;
    let wanted = reader.wanted_oid("objoid").map(Oid);
    let mut describe = |class: Oid, oid: Oid, column: usize, comment: Option<&str>| match comment {
        Some(comment) => emit(&[number(oid), number(class), int4(column), text(comment)]),
        None => Ok(()),
    };
    for extension in EXTENSIONS {
        if wanted.is_none_or(|wanted| wanted.0 == extension.oid) {
            describe(EXTENSION, Oid(extension.oid), 0, Some(extension.comment))?;
        }
    }
    let mut schemas: Vec<_> = state.schemas().collect();
    schemas.sort_unstable_by_key(|schema| schema.oid);
    for schema in schemas.into_iter().filter(|schema| wanted.is_none_or(|oid| oid == schema.oid)) {
        describe(NAMESPACE, schema.oid, 0, schema.comment.as_deref())?;
    }
    for relation in relations::wanted(reader, "objoid", None) {
        describe(CLASS, relation.oid, 0, relation.comment.as_deref())?;
        for (at, column) in relation.visible_columns() {
            describe(CLASS, relation.oid, at + 1, column.comment.as_deref())?;
        }
    }
    for constraint in constraints::constraints(reader, "objoid", "") {
        describe(CONSTRAINT, constraint.oid, 0, constraint.comment())?;
    }
    for function in state.functions() {
        if wanted.is_none_or(|wanted| wanted == function.oid) {
            describe(PROC, function.oid, 0, function.comment.as_deref())?;
        }
    }
    for (_, trigger) in state.triggers() {
        if wanted.is_none_or(|wanted| wanted == trigger.oid) {
            describe(TRIGGER, trigger.oid, 0, trigger.comment.as_deref())?;
        }
    }
    for definition in in_order(state) {
        let oid = Oid(definition.type_oid().0);
        if wanted.is_none_or(|wanted| wanted == oid) {
            describe(TYPE, oid, 0, definition.comment.as_deref())?;
        }
        let checks = definition.domain().into_iter().flat_map(|domain| &domain.checks);
        for (at, check) in checks.enumerate() {
            let oid = check_oid(definition.oid, at);
            if wanted.is_none_or(|wanted| wanted == oid) {
                describe(CONSTRAINT, oid, 0, check.comment.as_deref())?;
            }
        }
    }
    Ok(())
}

pub(crate) const PG_SHDESCRIPTION: Computed = Computed {
    name: "pg_shdescription",
    columns: &["objoid", "classoid", "description"],
    keys: &[],
    rows: |reader, emit| {
        for database in reader.state.databases().iter() {
            let Some(comment) = &database.comment else { continue };
            emit(&[number(database.oid), number(DATABASE), text(comment)])?;
        }
        Ok(())
    },
};
