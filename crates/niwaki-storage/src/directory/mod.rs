//! An open data directory: the handle that joins files, log and pool, and the work on all of them.
//!
//! The order: failures of background tasks (`failures`), counters of checkpoints (`counters`), the
//! handle (`storage`), the directory's lock (`lock`), copies of files (`copy`), checkpoints
//! (`checkpoint`), and the threads with their tasks (`attempt`, `io_workers`, `background`).

pub(crate) mod attempt;
pub(crate) mod background;
pub(crate) mod checkpoint;
pub(crate) mod copy;
pub(crate) mod counters;
pub(crate) mod failures;
pub(crate) mod io_workers;
pub(crate) mod lock;
pub(crate) mod storage;
