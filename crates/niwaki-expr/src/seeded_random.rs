//! Random numbers that a seed determines.

/// A generator that a seed determines.
#[derive(Clone, Copy, Debug)]
pub struct SeededRandom {
    state: [u64; 2],
}

impl SeededRandom {
    /// Creates the sequence that a seed determines.
    pub fn new(mut seed: u64) -> Self {
        let mut next = || {
            seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut value = seed;
            value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            value ^ (value >> 31)
        };
        Self { state: [next(), next()] }
    }

    /// Returns the next number.
    pub fn next_number(&mut self) -> u64 {
        let [first, second] = self.state;
        let mixed = second ^ first;
        self.state = [first.rotate_left(24) ^ mixed ^ (mixed << 16), mixed.rotate_left(37)];
        first.wrapping_mul(5).rotate_left(7).wrapping_mul(9)
    }
}
