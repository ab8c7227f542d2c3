//! Structural check of a page that came from disk.

use super::{
    HEADER_SIZE, ITEM_ID_SIZE, ItemState, PAGE_SIZE, PAGE_VERSION, Page, PageKind, RESERVED_AT,
    VERSION_AT,
};
use crate::error::Corruption;
use crate::ids::{OffsetNumber, PageId, fork_file_name};

fn damage(id: PageId, item: Option<u16>, detail: String) -> Corruption {
    Corruption {
        file: format!("base/{}", fork_file_name(id.file, id.fork)),
        block: Some(id.block.0),
        item,
        invariant: "format",
        detail,
    }
}

impl Page {
    /// Checks the facts that the accessors rely on. The header's offsets are in order, every line
    /// pointer stays within the page, and the tuples take no more room than there is. The pool
    /// calls this once when a page enters.
    ///
    /// # Errors
    /// The first damage found.
    pub fn check_structure(&self, id: PageId) -> Result<(), Corruption> {
        if self.is_new() {
            return if self.0.iter().all(|&b| b == 0) {
                Ok(())
            } else {
                Err(damage(id, None, "page of kind 0 is not all zero".into()))
            };
        }
        let (lower, upper, special) = (self.lower(), self.upper(), self.special_offset());
        if PageKind::from_byte(self.0[super::KIND_AT]).is_none() {
            return Err(damage(id, None, format!("page kind {}", self.0[super::KIND_AT])));
        }
        if self.0[VERSION_AT] != PAGE_VERSION || self.u16_at(RESERVED_AT) != 0 {
            return Err(damage(id, None, format!("page version {}", self.0[VERSION_AT])));
        }
        let in_order = HEADER_SIZE <= usize::from(lower)
            && lower <= upper
            && upper <= special
            && usize::from(special) <= PAGE_SIZE;
        if !in_order {
            return Err(damage(id, None, format!("lower {lower} upper {upper} special {special}")));
        }
        if !self.kind().is_slotted() {
            return Ok(());
        }
        if !(usize::from(lower) - HEADER_SIZE).is_multiple_of(ITEM_ID_SIZE) {
            return Err(damage(id, None, format!("lower {lower} is not at a line pointer")));
        }
        self.check_items(id)
    }

    fn check_items(&self, id: PageId) -> Result<(), Corruption> {
        let (upper, special) = (usize::from(self.upper()), usize::from(self.special_offset()));
        let count = self.item_count();
        let mut stored = 0;
        for number in 1..=count {
            let item = self.item_id(OffsetNumber(number));
            let (at, len) = (usize::from(item.offset()), usize::from(item.len()));
            let fine = match item.state() {
                ItemState::Unused => true,
                ItemState::Normal => len > 0 && at >= upper && at + len <= special,
                ItemState::Dead => len == 0 || (at >= upper && at + len <= special),
                ItemState::Redirect => at >= 1 && at <= usize::from(count) && len == 0,
            };
            if !fine {
                return Err(damage(id, Some(number), format!("line pointer {item:?}")));
            }
            if item.has_storage() {
                stored += len;
            }
        }
        if stored > special - upper {
            return Err(damage(id, None, format!("{stored} bytes of tuples overlap")));
        }
        // The accessors add up the same bytes in another way, and rely on this check.
        debug_assert_eq!(stored, self.stored_bytes(), "{id}: bytes of tuples");
        debug_assert!(self.free_bytes() <= self.free_bytes_compacted(), "{id}: free bytes");
        Ok(())
    }

    /// Checks the structure like [`Page::check_structure`], and also that no two tuples share a
    /// byte; for `niwaki check`.
    ///
    /// # Errors
    /// The first damage found.
    pub fn check_deep(&self, id: PageId) -> Result<(), Corruption> {
        self.check_structure(id)?;
        if !self.kind().is_slotted() {
            return Ok(());
        }
        let mut places: Vec<(u16, u16, u16)> = (1..=self.item_count())
            .map(|n| (self.item_id(OffsetNumber(n)), n))
            .filter(|(item, _)| item.has_storage())
            .map(|(item, n)| (item.offset(), item.len(), n))
            .collect();
        places.sort_unstable();
        match places.windows(2).find(|pair| pair[0].0 + pair[0].1 > pair[1].0) {
            Some(pair) => Err(damage(
                id,
                Some(pair[1].2),
                format!("overlaps the tuple of item {}", pair[0].2),
            )),
            None => Ok(()),
        }
    }
}
