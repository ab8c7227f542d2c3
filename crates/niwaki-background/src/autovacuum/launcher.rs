//! The launcher's thread with the worker threads that it starts.

use std::fmt;
use std::sync::Arc;

use niwaki_env::hash::HashMap;
use niwaki_env::sync::thread::{self, JoinHandle};
use niwaki_env::sync::{Mutex, Signal};
use niwaki_sql::{Result, SqlError};
use niwaki_system::monitor::activity::BackendType;
use niwaki_txn::SessionControl;

use crate::autovacuum::rounds::Autovacuum;
use crate::autovacuum::work::{AutovacuumReport, Worker};

impl Autovacuum {
    /// Runs one round of the launcher, and all the work of the round, in this thread.
    ///
    /// # Errors
    /// Too many sessions (53300). An error of one table is in the table's report.
    pub fn round(&self) -> Result<Vec<AutovacuumReport>> {
        let worker = Worker::new(self)?;
        self.look_around();
        let mut reports = Vec::new();
        worker.run(&mut |report| reports.push(report));
        Ok(reports)
    }
}

/// Handle of the running launcher. Dropping the handle ends the launcher and its workers.
pub struct LauncherThread {
    autovacuum: Arc<Autovacuum>,
    signal: Arc<Signal>,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for LauncherThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LauncherThread").finish_non_exhaustive()
    }
}

impl LauncherThread {
    /// Starts the launcher's thread.
    ///
    /// # Errors
    /// The system has no thread to give (53000); too many sessions (53300).
    pub fn start(autovacuum: &Arc<Autovacuum>) -> Result<Self> {
        let session = autovacuum.engine.transactions().register_session()?;
        let signal = Arc::<Signal>::default();
        let mut launcher = Launcher {
            autovacuum: Arc::clone(autovacuum),
            workers: HashMap::default(),
            next: 0,
            ended: Arc::default(),
        };
        let told = Arc::clone(&signal);
        let body = move || launcher.run(&told, &session);
        let thread = thread::spawn_named("niwaki-autovac", body).map_err(|error| {
            SqlError::new("53000", format!("could not start a background thread: {error}"))
        })?;
        let autovacuum = Arc::clone(autovacuum);
        Ok(Self { autovacuum, signal, thread: Some(thread) })
    }
}

impl Drop for LauncherThread {
    fn drop(&mut self) {
        self.signal.set_stop(true);
        self.autovacuum.stop();
        if let Some(thread) = self.thread.take() {
            // The thread returns no result.
            let _ = thread.join();
        }
    }
}

struct Launcher {
    autovacuum: Arc<Autovacuum>,
    workers: HashMap<u64, JoinHandle<()>>,
    next: u64,
    /// Numbers of the workers that have ended.
    ended: Arc<Mutex<Vec<u64>>>,
}

impl Launcher {
    fn run(&mut self, told: &Signal, session: &Arc<SessionControl>) {
        let activities = Arc::clone(&self.autovacuum.activities);
        let storage = Arc::clone(self.autovacuum.engine.storage());
        let activity = activities.add(session.backend(), BackendType::AutovacuumLauncher);
        // Ends: `wait` returns true when the handle is dropped.
        while !told.wait(self.autovacuum.settings.naptime) {
            storage.attempt("autovacuum's launcher", || {
                let wanted = self.autovacuum.look_around();
                self.start_workers(wanted);
                Ok::<_, SqlError>(())
            });
        }
        for (_, worker) in self.workers.drain() {
            // A panic of the worker was reported when it happened.
            let _ = worker.join();
        }
        activities.remove(session.backend(), &activity);
    }

    /// Starts one worker for each waiting table, up to `autovacuum_max_workers` workers in all.
    fn start_workers(&mut self, wanted: usize) {
        for ended in std::mem::take(&mut *self.ended.lock()) {
            if let Some(worker) = self.workers.remove(&ended) {
                let _ = worker.join();
            }
        }
        let most = self.autovacuum.settings.workers_max;
        for _ in 0..wanted.min(most.saturating_sub(self.workers.len())) {
            let number = self.next;
            self.next += 1;
            let autovacuum = Arc::clone(&self.autovacuum);
            let end = Ended { number, ended: Arc::clone(&self.ended) };
            let body = move || {
                let _end = end;
                autovacuum.engine.storage().attempt("a worker of autovacuum", || {
                    // If no session is free, the next round tries again.
                    if let Ok(worker) = Worker::new(&autovacuum) {
                        worker.run(&mut |_| {});
                    }
                    Ok::<_, SqlError>(())
                });
            };
            match thread::spawn_named("niwaki-avworker", body) {
                Ok(worker) => self.workers.insert(number, worker),
                // The next round tries again.
                Err(_) => return,
            };
        }
    }
}

/// Reports the end of a worker, also after a panic.
struct Ended {
    number: u64,
    ended: Arc<Mutex<Vec<u64>>>,
}

impl Drop for Ended {
    fn drop(&mut self) {
        self.ended.lock().push(self.number);
    }
}
