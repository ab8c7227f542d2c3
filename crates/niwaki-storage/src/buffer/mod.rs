//! The buffer pool: a bounded number of frames that hold pages.

mod arena;
mod frame;
mod frequency;
mod guard;
mod optimistic;
mod pool;
mod read_queue;
mod read_ring;
mod read_run;
mod replace;
mod stats;
mod table;
mod write_out;

pub(crate) use guard::LogTarget;
pub use guard::{PageRead, PageWrite, Pin};
pub use optimistic::Glance;
pub use pool::{BufferPool, Extension};
pub use read_queue::ReadStatistics;
pub(crate) use read_run::{RUN_MAX, ReadRun};
pub use stats::{FileStatistics, PoolStatistics};
pub(crate) use write_out::CleanAhead;

#[cfg(all(test, not(feature = "loom")))]
mod tests;
