//! Attempts of background tasks, whose failures are counted and reported.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::failures::BackgroundTask;
use super::storage::Storage;

impl Storage {
    /// Registers `tell`, which gets the error when a background task fails, and a notice when the
    /// task works again.
    pub fn when_background_fails(&self, tell: impl Fn(&str) + Send + Sync + 'static) {
        // The first listener stays.
        let _ = self.failures.tell.set(Box::new(tell));
    }

    /// Returns the background tasks that have failed since the database was opened, by name.
    pub fn background_failures(&self) -> Vec<(&'static str, BackgroundTask)> {
        self.failures.tasks.lock().iter().map(|(name, task)| (*name, task.clone())).collect()
    }

    /// Runs one step of a task that is repeated. An error, or a panic outside of critical sections,
    /// is counted and reported, and gives `None`. A panic inside a critical section ends the
    /// process.
    pub fn attempt<T, E: fmt::Display>(
        &self,
        task: &'static str,
        step: impl FnOnce() -> Result<T, E>,
    ) -> Option<T> {
        let failed = match catch_unwind(AssertUnwindSafe(step)) {
            Ok(Ok(done)) => {
                self.failures.succeeded(task);
                return Some(done);
            }
            Ok(Err(error)) => error.to_string(),
            Err(panic) => {
                let text = panic.downcast_ref::<String>().map(String::as_str);
                let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
                format!("panic: {}", text.unwrap_or("without a message"))
            }
        };
        self.failures.failed(task, failed);
        None
    }
}

#[cfg(all(test, not(any(feature = "shuttle", feature = "loom"))))]
mod tests {
    use std::sync::Arc;

    use niwaki_env::Env;

    use super::*;
    use crate::StorageOptions;
    use crate::directory::failures::REPORTED_AGAIN;

    /// Regression test: a checkpoint failed for days without a report, and a panic ended its thread
    /// unnoticed. The log grew until the disk was full.
    #[test]
    fn failures_and_panics_are_counted_and_told_once() {
        let (storage, _) = Storage::open(Env::memory(), StorageOptions::tiny(), vec![]).unwrap();
        let told = Arc::new(std::sync::Mutex::new(Vec::new()));
        let lines = Arc::clone(&told);
        storage.when_background_fails(move |line| lines.lock().unwrap().push(line.to_owned()));
        let fail = || storage.attempt("a checkpoint", || Err::<(), _>("no room"));
        assert_eq!((fail(), fail()), (None, None));
        assert_eq!(storage.attempt("a checkpoint", || Ok::<_, String>(7)), Some(7));
        let panics = || -> Result<(), String> { panic!("on purpose") };
        assert_eq!(storage.attempt("the writer", panics), None);
        let expected = [
            "a checkpoint failed, and is tried again: no room",
            "a checkpoint works again after 2 failures",
            "the writer failed, and is tried again: panic: on purpose",
        ];
        assert_eq!(*told.lock().unwrap(), expected);
        let failures = storage.background_failures();
        assert_eq!(failures.len(), 2);
        assert_eq!((failures[0].1.failures, failures[0].1.is_failing), (2, false));
        assert_eq!((failures[1].1.failures, failures[1].1.is_failing), (1, true));
    }

    /// The thousandth failure since the start was reported, though it was the second of its kind. A
    /// task that worked again was reported with all failures since the start.
    #[test]
    fn each_failure_is_told_again_after_its_own_repetitions() {
        let (storage, _) = Storage::open(Env::memory(), StorageOptions::tiny(), vec![]).unwrap();
        let told = Arc::new(std::sync::Mutex::new(Vec::new()));
        let lines = Arc::clone(&told);
        storage.when_background_fails(move |line| lines.lock().unwrap().push(line.to_owned()));
        let fail = |error: &str, times: u64| {
            for _ in 0..times {
                assert_eq!(storage.attempt("a checkpoint", || Err::<(), _>(error)), None);
            }
            told.lock().unwrap().len()
        };
        assert_eq!(fail("no room", REPORTED_AGAIN - 3), 1);
        assert_eq!(storage.attempt("a checkpoint", || Ok::<_, String>(7)), Some(7));
        assert_eq!(fail("no room", 1), 3, "it begins anew");
        assert_eq!(fail("no folder", 1), 4, "another failure begins");
        assert_eq!(fail("no folder", REPORTED_AGAIN - 1), 4);
        assert_eq!(fail("no folder", 1), 5);
        assert_eq!(fail("no folder", REPORTED_AGAIN), 6);
        assert_eq!(storage.attempt("a checkpoint", || Ok::<_, String>(7)), Some(7));
        let last = told.lock().unwrap().last().cloned();
        let count = 2 * REPORTED_AGAIN + 2;
        assert_eq!(last, Some(format!("a checkpoint works again after {count} failures")));
    }
}
