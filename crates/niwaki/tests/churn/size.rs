//! Size of the process, and resources of its databases.

use std::fmt;

use niwaki::Session;
use niwaki_env::vfs::OpenMode;
use niwaki_env::{Env, memory};

use crate::ok;

const KINDS: usize = 10;

/// Names of the counted resources.
const NAMES: [&str; KINDS] = [
    "relation files",
    "log files",
    "bytes of files",
    "bytes of memory",
    "resident bytes",
    "threads",
    "descriptors",
    "locks",
    "sessions",
    "relations",
];

/// Allowed difference of each count between rounds. Tables have more or fewer segments. The length
/// of a round's log determines how many of its files are kept. Autovacuum has up to three workers,
/// with their locks. The memory account is some 64 kB off for each thread.
const SLACK: [u64; KINDS] = [16, 48, 24 << 20, 24 << 20, 192 << 20, 4, 16, 10, 4, 8];

/// Counts from a database's views: locks, sessions, relations.
pub(crate) type Views = [u64; 3];

/// Reads the counts from the views.
pub(crate) fn views(session: &mut Session) -> Views {
    let sql = "select (select count(*) from pg_locks), (select count(*) from pg_stat_activity), \
               (select count(*) from pg_class)";
    let answer = ok(session, sql);
    let numbers: Vec<u64> = answer.split('|').filter_map(|text| text.parse().ok()).collect();
    numbers.try_into().unwrap_or_else(|_| panic!("{answer}"))
}

/// A count of each kind.
#[derive(Clone, Copy, Default)]
pub(crate) struct Size([u64; KINDS]);

impl Size {
    /// Counts the resources of the process and of these environments now.
    pub(crate) fn now(envs: &[Env], [locks, sessions, relations]: Views) -> Self {
        let mut files = [0; 3];
        for env in envs {
            for (sum, more) in files.iter_mut().zip(files_of(env)) {
                *sum += more;
            }
        }
        let [relation_files, log_files, bytes] = files;
        let memory = memory::used().0 as u64;
        let (threads, descriptors) = (entries("/proc/self/task"), entries("/proc/self/fd"));
        Self([
            relation_files,
            log_files,
            bytes,
            memory,
            resident_bytes(),
            threads,
            descriptors,
            locks,
            sessions,
            relations,
        ])
    }

    /// Returns the larger count of each kind.
    pub(crate) fn max(self, other: Self) -> Self {
        Self(std::array::from_fn(|kind| self.0[kind].max(other.0[kind])))
    }

    /// Fails if a count has grown beyond its first value and the allowed difference.
    pub(crate) fn assert_as_large_as(self, first: Self, when: &str) {
        for (kind, name) in NAMES.iter().enumerate() {
            let (now, most) = (self.0[kind], first.0[kind] + SLACK[kind]);
            assert!(now <= most, "{when}: {now} {name}, at first {}; {self}", first.0[kind]);
        }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = NAMES.iter().zip(self.0).map(|(name, number)| format!("{number} {name}"));
        f.write_str(&shown.collect::<Vec<_>>().join(", "))
    }
}

/// Returns the number of files outside the log, the number of log files, and the bytes of all.
fn files_of(env: &Env) -> [u64; 3] {
    let mut sums = [0; 3];
    for folder in ["", "base", "wal", "tmp", "aside"] {
        // Some of the folders may not exist.
        for name in env.vfs.list(folder).unwrap_or_default() {
            let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
            let file = env.vfs.open(&path, OpenMode::ReadOnly);
            sums[usize::from(folder == "wal")] += 1;
            // A file that was removed meanwhile has no bytes.
            sums[2] += file.and_then(|file| file.len()).unwrap_or(0);
        }
    }
    sums
}

/// Returns the number of entries of a system folder; 0 where the system has no such folder.
fn entries(folder: &str) -> u64 {
    std::fs::read_dir(folder).map_or(0, |entries| entries.count() as u64)
}

/// Returns the memory in use by the process, as the system reports it; 0 without a report.
fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}
