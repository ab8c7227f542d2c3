//! A written value is computed from the version that it replaces.
//!
//! A user once saw acknowledged increments missing, jobs that two workers claimed, a duplicate
//! unique key and stale rows in an archive. `UPDATE … WHERE id = (SELECT … FOR UPDATE)` and similar
//! statements wrote values of the old version over the newest one.
//!
//! The lock of a row left its newest version pending. The next change at that address took it,
//! whatever version that change had evaluated. Now the evaluating step passes the version directly
//! to the change ([`niwaki_sql::store::JudgedRow`]). A change of any other version than the newest
//! is refused, and the conditions are evaluated again.
//!
//! Each answer here is PostgreSQL 15's.

mod common;
#[path = "common/waiting.rs"]
mod waiting;

use common::run;
use niwaki::{Database, Session};
use waiting::blocked_until;

const ROWS: &str = "select id, k, n, s from t order by id";

fn sessions() -> (Database, Session, Session) {
    let database = Database::in_memory_without_threads().unwrap();
    let mut first = database.session();
    let second = database.session();
    let setup = "create table t (id int primary key, k int unique, n int, s text); \
                 insert into t select i, i * 10, 0, 'new' from generate_series(1, 3) i; \
                 create table archive (id int, k int, n int); \
                 create table u (k int primary key, w int); \
                 insert into u values (10, 1), (20, 2), (31, 3); \
                 create function lock_t(wanted int) returns int language sql volatile as \
                 'select n from t where id = wanted for update'";
    assert_eq!(run(&mut first, setup), "");
    (database, first, second)
}

/// Runs `statement` while another session has an open transaction with `change`, which then
/// commits. Returns the result of the statement, and the table afterwards.
fn beside(change: &str, statement: &'static str) -> (String, String) {
    let (database, mut a, b) = sessions();
    assert_eq!(run(&mut a, &format!("begin; {change}")), "");
    let (found, mut b) = blocked_until(&database, &mut a, "commit", b, statement);
    (found, run(&mut b, ROWS))
}

/// Each statement claims row 1 and counts it. Another session has counted it meanwhile.
#[test]
fn no_increment_is_lost_when_a_query_locks_the_row() {
    for statement in [
        "update t set n = n + 1 where id = (select id from t order by id limit 1 for update) \
         returning t.*",
        "update t set n = n + 1 where id in (select id from t where id = 1 for update) returning t.*",
        "update t set n = n + 1 where id = any (array(select id from t where id = 1 for update)) \
         returning t.*",
        "with c as (select id from t where id = 1 for update) \
         update t set n = n + 1 from c where c.id = t.id returning t.*",
        "with c as (select id from t where id = 1 for no key update) \
         update t set n = n + 1 from c where c.id = t.id returning t.*",
        "update t set n = t.n + 1 from (select id from t where id = 1 for update) c \
         where c.id = t.id returning t.*",
    ] {
        let (found, rows) = beside("update t set n = n + 1, k = 11 where id = 1", statement);
        assert_eq!(found, "1|11|2|new", "{statement}");
        assert_eq!(rows, "1|11|2|new\n2|20|0|new\n3|30|0|new", "{statement}");
    }
    let (_, rows) = beside(
        "update t set n = n + 1, k = 11 where id = 1",
        "merge into t using (select id from t where id = 1 for update) c on c.id = t.id \
         when matched then update set n = t.n + t.k",
    );
    assert_eq!(rows, "1|11|12|new\n2|20|0|new\n3|30|0|new");
}

/// WHERE is evaluated on the newest version, also when the statement itself has locked that one
/// before.
#[test]
fn no_job_is_claimed_twice() {
    let (found, rows) = beside(
        "update t set s = 'a' where id = 1",
        "with c as (select id from t where id = 1 for update) \
         update t set s = 'b' from c where c.id = t.id and t.s = 'new' returning t.*",
    );
    assert_eq!((found.as_str(), rows.as_str()), ("", "1|10|0|a\n2|20|0|new\n3|30|0|new"));
}

/// A claim takes its locked jobs in their newest version. It takes the next job when another
/// session has claimed the first.
#[test]
fn a_claim_passes_over_a_job_that_was_claimed_meanwhile() {
    let claim = "with c as (select id from t where s = 'new' order by id limit 1 for update) \
                 update t set s = 'b', n = t.n + 1 from c where c.id = t.id returning t.*";
    let (found, rows) = beside("update t set s = 'a', n = 7 where id = 1", claim);
    assert_eq!(found, "2|20|1|b");
    assert_eq!(rows, "1|10|7|a\n2|20|1|b\n3|30|0|new");
    let two = "with c as (select id from t where s = 'new' order by id limit 2 for update) \
               update t set s = 'b', n = t.n + 1 from c where c.id = t.id returning t.*";
    let (found, _) = beside("update t set k = 11, n = 5 where id = 1", two);
    assert_eq!(found, "1|11|6|b\n2|20|1|b");
    // The row that the other session holds is not the first.
    let (found, _) = beside("update t set k = 21, n = 5 where id = 2", two);
    assert_eq!(found, "1|10|1|b\n2|21|6|b");
}

/// The statement has locked the row, and waits. Meanwhile another row takes the key that this row
/// had.
#[test]
fn a_key_that_another_row_took_meanwhile_is_not_written_again() {
    let (database, mut a, b) = sessions();
    run(&mut a, "select pg_advisory_lock(7)");
    assert_eq!(run(&mut a, "begin; update t set k = 11 where id = 1"), "");
    let (found, mut b) = blocked_until(
        &database,
        &mut a,
        "commit; begin; insert into t values (7, 10, 0, 'a'); commit; \
         select where pg_advisory_unlock(7) is null",
        b,
        "with c as materialized (select id from t where id = 1 for update), \
         g as materialized (select id, pg_advisory_xact_lock(7) from c) \
         update t set s = 'b' from g where g.id = t.id returning t.*",
    );
    assert_eq!(found, "1|11|0|b");
    assert_eq!(run(&mut b, ROWS), "1|11|0|b\n2|20|0|new\n3|30|0|new\n7|10|0|a");
    assert_eq!(database.check().unwrap().violations, []);
}

/// One statement makes two changes. The first one's condition fails on the newest version.
#[test]
fn what_the_first_change_leaves_alone_the_second_changes() {
    let change = "update t set n = 150 where id = 1";
    for statement in [
        "with x as (update t set s = 'x' where id = 1 and n < 100 returning id) \
         update t set s = 'y', n = n + 1 where id = 1 returning *",
        "with x as (delete from t where id = 1 and n < 100 returning id) \
         update t set s = 'y', n = n + 1 where id = 1 returning *",
    ] {
        let (found, rows) = beside(change, statement);
        assert_eq!(found, "1|10|151|y", "{statement}");
        assert_eq!(rows, "1|10|151|y\n2|20|0|new\n3|30|0|new", "{statement}");
    }
    // ON CONFLICT meets the row that the statement itself has changed.
    let (found, rows) = beside(
        change,
        "with x as (insert into t values (1, 1, 1, 'i') on conflict (id) \
         do update set s = 'x' where t.n < 100 returning id) \
         update t set s = 'y', n = n + 1 where id = 1 returning *",
    );
    assert!(found.starts_with("error 21000"), "{found}");
    assert_eq!(rows, "1|10|150|new\n2|20|0|new\n3|30|0|new");
    // MERGE goes on to its next action.
    let (_, rows) = beside(
        change,
        "merge into t using (values (1, 100)) m(id, below) on t.id = m.id \
         when matched and t.n < below then update set s = 'm' when matched then do nothing",
    );
    assert_eq!(rows, "1|10|150|new\n2|20|0|new\n3|30|0|new");
}

#[test]
fn an_archive_gets_the_newest_version() {
    let (found, _) = beside(
        "update t set n = 5 where id = 1",
        "with c as (select id from t where id = 1 for update), \
         d as (delete from t using c where c.id = t.id returning t.*) \
         insert into archive select id, k, n from d returning *",
    );
    assert_eq!(found, "1|10|5");
    let (found, _) = beside(
        "update t set n = 5 where id = 1",
        "delete from t where id in (select id from t where id = 1 for update) returning *",
    );
    assert_eq!(found, "1|10|5|new");
    let (found, _) = beside(
        "update t set n = 5 where id = 1",
        "insert into t select id + 100, k + 1, n, s from t where id = 1 for update returning *",
    );
    assert_eq!(found, "101|11|5|new");
}

/// The first match does not hold for the newest version, the second one does.
#[test]
fn each_match_of_a_join_is_judged_on_the_newest_version() {
    let change = "update t set n = 150, k = 11 where id = 1";
    let (found, rows) = beside(
        change,
        "update t set s = t.s || x, n = n + 1 \
         from (values (1, 100, 'a'), (1, 200, 'b'), (1, 300, 'c')) m(id, below, x) \
         where t.id = m.id and t.n < below returning t.*",
    );
    assert_eq!(found, "1|11|151|newb");
    assert_eq!(rows, "1|11|151|newb\n2|20|0|new\n3|30|0|new");
    let (found, _) = beside(
        change,
        "delete from t using (values (1, 100), (1, 200)) m(id, below) \
         where t.id = m.id and t.n < below returning t.*",
    );
    assert_eq!(found, "1|11|150|new");
    let (found, _) = beside(
        change,
        "select t.*, x from t, (values (1, 100, 'a'), (1, 200, 'b'), (1, 300, 'c')) m(id, below, x) \
         where t.id = m.id and t.n < below for update of t",
    );
    assert_eq!(found, "1|11|150|new|b\n1|11|150|new|c");
}

/// All rows to lock are locked first, and then the joined row is evaluated.
#[test]
fn a_join_is_judged_with_every_row_at_its_locked_version() {
    let (found, _) = beside(
        "update t set n = 9 where id = 1",
        "select x.n, y.n from t x join t y on x.n = y.n and x.id = y.id where x.id = 1 for update",
    );
    assert_eq!(found, "9|9");
    let (found, _) = beside(
        "update t set n = 9 where id = 1",
        "select x.n, y.n from t x join t y on x.id = y.id where x.id = 1 for update of x",
    );
    assert_eq!(found, "9|0");
    let (found, _) = beside(
        "update t set n = 9 where id = 1",
        "select x.n, y.n from t x join t y on x.id = y.id where x.id = 1 for update",
    );
    assert_eq!(found, "9|9");
}

/// A semi-join keeps the row that it found. An anti-join has none, so its query is evaluated again.
#[test]
fn a_semi_join_keeps_the_row_that_it_found() {
    for statement in [
        "update t set n = 1 where k in (select k from u) returning id",
        "update t set n = 1 where exists (select from u where u.k = t.k) returning id",
        "update t set n = 1 where k in (select k from u for update) returning id",
    ] {
        // Row 1 matched 10. The value 31 exists too, but in another row of `u`.
        let (found, _) = beside("update t set k = 31 where id = 1", statement);
        assert_eq!(found, "2", "{statement}");
    }
    let (found, _) = beside(
        "update t set k = 31 where id = 3",
        "delete from t where not exists (select from u where u.k = t.k) returning id",
    );
    assert_eq!(found, "");
}

/// A query that reads nothing around it is evaluated once, and not again for the newest version.
#[test]
fn a_query_that_is_asked_once_keeps_its_answer() {
    let (database, mut a, mut b) = sessions();
    run(&mut b, "create sequence asked");
    run(&mut a, "begin; update t set n = 9 where id = 1");
    let (found, mut b) = blocked_until(
        &database,
        &mut a,
        "commit",
        b,
        "update t set n = n + 1 where id <= (select nextval('asked')) returning id, n",
    );
    assert_eq!(found, "1|10");
    assert_eq!(run(&mut b, "select last_value from asked"), "1");
}

/// Neither a function of the statement nor another table leaves a version to the next change.
#[test]
fn a_lock_leaves_nothing_to_another_change() {
    let (found, rows) = beside(
        "update t set n = 9 where id = 1",
        "update t set s = 'f' || lock_t(1) where id = 1 returning *",
    );
    assert_eq!(found, "1|10|9|f9");
    assert_eq!(rows, "1|10|9|f9\n2|20|0|new\n3|30|0|new");
    // A foreign key check locks the row, too.
    let (database, mut a, mut b) = sessions();
    run(&mut b, "create table child (of_t int references t)");
    run(&mut a, "begin; update t set n = 9 where id = 1");
    let (found, _) = blocked_until(
        &database,
        &mut a,
        "commit",
        b,
        "with i as (insert into child values (1) returning of_t) \
         update t set s = 'f' from i where i.of_t = t.id returning t.*",
    );
    assert_eq!(found, "1|10|9|f");
    // Row 1 of each table has the same address.
    let (database, mut a, mut b) = sessions();
    run(&mut b, "create table other (id int primary key, n int); insert into other values (1, 0)");
    run(&mut a, "begin; update t set n = 9 where id = 1; update other set n = 9 where id = 1");
    let (found, _) = blocked_until(
        &database,
        &mut a,
        "commit",
        b,
        "with c as (select id from t where id = 1 for update) \
         update other set n = other.n + 1 from c where c.id = other.id returning other.n",
    );
    assert_eq!(found, "10");
}

/// Triggers before a change run once, for the version that is changed.
#[test]
fn a_trigger_before_the_change_runs_once() {
    let (database, mut a, mut b) = sessions();
    let setup = "create sequence fired; \
                 create function note() returns trigger language plpgsql as \
                 'begin new.s := nextval(''fired'') || '' '' || old.n; return new; end'; \
                 create trigger note before update on t for each row execute function note()";
    run(&mut b, setup);
    run(
        &mut a,
        "begin; alter table t disable trigger note; update t set n = 9 where id = 1; rollback",
    );
    run(&mut a, "begin; delete from u; update t set n = 9 where id = 1");
    let (found, _) = blocked_until(
        &database,
        &mut a,
        "commit",
        b,
        "update t set n = n + 1 where id = 1 returning n, s",
    );
    assert_eq!(found, "10|2 9");
}
