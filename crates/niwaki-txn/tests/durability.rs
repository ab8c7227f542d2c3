//! Durability of commits, aborts and ids over real storage in memory, with and without a clean end.

#![cfg(not(any(feature = "shuttle", feature = "loom")))]

use std::sync::Arc;

use niwaki_env::Env;
use niwaki_env::vfs::{Fault, FaultKind, FaultyVfs, MemoryVfs, OpenMode, Operation, Vfs};
use niwaki_storage::page::PAGE_SIZE;
use niwaki_storage::wal::SEGMENT_HEADER_SIZE;
use niwaki_storage::{
    BlockNumber, CheckpointKind, Csn, Error, Fork, LoggedPage, Lsn, PageId, PageKind, RelFile,
    Storage, StorageOptions, Xid,
};
use niwaki_txn::{
    BeginOptions, Durability, Isolation, SessionControl, Transaction, TransactionManager,
    TxnOptions, XidStatus,
};

/// Transactions per status page.
const SEGMENT: u64 = 8168 * 4;

struct Database {
    storage: Arc<Storage>,
    manager: Arc<TransactionManager>,
    session: Arc<SessionControl>,
}

impl Database {
    fn open(vfs: &Arc<MemoryVfs>) -> Self {
        Self::open_on(Arc::clone(vfs) as _)
    }

    fn open_on(vfs: Arc<dyn Vfs>) -> Self {
        let env = Env { vfs, ..Env::memory() };
        let manager = TransactionManager::new(env.clone(), TxnOptions::default());
        let managers = vec![Arc::clone(&manager) as _];
        let (storage, _) = Storage::open(env, StorageOptions::default(), managers).unwrap();
        manager.attach(&storage).unwrap();
        let session = manager.register_session().unwrap();
        Self { storage, manager, session }
    }

    fn begin(&self) -> Transaction {
        self.manager.begin(&self.session, BeginOptions::default()).unwrap()
    }

    fn commit(&self) -> (Xid, Csn) {
        let transaction = self.begin();
        let xid = transaction.write_xid().unwrap();
        (xid, transaction.commit(Durability::Flush).unwrap().unwrap())
    }

    fn abort(&self) -> Xid {
        let transaction = self.begin();
        let xid = transaction.write_xid().unwrap();
        transaction.abort();
        xid
    }

    fn status(&self, xid: Xid) -> XidStatus {
        self.manager.status(xid)
    }

    /// Adds a page to a file.
    fn add_page(&self, file: RelFile, xid: Xid) {
        let block = self.storage.pool().extend(file, Fork::Main, 1).unwrap().first;
        self.write_page(file, block, xid);
    }

    fn write_page(&self, file: RelFile, block: BlockNumber, xid: Xid) -> Lsn {
        let pin =
            self.storage.pool().pin(PageId { file: file.id, fork: Fork::Main, block }).unwrap();
        let mut page = pin.write();
        let _section = self.storage.begin_change().unwrap();
        page.init(PageKind::Visibility, 0);
        self.storage.log_images(xid, &mut [LoggedPage::image(&mut page)]).unwrap()
    }

    fn checkpoint(&self) {
        self.storage.checkpoint(CheckpointKind::Requested, &[&*self.manager]).unwrap();
    }

    /// Uses up ids until a new segment has begun.
    fn burn_segment(&self) {
        let before = self.manager.next_xid().0 / SEGMENT;
        while self.manager.next_xid().0 / SEGMENT == before {
            let transaction = self.begin();
            transaction.write_xid().unwrap();
            transaction.commit(Durability::Async).unwrap();
        }
    }
}

const ANCIENT: XidStatus = XidStatus::Committed(Csn(1));

#[test]
fn outcomes_survive_with_and_without_a_checkpoint() {
    for checkpoint in [false, true] {
        let vfs = Arc::new(MemoryVfs::new());
        let database = Database::open(&vfs);
        let (early, csn) = database.commit();
        let aborted = database.abort();
        assert_eq!(database.status(early), XidStatus::Committed(csn));
        assert_eq!(database.status(aborted), XidStatus::Aborted);
        let other = database.manager.register_session().unwrap();
        let open = database.manager.begin(&other, BeginOptions::default()).unwrap();
        let running = open.write_xid().unwrap();
        let kind = CheckpointKind::Requested;
        if checkpoint {
            database.storage.checkpoint(kind, &[&*database.manager]).unwrap();
        }
        let (late, _) = database.commit();
        assert_eq!(database.status(running), XidStatus::InProgress);
        // The files as they are now, with everything still running.
        let vfs = Arc::new(vfs.fork());

        // Twice: the records that recovery writes must be read correctly as well.
        for _ in 0..2 {
            let database = Database::open(&vfs);
            assert_eq!(database.status(early), ANCIENT, "checkpoint: {checkpoint}");
            assert_eq!(database.status(late), ANCIENT);
            assert_eq!(database.status(aborted), XidStatus::Aborted);
            assert_eq!(database.status(running), XidStatus::Aborted);
            assert!(database.manager.next_xid() > late);
            let (fresh, csn) = database.commit();
            assert!(fresh > late && csn.0 > 2);
            assert_eq!(database.status(fresh), XidStatus::Committed(csn));
        }
    }
}

#[test]
fn outcomes_survive_a_clean_shutdown() {
    let vfs = Arc::new(MemoryVfs::new());
    let database = Database::open(&vfs);
    let (committed, _) = database.commit();
    let aborted = database.abort();
    database.storage.shutdown(&[&*database.manager]).unwrap();
    drop(database);
    let database = Database::open(&vfs);
    assert_eq!(database.status(committed), ANCIENT);
    assert_eq!(database.status(aborted), XidStatus::Aborted);
    assert!(database.manager.next_xid() > aborted);
}

/// A program may open its database for every small task. Ids and the status file grow with
/// transactions, not with openings. A crash still skips to ids that no client can have seen.
#[test]
fn numbers_go_on_after_a_clean_shutdown() {
    let mut vfs = Arc::new(MemoryVfs::new());
    let (mut committed, mut aborted) = (Vec::new(), Vec::new());
    for _ in 0..20 {
        let database = Database::open(&vfs);
        committed.push(database.commit().0);
        aborted.push(database.abort());
        // The transaction neither commits nor rolls back before the database closes.
        let other = database.manager.register_session().unwrap();
        let open = database.manager.begin(&other, BeginOptions::default()).unwrap();
        aborted.push(open.write_xid().unwrap());
        database.storage.shutdown(&[&*database.manager]).unwrap();
        // The files as the shutdown left them, before the transaction rolls back.
        vfs = Arc::new(vfs.fork());
    }
    assert!(committed[19].0 < committed[0].0 + 100, "{} {}", committed[0], committed[19]);
    let killed = {
        let database = Database::open(&vfs);
        committed.push(database.commit().0);
        Arc::new(vfs.fork())
    };
    let database = Database::open(&killed);
    assert_eq!(database.manager.next_xid().0, SEGMENT, "after a crash");
    let (fresh, csn) = database.commit();
    assert_eq!(database.status(fresh), XidStatus::Committed(csn));
    for xid in committed {
        assert_eq!(database.status(xid), ANCIENT, "{xid}");
    }
    for xid in aborted {
        assert_eq!(database.status(xid), XidStatus::Aborted, "{xid}");
    }
}

#[test]
fn a_segment_that_went_on_is_shrunk_like_any_other() {
    let vfs = Arc::new(MemoryVfs::new());
    let database = Database::open(&vfs);
    let ((first, _), lost) = (database.commit(), database.abort());
    database.storage.shutdown(&[&*database.manager]).unwrap();
    drop(database);
    let database = Database::open(&vfs);
    let (second, _) = database.commit();
    database.burn_segment();
    database.storage.checkpoint(CheckpointKind::Requested, &[&*database.manager]).unwrap();
    let check = |database: &Database| {
        assert_eq!(database.status(first), ANCIENT);
        assert!(matches!(database.status(second), XidStatus::Committed(_)));
        assert_eq!(database.status(lost), XidStatus::Aborted);
    };
    check(&database);
    database.storage.shutdown(&[&*database.manager]).unwrap();
    drop(database);
    check(&Database::open(&vfs));
    check(&Database::open(&Arc::new(vfs.fork())));
}

#[test]
fn subtransactions_end_as_their_savepoints_did() {
    let vfs = Arc::new(MemoryVfs::new());
    let database = Database::open(&vfs);
    let transaction = database.begin();
    transaction.savepoint("a");
    let undone = transaction.write_xid().unwrap();
    transaction.rollback_to("a").unwrap();
    let kept = transaction.write_xid().unwrap();
    let top = transaction.xid().unwrap();
    assert_eq!(database.status(undone), XidStatus::Aborted);
    assert_eq!(database.status(kept), XidStatus::InProgress);
    assert!(transaction.is_mine(kept) && transaction.is_mine(top) && !transaction.is_mine(undone));
    transaction.commit(Durability::Flush).unwrap();
    drop(database);
    let database = Database::open(&vfs);
    assert_eq!(database.status(top), ANCIENT);
    assert_eq!(database.status(kept), ANCIENT);
    assert_eq!(database.status(undone), XidStatus::Aborted);
}

#[test]
fn dropped_files_go_with_the_commit_and_created_ones_with_the_abort() {
    let vfs = Arc::new(MemoryVfs::new());
    let database = Database::open(&vfs);
    let create = |transaction: &Transaction| {
        let file = RelFile { id: database.storage.allocate_file(), logged: true };
        database.storage.create_file(file, transaction.write_xid().unwrap()).unwrap();
        transaction.drop_file_at_abort(file);
        file
    };
    let exists = |file: RelFile| database.storage.file_exists(file.id).unwrap();
    let transaction = database.begin();
    let kept = create(&transaction);
    transaction.savepoint("s");
    let undone = create(&transaction);
    transaction.drop_file_at_commit(kept);
    transaction.rollback_to("s").unwrap();
    assert!(exists(kept) && !exists(undone));
    transaction.commit(Durability::Flush).unwrap();
    assert!(exists(kept));

    let transaction = database.begin();
    let in_vain = create(&transaction);
    transaction.drop_file_at_commit(kept);
    drop(transaction);
    assert!(exists(kept) && !exists(in_vain));

    let transaction = database.begin();
    transaction.write_xid().unwrap();
    transaction.drop_file_at_commit(kept);
    transaction.commit(Durability::Flush).unwrap();
    assert!(!exists(kept));
}

/// Once, a process was killed while an index build filled the disk. Recovery rebuilt the whole
/// file, which no transaction could read, found no room for it, and the directory did not open.
#[test]
fn recovery_needs_no_room_for_a_file_whose_creator_did_not_commit() {
    for (checkpoint, commits) in [(false, false), (true, false), (false, true), (true, true)] {
        let vfs = FaultyVfs::new();
        let database = Database::open_on(Arc::new(vfs.clone()));
        let creator = database.begin();
        // The savepoint is released, so its files belong to the transaction.
        creator.savepoint("s");
        let xid = creator.write_xid().unwrap();
        let file = RelFile { id: database.storage.allocate_file(), logged: true };
        database.storage.create_file(file, xid).unwrap();
        creator.release("s").unwrap();
        database.add_page(file, xid);
        if checkpoint {
            let kind = CheckpointKind::Requested;
            database.storage.checkpoint(kind, &[&*database.manager]).unwrap();
        }
        database.add_page(file, xid);
        database.storage.wal().flush(database.storage.wal().insert_lsn()).unwrap();
        if commits {
            creator.commit(Durability::Flush).unwrap();
        }
        let left = vfs.restarted();
        let path = format!("base/{}.main", file.id);
        // A crash may lose the bytes that were added since the checkpoint.
        left.open(&path, OpenMode::Existing).unwrap().set_len(PAGE_SIZE as u64).unwrap();
        if !commits {
            left.inject(Fault {
                kind: FaultKind::StorageFull,
                operation: Operation::Allocate,
                path_contains: path,
                after: 0,
                sticky: true,
            });
        }
        let again = Database::open_on(Arc::new(left));
        let what = format!("checkpoint: {checkpoint}, commits: {commits}");
        assert_eq!(again.storage.file_exists(file.id).unwrap(), commits, "{what}");
        let blocks = again.storage.pool().blocks(file.id, Fork::Main).unwrap();
        assert_eq!(blocks, if commits { 2 } else { 0 }, "{what}");
        for block in (0..blocks).map(BlockNumber) {
            let id = PageId { file: file.id, fork: Fork::Main, block };
            assert_eq!(again.storage.pool().pin(id).unwrap().read().kind(), PageKind::Visibility);
        }
    }
}

/// The log loses its last flush, with a commit. Once, recovery passed over the pages of the file
/// that the transaction had created. So nothing reported the damage, and the file was removed.
#[test]
fn a_file_whose_commit_is_damaged_is_not_removed() {
    for is_in_table in [false, true] {
        let vfs = Arc::new(MemoryVfs::new());
        let database = Database::open(&vfs);
        let creator = database.begin();
        let xid = creator.write_xid().unwrap();
        let file = RelFile { id: database.storage.allocate_file(), logged: true };
        database.storage.create_file(file, xid).unwrap();
        database.add_page(file, xid);
        // From then on the table of files has the file.
        if is_in_table {
            database.checkpoint();
        }
        let lost = database.write_page(file, BlockNumber(0), xid);
        database.write_page(file, BlockNumber(0), xid);
        creator.commit(Durability::Flush).unwrap();
        let end = database.storage.wal().insert_lsn();
        let left = Arc::new(vfs.fork());
        // The page as the background writer may have written it by then.
        database.checkpoint();
        let path = format!("base/{}.main", file.id);
        let mut page = vec![0; PAGE_SIZE];
        vfs.open(&path, OpenMode::Existing).unwrap().read_at(&mut page, 0).unwrap();
        let written = left.open(&path, OpenMode::Existing).unwrap();
        written.write_at(&page, 0).unwrap();
        let log = left.open(&format!("wal/00000001{:016x}", 0), OpenMode::Existing).unwrap();
        let nothing = vec![0; (end.0 - lost.0) as usize];
        log.write_at(&nothing, SEGMENT_HEADER_SIZE + lost.0).unwrap();
        let env = Env { vfs: Arc::clone(&left) as _, ..Env::memory() };
        let manager = TransactionManager::new(env.clone(), TxnOptions::default());
        let error = Storage::open(env, StorageOptions::default(), vec![manager as _]).unwrap_err();
        let is_found = matches!(&error, Error::Corruption(found) if found.invariant == "W1");
        assert!(is_found, "in the table of files: {is_in_table}: {error}");
        let mut kept = vec![0; PAGE_SIZE];
        written.read_at(&mut kept, 0).unwrap();
        assert!(left.exists(&path).unwrap() && kept == page);
    }
}

#[test]
fn old_states_shrink_and_mean_the_same_to_every_snapshot() {
    let vfs = Arc::new(MemoryVfs::new());
    let database = Database::open(&vfs);
    let (first, first_csn) = database.commit();
    let aborted = database.abort();
    let repeatable =
        BeginOptions { isolation: Isolation::RepeatableRead, ..BeginOptions::default() };
    let reader = database.manager.register_session().unwrap();
    let report = database.manager.begin(&reader, repeatable).unwrap();
    let old = report.snapshot().unwrap();
    let (second, second_csn) = database.commit();
    database.burn_segment();
    let middle = database.commit().0;
    database.burn_segment();
    let last = database.commit().0;
    // The first segment holds commits on both sides of the report's snapshot, so it stays; the
    // second one lies behind it and is represented by one CSN.
    let status = database.status(middle);
    assert!(
        matches!(status, XidStatus::Committed(csn) if csn > old.csn() && csn <= database.manager.published()),
        "{status:?}"
    );
    assert_eq!(database.status(first), XidStatus::Committed(first_csn));
    assert_eq!(database.status(second), XidStatus::Committed(second_csn));
    let view = report.view(&old);
    assert!(view.committed_before(first));
    assert!(!view.committed_before(second) && !view.committed_before(middle));
    assert!(!view.committed_before(last) && !view.committed_before(aborted));

    drop((old, report));
    database.storage.wal().flush(database.storage.wal().insert_lsn()).unwrap();
    database.storage.checkpoint(CheckpointKind::Requested, &[&*database.manager]).unwrap();
    assert_eq!(database.status(first), ANCIENT);
    assert_eq!(database.status(middle), ANCIENT);
    assert_eq!(database.status(aborted), XidStatus::Aborted);
    let next = database.manager.next_xid();
    let vfs = Arc::new(vfs.fork());
    let database = Database::open(&vfs);
    for (xid, expected) in [(first, ANCIENT), (second, ANCIENT), (middle, ANCIENT), (last, ANCIENT)]
    {
        assert_eq!(database.status(xid), expected);
    }
    assert_eq!(database.status(aborted), XidStatus::Aborted);
    assert!(database.manager.next_xid() >= next);
}
