//! When a thread that is about to wait for its client gives memory back to the system.
//!
//! A session that held a megabyte or more gave back before each wait what others had freed, in a
//! server that used half of its memory. And a session of a server that used little did so, once
//! much had been taken and freed. Either takes milliseconds. A test of its own: the account, and
//! what is in memory, are the process's.

#![cfg(target_os = "linux")]

use std::hint::black_box;

use niwaki_env::memory::{self, Held};
use niwaki_env::sync::plain_atomic::{AtomicUsize, Ordering};

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
    // Far more was taken, and freed, than half of the limit. Hardly anything is in memory.
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
    drop(touched);
}
