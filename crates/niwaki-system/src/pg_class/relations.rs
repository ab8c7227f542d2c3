//! Relations with their parts: `pg_class`, `pg_attribute`, `pg_attrdef`, `pg_index`, `pg_sequence`.

use std::sync::Arc;

use niwaki_catalog::{
    BuiltinOperatorClass, CatalogState, Column, ConstraintKind, ConstraintTime, Identity,
    IndexColumn, Oid, Relation, RelationKind, bound_text, builtin_kind, builtin_operator_classes,
    default_oid, rule_oid, type_collation,
};
use niwaki_types::{ColumnType, Datum, TypeOid};

use crate::roles::{OWNER, OWNER_NAME};
use crate::stored_types;
use crate::system_relation::{
    Computed, Emit, Reader, Result, array, int4, number, small, text, vector,
};

/// Oids of access methods.
const HEAP: Oid = Oid(2);
pub(crate) const BTREE: Oid = Oid(403);

/// Relations that all databases of a PostgreSQL server share.
const SHARED: &[&str] = &[
    "pg_auth_members",
    "pg_authid",
    "pg_database",
    "pg_db_role_setting",
    "pg_parameter_acl",
    "pg_replication_origin",
    "pg_shdepend",
    "pg_shdescription",
    "pg_shseclabel",
    "pg_subscription",
    "pg_tablespace",
];

/// Returns the relations that a reader wants: those with the number or name of its key, or all.
pub(crate) fn wanted<'r>(
    reader: &Reader<'r>,
    oid: &str,
    name: Option<&str>,
) -> Vec<&'r Arc<Relation>> {
    let state = reader.state;
    if let Some(number) = reader.wanted_oid(oid) {
        return state.relation(Oid(number)).into_iter().collect();
    }
    if let Some(name) = name.and_then(|column| reader.wanted_text(column)) {
        let mut found: Vec<_> =
            state.schemas().filter_map(|schema| state.lookup(schema.oid, name)).collect();
        found.sort_unstable_by_key(|relation| relation.oid);
        return found;
    }
    state.in_order()
}

pub(crate) const PG_CLASS: Computed = Computed {
    name: "pg_class",
    columns: &[
        "oid",
        "relname",
        "relnamespace",
        "relowner",
        "relam",
        "relfilenode",
        "relpages",
        "reltuples",
        "relallvisible",
        "relhasindex",
        "relisshared",
        "relpersistence",
        "relkind",
        "relnatts",
        "relchecks",
        "relhasrules",
        "relhastriggers",
        "relispopulated",
        "relreplident",
        "reloptions",
        "reltype",
        "relhassubclass",
        "relispartition",
        "relpartbound",
        "relfrozenxid",
    ],
    keys: &["oid", "relname"],
    rows: pg_class,
};

/// Returns `pg_class.relkind`. System relations are computed here, but show their kind in
/// PostgreSQL.
pub(crate) fn kind_letter(relation: &Relation) -> &'static str {
    builtin_kind(relation.oid).unwrap_or_else(|| relation.letter())
}

/// Returns `pg_class.relhastriggers`. In PostgreSQL triggers enforce foreign keys, and clients look
/// for foreign keys only where this is true.
pub(crate) fn has_triggers(state: &CatalogState, relation: &Relation) -> bool {
    !relation.triggers.is_empty()
        || !relation.foreign_keys.is_empty()
        || !state.foreign_keys_to(relation.oid).is_empty()
}

/// Returns `pg_class.relhassubclass`: a table has partitions, or an index has parts on partitions.
fn has_parts(state: &CatalogState, relation: &Relation) -> bool {
    match &relation.index {
        Some(_) if relation.file != 0 => false,
        Some(index) => state.partitions_of(index.table).iter().any(|partition| {
            let mut own = state.relation(*partition).into_iter().flat_map(|table| &table.indexes);
            own.any(|own| own.definition.part_of == Some(relation.oid))
        }),
        None => !state.partitions_of(relation.oid).is_empty(),
    }
}

fn pg_class(reader: &Reader<'_>, emit: Emit<'_>) -> Result<()> {
    let state = reader.state;
    let frozen = reader.frozen_xid();
    for relation in wanted(reader, "oid", Some("relname")) {
        let kind = kind_letter(relation);
        let method = match kind {
            "r" | "m" => HEAP,
            "i" | "I" => BTREE,
            _ => Oid(0),
        };
        let stored = relation.view.is_none();
        // Options with a namespace, such as `toast.`, do not belong to the table itself.
        let own = || relation.options.0.iter().filter(|(name, _)| !name.contains('.'));
        let options = if own().next().is_none() {
            Datum::Null
        } else {
            array(TypeOid::TEXT, own().map(|(n, v)| text(format!("{n}={v}"))))
        };
        let all_visible = relation.table.as_ref().and_then(|table| table.all_visible_pages().ok());
        let (pages, rows) = match relation.kind {
            RelationKind::Sequence => (1, 1.0),
            // A partitioned index stores nothing.
            RelationKind::Index if kind == "I" => (0, 0.0),
            _ if kind == "p" && relation.stats.tuples >= 0.0 => (-1, relation.stats.tuples),
            _ => {
                let pages = i32::try_from(relation.stats.pages).unwrap_or(i32::MAX);
                (pages, relation.stats.tuples)
            }
        };
        let rows = Datum::Float4(rows as f32);
        let part = relation.index.as_ref().and_then(|index| index.part_of);
        let bound = relation.partition_of.as_ref().and_then(|of| {
            let parent = state.relation(of.parent)?;
            Some(bound_text(&parent.definition, &of.bound))
        });
        emit(&[
            number(relation.oid),
            text(&relation.name),
            number(relation.schema),
            number(OWNER),
            number(method),
            Datum::Oid(u32::try_from(relation.file).unwrap_or(0)),
            Datum::Int4(pages),
            rows,
            Datum::Int4(all_visible.and_then(|pages| i32::try_from(pages).ok()).unwrap_or(0)),
            Datum::Bool(!relation.indexes.is_empty()),
            Datum::Bool(!stored && SHARED.contains(&relation.name.as_str())),
            text(match () {
                () if state.temporary_schema() == Some(relation.schema) => "t",
                () if relation.logged => "p",
                () => "u",
            }),
            text(kind),
            small(relation.shown_columns(state).len()),
            small(relation.checks.len()),
            Datum::Bool(matches!(kind, "v" | "m")),
            Datum::Bool(has_triggers(state, relation)),
            Datum::Bool(!relation.unpopulated),
            text(if matches!(kind, "r" | "p" | "m") && stored { "d" } else { "n" }),
            options,
            Datum::Oid(stored_types::row_type(relation).map_or(0, |oid| oid.0)),
            Datum::Bool(has_parts(state, relation)),
            Datum::Bool(bound.is_some() || part.is_some()),
            bound.map_or(Datum::Null, text),
            if matches!(kind, "r" | "m" | "t") { frozen.clone() } else { Datum::Oid(0) },
        ])?;
    }
    composite_classes(reader, emit)
}

/// Emits composite types, which PostgreSQL keeps as relations without rows.
fn composite_classes(reader: &Reader<'_>, emit: Emit<'_>) -> Result<()> {
    let (wanted, named) = (reader.wanted_oid("oid"), reader.wanted_text("relname"));
    for (definition, attributes) in stored_types::composites(reader.state) {
        if wanted.is_some_and(|wanted| wanted != definition.oid.0)
            || named.is_some_and(|named| named != definition.name)
        {
            continue;
        }
        emit(&[
            number(definition.oid),
            text(&definition.name),
            number(definition.schema),
            number(OWNER),
            Datum::Oid(0),
            Datum::Oid(0),
            Datum::Int4(0),
            Datum::Float4(-1.0),
            Datum::Int4(0),
            Datum::Bool(false),
            Datum::Bool(false),
            text("p"),
            text("c"),
            small(attributes.len()),
            small(0),
            Datum::Bool(false),
            Datum::Bool(false),
            Datum::Bool(true),
            text("n"),
            Datum::Null,
            Datum::Oid(definition.type_oid().0),
            Datum::Bool(false),
            Datum::Bool(false),
            Datum::Null,
            Datum::Oid(0),
        ])?;
    }
    Ok(())
}

pub(crate) const PG_ATTRIBUTE: Computed = Computed {
    name: "pg_attribute",
    columns: &[
        "attrelid",
        "attname",
        "atttypid",
        "attstattarget",
        "attlen",
        "attnum",
        "attndims",
        "attcacheoff",
        "atttypmod",
        "attbyval",
        "attalign",
        "attstorage",
        "attnotnull",
        "atthasdef",
        "atthasmissing",
        "attidentity",
        "attgenerated",
        "attisdropped",
        "attislocal",
        "attinhcount",
        "attcollation",
    ],
    keys: &["attrelid"],
    rows: pg_attribute,
};

/// Numbers of the database's default collation and of `C`.
pub(crate) const DEFAULT_COLLATION: Oid = Oid(100);
const C_COLLATION: Oid = Oid(950);

/// System columns of every stored table, with their numbers.
const SYSTEM_COLUMNS: [(&str, TypeOid, i16); 6] = [
    ("tableoid", TypeOid::OID, -6),
    ("cmax", TypeOid(29), -5),
    ("xmax", TypeOid::XID, -4),
    ("cmin", TypeOid(29), -3),
    ("xmin", TypeOid::XID, -2),
    ("ctid", TypeOid::TID, -1),
];

fn pg_attribute(reader: &Reader<'_>, emit: Emit<'_>) -> Result<()> {
    for relation in wanted(reader, "attrelid", None) {
        if matches!(kind_letter(relation), "r" | "p" | "S") {
            for (name, kind, position) in SYSTEM_COLUMNS {
                let kind = ColumnType::new(kind);
                let column = Column { not_null: true, ..Column::new(name, kind) };
                attribute(reader.state, relation.oid, &column, (position, 0), false, emit)?;
            }
        }
        for (at, column) in relation.shown_columns(reader.state).iter().enumerate() {
            let position = i16::try_from(at + 1).unwrap_or(i16::MAX);
            let inherited = relation.partition_of.is_some();
            attribute(reader.state, relation.oid, column, (position, -1), inherited, emit)?;
        }
    }
    let wanted = reader.wanted_oid("attrelid");
    for (definition, attributes) in stored_types::composites(reader.state) {
        if wanted.is_some_and(|wanted| wanted != definition.oid.0) {
            continue;
        }
        for (at, stored) in attributes.iter().enumerate() {
            let position = i16::try_from(at + 1).unwrap_or(i16::MAX);
            let collation = stored.collation;
            let column = Column { collation, ..Column::new(&stored.name, stored.column_type()) };
            attribute(reader.state, definition.oid, &column, (position, -1), false, emit)?;
        }
    }
    Ok(())
}

/// Returns the collation of a column.
pub(crate) fn collation(state: &CatalogState, relation: Oid, column: &Column) -> Option<Oid> {
    match state.column_collation(column) {
        _ if column.dropped => None,
        // PostgreSQL's own tables have no text that the default collation orders.
        Some(DEFAULT_COLLATION) if builtin_kind(relation) == Some("r") => Some(C_COLLATION),
        collation => collation,
    }
}

/// Emits a column with its number and its target of ANALYZE. `inherited` says that the column comes
/// from a partitioned table.
fn attribute(
    state: &CatalogState,
    relation: Oid,
    column: &Column,
    (position, target): (i16, i32),
    inherited: bool,
    emit: Emit<'_>,
) -> Result<()> {
    let kind = stored_types::storage(TypeOid(column.type_oid));
    let letter = |letter: Option<&'static str>| text(letter.unwrap_or("i"));
    let oid = if column.dropped { 0 } else { column.column_type().declared().0 };
    let is_array = TypeOid(oid).element().is_some() && !TypeOid(oid).is_vector();
    emit(&[
        number(relation),
        text(&column.name),
        Datum::Oid(oid),
        Datum::Int4(target),
        Datum::Int2(kind.map_or(-1, |kind| kind.length)),
        Datum::Int2(position),
        Datum::Int4(i32::from(is_array)),
        Datum::Int4(-1),
        Datum::Int4(if column.domain.is_some() { -1 } else { column.typmod }),
        Datum::Bool(kind.is_some_and(|kind| kind.by_value)),
        letter(kind.map(|kind| kind.align)),
        letter(kind.map(|kind| kind.storage)),
        Datum::Bool(column.not_null),
        Datum::Bool(column.default.is_some() && column.identity.is_none()),
        Datum::Bool(column.missing.is_some()),
        text(match column.identity {
            Some(Identity::Always) => "a",
            Some(Identity::ByDefault) => "d",
            None => "",
        }),
        text(if column.generated { "s" } else { "" }),
        Datum::Bool(column.dropped),
        Datum::Bool(!inherited),
        int4(inherited.into()),
        Datum::Oid(collation(state, relation, column).map_or(0, |collation| collation.0)),
    ])
}

pub(crate) const PG_ATTRDEF: Computed = Computed {
    name: "pg_attrdef",
    columns: &["oid", "adrelid", "adnum", "adbin"],
    keys: &["adrelid"],
    rows: pg_attrdef,
};

fn pg_attrdef(reader: &Reader<'_>, emit: Emit<'_>) -> Result<()> {
    for relation in wanted(reader, "adrelid", None) {
        for (at, column) in relation.visible_columns() {
            let Some(default) = column.default.as_ref().filter(|_| column.identity.is_none())
            else {
                continue;
            };
            // The text carries the column's type, because `pg_get_expr` gets the text without the
            // column.
            let over = column.generated.then_some(relation);
            let target = Some((column.column_type(), column.name.as_str()));
            let typed = whole_text(default, over, target, reader.state);
            let oid = number(default_oid(relation.oid, at));
            emit(&[oid, number(relation.oid), small(at + 1), text(typed)])?;
        }
    }
    Ok(())
}

/// Returns an expression with its implicit parts spelled out: types of literals, schemas of names.
/// An expression that cannot be read without a search path stays as written.
pub(crate) fn whole_text(
    written: &str,
    over: Option<&Arc<Relation>>,
    target: Option<(ColumnType, &str)>,
    state: &CatalogState,
) -> String {
    let path = state.search_path(&[], OWNER_NAME);
    niwaki_sql::deparse_expression(written, over, target, state, &path)
        .unwrap_or_else(|_| written.to_owned())
}

pub(crate) const PG_INDEX: Computed = Computed {
    name: "pg_index",
    columns: &[
        "indexrelid",
        "indrelid",
        "indnatts",
        "indnkeyatts",
        "indisunique",
        "indnullsnotdistinct",
        "indisprimary",
        "indimmediate",
        "indisvalid",
        "indisready",
        "indislive",
        "indkey",
        "indcollation",
        "indclass",
        "indoption",
        "indexprs",
        "indpred",
    ],
    keys: &["indexrelid", "indrelid"],
    rows: pg_index,
};

/// Returns the operator class of a key column: the named one, or the default of its type or of the
/// type that is stored alike.
pub(crate) fn operator_class(
    key: &IndexColumn,
    kind: TypeOid,
) -> Option<&'static BuiltinOperatorClass> {
    let classes = builtin_operator_classes();
    let stored_as = match kind {
        TypeOid::VARCHAR => TypeOid::TEXT,
        kind if kind.is_object_name() => TypeOid::OID,
        // `anyenum`
        kind if kind.is_enum() => TypeOid(3500),
        // `anyarray`
        kind if kind.element().is_some() => TypeOid(2277),
        kind if kind.is_composite() => TypeOid::RECORD,
        kind => kind,
    };
    match &key.operator_class {
        Some(name) => classes.named(name).next(),
        None => classes.all().iter().find(|class| class.is_default && class.input == stored_as.0),
    }
}

fn pg_index(reader: &Reader<'_>, emit: Emit<'_>) -> Result<()> {
    let state = reader.state;
    let wanted_table = reader.wanted_oid("indrelid");
    let relations = match wanted_table.and_then(|oid| state.relation(Oid(oid))) {
        Some(table) => table.indexes.iter().filter_map(|entry| state.relation(entry.oid)).collect(),
        None if wanted_table.is_some() => Vec::new(),
        None => wanted(reader, "indexrelid", None),
    };
    for relation in relations {
        let Some(index) = &relation.index else { continue };
        let Some(table) = state.relation(index.table) else { continue };
        let columns = index.key.iter().map(|key| key.column).chain(index.include.iter().copied());
        // A key that is an expression has number 0.
        let columns: Vec<Datum> =
            columns.map(|c| Datum::Int2(c.wrapping_add(1).cast_signed())).collect();
        let kinds: Vec<TypeOid> = index.key.iter().map(|key| key.type_oid(table)).collect();
        let collation = |key: &IndexColumn| {
            let column = table.columns.get(usize::from(key.column));
            let of_column = || {
                if let Some(column) = column {
                    state.column_collation(column)
                } else {
                    let derived = key.expression.as_ref().and_then(|key| key.collation);
                    derived.or_else(|| type_collation(key.type_oid(table)))
                }
            };
            Datum::Oid(key.collation.or_else(of_column).map_or(0, |collation| collation.0))
        };
        let classes = index.key.iter().zip(&kinds);
        let classes = classes
            .map(|(key, kind)| Datum::Oid(operator_class(key, *kind).map_or(0, |class| class.oid)));
        let options = index
            .key
            .iter()
            .map(|k| Datum::Int2(i16::from(k.descending) + 2 * i16::from(k.nulls_first)));
        let shown: Vec<&str> = index
            .key
            .iter()
            .filter_map(|k| k.expression.as_ref())
            .map(|e| e.shown.as_str())
            .collect();
        emit(&[
            number(relation.oid),
            number(index.table),
            small(columns.len()),
            small(index.key.len()),
            Datum::Bool(index.unique),
            Datum::Bool(index.nulls_not_distinct),
            Datum::Bool(index.constraint == Some(ConstraintKind::PrimaryKey)),
            Datum::Bool(index.check_time == ConstraintTime::AtOnce),
            Datum::Bool(index.valid),
            Datum::Bool(index.ready),
            Datum::Bool(true),
            vector(TypeOid::INT2, columns),
            vector(TypeOid::OID, index.key.iter().map(collation)),
            vector(TypeOid::OID, classes),
            vector(TypeOid::INT2, options),
            if shown.is_empty() { Datum::Null } else { text(shown.join(", ")) },
            index.predicate.as_ref().map_or(Datum::Null, |p| text(&p.shown)),
        ])?;
    }
    Ok(())
}

pub(crate) const PG_REWRITE: Computed = Computed {
    name: "pg_rewrite",
    columns: &[
        "oid",
        "rulename",
        "ev_class",
        "ev_type",
        "ev_enabled",
        "is_instead",
        "ev_qual",
        "ev_action",
    ],
    keys: &["ev_class"],
    rows: pg_rewrite,
};

/// Emits the rule that makes a relation a view. There are no other rules.
fn pg_rewrite(reader: &Reader<'_>, emit: Emit<'_>) -> Result<()> {
    for relation in wanted(reader, "ev_class", None) {
        let Some(query) = &relation.query else { continue };
        emit(&[
            number(rule_oid(relation.oid)),
            text("_RETURN"),
            number(relation.oid),
            text("1"),
            text("O"),
            Datum::Bool(true),
            text("<>"),
            // PostgreSQL has a parse tree here, in a form that only PostgreSQL reads.
            text(&query.text),
        ])?;
    }
    Ok(())
}

pub(crate) const PG_SEQUENCE: Computed = Computed {
    name: "pg_sequence",
    columns: &[
        "seqrelid",
        "seqtypid",
        "seqstart",
        "seqincrement",
        "seqmax",
        "seqmin",
        "seqcache",
        "seqcycle",
    ],
    keys: &["seqrelid"],
    rows: pg_sequence,
};

fn pg_sequence(reader: &Reader<'_>, emit: Emit<'_>) -> Result<()> {
    for relation in wanted(reader, "seqrelid", None) {
        let Some(sequence) = &relation.sequence else { continue };
        emit(&[
            number(relation.oid),
            Datum::Oid(sequence.type_oid),
            Datum::Int8(sequence.start),
            Datum::Int8(sequence.increment),
            Datum::Int8(sequence.maximum),
            Datum::Int8(sequence.minimum),
            Datum::Int8(sequence.cache),
            Datum::Bool(sequence.cycle),
        ])?;
    }
    Ok(())
}
