//! Who holds what: which registered snapshots keep a version.

use std::ops::Range;

use niwaki_storage::Csn;

use crate::manager::TransactionManager;

/// A registered snapshot, as others see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RegisteredSnapshot {
    /// It sees commits up to this one.
    pub csn: Csn,
    /// Its session.
    pub session: i32,
    /// Whether it may follow update chains past what it sees (rule 9b.6).
    pub may_follow: bool,
    /// When the statement began that took it, in microseconds since 1970.
    pub taken_us: i64,
}

/// All snapshots that were registered at one reading of the slots.
///
/// A version that had ended by then has all its keepers in it: who takes a snapshot later sees its end.
#[derive(Clone, Debug, Default)]
pub struct Holders {
    current: Csn,
    interval: bool,
    /// Oldest first. Two of one CSN are two: the end of one frees nothing.
    snapshots: Vec<RegisteredSnapshot>,
}

impl Holders {
    /// The snapshots, oldest first.
    pub fn snapshots(&self) -> &[RegisteredSnapshot] {
        &self.snapshots
    }

    /// Which of [`Holders::snapshots`] keep a version that lived from commit `begin` to commit `end`. Empty: nobody
    /// needs it, the next pass takes it away. `None`: it had not ended for all.
    pub fn keeping(&self, begin: Csn, end: Csn) -> Option<Range<usize>> {
        let first = if self.interval { begin } else { Csn(0) };
        (end <= self.current).then(|| self.below(first)..self.below(end))
    }

    /// Which of [`Holders::snapshots`] are from `first` to `last`, both included.
    pub fn between(&self, first: Csn, last: Csn) -> Range<usize> {
        self.below(first)..self.snapshots.partition_point(|snapshot| snapshot.csn <= last)
    }

    fn below(&self, csn: Csn) -> usize {
        self.snapshots.partition_point(|snapshot| snapshot.csn < csn)
    }
}

impl TransactionManager {
    /// Reads who holds a snapshot now.
    pub fn holders(&self) -> Holders {
        let (current, registered) = self.slots.registered();
        let as_seen = |(session, csn, may_follow, taken_us)| RegisteredSnapshot {
            csn,
            session,
            may_follow,
            taken_us,
        };
        let mut snapshots: Vec<RegisteredSnapshot> = registered.into_iter().map(as_seen).collect();
        snapshots.sort_unstable();
        Holders { current, interval: self.options().interval_gc, snapshots }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holders(interval: bool, csns: &[u64]) -> Holders {
        let snapshot = |&csn: &u64| RegisteredSnapshot {
            csn: Csn(csn),
            session: 1,
            may_follow: false,
            taken_us: 0,
        };
        Holders { current: Csn(50), interval, snapshots: csns.iter().map(snapshot).collect() }
    }

    #[test]
    fn a_version_is_kept_by_the_snapshots_of_its_lifetime() {
        let holders = holders(true, &[10, 20, 20, 30]);
        let keeping = |begin, end| holders.keeping(Csn(begin), Csn(end));
        assert_eq!(keeping(5, 10), Some(0..0), "ended at the oldest one");
        assert_eq!(keeping(5, 11), Some(0..1));
        assert_eq!(keeping(10, 20), Some(0..1));
        assert_eq!(keeping(11, 20), Some(1..1));
        assert_eq!(keeping(11, 21), Some(1..3), "two of one number are two");
        assert_eq!(keeping(30, 50), Some(3..4));
        assert_eq!(keeping(30, 51), None, "not ended yet");
        assert_eq!(holders.between(Csn(10), Csn(20)), 0..3);
        assert_eq!(holders.between(Csn(11), Csn(19)), 1..1);
    }

    #[test]
    fn without_intervals_the_oldest_snapshots_keep_everything_since() {
        let holders = holders(false, &[10, 20]);
        assert_eq!(holders.keeping(Csn(11), Csn(15)), Some(0..1));
        assert_eq!(holders.keeping(Csn(5), Csn(9)), Some(0..0));
        assert_eq!(holders.keeping(Csn(30), Csn(40)), Some(0..2));
    }
}
