//! Crashes at every moment while vacuum truncates the end of a table and the table grows again.

use std::sync::Arc;

use niwaki_env::Env;
use niwaki_env::vfs::{CrashOptions, FaultyVfs};
use niwaki_table::HeapOnlyUpdates;

use crate::model::{Key, Rows, Step};
use crate::tables::TableDatabase;

/// Number of rows that stay; the rows behind them come and go.
const KEPT: Key = 3;
const KEYS: Key = 50;
/// Images of each moment.
const IMAGES: usize = 4;

fn open(env: Env, full_page_writes: bool) -> Result<TableDatabase, String> {
    let opened = TableDatabase::open(env, full_page_writes, HeapOnlyUpdates::AnyKey);
    opened.map_err(|error| error.to_string())
}

/// Opens what each crash leaves. All acknowledged rows are there, the indexes agree, and every
/// invariant holds. Without full-page images, redo needs each page that a record names, unless redo
/// knows that the page was cut off.
///
/// # Errors
/// The first requirement that fails.
pub fn every_crash() -> Result<(), String> {
    every_crash_with(true)?;
    every_crash_with(false)
}

fn every_crash_with(full_page_writes: bool) -> Result<(), String> {
    let open = |env| open(env, full_page_writes);
    let disk = FaultyVfs::new();
    let database = open(Env::simulated(Arc::new(disk.clone()), 1))?;
    let mut session = database.session().map_err(|error| error.to_string())?;
    disk.record();
    let base = disk.changes();
    // The rows from a number of changes of the disk on.
    let mut history = vec![(0, Rows::new())];
    for round in 0..3 {
        let mut steps: Vec<Step> = Vec::new();
        let first = if round == 0 { 0 } else { KEPT };
        steps.extend((first..KEYS).map(|key| Step::Insert(key, key * 7 + round)));
        steps.extend((KEPT..KEYS).map(Step::Delete));
        steps.push(Step::Vacuum);
        let at = steps.len() * (round as usize + 1) / 3 - 1;
        steps.insert(at, Step::Checkpoint);
        for step in steps {
            session.step(&step)?;
            let mut rows = history.last().map(|(_, rows)| rows.clone()).unwrap_or_default();
            match step {
                Step::Insert(key, value) => drop(rows.insert(key, value)),
                Step::Delete(key) => drop(rows.remove(&key)),
                _ => {}
            }
            history.push((disk.changes() - base, rows));
        }
    }
    if database.pages_cut() < 3 {
        return Err(format!("only {} pages were cut", database.pages_cut()));
    }
    drop((session, database));
    let changes = disk.history().ok_or("recording was on")?;
    let mut replay = changes.replay();
    while let Some(change) = replay.step() {
        let at = replay.done() as u64;
        let acknowledged = history.iter().rposition(|(then, _)| *then <= at).unwrap_or(0);
        // The commit in progress at that moment may be there or not.
        let possible = &history[acknowledged..(acknowledged + 2).min(history.len())];
        let options = CrashOptions {
            images_max: IMAGES,
            seed: at,
            torn_writes: full_page_writes,
            ..CrashOptions::default()
        };
        for image in replay.images(&options) {
            let what =
                |error| format!("{error}, after change {at} ({change:?}), {}", image.survivors);
            let database = open(Env::simulated(Arc::new(image.vfs), at)).map_err(what)?;
            database.check().map_err(what)?;
            let rows = database.rows().map_err(what)?;
            if !possible.iter().any(|(_, expected)| *expected == rows) {
                return Err(what(format!("the rows are {rows:?}, not {possible:?}")));
            }
        }
    }
    Ok(())
}
