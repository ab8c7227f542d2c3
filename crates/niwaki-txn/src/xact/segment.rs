//! Segments of transaction ids, as many as one status page holds, and the states of transactions.

use niwaki_storage::page::{HEADER_SIZE, PAGE_SIZE};
use niwaki_storage::{Csn, Xid};

use crate::options::limit;

/// State: not ended, or not yet visible to other transactions.
pub(crate) const RUNNING: u64 = 0;
/// State: rolled back, or lost in a crash.
pub(crate) const ABORTED: u64 = 1;
/// State: committed before every snapshot.
pub(crate) const ANCIENT: u64 = 2;

const _: () = assert!(RUNNING < ABORTED, "a frame of zeros is a segment in which all run");
const _: () = assert!(ABORTED < ANCIENT, "the states from ANCIENT on are commits");

/// Bytes of states on a page: the page without its header.
pub(crate) const STATE_BYTES: usize = PAGE_SIZE - HEADER_SIZE;

/// Transactions per segment: the number that one status page holds at two bits each. Few under the
/// deterministic scheduler, so that segments come and go all the time.
pub(crate) const XIDS_PER_SEGMENT: u64 = limit(STATE_BYTES * 4, 8, 4) as u64;

const _: () = assert!(XIDS_PER_SEGMENT.is_multiple_of(4), "a byte of states is of two segments");
const _: () = assert!(XIDS_PER_SEGMENT <= STATE_BYTES as u64 * 4, "a status page is too short");
const _: () = assert!(XIDS_PER_SEGMENT >= Xid::FIRST_NORMAL.0, "segment 0 lacks a reserved id");

/// Returns the number of the segment that holds the state of this transaction.
#[inline]
pub(crate) fn segment_of(xid: Xid) -> u64 {
    xid.0 / XIDS_PER_SEGMENT
}

/// Returns the place of the transaction in its segment.
#[inline]
pub(crate) fn place_of(xid: Xid) -> usize {
    (xid.0 % XIDS_PER_SEGMENT) as usize
}

/// Summary of a segment's states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Summary {
    pub(crate) running: bool,
    /// Lowest and highest CSN; `None` without commits.
    pub(crate) commits: Option<(u64, u64)>,
}

impl Summary {
    /// Adds a state.
    pub(crate) fn add(&mut self, state: u64) {
        match state {
            RUNNING => self.running = true,
            ABORTED | ANCIENT => {}
            csn => {
                let (first, last) = self.commits.unwrap_or((csn, csn));
                self.commits = Some((first.min(csn), last.max(csn)));
            }
        }
    }

    /// Returns the last commit.
    pub(crate) fn last(&self) -> Option<Csn> {
        self.commits.map(|(_, last)| Csn(last))
    }
}
