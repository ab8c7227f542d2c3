//! VACUUM, REINDEX and LOCK.

use niwaki_vacuum::IndexCleanup;

use super::Name;

/// The target of REINDEX.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReindexTarget {
    /// INDEX
    Index(Name),
    /// TABLE: all indexes of the table.
    Table(Name),
    /// SCHEMA: the indexes of all tables in the schema.
    Schema(String),
    /// DATABASE
    Database,
}

/// REINDEX
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reindex {
    /// The target.
    pub target: ReindexTarget,
    /// CONCURRENTLY
    pub concurrently: bool,
    /// VERBOSE
    pub verbose: bool,
}

/// One table of VACUUM or ANALYZE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VacuumTarget {
    /// Table.
    pub name: Name,
    /// Columns, for ANALYZE.
    pub columns: Vec<String>,
}

/// VACUUM and ANALYZE
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vacuum {
    /// True if rows are removed (false: ANALYZE alone).
    pub vacuum: bool,
    /// True if statistics are collected.
    pub analyze: bool,
    /// FREEZE
    pub freeze: bool,
    /// VERBOSE
    pub verbose: bool,
    /// `INDEX_CLEANUP`; `None`: the table's option decides.
    pub index_cleanup: Option<IndexCleanup>,
    /// TRUNCATE; `None`: the table's option and the settings decide.
    pub truncate: Option<bool>,
    /// `DISABLE_PAGE_SKIPPING`
    pub disable_page_skipping: bool,
    /// `SKIP_LOCKED`
    pub skip_locked: bool,
    /// `BUFFER_USAGE_LIMIT` in kilobytes, 0 for no limit; `None`: the settings decide.
    pub buffer_usage_limit: Option<i64>,
    /// PARALLEL: number of indexes vacuumed concurrently, besides the first; `None`: the settings
    /// decide.
    pub parallel: Option<i64>,
    /// `PROCESS_MAIN`
    pub process_main: bool,
    /// `PROCESS_TOAST`
    pub process_large_values: bool,
    /// Tables; empty for all.
    pub targets: Vec<VacuumTarget>,
}
