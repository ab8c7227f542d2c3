//! Each operation on files that some work needs fails once, by enumeration.
//!
//! Elsewhere only luck meets the error paths behind files. Here the same work runs again for every
//! operation it asks of the file system, and that operation fails. Then the statement gives an
//! error of the right kind and does nothing, or the process ends. All acknowledged changes are
//! there, on the same machine and after a power loss.
//!
//! In place of failing, the operation panics: a fault in the code around it. The statement ends
//! with the panic. Another session goes on, unless the panic left a critical section.
//!
//! Memory can be short for every statement, too. Each request for memory is refused once, where a
//! session has as much as it may have. The statement gives 53200, or has another way.
//!
//! `NIWAKI_OPERATIONS_STRIDE` lets only each n-th operation fail. Unless it is given, each one
//! fails and each third one panics. A few of all requests for memory are refused.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use niwaki::{Database, Options, Session};
use niwaki_env::vfs::{CrashOptions, Fault, FaultKind, FaultyVfs, MemoryVfs, Operation};
use niwaki_env::{Crashed, Env, critical, memory};
use niwaki_testkit::crash::describe;
use niwaki_testkit::schedules::alone;
use niwaki_testkit::sql::query;

/// Opens with few frames, so that pages are written back and read again.
fn open(vfs: &FaultyVfs) -> niwaki::Result<Database> {
    let options = Options::new()
        .background(false)
        .small_files(true)
        .set("shared_buffers", "256kB")
        .set("work_mem", "64kB")
        .set("maintenance_work_mem", "1MB");
    Database::open_with(Env::simulated(Arc::new(vfs.clone()), 1), options)
}

/// Returns the rows of a query string, or its error. A failed block leaves nothing open.
fn run(session: &mut Session, sql: &str) -> String {
    match query(session, sql) {
        Ok(collected) => collected.rows.iter().map(|row| format!("{row:?}\n")).collect(),
        Err(error) => {
            query(session, "rollback").expect("rollback always works");
            format!("error {}: {}", error.sqlstate, error.message)
        }
    }
}

/// Statements that fill the database before the work.
const BEFORE: &[&str] = &[
    "create table item (id int primary key, n int, note text)",
    "create index item_n on item (n)",
    "create table document (id serial primary key, body text)",
    "insert into item select g, g % 7, repeat('n', 200) from generate_series(1, 200) g",
    "insert into document (body) select string_agg(md5(i::text), '') from generate_series(1, 300) i",
    "create unlogged table unlogged (a int)",
    "insert into unlogged values (1)",
];

/// The work; each statement is a transaction.
const WORK: &[&str] = &[
    "update item set n = n + 1, note = repeat('m', 150) where id % 5 = 0",
    "insert into document (body) select string_agg(md5((i * 3)::text), '') from generate_series(1, 400) i",
    "create table made (a int primary key, b text)",
    "insert into made select g, repeat('b', 90) from generate_series(1, 150) g",
    "create index made_b on made (b, a)",
    "begin; delete from item where id < 50; savepoint s; update made set a = -a; rollback to s; commit",
    "select count(*) from (select note, n, id from item order by note, n desc, id) s where id > 0",
    "vacuum (index_cleanup on, parallel 0) item",
    "checkpoint",
    "truncate document",
    "insert into document (body) values ('new')",
    "reindex table item",
    "alter table item add column more int default 5",
    "drop table made",
    "create database other",
    "drop database other",
    "checkpoint",
];

const QUESTIONS: &[&str] = &[
    "select count(*), sum(id), sum(n), sum(length(note)) from item",
    "set enable_seqscan = off; set enable_bitmapscan = off; \
     select count(*), sum(n) from item where n > -5; select count(*), sum(id) from item where id > 0; \
     reset enable_seqscan; reset enable_bitmapscan",
    "select count(*), max(md5(body)) from document",
    "select count(*), sum(a), sum(length(b)) from made",
    "select string_agg(attname, ' ' order by attnum) from pg_attribute \
     where attrelid = 'item'::regclass and attnum > 0",
    "select string_agg(datname, ' ' order by datname) from pg_database",
];

fn answers(database: &Database) -> Vec<String> {
    let mut session = database.session();
    QUESTIONS.iter().map(|question| run(&mut session, question)).collect()
}

/// SQLSTATEs of the errors that report a fault.
type Tells = &'static [&'static str];

/// SQLSTATEs of a file that could not be read or written.
const OF_FILES: Tells = &["58030", "53100"];
/// SQLSTATE of refused memory.
const OF_MEMORY: Tells = &["53200"];

/// Decides whether an answer is an error that reports a fault.
fn tells(answer: &str, of: Tells) -> bool {
    of.iter().any(|state| answer.contains(&format!("error {state}: ")))
}

/// Actions of a process before it ended, or until all work was done.
#[derive(Default)]
struct Done {
    /// Answer of each statement; `None` where it panicked, or the process ended within it.
    answers: Vec<Option<String>>,
    /// The process ended within the last statement.
    died: bool,
    /// SQLSTATEs that report its faults.
    tells: Tells,
}

impl Done {
    /// Returns the statements that had an effect, with their answers. A statement without an answer
    /// may have had an effect or not: both are right.
    fn effective(&self) -> Vec<Vec<(usize, Option<&str>)>> {
        let ended = self.answers.iter().enumerate();
        let ended = ended.map(|(at, answer)| (at, answer.as_deref()));
        let all = ended.filter(|(_, answer)| !answer.is_some_and(|text| tells(text, self.tells)));
        let all = all.collect::<Vec<_>>();
        let answered = all.iter().copied().filter(|(_, answer)| answer.is_some()).collect();
        if all.iter().any(|(_, answer)| answer.is_none()) { vec![answered, all] } else { vec![all] }
    }

    /// Decides whether a client got an error that reports a fault.
    fn told(&self) -> bool {
        let tells = |text: &str| tells(text, self.tells);
        self.answers.iter().any(|answer| answer.as_deref().is_none_or(tells))
    }
}

/// Answers of a database without faults after some of the statements.
#[derive(Default)]
struct Oracle {
    known: BTreeMap<Vec<usize>, (Vec<String>, Vec<String>)>,
}

impl Oracle {
    /// Returns the answers to the questions, if the statements give the same answers as under the
    /// fault.
    ///
    /// # Errors
    /// The answer of a statement under the fault, and its answer now.
    fn answers(
        &mut self,
        base: &MemoryVfs,
        statements: &[(usize, Option<&str>)],
    ) -> Result<Vec<String>, String> {
        let numbers: Vec<usize> = statements.iter().map(|(at, _)| *at).collect();
        let (told, answers) = self.known.entry(numbers.clone()).or_insert_with(|| {
            let database = open(&FaultyVfs::from_memory(base)).expect("nothing fails");
            let mut session = database.session();
            let told = numbers.iter().map(|at| run(&mut session, WORK[*at])).collect();
            drop(session);
            (told, answers(&database))
        });
        for ((at, under_fault), told) in statements.iter().zip(told) {
            if under_fault.is_some_and(|under_fault| under_fault != told) {
                return Err(format!("{}: {under_fault:?} instead of {told:?}", WORK[*at]));
            }
        }
        Ok(answers.clone())
    }

    /// Returns all sets of answers that are right after the finished work.
    fn right(&mut self, base: &MemoryVfs, done: &Done, what: &str) -> Vec<Vec<String>> {
        let effective = done.effective();
        let all = effective.iter().map(|statements| self.answers(base, statements));
        let (right, wrong): (Vec<_>, Vec<_>) = all.partition(Result::is_ok);
        assert!(!right.is_empty(), "{what}\n{wrong:#?}");
        right.into_iter().flatten().collect()
    }
}

fn work(database: &Database, tells: Tells) -> Done {
    let mut done = Done { tells, ..Done::default() };
    let mut session = database.session();
    let before = critical::panicked();
    for sql in WORK {
        let ran = catch_unwind(AssertUnwindSafe(|| run(&mut session, sql)));
        let reason = match ran {
            Ok(answer) => {
                done.answers.push(Some(answer));
                continue;
            }
            Err(reason) => reason,
        };
        done.answers.push(None);
        if reason.is::<Crashed>() || critical::panicked() > before {
            done.died = true;
            // A process that ends undoes nothing.
            std::mem::forget(session);
            return done;
        }
        assert!(injected(&*reason), "{sql} panicked");
        // The session ends and others go on, as in the server.
        session = database.session();
    }
    done
}

/// Decides whether a panic is the injected one.
fn injected(reason: &(dyn std::any::Any + Send)) -> bool {
    describe(reason).contains("(injected)")
}

/// Returns the disk before the work: closed, or as a killed process leaves it.
fn base(closed: bool) -> MemoryVfs {
    let vfs = FaultyVfs::new();
    let database = open(&vfs).expect("nothing fails");
    let mut session = database.session();
    for sql in BEFORE {
        assert_eq!(run(&mut session, sql), "", "{sql}");
    }
    drop(session);
    if closed {
        database.close().expect("nothing is open");
        return vfs.current();
    }
    let files = vfs.current();
    drop(database);
    files
}

/// Counts the operations of an undisturbed run, by kind, and the requests for memory.
fn counts(base: &MemoryVfs) -> (BTreeMap<Operation, u64>, u64) {
    let vfs = FaultyVfs::from_memory(base);
    let database = open(&vfs).expect("nothing fails");
    memory::fail_at(None);
    let done = work(&database, OF_FILES);
    let questions = memory::fail_at(None);
    let failed =
        |answer: &Option<String>| answer.as_ref().is_none_or(|text| text.contains("error"));
    assert!(!done.answers.iter().any(failed), "{:?}", done.answers);
    database.close().expect("nothing is open");
    (vfs.counts(), questions)
}

fn kinds(operation: Operation) -> &'static [FaultKind] {
    match operation {
        Operation::SyncData => &[FaultKind::SyncLosesBytes, FaultKind::SyncFailsAfterWriting],
        Operation::Write => &[FaultKind::InputOutputError, FaultKind::ShortWrite],
        Operation::Allocate | Operation::SetLen | Operation::Create | Operation::CreateDir => {
            &[FaultKind::StorageFull, FaultKind::InputOutputError]
        }
        _ => &[FaultKind::InputOutputError],
    }
}

/// Requires that every answer is right after a restart on the same machine, and after a power loss.
fn recovers(vfs: &FaultyVfs, base: &MemoryVfs, done: &Done, oracle: &mut Oracle, what: &str) {
    let right = oracle.right(base, done, what);
    let check = |world: &FaultyVfs, how: &str| {
        let database = open(world).unwrap_or_else(|error| panic!("{what}, {how}: {error}"));
        let found = answers(&database);
        assert!(right.contains(&found), "{what}, {how}\n{found:#?}\n{right:#?}");
        let report = database.check().expect("it can be read");
        assert!(report.violations.is_empty(), "{what}, {how}: {:#?}", report.violations);
        drop(database);
    };
    let restarted = vfs.restarted();
    check(&restarted, "restarted");
    restarted.crash();
    let options = CrashOptions { images_max: 1, ..CrashOptions::default() };
    for image in restarted.crash_images(&options) {
        check(&FaultyVfs::from_memory(&image.vfs), "after a power loss");
    }
}

/// Fails the `after`-th operation of this kind in an open, the work and a close.
fn fails_once(base: &MemoryVfs, fault: &Fault, oracle: &mut Oracle) -> Outcome {
    let what = format!("{:?} at {:?} {}", fault.kind, fault.operation, fault.after);
    let vfs = FaultyVfs::from_memory(base);
    vfs.inject(fault.clone());
    let opened = catch_unwind(AssertUnwindSafe(|| open(&vfs)));
    let mut done = Done::default();
    let outcome = match opened {
        Ok(Ok(database)) => {
            done = work(&database, OF_FILES);
            if done.died {
                std::mem::forget(database);
                Outcome::Died
            } else {
                let (found, right) = (answers(&database), oracle.right(base, &done, &what));
                // If nothing can be written any more, a page may find no room in memory.
                let stopped = found.iter().any(|answer| tells(answer, OF_FILES));
                let same =
                    |(found, right): (&String, &String)| found == right || tells(found, OF_FILES);
                let is_right = |right: &Vec<String>| found.iter().zip(right).all(same);
                let any = right.iter().any(is_right);
                assert!(any, "{what}, before the end\n{found:#?}\n{right:#?}");
                if stopped {
                    let written = run(&mut database.session(), "create table afterwards ()");
                    assert!(
                        tells(&written, OF_FILES),
                        "{what}, and something is written: {written}"
                    );
                }
                match catch_unwind(AssertUnwindSafe(|| database.close())) {
                    Ok(Ok(())) if done.told() => Outcome::Told,
                    Ok(Ok(())) => Outcome::Hidden,
                    Ok(Err(_)) => Outcome::Told,
                    Err(reason) => {
                        let expected = reason.is::<Crashed>() || injected(&*reason);
                        assert!(expected, "{what}: the close panicked");
                        Outcome::Died
                    }
                }
            }
        }
        Ok(Err(error)) => {
            let told = tells(&format!("error {}: ", error.sqlstate), OF_FILES);
            assert!(told, "{what}: {error}");
            Outcome::Told
        }
        Err(reason) => {
            let expected = reason.is::<Crashed>() || injected(&*reason);
            assert!(expected, "{what}: the start panicked");
            Outcome::Died
        }
    };
    vfs.heal();
    recovers(&vfs, base, &done, oracle, &what);
    vfs.discard();
    outcome
}

/// Refuses one request for memory of the work.
fn refused_once(base: &MemoryVfs, question: u64, oracle: &mut Oracle) -> Outcome {
    let what = format!("question {question} for memory");
    let vfs = FaultyVfs::from_memory(base);
    let database = open(&vfs).expect("nothing fails");
    memory::fail_at(Some(question));
    let done = work(&database, OF_MEMORY);
    let asked = memory::fail_at(None);
    assert!(asked > question, "{what}: only {asked} were asked");
    assert!(!done.died, "{what}: the process ended");
    let (found, right) = (answers(&database), oracle.right(base, &done, &what));
    assert!(right.contains(&found), "{what}, before the end\n{found:#?}\n{right:#?}");
    database.close().expect("nothing is open");
    recovers(&vfs, base, &done, oracle, &what);
    vfs.discard();
    if done.told() { Outcome::Told } else { Outcome::Hidden }
}

/// Effect of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    /// A statement, the start or the close gave an error.
    Told,
    /// The process ended.
    Died,
    /// The operation was tried again, or not needed.
    Hidden,
}

const ALL: [Outcome; 3] = [Outcome::Told, Outcome::Died, Outcome::Hidden];

/// Returns the stride that the environment gives.
fn stride() -> Option<usize> {
    let text = std::env::var("NIWAKI_OPERATIONS_STRIDE").ok()?;
    Some(text.parse().expect("a number"))
}

/// Lets every operation of the work fail in each of some ways, and counts the outcomes.
fn each_operation(
    closed: bool,
    kinds: impl Fn(Operation) -> &'static [FaultKind],
    usual_stride: usize,
    met: &[Outcome],
) {
    let base = base(closed);
    let (mut outcomes, mut oracle) = (BTreeMap::<_, u64>::new(), Oracle::default());
    let stride = stride().unwrap_or(usual_stride);
    let mut number = 0;
    for (operation, count) in counts(&base).0 {
        for &kind in kinds(operation) {
            for after in 0..count {
                number += 1;
                if number % stride != 0 {
                    continue;
                }
                let path_contains = String::new();
                let fault = Fault { kind, operation, path_contains, after, sticky: false };
                let outcome = fails_once(&base, &fault, &mut oracle);
                *outcomes.entry((operation, outcome)).or_default() += 1;
            }
        }
    }
    eprintln!("{number} operations, one in {stride} of which failed: {outcomes:#?}");
    for outcome in met {
        let is_met = outcomes.keys().any(|(_, other)| other == outcome);
        assert!(is_met, "no fault was {outcome:?}: {outcomes:?}");
    }
}

/// Number of requests for memory that are refused in turn, unless the environment gives a stride: a
/// minute's work.
const REFUSED: usize = 100;

#[test]
fn a_question_for_memory_that_is_refused_loses_nothing() {
    alone(|| {
        let (base, mut oracle) = (base(true), Oracle::default());
        let questions = counts(&base).1;
        let all = usize::try_from(questions).expect("they were counted one by one");
        let stride = stride().unwrap_or(all.div_ceil(REFUSED)).max(1);
        let mut outcomes = BTreeMap::<_, u64>::new();
        for question in (0..questions).step_by(stride) {
            let outcome = refused_once(&base, question, &mut oracle);
            *outcomes.entry(outcome).or_default() += 1;
        }
        eprintln!("{questions} questions, one in {stride} of which was refused: {outcomes:?}");
        assert!(outcomes.contains_key(&Outcome::Told), "nobody was told: {outcomes:?}");
    });
}

#[test]
fn an_operation_that_fails_loses_nothing() {
    alone(|| each_operation(true, kinds, 1, &ALL));
}

#[test]
fn an_operation_that_fails_behind_a_kill_loses_nothing() {
    alone(|| each_operation(false, kinds, 1, &ALL));
}

#[test]
fn an_operation_that_panics_loses_nothing() {
    // A dead process keeps its buffers until the test ends.
    alone(|| each_operation(true, |_| &[FaultKind::Panic], 3, &[Outcome::Told, Outcome::Died]));
}
