//! System rows that describe no relations: schemas, roles, databases, and the views that present
//! catalogs to people.

use niwaki_catalog::{KeyBytes, Oid, PG_CATALOG, Relation, RelationKind, SchemaEntry};
use niwaki_sql::utility::EXTENSIONS;
use niwaki_types::{Datum, KeyOrder, TypeOid, decode_key};

use crate::class_numbers::NAMESPACE;
use crate::names::schema_name;
use crate::pg_class::relations::{has_triggers, kind_letter};
use crate::roles::{DATABASE_OWNER, OWNER, OWNER_NAME, ROLES, owner_of};
use crate::system_relation::{Computed, Emit, Reader, Result, array, number, optional, text};

pub(crate) const PG_NAMESPACE: Computed = Computed {
    name: "pg_namespace",
    columns: &["oid", "nspname", "nspowner", "nspacl"],
    keys: &[],
    rows: pg_namespace,
};

fn pg_namespace(reader: &Reader<'_>, emit: Emit<'_>) -> Result<()> {
    let mut all: Vec<_> = reader.state.schemas().collect();
    all.sort_by_key(|schema| schema.oid);
    for schema in all {
        let owner = owner_of(schema.oid);
        let oid = ROLES.iter().find(|(_, name)| *name == owner).map_or(OWNER, |(oid, _)| *oid);
        let privileges =
            if is_builtin(schema) { initial_privileges(schema.oid) } else { Datum::Null };
        emit(&[number(schema.oid), text(&schema.name), number(oid), privileges])?;
    }
    Ok(())
}

/// Decides whether a schema is built in.
fn is_builtin(schema: &SchemaEntry) -> bool {
    schema.oid < Oid::FIRST_USER
}

/// Returns the privileges of a built-in schema. Every role may use it.
fn initial_privileges(schema: Oid) -> Datum {
    let owner = owner_of(schema);
    let items = [format!("{owner}=UC/{owner}"), format!("=U/{owner}")];
    array(TypeOid::ACLITEM, items.into_iter().map(text))
}

/// Extensions are built in, so every database has all of them.
pub(crate) const PG_EXTENSION: Computed = Computed {
    name: "pg_extension",
    columns: &["oid", "extname", "extowner", "extnamespace", "extrelocatable", "extversion"],
    keys: &[],
    rows: |_, emit| {
        for extension in EXTENSIONS {
            let [oid, schema] = [Oid(extension.oid), PG_CATALOG].map(number);
            let (name, version) = (text(extension.name), text(extension.version));
            let relocatable = Datum::Bool(extension.relocatable);
            emit(&[oid, name, number(OWNER), schema, relocatable, version])?;
        }
        Ok(())
    },
};

pub(crate) const PG_AVAILABLE_EXTENSIONS: Computed = Computed {
    name: "pg_available_extensions",
    columns: &["name", "default_version", "installed_version", "comment"],
    keys: &[],
    rows: |_, emit| {
        for extension in EXTENSIONS {
            let (name, version) = (text(extension.name), text(extension.version));
            emit(&[name, version.clone(), version, text(extension.comment)])?;
        }
        Ok(())
    },
};

pub(crate) const PG_AVAILABLE_EXTENSION_VERSIONS: Computed = Computed {
    name: "pg_available_extension_versions",
    columns: &[
        "name",
        "version",
        "installed",
        "superuser",
        "trusted",
        "relocatable",
        "schema",
        "comment",
    ],
    keys: &[],
    rows: |_, emit| {
        for extension in EXTENSIONS {
            emit(&[
                text(extension.name),
                text(extension.version),
                Datum::Bool(true),
                Datum::Bool(true),
                Datum::Bool(extension.trusted),
                Datum::Bool(extension.relocatable),
                optional(extension.schema),
                text(extension.comment),
            ])?;
        }
        Ok(())
    },
};

/// Privileges that objects have in a new database. `pg_dump` takes them for granted.
pub(crate) const PG_INIT_PRIVS: Computed = Computed {
    name: "pg_init_privs",
    columns: &["objoid", "classoid", "objsubid", "privtype", "initprivs"],
    keys: &[],
    rows: |reader, emit| {
        let mut all: Vec<_> = reader.state.schemas().filter(|s| is_builtin(s)).collect();
        all.sort_by_key(|schema| schema.oid);
        for schema in all {
            let privileges = initial_privileges(schema.oid);
            let (class, kind) = (number(NAMESPACE), text("i"));
            emit(&[number(schema.oid), class, Datum::Int4(0), kind, privileges])?;
        }
        Ok(())
    },
};

pub(crate) const PG_DATABASE: Computed = Computed {
    name: "pg_database",
    columns: &[
        "oid",
        "datname",
        "datdba",
        "encoding",
        "datlocprovider",
        "datistemplate",
        "datallowconn",
        "datconnlimit",
        "dattablespace",
        "datcollate",
        "datctype",
        "datfrozenxid",
    ],
    keys: &[],
    rows: pg_database,
};

/// Number of the default tablespace.
const TABLESPACE: u32 = 1663;

fn pg_database(reader: &Reader<'_>, emit: Emit<'_>) -> Result<()> {
    let frozen = reader.frozen_xid();
    for database in reader.state.databases().iter() {
        let limit = database.connection_limit.and_then(|limit| i32::try_from(limit).ok());
        emit(&[
            number(database.oid),
            text(&database.name),
            number(OWNER),
            // Encoding number of UTF8.
            Datum::Int4(6),
            text("c"),
            Datum::Bool(database.is_template),
            Datum::Bool(!database.refuses_connections),
            Datum::Int4(limit.unwrap_or(-1)),
            Datum::Oid(TABLESPACE),
            text("C.UTF-8"),
            text("C.UTF-8"),
            frozen.clone(),
        ])?;
    }
    Ok(())
}

/// Settings of ALTER DATABASE SET. Roles have no settings.
pub(crate) const PG_DB_ROLE_SETTING: Computed = Computed {
    name: "pg_db_role_setting",
    columns: &["setdatabase", "setrole", "setconfig"],
    keys: &[],
    rows: |reader, emit| {
        for database in reader.state.databases().iter().filter(|d| !d.settings.is_empty()) {
            let said =
                database.settings.iter().map(|(name, value)| text(format!("{name}={value}")));
            emit(&[number(database.oid), Datum::Oid(0), array(TypeOid::TEXT, said)])?;
        }
        Ok(())
    },
};

/// Emits the roles: the one that may do everything, and the one that stands for the database's
/// owner.
fn roles(_: &Reader<'_>, emit: Emit<'_>) -> Result<()> {
    for (oid, name) in ROLES {
        let all = Datum::Bool(oid == OWNER);
        emit(&[
            number(oid),
            text(name),
            all.clone(),
            Datum::Bool(true),
            all.clone(),
            all.clone(),
            all.clone(),
            all.clone(),
            all,
            Datum::Int4(-1),
        ])?;
    }
    Ok(())
}

pub(crate) const PG_AUTHID: Computed = Computed {
    name: "pg_authid",
    columns: &[
        "oid",
        "rolname",
        "rolsuper",
        "rolinherit",
        "rolcreaterole",
        "rolcreatedb",
        "rolcanlogin",
        "rolreplication",
        "rolbypassrls",
        "rolconnlimit",
    ],
    keys: &[],
    rows: roles,
};

pub(crate) const PG_ROLES: Computed = Computed { name: "pg_roles", ..PG_AUTHID };

fn user(_: &Reader<'_>, emit: Emit<'_>) -> Result<()> {
    let yes = Datum::Bool(true);
    emit(&[text(OWNER_NAME), number(OWNER), yes.clone(), yes.clone(), yes.clone(), yes])
}

pub(crate) const PG_USER: Computed = Computed {
    name: "pg_user",
    columns: &["usename", "usesysid", "usecreatedb", "usesuper", "userepl", "usebypassrls"],
    keys: &[],
    rows: user,
};

pub(crate) const PG_SHADOW: Computed = Computed { name: "pg_shadow", ..PG_USER };

pub(crate) const PG_GROUP: Computed = Computed {
    name: "pg_group",
    columns: &["groname", "grosysid", "grolist"],
    keys: &[],
    rows: |_, emit| {
        let (oid, name) = DATABASE_OWNER;
        emit(&[text(name), number(oid), array(TypeOid::OID, [])])
    },
};

/// Empty counters, because Niwaki archives nothing.
pub(crate) const PG_STAT_ARCHIVER: Computed = Computed {
    name: "pg_stat_archiver",
    columns: &["archived_count", "failed_count"],
    keys: &[],
    rows: |_, emit| emit(&[Datum::Int8(0), Datum::Int8(0)]),
};

pub(crate) const PG_TABLES: Computed = Computed {
    name: "pg_tables",
    columns: &[
        "schemaname",
        "tablename",
        "tableowner",
        "hasindexes",
        "hasrules",
        "hastriggers",
        "rowsecurity",
    ],
    keys: &[],
    rows: pg_tables,
};

fn pg_tables(reader: &Reader<'_>, emit: Emit<'_>) -> Result<()> {
    for relation in reader.state.in_order() {
        if kind_letter(relation) != "r" {
            continue;
        }
        emit(&[
            text(schema_name(reader.state, relation.schema)),
            text(&relation.name),
            text(OWNER_NAME),
            Datum::Bool(!relation.indexes.is_empty()),
            Datum::Bool(false),
            Datum::Bool(has_triggers(reader.state, relation)),
            Datum::Bool(false),
        ])?;
    }
    Ok(())
}

pub(crate) const PG_VIEWS: Computed = Computed {
    name: "pg_views",
    columns: &["schemaname", "viewname", "viewowner", "definition"],
    keys: &[],
    rows: pg_views,
};

/// Returns the query of a user's view as text, with names qualified as the search path requires.
pub(crate) fn view_definition(reader: &Reader<'_>, relation: &Relation) -> Option<String> {
    let state = reader.state;
    let path = reader.shown_path();
    let query = relation.query.as_ref()?;
    let styles = niwaki_types::TextSettings::default();
    let shown = niwaki_sql::view_text(relation, state, &path, false, &styles);
    Some(shown.unwrap_or_else(|_| query.text.clone()))
}

fn pg_views(reader: &Reader<'_>, emit: Emit<'_>) -> Result<()> {
    for relation in reader.state.in_order() {
        if kind_letter(relation) == "v" {
            let schema = text(schema_name(reader.state, relation.schema));
            let definition = optional(view_definition(reader, relation));
            emit(&[schema, text(&relation.name), text(OWNER_NAME), definition])?;
        }
    }
    Ok(())
}

pub(crate) const PG_MATVIEWS: Computed = Computed {
    name: "pg_matviews",
    columns: &[
        "schemaname",
        "matviewname",
        "matviewowner",
        "tablespace",
        "hasindexes",
        "ispopulated",
        "definition",
    ],
    keys: &[],
    rows: pg_matviews,
};

fn pg_matviews(reader: &Reader<'_>, emit: Emit<'_>) -> Result<()> {
    for relation in reader.state.in_order() {
        if relation.kind == RelationKind::MaterializedView {
            emit(&[
                text(schema_name(reader.state, relation.schema)),
                text(&relation.name),
                text(OWNER_NAME),
                Datum::Null,
                Datum::Bool(!relation.indexes.is_empty()),
                Datum::Bool(!relation.unpopulated),
                optional(view_definition(reader, relation)),
            ])?;
        }
    }
    Ok(())
}

pub(crate) const PG_INDEXES: Computed = Computed {
    name: "pg_indexes",
    columns: &["schemaname", "tablename", "indexname", "indexdef"],
    keys: &[],
    rows: pg_indexes,
};

fn pg_indexes(reader: &Reader<'_>, emit: Emit<'_>) -> Result<()> {
    for relation in reader.state.in_order() {
        let Some(index) = &relation.index else { continue };
        let Some(table) = reader.state.relation(index.table) else { continue };
        let path = reader.shown_path();
        let definition = niwaki_sql::index_definition_text(reader.state, relation, &path);
        emit(&[
            text(schema_name(reader.state, table.schema)),
            text(&table.name),
            text(&relation.name),
            optional(definition),
        ])?;
    }
    Ok(())
}

pub(crate) const PG_SEQUENCES: Computed = Computed {
    name: "pg_sequences",
    columns: &[
        "schemaname",
        "sequencename",
        "sequenceowner",
        "data_type",
        "start_value",
        "min_value",
        "max_value",
        "increment_by",
        "cycle",
        "cache_size",
        "last_value",
    ],
    keys: &[],
    rows: pg_sequences,
};

fn pg_sequences(reader: &Reader<'_>, emit: Emit<'_>) -> Result<()> {
    for relation in reader.state.in_order() {
        let (Some(sequence), Some(generator)) = (&relation.sequence, &relation.number_generator)
        else {
            continue;
        };
        let (last, is_called) = generator.state()?;
        emit(&[
            text(schema_name(reader.state, relation.schema)),
            text(&relation.name),
            text(OWNER_NAME),
            Datum::Oid(sequence.type_oid),
            Datum::Int8(sequence.start),
            Datum::Int8(sequence.minimum),
            Datum::Int8(sequence.maximum),
            Datum::Int8(sequence.increment),
            Datum::Bool(sequence.cycle),
            Datum::Int8(sequence.cache),
            if is_called { Datum::Int8(last) } else { Datum::Null },
        ])?;
    }
    Ok(())
}

pub(crate) const PG_STATS: Computed = Computed {
    name: "pg_stats",
    columns: &[
        "schemaname",
        "tablename",
        "attname",
        "inherited",
        "null_frac",
        "n_distinct",
        "most_common_vals",
        "most_common_freqs",
        "histogram_bounds",
        "correlation",
    ],
    keys: &[],
    rows: pg_stats,
};

fn pg_stats(reader: &Reader<'_>, emit: Emit<'_>) -> Result<()> {
    for relation in reader.state.in_order() {
        for (column, stats) in relation.columns.iter().zip(&relation.stats.columns) {
            if column.dropped {
                continue;
            }
            emit(&[
                text(schema_name(reader.state, relation.schema)),
                text(&relation.name),
                text(&column.name),
                Datum::Bool(false),
                Datum::Float4(stats.null_fraction as f32),
                Datum::Float4(stats.distinct as f32),
                values_of(stats.common.iter().map(|(key, _)| key), column.column_type().oid),
                match stats.common.as_slice() {
                    [] => Datum::Null,
                    common => {
                        let shares = common.iter().map(|(_, share)| Datum::Float4(*share as f32));
                        array(TypeOid::FLOAT4, shares)
                    }
                },
                values_of(stats.bounds.iter(), column.column_type().oid),
                stats.correlation.map_or(Datum::Null, |found| Datum::Float4(found as f32)),
            ])?;
        }
    }
    Ok(())
}

/// Builds an array of the values of index keys. NULL if there are no keys, or if some key does not
/// give its value.
fn values_of<'k>(keys: impl ExactSizeIterator<Item = &'k KeyBytes>, oid: TypeOid) -> Datum {
    if keys.len() == 0 {
        return Datum::Null;
    }
    let value = |key: &KeyBytes| decode_key(&key.0, KeyOrder::ascending(oid)).ok()?.0;
    let values: Option<Vec<Datum>> = keys.map(value).collect();
    values.map_or(Datum::Null, |values| Datum::array(oid, values))
}
