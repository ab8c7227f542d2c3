//! Foreign keys in concurrent sessions. One session inserts a referring row, and another deletes
//! the referenced row. At most one of them succeeds, whatever the isolation level and the order.

mod common;
#[path = "common/waiting.rs"]
mod waiting;

use common::{Lines, run};
use niwaki::{Database, Session};
use waiting::blocked_until;

fn sessions() -> (Database, Session, Session) {
    let database = Database::in_memory_without_threads().unwrap();
    let mut first = database.session();
    let second = database.session();
    let setup = "create table p (id int primary key, v int); \
                 create table c (id int primary key, p int references p, \
                     q int references p on delete cascade on update cascade, \
                     r int references p deferrable initially deferred); \
                 insert into p values (1, 10), (2, 20), (3, 30)";
    assert_eq!(run(&mut first, setup), "");
    (database, first, second)
}

fn state_of(answer: &str) -> &str {
    answer.strip_prefix("error ").map_or("", |rest| rest.split(':').next().unwrap_or(""))
}

#[test]
fn a_deletion_waits_for_who_refers() {
    for (end, expected) in [("commit", "23503"), ("rollback", "")] {
        let (database, mut a, b) = sessions();
        assert_eq!(run(&mut a, "begin; insert into c (id, p) values (1, 1)"), "");
        let (found, mut b) = blocked_until(&database, &mut a, end, b, "delete from p where id = 1");
        assert_eq!(state_of(&found), expected, "{found}");
        let rows = if expected.is_empty() { "2" } else { "3" };
        assert_eq!(run(&mut b, "select count(*) from p"), rows);
    }
}

#[test]
fn who_refers_waits_for_a_deletion() {
    for (end, expected) in [("commit", "23503"), ("rollback", "")] {
        let (database, mut a, b) = sessions();
        assert_eq!(run(&mut a, "begin; delete from p where id = 1"), "");
        let (found, _) =
            blocked_until(&database, &mut a, end, b, "insert into c (id, p) values (1, 1)");
        assert_eq!(state_of(&found), expected, "{found}");
    }
}

#[test]
fn changes_that_leave_the_key_alone_are_in_nobodys_way() {
    let (_, mut a, mut b) = sessions();
    assert_eq!(run(&mut a, "begin; update p set v = 11 where id = 1"), "");
    assert_eq!(run(&mut b, "insert into c (id, p) values (1, 1)"), "");
    assert_eq!(run(&mut a, "commit"), "");
    assert_eq!(run(&mut a, "begin; insert into c (id, p) values (2, 1)"), "");
    assert_eq!(run(&mut b, "update p set v = 12 where id = 1"), "");
    assert_eq!(run(&mut a, "commit"), "");
    // An older snapshot sees the referenced row before its change. The key is the same.
    assert_eq!(run(&mut a, "begin isolation level repeatable read; select count(*) from c"), "2");
    assert_eq!(run(&mut b, "update p set v = 13 where id = 1"), "");
    assert_eq!(run(&mut a, "insert into c (id, p) values (3, 1)"), "");
    assert_eq!(run(&mut a, "commit"), "");
}

#[test]
fn a_cascade_reaches_rows_that_were_inserted_meanwhile() {
    let (database, mut a, b) = sessions();
    assert_eq!(run(&mut a, "begin; insert into c (id, q) values (1, 1), (2, 2)"), "");
    let (found, mut b) =
        blocked_until(&database, &mut a, "commit", b, "delete from p where id = 1");
    assert_eq!(found, "");
    assert_eq!(run(&mut b, "select id from c"), "2");
}

#[test]
fn repeatable_read_refuses_what_it_does_not_see() {
    // A referring row was committed after the snapshot: NO ACTION sees it, CASCADE gives up.
    for (column, expected) in [("p", "23503"), ("q", "40001")] {
        let (_, mut a, mut b) = sessions();
        let begin = "begin isolation level repeatable read; select count(*) from c";
        assert_eq!(run(&mut a, begin), "0");
        assert_eq!(run(&mut b, &format!("insert into c (id, {column}) values (1, 1)")), "");
        let found = run(&mut a, "delete from p where id = 1");
        assert_eq!(state_of(&found), expected, "{found}");
        assert_eq!(run(&mut a, "rollback"), "");
    }
    // The referenced row was deleted, or inserted, after the snapshot.
    let (_, mut a, mut b) = sessions();
    assert_eq!(run(&mut a, "begin isolation level repeatable read; select count(*) from c"), "0");
    assert_eq!(run(&mut b, "delete from p where id = 1; insert into p values (4, 40)"), "");
    let found = run(&mut a, "insert into c (id, p) values (1, 1)");
    assert_eq!(found, "error 40001: could not serialize access due to concurrent update");
    assert_eq!(run(&mut a, "rollback"), "");
    assert_eq!(run(&mut a, "begin isolation level repeatable read; select count(*) from c"), "0");
    assert_eq!(run(&mut b, "insert into p values (5, 50)"), "");
    let found = run(&mut a, "insert into c (id, p) values (1, 5)");
    assert_eq!(state_of(&found), "23503", "{found}");
}

#[test]
fn a_deferred_check_is_made_by_the_commit() {
    let (database, mut a, b) = sessions();
    assert_eq!(run(&mut a, "begin; insert into c (id, r) values (1, 1)"), "");
    // Nothing is locked yet, so the other session can delete the row.
    let mut b = b;
    assert_eq!(run(&mut b, "delete from p where id = 1"), "");
    let found = run(&mut a, "commit");
    assert_eq!(state_of(&found), "23503", "{found}");
    assert_eq!(run(&mut a, "select count(*) from c"), "0");
    drop(database);
}

/// Returns a client that sends this COPY data.
fn lines(data: &[u8]) -> Lines {
    let mut lines = Lines::default();
    lines.copy.extend_from_slice(data);
    lines
}

#[test]
fn copy_is_checked_when_it_has_ended() {
    let (_, mut a, _) = sessions();
    for extra in ["", " check (id > 0)"] {
        assert_eq!(
            run(
                &mut a,
                &format!("create table tree (id int primary key{extra}, up int references tree)")
            ),
            ""
        );
        let mut copied = lines(b"1\t2\n2\t1\n3\t\\N\n");
        a.simple_query("copy tree from stdin", &mut copied).unwrap();
        let mut refused = lines(b"4\t3\n5\t9\n");
        let error = a.simple_query("copy tree from stdin", &mut refused).unwrap_err();
        a.error();
        assert_eq!(error.sqlstate, "23503");
        assert_eq!(run(&mut a, "select count(*) from tree"), "3");
        assert_eq!(run(&mut a, "drop table tree"), "");
    }
}

#[test]
fn a_key_is_proved_by_all_committed_rows() {
    let (_, mut a, mut b) = sessions();
    assert_eq!(run(&mut a, "create table later (p int)"), "");
    assert_eq!(run(&mut a, "begin isolation level repeatable read; select count(*) from c"), "0");
    assert_eq!(run(&mut b, "insert into later values (77)"), "");
    let found = run(&mut a, "alter table later add foreign key (p) references p");
    assert_eq!(state_of(&found), "23503", "{found}");
}

/// Validation by ATTACH PARTITION or ADD FOREIGN KEY once let an orphan in. A DELETE that names a
/// partition of the referenced table locks that partition alone, and the validation did not lock
/// it.
#[test]
fn a_key_waits_for_a_deletion_from_a_referenced_partition() {
    let keys = [
        "alter table c attach partition c1 for values in (1)",
        "alter table c1 add foreign key (a) references p",
    ];
    for key in keys {
        let database = Database::in_memory_without_threads().unwrap();
        let mut a = database.session();
        let setup = "create table p (a int primary key) partition by list (a); \
                     create table p1 partition of p for values in (1); insert into p values (1); \
                     create table c (a int references p) partition by list (a); \
                     create table c1 (a int not null); insert into c1 values (1)";
        assert_eq!(run(&mut a, setup), "");
        assert_eq!(run(&mut a, "begin; delete from p1 where a = 1"), "");
        let (found, _) = blocked_until(&database, &mut a, "commit", database.session(), key);
        assert_eq!(state_of(&found), "23503", "{key}: {found}");
    }
}

#[test]
fn the_check_finds_rows_without_their_referenced_row() {
    let (database, mut a, _) = sessions();
    assert_eq!(run(&mut a, "insert into c values (1, 1, 2, 3)"), "");
    assert_eq!(database.check_foreign_keys().unwrap(), Vec::new());
    // A key that is not validated may be violated, and is not reported.
    assert_eq!(
        run(
            &mut a,
            "create table o (p int); insert into o values (9); \
             alter table o add constraint o_p foreign key (p) references p not valid"
        ),
        ""
    );
    assert_eq!(database.check_foreign_keys().unwrap(), Vec::new());
}

/// An UPDATE moves a row to another partition, and a trigger there rejects it: the row is gone. Its
/// referring rows must be checked.
#[test]
fn a_row_that_is_lost_between_partitions_is_deleted() {
    let (_, mut a, _) = sessions();
    let setup = "create table region (id int, part int, primary key (id, part)) partition by list (part); \
         create table region_1 partition of region for values in (1); \
         create table region_2 partition of region for values in (2); \
         create function keep_out() returns trigger language plpgsql as $$ begin return null; end $$; \
         create trigger keep_out before insert on region_2 for each row execute function keep_out(); \
         insert into region values (1, 1), (2, 1); \
         create table shop (id int, region int, part int, constraint shop_region foreign key (region, part) references region); \
         insert into shop values (1, 1, 1)";
    assert_eq!(run(&mut a, setup), "");
    let found = run(&mut a, "update region set part = 2 where id = 1");
    assert_eq!(state_of(&found), "23503", "{found}");
    assert_eq!(run(&mut a, "update region set part = 2 where id = 2"), "");
    assert_eq!(run(&mut a, "select * from region"), "1|1");
    let cascading = "alter table shop drop constraint shop_region; \
         alter table shop add foreign key (region, part) references region on delete cascade on update cascade";
    assert_eq!(run(&mut a, cascading), "");
    assert_eq!(run(&mut a, "update region set part = 2 where id = 1"), "");
    assert_eq!(run(&mut a, "select count(*) from region"), "0");
    assert_eq!(run(&mut a, "select count(*) from shop"), "0");
}

/// A row once could not leave a partition that a foreign key references directly (0A000). For that
/// foreign key the move is a DELETE. For a foreign key to the whole table it is an UPDATE.
#[test]
fn a_row_leaves_a_referenced_partition_as_if_deleted() {
    let (_, mut a, _) = sessions();
    let setup = "create table region (id int primary key) partition by range (id); \
         create table region_1 partition of region for values from (1) to (10); \
         create table region_2 partition of region for values from (10) to (20); \
         insert into region values (7), (8), (9); \
         create table near (id int, constraint near_region foreign key (id) references region_1); \
         create table shop (id int references region on update cascade); \
         insert into near values (7); insert into shop values (8)";
    assert_eq!(run(&mut a, setup), "");
    let found = run(&mut a, "update region set id = 17 where id = 7");
    assert_eq!(state_of(&found), "23503", "{found}");
    assert!(found.contains("region_1") && found.contains("near_region"), "{found}");
    assert_eq!(run(&mut a, "update region set id = id + 10 where id in (8, 9)"), "");
    assert_eq!(run(&mut a, "select * from shop"), "18");
    let cascading = "alter table near drop constraint near_region; \
         alter table near add foreign key (id) references region_1 on delete cascade";
    assert_eq!(run(&mut a, cascading), "");
    assert_eq!(run(&mut a, "update region set id = 17 where id = 7"), "");
    assert_eq!(run(&mut a, "select count(*) from near"), "0");
    // A row still cannot leave a referenced table between its partition and the statement's table.
    let middle = "create table top (id int primary key) partition by range (id); \
         create table top_1 partition of top for values from (1) to (10) partition by range (id); \
         create table top_1_1 partition of top_1 for values from (1) to (10); \
         create table top_2 partition of top for values from (10) to (20); \
         insert into top values (1); create table c2 (id int references top_1)";
    assert_eq!(run(&mut a, middle), "");
    assert_eq!(state_of(&run(&mut a, "update top set id = 11")), "0A000");
    assert_eq!(run(&mut a, "update top_1 set id = 2"), "");
}
