//! Running a test in many schedules of the deterministic scheduler.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use niwaki_env::rare;
use niwaki_env::sync::bursts::Bursts;
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};

use crate::processes::{Mortal, over};

/// Bytes of a simulated thread's stack: the SQL parser recurses.
const STACK_BYTES: usize = 4 << 20;
/// Scheduling points after which a schedule counts as endless.
const STEPS_MAX: usize = 20_000_000;
/// Most schedules of one seed.
const BATCH: usize = 200;
/// Number of places where the second scheduler changes priorities.
const PREEMPTIONS: usize = 3;
/// The third scheduler's burst lengths: steps a thread runs before others do, as powers of two.
const BURST_POWERS: std::ops::Range<u64> = 3..10;

/// Returns the number of schedules to try: `NIWAKI_SIM_SCHEDULES`, or `default`.
///
/// # Panics
/// If the variable is not a number.
pub fn schedules(default: usize) -> usize {
    let text = std::env::var("NIWAKI_SIM_SCHEDULES").ok();
    text.map_or(default, |text| text.parse().expect("NIWAKI_SIM_SCHEDULES is a number"))
}

/// Runs `body` in many schedules: a third at random, a third with few but well placed switches, and
/// a third with [`Bursts`]. The second third is PCT, which learns from the first schedule of a
/// batch how long schedules are. Batches have at most [`BATCH`] schedules and a seed each. The seed
/// of a failing batch is printed, and `NIWAKI_SIM_SEED` runs that batch alone. Every other schedule
/// takes rare paths (`niwaki_env::rare`).
pub fn simulate(schedules: usize, body: impl Fn() + Send + Sync + 'static) {
    let body = Arc::new(body);
    let only = std::env::var("NIWAKI_SIM_SEED").ok();
    if let Some(only) = only {
        run(only.parse().expect("NIWAKI_SIM_SEED is a number"), BATCH, &body);
        return;
    }
    let batch = schedules.div_ceil(3).min(BATCH);
    for seed in 0..schedules.div_ceil(batch) as u64 {
        let result = catch_unwind(AssertUnwindSafe(|| run(seed, batch, &body)));
        if let Err(payload) = result {
            eprintln!("again: NIWAKI_SIM_SEED={seed}, with the name of this test");
            resume_unwind(payload);
        }
    }
}

/// Notes of the actions of a schedule, step by step.
pub type Notes = Arc<Mutex<Vec<String>>>;

/// Runs `body` in some schedules of each kind, twice. The notes must be the same. Otherwise the
/// seed of a failing schedule would not find the failure again.
///
/// # Panics
/// At the first note that differs.
pub fn simulate_twice(schedules: usize, body: impl Fn(&Notes) + Send + Sync + 'static) {
    let body = Arc::new(body);
    for seed in 0..3 {
        let noted = || {
            let notes = Notes::default();
            let (body, own) = (Arc::clone(&body), Arc::clone(&notes));
            run(seed, schedules, &Arc::new(move || body(&own)));
            std::mem::take(&mut *notes.lock().expect("no thread panics with it"))
        };
        let (one, other) = (noted(), noted());
        assert!(!one.is_empty(), "nothing was noted");
        let same = one.iter().zip(&other).take_while(|(one, other)| one == other).count();
        let (one, other) = (one.get(same), other.get(same));
        assert_eq!(one, other, "seed {seed}, note {same}: the second run differs");
    }
}

/// Runs `body` in one schedule of any length. For suites of a single thread in a build that knows
/// simulated threads only.
pub fn alone(body: impl Fn() + Send + Sync + 'static) {
    let mut config = config();
    config.max_steps = MaxSteps::None;
    rare::start(None);
    Runner::new(RandomScheduler::new_from_seed(0, 1), config).run(body);
}

fn config() -> Config {
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    config.max_steps = MaxSteps::FailAfter(STEPS_MAX);
    config.silence_warnings = true;
    // The seed is the shorter form.
    config.failure_persistence = FailurePersistence::None;
    config
}

fn run(seed: u64, schedules: usize, body: &Arc<impl Fn() + Send + Sync + 'static>) {
    let config = config();
    let (body, number) = (Arc::clone(body), AtomicU64::new(0));
    let body = move || {
        // Every other schedule goes along rare paths; replaying gives the same ones.
        let number = number.fetch_add(1, Ordering::Relaxed);
        let rare_seed = seed.wrapping_add(number << 32);
        rare::start((number % 2 == 1).then_some(rare_seed));
        body();
        over();
    };
    match seed % 3 {
        0 => {
            let scheduler = Bursts::new(seed, schedules, BURST_POWERS);
            Runner::new(Mortal::new(scheduler), config).run(body);
        }
        1 => {
            let scheduler = PctScheduler::new_from_seed(seed, PREEMPTIONS, schedules);
            Runner::new(Mortal::new(scheduler), config).run(body);
        }
        _ => {
            let scheduler = RandomScheduler::new_from_seed(seed, schedules);
            Runner::new(Mortal::new(scheduler), config).run(body);
        }
    }
}

/// Returns a number for this schedule, from the scheduler's own randomness: replaying gives it
/// again.
pub fn seed() -> u64 {
    shuttle::rand::RngCore::next_u64(&mut shuttle::rand::thread_rng())
}
