//! Full pages over which a pass would free nothing.
//!
//! A bulk update comes to a full page once for each row, and again when the row has found another
//! page. So each group of sessions remembers the last page where a walk has found nothing that
//! goes. The answer holds until something that it depends on changes:
//!
//! ```text
//! page LSN   another session changed the page: its versions may be of any kind
//! C          a transaction committed: versions that it ended may go
//! writer     the writer's level was rolled back, and so were its own versions
//! ```
//!
//! Only answers are noted that depend on nothing else (`useful.rs`). What a change by the writer
//! itself ends stays as long as the writer runs. So the answer goes along with such a change.

use niwaki_env::seeded_bug;
use niwaki_env::sync::Mutex;
use niwaki_storage::{BlockNumber, Csn, Lsn, Xid};

use crate::memory::freespace::TARGETS;

/// A writer that needs room on a page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RoomSeeker {
    /// The session's number, which selects its group.
    pub(crate) session: usize,
    /// The running transaction, or its level, that makes the change.
    pub(crate) xid: Xid,
}

/// The answer that nothing goes from a page.
#[derive(Clone, Copy, Debug, Default)]
struct Answer {
    xid: Xid,
    block: BlockNumber,
    lsn: Lsn,
    /// C of the horizon with which the page was judged.
    current: Csn,
}

/// The last answer of each group of sessions, for one heap.
#[derive(Debug, Default)]
pub(crate) struct UnprunablePages {
    answers: [Mutex<Answer>; TARGETS],
}

impl UnprunablePages {
    fn of(&self, seeker: RoomSeeker) -> &Mutex<Answer> {
        debug_assert!(seeker.xid.is_normal(), "{} changes no page", seeker.xid);
        &self.answers[seeker.session % TARGETS]
    }

    /// Notes that nothing goes from a page, which is latched for writing, by a horizon with this C.
    pub(crate) fn note(&self, seeker: RoomSeeker, (block, lsn): (BlockNumber, Lsn), current: Csn) {
        debug_assert_ne!(lsn, Lsn(0), "a page that is not logged does not show its changes");
        debug_assert_ne!(current, Csn(0), "the writer's snapshot is of some commit");
        *self.of(seeker).lock() = Answer { xid: seeker.xid, block, lsn, current };
    }

    /// Returns whether it is known that nothing goes from a page, which is latched for writing.
    /// `current` is the newest published commit.
    pub(crate) fn is_known(
        &self,
        seeker: RoomSeeker,
        (block, lsn): (BlockNumber, Lsn),
        current: Csn,
    ) -> bool {
        let answer = *self.of(seeker).lock();
        if (answer.xid, answer.block, answer.lsn) != (seeker.xid, block, lsn) {
            return false;
        }
        debug_assert!(answer.current <= current, "C went back to {current}");
        answer.current == current || seeded_bug!("unprunable-for-ever")
    }

    /// Keeps the answer for a page that the writer itself has changed, from `before` on. The page's
    /// latch was not released in between.
    pub(crate) fn go_along(&self, seeker: RoomSeeker, block: BlockNumber, before: Lsn, now: Lsn) {
        debug_assert!(before <= now, "the page went back from {before:?} to {now:?}");
        let mut answer = self.of(seeker).lock();
        if (answer.xid, answer.block, answer.lsn) == (seeker.xid, block, before) {
            answer.lsn = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_ends_with_what_it_depends_on() {
        let pages = UnprunablePages::default();
        let writer = RoomSeeker { session: 3, xid: Xid(10) };
        let (block, lsn, current) = (BlockNumber(7), Lsn(100), Csn(90));
        assert!(!pages.is_known(writer, (block, lsn), current));
        pages.note(writer, (block, lsn), current);
        assert!(pages.is_known(writer, (block, lsn), current));
        assert!(!pages.is_known(writer, (block, lsn), Csn(91)), "a commit");
        assert!(!pages.is_known(writer, (block, Lsn(101)), current), "a change by another session");
        assert!(!pages.is_known(writer, (BlockNumber(8), lsn), current));
        let level = RoomSeeker { xid: Xid(11), ..writer };
        assert!(!pages.is_known(level, (block, lsn), current), "a rollback to a savepoint");
        // The writer's own change, and a change that came after another session's.
        pages.go_along(writer, block, lsn, Lsn(120));
        assert!(pages.is_known(writer, (block, Lsn(120)), current));
        pages.go_along(writer, block, Lsn(130), Lsn(140));
        assert!(!pages.is_known(writer, (block, Lsn(140)), current));
    }
}
