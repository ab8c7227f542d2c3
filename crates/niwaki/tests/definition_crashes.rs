//! Crash images of definitions, at every change of the file system, with unsynced writes kept, lost
//! and torn. The database must open, its catalog must be of one moment, and constraints must hold.

mod common;
#[path = "common/crashes.rs"]
mod crashes;

use std::sync::Arc;

use common::run;
use crashes::each_image;
use niwaki::{Database, Options};
use niwaki_env::Env;
use niwaki_env::vfs::{FaultyVfs, Vfs};

fn open(vfs: Arc<dyn Vfs>) -> niwaki::Result<Database> {
    let options = Options::new().small_files(true).set("shared_buffers", "256kB");
    Database::open_with(Env { vfs, ..Env::memory() }, options)
}

/// Statements. Each changes the answer to [`SHAPE`], or the rows.
const STATEMENTS: &[&str] = &[
    "create view v as select id, v * 2 as twice from p where v > 10",
    "create view w (a, b) as select v.id, p.v from v join p using (id) where exists (select from v v2 where v2.id = p.id)",
    "comment on view v is 'doubled'; alter view w rename column b to single; alter view v rename to doubled",
    "create or replace view doubled as select id, v * 2 as twice, v + 1 as more from p where v < 30",
    "create table c (id int primary key, p int references p on delete cascade)",
    "insert into c values (1, 1), (2, 2)",
    "alter table p add column w int generated always as (v * 2) stored",
    "comment on table p is 'of them'; comment on column c.p is 'to it'; comment on schema public is 's'",
    "create or replace view w as select d.id as a, p.v as single, d.more from doubled d join p using (id)",
    "alter table c alter p type bigint",
    "delete from p where id = 2",
    "alter table p add column n serial",
    "begin; alter table c drop constraint c_p_fkey; drop table p cascade; rollback",
    "alter table c add column q int default 3, add constraint c_q foreign key (q) references p not valid",
    "alter table c validate constraint c_q",
    "alter table p rename column id to number; alter table p rename to parents",
    "create schema s; alter table c set schema s; alter schema s rename to t",
    "create function f() returns trigger language plpgsql as 'begin new.v := new.v + 1; return new; end'",
    "create trigger r before update on parents for each row when (new.v < 100) execute function f('x')",
    "update parents set v = v where number = 1",
    "create or replace function f() returns trigger language plpgsql stable as 'begin new.v := 7; return new; end'",
    "comment on function f() is 'seven'; comment on trigger r on parents is 'each'; alter trigger r on parents rename to q",
    "alter function f() rename to g; alter function g() set schema t; update parents set v = v where number = 3",
    "alter table parents disable trigger q; begin; drop function t.g() cascade; rollback",
    "create or replace trigger q after delete on t.c for each row execute function t.g()",
    "drop trigger q on parents",
    "drop function t.g() cascade",
    "create function plus(a int, b int default 1) returns int immutable language sql as 'select a + b'",
    "create function of_p(k int, out n int, out t text) returns setof record language sql stable as 'select number, v::text from parents where number = k'",
    "create view calls as select plus(number) as next from parents; comment on function plus(int, int) is 'sum'",
    "create or replace function plus(a int, b int default 1) returns int language sql as 'select a + b + 1'",
    "alter function plus(int, int) rename to sum_of; alter function sum_of(int, int) set schema t",
    "begin; drop function t.sum_of(int, int) cascade; rollback",
    "create function one_of(p parents) returns parents language sql as 'select p'",
    "drop function of_p(int)",
    "drop view doubled cascade",
    "alter table parents alter w drop expression, alter v type text using 'v' || v",
    "create domain positive as int default 7 check (value > 0); alter table parents add column d positive",
    "alter domain positive add constraint small check (value < 100); alter domain positive set not null",
    "begin; drop domain positive cascade; rollback",
    "alter domain positive rename constraint small to below; alter domain positive rename to plus",
    "drop domain plus cascade",
    "create type pair as (a int, b text); alter table parents add column e pair default row(1, 'one')",
    "create type two as (p pair, q pair[]); comment on type two is 'of pairs'; alter type pair rename to couple",
    "update parents set e.b = 'other' where number = 1; create index parents_e on parents (e)",
    "begin; drop type two, couple cascade; rollback",
    "drop type two, couple cascade",
    "create table r (k int, t text, primary key (k)) partition by range (k)",
    "create table r1 partition of r for values from (0) to (10); create table r2 partition of r for values from (10) to (20)",
    "insert into r values (1, 'one'), (11, 'eleven')",
    "create table r3 (t text, x int, k int not null); alter table r3 drop column x; insert into r3 values ('thirty', 30); alter table r attach partition r3 for values from (30) to (40)",
    "create index on r (t); update r set k = k + 11 where k = 1",
    "begin; drop table r; rollback; alter table r add column n int default 5",
    "create table rd partition of r default partition by list (k); create table rd1 partition of rd for values in (100, 101)",
    "insert into r values (100, null)",
    "alter table r rename column n to m; alter table r detach partition r3",
    "begin; alter table r attach partition r3 for values from (30) to (40); rollback",
    "create index r_n on only r (m); create index r1_n on r1 (m); create index r2_n on r2 (m); alter index r_n attach partition r1_n",
    "create unique index r_k on only r (k, m); alter table only r alter column t set default 'x'",
    "begin; alter index r_n attach partition r2_n; rollback; create index rd_n on only rd (m); create index rd1_n on rd1 (m)",
    "alter index rd_n attach partition rd1_n; alter index r_n attach partition rd_n",
    "alter index r_n attach partition r2_n; create table r4 partition of r for values from (40) to (50)",
    "alter table r add constraint high check (m < 1000)",
    "begin; alter table r alter column m type bigint using m + 1; rollback",
    "alter table r alter column m type bigint using m + 1; alter table r rename constraint high to below",
    "drop index r_n",
    "truncate r1, rd; drop table r2",
    "drop table r, r3",
    "create function base() returns int immutable language sql as 'select 5'; create type hue as enum ('red', 'blue')",
    "create table n (a int default base() check (a > base() - 5), h hue default 'red'); create index n_red on n (a) where h = 'red'",
    "create domain high as int default base() check (value > base() - 9); alter table n alter a set default base() + 1",
    "alter function base() rename to ground; alter type hue rename value 'red' to 'pink'; insert into n default values",
    "alter type hue rename to tone; create schema u; alter function ground() set schema u; alter schema u rename to z",
    "begin; drop function z.ground() cascade; rollback",
    "drop function z.ground() cascade; insert into n (a) values (-7)",
    "drop type tone cascade",
    "drop table n",
    "create table mt (a int primary key, b text); insert into mt select g, repeat('x', g) from generate_series(1, 20) g",
    "create materialized view mv as select a, b from mt where a % 2 = 0 with no data",
    "refresh materialized view mv",
    "create unique index mv_a on mv (a); delete from mt where a = 20; \
     update mt set b = (select string_agg(md5(g::text), '') from generate_series(1, 200) g) where a < 5",
    "refresh materialized view mv",
    "insert into mt values (22, 'more'); update mt set b = 'newer' where a = 2",
    "refresh materialized view concurrently mv",
    "begin; delete from mt where a = 4; refresh materialized view mv; rollback",
    "begin; delete from mt where a = 6; refresh materialized view concurrently mv; rollback",
    "alter materialized view mv rename to mw; alter materialized view mw rename column b to c; comment on materialized view mw is 'rows'",
    "create materialized view mx with (fillfactor = 50) as select length(c) as c, count(*) from mw group by 1",
    "create unique index mx_c on mx (c); update mt set b = 'last' where a > 3; refresh materialized view mw; refresh materialized view concurrently mx",
    "refresh materialized view mx with no data; refresh materialized view mw with no data",
    "refresh materialized view mw; begin; drop materialized view mw cascade; rollback",
    "drop table mt cascade",
    "truncate parents, t.c",
    "drop table parents cascade",
];

/// Query for the catalog's description of the tables.
const SHAPE: &str = "select relname, attnum, attname, atttypid, col_description(c.oid, attnum), \
     obj_description(c.oid, 'pg_class'), relkind, relispopulated, pg_get_expr(relpartbound, c.oid), \
     (select count(*) from pg_index join pg_inherits on inhrelid = indexrelid where indrelid = c.oid) from pg_class c join pg_attribute a on a.attrelid = c.oid \
     where c.oid >= 16384 and relkind in ('r', 'p', 'v', 'm') order by c.oid, attnum";

/// Query for the catalog's description of domains.
const DOMAINS: &str = "select typname, typnotnull, typdefault, conname, pg_get_constraintdef(c.oid) \
     from pg_type t left join pg_constraint c on contypid = t.oid where typtype = 'd' order by 1, 4";

/// Query for the catalog's description of defaults, checks and indexes.
const EXPRESSIONS: &str = "select adrelid::regclass::text, adnum, pg_get_expr(adbin, adrelid) from pg_attrdef where adrelid >= 16384 \
     union all select conrelid::regclass::text, 0, pg_get_constraintdef(oid) from pg_constraint where contype = 'c' and conrelid >= 16384 \
     union all select indrelid::regclass::text, -1, pg_get_indexdef(indexrelid) from pg_index where indrelid >= 16384 order by 1, 2, 3";

/// Query for the catalog's description of composite types.
const COMPOSITES: &str = "select typname, attnum, attname, format_type(atttypid, atttypmod), obj_description(t.oid) \
     from pg_type t join pg_attribute on attrelid = typrelid where typtype = 'c' order by typname, attnum";

/// Query for the catalog's description of functions and triggers.
const ROUTINES: &str = "select proname, pronamespace::regnamespace, prosrc, provolatile, pg_get_function_arguments(p.oid), pg_get_function_result(p.oid), obj_description(p.oid, 'pg_proc'), \
     tgname, tgrelid::regclass, tgenabled, obj_description(t.oid, 'pg_trigger'), pg_get_triggerdef(t.oid) \
     from pg_proc p left join pg_trigger t on tgfoid = p.oid where p.oid >= 16384 order by 1, 8";

/// Returns the rows of all existing tables.
fn rows(database: &Database) -> String {
    let mut session = database.session();
    let mut all = run(&mut session, SHAPE);
    all.push_str(&run(&mut session, DOMAINS));
    all.push_str(&run(&mut session, EXPRESSIONS));
    all.push_str(&run(&mut session, COMPOSITES));
    all.push_str(&run(&mut session, ROUTINES));
    let tables = ["p", "parents", "c", "t.c", "s.c", "v", "doubled", "w", "calls", "n", "r", "r3"];
    for table in tables.into_iter().chain(["mt", "mv", "mw", "mx"]) {
        let found = run(&mut session, &format!("select * from {table} order by 1"));
        if !found.starts_with("error 42P01") {
            // A materialized view without data.
            let unread = found.starts_with("error 55000");
            assert!(unread || !found.starts_with("error"), "{table}: {found}");
            all.push_str(&format!("\n{table}: {found}"));
        }
    }
    all
}

#[test]
fn every_moment_of_a_definition_recovers() {
    let vfs = FaultyVfs::new();
    vfs.record();
    let database = open(Arc::new(vfs.clone())).unwrap();
    let mut session = database.session();
    let setup = "create table p (id int primary key, v int); insert into p values (1, 10), (2, 20), (3, 30)";
    assert_eq!(run(&mut session, setup), "");
    let begin = vfs.changes();
    // Allowed states: before and after each statement, with the time of its acknowledgement.
    let mut states = vec![(begin, rows(&database))];
    for statement in STATEMENTS {
        // Each text is one transaction, whether it has one statement or several.
        assert_eq!(run(&mut session, statement), "", "{statement}");
        states.push((vfs.changes(), rows(&database)));
    }
    drop(session);
    drop(database);
    // Every third moment suffices: all moments take seconds, and the seeds of the suites cover
    // them.
    let images = each_image(
        &vfs,
        |at| at >= begin && at.is_multiple_of(3),
        |at, what, vfs| {
            let database = open(Arc::clone(&vfs)).unwrap_or_else(|e| panic!("{what}: {e}"));
            let report = database.check().unwrap();
            assert!(report.violations.is_empty(), "{what}: {:#?}", report.violations);
            assert_eq!(database.check_foreign_keys().unwrap(), Vec::new(), "{what}");
            let found = rows(&database);
            // The last state acknowledged by then, or the state of the statement that was running.
            let done = states.iter().rposition(|(end, _)| *end <= at).unwrap_or(0);
            let allowed = &states[done..(done + 2).min(states.len())];
            assert!(
                allowed.iter().any(|(_, state)| *state == found),
                "{what}:\n{found}\n{allowed:#?}"
            );
        },
    );
    assert!(images > 40, "only {images} images");
}
