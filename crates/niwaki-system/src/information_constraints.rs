//! Constraints in `information_schema`.

use std::sync::Arc;

use niwaki_catalog::{
    CatalogState, ConstraintTime, ForeignKey, NumberedConstraint, Relation, RelationKind,
    TableConstraint,
};
use niwaki_types::Datum;

use crate::constraints::{constraint_columns, constraint_letter, numbers_of};
use crate::information::domains;
use crate::information::information_schema::place;
use crate::pg_class::relations::wanted;
use crate::system_relation::{Computed, Emit, Reader, Result, int4, text, yes_or_no};

pub(crate) const TABLE_CONSTRAINTS: Computed = Computed {
    name: "table_constraints",
    columns: &[
        "constraint_catalog",
        "constraint_schema",
        "constraint_name",
        "table_catalog",
        "table_schema",
        "table_name",
        "constraint_type",
        "is_deferrable",
        "initially_deferred",
        "enforced",
        "nulls_distinct",
    ],
    keys: &["table_name"],
    rows: table_constraints,
};

/// Returns the name of the CHECK that stands for a NOT NULL in the standard.
fn not_null_name(relation: &Relation, at: usize) -> String {
    format!("{}_{}_{}_not_null", relation.schema, relation.oid, at + 1)
}

fn stored_tables<'r>(reader: &Reader<'r>) -> impl Iterator<Item = &'r Arc<Relation>> {
    let all = wanted(reader, "", Some("table_name"));
    all.into_iter().filter(|relation| relation.kind == RelationKind::Table)
}

fn table_constraints(reader: &Reader<'_>, emit: Emit<'_>) -> Result<()> {
    for relation in stored_tables(reader) {
        let [database, schema, table] = place(reader, relation);
        let mut give = |name: &str, kind: &str, time: ConstraintTime, distinct: Datum| {
            emit(&[
                database.clone(),
                schema.clone(),
                text(name),
                database.clone(),
                schema.clone(),
                table.clone(),
                text(kind),
                yes_or_no(time != ConstraintTime::AtOnce),
                yes_or_no(time == ConstraintTime::Transaction),
                yes_or_no(true),
                distinct,
            ])
        };
        for constraint in reader.state.constraints_of(relation) {
            let index = match constraint.constraint {
                TableConstraint::Index(index) => index.index.as_ref(),
                TableConstraint::Check(_) | TableConstraint::ForeignKey(_) => None,
            };
            let (kind, distinct) = match (constraint_letter(&constraint), index) {
                ("p", _) => ("PRIMARY KEY", Datum::Null),
                ("u", index) => {
                    ("UNIQUE", yes_or_no(index.is_none_or(|index| !index.nulls_not_distinct)))
                }
                ("f", _) => ("FOREIGN KEY", Datum::Null),
                _ => ("CHECK", Datum::Null),
            };
            give(constraint.name(), kind, constraint.check_time(), distinct)?;
        }
        for (at, _) in relation.visible_columns().filter(|(_, column)| column.not_null) {
            give(&not_null_name(relation, at), "CHECK", ConstraintTime::AtOnce, Datum::Null)?;
        }
    }
    Ok(())
}

pub(crate) const CHECK_CONSTRAINTS: Computed = Computed {
    name: "check_constraints",
    columns: &["constraint_catalog", "constraint_schema", "constraint_name", "check_clause"],
    keys: &[],
    rows: check_constraints,
};

fn check_constraints(reader: &Reader<'_>, emit: Emit<'_>) -> Result<()> {
    let path = reader.shown_path();
    for relation in stored_tables(reader) {
        let [database, schema, _] = place(reader, relation);
        for check in &relation.checks {
            let shown = niwaki_sql::deparse_expression(
                &check.expression,
                Some(relation),
                None,
                reader.state,
                &path,
            );
            let shown = shown.unwrap_or_else(|_| check.expression.clone());
            // As in PostgreSQL, the text is the part of the constraint's definition after the word
            // CHECK.
            let validity = if check.not_valid { " NOT VALID" } else { "" };
            let clause = text(format!("({shown}){validity}"));
            emit(&[database.clone(), schema.clone(), text(&check.name), clause])?;
        }
        for (at, column) in relation.visible_columns().filter(|(_, column)| column.not_null) {
            let name = text(not_null_name(relation, at));
            let clause = text(format!("{} IS NOT NULL", column.name));
            emit(&[database.clone(), schema.clone(), name, clause])?;
        }
    }
    domains::check_constraints(reader, emit)
}

pub(crate) const KEY_COLUMN_USAGE: Computed = Computed {
    name: "key_column_usage",
    columns: &[
        "constraint_catalog",
        "constraint_schema",
        "constraint_name",
        "table_catalog",
        "table_schema",
        "table_name",
        "column_name",
        "ordinal_position",
        "position_in_unique_constraint",
    ],
    keys: &["table_name"],
    rows: key_column_usage,
};

fn key_column_usage(reader: &Reader<'_>, emit: Emit<'_>) -> Result<()> {
    for relation in stored_tables(reader) {
        for constraint in reader.state.constraints_of(relation) {
            let foreign = match constraint.constraint {
                TableConstraint::Check(_) => continue,
                TableConstraint::Index(_) => None,
                TableConstraint::ForeignKey(key) => Some(key),
            };
            for (at, column) in constraint_columns(&constraint).into_iter().enumerate() {
                let Some(column) = column_numbered(relation, column) else { continue };
                let [database, schema, table] = place(reader, relation);
                let name = text(constraint.name());
                let (own, own_schema) = (database.clone(), schema.clone());
                let referenced = foreign.and_then(|key| place_in_key(reader.state, key, at));
                emit(&[
                    database,
                    schema,
                    name,
                    own,
                    own_schema,
                    table,
                    text(column),
                    int4(at + 1),
                    referenced.map_or(Datum::Null, int4),
                ])?;
            }
        }
    }
    Ok(())
}

/// Returns the name of a column by its number.
fn column_numbered(relation: &Relation, number: usize) -> Option<&str> {
    let column = relation.columns.get(number.checked_sub(1)?)?;
    Some(&column.name)
}

/// Returns the place of a foreign key's referenced column in the key of the unique index, from 1.
fn place_in_key(state: &CatalogState, key: &ForeignKey, at: usize) -> Option<usize> {
    let column = key.referenced.get(at)?;
    let index = state.relation(key.index)?.index.as_ref()?;
    index.key.iter().position(|entry| entry.column == *column).map(|place| place + 1)
}

/// Returns the foreign keys that reference a table.
fn references_to<'r>(
    reader: &Reader<'r>,
    table: &Relation,
) -> impl Iterator<Item = NumberedConstraint<'r>> {
    let state = reader.state;
    state.foreign_keys_to(table.oid).iter().filter_map(|oid| state.constraint(*oid))
}

/// Returns the constraints of a table that concern no other table.
fn own_constraints<'r>(
    reader: &Reader<'r>,
    table: &'r Arc<Relation>,
) -> impl Iterator<Item = NumberedConstraint<'r>> {
    let all = reader.state.constraints_of(table).into_iter();
    all.filter(|found| !matches!(found.constraint, TableConstraint::ForeignKey(_)))
}

pub(crate) const REFERENTIAL_CONSTRAINTS: Computed = Computed {
    name: "referential_constraints",
    columns: &[
        "constraint_catalog",
        "constraint_schema",
        "constraint_name",
        "unique_constraint_catalog",
        "unique_constraint_schema",
        "unique_constraint_name",
        "match_option",
        "update_rule",
        "delete_rule",
    ],
    keys: &[],
    rows: referential_constraints,
};

fn referential_constraints(reader: &Reader<'_>, emit: Emit<'_>) -> Result<()> {
    for (table, key) in reader.state.foreign_keys() {
        let [database, schema, _] = place(reader, table);
        // The standard knows only unique indexes that a constraint created.
        let index = reader.state.relation(key.index);
        let unique = index.filter(|index| {
            index.index.as_ref().is_some_and(|definition| definition.constraint.is_some())
        });
        let unique = unique.map(|index| place(reader, index));
        let unique = unique.unwrap_or([Datum::Null, Datum::Null, Datum::Null]);
        let mut row = vec![database, schema, text(&key.name)];
        row.extend(unique);
        row.push(text(if key.match_full { "FULL" } else { "NONE" }));
        row.extend([key.on_update, key.on_delete].map(|action| text(action.words())));
        emit(&row)?;
    }
    Ok(())
}

pub(crate) const CONSTRAINT_COLUMN_USAGE: Computed = Computed {
    name: "constraint_column_usage",
    columns: &[
        "table_catalog",
        "table_schema",
        "table_name",
        "column_name",
        "constraint_catalog",
        "constraint_schema",
        "constraint_name",
    ],
    keys: &["table_name"],
    rows: constraint_column_usage,
};

/// Emits the columns that constraints use. A foreign key uses the columns that it references.
fn constraint_column_usage(reader: &Reader<'_>, emit: Emit<'_>) -> Result<()> {
    for relation in stored_tables(reader) {
        for constraint in own_constraints(reader, relation).chain(references_to(reader, relation)) {
            let columns = match constraint.constraint {
                TableConstraint::ForeignKey(key) => numbers_of(&key.referenced).collect(),
                _ => constraint_columns(&constraint),
            };
            for column in columns {
                let Some(column) = column_numbered(relation, column) else { continue };
                let [database, schema, table] = place(reader, relation);
                let [own, own_schema, _] = place(reader, constraint.table);
                let name = text(constraint.name());
                emit(&[database, schema, table, text(column), own, own_schema, name])?;
            }
        }
    }
    Ok(())
}

pub(crate) const CONSTRAINT_TABLE_USAGE: Computed = Computed {
    name: "constraint_table_usage",
    columns: &[
        "table_catalog",
        "table_schema",
        "table_name",
        "constraint_catalog",
        "constraint_schema",
        "constraint_name",
    ],
    keys: &["table_name"],
    rows: constraint_table_usage,
};

fn constraint_table_usage(reader: &Reader<'_>, emit: Emit<'_>) -> Result<()> {
    for relation in stored_tables(reader) {
        for constraint in own_constraints(reader, relation).chain(references_to(reader, relation)) {
            if let TableConstraint::Check(_) = constraint.constraint {
                continue;
            }
            let [database, schema, table] = place(reader, relation);
            let [own, own_schema, _] = place(reader, constraint.table);
            emit(&[database, schema, table, own, own_schema, text(constraint.name())])?;
        }
    }
    Ok(())
}
