//! Registered snapshots and the versions that they keep, for monitoring.

use std::ops::Range;

use niwaki_storage::Csn;

use crate::handle::manager::TransactionManager;

/// A registered snapshot, as monitoring shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RegisteredSnapshot {
    /// The snapshot sees commits up to this one.
    pub csn: Csn,
    /// The session that holds the snapshot.
    pub session: i32,
    /// True if the snapshot may follow update chains past the versions it sees (rule `stub`).
    pub may_follow: bool,
    /// Start of the statement that took the snapshot, in microseconds since 1970.
    pub taken_us: i64,
}

/// All snapshots that were registered at one reading of the slots.
///
/// For a version that had ended by then, the list holds every snapshot that keeps it: a snapshot
/// taken later sees the version's end.
#[derive(Clone, Debug, Default)]
pub struct RegisteredSnapshots {
    current: Csn,
    interval: bool,
    /// Oldest first. Two snapshots of one CSN stand twice: releasing one of them frees nothing.
    snapshots: Vec<RegisteredSnapshot>,
}

impl RegisteredSnapshots {
    /// Returns the snapshots, oldest first.
    pub fn snapshots(&self) -> &[RegisteredSnapshot] {
        &self.snapshots
    }

    /// Returns the range of [`RegisteredSnapshots::snapshots`] that keep a version which lived from
    /// commit `begin` to commit `end`.
    ///
    /// An empty range: no snapshot needs the version, and the next pass removes it. `None`: the
    /// version had not ended for all snapshots.
    pub fn keeping(&self, begin: Csn, end: Csn) -> Option<Range<usize>> {
        let first = if self.interval { begin } else { Csn(0) };
        (end <= self.current).then(|| self.below(first)..self.below(end))
    }

    /// Returns the range of [`RegisteredSnapshots::snapshots`] from `first` to `last`, both
    /// included.
    pub fn between(&self, first: Csn, last: Csn) -> Range<usize> {
        self.below(first)..self.snapshots.partition_point(|snapshot| snapshot.csn <= last)
    }

    fn below(&self, csn: Csn) -> usize {
        self.snapshots.partition_point(|snapshot| snapshot.csn < csn)
    }
}

impl TransactionManager {
    /// Reads all registered snapshots.
    pub fn registered_snapshots(&self) -> RegisteredSnapshots {
        let (current, registered) = self.slots.registered();
        let as_seen = |(session, csn, may_follow, taken_us)| RegisteredSnapshot {
            csn,
            session,
            may_follow,
            taken_us,
        };
        let mut snapshots: Vec<RegisteredSnapshot> = registered.into_iter().map(as_seen).collect();
        snapshots.sort_unstable();
        RegisteredSnapshots { current, interval: self.options().interval_gc, snapshots }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshots(interval: bool, csns: &[u64]) -> RegisteredSnapshots {
        let snapshot = |&csn: &u64| RegisteredSnapshot {
            csn: Csn(csn),
            session: 1,
            may_follow: false,
            taken_us: 0,
        };
        RegisteredSnapshots {
            current: Csn(50),
            interval,
            snapshots: csns.iter().map(snapshot).collect(),
        }
    }

    #[test]
    fn a_version_is_kept_by_the_snapshots_of_its_lifetime() {
        let snapshots = snapshots(true, &[10, 20, 20, 30]);
        let keeping = |begin, end| snapshots.keeping(Csn(begin), Csn(end));
        assert_eq!(keeping(5, 10), Some(0..0), "ended at the oldest one");
        assert_eq!(keeping(5, 11), Some(0..1));
        assert_eq!(keeping(10, 20), Some(0..1));
        assert_eq!(keeping(11, 20), Some(1..1));
        assert_eq!(keeping(11, 21), Some(1..3), "two of one number are two");
        assert_eq!(keeping(30, 50), Some(3..4));
        assert_eq!(keeping(30, 51), None, "not ended yet");
        assert_eq!(snapshots.between(Csn(10), Csn(20)), 0..3);
        assert_eq!(snapshots.between(Csn(11), Csn(19)), 1..1);
    }

    #[test]
    fn without_intervals_the_oldest_snapshots_keep_everything_since() {
        let snapshots = snapshots(false, &[10, 20]);
        assert_eq!(snapshots.keeping(Csn(11), Csn(15)), Some(0..1));
        assert_eq!(snapshots.keeping(Csn(5), Csn(9)), Some(0..0));
        assert_eq!(snapshots.keeping(Csn(30), Csn(40)), Some(0..2));
    }
}
