//! `information_schema`: tables, columns, constraints and sequences as the SQL standard shows them.

use std::sync::Arc;

use niwaki_catalog::{
    ConstraintTime, Identity, NumberedConstraint, Relation, RelationKind, TableConstraint,
    builtin_rows,
};
use niwaki_sql::types::{element_of, format_oid};
use niwaki_types::{ColumnType, Datum, TypeOid};

use super::relations::{constraint_columns, constraint_letter, kind_letter};
use super::table::{Computed, Emit, Reader, Result, int4, optional, text, yes_or_no};
use super::{DATABASE, OWNER_NAME, types};
use crate::session::schema_name;

pub(super) const TABLES: Computed = Computed {
    name: "tables",
    columns: &[
        "table_catalog",
        "table_schema",
        "table_name",
        "table_type",
        "is_insertable_into",
        "is_typed",
        "commit_action",
    ],
    keys: &["table_name"],
    rows: tables,
};

/// Tables and views, those of the key's name only if there is one.
fn tables_and_views<'r>(reader: &Reader<'r>) -> Vec<&'r Arc<Relation>> {
    let mut all = super::relations::wanted(reader, "", Some("table_name"));
    all.retain(|relation| matches!(relation.kind, RelationKind::Table | RelationKind::View));
    all
}

/// Database, schema and name.
fn place(reader: &Reader<'_>, relation: &Relation) -> [Datum; 3] {
    [text(DATABASE), text(schema_name(reader.state, relation.schema)), text(&relation.name)]
}

fn tables(reader: &Reader<'_>, emit: Emit<'_>) -> Result<()> {
    for relation in tables_and_views(reader) {
        let temporary = reader.state.temporary_schema() == Some(relation.schema);
        let kind = match kind_letter(relation) {
            "v" => "VIEW",
            _ if temporary => "LOCAL TEMPORARY",
            _ => "BASE TABLE",
        };
        let [database, schema, name] = place(reader, relation);
        emit(&[
            database,
            schema,
            name,
            text(kind),
            yes_or_no(relation.kind == RelationKind::Table),
            yes_or_no(false),
            optional(temporary.then_some("PRESERVE")),
        ])?;
    }
    Ok(())
}

pub(super) const COLUMNS: Computed = Computed {
    name: "columns",
    columns: &[
        "table_catalog",
        "table_schema",
        "table_name",
        "column_name",
        "ordinal_position",
        "column_default",
        "is_nullable",
        "data_type",
        "character_maximum_length",
        "character_octet_length",
        "numeric_precision",
        "numeric_precision_radix",
        "numeric_scale",
        "datetime_precision",
        "interval_type",
        "udt_catalog",
        "udt_schema",
        "udt_name",
        "dtd_identifier",
        "is_self_referencing",
        "is_identity",
        "identity_generation",
        "identity_start",
        "identity_increment",
        "identity_maximum",
        "identity_minimum",
        "identity_cycle",
        "is_generated",
        "is_updatable",
    ],
    keys: &["table_name"],
    rows: columns,
};

/// What a type says about the size of its values.
#[derive(Default)]
struct Measures {
    characters: Option<usize>,
    octets: Option<usize>,
    precision: Option<usize>,
    radix: Option<usize>,
    scale: Option<usize>,
    datetime: Option<usize>,
}

/// Most bytes of a text without a length.
const OCTETS_MAX: usize = 1 << 30;
/// Most bytes of a character.
const CHARACTER_BYTES: usize = 4;

fn measures(column: ColumnType) -> Measures {
    let binary = |digits| Measures {
        precision: Some(digits),
        radix: Some(2),
        scale: Some(0),
        ..Measures::default()
    };
    let float =
        |digits| Measures { precision: Some(digits), radix: Some(2), ..Measures::default() };
    let time = |digits: i32| Measures {
        datetime: Some(usize::try_from(digits).unwrap_or(6)),
        ..Measures::default()
    };
    match column.oid {
        TypeOid::INT2 => binary(16),
        TypeOid::INT4 => binary(32),
        TypeOid::INT8 => binary(64),
        TypeOid::FLOAT4 => float(24),
        TypeOid::FLOAT8 => float(53),
        TypeOid::NUMERIC => {
            let given = niwaki_types::numeric_precision_scale(column.typmod);
            Measures {
                precision: given.and_then(|(precision, _)| usize::try_from(precision).ok()),
                radix: Some(10),
                scale: given.and_then(|(_, scale)| usize::try_from(scale).ok()),
                ..Measures::default()
            }
        }
        TypeOid::VARCHAR | TypeOid::BPCHAR => {
            let limit = column.length_limit();
            let octets = limit.map_or(OCTETS_MAX, |limit| limit * CHARACTER_BYTES);
            Measures { characters: limit, octets: Some(octets), ..Measures::default() }
        }
        TypeOid::TEXT => Measures { octets: Some(OCTETS_MAX), ..Measures::default() },
        TypeOid::DATE => time(0),
        TypeOid::TIME | TypeOid::TIMETZ | TypeOid::TIMESTAMP | TypeOid::TIMESTAMPTZ => {
            time(column.typmod)
        }
        // The low half has the digits, or that there are none given.
        TypeOid::INTERVAL => time(match column.typmod & 0xffff {
            _ if column.typmod < 0 => 6,
            0xffff => 6,
            digits => digits,
        }),
        _ => Measures::default(),
    }
}

/// `data_type`: without lengths, and arrays without what they are made of.
fn data_type(oid: TypeOid) -> String {
    match oid {
        oid if element_of(oid).is_some() && !oid.is_vector() => "ARRAY".to_owned(),
        oid if oid.is_enum() => "USER-DEFINED".to_owned(),
        oid => format_oid(oid),
    }
}

fn columns(reader: &Reader<'_>, emit: Emit<'_>) -> Result<()> {
    let path = reader.state.search_path(&["public".to_owned()], OWNER_NAME);
    for relation in tables_and_views(reader) {
        for (at, column) in relation.visible_columns() {
            let kind = column.column_type();
            let default = column.default.as_ref().filter(|_| column.identity.is_none());
            let default = default.map(|default| {
                let target = Some((kind, column.name.as_str()));
                niwaki_sql::shown_expression(default, None, target, reader.state, &path)
                    .unwrap_or_else(|_| default.clone())
            });
            let sequence = column.sequence.filter(|_| column.identity.is_some());
            let sequence = sequence.and_then(|oid| reader.state.relation(oid));
            let sequence = sequence.and_then(|relation| relation.sequence.as_ref());
            let identity = |value: Option<i64>| optional(value.map(|value| value.to_string()));
            let size = measures(kind);
            let count = |value: Option<usize>| value.map_or(Datum::Null, int4);
            let type_schema = types::user_type(reader.state, kind.oid)
                .map(|found| schema_name(reader.state, found.schema));
            let [database, schema, name] = place(reader, relation);
            let fields = niwaki_types::datetime::interval_typmod_text(kind.typmod);
            let fields = fields.split('(').next().unwrap_or_default().trim().to_ascii_uppercase();
            let interval = kind.oid == TypeOid::INTERVAL && !fields.is_empty();
            emit(&[
                database,
                schema,
                name,
                text(&column.name),
                int4(at + 1),
                optional(default),
                yes_or_no(!column.not_null),
                text(data_type(kind.oid)),
                count(size.characters),
                count(size.octets),
                count(size.precision),
                count(size.radix),
                count(size.scale),
                count(size.datetime),
                optional(interval.then_some(fields)),
                text(DATABASE),
                text(type_schema.as_deref().unwrap_or("pg_catalog")),
                optional(types::name(reader.state, kind.oid)),
                text((at + 1).to_string()),
                yes_or_no(false),
                yes_or_no(column.identity.is_some()),
                optional(column.identity.map(|identity| match identity {
                    Identity::Always => "ALWAYS",
                    Identity::ByDefault => "BY DEFAULT",
                })),
                identity(sequence.map(|s| s.start)),
                identity(sequence.map(|s| s.increment)),
                identity(sequence.map(|s| s.maximum)),
                identity(sequence.map(|s| s.minimum)),
                yes_or_no(sequence.is_some_and(|s| s.cycle)),
                text("NEVER"),
                yes_or_no(relation.kind == RelationKind::Table),
            ])?;
        }
    }
    Ok(())
}

pub(super) const SCHEMATA: Computed = Computed {
    name: "schemata",
    columns: &["catalog_name", "schema_name", "schema_owner"],
    keys: &[],
    rows: schemata,
};

fn schemata(reader: &Reader<'_>, emit: Emit<'_>) -> Result<()> {
    let mut all: Vec<_> = reader.state.schemas().collect();
    all.sort_by_key(|schema| schema.oid);
    for schema in all {
        emit(&[text(DATABASE), text(&schema.name), text(super::owner_of(schema.oid))])?;
    }
    Ok(())
}

pub(super) const TABLE_CONSTRAINTS: Computed = Computed {
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

/// The name that the standard's CHECK of a NOT NULL has.
fn not_null_name(relation: &Relation, at: usize) -> String {
    format!("{}_{}_{}_not_null", relation.schema, relation.oid, at + 1)
}

fn stored_tables<'r>(reader: &Reader<'r>) -> impl Iterator<Item = &'r Arc<Relation>> {
    let all = super::relations::wanted(reader, "", Some("table_name"));
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
                TableConstraint::Check(_) => None,
            };
            let (kind, distinct) = match (constraint_letter(&constraint), index) {
                ("p", _) => ("PRIMARY KEY", Datum::Null),
                ("u", index) => {
                    ("UNIQUE", yes_or_no(index.is_none_or(|index| !index.nulls_not_distinct)))
                }
                _ => ("CHECK", Datum::Null),
            };
            let time = index.map_or(ConstraintTime::AtOnce, |index| index.check_time);
            give(constraint.name(), kind, time, distinct)?;
        }
        for (at, _) in relation.visible_columns().filter(|(_, column)| column.not_null) {
            give(&not_null_name(relation, at), "CHECK", ConstraintTime::AtOnce, Datum::Null)?;
        }
    }
    Ok(())
}

pub(super) const CHECK_CONSTRAINTS: Computed = Computed {
    name: "check_constraints",
    columns: &["constraint_catalog", "constraint_schema", "constraint_name", "check_clause"],
    keys: &[],
    rows: check_constraints,
};

fn check_constraints(reader: &Reader<'_>, emit: Emit<'_>) -> Result<()> {
    let path = reader.state.search_path(&["public".to_owned()], OWNER_NAME);
    for relation in stored_tables(reader) {
        let [database, schema, _] = place(reader, relation);
        for check in &relation.checks {
            let shown = niwaki_sql::shown_expression(
                &check.expression,
                Some(relation),
                None,
                reader.state,
                &path,
            );
            let shown = shown.unwrap_or_else(|_| check.expression.clone());
            let clause = text(format!("({shown})"));
            emit(&[database.clone(), schema.clone(), text(&check.name), clause])?;
        }
        for (at, column) in relation.visible_columns().filter(|(_, column)| column.not_null) {
            let name = text(not_null_name(relation, at));
            let clause = text(format!("{} IS NOT NULL", column.name));
            emit(&[database.clone(), schema.clone(), name, clause])?;
        }
    }
    Ok(())
}

pub(super) const KEY_COLUMN_USAGE: Computed = Computed {
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
    ],
    keys: &["table_name"],
    rows: key_column_usage,
};

/// Calls `give` with each constraint, and the name and place of each of its columns.
fn constraint_uses(
    reader: &Reader<'_>,
    give: &mut dyn FnMut(&NumberedConstraint<'_>, &str, usize) -> Result<()>,
) -> Result<()> {
    for relation in stored_tables(reader) {
        for constraint in reader.state.constraints_of(relation) {
            for (at, column) in constraint_columns(&constraint).into_iter().enumerate() {
                if let Some(column) = column.checked_sub(1).and_then(|at| relation.columns.get(at))
                {
                    give(&constraint, &column.name, at + 1)?;
                }
            }
        }
    }
    Ok(())
}

fn key_column_usage(reader: &Reader<'_>, emit: Emit<'_>) -> Result<()> {
    constraint_uses(reader, &mut |constraint, column, at| {
        if matches!(constraint.constraint, TableConstraint::Check(_)) {
            return Ok(());
        }
        let [database, schema, table] = place(reader, constraint.table);
        let name = text(constraint.name());
        let (own, own_schema) = (database.clone(), schema.clone());
        emit(&[database, schema, name, own, own_schema, table, text(column), int4(at)])
    })
}

pub(super) const CONSTRAINT_COLUMN_USAGE: Computed = Computed {
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

fn constraint_column_usage(reader: &Reader<'_>, emit: Emit<'_>) -> Result<()> {
    constraint_uses(reader, &mut |constraint, column, _| {
        let [database, schema, table] = place(reader, constraint.table);
        let name = text(constraint.name());
        let (own, own_schema) = (database.clone(), schema.clone());
        emit(&[database, schema, table, text(column), own, own_schema, name])
    })
}

pub(super) const CONSTRAINT_TABLE_USAGE: Computed = Computed {
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
        for constraint in reader.state.constraints_of(relation) {
            let TableConstraint::Index(_) = constraint.constraint else { continue };
            let [database, schema, table] = place(reader, relation);
            let (own, own_schema) = (database.clone(), schema.clone());
            emit(&[database, schema, table, own, own_schema, text(constraint.name())])?;
        }
    }
    Ok(())
}

pub(super) const SEQUENCES: Computed = Computed {
    name: "sequences",
    columns: &[
        "sequence_catalog",
        "sequence_schema",
        "sequence_name",
        "data_type",
        "numeric_precision",
        "numeric_precision_radix",
        "numeric_scale",
        "start_value",
        "minimum_value",
        "maximum_value",
        "increment",
        "cycle_option",
    ],
    keys: &[],
    rows: sequences,
};

fn sequences(reader: &Reader<'_>, emit: Emit<'_>) -> Result<()> {
    for relation in reader.state.in_order() {
        let Some(sequence) = &relation.sequence else { continue };
        // Those of identity columns are part of the column.
        let of_identity = sequence.owned_by.is_some_and(|(table, column)| {
            let table = reader.state.relation(table);
            let column = table.and_then(|table| table.columns.get(usize::from(column)));
            column.is_some_and(|column| column.identity.is_some())
        });
        if of_identity {
            continue;
        }
        let kind = TypeOid(sequence.type_oid);
        let size = measures(ColumnType::new(kind));
        let count = |value: Option<usize>| value.map_or(Datum::Null, int4);
        let [database, schema, name] = place(reader, relation);
        emit(&[
            database,
            schema,
            name,
            text(format_oid(kind)),
            count(size.precision),
            count(size.radix),
            count(size.scale),
            text(sequence.start.to_string()),
            text(sequence.minimum.to_string()),
            text(sequence.maximum.to_string()),
            text(sequence.increment.to_string()),
            yes_or_no(sequence.cycle),
        ])?;
    }
    Ok(())
}

pub(super) const VIEWS: Computed = Computed {
    name: "views",
    columns: &[
        "table_catalog",
        "table_schema",
        "table_name",
        "check_option",
        "is_updatable",
        "is_insertable_into",
        "is_trigger_updatable",
        "is_trigger_deletable",
        "is_trigger_insertable_into",
    ],
    keys: &["table_name"],
    rows: views,
};

fn views(reader: &Reader<'_>, emit: Emit<'_>) -> Result<()> {
    for relation in tables_and_views(reader) {
        if kind_letter(relation) == "v" {
            let mut row = place(reader, relation).to_vec();
            row.push(text("NONE"));
            row.extend(std::iter::repeat_n(yes_or_no(false), 5));
            emit(&row)?;
        }
    }
    Ok(())
}

const PRIVILEGE_COLUMNS: &[&str] = &[
    "grantor",
    "grantee",
    "table_catalog",
    "table_schema",
    "table_name",
    "privilege_type",
    "is_grantable",
    "with_hierarchy",
];

pub(super) const TABLE_PRIVILEGES: Computed = Computed {
    name: "table_privileges",
    columns: PRIVILEGE_COLUMNS,
    keys: &["table_name"],
    rows: table_privileges,
};

pub(super) const ROLE_TABLE_GRANTS: Computed =
    Computed { name: "role_table_grants", ..TABLE_PRIVILEGES };

/// The owner has them all.
const PRIVILEGES: [&str; 7] =
    ["INSERT", "SELECT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER"];

fn table_privileges(reader: &Reader<'_>, emit: Emit<'_>) -> Result<()> {
    for relation in tables_and_views(reader) {
        for privilege in PRIVILEGES {
            let [database, schema, name] = place(reader, relation);
            emit(&[
                text(OWNER_NAME),
                text(OWNER_NAME),
                database,
                schema,
                name,
                text(privilege),
                yes_or_no(true),
                yes_or_no(privilege == "SELECT"),
            ])?;
        }
    }
    Ok(())
}

const COLUMN_PRIVILEGE_COLUMNS: &[&str] = &[
    "grantor",
    "grantee",
    "table_catalog",
    "table_schema",
    "table_name",
    "column_name",
    "privilege_type",
    "is_grantable",
];

pub(super) const COLUMN_PRIVILEGES: Computed = Computed {
    name: "column_privileges",
    columns: COLUMN_PRIVILEGE_COLUMNS,
    keys: &["table_name"],
    rows: column_privileges,
};

pub(super) const ROLE_COLUMN_GRANTS: Computed =
    Computed { name: "role_column_grants", ..COLUMN_PRIVILEGES };

fn column_privileges(reader: &Reader<'_>, emit: Emit<'_>) -> Result<()> {
    for relation in tables_and_views(reader) {
        for (_, column) in relation.visible_columns() {
            for privilege in ["INSERT", "SELECT", "UPDATE", "REFERENCES"] {
                let [database, schema, name] = place(reader, relation);
                emit(&[
                    text(OWNER_NAME),
                    text(OWNER_NAME),
                    database,
                    schema,
                    name,
                    text(&column.name),
                    text(privilege),
                    yes_or_no(true),
                ])?;
            }
        }
    }
    Ok(())
}

/// Names of the collations that there are.
fn collation_names() -> impl Iterator<Item = &'static str> {
    let rows = builtin_rows("pg_collation").into_iter().flat_map(|rows| rows.rows());
    rows.filter_map(|mut row| row.nth(1).flatten())
}

pub(super) const COLLATIONS: Computed = Computed {
    name: "collations",
    columns: &["collation_catalog", "collation_schema", "collation_name", "pad_attribute"],
    keys: &[],
    rows: |_, emit| {
        collation_names().try_for_each(|name| {
            emit(&[text(DATABASE), text("pg_catalog"), text(name), text("NO PAD")])
        })
    },
};

pub(super) const COLLATION_CHARACTER_SETS: Computed = Computed {
    name: "collation_character_set_applicability",
    columns: &["collation_catalog", "collation_schema", "collation_name", "character_set_name"],
    keys: &[],
    rows: |_, emit| {
        collation_names().try_for_each(|name| {
            emit(&[text(DATABASE), text("pg_catalog"), text(name), text("UTF8")])
        })
    },
};

pub(super) const APPLICABLE_ROLES: Computed = Computed {
    name: "applicable_roles",
    columns: &["grantee", "role_name", "is_grantable"],
    keys: &[],
    rows: |_, emit| emit(&[text(OWNER_NAME), text(super::DATABASE_OWNER.1), yes_or_no(false)]),
};

pub(super) const CATALOG_NAME: Computed = Computed {
    name: "information_schema_catalog_name",
    columns: &["catalog_name"],
    keys: &[],
    rows: |_, emit| emit(&[text(DATABASE)]),
};

pub(super) const ENABLED_ROLES: Computed = Computed {
    name: "enabled_roles",
    columns: &["role_name"],
    keys: &[],
    rows: |_, emit| super::ROLES.iter().try_for_each(|(_, name)| emit(&[text(name)])),
};

pub(super) const CHARACTER_SETS: Computed = Computed {
    name: "character_sets",
    columns: &[
        "character_set_name",
        "character_repertoire",
        "form_of_use",
        "default_collate_catalog",
    ],
    keys: &[],
    rows: |_, emit| emit(&[text("UTF8"), text("UCS"), text("UTF8"), text(DATABASE)]),
};
