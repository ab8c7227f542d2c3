//! Views made again from the text that `pg_get_viewdef` gives, as a restored dump makes them.
//!
//! What a user saw: `unnest(a, b) AS t(x, y)` lost x and y, a cast in FROM was shown as one that
//! the parser does not take there, VALUES lost their order and the view's names for their columns,
//! and USING had names that columns had lost since. Such a dump did not restore, or gave other
//! rows. What forbids it now: an item of FROM cannot be noted without its alias, and these tests.

mod common;

use common::run;
use niwaki::{Database, Session};

const TABLES: &str = "create table a (id int, x int, y int, z int); create table b (id int, w int); \
                      insert into a values (1, 2, 3, 4), (2, 3, 4, 5); insert into b values (1, 5), (3, 6)";

/// Each shape that an item of FROM has, and VALUES without it.
const QUERIES: &[&str] = &[
    "select t.x, t.y from unnest(array[1, 2], array['a']) as t(x, y)",
    "select t.x, t.y, t.n from unnest(array[1, 2], array['a']) with ordinality t(x, y, n)",
    "select s.p, s.unnest as other from a, unnest(array[a.x], array[a.z]) s(p)",
    "select count(*) as n from unnest(array[1, 2], array[3])",
    "select e.v, e.n from unnest(array['p', 'q']) with ordinality e(v, n)",
    "select g.k from generate_series(1, 3) g(k)",
    "select r.p, r.q from json_to_recordset('[{\"p\": 1}]') as r(p int, q text)",
    "select k.key, k.v from jsonb_each('{\"a\": 1}') k(key, v)",
    "select c.c from cast(1 as bigint) c",
    "select * from coalesce(1, 2), cast('a' as text), greatest(1, 2), int4(2.5), current_user, upper('x')",
    "select u.u, u.n from cast('5' as int) with ordinality u(u, n)",
    "select v.p, v.q from (values (1, 'x'), (2, 'y')) v(p, q)",
    "select v.p, v.column2 from (values (1, 'x'), (2, 'y')) v(p)",
    "select l.more from a, lateral (select a.x + 1 as more) l",
    "select q.i, q.z as last from a q(i, j, k, z)",
    "select r.i, r.w from a q(i) join b r(i) using (i)",
    "select id, x, w from a full join b using (id)",
    "select id, x, w from a natural left join b",
    "select o.x from only a o",
    "with n(k) as (select id from a) select m.j from n m(j)",
    "with n as (values (2), (1) order by 1 limit 1) select n.column1 from n",
    "values (2, 'a'), (1, 'b') order by 1 limit 1",
    "select q.x from a q for share of q",
];

/// Makes the view again of its text, in both styles; it must have the same columns, rows and text.
fn check_again(session: &mut Session, view: &str) {
    for style in ["", ", true"] {
        let text_of = |session: &mut Session, view: &str| {
            let text = run(session, &format!("select pg_get_viewdef('{view}'{style})"));
            // As in PostgreSQL, a nested VALUES that is written has a blank more than one that is
            // made up.
            text.replace("( VALUES", "(VALUES")
        };
        let text = text_of(session, view);
        assert_eq!(run(session, &format!("create view again as {text}")), "", "{text}");
        assert_eq!(text_of(session, "again"), text);
        for what in [
            "select * from {}",
            "select attname, format_type(atttypid, atttypmod) from pg_attribute \
             where attrelid = '{}'::regclass and attnum > 0 order by attnum",
        ] {
            let rows = run(session, &what.replace("{}", view));
            assert!(!rows.contains("error"), "{rows}\n{text}");
            assert_eq!(run(session, &what.replace("{}", "again")), rows, "{text}");
        }
        assert_eq!(run(session, "drop view again"), "");
    }
}

fn text_of(session: &mut Session, view: &str) -> String {
    run(session, &format!("select pg_get_viewdef('{view}')"))
}

fn with_tables(database: &Database) -> Session {
    let mut session = database.session();
    assert_eq!(run(&mut session, TABLES), "");
    session
}

#[test]
fn views_are_made_again_of_their_texts() {
    let database = Database::in_memory_without_threads().unwrap();
    let mut session = with_tables(&database);
    for query in QUERIES {
        assert_eq!(run(&mut session, &format!("create view v as {query}")), "", "{query}");
        check_again(&mut session, "v");
        assert_eq!(run(&mut session, "drop view v"), "");
    }
}

/// The texts are PostgreSQL's.
#[test]
fn values_keep_the_names_that_the_view_gives_them() {
    let database = Database::in_memory_without_threads().unwrap();
    let mut session = with_tables(&database);
    let views = "create view one(p, q) as values (2, 'a'), (1, 'b') order by 2 desc limit 1; \
                 create view two(p) as values (1) union values (2) order by 1";
    assert_eq!(run(&mut session, views), "");
    let one = " SELECT \"*VALUES*\".column1 AS p,
    \"*VALUES*\".column2 AS q
   FROM (VALUES (2,'a'::text), (1,'b'::text)) \"*VALUES*\"
  ORDER BY \"*VALUES*\".column2 DESC
 LIMIT 1;";
    assert_eq!(text_of(&mut session, "one"), one);
    let two = " SELECT \"*VALUES*\".column1 AS p
   FROM (VALUES (1)) \"*VALUES*\"
UNION
 SELECT \"*VALUES*\".column1 AS p
   FROM (VALUES (2)) \"*VALUES*\"
  ORDER BY 1;";
    assert_eq!(text_of(&mut session, "two"), two);
    for view in ["one", "two"] {
        check_again(&mut session, view);
    }
}

/// The texts are PostgreSQL's.
#[test]
fn texts_follow_what_was_renamed_and_dropped() {
    let database = Database::in_memory_without_threads().unwrap();
    let mut session = with_tables(&database);
    let views = "create view v as select q.z, r.w from a q(i, j, k, z) join b r(i) using (i); \
                 create view w as select id, x, w from a join b using (id) for update of a";
    assert_eq!(run(&mut session, views), "");
    let changes = "alter table a drop column y; alter table a rename id to ident; \
                   alter table a rename to a2; alter table b rename w to x";
    assert_eq!(run(&mut session, changes), "");
    let v = " SELECT q.z,
    r.x AS w
   FROM (a2 q(i, j, z)
     JOIN b r(i, x) USING (i));";
    assert_eq!(text_of(&mut session, "v"), v);
    let w = " SELECT a2.id,
    a2.x,
    b.x AS w
   FROM (a2 a2(id, x, z)
     JOIN b USING (id))
 FOR UPDATE OF a2;";
    assert_eq!(text_of(&mut session, "w"), w);
    for view in ["v", "w"] {
        check_again(&mut session, view);
    }
}

#[test]
fn items_without_an_alias_have_the_names_of_what_they_are() {
    let database = Database::in_memory_without_threads().unwrap();
    let mut session = with_tables(&database);
    let names = "select \"coalesce\", text, \"greatest\", int4, \"nullif\" from coalesce(1, 2), \
                 cast('a' as text), greatest(1, 2), cast('7' as int), nullif(3, 4)";
    assert_eq!(run(&mut session, names), "1|a|2|7|3");
}

/// Several renamed columns of USING, in any order, and a new column with the kept name.
#[test]
fn columns_of_using_keep_their_names() {
    let database = Database::in_memory_without_threads().unwrap();
    let mut session = with_tables(&database);
    let setup = "create table c (id int, x int); create table d (id int, w int, x int); \
                 create view v as select count(*) from c join d using (x, id); \
                 alter table c rename id to i2; alter table c rename x to x2; \
                 alter table d rename id to dd; alter table d rename x to xx; \
                 create table e (id int, x int); \
                 create view w as select e.x, d.w from e join d on e.id = d.w join c f(id) using (id); \
                 alter table e rename id to old_id; alter table e add column id bigint";
    assert_eq!(run(&mut session, setup), "");
    let v = " SELECT count(*) AS count
   FROM (c c(id, x)
     JOIN d d(id, w, x) USING (x, id));";
    assert_eq!(text_of(&mut session, "v"), v);
    for view in ["v", "w"] {
        check_again(&mut session, view);
    }
}

#[test]
fn rows_are_locked_beside_arrays_side_by_side() {
    let database = Database::in_memory_without_threads().unwrap();
    let mut session = with_tables(&database);
    assert_eq!(
        run(&mut session, "create table locked (id int); insert into locked values (1)"),
        ""
    );
    for (end, rows) in [("with ordinality u", "1|1|3|1"), ("u", "1|1|3")] {
        let query = format!("select * from locked, unnest(array[1], array[3]) {end} for update");
        assert_eq!(run(&mut session, &query), rows);
        assert_eq!(run(&mut session, &format!("{query} of locked")), rows);
        let refused = run(&mut session, &format!("{query} of u"));
        assert_eq!(refused, "error 0A000: FOR UPDATE cannot be applied to a function");
    }
}
