//! A record with one wrong bit, told from one that was not written whole.
//!
//! CRC-32C is linear: a wrong bit changes the checksum by a pattern that depends only on how many
//! bytes follow it. In a record of this length no two bits share one. So the difference between the
//! stored and the computed checksum names the bit, if one alone is wrong. A torn record misses whole
//! sectors, and looks like that once in billions of times.
#![deny(clippy::indexing_slicing)]

use super::encode::{Header, RECORD_HEADER_SIZE, is_intact, place_of, seal};
use crate::ids::Lsn;

/// CRC-32C's polynomial, lowest power first.
const POLYNOMIAL: u32 = 0x82f6_3b78;
/// Where the header has the length, the checksum and the place.
const LENGTH_BITS: usize = 0;
const CRC_BITS: usize = 32;
const PLACE_BITS: usize = 64;

/// What a disk writes whole, in bytes.
const SECTOR_BYTES: u64 = 512;
/// This many bytes of a record that are not 0 prove that their sector was written. Older bytes are
/// the same by chance once in 2^64 times.
const WITNESSES: usize = 8;

/// How long a record may be that lies here and has one wrong bit, if anything says that it does lie
/// here. `head` holds the header's bytes.
pub(super) fn lengths(head: &[u8; RECORD_HEADER_SIZE], position: Lsn) -> Vec<usize> {
    let [a, b, c, d, ..] = *head;
    let [_, _, _, _, _, _, _, _, w, x, y, z, ..] = *head;
    let written = u32::from_le_bytes([a, b, c, d]);
    // What an older use of the file left, or zeros, names another place.
    let wrong = u32::from_le_bytes([w, x, y, z]) ^ place_of(position);
    let lengths: Vec<u32> = match wrong.count_ones() {
        0 => (0..32).map(|bit| written ^ 1 << bit).chain([written]).collect(),
        1 => vec![written],
        _ => return Vec::new(),
    };
    let valid = |length: &usize| (RECORD_HEADER_SIZE..=super::encode::RECORD_MAX).contains(length);
    lengths.into_iter().map(|length| length as usize).filter(valid).collect()
}

/// Which bit of these bytes must be turned to get a sound record of their length, counted from the
/// first byte's lowest; `None` when none does.
pub(super) fn wrong_bit(record: &[u8], position: Lsn) -> Option<usize> {
    let found = locate(record, position)?;
    let mut mended = record.to_vec();
    *mended.get_mut(found / 8)? ^= 1 << (found % 8);
    is_intact(&mended, position).then_some(found)
}

fn locate(record: &[u8], position: Lsn) -> Option<usize> {
    let (head, payload) = record.split_first_chunk::<RECORD_HEADER_SIZE>()?;
    let [a, b, c, d, crc0, crc1, crc2, crc3, w, x, y, z, ..] = *head;
    let length = u32::from_le_bytes([a, b, c, d]) ^ u32::try_from(record.len()).ok()?;
    if length != 0 {
        return length.is_power_of_two().then(|| LENGTH_BITS + length.trailing_zeros() as usize);
    }
    let place = u32::from_le_bytes([w, x, y, z]) ^ place_of(position);
    if place != 0 {
        return place.is_power_of_two().then(|| PLACE_BITS + place.trailing_zeros() as usize);
    }
    let stored = u32::from_le_bytes([crc0, crc1, crc2, crc3]);
    let difference = seal(crc32c::crc32c(payload), head, position) ^ stored;
    if difference.is_power_of_two() {
        return Some(CRC_BITS + difference.trailing_zeros() as usize);
    }
    // In the order of the checksum, from its end: the position, which is not stored; the header
    // without the checksum; the payload.
    let summed = (RECORD_HEADER_SIZE..record.len()).chain(0..4).chain(8..RECORD_HEADER_SIZE);
    let mut effects: [u32; 8] = std::array::from_fn(|bit| behind(1 << bit));
    effects.iter_mut().for_each(|effect| (0..8).for_each(|_| *effect = behind(*effect)));
    for byte in summed.rev() {
        if let Some(bit) = effects.iter().position(|effect| *effect == difference) {
            return Some(byte * 8 + bit);
        }
        effects.iter_mut().for_each(|effect| *effect = behind(*effect));
    }
    None
}

/// The checksum's difference after one more byte.
fn behind(mut difference: u32) -> u32 {
    for _ in 0..8 {
        let carry = if difference & 1 == 1 { POLYNOMIAL } else { 0 };
        difference = difference >> 1 ^ carry;
    }
    difference
}

/// Whether a record with one wrong bit was written whole. A disk writes a sector whole or not at all, so
/// the wrong bit's sector must show that it is the record's: it holds the record's place, or enough of
/// its bytes. A sector that was not written may lack one bit by chance, where only zeros or a small
/// number of the record lie in it.
pub(super) fn was_written(record: &[u8], position: Lsn, bit: usize) -> bool {
    let sector = |at: usize| (position.0 + at as u64) / SECTOR_BYTES;
    let wrong = bit / 8;
    let own =
        |(at, byte): &(usize, &u8)| sector(*at) == sector(wrong) && *at != wrong && **byte != 0;
    sector(wrong) == sector(PLACE_BITS / 8)
        || record.iter().enumerate().filter(own).count() >= WITNESSES
}

/// Whether the checksum is right, but the header is one that no version writes.
pub(super) fn is_strange(record: &[u8], position: Lsn) -> bool {
    let Some((head, payload)) = record.split_first_chunk::<RECORD_HEADER_SIZE>() else {
        return false;
    };
    let [_, _, _, _, a, b, c, d, ..] = *head;
    Header::get(head).is_none()
        && seal(crc32c::crc32c(payload), head, position) == u32::from_le_bytes([a, b, c, d])
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, reason = "a test may panic")]
mod tests {
    use super::*;

    fn record(length: usize, position: Lsn) -> Vec<u8> {
        let mut record: Vec<u8> = (0..length).map(|n| (n * 37 + 11) as u8).collect();
        let header = Header {
            length: length as u32,
            crc: 0,
            place: place_of(position),
            previous: 40,
            durable: 80,
            xid: 7,
            manager: 2,
            kind: 1,
            version: 1,
            flags: 0,
            pages: 1,
        };
        let mut head = [0; RECORD_HEADER_SIZE];
        header.put(&mut head);
        let crc = seal(crc32c::crc32c(&record[RECORD_HEADER_SIZE..]), &head, position);
        head[4..8].copy_from_slice(&crc.to_le_bytes());
        record[..RECORD_HEADER_SIZE].copy_from_slice(&head);
        record
    }

    /// The last 4 bytes of a record, a small number, lay in a sector that was not written: one bit was
    /// missing, and a sound directory was refused.
    #[test]
    fn a_sector_that_was_not_written_is_no_flip() {
        let at = Lsn(512 * 9 - 196);
        let mut sound = record(200, at);
        sound[196..].copy_from_slice(&4u32.to_le_bytes());
        assert!(!was_written(&sound, at, 196 * 8 + 2));
        // In the sector of its place, and among many of its bytes, it is.
        assert!(was_written(&sound, at, 100 * 8));
        let at = Lsn(512 * 9 - 100);
        assert!(was_written(&record(200, at), at, 150 * 8));
    }

    #[test]
    fn every_bit_is_found() {
        for (length, at) in [(32, 8), (33, 4096), (200, 1 << 40), (9000, 123_456)] {
            let sound = record(length, Lsn(at));
            let step = if length > 1000 { 97 } else { 1 };
            for bit in (0..length * 8).step_by(step) {
                let mut damaged = sound.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(wrong_bit(&damaged, Lsn(at)), Some(bit), "{length}");
                let head = damaged.first_chunk().expect("a header");
                assert!(lengths(head, Lsn(at)).contains(&length), "{length}, bit {bit}");
            }
            let mut torn = sound.clone();
            torn[length / 2..].fill(0);
            assert!(wrong_bit(&torn, Lsn(at)).is_none());
        }
    }
}
