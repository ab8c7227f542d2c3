//! Statements through the library, end to end.

use niwaki::{ColumnInfo, Database, Datum, ResultSink, RowSink, Session, SqlError, TypeOid};

/// Collects everything that a client would see, as lines of text.
#[derive(Default)]
struct Transcript {
    lines: Vec<String>,
    types: Vec<TypeOid>,
    input: Vec<u8>,
}

impl RowSink for Transcript {
    fn row(&mut self, row: &[Datum]) -> niwaki::Result<()> {
        let settings = niwaki::TextSettings::default();
        let values: Vec<String> = row
            .iter()
            .enumerate()
            .map(|(i, v)| match v {
                Datum::Null => "NULL".to_owned(),
                v => {
                    let oid = self.types.get(i).copied().unwrap_or(TypeOid::TEXT);
                    niwaki_types::to_text(v, oid, &settings)
                }
            })
            .collect();
        self.lines.push(values.join("|"));
        Ok(())
    }
}

impl ResultSink for Transcript {
    fn columns(&mut self, columns: &[ColumnInfo]) -> niwaki::Result<()> {
        self.types = columns.iter().map(ColumnInfo::oid).collect();
        Ok(())
    }
    fn complete(&mut self, tag: &str) {
        self.lines.push(tag.to_owned());
    }
    fn empty_query(&mut self) {
        self.lines.push("(empty)".to_owned());
    }
    fn notice(&mut self, notice: &SqlError) {
        self.lines.push(format!("{}: {}", notice.severity.as_str(), notice.message));
        let details = notice.detail.iter().flat_map(|detail| detail.lines());
        self.lines.extend(details.map(str::to_owned));
    }
    fn parameter_status(&mut self, _: &str, _: &str) {}
    fn copy_in(&mut self, columns: usize) -> niwaki::Result<()> {
        self.lines.push(format!("copy in {columns}"));
        Ok(())
    }
    fn copy_in_data(&mut self, buffer: &mut Vec<u8>) -> niwaki::Result<bool> {
        buffer.append(&mut self.input);
        Ok(false)
    }
    fn copy_out_begin(&mut self, columns: usize) -> niwaki::Result<()> {
        self.lines.push(format!("copy out {columns}"));
        Ok(())
    }
    fn copy_out(&mut self, line: &[u8]) -> niwaki::Result<()> {
        self.lines.push(String::from_utf8_lossy(line).trim_end().to_owned());
        Ok(())
    }
    fn copy_out_end(&mut self) {}
}

/// Runs a query string; an error becomes the last line, as `ERROR 23505: message`.
fn run(session: &mut Session, sql: &str) -> Vec<String> {
    run_copy(session, sql, "")
}

fn run_copy(session: &mut Session, sql: &str, input: &str) -> Vec<String> {
    let mut transcript = Transcript { input: input.as_bytes().to_vec(), ..Transcript::default() };
    if let Err(error) = session.simple_query(sql, &mut transcript) {
        session.error();
        let mut line = format!("ERROR {}: {}", error.sqlstate, error.message);
        for extra in [&error.detail, &error.context].into_iter().flatten() {
            line.push_str(" / ");
            line.push_str(extra);
        }
        transcript.lines.push(line);
    }
    transcript.lines
}

fn database() -> Database {
    Database::in_memory_without_threads().unwrap()
}

#[test]
fn reindex_tells_what_it_did_when_asked() {
    let database = Database::in_memory_without_threads().unwrap();
    let mut s = database.session();
    run(&mut s, "create table r (a int primary key); create index r_i on r (a desc)");
    assert_eq!(
        run(&mut s, "set client_min_messages = error; reindex (verbose) table r"),
        [
            "SET",
            "INFO: index \"r_pkey\" was reindexed",
            "It has 2 pages now, and had 2.",
            "INFO: index \"r_i\" was reindexed",
            "It has 2 pages now, and had 2.",
            "REINDEX"
        ]
    );
    assert_eq!(
        run(&mut s, "reindex (verbose, concurrently) index r_i"),
        ["INFO: index \"public.r_i\" was reindexed", "It has 2 pages now, and had 2.", "REINDEX"]
    );
    assert_eq!(run(&mut s, "reindex (verbose off) index r_i"), ["REINDEX"]);
}

#[test]
fn create_insert_select() {
    let db = database();
    let mut s = db.session();
    assert_eq!(
        run(
            &mut s,
            "create table t (a int primary key, b text not null default 'x', c bigserial);
             insert into t (a) values (1), (2); insert into t values (3, 'y', 10);
             select * from t order by a"
        ),
        ["CREATE TABLE", "INSERT 0 2", "INSERT 0 1", "1|x|1", "2|x|2", "3|y|10", "SELECT 3"]
    );
    assert_eq!(
        run(&mut s, "insert into t (a) values (1)"),
        [
            "ERROR 23505: duplicate key value violates unique constraint \"t_pkey\" / Key (a)=(1) already exists."
        ]
    );
    assert_eq!(
        run(&mut s, "update t set b = 'z' where a = 2; select b from t where a = 2"),
        ["UPDATE 1", "z", "SELECT 1"]
    );
    assert_eq!(
        run(&mut s, "delete from t where a > 1; select count(*) from t"),
        ["DELETE 2", "1", "SELECT 1"]
    );
}

#[test]
fn definitions_roll_back() {
    let db = database();
    let mut s = db.session();
    run(&mut s, "create table kept (a int); insert into kept values (1)");
    assert_eq!(
        run(
            &mut s,
            "begin; create table t (a serial primary key); insert into t default values;
             alter table kept add column b int default 7; truncate kept; drop table kept; rollback;
             select * from kept"
        ),
        [
            "BEGIN",
            "CREATE TABLE",
            "INSERT 0 1",
            "ALTER TABLE",
            "TRUNCATE TABLE",
            "DROP TABLE",
            "ROLLBACK",
            "1",
            "SELECT 1"
        ]
    );
    assert_eq!(run(&mut s, "select * from t"), ["ERROR 42P01: relation \"t\" does not exist"]);
    assert_eq!(
        run(
            &mut s,
            "begin; savepoint a; create table t (a int); rollback to a; create table t (b text);
             insert into t values ('x'); commit; select b from t"
        ),
        [
            "BEGIN",
            "SAVEPOINT",
            "CREATE TABLE",
            "ROLLBACK",
            "CREATE TABLE",
            "INSERT 0 1",
            "COMMIT",
            "x",
            "SELECT 1"
        ]
    );
}

#[test]
fn alter_table() {
    let db = database();
    let mut s = db.session();
    run(&mut s, "create table t (a int, b text); insert into t values (1, 'x'), (2, null)");
    assert_eq!(
        run(
            &mut s,
            "alter table t add column c numeric(5,2) default 1.5, add d date; select * from t"
        ),
        ["ALTER TABLE", "1|x|1.50|NULL", "2|NULL|1.50|NULL", "SELECT 2"]
    );
    assert_eq!(
        run(&mut s, "alter table t alter b set not null"),
        ["ERROR 23502: column \"b\" of relation \"t\" contains null values"]
    );
    assert_eq!(
        run(&mut s, "alter table t add constraint pos check (a > 1)"),
        ["ERROR 23514: check constraint \"pos\" of relation \"t\" is violated by some row"]
    );
    assert_eq!(
        run(&mut s, "alter table t add check (a > 0); insert into t (a) values (0)"),
        [
            "ALTER TABLE",
            "ERROR 23514: new row for relation \"t\" violates check constraint \"t_a_check\" / Failing row contains (0, null, 1.50, null)."
        ]
    );
    // The failed query string was one transaction.
    assert_eq!(
        run(
            &mut s,
            "insert into t (a) values (0); delete from t where a = 0; alter table t drop column b; select * from t"
        ),
        ["INSERT 0 1", "DELETE 1", "ALTER TABLE", "1|1.50|NULL", "2|1.50|NULL", "SELECT 2"]
    );
    assert_eq!(
        run(
            &mut s,
            "alter table t rename column c to cc; alter table t rename to u; select cc from u limit 1"
        ),
        ["ALTER TABLE", "ALTER TABLE", "1.50", "SELECT 1"]
    );
    assert_eq!(
        run(&mut s, "alter table u add primary key (a); insert into u values (1)"),
        [
            "ALTER TABLE",
            "ERROR 23505: duplicate key value violates unique constraint \"u_pkey\" / Key (a)=(1) already exists."
        ]
    );
    assert_eq!(
        run(
            &mut s,
            "alter table u alter cc set default 3, alter a drop not null; insert into u (a) values (5) returning *"
        ),
        ["ALTER TABLE", "5|3.00|NULL", "INSERT 0 1"]
    );
    assert_eq!(
        run(&mut s, "alter table nope add x int"),
        ["ERROR 42P01: relation \"nope\" does not exist"]
    );
    assert_eq!(
        run(&mut s, "alter table if exists nope add x int"),
        ["NOTICE: relation \"nope\" does not exist, skipping", "ALTER TABLE"]
    );
}

#[test]
fn indexes() {
    let db = database();
    let mut s = db.session();
    run(&mut s, "create table t (a int, b text); insert into t values (1, 'x'), (1, 'y')");
    assert_eq!(
        run(&mut s, "create unique index on t (a)"),
        ["ERROR 23505: could not create unique index \"t_a_idx\" / Key (a)=(1) is duplicated."]
    );
    assert_eq!(
        run(
            &mut s,
            "create index on t (a, b desc) include (b); create unique index u on t (b);
             create index if not exists u on t (a);
             select indexname, indexdef from pg_indexes where tablename = 't' order by 1"
        ),
        [
            "CREATE INDEX",
            "CREATE INDEX",
            "NOTICE: relation \"u\" already exists, skipping",
            "CREATE INDEX",
            "t_a_b_b1_idx|CREATE INDEX t_a_b_b1_idx ON public.t USING btree (a, b DESC) INCLUDE (b)",
            "u|CREATE UNIQUE INDEX u ON public.t USING btree (b)",
            "SELECT 2"
        ]
    );
    assert_eq!(
        run(&mut s, "insert into t values (2, 'x')"),
        [
            "ERROR 23505: duplicate key value violates unique constraint \"u\" / Key (b)=(x) already exists."
        ]
    );
    assert_eq!(
        run(&mut s, "drop index u; insert into t values (2, 'x'); drop index u"),
        ["DROP INDEX", "INSERT 0 1", "ERROR 42704: index \"u\" does not exist"]
    );
}

#[test]
fn transaction_blocks() {
    let db = database();
    let mut s = db.session();
    run(&mut s, "create table t (a int primary key)");
    assert_eq!(s.transaction_status(), b'I');
    assert_eq!(run(&mut s, "begin"), ["BEGIN"]);
    assert_eq!(s.transaction_status(), b'T');
    assert_eq!(run(&mut s, "insert into t values (1)"), ["INSERT 0 1"]);
    assert_eq!(run(&mut s, "select 1/0"), ["ERROR 22012: division by zero"]);
    assert_eq!(s.transaction_status(), b'E');
    let aborted = "ERROR 25P02: current transaction is aborted, commands ignored until end of transaction block";
    assert_eq!(run(&mut s, "select 1"), [aborted]);
    assert_eq!(run(&mut s, "commit"), ["ROLLBACK"]);
    assert_eq!(s.transaction_status(), b'I');
    assert_eq!(run(&mut s, "select count(*) from t"), ["0", "SELECT 1"]);
    assert_eq!(
        run(&mut s, "begin; insert into t values (1); savepoint s; insert into t values (2)"),
        ["BEGIN", "INSERT 0 1", "SAVEPOINT", "INSERT 0 1"]
    );
    assert_eq!(run(&mut s, "insert into t values (1)").len(), 1);
    assert_eq!(s.transaction_status(), b'E');
    assert_eq!(
        run(&mut s, "rollback to s; insert into t values (3); commit; select * from t order by 1"),
        ["ROLLBACK", "INSERT 0 1", "COMMIT", "1", "3", "SELECT 2"]
    );
    assert_eq!(run(&mut s, "commit"), ["WARNING: there is no transaction in progress", "COMMIT"]);
    assert_eq!(
        run(&mut s, "begin; begin; rollback"),
        ["BEGIN", "WARNING: there is already a transaction in progress", "BEGIN", "ROLLBACK"]
    );
    assert_eq!(
        run(&mut s, "begin isolation level serializable"),
        ["ERROR 0A000: isolation level SERIALIZABLE is not supported yet"]
    );
    assert_eq!(
        run(&mut s, "begin read only; insert into t values (9)"),
        ["BEGIN", "ERROR 25006: cannot execute INSERT in a read-only transaction"]
    );
    run(&mut s, "rollback");
    // Several statements are one transaction. Its failure undoes all of them.
    assert_eq!(run(&mut s, "insert into t values (10); select 1/0").len(), 2);
    assert_eq!(run(&mut s, "select count(*) from t where a = 10"), ["0", "SELECT 1"]);
    assert_eq!(run(&mut s, ""), ["(empty)"]);
}

#[test]
fn large_values_are_copied_in_and_out() {
    let db = database();
    let mut s = db.session();
    run(&mut s, "create table t (id int primary key, body text, n numeric)");
    let body = |seed: u64| -> String {
        let letter = |i: u64| char::from(b'a' + ((i * i * seed + i / 7) % 23) as u8);
        (0..30_000).map(letter).collect()
    };
    let number = "1234567890".repeat(1_000);
    let lines: Vec<String> = (1..4).map(|id| format!("{id}\t{}\t{number}", body(id))).collect();
    let input = format!("{}\n\\.\n", lines.join("\n"));
    assert_eq!(run_copy(&mut s, "copy t from stdin", &input), ["copy in 3", "COPY 3"]);
    let out = run(&mut s, "copy t to stdout");
    assert_eq!(out[1..4], lines);
    assert_eq!(db.check().unwrap().violations, []);
}

#[test]
fn uuids_and_times_are_copied_in_and_out() {
    let db = database();
    let mut s = db.session();
    run(&mut s, "create table t (id uuid primary key, a time, b timetz(1), c time(0))");
    let input = "{A0EEBC999C0B4EF8BB6D6BB9BD380A11}\t04:05 PM\t04:05:06.78-08\t23:59:59.5\n\
        00000000-0000-0000-0000-000000000000\t\\N\tallballs\t\\N\n\\.\n";
    assert_eq!(run_copy(&mut s, "copy t from stdin", input), ["copy in 4", "COPY 2"]);
    assert_eq!(
        run(&mut s, "copy t to stdout"),
        [
            "copy out 4",
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11\t16:05:00\t04:05:06.8-08\t24:00:00",
            "00000000-0000-0000-0000-000000000000\t\\N\t00:00:00+00\t\\N",
            "COPY 2"
        ]
    );
    assert_eq!(
        run_copy(
            &mut s,
            "copy t from stdin",
            "00000000-0000-0000-0000-000000000001\t25:00\t\\N\t\\N\n"
        ),
        [
            "copy in 4",
            "ERROR 22008: date/time field value out of range: \"25:00\" / COPY t, line 1, column a: \"25:00\""
        ]
    );
    assert_eq!(
        run_copy(
            &mut s,
            "copy t from stdin (delimiter ',')",
            "00000000-0000-0000-0000-00000000000x,04:05,\\N,\\N\n"
        ),
        [
            "copy in 4",
            "ERROR 22P02: invalid input syntax for type uuid: \"00000000-0000-0000-0000-00000000000x\" / \
             COPY t, line 1, column id: \"00000000-0000-0000-0000-00000000000x\""
        ]
    );
    assert_eq!(
        run(&mut s, "copy (select id, a from t order by id) to stdout (delimiter ',')"),
        [
            "copy out 2",
            "00000000-0000-0000-0000-000000000000,\\N",
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11,16:05:00",
            "COPY 2"
        ]
    );
}

#[test]
fn json_errors_say_where_in_the_text_and_where_in_the_data() {
    let db = database();
    let mut s = db.session();
    run(&mut s, "create table cj (a int, j json, b jsonb)");
    assert_eq!(
        run_copy(&mut s, "copy cj from stdin", "1\t{\"a\" : 1}\t[1,2]\n"),
        ["copy in 3", "COPY 1"]
    );
    assert_eq!(
        run_copy(&mut s, "copy cj from stdin", "1\t{\"a\"\t[1]\n"),
        [
            "copy in 3",
            "ERROR 22P02: invalid input syntax for type json / The input string ended unexpectedly. \
             / JSON data, line 1: {\"a\"\nCOPY cj, line 1, column j: \"{\"a\"\""
        ]
    );
    assert_eq!(
        run_copy(&mut s, "copy cj from stdin", "3\t\\N\t\"\\\\ud83d\"\n"),
        [
            "copy in 3",
            "ERROR 22P02: invalid input syntax for type json / Unicode low surrogate must follow a high surrogate. \
             / JSON data, line 1: \"\\ud83d\"\nCOPY cj, line 1, column b: \"\"\\ud83d\"\""
        ]
    );
    assert_eq!(
        run(&mut s, "copy cj to stdout"),
        ["copy out 3", "1\t{\"a\" : 1}\t[1, 2]", "COPY 1"]
    );
}

#[test]
fn uuids_are_given_and_taken_as_text_and_as_bytes() {
    let db = database();
    let mut s = db.session();
    let bytes: Vec<u8> = (0..16).collect();
    let text = "00010203-0405-0607-0809-0a0b0c0d0e0f";
    let sql = "select $1::uuid = $2::uuid, $1::uuid, $3::time + interval '1 hour'";
    let row = s.query_one(sql, (bytes.as_slice(), text, "04:05")).unwrap();
    assert!(row.get::<bool>(0).unwrap());
    assert_eq!(row.get::<String>(1).unwrap(), text);
    assert_eq!(row.get::<Vec<u8>>(1).unwrap(), bytes);
    assert_eq!(row.get::<String>(2).unwrap(), "05:05:00");
    assert_eq!(row.get::<i64>(2).unwrap(), 18_300_000_000);
    let error = s.query_one("select $1::uuid", (&bytes[1..],)).unwrap_err();
    assert_eq!(error.sqlstate, "42804");
}

#[test]
fn tables_of_json_are_sound() {
    let db = database();
    let mut s = db.session();
    run(
        &mut s,
        "create table js (id int primary key, j json, b jsonb, k jsonb unique);
         create index js_b on js ((b -> 'list' -> 0), (b ->> 'id') desc);
         insert into js select i, json_build_array(i, repeat('x', i)),
             jsonb_build_object('id', i, 'list', jsonb_build_array(i % 7, repeat('y', i % 11 * 300))),
             to_jsonb(i / 2.0) from generate_series(1, 400) i;
         update js set b = b || '{\"more\": [1.50, null]}', k = jsonb_build_array(k) where id % 5 = 0;
         delete from js where id % 9 = 0",
    );
    assert_eq!(run(&mut s, "select niwaki_check('js') > 0"), ["t", "SELECT 1"]);
    run(&mut s, "vacuum analyze js");
    assert_eq!(run(&mut s, "select niwaki_check('js') > 0"), ["t", "SELECT 1"]);
    assert_eq!(
        run(
            &mut s,
            "select count(*), sum(jsonb_array_length(b -> 'list')), sum((j ->> 0)::int) from js
             where b -> 'list' -> 0 = '3.0'"
        ),
        ["51|102|10128", "SELECT 1"]
    );
}

#[test]
fn json_goes_through_parameters_and_operators_keep_their_question_marks() {
    let db = database();
    let mut s = db.session();
    let has = "select $1::jsonb ? $2 and $1 ?| array[$2, 'z'] and $1 ?& '{a}' and $1 @> $3";
    let value = "{\"a\": [1, {\"b\": null}]}";
    let found: bool = s.query_one(has, (value, "a", "{\"a\": [1.0]}")).unwrap().get(0).unwrap();
    assert!(found);
    let part: String =
        s.query_one("select $1::jsonb -> 'a' -> 1", (value,)).unwrap().get(0).unwrap();
    assert_eq!(part, "{\"b\": null}");
    let error = s.query_one("select $1::json", ("[1,",)).map(drop).unwrap_err();
    assert_eq!(error.context.as_deref(), Some("JSON data, line 1: [1,"));
}

#[test]
fn copy_in_and_out() {
    let db = database();
    let mut s = db.session();
    run(&mut s, "create table t (a int primary key, b text, c numeric(4,1))");
    assert_eq!(
        run_copy(&mut s, "copy t from stdin", "1\tx\t1.25\n2\t\\N\t\\N\n3\ta\\tb\t9\n\\.\n"),
        ["copy in 3", "COPY 3"]
    );
    assert_eq!(
        run(&mut s, "copy t to stdout"),
        ["copy out 3", "1\tx\t1.3", "2\t\\N\t\\N", "3\ta\\tb\t9.0", "COPY 3"]
    );
    assert_eq!(
        run(&mut s, "copy (select a + 1 from t where a < 3 order by 1) to stdout (delimiter ',')"),
        ["copy out 1", "2", "3", "COPY 2"]
    );
    assert_eq!(
        run_copy(&mut s, "copy t from stdin", "4\tx\t1\n5\ty\tz\n"),
        [
            "copy in 3",
            "ERROR 22P02: invalid input syntax for type numeric: \"z\" / COPY t, line 2, column c: \"z\""
        ]
    );
    assert_eq!(
        run_copy(&mut s, "copy t (a, b) from stdin", "4\n"),
        ["copy in 2", "ERROR 22P04: missing data for column \"b\" / COPY t, line 1: \"4\""]
    );
    assert_eq!(
        run_copy(&mut s, "copy t (a) from stdin", "4\t5\n"),
        [
            "copy in 1",
            "ERROR 22P04: extra data after last expected column / COPY t, line 1: \"4\t5\""
        ]
    );
    assert_eq!(
        run_copy(&mut s, "copy t (a) from stdin", "4\n5\n4\n"),
        [
            "copy in 1",
            "ERROR 23505: duplicate key value violates unique constraint \"t_pkey\" / Key (a)=(4) already exists. / COPY t, line 3"
        ]
    );
    assert_eq!(
        run_copy(&mut s, "copy t (b) from stdin", "x\n"),
        [
            "copy in 1",
            "ERROR 23502: null value in column \"a\" of relation \"t\" violates not-null constraint / Failing row contains (null, x, null). / COPY t, line 1: \"x\""
        ]
    );
    assert_eq!(
        run_copy(&mut s, "copy t from stdin with freeze", ""),
        [
            "ERROR 55000: cannot perform COPY FREEZE because the table was not created or truncated in the current subtransaction"
        ]
    );
    run(&mut s, "begin; truncate t");
    assert_eq!(
        run_copy(&mut s, "copy t (a) from stdin with (freeze on)", "1\n2\n"),
        ["copy in 1", "COPY 2"]
    );
    assert_eq!(run(&mut s, "commit; select count(*) from t"), ["COMMIT", "2", "SELECT 1"]);
    // Defaults and checks use the general path.
    run(&mut s, "create table d (id serial, a int check (a > 0))");
    assert_eq!(run_copy(&mut s, "copy d (a) from stdin", "5\n6\n"), ["copy in 1", "COPY 2"]);
    assert_eq!(
        run_copy(&mut s, "copy d (a) from stdin", "5\n0\n"),
        [
            "copy in 1",
            "ERROR 23514: new row for relation \"d\" violates check constraint \"d_a_check\" / Failing row contains (4, 0). / COPY d, line 2: \"0\""
        ]
    );
    assert_eq!(run(&mut s, "select * from d order by id"), ["1|5", "2|6", "SELECT 2"]);
    assert_eq!(
        run(&mut s, "select n_tup_ins > 0 from pg_stat_user_tables where relname = 'd'"),
        ["t", "SELECT 1"]
    );
}

#[test]
fn settings_take_part_in_transactions() {
    let db = database();
    let mut s = db.session();
    assert_eq!(run(&mut s, "set work_mem = '8MB'; show work_mem"), ["SET", "8MB", "SHOW"]);
    assert_eq!(
        run(&mut s, "begin; set local work_mem = '1MB'; show work_mem; commit; show work_mem"),
        ["BEGIN", "SET", "1MB", "SHOW", "COMMIT", "8MB", "SHOW"]
    );
    assert_eq!(
        run(&mut s, "begin; set work_mem = '2MB'; rollback; show work_mem"),
        ["BEGIN", "SET", "ROLLBACK", "8MB", "SHOW"]
    );
    assert_eq!(run(&mut s, "reset work_mem; show work_mem"), ["RESET", "4MB", "SHOW"]);
    assert_eq!(
        run(&mut s, "show nonsense"),
        ["ERROR 42704: unrecognized configuration parameter \"nonsense\""]
    );
    assert_eq!(
        run(
            &mut s,
            "set timezone = 'Europe/Berlin'; select '2024-07-01 00:00+00'::timestamptz::text"
        ),
        ["SET", "2024-07-01 02:00:00+02", "SELECT 1"]
    );
    assert_eq!(
        run(&mut s, "select current_setting('TimeZone'), set_config('work_mem', '3MB', false)"),
        ["Europe/Berlin|3MB", "SELECT 1"]
    );
    assert_eq!(
        run(
            &mut s,
            "begin isolation level repeatable read; show transaction_isolation; commit; show transaction_isolation"
        ),
        ["BEGIN", "repeatable read", "SHOW", "COMMIT", "read committed", "SHOW"]
    );
    assert_eq!(
        run(&mut s, "create extension if not exists plpgsql; checkpoint; discard all"),
        [
            "NOTICE: extension \"plpgsql\" already exists, skipping",
            "CREATE EXTENSION",
            "CHECKPOINT",
            "ERROR 25001: DISCARD ALL cannot run inside a transaction block"
        ]
    );
}

/// A cursor older than the savepoint stays open, and its position is not rolled back. Younger
/// cursors are closed, also cursors of savepoints released into it.
#[test]
fn rollback_to_a_savepoint_closes_the_cursors_made_since() {
    let db = database();
    let mut s = db.session();
    assert_eq!(
        run(
            &mut s,
            "begin; declare old cursor for select generate_series(1, 5); fetch old;
             savepoint a; fetch old; declare young cursor for select 1;
             savepoint b; declare younger cursor for select 2; release b;
             rollback to a; fetch old; fetch young"
        ),
        [
            "BEGIN",
            "DECLARE CURSOR",
            "1",
            "FETCH 1",
            "SAVEPOINT",
            "2",
            "FETCH 1",
            "DECLARE CURSOR",
            "SAVEPOINT",
            "DECLARE CURSOR",
            "RELEASE",
            "ROLLBACK",
            "3",
            "FETCH 1",
            "ERROR 34000: cursor \"young\" does not exist"
        ]
    );
    // The failed FETCH was rolled back to the savepoint that still existed.
    assert_eq!(
        run(&mut s, "rollback to a; fetch younger"),
        ["ROLLBACK", "ERROR 34000: cursor \"younger\" does not exist"]
    );
    assert_eq!(
        run(&mut s, "rollback to a; fetch old; commit"),
        ["ROLLBACK", "4", "FETCH 1", "COMMIT"]
    );
}

#[test]
fn explain_analyze_measures_every_step() {
    let db = database();
    let mut s = db.session();
    run(
        &mut s,
        "create table t (a int primary key, b int); insert into t select i, i % 3 from generate_series(1, 9) i",
    );
    let plan = run(
        &mut s,
        "explain (analyze, costs off, timing off, summary off)
         select (select count(*) from t below where below.b = above.b) from t above where a <= 4",
    );
    let loops: Vec<_> = plan.iter().filter(|line| line.contains("loops=4")).collect();
    assert_eq!(loops.len(), 2, "the nested query ran for each of four rows: {plan:#?}");
    assert!(loops.iter().any(|line| line.contains("actual rows=3 loops=4")), "{plan:#?}");
    // With times: a step takes no longer than the step that contains it.
    let timed = run(&mut s, "explain (analyze, format json) select b, count(*) from t group by b");
    let times: Vec<f64> = timed
        .iter()
        .flat_map(|text| text.lines())
        .filter_map(|line| line.trim().strip_prefix("\"Actual Total Time\": "))
        .map(|number| number.trim_end_matches(',').parse().unwrap())
        .collect();
    assert_eq!(times.len(), 2, "{timed:#?}");
    assert!(times[0] >= times[1], "{times:?}");
}

/// SUMMARY without ANALYZE once showed nothing, and with ANALYZE it showed no planning time.
#[test]
fn explain_tells_times_when_asked_to() {
    let db = database();
    let mut s = db.session();
    for (options, planning, execution) in [
        ("costs off", false, false),
        ("summary", true, false),
        ("analyze", true, true),
        ("analyze, summary off", false, false),
    ] {
        for (format, planned, executed) in [
            ("text", "Planning Time: ", "Execution Time: "),
            ("json", "\"Planning Time\": ", "\"Execution Time\": "),
        ] {
            let sql = format!("explain ({options}, format {format}) select 1");
            let shown = run(&mut s, &sql).join("\n");
            assert_eq!(shown.contains(planned), planning, "{sql}: {shown}");
            assert_eq!(shown.contains(executed), execution, "{sql}: {shown}");
        }
    }
}

#[test]
fn explain_says_what_steps_give() {
    let db = database();
    let mut s = db.session();
    run(
        &mut s,
        "create table a (id int primary key, x text, unread text);
         create table b (id int primary key, y text not null);
         insert into a select i, 'x' from generate_series(1, 1000) i; insert into b values (1, 'y');
         analyze a, b",
    );
    let outer = "select a.x, b.y, a.id + 1 from a left join b on b.id = a.id";
    let plan = run(&mut s, &format!("explain (verbose, costs off) {outer}"));
    let given: Vec<_> =
        plan.iter().filter_map(|line| line.trim().strip_prefix("Output: ")).collect();
    assert_eq!(given, ["a.x, b.y, (a.id + 1)", "a.id, a.x", "b.id, b.y", "b.id, b.y"], "{plan:#?}");
    // A client derives from these three lines which columns may be NULL.
    let plan = run(&mut s, &format!("explain (verbose, costs off, format json) {outer}")).concat();
    for expected in [
        "\"Join Type\": \"Left\"",
        "\"Parent Relationship\": \"Inner\"",
        "\"Output\": [\"a.x\", \"b.y\", \"(a.id + 1)\"]",
    ] {
        assert!(plan.contains(expected), "{expected}: {plan}");
    }
    let plan = run(&mut s, "explain (costs off, format json) select 1 from a").concat();
    assert!(!plan.contains("Output"), "{plan}");
}

#[test]
fn prepared_by_name_and_cursors() {
    let db = database();
    let mut s = db.session();
    run(&mut s, "create table t (a int); insert into t select generate_series(1, 10)");
    assert_eq!(
        run(
            &mut s,
            "prepare p (int) as select a from t where a > $1 order by a; execute p (8); deallocate p; execute p(1)"
        ),
        [
            "PREPARE",
            "9",
            "10",
            "SELECT 2",
            "DEALLOCATE",
            "ERROR 26000: prepared statement \"p\" does not exist"
        ]
    );
    assert_eq!(
        run(
            &mut s,
            "begin; declare c cursor for select a from t order by a; fetch 2 from c; move 1 from c; fetch c; close c; commit"
        ),
        [
            "BEGIN",
            "DECLARE CURSOR",
            "1",
            "2",
            "FETCH 2",
            "MOVE 1",
            "4",
            "FETCH 1",
            "CLOSE CURSOR",
            "COMMIT"
        ]
    );
    assert_eq!(run(&mut s, "vacuum"), ["VACUUM"]);
    assert_eq!(run(&mut s, "vacuum analyze t"), ["VACUUM"]);
    assert_eq!(
        run(&mut s, "analyze t; select reltuples from pg_class where relname = 't'"),
        ["ANALYZE", "10", "SELECT 1"]
    );
    assert_eq!(
        run(&mut s, "begin; vacuum t"),
        ["BEGIN", "ERROR 25001: VACUUM cannot run inside a transaction block"]
    );
}

#[test]
fn sequences_and_identity() {
    let db = database();
    let mut s = db.session();
    assert_eq!(
        run(
            &mut s,
            "create sequence q start 5 increment 2 maxvalue 8; select nextval('q'), nextval('q'), currval('q')"
        ),
        ["CREATE SEQUENCE", "5|7|7", "SELECT 1"]
    );
    assert_eq!(
        run(&mut s, "select nextval('q')"),
        ["ERROR 2200H: nextval: reached maximum value of sequence \"q\" (8)"]
    );
    assert_eq!(
        run(
            &mut s,
            "alter sequence q restart with 3 maxvalue 100; select nextval('q'); drop sequence q"
        ),
        ["ALTER SEQUENCE", "3", "SELECT 1", "DROP SEQUENCE"]
    );
    run(&mut s, "create table t (id int generated always as identity, b int)");
    assert_eq!(
        run(&mut s, "insert into t (b) values (1), (2) returning id"),
        ["1", "2", "INSERT 0 2"]
    );
    assert_eq!(run(&mut s, "insert into t (id, b) values (9, 1)")[0][..12], *"ERROR 428C9:");
    assert_eq!(run(&mut s, "drop sequence t_id_seq")[0][..12], *"ERROR 2BP01:");
    assert_eq!(
        run(&mut s, "truncate t restart identity; insert into t (b) values (1) returning id"),
        ["TRUNCATE TABLE", "1", "INSERT 0 1"]
    );
    assert_eq!(
        run(
            &mut s,
            "drop table t; select count(*) from pg_class where relname like 't_%' and relkind = 'S'"
        ),
        ["DROP TABLE", "0", "SELECT 1"]
    );
    assert_eq!(
        run(&mut s, "drop table if exists t, u"),
        [
            "NOTICE: table \"t\" does not exist, skipping",
            "NOTICE: table \"u\" does not exist, skipping",
            "DROP TABLE"
        ]
    );
}

#[test]
fn functions_and_views_that_scripts_measure_with() {
    let db = database();
    let mut s = db.session();
    run(
        &mut s,
        "create table t (a int primary key, b int); insert into t select g, g from generate_series(1, 1000) g; update t set b = 0 where a < 11",
    );
    assert_eq!(
        run(
            &mut s,
            "select n_tup_ins, n_tup_upd, n_tup_del from pg_stat_user_tables where relname = 't'"
        ),
        ["1000|10|0", "SELECT 1"]
    );
    assert_eq!(
        run(
            &mut s,
            "select pg_relation_size('t') > 8192, pg_relation_size('t_pkey') > 8192,
                    pg_table_size('t') >= pg_relation_size('t'),
                    pg_total_relation_size('t') > pg_table_size('t')"
        ),
        ["t|t|t|t", "SELECT 1"]
    );
    assert_eq!(
        run(
            &mut s,
            "select niwaki_check('t') * 8192 = pg_relation_size('t') + pg_indexes_size('t')"
        ),
        ["t", "SELECT 1"]
    );
    assert_eq!(
        run(&mut s, "select wal_records > 1000, wal_bytes > 10000 from pg_stat_wal"),
        ["t|t", "SELECT 1"]
    );
    let checkpoints = "select checkpoints_req, buffers_checkpoint > 1, buffers_alloc > 1,
                              checkpoint_write_time >= 0, stats_reset from pg_stat_bgwriter";
    assert_eq!(run(&mut s, checkpoints), ["0|f|t|t|NULL", "SELECT 1"]);
    run(&mut s, "checkpoint");
    assert_eq!(run(&mut s, checkpoints), ["1|t|t|t|NULL", "SELECT 1"]);
    assert_eq!(
        run(
            &mut s,
            "select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0') > 0, txid_current() = txid_current(),
                    pg_isolation_test_session_is_blocked(pg_backend_pid(), '{1,2}')"
        ),
        ["t|t|f", "SELECT 1"]
    );
    assert_eq!(
        run(
            &mut s,
            "select relname, relkind, relnatts from pg_class where relname like 't%'
             and relnamespace = 'public'::regnamespace order by 1"
        ),
        ["t|r|2", "t_pkey|i|1", "SELECT 2"]
    );
    assert_eq!(
        run(
            &mut s,
            "select attname, format_type(atttypid, atttypmod), attnotnull from pg_attribute
             where attrelid = 't'::regclass and attnum > 0 order by attnum"
        ),
        ["a|integer|t", "b|integer|f", "SELECT 2"]
    );
    assert_eq!(
        run(&mut s, "select setting, unit from pg_settings where name = 'shared_buffers'"),
        ["16384|8kB", "SELECT 1"]
    );
    assert_eq!(
        run(&mut s, "select count(*) from pg_locks where relation = 't'::regclass"),
        ["0", "SELECT 1"]
    );
    assert_eq!(
        run(
            &mut s,
            "begin; lock table t in share mode; select mode, granted from pg_locks where relation = 't'::regclass; commit"
        ),
        ["BEGIN", "LOCK TABLE", "ShareLock|t", "SELECT 1", "COMMIT"]
    );
}

/// Returns the report of VACUUM (VERBOSE): the removed index entries, and the chain roots that
/// became clean.
fn vacuumed(session: &mut Session, table: &str) -> String {
    let said = run(session, &format!("vacuum (verbose) {table}"));
    let line = |begin: &str| said.iter().find_map(|line| line.strip_prefix(begin));
    let scans = line("index scans: ").expect("of the indexes");
    let entries = scans.split(", ").nth(1).unwrap_or(scans);
    let (_, cleared) = line("line pointers: ").and_then(|l| l.split_once("; ")).expect("of roots");
    format!("{entries}; {cleared}")
}

/// VACUUM cleans chains with several keys: it removes entries of keys that no version has, and then
/// the `mixed` flags.
#[test]
fn vacuum_takes_old_keys_out_of_every_index() {
    let database = database();
    let mut session = database.session();
    let s = &mut session;
    run(s, "create table t (id int primary key, v int, t text) with (heap_only_updates = any_key)");
    run(s, "create index t_v on t (v) include (t); create index t_e on t ((v % 10))");
    run(s, "create index t_p on t (v) where v > 120");
    run(s, "insert into t select i, i, 'text' from generate_series(1, 40) i");
    let mut old = database.session();
    run(&mut old, "begin isolation level repeatable read");
    assert_eq!(run(&mut old, "select sum(v) from t")[0], "820");
    assert_eq!(run(s, "update t set v = v + 100"), ["UPDATE 40"]);
    assert_eq!(run(s, "update t set v = v - 50"), ["UPDATE 40"]);
    // No snapshot sees the versions in between. An old key of each row leaves t_v, the keys above
    // 120 leave t_p, and none leaves t_e, since v % 10 is unchanged.
    assert_eq!(vacuumed(s, "t"), "60 entries removed; mixed chains: 0 cleared");
    assert_eq!(run(&mut old, "select sum(v) from t")[0], "820");
    run(&mut old, "commit");
    // These are the versions that the old snapshot saw.
    assert_eq!(vacuumed(s, "t"), "40 entries removed; mixed chains: 40 cleared");
    assert_eq!(vacuumed(s, "t"), "not needed; mixed chains: 0 cleared");
    assert_eq!(run(s, "select niwaki_check('t')")[1], "SELECT 1");
    // This changes a payload alone, which adds no entry.
    assert_eq!(run(s, "update t set t = 'another' where id = 7"), ["UPDATE 1"]);
    assert_eq!(vacuumed(s, "t"), "0 entries removed; mixed chains: 1 cleared");
    run(s, "set enable_seqscan = off; set enable_bitmapscan = off");
    let plan = run(s, "explain (costs off) select t from t where v = 57").join("\n");
    assert!(plan.contains("Index Only Scan using t_v"), "{plan}");
    assert_eq!(run(s, "select t from t where v = 57")[0], "another");
}

/// A payload that does not fit its leaf leaves the root mixed, and correct, until there is room.
#[test]
fn a_payload_that_does_not_fit_waits_for_room() {
    let database = database();
    let mut session = database.session();
    let s = &mut session;
    run(s, "create table t (v int, t text) with (heap_only_updates = any_key, fillfactor = 50)");
    run(s, "insert into t select i, 'x' from generate_series(1, 2000) i");
    run(s, "create index t_v on t (v) include (t) with (fillfactor = 100)");
    assert_eq!(run(s, "update t set t = repeat('y', 1000) where v = 30"), ["UPDATE 1"]);
    assert_eq!(vacuumed(s, "t"), "0 entries removed; mixed chains: 0 cleared");
    run(s, "set enable_seqscan = off; set enable_bitmapscan = off");
    assert_eq!(run(s, "select length(t) from t where v = 30")[0], "1000");
    assert_eq!(run(s, "delete from t where v between 40 and 140"), ["DELETE 101"]);
    assert_eq!(vacuumed(s, "t"), "101 entries removed; mixed chains: 1 cleared");
    assert_eq!(run(s, "select length(t) from t where v = 30")[0], "1000");
    assert_eq!(run(s, "select niwaki_check('t')")[1], "SELECT 1");
}

#[test]
fn literals_that_other_settings_read_otherwise_are_not_stored() {
    let db = database();
    let mut s = db.session();
    let refused = "ERROR 0A000: a literal in a default or check that depends on the session's DateStyle or IntervalStyle is not supported yet";
    run(&mut s, "set datestyle to 'ISO, DMY'; set intervalstyle to sql_standard");
    for definition in [
        "d date default '1/2/2003'",
        "d date default '13/2/2003'",
        "d date check (d > '1/2/2003')",
        "i interval default '-1 2:03'",
    ] {
        assert_eq!(
            run(&mut s, &format!("create table t ({definition})")),
            [refused],
            "{definition}"
        );
    }
    run(
        &mut s,
        "create table t (a int, d date default '2003-01-02', i interval default '-1 -2:03')",
    );
    run(&mut s, "set datestyle to german; insert into t values (1)");
    assert_eq!(run(&mut s, "alter table t alter column d set default '1.2.2003'"), [refused]);
    run(&mut s, "set datestyle to iso, mdy; reset intervalstyle");
    run(&mut s, "alter table t alter column d set default '1/2/2003'; set datestyle to iso, dmy");
    // A stored literal keeps its meaning: the second of January.
    run(&mut s, "insert into t values (2)");
    assert_eq!(
        run(&mut s, "select * from t order by a"),
        ["1|2003-01-02|-1 days -02:03:00", "2|2003-01-02|-1 days -02:03:00", "SELECT 2"]
    );
}
