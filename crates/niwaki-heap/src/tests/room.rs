//! The room of removed rows is found before the heap grows, without vacuum, and although no reader
//! passes them.

use super::*;
use crate::format::page::MAX_ITEMS;
use crate::{PageVisit, RemovedVersion};

fn delete_all(fixture: &Fixture, roots: &[Tid]) {
    let tx = fixture.begin(0);
    let snapshot = tx.snapshot_for_write().unwrap();
    for &root in roots {
        let target = RowTarget::visible(root);
        let done = fixture.heap().delete(&tx.view(&snapshot), target).unwrap();
        assert!(matches!(done, HeapOutcome::Done { .. }), "{done:?}");
    }
    drop(snapshot);
    fixture.commit(tx);
}

/// Full pages have too little room left for another row of this size. A page with a quarter of its
/// room free, or more, is offered as it is. When that limit was an eighth, rows of 1,700 and of
/// 2,020 bytes made no room. Such rows leave some 1,200 and 2,000 bytes of a page free.
#[test]
fn rows_of_any_size_that_were_deleted_make_room() {
    // The rows leave little of a page free, or nearly enough for one more row.
    for bytes in [300, 900, 1_300, 1_700, 1_950, 2_020, 2_500] {
        let fixture = Fixture::new();
        let row = vec![7; bytes];
        let fill = || {
            let tx = fixture.begin(0);
            let roots: Vec<_> = (0..120).map(|_| fixture.insert(&tx, &row)).collect();
            fixture.commit(tx);
            roots
        };
        let roots = fill();
        let blocks = fixture.heap().blocks().unwrap();
        delete_all(&fixture, &roots);
        fill();
        // The page that was being filled when the rows went is used last.
        let now = fixture.heap().blocks().unwrap();
        assert!(now <= blocks + 1, "rows of {bytes} bytes: {blocks} pages, then {now}");
        assert_eq!(fixture.check(), [""; 0]);
    }
}

/// Vacuum recorded such a page as full, because a page of zeros has no bounds. Then the heap grew
/// instead of using it.
#[test]
fn a_page_that_was_never_used_takes_rows_after_vacuum() {
    let fixture = Fixture::new();
    let root = inserted(&fixture, &[1; 7_000]);
    assert_eq!(root.block.0, 0);
    let heap = fixture.heap();
    // As a crash leaves it behind the heap's last page.
    fixture.storage.pool().extend(fixture.relation.file, niwaki_storage::Fork::Main, 1).unwrap();
    let horizon = fixture.txns.horizon();
    let mut roots = crate::VacuumRoots::default();
    for block in 0..2 {
        heap.vacuum_page(block, &horizon, Xid::INVALID, true, &mut roots).unwrap();
    }
    assert_eq!(inserted(&fixture, &[2; 7_000]).block.0, 1);
    assert_eq!(heap.blocks().unwrap(), 2);
}

/// A page with free bytes but without a free line pointer reads as full, until line pointers of
/// removed rows are freed.
#[test]
fn freed_line_pointers_offer_their_page() {
    let fixture = Fixture::new();
    let heap = fixture.heap();
    let look = || {
        let quiet = fixture.storage.wal().insert_lsn();
        heap.prune_if_quiet(0, quiet, &fixture.txns.horizon())
    };
    let mut removed: Vec<RemovedVersion> = Vec::new();
    while removed.len() < usize::from(MAX_ITEMS) {
        let tx = fixture.begin(0);
        let count = (usize::from(MAX_ITEMS) - removed.len()).min(100);
        let roots: Vec<_> = (0..count).map(|_| fixture.insert(&tx, b"r")).collect();
        fixture.commit(tx);
        assert!(roots.iter().all(|root| root.block.0 == 0), "{roots:?}");
        delete_all(&fixture, &roots);
        assert_eq!(look(), PageVisit::Passed);
        removed.extend(heap.take_removed(usize::MAX));
    }
    // All line pointers are DEAD: indexes may have entries for them.
    assert_eq!(inserted(&fixture, b"r").block.0, 1);
    assert_eq!(look(), PageVisit::Nothing);
    for version in &removed {
        heap.note_cleaned(version.root, version.record.expect("a record"), true);
    }
    assert_eq!(look(), PageVisit::Passed);
    // The other page has no room for the second row.
    assert_eq!(inserted(&fixture, &[1; 7_000]).block.0, 1);
    assert_eq!(inserted(&fixture, &[2; 3_000]).block.0, 0);
    assert_eq!(heap.blocks().unwrap(), 2);
    assert_eq!(fixture.check(), [""; 0]);
}
