//! Random numbers that a seed determines.

/// `SplitMix64`: tiny and fast, with an independent sequence for every seed.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0xd134_2543_de82_ef95))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `end`, which is not 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        // Multiplies the high half of a random number by `end`: no division, and no visible bias
        // for the small ends used here.
        usize::try_from(((self.next() >> 32) * end as u64) >> 32).expect("smaller than `end`")
    }

    /// Returns true once in `n` times.
    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// Returns a key value; there are few, so that keys collide.
    pub(crate) fn key(&mut self) -> u8 {
        u8::try_from(self.below(3)).expect("below 3")
    }
}
