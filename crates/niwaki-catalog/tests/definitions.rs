//! Definitions as rows: what commits is there after reopening, what rolls back is not.

use std::sync::Arc;

use niwaki_catalog::{
    Catalog, CatalogTransaction, Column, Error, ExpressionCompiler, Oid, PUBLIC_SCHEMA,
    RelationDefinition, RelationKind, StoredExpression,
};
use niwaki_env::Env;
use niwaki_storage::{RelFile, RelFileId, Storage, StorageOptions};
use niwaki_table::{Engine, ExpressionError, KeyExpression};
use niwaki_txn::{BeginOptions, Durability, SessionControl, TransactionManager, TxnOptions};
use niwaki_types::{ColumnType, TypeOid};

/// These definitions have no expressions.
#[derive(Debug)]
struct NoExpressions;

impl ExpressionCompiler for NoExpressions {
    fn compile(
        &self,
        _: &RelationDefinition,
        _: &StoredExpression,
    ) -> Result<Arc<dyn KeyExpression>, ExpressionError> {
        unreachable!("no index here has an expression")
    }
}

struct World {
    catalog: Arc<Catalog>,
    transactions: Arc<TransactionManager>,
    session: Arc<SessionControl>,
}

fn open(env: &Env) -> World {
    let transactions = TransactionManager::new(env.clone(), TxnOptions::default());
    let mut managers = Engine::resource_managers();
    managers.push(Arc::clone(&transactions) as Arc<_>);
    let (storage, summary) = Storage::open(env.clone(), StorageOptions::tiny(), managers).unwrap();
    transactions.attach(&storage).unwrap();
    let engine = Engine::new(Arc::clone(&storage), Arc::clone(&transactions));
    let session = transactions.register_session().unwrap();
    if summary.created {
        let tx = transactions.begin(&session, BeginOptions::default()).unwrap();
        let xid = tx.write_xid().unwrap();
        for id in Catalog::OWN_FILES {
            storage.create_file(RelFile { id: RelFileId(id), logged: true }, xid).unwrap();
        }
        Catalog::bootstrap(&engine, &tx).unwrap();
        tx.commit(Durability::Flush).unwrap();
    }
    let tx = transactions.begin(&session, BeginOptions::default()).unwrap();
    let catalog = Catalog::open(&engine, &tx, Vec::new(), Arc::new(NoExpressions)).unwrap();
    tx.abort();
    World { catalog, transactions, session }
}

fn table(world: &World, name: &str, columns: usize) -> RelationDefinition {
    RelationDefinition {
        columns: (0..columns)
            .map(|i| {
                let name = format!("a_column_with_a_rather_long_name_{i}");
                Column::new(name, ColumnType::new(TypeOid::INT4))
            })
            .collect(),
        ..RelationDefinition::new(
            world.catalog.new_oid(),
            PUBLIC_SCHEMA,
            name.to_owned(),
            RelationKind::Table,
        )
    }
}

#[test]
fn committed_definitions_survive_reopening_and_others_do_not() {
    let env = Env::memory();
    let wide;
    {
        let world = open(&env);
        let mut ddl = CatalogTransaction::new(Arc::clone(&world.catalog));
        let tx = world.transactions.begin(&world.session, BeginOptions::default()).unwrap();
        // So many columns that the definition does not fit in one row.
        let mut definition = table(&world, "wide", 600);
        wide = definition.oid;
        ddl.create(&tx, definition.clone()).unwrap();
        assert!(world.catalog.state().lookup(PUBLIC_SCHEMA, "wide").is_none());
        assert!(ddl.state().lookup(PUBLIC_SCHEMA, "wide").is_some());
        let changes = ddl.take_for_commit().unwrap();
        tx.commit_then(Durability::Flush, || changes.publish()).unwrap();
        assert!(world.catalog.state().lookup(PUBLIC_SCHEMA, "wide").is_some());

        let tx = world.transactions.begin(&world.session, BeginOptions::default()).unwrap();
        definition.name = "renamed".to_owned();
        definition.columns.truncate(3);
        ddl.update(&tx, definition).unwrap();
        assert!(ddl.state().lookup(PUBLIC_SCHEMA, "wide").is_none());
        assert_eq!(ddl.state().lookup(PUBLIC_SCHEMA, "renamed").unwrap().columns.len(), 3);
        ddl.create(&tx, table(&world, "gone", 1)).unwrap();
        tx.abort();
        ddl.rolled_back();
        assert!(ddl.state().lookup(PUBLIC_SCHEMA, "renamed").is_none());
    }
    let world = open(&env);
    let state = world.catalog.state_arc();
    let found = state.lookup(PUBLIC_SCHEMA, "wide").unwrap();
    assert_eq!((found.oid, found.columns.len()), (wide, 600));
    assert!(state.lookup(PUBLIC_SCHEMA, "gone").is_none());
    assert!(state.lookup(PUBLIC_SCHEMA, "renamed").is_none());
    assert!(world.catalog.new_oid() > wide);
}

#[test]
fn names_are_unique_and_come_free_again() {
    let env = Env::memory();
    let world = open(&env);
    let mut ddl = CatalogTransaction::new(Arc::clone(&world.catalog));
    let commit = |ddl: &mut CatalogTransaction, tx: niwaki_txn::Transaction| {
        let changes = ddl.take_for_commit();
        tx.commit_then(Durability::Flush, || {
            if let Some(changes) = changes {
                changes.publish();
            }
        })
        .unwrap();
    };
    let begin = || world.transactions.begin(&world.session, BeginOptions::default()).unwrap();

    let tx = begin();
    let first = table(&world, "t", 1);
    ddl.create(&tx, first.clone()).unwrap();
    let again = ddl.create(&tx, table(&world, "t", 1));
    assert!(matches!(again, Err(Error::Duplicate { .. })), "{again:?}");
    commit(&mut ddl, tx);

    // Dropped and made again in one transaction, twice.
    let tx = begin();
    ddl.remove(&tx, first.oid).unwrap();
    let second = table(&world, "t", 2);
    ddl.create(&tx, second.clone()).unwrap();
    assert_eq!(ddl.state().lookup(PUBLIC_SCHEMA, "t").unwrap().oid, second.oid);
    commit(&mut ddl, tx);
    assert!(world.catalog.state().relation(first.oid).is_none());
    assert_eq!(world.catalog.state().relation(second.oid).unwrap().columns.len(), 2);

    // A savepoint's changes go alone.
    let tx = begin();
    let kept = table(&world, "kept", 1);
    ddl.create(&tx, kept).unwrap();
    let mark = ddl.mark();
    tx.savepoint("s");
    ddl.create(&tx, table(&world, "lost", 1)).unwrap();
    tx.rollback_to("s").unwrap();
    ddl.rollback_to(mark);
    commit(&mut ddl, tx);
    assert!(world.catalog.state().lookup(PUBLIC_SCHEMA, "kept").is_some());
    assert!(world.catalog.state().lookup(PUBLIC_SCHEMA, "lost").is_none());
    let tx = begin();
    ddl.create(&tx, table(&world, "lost", 1)).unwrap();
    tx.abort();
    ddl.rolled_back();
    assert_eq!(Oid(1).to_string(), "1");
}
