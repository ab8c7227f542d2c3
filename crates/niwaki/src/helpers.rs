//! Threads that help statements to read, as many as settings and processors allow.

use std::sync::Arc;

use niwaki_env::sync::atomic::{AtomicUsize, Ordering};
use niwaki_env::sync::thread;

/// Counts those of a database.
#[derive(Debug)]
pub(crate) struct Helpers {
    running: Arc<AtomicUsize>,
    /// More than there are processors besides the session's own would wait for each other.
    processors: usize,
}

impl Helpers {
    /// None is running.
    pub(crate) fn new() -> Self {
        Self { running: Arc::default(), processors: thread::processors() - 1 }
    }

    /// For a session that may have as many as `of_all` leaves, with those of all others.
    pub(crate) fn limited(&self, of_all: usize) -> LimitedHelpers<'_> {
        LimitedHelpers { helpers: self, of_all }
    }
}

/// What a session may have of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LimitedHelpers<'h> {
    helpers: &'h Helpers,
    of_all: usize,
}

impl LimitedHelpers<'_> {
    /// Counts up to `wanted` more; `None` if there can be none now.
    pub(crate) fn take(&self, wanted: usize) -> Option<HelperPermit> {
        let Helpers { running, processors } = self.helpers;
        // Relaxed: it counts, and orders nothing.
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

/// So many threads may run as long as it lives.
#[derive(Debug)]
pub(crate) struct HelperPermit {
    running: Arc<AtomicUsize>,
    threads: usize,
}

impl HelperPermit {
    pub(crate) fn threads(&self) -> usize {
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
