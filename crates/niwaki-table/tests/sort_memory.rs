//! A sort asks for memory before it takes it, and goes on in files where there is none.
//!
//! Its buffer doubled up to `work_mem`, unasked. Where the process may not have that much
//! (`ulimit -v`), the allocation failed, and that ended the server. A test of its own: the limit is
//! the process's.

use std::sync::Arc;

use niwaki_env::{Env, memory};
use niwaki_table::{Error, KeyedRow, KeyedRows, SortSpace, Sorter, TempSpace};

/// Bytes that there are.
const LIMIT: usize = 16 << 20;
/// Rows of a kilobyte, which take far more.
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
