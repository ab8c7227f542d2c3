//! Readers remove the versions that they pass.

use niwaki_storage::OffsetNumber;
use niwaki_storage::page::ItemState;

use super::*;
use crate::PageRows;
use crate::format::page::Chain;

/// Returns the length of the chain at a root, and the state of its line pointer.
fn chain(fixture: &Fixture, root: Tid) -> (usize, ItemState) {
    let page = fixture.heap().pin(root.block.0).unwrap();
    let page = page.read();
    (Chain::new(&page, root.offset.0).count(), page.item_id(root.offset).state())
}

fn updated(fixture: &Fixture, root: Tid, times: u8, bytes: usize) {
    for time in 0..times {
        let tx = fixture.begin(0);
        let done = fixture.update(&tx, root, &vec![time; bytes]);
        assert_eq!(done, HeapOutcome::Done { root, heap_only: true });
        fixture.commit(tx);
    }
}

fn read(fixture: &Fixture, root: Tid) -> Option<Vec<u8>> {
    let tx = fixture.begin(1);
    let found = fixture.fetch(&tx, root);
    tx.abort();
    found
}

fn scan(fixture: &Fixture, block: u32) -> Vec<Vec<u8>> {
    let tx = fixture.begin(1);
    let snapshot = tx.snapshot().unwrap();
    let mut rows = PageRows::new();
    fixture.heap().scan_page(&tx.view(&snapshot), block, None, &mut rows).unwrap();
    drop(snapshot);
    tx.abort();
    rows.iter().map(|row| row.bytes.to_vec()).collect()
}

#[test]
fn a_long_chain_gets_shorter_when_it_is_read() {
    let fixture = Fixture::new();
    let root = inserted(&fixture, b"first");
    updated(&fixture, root, 30, 20);
    assert_eq!(chain(&fixture, root).0, 31);
    assert_eq!(read(&fixture, root).unwrap(), [29; 20]);
    assert_eq!(chain(&fixture, root), (1, ItemState::Redirect));
    assert_eq!(fixture.heap().reader_passes(), 1);
    // Neither kind of reader finds anything left to do.
    let end = fixture.storage.wal().insert_lsn();
    assert_eq!(read(&fixture, root).unwrap(), [29; 20]);
    assert_eq!(scan(&fixture, 0), [vec![29; 20]]);
    assert_eq!(fixture.heap().reader_passes(), 1);
    assert_eq!(fixture.storage.wal().insert_lsn(), end);
    assert_eq!(fixture.check(), [""; 0]);
}

#[test]
fn a_page_short_of_room_is_pruned_for_few_versions() {
    for by_scan in [false, true] {
        let fixture = Fixture::new();
        let root = inserted(&fixture, b"first");
        updated(&fixture, root, 3, 2500);
        assert_eq!(chain(&fixture, root).0, 4);
        let rows = if by_scan { scan(&fixture, 0) } else { vec![read(&fixture, root).unwrap()] };
        assert_eq!(rows, [vec![2; 2500]]);
        assert_eq!(chain(&fixture, root), (1, ItemState::Redirect));
        assert_eq!(fixture.check(), [""; 0]);
    }
}

/// A reader takes no exclusive latch and logs nothing in three cases. It sees every version, or it
/// passes few versions on a page with room, or an old snapshot still sees the passed versions.
#[test]
fn a_page_without_garbage_costs_a_reader_nothing() {
    let fixture = Fixture::new();
    let full: Vec<Tid> = (0..7).map(|_| inserted(&fixture, &[1; 1100])).collect();
    let (few, held) = {
        // These two rows are on pages of their own.
        let few = inserted(&fixture, &[2; 700]);
        updated(&fixture, few, 3, 700);
        let held = inserted(&fixture, &[3; 5300]);
        (few, held)
    };
    assert!(full.iter().all(|tid| tid.block.0 == 0) && few.block.0 == 1 && held.block.0 == 2);
    let reader = fixture.begin(2);
    let old = reader.snapshot().unwrap();
    updated(&fixture, held, 1, 2700);
    let end = fixture.storage.wal().insert_lsn();
    for _ in 0..3 {
        full.iter().for_each(|&root| assert_eq!(read(&fixture, root).unwrap(), [1; 1100]));
        assert_eq!(read(&fixture, few).unwrap(), [2; 700]);
        assert_eq!(read(&fixture, held).unwrap(), [0; 2700]);
        let rows: usize = (0..3).map(|block| scan(&fixture, block).len()).sum();
        assert_eq!(rows, 9);
    }
    assert_eq!(fixture.heap().reader_passes(), 0);
    assert_eq!(fixture.storage.wal().insert_lsn(), end);
    // The old snapshot's version stays as long as the snapshot, and no longer.
    let view = reader.view(&old);
    let seen = fixture.heap().fetch(&view, held, |row| row.bytes.to_vec()).unwrap();
    assert_eq!(seen.unwrap(), [3; 5300]);
    drop(old);
    reader.abort();
    assert_eq!(read(&fixture, held).unwrap(), [0; 2700]);
    assert_eq!((chain(&fixture, held).0, fixture.heap().reader_passes()), (1, 1));
}

#[test]
fn a_reader_waits_for_nobody_to_prune() {
    let fixture = Fixture::new();
    let root = inserted(&fixture, b"first");
    updated(&fixture, root, 30, 20);
    {
        let pin = fixture.heap().pin(0).unwrap();
        let _shared = pin.read();
        assert_eq!(read(&fixture, root).unwrap(), [29; 20]);
        assert_eq!(scan(&fixture, 0).len(), 1);
    }
    assert_eq!((chain(&fixture, root).0, fixture.heap().reader_passes()), (31, 0));
    assert_eq!(read(&fixture, root).unwrap(), [29; 20]);
    assert_eq!(chain(&fixture, root).0, 1);
}

#[test]
fn rows_that_were_rolled_back_or_deleted_make_room_for_others() {
    let fixture = Fixture::new();
    let tx = fixture.begin(0);
    // The session that filled the page makes no pass for so few rows.
    let gone: Vec<Tid> = (0..3).map(|_| fixture.insert(&tx, &[1; 300])).collect();
    tx.abort();
    let deleted: Vec<Tid> = (0..3).map(|_| inserted(&fixture, &[2; 2300])).collect();
    let tx = fixture.begin(0);
    let snapshot = tx.snapshot_for_write().unwrap();
    for &root in &deleted {
        fixture.heap().delete(&tx.view(&snapshot), RowTarget::visible(root)).unwrap();
    }
    drop(snapshot);
    fixture.commit(tx);
    // Another page becomes the target of insertions.
    let other = inserted(&fixture, &[3; 7000]);
    assert_eq!((gone[0].block.0, deleted[2].block.0, other.block.0), (0, 0, 1));
    assert!(scan(&fixture, 0).is_empty());
    let page = fixture.heap().pin(0).unwrap();
    let states: Vec<_> =
        (1..=6).map(|offset| page.read().item_id(OffsetNumber(offset)).state()).collect();
    assert_eq!(states, [ItemState::Dead; 6], "until no index entry names them");
    assert_eq!(inserted(&fixture, &[4; 3000]).block.0, 0);
    assert_eq!(fixture.heap().blocks().unwrap(), 2);
    assert_eq!(fixture.check(), [""; 0]);
}

/// The scan's rows were copied under one latch hold: the pass after the scan does not change them.
#[test]
fn a_scan_gives_the_rows_of_before_its_pass() {
    let fixture = Fixture::new();
    let roots: Vec<Tid> = (0..4).map(|row| inserted(&fixture, &[row; 300])).collect();
    for &root in &roots[1..3] {
        updated(&fixture, root, 9, 300);
    }
    let rows = scan(&fixture, 0);
    assert_eq!(rows, [vec![0; 300], vec![3; 300], vec![8; 300], vec![8; 300]]);
    assert_eq!(fixture.heap().reader_passes(), 1);
    assert_eq!(scan(&fixture, 0).len(), 4);
    for (row, &root) in [0, 8, 8, 3].into_iter().zip(&roots) {
        assert_eq!(read(&fixture, root).unwrap(), [row; 300]);
    }
}
