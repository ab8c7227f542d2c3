//! Log records of the transaction manager: layout and decoding.
//!
//! ```text
//! COMMIT, ABORT   time i64 (µs since 1970)   subxid count u32   file count u32
//!                 subxids u64 …              files: id u64, logged u8 …
//! STATES          next xid u64   count u32   segments: number u64, states 8168 bytes …
//! SEGMENT         number u64: its transaction ids may be given out from here on
//! SHRUNK          number u64; page 0 is the image of the segment's status page
//! ```

use crate::xact::segment::STATE_BYTES;
use crate::xact::status_page::PackedStates;
use niwaki_storage::{RelFile, RelFileId, Xid};

/// Record kind: a transaction committed.
pub(crate) const RECORD_COMMIT: u8 = 1;
/// Record kind: a transaction or subtransaction was rolled back.
pub(crate) const RECORD_ABORT: u8 = 2;

/// Record kind: the states that a checkpoint logs.
pub(crate) const RECORD_STATES: u8 = 3;
/// Record kind: a new segment of transaction ids.
pub(crate) const RECORD_SEGMENT: u8 = 4;
/// Record kind: the states of a segment moved to their status page.
pub(crate) const RECORD_SHRUNK: u8 = 5;

const FIXED_BYTES: usize = 16;
const XID_BYTES: usize = 8;
const FILE_BYTES: usize = 9;

const _: () = assert!(FIXED_BYTES == size_of::<i64>() + 2 * size_of::<u32>());
const _: () = assert!(XID_BYTES == size_of::<Xid>());
const _: () = assert!(FILE_BYTES == size_of::<RelFileId>() + size_of::<u8>());

/// Body of a commit or abort record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndRecord<'a> {
    /// Time of the commit or abort, in microseconds since 1970 UTC.
    pub(crate) time_us: i64,
    /// Subtransactions that end together with the transaction, in the same way.
    pub(crate) subxids: &'a [Xid],
    /// Files to remove.
    pub(crate) files: &'a [RelFile],
}

impl EndRecord<'_> {
    /// Encodes the usual record, without subtransactions and files, and without an allocation.
    pub(crate) fn encode_plain(&self) -> Option<[u8; FIXED_BYTES]> {
        let mut bytes = [0; FIXED_BYTES];
        bytes[..8].copy_from_slice(&self.time_us.to_le_bytes());
        (self.subxids.is_empty() && self.files.is_empty()).then_some(bytes)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let length = FIXED_BYTES + self.subxids.len() * XID_BYTES + self.files.len() * FILE_BYTES;
        let mut bytes = Vec::with_capacity(length);
        bytes.extend_from_slice(&self.time_us.to_le_bytes());
        bytes.extend_from_slice(&count(self.subxids.len()));
        bytes.extend_from_slice(&count(self.files.len()));
        for xid in self.subxids {
            bytes.extend_from_slice(&xid.0.to_le_bytes());
        }
        for file in self.files {
            bytes.extend_from_slice(&file.id.0.to_le_bytes());
            bytes.push(u8::from(file.logged));
        }
        debug_assert_eq!(bytes.len(), length, "the record has another length than announced");
        bytes
    }
}

fn count(length: usize) -> [u8; 4] {
    u32::try_from(length).expect("fewer than 2^32 subtransactions and files").to_le_bytes()
}

/// A decoded [`EndRecord`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DecodedEnd {
    pub(crate) time_us: i64,
    pub(crate) subxids: Vec<Xid>,
    pub(crate) files: Vec<RelFile>,
}

impl DecodedEnd {
    /// Decodes a body; `None` when the bytes are not a record's body.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (time, rest) = bytes.split_first_chunk::<8>()?;
        let (subxid_count, rest) = rest.split_first_chunk::<4>()?;
        let (file_count, rest) = rest.split_first_chunk::<4>()?;
        let subxid_bytes =
            usize::try_from(u32::from_le_bytes(*subxid_count)).ok()?.checked_mul(XID_BYTES)?;
        let file_bytes =
            usize::try_from(u32::from_le_bytes(*file_count)).ok()?.checked_mul(FILE_BYTES)?;
        let (subxids, files) = rest.split_at_checked(subxid_bytes)?;
        if files.len() != file_bytes {
            return None;
        }
        let subxids = subxids.as_chunks::<XID_BYTES>().0.iter();
        let files = files.as_chunks::<FILE_BYTES>().0.iter();
        Some(Self {
            time_us: i64::from_le_bytes(*time),
            subxids: subxids.map(|bytes| Xid(u64::from_le_bytes(*bytes))).collect(),
            files: files
                .map(|&[a, b, c, d, e, f, g, h, logged]| RelFile {
                    id: RelFileId(u64::from_le_bytes([a, b, c, d, e, f, g, h])),
                    logged: logged != 0,
                })
                .collect(),
        })
    }
}

/// Body of a record with the states that a checkpoint logs.
#[derive(Clone, Copy)]
pub(crate) struct StatesRecord<'a> {
    pub(crate) next_xid: Xid,
    pub(crate) segments: &'a [(u64, PackedStates)],
}

impl StatesRecord<'_> {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let length = 12 + self.segments.len() * (8 + STATE_BYTES);
        let mut bytes = Vec::with_capacity(length);
        bytes.extend_from_slice(&self.next_xid.0.to_le_bytes());
        bytes.extend_from_slice(&count(self.segments.len()));
        for (segment, states) in self.segments {
            bytes.extend_from_slice(&segment.to_le_bytes());
            bytes.extend_from_slice(&states.0[..]);
        }
        debug_assert_eq!(bytes.len(), length, "the record has another length than announced");
        bytes
    }
}

/// A decoded [`StatesRecord`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DecodedStates<'a> {
    pub(crate) next_xid: Xid,
    /// Segment numbers, each with [`STATE_BYTES`] bytes of states.
    pub(crate) segments: Vec<(u64, &'a [u8])>,
}

impl<'a> DecodedStates<'a> {
    /// Decodes a body; `None` when the bytes are not a record's body.
    pub(crate) fn decode(bytes: &'a [u8]) -> Option<Self> {
        let (next_xid, rest) = bytes.split_first_chunk::<8>()?;
        let (segments, mut rest) = rest.split_first_chunk::<4>()?;
        let mut decoded = Vec::new();
        for _ in 0..u32::from_le_bytes(*segments) {
            let (segment, after) = rest.split_first_chunk::<8>()?;
            let (states, after) = after.split_at_checked(STATE_BYTES)?;
            decoded.push((u64::from_le_bytes(*segment), states));
            rest = after;
        }
        let next_xid = Xid(u64::from_le_bytes(*next_xid));
        rest.is_empty().then_some(Self { next_xid, segments: decoded })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_decoded() {
        let mut packed = PackedStates::new();
        packed.set(5, 99);
        let segments = [(7, packed.clone()), (8, PackedStates::new())];
        let bytes = StatesRecord { next_xid: Xid(300_000), segments: &segments }.encode();
        let decoded = DecodedStates::decode(&bytes).unwrap();
        assert_eq!(decoded.next_xid, Xid(300_000));
        assert_eq!(decoded.segments[0], (7, &packed.0[..]));
        for shorter in [0, 7, 11, 12, 19, 20, 8187, bytes.len() - 1] {
            assert_eq!(DecodedStates::decode(&bytes[..shorter]), None);
        }
    }

    #[test]
    fn what_was_encoded_is_decoded() {
        let files = [
            RelFile { id: RelFileId(7), logged: true },
            RelFile { id: RelFileId(9), logged: false },
        ];
        let subxids = [Xid(11), Xid(12)];
        let bytes = EndRecord { time_us: -5, subxids: &subxids, files: &files }.encode();
        let decoded = DecodedEnd::decode(&bytes).unwrap();
        assert_eq!(decoded.time_us, -5);
        assert_eq!(decoded.subxids, subxids);
        assert_eq!(decoded.files, files);
        let plain = EndRecord { time_us: -5, subxids: &[], files: &[] };
        assert_eq!(plain.encode_plain().unwrap()[..], plain.encode());
        assert_eq!(EndRecord { subxids: &subxids, ..plain }.encode_plain(), None);
        for shorter in 0..bytes.len() {
            assert_eq!(DecodedEnd::decode(&bytes[..shorter]), None);
        }
    }

    const FORMAT: &str = include_str!("../../../../docs/internals/format.md");

    /// Returns offset, size and name of each row of the table under a heading. A field without a
    /// size extends to the end.
    fn table(heading: &str) -> Vec<(usize, Option<usize>, &'static str)> {
        let start = FORMAT.find(&format!("### {heading}\n")).expect("the heading is there");
        let section = FORMAT[start..].lines().skip(1).take_while(|line| !line.starts_with('#'));
        section
            .filter(|line| line.starts_with("| ") && line.as_bytes()[2].is_ascii_digit())
            .map(|line| {
                let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
                (cells[0].parse().unwrap(), cells[1].parse().ok(), cells[2])
            })
            .collect()
    }

    #[test]
    fn the_document_has_the_bytes_of_an_end() {
        let files = [RelFile { id: RelFileId(7), logged: true }];
        let subxids = [Xid(11), Xid(12)];
        let bytes = EndRecord { time_us: 5, subxids: &subxids, files: &files }.encode();
        let mut end = 0;
        for (at, size, name) in table("End of a transaction") {
            assert_eq!(at, end, "{name} follows the field before");
            end = size.map_or(bytes.len(), |size| at + size);
            let field = &bytes[at..end];
            match name {
                "time_us" => assert_eq!(field, 5_i64.to_le_bytes()),
                "subtransactions" => assert_eq!(field, 2_u32.to_le_bytes()),
                "files" => assert_eq!(field, 1_u32.to_le_bytes()),
                "lists" => {
                    let expected = [11_u64, 12, 7].map(u64::to_le_bytes).concat();
                    assert_eq!(field[..24], expected);
                    assert_eq!(field[24..], [1]);
                }
                other => panic!("an unknown field {other}"),
            }
        }
        assert_eq!(end, bytes.len());
    }

    #[test]
    #[cfg(not(any(feature = "shuttle", feature = "loom")))]
    fn the_document_has_the_bytes_of_a_status_page() {
        use niwaki_storage::page::{HEADER_SIZE, PAGE_SIZE};
        let rows = table("Status page");
        assert_eq!(rows[0], (0, Some(HEADER_SIZE), "header"));
        assert_eq!(rows[1], (HEADER_SIZE, Some(STATE_BYTES), "states"));
        assert_eq!(HEADER_SIZE + STATE_BYTES, PAGE_SIZE);
        assert_eq!(crate::xact::segment::XIDS_PER_SEGMENT, 32_672);
        assert!(FORMAT.contains("32,672 to a page"));
        let mut packed = PackedStates::new();
        packed.set(5, 99);
        packed.set(6, 1);
        assert_eq!(packed.0[..3], [0, 0b10_01_00, 0]);
    }
}
