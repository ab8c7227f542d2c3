//! The protocol half of a session: prepared statements, portals, and the ends of transactions.

use niwaki::{
    ColumnInfo, Database, Datum, ExecuteOutcome, ResultSink, RowSink, Session, SqlError, TypeOid,
};

#[derive(Default)]
struct Sink {
    rows: Vec<Vec<Datum>>,
    tags: Vec<String>,
}

impl RowSink for Sink {
    fn row(&mut self, row: &[Datum]) -> niwaki::Result<()> {
        self.rows.push(row.to_vec());
        Ok(())
    }
}

impl ResultSink for Sink {
    fn columns(&mut self, _: &[ColumnInfo]) -> niwaki::Result<()> {
        Ok(())
    }
    fn complete(&mut self, tag: &str) {
        self.tags.push(tag.to_owned());
    }
    fn empty_query(&mut self) {
        self.tags.push("(empty)".to_owned());
    }
    fn notice(&mut self, _: &SqlError) {}
    fn parameter_status(&mut self, _: &str, _: &str) {}
    fn copy_in(&mut self, _: usize) -> niwaki::Result<()> {
        Ok(())
    }
    fn copy_in_data(&mut self, _: &mut Vec<u8>) -> niwaki::Result<bool> {
        Ok(false)
    }
    fn copy_out_begin(&mut self, _: usize) -> niwaki::Result<()> {
        Ok(())
    }
    fn copy_out(&mut self, _: &[u8]) -> niwaki::Result<()> {
        Ok(())
    }
    fn copy_out_end(&mut self) {}
}

fn bind(s: &mut Session, portal: &str, statement: &str, values: &[Datum]) -> niwaki::Result<()> {
    s.bind(portal, statement, &mut |i, _| Ok(values[i].clone()), values.len())
}

fn run(s: &mut Session, portal: &str, max: u64) -> niwaki::Result<(ExecuteOutcome, Sink)> {
    let mut sink = Sink::default();
    let outcome = s.execute_portal(portal, max, &mut sink)?;
    Ok((outcome, sink))
}

fn session(db: &Database) -> Session {
    let mut s = db.session();
    s.execute("create table t (a int primary key, b text)", ()).unwrap();
    s.execute("insert into t select g, 'row ' || g from generate_series(1, 10) g", ()).unwrap();
    s
}

#[test]
fn prepared_statements_describe_themselves_and_run() {
    let db = Database::in_memory_without_threads().unwrap();
    let mut s = session(&db);
    s.parse("get", "select b, a + $2 as c from t where a = $1", &[]).unwrap();
    let described = s.statement("get").unwrap();
    assert_eq!(&*described.parameters, [TypeOid::INT4, TypeOid::INT4]);
    let columns = described.columns.clone().unwrap();
    assert_eq!((columns[0].name.as_str(), columns[1].name.as_str()), ("b", "c"));
    assert_eq!((columns[0].attribute, columns[0].oid()), (2, TypeOid::TEXT));
    for i in 1..=3 {
        bind(&mut s, "", "get", &[Datum::Int4(i), Datum::Int4(100)]).unwrap();
        let (outcome, sink) = run(&mut s, "", 0).unwrap();
        assert_eq!(outcome, ExecuteOutcome::Complete);
        assert_eq!(sink.tags, ["SELECT 1"]);
        assert!(matches!(sink.rows[0][1], Datum::Int4(c) if c == i + 100));
        s.sync(&mut Sink::default()).unwrap();
        assert_eq!(s.transaction_status(), b'I');
    }
    assert_eq!(s.parse("get", "select 1", &[]).unwrap_err().sqlstate, "42P05");
    s.error();
    // The statement's own error comes first.
    assert_eq!(s.parse("get", "selec", &[]).unwrap_err().sqlstate, "42601");
    s.error();
    let prepare = "prepare get as select nothing";
    assert_eq!(s.simple_query(prepare, &mut Sink::default()).unwrap_err().sqlstate, "42703");
    assert_eq!(bind(&mut s, "", "get", &[]).unwrap_err().sqlstate, "08P01");
    s.error();
    // A failure forgets no prepared statement.
    assert!(s.statement("get").is_ok());
    s.close_statement("get");
    assert_eq!(s.statement("get").unwrap_err().sqlstate, "26000");
    assert_eq!(run(&mut s, "nope", 0).err().unwrap().sqlstate, "34000");
}

#[test]
fn portals_stop_at_row_limits() {
    let db = Database::in_memory_without_threads().unwrap();
    let mut s = session(&db);
    s.parse("", "select a from t order by a", &[]).unwrap();
    bind(&mut s, "p", "", &[]).unwrap();
    let (outcome, sink) = run(&mut s, "p", 4).unwrap();
    assert_eq!((outcome, sink.rows.len()), (ExecuteOutcome::Suspended, 4));
    let (outcome, sink) = run(&mut s, "p", 4).unwrap();
    assert_eq!((outcome, sink.rows.len()), (ExecuteOutcome::Suspended, 4));
    let (outcome, sink) = run(&mut s, "p", 4).unwrap();
    assert_eq!((outcome, sink.rows.len()), (ExecuteOutcome::Complete, 2));
    assert_eq!(sink.tags, ["SELECT 2"]);
    s.sync(&mut Sink::default()).unwrap();
    assert_eq!(run(&mut s, "p", 0).err().unwrap().sqlstate, "34000");
    // A statement that returns no rows does not suspend.
    s.parse("", "insert into t values (11, 'x'), (12, 'y')", &[]).unwrap();
    bind(&mut s, "", "", &[]).unwrap();
    let (outcome, sink) = run(&mut s, "", 1).unwrap();
    assert_eq!((outcome, sink.tags), (ExecuteOutcome::Complete, vec!["INSERT 0 2".to_owned()]));
    s.parse("", "commit", &[]).unwrap();
    bind(&mut s, "", "", &[]).unwrap();
    assert_eq!(run(&mut s, "", 1).unwrap().0, ExecuteOutcome::Complete);
    s.parse("", "", &[]).unwrap();
    bind(&mut s, "", "", &[]).unwrap();
    assert_eq!(run(&mut s, "", 0).unwrap().0, ExecuteOutcome::Empty);
}

#[test]
fn changes_run_to_their_end_however_few_rows_are_asked_for() {
    let db = Database::in_memory_without_threads().unwrap();
    let mut s = session(&db);
    s.parse("ins", "insert into t values (11, 'x'), (12, 'y'), (13, 'z') returning a", &[])
        .unwrap();
    bind(&mut s, "p", "ins", &[]).unwrap();
    let (outcome, sink) = run(&mut s, "p", 1).unwrap();
    assert_eq!((outcome, sink.rows.len()), (ExecuteOutcome::Suspended, 1));
    // The next statement of the transaction sees all changes.
    s.parse("count", "select count(*) from t", &[]).unwrap();
    bind(&mut s, "", "count", &[]).unwrap();
    assert!(matches!(run(&mut s, "", 0).unwrap().1.rows[0][0], Datum::Int8(13)));
    let (outcome, sink) = run(&mut s, "p", 5).unwrap();
    assert_eq!((outcome, sink.rows.len()), (ExecuteOutcome::Complete, 2));
    // As PostgreSQL, the tag counts the rows of the last call.
    assert_eq!(sink.tags, ["INSERT 0 2"]);
    s.sync(&mut Sink::default()).unwrap();
    // A portal that is abandoned after its first row has changed all rows too.
    s.parse("upd", "update t set b = 'new' where a > 10 returning a", &[]).unwrap();
    bind(&mut s, "", "upd", &[]).unwrap();
    assert_eq!(run(&mut s, "", 1).unwrap().0, ExecuteOutcome::Suspended);
    s.sync(&mut Sink::default()).unwrap();
    let row = s.query_one("select count(*) from t where b = 'new'", ()).unwrap();
    assert_eq!(row.get::<i64>(0).unwrap(), 3);
    // A duplicate key is found before any row is given.
    bind(&mut s, "", "ins", &[]).unwrap();
    assert_eq!(run(&mut s, "", 1).err().unwrap().sqlstate, "23505");
}

#[test]
fn a_pipeline_is_one_transaction_up_to_sync() {
    let db = Database::in_memory_without_threads().unwrap();
    let mut s = session(&db);
    let mut other = db.session();
    let count = |other: &mut Session| -> i64 {
        other.query_one("select count(*) from t", ()).unwrap().get(0).unwrap()
    };
    s.parse("ins", "insert into t values ($1, 'p')", &[]).unwrap();
    for i in [20, 21] {
        bind(&mut s, "", "ins", &[Datum::Int4(i)]).unwrap();
        run(&mut s, "", 0).unwrap();
    }
    assert_eq!(count(&mut other), 10);
    s.sync(&mut Sink::default()).unwrap();
    assert_eq!(count(&mut other), 12);
    // One failure undoes everything since the last Sync.
    bind(&mut s, "", "ins", &[Datum::Int4(22)]).unwrap();
    run(&mut s, "", 0).unwrap();
    bind(&mut s, "", "ins", &[Datum::Int4(20)]).unwrap();
    assert_eq!(run(&mut s, "", 0).err().unwrap().sqlstate, "23505");
    s.error();
    s.sync(&mut Sink::default()).unwrap();
    assert_eq!(count(&mut other), 12);
    // Portals outlive Sync inside a block.
    s.execute("begin", ()).unwrap();
    s.parse("all", "select a from t order by a", &[]).unwrap();
    bind(&mut s, "p", "all", &[]).unwrap();
    assert_eq!(run(&mut s, "p", 3).unwrap().0, ExecuteOutcome::Suspended);
    s.sync(&mut Sink::default()).unwrap();
    assert_eq!(s.transaction_status(), b'T');
    assert_eq!(run(&mut s, "p", 3).unwrap().1.rows.len(), 3);
    s.execute("commit", ()).unwrap();
    assert_eq!(run(&mut s, "p", 3).err().unwrap().sqlstate, "34000");
}

#[test]
fn plans_follow_definitions_of_other_sessions() {
    let db = Database::in_memory_without_threads().unwrap();
    let mut s = session(&db);
    let mut other = db.session();
    s.parse("one", "select b from t where a = $1", &[]).unwrap();
    s.parse("star", "select * from t where a = $1", &[]).unwrap();
    s.sync(&mut Sink::default()).unwrap();
    let get = |s: &mut Session, name: &str| -> niwaki::Result<Vec<Datum>> {
        bind(s, "", name, &[Datum::Int4(1)])?;
        let result = run(s, "", 0);
        if result.is_err() {
            s.error();
        }
        s.sync(&mut Sink::default()).unwrap();
        Ok(result?.1.rows.pop().unwrap_or_default())
    };
    assert_eq!(get(&mut s, "one").unwrap().len(), 1);
    other.execute("alter table t drop constraint t_pkey", ()).unwrap();
    assert_eq!(get(&mut s, "one").unwrap().len(), 1);
    other.execute("create index on t (b); truncate t", ()).unwrap();
    assert_eq!(get(&mut s, "one").unwrap().len(), 0);
    other.execute("insert into t values (1, 'again')", ()).unwrap();
    assert!(matches!(&get(&mut s, "one").unwrap()[0], Datum::Text(t) if &**t == "again"));
    other.execute("alter table t add column c int", ()).unwrap();
    assert_eq!(get(&mut s, "one").unwrap().len(), 1);
    let error = get(&mut s, "star").unwrap_err();
    assert_eq!(error.message, "cached plan must not change result type");
    other.execute("drop table t", ()).unwrap();
    assert_eq!(get(&mut s, "one").unwrap_err().sqlstate, "42P01");
}

/// Runs an unnamed statement with values to its end.
fn once(s: &mut Session, sql: &str, values: &[Datum]) -> niwaki::Result<Sink> {
    s.parse("", sql, &[])?;
    bind(s, "", "", values)?;
    let (_, sink) = run(s, "", 0)?;
    Ok(sink)
}

fn numbers(sink: &Sink) -> Vec<i32> {
    let number = |row: &Vec<Datum>| match row.first() {
        Some(Datum::Int4(number)) => *number,
        other => panic!("no number: {other:?}"),
    };
    sink.rows.iter().map(number).collect()
}

#[test]
fn create_table_as_has_parameters() {
    let db = Database::in_memory_without_threads().unwrap();
    let mut s = session(&db);
    let sql =
        "create table u as with w as (select $2 || b as b, a from t) select * from w where a > $1";
    s.parse("make", sql, &[]).unwrap();
    let described = s.statement("make").unwrap();
    assert_eq!(&*described.parameters, [TypeOid::INT4, TypeOid::TEXT]);
    assert!(described.columns.is_none());
    bind(&mut s, "", "make", &[Datum::Int4(8), Datum::text("a ")]).unwrap();
    assert_eq!(run(&mut s, "", 0).unwrap().1.tags, ["SELECT 2"]);
    s.sync(&mut Sink::default()).unwrap();
    assert_eq!(numbers(&once(&mut s, "select a from u order by b", &[]).unwrap()), [10, 9]);
    let error = once(&mut s, "create table v as select $1 as a", &[Datum::Null]);
    assert!(error.is_ok(), "a parameter of no known type is text");
    s.sync(&mut Sink::default()).unwrap();
    // SELECT INTO is the same statement.
    let into = once(&mut s, "select a into w from t where a = $1", &[Datum::Int4(3)]).unwrap();
    assert_eq!(into.tags, ["SELECT 1"]);
}

/// A cursor is a portal: messages and statements move the same one.
#[test]
fn cursors_are_portals() {
    let db = Database::in_memory_without_threads().unwrap();
    let mut s = session(&db);
    once(&mut s, "begin", &[]).unwrap();
    let declare = "declare c scroll cursor with hold for select a from t where a > $1 order by a";
    once(&mut s, declare, &[Datum::Int4(2)]).unwrap();
    let (outcome, sink) = run(&mut s, "c", 3).unwrap();
    assert_eq!((outcome, numbers(&sink)), (ExecuteOutcome::Suspended, vec![3, 4, 5]));
    assert_eq!(numbers(&once(&mut s, "fetch backward 2 c", &[]).unwrap()), [4, 3]);
    let (outcome, sink) = run(&mut s, "c", 2).unwrap();
    assert_eq!((outcome, numbers(&sink)), (ExecuteOutcome::Suspended, vec![4, 5]));
    once(&mut s, "commit", &[]).unwrap();
    s.sync(&mut Sink::default()).unwrap();
    let (outcome, sink) = run(&mut s, "c", 0).unwrap();
    assert_eq!((outcome, numbers(&sink)), (ExecuteOutcome::Complete, vec![6, 7, 8, 9, 10]));
    assert_eq!(sink.tags, ["SELECT 5"]);
    s.sync(&mut Sink::default()).unwrap();
    assert_eq!(numbers(&once(&mut s, "fetch prior c", &[]).unwrap()), [10]);
    // A portal of a Bind message goes forward only. After a request to go back it cannot go on.
    once(&mut s, "begin", &[]).unwrap();
    s.parse("p", "select a from t order by a", &[]).unwrap();
    bind(&mut s, "p", "p", &[]).unwrap();
    run(&mut s, "p", 2).unwrap();
    assert_eq!(numbers(&once(&mut s, "fetch 2 p", &[]).unwrap()), [3, 4]);
    once(&mut s, "savepoint s", &[]).unwrap();
    assert_eq!(once(&mut s, "fetch prior p", &[]).err().unwrap().sqlstate, "55000");
    s.error();
    once(&mut s, "rollback to s", &[]).unwrap();
    let error = run(&mut s, "p", 1).err().unwrap();
    assert_eq!((error.sqlstate, &*error.message), ("55000", "portal \"p\" cannot be run"));
    s.error();
    s.close_portal("c");
    once(&mut s, "rollback", &[]).unwrap();
    assert_eq!(run(&mut s, "c", 0).err().unwrap().sqlstate, "34000");
}

/// A running portal keeps its name. Once, a cursor that it declared took the name, and was lost
/// with the portal.
#[test]
fn a_portal_that_runs_keeps_its_name() {
    let db = Database::in_memory().unwrap();
    let mut s = session(&db);
    for (sql, state, message) in [
        ("declare p cursor for select a from t", "42P03", "cursor \"p\" already exists"),
        ("fetch p", "55000", "portal \"p\" cannot be run"),
        ("move p", "55000", "portal \"p\" cannot be run"),
        ("close p", "24000", "cannot drop active portal \"p\""),
    ] {
        s.execute("begin", ()).unwrap();
        s.parse("", sql, &[]).unwrap();
        bind(&mut s, "p", "", &[]).unwrap();
        let error = run(&mut s, "p", 0).err().unwrap_or_else(|| panic!("{sql} ran"));
        assert_eq!((error.sqlstate, &*error.message), (state, message), "{sql}");
        s.error();
        s.execute("rollback", ()).unwrap();
    }
    // The name is free again when the portal is gone.
    s.execute("begin", ()).unwrap();
    once(&mut s, "declare p cursor for select a from t order by a", &[]).unwrap();
    s.parse("", "fetch 2 p", &[]).unwrap();
    bind(&mut s, "f", "", &[]).unwrap();
    assert_eq!(numbers(&run(&mut s, "f", 0).unwrap().1), [1, 2]);
    assert_eq!(numbers(&once(&mut s, "fetch p", &[]).unwrap()), [3]);
    s.execute("close p", ()).unwrap();
}

/// Parses, binds and executes a statement as one step of a pipeline.
fn step(s: &mut Session, sql: &str) -> niwaki::Result<Vec<String>> {
    s.parse("", sql, &[])?;
    bind(s, "", "", &[])?;
    run(s, "", 0).map(|(_, sink)| sink.tags)
}

/// A pipeline has INSERT, VACUUM and a failing statement up to one Sync. The INSERT was once
/// committed, because VACUUM ended the transaction of the pipeline. Now statements that commit on
/// their own are refused behind another statement.
#[test]
fn what_commits_on_its_own_is_refused_within_a_pipeline() {
    let db = Database::in_memory_without_threads().unwrap();
    let mut s = session(&db);
    s.execute("create index t_b on t (b)", ()).unwrap();
    let alone = [
        ("vacuum t", "VACUUM"),
        ("create index concurrently t_again on t (b)", "CREATE INDEX CONCURRENTLY"),
        ("drop index concurrently t_b", "DROP INDEX CONCURRENTLY"),
        ("reindex table concurrently t", "REINDEX CONCURRENTLY"),
        ("reindex schema public", "REINDEX SCHEMA"),
        ("reindex database postgres", "REINDEX DATABASE"),
        ("create database other", "CREATE DATABASE"),
        ("drop database other", "DROP DATABASE"),
        ("discard all", "DISCARD ALL"),
    ];
    for (sql, word) in alone {
        step(&mut s, "insert into t values (99)").unwrap();
        let error = step(&mut s, sql).unwrap_err();
        let told = (error.sqlstate, &*error.message);
        assert_eq!(told, ("25001", &*format!("{word} cannot be executed within a pipeline")));
        s.error();
        s.sync(&mut Sink::default()).unwrap();
        let left: i64 =
            s.query_one("select count(*) from t where a = 99", ()).unwrap().get(0).unwrap();
        assert_eq!(left, 0, "{sql}");
    }
    // The first statement of a pipeline may, also behind an empty statement and behind COMMIT.
    assert_eq!(step(&mut s, "").unwrap(), ["(empty)"]);
    assert_eq!(step(&mut s, "vacuum t").unwrap(), ["VACUUM"]);
    assert_eq!(step(&mut s, "insert into t values (99)").unwrap(), ["INSERT 0 1"]);
    assert_eq!(step(&mut s, "commit").unwrap(), ["COMMIT"]);
    assert_eq!(step(&mut s, "vacuum t").unwrap(), ["VACUUM"]);
    assert_eq!(step(&mut s, "select 1").unwrap(), ["SELECT 1"]);
    assert_eq!(step(&mut s, "vacuum t").unwrap_err().sqlstate, "25001");
    s.error();
    s.sync(&mut Sink::default()).unwrap();
}

/// FETCH, EXECUTE and SHOW once gave all rows, whatever limit Execute had, and the next Execute
/// failed with 55000. Now they keep their rows, and each Execute gives the next ones.
#[test]
fn utility_statements_give_their_rows_in_parts() {
    use ExecuteOutcome::{Complete, Suspended};
    let db = Database::in_memory_without_threads().unwrap();
    let mut s = session(&db);
    s.execute("prepare named as select a from t where a <= 3 order by a", ()).unwrap();
    s.execute("begin", ()).unwrap();
    s.execute("declare c cursor for select a from t where a <= 3 order by a", ()).unwrap();
    s.execute("declare d cursor for select a from t where a <= 3 order by a", ()).unwrap();
    for (sql, last) in [
        ("fetch 3 from c", "FETCH 1"),
        ("fetch all from d", "FETCH 1"),
        ("execute named", "SELECT 1"),
    ] {
        s.parse("", sql, &[]).unwrap();
        bind(&mut s, "", "", &[]).unwrap();
        let (outcome, sink) = run(&mut s, "", 2).unwrap();
        assert_eq!((outcome, numbers(&sink)), (Suspended, vec![1, 2]), "{sql}");
        assert!(sink.tags.is_empty());
        let (outcome, sink) = run(&mut s, "", 2).unwrap();
        assert_eq!((outcome, numbers(&sink)), (Complete, vec![3]), "{sql}");
        assert_eq!(sink.tags, [last]);
    }
    s.parse("", "show search_path", &[]).unwrap();
    bind(&mut s, "", "", &[]).unwrap();
    assert_eq!(run(&mut s, "", 1).unwrap().0, Suspended);
    let (outcome, sink) = run(&mut s, "", 0).unwrap();
    assert_eq!((outcome, sink.rows.len(), &*sink.tags[0]), (Complete, 0, "SHOW"));
    s.execute("rollback", ()).unwrap();
}

/// Executes a statement's portal twice. Returns the SQLSTATE of the second time.
fn twice(s: &mut Session, sql: &str) -> &'static str {
    s.parse("", sql, &[]).unwrap();
    bind(s, "p", "", &[]).unwrap();
    run(s, "p", 0).unwrap_or_else(|error| panic!("{sql}: {error}"));
    let again = run(s, "p", 0).err().unwrap_or_else(|| panic!("{sql} ran again"));
    s.error();
    s.sync(&mut Sink::default()).unwrap();
    again.sqlstate
}

/// VACUUM once forgot its own portal with the transactions that it ended. COMMIT AND CHAIN and
/// ROLLBACK TO kept theirs in the transaction that goes on.
#[test]
fn a_portal_that_ran_is_there_as_long_as_in_postgresql() {
    let db = Database::in_memory_without_threads().unwrap();
    let mut s = session(&db);
    let (is_done, is_gone) = ("55000", "34000");
    for (sql, expected) in [
        ("vacuum t", is_done),
        ("vacuum", is_done),
        ("create index concurrently again on t (b)", is_done),
        ("reindex table concurrently t", is_done),
        ("reindex schema public", is_done),
        ("drop index concurrently again", is_done),
        ("analyze t", is_done),
        ("insert into t values (50)", is_done),
        ("create table u (a int)", is_done),
        ("copy t to stdout", is_done),
        ("checkpoint", is_done),
        ("begin", is_done),
        ("commit", is_gone),
        ("rollback", is_gone),
        ("discard all", is_gone),
        ("drop database if exists other", is_gone),
    ] {
        assert_eq!(twice(&mut s, sql), expected, "{sql}");
        s.execute("rollback", ()).unwrap();
    }
    for (sql, expected) in [
        ("insert into t values (50)", is_done),
        ("savepoint s", is_done),
        ("release s", is_done),
        ("rollback to s", is_gone),
        ("commit", is_gone),
        ("commit and chain", is_gone),
        ("rollback and chain", is_gone),
    ] {
        s.execute("begin; savepoint s", ()).unwrap();
        assert_eq!(twice(&mut s, sql), expected, "{sql} in a block");
        s.execute("rollback", ()).unwrap();
    }
    // A statement that commits on its own opens a transaction for the following ones. Another such
    // statement is then not alone in it.
    step(&mut s, "vacuum t").unwrap();
    assert_eq!(step(&mut s, "vacuum t").unwrap_err().sqlstate, "25001");
    s.error();
    s.sync(&mut Sink::default()).unwrap();
}

/// A portal that was bound and never executed once outlived Sync and failures. An empty query left
/// the transaction of the earlier messages open: a failure undid work that was reported as done.
#[test]
fn messages_end_with_sync_failures_and_empty_queries() {
    let db = Database::in_memory_without_threads().unwrap();
    let mut s = session(&db);
    s.parse("get", "select a from t", &[]).unwrap();
    s.sync(&mut Sink::default()).unwrap();
    let ends: [fn(&mut Session); 4] = [
        |s| s.sync(&mut Sink::default()).unwrap(),
        Session::error,
        |s| s.simple_query("", &mut Sink::default()).unwrap(),
        |s| s.simple_query("vacuum t", &mut Sink::default()).unwrap(),
    ];
    for end in ends {
        bind(&mut s, "p", "get", &[]).unwrap();
        end(&mut s);
        assert_eq!(run(&mut s, "p", 0).err().unwrap().sqlstate, "34000");
    }
    step(&mut s, "insert into t values (99)").unwrap();
    s.simple_query(" ; ", &mut Sink::default()).unwrap();
    s.error();
    assert_eq!(numbers(&once(&mut s, "select a from t where a > 98", &[]).unwrap()), [99]);
    s.sync(&mut Sink::default()).unwrap();
}

/// DISCARD ALL and a failing statement up to one Sync once brought the settings back.
#[test]
fn nothing_takes_discard_all_back() {
    let db = Database::in_memory_without_threads().unwrap();
    let mut s = session(&db);
    s.execute("set work_mem = '7MB'; create temp table mine (a int); listen c", ()).unwrap();
    s.parse("get", "select a from t", &[]).unwrap();
    s.sync(&mut Sink::default()).unwrap();
    assert_eq!(step(&mut s, "discard all").unwrap(), ["DISCARD ALL"]);
    assert_eq!(step(&mut s, "select 1/0").unwrap_err().sqlstate, "22012");
    s.error();
    s.sync(&mut Sink::default()).unwrap();
    let shown: String = s.query_one("show work_mem", ()).unwrap().get(0).unwrap();
    assert_ne!(shown, "7MB");
    assert_eq!(s.execute("select a from mine", ()).unwrap_err().sqlstate, "42P01");
    let channels = "select count(*) from pg_listening_channels()";
    let channels: i64 = s.query_one(channels, ()).unwrap().get(0).unwrap();
    assert_eq!(channels, 0);
    assert_eq!(s.statement("get").err().unwrap().sqlstate, "26000");
}
