//! Unlogged files that no relation names, when a directory is closed and opened.

use niwaki::{Database, Options};
use niwaki_env::Env;
use niwaki_storage::{RelFile, Xid};

/// A database may be created while all databases are closed, or while no session is free to
/// open it. Closing once took the unlogged tables of such a database for temporary ones and
/// removed their files.
#[test]
fn unlogged_tables_of_a_database_that_is_not_open_outlast_a_close() {
    let env = Env::memory();
    let open = || Database::open_with(env.clone(), Options::new()).unwrap();
    let database = open();
    database.session().execute("create database b", ()).unwrap();
    let mut inside = database.session_as("postgres", "b", &[]).unwrap();
    inside.execute("create unlogged table u as select 1 as a", ()).unwrap();
    drop(inside);
    let oid = database.directory().databases().definition("b").unwrap().oid;
    database.directory().databases().forget(oid);
    database.close().unwrap();
    let database = open();
    let mut inside = database.session_as("postgres", "b", &[]).unwrap();
    let count: i64 = inside.query_one("select count(*) from u", ()).unwrap().get(0).unwrap();
    assert_eq!(count, 1);
    drop(inside);
    assert_eq!(database.check().unwrap().violations, []);
}

/// An older version closed the directory while a session had a temporary table.
#[test]
fn what_an_earlier_life_left_of_temporary_relations_is_moved_aside() {
    let env = Env::memory();
    let open = || Database::open_with(env.clone(), Options::new()).unwrap();
    let is_there = |path: &str| env.vfs.exists(path).unwrap();
    let database = open();
    database.session().execute("create unlogged table u as select 1 as a", ()).unwrap();
    let storage = database.directory().engine().storage();
    let left = RelFile { id: storage.allocate_file(), logged: false };
    storage.create_file(left, Xid::INVALID).unwrap();
    database.directory().engine().settle().unwrap();
    storage.shutdown(&[&**database.directory().transactions()]).unwrap();
    drop(database);
    let path = format!("base/{}.main", left.id);
    assert!(is_there(&path));
    for _ in 0..2 {
        let database = open();
        assert!(!is_there(&path) && is_there(&format!("aside/{}.main", left.id)));
        let mut session = database.session();
        let count: i64 = session.query_one("select count(*) from u", ()).unwrap().get(0).unwrap();
        assert_eq!(count, 1);
        drop(session);
        assert_eq!(database.check().unwrap().violations, []);
        database.close().unwrap();
    }
}
