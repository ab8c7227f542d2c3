//! Indexes that are built, changed and dropped beside other sessions. Queries must give the
//! same as on a table without indexes.

mod common;

use common::run;
use niwaki::{Database, Options, Session};
use niwaki_env::Env;
use niwaki_env::sync::thread;
use niwaki_env::vfs::OpenMode;

fn database(setup: &str) -> (Database, Session) {
    let database = Database::in_memory_without_threads().unwrap();
    let mut session = database.session();
    assert_eq!(run(&mut session, setup), "");
    (database, session)
}

fn check(database: &Database) {
    let report = database.check().unwrap();
    assert!(report.violations.is_empty(), "{:#?}", report.violations);
}

/// Waits until the view of index builds satisfies the condition.
fn until_progress(watcher: &mut Session, question: &str) {
    let sql = format!("select count(*) from pg_stat_progress_create_index where {question}");
    // Ends: the build reaches this state soon, or the test runner's own limit strikes.
    while run(watcher, &sql) != "1" {
        thread::yield_now();
    }
}

#[test]
fn a_concurrent_build_waits_for_old_writers_and_nobody_waits_for_it() {
    let (database, mut old) = database(
        "create table t (id int primary key, v int); \
         insert into t select i, i % 5 from generate_series(1, 300) i",
    );
    let mut new = database.session();
    let mut watcher = database.session();
    assert_eq!(run(&mut old, "begin; update t set v = 77 where id = 1"), "");
    let mut builder = database.session();
    let pid = old.id();
    let build = thread::spawn(move || run(&mut builder, "create index concurrently t_v on t (v)"));
    until_progress(
        &mut watcher,
        &format!(
            "phase = 'waiting for writers before build' and lockers_total = 1 \
             and lockers_done = 0 and current_locker_pid = {pid}"
        ),
    );
    // Other transactions begin and end meanwhile, and the old one goes on.
    assert_eq!(
        run(&mut new, "insert into t values (1000, 77); update t set v = 78 where id = 2"),
        ""
    );
    assert_eq!(run(&mut new, "begin; update t set v = 79 where id = 3"), "");
    assert_eq!(run(&mut old, "insert into t values (1001, 77)"), "");
    assert_eq!(run(&mut old, "commit"), "");
    // Now the build waits for the transaction that came in between.
    let pid = new.id();
    until_progress(
        &mut watcher,
        &format!("phase = 'waiting for writers before validation' and current_locker_pid = {pid}"),
    );
    assert_eq!(
        run(
            &mut watcher,
            "select indisvalid, indisready from pg_index where indexrelid = 't_v'::regclass"
        ),
        "f|t"
    );
    assert_eq!(run(&mut new, "insert into t values (1002, 77); rollback"), "");
    assert_eq!(build.join().unwrap(), "");
    assert_eq!(
        run(&mut watcher, "set enable_seqscan = off; select id from t where v = 77 order by id"),
        "1\n1000\n1001"
    );
    assert_eq!(run(&mut watcher, "select count(*) from pg_stat_progress_create_index"), "0");
    check(&database);
}

/// A user once saw wrong rows. An index created beside an older snapshot gave that snapshot the
/// newer value of an INCLUDE column. A partial index gave rows that had left it. The build took
/// several versions of a row for one, because their keys were equal, or because the predicate left
/// one out. Now the build marks such rows, so that a scan of the entry checks the version.
#[test]
fn an_index_made_over_rows_with_several_versions_shows_each_snapshot_its_own() {
    for concurrently in ["", "concurrently"] {
        let (database, mut old) = database(
            "create table t (k int, v int, open bool); \
             insert into t select i, i * 10, true from generate_series(1, 3) i",
        );
        assert_eq!(
            run(&mut old, "begin isolation level repeatable read; select count(*) from t"),
            "3"
        );
        let mut new = database.session();
        assert_eq!(
            run(&mut new, "update t set v = 11 where k = 1; update t set open = false where k = 2"),
            ""
        );
        for definition in ["t_k on t (k) include (v)", "t_open on t (k) where open"] {
            assert_eq!(run(&mut new, &format!("create index {concurrently} {definition}")), "");
        }
        let covered = "select v from t where k = 1";
        let partial = "select k, v from t where open order by k";
        for session in [&mut old, &mut new] {
            assert_eq!(run(session, "set enable_seqscan = off; set enable_bitmapscan = off"), "");
            let plan = run(session, &format!("explain (costs off) {covered}"));
            assert!(plan.contains("Index Only Scan using t_k"), "{plan}");
            let plan = run(session, &format!("explain (costs off) {partial}"));
            assert!(plan.contains("Index Scan using t_open"), "{plan}");
        }
        assert_eq!(run(&mut old, covered), "10", "{concurrently}");
        assert_eq!(run(&mut new, covered), "11", "{concurrently}");
        assert_eq!(run(&mut old, partial), "1|10\n2|20\n3|30", "{concurrently}");
        assert_eq!(run(&mut new, partial), "1|11\n3|30", "{concurrently}");
        check(&database);
    }
    // One session is enough for that.
    let (database, mut session) =
        database("create table t (k int, open bool); insert into t values (1, true), (2, true)");
    assert_eq!(
        run(
            &mut session,
            "begin; update t set open = false where k = 1; create index t_open on t (k) where open; \
             set enable_seqscan = off; select k from t where open"
        ),
        "2"
    );
    assert_eq!(run(&mut session, "commit; select k from t where open"), "2");
    check(&database);
}

/// Waits until a session waits for a lock.
fn until_blocked(watcher: &mut Session, session: i32) {
    let sql = format!("select cardinality(pg_blocking_pids({session})) > 0");
    while run(watcher, &sql) != "t" {
        thread::yield_now();
    }
}

/// Dropping the table between two steps of the build once gave the building session 42704. Now the
/// drop waits.
#[test]
fn a_table_is_not_dropped_between_the_steps_of_a_concurrent_build() {
    let (database, mut old) =
        database("create table t (id int primary key, v int); insert into t values (1, 1)");
    let mut watcher = database.session();
    assert_eq!(run(&mut old, "begin; insert into t values (2, 2)"), "");
    let mut builder = database.session();
    let build = thread::spawn(move || run(&mut builder, "create index concurrently t_v on t (v)"));
    until_progress(&mut watcher, "phase = 'waiting for writers before build'");
    let locked = "select mode from pg_locks where relation = 't'::regclass and granted and mode like 'ShareU%'";
    assert_eq!(run(&mut watcher, locked), "ShareUpdateExclusiveLock");
    // VACUUM waits too, as do dropping the table and dropping the index that is being built.
    let statements = ["vacuum t", "drop index t_v", "drop index if exists t_v", "drop table t"];
    let waiting: Vec<_> = statements
        .into_iter()
        .map(|sql| {
            let mut session = database.session();
            let id = session.id();
            let thread = thread::spawn(move || run(&mut session, sql));
            until_blocked(&mut watcher, id);
            thread
        })
        .collect();
    assert_eq!(run(&mut old, "commit"), "");
    assert_eq!(build.join().unwrap(), "");
    let results: Vec<String> = waiting.into_iter().map(|thread| thread.join().unwrap()).collect();
    assert_eq!(results, ["", "", "", ""]);
    assert_eq!(
        run(&mut watcher, "select count(*) from pg_class where relname in ('t', 't_v', 't_pkey')"),
        "0"
    );
    assert_eq!(
        run(&mut watcher, "select count(*) from pg_locks where granted and mode like 'ShareU%'"),
        "0"
    );
    check(&database);
}

/// During an index build with CONCURRENTLY, stale entries in the table's other indexes once stayed
/// as if there were no writers. The indexes grew with every update, or the queue forgot waiting
/// entries.
#[test]
fn entries_of_old_versions_go_beside_a_concurrent_build() {
    let (database, mut old) = database(
        "create table t (id int primary key, k int) with (fillfactor = 50); \
         create index t_k on t (k); insert into t select i, i from generate_series(1, 200) i",
    );
    let (mut holder, mut watcher) = (database.session(), database.session());
    assert_eq!(run(&mut old, "begin; insert into t values (1000, 1000)"), "");
    let mut builder = database.session();
    let (builds, holds) = (builder.id(), holder.id());
    let build = thread::spawn(move || run(&mut builder, "create index concurrently t_v on t (k)"));
    until_progress(&mut watcher, "phase = 'waiting for writers before build'");
    // The build cannot change the catalog entry of its index.
    assert_eq!(run(&mut holder, "begin; comment on index t_v is 'new'"), "");
    assert_eq!(run(&mut old, "commit"), "");
    let waits = format!("select pg_blocking_pids({builds}) = array[{holds}]");
    while run(&mut watcher, &waits) != "t" {
        thread::yield_now();
    }
    for _ in 0..10 {
        assert_eq!(run(&mut old, "update t set k = k + 1000"), "");
    }
    let deleted = "select gardener_deleted > 0 from niwaki_stat_tables where relname = 't'";
    assert_eq!(run(&mut watcher, deleted), "t");
    assert_eq!(run(&mut holder, "rollback"), "");
    assert_eq!(build.join().unwrap(), "");
    check(&database);
}

/// Ways to end the wait of a concurrent build, and the state after each.
#[test]
fn the_waits_of_a_concurrent_build_can_be_ended() {
    let setup = "create table t (id int primary key, v int); insert into t values (1, 1); \
                 create index t_w on t (v, id)";
    for (set, ends) in [
        ("set lock_timeout = '1ms'", "error 55P03: canceling statement due to lock timeout"),
        (
            "set statement_timeout = '20ms'",
            "error 57014: canceling statement due to statement timeout",
        ),
        ("", "error 57014: canceling statement due to user request"),
    ] {
        for statement in [
            "create index concurrently t_v on t (v)",
            "reindex table concurrently t",
            "drop index concurrently t_w",
        ] {
            let (database, mut old) = database(setup);
            assert_eq!(run(&mut old, "begin; insert into t values (2, 2)"), "");
            let mut builder = database.session();
            let id = builder.id();
            let build =
                thread::spawn(move || (run(&mut builder, set), run(&mut builder, statement)));
            let mut watcher = database.session();
            if set.is_empty() {
                until_progress(&mut watcher, "lockers_total = 1");
                assert_eq!(run(&mut watcher, &format!("select pg_cancel_backend({id})")), "t");
            }
            let (_, ended) = build.join().unwrap();
            assert_eq!(ended.lines().next(), Some(ends), "{statement}");
            let locks = "select count(*) from pg_locks where mode = 'ShareUpdateExclusiveLock'";
            assert_eq!(run(&mut watcher, locks), "0");
            assert_eq!(run(&mut old, "commit"), "");
            let left =
                run(&mut watcher, "select indexrelid::regclass from pg_index where not indisvalid");
            assert!(ended.contains(&left) && !left.is_empty() && !left.contains('\n'), "{left}");
            check(&database);
            assert_eq!(run(&mut watcher, "vacuum t"), "");
            let drop = format!("insert into t values (3, 3); drop index {left}");
            assert_eq!(run(&mut watcher, &drop), "");
            check(&database);
        }
    }
}

/// The build waits for a writer, and the writer then changes a definition and waits for the build.
#[test]
fn a_deadlock_with_a_concurrent_build_is_found() {
    let options = Options::new().set("deadlock_timeout", "1ms");
    let database = Database::open_with(Env::memory(), options).unwrap();
    let (mut old, mut watcher) = (database.session(), database.session());
    assert_eq!(run(&mut old, "create table t (id int primary key, v int)"), "");
    assert_eq!(run(&mut old, "begin; insert into t values (1, 1)"), "");
    let mut builder = database.session();
    let build = thread::spawn(move || run(&mut builder, "create index concurrently t_v on t (v)"));
    until_progress(&mut watcher, "phase = 'waiting for writers before build'");
    let altered = run(&mut old, "alter table t add column w int");
    let ended =
        if altered.is_empty() { run(&mut old, "commit") } else { run(&mut old, "rollback") };
    assert_eq!(ended, "");
    let built = build.join().unwrap();
    let victims = [&altered, &built].into_iter().filter(|found| found.starts_with("error 40P01"));
    assert_eq!(victims.count(), 1, "{altered}\n{built}");
    assert!(altered.is_empty() != built.is_empty(), "{altered}\n{built}");
    assert_eq!(run(&mut watcher, "drop index t_v; insert into t (id) values (7)"), "");
    check(&database);
}

/// A build that failed half-way leaves nothing in the index's file, so that nothing looks damaged.
#[test]
fn a_large_concurrent_build_that_fails_leaves_an_empty_index() {
    let (database, mut s) = database(
        "create table t (id int primary key, v int); \
         insert into t select i, i from generate_series(1, 5000) i; insert into t values (0, 4999)",
    );
    let built = run(&mut s, "create unique index concurrently t_v on t (v)");
    assert!(built.starts_with("error 23505"), "{built}");
    check(&database);
    for statement in ["vacuum t", "delete from t where id > 4000 or id = 0", "vacuum t"] {
        assert_eq!(run(&mut s, statement), "");
    }
    check(&database);
    assert_eq!(run(&mut s, "reindex index t_v; set enable_seqscan = off"), "");
    assert_eq!(run(&mut s, "select id from t where v = 3000"), "3000");
    check(&database);
}

/// Readers do not wait for REINDEX until it has built everything, even if they use the index.
#[test]
fn reading_goes_on_while_an_index_is_built_anew() {
    let (database, mut reader) = database(
        "create table t (id int primary key, v int); create index t_v on t (v); \
         insert into t select i, i % 5 from generate_series(1, 1000) i",
    );
    let mut watcher = database.session();
    for statement in ["reindex index t_v", "reindex table t"] {
        let begin = "begin; set local enable_seqscan = off; \
                     declare c cursor for select id from t where v = 3 order by id; fetch 2 from c";
        assert_eq!(run(&mut reader, begin), "3\n8");
        let mut builder = database.session();
        let id = builder.id();
        let build = thread::spawn(move || run(&mut builder, statement));
        until_blocked(&mut watcher, id);
        let locks = format!(
            "select mode, granted from pg_locks where pid = {id} and relation = 't'::regclass order by 1"
        );
        assert_eq!(run(&mut watcher, &locks), "AccessExclusiveLock|f\nShareRowExclusiveLock|t");
        assert_eq!(run(&mut reader, "fetch 2 from c"), "13\n18");
        assert_eq!(run(&mut reader, "select count(*) from t where v = 4"), "200");
        assert_eq!(run(&mut reader, "commit"), "");
        assert_eq!(build.join().unwrap(), "");
        check(&database);
    }
    // Two REINDEX statements and a writer run one after the other.
    let builders: Vec<_> =
        ["reindex table t", "reindex index t_v", "update t set v = 9 where v = 4"]
            .into_iter()
            .map(|sql| {
                let mut session = database.session();
                thread::spawn(move || run(&mut session, sql))
            })
            .collect();
    for builder in builders {
        assert_eq!(builder.join().unwrap(), "");
    }
    assert_eq!(
        run(&mut watcher, "set enable_seqscan = off; select count(*) from t where v = 9"),
        "200"
    );
    check(&database);
}

#[test]
fn a_failed_concurrent_build_leaves_an_index_that_says_so() {
    let (database, mut session) = database(
        "create table t (id int primary key, v int); insert into t values (1, 1), (2, 1), (3, 3)",
    );
    assert_eq!(
        run(&mut session, "create unique index concurrently t_v on t (v)"),
        "error 23505: could not create unique index \"t_v\"\n\
         detail: Key (v)=(1) is duplicated.\n\
         hint: Index \"t_v\" is left behind, not valid. Drop it, or rebuild it with REINDEX.\n\
         schema: public\ntable: t\nconstraint: t_v"
    );
    let state = "select indisvalid, indisready from pg_index where indexrelid = 't_v'::regclass";
    assert_eq!(run(&mut session, state), "f|f");
    // The index is neither used nor enforced.
    let count = "set enable_seqscan = off; select count(*) from t where v = 1";
    assert_eq!(run(&mut session, count), "2");
    assert_eq!(run(&mut session, "insert into t values (4, 3)"), "");
    check(&database);
    assert_eq!(run(&mut session, "delete from t where id in (1, 4)"), "");
    assert_eq!(run(&mut session, "reindex index concurrently t_v"), "");
    assert_eq!(run(&mut session, state), "t|t");
    assert_eq!(run(&mut session, count), "1");
    let names = "select relname from pg_class where relname like 't_v%'";
    assert_eq!(run(&mut session, names), "t_v");
    assert!(run(&mut session, "insert into t values (5, 3)").starts_with("error 23505"));
    check(&database);
}

#[test]
fn a_dropped_index_waits_for_its_readers() {
    let (database, mut reader) = database(
        "create table t (id int primary key, v int); create index t_v on t (v); \
         insert into t select i, i % 5 from generate_series(1, 100) i",
    );
    let mut other = database.session();
    let mut watcher = database.session();
    let begin = "begin; set enable_seqscan = off; declare c cursor for select id from t where v = 3 order by id; fetch 2 from c";
    assert_eq!(run(&mut reader, begin), "3\n8");
    let mut dropper = database.session();
    let drop = thread::spawn(move || run(&mut dropper, "drop index concurrently t_v"));
    until_progress(&mut watcher, "phase = 'waiting for readers before marking dead'");
    assert_eq!(run(&mut other, "insert into t values (1000, 3)"), "");
    assert_eq!(run(&mut reader, "fetch 2 from c"), "13\n18");
    assert_eq!(run(&mut reader, "commit"), "");
    assert_eq!(drop.join().unwrap(), "");
    assert_eq!(run(&mut other, "select count(*) from pg_class where relname = 't_v'"), "0");
    check(&database);
}

#[test]
fn of_two_transactions_the_later_one_meets_a_deferred_duplicate() {
    let (database, mut a) =
        database("create table t (id int unique deferrable initially deferred, who text)");
    let mut b = database.session();
    assert_eq!(run(&mut a, "begin; insert into t values (1, 'a')"), "");
    assert_eq!(run(&mut b, "begin; insert into t values (1, 'b'), (2, 'b')"), "");
    let waiting = b.id();
    let worker = thread::spawn(move || (run(&mut b, "commit"), b));
    let mut watcher = database.session();
    let question = format!("select cardinality(pg_blocking_pids({waiting}))");
    while run(&mut watcher, &question) != "1" {
        thread::yield_now();
    }
    assert_eq!(run(&mut a, "commit"), "");
    let (found, mut b) = worker.join().unwrap();
    assert!(found.starts_with("error 23505"), "{found}");
    assert!(found.contains("Key (id)=(1) already exists."), "{found}");
    assert_eq!(run(&mut b, "select * from t"), "1|a");
    // If the earlier transaction rolls back, the later one succeeds.
    assert_eq!(run(&mut a, "begin; insert into t values (5, 'a')"), "");
    assert_eq!(run(&mut b, "begin; insert into t values (5, 'b')"), "");
    let waiting = b.id();
    let worker = thread::spawn(move || run(&mut b, "commit"));
    let question = format!("select cardinality(pg_blocking_pids({waiting}))");
    while run(&mut watcher, &question) != "1" {
        thread::yield_now();
    }
    assert_eq!(run(&mut a, "rollback"), "");
    assert_eq!(worker.join().unwrap(), "");
    assert_eq!(run(&mut a, "select who from t where id = 5"), "b");
    check(&database);
}

#[test]
fn settings_of_an_index_take_effect_when_they_are_committed() {
    let (database, mut s) =
        database("create table t (id int); create index t_id on t (id) with (fillfactor = 100)");
    let pages = |s: &mut Session| -> i64 {
        run(s, "select pg_relation_size('t_id') / 8192").parse().unwrap()
    };
    let fill = "insert into t select i from generate_series(1, 4000) i";
    assert_eq!(run(&mut s, fill), "");
    let full = pages(&mut s);
    assert_eq!(run(&mut s, "truncate t"), "");
    assert_eq!(run(&mut s, "begin; alter index t_id set (fillfactor = 30); rollback"), "");
    assert_eq!(run(&mut s, fill), "");
    assert_eq!(pages(&mut s), full, "a rollback takes the setting back");
    assert_eq!(run(&mut s, "alter index t_id set (fillfactor = 30); truncate t"), "");
    assert_eq!(run(&mut s, fill), "");
    let sparse = pages(&mut s);
    assert!(sparse > full * 2, "{sparse} pages, {full} before");
    check(&database);
}

#[test]
fn heap_only_updates_off_gives_every_update_an_entry_in_every_index() {
    let setup = |option: &str| {
        format!(
            "create table t (id int primary key, v int, w int) with (heap_only_updates = {option}); \
             create index t_w on t (w); insert into t select i, 0, 0 from generate_series(1, 20) i"
        )
    };
    for (option, heap_only) in [("off", "0"), ("same_keys", "60"), ("any_key", "60")] {
        let (database, mut s) = database(&setup(option));
        for _ in 0..3 {
            assert_eq!(run(&mut s, "update t set v = v + 1"), "");
        }
        let counted = "select n_tup_hot_upd from pg_stat_user_tables where relname = 't'";
        assert_eq!(run(&mut s, counted), heap_only, "{option}");
        assert_eq!(
            run(&mut s, "set enable_seqscan = off; select count(*) from t where w = 0"),
            "20"
        );
        assert_eq!(
            run(&mut s, "alter table t set (heap_only_updates = off); update t set v = 9"),
            ""
        );
        assert_eq!(run(&mut s, counted), heap_only, "{option}");
        check(&database);
    }
}

#[test]
fn an_update_is_heap_only_as_long_as_no_expression_or_predicate_changes_its_value() {
    let (database, mut s) = database(
        "create table t (id int primary key, v int, name text) \
         with (heap_only_updates = same_keys); \
         create index t_lower on t (lower(name)); create index t_part on t (id) where v > 10; \
         create index t_inc on t (id) include (name) where v < 0; \
         insert into t values (1, 1, 'One'), (2, 20, 'Two'), (3, -1, 'Three')",
    );
    let mut hot = 0;
    for (update, heap_only) in [
        ("update t set name = 'ONE' where id = 1", true),
        ("update t set name = 'Uno' where id = 1", false),
        ("update t set v = 2 where id = 1", true),
        ("update t set v = 11 where id = 1", false),
        ("update t set v = 12 where id = 1", true),
        ("update t set v = 10 where id = 1", false),
        ("update t set v = 30 where id = 2", true),
        // This changes the payload of a partial index that has the row.
        ("update t set name = 'THREE' where id = 3", false),
        ("update t set name = 'tWO' where id = 2", true),
        ("update t set v = -2 where id = 3", true),
    ] {
        assert_eq!(run(&mut s, update), "");
        hot += u32::from(heap_only);
        let counted = "select n_tup_hot_upd from pg_stat_user_tables where relname = 't'";
        assert_eq!(run(&mut s, counted), hot.to_string(), "{update}");
        check(&database);
    }
}

#[test]
fn by_default_an_update_stays_on_its_page_whatever_it_changes() {
    let (database, mut s) = database(
        "create table t (id int primary key, v int, w int, name text); \
         create index t_v on t (v) include (name); create index t_w on t (w); \
         create unique index t_lower on t (lower(name)); create index t_part on t (w) where v > 10; \
         insert into t values (1, 1, 1, 'One'), (2, 20, 2, 'Two'), (3, 3, 3, 'Three')",
    );
    for (number, update) in [
        "update t set v = 2 where id = 1",
        // The key changes there and back: the old entry is still there.
        "update t set v = 1 where id = 1",
        "update t set v = 11 where id = 1",
        "update t set w = 9, v = 5 where id = 2",
        // The payload alone, the key alone, then both.
        "update t set name = 'ONE' where id = 1",
        "update t set name = 'Uno' where id = 1",
        "update t set name = 'one' where id = 1",
        "update t set id = 7 where id = 3",
    ]
    .into_iter()
    .enumerate()
    {
        assert_eq!(run(&mut s, update), "");
        let counted = "select n_tup_hot_upd from pg_stat_user_tables where relname = 't'";
        assert_eq!(run(&mut s, counted), (number + 1).to_string(), "{update}");
        check(&database);
    }
    assert!(run(&mut s, "update t set name = 'TWO' where id = 1").contains("23505"));
    assert_eq!(run(&mut s, "update t set name = 'Three' where id = 7"), "");
    let rows = "1|11|1|one\n2|5|9|Two\n7|3|3|Three";
    assert_eq!(run(&mut s, "set enable_seqscan = off; select * from t order by id"), rows);
    assert_eq!(run(&mut s, "select v, name from t where v < 10 order by v"), "3|Three\n5|Two");
    assert_eq!(run(&mut s, "select id from t where w > 0 and v > 10"), "1");
    assert_eq!(run(&mut s, "select id from t where lower(name) = 'uno'"), "");
    check(&database);
}

/// Indexes of the next test, and queries that they may serve.
const INDEXES: &[&str] = &[
    "create index i1 on t ((a % 7), b)",
    "create index i2 on t (lower(s)) where a > 20",
    "create index i3 on t (b desc nulls last, a) include (s) where s is not null",
    "create index i4 on t (coalesce(b, -1)) where b is null or b < 5",
    "create unique index i5 on t ((a * 2), id) where a in (1, 2, 3, 30)",
    "create index i6 on t (s nulls first) where s <> 'abc' and a >= 10",
    "create index i7 on t ((case when a > 25 then s else 'low' end))",
];

const QUERIES: &[&str] = &[
    "select id from t where a % 7 = 3 order by id",
    "select id from t where a % 7 = 3 and b > 4 order by id",
    "select id from t where a % 7 in (1, 5) and b = 2 order by id",
    "select id from t where lower(s) = 'abc' and a > 20 order by id",
    "select id from t where lower(s) > 'b' and a > 21 order by id",
    "select id from t where lower(s) = 'xy' and a in (22, 30, 35) order by id",
    "select id from t where lower(s) = 'abc' and a > 10 order by id",
    "select b, id from t where s > '' order by b desc nulls last, id",
    "select id from t where s = 'ABC' and b >= 3 order by id",
    "select id from t where s is not null and b is null order by id",
    "select id from t where coalesce(b, -1) = -1 and b is null order by id",
    "select id from t where coalesce(b, -1) = 3 and b < 4 order by id",
    "select id from t where coalesce(b, -1) = 3 and (b is null or b < 2) order by id",
    "select id from t where a * 2 = 60 and a = 30 order by id",
    "select id from t where a * 2 = 4 and a in (2, 3) order by id",
    "select id from t where a * 2 = 4 and a in (2, 4) order by id",
    "select id from t where s <> 'abc' and a >= 12 and s > 'b' order by id",
    "select s, id from t where s <> 'abc' and a = 15 order by s, id",
    "select id from t where case when a > 25 then s else 'low' end = 'low' order by id",
    "select id from t where case when a > 25 then s else 'low' end = 'Xy' order by id",
];

#[test]
fn answers_do_not_depend_on_indexes() {
    for seed in 0..6 {
        let option = if seed < 4 { "same_keys" } else { "any_key" };
        let env = Env::simulated(std::sync::Arc::new(niwaki_env::vfs::MemoryVfs::new()), seed);
        let open = || Database::open_with(env.clone(), Options::new().small_files(true)).unwrap();
        let database = open();
        let mut s = database.session();
        let table = format!(
            "create table t (id int primary key, a int, b int, s text) \
             with (heap_only_updates = {option})"
        );
        assert_eq!(run(&mut s, &table), "");
        let values = "random() * 40, case when random() < 0.2 then null else random() * 8 end, \
             case when random() < 0.1 then null when random() < 0.3 then 'abc' \
             when random() < 0.5 then 'ABC' when random() < 0.7 then 'Xy' else 'b' end";
        let fill = |from: i32, to: i32| {
            format!("insert into t select i, {values} from generate_series({from}, {to}) i")
        };
        assert_eq!(run(&mut s, &fill(1, 150)), "");
        // Some indexes are built, others grow with the table. Builds meet chains with several keys.
        let (built, grown) = INDEXES.split_at(INDEXES.len() / 2 + usize::from(seed % 2 == 0));
        for index in grown {
            assert_eq!(run(&mut s, index), "");
        }
        for round in 0..6 {
            let from = 200 + round * 20;
            for change in [
                fill(from, from + 15),
                "update t set a = a + 1 where random() < 0.2".to_owned(),
                "update t set s = upper(s) where random() < 0.2".to_owned(),
                "update t set b = null where random() < 0.1".to_owned(),
                "begin; update t set a = 30, s = 'abc' where random() < 0.3; rollback".to_owned(),
                "delete from t where random() < 0.05".to_owned(),
                "vacuum t".to_owned(),
            ] {
                let found = run(&mut s, &change);
                assert!(found.is_empty(), "{change}: {found}");
            }
            if round == 2 {
                // A snapshot keeps old versions in the chains that the builds read.
                let mut reader = database.session();
                run(&mut reader, "begin isolation level repeatable read; select count(*) from t");
                run(
                    &mut s,
                    "update t set a = 24 where a = 23; update t set s = 'XY' where s = 'Xy'",
                );
                for index in built {
                    assert_eq!(run(&mut s, index), "");
                }
                compare(&mut reader, seed, 10);
            }
            compare(&mut s, seed, if round < 2 { 3 } else { 10 });
            check(&database);
        }
        drop(s);
        drop(database);
        let database = open();
        compare(&mut database.session(), seed, 10);
        check(&database);
    }
}

/// Runs each query with and without indexes. At least `least` queries must use one.
fn compare(s: &mut Session, seed: u64, least: usize) {
    let mut used = 0;
    for query in QUERIES {
        run(
            s,
            "set enable_seqscan = on; set enable_indexscan = off; set enable_indexonlyscan = off; set enable_bitmapscan = off",
        );
        let expected = run(s, query);
        run(
            s,
            "set enable_seqscan = off; set enable_indexscan = on; set enable_indexonlyscan = on",
        );
        assert_eq!(run(s, query), expected, "seed {seed}: {query}");
        used += usize::from(run(s, &format!("explain {query}")).contains("using i"));
    }
    assert!(used >= least, "only {used} queries use an index");
}

#[test]
fn what_a_crash_left_of_a_sort_goes_at_the_next_start() {
    let env = Env::memory();
    let options = || Options::new().set("maintenance_work_mem", "1MB");
    let database = Database::open_with(env.clone(), options()).unwrap();
    let mut s = database.session();
    let setup = "create table t (id int, s text); \
                 insert into t select i, repeat('x', 100) || i % 1000 from generate_series(1, 20000) i";
    assert_eq!(run(&mut s, setup), "");
    assert_eq!(run(&mut s, "create index t_s on t (s, id)"), "");
    assert!(env.vfs.list("tmp").unwrap().is_empty(), "a sort leaves nothing behind");
    let found = run(
        &mut s,
        "set enable_seqscan = off; select count(*) from t where s > repeat('x', 100) || 5",
    );
    assert_eq!(
        found,
        run(
            &mut s,
            "set enable_seqscan = on; set enable_indexscan = off; select count(*) from t where s > repeat('x', 100) || 5"
        )
    );
    check(&database);
    drop(s);
    database.close().unwrap();
    env.vfs.open("tmp/sort.17", OpenMode::CreateNew).unwrap().write_at(b"rest", 0).unwrap();
    let database = Database::open_with(env.clone(), options()).unwrap();
    assert!(env.vfs.list("tmp").unwrap().is_empty());
    check(&database);
}

/// Line pointers are freed once every index has dropped its entries. A rollback may bring back an
/// index that a transaction dropped or rebuilt, with entries that all others dropped meanwhile.
#[test]
fn a_rollback_brings_an_index_back_and_no_entry_leads_astray() {
    const OUTSIDE: usize = 1_500;
    let changes = ["drop index t_b", "reindex index t_b", "alter table t drop constraint t_pkey"];
    // The transaction does not reuse the line pointers that it frees last.
    let lengths = [300, 400, 500, 600];
    for (change, inside) in changes.iter().flat_map(|c| lengths.map(|length| (c, length))) {
        let (database, mut session) = database(
            "create table t (id int primary key, a int, b int, n int) with (heap_only_updates = off); \
             create index t_a on t (a); create index t_b on t (b); \
             insert into t select i, i, i, 0 from generate_series(1, 40) i",
        );
        let churn = |session: &mut Session, times: usize| {
            for n in 0..times {
                let sql = format!("update t set n = n + 1 where id = {}", n % 40 + 1);
                assert_eq!(run(session, &sql), "");
            }
        };
        churn(&mut session, OUTSIDE);
        assert_eq!(run(&mut session, &format!("begin; {change}")), "");
        churn(&mut session, inside);
        assert_eq!(run(&mut session, "rollback"), "");
        churn(&mut session, OUTSIDE);
        check(&database);
        assert_eq!(
            run(&mut session, "select count(*), sum(n) from t where b >= 0"),
            format!("40|{}", 2 * OUTSIDE)
        );
    }
}
