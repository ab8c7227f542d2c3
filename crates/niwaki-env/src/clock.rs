//! Wall and monotonic time.

use std::fmt::Debug;
use std::time::Duration;

/// Source of time.
pub trait Clock: Send + Sync + Debug {
    /// Microseconds since 1970-01-01 00:00:00 UTC.
    fn now_unix_us(&self) -> i64;
    /// Time since an arbitrary fixed moment; never goes back.
    fn monotonic(&self) -> Duration;
}
