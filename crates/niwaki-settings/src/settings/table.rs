//! Defines every setting that Niwaki knows.

/// The unit of a setting's number when the text has no unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A plain number.
    None,
    /// Blocks of 8 kB.
    Blocks,
    /// Bytes.
    Bytes,
    /// 1024 bytes.
    Kilobytes,
    /// 1024 × 1024 bytes.
    Megabytes,
    /// Milliseconds.
    Milliseconds,
    /// Seconds.
    Seconds,
    /// Minutes.
    Minutes,
}

/// The type of a setting, its range and its default.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// on or off
    Bool(bool),
    /// A whole number in `unit`.
    Int {
        /// Unit of the number and of the limits.
        unit: Unit,
        /// Least value.
        min: i64,
        /// Greatest value.
        max: i64,
        /// Default.
        default: i64,
    },
    /// A number.
    Float {
        /// Unit.
        unit: Unit,
        /// Least value.
        min: f64,
        /// Greatest value.
        max: f64,
        /// Default.
        default: f64,
    },
    /// One of some words; the default is the first.
    Enum(&'static [&'static str]),
    /// Any text.
    Text(&'static str),
}

/// The time at which a setting can change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    /// Fixed.
    Internal,
    /// At server start only.
    Server,
    /// Never. In PostgreSQL: at server start.
    FixedAtStart,
    /// Never. In PostgreSQL: in its configuration file.
    FixedInFile,
    /// When a session starts only.
    SessionStart,
    /// At any time, in every session.
    User,
}

/// One setting.
#[derive(Clone, Copy, Debug)]
pub struct SettingDefinition {
    /// Name as `SHOW ALL` spells it.
    pub name: &'static str,
    /// Type, range, default.
    pub kind: Kind,
    /// When it can change.
    pub context: Context,
    /// True if the client gets a `ParameterStatus` message for each change.
    pub reported: bool,
    /// One line for `pg_settings`.
    pub description: &'static str,
}

const fn setting(
    name: &'static str,
    kind: Kind,
    context: Context,
    description: &'static str,
) -> SettingDefinition {
    SettingDefinition { name, kind, context, reported: false, description }
}

const fn reported(
    name: &'static str,
    kind: Kind,
    context: Context,
    description: &'static str,
) -> SettingDefinition {
    SettingDefinition { name, kind, context, reported: true, description }
}

/// Defines a setting that is accepted, checked and shown, and has no effect.
const fn ignored(name: &'static str, kind: Kind, context: Context) -> SettingDefinition {
    SettingDefinition {
        name,
        kind,
        context,
        reported: false,
        description: "Accepted for compatibility; has no effect in Niwaki.",
    }
}

/// Defines an age at which PostgreSQL freezes, or freezes urgently; the setting has no effect here.
const fn ignored_age(
    name: &'static str,
    (min, max): (i64, i64),
    default: i64,
    context: Context,
) -> SettingDefinition {
    SettingDefinition {
        description: "Accepted for compatibility: transaction numbers of 64 bits do not run out and there are no multixacts, so no vacuum is urgent.",
        ..ignored(name, int(Unit::None, min, max, default), context)
    }
}

const fn int(unit: Unit, min: i64, max: i64, default: i64) -> Kind {
    Kind::Int { unit, min, max, default }
}

const fn float(min: f64, max: f64, default: f64) -> Kind {
    Kind::Float { unit: Unit::None, min, max, default }
}

const fn milliseconds(min: f64, max: f64, default: f64) -> Kind {
    Kind::Float { unit: Unit::Milliseconds, min, max, default }
}

const INT_MAX: i64 = i32::MAX as i64;

use Context::{FixedAtStart, FixedInFile, Internal, Server, SessionStart, User};
use Kind::{Bool, Enum, Text};

/// Decides whether PostgreSQL shows a setting in EXPLAIN (SETTINGS): plans, or their execution,
/// depend on it.
pub(super) fn is_of_planner(name: &str) -> bool {
    name.starts_with("enable_")
        || name.starts_with("geqo")
        || name.ends_with("_cost")
        || matches!(
            name,
            "constraint_exclusion"
                | "cursor_tuple_fraction"
                | "effective_cache_size"
                | "effective_io_concurrency"
                | "force_parallel_mode"
                | "from_collapse_limit"
                | "hash_mem_multiplier"
                | "jit"
                | "join_collapse_limit"
                | "maintenance_io_concurrency"
                | "max_parallel_workers"
                | "max_parallel_workers_per_gather"
                | "min_parallel_index_scan_size"
                | "min_parallel_table_scan_size"
                | "parallel_leader_participation"
                | "plan_cache_mode"
                | "recursive_worktable_factor"
                | "search_path"
                | "temp_buffers"
                | "work_mem"
        )
}

/// All settings in the order of their names, compared without case.
pub static SETTINGS: &[SettingDefinition] = &[
    ignored("allow_in_place_tablespaces", Bool(false), User),
    reported(
        "application_name",
        Text(""),
        User,
        "Sets the application name to be reported in statistics and logs.",
    ),
    setting(
        "authentication_timeout",
        int(Unit::Seconds, 1, 600, 60),
        Server,
        "Sets the maximum allowed time to complete client authentication.",
    ),
    setting("autovacuum", Bool(true), Server, "Vacuums and analyzes tables by itself."),
    setting(
        "autovacuum_analyze_scale_factor",
        float(0.0, 100.0, 0.1),
        Server,
        "Sets which part of a table's rows must have changed before it is analyzed.",
    ),
    setting(
        "autovacuum_analyze_threshold",
        int(Unit::None, 0, INT_MAX, 50),
        Server,
        "Sets how many rows must have changed before a table is analyzed, however small it is.",
    ),
    ignored_age("autovacuum_freeze_max_age", (100_000, 2_000_000_000), 200_000_000, Server),
    setting(
        "autovacuum_max_workers",
        int(Unit::None, 1, 262_143, 3),
        Server,
        "Sets how many tables autovacuum works on at a time.",
    ),
    ignored_age(
        "autovacuum_multixact_freeze_max_age",
        (10_000, 2_000_000_000),
        400_000_000,
        Server,
    ),
    setting(
        "autovacuum_naptime",
        int(Unit::Seconds, 1, INT_MAX / 1000, 60),
        Server,
        "Sets the time between two looks of autovacuum at all tables.",
    ),
    setting(
        "autovacuum_vacuum_cost_delay",
        milliseconds(-1.0, 100.0, 2.0),
        Server,
        "Sets how long autovacuum rests, in milliseconds; -1: vacuum_cost_delay.",
    ),
    setting(
        "autovacuum_vacuum_cost_limit",
        int(Unit::None, -1, 10_000, -1),
        Server,
        "Sets after how much work each of autovacuum's workers rests; -1: vacuum_cost_limit.",
    ),
    setting(
        "autovacuum_vacuum_insert_scale_factor",
        float(0.0, 100.0, 0.2),
        Server,
        "Sets which part of a table's rows that not all are known to see must have been inserted before it is vacuumed.",
    ),
    setting(
        "autovacuum_vacuum_insert_threshold",
        int(Unit::None, -1, INT_MAX, 1000),
        Server,
        "Sets how many rows must have been inserted before a table is vacuumed, however small it is; -1: it is not for insertions.",
    ),
    setting(
        "autovacuum_vacuum_max_threshold",
        int(Unit::None, -1, INT_MAX, 100_000_000),
        Server,
        "Sets how many dead row versions are enough for a table to be vacuumed, however large it is; -1: none are.",
    ),
    setting(
        "autovacuum_vacuum_scale_factor",
        float(0.0, 100.0, 0.2),
        Server,
        "Sets how many dead row versions, as a part of a table's rows, there must be before it is vacuumed.",
    ),
    setting(
        "autovacuum_vacuum_threshold",
        int(Unit::None, 0, INT_MAX, 50),
        Server,
        "Sets how many dead row versions there must be before a table is vacuumed, however small it is.",
    ),
    setting(
        "autovacuum_work_mem",
        int(Unit::Kilobytes, -1, INT_MAX, -1),
        Server,
        "Sets the memory of each of autovacuum's workers; -1: maintenance_work_mem.",
    ),
    ignored("backend_flush_after", int(Unit::Blocks, 0, 256, 0), User),
    setting(
        "bgwriter_delay",
        int(Unit::Milliseconds, 10, 10_000, 200),
        Server,
        "Background writer sleep time between rounds.",
    ),
    setting(
        "bgwriter_lru_maxpages",
        int(Unit::None, 0, 1_073_741_823, 100),
        Server,
        "Background writer maximum number of LRU pages to flush per round.",
    ),
    setting(
        "bgwriter_lru_multiplier",
        float(0.0, 10.0, 2.0),
        Server,
        "Multiple of the average buffer usage to free per round.",
    ),
    setting(
        "block_size",
        int(Unit::None, 8192, 8192, 8192),
        Internal,
        "Shows the size of a disk block.",
    ),
    setting("bytea_output", Enum(&["hex", "escape"]), User, "Sets the output format for bytea."),
    ignored("check_function_bodies", Bool(true), User),
    setting(
        "checkpoint_completion_target",
        float(0.0, 1.0, 0.9),
        Server,
        "Time spent flushing dirty buffers during checkpoint, as fraction of checkpoint interval.",
    ),
    setting(
        "checkpoint_timeout",
        int(Unit::Seconds, 30, 86400, 300),
        Server,
        "Sets the maximum time between automatic WAL checkpoints.",
    ),
    reported("client_encoding", Text("UTF8"), User, "Sets the client's character set encoding."),
    setting(
        "client_min_messages",
        Enum(&[
            "notice", "debug5", "debug4", "debug3", "debug2", "debug1", "log", "warning", "error",
        ]),
        User,
        "Sets the message levels that are sent to the client.",
    ),
    ignored("commit_delay", int(Unit::None, 0, 100_000, 0), User),
    ignored("commit_siblings", int(Unit::None, 0, 1000, 5), User),
    ignored("compute_query_id", Enum(&["auto", "regress", "on", "off"]), User),
    ignored("constraint_exclusion", Enum(&["partition", "on", "off"]), User),
    setting(
        "cpu_index_tuple_cost",
        float(0.0, f64::MAX, 0.005),
        User,
        "Sets the planner's estimate of the cost of processing each index entry during an index scan.",
    ),
    setting(
        "cpu_operator_cost",
        float(0.0, f64::MAX, 0.0025),
        User,
        "Sets the planner's estimate of the cost of processing each operator or function call.",
    ),
    setting(
        "cpu_tuple_cost",
        float(0.0, f64::MAX, 0.01),
        User,
        "Sets the planner's estimate of the cost of processing each tuple (row).",
    ),
    ignored("cursor_tuple_fraction", float(0.0, 1.0, 0.1), User),
    setting(
        "data_checksums",
        Bool(true),
        Internal,
        "Shows whether data checksums are turned on for this cluster.",
    ),
    reported(
        "DateStyle",
        Text("ISO, MDY"),
        User,
        "Sets the display format for date and time values.",
    ),
    setting(
        "deadlock_timeout",
        int(Unit::Milliseconds, 1, INT_MAX, 1000),
        User,
        "Sets the time to wait on a lock before checking for deadlock.",
    ),
    ignored("debug_print_plan", Bool(false), User),
    ignored("default_statistics_target", int(Unit::None, 1, 10000, 100), User),
    ignored("default_table_access_method", Enum(&["heap"]), User),
    ignored("default_tablespace", Text(""), User),
    ignored("default_toast_compression", Enum(&["lz4", "pglz"]), User),
    setting(
        "default_transaction_deferrable",
        Bool(false),
        User,
        "Sets the default deferrable status of new transactions.",
    ),
    setting(
        "default_transaction_isolation",
        Enum(&["read committed", "repeatable read", "serializable", "read uncommitted"]),
        User,
        "Sets the transaction isolation level of each new transaction.",
    ),
    reported(
        "default_transaction_read_only",
        Bool(false),
        User,
        "Sets the default read-only status of new transactions.",
    ),
    // Dumps of PostgreSQL 11 and older set this to say that tables have no OIDs.
    ignored("default_with_oids", Bool(false), User),
    setting(
        "effective_cache_size",
        int(Unit::Blocks, 1, INT_MAX, 524_288),
        User,
        "Sets the planner's assumption about the total size of the data caches.",
    ),
    setting(
        "effective_io_concurrency",
        int(Unit::None, 0, 1000, 16),
        User,
        "Sets how many reads of a scan may be under way; 0: none ahead of its need.",
    ),
    ignored("enable_async_append", Bool(true), User),
    setting(
        "enable_bitmapscan",
        Bool(true),
        User,
        "Enables the planner's use of bitmap-scan plans.",
    ),
    ignored("enable_gathermerge", Bool(true), User),
    setting("enable_hashagg", Bool(true), User, "Enables the planner's use of hashed aggregation."),
    setting("enable_hashjoin", Bool(true), User, "Enables the planner's use of hash join plans."),
    setting(
        "enable_incremental_sort",
        Bool(true),
        User,
        "Enables the planner's use of incremental sort steps.",
    ),
    setting(
        "enable_indexonlyscan",
        Bool(true),
        User,
        "Enables the planner's use of index-only-scan plans.",
    ),
    setting("enable_indexscan", Bool(true), User, "Enables the planner's use of index-scan plans."),
    ignored("enable_material", Bool(true), User),
    ignored("enable_memoize", Bool(true), User),
    setting("enable_mergejoin", Bool(true), User, "Enables the planner's use of merge join plans."),
    setting("enable_nestloop", Bool(true), User, "Enables the planner's use of nested-loop plans."),
    ignored("enable_parallel_append", Bool(true), User),
    ignored("enable_parallel_hash", Bool(true), User),
    ignored("enable_partition_pruning", Bool(true), User),
    ignored("enable_partitionwise_aggregate", Bool(false), User),
    ignored("enable_partitionwise_join", Bool(false), User),
    setting(
        "enable_seqscan",
        Bool(true),
        User,
        "Enables the planner's use of sequential-scan plans.",
    ),
    setting("enable_skipscan", Bool(true), User, "Enables the planner's use of index skip scans."),
    ignored("enable_sort", Bool(true), User),
    setting("enable_tidscan", Bool(true), User, "Enables the planner's use of TID scan plans."),
    ignored("escape_string_warning", Bool(true), User),
    setting(
        "extra_float_digits",
        int(Unit::None, -15, 3, 1),
        User,
        "Sets the number of digits displayed for floating-point values.",
    ),
    ignored("force_parallel_mode", Enum(&["off", "on", "regress"]), User),
    ignored("from_collapse_limit", int(Unit::None, 1, INT_MAX, 8), User),
    setting(
        "full_page_writes",
        Bool(true),
        Server,
        "Writes full pages to WAL when first modified after a checkpoint.",
    ),
    setting(
        "gardener",
        Bool(true),
        Server,
        "Starts a thread that sees to what the last writers of a table left behind.",
    ),
    ignored("geqo", Bool(true), User),
    ignored("geqo_threshold", int(Unit::None, 2, INT_MAX, 12), User),
    ignored("gin_fuzzy_search_limit", int(Unit::None, 0, INT_MAX, 0), User),
    setting(
        "hash_mem_multiplier",
        float(1.0, 1000.0, 2.0),
        User,
        "Multiple of work_mem to use for hash tables.",
    ),
    setting(
        "hot_standby",
        Bool(true),
        FixedAtStart,
        "Allows connections and queries during recovery; there is no standby.",
    ),
    setting(
        "idle_in_transaction_session_timeout",
        int(Unit::Milliseconds, 0, INT_MAX, 0),
        User,
        "Sets the maximum allowed idle time between queries, when in a transaction.",
    ),
    setting(
        "idle_session_timeout",
        int(Unit::Milliseconds, 0, INT_MAX, 0),
        User,
        "Sets the maximum allowed idle time between queries, when not in a transaction.",
    ),
    reported(
        "in_hot_standby",
        Bool(false),
        Internal,
        "Shows whether hot standby is currently active.",
    ),
    reported(
        "integer_datetimes",
        Bool(true),
        Internal,
        "Shows whether datetimes are integer based.",
    ),
    setting(
        "interval_gc",
        Bool(true),
        Server,
        "Removes row versions between snapshots, and not only those older than all.",
    ),
    reported(
        "IntervalStyle",
        Enum(&["postgres", "postgres_verbose", "sql_standard", "iso_8601"]),
        User,
        "Sets the display format for interval values.",
    ),
    setting(
        "io_combine_limit",
        int(Unit::Blocks, 1, 32, 16),
        User,
        "Sets how many neighbouring pages are read at once.",
    ),
    setting(
        "io_method",
        Enum(&["worker", "io_uring", "sync"]),
        Server,
        "Selects who reads ahead: threads, the system, or nobody; neighbouring pages are read at once in any case.",
    ),
    setting(
        "io_workers",
        int(Unit::None, 1, 32, 3),
        Server,
        "Sets the number of threads that read ahead.",
    ),
    reported(
        "is_superuser",
        Bool(true),
        Internal,
        "Shows whether the current user is a superuser.",
    ),
    ignored("jit", Bool(false), User),
    ignored("jit_above_cost", float(-1.0, f64::MAX, 100_000.0), User),
    ignored("join_collapse_limit", int(Unit::None, 1, INT_MAX, 8), User),
    setting("lc_collate", Text("C.UTF-8"), Internal, "Shows the collation order locale."),
    setting(
        "lc_ctype",
        Text("C.UTF-8"),
        Internal,
        "Shows the character classification and case conversion locale.",
    ),
    ignored("lc_messages", Enum(&["C.UTF-8", "C", "en_US.UTF-8"]), User),
    ignored("lc_monetary", Enum(&["C.UTF-8", "C", "en_US.UTF-8"]), User),
    ignored("lc_numeric", Enum(&["C.UTF-8", "C", "en_US.UTF-8"]), User),
    ignored("lc_time", Enum(&["C.UTF-8", "C", "en_US.UTF-8"]), User),
    ignored("lo_compat_privileges", Bool(false), User),
    setting(
        "lock_timeout",
        int(Unit::Milliseconds, 0, INT_MAX, 0),
        User,
        "Sets the maximum allowed duration of any wait for a lock.",
    ),
    setting(
        "log_autovacuum_min_duration",
        int(Unit::Milliseconds, -1, INT_MAX, 600_000),
        Server,
        "Sets how long autovacuum must have worked on a table to log it; -1: never.",
    ),
    ignored("log_checkpoints", Bool(true), Server),
    ignored("log_lock_waits", Bool(false), User),
    ignored("log_min_duration_statement", int(Unit::Milliseconds, -1, INT_MAX, -1), User),
    ignored(
        "log_min_messages",
        Enum(&[
            "warning", "debug5", "debug4", "debug3", "debug2", "debug1", "info", "notice", "error",
            "log", "fatal", "panic",
        ]),
        User,
    ),
    ignored("log_statement", Enum(&["none", "ddl", "mod", "all"]), User),
    ignored("log_temp_files", int(Unit::Kilobytes, -1, INT_MAX, -1), User),
    setting(
        "maintenance_io_concurrency",
        int(Unit::None, 0, 1000, 16),
        User,
        "Sets how many reads of VACUUM, ANALYZE or an index build may be under way; 0: none ahead of its need.",
    ),
    setting(
        "maintenance_work_mem",
        int(Unit::Kilobytes, 64, INT_MAX, 65_536),
        User,
        "Sets the maximum memory to be used for maintenance operations.",
    ),
    setting(
        "max_connections",
        int(Unit::None, 1, 262_143, 100),
        Server,
        "Sets the maximum number of concurrent connections.",
    ),
    setting(
        "max_files_per_process",
        int(Unit::None, 64, INT_MAX, 1000),
        Server,
        "Sets the maximum number of simultaneously open files of tables and indexes.",
    ),
    setting(
        "max_identifier_length",
        int(Unit::None, 63, 63, 63),
        Internal,
        "Shows the maximum identifier length.",
    ),
    setting(
        "max_index_keys",
        int(Unit::None, 32, 32, 32),
        Internal,
        "Shows the maximum number of index keys.",
    ),
    setting(
        "max_parallel_maintenance_workers",
        int(Unit::None, 0, 1024, 2),
        User,
        "Sets the maximum number of threads that help an index build, which uses one at most, or visit indexes for VACUUM.",
    ),
    setting(
        "max_parallel_workers",
        int(Unit::None, 0, 1024, 8),
        User,
        "Sets the maximum number of threads that help queries to read, of all sessions.",
    ),
    setting(
        "max_parallel_workers_per_gather",
        int(Unit::None, 0, 1024, 2),
        User,
        "Sets the maximum number of threads that help a step of a query to read.",
    ),
    ignored("max_prepared_transactions", int(Unit::None, 0, 262_143, 0), Server),
    setting(
        "max_row_locks",
        int(Unit::None, 1_000, INT_MAX, 1_000_000),
        Server,
        "Sets how many shared row locks are kept in memory for all sessions together; those of a transaction on one page count once.",
    ),
    setting(
        "max_server_memory",
        int(Unit::Kilobytes, -1, INT_MAX, -1),
        Server,
        "Sets the memory that the server may take, shared buffers included; 0: no limit, -1: three quarters of what the process may have beyond 96 MB.",
    ),
    ignored("max_stack_depth", int(Unit::Kilobytes, 100, INT_MAX, 2048), User),
    setting(
        "max_wal_size",
        int(Unit::Megabytes, 2, INT_MAX, 1024),
        Server,
        "Sets the WAL size that triggers a checkpoint.",
    ),
    ignored("min_parallel_index_scan_size", int(Unit::Blocks, 0, INT_MAX, 64), User),
    setting(
        "min_parallel_table_scan_size",
        int(Unit::Blocks, 0, INT_MAX, 1024),
        User,
        "Sets the least size of a table that several threads read.",
    ),
    ignored("min_wal_size", int(Unit::Megabytes, 2, INT_MAX, 80), Server),
    ignored("parallel_leader_participation", Bool(true), User),
    ignored("parallel_setup_cost", float(0.0, f64::MAX, 1000.0), User),
    ignored("parallel_tuple_cost", float(0.0, f64::MAX, 0.1), User),
    ignored("password_encryption", Enum(&["scram-sha-256", "md5"]), User),
    setting(
        "plan_cache_mode",
        Enum(&["auto", "force_generic_plan", "force_custom_plan"]),
        User,
        "Controls the planner's selection of custom or generic plan.",
    ),
    setting(
        "port",
        int(Unit::None, 1, 65_535, 5432),
        FixedAtStart,
        "Shows the TCP port that the server listens on.",
    ),
    ignored("quote_all_identifiers", Bool(false), User),
    setting(
        "random_page_cost",
        float(0.0, f64::MAX, 4.0),
        User,
        "Sets the planner's estimate of the cost of a nonsequentially fetched disk page.",
    ),
    setting("role", Text("none"), User, "Sets the current role."),
    ignored("row_security", Bool(true), User),
    setting(
        "search_path",
        Text("\"$user\", public"),
        User,
        "Sets the schema search order for names that are not schema-qualified.",
    ),
    setting(
        "segment_size",
        int(Unit::Blocks, 131_072, 131_072, 131_072),
        Internal,
        "Shows the number of pages per disk file.",
    ),
    setting(
        "seq_page_cost",
        float(0.0, f64::MAX, 1.0),
        User,
        "Sets the planner's estimate of the cost of a sequentially fetched disk page.",
    ),
    reported(
        "server_encoding",
        Text("UTF8"),
        Internal,
        "Shows the server (database) character set encoding.",
    ),
    reported("server_version", Text(SERVER_VERSION), Internal, "Shows the server version."),
    setting(
        "server_version_num",
        int(Unit::None, SERVER_VERSION_NUM, SERVER_VERSION_NUM, SERVER_VERSION_NUM),
        Internal,
        "Shows the server version as an integer.",
    ),
    reported("session_authorization", Text("postgres"), User, "Sets the session user name."),
    ignored("session_replication_role", Enum(&["origin", "replica", "local"]), User),
    setting(
        "shared_buffers",
        int(Unit::Blocks, 16, INT_MAX / 2, 16_384),
        Server,
        "Sets the number of shared memory buffers used by the server.",
    ),
    setting(
        "shared_preload_libraries",
        Text(""),
        FixedAtStart,
        "Lists shared libraries to preload into server; there are none.",
    ),
    setting("ssl", Bool(false), FixedInFile, "Shows whether connections may be encrypted."),
    reported(
        "standard_conforming_strings",
        Enum(&["on", "off"]),
        User,
        "Causes '...' strings to treat backslashes literally.",
    ),
    setting(
        "statement_timeout",
        int(Unit::Milliseconds, 0, INT_MAX, 0),
        User,
        "Sets the maximum allowed duration of any statement.",
    ),
    ignored("stats_fetch_consistency", Enum(&["cache", "none", "snapshot"]), User),
    ignored("synchronize_seqscans", Bool(true), User),
    setting(
        "synchronous_commit",
        Enum(&["on", "off", "local", "remote_write", "remote_apply"]),
        User,
        "Sets the current transaction's synchronization level.",
    ),
    ignored("tcp_keepalives_idle", int(Unit::Seconds, 0, INT_MAX, 0), User),
    ignored("temp_buffers", int(Unit::Blocks, 100, INT_MAX / 2, 1024), User),
    setting(
        "temp_file_limit",
        int(Unit::Kilobytes, -1, INT_MAX, -1),
        User,
        "Limits the total size of all temporary files of a session; -1: no limit.",
    ),
    ignored("temp_tablespaces", Text(""), User),
    reported(
        "TimeZone",
        Text("Etc/UTC"),
        User,
        "Sets the time zone for displaying and interpreting time stamps.",
    ),
    ignored("timezone_abbreviations", Text("Default"), User),
    ignored("track_activities", Bool(true), User),
    ignored("track_counts", Bool(true), User),
    ignored("track_functions", Enum(&["none", "pl", "all"]), User),
    ignored("track_io_timing", Bool(false), User),
    ignored("track_wal_io_timing", Bool(false), User),
    setting(
        "transaction_deferrable",
        Bool(false),
        User,
        "Whether to defer a read-only serializable transaction.",
    ),
    setting(
        "transaction_isolation",
        Enum(&["read committed", "repeatable read", "serializable", "read uncommitted"]),
        User,
        "Sets the current transaction's isolation level.",
    ),
    setting(
        "transaction_read_only",
        Bool(false),
        User,
        "Sets the current transaction's read-only status.",
    ),
    setting(
        "vacuum_buffer_usage_limit",
        int(Unit::Kilobytes, 0, 16_777_216, 2048),
        User,
        "Sets how much of the buffer pool VACUUM and ANALYZE use for what they read; 0: as much as comes.",
    ),
    setting(
        "vacuum_cost_delay",
        milliseconds(0.0, 100.0, 0.0),
        User,
        "Sets how long VACUUM rests after so much work, in milliseconds; 0: it does not.",
    ),
    setting(
        "vacuum_cost_limit",
        int(Unit::None, 1, 10_000, 200),
        User,
        "Sets after how much work VACUUM rests.",
    ),
    setting(
        "vacuum_cost_page_dirty",
        int(Unit::None, 0, 10_000, 20),
        User,
        "Sets what a page costs VACUUM that it changed.",
    ),
    setting(
        "vacuum_cost_page_hit",
        int(Unit::None, 0, 10_000, 1),
        User,
        "Sets what a page costs VACUUM that was in the buffer pool.",
    ),
    setting(
        "vacuum_cost_page_miss",
        int(Unit::None, 0, 10_000, 2),
        User,
        "Sets what a page costs VACUUM that was read from its file.",
    ),
    ignored("vacuum_defer_cleanup_age", int(Unit::None, 0, 1_000_000, 0), Server),
    ignored_age("vacuum_failsafe_age", (0, 2_100_000_000), 1_600_000_000, User),
    setting(
        "vacuum_freeze_min_age",
        int(Unit::None, 0, 1_000_000_000, 50_000_000),
        User,
        "Sets how many transactions old an inserter must be for VACUUM to freeze its rows.",
    ),
    ignored_age("vacuum_freeze_table_age", (0, 2_000_000_000), 150_000_000, User),
    ignored_age("vacuum_multixact_failsafe_age", (0, 2_100_000_000), 1_600_000_000, User),
    ignored_age("vacuum_multixact_freeze_min_age", (0, 1_000_000_000), 5_000_000, User),
    ignored_age("vacuum_multixact_freeze_table_age", (0, 2_000_000_000), 150_000_000, User),
    setting(
        "vacuum_truncate",
        Bool(true),
        User,
        "Sets whether VACUUM gives the empty end of a table back to the file system.",
    ),
    setting(
        "version_split_delay",
        int(Unit::Milliseconds, 0, 10_000, 0),
        Server,
        "Sets how long an update rests for each index page that it splits only because an old snapshot keeps row versions; 0: it does not.",
    ),
    setting(
        "visibility_map_pin",
        Enum(&["resident", "per_access", "off"]),
        Server,
        "Keeps visibility maps in memory, or, for measuring, pins a page of them at each look, or has none.",
    ),
    setting(
        "wal_block_size",
        int(Unit::None, 8192, 8192, 8192),
        Internal,
        "Shows the block size in the write ahead log.",
    ),
    setting(
        "wal_buffers",
        int(Unit::Blocks, -1, 262_143, -1),
        Server,
        "Sets the number of disk-page buffers in shared memory for WAL.",
    ),
    ignored("wal_compression", Enum(&["off"]), User),
    ignored("wal_level", Enum(&["replica", "minimal", "logical"]), Server),
    setting(
        "wal_segment_size",
        int(Unit::Bytes, 1_048_576, 1_073_741_824, 16_777_216),
        Internal,
        "Shows the size of write ahead log segments.",
    ),
    setting(
        "work_mem",
        int(Unit::Kilobytes, 64, INT_MAX, 4096),
        User,
        "Sets the maximum memory to be used for query workspaces.",
    ),
    ignored("xmlbinary", Enum(&["base64", "hex"]), User),
    ignored("xmloption", Enum(&["content", "document"]), User),
    ignored("zero_damaged_pages", Enum(&["off"]), SessionStart),
];

/// The PostgreSQL release whose catalog shapes and wire behaviour Niwaki follows.
pub const SERVER_VERSION: &str = "15.18";
/// [`SERVER_VERSION`] as clients compare it.
pub const SERVER_VERSION_NUM: i64 = 150_018;

/// Returns the position of a setting in [`SETTINGS`]; names are compared without case.
pub(super) fn position(name: &str) -> Option<usize> {
    SETTINGS
        .binary_search_by(|s| {
            s.name
                .bytes()
                .map(|b| b.to_ascii_lowercase())
                .cmp(name.bytes().map(|b| b.to_ascii_lowercase()))
        })
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_in_order_and_all_found() {
        for (i, s) in SETTINGS.iter().enumerate() {
            assert_eq!(position(s.name), Some(i), "{} is out of order", s.name);
            assert_eq!(position(&s.name.to_uppercase()), Some(i));
        }
        assert_eq!(position("no_such_setting"), None);
    }
}
