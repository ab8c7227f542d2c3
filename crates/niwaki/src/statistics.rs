//! What is counted of each database, and since when views show it.
//!
//! Counters of tables, indexes and files only ever grow: autovacuum works with them. So
//! `pg_stat_reset()` remembers what they said, and views show the difference:
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

/// Numbers of `pg_stat_database`, in the order of its columns: commits, rollbacks, blocks read and
/// hit, rows returned, fetched, inserted, updated and deleted, temporary files and their bytes,
/// deadlocks, sessions, sessions killed.
pub(crate) type DatabaseNumbers = [u64; 14];
/// Numbers of `pg_stat_user_tables`: sequential scans and their rows, index scans and their rows,
/// rows inserted, updated, updated within their chain, deleted.
pub(crate) type TableNumbers = [u64; 8];
/// Numbers of `pg_stat_user_indexes`: scans, entries read.
pub(crate) type IndexNumbers = [u64; 2];
/// Numbers of a file: blocks read, blocks found in the pool.
pub(crate) type FileNumbers = [u64; 2];

/// What a table counted since it was opened.
pub(crate) fn of_table(table: &Table) -> TableNumbers {
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

/// What an index counted since it was opened.
pub(crate) fn of_index(index: &Index) -> IndexNumbers {
    let stats = index.stats();
    [stats.scans, stats.entries_read]
}

/// What counters said at the last `pg_stat_reset()`, by the numbers of their objects.
#[derive(Debug, Default)]
pub(crate) struct Reset {
    /// When that was, in microseconds since 2000.
    pub(crate) at_us: Option<i64>,
    pub(crate) database: DatabaseNumbers,
    pub(crate) tables: HashMap<u32, TableNumbers>,
    pub(crate) indexes: HashMap<u32, IndexNumbers>,
    pub(crate) files: HashMap<u64, FileNumbers>,
}

/// Cache lines that hold the counters of transactions: up to this number of sessions, none waits for
/// the line of another.
const SHARDS: usize = 16;

/// Transactions of some sessions that ended.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Ended {
    commits: AtomicU64,
    rollbacks: AtomicU64,
}

/// Counters of one database since it was opened. Relaxed throughout: nothing else is ordered by a
/// statistic.
#[derive(Debug, Default)]
pub(crate) struct DatabaseCounters {
    ended: [Ended; SHARDS],
    deadlocks: AtomicU64,
    sessions: AtomicU64,
    killed: AtomicU64,
    temp: Arc<TempCounts>,
    reset: Mutex<Reset>,
}

impl DatabaseCounters {
    /// A transaction of a session ended; `deadlocks` ended waits of the session.
    pub(crate) fn transaction_ended(&self, session: i32, committed: bool, deadlocks: u64) {
        let ended = &self.ended[session.unsigned_abs() as usize % SHARDS];
        let counter = if committed { &ended.commits } else { &ended.rollbacks };
        counter.fetch_add(1, Ordering::Relaxed);
        if deadlocks > 0 {
            self.deadlocks.fetch_add(deadlocks, Ordering::Relaxed);
        }
    }

    /// A client's session began.
    pub(crate) fn session_began(&self) {
        self.sessions.fetch_add(1, Ordering::Relaxed);
    }

    /// A client's session ended because somebody told it to.
    pub(crate) fn session_killed(&self) {
        self.killed.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts temporary files of statements.
    pub(crate) fn temp(&self) -> &Arc<TempCounts> {
        &self.temp
    }

    /// All numbers since it was opened, with those of its tables and files, which the caller knows.
    pub(crate) fn numbers(&self, blocks: FileNumbers, rows: [u64; 5]) -> DatabaseNumbers {
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

    /// From now on views show what comes after these numbers.
    pub(crate) fn reset(&self, reset: Reset) {
        *self.reset.lock() = reset;
    }

    /// When that was last, in microseconds since 2000.
    pub(crate) fn reset_at_us(&self) -> Option<i64> {
        self.reset.lock().at_us
    }

    /// Of the database's numbers, what views show.
    pub(crate) fn shown(&self, now: DatabaseNumbers) -> DatabaseNumbers {
        since(now, Some(&self.reset.lock().database))
    }

    /// The same for a table.
    pub(crate) fn shown_of_table(&self, oid: u32, now: TableNumbers) -> TableNumbers {
        since(now, self.reset.lock().tables.get(&oid))
    }

    /// The same for an index.
    pub(crate) fn shown_of_index(&self, oid: u32, now: IndexNumbers) -> IndexNumbers {
        since(now, self.reset.lock().indexes.get(&oid))
    }

    /// The same for a file.
    pub(crate) fn shown_of_file(&self, file: u64, now: FileNumbers) -> FileNumbers {
        since(now, self.reset.lock().files.get(&file))
    }
}

/// What was counted since then. A counter that says less now has begun anew, or lost an object.
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

    /// The line of a counter that all commits of a database shared was felt by each of them.
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
