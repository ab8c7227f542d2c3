//! Sessions with silent clients give the memory back that they have freed.
//!
//! Sessions that listened, or had a timeout for idle sessions, once kept that memory. An allocator
//! keeps some megabytes for each thread, and no other thread can give them back. Hundreds of such
//! sessions left no memory to working sessions.

#[expect(dead_code, reason = "one test needs a part of it")]
mod common;

use std::alloc::System;

use common::{Client, LONG, database, start};
use niwaki_env::memory::{Counting, set_purge};
use niwaki_env::sync::{Condvar, Mutex};

#[global_allocator]
static ALLOCATOR: Counting<System> = Counting(System);

/// Number of times that memory was given back.
static PURGES: Mutex<u32> = Mutex::new(0);
static PURGED: Condvar = Condvar::new();

fn purge() {
    *PURGES.lock() += 1;
    PURGED.notify_all();
}

#[test]
fn a_session_with_a_silent_client_gives_back_what_it_freed() {
    set_purge(purge);
    let database = database();
    let server = start(&database);
    for kind in ["select 1", "set idle_session_timeout = '1h'", "listen news"] {
        let mut client = Client::ready(&server, "postgres");
        client.run(kind);
        let before = *PURGES.lock();
        let length = client.run("select length(repeat(pg_backend_pid()::text || 'x', 1000000))");
        assert!(length.is_some());
        let mut purges = PURGES.lock();
        while *purges == before {
            let waited = PURGED.wait_for(&mut purges, LONG);
            assert!(!waited.timed_out(), "nothing was given back after {kind}");
        }
    }
    drop(server.stop());
}
