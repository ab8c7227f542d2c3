//! Cleanup after the last writers of a table, without VACUUM, when no session writes the table
//! again.

mod common;

use common::run;
use niwaki::{Database, Options, Session};
use niwaki_env::Env;

/// Creates a table with a visibility map: it has forty pages and more.
fn filled() -> (Database, Session) {
    let database = Database::in_memory_without_threads().unwrap();
    let session = fill(&database);
    (database, session)
}

fn fill(database: &Database) -> Session {
    let mut session = database.session();
    for sql in [
        "create table t (id int primary key, k int, note text)",
        "create index t_k on t (k)",
        "insert into t select g, g * 7919 % 10007, repeat('n', 60) from generate_series(1, 5000) g",
    ] {
        assert_eq!(run(&mut session, sql), "");
    }
    session
}

/// Runs rounds until nothing is left to do.
fn clean_up(database: &Database) {
    (0..6).for_each(|_| database.clean_up().unwrap());
}

/// Query for the pages that are not all-visible.
const HIDDEN: &str = "select blkno from pg_visibility_map('t') where not all_visible";

/// Returns the heap fetches of an index-only scan of all rows.
fn heap_fetches(session: &mut Session) -> String {
    for setting in ["enable_seqscan", "enable_bitmapscan"] {
        run(session, &format!("set {setting} = off"));
    }
    let plan = run(
        session,
        "explain (analyze, costs off, timing off) select count(k) from t where k >= 0",
    );
    assert!(plan.contains("Index Only Scan"), "{plan}");
    let line = plan.lines().find_map(|line| line.trim().strip_prefix("Heap Fetches: "));
    line.unwrap_or_else(|| panic!("{plan}")).to_owned()
}

const LEFT: &str = "select dead_line_pointers, mixed_chains, \
                    (select gardener_waiting from niwaki_stat_tables where relname = 't') \
                    from niwaki_chain_stats('t')";

#[test]
fn pages_that_nobody_changes_any_more_are_shown_to_all() {
    let (database, mut session) = filled();
    clean_up(&database);
    assert_eq!(run(&mut session, HIDDEN), "");
    assert_eq!(heap_fetches(&mut session), "0", "freshly loaded, never vacuumed");
    // Some rows move, because the pages are full, and some rows get another key.
    run(&mut session, "update t set note = repeat('m', 60) where id % 100 = 0");
    run(&mut session, "update t set k = k + 20000 where id % 97 = 0");
    run(&mut session, "delete from t where id % 89 = 0");
    clean_up(&database);
    assert_eq!(run(&mut session, LEFT), "0|0|0");
    assert_eq!(heap_fetches(&mut session), "0");
    let blocks = run(&mut session, "select niwaki_check('t')");
    assert!(blocks.parse::<u32>().is_ok(), "{blocks}");
    assert_eq!(run(&mut session, "select count(*), count(distinct k) from t"), "4944|4944");
}

#[test]
fn what_an_old_snapshot_sees_stays_until_it_ends() {
    let (database, mut session) = filled();
    let mut report = database.session();
    run(&mut report, "begin isolation level repeatable read");
    let sum = "select sum(k), count(*) from t";
    let before = run(&mut report, sum);
    run(&mut session, "update t set k = k + 20000 where id % 10 = 0");
    clean_up(&database);
    assert_eq!(run(&mut report, sum), before);
    assert_ne!(run(&mut session, sum), before);
    assert_ne!(heap_fetches(&mut session), "0");
    run(&mut report, "commit");
    clean_up(&database);
    assert_eq!(run(&mut session, LEFT), "0|0|0");
    assert_eq!(heap_fetches(&mut session), "0");
}

/// A queue beside a report. The report's snapshot sees none of the jobs that came and went since it
/// began, and no session visits their pages again.
#[test]
fn what_came_and_went_behind_an_old_snapshot_goes() {
    let (database, mut session) = filled();
    clean_up(&database);
    let mut report = database.session();
    run(&mut report, "begin isolation level repeatable read");
    let sum = "select sum(k), count(*) from t";
    let before = run(&mut report, sum);
    let insert = "insert into t select g, g, repeat('n', 60) from generate_series(5001, 8000) g";
    for sql in [insert, "delete from t where id > 5000", "delete from t where id <= 500"] {
        run(&mut session, sql);
    }
    let gone = "select pruned_by_interval from niwaki_stat_tables where relname = 't'";
    let pruned = run(&mut session, gone).parse::<u32>().unwrap();
    clean_up(&database);
    // Of the versions that share a page with rows that stay, there may be too few for a pass.
    let pruned = run(&mut session, gone).parse::<u32>().unwrap() - pruned;
    assert!((2950..=3000).contains(&pruned), "{pruned}");
    assert_eq!(run(&mut report, sum), before);
    assert_eq!(run(&mut session, "select count(*) from t"), "4500");
    let size = "select pg_relation_size('t')";
    let full = run(&mut session, size);
    run(&mut session, insert);
    assert_eq!(run(&mut session, size), full, "others take their places");
    run(&mut report, "commit");
}

/// A transaction that creates its indexes and then changes keys, as a migration does.
#[test]
fn what_a_transaction_leaves_that_makes_its_indexes_is_seen_to() {
    let database = Database::in_memory_without_threads().unwrap();
    let mut session = database.session();
    for sql in [
        "begin; create table t (id int primary key, k int); create index t_k on t (k)",
        "insert into t select g, g from generate_series(1, 50) g",
        "update t set k = k + 1000",
        "commit",
    ] {
        assert_eq!(run(&mut session, sql), "");
    }
    (0..2).for_each(|_| clean_up(&database));
    assert_eq!(run(&mut session, LEFT), "0|0|0");
    assert_eq!(run(&mut session, "select count(*), min(k) from t"), "50|1001");
    assert_eq!(database.check().unwrap().violations, []);
}

/// While a session writes all the time, some leaves always wait for cleanup.
#[test]
fn leaves_of_an_index_that_grows_at_its_end_are_packed_while_somebody_writes() {
    let (database, mut session) = filled();
    clean_up(&database);
    let packed =
        "select indexrelname from niwaki_stat_indexes where relname = 't' and pages_packed > 0";
    assert_eq!(run(&mut session, packed), "");
    run(&mut session, "delete from t where id % 4 <> 0");
    (0..2).for_each(|_| database.clean_up().unwrap());
    let waiting = "select gardener_waiting from niwaki_stat_tables where relname = 't'";
    let mut id = 0;
    for round in 1..=12 {
        // One more round than the last time: entries that have waited for a round are removed.
        for _ in 0..2 * round {
            id += 4;
            run(&mut session, &format!("delete from t where id = {id}"));
        }
        database.clean_up().unwrap();
        assert_ne!(run(&mut session, waiting), "0", "round {round}");
    }
    assert_eq!(run(&mut session, packed), "t_pkey");
    (0..2).for_each(|_| clean_up(&database));
    assert_eq!(run(&mut session, LEFT), "0|0|0");
}

/// Right after the end of an old snapshot, a report meets on each page the versions that the
/// snapshot kept. Unless they are held back, its passes leave more stale entries than the queue can
/// hold, and no writer is there to remove them.
#[test]
fn a_report_does_not_have_entries_forgotten() {
    let database = Database::in_memory_without_threads().unwrap();
    let mut session = database.session();
    for sql in [
        "create table t (id int primary key, k text) with (fillfactor = 45)",
        "create index t_k on t (k)",
        "insert into t select g, lpad(g::text, 600, 'k') from generate_series(1, 9000) g",
    ] {
        assert_eq!(run(&mut session, sql), "");
    }
    let mut old = database.session();
    run(&mut old, "begin isolation level repeatable read");
    assert_eq!(run(&mut old, "select count(*) from t"), "9000");
    assert_eq!(run(&mut session, "update t set k = lpad(id::text, 600, 'l')"), "");
    run(&mut old, "commit");
    let told = "select gardener_told > 1000, gardener_forgotten from niwaki_stat_tables where relname = 't'";
    for _ in 0..3 {
        assert_eq!(run(&mut session, "select count(*), min(length(k)) from t"), "9000|600");
    }
    assert_eq!(run(&mut session, told), "t|0");
    (0..20).for_each(|_| database.clean_up().unwrap());
    assert_eq!(run(&mut session, LEFT), "0|0|0");
    assert_eq!(run(&mut session, told), "t|0");
    let entries = "select k from t where k < 'l' limit 1";
    run(&mut session, "set enable_seqscan = off");
    assert_eq!(run(&mut session, entries), "");
    let report = database.check().unwrap();
    assert!(report.violations.is_empty(), "{:#?}", report.violations);
}

#[test]
fn it_is_in_nobodys_way() {
    let (database, mut session) = filled();
    let mut definer = database.session();
    run(&mut definer, "begin");
    run(&mut definer, "lock table t in access exclusive mode");
    clean_up(&database);
    run(&mut definer, "alter table t add column more int");
    run(&mut definer, "commit");
    clean_up(&database);
    assert_eq!(heap_fetches(&mut session), "0");
    run(&mut session, "drop table t");
    clean_up(&database);
    let sessions = run(
        &mut session,
        "select count(*) from pg_stat_activity where backend_type = 'client backend'",
    );
    assert_eq!(sessions, "2", "it is no client");
}

/// The cost of the resident visibility map is measured against reading its pages. The answers must
/// be the same.
#[test]
fn the_map_is_the_same_on_its_pages_alone() {
    let options = Options::new().set("visibility_map_pin", "per_access");
    let database = Database::open_with(Env::memory(), options).unwrap();
    let mut session = fill(&database);
    run(&mut session, "vacuum t");
    assert_eq!(run(&mut session, HIDDEN), "");
    assert_eq!(heap_fetches(&mut session), "0");
    let memory = "select bytes from niwaki_visibility_map_memory('t')";
    assert_eq!(run(&mut session, memory), "0");
    run(&mut session, "update t set note = 'm' where id = 7");
    let changed = "select all_visible, all_frozen from pg_visibility_map('t') limit 1";
    assert_eq!(run(&mut session, changed), "f|f");
    let (_database, mut session) = filled();
    run(&mut session, "vacuum freeze t");
    let frozen = "select all_visible = all_frozen and all_visible = pg_relation_size('t') / 8192 \
                  from pg_visibility_map_summary('t')";
    assert_eq!(run(&mut session, frozen), "t");
    assert_eq!(run(&mut session, memory), "256");
}

/// The visibility map misses no changes that were made while it was turned off.
#[test]
fn without_a_map_what_it_said_before_is_taken_back() {
    let env = Env::memory();
    let open = |pin: &str| {
        let options = Options::new().set("visibility_map_pin", pin);
        Database::open_with(env.clone(), options).unwrap()
    };
    let database = open("resident");
    let mut session = fill(&database);
    run(&mut session, "vacuum t");
    drop(session);
    database.close().unwrap();
    let database = open("off");
    let mut session = database.session();
    run(&mut session, "delete from t where id <= 100");
    run(&mut session, "vacuum t");
    assert_ne!(run(&mut session, HIDDEN), "", "nothing new is said");
    drop(session);
    database.close().unwrap();
    let database = open("resident");
    let mut session = database.session();
    assert_ne!(run(&mut session, HIDDEN), "");
    assert_ne!(heap_fetches(&mut session), "0");
    assert_eq!(run(&mut session, "select count(k) from t where k >= 0"), "4900");
    let blocks = run(&mut session, "select niwaki_check('t')");
    assert!(blocks.parse::<u32>().is_ok(), "{blocks}");
}

/// 1.0 and 1.00 are one key in different bytes. The entry of the removed version then belongs to
/// the newer version.
#[test]
fn a_key_written_otherwise_keeps_its_entry() {
    let database = Database::in_memory_without_threads().unwrap();
    let mut session = database.session();
    for sql in [
        "create table t (id int primary key, n numeric, u int, s text) with (fillfactor = 40)",
        "create index t_n on t (n)",
        "create index t_u on t (u)",
        "create index t_s on t (s)",
        // Long texts are compressed in some versions and not in others.
        "insert into t select g, g + 0.5, g, repeat('s', 1000) || g from generate_series(1, 200) g",
        "update t set n = n + 0.000, u = u + 1000, s = s || ''",
    ] {
        assert_eq!(run(&mut session, sql), "");
    }
    clean_up(&database);
    run(&mut session, "update t set n = n - 0.00000, u = u - 1000");
    clean_up(&database);
    for setting in ["enable_seqscan", "enable_bitmapscan"] {
        run(&mut session, &format!("set {setting} = off"));
    }
    let by_index = "select count(*), min(n), sum(u) from t where n > 0";
    let plan = run(&mut session, &format!("explain (costs off) {by_index}"));
    assert!(plan.contains("Index Scan using t_n"), "{plan}");
    assert_eq!(run(&mut session, by_index), "200|1.50000|20100");
    assert_eq!(run(&mut session, "select count(*) from t where u between 1 and 200"), "200");
    assert_eq!(run(&mut session, "select count(*) from t where s > ''"), "200");
    run(&mut session, "select niwaki_check('t')");
    assert_eq!(run(&mut session, LEFT), "0|0|0", "nothing is left for VACUUM");
}

/// A failed CONCURRENTLY statement once left an index behind, and the table was never clean again.
/// Dead line pointers and chains with several keys stayed until VACUUM. Only `pg_index` showed the
/// index.
#[test]
fn an_index_that_was_left_behind_keeps_nothing_from_settling() {
    let (database, mut session) = filled();
    // All notes are equal, so the build fails.
    let unique = run(&mut session, "create unique index concurrently t_note on t (note)");
    assert!(unique.contains("could not create unique index"), "{unique}");
    // A reader locks the table, so the drop waits, and gives up while the index still takes
    // entries.
    let mut reader = database.session();
    run(&mut reader, "begin; select count(*) from t");
    run(&mut session, "set statement_timeout = '50ms'");
    let dropped = run(&mut session, "drop index concurrently t_k");
    assert!(dropped.contains("canceling statement due to statement timeout"), "{dropped}");
    run(&mut session, "set statement_timeout = 0");
    run(&mut reader, "commit");
    let invalid = "select indexrelname from niwaki_stat_indexes where not valid order by 1";
    assert_eq!(run(&mut session, invalid), "t_k\nt_note");
    let report = database.check().unwrap();
    assert_eq!(report.violations, []);
    assert_eq!(
        report.invalid_indexes,
        ["index \"t_k\" of table \"t\"", "index \"t_note\" of table \"t\"",]
    );
    run(&mut session, "update t set k = k + 20000, note = id::text where id % 97 = 0");
    run(&mut session, "delete from t where id % 89 = 0");
    clean_up(&database);
    assert_eq!(run(&mut session, LEFT), "0|0|0");
    assert_eq!(database.check().unwrap().violations, []);
    // Afterwards these indexes are as good as new ones.
    run(&mut session, "delete from t where note = repeat('n', 60)");
    for index in ["t_note", "t_k"] {
        assert_eq!(run(&mut session, &format!("reindex index {index}")), "");
    }
    assert_eq!(run(&mut session, invalid), "");
    assert_eq!(database.check().unwrap().violations, []);
}
