//! Pages that transactions filled which may still be rolled back.
//!
//! A transaction that inserts more than a page leaves full pages behind. If it is rolled back, all
//! its rows are garbage, and nothing on those pages shows it. So each page is noted here, with its
//! transaction, when the transaction leaves it. A session that needs a page asks for the fate of
//! these transactions.
//!
//! The notes are in memory and bounded. A page without room for its note is handed out, to be
//! looked at.

use std::ops::RangeInclusive;

use niwaki_env::seeded_bug;
use niwaki_env::sync::Mutex;
use niwaki_env::sync::plain_atomic::{AtomicUsize, Ordering};
use niwaki_storage::Xid;
use niwaki_txn::XidStatus;

/// The most runs of pages that are noted, of 16 bytes each.
const RUNS_MAX: usize = 1024;
/// Number of the latest runs that may grow.
const GROWING_MAX: usize = 4;
const _: () = assert!(GROWING_MAX < RUNS_MAX);

/// A range of blocks, from the first to the last.
pub(crate) type Blocks = RangeInclusive<u32>;

/// The notes of one heap.
#[derive(Debug, Default)]
pub(crate) struct UncommittedPages {
    /// Number of runs, as a hint.
    count: AtomicUsize,
    runs: Mutex<Vec<Run>>,
}

/// Neighbouring pages that one transaction filled.
#[derive(Clone, Copy, Debug)]
struct Run {
    xid: Xid,
    first: u32,
    last: u32,
}

impl UncommittedPages {
    /// Notes a page with a transaction that is running. Returns the pages of a run for which there
    /// is no room any more.
    pub(crate) fn note(&self, xid: Xid, block: u32) -> Option<Blocks> {
        // `take_rolled_back` begins with the invalid id, as one that was rolled back.
        debug_assert!(xid.is_normal(), "{xid} fills no page");
        let mut runs = self.runs.lock();
        let mut late = runs.iter_mut().rev().take(GROWING_MAX);
        let near = |run: &&mut Run| {
            run.xid == xid && run.first <= block && block <= run.last.saturating_add(1)
        };
        if let Some(run) = late.find(near) {
            run.last = run.last.max(block);
            debug_assert!((run.first..=run.last).contains(&block), "the run has the page");
            return None;
        }
        let forgotten = (runs.len() >= RUNS_MAX).then(|| runs.remove(0));
        runs.push(Run { xid, first: block, last: block });
        debug_assert!(forgotten.is_none_or(|run| run.first <= run.last), "a run has a page");
        // Relaxed, here and below: a hint orders nothing.
        self.count.store(runs.len(), Ordering::Relaxed);
        forgotten.map(|run| run.first..=run.last)
    }

    /// Takes the pages of transactions that were rolled back, and forgets the pages of transactions
    /// that committed. Also takes pages for whose notes there is no room any more. `status` is
    /// called without a lock.
    pub(crate) fn take_rolled_back(&self, status: impl Fn(Xid) -> XidStatus) -> Vec<Blocks> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return Vec::new();
        }
        let mut runs = std::mem::take(&mut *self.runs.lock());
        let mut rolled_back = Vec::new();
        // Runs of one transaction stand together.
        let mut known = (Xid::INVALID, XidStatus::Aborted);
        runs.retain(|run| {
            if known.0 != run.xid {
                known = (run.xid, status(run.xid));
            }
            if known.1 == XidStatus::Aborted && !seeded_bug!("filled-forgotten") {
                debug_assert!(run.first <= run.last, "{run:?} has no page");
                rolled_back.push(run.first..=run.last);
            }
            known.1 == XidStatus::InProgress
        });
        let mut now = self.runs.lock();
        // Runs that others noted meanwhile are the latest.
        runs.append(&mut now);
        // The oldest notes make room, as in `note`.
        let surplus = runs.len().saturating_sub(RUNS_MAX);
        rolled_back.extend(runs.drain(..surplus).map(|run| run.first..=run.last));
        debug_assert!(runs.len() <= RUNS_MAX, "{} runs are noted", runs.len());
        *now = runs;
        self.count.store(now.len(), Ordering::Relaxed);
        rolled_back
    }
}

#[cfg(test)]
mod tests {
    use niwaki_storage::Csn;

    use super::*;

    #[test]
    fn pages_are_taken_once_their_transaction_was_rolled_back() {
        let uncommitted = UncommittedPages::default();
        for block in 4..=9 {
            assert_eq!(uncommitted.note(Xid(10), block), None);
            assert_eq!(uncommitted.note(Xid(11), 2 * block), None);
        }
        assert!(uncommitted.take_rolled_back(|_| XidStatus::InProgress).is_empty());
        let aborted = |xid| match xid {
            Xid(10) => XidStatus::Aborted,
            _ => XidStatus::InProgress,
        };
        let taken: Vec<u32> = uncommitted.take_rolled_back(aborted).into_iter().flatten().collect();
        assert_eq!(taken, [4, 5, 6, 7, 8, 9]);
        assert!(uncommitted.take_rolled_back(aborted).is_empty());
        assert!(uncommitted.take_rolled_back(|_| XidStatus::Committed(Csn(1))).is_empty());
        assert!(uncommitted.take_rolled_back(|_| XidStatus::Aborted).is_empty(), "it committed");
    }

    /// Both lists were joined, whatever their lengths.
    #[test]
    fn notes_that_come_meanwhile_exceed_no_limit() {
        let uncommitted = UncommittedPages::default();
        let fill = |xid, first: u32| {
            for number in 0..RUNS_MAX as u32 {
                assert_eq!(uncommitted.note(xid, first + 2 * number), None);
            }
        };
        fill(Xid(10), 0);
        let late = std::cell::Cell::new(false);
        let status = |_| {
            if !late.replace(true) {
                fill(Xid(11), 100_000);
            }
            XidStatus::InProgress
        };
        let taken: Vec<u32> = uncommitted.take_rolled_back(status).into_iter().flatten().collect();
        let oldest: Vec<u32> = (0..RUNS_MAX as u32).map(|number| 2 * number).collect();
        assert!(taken == oldest, "{} pages", taken.len());
        assert_eq!(uncommitted.runs.lock().len(), RUNS_MAX);
        assert_eq!(uncommitted.note(Xid(12), 7), Some(100_000..=100_000), "the list is full");
    }

    #[test]
    fn what_has_no_room_is_handed_out() {
        let uncommitted = UncommittedPages::default();
        let pages = (0..RUNS_MAX as u32 + 3).map(|number| uncommitted.note(Xid(10), 2 * number));
        let out: Vec<u32> = pages.flatten().flatten().collect();
        assert_eq!(out, [0, 2, 4]);
    }
}
