//! Large values through SQL: files that are created and dropped with their table, sizes, crashes,
//! limits.

use niwaki::{Database, Datum, Options, Session};
use niwaki_env::Env;

/// Returns SQL for a text of `times` times 32 letters, which does not compress.
fn noise(seed: i32, times: i32) -> String {
    format!("(select string_agg(md5((i * {seed})::text), '') from generate_series(1, {times}) i)")
}

fn run(s: &mut Session, sql: &str) {
    s.execute(sql, ()).unwrap_or_else(|error| panic!("{sql}: {error}"));
}

fn one(s: &mut Session, sql: &str) -> String {
    let rows = s.query(sql, ()).unwrap_or_else(|error| panic!("{sql}: {error}"));
    match &rows.into_iter().next().expect("a row")[0] {
        Datum::Int8(v) => v.to_string(),
        Datum::Int4(v) => v.to_string(),
        Datum::Text(t) => t.to_string(),
        other => format!("{other:?}"),
    }
}

fn code(s: &mut Session, sql: &str) -> &'static str {
    s.execute(sql, ()).expect_err(sql).sqlstate
}

fn assert_sound(db: &Database) {
    assert_eq!(db.check().unwrap().violations, []);
}

#[test]
fn values_survive_crashes_and_clean_stops() {
    let env = Env::memory();
    let db = Database::open_with(env.clone(), Options::new()).unwrap();
    let mut s = db.session();
    run(&mut s, "create table t (id int primary key, body text)");
    run(&mut s, "create unlogged table u (id int primary key, body text)");
    run(&mut s, &format!("insert into t values (1, {})", noise(1, 2_000)));
    run(&mut s, &format!("insert into u values (1, {})", noise(1, 2_000)));
    run(&mut s, &format!("insert into t values (2, {})", noise(2, 2_000)));
    run(&mut s, &format!("update t set body = {} where id = 2", noise(3, 100)));
    let expected = one(&mut s, "select string_agg(md5(body), ',' order by id) from t");
    run(&mut s, "begin");
    run(&mut s, &format!("update t set body = {}", noise(4, 1_000)));
    // The handle is dropped without a close. The next opening finds the files that a killed process
    // leaves.
    drop(s);
    drop(db);
    let db = Database::open_with(env.clone(), Options::new()).unwrap();
    let mut s = db.session();
    assert_eq!(one(&mut s, "select string_agg(md5(body), ',' order by id) from t"), expected);
    assert_eq!(one(&mut s, "select count(*) from u"), "0");
    run(&mut s, &format!("insert into u values (1, {})", noise(5, 2_000)));
    assert_sound(&db);
    run(&mut s, "vacuum t");
    assert_sound(&db);
    drop(s);
    db.close().unwrap();
    let db = Database::open_with(env, Options::new()).unwrap();
    let mut s = db.session();
    assert_eq!(one(&mut s, "select string_agg(md5(body), ',' order by id) from t"), expected);
    assert_eq!(one(&mut s, "select length(body) from u"), "64000");
    run(&mut s, "analyze t");
    assert_sound(&db);
}

#[test]
fn files_of_values_come_and_go_with_their_table() {
    let db = Database::in_memory_without_threads().unwrap();
    let mut s = db.session();
    let size = |s: &mut Session, of: &str| one(s, &format!("select {of}")).parse::<u64>().unwrap();
    run(&mut s, "create table t (id int)");
    run(&mut s, "insert into t values (1)");
    run(&mut s, "alter table t add column body text");
    run(&mut s, &format!("update t set body = {}", noise(1, 3_000)));
    let heap = size(&mut s, "pg_relation_size('t')");
    assert!(heap <= 16_384, "the row is small");
    assert!(size(&mut s, "pg_table_size('t')") >= heap + 96_000);
    assert!(size(&mut s, "pg_total_relation_size('t')") >= heap + 96_000);

    run(&mut s, "begin");
    run(&mut s, "truncate t");
    assert!(size(&mut s, "pg_table_size('t')") < 96_000);
    run(&mut s, &format!("insert into t values (2, {})", noise(2, 3_000)));
    run(&mut s, "rollback");
    assert_eq!(one(&mut s, "select length(body) from t where id = 1"), "96000");
    run(&mut s, "truncate t");
    assert_eq!(size(&mut s, "pg_table_size('t')"), 0);
    run(&mut s, &format!("insert into t values (2, {})", noise(2, 3_000)));
    assert_eq!(one(&mut s, "select length(body) from t"), "96000");

    run(&mut s, "begin");
    run(&mut s, "alter table t add column more text");
    run(&mut s, &format!("update t set more = {}", noise(3, 3_000)));
    run(&mut s, "rollback");
    run(&mut s, "begin");
    run(&mut s, "drop table t");
    run(&mut s, "rollback");
    assert_eq!(one(&mut s, "select length(body) from t"), "96000");
    assert_sound(&db);
    let files = || db.env().vfs.list("base").unwrap().len();
    let before = files();
    run(&mut s, "drop table t");
    assert!(files() <= before - 2, "the table's own, and that of its values");
}

#[test]
fn keys_are_whole_values() {
    let db = Database::in_memory_without_threads().unwrap();
    let mut s = db.session();
    run(&mut s, "create table t (id int primary key, body text, unique (body))");
    assert_eq!(code(&mut s, &format!("insert into t values (1, {})", noise(1, 100))), "54000");
    assert_eq!(code(&mut s, "insert into t values (1, repeat('x', 3000))"), "54000");
    // These values are compressed in their rows, and whole in the index.
    run(&mut s, "insert into t values (1, repeat('x', 2500)), (2, repeat('y', 2500))");
    assert_eq!(code(&mut s, "insert into t values (3, repeat('x', 2500))"), "23505");
    assert_eq!(one(&mut s, "select id from t where body = repeat('y', 2500)"), "2");
    run(&mut s, "update t set body = repeat('z', 2500) where id = 1");
    run(&mut s, "insert into t values (3, repeat('x', 2500))");
    assert_eq!(one(&mut s, "select id from t where body = repeat('x', 2500)"), "3");
    assert_eq!(code(&mut s, "update t set body = repeat('y', 2500) where id = 3"), "23505");
    assert_sound(&db);
    run(&mut s, "create table e (id int, body text)");
    run(&mut s, &format!("insert into e values (1, {}), (2, {})", noise(1, 500), noise(2, 500)));
    run(&mut s, "create unique index e_md5 on e (md5(body))");
    run(&mut s, "create index e_left on e (left(body, 10)) include (id)");
    assert_eq!(code(&mut s, "insert into e select 3, body from e where id = 1"), "23505");
    assert_eq!(code(&mut s, "create index e_body on e (body)"), "54000");
    run(&mut s, "update e set body = body || 'x' where id = 1");
    run(&mut s, "create index concurrently e_length on e (length(body))");
    assert_eq!(one(&mut s, "select id from e where length(body) = 16001"), "1");
    assert_sound(&db);
}

#[test]
fn a_row_too_wide_for_pointers_is_refused() {
    let db = Database::in_memory_without_threads().unwrap();
    let mut s = db.session();
    let columns: Vec<String> = (0..400).map(|number| format!("c{number} text")).collect();
    run(&mut s, &format!("create table t ({})", columns.join(", ")));
    let values = vec!["repeat(md5('a') || md5('b'), 1)"; 400].join(", ");
    assert_eq!(code(&mut s, &format!("insert into t values ({values})")), "54000");
    assert_eq!(one(&mut s, "select pg_table_size('t')"), "0");
    let values = vec!["'fits'"; 400].join(", ");
    run(&mut s, &format!("insert into t values ({values})"));
}

/// TOAST chunks of a key value were once removed as soon as no snapshot saw them. The key of the
/// version that had the value was then unknown. All its entries stayed, and 40 rows had an index of
/// 50 MB.
#[test]
fn an_index_of_values_out_of_line_keeps_its_size() {
    let db = Database::in_memory_without_threads().unwrap();
    let mut s = db.session();
    run(&mut s, "create table t (id int primary key, k text)");
    run(&mut s, "create index t_k on t (k)");
    run(&mut s, "insert into t select g, 'k' || g from generate_series(1, 40) g");
    let mut sizes = Vec::new();
    for turn in 0..3 {
        for number in 0..400 {
            let key = noise(1000 * turn + number, 75);
            run(&mut s, &format!("update t set k = {key} where id = {}", number % 40 + 1));
        }
        sizes.push(one(&mut s, "select pg_relation_size('t_k')").parse::<u64>().unwrap());
    }
    assert!(sizes[2] < 2 * sizes[0], "{sizes:?}");
    assert_sound(&db);
}

/// Endless replacement of large values does not fill the disk, with or without VACUUM.
#[test]
fn a_queue_of_large_values_keeps_its_size() {
    let db = Database::in_memory_without_threads().unwrap();
    let mut s = db.session();
    run(&mut s, "create table q (id int primary key, body text)");
    let size = |s: &mut Session| one(s, "select pg_table_size('q')").parse::<u64>().unwrap();
    let mut sizes = Vec::new();
    for id in 0..200 {
        run(&mut s, &format!("insert into q values ({id}, {})", noise(id + 1, 1_000)));
        run(&mut s, &format!("delete from q where id = {}", id - 3));
        if id % 50 == 49 {
            sizes.push(size(&mut s));
        }
    }
    assert!(sizes.iter().all(|&size| size < 500_000), "{sizes:?}");
    assert_eq!(one(&mut s, "select count(*) from q"), "3");
    assert_sound(&db);
}
