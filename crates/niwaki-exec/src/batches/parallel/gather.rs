//! Passes the batches of all threads to the session's thread.

use std::collections::VecDeque;

use niwaki_env::memory;
use niwaki_env::seeded_bug;
use niwaki_env::sync::{Condvar, Mutex};
use niwaki_expr::expr::{Batch, Runtime};
use niwaki_parse::error::Result;

use super::Workers;
use crate::batches::batch_step::{BatchStep, Selection};

/// The most batches that wait in the queue, for each thread.
const WAITING_MAX: usize = 2;

/// A function that takes batches.
pub(crate) type TakeBatch<'t> =
    &'t mut dyn FnMut(&Batch, &Selection, &mut Runtime<'_, '_>) -> Result<()>;

/// Gives all batches of `step` to `take`. Up to `workers` other threads help to read, if the step
/// can be divided. Returns the number of threads that helped.
pub(crate) fn gather(
    step: &mut dyn BatchStep,
    workers: usize,
    rt: &mut Runtime<'_, '_>,
    take: TakeBatch<'_>,
) -> Result<usize> {
    let mut launched = 0;
    if let Some(team) = Workers::of(step, workers, rt)? {
        let queue = Queue::new(team.threads() * WAITING_MAX);
        let work = |step: &mut dyn BatchStep, rt: &mut Runtime<'_, '_>| queue.fill(step, rt);
        let own = |rt: &mut Runtime<'_, '_>| {
            // On any exit, the closed queue wakes the threads that wait for room.
            let _closing = Closing(&queue);
            let (mut batch, mut selection) = (Batch::default(), Selection::default());
            while step.next(&mut batch, &mut selection, rt)? {
                take(&batch, &selection, rt)?;
                while let Some((batch, selection)) = queue.pop() {
                    take(&batch, &selection, rt)?;
                }
            }
            while let Some((batch, selection)) = queue.wait() {
                take(&batch, &selection, rt)?;
            }
            Ok(())
        };
        launched = team.run(&work, own, rt)?.1.len();
    }
    // Reads all that is left, in this thread alone.
    let (mut batch, mut selection) = (Batch::default(), Selection::default());
    while step.next(&mut batch, &mut selection, rt)? {
        take(&batch, &selection, rt)?;
    }
    Ok(launched)
}

/// The queue of batches between the threads.
struct Queue {
    room: usize,
    state: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    /// The batches. With each batch comes the part of its thread's memory account that passes to
    /// the session.
    batches: VecDeque<(Batch, Selection, isize)>,
    /// The number of threads that may bring more batches.
    running: usize,
    closed: bool,
}

impl Queue {
    fn new(room: usize) -> Self {
        Self { room, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Brings the batches of a step. A thread that begins too late reads nothing, because all
    /// blocks were taken.
    fn fill(&self, step: &mut dyn BatchStep, rt: &mut Runtime<'_, '_>) -> Result<()> {
        let Some(_running) = self.begin() else { return Ok(()) };
        let (mut batch, mut selection) = (Batch::default(), Selection::default());
        while step.next(&mut batch, &mut selection, rt)? {
            if selection.rows(&batch).is_empty() {
                continue;
            }
            if !self.push(std::mem::take(&mut batch), std::mem::take(&mut selection)) {
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

    /// Waits for room, and adds a batch. Returns false if the queue is closed.
    fn push(&self, batch: Batch, selection: Selection) -> bool {
        let mut state = self.state.lock();
        while state.batches.len() >= self.room && !state.closed {
            self.changed.wait(&mut state);
        }
        if state.closed {
            return false;
        }
        state.batches.push_back((batch, selection, memory::leave()));
        self.changed.notify_all();
        true
    }

    /// Takes a batch, if there is one.
    fn pop(&self) -> Option<(Batch, Selection)> {
        let (batch, selection, left) = self.state.lock().batches.pop_front()?;
        memory::join(left);
        self.changed.notify_all();
        Some((batch, selection))
    }

    /// Waits for a batch. Closes the queue and returns `None` once no thread may bring more.
    fn wait(&self) -> Option<(Batch, Selection)> {
        let mut state = self.state.lock();
        loop {
            if let Some((batch, selection, left)) = state.batches.pop_front() {
                memory::join(left);
                self.changed.notify_all();
                return Some((batch, selection));
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

/// A guard that closes a queue on drop, and takes over the memory of the batches left in the queue.
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
