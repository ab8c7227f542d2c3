//! Costs of the gardener, counted in pages, and the size of a table after mass deletion and
//! automatic maintenance.

mod common;

use common::run;
use niwaki::{Database, Session};

/// Runs a statement that returns nothing.
fn exec(session: &mut Session, sql: &str) {
    assert_eq!(run(session, sql), "", "{sql}");
}

/// Rows of the tables here. Each table has some 170 pages and four indexes: one on a key in order,
/// two in random order, and one on long keys.
const ROWS: i64 = 20_000;

fn filled() -> (Database, Session) {
    filled_with(64)
}

/// Creates the table with keys of `long` bytes in the index of long ones.
fn filled_with(long: usize) -> (Database, Session) {
    let database = Database::in_memory_without_threads().unwrap();
    let mut session = database.session();
    let rows = format!(
        "insert into t select g, g::bigint * 7919 % 20011, g::bigint * 1047 % 10007, repeat(md5(g::text), {}) \
         from generate_series(1, 20000) g",
        long / 32
    );
    for sql in [
        "create table t (id int primary key, a int, b int, c text)",
        &rows,
        "create index t_a on t (a)",
        "create index t_b on t (b)",
        "create index t_c on t (c)",
        "vacuum t",
    ] {
        exec(&mut session, sql);
    }
    (database, session)
}

/// Runs rounds until nothing is left to do.
fn clean_up(database: &Database) {
    (0..12).for_each(|_| database.clean_up().unwrap());
}

fn of_table<const N: usize>(session: &mut Session, columns: [&str; N]) -> [i64; N] {
    columns.map(|column| {
        let sql = format!("select {column} from niwaki_stat_tables where relname = 't'");
        run(session, &sql).parse().unwrap()
    })
}

/// Returns the sums of some counters over all indexes of the table.
fn of_indexes<const N: usize>(session: &mut Session, columns: [&str; N]) -> [i64; N] {
    columns.map(|column| {
        let sql = format!("select sum({column}) from niwaki_stat_indexes where relname = 't'");
        run(session, &sql).parse().unwrap()
    })
}

fn checked(session: &mut Session) {
    let blocks = run(session, "select niwaki_check('t')");
    assert!(blocks.parse::<u32>().is_ok(), "{blocks}");
}

const VISITS: [&str; 2] = ["gardener_leaf_pages", "gardener_inner_pages"];

/// Deletes one row in two hundred, anywhere: one on a page, and one on each leaf.
#[test]
fn deleted_rows_cost_two_pages_a_row_and_index_at_most() {
    let (database, mut session) = filled();
    exec(&mut session, "delete from t where id % 200 = 7");
    assert_eq!(of_table(&mut session, ["gardener_told", "gardener_waiting"]), [0, 0]);
    clean_up(&database);
    let told = ["gardener_told", "gardener_forgotten", "gardener_waiting", "line_pointers_freed"];
    assert_eq!(of_table(&mut session, told), [100, 0, 0, 100]);
    // The pass over the pages saw that no version has the keys. No new row took the line pointers
    // since.
    let done = ["gardener_deleted", "gardener_heap_pages"];
    assert_eq!(of_table(&mut session, done), [400, 0]);
    let [leaf, inner] = of_indexes(&mut session, VISITS);
    assert!((200..=400).contains(&leaf), "{leaf}");
    // Each of these indexes has one inner page. It is visited once for each leaf, and once more at
    // the beginning of a batch.
    assert!((leaf..leaf + 4 * 3).contains(&inner), "{inner} for {leaf}");
    assert!(leaf + inner <= 2 * 400, "{leaf} + {inner}");
    assert_eq!(of_indexes(&mut session, ["gardener_deleted"]), [400]);
    checked(&mut session);
}

/// Does the same, with cleanup by the next writers.
#[test]
fn writers_that_tend_visit_as_few() {
    let (_database, mut session) = filled();
    exec(&mut session, "delete from t where id % 10 = 7");
    // Readers' passes run on pages with little free space, and these pages have little.
    assert_eq!(run(&mut session, "select count(*) from t"), "18000");
    // The last page has free space, so it gets no pass.
    let [told, waiting] = of_table(&mut session, ["gardener_told", "gardener_waiting"]);
    assert!((1980..=2000).contains(&told) && waiting == 4 * told, "{told}, {waiting}");
    // Each writer removes some waiting entries. No insertion needs more than its own page of the
    // heap.
    for id in 1..=160 {
        exec(&mut session, &format!("insert into t values ({}, 0, 0, 'x')", ROWS + id));
    }
    let [deleted, heap] = of_table(&mut session, ["gardener_deleted", "gardener_heap_pages"]);
    // The entries that wait for one index may be too few for a visit.
    assert!((3 * told..=4 * told).contains(&deleted), "{deleted}");
    // These heap visits come from rows in line pointers that share their counter with an entry's
    // root.
    assert!(heap <= deleted / 100, "{heap} of {deleted}");
    let [leaf, inner] = of_indexes(&mut session, VISITS);
    assert!(leaf + inner + heap <= 2 * deleted + 4, "{leaf} + {inner} + {heap} for {deleted}");
    checked(&mut session);
}

/// An update changes one key of four. Only the old version's entry in that index is removed, and no
/// page of the other indexes is visited.
#[test]
fn an_updated_key_costs_its_own_index_alone() {
    let (database, mut session) = filled();
    exec(&mut session, "update t set a = a + 100000 where id % 200 = 7");
    clean_up(&database);
    let of = |session: &mut Session, index: &str| {
        let sql = format!(
            "select gardener_deleted, gardener_leaf_pages > 0 from niwaki_stat_indexes \
             where indexrelname = '{index}'"
        );
        run(session, &sql)
    };
    let rows = of_table(&mut session, ["heap_only"])[0];
    assert_eq!(of(&mut session, "t_a"), format!("100|t"));
    let others = of_table(&mut session, ["gardener_deleted"])[0] - 100;
    // A row that found no room on its page left an entry in each index.
    assert_eq!(others, 3 * (100 - rows));
    if rows == 100 {
        assert_eq!(of(&mut session, "t_c"), "0|f");
    }
    checked(&mut session);
}

/// Returns each index's pages in use, and its pages after a REINDEX.
fn sizes(session: &mut Session) -> Vec<(f64, f64)> {
    let used = "select pages - free_pages from niwaki_stat_indexes where relname = 't' \
                order by indexrelname";
    let read = |session: &mut Session| -> Vec<f64> {
        run(session, used).lines().map(|line| line.parse().unwrap()).collect()
    };
    let before = read(session);
    exec(session, "reindex table t");
    before.into_iter().zip(read(session)).collect()
}

fn assert_small(session: &mut Session) {
    checked(session);
    for (used, fresh) in sizes(session) {
        assert!(used <= 1.3 * fresh, "{used} pages, {fresh} of a fresh build");
    }
}

const RANDOM_80: &str = "delete from t where id::bigint * 48271 % 20011 < 16009";
const FIRST_80: &str = "delete from t where id <= 16000";

#[test]
fn most_rows_deleted_and_seen_to_by_the_gardener_alone() {
    for delete in [RANDOM_80, FIRST_80] {
        let (database, mut session) = filled();
        exec(&mut session, delete);
        clean_up(&database);
        let [told, forgotten, waiting] =
            of_table(&mut session, ["gardener_told", "gardener_forgotten", "gardener_waiting"]);
        assert!((15_900..=16_100).contains(&told), "{told}");
        assert_eq!((forgotten, waiting), (0, 0), "more than its queue has room for at once");
        assert_small(&mut session);
    }
}

#[test]
fn most_rows_deleted_and_seen_to_by_autovacuum_alone() {
    for delete in [RANDOM_80, FIRST_80] {
        let (database, mut session) = filled();
        exec(&mut session, delete);
        let report = database.maintain().unwrap();
        assert!(report.iter().any(|of| of.table == "t" && of.vacuumed), "{report:?}");
        assert_eq!(of_table(&mut session, ["line_pointers_freed", "gardener_deleted"]), [0, 0]);
        // The gardener's queue gets no rows of the vacuum. The exception is rows of the first
        // pages, when VACUUM might have left the indexes out.
        assert!(of_table(&mut session, ["gardener_told"])[0] < 16_000 / 20);
        assert_small(&mut session);
    }
}

/// Readers prune faster than cleanup runs. They pause while half of the queue is taken, and no
/// entry is forgotten.
#[test]
fn readers_prune_no_more_than_there_is_room_for() {
    let (database, mut session) = filled_with(320);
    exec(&mut session, RANDOM_80);
    let of_queue = ["gardener_told", "gardener_forgotten", "gardener_waiting"];
    let mut before = 0;
    for _ in 0..4 {
        assert_eq!(run(&mut session, "select count(*) from t"), "4000");
        let [told, forgotten, waiting] = of_table(&mut session, of_queue);
        assert_eq!(forgotten, 0);
        assert!(told > before || told > 15_900, "{told}, {before} before");
        if before == 0 {
            assert!(told < 12_000 && waiting > 5_000, "{told}, {waiting} wait");
        }
        before = told;
        clean_up(&database);
        assert_eq!(of_table(&mut session, of_queue)[2], 0);
    }
    let [freed, deleted] = of_table(&mut session, ["line_pointers_freed", "gardener_deleted"]);
    assert!(freed > 15_900 && deleted == 4 * freed, "{freed}, {deleted}");
    let left = "select dead_line_pointers, mixed_chains from niwaki_chain_stats('t')";
    assert_eq!(run(&mut session, left), "0|0");
    assert_small(&mut session);
}

/// Readers have filled the queue, and only writers work it off. Each removes more from the queue
/// than it adds.
#[test]
fn writers_work_off_a_full_queue() {
    let (_database, mut session) = filled_with(320);
    exec(&mut session, RANDOM_80);
    assert_eq!(run(&mut session, "select count(*) from t"), "4000");
    let [forgotten, full] = of_table(&mut session, ["gardener_forgotten", "gardener_waiting"]);
    assert!(forgotten == 0 && full > 5_000, "{forgotten}, {full}");
    // A writer takes 64 entries of an index at once. Collected entries wait while their bytes are
    // less than a twelfth of the index.
    for id in 0..full / 50 {
        exec(&mut session, &format!("insert into t values ({}, 0, 0, 'x')", 2 * ROWS + id));
    }
    let [later, waiting, deleted] =
        of_table(&mut session, ["gardener_forgotten", "gardener_waiting", "gardener_deleted"]);
    assert_eq!(later, forgotten, "nothing more is lost");
    assert!(waiting < 2_000 && deleted > full * 9 / 10, "{waiting} of {full} wait, {deleted} went");
    checked(&mut session);
}

/// An idle database costs nothing, however many tables it has: a round visits only changed tables.
#[test]
fn rounds_come_to_tables_that_were_changed() {
    let (database, mut session) = filled();
    for number in 0..50 {
        let sql = format!(
            "create table s{number} (id int primary key); insert into s{number} values (1)"
        );
        exec(&mut session, &sql);
    }
    clean_up(&database);
    let rounds = "select sum(rounds) from niwaki_stat_tables where relname <> 't'";
    let others = run(&mut session, rounds);
    let visits = of_table(&mut session, ["rounds"]);
    clean_up(&database);
    assert_eq!(run(&mut session, rounds), others, "nothing is left to do in any");
    assert_eq!(of_table(&mut session, ["rounds"]), visits);
    exec(&mut session, "delete from t where id % 200 = 7");
    clean_up(&database);
    assert_eq!(run(&mut session, rounds), others);
    let more = of_table(&mut session, ["rounds"])[0] - visits[0];
    assert!((2..12).contains(&more), "{more}");
    // A table that a transaction creates and fills is found when the transaction has committed.
    exec(
        &mut session,
        "begin; create table late (g int); insert into late select generate_series(1, 9000)",
    );
    clean_up(&database);
    exec(&mut session, "commit");
    clean_up(&database);
    let hidden = "select count(*) from pg_visibility_map('late') where not all_visible";
    assert_eq!(run(&mut session, hidden), "0");
}

/// Tables too small for a visibility map are cleaned too, when no session reads or writes them
/// again.
#[test]
fn small_tables_are_clean_after_a_while() {
    let database = Database::in_memory_without_threads().unwrap();
    let mut session = database.session();
    exec(&mut session, "create table t (id int primary key, k int); create index on t (k)");
    exec(&mut session, "insert into t select g, g from generate_series(1, 500) g");
    exec(&mut session, "update t set k = k + 1000 where id % 10 = 0");
    exec(&mut session, "delete from t where id % 7 = 0");
    exec(
        &mut session,
        "begin; insert into t select g, g from generate_series(501, 600) g; rollback",
    );
    let mut report = database.session();
    run(&mut report, "begin isolation level repeatable read; select count(*) from t");
    exec(&mut session, "delete from t where id % 11 = 0");
    clean_up(&database);
    let rows = "select chains from niwaki_chain_stats('t')";
    assert_eq!(run(&mut session, rows), "429", "the report sees them");
    let rounds = of_table(&mut session, ["rounds"]);
    run(&mut report, "commit");
    clean_up(&database);
    assert_ne!(of_table(&mut session, ["rounds"]), rounds);
    let chains = "select chains, mixed_chains, dead_line_pointers, versions_max \
                  from niwaki_chain_stats('t')";
    assert_eq!(run(&mut session, chains), "390|0|0|1");
    let stale = "select dead_entries + stale_entries from niwaki_stale_entries('t') limit 1";
    assert_eq!(run(&mut session, stale), "0");
    let rounds = of_table(&mut session, ["rounds"]);
    clean_up(&database);
    assert_eq!(of_table(&mut session, ["rounds"]), rounds, "nothing is left to do");
    checked(&mut session);
}

/// Beside a report, growing values are written into random rows, as with the time of the last
/// change. Leaves that are left half empty must be filled again before their number varies much, so
/// that the file keeps its size.
#[test]
fn an_index_of_times_of_changes_keeps_its_size() {
    const ROWS: u64 = 10_000;
    let database = Database::in_memory_without_threads().unwrap();
    let mut session = database.session();
    exec(&mut session, "create table t (id int primary key, at bigint)");
    exec(&mut session, &format!("insert into t select g, 0 from generate_series(1, {ROWS}) g"));
    exec(&mut session, "create index t_at on t (at, id)");
    let report = || {
        let mut old = database.session();
        run(&mut old, "begin isolation level repeatable read; select count(*) from t where id = 1");
        old
    };
    let (mut old, mut x, mut time) = (report(), 88_172_645_463_325_252_u64, 0);
    let mut pages = [0; 5];
    for window in &mut pages {
        for _ in 0..3 * ROWS {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            time += 1;
            let id = x % ROWS + 1;
            exec(&mut session, &format!("update t set at = {time} where id = {id}"));
            if time % 100 == 0 {
                database.clean_up().unwrap();
            }
        }
        let size = "select pages from niwaki_stat_indexes where indexrelname = 't_at'";
        *window = run(&mut session, size).parse::<i64>().unwrap();
        let next = report();
        run(&mut old, "commit");
        old = next;
    }
    let [first, .., last] = pages;
    assert!(last <= first + 1, "{pages:?}");
    checked(&mut session);
}
