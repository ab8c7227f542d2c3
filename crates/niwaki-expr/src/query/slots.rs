//! Ranges of slots of a row.

/// Slots `start..end` of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotRange {
    /// The first slot.
    pub start: usize,
    /// The slot behind the last.
    pub end: usize,
}

impl SlotRange {
    /// Decides whether a slot is in the range.
    #[inline]
    pub fn contains(self, slot: usize) -> bool {
        (self.start..self.end).contains(&slot)
    }
}
