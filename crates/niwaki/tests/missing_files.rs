//! Missing, short or zeroed relation files are errors. Such a file was once an empty relation: no
//! rows, a duplicate primary key went in, a sequence began at 1. With one of the catalog's files,
//! the server started as an empty database, and the next start after a crash removed all files of
//! users. F1 forbids that: each checkpoint records which files exist, and the least size of each on
//! disk.

use std::sync::Arc;

use niwaki::{Database, Options};
use niwaki_env::Env;
use niwaki_env::vfs::{MemoryVfs, OpenMode, Vfs};

const PAGE: u64 = 8192;

fn environment() -> Env {
    Env { vfs: Arc::new(MemoryVfs::new()), ..Env::memory() }
}

fn open(env: &Env) -> niwaki::Result<Database> {
    Database::open_with(env.clone(), Options::new().small_files(true))
}

/// Creates rows for two segments of 16 pages, large values, and all kinds of files.
fn filled(env: &Env) -> Database {
    let db = open(env).unwrap();
    let mut session = db.session();
    for sql in [
        "create table t (id int primary key, n serial, b text, big text)",
        "alter table t alter big set storage external",
        "create index t_b on t (b)",
        "insert into t (id, b) select g, repeat('x', 200) from generate_series(1, 1000) g",
        "update t set big = repeat('y', 50000) where id = 7",
        "delete from t where id = 1000",
        "create table other (id int primary key)",
        "insert into other values (1)",
    ] {
        session.execute(sql, ()).unwrap_or_else(|e| panic!("{sql}: {e}"));
    }
    drop(session);
    db
}

/// Returns the path of a relation's main fork.
fn path_of(db: &Database, name: &str) -> String {
    let sql = match name {
        "values" => "select reltoastrelid::int8 from pg_class where relname = 't'".to_owned(),
        _ => format!("select relfilenode::int8 from pg_class where relname = '{name}'"),
    };
    let number: i64 = db.session().query_one(&sql, ()).unwrap().get(0).unwrap();
    format!("base/{number}.main")
}

fn code(db: &Database, sql: &str) -> String {
    match db.session().execute(sql, ()) {
        Ok(_) => panic!("{sql}: no error"),
        Err(error) => error.sqlstate.to_string(),
    }
}

/// Damages a file, and returns the SQLSTATE that reports the damage.
type Damage = fn(&dyn Vfs, &str) -> &'static str;

fn gone(vfs: &dyn Vfs, path: &str) -> &'static str {
    vfs.remove(path).unwrap();
    "58P01"
}

fn short(vfs: &dyn Vfs, path: &str) -> &'static str {
    vfs.open(path, OpenMode::Existing).unwrap().set_len(0).unwrap();
    "XX001"
}

fn zeroed(vfs: &dyn Vfs, path: &str) -> &'static str {
    vfs.open(path, OpenMode::Existing).unwrap().write_at(&[0; PAGE as usize], 0).unwrap();
    "XX001"
}

const DAMAGES: [Damage; 3] = [gone, short, zeroed];

/// Statements that must fail on a damaged file of each kind.
const TOUCHES: &[(&str, &[&str])] = &[
    (
        "t",
        &[
            "select count(*) from t",
            "select * from t where id = 5",
            "insert into t (id) values (5)",
            "copy t to '/dev/null'",
            "vacuum t",
            "create index on t (n)",
        ],
    ),
    (
        "t_pkey",
        &[
            "insert into t (id) values (5)",
            "select n from t where id = 5",
            "vacuum (index_cleanup on) t",
        ],
    ),
    ("t_b", &["insert into t (id, b) values (-5, 'x')", "vacuum (index_cleanup on) t"]),
    ("t_n_seq", &["select nextval('t_n_seq')", "insert into t (id) values (-5)"]),
];

#[test]
fn what_is_gone_or_zeroed_is_an_error_on_every_path() {
    for (name, touches) in TOUCHES {
        for (number, damage) in DAMAGES.into_iter().enumerate() {
            let env = environment();
            let db = filled(&env);
            let path = path_of(&db, name);
            db.close().unwrap();
            let state = damage(&*env.vfs, &path);
            // A pass over an index does not read its metapage.
            let reads_all = |sql: &str| !sql.starts_with("vacuum (index") || number < 2;
            for sql in touches.iter().copied().filter(|sql| reads_all(sql)) {
                let db = open(&env).unwrap();
                assert_eq!(code(&db, sql), state, "{name}: {sql}, damage {number}");
                let report = db.check().unwrap();
                let found = report.violations.iter().any(|v| v.invariant == "F1" && v.file == path);
                assert!(found, "{name}: {:?}", report.violations);
                // Other relations are unaffected, and a damaged one can be dropped.
                db.session()
                    .execute("insert into other select max(id) + 1 from other", ())
                    .unwrap();
            }
            let db = open(&env).unwrap();
            db.session().execute("drop table t", ()).unwrap();
            assert_eq!(db.check().unwrap().violations, []);
            db.close().unwrap();
        }
    }
}

/// While a table's file was missing, no stop was once a clean one. A start after an unclean stop
/// empties unlogged tables.
#[test]
fn what_is_gone_keeps_no_stop_from_being_a_clean_one() {
    for damage in [gone, short] {
        let env = environment();
        let db = filled(&env);
        let path = path_of(&db, "other");
        db.session().execute("create unlogged table u as select 1 as a", ()).unwrap();
        db.close().unwrap();
        damage(&*env.vfs, &path);
        for _ in 0..3 {
            let db = open(&env).unwrap();
            let count: i64 =
                db.session().query_one("select count(*) from u", ()).unwrap().get(0).unwrap();
            assert_eq!(count, 1);
            db.close().unwrap();
        }
    }
}

/// The table of files covers unlogged files too after a clean stop: a missing one is no empty
/// relation.
#[test]
fn an_unlogged_relation_that_is_gone_or_zeroed_is_an_error() {
    let touches = [
        ("u", "select count(*) from u"),
        ("u_pkey", "insert into u (id) values (5)"),
        ("u_n_seq", "select nextval('u_n_seq')"),
    ];
    for (name, sql) in touches {
        for damage in DAMAGES {
            let env = environment();
            let db = filled(&env);
            let mut session = db.session();
            for sql in [
                "create unlogged table u (id int primary key, n serial)",
                "insert into u (id) select generate_series(1, 1000)",
            ] {
                session.execute(sql, ()).unwrap();
            }
            drop(session);
            let path = path_of(&db, name);
            db.close().unwrap();
            let state = damage(&*env.vfs, &path);
            let db = open(&env).unwrap();
            assert_eq!(code(&db, sql), state, "{name}");
            let report = db.check().unwrap();
            let found = report.violations.iter().any(|v| v.invariant == "F1" && v.file == path);
            assert!(found, "{name}: {:?}", report.violations);
            db.session().execute("drop table u", ()).unwrap();
            assert_eq!(db.check().unwrap().violations, []);
        }
    }
}

/// Visibility and free space maps are hints. A missing map gives no hints, and is created again.
#[test]
fn a_map_that_is_gone_is_made_again() {
    let env = environment();
    let db = filled(&env);
    let mut session = db.session();
    for sql in [
        "create table wide as select g as id, repeat('x', 400) as b from generate_series(1, 2000) g",
        "create index on wide (id)",
        "vacuum wide",
    ] {
        session.execute(sql, ()).unwrap();
    }
    drop(session);
    let main = path_of(&db, "wide");
    db.close().unwrap();
    let [visible, free] = ["visible", "free"].map(|fork| main.replace("main", fork));
    env.vfs.remove(&visible).unwrap();
    if env.vfs.exists(&free).unwrap() {
        env.vfs.remove(&free).unwrap();
    }
    let db = open(&env).unwrap();
    let mut session = db.session();
    let count: i64 =
        session.query_one("select count(id) from wide where id > 0", ()).unwrap().get(0).unwrap();
    assert_eq!(count, 2000);
    session.execute("insert into wide values (2001, 'y')", ()).unwrap();
    session.execute("vacuum wide", ()).unwrap();
    drop(session);
    assert_eq!(db.check().unwrap().violations, []);
    db.close().unwrap();
    assert!(env.vfs.exists(&visible).unwrap());
}

#[test]
fn a_segment_that_is_gone_or_short_is_an_error_and_stays_as_it_is() {
    for cut in [false, true] {
        let env = environment();
        let db = filled(&env);
        let path = path_of(&db, "t");
        db.close().unwrap();
        if cut {
            let first = env.vfs.open(&path, OpenMode::Existing).unwrap();
            first.set_len(15 * PAGE).unwrap();
        } else {
            env.vfs.remove(&format!("{path}.1")).unwrap();
        }
        let before = env.vfs.list("base").unwrap();
        let db = open(&env).unwrap();
        assert_eq!(code(&db, "select count(*) from t"), "XX001");
        assert!(db.check().unwrap().violations.iter().any(|v| v.invariant == "F1"));
        assert_eq!(env.vfs.list("base").unwrap(), before, "nothing is removed");
    }
}

#[test]
fn a_catalog_that_is_damaged_is_not_an_empty_one() {
    for crash in [false, true] {
        for damage in DAMAGES {
            for number in 1..=4 {
                let env = environment();
                let db = filled(&env);
                db.checkpoint().unwrap();
                if crash {
                    drop(db);
                } else {
                    db.close().unwrap();
                }
                let path = format!("base/{number}.main");
                // When there are few transactions, their states are in the log alone.
                if env.vfs.open(&path, OpenMode::Existing).unwrap().len().unwrap() == 0 {
                    continue;
                }
                let state = damage(&*env.vfs, &path);
                let before = env.vfs.list("base").unwrap();
                let said = match open(&env) {
                    Err(error) => error.sqlstate.to_string(),
                    Ok(db) => code(&db, "create table fresh (i int)"),
                };
                assert_eq!(said, state, "{path}, after a crash: {crash}");
                let after = env.vfs.list("base").unwrap();
                assert!(before.iter().all(|name| after.contains(name)), "{before:?} {after:?}");
            }
        }
    }
}

#[test]
fn what_nobody_names_is_moved_aside() {
    let env = environment();
    let db = filled(&env);
    db.checkpoint().unwrap();
    // The row of the catalog goes, and no log record says that the file was dropped.
    let path = path_of(&db, "other");
    drop(db);
    let bytes = env.vfs.open(&path, OpenMode::Existing).unwrap().len().unwrap();
    let stray = "base/9999.main";
    env.vfs.open(stray, OpenMode::CreateNew).unwrap().write_at(&[7; 100], 0).unwrap();
    env.vfs.open("base/9998.main", OpenMode::CreateNew).unwrap();
    let lines = Arc::new(std::sync::Mutex::new(Vec::new()));
    let heard = Arc::clone(&lines);
    let log = move |line: &str| heard.lock().unwrap().push(line.to_owned());
    let db = Database::open_with(env.clone(), Options::new().log(log)).unwrap();
    assert!(!env.vfs.exists(stray).unwrap() && env.vfs.exists("aside/9999.main").unwrap());
    assert!(!env.vfs.exists("base/9998.main").unwrap(), "nothing was ever in it");
    assert!(!env.vfs.exists("aside/9998.main").unwrap());
    let lines = lines.lock().unwrap().join("\n");
    assert!(lines.contains("aside/9999.main"), "{lines}");
    assert_eq!(env.vfs.open(&path, OpenMode::Existing).unwrap().len().unwrap(), bytes);
    assert_eq!(db.check().unwrap().violations, []);
    db.close().unwrap();
}

#[test]
fn what_a_crash_cut_off_leaves_nothing() {
    let vfs = Arc::new(MemoryVfs::new());
    let env = Env { vfs: Arc::clone(&vfs) as _, ..Env::memory() };
    let db = filled(&env);
    let mut session = db.session();
    session.execute("begin", ()).unwrap();
    session.execute("create table half as select * from t", ()).unwrap();
    let before = env.vfs.list("base").unwrap().len();
    // The redo position now lies behind the record that created the transaction's files.
    db.checkpoint().unwrap();
    std::mem::forget(session);
    let image = killed(&vfs);
    let db = open(&image).unwrap();
    assert!(image.vfs.list("base").unwrap().len() < before);
    assert!(!image.vfs.exists("aside").unwrap());
    assert_eq!(db.check().unwrap().violations, []);
}

/// Returns the directory as a kill would leave it now.
fn killed(vfs: &MemoryVfs) -> Env {
    Env { vfs: Arc::new(vfs.fork()), ..Env::memory() }
}

/// Unlogged relations may be truncated without a log record. Nothing is expected of them after a
/// crash.
#[test]
fn unlogged_truncated_and_dropped_relations_are_no_damage() {
    let vfs = Arc::new(MemoryVfs::new());
    let env = Env { vfs: Arc::clone(&vfs) as _, ..Env::memory() };
    let db = filled(&env);
    let mut session = db.session();
    for sql in [
        "create unlogged table u (id int primary key, b text)",
        "insert into u select g, repeat('x', 200) from generate_series(1, 1000) g",
        "create temp table tmp as select * from u",
    ] {
        session.execute(sql, ()).unwrap();
    }
    db.checkpoint().unwrap();
    for sql in
        ["delete from u where id > 10", "delete from t where id > 10", "vacuum u", "vacuum t"]
    {
        session.execute(sql, ()).unwrap();
    }
    session.execute("drop table other", ()).unwrap();
    std::mem::forget(session);
    let image = killed(&vfs);
    let db = open(&image).unwrap();
    let count = |db: &Database, table: &str| -> i64 {
        let sql = format!("select count(*) from {table}");
        db.session().query_one(&sql, ()).unwrap().get(0).unwrap()
    };
    assert_eq!((count(&db, "u"), count(&db, "t")), (0, 10));
    assert!(!image.vfs.exists("aside").unwrap());
    assert_eq!(db.check().unwrap().violations, []);
    db.close().unwrap();
    let db = open(&image).unwrap();
    assert_eq!((count(&db, "u"), count(&db, "t")), (0, 10));
}

/// A file is removed below a running engine. The next checkpoint fails, because it would make
/// nothing durable. The checkpoint before stays valid.
#[test]
fn a_file_that_vanishes_is_told_by_the_next_checkpoint() {
    let env = environment();
    let db = filled(&env);
    db.checkpoint().unwrap();
    db.session().execute("update t set b = 'z' where id < 10", ()).unwrap();
    env.vfs.remove(&path_of(&db, "t")).unwrap();
    let error = db.checkpoint().unwrap_err();
    assert_eq!(error.sqlstate, "58P01", "{error}");
}
