//! Aggregates: each thread has groups of its own.
//!
//! When some thread has no memory for another group, all end early: the session's thread adds up what there is, and goes on alone, as
//! it alone may divide rows into partitions.

use std::sync::Arc;

use super::Crew;
use crate::error::Result;
use crate::exec::batches::BatchStep;
use crate::exec::groups::{Grouping, Groups};
use crate::expr::Runtime;

/// Has up to `workers` other threads take rows of `step` too, if it can be divided; returns how many did. What is left then, the
/// step gives when it is asked further.
pub(in crate::exec) fn take_together(
    groups: &mut Groups,
    grouping: Grouping<'_>,
    step: &mut dyn BatchStep,
    workers: usize,
    rt: &mut Runtime<'_, '_>,
) -> Result<usize> {
    let Some(crew) = Crew::of(step, workers, rt)? else { return Ok(0) };
    let (threads, division) = (crew.threads(), Arc::clone(&crew.division));
    groups.begin_together(threads, &division);
    let work = |step: &mut dyn BatchStep, rt: &mut Runtime<'_, '_>| {
        let mut groups = Groups::new(grouping, true, 0, rt)?;
        groups.begin_together(threads, &division);
        groups.take_batches(grouping, step, rt)?;
        Ok(groups)
    };
    let own = |rt: &mut Runtime<'_, '_>| groups.take_batches(grouping, step, rt);
    let ((), others) = crew.run(&work, own, rt)?;
    let launched = others.len();
    groups.end_together(grouping, others)?;
    division.go_on();
    Ok(launched)
}
