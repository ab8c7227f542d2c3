//! The memory account of a session with parallel workers.
//!
//! The memory of a parallel worker once counted on the session's part of the account. Then the
//! worker gave some of it back: its step, with the step's buffers. That memory stayed on the
//! session's part for ever, until the session was refused all memory (53200). This is a test
//! program of its own, because the allocator counts for the whole process.

mod common;

use std::alloc::System;

use common::run;
use niwaki::{Database, Options};
use niwaki_env::Env;
use niwaki_env::memory::{self, Counting};

#[global_allocator]
static ALLOCATOR: Counting<System> = Counting(System);

/// Returns the bytes on this thread's part.
fn own() -> isize {
    let own = memory::leave();
    memory::join(own);
    own
}

#[test]
fn what_helpers_give_back_is_off_the_account_of_the_session() {
    let database = Database::open_with(Env::memory(), Options::new().background(true)).unwrap();
    let mut session = database.session();
    for statement in [
        "create table t (a int, b int, c text)",
        "insert into t select i, i % 10, 'word ' || i % 90 from generate_series(1, 10000) i",
        "analyze t",
        "set min_parallel_table_scan_size = 0",
        "set max_parallel_workers_per_gather = 3",
    ] {
        run(&mut session, statement);
    }
    // Workers hand over batches, and groups are added up.
    let mut queries = |times: usize| {
        for _ in 0..times {
            assert_eq!(run(&mut session, "select a from t where c = 'word 7' and a < 90"), "7");
            assert_eq!(run(&mut session, "select sum(a) from t where c = 'word 7'"), "560224");
        }
    };
    queries(10);
    let before = own();
    queries(100);
    let more = own() - before;
    assert!(more < 512 << 10, "{more} bytes more");
}
