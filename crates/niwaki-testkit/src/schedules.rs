//! Running a test in many schedules of the deterministic scheduler.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};

/// Bytes of a simulated thread's stack: the SQL parser recurses.
const STACK_BYTES: usize = 4 << 20;
/// Scheduling points after which a schedule counts as endless.
const STEPS_MAX: usize = 20_000_000;
/// Most schedules of one seed.
const BATCH: usize = 200;
/// Places where the second scheduler changes priorities.
const PREEMPTIONS: usize = 3;

/// How many schedules to try: `NIWAKI_SIM_SCHEDULES`, or `default`.
///
/// # Panics
/// If the variable is not a number.
pub fn schedules(default: usize) -> usize {
    let text = std::env::var("NIWAKI_SIM_SCHEDULES").ok();
    text.map_or(default, |text| text.parse().expect("NIWAKI_SIM_SCHEDULES is a number"))
}

/// Runs `body` in half of the schedules at random, and in the other half with few but well placed
/// switches (PCT, which learns from the first schedule of a batch how long they are). Batches have
/// at most [`BATCH`] schedules and a seed each; the seed of a failing one is printed, and
/// `NIWAKI_SIM_SEED` runs that one alone.
pub fn simulate(schedules: usize, body: impl Fn() + Send + Sync + 'static) {
    let body = Arc::new(body);
    let only = std::env::var("NIWAKI_SIM_SEED").ok();
    if let Some(only) = only {
        run(only.parse().expect("NIWAKI_SIM_SEED is a number"), BATCH, &body);
        return;
    }
    let batch = schedules.div_ceil(2).min(BATCH);
    for seed in 0..schedules.div_ceil(batch) as u64 {
        let result = catch_unwind(AssertUnwindSafe(|| run(seed, batch, &body)));
        if let Err(payload) = result {
            eprintln!("again: NIWAKI_SIM_SEED={seed}, with the name of this test");
            resume_unwind(payload);
        }
    }
}

fn run(seed: u64, schedules: usize, body: &Arc<impl Fn() + Send + Sync + 'static>) {
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    config.max_steps = MaxSteps::FailAfter(STEPS_MAX);
    config.silence_warnings = true;
    // The seed says it shorter.
    config.failure_persistence = FailurePersistence::None;
    let body = Arc::clone(body);
    if seed.is_multiple_of(2) {
        let scheduler = RandomScheduler::new_from_seed(seed, schedules);
        Runner::new(scheduler, config).run(move || body());
    } else {
        let scheduler = PctScheduler::new_from_seed(seed, PREEMPTIONS, schedules);
        Runner::new(scheduler, config).run(move || body());
    }
}

/// A number for this schedule, from the scheduler's own randomness: replaying gives it again.
pub fn seed() -> u64 {
    shuttle::rand::RngCore::next_u64(&mut shuttle::rand::thread_rng())
}
