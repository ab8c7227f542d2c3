//! Scripted interleavings of the protocol's model (`niwaki-model`) about old snapshots and
//! followers, played by a heap alone.
//!
//! The subject is what pruning may take from old snapshots and followers. Rows are added to, moved
//! to another page and back, and deleted, beside readers and pruning threads. Each story is run
//! inside a schedule (`schedules`). Without the rule of its name it must fail in some schedule.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use niwaki_env::Env;
use niwaki_env::sync::thread;
use niwaki_env::vfs::MemoryVfs;
use niwaki_heap::{
    Blocker, Heap, HeapOutcome, HeapRedo, HeapRegistry, HeapRelation, InsertOptions, NewRow,
    PageRows, RowTarget, UpdateKind, VacuumRoots,
};
use niwaki_storage::{RelFile, ResourceManager, Storage, StorageOptions, Tid, Xid};
use niwaki_txn::{
    BeginOptions, Durability, Isolation, Snapshot, Transaction, TransactionManager, TxnOptions,
    WaitPolicy,
};

use crate::schedules::seed;

/// Number of rows that the stories are about.
const ROWS: u8 = 2;
/// Id of another row, which fills most of the first page.
const FILLER: u8 = 255;
/// Bytes of the filler, of a row on the first page, and of a row that finds no room there.
const LENGTHS: (usize, usize, usize) = (6_500, 20, 3_000);

/// A heap, with the state of its rows that the commits require.
#[derive(Clone)]
struct TwoRowHeap {
    storage: Arc<Storage>,
    txns: Arc<TransactionManager>,
    relation: HeapRelation,
    added: Arc<[AtomicI32; ROWS as usize]>,
    deleted: Arc<[AtomicBool; ROWS as usize]>,
}

/// The actions of one actor on the fixture.
type Actor = Box<dyn FnOnce(&TwoRowHeap) + Send>;

/// A statement that has found its row.
struct Started {
    tx: Transaction,
    snapshot: Snapshot,
    root: Tid,
    bytes: Vec<u8>,
}

/// The change that a started statement makes to its row.
#[derive(Clone, Copy)]
enum Change {
    /// Adds one; the new version stays on the row's page if it fits.
    Add,
    /// Adds one; the new version goes to another page than the first.
    Move,
    Delete,
}

/// A row as a snapshot sees it: its address and bytes.
type Seen = Vec<(Tid, Vec<u8>)>;

fn row(id: u8, value: i32, length: usize) -> Vec<u8> {
    let mut bytes = vec![id; length];
    bytes[1..5].copy_from_slice(&value.to_le_bytes());
    bytes
}

fn value(bytes: &[u8]) -> i32 {
    i32::from_le_bytes(bytes[1..5].try_into().expect("four bytes"))
}

fn new_row(bytes: &[u8]) -> NewRow<'_> {
    NewRow { natts: 1, has_nulls: false, has_external: false, bytes }
}

impl TwoRowHeap {
    fn new() -> Self {
        let env = Env::simulated(Arc::new(MemoryVfs::new()), seed());
        let txns = TransactionManager::new(env.clone(), TxnOptions::default());
        let managers = vec![HeapRedo::new(), Arc::clone(&txns) as Arc<dyn ResourceManager>];
        let options = StorageOptions { shared_buffers: 32, ..StorageOptions::tiny() };
        let (storage, _) = Storage::open(env, options, managers).expect("the storage opens");
        txns.attach(&storage).expect("the states are there");
        let file = RelFile { id: storage.allocate_file(), logged: true };
        storage.create_file(file, Xid::INVALID).expect("a file");
        let relation = HeapRegistry::default().open(file, 100);
        let (added, deleted) = (Arc::default(), Arc::default());
        let fixture = Self { storage, txns, relation, added, deleted };
        let tx = fixture.begin(Isolation::ReadCommitted);
        let (filler, small, _) = LENGTHS;
        for (id, length) in (0..ROWS).map(|id| (id, small)).chain([(FILLER, filler)]) {
            let bytes = row(id, 0, length);
            fixture.heap().insert(&tx, new_row(&bytes), InsertOptions::default()).expect("a row");
        }
        tx.commit(Durability::Flush).expect("a commit");
        fixture
    }

    fn heap(&self) -> Heap<'_> {
        Heap::new(&self.storage, &self.txns, &self.relation)
    }

    fn begin(&self, isolation: Isolation) -> Transaction {
        let control = self.txns.register_session().expect("a session");
        let options = BeginOptions { isolation, ..BeginOptions::default() };
        self.txns.begin(&control, options).expect("a transaction")
    }

    /// Returns all rows that a snapshot sees, by scanning; each is found by its address too.
    fn rows(&self, tx: &Transaction, snapshot: &Snapshot) -> Seen {
        let (heap, view) = (self.heap(), tx.view(snapshot));
        let (mut page, mut seen) = (PageRows::new(), Seen::new());
        for block in 0..heap.blocks().expect("blocks") {
            heap.scan_page(&view, block, None, &mut page).expect("a page");
            seen.extend(page.iter().map(|row| (row.root, row.bytes.to_vec())));
        }
        for (root, bytes) in &seen {
            let found = heap.fetch(&view, *root, |row| row.bytes.to_vec()).expect("a page");
            assert_eq!(found.as_ref(), Some(bytes), "the row at {root}, scanned and fetched");
        }
        seen.sort_unstable_by_key(|(_, bytes)| bytes[0]);
        assert!(seen.is_sorted_by(|(_, a), (_, b)| a[0] < b[0]), "a row twice: {seen:?}");
        seen
    }

    /// Requires that one snapshot gives one answer, and that each row is there unless an actor
    /// began to delete it.
    fn read(&self) {
        let tx = self.begin(Isolation::RepeatableRead);
        let snapshot = tx.snapshot().expect("a snapshot");
        let first = self.rows(&tx, &snapshot);
        for id in 0..ROWS {
            let found = first.iter().any(|(_, bytes)| bytes[0] == id);
            assert!(found || self.is_deleted(id), "row {id} is gone: {first:?}");
        }
        for _ in 0..2 {
            assert_eq!(self.rows(&tx, &snapshot), first, "one snapshot gave two answers");
        }
    }

    fn is_deleted(&self, id: u8) -> bool {
        self.deleted[usize::from(id)].load(Ordering::SeqCst)
    }

    fn start(&self, id: u8) -> Started {
        let tx = self.begin(Isolation::ReadCommitted);
        let snapshot = tx.snapshot_for_write().expect("a snapshot");
        let mut seen = self.rows(&tx, &snapshot);
        seen.retain(|(_, bytes)| bytes[0] == id);
        let (root, bytes) = seen.pop().expect("a row that nobody deleted");
        Started { tx, snapshot, root, bytes }
    }

    /// Follows the chain from the version that the snapshot saw to the newest, as an executor does.
    fn finish(&self, started: Started, change: Change) {
        let Started { tx, snapshot, root, mut bytes } = started;
        let id = bytes[0];
        let (heap, mut target) = (self.heap(), RowTarget::visible(root));
        // Ends: each further turn follows a change that another transaction committed.
        loop {
            let view = tx.view(&snapshot);
            let length = if matches!(change, Change::Move) { LENGTHS.2 } else { bytes.len() };
            let new = row(id, value(&bytes) + 1, length);
            let kind = UpdateKind { heap_only: true, mixed: false, key_changed: false };
            let outcome = match change {
                Change::Add | Change::Move => heap.update(&view, target, new_row(&new), kind),
                Change::Delete => {
                    self.deleted[usize::from(id)].store(true, Ordering::SeqCst);
                    heap.delete(&view, target)
                }
            };
            match outcome.expect("a page") {
                HeapOutcome::Done { .. } => break,
                HeapOutcome::Wait(Blocker::Transaction(xid)) => {
                    let locks = self.txns.locks();
                    locks.wait_for_xid(&tx, xid, WaitPolicy::Block).expect("no deadlock");
                    // `restart`: nothing that was met on the way is kept.
                    target = RowTarget::visible(root);
                }
                HeapOutcome::Changed(newest) => {
                    assert_eq!(newest.row.bytes[0], id, "follows row {id} to another row");
                    (target, bytes) = (newest.target, newest.row.bytes);
                }
                HeapOutcome::Gone => {
                    assert!(self.is_deleted(id), "row {id} is there, and was not found");
                    return tx.abort();
                }
                other => panic!("{other:?}"),
            }
        }
        drop(snapshot);
        tx.commit(Durability::Flush).expect("a commit");
        self.added[usize::from(id)].fetch_add(1, Ordering::SeqCst);
    }

    fn change(&self, id: u8, change: Change) {
        self.finish(self.start(id), change);
    }

    fn add(&self, times: usize) {
        (0..times).for_each(|_| self.change(0, Change::Add));
    }

    /// Prunes every page. DEAD line pointers become UNUSED at once: there are no indexes.
    fn prune(&self) {
        let heap = self.heap();
        let paused = heap.pause_freeing();
        for block in 0..heap.blocks().expect("blocks") {
            let horizon = self.txns.horizon();
            let mut roots = VacuumRoots::default();
            heap.vacuum_page(block, &horizon, Xid::INVALID, true, &mut roots).expect("a page");
            let offsets: Vec<u16> = roots.dead.iter().map(|tid| tid.offset.0).collect();
            heap.free_dead(&paused, block, &offsets, &horizon).expect("a page");
        }
    }

    /// Prunes when no other actor is at work: then nothing is left that could go (G2).
    fn prune_alone(&self) {
        self.prune();
        let (horizon, mut report) = (self.txns.horizon(), Vec::new());
        for block in 0..self.heap().blocks().expect("blocks") {
            self.heap().check_pruned(block, &horizon, &mut report).expect("a page");
        }
        assert!(report.is_empty(), "{report:#?}");
    }

    fn prune_often(&self) {
        (0..3).for_each(|_| self.prune());
    }

    /// Checks all pages, and returns the number of versions on them.
    fn check(&self) -> usize {
        let (mut report, mut versions) = (Vec::new(), 0);
        for block in 0..self.heap().blocks().expect("blocks") {
            let found = self.heap().check_page(block, &mut report, |_, _| {}, |_| versions += 1);
            found.expect("a page");
        }
        assert!(report.is_empty(), "{report:#?}");
        versions
    }

    /// Plays all actors at the same time, beside a report that began before. Then the invariants
    /// hold, and the report has seen one state only. Nothing is left but the versions of that state
    /// and the rows.
    fn play(&self, actors: Vec<Actor>) {
        let report = self.begin(Isolation::RepeatableRead);
        let snapshot = report.snapshot().expect("a snapshot");
        let saw = self.rows(&report, &snapshot);
        self.act(actors);
        self.check();
        assert_eq!(self.rows(&report, &snapshot), saw, "an old snapshot has changed");
        self.prune_alone();
        let versions = self.check();
        assert_eq!(self.rows(&report, &snapshot), saw, "an old snapshot has changed");
        let now = self.now();
        let changed = saw.iter().filter(|(_, bytes)| now.iter().all(|(_, new)| new != bytes));
        assert_eq!(versions, now.len() + changed.count(), "G2: what nobody sees is left");
        drop(snapshot);
        drop(report);
        self.prune_alone();
        assert_eq!((self.check(), self.now()), (now.len(), now), "only the rows are left");
    }

    fn act(&self, actors: Vec<Actor>) {
        let mut threads = Vec::new();
        for actor in actors {
            let fixture = self.clone();
            threads.push(thread::spawn(move || actor(&fixture)));
        }
        threads.into_iter().for_each(|thread| thread.join().expect("an actor ends"));
    }

    /// Returns the rows, and requires that they have every addition.
    fn now(&self) -> Seen {
        let tx = self.begin(Isolation::RepeatableRead);
        let snapshot = tx.snapshot().expect("a snapshot");
        let seen = self.rows(&tx, &snapshot);
        for id in 0..ROWS {
            let found = seen.iter().find(|(_, bytes)| bytes[0] == id);
            assert_eq!(found.is_none(), self.is_deleted(id), "row {id} in {seen:?}");
            if let Some((_, bytes)) = found {
                let added = self.added[usize::from(id)].load(Ordering::SeqCst);
                assert_eq!(value(bytes), added, "what was added to row {id}");
            }
        }
        seen
    }
}

/// Runs a statement that has seen row 0, goes to its newest version and adds one, beside these
/// others.
fn beside_a_follower(mut others: Vec<Actor>) {
    let fixture = TwoRowHeap::new();
    let follower = fixture.start(0);
    others.insert(0, Box::new(move |fixture: &TwoRowHeap| fixture.finish(follower, Change::Add)));
    fixture.play(others);
}

/// `relink-xmax`: a row is changed again and again beside a report, which keeps one version of it.
///
/// # Panics
/// When a snapshot gives two answers, an addition is lost, or a statement changes another row than
/// its own. Also when a version is left that no snapshot sees. All other stories panic likewise.
pub fn changed_beside_an_old_reader() {
    TwoRowHeap::new().play(vec![
        Box::new(|fixture: &TwoRowHeap| fixture.add(4)),
        Box::new(TwoRowHeap::read),
        Box::new(TwoRowHeap::prune_often),
    ]);
}

/// `end-published`, `published-first`, `pending`: snapshots are taken while versions end and are
/// removed.
///
/// # Panics
/// As [`changed_beside_an_old_reader`].
pub fn changed_and_pruned() {
    TwoRowHeap::new().play(vec![
        Box::new(|fixture: &TwoRowHeap| fixture.add(2)),
        Box::new(|fixture: &TwoRowHeap| (0..3).for_each(|_| fixture.read())),
        Box::new(TwoRowHeap::prune_often),
    ]);
}

/// `one-latch`: a follower is on its way, while versions that it has to pass are removed.
///
/// # Panics
/// As [`changed_beside_an_old_reader`].
pub fn follower_beside_pruning() {
    beside_a_follower(vec![
        Box::new(|fixture: &TwoRowHeap| fixture.add(3)),
        Box::new(TwoRowHeap::prune_often),
    ]);
}

/// `restart`: the version at which a follower waited is removed meanwhile, and another row gets its
/// line pointer.
///
/// # Panics
/// As [`changed_beside_an_old_reader`].
pub fn follower_that_waits() {
    beside_a_follower(vec![
        Box::new(|fixture: &TwoRowHeap| fixture.add(2)),
        Box::new(|fixture: &TwoRowHeap| (0..2).for_each(|_| fixture.change(1, Change::Add))),
        Box::new(TwoRowHeap::prune_often),
    ]);
}

/// `stub`: the row goes to another page, where its first version is removed before the follower
/// comes.
///
/// # Panics
/// As [`changed_beside_an_old_reader`].
pub fn moved_and_changed() {
    beside_a_follower(vec![
        Box::new(|fixture: &TwoRowHeap| {
            fixture.change(0, Change::Move);
            fixture.add(2);
        }),
        Box::new(TwoRowHeap::prune_often),
    ]);
}

/// `stubs-for-followers`: a row that moves beside a report leaves no stub.
///
/// # Panics
/// As [`changed_beside_an_old_reader`].
pub fn moved_beside_a_report() {
    TwoRowHeap::new().play(vec![
        Box::new(|fixture: &TwoRowHeap| {
            fixture.change(0, Change::Move);
            fixture.add(1);
            fixture.change(0, Change::Move);
            fixture.add(1);
        }),
        Box::new(TwoRowHeap::prune_often),
    ]);
}

/// `hop-check`: the row is moved and deleted there, and another row comes to the old place.
///
/// # Panics
/// As [`changed_beside_an_old_reader`].
pub fn moved_and_deleted() {
    beside_a_follower(vec![
        Box::new(|fixture: &TwoRowHeap| {
            fixture.change(0, Change::Move);
            fixture.change(0, Change::Delete);
            fixture.prune();
            fixture.change(1, Change::Move);
        }),
        Box::new(TwoRowHeap::prune),
    ]);
}
