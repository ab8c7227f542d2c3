//! The decoders of this crate against any bytes: the functions in [`TARGETS`] answer or refuse, and
//! never panic.
//!
//! [`niwaki_env::hostile`] and the targets under `fuzz/` feed them.

use niwaki_env::hostile::{Target, dense, sparse};
use niwaki_storage::page::Page;
use niwaki_storage::record::DecodedRecord;
use niwaki_storage::{BlockNumber, Csn, Fork, Lsn, Manager, PageId, RelFileId, Xid};

use crate::format::change::{
    EndVersion, PlaceRow, PrunePlan, Relink, UpdateOnPage, encode_end, kind,
};
use crate::format::header::{Header, NO_LINK, Tuple, absolute, flags, relative};
use crate::format::map_page::{self, PageVisibility, SetBits};
use crate::format::page::{self, Chain};
use crate::format::redo::apply;

/// Decoders, each with its name, valid inputs to begin with, and the function that calls it.
pub const TARGETS: &[Target] = &[
    ("heap_tuple", tuple_seeds, tuple),
    ("heap_page", page_seeds, heap_page),
    ("heap_record", record_seeds, record),
    ("visibility_record", visibility_seeds, visibility_record),
];

fn header() -> Header {
    Header { xmin: 3, xmax: 0, cid: 0, link: NO_LINK, root: 1, flags: 0, natts: 2 }
}

fn tuple_seeds() -> Vec<Vec<u8>> {
    vec![[&header().to_bytes()[..], b"values"].concat()]
}

fn tuple(bytes: &[u8]) {
    let Some(tuple) = Tuple::new(bytes) else { return };
    let header = Header::of(tuple);
    assert_eq!(header.to_bytes()[..], bytes[..24]);
    let _ = (tuple.cid(), tuple.natts(), tuple.has_deleter(), tuple.data().len());
    for base in [0, 5, 1 << 40] {
        let xid = absolute(base, tuple.xmin());
        if let Some(back) = relative(base, xid) {
            assert_eq!(back, tuple.xmin());
        }
    }
}

/// Builds a page with a row that was updated twice on it, and a row that was deleted.
fn example() -> Page {
    let mut page = Page::zeroed();
    page::init(&mut page, 0);
    let row = |offset| PlaceRow {
        offset,
        natts: 2,
        has_nulls: false,
        has_external: false,
        frozen: false,
        data: b"some values",
    };
    let placed = row(1).apply(&mut page, Xid(10), 0) && row(2).apply(&mut page, Xid(10), 0);
    let update = UpdateOnPage {
        mixed: false,
        old: 1,
        new: 3,
        natts: 2,
        has_nulls: false,
        has_external: false,
        keys_updated: false,
        heap_only: true,
        prefix: 4,
        suffix: 3,
        middle: b"-X-",
    };
    let block = BlockNumber(0);
    let cid = niwaki_txn::TupleCid::default();
    let updated = update.apply(&mut page, block, Xid(11), (0, cid))
        && UpdateOnPage { old: 3, new: 4, ..update }.apply(&mut page, block, Xid(12), (0, cid));
    let deleted = end(2).apply(&mut page, Xid(12));
    assert!(placed && updated && deleted, "the example is a page");
    page
}

fn end(offset: u16) -> EndVersion {
    EndVersion { offset, link: NO_LINK, xmax_flags: flags::KEYS_UPDATED, cid: None }
}

fn page_seeds() -> Vec<Vec<u8>> {
    let page = example();
    vec![dense(&page.0, page.lower(), page.upper())]
}

/// Checks that every chain ends, whatever the links say.
fn walk(page: &Page) {
    for offset in (0..=page.item_count()).chain([u16::MAX]) {
        let steps = Chain::new(page, offset).count();
        assert!(steps <= usize::from(page.item_count()));
        if let Some(tuple) = page::tuple(page, offset) {
            let base = page::base(page);
            let _ = (page::xmin(base, tuple), page::xmax(base, tuple), Header::of(tuple));
        }
    }
    let _ = (page::incarnation(page), page::prune_xid(page));
}

fn heap_page(bytes: &[u8]) {
    let mut page = Page(sparse(bytes));
    walk(&page);
    page::mask_hints(&mut page);
    page::note_prunable(&mut page, 7);
    page::bump_incarnation(&mut page);
    walk(&page);
}

fn visibility_seeds() -> Vec<Vec<u8>> {
    let sets = [PageVisibility::Unknown, PageVisibility::AllVisible, PageVisibility::AllFrozen];
    let mut seed = Vec::new();
    for (block, to) in (7..).zip(sets) {
        SetBits { block, to, newest: Csn(40) }.encode(&mut seed);
    }
    vec![seed]
}

/// Applies changes to the first page of a visibility map: none goes past its end.
fn visibility_record(bytes: &[u8]) {
    let mut page = Page::zeroed();
    let _ = map_page::redo(&mut page, BlockNumber(0), bytes);
    for block in [0, 7, crate::BLOCKS_PER_VISIBILITY_PAGE, u32::MAX] {
        let _ = map_page::get(&page, block);
    }
}

/// Inputs of a record: its kind, the number of the page in it, and its data. All are applied to
/// [`example`].
fn record_seeds() -> Vec<Vec<u8>> {
    let row = PlaceRow {
        offset: 5,
        natts: 2,
        has_nulls: true,
        has_external: false,
        frozen: false,
        data: b"more",
    };
    let one = [&row.head()[..], &4_u16.to_le_bytes(), b"more"].concat();
    let update = UpdateOnPage {
        mixed: false,
        old: 4,
        new: 5,
        natts: 2,
        has_nulls: false,
        has_external: false,
        keys_updated: true,
        heap_only: true,
        prefix: 4,
        suffix: 3,
        middle: b"another",
    };
    let relink = Relink {
        offset: 1,
        xmax: 12,
        link: NO_LINK,
        heap_updated: true,
        keys_updated: false,
        moved: false,
    };
    let plan = PrunePlan {
        redirected: vec![(1, 4)],
        dead: vec![2],
        unused: vec![3],
        cleared: vec![4],
        frozen: vec![4],
        unmixed: vec![1],
        ..PrunePlan::default()
    };
    let stub = PrunePlan { stubs: vec![relink], relinked: vec![relink], ..PrunePlan::default() };
    let [mut pruned, mut stubbed] = [vec![kind::PRUNE, 0], vec![kind::PRUNE, 0]];
    plan.encode(&mut pruned);
    stub.encode(&mut stubbed);
    vec![
        [&[kind::INSERT, 0][..], &row.head(), b"more"].concat(),
        [&[kind::MULTI_INSERT, 0][..], &one].concat(),
        [&[kind::UPDATE, 0][..], &update.head(), b"another"].concat(),
        [&[kind::MOVE, 0][..], &encode_end(&end(4))].concat(),
        [&[kind::MOVE, 1][..], &row.head(), b"more"].concat(),
        [&[kind::DELETE, 0][..], &encode_end(&end(4))].concat(),
        [&[kind::LOCK, 0][..], &encode_end(&end(4))].concat(),
        [kind::MIXED, 0, 1, 0, 2, 0].to_vec(),
        pruned,
        stubbed,
    ]
}

fn record(bytes: &[u8]) {
    let Some((&[number, index], data)) = bytes.split_first_chunk::<2>() else { return };
    let record = DecodedRecord {
        start: Lsn(0),
        lsn: Lsn(8),
        manager: Manager::Heap,
        kind: number,
        version: 1,
        xid: Xid(20),
        removes: None,
        pages: Vec::new(),
        body: &[],
    };
    let mut page = example();
    let applied = apply(&record, index.into(), &mut page, BlockNumber(0), data);
    let id = PageId { file: RelFileId(1), fork: Fork::Main, block: BlockNumber(0) };
    // A plan that does not fit is noticed half-way; a plan that contradicts itself is not noticed.
    if applied.is_some() && number != kind::PRUNE {
        page.check_structure(id).unwrap_or_else(|damage| panic!("{number}: {damage:?}"));
    }
    walk(&page);
}

#[cfg(test)]
mod tests {
    #[test]
    fn any_bytes_are_survived() {
        niwaki_env::hostile::survive(super::TARGETS);
    }
}
