//! `information_schema`: tables, columns, sequences and privileges in the form of the SQL standard.

use std::sync::Arc;

use niwaki_catalog::{Identity, Relation, RelationKind, collation_name, collations};
use niwaki_sql::types::{element_of, format_oid};
use niwaki_types::{ColumnType, Datum, TypeOid};

use crate::names::{columns_read, schema_name};
use crate::pg_class::objects::view_definition;
use crate::pg_class::relations::{self, kind_letter};
use crate::roles::{DATABASE_OWNER, OWNER_NAME, ROLES, owner_of};
use crate::stored_types;
use crate::system_relation::{Computed, Emit, Reader, Result, int4, optional, text, yes_or_no};

pub(crate) const TABLES: Computed = Computed {
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

/// Returns tables and views; with a key, only the ones of its name.
fn tables_and_views<'r>(reader: &Reader<'r>) -> Vec<&'r Arc<Relation>> {
    let mut all = relations::wanted(reader, "", Some("table_name"));
    all.retain(|relation| matches!(relation.kind, RelationKind::Table | RelationKind::View));
    all
}

/// Returns the database, the schema and the name of a relation.
pub(crate) fn place(reader: &Reader<'_>, relation: &Relation) -> [Datum; 3] {
    [reader.database(), text(schema_name(reader.state, relation.schema)), text(&relation.name)]
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
            yes_or_no(niwaki_sql::writable(relation, reader.state).values()),
            yes_or_no(false),
            optional(temporary.then_some("PRESERVE")),
        ])?;
    }
    Ok(())
}

pub(crate) const COLUMNS: Computed = Computed {
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
        "domain_catalog",
        "domain_schema",
        "domain_name",
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
        "generation_expression",
        "is_updatable",
        "collation_catalog",
        "collation_schema",
        "collation_name",
    ],
    keys: &["table_name"],
    rows: columns,
};

/// Size limits of a type's values. A domain has none.
#[derive(Default)]
pub(crate) struct Measures {
    pub(crate) characters: Option<usize>,
    pub(crate) octets: Option<usize>,
    pub(crate) precision: Option<usize>,
    pub(crate) radix: Option<usize>,
    pub(crate) scale: Option<usize>,
    pub(crate) datetime: Option<usize>,
}

/// Most bytes of a text without a length limit.
const OCTETS_MAX: usize = 1 << 30;
/// Most bytes of one character, in UTF-8.
const CHARACTER_BYTES: usize = 4;

pub(crate) fn measures(column: ColumnType) -> Measures {
    if column.domain.is_some() {
        return Measures::default();
    }
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
        // The low half has the digits; 0xffff means that none are given.
        TypeOid::INTERVAL => time(match column.typmod & 0xffff {
            _ if column.typmod < 0 => 6,
            0xffff => 6,
            digits => digits,
        }),
        _ => Measures::default(),
    }
}

/// Returns `data_type`: the type's name without lengths; an array's without its element type.
pub(crate) fn data_type(of: ColumnType) -> String {
    if of.domain.is_some() {
        return "USER-DEFINED".to_owned();
    }
    match of.oid {
        oid if element_of(oid).is_some() && !oid.is_vector() => "ARRAY".to_owned(),
        oid if oid.is_enum() || oid.is_composite() => "USER-DEFINED".to_owned(),
        oid => format_oid(oid),
    }
}

fn columns(reader: &Reader<'_>, emit: Emit<'_>) -> Result<()> {
    let path = reader.shown_path();
    for relation in tables_and_views(reader) {
        let writable = niwaki_sql::writable(relation, reader.state);
        for (at, column) in relation.visible_columns() {
            let kind = column.column_type();
            let default = column.default.as_ref().filter(|_| column.identity.is_none());
            let default = default.map(|default| {
                let target = Some((kind, column.name.as_str()));
                let over = column.generated.then_some(relation);
                niwaki_sql::deparse_expression(default, over, target, reader.state, &path)
                    .unwrap_or_else(|_| default.clone())
            });
            let (default, generation) =
                if column.generated { (None, default) } else { (default, None) };
            let sequence = column.sequence.filter(|_| column.identity.is_some());
            let sequence = sequence.and_then(|oid| reader.state.relation(oid));
            let sequence = sequence.and_then(|relation| relation.sequence.as_ref());
            let identity = |value: Option<i64>| optional(value.map(|value| value.to_string()));
            // A column of a domain type is shown with the domain's base type.
            let domain = kind.domain.and_then(|domain| reader.state.domain(domain));
            let below = domain.map_or(kind, |domain| domain.below());
            let not_null = column.not_null || domain.is_some_and(|domain| domain.not_null);
            let size = measures(below);
            let count = |value: Option<usize>| value.map_or(Datum::Null, int4);
            let [domain_catalog, domain_schema, domain_name] =
                stored_types::domain_of(reader.state, kind);
            let [udt_catalog, udt_schema, udt_name] = stored_types::udt(reader.state, below);
            let [database, schema, name] = place(reader, relation);
            let fields = niwaki_types::datetime::interval_typmod_text(kind.typmod);
            let fields = fields.split('(').next().unwrap_or_default().trim().to_ascii_uppercase();
            let interval = kind.oid == TypeOid::INTERVAL && !fields.is_empty();
            // The database's default collation is not named.
            let collation = relations::collation(reader.state, relation.oid, column);
            let collation = collation.filter(|of| *of != relations::DEFAULT_COLLATION);
            let collation = collation.and_then(collation_name);
            let of_collation = |value: &str| optional(collation.map(|_| value));
            emit(&[
                database,
                schema,
                name,
                text(&column.name),
                int4(at + 1),
                optional(default),
                yes_or_no(!not_null),
                text(data_type(below)),
                count(size.characters),
                count(size.octets),
                count(size.precision),
                count(size.radix),
                count(size.scale),
                count(size.datetime),
                optional(interval.then_some(fields)),
                domain_catalog,
                domain_schema,
                domain_name,
                udt_catalog,
                udt_schema,
                udt_name,
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
                text(if column.generated { "ALWAYS" } else { "NEVER" }),
                optional(generation),
                yes_or_no(writable.rows && writable.columns.get(at).copied().unwrap_or(false)),
                collation.map_or(Datum::Null, |_| reader.database()),
                of_collation("pg_catalog"),
                optional(collation),
            ])?;
        }
    }
    Ok(())
}

pub(crate) const SCHEMATA: Computed = Computed {
    name: "schemata",
    columns: &["catalog_name", "schema_name", "schema_owner"],
    keys: &[],
    rows: schemata,
};

fn schemata(reader: &Reader<'_>, emit: Emit<'_>) -> Result<()> {
    let mut all: Vec<_> = reader.state.schemas().collect();
    all.sort_by_key(|schema| schema.oid);
    for schema in all {
        emit(&[reader.database(), text(&schema.name), text(owner_of(schema.oid))])?;
    }
    Ok(())
}

pub(crate) const COLUMN_COLUMN_USAGE: Computed = Computed {
    name: "column_column_usage",
    columns: &["table_catalog", "table_schema", "table_name", "column_name", "dependent_column"],
    keys: &["table_name"],
    rows: column_column_usage,
};

/// Emits generated columns with the columns that they are computed from.
fn column_column_usage(reader: &Reader<'_>, emit: Emit<'_>) -> Result<()> {
    for relation in tables_and_views(reader) {
        for (_, column) in relation.visible_columns().filter(|(_, column)| column.generated) {
            let expression = column.default.as_deref().unwrap_or_default();
            for read in columns_read(relation, expression) {
                let Some(read) = relation.columns.get(read - 1) else { continue };
                let [database, schema, name] = place(reader, relation);
                emit(&[database, schema, name, text(&read.name), text(&column.name)])?;
            }
        }
    }
    Ok(())
}

pub(crate) const SEQUENCES: Computed = Computed {
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
        // The sequence of an identity column is part of the column, and is not listed.
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

pub(crate) const VIEW_TABLE_USAGE: Computed = Computed {
    name: "view_table_usage",
    columns: &[
        "view_catalog",
        "view_schema",
        "view_name",
        "table_catalog",
        "table_schema",
        "table_name",
    ],
    keys: &[],
    rows: |reader, emit| {
        each_source(reader, &mut |view, table, _| {
            let both = [place(reader, view), place(reader, table)].concat();
            emit(&both)
        })
    },
};

pub(crate) const VIEW_COLUMN_USAGE: Computed = Computed {
    name: "view_column_usage",
    columns: &[
        "view_catalog",
        "view_schema",
        "view_name",
        "table_catalog",
        "table_schema",
        "table_name",
        "column_name",
    ],
    keys: &[],
    rows: |reader, emit| {
        each_source(reader, &mut |view, table, columns| {
            for column in columns.iter().filter_map(|c| table.columns.get(usize::from(*c))) {
                let mut row = [place(reader, view), place(reader, table)].concat();
                row.push(text(&column.name));
                emit(&row)?;
            }
            Ok(())
        })
    },
};

/// Function that takes a view, a relation that the view reads, and the positions of the columns
/// read.
type EmitSource<'e> = &'e mut dyn FnMut(&Relation, &Relation, &[u16]) -> Result<()>;

/// Calls `give` with each user view, each table or view that it reads, and the positions of the
/// columns that it reads.
fn each_source(reader: &Reader<'_>, give: EmitSource<'_>) -> Result<()> {
    let all = reader.state.in_order();
    for view in all.into_iter().filter(|view| view.kind == RelationKind::View) {
        for source in view.query.iter().flat_map(|query| &query.sources) {
            let table = reader.state.relation(source.relation);
            let is_read = |table: &&Arc<Relation>| {
                matches!(table.kind, RelationKind::Table | RelationKind::View)
            };
            if let Some(table) = table.filter(is_read) {
                give(view, table, &source.columns)?;
            }
        }
    }
    Ok(())
}

pub(crate) const VIEWS: Computed = Computed {
    name: "views",
    columns: &[
        "table_catalog",
        "table_schema",
        "table_name",
        "view_definition",
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
            row.push(optional(view_definition(reader, relation)));
            row.push(text(match relation.options.get("check_option") {
                Some("local") => "LOCAL",
                Some("cascaded") => "CASCADED",
                _ => "NONE",
            }));
            let values = niwaki_sql::writable(relation, reader.state).values();
            row.extend([yes_or_no(values), yes_or_no(values)]);
            row.extend(std::iter::repeat_n(yes_or_no(false), 3));
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

pub(crate) const TABLE_PRIVILEGES: Computed = Computed {
    name: "table_privileges",
    columns: PRIVILEGE_COLUMNS,
    keys: &["table_name"],
    rows: table_privileges,
};

pub(crate) const ROLE_TABLE_GRANTS: Computed =
    Computed { name: "role_table_grants", ..TABLE_PRIVILEGES };

/// Privileges on a table; the owner has all of them.
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

pub(crate) const COLUMN_PRIVILEGES: Computed = Computed {
    name: "column_privileges",
    columns: COLUMN_PRIVILEGE_COLUMNS,
    keys: &["table_name"],
    rows: column_privileges,
};

pub(crate) const ROLE_COLUMN_GRANTS: Computed =
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

pub(crate) const COLLATIONS: Computed = Computed {
    name: "collations",
    columns: &["collation_catalog", "collation_schema", "collation_name", "pad_attribute"],
    keys: &[],
    rows: |reader, emit| {
        collations().try_for_each(|(_, name)| {
            emit(&[reader.database(), text("pg_catalog"), text(name), text("NO PAD")])
        })
    },
};

pub(crate) const COLLATION_CHARACTER_SETS: Computed = Computed {
    name: "collation_character_set_applicability",
    columns: &["collation_catalog", "collation_schema", "collation_name", "character_set_name"],
    keys: &[],
    rows: |reader, emit| {
        collations().try_for_each(|(_, name)| {
            emit(&[reader.database(), text("pg_catalog"), text(name), text("UTF8")])
        })
    },
};

pub(crate) const APPLICABLE_ROLES: Computed = Computed {
    name: "applicable_roles",
    columns: &["grantee", "role_name", "is_grantable"],
    keys: &[],
    rows: |_, emit| emit(&[text(OWNER_NAME), text(DATABASE_OWNER.1), yes_or_no(false)]),
};

pub(crate) const CATALOG_NAME: Computed = Computed {
    name: "information_schema_catalog_name",
    columns: &["catalog_name"],
    keys: &[],
    rows: |reader, emit| emit(&[reader.database()]),
};

pub(crate) const ENABLED_ROLES: Computed = Computed {
    name: "enabled_roles",
    columns: &["role_name"],
    keys: &[],
    rows: |_, emit| ROLES.iter().try_for_each(|(_, name)| emit(&[text(name)])),
};

pub(crate) const CHARACTER_SETS: Computed = Computed {
    name: "character_sets",
    columns: &[
        "character_set_name",
        "character_repertoire",
        "form_of_use",
        "default_collate_catalog",
    ],
    keys: &[],
    rows: |reader, emit| emit(&[text("UTF8"), text("UCS"), text("UTF8"), reader.database()]),
};
