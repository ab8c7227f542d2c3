//! One database with its expected rows, and the actions of a round.

use std::collections::BTreeMap;

use niwaki::{Database, Datum, Options, Session};
use niwaki_env::Env;
use niwaki_env::rng::SeededRng;

use crate::common::Lines;
use crate::size::{Size, views};
use crate::{all, draw, fails, ok, quiet};

/// Exclusive upper bound of the rows' numbers.
const IDS: i32 = 200;
/// Rows with numbers below this have large values.
const LARGE_IDS: i32 = 6;
const KEYS: i32 = 40;

/// A row of the permanent table.
#[derive(Clone)]
pub(crate) struct Row {
    key: i32,
    note: String,
    /// Hash of the row's large value.
    body: Option<String>,
}

/// Rows by number.
pub(crate) type Rows = BTreeMap<i32, Row>;

/// Returns a statement that changes rows, and makes the same change to the model.
pub(crate) fn statement(rows: &mut Rows, rng: &SeededRng) -> String {
    let (id, key) = (draw(rng, IDS), draw(rng, KEYS));
    let note = format!("note {}", rng.below(1000));
    match rng.below(4) {
        0 => {
            rows.remove(&id);
            format!("delete from kept where id = {id}")
        }
        1 => {
            if let Some(row) = rows.get_mut(&id) {
                row.key = key;
            }
            format!("update kept set key = {key} where id = {id}")
        }
        2 => {
            for row in rows.values_mut().filter(|row| row.key == key) {
                row.note.clone_from(&note);
            }
            format!("update kept set note = '{note}' where key = {key}")
        }
        _ => {
            let body = rows.remove(&id).and_then(|row| row.body);
            rows.insert(id, Row { key, note: note.clone(), body });
            format!(
                "insert into kept (id, key, note) values ({id}, {key}, '{note}') \
                 on conflict (id) do update set key = excluded.key, note = excluded.note"
            )
        }
    }
}

/// A database that the rounds work with.
pub(crate) struct World {
    pub(crate) database: Database,
    pub(crate) rows: Rows,
    /// Session that lives as long as this value. Other sessions come and go.
    session: Session,
    /// True while no transaction stays open for ever, so that statements may wait for all others.
    pub(crate) waits_end: bool,
}

impl World {
    pub(crate) fn new(env: &Env, options: Options) -> Self {
        let database = Database::open_with(env.clone(), options).unwrap();
        let mut session = database.session();
        all(
            &mut session,
            &[
                "set synchronous_commit = off",
                "create table kept \
                 (id int primary key, key int not null, note text not null, body text)",
                "create index on kept (key)",
                "insert into kept select g, g, 'first' from generate_series(0, 39) g",
            ],
        );
        let first = |id| (id, Row { key: id, note: "first".to_owned(), body: None });
        Self { database, rows: (0..KEYS).map(first).collect(), session, waits_end: true }
    }

    /// Performs `actions` random actions.
    pub(crate) fn work(&mut self, rng: &SeededRng, actions: usize) {
        for _ in 0..actions {
            let mut own;
            let session = if rng.chance(1, 3) {
                own = self.database.session();
                &mut own
            } else {
                &mut self.session
            };
            let (database, waits_end) = (&self.database, self.waits_end);
            let mut work = Work { database, session, rows: &mut self.rows, rng, waits_end };
            ACTIONS[rng.below(ACTIONS.len() as u64) as usize](&mut work);
        }
    }

    /// Compares the rows with the model. Returns the counts after a checkpoint.
    pub(crate) fn settle(&mut self, rng: &SeededRng) -> Size {
        assert_rows(&mut self.session, &self.rows);
        let key = draw(rng, KEYS);
        let of_key = self.rows.iter().filter(|(_, row)| row.key == key);
        let ids: Vec<String> = of_key.map(|(id, _)| id.to_string()).collect();
        let sql = format!("select id from kept where key = {key} order by id");
        assert_eq!(ok(&mut self.session, &sql), ids.join("\n"));
        self.database.checkpoint().unwrap();
        let views = views(&mut self.session);
        Size::now(std::slice::from_ref(self.database.env()), views)
    }

    /// Closes the database and checks that it is sound.
    pub(crate) fn end(self) {
        let Self { database, session, rows, .. } = self;
        drop(session);
        let env = database.env().clone();
        database.close().unwrap();
        let database = quiet(&env);
        assert_rows(&mut database.session(), &rows);
        assert_eq!(database.check().unwrap().violations, []);
    }
}

fn assert_rows(session: &mut Session, rows: &Rows) {
    let shown = rows.iter().map(|(id, Row { key, note, body })| {
        format!("{id}|{key}|{note}|{}", body.as_deref().unwrap_or("NULL"))
    });
    let sql = "select id, key, note, md5(body) from kept order by id";
    assert_eq!(ok(session, sql), shown.collect::<Vec<_>>().join("\n"));
}

/// Database and session of an action.
struct Work<'w> {
    database: &'w Database,
    session: &'w mut Session,
    rows: &'w mut Rows,
    rng: &'w SeededRng,
    waits_end: bool,
}

impl Work<'_> {
    fn ok(&mut self, sql: &str) -> String {
        ok(self.session, sql)
    }

    fn all(&mut self, statements: &[&str]) {
        all(self.session, statements);
    }

    /// Runs some statements that change rows.
    fn statements(&mut self, most: u64) {
        for _ in 0..=self.rng.below(most) {
            let sql = statement(self.rows, self.rng);
            self.ok(&sql);
        }
    }
}

const ACTIONS: &[fn(&mut Work<'_>)] = &[
    change,
    transaction,
    definitions,
    definitions_undone,
    indexes,
    temporary,
    large_values,
    copy,
    messages,
    prepared,
    cursors,
    maintenance,
];

fn change(work: &mut Work<'_>) {
    work.statements(6);
    // This commit is durable at once.
    let sql = statement(work.rows, work.rng);
    work.all(&["set synchronous_commit = on", &sql, "set synchronous_commit = off"]);
}

/// Runs a transaction that commits or not, with a savepoint that is kept or not.
fn transaction(work: &mut Work<'_>) {
    let before = work.rows.clone();
    work.ok("begin");
    work.statements(4);
    let saved = work.rows.clone();
    work.ok("savepoint s");
    work.statements(4);
    match work.rng.below(3) {
        0 => drop(work.ok("release s")),
        1 => {
            work.ok("rollback to s");
            *work.rows = saved;
        }
        _ => {
            fails(work.session, "select 1 / 0", "22012");
            work.ok("rollback to s");
            *work.rows = saved;
        }
    }
    match work.rng.below(3) {
        0 => drop(work.ok("commit")),
        1 => {
            work.ok("rollback");
            *work.rows = before;
        }
        _ => {
            fails(work.session, "insert into kept (id) values (-1)", "23502");
            work.ok("commit");
            *work.rows = before;
        }
    }
}

const MADE: &[&str] = &[
    "create table made (id serial primary key, a int, b text)",
    "insert into made (a, b) select g, 'b' || g from generate_series(1, 300) g",
    "create index on made (b)",
    "alter table made add column c int default 5",
    "alter table made alter column a type bigint",
    "create view seen as select id, b from made where a > 5",
    "create unlogged table beside (a int primary key)",
    "insert into beside select generate_series(1, 100)",
];

fn definitions(work: &mut Work<'_>) {
    work.all(MADE);
    if work.rng.chance(1, 2) {
        work.all(&["truncate made, beside", "insert into made (b) values ('again')"]);
    }
    if work.rng.chance(1, 2) {
        work.all(&["drop view seen", "alter table made drop column a", "vacuum made"]);
    }
    work.all(&["drop table made cascade", "drop table beside"]);
}

fn definitions_undone(work: &mut Work<'_>) {
    work.ok("begin");
    work.all(MADE);
    work.all(&["truncate made", "create sequence counted", "select nextval('counted')"]);
    work.all(&["drop view seen", "drop table made", "rollback"]);
}

/// Creates and drops an index. The unique one usually cannot be built.
fn indexes(work: &mut Work<'_>) {
    let concurrently = if work.waits_end && work.rng.chance(1, 2) { "concurrently" } else { "" };
    work.ok(&format!("create index {concurrently} more on kept (note, key)"));
    work.statements(4);
    work.ok(if work.rng.chance(1, 2) { "reindex index more" } else { "reindex table kept" });
    work.ok(&format!("drop index {concurrently} more"));
    let two_alike = {
        let mut keys: Vec<i32> = work.rows.values().map(|row| row.key).collect();
        keys.sort_unstable();
        keys.windows(2).any(|pair| pair[0] == pair[1])
    };
    if two_alike {
        fails(work.session, "create unique index more on kept (key)", "23505");
    } else {
        work.all(&["create unique index more on kept (key)", "drop index more"]);
    }
}

/// Ends a session with the temporary tables that it has by then.
fn temporary(work: &mut Work<'_>) {
    let mut session = work.database.session();
    all(
        &mut session,
        &[
            "create temp table own (id serial primary key, v text)",
            "create index on own (v)",
            "insert into own (v) select 'x' || g from generate_series(1, 200) g",
        ],
    );
    let statements: &[&str] = match work.rng.below(4) {
        0 => &["drop table own"],
        1 => &[
            "begin",
            "create temp table late (a int) on commit drop",
            "insert into late values (1)",
            "commit",
            "discard temp",
        ],
        2 => &["begin", "truncate own", "create temp table late (a int)"],
        _ => &[],
    };
    all(&mut session, statements);
}

/// Writes out-of-line values.
fn large_values(work: &mut Work<'_>) {
    let (id, key) = (draw(work.rng, LARGE_IDS), draw(work.rng, KEYS));
    let (seed, times) = (1 + draw(work.rng, 1000), 100 + draw(work.rng, 400));
    let value = format!(
        "(select string_agg(md5((i * {seed})::text), '') from generate_series(1, {times}) i)"
    );
    let body = Some(work.ok(&format!("select md5({value})")));
    let note = "large".to_owned();
    work.ok(&format!(
        "insert into kept values ({id}, {key}, '{note}', {value}) on conflict (id) \
         do update set key = excluded.key, note = excluded.note, body = excluded.body"
    ));
    work.rows.insert(id, Row { key, note, body });
    if work.rng.chance(1, 3) {
        work.ok(&format!("update kept set body = null where id = {id}"));
        work.rows.entry(id).and_modify(|row| row.body = None);
    }
}

fn copy(work: &mut Work<'_>) {
    work.ok("create table lines (a int, b text)");
    let data: Vec<String> = (0..50).map(|n| format!("{n}\tline {n}")).collect();
    work.ok(&format!("copy lines from stdin\n{}", data.join("\n")));
    assert_eq!(work.ok("select count(*), sum(a) from lines"), "50|1225");
    fails(work.session, "copy lines from stdin\n1\tone\nx\ttwo", "22P02");
    work.all(&["copy lines to stdout", "drop table lines"]);
}

/// Sends messages to a session that takes some of them.
fn messages(work: &mut Work<'_>) {
    let mut listener = work.database.session();
    ok(&mut listener, "listen churn");
    let sent = 1 + work.rng.below(5);
    for message in 0..sent {
        work.ok(&format!("notify churn, '{message}'"));
    }
    work.all(&["begin", "notify churn, 'undone'", "rollback"]);
    for message in 0..work.rng.below(sent + 1) {
        let taken = listener.take_notification().map(|taken| taken.payload);
        assert_eq!(taken, Some(message.to_string()));
    }
    if work.rng.chance(1, 2) {
        ok(&mut listener, "unlisten *");
    }
}

fn prepared(work: &mut Work<'_>) {
    let found = work.session.prepare("select note from kept where id = $1").unwrap();
    for _ in 0..10 {
        let id = draw(work.rng, IDS);
        let notes = work.session.query(&found, (id,)).unwrap().into_iter();
        let notes: Vec<String> = notes.map(|row| row.get(0).unwrap()).collect();
        let expected: Vec<String> =
            work.rows.get(&id).map(|row| row.note.clone()).into_iter().collect();
        assert_eq!(notes, expected);
    }
    work.all(&[
        "prepare named (int) as update kept set key = key where id = $1",
        "execute named (3)",
        "deallocate named",
    ]);
    let (session, sink) = (&mut *work.session, &mut Lines::default());
    session.parse("wire", "select id from kept where key >= $1 order by id", &[]).unwrap();
    session.bind("wire", "wire", &mut |_, _| Ok(Datum::Int4(0)), 1).unwrap();
    session.execute_portal("wire", 3, sink).unwrap();
    session.sync(sink).unwrap();
    session.close_statement("wire");
}

/// Opens cursors in one transaction. One of them outlives it, in a temporary file.
fn cursors(work: &mut Work<'_>) {
    let mut session = work.database.session();
    all(
        &mut session,
        &[
            "set work_mem = '64kB'",
            "begin",
            "declare held scroll cursor with hold for \
             select g, repeat('x', 100) from generate_series(1, 3000) g",
            "declare short cursor for select id from kept order by id",
            "fetch 3 from held",
            "fetch 3 from short",
            "commit",
        ],
    );
    assert_eq!(ok(&mut session, "fetch 1 from held").split('|').next(), Some("4"));
    if work.rng.chance(1, 2) {
        ok(&mut session, "close held");
    }
}

fn maintenance(work: &mut Work<'_>) {
    let statements = [
        "vacuum kept",
        "vacuum (analyze) kept",
        "analyze kept",
        "checkpoint",
        "reindex table kept",
    ];
    let sql = statements[work.rng.below(statements.len() as u64) as usize];
    work.ok(sql);
}
