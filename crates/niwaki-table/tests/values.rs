//! Large values: compressed or out of line, kept by updates, gone with their versions.

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;

use niwaki_env::vfs::MemoryVfs;
use niwaki_heap::{InsertOptions, Live, NewRow, RowTarget};
use niwaki_nbtree::KeyRange;
use niwaki_storage::Tid;
use niwaki_table::{
    Direction, Engine, HeapOnlyUpdates, IndexDefinition, KeyColumn, Lookup, PageRows, Rounds,
    Table, TableDefinition, UpdateOutcome, Workspace,
};
use niwaki_txn::{
    BeginOptions, Durability, Isolation, SessionControl, Snapshot, TableId, Transaction,
};
use niwaki_types::{ColumnMask, ColumnType, Datum, KeyOrder, TypeOid, encode_key};
use niwaki_vacuum::{IndexCleanup, VacuumOptions, vacuum};
use support::{Rng, open_on};

/// `(id int4 unique, v int4, t text)`
struct World {
    engine: Arc<Engine>,
    table: Arc<Table>,
    sessions: Vec<Arc<SessionControl>>,
    work: Workspace,
}

/// Returns text that lz4 cannot make smaller.
fn noise(seed: u64, length: usize) -> String {
    let mut rng = Rng::new(seed);
    (0..length).map(|_| char::from(b'!' + rng.below(90) as u8)).collect()
}

fn row(id: i32, v: i32, t: &str) -> Vec<Datum> {
    vec![Datum::Int4(id), Datum::Int4(v), Datum::text(t)]
}

type Contents = BTreeMap<i32, (i32, String)>;

impl World {
    fn new() -> Self {
        Self::with(HeapOnlyUpdates::default(), |_| Vec::new())
    }

    /// Makes a world with more indexes.
    fn with(
        heap_only_updates: HeapOnlyUpdates,
        more: impl FnOnce(
            &mut dyn FnMut(u64, Vec<KeyColumn>) -> IndexDefinition,
        ) -> Vec<IndexDefinition>,
    ) -> Self {
        let engine = open_on(&Arc::new(MemoryVfs::new()));
        let sessions: Vec<_> =
            (0..3).map(|_| engine.transactions().register_session().unwrap()).collect();
        let tx = engine.transactions().begin(&sessions[0], BeginOptions::default()).unwrap();
        let mut index = |id: u64, key: Vec<KeyColumn>| {
            let file = engine.create_file(&tx, true).unwrap();
            IndexDefinition {
                unique: true,
                ..IndexDefinition::new(TableId(id), &format!("index {id}"), file, key)
            }
        };
        let id = KeyColumn::column(0, KeyOrder::ascending(TypeOid::INT4));
        let mut indexes = vec![index(2, vec![id])];
        indexes.extend(more(&mut index));
        let definition = TableDefinition {
            id: TableId(1),
            name: "t".to_owned(),
            file: engine.create_file(&tx, true).unwrap(),
            values: Some(engine.create_file(&tx, true).unwrap()),
            fillfactor: 100,
            heap_only_updates,
            columns: [TypeOid::INT4, TypeOid::INT4, TypeOid::TEXT].map(ColumnType::new).to_vec(),
            missing: Vec::new(),
            indexes,
        };
        tx.commit(Durability::Flush).unwrap();
        let table = Table::open(&engine, definition);
        Self { engine, table, sessions, work: Workspace::new() }
    }

    fn begin(&self, session: usize) -> Transaction {
        let options = BeginOptions { isolation: Isolation::ReadCommitted, ..Default::default() };
        self.engine.transactions().begin(&self.sessions[session], options).unwrap()
    }

    fn transaction<R>(&mut self, run: impl FnOnce(&mut Self, &Transaction) -> R) -> R {
        let tx = self.begin(0);
        let result = run(self, &tx);
        tx.commit(Durability::Flush).unwrap();
        result
    }

    fn insert(&mut self, tx: &Transaction, id: i32, v: i32, t: &str) -> Tid {
        self.table.insert(tx, &row(id, v, t), &mut self.work).unwrap()
    }

    fn find(&self, tx: &Transaction, snapshot: &Snapshot, id: i32) -> Option<(Tid, Vec<Datum>)> {
        let mut key = Vec::new();
        encode_key(&Datum::Int4(id), KeyOrder::ascending(TypeOid::INT4), &mut key);
        let (mut out, all) = (vec![Datum::Null; 3], ColumnMask::all(3));
        let mut lookup = Lookup::default();
        let found =
            self.table.fetch_unique(tx, snapshot, 0, &key, &all, &mut out, &mut lookup).unwrap();
        found.map(|tid| (tid, out))
    }

    /// Updates `v` or `t` of a row.
    fn update(&mut self, tx: &Transaction, id: i32, v: Option<i32>, t: Option<&str>) {
        let snapshot = tx.snapshot_for_write().unwrap();
        let (tid, old) = self.find(tx, &snapshot, id).expect("the row");
        let mut new = old.clone();
        if let Some(v) = v {
            new[1] = Datum::Int4(v);
        }
        if let Some(t) = t {
            new[2] = Datum::text(t);
        }
        let target = RowTarget::visible(tid);
        let done = self.table.update(tx, &snapshot, target, &old, &new, &mut self.work).unwrap();
        assert!(matches!(done, UpdateOutcome::Done { .. }), "{done:?}");
        tx.next_command().unwrap();
    }

    fn delete(&mut self, tx: &Transaction, id: i32) {
        let snapshot = tx.snapshot_for_write().unwrap();
        let (tid, _) = self.find(tx, &snapshot, id).expect("the row");
        let done = self.table.delete(tx, &snapshot, RowTarget::visible(tid)).unwrap();
        assert!(matches!(done, UpdateOutcome::Done { .. }), "{done:?}");
        tx.next_command().unwrap();
    }

    /// Returns all rows, by the heap and by the index.
    fn contents(&self, tx: &Transaction) -> Contents {
        let snapshot = tx.snapshot().unwrap();
        let (all, mut out) = (ColumnMask::all(3), vec![Datum::Null; 3]);
        let mut found = Contents::new();
        let mut scan = self.table.seq_scan(0..self.table.blocks().unwrap());
        let mut page = PageRows::new();
        let note = |out: &[Datum]| {
            let [Datum::Int4(id), Datum::Int4(v), Datum::Text(t)] = out else { panic!("{out:?}") };
            (*id, (*v, t.to_string()))
        };
        while scan.next_page(&self.table, tx, &snapshot, &mut page).unwrap() {
            for stored in page.iter() {
                self.table.deform(stored, &all, &mut out).unwrap();
                found.extend([note(&out)]);
            }
        }
        let mut by_index = Contents::new();
        let mut scan = self.table.index_scan(0, &KeyRange::ALL, Direction::Forward);
        while scan.next(&self.table, tx, &snapshot, &all, &mut out).unwrap().is_some() {
            by_index.extend([note(&out)]);
        }
        assert_eq!(by_index, found);
        found
    }

    fn now(&self) -> Contents {
        let tx = self.begin(1);
        self.contents(&tx)
    }

    fn check(&self) {
        let found = self.broken();
        assert!(found.is_empty(), "{found:?}");
    }

    fn broken(&self) -> Vec<String> {
        let report = self.table.check().unwrap();
        report.corruptions.into_iter().map(|c| format!("{}: {}", c.invariant, c.detail)).collect()
    }

    fn value_blocks(&self) -> u32 {
        self.table.value_blocks().unwrap()
    }

    /// Counts the rows of the value heap.
    fn pieces(&self) -> usize {
        let values = self.table.value_heap().unwrap();
        let horizon = self.engine.transactions().horizon();
        let mut count = 0;
        for block in 0..values.blocks().unwrap() {
            values
                .visit_versions(Live::AtVisit(&|_| false), block, &horizon, |_, _| count += 1)
                .unwrap();
        }
        count
    }

    fn lsn(&self) -> u64 {
        self.engine.storage().wal().insert_lsn().0
    }

    fn vacuum(&self, freeze: bool) {
        let freeze_min_age = if freeze { 0 } else { u64::MAX };
        let options = VacuumOptions { freeze_min_age, ..VacuumOptions::default() };
        vacuum(&self.table, &self.sessions[2], None, &options).unwrap();
        self.check();
    }
}

#[test]
fn large_values_come_back() {
    let mut world = World::new();
    let values = [
        String::new(),
        "short".to_owned(),
        "repeated ".repeat(20_000),
        noise(1, 1_900),
        noise(2, 2_100),
        noise(3, 8_086),
        noise(4, 8_087),
        noise(5, 300_000),
        noise(6, 5_000).repeat(100),
    ];
    let mut expected = Contents::new();
    world.transaction(|world, tx| {
        for (id, value) in (0..).zip(&values) {
            world.insert(tx, id, id, value);
            expected.insert(id, (id, value.clone()));
        }
    });
    assert_eq!(world.now(), expected);
    world.check();
    let many: Vec<Vec<Datum>> =
        (0..).zip(&values).map(|(id, value)| row(100 + id, id, value)).collect();
    world.transaction(|world, tx| {
        let World { table, work, .. } = world;
        table.insert_many(tx, &many, InsertOptions::default(), work).unwrap();
    });
    for (id, value) in (0..).zip(&values) {
        expected.insert(100 + id, (id, value.clone()));
    }
    assert_eq!(world.now(), expected);
    // Frozen pieces are the same.
    world.vacuum(true);
    assert_eq!(world.now(), expected);
    world.transaction(|world, tx| {
        for id in 0..9 {
            world.delete(tx, id);
            expected.remove(&id);
        }
    });
    assert_eq!(world.now(), expected);
    world.vacuum(false);
    assert_eq!(world.now(), expected);
}

#[test]
fn columns_that_are_not_asked_for_are_not_read() {
    let mut world = World::new();
    let tid = world.transaction(|world, tx| world.insert(tx, 1, 7, &noise(1, 100_000)));
    let file = world.table.definition().values.unwrap().id;
    let reads = || {
        let stats = world.engine.storage().pool();
        let stats = stats.statistics_of(file, niwaki_storage::Fork::Main);
        stats.reads + stats.hits
    };
    let tx = world.begin(0);
    let snapshot = tx.snapshot().unwrap();
    let mut out = vec![Datum::Null; 3];
    let before = reads();
    let needed: ColumnMask = [0, 1].into_iter().collect();
    assert!(world.table.fetch(&tx, &snapshot, tid, &needed, &mut out).unwrap());
    assert!(matches!(out[1], Datum::Int4(7)));
    assert_eq!(reads(), before, "no piece was read");
    assert!(world.table.fetch(&tx, &snapshot, tid, &ColumnMask::all(3), &mut out).unwrap());
    assert!(reads() >= before + 12, "all of them");
}

#[test]
fn an_update_that_keeps_a_value_does_not_write_it() {
    let mut world = World::new();
    let value = noise(1, 100_000);
    world.transaction(|world, tx| {
        world.insert(tx, 1, 0, &value);
    });
    let blocks = world.value_blocks();
    // Each page image is logged once.
    world.transaction(|world, tx| world.update(tx, 1, Some(1), None));
    let begin = world.lsn();
    for v in 2..12 {
        world.transaction(|world, tx| world.update(tx, 1, Some(v), None));
    }
    let each = (world.lsn() - begin) / 10;
    assert!(each < 400, "{each} bytes of log an update");
    // An equal value in another object is kept too.
    let begin = world.lsn();
    world.transaction(|world, tx| world.update(tx, 1, Some(12), Some(&value)));
    assert!(world.lsn() - begin < 400);
    assert_eq!(world.value_blocks(), blocks);
    world.check();
    let begin = world.lsn();
    let other = noise(2, 100_000);
    world.transaction(|world, tx| world.update(tx, 1, None, Some(&other)));
    assert!(world.lsn() - begin > 100_000);
    assert_eq!(world.now(), Contents::from([(1, (12, other))]));
    world.check();
}

#[test]
fn what_is_rolled_back_leaves_the_value_as_it_was() {
    let mut world = World::new();
    let (first, second) = (noise(1, 20_000), noise(2, 30_000));
    world.transaction(|world, tx| {
        world.insert(tx, 1, 0, &first);
    });
    let expected = Contents::from([(1, (0, first.clone()))]);
    let tx = world.begin(0);
    world.update(&tx, 1, Some(5), Some(&second));
    world.insert(&tx, 2, 0, &second);
    drop(tx);
    assert_eq!(world.now(), expected);
    world.check();
    let tx = world.begin(0);
    tx.savepoint("a");
    world.update(&tx, 1, Some(5), Some(&second));
    tx.rollback_to("a").unwrap();
    world.check();
    world.update(&tx, 1, Some(6), None);
    tx.savepoint("b");
    world.delete(&tx, 1);
    tx.rollback_to("b").unwrap();
    world.update(&tx, 1, Some(7), Some(&second));
    world.update(&tx, 1, Some(8), Some(&first));
    tx.commit(Durability::Flush).unwrap();
    assert_eq!(world.now(), Contents::from([(1, (8, first))]));
    world.check();
    world.vacuum(false);
    assert_eq!(world.pieces(), 3, "of 20,000 bytes");
}

/// D1 for values: without vacuum, and beside an old snapshot. The snapshot keeps the values that it
/// sees, and no others.
#[test]
fn values_that_are_replaced_for_ever_keep_their_size() {
    let mut world = World::new();
    world.transaction(|world, tx| {
        for id in 0..4 {
            world.insert(tx, id, 0, &noise(id as u64, 40_000));
        }
    });
    let mut sizes = Vec::new();
    let old = world.begin(1);
    let mut snapshot = Some(old.snapshot().unwrap());
    let seen = {
        let contents = world.contents(&old);
        assert_eq!(contents.len(), 4);
        contents
    };
    for turn in 1..=300u64 {
        let id = (turn % 4) as i32;
        world.transaction(|world, tx| {
            world.update(tx, id, None, Some(&noise(1_000 + turn, 40_000)));
        });
        if turn.is_multiple_of(100) {
            sizes.push(world.value_blocks());
            world.check();
        }
        if turn == 200 {
            let again = snapshot.as_ref().map(|snapshot| world.find(&old, snapshot, 2).unwrap().1);
            let Some([_, _, Datum::Text(t)]) = again.as_deref() else { panic!("{again:?}") };
            assert_eq!(**t, *seen[&2].1, "the old snapshot's own");
            snapshot = None;
        }
    }
    // Four values of five pages, four more that the snapshot sees, and those that wait for their
    // turn.
    assert!(sizes.iter().all(|&blocks| blocks <= 20 + 20 + 25), "{sizes:?}");
    assert!(world.pieces() <= 20 + 15, "{} pieces", world.pieces());
}

#[test]
fn values_of_aborted_writers_go_without_vacuum() {
    let mut world = World::new();
    world.transaction(|world, tx| {
        world.insert(tx, 1, 0, &noise(1, 20_000));
    });
    for turn in 0..100 {
        let tx = world.begin(0);
        world.update(&tx, 1, Some(turn), Some(&noise(turn as u64, 40_000)));
        drop(tx);
        // A pass visits the page, and a writer comes.
        world.now();
        world.transaction(|world, tx| world.update(tx, 1, Some(turn), None));
    }
    let blocks = world.value_blocks();
    assert!(blocks < 5 * 60, "{blocks} blocks");
    world.vacuum(false);
    assert_eq!(world.pieces(), 3);
}

/// Regression test: writers handle removed versions with large values once sixteen wait. Fewer used
/// to wait for vacuum.
#[test]
fn pieces_of_a_few_removed_versions_go_when_the_writers_have_gone() {
    let mut world = World::new();
    world.transaction(|world, tx| {
        world.insert(tx, 1, 0, "small");
    });
    for id in 2..5 {
        let tx = world.begin(0);
        world.insert(&tx, id, 0, &noise(id as u64, 20_000));
        drop(tx);
    }
    let pieces = || {
        let (values, mut found) = (world.table.value_heap().unwrap(), 0);
        for block in 0..values.blocks().unwrap() {
            values.check_page(block, &mut Vec::new(), |_, _| found += 1, |_| {}).unwrap();
        }
        found
    };
    assert_eq!(pieces(), 9);
    let mut rounds = Rounds::default();
    for _ in 0..4 {
        let quiet = world.engine.storage().wal().insert_lsn();
        world.table.round(&world.sessions[0], &mut rounds, quiet).unwrap();
    }
    assert_eq!(pieces(), 0);
    world.check();
}

/// Regression test: versions of a row share unchanged values. Versions that left no entry behind
/// gave up the pieces of a key too early. The version that did leave an entry was not read yet, so
/// the entry waited for vacuum.
#[test]
fn a_key_is_read_before_earlier_versions_give_its_pieces_up() {
    let mut world = World::with(HeapOnlyUpdates::AnyKey, |index| {
        let t = KeyColumn::column(2, KeyOrder::ascending(TypeOid::TEXT));
        vec![index(3, vec![t])]
    });
    let keys: Vec<String> = (1..4).map(|seed| noise(seed, 2_400)).collect();
    world.transaction(|world, tx| {
        world.insert(tx, 1, 0, &keys[0]);
        world.insert(tx, 2, 0, &keys[1]);
    });
    assert_eq!(world.pieces(), 2, "the keys are out of line");
    let change = |world: &mut World, id: i32, v: Option<i32>, t: Option<&str>| {
        world.transaction(|world, tx| world.update(tx, id, v, t));
        world.table.heap().prune_page(0).unwrap();
    };
    // One fewer than writers wait for.
    (1..16).for_each(|v| change(&mut world, 1, Some(v), None));
    change(&mut world, 1, None, Some(keys[2].as_str()));
    // With the other row's versions there are enough, and a writer comes.
    (1..3).for_each(|v| change(&mut world, 2, Some(v), None));
    let mut rounds = Rounds::default();
    for _ in 0..4 {
        let quiet = world.engine.storage().wal().insert_lsn();
        world.table.round(&world.sessions[0], &mut rounds, quiet).unwrap();
    }
    assert_eq!(world.table.index_stats(1).retail_deleted_entries, 1);
    assert_eq!(world.pieces(), 2);
    world.check();
}

/// Regression test: a vacuum that left entries to the gardener removed the pieces that their keys
/// are made of.
#[test]
fn a_vacuum_that_leaves_entries_leaves_what_their_keys_are_made_of() {
    let mut world = World::with(HeapOnlyUpdates::AnyKey, |index| {
        let t = KeyColumn::column(2, KeyOrder::ascending(TypeOid::TEXT));
        vec![index(3, vec![t])]
    });
    world.transaction(|world, tx| {
        world.insert(tx, 1, 0, &noise(1, 2_400));
    });
    world.transaction(|world, tx| world.update(tx, 1, None, Some(&noise(2, 2_400))));
    let options = VacuumOptions { index_cleanup: IndexCleanup::Off, ..VacuumOptions::default() };
    let done = vacuum(&world.table, &world.sessions[2], None, &options).unwrap();
    assert_eq!((done.removed, done.pieces_removed), (1, 0));
    let mut rounds = Rounds::default();
    for _ in 0..4 {
        let quiet = world.engine.storage().wal().insert_lsn();
        world.table.round(&world.sessions[0], &mut rounds, quiet).unwrap();
    }
    assert_eq!(world.table.index_stats(1).retail_deleted_entries, 1);
    assert_eq!(world.pieces(), 1);
    world.check();
}

/// Regression test: pieces whose ending was rolled back were examined by every write, for ever.
#[test]
fn what_was_not_ended_is_waited_for_by_nobody() {
    let mut world = World::new();
    world.transaction(|world, tx| {
        world.insert(tx, 1, 0, &noise(1, 20_000));
    });
    let tx = world.begin(0);
    world.delete(&tx, 1);
    drop(tx);
    world.transaction(|world, tx| world.update(tx, 1, Some(1), None));
    assert_eq!(world.table.value_heap().unwrap().ended_waiting(), 0);
    assert_eq!(world.pieces(), 3);
    world.check();
}

#[test]
fn broken_values_are_found() {
    // H3.a: a piece is missing. The transaction of the piece says that it ended.
    let mut world = World::new();
    world.transaction(|world, tx| {
        world.insert(tx, 1, 0, &noise(1, 20_000));
        world.insert(tx, 2, 0, &noise(2, 20_000));
    });
    world.check();
    world.transaction(|world, tx| {
        let values = world.table.value_heap().unwrap();
        let ended = values.end_piece(tx, Tid::new(0, 1), |_| Some(())).unwrap();
        assert!(ended.is_some());
    });
    let horizon = world.engine.transactions().horizon();
    let values = world.table.value_heap().unwrap();
    assert!(values.prune_pieces(0, &[], &horizon).unwrap());
    let found = world.broken();
    assert!(found.iter().any(|what| what.starts_with("H3.a: a piece of the value")), "{found:?}");
    let tx = world.begin(0);
    let snapshot = tx.snapshot().unwrap();
    let (mut out, all) = (vec![Datum::Null; 3], ColumnMask::all(3));
    let read = |id: i32, out: &mut [Datum]| {
        let tid = Tid::new(0, id as u16);
        world.table.fetch(&tx, &snapshot, tid, &all, out)
    };
    let errors: Vec<String> =
        (1..3).filter_map(|id| Some(read(id, &mut out).err()?.to_string())).collect();
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(
        errors[0].contains("values of table \"t\"") && errors[0].contains("H3.a"),
        "{errors:?}"
    );
    drop(snapshot);
    drop(tx);

    // H1.a: no version names the piece.
    let mut world = World::new();
    world.transaction(|world, tx| {
        world.insert(tx, 1, 0, &noise(1, 20_000));
        let values = world.table.value_heap().unwrap();
        let new = NewRow { natts: 0, has_nulls: false, has_external: false, bytes: b"nobody's" };
        values.insert(tx, new, InsertOptions::default()).unwrap();
    });
    assert_eq!(world.broken(), ["H1.a: a piece belongs to no version that somebody may see"]);
}

/// Keys that are compressed in their rows are compared on copies (rule `bytes-under-latch`). An
/// entry of another key gives no row, and a key that a row gave up is free.
#[test]
fn keys_that_do_not_stand_in_the_row_are_compared() {
    let mut world = World::with(HeapOnlyUpdates::AnyKey, |index| {
        let t = KeyColumn::column(2, KeyOrder::ascending(TypeOid::TEXT));
        vec![index(3, vec![t])]
    });
    let key = |letter: &str| letter.repeat(2_300);
    let find = |world: &World, letter: &str| {
        let tx = world.begin(1);
        let snapshot = tx.snapshot().unwrap();
        let mut encoded = Vec::new();
        encode_key(&Datum::text(&key(letter)), KeyOrder::ascending(TypeOid::TEXT), &mut encoded);
        let (mut out, all) = (vec![Datum::Null; 3], ColumnMask::all(3));
        let mut lookup = Lookup::default();
        let table = &world.table;
        table.fetch_unique(&tx, &snapshot, 1, &encoded, &all, &mut out, &mut lookup).unwrap()
    };
    world.transaction(|world, tx| {
        world.insert(tx, 1, 0, &key("a"));
    });
    // A snapshot keeps every version, and so the keys.
    let old = world.begin(2);
    let snapshot = old.snapshot().unwrap();
    for letter in ["b", "c", "b"] {
        world.transaction(|world, tx| world.update(tx, 1, None, Some(&key(letter))));
    }
    assert!(find(&world, "b").is_some());
    assert!(find(&world, "a").is_none() && find(&world, "c").is_none());
    world.check();
    let tx = world.begin(0);
    let refused = world.table.insert(&tx, &row(2, 0, &key("b")), &mut world.work);
    assert!(matches!(refused, Err(niwaki_table::Error::UniqueViolation(_))), "{refused:?}");
    drop(tx);
    world.transaction(|world, tx| {
        world.insert(tx, 2, 0, &key("a"));
        world.insert(tx, 3, 0, &key("c"));
    });
    assert!(find(&world, "a") != find(&world, "b"));
    drop(snapshot);
    drop(old);
    world.vacuum(false);
    let contents = world.now();
    let letters: Vec<&str> = contents.values().map(|(_, t)| &t[..1]).collect();
    assert_eq!(letters, ["b", "a", "c"]);
}

/// READ COMMITTED: an update that finds the row changed has stored and ended no piece. Its next try
/// does both.
#[test]
fn an_update_that_starts_again_leaves_nothing_behind() {
    let mut world = World::new();
    let (first, second, third) = (noise(1, 20_000), noise(2, 20_000), noise(3, 20_000));
    world.transaction(|world, tx| {
        world.insert(tx, 1, 0, &first);
    });
    let tx = world.begin(1);
    let snapshot = tx.snapshot_for_write().unwrap();
    let (tid, mut old) = world.find(&tx, &snapshot, 1).expect("the row");
    world.transaction(|world, tx| world.update(tx, 1, Some(1), Some(&second)));
    world.vacuum(false);
    let before = (world.pieces(), world.lsn());
    let mut target = RowTarget::visible(tid);
    let done =
        world.table.update(&tx, &snapshot, target, &old, &row(1, 2, &third), &mut world.work);
    let UpdateOutcome::Changed(changed) = done.unwrap() else { panic!("it was changed") };
    // The row is locked, with no other change.
    assert_eq!(world.pieces(), before.0);
    assert!(world.lsn() - before.1 < 9_000, "{} bytes of log", world.lsn() - before.1);
    world.check();
    target = changed.target;
    let stored = &changed.row;
    let all = ColumnMask::all(3);
    let table = &world.table;
    table.deform_parts(stored.natts, stored.has_nulls, &stored.bytes, &all, &mut old).unwrap();
    assert!(matches!(&old[2], Datum::Text(t) if **t == *second));
    let done = table.update(&tx, &snapshot, target, &old, &row(1, 2, &third), &mut world.work);
    assert!(matches!(done, Ok(UpdateOutcome::Done { .. })), "{done:?}");
    drop(snapshot);
    tx.commit(Durability::Flush).unwrap();
    world.check();
    assert_eq!(world.now(), Contents::from([(1, (2, third))]));
    world.vacuum(false);
    assert_eq!(world.pieces(), 3, "of the value that is there");
}

#[test]
fn values_of_every_type_that_may_be_large_come_back() {
    let world = World::new();
    let mut definition = world.table.definition().clone();
    let types = [TypeOid::BPCHAR, TypeOid::BYTEA, TypeOid::NUMERIC, TypeOid::TEXT_ARRAY];
    definition.columns.extend(types.map(ColumnType::new));
    definition.missing = vec![Datum::Null; 7];
    let table = Table::open(&world.engine, definition);
    let digits: String = noise(1, 30_000).bytes().map(|b| char::from(b'0' + b % 10)).collect();
    let number = niwaki_types::Numeric::parse(&format!("1{digits}.5")).unwrap();
    let elements = [Datum::text(&noise(4, 9_000)), Datum::Null, Datum::text("x")];
    let mut wide = row(1, 1, &noise(2, 5_000));
    wide.extend([
        Datum::text(&format!("{:<9000}", "padded")),
        Datum::Bytea(noise(3, 50_000).into_bytes().into()),
        Datum::Numeric(Arc::new(number)),
        Datum::array(TypeOid::TEXT, elements),
    ]);
    let tx = world.begin(0);
    let mut work = Workspace::new();
    let tid = table.insert(&tx, &wide, &mut work).unwrap();
    tx.next_command().unwrap();
    let snapshot = tx.snapshot_for_write().unwrap();
    let (mut found, all) = (vec![Datum::Null; 7], ColumnMask::all(7));
    assert!(table.fetch(&tx, &snapshot, tid, &all, &mut found).unwrap());
    assert_eq!(format!("{found:?}"), format!("{wide:?}"));
    // Values read from disk are other objects, and all are kept.
    let begin = world.lsn();
    let mut new = wide.clone();
    new[1] = Datum::Int4(2);
    let target = RowTarget::visible(tid);
    let done = table.update(&tx, &snapshot, target, &found, &new, &mut work).unwrap();
    assert!(matches!(done, UpdateOutcome::Done { .. }), "{done:?}");
    assert!(world.lsn() - begin < 1_000, "{} bytes of log", world.lsn() - begin);
    drop(snapshot);
    tx.commit(Durability::Flush).unwrap();
    let report = table.check().unwrap();
    assert!(report.corruptions.is_empty(), "{:?}", report.corruptions);
}

#[test]
fn rows_and_values_that_are_too_large_are_refused() {
    let world = World::new();
    let mut definition = world.table.definition().clone();
    definition.columns.extend(vec![ColumnType::new(TypeOid::TEXT); 400]);
    let table = Table::open(&world.engine, definition);
    let mut wide = row(1, 1, "");
    wide.extend((0..400).map(|number| Datum::text(&noise(number, 100))));
    let tx = world.begin(0);
    let error = table.insert(&tx, &wide, &mut Workspace::new()).unwrap_err();
    assert!(error.to_string().starts_with("row is too big: size 10"), "{error}");
    assert_eq!(world.value_blocks(), 0, "nothing was stored");
    drop(tx);

    let mut definition = world.table.definition().clone();
    definition.values = None;
    let old = Table::open(&world.engine, definition);
    let tx = world.begin(0);
    let mut work = Workspace::new();
    old.insert(&tx, &row(1, 1, &noise(1, 8_000)), &mut work).unwrap();
    old.insert(&tx, &row(2, 1, &"compressed".repeat(2_000)), &mut work).unwrap();
    let error = old.insert(&tx, &row(3, 1, &noise(1, 8_200)), &mut work).unwrap_err();
    assert!(error.to_string().starts_with("row is too big"), "{error}");
}
