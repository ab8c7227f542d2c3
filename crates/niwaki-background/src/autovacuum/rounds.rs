//! The queue of tables that need VACUUM or ANALYZE.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use niwaki_catalog::{CatalogState, Relation};
use niwaki_directory::databases::Databases;
use niwaki_directory::log::Log;
use niwaki_env::hash::HashMap;
use niwaki_env::sync::Mutex;
use niwaki_sql::Result;
use niwaki_sql::settings::Settings;
use niwaki_storage::Csn;
use niwaki_system::monitor::activity::Activities;
use niwaki_system::monitor::progress::Vacuums;
use niwaki_table::{Engine, Table, TableStats};
use niwaki_txn::{RegisteredSnapshots, SessionControl, TableId};
use niwaki_vacuum::VacuumOptions;

use crate::autovacuum::limits::AutovacuumSettings;
use crate::autovacuum::need::{Need, Numbers, need};
use crate::vacuum_options::by_settings_of_autovacuum;

/// Autovacuum of all databases. Its launcher, its workers and `Database::maintain` share
/// it.
#[derive(Debug)]
pub struct Autovacuum {
    pub(super) engine: Arc<Engine>,
    pub(super) databases: Arc<Databases>,
    pub(super) activities: Arc<Activities>,
    pub(super) settings: AutovacuumSettings,
    /// Vacuum options of tables without options of their own.
    pub(super) options: VacuumOptions,
    pub(super) vacuums: Arc<Vacuums>,
    pub(super) log: Log,
    /// State of each table from earlier rounds.
    memory: Mutex<Memory>,
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Memory {
    round: u64,
    /// States by table number (`table_number`).
    tables: HashMap<TableId, Remembered>,
}

/// State of a table that is kept from one round to the next.
#[derive(Debug, Default)]
struct Remembered {
    /// The round that first found the present need of the table.
    wanted_since: Option<u64>,
    /// The last work on the table ended with an error.
    failed: bool,
    /// Versions that the last vacuum left to open snapshots, and the oldest snapshot of that time.
    held: (u64, Csn),
    /// The table and its counters at a time without needs and dead versions. While both are
    /// unchanged, the table is not examined.
    at_rest: Option<(Weak<Relation>, TableStats)>,
}

/// Queue from which the workers take tables.
#[derive(Debug, Default)]
struct Queue {
    stopped: bool,
    waiting: VecDeque<TableId>,
    /// Tables in work, with the sessions of their workers.
    running: HashMap<TableId, Arc<SessionControl>>,
}

/// A table in work. While this value lives, no other worker takes the table.
#[derive(Debug)]
pub(super) struct Taken<'a> {
    autovacuum: &'a Autovacuum,
    pub(super) table: TableId,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.autovacuum.queue.lock().running.remove(&self.table);
    }
}

impl Autovacuum {
    /// Creates autovacuum for these databases, with the server's settings.
    pub fn new(
        engine: Arc<Engine>,
        databases: Arc<Databases>,
        activities: Arc<Activities>,
        vacuums: Arc<Vacuums>,
        settings: &Settings,
        log: Log,
    ) -> Arc<Self> {
        Arc::new(Self {
            engine,
            databases,
            activities,
            settings: AutovacuumSettings::new(settings),
            options: by_settings_of_autovacuum(settings),
            vacuums,
            log,
            memory: Mutex::default(),
            queue: Mutex::default(),
        })
    }

    /// Examines all tables and rebuilds the queue. Returns its length.
    pub(super) fn look_around(&self) -> usize {
        let states: Vec<Arc<CatalogState>> =
            self.databases.all().iter().map(|open| open.catalog().state_arc()).collect();
        let holders = self.engine.transactions().registered_snapshots();
        let mut memory = self.memory.lock();
        let Memory { round, tables } = &mut *memory;
        *round += 1;
        let stored = |state: &'_ CatalogState| -> Vec<(TableId, Arc<Relation>)> {
            let tables = state.with_rows().filter(|relation| relation.table.is_some());
            tables.map(|table| (state.table_number(table.oid), Arc::clone(table))).collect()
        };
        let found: HashMap<TableId, Arc<Relation>> =
            states.iter().flat_map(|state| stored(state)).collect();
        tables.retain(|table, _| found.contains_key(table));
        let mut wanted = Vec::new();
        for (table, relation) in &found {
            let remembered = tables.entry(*table).or_default();
            let need = self.need_now(relation, &holders, remembered);
            if need.is_any() {
                let since = *remembered.wanted_since.get_or_insert(*round);
                wanted.push(Wanted {
                    table: *table,
                    failed: remembered.failed,
                    since,
                    urgency: need.urgency(),
                });
            } else {
                remembered.wanted_since = None;
                remembered.failed = false;
            }
        }
        wanted.sort_by(Wanted::order);
        let mut queue = self.queue.lock();
        let free =
            wanted.iter().map(|w| w.table).filter(|table| !queue.running.contains_key(table));
        queue.waiting = free.collect();
        queue.waiting.len()
    }

    /// Returns the needs of a table. If reading its numbers fails, both needs are returned, so that
    /// the work meets the error and reports it.
    fn need_now(
        &self,
        relation: &Arc<Relation>,
        holders: &RegisteredSnapshots,
        remembered: &mut Remembered,
    ) -> Need {
        let Some(table) = &relation.table else { return Need::default() };
        let stats = table.stats();
        if let Some((was, counted)) = &remembered.at_rest
            && std::ptr::eq(was.as_ptr(), Arc::as_ptr(relation))
            && *counted == stats
        {
            return Need::default();
        }
        remembered.at_rest = None;
        // No statement has used the table, so no reader is slowed by its dead versions. Its files
        // stay closed.
        if !table.is_used() && has_statistics(relation) {
            return Need::default();
        }
        let limits = self.settings.limits(&relation.options);
        match self.numbers(relation, table, holders, remembered.held) {
            Ok(numbers) => {
                let need = need(&numbers, &limits);
                if !need.is_any() && numbers.dead == 0 {
                    remembered.at_rest = Some((Arc::downgrade(relation), stats));
                }
                need
            }
            Err(_) if limits.enabled => Need { vacuum: Some(1.0), analyze: Some(1.0) },
            Err(_) => Need::default(),
        }
    }

    /// Reads the numbers of a table.
    fn numbers(
        &self,
        relation: &Relation,
        table: &Table,
        holders: &RegisteredSnapshots,
        (left, left_at): (u64, Csn),
    ) -> Result<Numbers> {
        let stats = table.maintenance_stats();
        // A new vacuum would leave the same versions as the last one while the oldest snapshot is
        // the same. The versions noted by passes stay while a snapshot is open that kept them.
        let oldest = self.engine.transactions().horizon().oldest();
        let left = if oldest == left_at { left } else { 0 };
        Ok(Numbers {
            rows: (relation.stats.tuples >= 0.0).then_some(relation.stats.tuples),
            pages_then: relation.stats.pages,
            has_statistics: has_statistics(relation),
            pages: table.blocks()?,
            hidden_pages: table.hidden_pages()?,
            dead: stats.dead,
            held: left.max(table.noted_retention(holders).versions),
            inserted: stats.inserted,
            modified: stats.modified,
            vacuumed: stats.vacuumed,
            analyzed: stats.analyzed,
        })
    }

    /// Returns the needs of a table that is locked now. Another session may have done the work
    /// meanwhile.
    pub(super) fn still_needs(&self, table: TableId, relation: &Arc<Relation>) -> Need {
        let holders = self.engine.transactions().registered_snapshots();
        let mut memory = self.memory.lock();
        let remembered = memory.tables.entry(table).or_default();
        remembered.at_rest = None;
        self.need_now(relation, &holders, remembered)
    }

    /// Notes how many versions a vacuum left to open snapshots.
    pub(super) fn note_held(&self, table: TableId, versions: u64) {
        let oldest = self.engine.transactions().horizon().oldest();
        self.memory.lock().tables.entry(table).or_default().held = (versions, oldest);
    }

    /// Notes the end of the work on a table. `done` is false when the lock was not free.
    pub(super) fn note_end(&self, table: TableId, done: bool, failed: bool) {
        let mut memory = self.memory.lock();
        let remembered = memory.tables.entry(table).or_default();
        remembered.failed = failed;
        if done {
            remembered.wanted_since = None;
        }
    }

    /// Takes the next table of the queue for this session.
    pub(super) fn take(&self, session: &Arc<SessionControl>) -> Option<Taken<'_>> {
        let mut queue = self.queue.lock();
        if queue.stopped {
            return None;
        }
        // Ends: the queue gets shorter.
        while let Some(table) = queue.waiting.pop_front() {
            if !queue.running.contains_key(&table) {
                queue.running.insert(table, Arc::clone(session));
                return Some(Taken { autovacuum: self, table });
            }
        }
        None
    }

    /// Stops the queue and tells the running workers to end.
    pub(super) fn stop(&self) {
        let mut queue = self.queue.lock();
        queue.stopped = true;
        queue.waiting.clear();
        for session in queue.running.values() {
            session.terminate();
        }
    }
}

/// A table with needs, as the queue sorts it.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    table: TableId,
    failed: bool,
    since: u64,
    urgency: f64,
}

impl Wanted {
    /// Orders tables without a failure first, then the longest needs, then the most urgent ones.
    fn order(&self, other: &Self) -> Ordering {
        let (one, two) = ((self.failed, self.since), (other.failed, other.since));
        let urgency = other.urgency.total_cmp(&self.urgency);
        one.cmp(&two).then(urgency).then(self.table.cmp(&other.table))
    }
}

/// Decides whether ANALYZE has run. A table without columns has only its row count as statistics.
fn has_statistics(relation: &Relation) -> bool {
    let stats = &relation.stats;
    !stats.columns.is_empty() || relation.columns.is_empty() && stats.tuples >= 0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_wanted_comes_first_then_the_worst() {
        let wanted = |number, failed, since, urgency| Wanted {
            table: TableId(number),
            failed,
            since,
            urgency,
        };
        let mut all = [
            wanted(1, true, 1, 90.0),
            wanted(2, false, 3, 7.0),
            wanted(3, false, 2, 1.5),
            wanted(4, false, 3, 70.0),
            wanted(6, false, 3, 7.0),
            wanted(5, true, 1, 99.0),
        ];
        all.sort_by(Wanted::order);
        assert_eq!(all.map(|w| w.table.0), [3, 4, 2, 6, 5, 1]);
    }
}
