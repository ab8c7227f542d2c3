//! Numbers in few bits: exponential Golomb codes.
//!
//! Distances between removed entries are mostly small, but not always. The code of the number n is
//! n + 4 in binary, behind one zero for each bit that n + 4 has beyond three:
//!
//! ```text
//! n            0      3      4        11        12          27
//! bits         100    111    01000    01111    0010000    0011111
//! ```
//!
//! Each byte is filled from its highest bit on. Source: Teuhola, "A compression method for
//! clustered bit-vectors", 1978 (order 2).

/// Bits of the shortest code.
const SHORTEST: u32 = 3;
/// The number added to each number before coding: the lowest number of `SHORTEST` bits.
const BIAS: u32 = 1 << (SHORTEST - 1);

/// Writes numbers one after the other.
#[derive(Debug, Default)]
pub(crate) struct NumberWriter {
    bytes: Vec<u8>,
    /// Bits that do not fill a byte yet, from the highest one on, and the number of these bits.
    begun: u64,
    count: u32,
}

/// The most bits of one code: the highest number has a bit more than 16 once it is biased.
const LONGEST: u32 = 2 * (u16::BITS + 1) - SHORTEST;
// A begun byte and the longest code fit the word in which codes are put together.
const _: () = assert!(u8::BITS - 1 + LONGEST <= u64::BITS);

impl NumberWriter {
    /// Asserts what holds between two numbers.
    fn assert_state(&self) {
        debug_assert!(self.count < u8::BITS, "whole bytes are written at once");
        debug_assert_eq!(self.begun << self.count, 0, "no bit is set behind the begun bits");
    }

    #[inline]
    pub(crate) fn push(&mut self, number: u16) {
        self.assert_state();
        let biased = u64::from(number) + u64::from(BIAS);
        let length = u64::BITS - biased.leading_zeros();
        debug_assert!(length >= SHORTEST, "the bias gives each number the bits of the shortest");
        // The zeros in front need no write: the biased number has them anyway.
        self.count += length + (length - SHORTEST);
        self.begun |= biased << (u64::BITS - self.count);
        debug_assert!(self.count < u8::BITS + LONGEST, "no code is longer than the longest");
        let whole = self.count / u8::BITS;
        self.bytes.extend_from_slice(&self.begun.to_be_bytes()[..whole as usize]);
        self.begun <<= whole * u8::BITS;
        self.count %= u8::BITS;
        self.assert_state();
    }

    /// Returns the written bytes; zeros fill up the last byte.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        if self.count > 0 {
            self.bytes.push(self.begun.to_be_bytes()[0]);
        }
        self.bytes
    }
}

/// Reads what a [`NumberWriter`] wrote.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NumberReader<'a> {
    bytes: &'a [u8],
    /// The number of bits already read.
    at: usize,
}

impl<'a> NumberReader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    fn bit(&mut self) -> Option<u32> {
        let byte = self.bytes.get(self.at / 8)?;
        let bit = byte >> (7 - self.at % 8) & 1;
        self.at += 1;
        debug_assert!(self.at <= self.bytes.len() * 8, "no bit is read behind the last byte");
        Some(bit.into())
    }

    /// Reads the next number; `None` if the bytes end, or the code is no number of 16 bits.
    pub(crate) fn take(&mut self) -> Option<u16> {
        let mut zeros = 0;
        while self.bit()? == 0 {
            zeros += 1;
        }
        if zeros + SHORTEST > u16::BITS + 1 {
            return None;
        }
        let mut biased = 1;
        for _ in 1..zeros + SHORTEST {
            biased = biased << 1 | self.bit()?;
        }
        debug_assert!(biased >= BIAS, "a code has the bits of the shortest, the first is set");
        u16::try_from(biased - BIAS).ok()
    }

    /// Decides whether nothing is left but the zeros that fill up the last byte.
    pub(crate) fn is_at_end(mut self) -> bool {
        let left = self.bytes.len() * 8 - self.at;
        left < 8 && (0..left).all(|_| self.bit() == Some(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(numbers: &[u16]) -> Vec<u8> {
        let mut writer = NumberWriter::default();
        numbers.iter().for_each(|&number| writer.push(number));
        writer.finish()
    }

    #[test]
    fn every_number_comes_back() {
        for number in 0..=u16::MAX {
            let bytes = written(&[number, 0, number]);
            let mut reader = NumberReader::new(&bytes);
            assert_eq!([0; 3].map(|_| reader.take()), [Some(number), Some(0), Some(number)]);
            assert!(reader.is_at_end(), "{number}");
        }
    }

    #[test]
    fn the_codes_are_as_documented() {
        assert_eq!(written(&[0, 3, 4]), [0b1001_1101, 0b0000_0000]);
        assert_eq!(written(&[27, 11]), [0b0011_1110, 0b1111_0000]);
        assert_eq!(written(&[12]), [0b0010_0000]);
        let bits = |number: u16| 2 * (32 - (u32::from(number) + 4).leading_zeros()) - 3;
        assert_eq!([0, 3, 4, 11, 12, 27, 28, 59, 60].map(bits), [3, 3, 5, 5, 7, 7, 9, 9, 11]);
    }

    #[test]
    #[should_panic(expected = "no bit is set behind the begun bits")]
    #[cfg(debug_assertions)]
    fn a_writer_with_bits_behind_the_begun_ones_is_noticed() {
        NumberWriter { bytes: Vec::new(), begun: 1, count: 3 }.push(0);
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for bytes in [&[][..], &[0], &[0; 9], &[0x10], &[0, 0, 0xFF, 0xFF, 0xFF]] {
            assert_eq!(NumberReader::new(bytes).take(), None, "{bytes:?}");
        }
        assert!(!NumberReader::new(&[0]).is_at_end(), "a byte that nothing needs");
        let mut reader = NumberReader::new(&[0b1000_0001]);
        assert_eq!(reader.take(), Some(0));
        assert!(!reader.is_at_end(), "a one behind the last number");
    }
}
