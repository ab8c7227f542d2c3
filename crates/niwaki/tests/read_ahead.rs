//! Reading ahead, as a session meets it: the same answers with every setting, and pages read once.

mod common;

use std::sync::Arc;

use common::run;
use niwaki::{Database, Options, Session};
use niwaki_env::Env;
use niwaki_env::vfs::MemoryVfs;

const ROWS: u32 = 20_000;

/// A closed database with a table of some 350 pages and an index.
fn stored() -> Arc<MemoryVfs> {
    let vfs = Arc::new(MemoryVfs::new());
    let env = Env { vfs: vfs.clone(), ..Env::memory() };
    let database = Database::open_with(env, Options::new()).unwrap();
    let mut session = database.session();
    let create = "create table t (id int primary key, k int, note text)";
    let fill = format!(
        "insert into t select g, g * 7919 % 10007, repeat('x', 100) from generate_series(1, {ROWS}) g"
    );
    for sql in [create, &*fill, "create index t_k on t (k)", "vacuum analyze t"] {
        assert_eq!(run(&mut session, sql), "", "{sql}");
    }
    drop(session);
    database.close().unwrap();
    vfs
}

/// Opens a copy of it.
fn open(vfs: &Arc<MemoryVfs>, options: Options) -> Database {
    let env = Env { vfs: Arc::new(vfs.fork()), ..Env::memory() };
    Database::open_with(env, options).unwrap()
}

/// Pages of the table that were read from its file.
fn reads(session: &mut Session) -> u64 {
    let sql = "select heap_blks_read from pg_statio_user_tables where relname = 't'";
    run(session, sql).parse().unwrap()
}

fn pages(session: &mut Session) -> u64 {
    run(session, "select pg_relation_size('t') / 8192").parse().unwrap()
}

#[test]
fn scans_read_each_page_once_whatever_the_settings() {
    let vfs = stored();
    let sum = format!("{ROWS}|{}", u64::from(ROWS) * u64::from(ROWS + 1) / 2);
    for method in ["worker", "sync"] {
        for (combine, concurrency) in [(1, 0), (1, 100), (16, 0), (16, 16), (32, 1000)] {
            let options = Options::new().background(true).set("io_method", method);
            let database = open(&vfs, options);
            let mut session = database.session();
            run(&mut session, &format!("set io_combine_limit = '{}kB'", combine * 8));
            run(&mut session, &format!("set effective_io_concurrency = {concurrency}"));
            let before = reads(&mut session);
            assert_eq!(
                run(&mut session, "select count(*), sum(id + length(note) - 100) from t"),
                sum
            );
            let used = reads(&mut session) - before;
            // The pages that the table grew by and has not used were never written.
            let pages = pages(&mut session);
            assert!(used <= pages && used + 64 >= pages, "{used} of {pages} pages read");
            assert_eq!(
                run(&mut session, "select count(*), sum(id + length(note) - 100) from t"),
                sum
            );
            assert_eq!(reads(&mut session) - before, used, "they are in the pool");
        }
    }
}

#[test]
fn bitmap_scans_and_maintenance_read_ahead() {
    let database = open(&stored(), Options::new().background(true));
    let mut session = database.session();
    run(&mut session, "set enable_seqscan = off; set enable_indexscan = off");
    let count = "select count(*) from t where k < 2000";
    let expected = (1..=u64::from(ROWS)).filter(|g| g * 7919 % 10_007 < 2000).count();
    assert_eq!(run(&mut session, count), expected.to_string());
    for sql in [
        "create index t_note on t (note, id)",
        "create index concurrently t_later on t (id, k)",
        "delete from t where id % 3 = 0",
        "vacuum analyze t",
    ] {
        assert_eq!(run(&mut session, sql), "", "{sql}");
    }
    assert_ne!(run(&mut session, "select niwaki_check('t')"), "");
    let left = (1..=u64::from(ROWS)).filter(|g| g % 3 != 0 && g * 7919 % 10_007 < 2000).count();
    assert_eq!(run(&mut session, count), left.to_string());
}

#[test]
fn prewarm_brings_a_relation_into_the_pool() {
    let database = open(&stored(), Options::new());
    let mut session = database.session();
    let pages = pages(&mut session);
    let prewarm = |session: &mut Session, arguments: &str| {
        run(session, &format!("select pg_prewarm({arguments})"))
    };
    assert_eq!(prewarm(&mut session, "'t', 'buffer', 'main', 10, 19"), "10");
    let before = reads(&mut session);
    assert_eq!(prewarm(&mut session, "'t', 'buffer', 'main', 10, 19"), "10");
    assert_eq!(reads(&mut session), before);
    assert_eq!(prewarm(&mut session, "'t'"), pages.to_string());
    let before = reads(&mut session);
    assert_eq!(run(&mut session, "select count(*) from t"), ROWS.to_string());
    assert_eq!(reads(&mut session), before);
    assert_ne!(prewarm(&mut session, "'t_k'"), "0");
    assert_ne!(prewarm(&mut session, "'t', 'buffer', 'vm'"), "0");
    assert_eq!(prewarm(&mut session, "'t', 'buffer', 'init'"), "0");
    for (arguments, code) in [
        ("'t', 'quickly'", "22023"),
        ("'t', null", "22004"),
        ("'t', 'buffer', 'side'", "22023"),
        ("'t', 'buffer', 'main', -1, 5", "22023"),
        ("'t', 'buffer', 'main', 0, 1000000", "22023"),
        ("null", "22004"),
        ("999999::oid::regclass", "42P01"),
        ("'nothing'", "42P01"),
        ("'t', 'read'", "0A000"),
    ] {
        let answer = prewarm(&mut session, arguments);
        assert!(answer.contains(code), "{arguments}: {answer}");
    }
}
