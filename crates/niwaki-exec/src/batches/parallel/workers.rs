//! The threads that help with one step.

use std::sync::Arc;

use niwaki_env::sync::thread;
use niwaki_env::{memory, seeded_bug};
use niwaki_expr::expr::measure::Measures;
use niwaki_expr::expr::{Runtime, State};
use niwaki_expr::sessionless::ForThreads;
use niwaki_expr::store::SharedStore;
use niwaki_parse::error::{Result, SqlError};
use niwaki_types::work::{asked, asking};

use super::Division;
use crate::batches::batch_step::BatchStep;

/// The stack size of a thread in bytes, equal to the stack size of a session's thread.
const STACK_BYTES: usize = 8 << 20;

/// Parallel workers that have not begun to help with a step.
pub(crate) struct Workers {
    shared: Box<dyn SharedStore>,
    pub(crate) division: Arc<Division>,
    /// A copy of the step for each worker.
    steps: Vec<Box<dyn BatchStep>>,
}

impl Workers {
    /// Prepares up to `workers` workers. Returns `None` if no worker is available, or if the step
    /// cannot be divided. The step then returns all rows.
    pub(crate) fn of(
        step: &mut dyn BatchStep,
        workers: usize,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<Option<Self>> {
        let shared = match workers {
            0 => None,
            _ => rt.exec.store.share(workers),
        };
        let Some(shared) = shared else { return Ok(None) };
        let division = Arc::new(Division::new(shared.threads() + 1));
        if !step.divide(&division, rt)? {
            return Ok(None);
        }
        let steps = (0..shared.threads()).map_while(|_| step.for_thread()).collect();
        Ok(Some(Self { shared, division, steps }))
    }

    /// Returns the number of threads, the session's included.
    pub(crate) fn threads(&self) -> usize {
        self.steps.len() + 1
    }

    /// Runs `own` in this thread and `work` in each worker.
    ///
    /// An error or an interrupt in one thread also ends the other threads, at their next check for
    /// interrupts. Returns the results of `own` and of each `work`.
    pub(crate) fn run<O, T: Send>(
        self,
        work: &(impl Fn(&mut dyn BatchStep, &mut Runtime<'_, '_>) -> Result<T> + Sync),
        own: impl FnOnce(&mut Runtime<'_, '_>) -> Result<O>,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<(O, Vec<T>)> {
        let Self { shared, division, steps } = self;
        let (context, params) = (ForThreads::of(rt.exec), rt.params);
        let executor = rt.state.executor;
        let timing = rt.state.measures.as_ref().map(Measures::timing);
        let asker = asked();
        let (own, done) = thread::scope(|scope| {
            let (shared, division) = (&*shared, &*division);
            let mut handles = Vec::with_capacity(steps.len());
            for mut step in steps {
                let asker = asker.clone();
                let body = move || {
                    let _asking = asking(asker);
                    let mut done = None;
                    context.with_context(shared, &mut |exec| {
                        let mut state = State::of_statement(executor, None);
                        state.measures = timing.map(Measures::new);
                        state.halted = Some(division.failed());
                        let mut rt = Runtime { exec, params, state: &mut state };
                        match work(&mut *step, &mut rt) {
                            Ok(result) => done = Some((result, state.measures.take())),
                            Err(_) if seeded_bug!("error_of_a_thread") => division.stop(),
                            Err(error) => division.fail(error),
                        }
                    });
                    // The step goes first: memory that it gave back later would stay on the
                    // session's account.
                    drop(step);
                    (done, memory::leave())
                };
                let start = || thread::spawn_scoped(scope, "query worker", STACK_BYTES, body);
                // If a thread cannot start, the other threads read everything.
                handles.extend(memory::apart(start));
            }
            let before = rt.state.halted.replace(division.failed());
            let own = own(rt).map_err(|error| division.fail(error));
            rt.state.halted = before;
            let mut done = Vec::with_capacity(handles.len());
            for handle in handles {
                let joined = memory::apart(|| handle.join());
                let (result, left) =
                    joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                // The session's account takes over the memory that the worker made for the session.
                memory::join(left);
                done.push(result);
            }
            (own, done)
        });
        if let Some(error) = division.take_error() {
            return Err(error);
        }
        let own = own.map_err(|()| SqlError::internal("a step that failed without an error"))?;
        let mut results = Vec::with_capacity(done.len());
        for (result, measures) in done.into_iter().flatten() {
            results.push(result);
            if let (Some(all), Some(measures)) = (&mut rt.state.measures, &measures) {
                all.add_thread(measures);
            }
        }
        Ok((own, results))
    }
}
