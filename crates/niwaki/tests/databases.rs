//! Several databases in one directory. Each has its own tables, client locks, channels and
//! settings, and the background work covers all of them. Connected sessions keep their database.
//! After a crash at any change of the disk, a database exists wholly or not at all.

mod common;
#[path = "common/crashes.rs"]
mod crashes;

use std::sync::Arc;

use common::{run, run_told};
use crashes::each_image;
use niwaki::{Database, Options, Session};
use niwaki_env::Env;
use niwaki_env::sync::thread;
use niwaki_env::vfs::{FaultyVfs, Vfs};

fn connect(database: &Database, name: &str) -> niwaki::Result<Session> {
    database.session_as("postgres", name, &[])
}

fn refused(database: &Database, name: &str) -> String {
    match connect(database, name) {
        Ok(_) => "let in".to_owned(),
        Err(error) => format!("{}: {}", error.sqlstate, error.message),
    }
}

const NAMES: &str = "select string_agg(datname, ' ' order by oid) from pg_database";

#[test]
fn each_has_its_own_objects() {
    let database = Database::in_memory_without_threads().unwrap();
    let mut first = database.session();
    assert_eq!(refused(&database, "shop"), "3D000: database \"shop\" does not exist");
    assert_eq!(run(&mut first, "create table t (a int); insert into t values (1)"), "");
    assert_eq!(run(&mut first, "create database shop"), "");
    let mut shop = connect(&database, "shop").unwrap();
    assert_eq!(run(&mut shop, "select current_database(), current_catalog"), "shop|shop");
    assert_eq!(run(&mut shop, NAMES), "postgres shop");
    let missing = "error 42P01: relation \"t\" does not exist";
    assert_eq!(run(&mut shop, "select * from t"), missing);
    assert_eq!(run(&mut shop, "create table t (a text); insert into t values ('x'), ('y')"), "");
    assert_eq!(run(&mut shop, "create schema s; create type hue as enum ('red')"), "");
    assert_eq!(run(&mut first, "select * from t"), "1");
    assert_eq!(run(&mut shop, "select * from t"), "x\ny");
    assert_eq!(run(&mut first, "select count(*) from pg_namespace where nspname = 's'"), "0");
    assert_eq!(
        run(
            &mut shop,
            "select table_catalog from information_schema.tables where table_name = 't'"
        ),
        "shop"
    );
    // A qualified table name must name the session's own database or none.
    assert_eq!(run(&mut shop, "select count(*) from shop.public.t"), "2");
    for sql in ["select * from postgres.public.t", "drop table postgres.public.t"] {
        let error =
            "error 0A000: cross-database references are not implemented: \"postgres.public.t\"";
        assert_eq!(run(&mut shop, sql), error, "{sql}");
    }
    assert_eq!(
        run(&mut shop, "select pg_database_size('shop') > 0, pg_database_size('postgres') > 0"),
        "t|t"
    );
    let report = database.check().unwrap();
    assert!(report.violations.is_empty(), "{:#?}", report.violations);
}

#[test]
fn clients_agree_within_one_database() {
    let database = Database::in_memory_without_threads().unwrap();
    let mut first = database.session();
    assert_eq!(run(&mut first, "create database other"), "");
    let mut other = connect(&database, "other").unwrap();
    let mut beside = connect(&database, "other").unwrap();
    let lock = "select pg_try_advisory_lock(7), pg_try_advisory_lock(7, 7)";
    assert_eq!(run(&mut first, lock), "t|t");
    assert_eq!(run(&mut other, lock), "t|t");
    assert_eq!(run(&mut beside, lock), "f|f");
    let held = "select datname, count(*) from pg_locks join pg_database d on d.oid = database \
                where locktype = 'advisory' group by 1 order by 1";
    assert_eq!(run(&mut beside, held), "other|2\npostgres|2");
    assert_eq!(run(&mut other, "listen news"), "");
    assert_eq!(run(&mut first, "listen news; notify news, 'here'"), "");
    assert!(other.take_notification().is_none());
    assert_eq!(first.take_notification().unwrap().payload, "here");
    assert_eq!(run(&mut beside, "notify news, 'there'"), "");
    assert_eq!(other.take_notification().unwrap().payload, "there");
    assert!(first.take_notification().is_none());
    let sessions = "select datname, count(*) from pg_stat_activity where backend_type = 'client backend' group by 1 order by 1";
    assert_eq!(run(&mut first, sessions), "other|2\npostgres|1");
}

#[test]
fn settings_of_a_database_hold_for_sessions_that_begin() {
    let database = Database::in_memory_without_threads().unwrap();
    let mut first = database.session();
    assert_eq!(
        run(&mut first, "create database d; alter database d set work_mem = '7MB'"),
        "error 25001: CREATE DATABASE cannot run inside a transaction block"
    );
    assert_eq!(run(&mut first, "create database d"), "");
    let mut before = connect(&database, "d").unwrap();
    assert_eq!(run(&mut first, "alter database d set work_mem = '7MB'"), "");
    assert_eq!(run(&mut first, "alter database d set search_path = s, public"), "");
    let bad = run(&mut first, "alter database d set work_mem = 'much'");
    assert!(bad.starts_with("error 22023: "), "{bad}");
    let none = run(&mut first, "alter database d set no_such = 1");
    assert!(none.starts_with("error 42704: "), "{none}");
    let restart = run(&mut first, "alter database d set shared_buffers = '1GB'");
    assert!(restart.starts_with("error 55P02: "), "{restart}");
    assert_eq!(run(&mut before, "show work_mem"), "4MB");
    let mut after = connect(&database, "d").unwrap();
    assert_eq!(run(&mut after, "show work_mem"), "7MB");
    assert_eq!(run(&mut after, "set work_mem = '9MB'; reset work_mem"), "");
    assert_eq!(run(&mut after, "show work_mem"), "7MB");
    assert_eq!(run(&mut after, "show search_path"), "s, public");
    let given = [("work_mem".to_owned(), "8MB".to_owned())];
    let mut given = database.session_as("postgres", "d", &given).unwrap();
    assert_eq!(run(&mut given, "show work_mem"), "8MB");
    let said = "select datname, setrole, setconfig from pg_db_role_setting join pg_database d on d.oid = setdatabase";
    assert_eq!(run(&mut first, said), "d|0|{work_mem=7MB,\"search_path=s, public\"}");
    assert_eq!(run(&mut first, "alter database d reset search_path"), "");
    assert_eq!(run(&mut first, said), "d|0|{work_mem=7MB}");
    assert_eq!(run(&mut first, "alter database d reset all"), "");
    assert_eq!(run(&mut first, said), "");
}

#[test]
fn who_is_connected_keeps_a_database() {
    let database = Database::in_memory_without_threads().unwrap();
    let mut first = database.session();
    assert_eq!(run(&mut first, "create database d"), "");
    let open = "error 55006: cannot drop the currently open database";
    let mut inside = connect(&database, "d").unwrap();
    assert_eq!(run(&mut inside, "drop database d"), open);
    let used = "error 55006: database \"d\" is being accessed by other users\ndetail: There is 1 other session using the database.";
    assert_eq!(run(&mut first, "alter database d rename to e"), used);
    assert_eq!(run(&mut first, "drop database d"), used);
    // The database accepts connections again.
    assert_eq!(refused(&database, "d"), "let in");
    assert_eq!(run(&mut inside, "create table t (a int); begin; insert into t values (1)"), "");
    // A terminated session ends at its next statement, or when its client is gone.
    let other = thread::spawn(move || {
        while !inside.is_terminated() {
            thread::yield_now();
        }
        drop(inside);
    });
    assert_eq!(run(&mut first, "drop database d with (force)"), "");
    other.join().unwrap();
    assert_eq!(refused(&database, "d"), "3D000: database \"d\" does not exist");
    assert_eq!(run(&mut first, NAMES), "postgres");
    assert_eq!(
        run_told(&mut first, "drop database if exists d"),
        "NOTICE 00000: database \"d\" does not exist, skipping\nDROP DATABASE"
    );
    let report = database.check().unwrap();
    assert!(report.violations.is_empty(), "{:#?}", report.violations);
}

#[test]
fn a_closed_database_lets_nobody_in() {
    let database = Database::in_memory_without_threads().unwrap();
    let mut first = database.session();
    assert_eq!(run(&mut first, "create database d allow_connections = false"), "");
    let closed = "55000: database \"d\" is not currently accepting connections";
    assert_eq!(refused(&database, "d"), closed);
    assert_eq!(run(&mut first, "alter database d allow_connections true"), "");
    assert_eq!(refused(&database, "d"), "let in");
    assert_eq!(run(&mut first, "begin; comment on database d is 'c'"), "");
    let comment =
        "select shobj_description(oid, 'pg_database') from pg_database where datname = 'd'";
    assert_eq!(run(&mut first, comment), "c");
    assert_eq!(run(&mut database.session(), comment), "NULL");
    assert_eq!(run(&mut first, "rollback"), "");
    assert_eq!(run(&mut first, comment), "NULL");
    assert_eq!(run(&mut first, "alter database d rename to e"), "");
    assert_eq!(run(&mut connect(&database, "e").unwrap(), "select current_database()"), "e");
}

/// `niwaki sql` ended in a panic once the first database let no client in.
#[test]
fn a_program_enters_the_first_database_although_it_is_closed() {
    let database = Database::in_memory_without_threads().unwrap();
    let mut first = database.session();
    assert_eq!(run(&mut first, "create database d"), "");
    let own = "error 22023: cannot disallow connections for current database";
    assert_eq!(run(&mut first, "alter database postgres allow_connections false"), own);
    let mut second = connect(&database, "d").unwrap();
    assert_eq!(run(&mut second, "alter database postgres allow_connections false"), "");
    let closed = "55000: database \"postgres\" is not currently accepting connections";
    assert_eq!(refused(&database, "postgres"), closed);
    let mut single = database.session();
    assert_eq!(run(&mut single, "select current_database()"), "postgres");
    assert_eq!(run(&mut single, "alter database postgres allow_connections true"), "");
    assert_eq!(refused(&database, "postgres"), "let in");
}

#[test]
fn all_databases_are_seen_to() {
    let database = Database::in_memory_without_threads().unwrap();
    let mut first = database.session();
    assert_eq!(run(&mut first, "create database d"), "");
    let mut inside = connect(&database, "d").unwrap();
    let soiled = "create table t (a int primary key) with (autovacuum_vacuum_threshold = 0); \
                  insert into t select generate_series(1, 2000)";
    assert_eq!(run(&mut inside, soiled), "");
    assert_eq!(run(&mut inside, "delete from t where a % 2 = 0"), "");
    let reports = database.maintain().unwrap();
    let done: Vec<_> = reports.iter().map(|r| (&*r.database, &*r.table, r.vacuumed)).collect();
    assert_eq!(done, [("d", "t", true)]);
    assert_eq!(run(&mut inside, "select dead_line_pointers from niwaki_chain_stats('t')"), "0");
    assert_eq!(run(&mut inside, "delete from t where a % 3 = 0"), "");
    for _ in 0..4 {
        database.clean_up().unwrap();
    }
    assert_eq!(run(&mut inside, "select dead_line_pointers from niwaki_chain_stats('t')"), "0");
    drop(inside);
    assert_eq!(run(&mut first, "drop database d"), "");
    assert!(database.maintain().unwrap().is_empty());
    database.clean_up().unwrap();
}

/// Objects of each kind that has files or that other objects name.
const FILLED: &str = "
    create type hue as enum ('red', 'blue');
    create domain positive as int check (value > 0);
    create function twice(int) returns int immutable language sql as 'select $1 * 2';
    create table shop (id int generated by default as identity primary key, name text, h hue default 'red', n positive default twice(2));
    insert into shop (name) select 'shop ' || g from generate_series(1, 500) g;
    create index shop_odd on shop ((id % 7), n) where h = 'red';
    create table item (id serial primary key, shop int references shop on delete cascade, note text);
    insert into item (shop, note) select g % 500 + 1, repeat('n', 200) from generate_series(1, 2000) g;
    update item set note = (select string_agg(md5(g::text), '') from generate_series(1, 300) g) where id < 5;
    create unlogged table seen (a int); insert into seen values (1), (2);
    create view calls as select s.name, count(*) from shop s join item i on i.shop = s.id group by s.name;
    create materialized view totals as select shop, count(*) as items from item group by shop;
    create table part (k int primary key, t text) partition by range (k);
    create table part1 partition of part for values from (0) to (100);
    create table part2 partition of part for values from (100) to (200);
    insert into part select g, 't' || g from generate_series(0, 199) g;
    comment on table shop is 'of things'";

const ANSWERS: [&str; 9] = [
    "select count(*), sum(id), min(name), max(h), sum(n) from shop",
    "select count(*), sum(length(note)) from item",
    "select count(*) from seen",
    "select count(*), sum(count) from calls",
    "select sum(items) from totals",
    "select tableoid::regclass, count(*) from part group by 1 order by 1",
    "select count(*), sum(id) from shop where id % 7 = 3 and h = 'red'",
    "select obj_description('shop'::regclass), 'shop'::regclass::oid, 'hue'::regtype::oid",
    "select last_value, is_called from item_id_seq",
];

fn answers(session: &mut Session) -> Vec<String> {
    ANSWERS.iter().map(|sql| run(session, sql)).collect()
}

#[test]
fn a_template_is_copied() {
    let database = Database::in_memory_without_threads().unwrap();
    let mut first = database.session();
    assert_eq!(run(&mut first, "create database a"), "");
    let mut source = connect(&database, "a").unwrap();
    assert_eq!(run(&mut source, FILLED), "");
    let expected = answers(&mut source);
    assert!(expected.iter().all(|answer| !answer.contains("error")), "{expected:?}");
    let used = "error 55006: source database \"a\" is being accessed by other users\ndetail: There is 1 other session using the database.";
    assert_eq!(run(&mut first, "create database b template a"), used);
    drop(source);
    let missing = "error 3D000: template database \"nothing\" does not exist";
    assert_eq!(run(&mut first, "create database b template nothing"), missing);
    assert_eq!(run(&mut first, "create database b template a"), "");
    let mut copy = connect(&database, "b").unwrap();
    assert_eq!(answers(&mut copy), expected);
    // From now on the two databases are independent.
    assert_eq!(run(&mut copy, "insert into item (shop) values (1) returning id"), "2001");
    assert_eq!(
        run(
            &mut copy,
            "delete from shop where id > 100; alter type hue add value 'green'; truncate part1"
        ),
        ""
    );
    assert_eq!(run(&mut copy, "select count(*) from item where shop > 100"), "0");
    assert_eq!(
        run(&mut copy, "insert into item (shop) values (400)").split(':').next().unwrap(),
        "error 23503"
    );
    let mut source = connect(&database, "a").unwrap();
    assert_eq!(answers(&mut source), expected);
    assert_eq!(run(&mut source, "insert into item (shop) values (400) returning id"), "2001");
    assert_eq!(run(&mut source, "drop table item, shop cascade"), "");
    assert_eq!(run(&mut copy, "select count(*), max(id) from shop"), "100|100");
    drop((source, copy));
    // The session that runs the statement does not count.
    assert_eq!(run(&mut first, "create table own (a int); insert into own values (5)"), "");
    assert_eq!(run(&mut first, "create database c template postgres"), "");
    assert_eq!(run(&mut connect(&database, "c").unwrap(), "select * from own"), "5");
    for name in ["a", "b", "c"] {
        assert_eq!(run(&mut connect(&database, name).unwrap(), "vacuum"), "", "{name}");
    }
    let report = database.check().unwrap();
    assert!(report.violations.is_empty(), "{:#?}", report.violations);
    assert_eq!(run(&mut first, "drop database a"), "");
    assert_eq!(
        run(
            &mut connect(&database, "b").unwrap(),
            "select count(*) from item where note like 'n%'"
        ),
        "396"
    );
}

fn open(vfs: Arc<dyn Vfs>) -> niwaki::Result<Database> {
    let options = Options::new().small_files(true).set("shared_buffers", "256kB");
    Database::open_with(Env { vfs, ..Env::memory() }, options)
}

/// Returns the catalog's description of each database.
fn contents(database: &Database) -> String {
    let said = "select datname, datallowconn, shobj_description(oid, 'pg_database') from pg_database order by 1";
    let mut all = run(&mut database.session(), said);
    for name in run(&mut database.session(), NAMES).split(' ') {
        let Ok(mut session) = connect(database, name) else { continue };
        let rows = run(&mut session, "select * from t order by 1");
        let unlogged = run(&mut session, "select count(*) from u");
        let setting = run(&mut session, "show work_mem");
        all.push_str(&format!("\n{name}: {rows}, {unlogged}, {setting}"));
    }
    all
}

/// Statements, each in the named database, in this order. Each changes the answer of [`contents`].
const STATEMENTS: &[(&str, &str)] = &[
    ("postgres", "create database one"),
    ("one", "create table t (a int primary key, b text); insert into t values (1, 'x')"),
    ("postgres", "create table t (a int); insert into t values (7)"),
    ("one", "insert into t select g, repeat('y', 500) from generate_series(2, 40) g"),
    ("one", "create unlogged table u (a int)"),
    ("one", "create database two"),
    ("two", "create table t (a int)"),
    ("postgres", "comment on database one is 'first'; alter database two set work_mem = '5MB'"),
    ("postgres", "alter database one rename to three"),
    ("three", "alter table t drop column b"),
    ("postgres", "drop database two"),
    ("three", "delete from t where a > 2"),
    ("postgres", "create database four template three"),
    ("four", "insert into t values (50)"),
    ("three", "create database two allow_connections false"),
    ("postgres", "drop database three"),
    ("postgres", "drop table t"),
    ("postgres", "create database one"),
    ("one", "create table t (a int)"),
];

#[test]
fn every_moment_recovers() {
    let vfs = FaultyVfs::new();
    vfs.record();
    let database = open(Arc::new(vfs.clone())).unwrap();
    let begin = vfs.changes();
    // Allowed states: before and after each statement, with the time of its acknowledgement.
    let mut states = vec![(begin, contents(&database))];
    for (name, statement) in STATEMENTS {
        let mut session = connect(&database, name).unwrap();
        assert_eq!(run(&mut session, statement), "", "{statement}");
        drop(session);
        states.push((vfs.changes(), contents(&database)));
    }
    drop(database);
    let images = each_image(
        &vfs,
        |at| at >= begin,
        |at, what, vfs| {
            let database = open(Arc::clone(&vfs)).unwrap_or_else(|e| panic!("{what}: {e}"));
            let report = database.check().unwrap();
            assert!(report.violations.is_empty(), "{what}: {:#?}", report.violations);
            let found = contents(&database);
            // The last state acknowledged by then, or the state of the statement that was running.
            let done = states.iter().rposition(|(end, _)| *end <= at).unwrap_or(0);
            let allowed = &states[done..(done + 2).min(states.len())];
            assert!(allowed.iter().any(|(_, state)| *state == found), "{what}: {found}");
            // Remains of an interrupted statement block no later one.
            let mut session = database.session();
            assert_eq!(run(&mut session, "create database another"), "", "{what}");
            let mut another = connect(&database, "another").unwrap();
            assert_eq!(run(&mut another, "create table t (a int); select * from t"), "", "{what}");
        },
    );
    eprintln!("{images} images");
    assert!(images > 200, "{images}");
}
