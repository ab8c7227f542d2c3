//! Tables and indexes keep their size under insertions that fail, or are rolled back: nobody reads past what they leave.

mod common;

use common::run;
use niwaki::{Database, Options, Session};
use niwaki_env::Env;

const SIZES: &str =
    "select pg_relation_size('t'), pg_relation_size('t_pkey'), pg_relation_size('t_v')";

fn open(env: &Env) -> Database {
    Database::open_with(env.clone(), Options::new().background(false)).unwrap()
}

/// Sizes in blocks after so many turns, and after three times as many.
fn sizes(
    session: &mut Session,
    turns: u32,
    mut turn: impl FnMut(&mut Session, u32),
) -> [Vec<u32>; 2] {
    let mut blocks = |from: u32, to: u32| {
        (from..to).for_each(|number| turn(session, number));
        let sizes = run(session, SIZES);
        sizes.split('|').map(|bytes| bytes.parse::<u32>().unwrap() / 8192).collect()
    };
    [blocks(0, turns), blocks(turns, 3 * turns)]
}

fn filled(database: &Database) -> Session {
    let mut session = database.session();
    for sql in [
        "create table t (id int primary key, v text); create index t_v on t (v)",
        "insert into t select g, repeat('v', 100) || g from generate_series(1, 100) g",
    ] {
        assert_eq!(run(&mut session, sql), "");
    }
    session
}

#[test]
fn insertions_of_keys_that_are_there_take_no_room() {
    let env = Env::memory();
    let database = open(&env);
    let mut session = filled(&database);
    let [early, late] = sizes(&mut session, 1000, |session, number| {
        let sql =
            format!("insert into t values ({}, repeat('w', 100) || {number})", number % 100 + 1);
        assert!(run(session, &sql).contains("23505"));
    });
    assert!(late.iter().zip(&early).all(|(late, early)| *late <= early + 1), "{early:?} {late:?}");
    assert_eq!(run(&mut session, "select count(*), sum(id) from t"), "100|5050");
    assert_eq!(database.check().unwrap().violations, []);
}

#[test]
fn insertions_that_are_rolled_back_take_no_room() {
    let env = Env::memory();
    let database = open(&env);
    let mut session = filled(&database);
    let [early, late] = sizes(&mut session, 1000, |session, number| {
        let sql = format!(
            "begin; insert into t values ({}, repeat('w', 100) || {number}); rollback",
            number + 101
        );
        assert_eq!(run(session, &sql), "");
    });
    assert!(late.iter().zip(&early).all(|(late, early)| *late <= early + 1), "{early:?} {late:?}");
    assert_eq!(run(&mut session, "select count(*), sum(id) from t"), "100|5050");
    assert_eq!(database.check().unwrap().violations, []);
}
