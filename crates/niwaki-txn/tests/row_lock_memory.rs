//! Memory use of shared row locks.
//!
//! Once, a million of them took about 250 bytes each, and that was the bound of the whole server
//! (53200). Now locks of the rows of one page take one bit each. A test of its own: the allocator
//! counts for the whole process.

#![cfg(not(any(feature = "shuttle", feature = "loom")))]

mod support;

use std::alloc::System;
use std::sync::Arc;

use niwaki_env::Env;
use niwaki_env::memory::{self, Counting};
use niwaki_storage::{RelFileId, Tid};
use niwaki_txn::{
    BeginOptions, Result, RowKey, RowLockMode, TransactionLog, TransactionManager, TxnOptions,
};
use support::CountingLog;

#[global_allocator]
static ALLOCATOR: Counting<System> = Counting(System);

/// Returns the bytes for each lock of `rows` rows on each of `pages` pages.
fn bytes_per_lock(pages: u32, rows: u16) -> usize {
    let manager = TransactionManager::new(Env::memory(), TxnOptions::default());
    manager.attach_log(Arc::new(CountingLog::default())).unwrap();
    let session = manager.register_session().unwrap();
    let transaction = manager.begin(&session, BeginOptions::default()).unwrap();
    let (before, _) = memory::used();
    for block in 0..pages {
        for offset in 1..=rows {
            let root = Tid::new(block, offset);
            let row = RowKey { file: RelFileId(20), root, incarnation: 0 };
            assert!(manager.locks().try_lock_row(&transaction, row, RowLockMode::Share).unwrap());
        }
    }
    let (after, _) = memory::used();
    drop(transaction);
    assert!(!manager.locks().any_row_locks());
    let (left, _) = memory::used();
    assert!(left < before + (1 << 20), "{} bytes stay behind", left - before);
    (after - before) / (pages as usize * usize::from(rows))
}

#[test]
fn row_locks_take_little_memory() {
    // Rows of about 30, 80 and 350 bytes; and one row on each page.
    let taken = [200, 100, 20, 1].map(|rows| bytes_per_lock(20_000, rows));
    for (taken, most) in taken.into_iter().zip([2, 3, 13, 250]) {
        assert!((1..=most).contains(&taken), "{taken} bytes, and not at most {most}");
    }
}
