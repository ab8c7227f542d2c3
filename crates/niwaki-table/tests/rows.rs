//! Rows through heap and indexes: visibility to one and two transactions, and X1 to X4 after each
//! step.

use std::sync::Arc;

use niwaki_env::Env;
use niwaki_env::vfs::MemoryVfs;
use niwaki_nbtree::{IndexOptions, KeyRange};
use niwaki_storage::{Storage, StorageOptions};
use niwaki_table::{
    BuildOptions, Direction, Engine, Error, HeapOnlyUpdates, IndexDefinition, InsertOptions,
    KeyColumn, Lookup, PageRows, RowTarget, Sequence, SequenceOptions, Table, TableDefinition,
    UpdateOutcome, Workspace,
};
use niwaki_txn::{
    BeginOptions, Durability, Isolation, SessionControl, TableId, Transaction, TransactionManager,
    TxnOptions,
};
use niwaki_types::{ColumnMask, ColumnType, Datum, KeyOrder, TypeOid};

struct Fixture {
    engine: Arc<Engine>,
    table: Arc<Table>,
    sessions: Vec<Arc<SessionControl>>,
    work: Workspace,
}

fn order(oid: TypeOid) -> KeyOrder {
    KeyOrder { oid, descending: false, nulls_first: false }
}

fn open(vfs: &Arc<MemoryVfs>) -> Arc<Engine> {
    let env = Env { vfs: Arc::clone(vfs) as _, ..Env::memory() };
    let manager = TransactionManager::new(env.clone(), TxnOptions::default());
    let mut managers = Engine::resource_managers();
    managers.push(Arc::clone(&manager) as _);
    let (storage, _) = Storage::open(env, StorageOptions::default(), managers).unwrap();
    manager.attach(&storage).unwrap();
    Engine::new(storage, manager)
}

/// Defines the table `(id int4 primary key, v int4 indexed, t text)`.
fn definition(engine: &Engine, tx: &Transaction) -> TableDefinition {
    let index = |id: u64, name: &str, column: usize, unique: bool| IndexDefinition {
        unique,
        primary: unique,
        options: IndexOptions { page_items_max: Some(6), ..IndexOptions::default() },
        ..IndexDefinition::new(
            TableId(id),
            name,
            engine.create_file(tx, true).unwrap(),
            vec![KeyColumn::column(column, order(TypeOid::INT4))],
        )
    };
    let column = ColumnType::new;
    TableDefinition {
        id: TableId(1),
        name: "t".to_owned(),
        file: engine.create_file(tx, true).unwrap(),
        values: Some(engine.create_file(tx, true).unwrap()),
        fillfactor: 100,
        heap_only_updates: HeapOnlyUpdates::default(),
        columns: vec![column(TypeOid::INT4), column(TypeOid::INT4), column(TypeOid::TEXT)],
        missing: Vec::new(),
        indexes: vec![index(2, "t_pkey", 0, true), index(3, "t_v", 1, false)],
    }
}

fn row(id: i32, v: i32, t: &str) -> Vec<Datum> {
    vec![Datum::Int4(id), Datum::Int4(v), Datum::text(t)]
}

impl Fixture {
    fn new() -> Self {
        let engine = open(&Arc::new(MemoryVfs::new()));
        let sessions: Vec<_> =
            (0..3).map(|_| engine.transactions().register_session().unwrap()).collect();
        let tx = engine.transactions().begin(&sessions[0], BeginOptions::default()).unwrap();
        let definition = definition(&engine, &tx);
        tx.commit(Durability::Flush).unwrap();
        let table = Table::open(&engine, definition);
        Self { engine, table, sessions, work: Workspace::new() }
    }

    fn begin(&self, session: usize) -> Transaction {
        self.begin_at(session, Isolation::ReadCommitted)
    }

    fn begin_at(&self, session: usize, isolation: Isolation) -> Transaction {
        let options = BeginOptions { isolation, ..BeginOptions::default() };
        self.engine.transactions().begin(&self.sessions[session], options).unwrap()
    }

    fn commit(&self, tx: Transaction) {
        tx.commit(Durability::Flush).unwrap();
    }

    fn insert(&mut self, tx: &Transaction, id: i32, v: i32, t: &str) -> Result<(), Error> {
        let inserted = self.table.insert(tx, &row(id, v, t), &mut self.work).map(drop);
        tx.next_command().unwrap();
        inserted
    }

    /// Returns the row with this id, and its address.
    fn find(&self, tx: &Transaction, id: i32) -> Option<(RowTarget, Vec<Datum>)> {
        let snapshot = tx.snapshot_for_write().unwrap();
        let mut key = Vec::new();
        self.table.encode_index_key(0, &row(id, 0, ""), &mut key).unwrap();
        let mut out = vec![Datum::Null; 3];
        let all = ColumnMask::all(3);
        let mut lookup = Lookup::default();
        self.table
            .fetch_unique(tx, &snapshot, 0, &key, &all, &mut out, &mut lookup)
            .unwrap()
            .map(|root| (RowTarget::visible(root), out))
    }

    fn update(&mut self, tx: &Transaction, id: i32, new: &[Datum]) -> Result<UpdateOutcome, Error> {
        let (target, old) = self.find(tx, id).expect("a row to update");
        let snapshot = tx.snapshot_for_write().unwrap();
        let done = self.table.update(tx, &snapshot, target, &old, new, &mut self.work);
        tx.next_command().unwrap();
        done
    }

    fn delete(&mut self, tx: &Transaction, id: i32) {
        let (target, _) = self.find(tx, id).expect("a row to delete");
        let snapshot = tx.snapshot_for_write().unwrap();
        let done = self.table.delete(tx, &snapshot, target).unwrap();
        assert!(matches!(done, UpdateOutcome::Done { .. }), "{done:?}");
        tx.next_command().unwrap();
    }

    /// Returns all rows by a sequential scan. Both index scans must agree with it.
    fn rows(&self, tx: &Transaction) -> Vec<(i32, i32)> {
        let snapshot = tx.snapshot().unwrap();
        let all = ColumnMask::all(3);
        let mut out = vec![Datum::Null; 3];
        let pair = |out: &[Datum]| match (&out[0], &out[1]) {
            (Datum::Int4(id), Datum::Int4(v)) => (*id, *v),
            other => panic!("{other:?}"),
        };
        let mut found = Vec::new();
        let mut scan = self.table.seq_scan(0..self.table.blocks().unwrap());
        let mut page = PageRows::new();
        while scan.next_page(&self.table, tx, &snapshot, &mut page).unwrap() {
            for stored in page.iter() {
                self.table.deform(stored, &all, &mut out).unwrap();
                found.push(pair(&out));
            }
        }
        found.sort_unstable();
        for index in 0..2 {
            for direction in [Direction::Forward, Direction::Backward] {
                let mut by_index = Vec::new();
                let mut scan = self.table.index_scan(index, &KeyRange::ALL, direction);
                while scan.next(&self.table, tx, &snapshot, &all, &mut out).unwrap().is_some() {
                    by_index.push(pair(&out));
                }
                by_index.sort_unstable();
                assert_eq!(by_index, found, "index {index} {direction:?} against the heap");
            }
        }
        found
    }

    fn check(&self) {
        let report = self.table.check().unwrap();
        assert!(report.corruptions.is_empty(), "{:#?}", report.corruptions);
    }
}

#[test]
fn rows_are_seen_by_later_commands_and_by_others_after_commit() {
    let mut f = Fixture::new();
    let tx = f.begin(0);
    for id in 0..50 {
        f.insert(&tx, id, id % 5, "x").unwrap();
    }
    assert_eq!(f.rows(&tx).len(), 50);
    let other = f.begin(1);
    assert!(f.rows(&other).is_empty(), "uncommitted rows were seen");
    f.commit(tx);
    assert_eq!(f.rows(&other).len(), 50);
    let snapshot_holder = f.begin_at(2, Isolation::RepeatableRead);
    assert_eq!(f.rows(&snapshot_holder).len(), 50);
    f.update(&other, 7, &row(7, 99, "another key, in the same chain")).unwrap();
    f.delete(&other, 8);
    f.update(&other, 9, &row(9, 4, "only the text")).unwrap();
    f.commit(other);
    assert_eq!(f.rows(&snapshot_holder).len(), 50, "the snapshot moved");
    let tx = f.begin(0);
    let rows = f.rows(&tx);
    assert!(rows.contains(&(7, 99)) && !rows.iter().any(|(id, _)| *id == 8));
    assert_eq!(f.table.stats().updates.heap_only_total(), 2);
    f.commit(tx);
    f.commit(snapshot_holder);
    f.check();
}

#[test]
fn aborts_and_savepoints_leave_no_trace() {
    let mut f = Fixture::new();
    let tx = f.begin(0);
    f.insert(&tx, 1, 10, "a").unwrap();
    f.commit(tx);
    let tx = f.begin(0);
    f.update(&tx, 1, &row(1, 11, "b")).unwrap();
    tx.savepoint("s");
    f.update(&tx, 1, &row(1, 12, "c")).unwrap();
    f.insert(&tx, 2, 20, "d").unwrap();
    tx.rollback_to("s").unwrap();
    assert_eq!(f.rows(&tx), [(1, 11)]);
    f.update(&tx, 1, &row(1, 13, "e")).unwrap();
    f.insert(&tx, 2, 21, "f").unwrap();
    assert_eq!(f.rows(&tx), [(1, 13), (2, 21)]);
    tx.abort();
    let tx = f.begin(0);
    assert_eq!(f.rows(&tx), [(1, 10)]);
    f.commit(tx);
    f.check();
}

#[test]
fn a_second_row_of_a_key_is_refused_unless_the_first_is_gone() {
    let mut f = Fixture::new();
    let tx = f.begin(0);
    f.insert(&tx, 1, 10, "a").unwrap();
    f.commit(tx);
    let tx = f.begin(0);
    let error = f.insert(&tx, 1, 11, "b").unwrap_err();
    let Error::UniqueViolation(violation) = &error else { panic!("{error:?}") };
    assert_eq!(violation.index_name, "t_pkey");
    tx.abort();
    let tx = f.begin(0);
    f.delete(&tx, 1);
    f.insert(&tx, 1, 12, "c").unwrap();
    assert_eq!(f.rows(&tx), [(1, 12)]);
    tx.abort();
    let tx = f.begin(0);
    assert_eq!(f.rows(&tx), [(1, 10)]);
    f.update(&tx, 1, &row(2, 10, "moved away")).unwrap();
    f.insert(&tx, 1, 13, "d").unwrap();
    f.commit(tx);
    f.check();
}

#[test]
fn an_index_built_later_leads_every_snapshot_to_its_rows() {
    let mut f = Fixture::new();
    let tx = f.begin(0);
    for id in 0..40 {
        f.insert(&tx, id, id, "x").unwrap();
    }
    f.commit(tx);
    // Without an index on the text these updates are heap-only.
    let old = f.begin_at(1, Isolation::RepeatableRead);
    f.rows(&old);
    let tx = f.begin(0);
    for id in 0..40 {
        f.update(&tx, id, &row(id, id, "y")).unwrap();
    }
    f.commit(tx);
    assert!(f.table.stats().updates.heap_only_total() > 0);

    let tx = f.begin(0);
    let mut definition = f.table.definition().clone();
    definition.indexes.push(IndexDefinition {
        include: vec![0],
        ..IndexDefinition::new(
            TableId(4),
            "t_t",
            f.engine.create_file(&tx, true).unwrap(),
            vec![KeyColumn::column(2, order(TypeOid::TEXT))],
        )
    });
    f.table = Table::open(&f.engine, definition);
    f.table.build_index(&tx, 2, &BuildOptions::default()).unwrap();
    f.commit(tx);
    f.check();
    let now = f.begin(0);
    let all = ColumnMask::all(3);
    let mut out = vec![Datum::Null; 3];
    for (tx, text, other) in [(&old, "x", "y"), (&now, "y", "x")] {
        let snapshot = tx.snapshot().unwrap();
        for (text, expected) in [(text, 40), (other, 0)] {
            let mut key = Vec::new();
            f.table.encode_index_key(2, &row(0, 0, text), &mut key).unwrap();
            let mut scan = f.table.index_scan(2, &KeyRange::equal(&key), Direction::Forward);
            let mut count = 0;
            while scan.next(&f.table, tx, &snapshot, &all, &mut out).unwrap().is_some() {
                count += 1;
            }
            assert_eq!(count, expected, "rows with {text}");
        }
    }
}

#[test]
fn a_unique_index_is_not_built_over_duplicates() {
    let mut f = Fixture::new();
    let tx = f.begin(0);
    f.insert(&tx, 1, 10, "a").unwrap();
    f.insert(&tx, 2, 10, "b").unwrap();
    f.commit(tx);
    let tx = f.begin(0);
    let mut definition = f.table.definition().clone();
    definition.indexes[1].file = f.engine.create_file(&tx, true).unwrap();
    definition.indexes[1].unique = true;
    let table = Table::open(&f.engine, definition.clone());
    assert!(matches!(
        table.build_index(&tx, 1, &BuildOptions::default()),
        Err(Error::UniqueViolation(_))
    ));
    tx.abort();
    let tx = f.begin(0);
    f.delete(&tx, 2);
    f.commit(tx);
    let tx = f.begin(0);
    definition.indexes[1].file = f.engine.create_file(&tx, true).unwrap();
    Table::open(&f.engine, definition).build_index(&tx, 1, &BuildOptions::default()).unwrap();
    f.commit(tx);
}

#[test]
fn multi_inserts_are_entered_everywhere() {
    let mut f = Fixture::new();
    let tx = f.begin(0);
    let rows: Vec<_> = (0..1000).map(|id| row(id, id / 10, "a text of some length")).collect();
    f.table.insert_many(&tx, &rows, InsertOptions::default(), &mut f.work).unwrap();
    tx.next_command().unwrap();
    assert_eq!(f.rows(&tx).len(), 1000);
    f.commit(tx);
    f.check();
}

#[test]
fn sequences_never_repeat_whatever_rolls_back_or_crashes() {
    let vfs = Arc::new(MemoryVfs::new());
    let engine = open(&vfs);
    let session = engine.transactions().register_session().unwrap();
    fn begin(engine: &Engine, session: &Arc<SessionControl>) -> Transaction {
        engine.transactions().begin(session, BeginOptions::default()).unwrap()
    }
    let tx = begin(&engine, &session);
    let file = engine.create_file(&tx, true).unwrap();
    let options = SequenceOptions { maximum: 200, ..SequenceOptions::default() };
    let sequence = Sequence::open(&engine, file, options);
    let first: Vec<_> = (0..70).map(|_| sequence.nextval(&tx).unwrap()).collect();
    assert_eq!(first, (1..=70).collect::<Vec<_>>());
    tx.commit(Durability::Flush).unwrap();
    let tx = begin(&engine, &session);
    assert_eq!(sequence.nextval(&tx).unwrap(), 71);
    tx.abort();
    let tx = begin(&engine, &session);
    assert_eq!(sequence.nextval(&tx).unwrap(), 72);
    tx.commit(Durability::Flush).unwrap();
    // No clean end: the engine is only dropped.
    drop((sequence, session, engine));

    let engine = open(&vfs);
    let session = engine.transactions().register_session().unwrap();
    let sequence = Sequence::open(&engine, file, options);
    let tx = begin(&engine, &session);
    let next = sequence.nextval(&tx).unwrap();
    assert!((73..73 + 32).contains(&next), "{next}");
    sequence.setval(&tx, 199, true).unwrap();
    assert_eq!(sequence.nextval(&tx).unwrap(), 200);
    assert!(matches!(sequence.nextval(&tx), Err(Error::SequenceLimit { limit: 200, .. })));
    tx.commit(Durability::Flush).unwrap();
}

/// Regression test: a value covered by another session's record was given out again after a kill.
/// That record was not durable, as its transaction had not ended. The commit that used the value
/// did not wait for it.
#[test]
fn a_sequence_value_behind_another_sessions_record_is_durable_with_its_commit() {
    let vfs = Arc::new(MemoryVfs::new());
    let engine = open(&vfs);
    let sessions: Vec<_> =
        (0..3).map(|_| engine.transactions().register_session().unwrap()).collect();
    let begin =
        |n: usize| engine.transactions().begin(&sessions[n], BeginOptions::default()).unwrap();
    let tx = begin(0);
    let file = engine.create_file(&tx, true).unwrap();
    let options = SequenceOptions::default();
    let sequence = Sequence::open(&engine, file, options);
    tx.commit(Durability::Flush).unwrap();
    let unfinished = begin(1);
    assert_eq!(sequence.nextval(&unfinished).unwrap(), 1);
    let user = begin(2);
    let given = sequence.nextval(&user).unwrap();
    user.commit(Durability::Flush).unwrap();
    // A kill loses the log's buffer.
    let left = Arc::new(vfs.fork());
    let engine = open(&left);
    let session = engine.transactions().register_session().unwrap();
    let tx = engine.transactions().begin(&session, BeginOptions::default()).unwrap();
    let next = Sequence::open(&engine, file, options).nextval(&tx).unwrap();
    assert!(next > given, "{next} was given out before, as {given}");
}

/// Garbage of every kind goes with vacuum, and its line pointers are used again.
#[test]
fn garbage_goes_with_vacuum_and_its_addresses_are_used_again() {
    let mut f = Fixture::new();
    let tx = f.begin(0);
    for id in 0..200 {
        f.insert(&tx, id, id, "some text to fill the page with").unwrap();
    }
    f.commit(tx);
    let blocks = f.table.blocks().unwrap();
    for round in 0..5 {
        let tx = f.begin(0);
        for id in (0..200).step_by(2) {
            f.delete(&tx, id);
        }
        f.commit(tx);
        let summary = niwaki_vacuum::vacuum(
            &f.table,
            &f.sessions[0],
            None,
            &niwaki_vacuum::VacuumOptions::default(),
        )
        .unwrap();
        assert_eq!(summary.freed, 100, "round {round}: {summary:?}");
        assert_eq!(summary.entries_removed, 200, "round {round}: {summary:?}");
        f.check();
        let tx = f.begin(0);
        for id in (0..200).step_by(2) {
            f.insert(&tx, id, id, "some text to fill the page with").unwrap();
        }
        f.commit(tx);
        f.check();
    }
    assert!(f.table.blocks().unwrap() <= blocks + 1, "the heap grew");
    let tx = f.begin(0);
    assert_eq!(f.rows(&tx).len(), 200);
    let snapshot = tx.snapshot().unwrap();
    let statistics =
        niwaki_vacuum::analyze(&f.table, &tx, &snapshot, &niwaki_vacuum::VacuumOptions::default())
            .unwrap();
    assert!((statistics.rows - 200.0).abs() < 0.5);
    assert!((statistics.columns[0].distinct + 1.0).abs() < 1e-9);
    assert!((statistics.columns[2].distinct - 1.0).abs() < 1e-9);
}
