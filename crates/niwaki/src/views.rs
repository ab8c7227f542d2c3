//! System views: their names, columns, and those that the catalog's state alone answers.

use std::sync::Arc;

use niwaki_catalog::{
    CatalogState, Oid, PG_CATALOG, Relation, RelationDefinition, RelationKind, RelationOptions,
    RelationStats, SystemSource, VirtualTable,
};
use niwaki_types::{Datum, TypeOid};

use crate::index_counters::{self, STAT_INDEXES};
use crate::read_ahead::{self, READ_AHEAD};
use crate::session::{DATABASE_OID, schema_name};
use crate::snapshots::{self, SNAPSHOTS};
use crate::table_counters::{self, STAT_TABLES};

type Result<T> = niwaki_catalog::Result<T>;
type Emit<'e> = &'e mut dyn FnMut(&[Datum]) -> Result<()>;

/// A view whose rows the session's source gives.
#[derive(Debug)]
struct FromSource(&'static str);

impl VirtualTable for FromSource {
    fn rows(
        &self,
        state: &CatalogState,
        source: &dyn SystemSource,
        row: &mut dyn FnMut(&[Datum]) -> Result<()>,
    ) -> Result<()> {
        source.view_rows(self.0, state, row)
    }
}

/// A view that the catalog's state answers.
struct FromState(fn(&CatalogState, Emit<'_>) -> Result<()>);

impl std::fmt::Debug for FromState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FromState")
    }
}

impl VirtualTable for FromState {
    fn rows(
        &self,
        state: &CatalogState,
        _source: &dyn SystemSource,
        row: &mut dyn FnMut(&[Datum]) -> Result<()>,
    ) -> Result<()> {
        (self.0)(state, row)
    }
}

const OID: TypeOid = TypeOid::OID;
const NAME: TypeOid = TypeOid::NAME;
const TEXT: TypeOid = TypeOid::TEXT;
const BOOL: TypeOid = TypeOid::BOOL;
const CHAR: TypeOid = TypeOid::CHAR;
const INT2: TypeOid = TypeOid::INT2;
const INT4: TypeOid = TypeOid::INT4;
const INT8: TypeOid = TypeOid::INT8;
const FLOAT4: TypeOid = TypeOid::FLOAT4;

/// All system views; the numbers of `pg_class` and its like are PostgreSQL's.
pub(crate) fn all() -> Vec<Relation> {
    let state = |f| Arc::new(FromState(f)) as Arc<dyn VirtualTable>;
    let source = |name| Arc::new(FromSource(name)) as Arc<dyn VirtualTable>;
    vec![
        view(1259, "pg_class", PG_CLASS, state(pg_class)),
        view(2615, "pg_namespace", PG_NAMESPACE, state(pg_namespace)),
        view(1249, "pg_attribute", PG_ATTRIBUTE, state(pg_attribute)),
        view(2610, "pg_index", PG_INDEX, state(pg_index)),
        view(2611, "pg_inherits", PG_INHERITS, state(nothing)),
        view(3350, "pg_partitioned_table", PG_PARTITIONED_TABLE, state(nothing)),
        view(1247, "pg_type", PG_TYPE, state(pg_type)),
        view(1262, "pg_database", PG_DATABASE, state(pg_database)),
        view(2601, "pg_am", PG_AM, state(pg_am)),
        view(12000, "pg_tables", PG_TABLES, state(pg_tables)),
        view(12001, "pg_indexes", PG_INDEXES, state(pg_indexes)),
        view(12002, "pg_settings", PG_SETTINGS, source("pg_settings")),
        view(12003, "pg_stat_activity", PG_STAT_ACTIVITY, source("pg_stat_activity")),
        view(12004, "pg_locks", PG_LOCKS, source("pg_locks")),
        view(12005, "pg_stat_user_tables", PG_STAT_TABLES, source("pg_stat_user_tables")),
        view(12006, "pg_stat_user_indexes", PG_STAT_INDEXES, source("pg_stat_user_indexes")),
        view(12007, "pg_statio_user_tables", PG_STATIO_TABLES, source("pg_statio_user_tables")),
        view(12008, "pg_statio_user_indexes", PG_STATIO_INDEXES, source("pg_statio_user_indexes")),
        view(12011, "pg_stat_progress_create_index", PG_STAT_PROGRESS, source(PROGRESS)),
        view(12009, "pg_stat_wal", PG_STAT_WAL, source("pg_stat_wal")),
        view(12010, "pg_stat_all_tables", PG_STAT_TABLES, source("pg_stat_user_tables")),
        view(12012, "pg_stat_bgwriter", PG_STAT_BGWRITER, source("pg_stat_bgwriter")),
        view(12020, STAT_INDEXES, &index_counters::columns(), source(STAT_INDEXES)),
        view(12021, STAT_TABLES, &table_counters::columns(), source(STAT_TABLES)),
        view(12023, PROGRESS_VACUUM, PG_STAT_PROGRESS_VACUUM, source(PROGRESS_VACUUM)),
        view(12022, SNAPSHOTS, snapshots::COLUMNS, source(SNAPSHOTS)),
        view(12024, READ_AHEAD, &read_ahead::columns(), source(READ_AHEAD)),
    ]
}

type Columns = &'static [(&'static str, TypeOid)];

fn view(
    oid: u32,
    name: &str,
    columns: &[(&str, TypeOid)],
    rows: Arc<dyn VirtualTable>,
) -> Relation {
    let definition = RelationDefinition {
        oid: Oid(oid),
        schema: PG_CATALOG,
        name: name.to_owned(),
        kind: RelationKind::View,
        file: 0,
        values: None,
        logged: true,
        columns: columns
            .iter()
            .map(|(name, oid)| niwaki_catalog::Column {
                name: (*name).to_owned(),
                type_oid: oid.0,
                typmod: -1,
                not_null: false,
                default: None,
                identity: None,
                sequence: None,
                missing: None,
                dropped: false,
            })
            .collect(),
        checks: Vec::new(),
        options: RelationOptions::default(),
        index: None,
        sequence: None,
        stats: RelationStats::default(),
    };
    Relation::of_view(definition, rows)
}

const PG_CLASS: Columns = &[
    ("oid", OID),
    ("relname", NAME),
    ("relnamespace", OID),
    ("reltype", OID),
    ("relowner", OID),
    ("relam", OID),
    ("relfilenode", OID),
    ("reltablespace", OID),
    ("relpages", INT4),
    ("reltuples", FLOAT4),
    ("relallvisible", INT4),
    ("reltoastrelid", OID),
    ("relhasindex", BOOL),
    ("relisshared", BOOL),
    ("relpersistence", CHAR),
    ("relkind", CHAR),
    ("relnatts", INT2),
    ("relchecks", INT2),
    ("relhasrules", BOOL),
    ("relhastriggers", BOOL),
    ("relhassubclass", BOOL),
    ("relrowsecurity", BOOL),
    ("relforcerowsecurity", BOOL),
    ("relispopulated", BOOL),
    ("relreplident", CHAR),
    ("relispartition", BOOL),
    ("reloptions", TypeOid::TEXT_ARRAY),
];
const PG_NAMESPACE: Columns = &[("oid", OID), ("nspname", NAME), ("nspowner", OID)];
const PG_ATTRIBUTE: Columns = &[
    ("attrelid", OID),
    ("attname", NAME),
    ("atttypid", OID),
    ("attstattarget", INT4),
    ("attlen", INT2),
    ("attnum", INT2),
    ("atttypmod", INT4),
    ("attnotnull", BOOL),
    ("atthasdef", BOOL),
    ("attidentity", CHAR),
    ("attgenerated", CHAR),
    ("attisdropped", BOOL),
    ("attcollation", OID),
];
const PG_INDEX: Columns = &[
    ("indexrelid", OID),
    ("indrelid", OID),
    ("indnatts", INT2),
    ("indnkeyatts", INT2),
    ("indisunique", BOOL),
    ("indnullsnotdistinct", BOOL),
    ("indisprimary", BOOL),
    ("indisexclusion", BOOL),
    ("indimmediate", BOOL),
    ("indisclustered", BOOL),
    ("indisvalid", BOOL),
    ("indcheckxmin", BOOL),
    ("indisready", BOOL),
    ("indislive", BOOL),
    ("indisreplident", BOOL),
    ("indkey", TypeOid::INT4_ARRAY),
    ("indoption", TypeOid::INT4_ARRAY),
    ("indexprs", TEXT),
    ("indpred", TEXT),
];
const PG_INHERITS: Columns = &[("inhrelid", OID), ("inhparent", OID), ("inhseqno", INT4)];
const PG_PARTITIONED_TABLE: Columns =
    &[("partrelid", OID), ("partstrat", CHAR), ("partnatts", INT2), ("partdefid", OID)];
const PG_TYPE: Columns = &[
    ("oid", OID),
    ("typname", NAME),
    ("typnamespace", OID),
    ("typowner", OID),
    ("typlen", INT2),
    ("typbyval", BOOL),
    ("typtype", CHAR),
    ("typcategory", CHAR),
    ("typisdefined", BOOL),
    ("typdelim", CHAR),
    ("typrelid", OID),
    ("typelem", OID),
    ("typarray", OID),
    ("typbasetype", OID),
    ("typtypmod", INT4),
    ("typcollation", OID),
];
const PG_DATABASE: Columns = &[
    ("oid", OID),
    ("datname", NAME),
    ("datdba", OID),
    ("encoding", INT4),
    ("datcollate", TEXT),
    ("datctype", TEXT),
    ("datistemplate", BOOL),
    ("datallowconn", BOOL),
    ("datconnlimit", INT4),
    ("dattablespace", OID),
];
const PG_AM: Columns = &[("oid", OID), ("amname", NAME), ("amtype", CHAR)];
const PG_TABLES: Columns = &[
    ("schemaname", NAME),
    ("tablename", NAME),
    ("tableowner", NAME),
    ("tablespace", NAME),
    ("hasindexes", BOOL),
    ("hasrules", BOOL),
    ("hastriggers", BOOL),
    ("rowsecurity", BOOL),
];
const PG_INDEXES: Columns = &[
    ("schemaname", NAME),
    ("tablename", NAME),
    ("indexname", NAME),
    ("tablespace", NAME),
    ("indexdef", TEXT),
];
const PG_SETTINGS: Columns = &[
    ("name", TEXT),
    ("setting", TEXT),
    ("unit", TEXT),
    ("category", TEXT),
    ("short_desc", TEXT),
    ("context", TEXT),
    ("vartype", TEXT),
    ("source", TEXT),
    ("min_val", TEXT),
    ("max_val", TEXT),
    ("enumvals", TEXT),
    ("boot_val", TEXT),
    ("reset_val", TEXT),
    ("pending_restart", BOOL),
];
const PG_STAT_ACTIVITY: Columns = &[
    ("datid", OID),
    ("datname", NAME),
    ("pid", INT4),
    ("usesysid", OID),
    ("usename", NAME),
    ("application_name", TEXT),
    ("wait_event_type", TEXT),
    ("wait_event", TEXT),
    ("state", TEXT),
    ("backend_xid", TypeOid::XID),
    ("query", TEXT),
    ("backend_type", TEXT),
];
const PG_LOCKS: Columns = &[
    ("locktype", TEXT),
    ("database", OID),
    ("relation", OID),
    ("page", INT4),
    ("tuple", INT2),
    ("transactionid", TypeOid::XID),
    ("pid", INT4),
    ("mode", TEXT),
    ("granted", BOOL),
    ("fastpath", BOOL),
];
const PG_STAT_TABLES: Columns = &[
    ("relid", OID),
    ("schemaname", NAME),
    ("relname", NAME),
    ("seq_scan", INT8),
    ("seq_tup_read", INT8),
    ("idx_scan", INT8),
    ("idx_tup_fetch", INT8),
    ("n_tup_ins", INT8),
    ("n_tup_upd", INT8),
    ("n_tup_del", INT8),
    ("n_tup_hot_upd", INT8),
    ("n_live_tup", INT8),
    ("n_dead_tup", INT8),
    ("n_mod_since_analyze", INT8),
    ("n_ins_since_vacuum", INT8),
    ("last_vacuum", TypeOid::TIMESTAMPTZ),
    ("last_autovacuum", TypeOid::TIMESTAMPTZ),
    ("last_analyze", TypeOid::TIMESTAMPTZ),
    ("last_autoanalyze", TypeOid::TIMESTAMPTZ),
    ("vacuum_count", INT8),
    ("autovacuum_count", INT8),
    ("analyze_count", INT8),
    ("autoanalyze_count", INT8),
];
const PG_STAT_INDEXES: Columns = &[
    ("relid", OID),
    ("indexrelid", OID),
    ("schemaname", NAME),
    ("relname", NAME),
    ("indexrelname", NAME),
    ("idx_scan", INT8),
    ("idx_tup_read", INT8),
];
const PG_STATIO_TABLES: Columns = &[
    ("relid", OID),
    ("schemaname", NAME),
    ("relname", NAME),
    ("heap_blks_read", INT8),
    ("heap_blks_hit", INT8),
    ("idx_blks_read", INT8),
    ("idx_blks_hit", INT8),
];
const PG_STATIO_INDEXES: Columns = &[
    ("relid", OID),
    ("indexrelid", OID),
    ("schemaname", NAME),
    ("relname", NAME),
    ("indexrelname", NAME),
    ("idx_blks_read", INT8),
    ("idx_blks_hit", INT8),
];
/// Name of the view of index builds.
pub(crate) const PROGRESS: &str = "pg_stat_progress_create_index";
const PG_STAT_PROGRESS: Columns = &[
    ("pid", INT4),
    ("datid", OID),
    ("datname", NAME),
    ("relid", OID),
    ("index_relid", OID),
    ("command", TEXT),
    ("phase", TEXT),
    ("lockers_total", INT8),
    ("lockers_done", INT8),
    ("current_locker_pid", INT8),
    ("blocks_total", INT8),
    ("blocks_done", INT8),
    ("tuples_total", INT8),
    ("tuples_done", INT8),
    ("partitions_total", INT8),
    ("partitions_done", INT8),
];
/// Name of the view of vacuums.
pub(crate) const PROGRESS_VACUUM: &str = "pg_stat_progress_vacuum";
/// As in PostgreSQL 15, and then what 17 has.
const PG_STAT_PROGRESS_VACUUM: Columns = &[
    ("pid", INT4),
    ("datid", OID),
    ("datname", NAME),
    ("relid", OID),
    ("phase", TEXT),
    ("heap_blks_total", INT8),
    ("heap_blks_scanned", INT8),
    ("heap_blks_vacuumed", INT8),
    ("index_vacuum_count", INT8),
    ("max_dead_tuples", INT8),
    ("num_dead_tuples", INT8),
    ("max_dead_tuple_bytes", INT8),
    ("dead_tuple_bytes", INT8),
    ("num_dead_item_ids", INT8),
    ("indexes_total", INT8),
    ("indexes_processed", INT8),
];
/// As in PostgreSQL 15; later versions moved half of it to `pg_stat_checkpointer`.
const PG_STAT_BGWRITER: Columns = &[
    ("checkpoints_timed", INT8),
    ("checkpoints_req", INT8),
    ("checkpoint_write_time", TypeOid::FLOAT8),
    ("checkpoint_sync_time", TypeOid::FLOAT8),
    ("buffers_checkpoint", INT8),
    ("buffers_clean", INT8),
    ("maxwritten_clean", INT8),
    ("buffers_backend", INT8),
    ("buffers_backend_fsync", INT8),
    ("buffers_alloc", INT8),
    ("stats_reset", TypeOid::TIMESTAMPTZ),
];
const PG_STAT_WAL: Columns = &[
    ("wal_records", INT8),
    ("wal_fpi", INT8),
    ("wal_bytes", TypeOid::NUMERIC),
    ("wal_write", INT8),
    ("wal_sync", INT8),
];

fn text(value: impl AsRef<str>) -> Datum {
    Datum::Text(value.as_ref().into())
}

fn small(value: usize) -> Datum {
    Datum::Int2(i16::try_from(value).unwrap_or(i16::MAX))
}

/// Relations in the order of their numbers.
fn in_order(state: &CatalogState) -> Vec<&Arc<Relation>> {
    let mut all: Vec<_> = state.relations().collect();
    all.sort_by_key(|r| r.oid);
    all
}

fn nothing(_: &CatalogState, _: Emit<'_>) -> Result<()> {
    Ok(())
}

fn pg_class(state: &CatalogState, emit: Emit<'_>) -> Result<()> {
    for relation in in_order(state) {
        let columns = match &relation.index {
            Some(index) => index.key.len() + index.include.len(),
            None => relation.columns.len(),
        };
        let method = match relation.kind {
            RelationKind::Table => 2,
            RelationKind::Index => 403,
            _ => 0,
        };
        let options = if relation.options.0.is_empty() {
            Datum::Null
        } else {
            let all = relation.options.0.iter().map(|(n, v)| text(format!("{n}={v}")));
            Datum::array(TypeOid::TEXT, all)
        };
        emit(&[
            Datum::Oid(relation.oid.0),
            text(&relation.name),
            Datum::Oid(relation.schema.0),
            Datum::Oid(0),
            Datum::Oid(10),
            Datum::Oid(method),
            Datum::Oid(u32::try_from(relation.file).unwrap_or(0)),
            Datum::Oid(0),
            Datum::Int4(i32::try_from(relation.stats.pages).unwrap_or(i32::MAX)),
            Datum::Float4(relation.stats.tuples as f32),
            Datum::Int4(0),
            Datum::Oid(0),
            Datum::Bool(!relation.indexes.is_empty()),
            Datum::Bool(false),
            text(match () {
                () if state.temporary_schema() == Some(relation.schema) => "t",
                () if relation.logged => "p",
                () => "u",
            }),
            text(relation.kind.letter()),
            small(columns),
            small(relation.checks.len()),
            Datum::Bool(relation.kind == RelationKind::View),
            Datum::Bool(false),
            Datum::Bool(false),
            Datum::Bool(false),
            Datum::Bool(false),
            Datum::Bool(true),
            text(if relation.kind == RelationKind::Table { "d" } else { "n" }),
            Datum::Bool(false),
            options,
        ])?;
    }
    Ok(())
}

fn pg_namespace(state: &CatalogState, emit: Emit<'_>) -> Result<()> {
    let mut all: Vec<_> = state.schemas().collect();
    all.sort_by_key(|s| s.oid);
    for schema in all {
        emit(&[Datum::Oid(schema.oid.0), text(&schema.name), Datum::Oid(10)])?;
    }
    Ok(())
}

/// Bytes of a value of fixed length, -1 for variable ones, -2 for an untyped literal:
/// `pg_type.typlen`, and the size in a RowDescription.
pub fn type_length(oid: TypeOid) -> i16 {
    match oid {
        // PostgreSQL's number of a label.
        oid if oid.is_enum() => 4,
        TypeOid::BOOL | TypeOid::CHAR => 1,
        TypeOid::INT2 => 2,
        TypeOid::INT4
        | TypeOid::OID
        | TypeOid::XID
        | TypeOid::FLOAT4
        | TypeOid::DATE
        | TypeOid::REGCLASS
        | TypeOid::VOID => 4,
        TypeOid::TID => 6,
        TypeOid::INT8
        | TypeOid::FLOAT8
        | TypeOid::TIMESTAMP
        | TypeOid::TIMESTAMPTZ
        | TypeOid::TIME
        | TypeOid::PG_LSN => 8,
        TypeOid::TIMETZ => 12,
        TypeOid::INTERVAL | TypeOid::UUID => 16,
        TypeOid::NAME => 64,
        TypeOid::UNKNOWN => -2,
        _ => -1,
    }
}

fn is_text(oid: TypeOid) -> bool {
    matches!(oid, TypeOid::TEXT | TypeOid::VARCHAR | TypeOid::BPCHAR | TypeOid::NAME)
}

fn pg_attribute(state: &CatalogState, emit: Emit<'_>) -> Result<()> {
    for relation in in_order(state) {
        for (i, column) in relation.columns.iter().enumerate() {
            let oid = if column.dropped { TypeOid(0) } else { column.column_type().oid };
            emit(&[
                Datum::Oid(relation.oid.0),
                text(&column.name),
                Datum::Oid(oid.0),
                Datum::Int4(-1),
                Datum::Int2(type_length(column.column_type().oid)),
                small(i + 1),
                Datum::Int4(column.typmod),
                Datum::Bool(column.not_null),
                Datum::Bool(column.default.is_some() && column.identity.is_none()),
                text(match column.identity {
                    Some(niwaki_catalog::Identity::Always) => "a",
                    Some(niwaki_catalog::Identity::ByDefault) => "d",
                    None => "",
                }),
                text(""),
                Datum::Bool(column.dropped),
                Datum::Oid(if is_text(oid) { 100 } else { 0 }),
            ])?;
        }
    }
    Ok(())
}

fn pg_index(state: &CatalogState, emit: Emit<'_>) -> Result<()> {
    for relation in in_order(state) {
        let Some(index) = &relation.index else { continue };
        let columns: Vec<Datum> = index
            .key
            .iter()
            .map(|k| k.column)
            .chain(index.include.iter().copied())
            // An expression has number 0.
            .map(|c| Datum::Int4(i32::from(c.wrapping_add(1))))
            .collect();
        let primary = index.constraint == Some(niwaki_catalog::ConstraintKind::PrimaryKey);
        let options = index
            .key
            .iter()
            .map(|k| Datum::Int4(i32::from(k.descending) + 2 * i32::from(k.nulls_first)));
        let shown: Vec<&str> = index
            .key
            .iter()
            .filter_map(|k| k.expression.as_ref())
            .map(|e| e.shown.as_str())
            .collect();
        let expressions = if shown.is_empty() { Datum::Null } else { text(shown.join(", ")) };
        emit(&[
            Datum::Oid(relation.oid.0),
            Datum::Oid(index.table.0),
            small(columns.len()),
            small(index.key.len()),
            Datum::Bool(index.unique),
            Datum::Bool(index.nulls_not_distinct),
            Datum::Bool(primary),
            Datum::Bool(false),
            Datum::Bool(index.check_time == niwaki_catalog::ConstraintTime::AtOnce),
            Datum::Bool(false),
            Datum::Bool(index.valid),
            Datum::Bool(false),
            Datum::Bool(index.ready),
            Datum::Bool(true),
            Datum::Bool(false),
            Datum::array(TypeOid::INT4, columns),
            Datum::array(TypeOid::INT4, options),
            expressions,
            index.predicate.as_ref().map_or(Datum::Null, |p| text(&p.shown)),
        ])?;
    }
    Ok(())
}

/// Name, number, category, number of the array type.
const TYPES: &[(&str, TypeOid, &str, u32)] = &[
    ("bool", TypeOid::BOOL, "B", 1000),
    ("bytea", TypeOid::BYTEA, "U", 1001),
    ("char", TypeOid::CHAR, "Z", 1002),
    ("name", TypeOid::NAME, "S", 1003),
    ("int8", TypeOid::INT8, "N", 1016),
    ("int2", TypeOid::INT2, "N", 1005),
    ("int4", TypeOid::INT4, "N", 1007),
    ("text", TypeOid::TEXT, "S", 1009),
    ("oid", TypeOid::OID, "N", 1028),
    ("tid", TypeOid::TID, "U", 1010),
    ("xid", TypeOid::XID, "U", 1011),
    ("float4", TypeOid::FLOAT4, "N", 1021),
    ("float8", TypeOid::FLOAT8, "N", 1022),
    ("unknown", TypeOid::UNKNOWN, "X", 0),
    ("bpchar", TypeOid::BPCHAR, "S", 1014),
    ("varchar", TypeOid::VARCHAR, "S", 1015),
    ("date", TypeOid::DATE, "D", 1182),
    ("timestamp", TypeOid::TIMESTAMP, "D", 1115),
    ("timestamptz", TypeOid::TIMESTAMPTZ, "D", 1185),
    ("interval", TypeOid::INTERVAL, "T", 1187),
    ("time", TypeOid::TIME, "D", 1183),
    ("timetz", TypeOid::TIMETZ, "D", 1270),
    ("uuid", TypeOid::UUID, "U", 2951),
    ("numeric", TypeOid::NUMERIC, "N", 1231),
    ("regclass", TypeOid::REGCLASS, "N", 2210),
    ("void", TypeOid::VOID, "P", 0),
    ("pg_lsn", TypeOid::PG_LSN, "U", 3221),
    ("json", TypeOid::JSON, "U", 199),
    ("jsonb", TypeOid::JSONB, "U", 3807),
];

fn pg_type(_: &CatalogState, emit: Emit<'_>) -> Result<()> {
    let mut row = |oid: u32, name: &str, length: i16, category: &str, element: u32, array: u32| {
        let kind = if category == "P" || category == "X" { "p" } else { "b" };
        emit(&[
            Datum::Oid(oid),
            text(name),
            Datum::Oid(PG_CATALOG.0),
            Datum::Oid(10),
            Datum::Int2(length),
            Datum::Bool(matches!(length, 1 | 2 | 4 | 8)),
            text(kind),
            text(category),
            Datum::Bool(true),
            text(","),
            Datum::Oid(0),
            Datum::Oid(element),
            Datum::Oid(array),
            Datum::Oid(0),
            Datum::Int4(-1),
            Datum::Oid(if is_text(TypeOid(oid)) { 100 } else { 0 }),
        ])
    };
    for (name, oid, category, array) in TYPES {
        row(oid.0, name, type_length(*oid), category, 0, *array)?;
        if *array != 0 {
            row(*array, &format!("_{name}"), -1, "A", oid.0, 0)?;
        }
    }
    Ok(())
}

fn pg_database(_: &CatalogState, emit: Emit<'_>) -> Result<()> {
    emit(&[
        Datum::Oid(DATABASE_OID),
        text("postgres"),
        Datum::Oid(10),
        Datum::Int4(6),
        text("C.UTF-8"),
        text("C.UTF-8"),
        Datum::Bool(false),
        Datum::Bool(true),
        Datum::Int4(-1),
        Datum::Oid(1663),
    ])
}

fn pg_am(_: &CatalogState, emit: Emit<'_>) -> Result<()> {
    emit(&[Datum::Oid(2), text("heap"), text("t")])?;
    emit(&[Datum::Oid(403), text("btree"), text("i")])
}

fn pg_tables(state: &CatalogState, emit: Emit<'_>) -> Result<()> {
    for relation in in_order(state) {
        if relation.kind != RelationKind::Table {
            continue;
        }
        emit(&[
            text(schema_name(state, relation.schema)),
            text(&relation.name),
            text("postgres"),
            Datum::Null,
            Datum::Bool(!relation.indexes.is_empty()),
            Datum::Bool(false),
            Datum::Bool(false),
            Datum::Bool(false),
        ])?;
    }
    Ok(())
}

fn pg_indexes(state: &CatalogState, emit: Emit<'_>) -> Result<()> {
    for relation in in_order(state) {
        let Some(index) = &relation.index else { continue };
        let Some(table) = state.relation(index.table) else { continue };
        let schema = schema_name(state, relation.schema);
        let definition = niwaki_sql::index_definition_text(state, relation).unwrap_or_default();
        emit(&[
            text(&schema),
            text(&table.name),
            text(&relation.name),
            Datum::Null,
            text(definition),
        ])?;
    }
    Ok(())
}
