//! Robustness targets for the decoders of this crate.
//!
//! [`niwaki_env::hostile`] and the targets under `fuzz/` feed arbitrary bytes to [`TARGETS`]. A
//! decoder accepts or refuses them, and never panics.

use niwaki_env::hostile::Target;
use niwaki_storage::{RelFile, RelFileId, Xid};

use crate::xact::record::{DecodedEnd, DecodedStates, EndRecord, StatesRecord};
use crate::xact::status_page::{PackedStates, unpack};

/// One entry for each decoder: its name, valid inputs to begin with, and the function that calls
/// it.
pub const TARGETS: &[Target] =
    &[("xact_status", status_seeds, status), ("xact_record", record_seeds, record)];

fn status_seeds() -> Vec<Vec<u8>> {
    let mut packed = PackedStates::new();
    for at in 0..40 {
        packed.set(at, at as u64 % 4);
    }
    vec![packed.0.to_vec(), packed.0[..16].to_vec()]
}

fn status(bytes: &[u8]) {
    let states = (0..bytes.len().min(64) * 4 + 4).map(|at| unpack(bytes, at));
    let known = states.flatten().count();
    assert!(known <= bytes.len() * 4);
    if let Some(packed) = PackedStates::from_bytes(bytes) {
        assert_eq!(unpack(&packed.0[..], 0), unpack(bytes, 0));
    }
}

fn record_seeds() -> Vec<Vec<u8>> {
    let files = [RelFile { id: RelFileId(7), logged: true }];
    let end = EndRecord { time_us: 5, subxids: &[Xid(11), Xid(12)], files: &files }.encode();
    let segments = [(7, PackedStates::new())];
    let states = StatesRecord { next_xid: Xid(300_000), segments: &segments }.encode();
    vec![end, states]
}

/// Checks that an accepted record takes no more memory than its bytes, and that encoding it again
/// gives the same record.
fn record(bytes: &[u8]) {
    if let Some(end) = DecodedEnd::decode(bytes) {
        assert!(end.subxids.len() * 8 + end.files.len() * 9 <= bytes.len());
        let again = EndRecord { time_us: end.time_us, subxids: &end.subxids, files: &end.files };
        assert_eq!(DecodedEnd::decode(&again.encode()), Some(end));
    }
    if let Some(states) = DecodedStates::decode(bytes) {
        let total: usize = states.segments.iter().map(|(_, states)| 8 + states.len()).sum();
        assert_eq!(total + 12, bytes.len());
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn any_bytes_are_survived() {
        niwaki_env::hostile::survive(super::TARGETS);
    }
}
