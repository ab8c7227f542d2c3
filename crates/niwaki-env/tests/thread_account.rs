//! Tests the account of memory with threads that do a part of another thread's work.
//!
//! Once, the account missed a free: a thread frees at its end the memory that starting the thread
//! took. The memory stayed on the account for ever, and on the part of the starting thread. A test
//! of its own: the allocator counts for the whole process.

use std::alloc::System;

use niwaki_env::memory::{self, Counting};
use niwaki_env::stack;

#[global_allocator]
static ALLOCATOR: Counting<System> = Counting(System);

/// Returns the bytes on this thread's part, and on the account of all threads.
fn account() -> [usize; 2] {
    let own = memory::leave();
    memory::join(own);
    [usize::try_from(own).unwrap_or(0), memory::used().0]
}

#[test]
fn threads_for_foreign_code_are_off_the_account() {
    // More stack than this thread has left, so that each call gets a thread.
    let run = |times| (0..times).for_each(|_| stack::of_thread(16 << 20, || ()));
    run(10);
    let before = account();
    run(2_000);
    let after = account();
    // Some words belong to a thread until its end, and came with the part that it left.
    for (at, most) in [256 << 10, 64 << 10].into_iter().enumerate() {
        let (before, after) = (before[at], after[at]);
        assert!(after < before + most, "{before} bytes became {after}");
    }
}
