//! Reports of passes about rows that end.

use niwaki_storage::page::ItemState;

use super::*;
use crate::{PageVisibility, PageVisit};

pub(super) fn delete(fixture: &Fixture, root: Tid) {
    let tx = fixture.begin(0);
    let snapshot = tx.snapshot_for_write().unwrap();
    let done = fixture.heap().delete(&tx.view(&snapshot), RowTarget::visible(root)).unwrap();
    assert!(matches!(done, HeapOutcome::Done { .. }), "{done:?}");
    drop(snapshot);
    fixture.commit(tx);
}

/// `last-of-chain`: when a row ends, a pass reports the last version of its chain, whatever else
/// the pass removes. A rolled-back version may have another key in an index that was built after
/// it.
#[test]
fn of_a_row_that_ends_its_last_version_is_told() {
    let fixture = Fixture::new();
    let heap = fixture.heap();
    let root = inserted(&fixture, b"first");
    let tx = fixture.begin(0);
    fixture.update(&tx, root, b"second");
    fixture.commit(tx);
    let tx = fixture.begin(0);
    fixture.update(&tx, root, b"rolled back");
    tx.abort();
    delete(&fixture, root);
    heap.prune_page(root.block.0).unwrap();
    let reported = heap.take_removed(usize::MAX);
    let bytes: Vec<_> = reported.iter().map(|it| (it.root, &it.row.bytes[..])).collect();
    assert_eq!(bytes, [(root, &b"second"[..])]);
    assert!(reported[0].record.is_some());
    assert_eq!(fixture.check(), [""; 0]);
}

/// A row that never existed is reported, once. A row that lives on elsewhere is reported only in a
/// table whose rows seldom do.
#[test]
fn rows_that_end_are_told_of_once() {
    for reports_moves in [false, true] {
        rows_that_end(reports_moves);
    }
}

fn rows_that_end(reports_moves: bool) {
    let fixture = Fixture::new();
    let relation = fixture.relation.clone().reporting_moves(reports_moves);
    let heap = Heap::new(&fixture.storage, &fixture.txns, &relation);
    let tx = fixture.begin(0);
    let never = fixture.insert(&tx, b"never was");
    tx.abort();
    let moves = inserted(&fixture, &[1; 4000]);
    let tx = fixture.begin(0);
    fixture.update(&tx, moves, &[2; 6000]);
    fixture.commit(tx);
    heap.prune_page(0).unwrap();
    let roots: Vec<_> = heap.take_removed(usize::MAX).iter().map(|it| it.root).collect();
    assert_eq!(roots, if reports_moves { vec![never, moves] } else { vec![never] });
    heap.prune_page(0).unwrap();
    assert!(heap.take_removed(usize::MAX).is_empty());
}

/// A line pointer is freed once the clean-up of everything that its row left is reported. A late
/// report for another row does not count (`own-record`).
#[test]
fn line_pointers_of_rows_that_were_seen_to_are_free() {
    let fixture = Fixture::new();
    let heap = fixture.heap();
    let state = |root: Tid| heap.pin(root.block.0).unwrap().read().item_id(root.offset).state();
    let end = |bytes: &[u8]| {
        let root = inserted(&fixture, bytes);
        delete(&fixture, root);
        heap.prune_page(root.block.0).unwrap();
        assert_eq!(state(root), ItemState::Dead);
        let [reported] = &heap.take_removed(usize::MAX)[..] else { panic!("one row ended") };
        (root, reported.record.unwrap())
    };
    let (root, record) = end(b"row");
    heap.expect_cleanup(root, record);
    heap.note_cleaned(root, record, true);
    heap.prune_page(root.block.0).unwrap();
    assert_eq!(state(root), ItemState::Dead, "one of two is unseen");
    heap.note_cleaned(root, record, true);
    let paused = heap.pause_freeing();
    heap.prune_page(root.block.0).unwrap();
    assert_eq!(state(root), ItemState::Dead, "somebody remembers roots");
    drop(paused);
    heap.prune_page(root.block.0).unwrap();
    assert_eq!(state(root), ItemState::Unused);
    // The same line pointer gets another row.
    let (again, newer) = end(b"another");
    assert_eq!(again, root);
    assert_ne!(newer, record);
    heap.note_cleaned(again, record, true);
    heap.prune_page(root.block.0).unwrap();
    assert_eq!(state(root), ItemState::Dead, "who is late saw to another row");
    heap.note_cleaned(again, newer, true);
    heap.prune_page(root.block.0).unwrap();
    assert_eq!(state(root), ItemState::Unused);
    assert_eq!(fixture.check(), [""; 0]);
}

/// `freed-twice`: two sources report one DEAD line pointer as free, the index that deleted its
/// entries and the gardener that looked for them. No source reports the next line pointer of the
/// page, which an index still names. So the map must not mark the page as visible to all (V1).
#[test]
fn a_line_pointer_that_two_know_of_does_not_hide_another() {
    let fixture = Fixture::new();
    let heap = fixture.heap();
    let roots = [b"first", b"other", b"stays"].map(|bytes| inserted(&fixture, bytes));
    roots[..2].iter().for_each(|&root| delete(&fixture, root));
    heap.prune_page(0).unwrap();
    let reported = heap.take_removed(usize::MAX);
    let record = reported
        .iter()
        .find(|reported| reported.root == roots[0])
        .and_then(|reported| reported.record);
    heap.note_unreferenced(&[niwaki_storage::RelFileId(99)].into(), 0, &[roots[0]]);
    heap.note_cleaned(roots[0], record.unwrap(), true);
    // This change is a reason for a pass.
    let tx = fixture.begin(0);
    fixture.update(&tx, roots[2], b"stays, and has changed");
    fixture.commit(tx);
    heap.open_visibility_map().unwrap();
    let quiet = fixture.storage.wal().insert_lsn();
    assert_eq!(heap.prune_if_quiet(0, quiet, &fixture.txns.horizon()), PageVisit::Passed);
    let state = |root: Tid| heap.pin(root.block.0).unwrap().read().item_id(root.offset).state();
    assert_eq!(roots.map(state), [ItemState::Unused, ItemState::Dead, ItemState::Redirect]);
    assert_eq!(heap.page_visibility(0), PageVisibility::Unknown);
    assert_eq!(fixture.check(), [""; 0]);
}

/// Deleted rows make room before the heap grows, although no reader passes them.
#[test]
fn a_heap_of_rows_that_come_and_go_does_not_grow() {
    for held in [false, true] {
        let fixture = Fixture::new();
        let reader = fixture.begin(2);
        let old = held.then(|| reader.snapshot().unwrap());
        for turn in 0..50u8 {
            let roots: Vec<_> = (0..20).map(|_| inserted(&fixture, &[turn; 500])).collect();
            for root in roots {
                delete(&fixture, root);
                // The entries are cleaned up at once.
                for reported in fixture.heap().take_removed(usize::MAX) {
                    fixture.heap().note_cleaned(reported.root, reported.record.unwrap(), true);
                }
            }
        }
        let blocks = fixture.heap().blocks().unwrap();
        assert!(blocks <= 3, "{blocks} blocks, an old snapshot: {held}");
        drop(old);
        reader.abort();
        assert_eq!(fixture.check(), [""; 0]);
    }
}

/// Insertions are rolled back again and again, between rows that stay. The heap needs no more room
/// than for the rows that stay.
#[test]
fn a_heap_does_not_grow_by_rows_that_were_rolled_back() {
    let fixture = Fixture::new();
    let mut stay = Vec::new();
    for turn in 0..1000u16 {
        if turn % 20 == 0 {
            stay.push(inserted(&fixture, &turn.to_le_bytes().repeat(50)));
        }
        let tx = fixture.begin(0);
        fixture.insert(&tx, &[7; 500]);
        tx.abort();
        // The entries are cleaned up at once.
        for reported in fixture.heap().take_removed(usize::MAX) {
            fixture.heap().note_cleaned(reported.root, reported.record.unwrap(), true);
        }
    }
    let blocks = fixture.heap().blocks().unwrap();
    assert!(blocks <= 3, "{blocks} blocks");
    let tx = fixture.begin(0);
    for (root, turn) in stay.into_iter().zip((0..1000u16).step_by(20)) {
        assert_eq!(fixture.fetch(&tx, root).unwrap(), turn.to_le_bytes().repeat(50));
    }
    tx.abort();
    assert_eq!(fixture.check(), [""; 0]);
    fixture.assert_redo_makes_the_same();
}
