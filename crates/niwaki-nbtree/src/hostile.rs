//! Runs the decoders of this crate on arbitrary bytes. Each function in [`TARGETS`] returns or
//! refuses, and never panics.
//!
//! [`niwaki_env::hostile`] and the targets under `fuzz/` supply the bytes.

use niwaki_env::hostile::{Target, dense, sparse};
use niwaki_storage::page::Page;
use niwaki_storage::{BlockNumber, Fork, PageId, RelFileId, Tid};

use crate::page::change::{self, SplitLeft};
use crate::page::entry::EntryPlace;
use crate::page::layout::{IndexPage, Meta, flag};
use crate::page::posting_lists::{Deduplication, KeyRun};
use crate::page::removal::Removal;
use crate::page::tuple::{self, LeafTuple, PivotTuple, push_leaf, push_pivot, sort_key};
use crate::page::wal::{changes, kind};

/// For each decoder: its name, valid inputs to begin with, and the function that calls it.
pub const TARGETS: &[Target] = &[
    ("nbtree_tuple", tuple_seeds, tuple),
    ("nbtree_page", page_seeds, page),
    ("nbtree_record", record_seeds, record),
];

fn leaf(key: &[u8], block: u32) -> Vec<u8> {
    let mut out = Vec::new();
    push_leaf(&mut out, key, b"payload", Tid::new(block, 1));
    out
}

fn pivot(key: &[u8], tid: Option<Tid>) -> Vec<u8> {
    let mut out = Vec::new();
    push_pivot(&mut out, BlockNumber(5), key, tid);
    out
}

fn posting() -> Vec<u8> {
    tuple::posting_bytes(b"key", &[Tid::new(1, 1), Tid::new(1, 2), Tid::new(2, 1)])
}

fn tuple_seeds() -> Vec<Vec<u8>> {
    vec![leaf(b"key", 7), pivot(b"ke", Some(Tid::new(7, 9))), pivot(b"", None), posting()]
}

fn tuple(bytes: &[u8]) {
    let (key, _) = sort_key(bytes);
    let (leaf, pivot) = (LeafTuple::decode(bytes), PivotTuple::decode(bytes));
    assert!(leaf.is_none() || pivot.is_none(), "one kind at most");
    // A search and a reader see the same key.
    let decoded = [leaf.map(|t| t.key), pivot.map(|t| t.key)];
    assert!(decoded.into_iter().flatten().all(|decoded| decoded == key));
    if let Some(leaf) = leaf {
        let size = tuple::item_size(leaf.key.len(), leaf.tids.len()) + leaf.payload.len();
        assert_eq!(size, bytes.len(), "nothing is left over");
        let _ = (leaf.tids.search(Tid::new(1, 2)), leaf.tids.ascend(), leaf.tids.last());
    }
}

fn index_page(level: u16) -> Page {
    let mut page = Page::zeroed();
    page.init_index(level, if level == 0 { flag::LEAF } else { 0 });
    page.set_prev(BlockNumber(1));
    page.set_next(BlockNumber(3));
    let mut tuples = vec![pivot(b"z", None)];
    if level == 0 {
        let mut behind_list = Vec::new();
        push_leaf(&mut behind_list, b"key", b"", Tid::new(3, 1));
        tuples.extend([leaf(b"a", 1), leaf(b"b", 2), posting(), behind_list, leaf(b"x", 3)]);
    } else {
        tuples.extend([pivot(b"", None), pivot(b"m", Some(Tid::new(1, 1)))]);
    }
    for (at, tuple) in (1..).zip(&tuples) {
        assert!(change::insert(&mut page, at, tuple), "the example is a page");
    }
    page
}

#[expect(clippy::large_stack_arrays, reason = "three pages, in a fuzz target")]
fn page_seeds() -> Vec<Vec<u8>> {
    let mut meta = Page::zeroed();
    Meta::new(BlockNumber(3), 1).write_new(&mut meta);
    let pages = [index_page(0), index_page(1), meta];
    pages.iter().map(|page| dense(&page.0, page.lower(), page.upper())).collect()
}

fn page(bytes: &[u8]) {
    let page = Page(sparse(bytes));
    let id = PageId { file: RelFileId(1), fork: Fork::Main, block: BlockNumber(0) };
    let _ = (page.verify(id, None), page.verify(id, Some(0)), Meta::read(&page, id));
    let _ = (page.prev(), page.next(), page.level(), page.reserved(), page.is_incomplete());
    let _ = (page.high_key().map(tuple), page.first_entry(), page.entry_count());
    for offset in (0..=page.item_count()).chain([u16::MAX]) {
        tuple(page.tuple(offset));
        let _ = change::is_dead(&page, offset);
        let mut changed = page.clone();
        change::set_dead(&mut changed, offset, true);
    }
}

/// Returns records: the kind, the number of the page in the record, then its data. [`record`]
/// applies them to a leaf, to a metapage and to a zeroed page.
fn record_seeds() -> Vec<Vec<u8>> {
    let (high, new) = (pivot(b"m", None), leaf(b"n", 4));
    let mut taken_in = Vec::new();
    push_leaf(&mut taken_in, b"key", b"", Tid::new(1, 9));
    let split = |new_at: Option<u16>, into_list: bool| {
        let right = BlockNumber(9);
        let new_tuple = if into_list { &taken_in[..] } else { &new[..] };
        SplitLeft { kept: 3, new_at, into_list, right, high_key: &high, new_tuple }.encode()
    };
    let leaf = index_page(0);
    let entry = |offset, place| EntryPlace { offset, place };
    let delete = |entries: &[EntryPlace]| {
        Removal::of(&leaf, entries).expect("entries of the example").encode()
    };
    let change = Deduplication { tids_max: 8, runs: vec![KeyRun { first: 4, items: 2 }] };
    let inside = [&4_u16.to_le_bytes()[..], &tuple::tid_bytes(Tid::new(1, 9))].concat();
    let data = |kind: u8, index: u8, data: &[u8]| [&[kind, index][..], data].concat();
    vec![
        data(kind::INSERT_LEAF, 0, &[&2_u16.to_le_bytes()[..], &new].concat()),
        data(kind::SPLIT, 0, &split(Some(1), false)),
        data(kind::SPLIT, 0, &split(None, false)),
        data(kind::SPLIT, 0, &split(Some(3), true)),
        data(kind::SPLIT, 0, &split(None, true)),
        data(kind::SPLIT_SIBLING, 2, &7_u32.to_le_bytes()),
        data(kind::INSERT_INNER, 1, &[]),
        data(kind::META, 0, &Meta::new(BlockNumber(8), 2).encode()),
        data(kind::DELETE, 0, &delete(&[entry(2, 0), entry(3, 0)])),
        data(kind::DELETE, 0, &delete(&[entry(2, 0), entry(4, 1)])),
        data(kind::INSERT_INSIDE, 0, &inside),
        data(kind::GROW_LIST, 0, &inside),
        data(kind::DEDUP, 0, &change.encode()),
        data(kind::CLEAR_DEAD, 0, &2_u16.to_le_bytes()),
        data(kind::HALF_DEAD, 0, &1_u16.to_le_bytes()),
        data(kind::HALF_DEAD, 1, &[]),
        data(kind::UNLINK, 0, &[]),
        data(kind::SHIFT, 0, &[&2_u16.to_le_bytes()[..], &high].concat()),
        data(kind::SHIFT, 1, &change::given_right(&leaf, 4)),
        data(kind::SET_PAYLOAD, 0, &[&2_u16.to_le_bytes()[..], b"payload"].concat()),
        data(kind::UNLINK_BETWEEN, 2, &7_u32.to_le_bytes()),
    ]
}

#[expect(clippy::large_stack_arrays, reason = "three pages, in a fuzz target")]
fn record(bytes: &[u8]) {
    let Some((&[kind, index], data)) = bytes.split_first_chunk::<2>() else { return };
    let Some(change) = changes(kind).and_then(|changes| changes.get(usize::from(index))) else {
        return;
    };
    let mut meta = Page::zeroed();
    Meta::new(BlockNumber(3), 1).write_new(&mut meta);
    for mut page in [index_page(0), meta, Page::zeroed()] {
        let before = page.clone();
        let id = PageId { file: RelFileId(1), fork: Fork::Main, block: BlockNumber(0) };
        if change.apply(&mut page, data) {
            let sound = before.is_new() || page.check_structure(id).is_ok();
            assert!(sound, "a change that fits leaves a sound page");
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn any_bytes_are_survived() {
        niwaki_env::hostile::survive(super::TARGETS);
    }
}
