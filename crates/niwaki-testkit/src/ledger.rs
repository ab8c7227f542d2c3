//! Sessions of every kind beside each other, from SQL text down to a simulated disk.
//!
//! Writers change the rows of `item` in the ways that applications and queues do. Each transaction
//! notes in `ledger` by how much it changed the sum of `item.n`. So every snapshot must see
//! `sum(item.n) = sum(ledger.amount)`, by every path, whatever ran beside it. After a crash the
//! ledger also says which transactions are there. These must be all that were acknowledged, and
//! none that was rolled back. Run inside a schedule ([`crate::schedules`]).
//!
//! Some runs meet with trouble: a failing disk, refused memory, or removed files. If the trouble
//! ends the process, the next process starts on the same machine, whose memory has every write.
//! Then the power goes at some moment.
//!
//! ```text
//!   writers ──> item  (expression, partial and INCLUDE indexes, notes out of line)
//!        └────> ledger (writer, serial, amount)          sum(n) = sum(amount), always
//!   builder ──> indexes come, are rebuilt and go          readers compare the two sums
//!   keeper  ──> vacuum, gardener, checkpoint, autovacuum
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex};

use niwaki::{Database, Options, Session, SqlError};
use niwaki_env::Crashed;
use niwaki_env::rng::{Rng, SeededRng};
use niwaki_env::sync::thread;
use niwaki_env::vfs::{CrashOptions, Fault, FaultKind, FaultyVfs, MemoryVfs, Operation};
use niwaki_env::{Env, memory};

use crate::injected_faults::{Trouble, machine};
use crate::processes::Process;
use crate::restarts::until_the_end;
use crate::schedules::{Notes, seed};
use crate::sql::{Collected, integer, query};

/// Most rows of `item`; few, so that sessions meet.
const ITEMS_MAX: u64 = 5;
/// Sessions that write.
const WRITERS: u64 = 3;
/// Transactions of each writer.
const TRANSACTIONS: u64 = 8;
/// Steps of the session that builds indexes, and of the reader.
const ROUNDS: u64 = 4;
/// Steps of the session that does the database's own work.
const KEEPS: u64 = 12;
/// Crash images that are opened for one schedule.
const IMAGES: usize = 3;
/// Range of the sync of a recovery that a fault hits: one of the first this many.
const SYNCS_OF_RECOVERY: u64 = 6;

/// Tables whose indexes have everything that a gardener must judge without a latch. That is
/// expressions, predicates that turn, keys out of line, and payloads.
const TABLES: &str = "\
    create table item (id int primary key, n int not null, state text not null, tag int not null, \
        note text not null) with (fillfactor = 80); \
    create index item_group on item ((n % 3)); \
    create index item_new on item (n) where state = 'new'; \
    create index item_tag on item (tag) include (n); \
    create index item_note on item (md5(note)) where length(note) > 100; \
    create sequence ticket cache 3; \
    create table ledger (writer int, serial int, amount int not null, \
        ticket int not null unique default nextval('ticket'), primary key (writer, serial));";

/// Indexes that come and go.
const BUILDS: [(&str, &str); 3] = [
    ("item_parity", "create index concurrently item_parity on item ((n % 2), tag)"),
    ("item_done", "create index concurrently item_done on item (tag) where state = 'done'"),
    ("item_pair", "create unique index concurrently item_pair on item (id, n)"),
];

/// Outcome of one transaction, with the number of disk changes at its begin and when its end was
/// known.
#[derive(Clone, Copy, Debug)]
struct Noted {
    began: u64,
    ended: u64,
    committed: bool,
}

/// A line of the ledger: writer and serial number.
type Line = (u64, u64);

/// State that the sessions share.
#[derive(Clone)]
struct World {
    database: Database,
    seed: u64,
    /// The trouble of the run, and the disk that it happens on.
    trouble: Option<(Trouble, FaultyVfs)>,
}

impl World {
    fn rng(&self, whose: u64) -> SeededRng {
        SeededRng::new(self.seed ^ whose)
    }

    /// Decides whether an error comes from the run's trouble.
    fn is_of_trouble(&self, error: &SqlError) -> bool {
        self.trouble.as_ref().is_some_and(|(trouble, _)| trouble.gives().contains(&error.sqlstate))
    }

    /// Requires that an error may end a writer's transaction.
    fn allow(&self, failed: &Failed) {
        let state = failed.error.sqlstate;
        let happens = matches!(state, "40P01" | "40001") || self.is_of_trouble(&failed.error);
        assert!(happens, "{failed}");
    }

    /// Requires that an error comes from the run's trouble.
    fn allow_trouble(&self, failed: &Failed) {
        assert!(self.is_of_trouble(&failed.error), "{failed}");
    }

    /// Says whether a transaction that ended with an error was committed. None where files were
    /// lost: the log that the operating system took may be on disk, or not.
    fn ended_by_error(&self) -> Option<bool> {
        let is_unknown = matches!(self.trouble, Some((Trouble::Files, _)));
        (!is_unknown).then_some(false)
    }
}

/// A statement that failed.
struct Failed {
    sql: String,
    error: SqlError,
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} {}", self.sql, self.error.sqlstate, self.error)
    }
}

/// Runs a query string.
fn run_sql(session: &mut Session, sql: &str) -> Result<Collected, Failed> {
    query(session, sql).map_err(|error| Failed { sql: sql.to_owned(), error })
}

/// Outcome of the transaction of each line of the ledger.
type Log = Arc<Mutex<BTreeMap<Line, Noted>>>;

fn try_open(env: Env) -> Result<Database, SqlError> {
    let options = Options::new()
        .small_files(true)
        .set("shared_buffers", "256kB")
        .set("autovacuum_vacuum_threshold", "0")
        .set("autovacuum_vacuum_scale_factor", "0");
    Database::open_with(env, options)
}

fn open(env: Env) -> Database {
    try_open(env).unwrap_or_else(|error| panic!("the database opens: {error}"))
}

/// Returns the number of rows that `item` begins with.
fn items(seed: u64) -> u64 {
    1 + seed % ITEMS_MAX
}

fn prepare(database: &Database, items: u64) {
    let mut session = database.session();
    query(&mut session, TABLES).expect("the tables are made");
    let rows = format!(
        "insert into item select i, 0, 'new', i % 2, 'short' from generate_series(1, {items}) i"
    );
    query(&mut session, &rows).expect("the rows are made");
}

fn number(session: &mut Session, sql: &str) -> Result<i64, SqlError> {
    let found = query(session, sql)?;
    Ok(integer(&found.rows[0][0]).unwrap_or_else(|error| panic!("{sql}: {error}")))
}

/// Returns a statement that changes rows and returns, per row, by how much the sum of `n` changes.
fn change(rng: &SeededRng, items: u64) -> String {
    let id = 1 + rng.below(items);
    let amount = 1 + rng.below(4);
    let oldest = "select id from item where state = 'new' order by n, id limit 1 for update";
    let bump = format!("update item set n = item.n + {amount}");
    match rng.below(14) {
        0 => format!("{bump} where id = ({oldest}) returning {amount}"),
        1 => format!("{bump} where id = ({oldest} skip locked) returning {amount}"),
        2 => format!(
            "with c as materialized ({oldest}) {bump} from c where item.id = c.id \
             returning {amount}"
        ),
        3 => {
            format!("{bump} from ({oldest} skip locked) s where item.id = s.id returning {amount}")
        }
        4 => format!("{bump} where n % 3 = {} returning {amount}", rng.below(3)),
        5 => format!(
            "update item set n = n + {amount}, \
             state = case state when 'new' then 'done' else 'new' end \
             where id = {id} returning {amount}"
        ),
        6 => format!("{bump}, tag = tag + 1 where tag = {} returning {amount}", rng.below(3)),
        7 => format!(
            "{bump}, note = repeat('{}', {}) where id = {id} returning {amount}",
            char::from(b'a' + u8::try_from(rng.below(26)).unwrap_or(0)),
            1 + rng.below(4) * 1500
        ),
        8 => format!("delete from item where id = {id} and state = 'done' returning -n"),
        9 => format!(
            "insert into item values ({id}, {amount}, 'new', 0, 'back') \
             on conflict (id) do update set n = item.n + excluded.n returning {amount}"
        ),
        10 => format!(
            "update item i set n = i.n + {amount} from item other \
             where other.id = i.id and other.state = 'new' and i.tag = {} returning {amount}",
            rng.below(2)
        ),
        11 => format!(
            "update item set n = n + {amount} where exists \
             (select from item other where other.id = item.id and other.n % 2 = 0 for update) \
             returning {amount}"
        ),
        12 => format!("update item set n = n - {amount} where n >= {amount} returning -{amount}"),
        _ => format!("{bump} where id = {id} returning {amount}"),
    }
}

/// Runs one statement that changes rows and notes it. Returns whether it was committed, if that is
/// known.
fn at_once(world: &World, session: &mut Session, rng: &SeededRng, line: Line) -> Option<bool> {
    let (writer, serial) = line;
    let sql = format!(
        "with c (amount) as ({}) insert into ledger \
         select {writer}, {serial}, coalesce(sum(amount), 0) from c",
        change(rng, items(world.seed))
    );
    match run_sql(session, &sql) {
        Ok(_) => Some(true),
        Err(failed) => {
            world.allow(&failed);
            world.ended_by_error()
        }
    }
}

/// Runs one transaction. Returns whether it was committed, if that is known.
fn transaction(world: &World, session: &mut Session, rng: &SeededRng, line: Line) -> Option<bool> {
    match statements(world, session, rng, line) {
        Ok(committed) => Some(committed),
        Err(failed) => {
            world.allow(&failed);
            roll_back(world, session);
            world.ended_by_error()
        }
    }
}

/// Runs the statements of a transaction; true when the last one was its commit.
fn statements(
    world: &World,
    session: &mut Session,
    rng: &SeededRng,
    line: Line,
) -> Result<bool, Failed> {
    let ((writer, serial), items) = (line, items(world.seed));
    // These statements conflict with no statement of the other sessions.
    let alone = |session: &mut Session, sql: &str| {
        run_sql(session, sql).inspect_err(|failed| world.allow_trouble(failed))
    };
    let level = if rng.chance(1, 4) { "repeatable read" } else { "read committed" };
    alone(session, &format!("begin isolation level {level}"))?;
    let mut amount = 0;
    for _ in 0..=rng.below(2) {
        if rng.chance(1, 4) {
            alone(session, "savepoint s")?;
            if let Err(failed) = run_sql(session, &change(rng, items)) {
                world.allow(&failed);
            }
            run_sql(session, "rollback to savepoint s")?;
        }
        let answer = run_sql(session, &change(rng, items))?;
        let changes = answer.rows.iter().map(|row| integer(&row[0]).expect("a number"));
        amount += changes.sum::<i64>();
    }
    // No other session writes this line of the ledger.
    alone(session, &format!("insert into ledger values ({writer}, {serial}, {amount})"))?;
    let end = if rng.chance(1, 5) { "rollback" } else { "commit" };
    alone(session, end)?;
    Ok(end == "commit")
}

/// Rolls back the session's open transaction.
fn roll_back(world: &World, session: &mut Session) {
    // Trouble comes at most once for each step of the keeper.
    for _ in 0..=KEEPS {
        match run_sql(session, "rollback") {
            Ok(_) => return,
            Err(failed) => world.allow_trouble(&failed),
        }
    }
    panic!("a rollback was refused again and again");
}

fn write(world: &World, writer: u64, now: &dyn Fn() -> u64, log: &Log) {
    let rng = world.rng((writer + 1) << 32);
    let mut session = world.database.session();
    for serial in 0..TRANSACTIONS {
        let (line, began) = ((writer, serial), now());
        let open = Noted { began, ended: u64::MAX, committed: true };
        log.lock().unwrap().insert(line, open);
        let committed = match rng.chance(1, 2) {
            true => at_once(world, &mut session, &rng, line),
            false => transaction(world, &mut session, &rng, line),
        };
        if let Some(committed) = committed {
            log.lock().unwrap().insert(line, Noted { began, ended: now(), committed });
        }
    }
}

/// Creates, rebuilds and drops indexes.
fn build(world: &World) {
    let rng = world.rng(0xb01d);
    let mut session = world.database.session();
    for _ in 0..ROUNDS {
        let (name, create) = BUILDS[usize::try_from(rng.below(3)).expect("small")];
        let standing = ["item_group", "item_new", "item_note"];
        let other = standing[usize::try_from(rng.below(3)).expect("small")];
        let (sql, allowed): (String, &[&str]) = match rng.below(5) {
            0 | 1 => (create.to_owned(), &["42P07", "40P01"]),
            2 => (format!("drop index concurrently {name}"), &["42704", "40P01"]),
            3 => (format!("reindex index concurrently {other}"), &["40P01"]),
            _ => (format!("drop index if exists {name}"), &["40P01"]),
        };
        if let Err(error) = query(&mut session, &sql) {
            let may_happen = allowed.contains(&error.sqlstate) || world.is_of_trouble(&error);
            assert!(may_happen, "{sql}: {} {error}", error.sqlstate);
        }
    }
}

/// Does the database's own maintenance work.
fn keep(world: &World) {
    let rng = world.rng(0x6a4d);
    let (database, mut session) = (&world.database, world.database.session());
    for _ in 0..KEEPS {
        if let Some((trouble, disk)) = &world.trouble {
            trouble.comes(disk, &rng);
        }
        let done = match rng.below(9) {
            0..=4 => database.clean_up(),
            5 => query(&mut session, "checkpoint").map(drop),
            6 => query(&mut session, "vacuum item").map(drop),
            7 => query(&mut session, "vacuum (truncate) ledger").map(drop),
            _ => database.maintain().and_then(|reports| {
                let errors = reports.into_iter().filter_map(|report| report.error);
                // Maintenance that gives way to a session is cancelled.
                errors.filter(|error| error.sqlstate != "57014").try_for_each(Err)
            }),
        };
        if let Err(error) = done {
            assert!(world.is_of_trouble(&error), "{}: {error}", error.sqlstate);
        }
    }
}

/// Compares the two sums of one snapshot, by the paths that the settings allow.
///
/// # Errors
/// The error of a statement. Different sums are a panic.
fn compare(session: &mut Session) -> Result<(), SqlError> {
    const SUM: &str = "(select coalesce(sum(n), 0) from item";
    const PATHS: [&str; 4] = ["", " where n % 3 in (0, 1, 2, -1, -2)", " where tag >= 0", ""];
    let paths = PATHS.map(|path| format!("{SUM}{path})::int8"));
    let noted = "(select coalesce(sum(amount), 0) from ledger)::int8";
    let new = "(select count(*) from item where state = 'new')::int8";
    query(session, "set enable_seqscan = on; set enable_bitmapscan = on")?;
    for (seqscan, bitmapscan) in [("on", "on"), ("off", "on"), ("off", "off")] {
        let set = format!("set enable_seqscan = {seqscan}; set enable_bitmapscan = {bitmapscan}");
        query(session, &set)?;
        for path in &paths {
            let sql = format!("select {path} - {noted}");
            let off = number(session, &sql)?;
            assert_eq!(off, 0, "the sum of the rows is off by this, {set}: {sql}");
        }
    }
    let by_index = number(session, &format!("select {new}"))?;
    query(
        session,
        "set enable_seqscan = on; set enable_indexscan = off; set enable_bitmapscan = off",
    )?;
    let by_heap = number(session, &format!("select {new}"))?;
    query(session, "set enable_indexscan = on")?;
    assert_eq!(by_index, by_heap, "rows whose state is new, by index and by heap");
    Ok(())
}

fn read(world: &World) {
    let mut session = world.database.session();
    for _ in 0..ROUNDS {
        let begun = query(&mut session, "begin isolation level repeatable read");
        let compared = begun.and_then(|_| compare(&mut session));
        let ended = compared.and_then(|()| query(&mut session, "commit"));
        if let Err(error) = ended {
            assert!(world.is_of_trouble(&error), "{}: {error}", error.sqlstate);
            // The settings made in the failed block are gone with it.
            roll_back(world, &mut session);
        }
    }
}

fn check(database: &Database) {
    let report = database.check().expect("the check runs");
    assert!(report.violations.is_empty(), "{:#?}", report.violations);
}

/// The work of one session.
type Work = Box<dyn FnOnce() + Send>;

/// Runs the work of every session. `log` gets the outcome of each transaction.
fn sessions(world: &World, now: impl Fn() -> u64 + Clone + Send + 'static, log: &Log) -> Vec<Work> {
    let mut sessions: Vec<Work> = Vec::new();
    for writer in 0..WRITERS {
        let (world, log, now) = (world.clone(), Arc::clone(log), now.clone());
        sessions.push(Box::new(move || write(&world, writer, &now, &log)));
    }
    for others in [build, keep, read] {
        let world = world.clone();
        sessions.push(Box::new(move || others(&world)));
    }
    sessions
}

/// Runs every session beside every other; returns the outcome of each transaction.
fn work(world: &World, now: impl Fn() -> u64 + Clone + Send + 'static) -> BTreeMap<Line, Noted> {
    let log = Log::default();
    let threads: Vec<_> = sessions(world, now, &log).into_iter().map(thread::spawn).collect();
    threads.into_iter().for_each(|thread| thread.join().expect("a session ends"));
    log.lock().unwrap().clone()
}

/// A process that meets with trouble, and ends without a shutdown.
struct Troubled {
    /// The disk that the process leaves.
    disk: FaultyVfs,
    /// Outcome of each transaction, as far as the process reported it.
    log: BTreeMap<Line, Noted>,
    /// The reason of an early end.
    reason: Option<String>,
}

impl Troubled {
    fn run(trouble: Trouble, seed: u64) -> Self {
        let disk = FaultyVfs::new();
        let process = Process::on(&disk);
        let database = open(Env { on_abort: process.on_abort(), ..machine(&disk, seed) });
        prepare(&database, items(seed));
        database.checkpoint().expect("nothing fails yet");
        memory::fail_at(None);
        let world = World { database, seed, trouble: Some((trouble, disk.clone())) };
        let log = Log::default();
        sessions(&world, || 0, &log).into_iter().for_each(|session| process.spawn(session));
        let ended = process.wait();
        memory::fail_at(None);
        let log = log.lock().unwrap().clone();
        let (left, reason) = match ended {
            Some((left, reason)) => (left, Some(reason)),
            None => {
                disk.heal();
                if trouble != Trouble::Files {
                    verify(&world.database, &log, 0);
                }
                // The disk as a killed process leaves it.
                (disk.restarted(), None)
            }
        };
        drop(world);
        disk.discard();
        Self { disk: left, log, reason }
    }
}

/// Returns the lines of the ledger, one for each transaction that is there.
fn there(session: &mut Session) -> Vec<Line> {
    let lines = query(session, "select writer, serial from ledger order by 1, 2").expect("lines");
    let number = |datum| u64::try_from(integer(datum).expect("a number")).expect("not negative");
    lines.rows.iter().map(|row| (number(&row[0]), number(&row[1]))).collect()
}

/// Requires the invariants of a database at rest; `moment` is the number of disk changes that came
/// to pass.
fn verify(database: &Database, log: &BTreeMap<Line, Noted>, moment: u64) {
    let mut session = database.session();
    compare(&mut session).expect("nothing fails at rest");
    let there = there(&mut session);
    for (line, noted) in log {
        let found = there.contains(line);
        if noted.committed && noted.ended <= moment {
            assert!(found, "an acknowledged transaction is lost (W2): {line:?}, {noted:?}");
        }
        if !noted.committed || noted.began > moment {
            assert!(!found, "a transaction came true that did not commit: {line:?}, {noted:?}");
        }
    }
    let next = number(&mut session, "select nextval('ticket')").expect("a ticket");
    let last =
        number(&mut session, "select coalesce(max(ticket), 0) from ledger").expect("a ticket");
    assert!(next > last, "the sequence gives {next} again: a committed row has {last}");
    check(database);
    query(&mut session, "vacuum item").expect("a vacuum");
    compare(&mut session).expect("nothing fails at rest");
    check(database);
}

/// Runs writers, index builds, the database's own work and readers. Then the database is closed,
/// opened again and compared.
///
/// # Panics
/// When a snapshot sees sums that differ, a commit is lost, or an invariant does not hold.
pub fn run() {
    let seed = seed();
    let env = Env::simulated(Arc::new(MemoryVfs::new()), seed);
    let database = open(env.clone());
    prepare(&database, items(seed));
    let world = World { database: database.clone(), seed, trouble: None };
    let log = work(&world, || 0);
    drop(world);
    verify(&database, &log, 0);
    database.close().expect("it closes");
    verify(&open(env), &log, 0);
}

/// Does the same up to the close, on a disk that remembers every change. Notes each write as it
/// comes. At the end, notes all changes, the outcome of each transaction, and the time.
///
/// # Panics
/// As [`run`].
pub fn run_and_note(notes: &Notes) {
    let seed = seed();
    let disk = FaultyVfs::new();
    disk.record();
    let writes = Arc::clone(notes);
    disk.observe_writes(Box::new(move |path, offset, bytes| {
        let (count, sum) = (bytes.len(), crc32c::crc32c(bytes));
        let write = format!("write {count} bytes at {offset} of {path}: {sum:08x}");
        writes.lock().expect("no thread panics with it").push(write);
    }));
    let env = Env::simulated(Arc::new(disk.clone()), seed);
    let database = open(env.clone());
    prepare(&database, items(seed));
    let world = World { database: database.clone(), seed, trouble: None };
    let clock = disk.clone();
    let log = work(&world, move || clock.changes());
    drop(world);
    database.close().expect("it closes");
    let history = disk.history().expect("recording was on");
    let mut replay = history.replay();
    while replay.step().is_some() {}
    let mut notes = notes.lock().expect("no thread panics with it");
    notes.extend(replay.recent(history.len()));
    notes.extend(log.iter().map(|ended| format!("{ended:?}")));
    notes.push(format!("{:?} at {:?}", disk.counts(), env.clock.monotonic()));
}

/// Does the same while operations on the files of relations fail now and then: reads, writes, room.
///
/// # Panics
/// As [`run`], and when a session gets another error than one of the disk's.
pub fn run_on_a_failing_disk() {
    killed_and_compared(Trouble::Disk);
}

/// Does the same while requests for memory, from any thread, are refused now and then.
///
/// # Panics
/// As [`run`], and when a session gets another error than 53200 for it.
pub fn run_short_of_memory() {
    killed_and_compared(Trouble::Memory);
}

fn killed_and_compared(trouble: Trouble) {
    let seed = seed();
    let Troubled { disk, log, reason } = Troubled::run(trouble, seed);
    assert!(reason.as_deref().is_none_or(may_end), "the process ended: {reason:?}");
    verify(&open(machine(&disk, seed)), &log, 0);
}

/// Does the same until a sync fails, or a write of the log, or all is done. The next process starts
/// on the same machine, and a sync of its recovery may fail. Then the power goes, at any moment
/// since that start.
///
/// # Panics
/// As [`run`], after the restart and after the power loss.
pub fn run_until_the_process_ends() {
    let seed = seed();
    let rng = SeededRng::new(seed);
    let Troubled { mut disk, mut log, reason } = Troubled::run(Trouble::End, seed);
    if rng.chance(1, 3) {
        let (kind, operation) = (FaultKind::SyncLosesBytes, Operation::SyncData);
        let (path_contains, after) = (String::new(), rng.below(SYNCS_OF_RECOVERY));
        disk.inject(Fault { kind, operation, path_contains, after, sticky: false });
        let recovered = until_the_end(|| match try_open(machine(&disk, seed)) {
            Err(error) if error.sqlstate != "58030" => Err(error.to_string()),
            _ => Ok(()),
        });
        recovered.unwrap_or_else(|error| panic!("seed {seed}, after {reason:?}: {error}"));
        disk = disk.restarted();
    }
    disk.record();
    let goes_on = catch_unwind(AssertUnwindSafe(|| {
        let database = open(machine(&disk, seed));
        let opened = disk.changes();
        let found = there(&mut database.session());
        verify(&database, &log, 0);
        // Commits that clients may have seen must stay, and commits that they missed never come.
        for (line, noted) in &mut log {
            noted.committed = found.contains(line);
            noted.ended = noted.ended.min(opened);
        }
        let began = disk.changes();
        let line = (WRITERS, 0);
        let insertion = format!("insert into ledger values ({WRITERS}, 0, 0)");
        query(&mut database.session(), &insertion).expect("nothing fails any more");
        log.insert(line, Noted { began, ended: disk.changes(), committed: true });
        power_loss(&disk, &rng, &log, seed);
    }));
    if let Err(payload) = goes_on {
        eprintln!("seed {seed}, the process before ended: {reason:?}");
        resume_unwind(payload);
    }
}

/// Does the same while relation files are removed, or lose their ends, below the running engine.
/// Either the damage is reported, or nothing is lost.
///
/// # Panics
/// As [`run`], where neither a start nor a check says that a file is damaged.
pub fn run_beside_lost_files() {
    let seed = seed();
    let Troubled { disk, log, reason } = Troubled::run(Trouble::Files, seed);
    let looked = catch_unwind(AssertUnwindSafe(|| {
        let opened = try_open(machine(&disk, seed));
        match opened.and_then(|database| Ok((database.check()?, database))) {
            Err(error) => {
                let told = Trouble::Files.gives().contains(&error.sqlstate);
                assert!(told, "{} {error}, the process ended: {reason:?}", error.sqlstate);
            }
            Ok((report, database)) if report.violations.is_empty() => verify(&database, &log, 0),
            Ok(_) => {}
        }
    }));
    if let Err(payload) = looked {
        let told = payload.downcast_ref().is_some_and(|end: &Crashed| may_end(&end.reason));
        if !told {
            resume_unwind(payload);
        }
    }
}

/// Decides whether a process may end for this reason. The question whether a transaction committed
/// is asked where no error can be returned.
fn may_end(reason: &str) -> bool {
    reason.starts_with("could not read the status of transaction")
}

/// Does the same on a disk that remembers every change. Then the states that a crash leaves at one
/// of the changes are opened, and compared.
///
/// # Panics
/// As [`run`], in any of those states too.
pub fn run_and_crash() {
    let seed = seed();
    let disk = FaultyVfs::new();
    let database = open(Env::simulated(Arc::new(disk.clone()), seed));
    prepare(&database, items(seed));
    disk.record();
    let base = disk.changes();
    let clock = disk.clone();
    let world = World { database, seed, trouble: None };
    let log = work(&world, move || clock.changes() - base);
    drop(world);
    power_loss(&disk, &SeededRng::new(seed), &log, seed);
}

/// Opens the states that a crash leaves at one of the recorded changes of the disk, and compares.
fn power_loss(disk: &FaultyVfs, rng: &SeededRng, log: &BTreeMap<Line, Noted>, seed: u64) {
    let history = disk.history().expect("recording was on");
    let moment = rng.below(history.len() as u64 + 1);
    let mut replay = history.replay();
    while (replay.done() as u64) < moment && replay.step().is_some() {}
    let options =
        CrashOptions { images_max: IMAGES, seed: rng.next_u64(), ..CrashOptions::default() };
    for image in replay.images(&options) {
        let verified = catch_unwind(AssertUnwindSafe(|| {
            let database = open(Env::simulated(Arc::new(image.vfs.fork()), seed));
            verify(&database, log, moment);
        }));
        if let Err(payload) = verified {
            eprintln!("seed {seed}, moment {moment}, survivors: {}", image.survivors);
            eprintln!("{}", replay.recent(40).join("\n"));
            resume_unwind(payload);
        }
    }
}
