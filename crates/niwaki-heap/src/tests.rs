//! Tests of the heap on storage in memory, for details that the table's tests do not see from
//! above.

mod access;
mod intervals;
mod locks;
mod mixed;
mod observer;
mod pieces;
mod removed;
mod room;
mod tail;
mod useful;
mod visibility;

use std::sync::Arc;

use niwaki_env::Env;
use niwaki_env::vfs::MemoryVfs;
use niwaki_storage::compare::{PageDifference, redo_equals_do};
use niwaki_storage::page::Page;
use niwaki_storage::{
    BlockNumber, ItemId, RelFile, ResourceManager, Storage, StorageOptions, Tid, Xid,
};
use niwaki_txn::{
    BeginOptions, Durability, SessionControl, Transaction, TransactionManager, TupleCid, TxnOptions,
};

use crate::format::change::{
    EndVersion, PlaceRow, PrunePlan, Relink, UpdateOnPage, decode_end, encode_end,
};
use crate::format::header::{Header, NO_LINK, Tuple};
use crate::format::page;
use crate::{
    Error, Heap, HeapOutcome, HeapRedo, HeapRegistry, HeapRelation, InsertOptions, MAX_TUPLE_SIZE,
    MapOptions, NewRow, RowTarget, TUPLE_HEADER_SIZE, UniqueProbe, UpdateKind, flags,
};

/// Options that give small heaps a map.
const MAPPED: MapOptions = MapOptions { blocks_min: 1, resident: true };

struct Fixture {
    vfs: Arc<MemoryVfs>,
    storage: Arc<Storage>,
    txns: Arc<TransactionManager>,
    relation: HeapRelation,
    sessions: Vec<Arc<SessionControl>>,
}

impl Fixture {
    fn new() -> Self {
        Self::with(TxnOptions::default())
    }

    fn with(options: TxnOptions) -> Self {
        let vfs = Arc::new(MemoryVfs::new());
        let (storage, txns) = open(&vfs, options);
        let sessions: Vec<_> = (0..3).map(|_| txns.register_session().unwrap()).collect();
        let file = RelFile { id: storage.allocate_file(), logged: true };
        storage.create_file(file, Xid::INVALID).unwrap();
        let relation = HeapRegistry::with_maps(MAPPED).open(file, 100);
        Self { vfs, storage, txns, relation, sessions }
    }

    /// Checks that redo of the log makes the same pages as the changes did. Redo runs on a copy of
    /// the files as a killed process leaves them.
    fn assert_redo_makes_the_same(&self) {
        self.storage.wal().flush(self.storage.wal().insert_lsn()).unwrap();
        let (copy, _) = open(&Arc::new(self.vfs.fork()), TxnOptions::default());
        let differences = redo_equals_do(&self.storage, &copy, &crate::mask_hints).unwrap();
        let mine = |difference: &PageDifference| difference.id.file == self.relation.file.id;
        let differences: Vec<_> = differences.into_iter().filter(mine).collect();
        assert!(differences.is_empty(), "{differences:?}");
    }

    fn heap(&self) -> Heap<'_> {
        Heap::new(&self.storage, &self.txns, &self.relation)
    }

    fn begin(&self, session: usize) -> Transaction {
        self.txns.begin(&self.sessions[session], BeginOptions::default()).unwrap()
    }

    fn insert(&self, tx: &Transaction, bytes: &[u8]) -> Tid {
        self.heap().insert(tx, row(bytes), InsertOptions::default()).unwrap()
    }

    fn update(&self, tx: &Transaction, root: Tid, bytes: &[u8]) -> HeapOutcome {
        self.update_key(tx, root, bytes, false)
    }

    fn update_key(
        &self,
        tx: &Transaction,
        root: Tid,
        bytes: &[u8],
        key_changed: bool,
    ) -> HeapOutcome {
        let snapshot = tx.snapshot_for_write().unwrap();
        let kind = UpdateKind { heap_only: true, mixed: false, key_changed };
        let view = tx.view(&snapshot);
        let done = self.heap().update(&view, RowTarget::visible(root), row(bytes), kind).unwrap();
        tx.next_command().unwrap();
        done
    }

    fn fetch(&self, tx: &Transaction, root: Tid) -> Option<Vec<u8>> {
        let snapshot = tx.snapshot().unwrap();
        self.heap().fetch(&tx.view(&snapshot), root, |row| row.bytes.to_vec()).unwrap()
    }

    fn commit(&self, tx: Transaction) {
        tx.commit(Durability::Flush).unwrap();
    }

    /// Makes three committed versions of a row on one page, at the offsets 1, 2 and 3; the root is
    /// 1.
    fn chain(&self) -> Tid {
        let tx = self.begin(0);
        let root = self.insert(&tx, b"one");
        self.commit(tx);
        for bytes in [b"two", b"thr"] {
            let tx = self.begin(0);
            assert_eq!(self.update(&tx, root, bytes), HeapOutcome::Done { root, heap_only: true });
            self.commit(tx);
        }
        root
    }

    /// Returns the names of the invariants that a check finds broken, after `damage` was done to
    /// block 0.
    fn broken_by(&self, damage: impl FnOnce(&mut Page)) -> Vec<&'static str> {
        assert_eq!(self.check(), [""; 0], "sound before");
        let mut page = self.heap().pin_write(0).unwrap();
        damage(&mut page);
        page.mark_dirty();
        drop(page);
        let mut names = self.check();
        names.sort_unstable();
        names.dedup();
        names
    }

    fn check(&self) -> Vec<&'static str> {
        let mut report = Vec::new();
        for block in 0..self.heap().blocks().unwrap() {
            self.heap().check_page(block, &mut report, |_, _| {}, |_| {}).unwrap();
        }
        self.heap().check_visibility_map(&mut report).unwrap();
        report.into_iter().map(|corruption| corruption.invariant).collect()
    }
}

fn open(vfs: &Arc<MemoryVfs>, options: TxnOptions) -> (Arc<Storage>, Arc<TransactionManager>) {
    let env = Env { vfs: Arc::clone(vfs) as _, ..Env::memory() };
    let txns = TransactionManager::new(env.clone(), options);
    let managers = vec![HeapRedo::new(), Arc::clone(&txns) as Arc<dyn ResourceManager>];
    let options = StorageOptions { shared_buffers: 64, ..StorageOptions::default() };
    let (storage, _) = Storage::open(env, options, managers).unwrap();
    txns.attach(&storage).unwrap();
    (storage, txns)
}

/// Inserts a row, and commits it.
fn inserted(fixture: &Fixture, bytes: &[u8]) -> Tid {
    let tx = fixture.begin(0);
    let root = fixture.insert(&tx, bytes);
    fixture.commit(tx);
    root
}

fn row(bytes: &[u8]) -> NewRow<'_> {
    NewRow { natts: 1, has_nulls: false, has_external: false, bytes }
}

fn edit(page: &mut Page, offset: u16, change: impl FnOnce(&mut Header)) {
    let bytes = page::header_mut(page, offset).expect("a tuple");
    let mut header = Header::of(Tuple::new(bytes.as_slice()).expect("a header"));
    change(&mut header);
    *bytes = header.to_bytes();
}

#[test]
fn the_largest_row_fits_and_a_larger_one_is_refused() {
    let fixture = Fixture::new();
    let tx = fixture.begin(0);
    let bytes = vec![7; MAX_TUPLE_SIZE - TUPLE_HEADER_SIZE + 1];
    let error = fixture.heap().insert(&tx, row(&bytes), InsertOptions::default()).unwrap_err();
    assert_eq!(error.to_string(), "row is too big: size 8149, maximum size 8148");
    let root = fixture.insert(&tx, &bytes[1..]);
    tx.next_command().unwrap();
    assert_eq!(fixture.fetch(&tx, root).unwrap().len(), bytes.len() - 1);
    let error =
        fixture.heap().insert_many(&tx, &[row(&bytes)], InsertOptions::default(), &mut vec![]);
    assert!(matches!(error, Err(Error::RowTooBig { .. })));
    fixture.commit(tx);
}

#[test]
fn an_update_of_a_few_bytes_writes_few_bytes() {
    let fixture = Fixture::new();
    let tx = fixture.begin(0);
    let mut bytes = vec![1; 120];
    let root = fixture.insert(&tx, &bytes);
    fixture.commit(tx);
    let tx = fixture.begin(0);
    fixture.update(&tx, root, &bytes);
    let before = fixture.storage.wal().insert_lsn();
    bytes[60..64].copy_from_slice(b"four");
    fixture.update(&tx, root, &bytes);
    let written = fixture.storage.wal().insert_lsn().0 - before.0;
    assert!(written < 100, "{written} bytes");
    assert_eq!(fixture.fetch(&tx, root).unwrap(), bytes);
    fixture.commit(tx);
}

#[test]
fn images_share_what_is_the_same_byte_by_byte() {
    let shared = |old: &[u8], new: &[u8]| {
        let prefix = old.iter().zip(new).take_while(|(a, b)| a == b).count();
        let (old, new) = (&old[prefix..], &new[prefix..]);
        let backwards = old.iter().rev().zip(new.iter().rev());
        (prefix, backwards.take_while(|(a, b)| a == b).count())
    };
    let old: Vec<u8> = (0..100).collect();
    for begin in 0..=old.len() {
        for end in begin..=old.len() {
            for middle in [&[][..], &[200], &[200; 17]] {
                let new = [&old[..begin], middle, &old[end..]].concat();
                assert_eq!(UpdateOnPage::shared(&old, &new), shared(&old, &new));
                assert_eq!(UpdateOnPage::shared(&new, &old), shared(&new, &old));
            }
        }
    }
    let same = [7; 64];
    assert_eq!(UpdateOnPage::shared(&same, &same[..40]), (40, 0), "nothing is shared twice");
}

#[test]
fn a_unique_check_waits_for_whoever_is_in_progress() {
    let fixture = Fixture::new();
    let (one, other) = (fixture.begin(0), fixture.begin(1));
    let probe = |tx: &Transaction, root| fixture.heap().probe_unique(tx, root, |_| true).unwrap();
    let root = fixture.insert(&one, b"key");
    let xid = one.xid().unwrap();
    assert_eq!(probe(&one, root), UniqueProbe::Conflict);
    assert_eq!(probe(&other, root), UniqueProbe::InProgress(xid));
    fixture.commit(one);
    assert_eq!(probe(&other, root), UniqueProbe::Conflict);
    let one = fixture.begin(0);
    let snapshot = one.snapshot_for_write().unwrap();
    let target = RowTarget::visible(root);
    fixture.heap().delete(&one.view(&snapshot), target).unwrap();
    drop(snapshot);
    let xid = one.xid().unwrap();
    assert_eq!(probe(&one, root), UniqueProbe::Free);
    assert_eq!(probe(&other, root), UniqueProbe::InProgress(xid));
    one.abort();
    assert_eq!(probe(&other, root), UniqueProbe::Conflict);
    let one = fixture.begin(0);
    // A version with another key is no reason to wait.
    fixture.update(&one, root, b"kez");
    let other_key = fixture.heap().probe_unique(&other, root, |row| row.bytes == b"kex");
    assert_eq!(other_key.unwrap(), UniqueProbe::Free);
}

/// Rule `hop-check`: otherwise another row, put at the place of the aborted version, would pass for
/// the successor.
#[test]
fn pruning_an_aborted_version_resets_its_predecessor() {
    let fixture = Fixture::new();
    let tx = fixture.begin(0);
    let root = fixture.insert(&tx, b"one");
    fixture.commit(tx);
    let tx = fixture.begin(0);
    fixture.update(&tx, root, b"two");
    tx.abort();
    let horizon = fixture.txns.horizon();
    let mut roots = crate::VacuumRoots::default();
    let done = fixture.heap().vacuum_page(0, &horizon, Xid::INVALID, true, &mut roots).unwrap();
    assert_eq!((done.pruned.removed, done.pruned.remaining), (1, 1));
    let page = fixture.heap().pin_write(0).unwrap();
    let tuple = page::tuple(&page, root.offset.0).unwrap();
    assert_eq!((tuple.xmax(), tuple.link()), (0, NO_LINK));
    assert!(!tuple.has(flags::HEAP_UPDATED));
}

#[test]
fn the_xid_base_moves_when_ids_run_out_of_range() {
    let fixture = Fixture::new();
    let root = fixture.chain();
    let far = Xid(1 << 33);
    let mut page = fixture.heap().pin_write(0).unwrap();
    fixture.heap().bring_in_range(&mut page, far).unwrap();
    assert!(crate::format::header::relative(page::base(&page), far).is_some());
    let newest = page::Chain::new(&page, root.offset.0).last().unwrap();
    assert_eq!(newest.1.xmin(), 1, "frozen");
    drop(page);
    let tx = fixture.begin(0);
    assert_eq!(fixture.fetch(&tx, root).unwrap(), b"thr");
    tx.abort();
    assert_eq!(fixture.check(), [""; 0]);
}

#[test]
fn a_transaction_of_another_age_keeps_the_xid_base_where_it_is() {
    let fixture = Fixture::new();
    let tx = fixture.begin(0);
    fixture.insert(&tx, b"one");
    let mut page = fixture.heap().pin_write(0).unwrap();
    let error = fixture.heap().bring_in_range(&mut page, Xid(1 << 33)).unwrap_err();
    assert!(matches!(error, Error::XidRange { .. }), "{error}");
    drop(page);
    tx.abort();
}

#[test]
fn ids_stay_the_same_when_the_base_moves() {
    let fixture = Fixture::new();
    let earlier = fixture.begin(0);
    fixture.insert(&earlier, b"zero");
    earlier.abort();
    let tx = fixture.begin(0);
    let root = fixture.insert(&tx, b"one");
    let xid = tx.xid().unwrap();
    let mut page = fixture.heap().pin_write(0).unwrap();
    // This id is just out of range of base 0; the open transaction's id is just in range of it.
    fixture.heap().bring_in_range(&mut page, Xid(u64::from(u32::MAX) + 1)).unwrap();
    let tuple = page::tuple(&page, root.offset.0).unwrap();
    assert_eq!(page::xmin(page::base(&page), tuple), xid);
    drop(page);
    tx.next_command().unwrap();
    assert_eq!(fixture.fetch(&tx, root).unwrap(), b"one");
    tx.abort();
}

#[test]
fn h1_a_version_no_root_leads_to() {
    let fixture = Fixture::new();
    fixture.chain();
    let names = fixture.broken_by(|page| edit(page, 2, |header| header.root = 9));
    assert!(names.contains(&"H1"), "{names:?}");
}

#[test]
fn h1_a_redirect_that_leads_to_a_root() {
    let fixture = Fixture::new();
    let root = fixture.chain();
    let tx = fixture.begin(0);
    let other = fixture.insert(&tx, b"another");
    fixture.commit(tx);
    let names = fixture.broken_by(|page| {
        assert!(page.set_item_id(root.offset, ItemId::redirect(other.offset)));
    });
    assert!(names.contains(&"H1"), "{names:?}");
}

#[test]
fn h3_a_row_that_went_to_another_table_and_is_here() {
    // The last version of the chain has no end; the first one was replaced.
    for offset in [1, 2] {
        let fixture = Fixture::new();
        fixture.chain();
        let names =
            fixture.broken_by(|page| edit(page, offset, |header| header.flags |= flags::MOVED));
        assert!(names.contains(&"H3"), "{names:?}");
    }
}

#[test]
fn h3_a_link_that_leads_to_another_transactions_version() {
    let fixture = Fixture::new();
    fixture.chain();
    let names = fixture.broken_by(|page| edit(page, 2, |header| header.xmin += 1));
    assert!(names.contains(&"H3"), "{names:?}");
}

#[test]
fn format_flags_without_a_meaning() {
    let fixture = Fixture::new();
    fixture.chain();
    let names = fixture.broken_by(|page| edit(page, 1, |header| header.flags |= 1 << 15));
    assert_eq!(names, ["format"]);
}

#[test]
fn records_read_back_and_cut_ones_do_not() {
    let plan = PrunePlan {
        redirected: vec![(1, 2)],
        dead: vec![3],
        unused: vec![4, 5],
        freed: vec![6],
        stubs: vec![Relink {
            offset: 7,
            xmax: 8,
            link: Tid::new(9, 10),
            heap_updated: true,
            keys_updated: false,
            moved: false,
        }],
        relinked: vec![Relink {
            offset: 11,
            xmax: 12,
            link: NO_LINK,
            heap_updated: false,
            keys_updated: true,
            moved: true,
        }],
        cleared: vec![15],
        frozen: vec![16],
        unmixed: vec![18],
        prune_xid: 17,
    };
    let mut bytes = Vec::new();
    plan.encode(&mut bytes);
    assert_eq!(PrunePlan::decode(&bytes), Some(plan));
    for cut in 0..bytes.len() {
        assert_eq!(PrunePlan::decode(&bytes[..cut]), None, "cut at {cut}");
    }
    let mut moved_on = PrunePlan::decode(&bytes).unwrap();
    moved_on.relinked[0].link = Tid::new(13, 14);
    bytes.clear();
    moved_on.encode(&mut bytes);
    assert_eq!(PrunePlan::decode(&bytes), None, "it went to another table, and is here");
    let end =
        EndVersion { offset: 1, link: Tid::new(2, 3), xmax_flags: flags::KEYS_UPDATED, cid: None };
    let bytes = encode_end(&end);
    let read = decode_end(&bytes).unwrap();
    assert_eq!((read.offset, read.link, read.xmax_flags), (1, Tid::new(2, 3), flags::KEYS_UPDATED));
    assert!(decode_end(&bytes[..9]).is_none());
    let moved = EndVersion { link: NO_LINK, xmax_flags: flags::KEYS_UPDATED | flags::MOVED, ..end };
    assert!(decode_end(&encode_end(&moved)).is_some());
    for wrong in [
        EndVersion { link: end.link, ..moved },
        EndVersion { xmax_flags: moved.xmax_flags | flags::XMAX_LOCK_ONLY, ..moved },
    ] {
        assert!(decode_end(&encode_end(&wrong)).is_none());
    }
    let place = PlaceRow {
        offset: 1,
        natts: 2,
        has_nulls: true,
        has_external: false,
        frozen: true,
        data: b"xyz",
    };
    let bytes = [&place.head()[..], place.data].concat();
    let read = PlaceRow::decode(&bytes).unwrap();
    assert_eq!((read.offset, read.natts, read.data), (1, 2, place.data));
    assert!(read.has_nulls && read.frozen && !read.has_external);
    assert!(PlaceRow::decode(&bytes[..4]).is_none());
}

/// A record that does not fit the page changes nothing that could be taken for a row.
#[test]
fn changes_refuse_what_the_page_does_not_allow() {
    let mut page = Page::zeroed();
    page::init(&mut page, 1 << 40);
    let place = PlaceRow {
        offset: 1,
        natts: 1,
        has_nulls: false,
        has_external: false,
        frozen: false,
        data: b"x",
    };
    assert!(!place.apply(&mut page, Xid(5), 0), "an id before the base");
    let xid = Xid((1 << 40) + 7);
    assert!(!PlaceRow { offset: 3, ..place }.apply(&mut page, xid, 0), "a gap");
    assert!(!PlaceRow { offset: 0, ..place }.apply(&mut page, xid, 0), "no line pointer");
    assert!(place.apply(&mut page, xid, 0));
    assert!(!place.apply(&mut page, xid, 0), "taken");
    let update = UpdateOnPage {
        mixed: false,
        old: 1,
        new: 2,
        natts: 1,
        has_nulls: false,
        has_external: false,
        keys_updated: false,
        heap_only: true,
        prefix: 1,
        suffix: 1,
        middle: b"",
    };
    let cids = (0, TupleCid::default());
    assert!(!update.apply(&mut page, BlockNumber(0), xid, cids), "more in common than there is");
    assert!(!UpdateOnPage { old: 2, ..update }.apply(&mut page, BlockNumber(0), xid, cids));
    assert_eq!(page.item_count(), 1);
}
