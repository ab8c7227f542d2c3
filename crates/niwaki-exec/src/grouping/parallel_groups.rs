//! Parallel aggregation: each thread has groups of its own.
//!
//! When some thread has no memory for another group, all threads end early. The session's thread
//! then adds up all groups and goes on alone, because only this thread may divide rows into
//! partitions.

use std::sync::Arc;

use niwaki_expr::expr::Runtime;
use niwaki_parse::error::Result;

use crate::batches::batch_step::BatchStep;
use crate::batches::parallel::Workers;
use crate::grouping::groups::{Grouping, Groups};

/// Lets up to `workers` other threads take rows of `step` too, if the step can be divided. Returns
/// the number of threads that helped. Afterwards `step` returns the rows that are left.
pub(crate) fn take_together(
    groups: &mut Groups,
    grouping: Grouping<'_>,
    step: &mut dyn BatchStep,
    workers: usize,
    rt: &mut Runtime<'_, '_>,
) -> Result<usize> {
    let Some(team) = Workers::of(step, workers, rt)? else { return Ok(0) };
    let (threads, division) = (team.threads(), Arc::clone(&team.division));
    groups.begin_together(threads, &division);
    let work = |step: &mut dyn BatchStep, rt: &mut Runtime<'_, '_>| {
        let mut groups = Groups::new(grouping, true, 0, rt)?;
        groups.begin_together(threads, &division);
        groups.take_batches(grouping, step, rt)?;
        Ok(groups)
    };
    let own = |rt: &mut Runtime<'_, '_>| groups.take_batches(grouping, step, rt);
    let ((), others) = team.run(&work, own, rt)?;
    let launched = others.len();
    groups.end_together(grouping, others)?;
    division.go_on();
    Ok(launched)
}
