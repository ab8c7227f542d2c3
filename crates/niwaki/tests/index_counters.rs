//! Counters of `niwaki_stat_indexes` and similar views: each moves when it should.

mod common;

use common::run;
use niwaki::{Database, Options, Session};
use niwaki_env::Env;

fn database(setup: &str) -> (Database, Session) {
    let database = Database::in_memory_without_threads().unwrap();
    let mut session = database.session();
    assert_eq!(run(&mut session, setup), "");
    (database, session)
}

fn counter(session: &mut Session, index: &str, column: &str) -> i64 {
    let sql = format!("select {column} from niwaki_stat_indexes where indexrelname = '{index}'");
    let answer = run(session, &sql);
    answer.parse().unwrap_or_else(|_| panic!("{index}.{column}: {answer}"))
}

/// Returns how far statements, each a transaction of its own, move some counters of an index.
fn moved<const N: usize>(
    session: &mut Session,
    index: &str,
    columns: [&str; N],
    statements: &[&str],
) -> [i64; N] {
    let before = columns.map(|column| counter(session, index, column));
    for sql in statements {
        let answer = run(session, sql);
        assert!(!answer.contains("error"), "{sql}: {answer}");
    }
    let mut after = columns.map(|column| counter(session, index, column));
    after.iter_mut().zip(before).for_each(|(after, before)| *after -= before);
    after
}

#[test]
fn the_view_has_its_columns_and_a_row_for_each_index() {
    let (_database, mut session) = database(
        "create table t (id int primary key, a int, b int); create index t_a on t (a, b); \
         create schema s; create table s.other (id int unique); create table none (id int)",
    );
    let columns = "select attname from pg_attribute \
                   where attrelid = 'niwaki_stat_indexes'::regclass order by attnum";
    let expected = "relid indexrelid schemaname relname indexrelname inserts leaf_splits \
        leaf_splits_rightmost leaf_splits_default leaf_splits_many_duplicates \
        leaf_splits_single_value leaf_splits_after_new_item leaf_splits_hinted leaf_splits_held inner_splits \
        root_splits leaf_shifts tight_shifts shifted_entries simple_passes simple_useless simple_deleted simple_heap_blocks \
        simple_wal_bytes bottom_up_passes bottom_up_useless bottom_up_deleted \
        bottom_up_heap_blocks bottom_up_useless_blocks bottom_up_heap_blocks_max \
        bottom_up_wal_bytes gardener_deleted gardener_leaf_pages gardener_inner_pages dedup_passes dedup_freed_bytes posting_splits posting_lists_grown \
        pages_merged pages_packed pages_deleted pages_recycled lookups lookup_leaf_pages unique_checks unique_entries_visited \
        pages free_pages latch_hold_us valid";
    let expected: Vec<&str> = expected.split_whitespace().collect();
    assert_eq!(run(&mut session, columns).lines().collect::<Vec<_>>(), expected);
    let names = "select schemaname, relname, indexrelname, relid = i.indrelid \
                 from niwaki_stat_indexes s join pg_index i on i.indexrelid = s.indexrelid \
                 order by indexrelname";
    assert_eq!(
        run(&mut session, names),
        "s|other|other_id_key|t\npublic|t|t_a|t\npublic|t|t_pkey|t"
    );
}

#[test]
fn splits_are_counted_by_cause() {
    let (_database, mut session) = database(
        "create table t (id int, mixed int, grp int, few int, one int, long text); \
         create index t_id on t (id); create index t_mixed on t (mixed); \
         create index t_grp on t (grp, id); create index t_few on t (few); \
         create index t_one on t (one); create index t_long on t (long)",
    );
    let fill = "insert into t select g, g * 7919 % 20011, g / 7 % 30, g % 3, 1, null \
                from generate_series(1, 20000) g";
    assert_eq!(run(&mut session, fill), "");
    for (index, cause) in [
        ("t_id", "rightmost"),
        ("t_mixed", "default"),
        ("t_grp", "after_new_item"),
        ("t_few", "many_duplicates"),
        ("t_one", "single_value"),
    ] {
        let split = counter(&mut session, index, &format!("leaf_splits_{cause}"));
        assert!(split > 0, "{index}: {cause}");
        assert_eq!(counter(&mut session, index, "root_splits"), 1, "{index}");
        let sum = "leaf_splits - leaf_splits_rightmost - leaf_splits_default \
                   - leaf_splits_many_duplicates - leaf_splits_single_value \
                   - leaf_splits_after_new_item";
        assert_eq!(counter(&mut session, index, sum), 0, "{index}");
        assert_eq!(counter(&mut session, index, "leaf_splits_hinted"), 0, "{index}");
        assert_eq!(counter(&mut session, index, "inner_splits"), 0, "{index}");
    }
    // With keys in random order, some entries find room on the right sibling. Where an index grows
    // at an end, or one key fills it, none do.
    let shifts = |session: &mut Session, index| {
        ["leaf_shifts", "shifted_entries"].map(|column| counter(session, index, column))
    };
    let [shifted, entries] = shifts(&mut session, "t_mixed");
    assert!(shifted > 0 && entries > 10 * shifted, "{shifted} {entries}");
    assert_eq!(counter(&mut session, "t_mixed", "tight_shifts"), 0, "nothing was deleted");
    for index in ["t_id", "t_grp", "t_one"] {
        assert_eq!(shifts(&mut session, index), [0, 0], "{index}");
    }
    // Pivot tuples that cannot be truncated fill inner pages soon.
    let long = "insert into t (long) select repeat('x', 1500) || g from generate_series(1, 300) g";
    let [inner, roots] = moved(&mut session, "t_long", ["inner_splits", "root_splits"], &[long]);
    assert!(inner > 5 && roots > 1, "{inner} {roots}");
}

#[test]
fn deduplication_is_counted() {
    let (_database, mut session) = database("create table t (id int, one int)");
    assert_eq!(run(&mut session, "create index t_one on t (one)"), "");
    let columns = ["dedup_passes", "dedup_freed_bytes", "posting_splits"];
    let fill = "insert into t select g, 1 from generate_series(1, 5000) g";
    let [passes, freed, inside] = moved(&mut session, "t_one", columns, &[fill]);
    assert!(passes > 0 && freed > 1000 && inside == 0, "{passes} {freed} {inside}");
    // Places in the middle of a posting list become free and are taken again.
    let again = [
        "delete from t where id between 300 and 400",
        "vacuum t",
        "insert into t select g, 1 from generate_series(1, 1000) g",
    ];
    let [_, _, inside] = moved(&mut session, "t_one", columns, &again);
    assert!(inside > 10, "{inside}");
}

#[test]
fn pages_that_leave_the_tree_and_come_back_are_counted() {
    let (_database, mut session) = database(
        "create table t (id int primary key); \
         insert into t select generate_series(1, 20000)",
    );
    let columns = ["pages_deleted", "pages_recycled"];
    let gone = ["delete from t where id between 2000 and 15000", "vacuum t"];
    let [deleted, recycled] = moved(&mut session, "t_pkey", columns, &gone);
    assert!(deleted > 10 && recycled == 0, "{deleted} {recycled}");
    let more = "insert into t select generate_series(20001, 30000)";
    let [deleted, recycled] = moved(&mut session, "t_pkey", columns, &[more]);
    assert!(deleted == 0 && recycled > 10, "{deleted} {recycled}");
}

#[test]
fn a_lookup_is_counted_where_all_key_columns_are_given() {
    let (_database, mut session) = database(
        "create table t (id int primary key, a int, b int); create index t_ab on t (a, b); \
         insert into t select g, g / 10, g % 10 from generate_series(0, 19999) g; analyze t; \
         set enable_seqscan = off; set enable_bitmapscan = off",
    );
    let columns = ["lookups", "lookup_leaf_pages"];
    for (index, condition, lookups) in [
        ("t_pkey", "id = 4711", 1),
        ("t_pkey", "id = 20001", 1),
        ("t_pkey", "id > 19990", 0),
        ("t_pkey", "id in (1, 2)", 0),
        ("t_ab", "a = 3 and b = 7", 1),
        ("t_ab", "a = 3", 0),
        ("t_ab", "a = 3 and b > 7", 0),
    ] {
        let sql = format!("select * from t where {condition}");
        assert_eq!(moved(&mut session, index, columns, &[&sql]), [lookups; 2], "{condition}");
    }
    // Each key needs one leaf visit, whichever plan reads it.
    let all = "select count(*) from t x where exists (select 1 from t y where y.id = x.id)";
    let _ = run(&mut session, all);
    let each = "prepare one as select a from t where id = $1";
    assert_eq!(run(&mut session, each), "");
    let [lookups, leaves] = columns;
    let before = [lookups, leaves].map(|column| counter(&mut session, "t_pkey", column));
    for id in 0..2000 {
        assert_eq!(run(&mut session, &format!("execute one ({})", id * 10)), id.to_string());
    }
    let after = [lookups, leaves].map(|column| counter(&mut session, "t_pkey", column));
    assert_eq!([after[0] - before[0], after[1] - before[1]], [2000, 2000]);
}

#[test]
fn unique_checks_and_what_they_visit_are_counted() {
    let (database, mut session) = database(
        "create table t (id int primary key, v int) with (heap_only_updates = off); \
         insert into t select g, 0 from generate_series(1, 100) g",
    );
    let columns = ["unique_checks", "unique_entries_visited"];
    let insert = "insert into t values (1000, 0)";
    assert_eq!(moved(&mut session, "t_pkey", columns, &[insert]), [1, 0]);
    // The old snapshot keeps the version that it sees. The version is checked each time.
    let mut old = database.session();
    let begin = "begin isolation level repeatable read; select count(*) from t";
    assert_eq!(run(&mut old, begin), "101");
    let update = "update t set v = v + 1 where id = 7";
    // A version that no snapshot saw is dead at once, whatever came before it.
    for visited in [1, 2, 2, 2] {
        assert_eq!(moved(&mut session, "t_pkey", columns, &[update]), [1, visited]);
    }
}

#[test]
fn scans_and_blocks_are_counted_for_each_index() {
    let (_database, mut session) = database(
        "create table t (id int primary key, a int); create index t_a on t (a); \
         insert into t select g, g / 10 from generate_series(1, 5000) g; \
         set enable_seqscan = off; set enable_bitmapscan = off",
    );
    let scans = "select indexrelname, idx_scan, idx_tup_read from pg_stat_user_indexes \
                 order by indexrelname";
    assert_eq!(run(&mut session, scans), "t_a|0|0\nt_pkey|0|0");
    assert_eq!(run(&mut session, "select count(*) from t where a = 44"), "10");
    assert_eq!(run(&mut session, "select a from t where id = 44"), "4");
    assert_eq!(run(&mut session, "select a from t where id = 45"), "4");
    assert_eq!(run(&mut session, scans), "t_a|1|10\nt_pkey|2|2");
}

/// The count covers blocks that came from the disk: none while the pool has them.
#[test]
fn blocks_read_are_counted_for_each_file() {
    let env = Env::memory();
    let open = || Database::open_with(env.clone(), Options::new()).unwrap();
    let database = open();
    let mut session = database.session();
    let setup = "create table t (id int primary key, a int); create index t_a on t (a); \
                 insert into t select g, g from generate_series(1, 5000) g";
    assert_eq!(run(&mut session, setup), "");
    let table = "select heap_blks_read, idx_blks_read from pg_statio_user_tables";
    assert_eq!(run(&mut session, table), "0|0");
    drop(session);
    database.close().unwrap();

    let database = open();
    let mut session = database.session();
    let own = "select idx_blks_read from pg_statio_user_indexes where indexrelname = 't_pkey'";
    assert_eq!(
        run(&mut session, "set enable_bitmapscan = off; select a from t where id = 77"),
        "77"
    );
    let first = run(&mut session, table);
    let (heap, index) = first.split_once('|').unwrap();
    assert!((1..=2).contains(&heap.parse::<i64>().unwrap()), "{first}");
    assert!((2..=4).contains(&index.parse::<i64>().unwrap()), "{first}");
    assert_eq!(run(&mut session, own), index, "none of the other index's");
    assert_eq!(run(&mut session, "select a from t where id = 77"), "77");
    assert_eq!(run(&mut session, table), first, "in the pool by now");
}

#[test]
fn passes_of_simple_deletion_are_counted() {
    let (_database, mut session) = database(
        "create table t (id int, n int) with (heap_only_updates = off); \
         create index t_id on t (id); \
         insert into t select g, 0 from generate_series(1, 200) g; \
         set enable_seqscan = off; set enable_bitmapscan = off",
    );
    // The gardener does not learn of rows that live on in another place.
    assert_eq!(run(&mut session, "update t set n = 1 where id % 2 = 0"), "");
    // A scan finds the entries dead and marks them. Versions that the scan pruned itself are marked
    // only when the prune is flushed.
    for _ in 0..2 {
        assert_eq!(run(&mut session, "select count(id) from t where id > 0"), "200");
        assert_eq!(run(&mut session, "checkpoint"), "");
    }
    let columns = [
        "simple_passes",
        "simple_useless",
        "simple_deleted",
        "simple_heap_blocks",
        "simple_wal_bytes",
        "leaf_splits",
    ];
    let fill = "insert into t select g, 0 from generate_series(1, 200) g";
    let [passes, useless, deleted, blocks, bytes, splits] =
        moved(&mut session, "t_id", columns, &[fill]);
    assert_eq!((passes, useless, deleted, splits), (1, 0, 100, 0));
    assert!((1..=3).contains(&blocks), "{blocks}");
    assert!((1..64 + 2 * 100).contains(&bytes), "{bytes}");
    let held = run(&mut session, "select latch_hold_us from niwaki_stat_indexes");
    assert_eq!(held.split_once(':').map(|(_, passes)| passes), Some("1"), "{held}");
}

#[test]
fn passes_of_bottom_up_deletion_are_counted() {
    let (_database, mut session) = database(
        "create table t (id int primary key, v int) with (heap_only_updates = off); \
         create index t_id on t (id); insert into t select g, 0 from generate_series(1, 100) g",
    );
    let columns = [
        "bottom_up_passes",
        "bottom_up_useless",
        "bottom_up_deleted",
        "bottom_up_heap_blocks",
        "bottom_up_useless_blocks",
        "bottom_up_wal_bytes",
        "leaf_splits",
        "leaf_splits_hinted",
    ];
    let updates: Vec<String> =
        (0..2000).map(|n| format!("update t set v = v + 1 where id = {}", 1 + n % 100)).collect();
    let updates: Vec<&str> = updates.iter().map(String::as_str).collect();
    let [passes, useless, deleted, blocks, useless_blocks, bytes, splits, hinted] =
        moved(&mut session, "t_id", columns, &updates);
    assert!(passes > 0 && deleted > 100 && blocks >= passes && bytes > 0, "{passes} {deleted}");
    assert_eq!((useless, useless_blocks, splits, hinted), (0, 0, 0, 0));
    let most = counter(&mut session, "t_id", "bottom_up_heap_blocks_max");
    assert!((1..=6).contains(&most), "{most}");
    // A transaction cannot remove its own stale entries, and row headers show that before a visit.
    assert_eq!(run(&mut session, "begin"), "");
    let [_, useless, _, _, useless_blocks, _, splits, hinted] =
        moved(&mut session, "t_id", columns, &updates[..1000]);
    assert!(useless <= 1 && useless_blocks == useless, "{useless} {useless_blocks}");
    assert!(splits > 0 && hinted == splits, "{splits} {hinted}");
    assert_eq!(run(&mut session, "commit"), "");
    // When the option is off, nothing is tried.
    assert_eq!(run(&mut session, "alter index t_id set (bottom_up_deletion = off)"), "");
    let [passes, ..] = moved(&mut session, "t_id", columns, &updates);
    assert_eq!(passes, 0);
}
