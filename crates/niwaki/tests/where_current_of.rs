//! WHERE CURRENT OF a row that moved to another page, or that another session changed.

mod common;

use common::run;
use niwaki::{Database, Session};

/// Creates forty rows, enough to fill the first page.
fn rows(database: &Database) -> Session {
    let mut session = database.session();
    let sql = "create table t (id int primary key, v int, filler text); \
               insert into t select g, 0, repeat('x', 200) from generate_series(1, 40) g";
    assert_eq!(run(&mut session, sql), "");
    session
}

fn begin(session: &mut Session, isolation: &str) {
    let sql = format!(
        "begin isolation level {isolation}; declare c cursor for select id from t where id < 9 order by id"
    );
    assert_eq!(run(session, &sql), "");
}

fn block_of(session: &mut Session, id: u32) -> String {
    let ctid = run(session, &format!("select ctid from t where id = {id}"));
    ctid.split(',').next().unwrap_or_default().to_owned()
}

#[test]
fn a_row_is_followed_to_other_pages() {
    let database = Database::in_memory_without_threads().unwrap();
    let mut session = rows(&database);
    begin(&mut session, "read committed");
    assert_eq!(run(&mut session, "fetch from c"), "1");
    let mut blocks = vec![block_of(&mut session, 1)];
    // The values are too short to be stored out of line.
    for value in 1..10 {
        let bytes = 1500 + 40 * value;
        let sql = format!(
            "update t set v = v + 1, filler = repeat('y', {bytes}) where current of c returning v"
        );
        assert_eq!(run(&mut session, &sql), value.to_string());
        blocks.push(block_of(&mut session, 1));
    }
    blocks.dedup();
    assert!(blocks.len() > 2, "it stayed where it was: {blocks:?}");
    // A version that the savepoint's rollback undid was in another place, too.
    let sql = "savepoint s; update t set v = 0, filler = repeat('z', 1900) where current of c; rollback to s";
    assert_eq!(run(&mut session, sql), "");
    assert_eq!(run(&mut session, "update t set v = v + 1 where current of c returning v"), "10");
    assert_eq!(run(&mut session, "delete from t where current of c returning v"), "10");
    assert_eq!(run(&mut session, "delete from t where current of c returning v"), "");
    assert_eq!(run(&mut session, "fetch from c"), "2");
    assert_eq!(run(&mut session, "commit; select count(*) from t"), "39");
}

#[test]
fn what_others_did_since_is_changed_as_by_any_update() {
    let database = Database::in_memory_without_threads().unwrap();
    let mut session = rows(&database);
    let mut other = database.session();
    let change = "update t set v = v + 1 where current of c returning v";
    begin(&mut session, "read committed");
    for (id, theirs, ours) in [
        (1, "update t set v = 10 where id = 1", "11"),
        (2, "update t set v = 20, filler = repeat('y', 1900) where id = 2", "21"),
        (3, "update t set id = 103 where id = 3", "1"),
        (4, "delete from t where id = 4", ""),
        (5, "delete from t where id = 5; insert into t values (5, 50)", ""),
    ] {
        assert_eq!(run(&mut session, "fetch from c"), id.to_string());
        assert_eq!(run(&mut other, theirs), "");
        assert_eq!(run(&mut session, change), ours, "row {id}");
    }
    assert_eq!(run(&mut session, "rollback"), "");
    begin(&mut session, "repeatable read");
    assert_eq!(run(&mut session, "fetch 2 from c"), "1\n2");
    assert_eq!(run(&mut other, "update t set filler = repeat('z', 1900) where id = 2"), "");
    let refused = "error 40001: could not serialize access due to concurrent update";
    assert_eq!(run(&mut session, change), refused);
}
