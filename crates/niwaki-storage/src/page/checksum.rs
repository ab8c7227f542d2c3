//! The page checksum.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::{CHECKSUM_AT, Page};
use crate::ids::PageId;

impl Page {
    /// Computes the checksum over the page, with the checksum field taken as zero. The page's name
    /// seeds the hash, so that a page written to another place is detected.
    pub fn compute_checksum(&mut self, id: PageId) -> u32 {
        let kept = self.checksum();
        self.set_checksum(0);
        let seed = id
            .file
            .0
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .wrapping_add((u64::from(id.fork as u8) << 32) | u64::from(id.block.0));
        let hash = xxh3_64_with_seed(&self.0, seed);
        self.set_checksum(kept);
        (hash ^ (hash >> 32)) as u32
    }

    /// Returns the checksum that the page carries.
    pub fn checksum(&self) -> u32 {
        let b = &self.0[CHECKSUM_AT..CHECKSUM_AT + 4];
        u32::from_le_bytes([b[0], b[1], b[2], b[3]])
    }

    pub(crate) fn set_checksum(&mut self, checksum: u32) {
        self.0[CHECKSUM_AT..CHECKSUM_AT + 4].copy_from_slice(&checksum.to_le_bytes());
    }
}
