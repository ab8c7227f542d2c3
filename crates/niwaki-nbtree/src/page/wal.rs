//! Log records of the index: layout, redo and description.
//!
//! ```text
//! kind               pages (their data)
//! 1 INSERT_LEAF      leaf (offset u16, tuple)
//! 2 INSERT_INNER     parent (offset u16, tuple), left child (none: its mark goes)
//! 3 SPLIT            left (see change.rs), right (image)
//! 4 SPLIT_SIBLING    left, right (image), old right sibling (prev u32)
//! 5 SPLIT_CHILD      left, right (image), child (none: its mark goes)
//! 6 SPLIT_BOTH       left, right (image), old right sibling (prev u32), child (none)
//! 7 NEW_ROOT         root (image), left child (none: its mark goes), metapage (its 32 bytes)
//! 8 META             metapage (its 32 bytes)
//! 9 DELETE           leaf (see removal.rs)
//! 10 CLEAR_DEAD      leaf (offset u16)
//! 11 PAGES           new pages (images)
//! 12 INSERT_INSIDE   leaf (offset u16 of a posting list, the TID that it takes in)
//! 13 DEDUP           leaf (see posting_lists.rs)
//! 14 HALF_DEAD       parent (offset u16 of the downlink that goes), the branch from the leaf up
//!                    (none)
//! 15 UNLINK          page (none), right sibling (prev u32)
//! 16 UNLINK_BETWEEN  page (none), right sibling (prev u32), left sibling (next u32)
//! 17 GROW_LIST       leaf (offset u16 of a posting list, the TID that it takes in)
//! 18 SHIFT           leaf (entries kept u16, new high key), right sibling (per entry taken over
//!                    its length u16, then its bytes), parent (offset u16, the right sibling's new
//!                    pivot)
//! 19 SET_PAYLOAD     leaf (offset u16, the entry's new INCLUDE payload)
//! 20 MERGE           leaf (none), right sibling (per entry taken over its length u16, then its
//!                    bytes), parent (offset u16 of the leaf's downlink, which goes)
//! ```
//!
//! Every record has version 1 and no body. A DELETE carries the interval of the removed versions.
//! Setting LP_DEAD is never logged.

use niwaki_storage::page::Page;
use niwaki_storage::record::{DecodedRecord, MAX_RECORD_PAGES, Manager, ResourceManager};
use niwaki_storage::recovery::{Redo, RedoPage};
use niwaki_storage::{BlockNumber, Corruption, Error, OffsetNumber, Result};

use crate::page::change::{self, SplitLeft};
use crate::page::layout::{IndexPage, Meta, read_u16, read_u32};
use crate::page::posting_lists::Deduplication;
use crate::page::removal::Removal;
use crate::page::tuple::TID_SIZE;

/// Layout version of all records.
pub(crate) const VERSION: u8 = 1;
/// Bytes of the offset before a tuple.
pub(crate) const OFFSET_SIZE: usize = 2;
const _: () = assert!(OFFSET_SIZE == size_of::<OffsetNumber>());

/// Kinds of records.
pub(crate) mod kind {
    pub(crate) const INSERT_LEAF: u8 = 1;
    pub(crate) const INSERT_INNER: u8 = 2;
    pub(crate) const SPLIT: u8 = 3;
    pub(crate) const SPLIT_SIBLING: u8 = 4;
    pub(crate) const SPLIT_CHILD: u8 = 5;
    pub(crate) const SPLIT_BOTH: u8 = 6;
    pub(crate) const NEW_ROOT: u8 = 7;
    pub(crate) const META: u8 = 8;
    pub(crate) const DELETE: u8 = 9;
    pub(crate) const CLEAR_DEAD: u8 = 10;
    pub(crate) const PAGES: u8 = 11;
    pub(crate) const INSERT_INSIDE: u8 = 12;
    pub(crate) const DEDUP: u8 = 13;
    pub(crate) const HALF_DEAD: u8 = 14;
    pub(crate) const UNLINK: u8 = 15;
    pub(crate) const UNLINK_BETWEEN: u8 = 16;
    pub(crate) const GROW_LIST: u8 = 17;
    pub(crate) const SHIFT: u8 = 18;
    pub(crate) const SET_PAYLOAD: u8 = 19;
    pub(crate) const MERGE: u8 = 20;
}

// `describe` takes all kinds of splits together.
const _: () = assert!(kind::SPLIT_BOTH == kind::SPLIT + 3);

/// Returns the kind of a split record, by the pages it has besides the halves.
pub(crate) fn split_kind(has_sibling: bool, has_child: bool) -> u8 {
    match (has_sibling, has_child) {
        (false, false) => kind::SPLIT,
        (true, false) => kind::SPLIT_SIBLING,
        (false, true) => kind::SPLIT_CHILD,
        (true, true) => kind::SPLIT_BOTH,
    }
}

/// The change that a record makes to one of its pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageChange {
    Insert,
    SplitLeft,
    SetPrev,
    SetNext,
    ClearIncomplete,
    MergeDownlinks,
    HalfDead,
    Deleted,
    Meta,
    Delete,
    ClearDead,
    InsertInside,
    GrowList,
    Dedup,
    GiveRight,
    TakeFromLeft,
    ReplacePivot,
    SetPayload,
    /// The page is always an image, so there is never anything to do.
    Image,
}

/// Returns the changes that a record of this kind makes to its pages, in their order.
pub(crate) fn changes(kind: u8) -> Option<&'static [PageChange]> {
    use PageChange::{
        ClearDead, ClearIncomplete, Dedup, Delete, Deleted, GiveRight, GrowList, HalfDead, Image,
        Insert, InsertInside, MergeDownlinks, Meta, ReplacePivot, SetNext, SetPayload, SetPrev,
        SplitLeft, TakeFromLeft,
    };
    Some(match kind {
        kind::INSERT_LEAF => &[Insert],
        kind::INSERT_INNER => &[Insert, ClearIncomplete],
        kind::SPLIT => &[SplitLeft, Image],
        kind::SPLIT_SIBLING => &[SplitLeft, Image, SetPrev],
        kind::SPLIT_CHILD => &[SplitLeft, Image, ClearIncomplete],
        kind::SPLIT_BOTH => &[SplitLeft, Image, SetPrev, ClearIncomplete],
        kind::NEW_ROOT => &[Image, ClearIncomplete, Meta],
        kind::META => &[Meta],
        kind::DELETE => &[Delete],
        kind::CLEAR_DEAD => &[ClearDead],
        kind::INSERT_INSIDE => &[InsertInside],
        kind::GROW_LIST => &[GrowList],
        kind::DEDUP => &[Dedup],
        kind::PAGES => &[Image; MAX_RECORD_PAGES],
        kind::HALF_DEAD => {
            const CHANGES: [PageChange; MAX_RECORD_PAGES] = {
                let mut changes = [HalfDead; MAX_RECORD_PAGES];
                changes[0] = MergeDownlinks;
                changes
            };
            &CHANGES
        }
        kind::UNLINK => &[Deleted, SetPrev],
        kind::UNLINK_BETWEEN => &[Deleted, SetPrev, SetNext],
        kind::SHIFT => &[GiveRight, TakeFromLeft, ReplacePivot],
        kind::SET_PAYLOAD => &[SetPayload],
        kind::MERGE => &[HalfDead, TakeFromLeft, MergeDownlinks],
        _ => return None,
    })
}

/// Decides whether records of this kind may name fewer pages than [`changes`] lists.
fn takes_fewer(kind: u8) -> bool {
    matches!(kind, kind::PAGES | kind::HALF_DEAD)
}

/// Decides whether redo takes a record of this kind with this number of pages.
pub(crate) fn takes_pages(kind: u8, pages: usize) -> bool {
    changes(kind).is_some_and(|changes| {
        changes.len() == pages || (takes_fewer(kind) && pages <= changes.len())
    })
}

impl PageChange {
    /// Makes the change; false if record and page do not go together.
    pub(crate) fn apply(self, page: &mut Page, data: &[u8]) -> bool {
        match self {
            Self::Insert => match data.split_first_chunk::<OFFSET_SIZE>() {
                Some((offset, tuple)) => change::insert(page, u16::from_le_bytes(*offset), tuple),
                None => false,
            },
            Self::SplitLeft => SplitLeft::decode(data).is_some_and(|split| split.apply(page)),
            Self::SetPrev if data.len() == 4 => {
                page.set_prev(BlockNumber(read_u32(data, 0)));
                true
            }
            Self::SetNext if data.len() == 4 => {
                page.set_next(BlockNumber(read_u32(data, 0)));
                true
            }
            Self::MergeDownlinks if data.len() == OFFSET_SIZE => {
                change::merge_downlinks(page, read_u16(data, 0))
            }
            Self::HalfDead if data.is_empty() => {
                change::make_half_dead(page);
                true
            }
            Self::Deleted if data.is_empty() => {
                change::make_deleted(page);
                true
            }
            Self::ClearIncomplete if data.is_empty() => {
                change::clear_incomplete(page);
                true
            }
            Self::Meta => Meta::overwrite(data, page),
            Self::Delete => Removal::decode(data).is_some_and(|removal| removal.apply(page)),
            Self::Dedup => Deduplication::decode(data).is_some_and(|change| change.apply(page)),
            Self::InsertInside => Self::tid_of_list(data)
                .is_some_and(|(at, tid)| change::insert_inside(page, at, tid)),
            Self::GrowList => {
                Self::tid_of_list(data).is_some_and(|(at, tid)| change::grow_list(page, at, tid))
            }
            Self::GiveRight => match data.split_first_chunk() {
                Some((kept, high_key)) => {
                    change::give_right(page, u16::from_le_bytes(*kept), high_key)
                }
                None => false,
            },
            Self::TakeFromLeft => change::take_from_left(page, data),
            Self::ReplacePivot => match data.split_first_chunk::<OFFSET_SIZE>() {
                Some((offset, pivot)) => {
                    change::replace_pivot(page, u16::from_le_bytes(*offset), pivot)
                }
                None => false,
            },
            Self::SetPayload => match data.split_first_chunk::<OFFSET_SIZE>() {
                Some((offset, payload)) => {
                    change::set_payload(page, u16::from_le_bytes(*offset), payload)
                }
                None => false,
            },
            Self::ClearDead if data.len() == OFFSET_SIZE => {
                change::set_dead(page, read_u16(data, 0), false)
            }
            Self::SetPrev
            | Self::SetNext
            | Self::MergeDownlinks
            | Self::HalfDead
            | Self::Deleted
            | Self::ClearIncomplete
            | Self::ClearDead
            | Self::Image => false,
        }
    }

    /// Returns the offset of a posting list, and a TID.
    fn tid_of_list(data: &[u8]) -> Option<(u16, &[u8; TID_SIZE])> {
        let (offset, tid) = data.split_first_chunk::<OFFSET_SIZE>()?;
        Some((u16::from_le_bytes(*offset), tid.try_into().ok()?))
    }
}

/// Redo of index records.
#[derive(Clone, Copy, Debug, Default)]
pub struct NbtreeManager;

impl ResourceManager for NbtreeManager {
    fn manager(&self) -> Manager {
        Manager::Nbtree
    }

    fn redo(&self, record: &DecodedRecord<'_>, redo: &Redo<'_>) -> Result<()> {
        let pages = record.pages.len();
        let changes = match changes(record.kind) {
            Some(changes) if record.version == VERSION && takes_pages(record.kind, pages) => {
                changes
            }
            _ => {
                let detail =
                    format!("kind {} version {} with {pages} pages", record.kind, record.version);
                return Err(bad_record(record, None, detail));
            }
        };
        debug_assert!(pages <= changes.len(), "each page has its change");
        for (number, (page_record, change)) in record.pages.iter().zip(changes).enumerate() {
            if let RedoPage::NeedsRedo(mut page) = redo.page(number)?
                && !change.apply(&mut page, page_record.data)
            {
                page.mark_hint();
                let block = Some(page_record.id.block.0);
                return Err(bad_record(record, block, format!("{change:?} does not fit the page")));
            }
        }
        Ok(())
    }

    fn describe(&self, record: &DecodedRecord<'_>) -> String {
        let data = record.pages.first().map_or(&[][..], |page| page.data);
        match record.kind {
            kind::INSERT_LEAF => format!("insert leaf, offset {}", read_u16(data, 0)),
            kind::INSERT_INNER => format!("insert inner, offset {}", read_u16(data, 0)),
            kind::SPLIT..=kind::SPLIT_BOTH => match SplitLeft::decode(data) {
                Some(split) => format!("split to {}, {} stay", split.right, split.kept),
                None => "split".to_owned(),
            },
            kind::NEW_ROOT => "new root".to_owned(),
            kind::META => "metapage".to_owned(),
            kind::DELETE => match Removal::decode(data).map(|removal| removal.counts()) {
                Some((items, 0)) => format!("delete {items} items"),
                Some((items, tids)) => format!("delete {items} items, {tids} TIDs out of lists"),
                None => "delete".to_owned(),
            },
            kind::INSERT_INSIDE => format!("insert into list, offset {}", read_u16(data, 0)),
            kind::GROW_LIST => format!("list takes in a TID, offset {}", read_u16(data, 0)),
            kind::DEDUP => {
                let runs = Deduplication::decode(data).map_or(0, |change| change.runs.len());
                format!("deduplicate {runs} runs of equal keys")
            }
            kind::CLEAR_DEAD => format!("clear dead mark, offset {}", read_u16(data, 0)),
            kind::PAGES => format!("{} new pages", record.pages.len()),
            kind::HALF_DEAD => format!("{} pages half-dead", record.pages.len().saturating_sub(1)),
            kind::UNLINK | kind::UNLINK_BETWEEN => "unlink page".to_owned(),
            kind::SET_PAYLOAD => format!("payload of item {}", read_u16(data, 0)),
            kind::SHIFT => format!("shift to the right sibling, {} stay", read_u16(data, 0)),
            kind::MERGE => "leaf merged with its right sibling".to_owned(),
            other => format!("unknown index record {other}"),
        }
    }
}

fn bad_record(record: &DecodedRecord<'_>, block: Option<u32>, detail: String) -> Error {
    Error::Corruption(Box::new(Corruption {
        file: "log".to_owned(),
        block,
        item: None,
        invariant: "W3",
        detail: format!("index record at {}: {detail}", record.start),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn any_data_is_survived(
            bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..40),
            kind in 0u8..21,
        ) {
            for change in changes(kind).unwrap_or(&[]) {
                let mut page = Page::zeroed();
                page.init_index(0, crate::page::layout::flag::LEAF);
                let _ = change.apply(&mut page, &bytes);
                page = Page::zeroed();
                let _ = change.apply(&mut page, &bytes);
            }
        }
    }
}
