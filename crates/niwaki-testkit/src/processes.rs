//! A simulated process that may end at any step, whatever its threads hold.
//!
//! ```text
//!   first thread   open, spawn, wait ····················· restart ── power loss
//!   process        worker ──────────────── stands still for ever
//!                  worker ── failed sync: the process ends
//! ```
//!
//! The end is exact: the disk is copied at that step, and no thread of the process takes another
//! one. Nothing is unwound, so no lock is freed and no destructor runs, as after `kill -9`. The
//! schedule's first thread belongs to no process: it starts the next process.

use std::cell::Cell;
use std::sync::{Arc, Mutex, MutexGuard};

use niwaki_env::AbortHook;
use niwaki_env::sync::thread::{self, Thread};
use niwaki_env::vfs::FaultyVfs;
use shuttle::scheduler::{Schedule, Scheduler, Task, TaskId};

/// The number of a schedule's first thread.
const FIRST: usize = 0;

/// State of the running schedule.
#[derive(Clone, Copy)]
enum TwoRowTable {
    /// All threads may take steps.
    Together,
    /// A process has ended, within this thread, which still wakes the first one.
    Ended(TaskId),
    /// The first thread has done its work. The threads of the process will never do theirs.
    Over,
}

// The system's thread, which all simulated threads of a schedule share.
std::thread_local! {
    static STAGE: Cell<TwoRowTable> = const { Cell::new(TwoRowTable::Together) };
}

/// Chooses among the threads that may take a step, as `chooses` does.
pub(crate) struct Mortal<S> {
    chooses: S,
    /// Threads that the schedule had before a process ended.
    threads: usize,
}

impl<S> Mortal<S> {
    /// Makes a scheduler with the same choices, except for threads of a process that ended.
    pub(crate) fn new(chooses: S) -> Self {
        Self { chooses, threads: 0 }
    }
}

impl<S: Scheduler> Scheduler for Mortal<S> {
    fn new_execution(&mut self) -> Option<Schedule> {
        STAGE.set(TwoRowTable::Together);
        self.threads = 0;
        self.chooses.new_execution()
    }

    fn next_task(
        &mut self,
        runnable: &[&Task],
        current: Option<TaskId>,
        is_yielding: bool,
    ) -> Option<TaskId> {
        match STAGE.get() {
            TwoRowTable::Together => {
                let newest = runnable.iter().map(|task| usize::from(task.id())).max();
                self.threads = self.threads.max(newest.map_or(0, |newest| newest + 1));
                self.chooses.next_task(runnable, current, is_yielding)
            }
            TwoRowTable::Ended(within) => {
                let goes_on = |id: TaskId| {
                    let number = usize::from(id);
                    number == FIRST || number >= self.threads || id == within
                };
                let living: Vec<&Task> =
                    runnable.iter().copied().filter(|task| goes_on(task.id())).collect();
                assert!(!living.is_empty(), "the next process waits for one that has ended");
                self.chooses.next_task(&living, current, is_yielding)
            }
            TwoRowTable::Over => None,
        }
    }

    fn next_u64(&mut self) -> u64 {
        self.chooses.next_u64()
    }
}

/// Ends a schedule in which a process has ended. Does not return then, because the threads of the
/// process never end.
pub(crate) fn over() {
    if matches!(STAGE.get(), TwoRowTable::Ended(_)) {
        STAGE.set(TwoRowTable::Over);
        thread::yield_now();
    }
}

/// A process of several threads, as the schedule's first thread sees it. A schedule has one.
pub struct Process {
    shared: Arc<Shared>,
}

struct Shared {
    disk: FaultyVfs,
    first: Thread,
    /// Held between two steps only, so that no stopped thread holds it.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Number of threads that have work.
    working: usize,
    /// The disk at the end of the process, and the reason of the end.
    end: Option<(FaultyVfs, String)>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics with it")
    }

    /// Takes the last step of the process.
    fn end(&self, reason: &str) {
        // No scheduling point lies between the copy and the end.
        let left = self.disk.restarted();
        self.state().end = Some((left, reason.to_owned()));
        STAGE.set(TwoRowTable::Ended(shuttle::current::me()));
        self.first.unpark();
        // Ends with the schedule.
        loop {
            thread::park();
        }
    }
}

impl Process {
    /// Makes a process that works on this disk. Only the schedule's first thread may call this.
    pub fn on(disk: &FaultyVfs) -> Self {
        let state = Mutex::default();
        let shared = Shared { disk: disk.clone(), first: thread::current(), state };
        Self { shared: Arc::new(shared) }
    }

    /// Returns the action of [`niwaki_env::Env::abort`] in this process. Only its threads may call
    /// it.
    pub fn on_abort(&self) -> AbortHook {
        let shared = Arc::clone(&self.shared);
        AbortHook::new(move |reason| shared.end(reason))
    }

    /// Does work on a thread of the process, unless the process ends before.
    pub fn spawn(&self, work: impl FnOnce() + Send + 'static) {
        self.shared.state().working += 1;
        let shared = Arc::clone(&self.shared);
        thread::spawn(move || {
            // The first thread may make this thread after the end. Then the scheduler lets it run.
            if shared.state().end.is_some() {
                return;
            }
            work();
            let working = {
                let mut state = shared.state();
                state.working -= 1;
                state.working
            };
            if working == 0 {
                shared.first.unpark();
            }
        });
    }

    /// Waits until all work is done, or the process has ended. At an end, returns the disk at that
    /// step, and the reason.
    pub fn wait(&self) -> Option<(FaultyVfs, String)> {
        // Ends: each thread ends its work, or waits for one that does, or the process ends.
        loop {
            let (is_done, end) = {
                let state = self.shared.state();
                (state.working == 0, state.end.clone())
            };
            if is_done || end.is_some() {
                return end;
            }
            thread::park();
        }
    }
}
