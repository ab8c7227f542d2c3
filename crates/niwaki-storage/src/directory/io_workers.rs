//! The threads that read ahead for streams.

use std::fmt;
use std::sync::Arc;

use niwaki_env::sync::thread;
use niwaki_env::sync::thread::JoinHandle;

use super::storage::Storage;
use crate::error::{Error, Result};

/// Running I/O workers; they end with this handle, once no run waits for them.
pub struct IoWorkers {
    storage: Arc<Storage>,
    threads: Vec<JoinHandle<()>>,
}

impl fmt::Debug for IoWorkers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IoWorkers").field("threads", &self.threads.len()).finish_non_exhaustive()
    }
}

impl Storage {
    /// Starts `count` threads that read ahead for streams. Without them a stream reads neighbouring
    /// pages at once, when the first is needed.
    ///
    /// # Errors
    /// [`Error::Io`] when the system has no thread to give.
    pub fn start_io_workers(self: &Arc<Self>, count: usize) -> Result<IoWorkers> {
        let mut io_workers = IoWorkers { storage: Arc::clone(self), threads: Vec::new() };
        for number in 0..count {
            let storage = Arc::clone(self);
            // Before the thread runs: from now on a submitted run has a thread to read it.
            self.pool.register_io_worker();
            let started = thread::spawn_named(&format!("niwaki-io-{number}"), move || {
                storage.pool.run_io_worker();
            });
            match started {
                Ok(thread) => io_workers.threads.push(thread),
                Err(error) => {
                    self.pool.unregister_io_worker();
                    return Err(Error::io("could not start a thread that reads ahead", error));
                }
            }
        }
        Ok(io_workers)
    }
}

impl Drop for IoWorkers {
    fn drop(&mut self) {
        self.storage.pool.reads.stop();
        for thread in self.threads.drain(..) {
            // A panic of the thread was reported when it happened.
            let _ = thread.join();
        }
    }
}
