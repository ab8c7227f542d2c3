//! A hash table asks for memory before it takes the memory, and uses files when there is none.
//!
//! Hash tables once doubled up to `hash_mem` without asking. Where the process may not have that
//! much (`ulimit -v`), the allocation failed and ended the server. This is a test program of its
//! own, because the limit belongs to the process.

mod common;

use common::run;
use niwaki::Database;
use niwaki_env::memory;

/// Queries whose hash tables would take 40 MB.
const QUERIES: [&str; 2] = [
    "select count(*) from (select repeat('x', 1000) || g from generate_series(1, 40000) g \
     group by 1) d",
    "select count(*) from generate_series(1, 40000) a join generate_series(1, 40000) b \
     on repeat('x', 1000) || a = repeat('x', 1000) || b",
];

#[test]
fn a_hash_table_without_memory_goes_on_in_files() {
    let database = Database::in_memory_without_threads().unwrap();
    let mut session = database.session();
    let plenty = "set work_mem = '256MB'; set enable_sort = off; set enable_mergejoin = off; \
                  set enable_nestloop = off";
    assert_eq!(run(&mut session, plenty), "");
    memory::set_limit(memory::resident().unwrap_or(0) + (16 << 20));
    for query in QUERIES {
        assert_eq!(run(&mut session, query), "40000", "{query}");
        let explain = format!("explain (analyze, costs off, timing off) {query}");
        let shown = run(&mut session, &explain);
        assert!(shown.contains("Batches: ") && !shown.contains("Batches: 1 "), "{shown}");
    }
}
