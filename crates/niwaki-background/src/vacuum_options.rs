//! Options of a vacuum, from the settings, the statement and the table.

use std::time::Duration;

use niwaki_catalog::RelationOptions;
use niwaki_sql::settings::Settings;
use niwaki_sql::utility::Vacuum;
use niwaki_storage::ReadAhead;
use niwaki_storage::page::PAGE_SIZE;
use niwaki_vacuum::{CostOptions, IndexCleanup, VacuumOptions};

/// Takes the options from the settings of a session.
pub fn by_settings(settings: &Settings) -> VacuumOptions {
    let number = |name| u32::try_from(settings.int(name)).unwrap_or(0);
    let hot = settings.hot();
    VacuumOptions {
        freeze_min_age: u64::from(number("vacuum_freeze_min_age")),
        index_cleanup: IndexCleanup::Auto,
        truncate: settings.bool("vacuum_truncate"),
        memory_bytes: hot.maintenance_work_mem_bytes,
        index_workers: hot.parallel_maintenance_workers,
        read_ahead: ReadAhead {
            concurrency: hot.maintenance_io_concurrency,
            combine: hot.io_combine_pages,
            ring: ring_pages(settings.int("vacuum_buffer_usage_limit")),
        },
        cost: CostOptions {
            delay: milliseconds(settings.float("vacuum_cost_delay")),
            limit: number("vacuum_cost_limit"),
            page_hit: number("vacuum_cost_page_hit"),
            page_miss: number("vacuum_cost_page_miss"),
            page_dirty: number("vacuum_cost_page_dirty"),
        },
        ..VacuumOptions::default()
    }
}

/// Takes autovacuum's options from its own settings; -1 there means the general setting.
pub(crate) fn by_settings_of_autovacuum(settings: &Settings) -> VacuumOptions {
    let all = by_settings(settings);
    let delay = settings.float("autovacuum_vacuum_cost_delay");
    let memory = usize::try_from(settings.int("autovacuum_work_mem"));
    let limit = u32::try_from(settings.int("autovacuum_vacuum_cost_limit")).unwrap_or(0);
    VacuumOptions {
        // Autovacuum's workers are threads of their own already.
        index_workers: 0,
        memory_bytes: memory.map_or(all.memory_bytes, |kilobytes| kilobytes.saturating_mul(1024)),
        cost: CostOptions {
            delay: if delay < 0.0 { all.cost.delay } else { milliseconds(delay) },
            limit: if limit == 0 { all.cost.limit } else { limit },
            ..all.cost
        },
        ..all
    }
}

/// Takes autovacuum's options for a table, which may have options of its own.
pub(crate) fn of_autovacuum(all: &VacuumOptions, table: &RelationOptions) -> VacuumOptions {
    let own = |name| table.get(name).and_then(|text| text.parse::<f64>().ok());
    let options = of_table(all.clone(), table);
    let delay = own("autovacuum_vacuum_cost_delay").filter(|delay| *delay >= 0.0);
    VacuumOptions {
        freeze_min_age: own("autovacuum_freeze_min_age")
            .map_or(options.freeze_min_age, |age| age as u64),
        cost: CostOptions {
            delay: delay.map_or(options.cost.delay, milliseconds),
            limit: own("autovacuum_vacuum_cost_limit")
                .map_or(options.cost.limit, |limit| limit as u32),
            ..options.cost
        },
        ..options
    }
}

/// Applies the table's own options.
pub fn of_table(options: VacuumOptions, table: &RelationOptions) -> VacuumOptions {
    let index_cleanup = match table.get("vacuum_index_cleanup") {
        Some("on") => IndexCleanup::On,
        Some("off") => IndexCleanup::Off,
        _ => options.index_cleanup,
    };
    let truncate = table.switch("vacuum_truncate").unwrap_or(options.truncate);
    VacuumOptions { index_cleanup, truncate, ..options }
}

/// Takes the options of a VACUUM statement, which override the table's.
pub fn of_statement(
    settings: &Settings,
    vacuum: &Vacuum,
    table: &RelationOptions,
) -> VacuumOptions {
    let options = of_table(by_settings(settings), table);
    VacuumOptions {
        freeze_min_age: if vacuum.freeze { 0 } else { options.freeze_min_age },
        skip_pages: !vacuum.disable_page_skipping,
        index_cleanup: vacuum.index_cleanup.unwrap_or(options.index_cleanup),
        index_workers: vacuum.parallel.map_or(options.index_workers, |most| {
            options.index_workers.min(usize::try_from(most).unwrap_or(0))
        }),
        large_values: vacuum.process_large_values,
        read_ahead: read_ahead_of(settings, vacuum),
        truncate: vacuum.truncate.unwrap_or(options.truncate),
        ..options
    }
}

/// Returns how far VACUUM and ANALYZE read ahead, and how much of the pool they use, by the
/// settings and the statement.
fn read_ahead_of(settings: &Settings, statement: &Vacuum) -> ReadAhead {
    let all = by_settings(settings).read_ahead;
    ReadAhead { ring: statement.buffer_usage_limit.map_or(all.ring, ring_pages), ..all }
}

/// Converts `vacuum_buffer_usage_limit` to pages.
fn ring_pages(kilobytes: i64) -> u32 {
    u32::try_from(kilobytes / (PAGE_SIZE as i64 / 1024)).unwrap_or(0)
}

fn milliseconds(number: f64) -> Duration {
    Duration::try_from_secs_f64(number / 1000.0).unwrap_or_default()
}
