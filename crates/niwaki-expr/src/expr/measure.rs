//! Measurements of each step of a plan, for EXPLAIN ANALYZE.

use niwaki_env::hash::HashMap;
use niwaki_parse::error::Result;
use niwaki_types::Datum;

use super::{Running, Runtime, Step};
use crate::plan::PlanNode;
use crate::query::ModifyKind;
use crate::store::ScanEffort;

/// Measurements of one step.
#[derive(Clone, Copy, Debug, Default)]
pub struct Measure {
    /// The number of runs of the step.
    pub loops: u64,
    /// Rows that the step returned, in all its runs.
    pub rows: u64,
    /// Microseconds up to the first row of each run, summed over all runs. The time of the steps
    /// below is included.
    pub first_us: i64,
    /// True if the last run has returned a row.
    gave_row: bool,
    /// Microseconds in all.
    pub total_us: i64,
    /// The extra work of a scan, such as heap fetches.
    pub effort: ScanEffort,
    /// The space that the step needed for sorting or hashing.
    pub space: SpaceUse,
    /// The number of parallel workers that helped.
    pub threads: usize,
}

impl Measure {
    /// Counts rows that the step gave at once. `first`: it has just begun.
    fn add_rows(&mut self, first: bool, rows: usize, took_us: i64) {
        if first {
            self.loops += 1;
            self.gave_row = false;
        }
        if !self.gave_row {
            self.first_us += took_us;
        }
        self.gave_row |= rows > 0;
        self.rows += rows as u64;
        self.total_us += took_us;
    }

    /// Adds what another thread did.
    fn add(&mut self, other: &Self) {
        self.loops += other.loops;
        self.rows += other.rows;
        self.first_us += other.first_us;
        self.total_us += other.total_us;
        self.effort.heap_fetches += other.effort.heap_fetches;
        self.effort.exact_pages += other.effort.exact_pages;
        self.effort.lossy_pages += other.effort.lossy_pages;
    }
}

/// Measurements of a plan's steps.
#[derive(Debug)]
pub struct Measures {
    /// Set if the measurements read the clock, which takes time itself.
    timing: bool,
    /// Measurements by the address of the step's node. The node stays at its address as long as the
    /// plan lives.
    steps: HashMap<usize, Measure>,
    /// Row counts of INSERT … ON CONFLICT. A statement has one such step at most.
    pub conflicts: ConflictCounts,
    /// Row counts of MERGE. A statement has one such step at most.
    pub merged: MergeCounts,
    /// Triggers that were fired.
    pub triggers: Vec<FiredCounts>,
}

/// Calls of a trigger.
#[derive(Clone, Debug)]
pub struct FiredCounts {
    /// The name of the trigger.
    pub name: String,
    /// The number of calls.
    pub calls: u64,
    /// Microseconds that the calls took. Triggers that wait for the statement's end do not count
    /// here.
    pub took_us: i64,
}

/// Rows of an INSERT … ON CONFLICT.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConflictCounts {
    /// Rows that were inserted.
    pub inserted: u64,
    /// Rows that conflicted.
    pub conflicting: u64,
    /// Rows that DO UPDATE's WHERE left unchanged.
    pub filtered: u64,
}

/// Rows of the source of a MERGE, by the action taken for each.
#[derive(Clone, Copy, Debug, Default)]
pub struct MergeCounts {
    /// Rows that were inserted.
    pub inserted: u64,
    /// Rows that were updated.
    pub updated: u64,
    /// Rows that were deleted.
    pub deleted: u64,
    /// Rows for which nothing was done.
    pub skipped: u64,
}

impl MergeCounts {
    /// Counts a row.
    pub fn count(&mut self, done: Option<ModifyKind>) {
        *match done {
            Some(ModifyKind::Insert) => &mut self.inserted,
            Some(ModifyKind::Update) => &mut self.updated,
            Some(ModifyKind::Delete) => &mut self.deleted,
            None => &mut self.skipped,
        } += 1;
    }
}

impl Measures {
    /// Creates measurements without any step. `timing`: they read the clock.
    pub fn new(timing: bool) -> Self {
        let (conflicts, merged) = (ConflictCounts::default(), MergeCounts::default());
        Self { timing, steps: HashMap::default(), conflicts, merged, triggers: Vec::new() }
    }

    /// Returns the measurements of this node's step, which are zero if the step never ran.
    pub fn of(&self, node: &PlanNode) -> Measure {
        self.steps.get(&address(node)).copied().unwrap_or_default()
    }

    /// Counts a row of INSERT … ON CONFLICT.
    pub fn count_conflict(&mut self, conflicting: bool) {
        self.conflicts.inserted += u64::from(!conflicting);
        self.conflicts.conflicting += u64::from(conflicting);
    }

    /// Counts a call of a trigger.
    pub fn count_trigger(&mut self, name: &str, took_us: i64) {
        match self.triggers.iter_mut().find(|known| known.name == name) {
            Some(known) => {
                known.calls += 1;
                known.took_us += took_us;
            }
            None => self.triggers.push(FiredCounts { name: name.to_owned(), calls: 1, took_us }),
        }
    }

    /// Returns whether the measurements read the clock.
    pub fn timing(&self) -> bool {
        self.timing
    }

    /// Counts rows that a step returned at once. `first`: the step has just begun a run.
    pub fn add_rows(&mut self, node: &PlanNode, first: bool, rows: usize, took_us: i64) {
        self.steps.entry(address(node)).or_default().add_rows(first, rows, took_us);
    }

    /// Adds the measurements of another thread.
    pub fn add_thread(&mut self, other: &Self) {
        for (step, measure) in &other.steps {
            self.steps.entry(*step).or_default().add(measure);
        }
    }

    /// Adds `threads` parallel workers to a step's measurements.
    pub fn add_threads(&mut self, node: &PlanNode, threads: usize) {
        self.steps.entry(address(node)).or_default().threads += threads;
    }

    /// Notes the space that a step needed for sorting or hashing. Keeps the maximum of all runs.
    pub fn add_space(&mut self, node: &PlanNode, space: SpaceUse) {
        let most = &mut self.steps.entry(address(node)).or_default().space;
        most.batches = most.batches.max(space.batches);
        most.memory = most.memory.max(space.memory);
        most.disk = most.disk.max(space.disk);
        most.keys = most.keys.max(space.keys);
        most.top |= space.top;
    }

    /// Adds the work of a scan between the counts `before` and `now`.
    pub fn add_effort(&mut self, node: &PlanNode, before: ScanEffort, now: ScanEffort) {
        let sum = &mut self.steps.entry(address(node)).or_default().effort;
        sum.heap_fetches += now.heap_fetches - before.heap_fetches;
        sum.exact_pages += now.exact_pages - before.exact_pages;
        sum.lossy_pages += now.lossy_pages - before.lossy_pages;
    }
}

fn address(node: &PlanNode) -> usize {
    std::ptr::from_ref(node).addr()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Batches once counted the first run only, though the time is shown per run.
    #[test]
    fn each_run_takes_time_up_to_its_first_row() {
        let mut measure = Measure::default();
        for (first, rows, took_us) in [(true, 0, 1), (false, 5, 10), (false, 5, 100)] {
            measure.add_rows(first, rows, took_us);
        }
        assert_eq!((measure.loops, measure.rows, measure.first_us), (1, 10, 11));
        for (first, rows, took_us) in [(true, 3, 20), (false, 0, 200)] {
            measure.add_rows(first, rows, took_us);
        }
        assert_eq!((measure.loops, measure.rows), (2, 13));
        assert_eq!((measure.first_us, measure.total_us), (31, 331));
    }
}

/// The space that a step needed.
#[derive(Clone, Copy, Debug, Default)]
pub struct SpaceUse {
    /// The number of times that the step began with an empty table.
    pub batches: u64,
    /// The most bytes of memory that the step held.
    pub memory: usize,
    /// Bytes that the step wrote to temporary files.
    pub disk: u64,
    /// The most keys that the step's table had.
    pub keys: usize,
    /// Set if a sort left out rows behind the wanted rows.
    pub top: bool,
}

impl SpaceUse {
    /// Counts a filled table.
    pub fn table(&mut self, memory: usize, keys: usize) {
        self.batches += 1;
        self.memory = self.memory.max(memory);
        self.keys = self.keys.max(keys);
    }
}

/// A step whose runs are measured.
pub struct Measured {
    step: Running,
    node: usize,
    begun: bool,
}

impl Measured {
    /// Wraps the step of a node.
    pub fn new(node: &PlanNode, step: Running) -> Self {
        Self { step, node: address(node), begun: false }
    }
}

impl Step for Measured {
    fn next(&mut self, row: &mut Vec<Datum>, rt: &mut Runtime<'_, '_>) -> Result<bool> {
        let timing = rt.state.measures.as_ref().is_some_and(|measures| measures.timing);
        let now =
            |rt: &Runtime<'_, '_>| if timing { rt.exec.environment.clock_timestamp() } else { 0 };
        let before = now(rt);
        let gave = self.step.next(row, rt)?;
        let took = now(rt) - before;
        if let Some(measures) = &mut rt.state.measures {
            let measure = measures.steps.entry(self.node).or_default();
            measure.add_rows(!self.begun, usize::from(gave), took);
        }
        self.begun = true;
        Ok(gave)
    }
}
