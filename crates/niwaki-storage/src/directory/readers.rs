//! The threads that read ahead for streams.

use std::fmt;
use std::sync::Arc;

use niwaki_env::sync::thread;
use niwaki_env::sync::thread::JoinHandle;

use super::storage::Storage;
use crate::error::{Error, Result};

/// Running readers; they end with this handle, once no run waits for them.
pub struct Readers {
    storage: Arc<Storage>,
    threads: Vec<JoinHandle<()>>,
}

impl fmt::Debug for Readers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Readers").field("threads", &self.threads.len()).finish_non_exhaustive()
    }
}

impl Storage {
    /// Starts `count` threads that read ahead for streams. Without them a stream reads neighbouring
    /// pages at once, when the first is needed.
    ///
    /// # Errors
    /// [`Error::Io`] when the system has no thread to give.
    pub fn start_readers(self: &Arc<Self>, count: usize) -> Result<Readers> {
        let mut readers = Readers { storage: Arc::clone(self), threads: Vec::new() };
        for number in 0..count {
            let storage = Arc::clone(self);
            // Before the thread runs: from now on a submitted run has a thread to read it.
            self.pool.enlist_reader();
            let started = thread::spawn_named(&format!("niwaki-io-{number}"), move || {
                storage.pool.read_for_others();
            });
            match started {
                Ok(thread) => readers.threads.push(thread),
                Err(error) => {
                    self.pool.discharge_reader();
                    return Err(Error::io("could not start a thread that reads ahead", error));
                }
            }
        }
        Ok(readers)
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.storage.pool.reads.stop();
        for thread in self.threads.drain(..) {
            // A panic of the thread was reported when it happened.
            let _ = thread.join();
        }
    }
}
