//! What became of each transaction: a directory of segments in memory, older ones in two bits.

mod directory;
mod durable;
mod status_page;

pub(crate) use directory::{ANCIENT, XactStates};
pub(crate) use durable::Shrunk;
pub(crate) use status_page::{PackedStates, STATE_BYTES};

/// Transactions per segment: as many as one status page holds at two bits each.
pub(crate) const XIDS_PER_SEGMENT: u64 = STATE_BYTES as u64 * 4;

/// Number of the segment that holds the state of this transaction.
#[inline]
pub(crate) fn segment_of(xid: niwaki_storage::Xid) -> u64 {
    xid.0 / XIDS_PER_SEGMENT
}
