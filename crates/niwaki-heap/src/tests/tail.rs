//! Tests of cutting off the empty end of a heap: the pages that go and stay, and the state in
//! memory and after a crash.

use niwaki_storage::{CheckpointKind, Fork};
use niwaki_txn::{Isolation, Snapshot};

use super::*;
use crate::{PageVisibility, VacuumRoots};

/// A row of this size fills half a page.
const ROW: [u8; 3900] = [7; 3900];

fn delete(fixture: &Fixture, tx: &Transaction, root: Tid) {
    let snapshot = tx.snapshot_for_write().unwrap();
    let done = fixture.heap().delete(&tx.view(&snapshot), RowTarget::visible(root)).unwrap();
    assert!(matches!(done, HeapOutcome::Done { .. }), "{done:?}");
}

impl Fixture {
    /// Inserts and commits rows that fill `count` pages.
    fn pages(&self, count: u32) -> Vec<Tid> {
        let tx = self.begin(0);
        let roots = (0..2 * count).map(|_| self.insert(&tx, &ROW)).collect();
        self.commit(tx);
        roots
    }

    fn delete_all(&self, roots: &[Tid]) {
        let tx = self.begin(0);
        roots.iter().for_each(|&root| delete(self, &tx, root));
        self.commit(tx);
    }

    /// Does the work of a vacuum. With `frees`, the table has no indexes, or the vacuum visits
    /// them.
    fn vacuumed(&self, frees: bool) {
        let heap = self.heap();
        let paused = heap.pause_freeing();
        let mut roots = VacuumRoots::default();
        for block in 0..heap.blocks().unwrap() {
            heap.vacuum_page(block, &self.txns.horizon(), Xid(0), true, &mut roots).unwrap();
        }
        for (block, offsets) in roots.dead.blocks().filter(|_| frees) {
            heap.free_dead(&paused, block, &offsets, &self.txns.horizon()).unwrap();
        }
    }

    /// Cuts off all empty pages at the end. Returns their number.
    fn cut(&self) -> u32 {
        let cut = self.heap().cut_tail(u32::MAX, &mut || false).unwrap();
        assert_eq!(self.check(), [""; 0]);
        self.assert_redo_makes_the_same();
        cut
    }

    fn blocks(&self) -> u32 {
        self.heap().blocks().unwrap()
    }

    fn old_snapshot(&self) -> (Transaction, Snapshot) {
        let isolation = Isolation::RepeatableRead;
        let options = BeginOptions { isolation, ..BeginOptions::default() };
        let tx = self.txns.begin(&self.sessions[1], options).unwrap();
        let snapshot = tx.snapshot().unwrap();
        (tx, snapshot)
    }
}

#[test]
fn pages_that_hold_nothing_are_cut_up_to_the_first_that_holds_something() {
    let fixture = Fixture::new();
    let roots = fixture.pages(8);
    assert_eq!(fixture.cut(), 0, "all pages have rows");
    // Empty the pages 4, 6 and 7.
    fixture.delete_all(&[&roots[8..10], &roots[12..]].concat());
    assert_eq!(fixture.cut(), 0, "nobody took the rows away");
    fixture.vacuumed(true);
    assert_eq!((fixture.cut(), fixture.blocks()), (2, 6));
    let tx = fixture.begin(0);
    for &root in roots[..8].iter().chain(&roots[10..12]) {
        assert_eq!(fixture.fetch(&tx, root).as_deref(), Some(&ROW[..]));
    }
    drop(tx);
    assert_eq!(fixture.cut(), 0, "and no more");
    // Cut off the whole heap; then the heap begins anew.
    fixture.delete_all(&[&roots[..8], &roots[10..12]].concat());
    fixture.vacuumed(true);
    assert_eq!((fixture.cut(), fixture.blocks()), (6, 0));
    assert_eq!(fixture.pages(3).len(), 6);
    assert_eq!(fixture.check(), [""; 0]);
    fixture.assert_redo_makes_the_same();
}

#[test]
fn what_somebody_needs_stays() {
    let fixture = Fixture::new();
    let roots = fixture.pages(4);
    // An old snapshot sees the rows of the last page, which are deleted.
    let (reader, snapshot) = fixture.old_snapshot();
    fixture.delete_all(&roots[6..]);
    fixture.vacuumed(true);
    assert_eq!(fixture.cut(), 0);
    drop(snapshot);
    drop(reader);
    // Indexes may have entries for DEAD line pointers.
    fixture.vacuumed(false);
    assert_eq!(fixture.cut(), 0);
    fixture.vacuumed(true);
    assert_eq!(fixture.cut(), 1);
    // A session inserts. Or it has rolled back, and no pass has visited the page since.
    fixture.delete_all(&roots[4..6]);
    fixture.vacuumed(true);
    let tx = fixture.begin(0);
    let row = fixture.insert(&tx, &ROW);
    assert_eq!((row.block.0, fixture.cut()), (2, 0));
    tx.abort();
    assert_eq!(fixture.cut(), 0);
    fixture.vacuumed(true);
    assert_eq!((fixture.cut(), fixture.blocks()), (1, 2));
}

#[test]
fn it_ends_where_it_is_told_to() {
    let fixture = Fixture::new();
    let roots = fixture.pages(120);
    fixture.delete_all(&roots[2..]);
    fixture.vacuumed(true);
    let heap = fixture.heap();
    // The heap grows by several pages at once.
    let end = fixture.blocks();
    assert_eq!((heap.cut_tail(7, &mut || false).unwrap(), fixture.blocks()), (7, end - 7));
    // Another session wants the table: the cut ends with the pages found so far.
    let done = heap.cut_tail(u32::MAX, &mut || true).unwrap();
    assert_eq!((done, fixture.blocks()), (32, end - 39));
    assert_eq!(heap.cut_tail(0, &mut || false).unwrap(), 0);
    let mut asked = 0;
    let wanted = &mut || {
        asked += 1;
        asked == 2
    };
    assert_eq!((heap.cut_tail(u32::MAX, wanted).unwrap(), fixture.blocks()), (64, end - 103));
    assert_eq!(fixture.check(), [""; 0]);
}

/// The map does not mark pages that are gone, or pages that come in their place (V1, V2).
#[test]
fn the_map_says_nothing_of_pages_that_are_gone() {
    for resident in [true, false] {
        let mut fixture = Fixture::new();
        let options = MapOptions { resident, ..MAPPED };
        fixture.relation = HeapRegistry::with_maps(options).open(fixture.relation.file, 100);
        let roots = fixture.pages(6);
        fixture.delete_all(&roots[4..]);
        fixture.vacuumed(true);
        let said = |block| fixture.heap().page_visibility(block);
        assert_eq!(said(5), PageVisibility::AllFrozen, "nothing is something that all see");
        assert_eq!(fixture.heap().all_visible_pages().unwrap(), 6);
        assert_eq!(fixture.cut(), 4);
        assert_eq!(fixture.heap().all_visible_pages().unwrap(), 2);
        // The heap grows again, by rows that not every snapshot sees.
        let tx = fixture.begin(0);
        let root = fixture.insert(&tx, &ROW);
        assert_eq!(root.block.0, 2);
        assert_eq!(said(2), PageVisibility::Unknown);
        assert_eq!(fixture.check(), [""; 0]);
        fixture.assert_redo_makes_the_same();
        fixture.commit(tx);
    }
}

#[test]
fn a_check_finds_a_map_that_speaks_of_pages_that_are_gone() {
    let fixture = Fixture::new();
    let roots = fixture.pages(4);
    fixture.delete_all(&roots[2..]);
    fixture.vacuumed(true);
    // The heap is cut as if the map were forgotten.
    fixture.storage.truncate_fork(fixture.relation.file, Fork::Main, 1).unwrap();
    assert_eq!(fixture.check(), ["V1"; 3]);
}

/// Line pointers of pages that are gone, and come again, belong to other rows.
#[test]
fn nothing_that_memory_knew_is_told_of_the_next_rows() {
    let fixture = Fixture::new();
    let heap = fixture.heap();
    let roots = fixture.pages(3);
    // An index reported line pointers that are not freed yet. An empty page has no such reports in
    // reality.
    let indexes: Arc<[_]> = [niwaki_storage::RelFileId(99)].into();
    heap.note_unreferenced(&indexes, 0, &[roots[0], roots[4], roots[5]]);
    let shared = &fixture.relation.shared;
    shared.ledger.begin(roots[4]);
    let record = shared.ledger.removed(roots[4]).unwrap();
    // A version that waits for the gardener names a page that is gone. A late report counts for no
    // row.
    fixture.delete_all(&roots[2..]);
    let (reader, snapshot) = fixture.old_snapshot();
    shared.unreferenced.forget_from(BlockNumber(1));
    fixture.vacuumed(true);
    heap.note_unreferenced(&indexes, 0, &[roots[4]]);
    assert_eq!(fixture.cut(), 2);
    let again = fixture.pages(2);
    assert_eq!(again, roots[2..]);
    fixture.delete_all(&again);
    drop(snapshot);
    drop(reader);
    heap.prune_page(2).unwrap();
    let page = heap.pin_write(2).unwrap();
    assert!(heap.known_free(&page).is_empty(), "freed although an index has its entry");
    drop(page);
    shared.ledger.begin(again[2]);
    shared.ledger.removed(again[2]).unwrap();
    heap.note_cleaned(again[2], record, true);
    let page = heap.pin_write(2).unwrap();
    assert!(heap.settled_dead(&page, BlockNumber(2)).is_empty(), "a record of another row");
}

/// A session whose target page is gone inserts elsewhere, and so does a session to which the saved
/// map offers such a page.
#[test]
fn insertions_leave_pages_that_are_gone() {
    let fixture = Fixture::new();
    let roots = fixture.pages(40);
    fixture.heap().save_free_space().unwrap();
    fixture.delete_all(&roots[2..]);
    fixture.vacuumed(true);
    // The target of this session, and the pages that the map offers, are in the tail.
    let tx = fixture.begin(0);
    fixture.insert(&tx, b"a small one");
    tx.abort();
    fixture.vacuumed(true);
    fixture.heap().save_free_space().unwrap();
    assert_eq!((fixture.cut(), fixture.blocks()), (39, 1));
    let tx = fixture.begin(0);
    assert_eq!(fixture.insert(&tx, &ROW).block.0, 1);
    fixture.commit(tx);
    // The process is killed now. The saved map says that there is room on 39 pages, and the heap
    // has two.
    fixture.storage.wal().flush(fixture.storage.wal().insert_lsn()).unwrap();
    let mut copy = fixture.reopened();
    let tx = copy.begin(0);
    let next: Vec<_> = (0..4).map(|_| copy.insert(&tx, &ROW).block.0).collect();
    assert_eq!(next, [1, 2, 2, 3]);
    copy.commit(tx);
    // When the heap has the pages again, the saved map is believed, checked page by page, and
    // corrected.
    copy.heap().save_free_space().unwrap();
    copy.pages(36);
    copy.storage.wal().flush(copy.storage.wal().insert_lsn()).unwrap();
    copy = copy.reopened();
    let blocks = copy.blocks();
    let tx = copy.begin(0);
    for _ in 0..3 {
        copy.insert(&tx, &ROW);
    }
    copy.commit(tx);
    assert!(copy.blocks() <= blocks + 2, "{blocks} pages, then {}", copy.blocks());
    assert_eq!(copy.check(), [""; 0]);
}

impl Fixture {
    /// Opens the same heap after the process was killed.
    fn reopened(&self) -> Self {
        let vfs = Arc::new(self.vfs.fork());
        let (storage, txns) = open(&vfs, TxnOptions::default());
        let sessions: Vec<_> = (0..3).map(|_| txns.register_session().unwrap()).collect();
        let relation = HeapRegistry::with_maps(MAPPED).open(self.relation.file, 100);
        Self { vfs, storage, txns, relation, sessions }
    }
}

/// A page is saved as full, but is empty after the heap was cut and grew again. It is found before
/// the heap grows. Rows deleted before a kill make room too.
#[test]
fn room_that_the_saved_map_does_not_know_is_found() {
    let fixture = Fixture::new();
    let roots = fixture.pages(20);
    // The map on disk says that all pages are full.
    fixture.heap().save_free_space().unwrap();
    let transactions = &*fixture.txns;
    fixture.storage.checkpoint(CheckpointKind::Requested, &[transactions]).unwrap();
    fixture.delete_all(&roots[2..]);
    fixture.vacuumed(true);
    assert_eq!(fixture.cut(), 19);
    fixture.pages(19);
    fixture.delete_all(&roots[2..]);
    fixture.storage.wal().flush(fixture.storage.wal().insert_lsn()).unwrap();
    let killed = fixture.reopened();
    let blocks = killed.blocks();
    assert!(blocks >= 20);
    killed.pages(19);
    assert_eq!(killed.blocks(), blocks, "the room of the rows that went is used");
    assert_eq!(killed.check(), [""; 0]);
}

/// A link leads to a page that is gone: the row was deleted (rule `hop-check`).
#[test]
fn a_link_into_the_cut_tail_leads_to_a_deleted_row() {
    let fixture = Fixture::new();
    let tx = fixture.begin(0);
    let root = fixture.insert(&tx, &[1; 4000]);
    fixture.insert(&tx, &[2; 4000]);
    fixture.commit(tx);
    // A follower that sees the first version keeps it, with its link.
    let follower = fixture.begin(1);
    let seen = follower.snapshot_for_write().unwrap();
    let tx = fixture.begin(0);
    let HeapOutcome::Done { root: moved, heap_only: false } = fixture.update(&tx, root, &[3; 6000])
    else {
        panic!("it has no room on its page")
    };
    fixture.commit(tx);
    assert_eq!(moved.block.0, 1);
    fixture.delete_all(&[moved]);
    fixture.vacuumed(true);
    assert_eq!((fixture.cut(), fixture.blocks()), (1, 1), "nobody sees the second version");
    let lock = |root| {
        let target = RowTarget::visible(root);
        fixture.heap().lock(&follower.view(&seen), target, niwaki_txn::RowLockMode::Update)
    };
    assert_eq!(lock(root).unwrap(), HeapOutcome::Gone);
    // The link leads to another row, which came there.
    let tx = fixture.begin(0);
    let other = fixture.insert(&tx, &[4; 6000]);
    fixture.commit(tx);
    assert_eq!(other, moved);
    assert_eq!(lock(root).unwrap(), HeapOutcome::Gone);
    assert_eq!(fixture.check(), [""; 0]);
}
