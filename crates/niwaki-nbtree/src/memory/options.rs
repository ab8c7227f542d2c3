//! Settings of one index, including limits that tests shrink.

use niwaki_env::sync::plain_atomic::{AtomicU64, Ordering};

/// The way to divide a full page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum SplitStrategy {
    /// Weighs free space against the length of the new pivot (docs/internals/design.md, "Split
    /// points").
    #[default]
    Informed,
    /// Divides the bytes in half and looks at nothing else. For measuring the value of the choice.
    Half,
}

/// The sign by which a full leaf counts as filled with versions, so that bottom-up deletion is
/// tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum VersionHint {
    /// The entry that does not fit is another version of a row.
    #[default]
    LastItem,
    /// Some entry since the leaf's last pass or split was another version of a row, as far as
    /// memory tells. For measuring the value of the choice where insertions and updates mix.
    Page,
}

/// Settings of one index (docs/internals/design.md, "Switches"). `Default` is the best known
/// setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexOptions {
    /// Fill factor of leaf pages, in percent (10..=100), after splits at the right end and bulk
    /// builds.
    pub fillfactor: u8,
    /// Merges equal keys into posting lists, at a full leaf and in bulk builds. Without effect
    /// after [`crate::Index::without_posting_lists`].
    pub deduplicate_items: bool,
    /// Asks the table for dead versions before a split that only versions cause (bottom-up
    /// deletion).
    pub bottom_up_deletion: bool,
    /// The sign that makes bottom-up deletion worth a try.
    pub version_hint: VersionHint,
    /// Lets simple deletion also ask about entries that are not marked but share a heap block with
    /// a marked entry or with the new entry.
    pub simple_deletion_extras: bool,
    /// The way to divide a full page.
    pub split_strategy: SplitStrategy,
    /// Cuts pivots to the shortest separator. Off: pivots keep the whole key and the TID.
    pub suffix_truncation: bool,
    /// The most items on one page, and TIDs in one posting list; `None`: as many as fit. At least
    /// 3. Tests set it small so that few entries make a deep tree.
    pub page_items_max: Option<u16>,
}

impl Default for IndexOptions {
    fn default() -> Self {
        Self {
            fillfactor: 90,
            deduplicate_items: true,
            bottom_up_deletion: true,
            version_hint: VersionHint::LastItem,
            simple_deletion_extras: true,
            split_strategy: SplitStrategy::Informed,
            suffix_truncation: true,
            page_items_max: None,
        }
    }
}

/// Settings that can change while the index is in use: one word, read without a latch.
#[derive(Debug)]
pub(crate) struct OptionsCell(AtomicU64);

// The fields of the word do not overlap, and the last one fits.
const _: () = assert!(OptionsCell::FILLFACTOR < OptionsCell::DEDUPLICATE);
const _: () = assert!(OptionsCell::PAGE_HINT < 1 << OptionsCell::ITEMS_SHIFT);
const _: () = assert!(OptionsCell::ITEMS_SHIFT + u16::BITS <= u64::BITS);

impl OptionsCell {
    const FILLFACTOR: u64 = 0xFF;
    const DEDUPLICATE: u64 = 1 << 8;
    const BOTTOM_UP: u64 = 1 << 9;
    const EXTRAS: u64 = 1 << 10;
    const HALF: u64 = 1 << 11;
    const TRUNCATE: u64 = 1 << 12;
    const LIMITED: u64 = 1 << 13;
    const PAGE_HINT: u64 = 1 << 14;
    const ITEMS_SHIFT: u32 = 16;

    pub(crate) fn new(options: IndexOptions) -> Self {
        Self(AtomicU64::new(Self::pack(options)))
    }

    fn pack(options: IndexOptions) -> u64 {
        // The fields are named one by one, so that a new setting cannot be forgotten here.
        let IndexOptions {
            fillfactor,
            deduplicate_items,
            bottom_up_deletion,
            version_hint,
            simple_deletion_extras,
            split_strategy,
            suffix_truncation,
            page_items_max,
        } = options;
        let flag = |set: bool, bit: u64| if set { bit } else { 0 };
        u64::from(fillfactor)
            | flag(deduplicate_items, Self::DEDUPLICATE)
            | flag(bottom_up_deletion, Self::BOTTOM_UP)
            | flag(version_hint == VersionHint::Page, Self::PAGE_HINT)
            | flag(simple_deletion_extras, Self::EXTRAS)
            | flag(split_strategy == SplitStrategy::Half, Self::HALF)
            | flag(suffix_truncation, Self::TRUNCATE)
            | flag(page_items_max.is_some(), Self::LIMITED)
            | u64::from(page_items_max.unwrap_or(0)) << Self::ITEMS_SHIFT
    }

    #[inline]
    pub(crate) fn get(&self) -> IndexOptions {
        // Relaxed, here and in `set`: this is one word, and it orders nothing else.
        let word = self.0.load(Ordering::Relaxed);
        let is = |bit: u64| word & bit != 0;
        IndexOptions {
            fillfactor: (word & Self::FILLFACTOR) as u8,
            deduplicate_items: is(Self::DEDUPLICATE),
            bottom_up_deletion: is(Self::BOTTOM_UP),
            version_hint: if is(Self::PAGE_HINT) {
                VersionHint::Page
            } else {
                VersionHint::LastItem
            },
            simple_deletion_extras: is(Self::EXTRAS),
            split_strategy: if is(Self::HALF) {
                SplitStrategy::Half
            } else {
                SplitStrategy::Informed
            },
            suffix_truncation: is(Self::TRUNCATE),
            page_items_max: is(Self::LIMITED).then_some((word >> Self::ITEMS_SHIFT) as u16),
        }
    }

    pub(crate) fn set(&self, options: IndexOptions) {
        self.0.store(Self::pack(options), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_come_back_as_they_went_in() {
        let default = IndexOptions::default();
        let all = [
            default,
            IndexOptions { fillfactor: 10, ..default },
            IndexOptions { deduplicate_items: false, ..default },
            IndexOptions { bottom_up_deletion: false, ..default },
            IndexOptions { version_hint: VersionHint::Page, ..default },
            IndexOptions { simple_deletion_extras: false, ..default },
            IndexOptions { split_strategy: SplitStrategy::Half, ..default },
            IndexOptions { suffix_truncation: false, ..default },
            IndexOptions { page_items_max: Some(0), ..default },
            IndexOptions { page_items_max: Some(u16::MAX), ..default },
        ];
        let cell = OptionsCell::new(default);
        for options in all {
            cell.set(options);
            assert_eq!(cell.get(), options);
        }
    }
}
