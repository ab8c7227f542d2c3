//! A scheduler that lets one thread run on for a while before another runs.

use std::ops::Range;

use shuttle::scheduler::{DataSource, RandomDataSource, Schedule, Scheduler, Task, TaskId};

use crate::rng::SeededRng;

/// A scheduler of bursts: one thread may stand still between two of its steps while others finish
/// whole operations. Most races need that.
///
/// If any thread may be next at every step, each further step that the others have to make halves
/// the chance that they make it. PCT, with few but well placed switches, does not switch often
/// enough.
pub struct Bursts {
    schedules: usize,
    rng: SeededRng,
    data: RandomDataSource,
    powers: Range<u64>,
    /// Mean number of steps after which the next thread is drawn; drawn anew for each schedule.
    steps_mean: u64,
}

impl Bursts {
    /// Creates a scheduler for `schedules` schedules. Each schedule draws the mean length of its
    /// bursts, in scheduling points, from these powers of two. With the zeroth power any thread may
    /// be next at every step.
    pub fn new(seed: u64, schedules: usize, powers: Range<u64>) -> Self {
        let data = RandomDataSource::initialize(seed);
        Self { schedules, rng: SeededRng::new(seed), data, powers, steps_mean: 1 }
    }
}

impl Scheduler for Bursts {
    fn new_execution(&mut self) -> Option<Schedule> {
        self.schedules = self.schedules.checked_sub(1)?;
        let Range { start, end } = self.powers;
        self.steps_mean = 1 << (start + self.rng.below(end - start));
        Some(Schedule::new(self.data.reinitialize()))
    }

    fn next_task(
        &mut self,
        runnable: &[&Task],
        current: Option<TaskId>,
        is_yielding: bool,
    ) -> Option<TaskId> {
        let goes_on = current.filter(|id| runnable.iter().any(|task| task.id() == *id));
        if let Some(id) = goes_on
            && (runnable.len() == 1 || !is_yielding && !self.rng.chance(1, self.steps_mean))
        {
            return Some(id);
        }
        let steps_aside = goes_on.filter(|_| is_yielding);
        let others: Vec<TaskId> =
            runnable.iter().map(|task| task.id()).filter(|id| Some(*id) != steps_aside).collect();
        let at = usize::try_from(self.rng.below(others.len() as u64)).unwrap_or(0);
        Some(others[at])
    }

    fn next_u64(&mut self) -> u64 {
        self.data.next_u64()
    }
}
