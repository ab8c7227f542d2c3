//! What became of each transaction: a directory of segments in memory, older ones in two bits.

mod directory;

pub(crate) use directory::XactStates;

/// Transactions per segment: as many as one status page holds at two bits each.
pub(crate) const XIDS_PER_SEGMENT: u64 =
    (niwaki_storage::page::PAGE_SIZE - niwaki_storage::page::HEADER_SIZE) as u64 * 4;
