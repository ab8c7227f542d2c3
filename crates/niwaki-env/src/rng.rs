//! Randomness.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};

/// Source of random numbers; not for secrets unless the implementation says so.
pub trait Rng: Send + Sync + Debug {
    /// Returns the next 64 random bits.
    fn next_u64(&self) -> u64;
}

/// The kernel's generator: good for secrets, one system call a number. Code that needs many numbers
/// seeds a [`SeededRng`] from it.
#[derive(Clone, Copy, Debug, Default)]
pub struct OsRng;

impl Rng for OsRng {
    fn next_u64(&self) -> u64 {
        let mut bytes = [0; 8];
        let mut done = 0;
        while done < bytes.len() {
            // Linux returns up to 256 bytes whole once seeded; the loop is for the time before.
            match rustix::rand::getrandom(&mut bytes[done..], rustix::rand::GetRandomFlags::empty())
            {
                Ok(count) => done += count,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => panic!("getrandom: {error}"),
            }
        }
        u64::from_le_bytes(bytes)
    }
}

/// Numbers that a seed determines (SplitMix64). Never for secrets.
#[derive(Debug)]
pub struct SeededRng {
    state: AtomicU64,
}

impl SeededRng {
    /// Creates the generator of this seed's sequence.
    pub fn new(seed: u64) -> Self {
        Self { state: AtomicU64::new(seed) }
    }

    /// Returns a number in `0..bound`; 0 when `bound` is 0. The bias is below `bound / 2^64`.
    pub fn below(&self, bound: u64) -> u64 {
        let wide = u128::from(self.next_u64()) * u128::from(bound);
        u64::try_from(wide >> 64).unwrap_or(0)
    }

    /// Returns true with probability `numerator / denominator`.
    pub fn chance(&self, numerator: u64, denominator: u64) -> bool {
        self.below(denominator) < numerator
    }
}

impl Rng for SeededRng {
    fn next_u64(&self) -> u64 {
        const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;
        // Relaxed: each caller gets its own state value, and nothing else is ordered by it.
        let mut z = self.state.fetch_add(GAMMA, Ordering::Relaxed).wrapping_add(GAMMA);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splitmix_gives_its_published_sequence() {
        let rng = SeededRng::new(1234567);
        let expected = [6457827717110365317, 3203168211198807973, 9817491932198370423];
        assert_eq!(expected, [rng.next_u64(), rng.next_u64(), rng.next_u64()]);
    }

    #[test]
    fn below_stays_below() {
        let rng = SeededRng::new(1);
        let mut seen = [0; 7];
        for _ in 0..7000 {
            seen[usize::try_from(rng.below(7)).unwrap()] += 1;
        }
        assert!(seen.iter().all(|count| (800..1200).contains(count)), "{seen:?}");
        assert_eq!(rng.below(0), 0);
    }

    #[test]
    fn the_kernel_does_not_repeat_itself() {
        assert_ne!(OsRng.next_u64(), OsRng.next_u64());
    }
}
