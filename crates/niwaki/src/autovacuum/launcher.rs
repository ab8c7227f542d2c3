//! The launcher's thread, and the workers that it starts.

use std::fmt;
use std::sync::Arc;

use niwaki_env::hash::HashMap;
use niwaki_env::sync::thread::{self, JoinHandle};
use niwaki_env::sync::{Mutex, Signal};
use niwaki_txn::SessionControl;

use super::rounds::Autovacuum;
use super::work::{AutovacuumReport, Worker};
use crate::activity::BackendType;
use crate::{Result, SqlError};

impl Autovacuum {
    /// One round of the launcher, and all the work that it found, by this thread.
    ///
    /// # Errors
    /// Too many sessions (53300); what a table met with is in its report.
    pub(crate) fn round(&self) -> Result<Vec<AutovacuumReport>> {
        let worker = Worker::new(self)?;
        self.look_around();
        let mut reports = Vec::new();
        worker.run(&mut |report| reports.push(report));
        Ok(reports)
    }
}

/// The running launcher; it ends with this handle, and with it the workers.
pub(crate) struct LauncherThread {
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
    /// Starts it.
    ///
    /// # Errors
    /// The system has no thread to give (53000); too many sessions (53300).
    pub(crate) fn start(autovacuum: &Arc<Autovacuum>) -> Result<Self> {
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
            // It says nothing when it ends.
            let _ = thread.join();
        }
    }
}

struct Launcher {
    autovacuum: Arc<Autovacuum>,
    workers: HashMap<u64, JoinHandle<()>>,
    next: u64,
    /// Workers that have nothing more to do.
    ended: Arc<Mutex<Vec<u64>>>,
}

impl Launcher {
    fn run(&mut self, told: &Signal, session: &Arc<SessionControl>) {
        let activities = Arc::clone(&self.autovacuum.activities);
        let storage = Arc::clone(self.autovacuum.engine.storage());
        let activity = activities.add(session.backend(), BackendType::AutovacuumLauncher);
        // Ends when the handle says stop.
        while !told.wait(self.autovacuum.settings.naptime) {
            storage.attempt("autovacuum's launcher", || {
                let wanted = self.autovacuum.look_around();
                self.start_workers(wanted);
                Ok::<_, SqlError>(())
            });
        }
        for (_, worker) in self.workers.drain() {
            // A panic there was reported when it happened.
            let _ = worker.join();
        }
        activities.remove(session.backend(), &activity);
    }

    /// One for each table that waits, as far as they go.
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
                    // Without a session to be had, the next round tries again.
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

/// Says so when a worker ends, however it does.
struct Ended {
    number: u64,
    ended: Arc<Mutex<Vec<u64>>>,
}

impl Drop for Ended {
    fn drop(&mut self) {
        self.ended.lock().push(self.number);
    }
}
