//! Views that the running database fills: sessions, locks, counters, progress, Niwaki's own views.

use std::sync::OnceLock;

use niwaki_catalog::{BuiltinColumn, Oid, PG_CATALOG, Relation};
use niwaki_types::TypeOid;

use crate::monitor::background_tasks::{self, TASKS};
use crate::monitor::index_counters::{self, STAT_INDEXES};
use crate::monitor::memory::{self, MEMORY};
use crate::monitor::read_ahead::{self, READ_AHEAD};
use crate::monitor::snapshots::{self, SNAPSHOTS};
use crate::monitor::table_counters::{self, STAT_TABLES};
use crate::system_relation::{Rows, view};

const OID: TypeOid = TypeOid::OID;
const NAME: TypeOid = TypeOid::NAME;
const TEXT: TypeOid = TypeOid::TEXT;
const BOOL: TypeOid = TypeOid::BOOL;
const INT2: TypeOid = TypeOid::INT2;
const INT4: TypeOid = TypeOid::INT4;
const INT8: TypeOid = TypeOid::INT8;

type Columns = &'static [(&'static str, TypeOid)];

/// Returns the name by which the session's source knows a PostgreSQL view, and the columns that the
/// source fills.
pub(crate) fn source_of(name: &str) -> Option<(&'static str, Columns)> {
    Some(match name {
        "pg_settings" => ("pg_settings", PG_SETTINGS),
        "pg_stat_activity" => ("pg_stat_activity", PG_STAT_ACTIVITY),
        "pg_stat_database" => ("pg_stat_database", PG_STAT_DATABASE),
        "pg_locks" => ("pg_locks", PG_LOCKS),
        "pg_stat_user_tables" | "pg_stat_all_tables" => ("pg_stat_user_tables", PG_STAT_TABLES),
        "pg_stat_user_indexes" | "pg_stat_all_indexes" => ("pg_stat_user_indexes", PG_STAT_INDEXES),
        "pg_statio_user_tables" | "pg_statio_all_tables" => {
            ("pg_statio_user_tables", PG_STATIO_TABLES)
        }
        "pg_statio_user_indexes" | "pg_statio_all_indexes" => {
            ("pg_statio_user_indexes", PG_STATIO_INDEXES)
        }
        PROGRESS => (PROGRESS, PG_STAT_PROGRESS),
        PROGRESS_VACUUM => (PROGRESS_VACUUM, PG_STAT_PROGRESS_VACUUM),
        "pg_stat_wal" => ("pg_stat_wal", PG_STAT_WAL),
        "pg_stat_bgwriter" => ("pg_stat_bgwriter", PG_STAT_BGWRITER),
        "pg_stat_ssl" => ("pg_stat_ssl", PG_STAT_SSL),
        "pg_stat_gssapi" => ("pg_stat_gssapi", PG_STAT_GSSAPI),
        "pg_timezone_names" => ("pg_timezone_names", PG_TIMEZONE_NAMES),
        "pg_cursors" => ("pg_cursors", PG_CURSORS),
        "pg_prepared_statements" => ("pg_prepared_statements", PG_PREPARED_STATEMENTS),
        _ => return None,
    })
}

/// Returns the columns of such a view beyond PostgreSQL 15's.
pub(crate) fn more_columns(name: &str) -> &'static [BuiltinColumn] {
    static OF_VACUUM: OnceLock<Vec<BuiltinColumn>> = OnceLock::new();
    if name != PROGRESS_VACUUM {
        return &[];
    }
    OF_VACUUM.get_or_init(|| {
        let columns = PG_STAT_PROGRESS_VACUUM.iter().skip(VACUUM_COLUMNS);
        columns.map(|(name, kind)| column(name, *kind)).collect()
    })
}

const fn column(name: &'static str, type_oid: TypeOid) -> BuiltinColumn {
    BuiltinColumn { name, type_oid, typmod: -1, not_null: false }
}

/// Returns Niwaki's own views.
pub(crate) fn all() -> Vec<Relation> {
    let own = |oid: u32, name: &'static str, columns: &[(&'static str, TypeOid)]| {
        let built: Vec<BuiltinColumn> =
            columns.iter().map(|(name, kind)| column(name, *kind)).collect();
        let columns: Vec<&BuiltinColumn> = built.iter().collect();
        let filled = built.iter().map(|column| column.name).collect();
        view(Oid(oid), PG_CATALOG, name, &columns, Rows::Source(name, filled))
    };
    // These numbers lie above all numbers of PostgreSQL's own relations.
    vec![
        own(16_000, STAT_INDEXES, &index_counters::columns()),
        own(16_001, STAT_TABLES, &table_counters::columns()),
        own(16_002, SNAPSHOTS, snapshots::COLUMNS),
        own(16_003, READ_AHEAD, &read_ahead::columns()),
        own(16_010, TASKS, background_tasks::COLUMNS),
        own(16_011, MEMORY, memory::COLUMNS),
    ]
}

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
    ("client_addr", TypeOid::INET),
    ("client_port", INT4),
    ("backend_start", TypeOid::TIMESTAMPTZ),
    ("xact_start", TypeOid::TIMESTAMPTZ),
    ("query_start", TypeOid::TIMESTAMPTZ),
    ("state_change", TypeOid::TIMESTAMPTZ),
    ("wait_event_type", TEXT),
    ("wait_event", TEXT),
    ("state", TEXT),
    ("backend_xid", TypeOid::XID),
    ("backend_xmin", TypeOid::XID),
    ("query", TEXT),
    ("backend_type", TEXT),
];
/// Without the failures of checksums, which are not counted and which PostgreSQL may show as NULL.
const PG_STAT_DATABASE: Columns = &[
    ("datid", OID),
    ("datname", NAME),
    ("numbackends", INT4),
    ("xact_commit", INT8),
    ("xact_rollback", INT8),
    ("blks_read", INT8),
    ("blks_hit", INT8),
    ("tup_returned", INT8),
    ("tup_fetched", INT8),
    ("tup_inserted", INT8),
    ("tup_updated", INT8),
    ("tup_deleted", INT8),
    ("temp_files", INT8),
    ("temp_bytes", INT8),
    ("deadlocks", INT8),
    ("sessions", INT8),
    ("sessions_killed", INT8),
    ("conflicts", INT8),
    ("blk_read_time", TypeOid::FLOAT8),
    ("blk_write_time", TypeOid::FLOAT8),
    ("session_time", TypeOid::FLOAT8),
    ("active_time", TypeOid::FLOAT8),
    ("idle_in_transaction_time", TypeOid::FLOAT8),
    ("sessions_abandoned", INT8),
    ("sessions_fatal", INT8),
    ("stats_reset", TypeOid::TIMESTAMPTZ),
];
const PG_LOCKS: Columns = &[
    ("locktype", TEXT),
    ("database", OID),
    ("relation", OID),
    ("page", INT4),
    ("tuple", INT2),
    ("transactionid", TypeOid::XID),
    ("classid", OID),
    ("objid", OID),
    ("objsubid", INT2),
    ("pid", INT4),
    ("mode", TEXT),
    ("granted", BOOL),
    ("fastpath", BOOL),
];
const PG_CURSORS: Columns = &[
    ("name", TEXT),
    ("statement", TEXT),
    ("is_holdable", BOOL),
    ("is_binary", BOOL),
    ("is_scrollable", BOOL),
    ("creation_time", TypeOid::TIMESTAMPTZ),
];
const PG_PREPARED_STATEMENTS: Columns = &[
    ("name", TEXT),
    ("statement", TEXT),
    ("prepare_time", TypeOid::TIMESTAMPTZ),
    ("parameter_types", TypeOid::REGTYPE_ARRAY),
    ("from_sql", BOOL),
    ("generic_plans", INT8),
    ("custom_plans", INT8),
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
/// Name of the view of running index builds.
pub const PROGRESS: &str = "pg_stat_progress_create_index";
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
/// Name of the view of running vacuums.
pub const PROGRESS_VACUUM: &str = "pg_stat_progress_vacuum";
/// Number of columns below that PostgreSQL 15 has. PostgreSQL 17 has the others.
const VACUUM_COLUMNS: usize = 11;
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
/// Columns as in PostgreSQL 15. Later versions moved half of them to `pg_stat_checkpointer`.
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
const PG_STAT_SSL: Columns = &[("pid", INT4), ("ssl", BOOL)];
const PG_STAT_GSSAPI: Columns = &[("pid", INT4), ("gss_authenticated", BOOL), ("encrypted", BOOL)];
const PG_TIMEZONE_NAMES: Columns =
    &[("name", TEXT), ("abbrev", TEXT), ("utc_offset", TypeOid::INTERVAL), ("is_dst", BOOL)];
const PG_STAT_WAL: Columns = &[
    ("wal_records", INT8),
    ("wal_fpi", INT8),
    ("wal_bytes", TypeOid::NUMERIC),
    ("wal_write", INT8),
    ("wal_sync", INT8),
];
