//! Randomness.

use std::fmt::Debug;

/// Source of random numbers; not for secrets unless it says so.
pub trait Rng: Send + Sync + Debug {
    /// The next 64 random bits.
    fn next_u64(&self) -> u64;
}
