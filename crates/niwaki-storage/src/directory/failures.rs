//! Failures of background threads, counted and reported to a listener.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use niwaki_env::sync::Mutex;

/// Failures after which a lasting failure is reported again; the first failure is always reported.
pub(super) const REPORTED_AGAIN: u64 = 1000;

const _: () = assert!(REPORTED_AGAIN > 1, "each failure would be reported");

/// The failures of one background task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackgroundTask {
    /// Number of failures since the database was opened.
    pub failures: u64,
    /// The error of the last failure.
    pub last_error: String,
    /// The last attempt failed.
    pub is_failing: bool,
    /// Number of failures up to the last success.
    failures_before: u64,
    /// Number of failures up to the last report.
    failures_reported: u64,
}

type Listener = dyn Fn(&str) + Send + Sync;

/// The background tasks that have failed, by name.
#[derive(Default)]
pub(crate) struct Failures {
    pub(super) tasks: Mutex<BTreeMap<&'static str, BackgroundTask>>,
    pub(super) tell: OnceLock<Box<Listener>>,
}

impl Failures {
    pub(super) fn succeeded(&self, name: &'static str) {
        let mut tasks = self.tasks.lock();
        let Some(task) = tasks.get_mut(name).filter(|task| task.is_failing) else { return };
        task.is_failing = false;
        debug_assert!(task.failures > task.failures_before, "{name} fails without a failure");
        let failures = task.failures - task.failures_before;
        task.failures_before = task.failures;
        drop(tasks);
        self.tell(&format!("{name} works again after {failures} failures"));
    }

    pub(super) fn failed(&self, name: &'static str, error: String) {
        let mut tasks = self.tasks.lock();
        let task = tasks.entry(name).or_default();
        task.failures += 1;
        let is_new = !task.is_failing || task.last_error != error;
        let line = format!("{name} failed, and is tried again: {error}");
        task.is_failing = true;
        task.last_error = error;
        debug_assert!(
            task.failures > task.failures_reported,
            "{name}: reported before it happened"
        );
        let is_reported = is_new || task.failures - task.failures_reported >= REPORTED_AGAIN;
        if is_reported {
            task.failures_reported = task.failures;
        }
        drop(tasks);
        if is_reported {
            self.tell(&line);
        }
    }

    fn tell(&self, line: &str) {
        if let Some(tell) = self.tell.get() {
            tell(line);
        }
    }
}
