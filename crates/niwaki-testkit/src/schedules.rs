//! Running a test in many schedules of the deterministic scheduler.

use std::sync::Arc;

use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, MaxSteps, Runner};

/// Bytes of a simulated thread's stack: the SQL parser recurses.
const STACK_BYTES: usize = 4 << 20;
/// Scheduling points after which a schedule counts as endless.
const STEPS_MAX: usize = 20_000_000;
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
/// switches. A failing schedule is printed by the scheduler, which can replay it.
pub fn simulate(schedules: usize, body: impl Fn() + Send + Sync + 'static) {
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    config.max_steps = MaxSteps::FailAfter(STEPS_MAX);
    config.silence_warnings = true;
    let body = Arc::new(body);
    let again = Arc::clone(&body);
    let half = schedules.div_ceil(2);
    Runner::new(RandomScheduler::new(half), config.clone()).run(move || body());
    Runner::new(PctScheduler::new(PREEMPTIONS, half), config).run(move || again());
}

/// A number for this schedule, from the scheduler's own randomness: replaying gives it again.
pub fn seed() -> u64 {
    shuttle::rand::RngCore::next_u64(&mut shuttle::rand::thread_rng())
}
