//! Batches of all threads, which the session's takes.

use std::collections::VecDeque;

use niwaki_env::memory;
use niwaki_env::seeded_bug;
use niwaki_env::sync::{Condvar, Mutex};

use super::Crew;
use crate::error::Result;
use crate::exec::batches::{BatchStep, Kept};
use crate::expr::{Batch, Runtime};

/// Batches that wait to be taken, for each thread.
const WAITING_MAX: usize = 2;

/// What takes batches.
pub(in crate::exec) type TakeBatch<'t> =
    &'t mut dyn FnMut(&Batch, &Kept, &mut Runtime<'_, '_>) -> Result<()>;

/// Gives all batches of `step` to `take`, which up to `workers` other threads help to read, if it can be divided; returns how many
/// did.
pub(in crate::exec) fn gather(
    step: &mut dyn BatchStep,
    workers: usize,
    rt: &mut Runtime<'_, '_>,
    take: TakeBatch<'_>,
) -> Result<usize> {
    let mut launched = 0;
    if let Some(crew) = Crew::of(step, workers, rt)? {
        let queue = Queue::new(crew.threads() * WAITING_MAX);
        let work = |step: &mut dyn BatchStep, rt: &mut Runtime<'_, '_>| queue.fill(step, rt);
        let own = |rt: &mut Runtime<'_, '_>| {
            // However this ends, nobody waits for room any more.
            let _closing = Closing(&queue);
            let (mut batch, mut kept) = (Batch::default(), Kept::default());
            while step.next(&mut batch, &mut kept, rt)? {
                take(&batch, &kept, rt)?;
                while let Some((batch, kept)) = queue.pop() {
                    take(&batch, &kept, rt)?;
                }
            }
            while let Some((batch, kept)) = queue.wait() {
                take(&batch, &kept, rt)?;
            }
            Ok(())
        };
        launched = crew.run(&work, own, rt)?.1.len();
    }
    // All, without other threads.
    let (mut batch, mut kept) = (Batch::default(), Kept::default());
    while step.next(&mut batch, &mut kept, rt)? {
        take(&batch, &kept, rt)?;
    }
    Ok(launched)
}

/// Batches on their way.
struct Queue {
    room: usize,
    state: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    /// Each with what its thread left to the session on the account of memory.
    batches: VecDeque<(Batch, Kept, isize)>,
    /// Threads that may bring more.
    running: usize,
    closed: bool,
}

impl Queue {
    fn new(room: usize) -> Self {
        Self { room, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Brings the batches of a step. A thread that begins too late reads nothing: all blocks were taken.
    fn fill(&self, step: &mut dyn BatchStep, rt: &mut Runtime<'_, '_>) -> Result<()> {
        let Some(_running) = self.begin() else { return Ok(()) };
        let (mut batch, mut kept) = (Batch::default(), Kept::default());
        while step.next(&mut batch, &mut kept, rt)? {
            if kept.rows(&batch).len() == 0 {
                continue;
            }
            if !self.push(std::mem::take(&mut batch), std::mem::take(&mut kept)) {
                break;
            }
        }
        Ok(())
    }

    fn begin(&self) -> Option<Running<'_>> {
        let mut state = self.state.lock();
        if state.closed {
            return None;
        }
        state.running += 1;
        Some(Running(self))
    }

    /// Waits for room; false if nobody takes batches any more.
    fn push(&self, batch: Batch, kept: Kept) -> bool {
        let mut state = self.state.lock();
        while state.batches.len() >= self.room && !state.closed {
            self.changed.wait(&mut state);
        }
        if state.closed {
            return false;
        }
        state.batches.push_back((batch, kept, memory::leave()));
        self.changed.notify_all();
        true
    }

    /// A batch, if there is one.
    fn pop(&self) -> Option<(Batch, Kept)> {
        let (batch, kept, left) = self.state.lock().batches.pop_front()?;
        memory::join(left);
        self.changed.notify_all();
        Some((batch, kept))
    }

    /// Waits for a batch; `None`, and it is closed, once nobody brings any.
    fn wait(&self) -> Option<(Batch, Kept)> {
        let mut state = self.state.lock();
        loop {
            if let Some((batch, kept, left)) = state.batches.pop_front() {
                memory::join(left);
                self.changed.notify_all();
                return Some((batch, kept));
            }
            if state.running == 0 || seeded_bug!("threads_unawaited") {
                state.closed = true;
                return None;
            }
            self.changed.wait(&mut state);
        }
    }
}

/// A thread that may bring batches.
struct Running<'q>(&'q Queue);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.state.lock().running -= 1;
        self.0.changed.notify_all();
    }
}

/// Closes a queue when it goes, and takes over what is left in it.
struct Closing<'q>(&'q Queue);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.closed = true;
        state.batches.drain(..).for_each(|(_, _, left)| memory::join(left));
        drop(state);
        self.0.changed.notify_all();
    }
}
