//! Parallel workers of statements, limited by settings and processors.

use std::sync::Arc;

use niwaki_env::sync::atomic::{AtomicUsize, Ordering};
use niwaki_env::sync::thread;

/// Counts the running parallel workers of a database.
#[derive(Debug)]
pub struct Helpers {
    running: Arc<AtomicUsize>,
    /// Most threads that may run at once: one per processor, without the session's own. More
    /// threads would wait for each other.
    processors: usize,
}

impl Helpers {
    /// Creates the counter, with no running workers.
    pub fn new() -> Self {
        Self { running: Arc::default(), processors: thread::processors() - 1 }
    }

    /// Returns the limit of a session whose setting allows `of_all` workers of all sessions
    /// together.
    #[inline]
    pub fn limited(&self, of_all: usize) -> LimitedHelpers<'_> {
        LimitedHelpers { helpers: self, of_all }
    }
}

impl Default for Helpers {
    fn default() -> Self {
        Self::new()
    }
}

/// A session's share of the parallel workers.
#[derive(Clone, Copy, Debug)]
pub struct LimitedHelpers<'h> {
    helpers: &'h Helpers,
    of_all: usize,
}

impl LimitedHelpers<'_> {
    /// Counts up to `wanted` more workers; `None` if no worker is free now.
    pub fn take(&self, wanted: usize) -> Option<HelperPermit> {
        let Helpers { running, processors } = self.helpers;
        // Relaxed: the counter orders nothing else.
        let mut now = running.load(Ordering::Relaxed);
        loop {
            let threads = wanted.min(*processors).min(self.of_all.saturating_sub(now));
            if threads == 0 {
                return None;
            }
            let (relaxed, after) = (Ordering::Relaxed, now + threads);
            match running.compare_exchange_weak(now, after, relaxed, relaxed) {
                Ok(_) => return Some(HelperPermit { running: Arc::clone(running), threads }),
                Err(changed) => now = changed,
            }
        }
    }
}

/// Permission to run this number of threads, until it is dropped.
#[derive(Debug)]
pub struct HelperPermit {
    running: Arc<AtomicUsize>,
    threads: usize,
}

impl HelperPermit {
    /// Returns the number of permitted threads.
    pub fn threads(&self) -> usize {
        self.threads
    }
}

impl Drop for HelperPermit {
    fn drop(&mut self) {
        self.running.fetch_sub(self.threads, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permits_keep_within_both_limits() {
        let helpers = Helpers { running: Arc::default(), processors: 3 };
        let session = helpers.limited(4);
        let first = session.take(9).expect("three are free");
        assert_eq!(first.threads(), 3, "no more than processors");
        let second = session.take(9).expect("one is free");
        assert_eq!(second.threads(), 1, "no more than the setting says, of all");
        assert!(session.take(1).is_none());
        drop(first);
        assert_eq!(session.take(2).map(|permit| permit.threads()), Some(2));
        assert!(helpers.limited(1).take(1).is_none(), "one is still running");
        drop(second);
        assert!(helpers.limited(1).take(1).is_some());
    }
}
