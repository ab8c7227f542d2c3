//! Inputs of plans: the locks that they need, and the settings for the planner.

use niwaki_catalog::Catalog;
use niwaki_sql::settings::HotSettings;
use niwaki_sql::{Planned, PlannerSettings, Result};
use niwaki_txn::{Transaction, WaitPolicy};

/// Takes the table locks of a plan.
pub(crate) fn lock_relations(
    transaction: &Transaction,
    catalog: &Catalog,
    planned: &Planned,
) -> Result<()> {
    for (relation, lock) in planned.relations() {
        if relation.view.is_some() {
            continue;
        }
        transaction.manager().locks().acquire_table(
            transaction,
            catalog.table_number(relation.oid),
            *lock,
            WaitPolicy::Block,
        )?;
    }
    Ok(())
}

/// Returns the settings for the planner. `now` is the transaction's time in microseconds since
/// 2000.
pub(crate) fn planner_settings(hot: &HotSettings, now: i64) -> PlannerSettings {
    PlannerSettings {
        enable_seqscan: hot.enable_seqscan,
        enable_indexscan: hot.enable_indexscan,
        enable_indexonlyscan: hot.enable_indexonlyscan,
        enable_bitmapscan: hot.enable_bitmapscan,
        enable_skipscan: hot.enable_skipscan,
        enable_tidscan: hot.enable_tidscan,
        enable_hashjoin: hot.enable_hashjoin,
        enable_mergejoin: hot.enable_mergejoin,
        enable_nestloop: hot.enable_nestloop,
        enable_incremental_sort: hot.enable_incremental_sort,
        enable_hashagg: hot.enable_hashagg,
        hash_memory: hot.hash_mem_bytes as f64,
        costs: hot.costs,
        parallel_workers: hot.parallel_workers,
        parallel_table_blocks: hot.parallel_table_blocks,
        now,
    }
}
