//! Long work in one process, which must not grow by it.
//!
//! Each test is a way in which programs embed the database. Databases are in memory or on disk.
//! Several directories are opened and closed. Handles are forgotten or dropped in the middle of
//! work, and threads die. A round draws statements of all kinds, and compares the rows with a
//! model. Each round then counts the resources that could pile up. The counts may not grow after
//! the first rounds.
//!
//! `NIWAKI_CHURN_SEED` (1 unless given) determines all random choices. `NIWAKI_CHURN_SECONDS` sets
//! the duration of a test; without it there are a few rounds. A few rounds find a thread, file,
//! descriptor or lock that each round leaves behind. Minutes find a leak of 10 kB.

#[path = "../common/mod.rs"]
mod common;
mod dying;
mod forgotten;
mod several;
mod size;
mod world;

use std::alloc::System;
use std::path::PathBuf;
use std::time::Duration;

use niwaki::{Database, Options, Session};
use niwaki_env::Env;
use niwaki_env::clock::{Clock, OsClock};
use niwaki_env::memory::Counting;
use niwaki_env::rng::SeededRng;
use niwaki_env::sync::Mutex;

use common::run;
use several::Places;
use size::Size;
use world::World;

#[global_allocator]
static ALLOCATOR: Counting<System> = Counting(System);

/// Held by each test, because the counts cover the whole process.
static ALONE: Mutex<()> = Mutex::new(());

/// Rounds after which nothing may grow any more: caches are full, and files have free pages.
const WARM_ROUNDS: u32 = 12;
/// Rounds without a given duration. After the first ones, there are twice as many rounds as the
/// files, threads, descriptors and locks by which rounds may differ.
const ROUNDS: u32 = 44;
/// Actions per round.
const ACTIONS: usize = 4;

/// A folder that is removed at the end of the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let name = format!("niwaki-churn-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Returns options with small sizes, so that pages are evicted, files are closed, and checkpoints
/// run.
fn options() -> Options {
    let options = Options::new().background(true).small_files(true);
    let options = options.set("shared_buffers", "2MB").set("max_wal_size", "2MB");
    options.set("max_files_per_process", "64").set("autovacuum_naptime", "1s")
}

/// Runs a query string that must succeed, and returns its rows.
fn ok(session: &mut Session, sql: &str) -> String {
    let answer = run(session, sql);
    assert!(!answer.lines().any(|line| line.starts_with("error ")), "{sql}: {answer}");
    answer
}

/// Runs statements that must succeed.
fn all(session: &mut Session, statements: &[&str]) {
    for sql in statements {
        ok(session, sql);
    }
}

/// Runs a query string that must fail with this SQLSTATE.
fn fails(session: &mut Session, sql: &str, sqlstate: &str) {
    let answer = run(session, sql);
    assert!(answer.contains(&format!("error {sqlstate}: ")), "{sql}: {answer}");
}

/// Draws a number below `bound`.
fn draw(rng: &SeededRng, bound: i32) -> i32 {
    i32::try_from(rng.below(u64::try_from(bound).unwrap())).unwrap()
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}

/// Calls `round` again and again. Its result may not grow after the first times.
fn churn(mode: &str, mut round: impl FnMut(&SeededRng) -> Size) {
    let seed = number("NIWAKI_CHURN_SEED").unwrap_or(1);
    let time = number("NIWAKI_CHURN_SECONDS").map(Duration::from_secs);
    println!("{mode}: NIWAKI_CHURN_SEED={seed}");
    let (rng, clock) = (SeededRng::new(seed), OsClock::new());
    let begun = clock.monotonic();
    let (mut rounds, mut warm) = (0, Size::default());
    loop {
        let now = round(&rng);
        rounds += 1;
        let spent = clock.monotonic().checked_sub(begun).unwrap();
        if rounds <= WARM_ROUNDS || time.is_some_and(|time| spent < time / 10) {
            warm = warm.max(now);
            continue;
        }
        now.assert_as_large_as(warm, &format!("{mode}, seed {seed}, round {rounds}"));
        if time.map_or(rounds >= ROUNDS, |time| spent >= time) {
            println!("{mode}: {rounds} rounds; {now}; at first {warm}");
            return;
        }
    }
}

#[test]
fn in_memory() {
    let _alone = ALONE.lock();
    let mut world = World::new(&Env::memory(), options());
    churn("in memory", |rng| {
        world.work(rng, ACTIONS);
        world.settle(rng)
    });
    world.end();
}

#[test]
fn on_disk() {
    let _alone = ALONE.lock();
    let folder = Folder::new("disk");
    let mut world = World::new(&Env::os(&folder.0), options());
    churn("on disk", |rng| {
        world.work(rng, ACTIONS);
        world.settle(rng)
    });
    world.end();
}

#[test]
fn several_directories_that_come_and_go() {
    let _alone = ALONE.lock();
    let mut places = Places::new();
    churn("several directories", |rng| places.round(rng));
    places.end();
}

/// At first some sessions are forgotten with all their resources. In each round, other sessions and
/// their transactions are forgotten or dropped in the middle of work.
#[test]
fn handles_that_are_forgotten() {
    let _alone = ALONE.lock();
    let folder = Folder::new("forgotten");
    let options = options().close_patience(Duration::ZERO);
    let mut world = World::new(&Env::os(&folder.0), options);
    let forgotten = forgotten::sessions(&mut world);
    churn("forgotten handles", |rng| {
        world.work(rng, ACTIONS / 2);
        for _ in 0..3 {
            forgotten::leave(&mut world, rng);
        }
        world.settle(rng)
    });
    // No other session can end their transactions.
    let refused = world.database.clone().close().expect_err("transactions are open");
    assert_eq!(refused.sqlstate, "55006");
    drop(forgotten);
    world.end();
}

#[test]
fn threads_that_die() {
    let _alone = ALONE.lock();
    let folder = Folder::new("dying");
    let mut world = World::new(&Env::os(&folder.0), options());
    churn("dying threads", |rng| {
        world.work(rng, ACTIONS / 2);
        for _ in 0..3 {
            dying::die(&world, rng);
        }
        if rng.chance(1, 4) {
            dying::die_with_the_last_handle();
        }
        world.settle(rng)
    });
    world.end();
}

/// Opens a database without background threads.
fn quiet(env: &Env) -> Database {
    Database::open_with(env.clone(), options().background(false)).unwrap()
}
