//! The buffer pool: a bounded number of frames that hold pages.
//!
//! The order: the state of reads ahead (`read_state`) and the counters of writes
//! (`write_counters`), the pool that owns them (`pool`), pins and latched pages (`guard`), finding
//! pages (`pinning`), reads ahead of their use (`read_run`, `read_queue`, `read_ring`), writes
//! (`write_out`), the choice of the page to evict (`replace`), and statistics (`stats`).

pub(crate) mod guard;
pub(crate) mod pinning;
pub(crate) mod pool;
pub(crate) mod read_queue;
pub(crate) mod read_ring;
pub(crate) mod read_run;
pub(crate) mod read_state;
pub(crate) mod replace;
pub(crate) mod stats;
pub(crate) mod write_counters;
pub(crate) mod write_out;

pub use guard::{PageRead, PageWrite, Pin};
pub use pool::{BufferPool, Extension};
pub use read_queue::ReadStatistics;
pub use stats::{FileStatistics, PoolStatistics};

pub use crate::frames::optimistic::OptimisticRead;

#[cfg(all(test, not(feature = "loom")))]
mod tests;
