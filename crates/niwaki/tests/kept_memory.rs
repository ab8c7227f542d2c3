//! Rows that a statement keeps (its tuplestore) go to files when there is no memory for them.
//!
//! Kept rows once grew up to `work_mem` without asking. When their vector doubled, the session got
//! 53200, or under `ulimit -v` the server ended. A recursive UNION without memory for its table
//! took an eighth of `hash_mem` at once for its filter. This is a test program of its own, because
//! the limit belongs to the process.

#![cfg(target_os = "linux")]

mod common;

use std::alloc::System;

use common::run;
use niwaki::{Database, Options};
use niwaki_env::Env;
use niwaki_env::memory::{self, Counting};
use niwaki_env::sync::thread;

#[global_allocator]
static ALLOCATOR: Counting<System> = Counting(System);

/// Memory of the session, in bytes.
const LIMIT: usize = 64 << 20;

#[test]
fn kept_rows_without_memory_go_to_files() {
    let above = std::env::temp_dir().canonicalize().unwrap();
    let folder = above.join(format!("niwaki-kept-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let database = Database::open_with(Env::os(&folder), Options::new()).unwrap();
    let other = database.clone();
    // The memory of the database itself is not the session's.
    let session = thread::spawn_named("session", move || keep_much(&other)).unwrap();
    session.join().unwrap();
    database.close().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
}

fn keep_much(database: &Database) {
    let mut session = database.session();
    assert_eq!(run(&mut session, "set work_mem = '1GB'"), "");
    memory::set_limit(memory::used().0.max(memory::resident().unwrap_or(0)) + LIMIT);
    let recursive = "with recursive t(n, x) as (select 1, repeat('x', 8000) \
                     union select n + 1, x from t where n < 5000) select count(*) from t";
    assert_eq!(run(&mut session, recursive), "5000");
    // The places of the rows alone take 48 MB.
    let columns = ["g"; 100].join(", ");
    let rows = format!("select {columns} from generate_series(1, 20000) g");
    let held = format!("declare held cursor with hold for {rows}");
    assert_eq!(run(&mut session, &held), "");
    assert_eq!(run(&mut session, "move 19999 from held"), "");
    assert!(run(&mut session, "fetch held").starts_with("20000|20000|"));
    assert_eq!(run(&mut session, "close held"), "");
    let shared = format!("with kept as materialized ({rows}) select count(*) from kept");
    assert_eq!(run(&mut session, &shared), "20000");
}
