//! Memory of statements with large rows.
//!
//! A hash join of rows of 10 MB was once refused its memory (53200). Steps take several rows at a
//! time, and counted rows alone, so a thousand rows were in memory, whatever `work_mem` was. Each
//! partition of rows on disk kept one row in memory, too. Now batches end by bytes. This is a test
//! program of its own, because the allocator counts for the whole process.

mod common;

use std::alloc::System;
use std::sync::Arc;
use std::time::Duration;

use common::run;
use niwaki::{Database, Options};
use niwaki_env::Env;
use niwaki_env::clock::{Clock, OsClock};
use niwaki_env::memory::{self, Counting};
use niwaki_env::sync::plain_atomic::{AtomicUsize, Ordering};

#[global_allocator]
static ALLOCATOR: Counting<System> = Counting(System);

/// Notes the most memory that a thread has at a reading of the clock. EXPLAIN ANALYZE reads the
/// clock whenever a step has given rows.
#[derive(Debug, Default)]
struct Watch {
    clock: OsClock,
    most: AtomicUsize,
}

impl Clock for Watch {
    fn now_unix_us(&self) -> i64 {
        self.most.fetch_max(memory::of_thread(), Ordering::Relaxed);
        self.clock.now_unix_us()
    }

    fn monotonic(&self) -> Duration {
        self.clock.monotonic()
    }
}

const HASHED: &str = "set enable_hashjoin = on; set enable_nestloop = off";
const LOOPED: &str = "set enable_hashjoin = off; set enable_nestloop = on";

/// Settings, and the queries that run with them. The rows of `wide` have a megabyte each, 48 MB in
/// all.
const QUERIES: &[(&str, &str)] = &[
    ("", "select id, length(s) from wide"),
    ("", "select count(*), sum(length(s)) from wide where s like 'a%'"),
    ("set enable_seqscan = off", "select length(s) from wide where id > 0 order by id"),
    ("set enable_seqscan = on", "select id from (select id, s from wide order by s desc) x"),
    ("", "select length(s), count(*) from wide group by s"),
    ("", "select length(s) from (select s from wide union select s || id from wide) x"),
    ("", "with w as materialized (select * from wide) select count(*), max(length(s)) from w"),
    ("", "select length(lag(s) over (order by id)) from wide"),
    (HASHED, "select sum(length(a.s) + length(b.s)) from wide a join wide b on a.id = b.id"),
    ("", "select sum(length(a.s)) from wide a left join wide b on a.s = b.s and a.id < b.id"),
    // Many copies of the same few rows, which fit in memory.
    ("set work_mem = '16MB'", "select sum(length(s)) from narrow join few on k = few.id"),
    (LOOPED, "select sum(length(s)) from narrow join wide on k = wide.id"),
];

/// Most memory of a query, in bytes. Some copies of a row are necessary: to read, write and pass it
/// on.
const MOST: usize = 24 << 20;

#[test]
fn batches_of_large_rows_end_by_bytes() {
    let above = std::env::temp_dir().canonicalize().unwrap();
    // Spilled data must not be in memory.
    let folder = above.join(format!("niwaki-wide-rows-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let watch = Arc::new(Watch::default());
    let env = Env { clock: Arc::clone(&watch) as _, ..Env::os(&folder) };
    let database = Database::open_with(env, Options::new()).unwrap();
    let mut s = database.session();
    let setup = "create table wide (id int primary key, s text); \
        insert into wide select i, repeat(chr(97 + i % 26), 1000000) || i from generate_series(1, 48) i; \
        create table few as select * from wide where id < 4; \
        create table narrow as select i, 1 + i % 3 as k from generate_series(1, 300) i; \
        analyze; set work_mem = '1MB'; set hash_mem_multiplier = 1; set enable_mergejoin = off";
    assert_eq!(run(&mut s, setup), "");
    for (settings, query) in QUERIES {
        assert_eq!(run(&mut s, settings), "", "{settings}");
        let before = memory::of_thread();
        watch.most.store(0, Ordering::Relaxed);
        let shown = run(&mut s, &format!("explain (analyze) {query}"));
        let more = watch.most.load(Ordering::Relaxed).saturating_sub(before);
        assert!(shown.contains("actual time"), "{query}: {shown}");
        assert!(more < MOST, "{more} bytes: {query}\n{shown}");
    }
    drop(s);
    database.close().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
}
