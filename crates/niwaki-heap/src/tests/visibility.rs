//! Tests of the visibility map: changes that set and clear it, faults that a check finds, and equal
//! pages after redo.

use std::sync::Arc;

use niwaki_storage::{BlockNumber, CheckpointKind, Fork, PageId, PageWrite, Tid, Xid};
use niwaki_txn::{Durability, RowLockMode, TxnOptions};

use super::{Fixture, MAPPED, row};
use crate::{
    Heap, HeapOutcome, HeapRegistry, InsertOptions, MapOptions, PageRows, PageVisibility,
    RowTarget, UpdateKind, VacuumRoots,
};
use PageVisibility::{AllFrozen, AllVisible, Unknown};

const HEAP_ONLY: UpdateKind = UpdateKind { heap_only: true, mixed: false, key_changed: false };

impl Fixture {
    /// Makes a fixture as [`Fixture::new`] does, with a map that has these options.
    fn mapped(options: MapOptions) -> Self {
        let mut fixture = Self::new();
        fixture.relation = HeapRegistry::with_maps(options).open(fixture.relation.file, 100);
        fixture
    }

    fn said(&self, block: u32) -> PageVisibility {
        self.heap().open_visibility_map().unwrap();
        let said = self.heap().page_visibility(block);
        assert_eq!(said, self.heap().visibility_on_page(block).unwrap());
        said
    }

    fn vacuum(&self, freeze_before: Xid) -> VacuumRoots {
        let mut roots = VacuumRoots::default();
        for block in 0..self.heap().blocks().unwrap() {
            let horizon = self.txns.horizon();
            self.heap().vacuum_page(block, &horizon, freeze_before, true, &mut roots).unwrap();
        }
        roots
    }

    fn committed_row(&self) -> Tid {
        let tx = self.begin(0);
        let root = self.insert(&tx, b"one");
        self.commit(tx);
        root
    }

    /// Makes a page with one row that every snapshot sees.
    fn seen_by_all(&self, freeze_before: Xid) -> Tid {
        let root = self.committed_row();
        self.vacuum(freeze_before);
        root
    }

    fn map_page(&self, number: u32) -> PageWrite<'_> {
        let file = self.relation.file.id;
        let id = PageId { file, fork: Fork::Visibility, block: BlockNumber(number) };
        self.storage.pool().pin(id).unwrap().into_write()
    }
}

#[test]
fn vacuum_says_what_all_see() {
    let fixture = Fixture::new();
    assert_eq!(fixture.said(0), Unknown);
    let root = fixture.committed_row();
    let reader = fixture.begin(1);
    let snapshot = reader.snapshot().unwrap();
    let tx = fixture.begin(0);
    fixture.update(&tx, root, b"two");
    fixture.vacuum(Xid(0));
    assert_eq!(fixture.said(0), Unknown, "somebody is changing it");
    fixture.commit(tx);
    fixture.vacuum(Xid(0));
    assert_eq!(fixture.said(0), Unknown, "the reader does not see the new version");
    drop(snapshot);
    drop(reader);
    fixture.vacuum(Xid(0));
    assert_eq!(fixture.said(0), AllVisible);
    fixture.vacuum(Xid(u64::MAX));
    assert_eq!(fixture.said(0), AllFrozen);
    assert_eq!(fixture.check(), [""; 0]);
    fixture.assert_redo_makes_the_same();
}

#[test]
fn it_speaks_when_it_writes_nothing_to_the_heap_page() {
    let fixture = Fixture::new();
    fixture.committed_row();
    let lsn = || fixture.heap().pin(0).unwrap().read().lsn();
    let before = lsn();
    fixture.vacuum(Xid(0));
    assert_eq!((fixture.said(0), lsn()), (AllVisible, before));
    let end = fixture.storage.wal().insert_lsn();
    fixture.vacuum(Xid(0));
    assert_eq!(fixture.storage.wal().insert_lsn(), end, "and what it said it does not say again");
}

#[test]
fn a_commit_that_may_be_lost_counts_where_its_loss_takes_the_bit_along() {
    let fixture = Fixture::new();
    let tx = fixture.begin(0);
    fixture.insert(&tx, b"one");
    tx.commit(Durability::Async).unwrap();
    fixture.vacuum(Xid(0));
    assert_eq!(fixture.said(0), AllVisible, "the log has the commit before the bit");
    fixture.assert_redo_makes_the_same();
}

/// Changes a row whose page is marked as frozen. Returns the mark that is left.
fn left_by(change: impl FnOnce(&Fixture, Tid)) -> PageVisibility {
    let fixture = Fixture::new();
    let root = fixture.seen_by_all(Xid(u64::MAX));
    assert_eq!(fixture.said(root.block.0), AllFrozen);
    change(&fixture, root);
    let left = fixture.said(root.block.0);
    assert_eq!(fixture.check(), [""; 0]);
    fixture.assert_redo_makes_the_same();
    left
}

#[test]
fn each_change_takes_back_what_was_said() {
    let with = |change: fn(&Heap<'_>, &niwaki_txn::View<'_>, Tid)| {
        left_by(|fixture, root| {
            let tx = fixture.begin(1);
            let snapshot = tx.snapshot_for_write().unwrap();
            change(&fixture.heap(), &tx.view(&snapshot), root);
            drop(snapshot);
            tx.abort();
        })
    };
    let changes: [fn(&Heap<'_>, &niwaki_txn::View<'_>, Tid); 6] = [
        |heap, view, _| {
            heap.insert(view.transaction(), row(b"two"), InsertOptions::default()).unwrap();
        },
        |heap, view, _| {
            let (rows, options) = ([row(b"two"), row(b"thr")], InsertOptions::default());
            heap.insert_many(view.transaction(), &rows, options, &mut Vec::new()).unwrap();
        },
        |heap, view, root| {
            let target = RowTarget::visible(root);
            heap.update(view, target, row(b"two"), HEAP_ONLY).unwrap();
        },
        |heap, view, root| {
            heap.delete(view, RowTarget::visible(root)).unwrap();
        },
        |heap, view, root| {
            let xid = view.transaction().write_xid().unwrap();
            heap.set_mixed(xid, root.block.0, &[root.offset.0]).unwrap();
        },
        |heap, view, root| {
            heap.end_piece(view.transaction(), root, |_| Some(())).unwrap();
        },
    ];
    for (number, change) in changes.into_iter().enumerate() {
        assert_eq!(with(change), Unknown, "change {number}");
    }
    let locked = with(|heap, view, root| {
        heap.lock(view, RowTarget::visible(root), RowLockMode::Update).unwrap();
    });
    assert_eq!(locked, AllVisible, "all see a row that somebody locked, but it names the locker");
}

#[test]
fn a_move_takes_back_what_was_said_of_both_pages() {
    moves(&Fixture::new());
    moves(&Fixture::mapped(MapOptions { blocks_min: 1, resident: false }));
}

fn moves(fixture: &Fixture) {
    let tx = fixture.begin(0);
    let wide = vec![b'w'; 3600];
    let roots: Vec<Tid> = (0..3).map(|_| fixture.insert(&tx, &wide)).collect();
    fixture.commit(tx);
    assert_eq!(roots[2].block.0, 1);
    fixture.vacuum(Xid(0));
    assert_eq!([fixture.said(0), fixture.said(1)], [AllVisible; 2]);
    let tx = fixture.begin(0);
    let snapshot = tx.snapshot_for_write().unwrap();
    let kind = UpdateKind { heap_only: false, ..HEAP_ONLY };
    let target = RowTarget::visible(roots[0]);
    let done = fixture.heap().update(&tx.view(&snapshot), target, row(&wide), kind).unwrap();
    assert!(matches!(done, HeapOutcome::Done { root, .. } if root.block.0 == 1), "{done:?}");
    drop(snapshot);
    fixture.commit(tx);
    assert_eq!([fixture.said(0), fixture.said(1)], [Unknown; 2]);
    fixture.assert_redo_makes_the_same();
    // A follower from the first page needs the line pointer there, which waits for its index
    // entries.
    assert!(fixture.vacuum(Xid(0)).dead.iter().eq([roots[0]]));
    assert_eq!([fixture.said(0), fixture.said(1)], [Unknown, AllVisible]);
    let paused = fixture.heap().pause_freeing();
    let horizon = fixture.txns.horizon();
    fixture.heap().free_dead(&paused, 0, &[roots[0].offset.0], &horizon).unwrap();
    assert_eq!(fixture.said(0), AllVisible);
    assert_eq!(fixture.check(), [""; 0]);
}

#[test]
fn a_mixed_root_is_not_for_all() {
    let fixture = Fixture::new();
    let root = fixture.committed_row();
    let tx = fixture.begin(0);
    let xid = tx.write_xid().unwrap();
    fixture.heap().set_mixed(xid, 0, &[root.offset.0]).unwrap();
    fixture.commit(tx);
    fixture.vacuum(Xid(0));
    assert_eq!(fixture.said(0), Unknown);
    fixture.heap().begin_cleaning(0, &[root.offset.0]).unwrap();
    fixture.heap().clear_mixed(0, &[root.offset.0]).unwrap();
    fixture.vacuum(Xid(0));
    assert_eq!(fixture.said(0), AllVisible);
}

#[test]
fn who_reads_past_garbage_says_what_is_left() {
    let fixture = Fixture::new();
    let tx = fixture.begin(0);
    let wide = vec![b'w'; 2000];
    let roots: Vec<Tid> = (0..3).map(|_| fixture.insert(&tx, &wide)).collect();
    fixture.commit(tx);
    let tx = fixture.begin(0);
    fixture.update(&tx, roots[0], &wide[..1900]);
    fixture.commit(tx);
    assert_eq!(fixture.said(0), Unknown);
    let tx = fixture.begin(0);
    let snapshot = tx.snapshot().unwrap();
    let mut rows = PageRows::default();
    fixture.heap().scan_page(&tx.view(&snapshot), 0, None, &mut rows).unwrap();
    assert_eq!((rows.len(), fixture.said(0)), (3, AllVisible));
    fixture.assert_redo_makes_the_same();
}

#[test]
fn a_small_heap_has_no_map() {
    let fixture = Fixture::mapped(MapOptions { blocks_min: 2, resident: true });
    fixture.committed_row();
    fixture.vacuum(Xid(0));
    let file = fixture.relation.file.id;
    assert_eq!(fixture.storage.pool().blocks(file, Fork::Visibility).unwrap(), 0);
    let tx = fixture.begin(0);
    let wide = vec![b'w'; 5000];
    (0..2).for_each(|_| _ = fixture.insert(&tx, &wide));
    fixture.commit(tx);
    fixture.vacuum(Xid(0));
    assert_eq!([fixture.said(0), fixture.said(1)], [AllVisible; 2]);
}

#[test]
fn it_is_the_same_on_its_pages_alone() {
    let fixture = Fixture::mapped(MapOptions { blocks_min: 1, resident: false });
    let root = fixture.seen_by_all(Xid(0));
    assert_eq!((fixture.said(0), fixture.heap().visibility_map_bytes()), (AllVisible, 0));
    let tx = fixture.begin(0);
    fixture.update(&tx, root, b"two");
    assert_eq!(fixture.said(0), Unknown);
    tx.abort();
    fixture.assert_redo_makes_the_same();
}

#[test]
fn it_is_found_again() {
    let mut fixture = Fixture::new();
    fixture.seen_by_all(Xid(0));
    for resident in [true, false] {
        let options = MapOptions { blocks_min: 1, resident };
        fixture.relation = HeapRegistry::with_maps(options).open(fixture.relation.file, 100);
        assert_eq!(fixture.said(0), AllVisible);
        let bytes = fixture.heap().visibility_map_bytes();
        assert_eq!(bytes > 0, resident, "{bytes} bytes");
    }
    // A damaged page of the map asserts nothing.
    let mut page = fixture.map_page(0);
    page.0.fill(0);
    page.mark_dirty();
    drop(page);
    fixture.relation = HeapRegistry::with_maps(MAPPED).open(fixture.relation.file, 100);
    assert_eq!(fixture.said(0), Unknown);
    fixture.vacuum(Xid(0));
    assert_eq!(fixture.said(0), AllVisible);
}

/// Returns the faults that a check finds after the map's page was changed behind the code's back,
/// and the heap opened again.
fn broken(
    rows: impl FnOnce(&Fixture, Tid),
    damage: impl FnOnce(&mut PageWrite<'_>),
) -> Vec<&'static str> {
    let mut fixture = Fixture::new();
    let root = fixture.seen_by_all(Xid(0));
    rows(&fixture, root);
    assert_eq!(fixture.check(), [""; 0], "sound before");
    let mut page = fixture.map_page(0);
    damage(&mut page);
    page.mark_dirty();
    drop(page);
    fixture.relation = HeapRegistry::with_maps(MAPPED).open(fixture.relation.file, 100);
    let mut names = fixture.check();
    names.dedup();
    names
}

#[test]
fn a_check_finds_what_is_not_so() {
    let say = |block: usize, bits: u8| {
        move |map: &mut PageWrite<'_>| map.raw_mut()[block / 4] |= bits << (2 * (block % 4))
    };
    assert_eq!(broken(|_, _| {}, |_| {}), [""; 0]);
    assert_eq!(broken(|_, _| {}, say(0, 3)), ["V1"], "nothing was frozen");
    assert_eq!(broken(|_, _| {}, say(1, 1)), ["V1"], "there is one page");
    assert_eq!(broken(|_, _| {}, say(0, 2)), ["V1"], "frozen, and not visible");
    let deleted = |fixture: &Fixture, root| {
        let tx = fixture.begin(0);
        let snapshot = tx.snapshot_for_write().unwrap();
        fixture.heap().delete(&tx.view(&snapshot), RowTarget::visible(root)).unwrap();
        drop(snapshot);
        fixture.commit(tx);
    };
    assert_eq!(broken(deleted, say(0, 1)), ["V1"], "a deleted row");
    let dead = |fixture: &Fixture, root| {
        deleted(fixture, root);
        assert!(fixture.vacuum(Xid(0)).dead.iter().eq([root]));
    };
    assert_eq!(broken(dead, say(0, 1)), ["V1"], "a DEAD line pointer");
    let mixed = |fixture: &Fixture, root: Tid| {
        let tx = fixture.begin(0);
        let xid = tx.write_xid().unwrap();
        fixture.heap().set_mixed(xid, 0, &[root.offset.0]).unwrap();
        fixture.commit(tx);
    };
    assert_eq!(broken(mixed, say(0, 1)), ["V1"], "a mixed root");
    let in_progress = |fixture: &Fixture, _| {
        let tx = fixture.begin(0);
        fixture.insert(&tx, b"two");
        std::mem::forget(tx);
    };
    assert_eq!(broken(in_progress, say(0, 1)), ["V1"], "nobody has committed it");
}

/// A bit that was set over a DEAD line pointer becomes right once a vacuum frees the line pointer.
/// The vacuum skips no page and visits the indexes.
#[test]
fn vacuum_mends_a_bit_over_a_dead_line_pointer() {
    let mut fixture = Fixture::new();
    let root = fixture.seen_by_all(Xid(0));
    fixture.committed_row();
    super::removed::delete(&fixture, root);
    fixture.vacuum(Xid(0));
    let mut map = fixture.map_page(0);
    map.raw_mut()[0] |= 1;
    map.mark_dirty();
    drop(map);
    fixture.relation = HeapRegistry::with_maps(MAPPED).open(fixture.relation.file, 100);
    assert_eq!((fixture.said(0), fixture.check()), (AllVisible, vec!["V1"]));
    let heap = fixture.heap();
    let paused = heap.pause_freeing();
    assert!(fixture.vacuum(Xid(0)).dead.iter().eq([root]));
    heap.free_dead(&paused, 0, &[root.offset.0], &fixture.txns.horizon()).unwrap();
    assert_eq!((fixture.said(0), fixture.check()), (AllVisible, vec![]));
}

#[test]
fn the_log_names_the_map_only_where_something_was_said() {
    let fixture = Fixture::new();
    let root = fixture.seen_by_all(Xid(0));
    let bytes = || {
        let before = fixture.storage.wal().insert_lsn().0;
        let tx = fixture.begin(0);
        fixture.update(&tx, root, b"two");
        let after = fixture.storage.wal().insert_lsn().0;
        fixture.commit(tx);
        after - before
    };
    let (first, second) = (bytes(), bytes());
    assert!((1..=24).contains(&(first - second)), "{first} and {second} bytes");
}

#[test]
fn who_had_to_come_spares_the_next_one_that() {
    let fixture = Fixture::new();
    let root = fixture.committed_row();
    let tx = fixture.begin(0);
    fixture.update(&tx, root, b"two");
    let shown = || fixture.heap().set_all_visible(0, &fixture.txns.horizon()).unwrap();
    fixture.heap().open_visibility_map().unwrap();
    assert!(!shown(), "somebody is changing it");
    fixture.commit(tx);
    assert!(shown() && fixture.said(0) == AllVisible, "and the old version is gone");
    assert_eq!(fixture.vacuum(Xid(0)), VacuumRoots::default());
    let tx = fixture.begin(0);
    let xid = tx.write_xid().unwrap();
    fixture.heap().set_mixed(xid, 0, &[root.offset.0]).unwrap();
    fixture.commit(tx);
    assert!(!shown(), "a mixed root about which nobody knows all");
    let passes = fixture.heap().reader_passes();
    assert!(!shown());
    assert_eq!(fixture.heap().reader_passes(), passes, "nobody passes over it in vain");
    assert_eq!(fixture.check(), [""; 0]);
    fixture.assert_redo_makes_the_same();
}

impl Fixture {
    /// Returns the faults that a check finds if the process is killed now, with the files as they
    /// are.
    fn killed(&self) -> (Vec<&'static str>, PageVisibility) {
        let (storage, txns) = super::open(&Arc::new(self.vfs.fork()), TxnOptions::default());
        let relation = HeapRegistry::with_maps(MAPPED).open(self.relation.file, 100);
        let heap = Heap::new(&storage, &txns, &relation);
        let mut report = Vec::new();
        for block in 0..heap.blocks().unwrap() {
            heap.check_page(block, &mut report, |_, _| {}, |_| {}).unwrap();
        }
        heap.check_visibility_map(&mut report).unwrap();
        (report.into_iter().map(|found| found.invariant).collect(), heap.page_visibility(0))
    }
}

#[test]
fn a_crash_loses_a_bit_and_never_brings_one() {
    let fixture = Fixture::new();
    let root = fixture.committed_row();
    let sound = |said| assert_eq!(fixture.killed(), (vec![], said));
    sound(Unknown);
    fixture.vacuum(Xid(0));
    sound(Unknown);
    fixture.storage.wal().flush(fixture.storage.wal().insert_lsn()).unwrap();
    sound(AllVisible);
    // One change's record is lost; another change's record is kept although the change never
    // commits.
    let tx = fixture.begin(0);
    fixture.update(&tx, root, b"two");
    sound(AllVisible);
    fixture.storage.wal().flush(fixture.storage.wal().insert_lsn()).unwrap();
    sound(Unknown);
    tx.abort();
    // The page of the map is written, and so is its record.
    fixture.vacuum(Xid(0));
    fixture.storage.checkpoint(CheckpointKind::Requested, &[&*fixture.txns]).unwrap();
    sound(AllVisible);
    // A bit is cleared on the page, and not in the log: the fault that V2 finds.
    let mut fixture = fixture;
    let tx = fixture.begin(0);
    fixture.update(&tx, root, b"two");
    fixture.commit(tx);
    let mut map = fixture.map_page(0);
    map.raw_mut()[0] |= 1;
    map.mark_dirty();
    drop(map);
    fixture.storage.checkpoint(CheckpointKind::Requested, &[&*fixture.txns]).unwrap();
    fixture.relation = HeapRegistry::with_maps(MAPPED).open(fixture.relation.file, 100);
    let (found, _) = fixture.killed();
    assert!(!found.is_empty() && found.iter().all(|invariant| *invariant == "V2"), "{found:?}");
}

#[test]
fn nobody_tries_to_show_pages_of_a_small_heap() {
    let fixture = Fixture::mapped(MapOptions { blocks_min: 2, resident: true });
    fixture.committed_row();
    let shown = fixture.heap().set_all_visible(0, &fixture.txns.horizon()).unwrap();
    assert_eq!((shown, fixture.heap().reader_passes()), (false, 0));
}
