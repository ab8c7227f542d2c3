//! Status pages: old transaction states in two bits each, for pages and checkpoints.
//!
//! ```text
//! page 24 bytes header │ 8168 bytes: transaction 4n in bits 0-1 of byte n, 4n+1 in bits 2-3, …
//! ```

use crate::xact::segment::{ABORTED, ANCIENT, RUNNING, STATE_BYTES};

const UNKNOWN_BITS: u8 = 0;
const COMMITTED_BITS: u8 = 1;
const ABORTED_BITS: u8 = 2;

const _: () = assert!(UNKNOWN_BITS == 0, "a page of zeros knows no transaction");
const _: () = assert!(COMMITTED_BITS != ABORTED_BITS, "two states have the same bits");

/// The states of one segment in two bits each.
#[derive(Clone, Debug)]
pub(crate) struct PackedStates(pub(crate) Box<[u8; STATE_BYTES]>);

impl PackedStates {
    pub(crate) fn new() -> Self {
        Self(Box::new([0; STATE_BYTES]))
    }

    /// Copies the states of a page; `None` when `bytes` are too few.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Some(Self(Box::new(*bytes.first_chunk::<STATE_BYTES>()?)))
    }

    /// Stores the state of the segment's transaction number `at`: running, aborted, or committed
    /// for any other value.
    pub(crate) fn set(&mut self, at: usize, state: u64) {
        let bits = match state {
            RUNNING => UNKNOWN_BITS,
            ABORTED => ABORTED_BITS,
            _ => COMMITTED_BITS,
        };
        let shift = at % 4 * 2;
        let byte = &mut self.0[at / 4];
        *byte = *byte & !(0b11 << shift) | bits << shift;
        debug_assert!(unpack(&self.0[..], at).is_some(), "the bits at {at} have no meaning");
    }
}

/// Returns the state in two bits: running, aborted, or committed long ago; `None` for meaningless
/// bits.
pub(crate) fn unpack(bytes: &[u8], at: usize) -> Option<u64> {
    match bytes.get(at / 4)? >> (at % 4 * 2) & 0b11 {
        UNKNOWN_BITS => Some(RUNNING),
        COMMITTED_BITS => Some(ANCIENT),
        ABORTED_BITS => Some(ABORTED),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_survive_packing() {
        let mut packed = PackedStates::new();
        let states = [RUNNING, ABORTED, ANCIENT, 777, ABORTED, RUNNING, 5];
        for (at, state) in states.into_iter().enumerate() {
            packed.set(at, ABORTED);
            packed.set(at, state);
        }
        let read: Vec<_> = (0..states.len()).map(|at| unpack(&packed.0[..], at)).collect();
        let expected = [RUNNING, ABORTED, ANCIENT, ANCIENT, ABORTED, RUNNING, ANCIENT];
        assert_eq!(read, expected.map(Some));
        assert_eq!(unpack(&packed.0[..], STATE_BYTES * 4), None);
    }
}
