//! Segments of transaction ids: as many as one status page holds.

use crate::xact::status_page::STATE_BYTES;

/// Transactions per segment: the number that one status page holds at two bits each. Few under the
/// deterministic scheduler, so that segments come and go all the time.
pub(crate) const XIDS_PER_SEGMENT: u64 = limit(STATE_BYTES * 4, 8, 4) as u64;

/// Chooses a limit: the real one, or a smaller one under the deterministic scheduler and again
/// under the model checker.
pub(crate) const fn limit(real: usize, scheduled: usize, model_checked: usize) -> usize {
    if niwaki_env::sync::MODEL_CHECKED {
        model_checked
    } else if niwaki_env::sync::SCHEDULED {
        scheduled
    } else {
        real
    }
}

/// Returns the number of the segment that holds the state of this transaction.
#[inline]
pub(crate) fn segment_of(xid: niwaki_storage::Xid) -> u64 {
    xid.0 / XIDS_PER_SEGMENT
}
