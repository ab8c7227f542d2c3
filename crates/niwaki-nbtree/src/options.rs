//! Settings of one index, and the limits that tests shrink.

/// How a full page is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum SplitStrategy {
    /// Weigh free space against the length of the new pivot (design section 6).
    #[default]
    Informed,
    /// Divide the bytes in half, look at nothing else: for measuring what the choice is worth.
    Half,
}

/// Settings of one index (design section 10). `Default` is the best known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexOptions {
    /// How full, in percent (10..=100), splits at the right end and bulk builds leave leaf pages.
    pub fillfactor: u8,
    /// Merge equal keys into posting lists at a full leaf. Reserved: has no effect yet.
    pub deduplicate_items: bool,
    /// Ask the table for dead versions before a split that only versions cause. Reserved: has no
    /// effect yet.
    pub bottom_up_deletion: bool,
    /// Simple deletion also asks about entries that are not marked but share a heap block with one
    /// that is, or with the new entry.
    pub simple_deletion_extras: bool,
    /// How a full page is divided.
    pub split_strategy: SplitStrategy,
    /// Cut pivots to the shortest separator. Off: pivots keep the whole key and the TID.
    pub suffix_truncation: bool,
    /// Most entries on one page; `None`: as many as fit. Tests set it small so that few entries make
    /// a deep tree. At least 3.
    pub page_items_max: Option<u16>,
}

impl Default for IndexOptions {
    fn default() -> Self {
        Self {
            fillfactor: 90,
            deduplicate_items: true,
            bottom_up_deletion: true,
            simple_deletion_extras: true,
            split_strategy: SplitStrategy::Informed,
            suffix_truncation: true,
            page_items_max: None,
        }
    }
}
