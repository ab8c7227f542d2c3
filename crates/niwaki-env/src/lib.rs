#![doc = include_str!("../README.md")]

pub mod clock;
pub mod rng;
pub mod sync;
pub mod vfs;

use std::sync::Arc;

/// Everything the engine takes from outside, in one handle that is cheap to clone.
///
/// Production uses [`Env::os`]; tests put a memory or faulty file system, a manual clock and a
/// seeded generator in the same places (design section 2).
#[derive(Clone, Debug)]
pub struct Env {
    /// Files of one data directory.
    pub vfs: Arc<dyn vfs::Vfs>,
    /// Wall and monotonic time.
    pub clock: Arc<dyn clock::Clock>,
    /// Randomness.
    pub rng: Arc<dyn rng::Rng>,
}
