//! Damage made on purpose in a database that SQL has filled.
//!
//! The whole check, as `niwaki check` runs it, names the invariant.

use std::sync::Arc;

use niwaki::{Database, Options};
use niwaki_catalog::{Catalog, DatabaseDefinition, SharedCatalog};
use niwaki_env::Env;
use niwaki_nbtree::{EntryDecision, NewEntry};
use niwaki_storage::{
    BlockNumber, Fork, OffsetNumber, Page, PageId, RelFile, Storage, StorageOptions, Tid, Xid,
};
use niwaki_table::{Engine, Table};
use niwaki_txn::{BeginOptions, Durability, TransactionManager, TxnOptions};
use niwaki_types::Datum;

/// Rows 1 to 4 are at line pointers 1 to 4; the second version of row 1 is heap-only, at 5.
const TABLE: &str = "create table r (id int primary key, v int, t text);
    create index r_v on r (v);
    insert into r select i, i * 10, 'x' from generate_series(1, 4) i;
    update r set t = 'y' where id = 1;";
const HEAP_ONLY: Tid = Tid { block: BlockNumber(0), offset: OffsetNumber(5) };
/// The index on v.
const V: usize = 1;

type Damage = fn(&Table);

/// Opens the engine below a closed database, damages the table, and closes it as cleanly.
fn damaged(env: &Env, damage: Damage) {
    let manager = TransactionManager::new(env.clone(), TxnOptions::default());
    let mut managers = Engine::resource_managers();
    managers.push(Arc::clone(&manager) as _);
    let (storage, _) = Storage::open(env.clone(), StorageOptions::default(), managers).unwrap();
    manager.attach(&storage).unwrap();
    let engine = Engine::new(Arc::clone(&storage), Arc::clone(&manager));
    let session = manager.register_session().unwrap();
    let tx = manager.begin(&session, BeginOptions::default()).unwrap();
    let expressions = Arc::new(niwaki_sql::IndexExpressions);
    let (shared, first) = (SharedCatalog::new(&engine), DatabaseDefinition::first());
    let catalog = Catalog::open(&engine, &shared, &first, &tx, Vec::new(), expressions).unwrap();
    tx.commit(Durability::Async).unwrap();
    let state = catalog.state_arc();
    let relation = state.tables().find(|relation| relation.name == "r").unwrap();
    damage(relation.table.as_ref().unwrap());
    storage.shutdown(&[&*manager]).unwrap();
}

fn named(damage: Option<Damage>) -> Vec<String> {
    let env = Env::memory();
    let db = Database::open_with(env.clone(), Options::new()).unwrap();
    for sql in TABLE.split(';').map(str::trim).filter(|sql| !sql.is_empty()) {
        db.session().execute(sql, ()).unwrap();
    }
    db.close().unwrap();
    if let Some(damage) = damage {
        damaged(&env, damage);
    }
    let db = Database::open_with(env, Options::new()).unwrap();
    let report = db.check().unwrap();
    let mut names: Vec<_> = report.violations.into_iter().map(|found| found.invariant).collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn edit(table: &Table, file: RelFile, block: u32, change: impl FnOnce(&mut Page)) {
    let id = PageId { file: file.id, fork: Fork::Main, block: BlockNumber(block) };
    let mut page = table.engine().storage().pool().pin(id).unwrap().into_write();
    change(&mut page);
    page.mark_dirty();
}

/// Changes bytes of the header of the version at a line pointer of the first heap page.
fn edit_header(table: &Table, offset: u16, at: usize, add: u8) {
    edit(table, table.definition().file, 0, |page| {
        page.item_mut(OffsetNumber(offset)).unwrap()[at] += add;
    });
}

fn key(table: &Table, index: usize, value: i32) -> Vec<u8> {
    let mut key = Vec::new();
    let row = [Datum::Int4(value), Datum::Int4(value), Datum::text("")];
    table.encode_index_key(index, &row, &mut key).unwrap();
    key
}

fn enter(table: &Table, value: i32, tid: Tid) {
    let key = key(table, V, value);
    let entry = NewEntry { key: &key, payload: &[], tid, xid: Xid(3), logically_unchanged: false };
    table.index(V).insert(&entry, None, None).unwrap();
}

#[test]
fn each_damage_is_named() {
    assert_eq!(named(None), [""; 0], "sound before");
    let damages: [(&str, Damage); 8] = [
        // The chain root that the tuple names.
        ("H1", |table| edit_header(table, HEAP_ONLY.offset.0, 18, 9)),
        ("H2", |table| enter(table, 10, HEAP_ONLY)),
        // Its inserter, which is then not the transaction that ended the version before it.
        ("H3", |table| edit_header(table, HEAP_ONLY.offset.0, 0, 1)),
        ("X1", |table| {
            let mut decide = || Ok((EntryDecision::Delete, None));
            let tid = Tid::new(0, 2);
            let key = key(table, V, 20);
            assert!(table.index(V).delete_entry(&key, tid, Xid(3), &mut decide).unwrap());
        }),
        // The only leaf, behind the metapage: its second entry is overwritten with its third.
        ("X2", |table| {
            edit(table, table.index(V).file(), 1, |page| {
                let second = page.item(OffsetNumber(2)).unwrap().to_vec();
                assert!(page.overwrite_item(OffsetNumber(3), &second));
            });
        }),
        ("X3", |table| enter(table, 77, Tid::new(0, 2))),
        ("X4", |table| enter(table, 77, Tid::new(0, 200))),
        ("B1", |table| {
            edit(table, table.index(V).file(), 1, |page| {
                let (a, b) = (page.item_id(OffsetNumber(2)), page.item_id(OffsetNumber(3)));
                assert!(page.set_item_id(OffsetNumber(2), b));
                assert!(page.set_item_id(OffsetNumber(3), a));
            });
        }),
    ];
    for (name, damage) in damages {
        let names = named(Some(damage));
        assert!(names.iter().any(|found| found == name), "{name}: {names:?}");
    }
}
