//! Hostile inputs: bytes that decoders must survive, made from valid ones.
//!
//! Each crate that reads bytes from disk or wire lists its decoders in a module `hostile`. The
//! crate's own tests give each decoder some thousand inputs of [`survive`]. The targets under
//! `fuzz/` give the same functions as many inputs as time permits.

use crate::rng::{Rng, SeededRng};

/// One decoder: its name, valid inputs to begin with, and a function that calls it. The function
/// must return for any bytes, and checks the values that the decoder accepted.
pub type Target = (&'static str, fn() -> Vec<Vec<u8>>, fn(&[u8]));

/// Inputs for each decoder. Miri, which takes a thousand times as long, gets a few.
const INPUTS: u64 = if cfg!(miri) { 30 } else { 20_000 };
/// The greatest number of changes to one input.
const CHANGES: u64 = 6;
/// The greatest length of an input, in bytes.
const BYTES_MAX: usize = 20_000;

/// Gives each decoder its valid inputs, and damaged ones, which the decoder's name determines.
///
/// # Panics
/// When a decoder panics; the input is printed then.
pub fn survive(targets: &[Target]) {
    for &(name, seeds, run) in targets {
        let seeds = seeds();
        let seed = name.bytes().fold(7_u64, |seed, byte| seed.wrapping_mul(31) ^ u64::from(byte));
        let rng = SeededRng::new(seed);
        for seed in &seeds {
            guarded(name, seed, run);
        }
        for _ in 0..INPUTS {
            guarded(name, &damaged(&seeds, &rng), run);
        }
    }
}

fn guarded(name: &str, bytes: &[u8], run: fn(&[u8])) {
    struct Shown<'a>(&'a str, &'a [u8]);
    impl Drop for Shown<'_> {
        fn drop(&mut self) {
            if std::thread::panicking() {
                eprintln!("{} did not survive {:02x?}", self.0, self.1);
            }
        }
    }
    let _shown = Shown(name, bytes);
    run(bytes);
}

/// Returns a valid input with a few damages.
fn damaged(seeds: &[Vec<u8>], rng: &SeededRng) -> Vec<u8> {
    let mut bytes = seeds.get(place(rng, seeds.len())).cloned().unwrap_or_default();
    for _ in 0..=rng.below(CHANGES) {
        let at = place(rng, bytes.len());
        match rng.below(8) {
            0 | 1 => change(&mut bytes, at, |byte| byte ^ 1 << rng.below(8)),
            2 => change(&mut bytes, at, |_| rng.next_u64() as u8),
            3 => {
                change(&mut bytes, at, |byte| {
                    byte.wrapping_add(rng.below(5) as u8).wrapping_sub(2)
                });
            }
            // Words of any width and order, at the limits of lengths and counts.
            4 => {
                let extreme = [0, 0xff, 0x7f, 0x80][place(rng, 4)];
                for offset in 0..1 << rng.below(4) {
                    change(&mut bytes, at + offset, |_| extreme);
                }
            }
            5 => bytes.truncate(at),
            6 => {
                let other = &seeds[place(rng, seeds.len())];
                let piece = &other[place(rng, other.len())..];
                bytes.truncate(at);
                bytes.extend_from_slice(piece);
            }
            _ => {
                let count = rng.below(9);
                let new: Vec<u8> = (0..count).map(|_| rng.next_u64() as u8).collect();
                bytes.splice(at..at, new);
            }
        }
    }
    bytes.truncate(BYTES_MAX);
    bytes
}

fn place(rng: &SeededRng, length: usize) -> usize {
    rng.below(length as u64) as usize
}

fn change(bytes: &mut [u8], at: usize, to: impl FnOnce(u8) -> u8) {
    if let Some(byte) = bytes.get_mut(at) {
        *byte = to(*byte);
    }
}

/// Returns the page of `N` bytes that a short input stands for. Two bytes give the length of the
/// page's beginning, which follows; the rest of the input is the page's end. Zeros fill the page in
/// between, so that damage hits bytes that matter.
pub fn sparse<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut page = [0; N];
    let Some((front, rest)) = bytes.split_first_chunk::<2>() else { return page };
    let (front, back) = rest.split_at(usize::from(u16::from_le_bytes(*front)).min(rest.len()));
    let back = &back[back.len().saturating_sub(N)..];
    page[N - back.len()..].copy_from_slice(back);
    let front = &front[..front.len().min(N)];
    page[..front.len()].copy_from_slice(front);
    page
}

/// Returns the input that stands for a page with only zeros between `lower` and `upper`.
pub fn dense(page: &[u8], lower: u16, upper: u16) -> Vec<u8> {
    let (front, back) = (&page[..lower.into()], &page[upper.into()..]);
    [&lower.to_le_bytes(), front, back].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_comes_back() {
        let mut page = [0; 64];
        page[..3].copy_from_slice(b"abc");
        page[62..].copy_from_slice(b"yz");
        assert_eq!(sparse::<64>(&dense(&page, 3, 62)), page);
        assert_eq!(sparse::<4>(&[9, 0, 1, 2]), [1, 2, 0, 0]);
        assert_eq!(sparse::<4>(&[1, 0, 1, 2, 3, 4, 5, 6]), [1, 4, 5, 6]);
    }

    /// The inputs reach a length that a decoder forgets to check.
    #[test]
    #[should_panic(expected = "range end index")]
    fn a_careless_decoder_is_found() {
        fn careless(bytes: &[u8]) {
            if let Some((&length, rest)) = bytes.split_first() {
                let _ = &rest[..length.into()];
            }
        }
        survive(&[("careless", || vec![vec![2, 1, 1]], careless)]);
    }
}
