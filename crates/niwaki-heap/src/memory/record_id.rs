//! Identity of a record in the clean-up ledger (`cleanup_ledger.rs`).

use std::num::NonZeroU64;

/// Identity of one record of a root. A line pointer that is used again gets a record with another
/// id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordId(pub(crate) NonZeroU64);
