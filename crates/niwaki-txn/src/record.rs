//! Log records of the transaction manager: layout and decoding.
//!
//! ```text
//! COMMIT, ABORT   time i64 (µs since 1970)   subxid count u32   file count u32
//!                 subxids u64 …              files: id u64, logged u8 …
//! ```

use niwaki_storage::{RelFile, RelFileId, Xid};

/// Record kind: a transaction committed.
pub(crate) const RECORD_COMMIT: u8 = 1;
/// Record kind: a transaction or subtransaction was rolled back.
pub(crate) const RECORD_ABORT: u8 = 2;

const FIXED_BYTES: usize = 16;
const XID_BYTES: usize = 8;
const FILE_BYTES: usize = 9;

/// Body of a commit or abort record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndRecord<'a> {
    /// When, in microseconds since 1970 UTC.
    pub(crate) time_us: i64,
    /// Subtransactions that end with it, in the same way.
    pub(crate) subxids: &'a [Xid],
    /// Files to remove.
    pub(crate) files: &'a [RelFile],
}

impl EndRecord<'_> {
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
    /// `None` when the bytes are not a record's body.
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

#[cfg(test)]
mod tests {
    use super::*;

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
        for shorter in 0..bytes.len() {
            assert_eq!(DecodedEnd::decode(&bytes[..shorter]), None);
        }
    }
}
