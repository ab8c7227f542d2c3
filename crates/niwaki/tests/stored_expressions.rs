//! Stored expressions across statements: reopened data directories, older plans, indexes built
//! beside writers, COPY, temporary objects.

mod common;

use std::sync::Arc;

use common::{Lines, run};
use niwaki::{Database, Options, Session};
use niwaki_env::Env;
use niwaki_env::vfs::{MemoryVfs, Vfs};

/// Statements for two schemas with the same names for different objects, and a table in the first.
const TWO: &[&str] = &[
    "create schema a; create schema b",
    "create function a.f(int) returns int language sql immutable as 'select $1 + 1000'",
    "create function b.f(int) returns int language sql immutable as 'select $1 + 2000'",
    "create type a.mood as enum ('sad', 'ok'); create type b.mood as enum ('ok', 'sad')",
    "create sequence a.s start 100; create sequence b.s start 200",
    "create domain a.d as int default 1 check (value < 5000); create domain b.d as int check (value < 0)",
    "set search_path = a",
    "create table t (id int default nextval('s'), x int default f(1), m mood default 'ok', y int default 7::d, \
     z int generated always as (case when m > 'sad' then 1 else 0 end) stored, check (f(x) < 4000 and m >= 'sad'))",
    "create index t_ok on t (id) where m = 'ok'",
    "create index t_key on t ((case m when 'ok' then 'fine' else 'not' end))",
];

fn execute(session: &mut Session, statements: &[&str]) {
    for statement in statements {
        assert_eq!(run(session, statement), "", "{statement}");
    }
}

fn open(vfs: &Arc<dyn Vfs>) -> Database {
    let env = Env { vfs: Arc::clone(vfs), ..Env::memory() };
    Database::open_with(env, Options::new().small_files(true)).unwrap()
}

#[test]
fn a_database_that_is_opened_again_reads_what_was_meant() {
    let vfs: Arc<dyn Vfs> = Arc::new(MemoryVfs::new());
    {
        let database = open(&vfs);
        execute(&mut database.session(), TWO);
    }
    let insert = "insert into a.t default values returning id between 100 and 199, x, m, y, z";
    {
        let database = open(&vfs);
        let mut session = database.session();
        assert_eq!(run(&mut session, "set search_path = b"), "");
        assert_eq!(run(&mut session, insert), "t|1001|ok|7|1");
        let refused = run(&mut session, "insert into a.t (x) values (3000)");
        assert!(refused.starts_with("error 23514"), "{refused}");
        let renames = [
            "alter function a.f(int) rename to g; alter function b.f(int) set schema public",
            "alter type a.mood rename value 'ok' to 'well'; alter schema a rename to c",
        ];
        execute(&mut session, &renames);
        assert_eq!(database.check().unwrap().violations, []);
    }
    let database = open(&vfs);
    let mut session = database.session();
    let insert = insert.replace("a.t", "c.t");
    assert_eq!(run(&mut session, &insert), "t|1001|well|7|1");
    execute(
        &mut session,
        &["set enable_seqscan = off", "insert into c.t (id, m) values (1, 'sad')"],
    );
    // Both indexes were read again without access to a catalog.
    let of_index = "select count(*) from c.t where m = 'well' and id > 0";
    assert_eq!(run(&mut session, of_index), "2");
    let plan = run(&mut session, &format!("explain (costs off) {of_index}"));
    assert!(plan.contains("t_ok"), "{plan}");
    let of_key = "select id from c.t where (case m when 'well' then 'fine' else 'not' end) = 'not'";
    assert_eq!(run(&mut session, of_key), "1");
    let plan = run(&mut session, &format!("explain (costs off) {of_key}"));
    assert!(plan.contains("t_key"), "{plan}");
    assert_eq!(database.check().unwrap().violations, []);
}

#[test]
fn plans_follow_what_is_renamed_and_replaced() {
    let database = Database::in_memory_without_threads().unwrap();
    let mut session = database.session();
    execute(&mut session, TWO);
    execute(&mut session, &["prepare i as insert into a.t (id) values ($1) returning x, m"]);
    assert_eq!(run(&mut session, "execute i(1)"), "1001|ok");
    let mut other = database.session();
    execute(&mut other, &["alter function a.f(int) rename to g; set search_path = b"]);
    assert_eq!(run(&mut session, "execute i(2)"), "1001|ok");
    let replaced =
        "create or replace function a.g(int) returns int language sql immutable as 'select $1 + 1'";
    execute(&mut other, &[replaced]);
    assert_eq!(run(&mut session, "execute i(3)"), "2|ok");
    assert_eq!(run(&mut session, "set search_path = b; execute i(4)"), "2|ok");
}

#[test]
fn indexes_are_built_beside_writers() {
    let database = Database::in_memory_without_threads().unwrap();
    let mut session = database.session();
    execute(&mut session, TWO);
    execute(&mut session, &["insert into t (m) select 'sad' from generate_series(1, 50)"]);
    execute(&mut session, &["create index concurrently t_sad on t (x) where m = 'sad'"]);
    execute(&mut session, &["set search_path = b", "reindex table concurrently a.t"]);
    execute(&mut session, &["insert into a.t (m) values ('sad'); set enable_seqscan = off"]);
    let counted = "select count(*) from a.t where m = 'sad' and x > 0";
    assert_eq!(run(&mut session, counted), "51");
    assert!(run(&mut session, &format!("explain (costs off) {counted}")).contains("t_sad"));
    // The other type has a label of the same name.
    let other = "select count(*) from a.t where m::text::b.mood = 'sad'";
    assert!(!run(&mut session, &format!("explain (costs off) {other}")).contains("t_sad"));
    assert_eq!(database.check().unwrap().violations, []);
}

#[test]
fn copy_fills_defaults_under_another_path() {
    let database = Database::in_memory_without_threads().unwrap();
    let mut session = database.session();
    execute(&mut session, TWO);
    execute(&mut session, &["set search_path = b"]);
    let mut lines = Lines::default();
    lines.copy = b"1\n2\n".to_vec();
    session.simple_query("copy a.t (id) from stdin", &mut lines).unwrap();
    assert_eq!(run(&mut session, "select * from a.t order by id"), "1|1001|ok|7|1\n2|1001|ok|7|1");
}

#[test]
fn temporary_tables_name_what_is_temporary() {
    let database = Database::in_memory_without_threads().unwrap();
    let mut session = database.session();
    execute(
        &mut session,
        &[
            "create sequence s start 5; create temp sequence s start 50",
            "create temp table t (a int default nextval('s'), b int default nextval('public.s'))",
            "alter sequence pg_temp.s rename to own; alter sequence public.s rename to others",
        ],
    );
    assert_eq!(run(&mut session, "insert into t default values returning *"), "50|5");
    let refused = run(&mut session, "drop sequence own");
    assert!(
        refused.contains("default value for column a of table t depends on sequence own"),
        "{refused}"
    );
}

#[test]
fn what_is_not_there_is_refused_by_name() {
    let database = Database::in_memory_without_threads().unwrap();
    let mut session = database.session();
    execute(
        &mut session,
        &[
            "create type mood as enum ('sad', 'ok'); create type pair as (a int, b text)",
            "create function f(int) returns int language sql immutable as 'select $1'",
            "create table t (a int, m mood[] default '{sad}')",
        ],
    );
    let refused = [
        ("create index on t (f(a))", "a function of a user in index expression"),
        (
            "create index on t (a) where row(a, 'x')::pair is not null",
            "a type where its definition is not at hand",
        ),
        (
            "alter type mood rename value 'sad' to 'blue'",
            "RENAME VALUE of a label that a default or check of table t says",
        ),
    ];
    for (statement, what) in refused {
        let expected = format!("error 0A000: {what} is not supported yet");
        assert_eq!(run(&mut session, statement), expected, "{statement}");
    }
}
