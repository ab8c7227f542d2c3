//! Niwaki itself as the tested database, through its public library.

use std::collections::{BTreeMap, VecDeque};

use niwaki::{ColumnInfo, Database, Datum, Options, ResultSink, RowSink, Session, SqlError};
use niwaki_env::Env;

use crate::model::{Isolation, Reply, Rows, Step, Value};
use crate::tested_database::TestedDatabase;

/// The table: a primary key, a value, an indexed column and a filler. The indexed column changes
/// with most updates, so that chains hold several keys. The filler makes rows long enough for pages
/// to fill up.
const CREATE: &str = "create table if not exists kv (\
     k int8 primary key, v int8 not null, g int4 not null, filler text not null) \
     with (fillfactor = 90); \
     create index if not exists kv_g on kv (g);";

/// Number of values of the indexed column: few, so that the column returns to earlier ones.
const GROUPS: Value = 5;

/// Settings that make rare events common: a pool smaller than the data.
const TINY: [(&str, &str); 1] = [("shared_buffers", "256kB")];

/// A database with one table, and its sessions.
pub struct TestedSql {
    database: Database,
    sessions: BTreeMap<u32, Session>,
}

/// The answers that a client would see.
#[derive(Debug, Default)]
pub struct Collected {
    /// All rows.
    pub rows: Vec<Vec<Datum>>,
    /// Tags of the completed statements.
    pub tags: Vec<String>,
    /// Chunks that COPY FROM STDIN reads.
    pub input: VecDeque<Vec<u8>>,
}

impl RowSink for Collected {
    fn row(&mut self, row: &[Datum]) -> niwaki::Result<()> {
        self.rows.push(row.to_vec());
        Ok(())
    }
}

impl ResultSink for Collected {
    fn columns(&mut self, _: &[ColumnInfo]) -> niwaki::Result<()> {
        Ok(())
    }
    fn complete(&mut self, tag: &str) {
        self.tags.push(tag.to_owned());
    }
    fn empty_query(&mut self) {}
    fn notice(&mut self, _: &SqlError) {}
    fn parameter_status(&mut self, _: &str, _: &str) {}
    fn copy_in(&mut self, _: usize) -> niwaki::Result<()> {
        if self.input.is_empty() { Err(SqlError::unsupported("COPY in this test")) } else { Ok(()) }
    }
    fn copy_in_data(&mut self, buffer: &mut Vec<u8>) -> niwaki::Result<bool> {
        buffer.extend(self.input.pop_front().unwrap_or_default());
        Ok(!self.input.is_empty())
    }
    fn copy_out_begin(&mut self, _: usize) -> niwaki::Result<()> {
        Err(SqlError::unsupported("COPY in this test"))
    }
    fn copy_out(&mut self, _: &[u8]) -> niwaki::Result<()> {
        Err(SqlError::unsupported("COPY in this test"))
    }
    fn copy_out_end(&mut self) {}
}

/// Runs a query string and collects its answers.
///
/// # Errors
/// The statement's error.
pub fn query(session: &mut Session, sql: &str) -> niwaki::Result<Collected> {
    copy_in(session, sql, &[])
}

/// Runs a query string with a COPY FROM STDIN that reads these pieces.
///
/// # Errors
/// The statement's error.
pub fn copy_in(session: &mut Session, sql: &str, pieces: &[&str]) -> niwaki::Result<Collected> {
    let input = pieces.iter().map(|piece| piece.as_bytes().to_vec()).collect();
    let mut collected = Collected { input, ..Collected::default() };
    match session.simple_query(sql, &mut collected) {
        Ok(()) => Ok(collected),
        Err(error) => {
            session.error();
            Err(error)
        }
    }
}

/// Returns the value as an integer.
///
/// # Errors
/// The value is no integer.
pub fn integer(datum: &Datum) -> Result<i64, String> {
    match datum {
        Datum::Int8(value) => Ok(*value),
        Datum::Int4(value) => Ok((*value).into()),
        Datum::Int2(value) => Ok((*value).into()),
        other => Err(format!("{other:?} is no integer")),
    }
}

/// Returns the required indexed column of a value.
fn group(value: Value) -> i64 {
    value.rem_euclid(GROUPS)
}

/// Returns the required filler of a value; its length differs from value to value.
fn filler(value: Value) -> String {
    let length = 40 + usize::try_from(value.rem_euclid(7)).unwrap_or(0) * 90;
    format!("{value}-").repeat(length / 2 + 1)[..length].to_owned()
}

impl TestedSql {
    /// Opens with more settings than the tiny ones.
    ///
    /// # Errors
    /// Any error of the database.
    pub fn open_with(env: Env, settings: &[(&str, &str)]) -> Result<Self, String> {
        // Reads under way change nothing on disk, so a crash beside them leaves the same state as
        // one without.
        let io_method = if env.rng.next_u64().is_multiple_of(2) { "io_uring" } else { "worker" };
        let mut options = Options::new().small_files(true).set("io_method", io_method);
        for (name, value) in TINY.iter().chain(settings) {
            options = options.set(name, value);
        }
        let database = Database::open_with(env, options).map_err(|error| error.to_string())?;
        let mut tested = Self { database, sessions: BTreeMap::new() };
        tested.run(0, CREATE)?;
        Ok(tested)
    }

    /// Returns the database.
    pub fn database(&self) -> &Database {
        &self.database
    }

    fn session(&mut self, session: u32) -> &mut Session {
        let database = &self.database;
        self.sessions.entry(session).or_insert_with(|| database.session())
    }

    fn run(&mut self, session: u32, sql: &str) -> Result<Collected, String> {
        query(self.session(session), sql).map_err(|error| format!("{sql}: {error}"))
    }

    fn read_rows(&mut self, how: &str, sql: &str) -> Result<Rows, String> {
        let collected = self.run(u32::MAX, sql)?;
        let mut rows = Rows::new();
        for row in &collected.rows {
            let [key, value, found_group, found_filler] = &row[..] else {
                return Err(format!("{how}: {} columns", row.len()));
            };
            let (key, value) = (integer(key)?, integer(value)?);
            if integer(found_group)? != group(value) {
                return Err(format!(
                    "{how}: row {key} has value {value} and group {found_group:?}"
                ));
            }
            if !matches!(found_filler, Datum::Text(text) if **text == *filler(value)) {
                return Err(format!("{how}: row {key} has value {value} and another's filler"));
            }
            if rows.insert(key, value).is_some() {
                return Err(format!("{how}: row {key} came twice"));
            }
        }
        Ok(rows)
    }
}

fn statement(step: &Step) -> String {
    match step {
        Step::Begin(Isolation::ReadCommitted) => "begin isolation level read committed".to_owned(),
        Step::Begin(Isolation::RepeatableRead) => {
            "begin isolation level repeatable read".to_owned()
        }
        Step::Read(key) => format!("select v from kv where k = {key}"),
        Step::Scan => "select k, v from kv".to_owned(),
        Step::Insert(key, value) => format!(
            "insert into kv values ({key}, {value}, {}, '{}')",
            group(*value),
            filler(*value)
        ),
        Step::Update(key, value) => format!(
            "update kv set v = {value}, g = {}, filler = '{}' where k = {key}",
            group(*value),
            filler(*value)
        ),
        Step::Delete(key) => format!("delete from kv where k = {key}"),
        Step::Savepoint(name) => format!("savepoint s{name}"),
        Step::RollbackTo(name) => format!("rollback to savepoint s{name}"),
        Step::Release(name) => format!("release savepoint s{name}"),
        Step::Commit => "commit".to_owned(),
        Step::Rollback => "rollback".to_owned(),
        Step::Checkpoint => "checkpoint".to_owned(),
        Step::Vacuum => "vacuum kv".to_owned(),
    }
}

fn reply(step: &Step, collected: &Collected) -> Result<Reply, String> {
    match step {
        Step::Read(_) => match &collected.rows[..] {
            [] => Ok(Reply::Row(None)),
            [row] => Ok(Reply::Row(Some(integer(&row[0])?))),
            more => Err(format!("{} rows of one key", more.len())),
        },
        Step::Scan => {
            let mut rows = Rows::new();
            for row in &collected.rows {
                if rows.insert(integer(&row[0])?, integer(&row[1])?).is_some() {
                    return Err(format!("row {:?} came twice", row[0]));
                }
            }
            Ok(Reply::Rows(rows))
        }
        Step::Insert(..) | Step::Update(..) | Step::Delete(_) => {
            let tag = collected.tags.last().ok_or("no command tag")?;
            let count = tag.rsplit(' ').next().and_then(|count| count.parse().ok());
            Ok(Reply::Done(count.ok_or_else(|| format!("command tag {tag:?}"))?))
        }
        _ => Ok(Reply::Done(0)),
    }
}

impl TestedDatabase for TestedSql {
    fn open(env: Env, full_page_writes: bool) -> Result<Self, String> {
        let images = if full_page_writes { "on" } else { "off" };
        Self::open_with(env, &[("full_page_writes", images)])
    }

    fn step(&mut self, session: u32, step: &Step) -> Result<Reply, String> {
        if *step == Step::Checkpoint {
            // The gardener comes first, so that its changes are written, and are in the crash
            // images.
            for _ in 0..2 {
                self.database.clean_up().map_err(|error| format!("tend: {error}"))?;
            }
        }
        match query(self.session(session), &statement(step)) {
            Ok(collected) => reply(step, &collected),
            Err(error) => {
                let state = error.sqlstate;
                // Errors that the model predicts; any other error is worth its whole text.
                if matches!(state, "23505" | "40001" | "25P02") {
                    return Ok(Reply::Error(state.to_owned()));
                }
                Err(format!("{state}: {error}"))
            }
        }
    }

    fn rows(&mut self) -> Result<Rows, String> {
        const COLUMNS: &str = "select k, v, g, filler from kv";
        self.run(u32::MAX, "set enable_indexscan = off; set enable_seqscan = on")?;
        let sequential = self.read_rows("sequential scan", COLUMNS)?;
        self.run(u32::MAX, "set enable_seqscan = off; set enable_indexscan = on")?;
        let ways = [
            ("primary key forwards", format!("{COLUMNS} where k >= -1 order by k")),
            ("primary key backwards", format!("{COLUMNS} where k >= -1 order by k desc")),
            ("secondary index", format!("{COLUMNS} where g >= 0")),
        ];
        for (how, sql) in ways {
            let rows = self.read_rows(how, &sql)?;
            if rows != sequential {
                return Err(format!("{how} sees {rows:?}, a sequential scan {sequential:?}"));
            }
        }
        Ok(sequential)
    }

    fn check(&mut self) -> Result<(), String> {
        let report = self.database.check().map_err(|error| error.to_string())?;
        match report.violations.first() {
            None => Ok(()),
            Some(first) => Err(format!("{} violations, first {first:?}", report.violations.len())),
        }
    }
}
