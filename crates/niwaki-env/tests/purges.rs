//! When a thread that is about to wait for its client, or to be refused, gives memory back.
//!
//! A session that held a megabyte or more gave back before each wait what others had freed, in a
//! server that used half of its memory. And a session of a server that used little did so, once
//! much had been taken and freed. Either takes milliseconds. A session was refused memory, and kept
//! what it had freed, if another one had given back just before. A test of its own: the account,
//! and what is in memory, are the process's.

#![cfg(target_os = "linux")]

use std::hint::black_box;

use niwaki_env::memory::{self, Held};
use niwaki_env::sync::plain_atomic::{AtomicUsize, Ordering};
use niwaki_env::sync::thread;

static PURGES: AtomicUsize = AtomicUsize::new(0);

/// How often memory was given back since the last call.
fn purges() -> usize {
    PURGES.swap(0, Ordering::Relaxed)
}

#[test]
fn who_waits_gives_back_what_it_freed_where_memory_is_scarce() {
    memory::set_purge(|| {
        PURGES.fetch_add(1, Ordering::Relaxed);
    });
    // Far more was taken, and freed, than the limit. Hardly anything is in memory.
    memory::set_limit(1 << 50);
    drop(Held::own(1 << 50));
    memory::waits();
    assert_eq!(purges(), 0, "memory is plenty");

    let touched = black_box(vec![1_u8; 16 << 20]);
    memory::set_limit(16 << 20);
    let held = Held::own(2 << 20);
    memory::waits();
    assert_eq!(purges(), 1, "growing frees what was too small");
    memory::waits();
    assert_eq!(purges(), 0, "nothing has moved since");
    drop(held);
    memory::waits();
    assert_eq!(purges(), 1);
    memory::waits();
    assert_eq!(purges(), 0, "it has freed nothing since");

    // What another thread gave back last says nothing of what this one has freed.
    let held = Held::own(2 << 20);
    thread::spawn_named("other", memory::give_back).unwrap().join().unwrap();
    assert_eq!(purges(), 1);
    assert!(memory::check().is_err());
    assert_eq!(purges(), 1, "who is refused gives back what it freed first");
    assert!(memory::check().is_err());
    assert_eq!(purges(), 0, "it has freed nothing since");
    drop((held, touched));
}
