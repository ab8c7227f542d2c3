//! Statistics of each database, and the starting point from which views show them.
//!
//! Counters of tables, indexes and files only ever grow, because autovacuum works with them. So
//! `pg_stat_reset()` remembers their values, and views show the difference:
//!
//! ```text
//!  counters   ──────┬──────────────────────┬──────► only ever grow
//!             pg_stat_reset()             now
//!                   └── what views show ───┘
//! ```

use std::sync::Arc;

use niwaki_env::hash::HashMap;
use niwaki_env::sync::Mutex;
use niwaki_env::sync::plain_atomic::{AtomicU64, Ordering};
use niwaki_nbtree::Index;
use niwaki_table::{Table, TempCounts};

/// Numbers of `pg_stat_database`, in the order of its columns. They are: commits, rollbacks, blocks
/// read and hit, rows returned, fetched, inserted, updated and deleted. Then come temporary files
/// and their bytes, deadlocks, sessions, and sessions killed.
pub type DatabaseNumbers = [u64; 14];
/// Numbers of `pg_stat_user_tables`: sequential scans and their rows, index scans and their rows,
/// rows inserted, updated, updated within their chain, deleted.
pub(crate) type TableNumbers = [u64; 8];
/// Numbers of `pg_stat_user_indexes`: scans, entries read.
pub(crate) type IndexNumbers = [u64; 2];
/// Numbers of a file: blocks read, blocks found in the pool.
pub type FileNumbers = [u64; 2];

/// Returns a table's counters since it was opened.
pub fn of_table(table: &Table) -> TableNumbers {
    let stats = table.stats();
    [
        stats.seq_scans,
        stats.seq_rows,
        stats.index_scans,
        stats.index_rows,
        stats.inserted,
        stats.updates.total(),
        stats.updates.heap_only_total(),
        stats.deleted,
    ]
}

/// Returns an index's counters since it was opened.
pub fn of_index(index: &Index) -> IndexNumbers {
    let stats = index.stats();
    [stats.scans, stats.entries_read]
}

/// Values of the counters at the last `pg_stat_reset()`, by the numbers of their objects.
#[derive(Debug, Default)]
pub struct Reset {
    /// Time of the reset, in microseconds since 2000.
    pub at_us: Option<i64>,
    /// Numbers of the database.
    pub database: DatabaseNumbers,
    /// Numbers of tables.
    pub tables: HashMap<u32, TableNumbers>,
    /// Numbers of indexes.
    pub indexes: HashMap<u32, IndexNumbers>,
    /// Numbers of files.
    pub files: HashMap<u64, FileNumbers>,
}

/// Number of cache lines for the transaction counters. Up to this number of sessions, each session
/// has a line of its own.
const SHARDS: usize = 16;

/// Counts of ended transactions, for the sessions that share this line.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Ended {
    commits: AtomicU64,
    rollbacks: AtomicU64,
}

/// Counters of one database since it was opened. All accesses are relaxed, because statistics order
/// nothing else.
#[derive(Debug, Default)]
pub struct DatabaseCounters {
    ended: [Ended; SHARDS],
    deadlocks: AtomicU64,
    sessions: AtomicU64,
    killed: AtomicU64,
    temp: Arc<TempCounts>,
    reset: Mutex<Reset>,
}

impl DatabaseCounters {
    /// Counts an ended transaction of a session. `deadlocks` is the number of the session's waits
    /// that ended in a deadlock.
    #[inline]
    pub fn transaction_ended(&self, session: i32, committed: bool, deadlocks: u64) {
        let ended = &self.ended[session.unsigned_abs() as usize % SHARDS];
        let counter = if committed { &ended.commits } else { &ended.rollbacks };
        counter.fetch_add(1, Ordering::Relaxed);
        if deadlocks > 0 {
            self.deadlocks.fetch_add(deadlocks, Ordering::Relaxed);
        }
    }

    /// Counts a client's session that began.
    pub fn session_began(&self) {
        self.sessions.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a client's session that ended because it was told to.
    pub fn session_killed(&self) {
        self.killed.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the counters of the statements' temporary files.
    pub fn temp(&self) -> &Arc<TempCounts> {
        &self.temp
    }

    /// Returns all numbers since the database was opened. The caller gives the numbers of
    /// tables and files.
    pub fn numbers(&self, blocks: FileNumbers, rows: [u64; 5]) -> DatabaseNumbers {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let [blocks_read, blocks_hit] = blocks;
        let [returned, fetched, inserted, updated, deleted] = rows;
        [
            self.ended.iter().map(|ended| read(&ended.commits)).sum(),
            self.ended.iter().map(|ended| read(&ended.rollbacks)).sum(),
            blocks_read,
            blocks_hit,
            returned,
            fetched,
            inserted,
            updated,
            deleted,
            self.temp.made(),
            self.temp.bytes_written(),
            read(&self.deadlocks),
            read(&self.sessions),
            read(&self.killed),
        ]
    }

    /// Makes views show only the growth beyond these numbers.
    pub fn reset(&self, reset: Reset) {
        *self.reset.lock() = reset;
    }

    /// Returns the time of the last reset, in microseconds since 2000.
    pub fn reset_at_us(&self) -> Option<i64> {
        self.reset.lock().at_us
    }

    /// Returns the database's numbers as views show them.
    pub fn shown(&self, now: DatabaseNumbers) -> DatabaseNumbers {
        since(now, Some(&self.reset.lock().database))
    }

    /// Returns a table's numbers as views show them.
    pub fn shown_of_table(&self, oid: u32, now: TableNumbers) -> TableNumbers {
        since(now, self.reset.lock().tables.get(&oid))
    }

    /// Returns an index's numbers as views show them.
    pub fn shown_of_index(&self, oid: u32, now: IndexNumbers) -> IndexNumbers {
        since(now, self.reset.lock().indexes.get(&oid))
    }

    /// Returns a file's numbers as views show them.
    pub fn shown_of_file(&self, file: u64, now: FileNumbers) -> FileNumbers {
        since(now, self.reset.lock().files.get(&file))
    }
}

/// Returns the growth from `then` to `now`. A counter that is lower now has begun anew, or lost an
/// object; its present value counts.
fn since<const N: usize>(now: [u64; N], then: Option<&[u64; N]>) -> [u64; N] {
    let Some(then) = then else { return now };
    let mut difference = now;
    for (now, then) in difference.iter_mut().zip(then) {
        *now = now.checked_sub(*then).unwrap_or(*now);
    }
    difference
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_show_what_came_after_the_reset() {
        let counters = DatabaseCounters::default();
        let before = || counters.numbers([5, 6], [1, 2, 3, 4, 5]);
        counters.transaction_ended(1, true, 0);
        counters.transaction_ended(2, false, 2);
        assert_eq!(counters.shown(before()), [1, 1, 5, 6, 1, 2, 3, 4, 5, 0, 0, 2, 0, 0]);
        let tables = HashMap::from_iter([(7, [1; 8])]);
        counters.reset(Reset { at_us: Some(9), database: before(), tables, ..Reset::default() });
        counters.transaction_ended(3, true, 0);
        assert_eq!(counters.shown(before()), [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(counters.shown_of_table(7, [3, 1, 0, 1, 1, 1, 1, 1]), [2, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(counters.shown_of_table(8, [3; 8]), [3; 8]);
        assert_eq!(counters.reset_at_us(), Some(9));
    }

    /// Once all commits of a database shared one cache line of counters, and each commit felt it.
    #[test]
    fn sessions_count_their_transactions_on_lines_of_their_own() {
        assert!(size_of::<Ended>() >= 64);
        let counters = DatabaseCounters::default();
        for session in 1..=40 {
            counters.transaction_ended(session, true, 0);
            counters.transaction_ended(session, false, 0);
        }
        assert_eq!(counters.numbers([0; 2], [0; 5])[..2], [40, 40]);
        let lines = counters.ended.iter().filter(|ended| {
            let seen = ended.commits.load(Ordering::Relaxed);
            (2..=3).contains(&seen)
        });
        assert_eq!(lines.count(), SHARDS);
    }
}
