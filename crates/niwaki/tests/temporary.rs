//! Temporary tables beside other sessions, after the session's end and after a crash. They leave
//! the catalog unchanged.

mod common;
mod killed;

use common::run;
use niwaki::{Database, Options, Session};
use niwaki_env::Env;

fn open(env: &Env) -> Database {
    Database::open_with(env.clone(), Options::new().background(false)).unwrap()
}

/// Returns the number of relation files.
fn files(env: &Env) -> usize {
    env.vfs.list("base").unwrap().len()
}

/// Returns the sizes, in bytes, of the catalog's own table and indexes.
fn catalog_bytes(db: &Database, env: &Env) -> Vec<u64> {
    db.checkpoint().unwrap();
    let length = |name: &String| {
        let file = env.vfs.open(&format!("base/{name}"), niwaki_env::vfs::OpenMode::Existing);
        file.unwrap().len().unwrap()
    };
    let own =
        |name: &&String| ["2", "3", "4"].iter().any(|id| name.split(['.', '_']).next() == Some(id));
    let mut names = env.vfs.list("base").unwrap();
    names.sort();
    let bytes: Vec<u64> = names.iter().filter(own).map(length).collect();
    assert_eq!(bytes.len(), 3, "{names:?}");
    bytes
}

fn all(session: &mut Session, statements: &[&str]) {
    for statement in statements {
        session.execute(*statement, ()).unwrap_or_else(|error| panic!("{statement}: {error:?}"));
    }
}

#[test]
fn sessions_do_not_see_each_others() {
    let db = Database::in_memory_without_threads().unwrap();
    let (mut a, mut b) = (db.session(), db.session());
    all(&mut a, &["create table t (v text)", "insert into t values ('everybody')"]);
    all(&mut a, &["create temp table t (v text)", "insert into t values ('a')"]);
    assert_eq!(run(&mut b, "select v from t"), "everybody");
    all(&mut b, &["create temp table t (v int, w int)", "insert into t values (1, 2)"]);
    assert_eq!(run(&mut a, "select * from t"), "a");
    assert_eq!(run(&mut b, "select * from t"), "1|2");
    assert_eq!(run(&mut b, "select count(*) from pg_class where relname = 't'"), "2");
    let others = format!("select * from pg_temp_{}.t", a.id());
    assert!(run(&mut b, &others).starts_with("error 42P01"), "{}", run(&mut b, &others));

    // Definitions of another session appear beside the session's own tables.
    all(&mut b, &["create table late (x int)", "insert into late values (3)"]);
    assert_eq!(run(&mut a, "select x from late"), "3");
    assert_eq!(run(&mut a, "select * from t"), "a");

    // No session may drop the schema itself.
    for name in ["pg_temp".to_owned(), format!("pg_temp_{}", a.id())] {
        let refused = run(&mut a, &format!("drop schema {name} cascade"));
        assert!(refused.starts_with("error 0A000"), "{refused}");
    }
    assert_eq!(run(&mut a, "select * from t"), "a");

    // A prepared statement follows the name.
    all(&mut a, &["prepare p as select * from t"]);
    assert_eq!(run(&mut a, "execute p"), "a");
    all(&mut a, &["drop table pg_temp.t"]);
    assert_eq!(run(&mut a, "execute p"), "everybody");
}

#[test]
fn a_session_takes_its_tables_along() {
    let env = Env::memory();
    let db = open(&env);
    let before = files(&env);
    let mut s = db.session();
    all(&mut s, &["create temp table t (id serial primary key, v text)", "create index on t (v)"]);
    all(&mut s, &["insert into t (v) select 'x' from generate_series(1, 1000)"]);
    all(&mut s, &["begin", "create temp table u (a int)", "truncate t"]);
    assert!(files(&env) > before + 4);
    drop(s);
    assert_eq!(files(&env), before);
    assert_eq!(
        run(&mut db.session(), "select count(*) from pg_class where relname in ('t', 'u')"),
        "0"
    );
    assert_eq!(db.check().unwrap().violations, []);
}

/// The files of temporary tables in sessions that were still open at the close once stayed in the
/// directory for ever.
#[test]
fn a_close_takes_those_of_sessions_that_are_still_there() {
    for forgotten in [false, true] {
        let env = Env::memory();
        let db = open(&env);
        let mut s = db.session();
        all(&mut s, &["create unlogged table u (a int)", "insert into u values (1)"]);
        let before = env.vfs.list("base").unwrap();
        all(&mut s, &["create temp table t (id serial primary key, v text)"]);
        all(&mut s, &["create index on t (v)", "create temp sequence q", "select nextval('q')"]);
        all(&mut s, &["insert into t (v) select 'x' from generate_series(1, 1000)", "checkpoint"]);
        let mut temporary = env.vfs.list("base").unwrap();
        temporary.retain(|name| !before.contains(name));
        assert!(temporary.len() >= 5, "{temporary:?}");
        db.clone().close().unwrap();
        let left = env.vfs.list("base").unwrap();
        let left: Vec<_> = temporary.iter().filter(|name| left.contains(name)).collect();
        assert!(left.is_empty(), "{left:?}, forgotten: {forgotten}");
        if forgotten {
            std::mem::forget(s);
        } else {
            drop(s);
        }
        drop(db);
        let db = open(&env);
        assert_eq!(run(&mut db.session(), "select a from u"), "1");
        assert_eq!(db.check().unwrap().violations, []);
        assert!(!env.vfs.exists("aside").unwrap());
    }
}

#[test]
fn a_crash_takes_them_too() {
    let env = Env::memory();
    let db = open(&env);
    let before = files(&env);
    let mut s = db.session();
    all(&mut s, &["create temp table t (id serial primary key, v text)"]);
    all(&mut s, &["insert into t (v) select 'x' from generate_series(1, 1000)", "checkpoint"]);
    // Neither session nor database ends: the files that a killed process leaves, without its lock.
    std::mem::forget(s);
    std::mem::forget(db);
    let env = killed::copied(&env);
    let db = open(&env);
    assert_eq!(files(&env), before);
    let mut s = db.session();
    assert!(run(&mut s, "select * from t").starts_with("error 42P01"));
    all(&mut s, &["create temp table t (a int)", "insert into t values (1)"]);
    drop(s);
    assert_eq!(db.check().unwrap().violations, []);
}

#[test]
fn on_commit_spares_what_did_not_commit() {
    let db = Database::in_memory_without_threads().unwrap();
    let mut s = db.session();
    all(&mut s, &["create temp table d (a int primary key) on commit delete rows"]);
    all(&mut s, &["begin", "insert into d values (1)", "savepoint s", "insert into d values (2)"]);
    all(&mut s, &["rollback to s"]);
    assert_eq!(run(&mut s, "select count(*) from d"), "1");
    all(&mut s, &["commit"]);
    assert_eq!(run(&mut s, "select count(*) from d"), "0");
    all(&mut s, &["insert into d values (1)", "insert into d values (1)"]);
    // A table that a rollback brings back is still emptied at each commit.
    all(&mut s, &["begin", "drop table d", "rollback", "begin", "insert into d values (3)"]);
    assert_eq!(run(&mut s, "select count(*) from d"), "1");
    all(&mut s, &["commit"]);
    assert_eq!(run(&mut s, "select count(*) from d"), "0");
    assert_eq!(db.check().unwrap().violations, []);
}

#[test]
fn the_catalog_stays_as_it_is_under_an_old_snapshot() {
    let env = Env::memory();
    let db = open(&env);
    let (mut old, mut s) = (db.session(), db.session());
    all(&mut old, &["begin isolation level repeatable read", "select count(*) from pg_class"]);
    all(&mut s, &["create temp table t (id serial primary key, v text)", "drop table t"]);
    let (bytes, count) = (catalog_bytes(&db, &env), files(&env));
    for round in 0..1000 {
        let create = format!("create temp table t{round} (id serial primary key, v text)");
        all(&mut s, &[&create, &format!("drop table t{round}")]);
    }
    assert_eq!(catalog_bytes(&db, &env), bytes);
    assert_eq!(files(&env), count);
    assert_eq!(db.check().unwrap().violations, []);
}

/// Creating and dropping permanent tables keeps the size of the catalog's own table and indexes.
/// Neither VACUUM nor the absence of an old snapshot is needed.
#[test]
fn tables_that_come_and_go_leave_the_catalog_its_size() {
    for held in [false, true] {
        let env = Env::memory();
        let db = open(&env);
        let (mut reader, mut session) = (db.session(), db.session());
        if held {
            all(&mut reader, &["begin isolation level repeatable read", "select 1"]);
        }
        let mut come_and_go = |times: usize| {
            for n in 0..times {
                let name = format!("t{}", n % 7);
                all(
                    &mut session,
                    &[
                        &format!("create table {name} (a int primary key, b text, c text)"),
                        &format!("create index on {name} (b)"),
                        &format!("drop table {name}"),
                    ],
                );
            }
        };
        come_and_go(60);
        let before = catalog_bytes(&db, &env);
        come_and_go(240);
        let after = catalog_bytes(&db, &env);
        let few = 4 * 8192;
        assert!(
            before.iter().zip(&after).all(|(before, after)| *after <= before + few),
            "{before:?} -> {after:?}, held: {held}"
        );
    }
}
