//! Tests when a thread gives memory back: before it waits for its client, or is refused memory.
//!
//! Once, a server used half of its memory. Before each wait, each session with a megabyte or more
//! gave back the memory that others had freed. A session of a server that used little did
//! so, too, after much had been taken and freed. Either takes milliseconds. Once, a session was
//! refused memory and kept its own freed memory, if another session had given back just before.
//!
//! A test of its own: the account and the resident memory belong to the process.

#![cfg(target_os = "linux")]

use std::hint::black_box;

use niwaki_env::memory::{self, Held};
use niwaki_env::sync::plain_atomic::{AtomicUsize, Ordering};
use niwaki_env::sync::thread;

static PURGES: AtomicUsize = AtomicUsize::new(0);

/// Returns the number of purges since the last call.
fn purges() -> usize {
    PURGES.swap(0, Ordering::Relaxed)
}

#[test]
fn who_waits_gives_back_what_it_freed_where_memory_is_scarce() {
    memory::set_purge(|| {
        PURGES.fetch_add(1, Ordering::Relaxed);
    });
    // Far more memory than the limit was taken and freed. Hardly any is resident.
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

    // Another thread's purge does not free the memory that this thread has freed.
    let held = Held::own(2 << 20);
    thread::spawn_named("other", memory::give_back).unwrap().join().unwrap();
    assert_eq!(purges(), 1);
    assert!(memory::check().is_err());
    assert_eq!(purges(), 1, "who is refused gives back what it freed first");
    assert!(memory::check().is_err());
    assert_eq!(purges(), 0, "it has freed nothing since");
    drop((held, touched));
}
