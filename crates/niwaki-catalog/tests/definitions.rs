//! Definitions as rows: committed definitions survive a reopening, rolled-back ones do not.

use std::sync::Arc;

use niwaki_catalog::{
    Catalog, CatalogFiles, CatalogTransaction, Column, DatabaseDefinition, Error,
    ExpressionCompiler, FIRST_DATABASE, Oid, PUBLIC_SCHEMA, RelationDefinition, RelationKind,
    SharedCatalog, StoredExpression,
};
use niwaki_env::Env;
use niwaki_storage::{Storage, StorageOptions};
use niwaki_table::{Engine, ExpressionError, KeyExpression};
use niwaki_txn::{
    BeginOptions, Durability, SessionControl, Transaction, TransactionManager, TxnOptions,
};
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
    catalog: Option<Arc<Catalog>>,
    engine: Arc<Engine>,
    shared: Arc<SharedCatalog>,
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
    let first = DatabaseDefinition::first();
    if summary.created {
        let tx = transactions.begin(&session, BeginOptions::default()).unwrap();
        let xid = tx.write_xid().unwrap();
        for file in first.files.all() {
            storage.create_file(file, xid).unwrap();
        }
        Catalog::bootstrap(&engine, &first, &tx).unwrap();
        tx.commit(Durability::Flush).unwrap();
    }
    let shared = SharedCatalog::new(&engine);
    let world = World { catalog: None, engine, shared, transactions, session };
    World { catalog: Some(world.read(&first).unwrap()), ..world }
}

impl World {
    /// Reads the stored catalog of a database.
    fn read(&self, database: &DatabaseDefinition) -> niwaki_catalog::Result<Arc<Catalog>> {
        let tx = self.begin();
        let compiler = Arc::new(NoExpressions);
        let read = Catalog::open(&self.engine, &self.shared, database, &tx, Vec::new(), compiler);
        tx.abort();
        read
    }

    fn begin(&self) -> Transaction {
        self.transactions.begin(&self.session, BeginOptions::default()).unwrap()
    }

    fn catalog(&self) -> &Arc<Catalog> {
        self.catalog.as_ref().unwrap()
    }
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
            world.catalog().new_oid(),
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
        let mut ddl = CatalogTransaction::new(Arc::clone(world.catalog()));
        let tx = world.transactions.begin(&world.session, BeginOptions::default()).unwrap();
        // The table has too many columns for its definition to fit in one row.
        let mut definition = table(&world, "wide", 600);
        wide = definition.oid;
        ddl.create(&tx, definition.clone()).unwrap();
        assert!(world.catalog().state().lookup(PUBLIC_SCHEMA, "wide").is_none());
        assert!(ddl.state().lookup(PUBLIC_SCHEMA, "wide").is_some());
        let changes = ddl.take_for_commit().unwrap();
        tx.commit_then(Durability::Flush, || changes.publish()).unwrap();
        assert!(world.catalog().state().lookup(PUBLIC_SCHEMA, "wide").is_some());

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
    let state = world.catalog().state_arc();
    let found = state.lookup(PUBLIC_SCHEMA, "wide").unwrap();
    assert_eq!((found.oid, found.columns.len()), (wide, 600));
    assert!(state.lookup(PUBLIC_SCHEMA, "gone").is_none());
    assert!(state.lookup(PUBLIC_SCHEMA, "renamed").is_none());
    assert!(world.catalog().new_oid() > wide);
}

#[test]
fn names_are_unique_and_come_free_again() {
    let env = Env::memory();
    let world = open(&env);
    let mut ddl = CatalogTransaction::new(Arc::clone(world.catalog()));
    let commit = |ddl: &mut CatalogTransaction, tx: Transaction| {
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

    // Drop and create the table again in one transaction, twice.
    let tx = begin();
    ddl.remove(&tx, first.oid).unwrap();
    let second = table(&world, "t", 2);
    ddl.create(&tx, second.clone()).unwrap();
    assert_eq!(ddl.state().lookup(PUBLIC_SCHEMA, "t").unwrap().oid, second.oid);
    commit(&mut ddl, tx);
    assert!(world.catalog().state().relation(first.oid).is_none());
    assert_eq!(world.catalog().state().relation(second.oid).unwrap().columns.len(), 2);

    // A rollback to a savepoint undoes only the changes after it.
    let tx = begin();
    let kept = table(&world, "kept", 1);
    ddl.create(&tx, kept).unwrap();
    let mark = ddl.mark();
    tx.savepoint("s");
    ddl.create(&tx, table(&world, "lost", 1)).unwrap();
    tx.rollback_to("s").unwrap();
    ddl.rollback_to(mark);
    commit(&mut ddl, tx);
    assert!(world.catalog().state().lookup(PUBLIC_SCHEMA, "kept").is_some());
    assert!(world.catalog().state().lookup(PUBLIC_SCHEMA, "lost").is_none());
    let tx = begin();
    ddl.create(&tx, table(&world, "lost", 1)).unwrap();
    tx.abort();
    ddl.rolled_back();
    assert_eq!(Oid(1).to_string(), "1");
}

#[test]
fn databases_are_rows_of_the_first_ones_catalog() {
    let env = Env::memory();
    let shop;
    {
        let world = open(&env);
        let mut ddl = CatalogTransaction::new(Arc::clone(world.catalog()));
        let tx = world.begin();
        let file = || world.engine.create_file(&tx, true).unwrap().id.0;
        let files = CatalogFiles { objects: file(), by_oid: file(), by_name: file() };
        let oid = world.catalog().new_oid();
        shop = DatabaseDefinition::new(oid, "shop".to_owned(), files);
        Catalog::bootstrap(&world.engine, &shop, &tx).unwrap();
        ddl.create_database(&tx, shop.clone()).unwrap();
        let same_name = DatabaseDefinition { oid: world.catalog().new_oid(), ..shop.clone() };
        assert!(ddl.state().databases().by_name("shop").is_some());
        assert!(world.catalog().state().databases().by_name("shop").is_none());
        let changes = ddl.take_for_commit().unwrap();
        tx.commit_then(Durability::Flush, || changes.publish()).unwrap();
        assert!(world.catalog().state().databases().by_name("shop").is_some());
        let tx = world.begin();
        let twice = ddl.create_database(&tx, same_name).unwrap_err();
        assert!(matches!(twice, Error::Duplicate { kind: "database", .. }), "{twice}");
        tx.abort();
        ddl.rolled_back();

        // A transaction of the other database changes the definitions of both.
        let other = world.read(&shop).unwrap();
        assert_eq!(other.state().database().unwrap().name, "shop");
        let mut ddl = CatalogTransaction::new(Arc::clone(&other));
        let tx = world.begin();
        for database in [&shop, &DatabaseDefinition::first()] {
            let comment = Some(format!("said of {}", database.name));
            ddl.update_database(&tx, DatabaseDefinition { comment, ..database.clone() }).unwrap();
        }
        let changes = ddl.take_for_commit().unwrap();
        tx.commit_then(Durability::Flush, || changes.publish()).unwrap();
    }
    let world = open(&env);
    let databases = world.catalog().state().databases();
    let said: Vec<_> = databases.iter().map(|d| (d.oid, d.comment.as_deref().unwrap())).collect();
    assert_eq!(said, [(FIRST_DATABASE, "said of postgres"), (shop.oid, "said of shop")]);
    let other = world.read(databases.by_name("shop").unwrap()).unwrap();
    let mut ddl = CatalogTransaction::new(Arc::clone(world.catalog()));
    let tx = world.begin();
    ddl.remove_database(&tx, &other).unwrap();
    assert!(other.state().schema(PUBLIC_SCHEMA).is_some());
    let changes = ddl.take_for_commit().unwrap();
    tx.commit_then(Durability::Flush, || changes.publish()).unwrap();
    assert!(other.state().schema(PUBLIC_SCHEMA).is_none(), "whoever still has it finds nothing");
    assert!(other.state().database().is_none());
    drop((other, ddl, databases, world));
    assert_eq!(open(&env).catalog().state().databases().iter().count(), 1);
}
