//! A sort reserves memory before it takes it, and goes on in files if it gets none.
//!
//! Regression test: the sort's buffer doubled up to `work_mem` without asking. Where the process
//! may not have that much (`ulimit -v`), the allocation failed, and that ended the server. This is
//! a test binary of its own, as the limit is the process's.

use std::sync::Arc;

use niwaki_env::{Env, memory};
use niwaki_table::{Error, KeyedRow, KeyedRows, SortSpace, Sorter, TempSpace};

/// Bytes of memory that the sort may take.
const LIMIT: usize = 16 << 20;
/// The number of rows of a kilobyte, which need far more memory.
const ROWS: u64 = 40 << 10;

#[test]
fn a_sort_without_memory_goes_on_in_files() {
    memory::set_limit(memory::resident().unwrap_or(0) + LIMIT);
    let files = TempSpace::new(Env::memory(), Arc::default(), Arc::default(), "sort");
    let mut sorter = Sorter::<KeyedRows>::new(SortSpace::new(files, 256 << 20));
    let row = [7_u8; 1 << 10];
    for number in 0..ROWS {
        let record = KeyedRow { key: &[], number, row: &row };
        sorter.push::<Error>(&record, &mut || Ok(())).expect("it needs no more memory");
    }
    assert!(sorter.peak_bytes() <= LIMIT, "{} bytes", sorter.peak_bytes());
    let mut sorted = Sorter::finish::<Error>(vec![sorter], &mut || Ok(())).expect("it is merged");
    let mut found = 0;
    while let Some(record) = sorted.next().expect("it is read") {
        assert_eq!(record.number, found);
        found += 1;
    }
    assert_eq!(found, ROWS);
}
