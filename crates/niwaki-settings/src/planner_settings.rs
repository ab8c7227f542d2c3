//! Settings of the planner.

/// Cost settings with PostgreSQL's names, defaults and unit: reading one page in sequence costs 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CostSettings {
    /// `seq_page_cost`
    pub seq_page_cost: f64,
    /// `random_page_cost`
    pub random_page_cost: f64,
    /// `cpu_tuple_cost`
    pub cpu_tuple_cost: f64,
    /// `cpu_index_tuple_cost`
    pub cpu_index_tuple_cost: f64,
    /// `cpu_operator_cost`
    pub cpu_operator_cost: f64,
    /// `effective_cache_size` in blocks.
    pub effective_cache_size: f64,
}

impl Default for CostSettings {
    fn default() -> Self {
        Self {
            seq_page_cost: 1.0,
            random_page_cost: 4.0,
            cpu_tuple_cost: 0.01,
            cpu_index_tuple_cost: 0.005,
            cpu_operator_cost: 0.0025,
            effective_cache_size: 524_288.0,
        }
    }
}

/// Planner settings with PostgreSQL's names.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a setting of its own")]
pub struct PlannerSettings {
    /// `enable_seqscan`
    pub enable_seqscan: bool,
    /// `enable_indexscan`
    pub enable_indexscan: bool,
    /// `enable_indexonlyscan`
    pub enable_indexonlyscan: bool,
    /// `enable_bitmapscan`
    pub enable_bitmapscan: bool,
    /// `enable_skipscan`, a setting of Niwaki only.
    pub enable_skipscan: bool,
    /// `enable_tidscan`
    pub enable_tidscan: bool,
    /// `enable_hashjoin`
    pub enable_hashjoin: bool,
    /// `enable_nestloop`
    pub enable_nestloop: bool,
    /// `enable_mergejoin`
    pub enable_mergejoin: bool,
    /// `enable_incremental_sort`
    pub enable_incremental_sort: bool,
    /// `enable_hashagg`
    pub enable_hashagg: bool,
    /// Bytes that a hash table may take in memory: `work_mem` times `hash_mem_multiplier`.
    pub hash_memory: f64,
    /// Costs.
    pub costs: CostSettings,
    /// `max_parallel_workers_per_gather`: threads of a step besides the session's own.
    pub parallel_workers: usize,
    /// `min_parallel_table_scan_size` in blocks.
    pub parallel_table_blocks: f64,
    /// The transaction's time, in microseconds since 2000. Estimates assume this time for every
    /// execution.
    pub now: i64,
}

impl Default for PlannerSettings {
    fn default() -> Self {
        Self {
            enable_seqscan: true,
            enable_indexscan: true,
            enable_indexonlyscan: true,
            enable_bitmapscan: true,
            enable_skipscan: true,
            enable_tidscan: true,
            enable_hashjoin: true,
            enable_nestloop: true,
            enable_mergejoin: true,
            enable_incremental_sort: true,
            enable_hashagg: true,
            hash_memory: 8.0 * 1024.0 * 1024.0,
            costs: CostSettings::default(),
            parallel_workers: 0,
            parallel_table_blocks: 1_024.0,
            now: 0,
        }
    }
}
