//! The memory account beside threads that the program starts itself.
//!
//! A thread reports its memory to the account in steps of 64 kB. A thread that ended earlier once
//! reported nothing. A session that one thread opened and another one dropped stayed on the account
//! for ever, until every session was refused memory (53200). This is a test program of its own,
//! because the allocator counts for the whole process.

mod common;

use std::alloc::System;

use common::run;

use niwaki::Database;
use niwaki_env::memory::{self, Counting};
use niwaki_env::sync::thread;

#[global_allocator]
static ALLOCATOR: Counting<System> = Counting(System);

#[test]
fn sessions_that_other_threads_drop_are_off_the_account() {
    let database = Database::in_memory_without_threads().unwrap();
    let use_one = |_| {
        let mut session = database.session();
        session.execute("prepare p as select relname, relkind, oid from pg_class", ()).unwrap();
        thread::spawn(move || drop(session)).join().unwrap();
    };
    (0..20).for_each(use_one);
    let (before, _) = memory::used();
    (0..500).for_each(use_one);
    let (after, _) = memory::used();
    // Each thread may be a little off.
    assert!(after.abs_diff(before) < 512 << 10, "{before} bytes became {after}");

    let mut session = database.session();
    let shown = "select session > 0, used >= session, allowed is null from niwaki_memory";
    assert_eq!(run(&mut session, shown), "t|t|t");
    let resident = run(&mut session, "select resident > 1000000 from niwaki_memory");
    assert_eq!(resident, if cfg!(target_os = "linux") { "t" } else { "NULL" });
}
