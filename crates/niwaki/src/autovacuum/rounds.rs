//! Which tables need something, in the order in which they get it.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use niwaki_catalog::{CatalogState, Relation};
use niwaki_env::hash::HashMap;
use niwaki_env::sync::Mutex;
use niwaki_sql::settings::Settings;
use niwaki_storage::Csn;
use niwaki_table::{Engine, Table, TableStats};
use niwaki_txn::{Holders, SessionControl, TableId};
use niwaki_vacuum::VacuumOptions;

use super::limits::AutovacuumSettings;
use super::need::{Need, Numbers, need};
use crate::Result;
use crate::activity::Activities;
use crate::databases::Databases;
use crate::log::Log;
use crate::progress::Vacuums;
use crate::vacuum_options::by_settings_of_autovacuum;

/// Autovacuum of all databases: what its launcher, its workers and [`crate::Database::maintain`] share.
#[derive(Debug)]
pub(crate) struct Autovacuum {
    pub(super) engine: Arc<Engine>,
    pub(super) databases: Arc<Databases>,
    pub(super) activities: Arc<Activities>,
    pub(super) settings: AutovacuumSettings,
    /// How tables are vacuumed that say nothing themselves.
    pub(super) options: VacuumOptions,
    pub(super) vacuums: Arc<Vacuums>,
    pub(super) log: Log,
    /// What is remembered of each table.
    memory: Mutex<Memory>,
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Memory {
    round: u64,
    /// By number (`table_number`).
    tables: HashMap<TableId, Remembered>,
}

/// What is remembered of a table from one round to the next.
#[derive(Debug, Default)]
struct Remembered {
    /// The round in which it was first found to need something that it has not got since.
    wanted_since: Option<u64>,
    /// It met with an error last time.
    failed: bool,
    /// How many versions the last vacuum left to open snapshots, and the oldest snapshot then.
    held: (u64, Csn),
    /// What it was, and counted, when it needed nothing and had nothing dead: as long as that is so, it is not looked at.
    at_rest: Option<(Weak<Relation>, TableStats)>,
}

/// What the workers take from.
#[derive(Debug, Default)]
struct Queue {
    stopped: bool,
    waiting: VecDeque<TableId>,
    /// Tables that somebody works on.
    running: HashMap<TableId, Arc<SessionControl>>,
}

/// A table that nobody else takes while this lives.
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
    pub(crate) fn new(
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

    /// Looks at all tables and makes the queue anew. How many are in it.
    pub(super) fn look_around(&self) -> usize {
        let states: Vec<Arc<CatalogState>> =
            self.databases.all().iter().map(|open| open.catalog().state_arc()).collect();
        let holders = self.engine.transactions().holders();
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

    /// What a table needs; everything, if that cannot be found out: then the error is told.
    fn need_now(
        &self,
        relation: &Arc<Relation>,
        holders: &Holders,
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
        // Nobody reads it: then nobody reads what is dead in it, and its files stay closed.
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

    /// Reads what is known of a table.
    fn numbers(
        &self,
        relation: &Relation,
        table: &Table,
        holders: &Holders,
        (left, left_at): (u64, Csn),
    ) -> Result<Numbers> {
        let stats = table.maintenance_stats();
        // What the last vacuum left, it would leave again as long as the oldest snapshot is the same; and what passes noted,
        // as long as one of those is open for which they left it.
        let oldest = self.engine.transactions().horizon().oldest();
        let left = if oldest == left_at { left } else { 0 };
        Ok(Numbers {
            rows: (relation.stats.tuples >= 0.0).then_some(relation.stats.tuples),
            pages_then: relation.stats.pages,
            has_statistics: has_statistics(relation),
            pages: table.blocks()?,
            hidden_pages: table.hidden_pages()?,
            dead: stats.dead,
            held: left.max(table.noted_holds(holders).versions),
            inserted: stats.inserted,
            modified: stats.modified,
            vacuumed: stats.vacuumed,
            analyzed: stats.analyzed,
        })
    }

    /// What a table needs now that it is locked: somebody may have seen to it meanwhile.
    pub(super) fn still_needs(&self, table: TableId, relation: &Arc<Relation>) -> Need {
        let holders = self.engine.transactions().holders();
        let mut memory = self.memory.lock();
        let remembered = memory.tables.entry(table).or_default();
        remembered.at_rest = None;
        self.need_now(relation, &holders, remembered)
    }

    /// A vacuum left so many versions to open snapshots.
    pub(super) fn note_held(&self, table: TableId, versions: u64) {
        let oldest = self.engine.transactions().horizon().oldest();
        self.memory.lock().tables.entry(table).or_default().held = (versions, oldest);
    }

    /// A table was done, or could not be locked (`done` false), or met with an error.
    pub(super) fn note_end(&self, table: TableId, done: bool, failed: bool) {
        let mut memory = self.memory.lock();
        let remembered = memory.tables.entry(table).or_default();
        remembered.failed = failed;
        if done {
            remembered.wanted_since = None;
        }
    }

    /// The next table, for this session to work on.
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

    /// Nothing is begun any more, and what runs is told to end.
    pub(super) fn stop(&self) {
        let mut queue = self.queue.lock();
        queue.stopped = true;
        queue.waiting.clear();
        for session in queue.running.values() {
            session.terminate();
        }
    }
}

/// A table that needs something.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    table: TableId,
    failed: bool,
    since: u64,
    urgency: f64,
}

impl Wanted {
    /// Who comes first: who did not fail; who has waited longest; who needs it most.
    fn order(&self, other: &Self) -> Ordering {
        let (one, two) = ((self.failed, self.since), (other.failed, other.since));
        let urgency = other.urgency.total_cmp(&self.urgency);
        one.cmp(&two).then(urgency).then(self.table.cmp(&other.table))
    }
}

/// Whether ANALYZE has been there; of a table without columns it remembers the rows alone.
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
