//! Removal from the middle of chains: old snapshots keep the versions that they see, and no version
//! between these stays.

use niwaki_env::sync::Mutex;
use niwaki_storage::page::ItemState;
use niwaki_storage::{Csn, DecodedRecord, Manager, Redo};
use niwaki_txn::{Snapshot, XidStatus};

use super::locks::moved;
use super::*;
use crate::format::change::kind;
use crate::format::page::Chain;
use crate::{PageRows, Pruned, VacuumRoots};

/// A transaction with an old snapshot, and the row as it saw it.
struct Old {
    tx: Transaction,
    snapshot: Snapshot,
    root: Tid,
    saw: Option<Vec<u8>>,
}

impl Fixture {
    fn old(&self, root: Tid, writes: bool) -> Old {
        let session = self.txns.register_session().unwrap();
        let tx = self.txns.begin(&session, BeginOptions::default()).unwrap();
        let snapshot = if writes { tx.snapshot_for_write() } else { tx.snapshot() }.unwrap();
        let mut old = Old { tx, snapshot, root, saw: None };
        old.saw = self.seen_by(&old);
        old
    }

    fn seen_by(&self, old: &Old) -> Option<Vec<u8>> {
        let view = old.tx.view(&old.snapshot);
        self.heap().fetch(&view, old.root, |row| row.bytes.to_vec()).unwrap()
    }

    /// Checks that the old snapshot sees the same row by its address, and in a scan of its page.
    fn assert_sees_the_same(&self, old: &Old) {
        assert_eq!(self.seen_by(old), old.saw);
        let mut rows = PageRows::new();
        let view = old.tx.view(&old.snapshot);
        self.heap().scan_page(&view, old.root.block.0, None, &mut rows).unwrap();
        let scanned = rows.iter().find(|row| row.root == old.root);
        assert_eq!(scanned.map(|row| row.bytes.to_vec()), old.saw);
    }

    fn inserted(&self, bytes: &[u8]) -> Tid {
        let tx = self.begin(0);
        let root = self.insert(&tx, bytes);
        self.commit(tx);
        root
    }

    /// Adds a version on the same page, by a transaction of its own. Returns its id.
    fn changed(&self, root: Tid, bytes: &[u8]) -> Xid {
        self.changed_key(root, bytes, false)
    }

    fn changed_key(&self, root: Tid, bytes: &[u8], key_changed: bool) -> Xid {
        let tx = self.begin(0);
        let done = self.update_key(&tx, root, bytes, key_changed);
        assert_eq!(done, HeapOutcome::Done { root, heap_only: true });
        let xid = tx.xid().unwrap();
        self.commit(tx);
        xid
    }

    fn deleted(&self, root: Tid) -> Xid {
        let tx = self.begin(0);
        let snapshot = tx.snapshot_for_write().unwrap();
        self.heap().delete(&tx.view(&snapshot), RowTarget::visible(root)).unwrap();
        drop(snapshot);
        let xid = tx.xid().unwrap();
        self.commit(tx);
        xid
    }

    /// Prunes every page. Then checks that no removable version is left, that the invariants hold,
    /// and that redo makes the same.
    fn pass(&self, freeze_before: Xid) -> Pruned {
        let before = self.txns.horizon();
        let mut sum = Pruned::default();
        let mut left = Vec::new();
        for block in 0..self.heap().blocks().unwrap() {
            let horizon = self.txns.horizon();
            let mut roots = VacuumRoots::default();
            let done = self.heap().vacuum_page(block, &horizon, freeze_before, true, &mut roots);
            let pruned = done.unwrap().pruned;
            sum.removed += pruned.removed;
            sum.relinked += pruned.relinked;
            sum.frozen += pruned.frozen;
            self.heap().check_pruned(block, &before, &mut left).unwrap();
        }
        assert!(left.is_empty(), "{left:#?}");
        assert_eq!(self.check(), [""; 0]);
        self.assert_redo_makes_the_same();
        sum
    }

    /// Returns the findings on the first page: versions and stubs that a pass should have removed.
    fn left(&self) -> Vec<&'static str> {
        let mut report = Vec::new();
        self.heap().check_pruned(0, &self.txns.horizon(), &mut report).unwrap();
        report.into_iter().map(|corruption| corruption.invariant).collect()
    }

    /// Returns the offsets of the chain at a root.
    fn offsets(&self, root: Tid) -> Vec<u16> {
        let page = self.heap().pin(root.block.0).unwrap();
        let page = page.read();
        Chain::new(&page, root.offset.0).map(|(offset, _)| offset).collect()
    }

    fn header(&self, block: BlockNumber, offset: u16) -> Header {
        let page = self.heap().pin(block.0).unwrap();
        Header::of(page::tuple(&page.read(), offset).expect("a version"))
    }

    fn state(&self, tid: Tid) -> ItemState {
        self.heap().pin(tid.block.0).unwrap().read().item_id(tid.offset).state()
    }

    fn committed_at(&self, xid: Xid) -> Csn {
        match self.txns.status(xid) {
            XidStatus::Committed(csn) => csn,
            other => panic!("{xid} is {other:?}"),
        }
    }
}

const NEVER: Xid = Xid::INVALID;
const ALWAYS: Xid = Xid(u64::MAX);

#[test]
fn ten_snapshots_read_their_own_truth_and_what_is_between_is_gone() {
    let fixture = Fixture::new();
    let root = fixture.inserted(b"first");
    let mut olds = Vec::new();
    for age in 0..10 {
        olds.push(fixture.old(root, false));
        (0..5).for_each(|n| {
            fixture.changed(root, &[age, n]);
        });
    }
    fixture.pass(NEVER);
    assert_eq!(fixture.offsets(root).len(), 11, "one for each, and the newest");
    // The versions have the ends of the versions that were removed behind them.
    let saw: Vec<_> = olds.iter().map(|old| old.saw.clone().unwrap()).collect();
    assert_eq!(saw[0], b"first");
    (1..10).for_each(|age| assert_eq!(saw[usize::from(age)], [age - 1, 4]));
    for which in [3, 8, 0, 4, 4, 1, 3, 0, 1, 0] {
        olds.remove(which);
        fixture.pass(NEVER);
        assert_eq!(fixture.offsets(root).len(), olds.len() + 1);
        olds.iter().for_each(|old| fixture.assert_sees_the_same(old));
        let tx = fixture.begin(0);
        assert_eq!(fixture.fetch(&tx, root).unwrap(), [9, 4]);
    }
    assert_eq!(fixture.state(root), ItemState::Redirect);
}

/// One chain has two runs. The version that stays in front of a run takes over the end of the run's
/// last version.
#[test]
fn runs_of_versions_go_and_none_behind_another_is_frozen() {
    let fixture = Fixture::new();
    let root = fixture.inserted(b"v1");
    let first = fixture.old(root, false);
    fixture.changed(root, b"v2");
    let v3 = fixture.changed(root, b"v3");
    let second = fixture.old(root, false);
    (4..6).for_each(|n| {
        fixture.changed(root, &[n]);
    });
    let v6 = fixture.changed(root, b"v6");
    let done = fixture.pass(ALWAYS);
    assert_eq!((done.removed, done.relinked), (3, 2));
    assert_eq!(fixture.offsets(root), [1, 3, 6]);
    for (offset, next, xmax) in [(1, 3, v3), (3, 6, v6)] {
        let header = fixture.header(root.block, offset);
        assert_eq!(
            header.link,
            Tid { block: root.block, offset: niwaki_storage::OffsetNumber(next) }
        );
        assert_eq!(u64::from(header.xmax), xmax.0);
        let expected = flags::HEAP_UPDATED | flags::RELINKED;
        assert_eq!(header.flags & (expected | flags::XMAX_LOCK_ONLY), expected);
    }
    // Only the first version of a chain may lose its xmin.
    let frozen = || [1, 3, 6].map(|at| fixture.header(root.block, at).xmin == 1);
    assert_eq!(frozen(), [true, false, false]);
    [&first, &second].into_iter().for_each(|old| fixture.assert_sees_the_same(old));
    drop(first);
    fixture.pass(ALWAYS);
    assert_eq!(fixture.offsets(root), [3, 6]);
    fixture.assert_sees_the_same(&second);
    assert_eq!(fixture.header(root.block, 3).xmin, 1);
    assert_ne!(fixture.header(root.block, 6).xmin, 1);
}

/// The version in front then says that the row was deleted, to followers too.
#[test]
fn the_last_version_of_a_deleted_row_goes_before_the_one_in_front() {
    let fixture = Fixture::new();
    let root = fixture.inserted(b"one");
    let old = fixture.old(root, true);
    fixture.changed(root, b"two");
    fixture.changed(root, b"thr");
    let deleter = fixture.deleted(root);
    let done = fixture.pass(NEVER);
    assert_eq!((done.removed, done.relinked), (2, 1));
    assert_eq!(fixture.offsets(root), [1]);
    let header = fixture.header(root.block, 1);
    assert_eq!((u64::from(header.xmax), header.link), (deleter.0, NO_LINK));
    assert_eq!(header.flags & (flags::KEYS_UPDATED | flags::HEAP_UPDATED), flags::KEYS_UPDATED);
    fixture.assert_sees_the_same(&old);
    let target = RowTarget::visible(root);
    let outcome = fixture.heap().delete(&old.tx.view(&old.snapshot), target).unwrap();
    assert_eq!(outcome, HeapOutcome::Gone);
    let tx = fixture.begin(0);
    assert_eq!(fixture.fetch(&tx, root), None);
    assert_eq!(fixture.heap().probe_unique(&tx, root, |_| true).unwrap(), UniqueProbe::Free);
    assert!(!fixture.heap().is_dead(root, &fixture.txns.horizon()).unwrap());
    drop(old);
    assert!(fixture.heap().is_dead(root, &fixture.txns.horizon()).unwrap());
    fixture.pass(NEVER);
    assert_eq!(fixture.state(root), ItemState::Dead);
}

/// A follower goes from the version in front to the page to which the removed version led. A root
/// that the row has left again stays as a stub while a follower may come. It does not stay if only
/// a report has the old snapshot (rule `stub`).
#[test]
fn the_last_version_on_a_page_goes_and_the_one_in_front_leads_to_the_next() {
    for follows in [true, false] {
        let fixture = Fixture::new();
        let root = fixture.inserted(b"one");
        fixture.inserted(&[9; 500]);
        let old = fixture.old(root, follows);
        fixture.changed(root, b"two");
        let tx = fixture.begin(0);
        let away = moved(&fixture, &tx, root, &[3; 7900]);
        let mover = tx.xid().unwrap();
        fixture.commit(tx);
        assert_ne!(away.block, root.block);
        let tx = fixture.begin(0);
        let back = moved(&fixture, &tx, away, &[4; 1000]);
        fixture.commit(tx);
        assert!(back.block != away.block && back.block != root.block);
        fixture.changed_key(back, b"six", true);
        let newest = fixture.changed(back, b"seven");
        let done = fixture.pass(NEVER);
        // The removed versions are "two", which leads on from here, the big one, and the two
        // versions before "seven".
        assert_eq!((done.removed, done.relinked), (4, 1));
        let header = fixture.header(root.block, root.offset.0);
        assert_eq!((u64::from(header.xmax), header.link), (mover.0, away));
        assert_eq!(header.flags & (flags::HEAP_UPDATED | flags::RELINKED), flags::RELINKED);
        fixture.assert_sees_the_same(&old);
        if !follows {
            assert_eq!(
                (fixture.state(away), fixture.state(back)),
                (ItemState::Dead, ItemState::Redirect)
            );
            continue;
        }
        let stub = fixture.header(away.block, away.offset.0);
        assert_eq!((u64::from(stub.xmin), stub.link), (mover.0, back));
        assert_ne!(stub.flags & flags::STUB, 0);
        // The stub says that the key has changed, though the last change left the key alone.
        let stub = fixture.header(back.block, back.offset.0);
        assert_eq!(u64::from(stub.xmax), newest.0);
        assert_ne!(stub.flags & flags::KEYS_UPDATED, 0);
        let view = old.tx.view(&old.snapshot);
        match fixture.heap().delete(&view, RowTarget::visible(root)).unwrap() {
            HeapOutcome::Changed(found) => assert_eq!(found.row.bytes, b"seven"),
            other => panic!("{other:?}"),
        }
    }
}

/// The row has left this root again. While the root is a stub, no snapshot sees a row there, so its
/// entries go. Once no follower can come, nothing is left to wait for.
#[test]
fn a_stub_is_told_of_when_its_version_goes() {
    let fixture = Fixture::new();
    let relation = fixture.relation.clone().reporting_moves(true);
    let heap = Heap::new(&fixture.storage, &fixture.txns, &relation);
    let root = fixture.inserted(b"one");
    fixture.inserted(&[9; 500]);
    let old = fixture.old(root, true);
    let tx = fixture.begin(0);
    let away = moved(&fixture, &tx, root, &[3; 7900]);
    fixture.commit(tx);
    let tx = fixture.begin(0);
    let back = moved(&fixture, &tx, away, &[4; 1000]);
    tx.commit(Durability::Async).unwrap();
    assert!(back.block != away.block && back.block != root.block);
    heap.prune_page(away.block.0).unwrap();
    let stub = fixture.header(away.block, away.offset.0);
    assert_eq!((stub.flags & flags::STUB, stub.link), (flags::STUB, back));
    let [reported] = &heap.take_removed(usize::MAX)[..] else { panic!("one version went") };
    assert_eq!((reported.root, &reported.row.bytes[..]), (away, &[3; 7900][..]));

    // Rule `dead-marks`: without the move, which a crash may lose, the row is here.
    let dead = || heap.dead_versions(away, &fixture.txns.horizon(), |_| true).unwrap();
    assert_eq!(dead(), None, "the move is not flushed");
    fixture.storage.wal().flush(fixture.storage.wal().insert_lsn()).unwrap();
    assert_eq!(dead(), Some(None));

    heap.note_cleaned(away, reported.record.unwrap(), true);
    heap.prune_page(away.block.0).unwrap();
    assert_eq!(fixture.state(away), ItemState::Normal, "it is followed");
    fixture.assert_sees_the_same(&old);
    drop(old);
    fixture.pass(NEVER);
    assert_eq!(fixture.state(away), ItemState::Dead);
    assert!(heap.take_removed(usize::MAX).is_empty(), "it was reported");
    heap.prune_page(away.block.0).unwrap();
    assert_eq!(fixture.state(away), ItemState::Unused);
}

#[test]
fn an_aborted_successor_at_the_end_is_forgotten_in_the_same_pass() {
    let fixture = Fixture::new();
    let root = fixture.inserted(b"one");
    let old = fixture.old(root, false);
    (2..4).for_each(|n| {
        fixture.changed(root, &[n]);
    });
    let tx = fixture.begin(0);
    fixture.update(&tx, root, b"never");
    fixture.update(&tx, root, b"ever");
    tx.abort();
    let done = fixture.pass(NEVER);
    assert_eq!((done.removed, done.relinked), (3, 1));
    assert_eq!(fixture.offsets(root), [1, 3]);
    let newest = fixture.header(root.block, 3);
    assert_eq!((newest.xmax, newest.link), (0, NO_LINK));
    fixture.assert_sees_the_same(&old);
}

/// Versions that one transaction inserted and replaced lived in no interval. While the transaction
/// is in progress, its commands read them by the command numbers in the versions. So nothing goes,
/// and nothing is relinked.
#[test]
fn what_a_transaction_made_and_replaced_goes_once_it_has_committed() {
    let fixture = Fixture::new();
    let root = fixture.inserted(b"one");
    let old = fixture.old(root, false);
    let tx = fixture.begin(0);
    fixture.update(&tx, root, b"two");
    tx.savepoint("s");
    fixture.update(&tx, root, b"thr");
    let early = tx.snapshot().unwrap();
    tx.next_command().unwrap();
    fixture.update(&tx, root, b"fou");
    assert_eq!(fixture.pass(NEVER), Pruned::default());
    let cursor = fixture.heap().fetch(&tx.view(&early), root, |row| row.bytes.to_vec());
    assert_eq!(cursor.unwrap().unwrap(), b"thr");
    drop(early);
    assert_eq!(fixture.fetch(&tx, root).unwrap(), b"fou");
    fixture.commit(tx);
    let done = fixture.pass(NEVER);
    assert_eq!((done.removed, done.relinked), (2, 1));
    assert_eq!(fixture.offsets(root), [1, 4]);
    fixture.assert_sees_the_same(&old);
    assert_eq!(fixture.fetch(&fixture.begin(0), root).unwrap(), b"fou");
}

#[test]
fn without_intervals_an_old_snapshot_keeps_everything_since() {
    let fixture = Fixture::with(TxnOptions { interval_gc: false, ..TxnOptions::default() });
    let root = fixture.inserted(b"one");
    fixture.changed(root, b"two");
    let old = fixture.old(root, false);
    (0..6).for_each(|n| {
        fixture.changed(root, &[n]);
    });
    let done = fixture.pass(NEVER);
    assert_eq!((done.removed, done.relinked), (1, 0));
    assert_eq!(fixture.offsets(root).len(), 7);
    drop(old);
    fixture.pass(NEVER);
    assert_eq!(fixture.offsets(root).len(), 1);
}

/// Readers also remove versions between those that are kept. Versions that are kept cost no reader
/// a pass.
#[test]
fn readers_prune_the_middle_of_a_chain() {
    for by_scan in [false, true] {
        let fixture = Fixture::new();
        let root = fixture.inserted(b"one");
        let old = fixture.old(root, false);
        (1..4).for_each(|n| {
            fixture.changed(root, &[n; 2500]);
        });
        let tx = fixture.begin(1);
        let mut rows = PageRows::new();
        for _ in 0..3 {
            let snapshot = tx.snapshot().unwrap();
            if by_scan {
                fixture.heap().scan_page(&tx.view(&snapshot), 0, None, &mut rows).unwrap();
            } else {
                assert_eq!(fixture.fetch(&tx, root).unwrap(), [3; 2500]);
            }
        }
        assert_eq!(fixture.offsets(root), [1, 4]);
        assert_eq!(fixture.heap().reader_passes(), 1);
        // An update that needs the room does not make the chain longer either.
        (5..20).for_each(|n| {
            fixture.changed(root, &[n; 2500]);
        });
        fixture.assert_sees_the_same(&old);
        assert!(fixture.offsets(root).len() <= 4);
        assert_eq!(fixture.heap().blocks().unwrap(), 1);
        fixture.pass(NEVER);
    }
}

#[test]
fn g2_something_between_two_snapshots_is_left() {
    let fixture = Fixture::new();
    let root = fixture.inserted(b"one");
    let old = fixture.old(root, false);
    fixture.changed(root, b"two");
    assert_eq!(fixture.left(), [""; 0]);
    fixture.changed(root, b"thr");
    assert_eq!(fixture.left(), ["G2"]);
    drop(old);
    assert_eq!(fixture.left(), ["G2"; 2]);
    fixture.pass(NEVER);
    assert_eq!(fixture.left(), [""; 0]);
}

/// A pass that leaves what was rolled back was no finding.
#[test]
fn g2_something_rolled_back_is_left() {
    let fixture = Fixture::new();
    let root = fixture.inserted(b"one");
    let tx = fixture.begin(0);
    fixture.update(&tx, root, b"never");
    fixture.insert(&tx, b"nor this");
    assert_eq!(fixture.left(), [""; 0], "it may commit yet");
    tx.abort();
    assert_eq!(fixture.left(), ["G2"; 2]);
    fixture.pass(NEVER);
    assert_eq!(fixture.left(), [""; 0]);
}

/// Redo of a heap that also collects the lifetimes in the records of passes.
#[derive(Debug, Default)]
struct Intervals(Mutex<Vec<Option<(Csn, Csn)>>>);

impl ResourceManager for Intervals {
    fn manager(&self) -> Manager {
        Manager::Heap
    }

    fn redo(&self, record: &DecodedRecord<'_>, redo: &Redo<'_>) -> niwaki_storage::Result<()> {
        if record.kind == kind::PRUNE {
            self.0.lock().push(record.removes);
        }
        HeapRedo::new().redo(record, redo)
    }

    fn describe(&self, record: &DecodedRecord<'_>) -> String {
        HeapRedo::new().describe(record)
    }
}

/// A standby's snapshot in this lifetime would see the version in front, which has the wrong end
/// for that snapshot.
#[test]
fn the_record_carries_the_lifetimes_of_what_it_removed() {
    let fixture = Fixture::new();
    let root = fixture.inserted(b"one");
    let other = fixture.inserted(b"other");
    let _old = fixture.old(root, false);
    let v2 = fixture.changed(root, b"two");
    let middle = fixture.changed(other, b"other two");
    fixture.changed(root, b"thr");
    let last = fixture.changed(other, b"other three");
    let v4 = fixture.changed(root, b"fou");
    assert!(v2 < middle && last < v4);
    fixture.pass(NEVER);
    fixture.storage.wal().flush(fixture.storage.wal().insert_lsn()).unwrap();
    let intervals = Arc::new(Intervals::default());
    let env = Env { vfs: Arc::new(fixture.vfs.fork()), ..Env::memory() };
    let txns = TransactionManager::new(env.clone(), TxnOptions::default());
    let managers = vec![Arc::clone(&intervals) as Arc<dyn ResourceManager>, txns as _];
    drop(Storage::open(env, StorageOptions::default(), managers).unwrap());
    let union = (fixture.committed_at(v2), fixture.committed_at(v4));
    assert_eq!(*intervals.0.lock(), [Some(union)]);
}

/// Redo refuses a relinking that leads to another row's version.
#[test]
fn a_record_that_relinks_to_a_strangers_version_is_refused() {
    let fixture = Fixture::new();
    let root = fixture.chain();
    let mut page = (*fixture.heap().pin(0).unwrap().read()).clone();
    let link = Tid { block: root.block, offset: niwaki_storage::OffsetNumber(3) };
    let xmax = page::tuple(&page, 3).unwrap().xmin();
    let relink =
        Relink { offset: 1, xmax, link, heap_updated: true, keys_updated: false, moved: false };
    let plan =
        |relink| PrunePlan { relinked: vec![relink], unused: vec![2], ..PrunePlan::default() };
    assert!(!plan(Relink { xmax: xmax + 1, ..relink }).apply(&mut page.clone()));
    assert!(!plan(Relink { offset: 9, ..relink }).apply(&mut page.clone()));
    assert!(plan(relink).apply(&mut page));
    let offsets: Vec<u16> = Chain::new(&page, 1).map(|(offset, _)| offset).collect();
    assert_eq!(offsets, [1, 3]);
}
