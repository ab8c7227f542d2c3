//! Detection of records with one wrong bit, as opposed to records that were not written whole.
//!
//! CRC-32C is linear: a wrong bit changes the checksum by a pattern that depends only on the number
//! of bytes behind it. So the difference between the stored and the computed checksum identifies
//! the bit, if only one is wrong.
//!
//! A torn record misses whole sectors, and its difference is any of 2^32 values. It matches a bit
//! by chance, more often the more bits are searched. So the search is bounded ([`SEARCHED_BYTES`]),
//! and each sector must prove that it was written ([`was_written`]).
#![deny(clippy::indexing_slicing)]

use super::encode::{Header, RECORD_HEADER_SIZE, is_intact, place_of, seal};
use crate::ids::Lsn;

/// CRC-32C's polynomial, lowest power first.
const POLYNOMIAL: u32 = 0x82f6_3b78;
/// Bit positions of the length, the checksum and the place in the header.
const LENGTH_BITS: usize = 0;
const CRC_BITS: usize = 32;
const PLACE_BITS: usize = 64;

/// Bytes that a disk writes as a whole or not at all.
const SECTOR_BYTES: usize = 512;
/// Bytes searched for the wrong bit: first the header, then the payload, from its end on. So a torn
/// record of any length looks like one wrong bit with a chance of 8 * 4096 / 2^32. That is once in
/// 131,072 torn records. A search of all bits of a record with 16 page images would make that once
/// in 4,096.
const SEARCHED_BYTES: usize = 4096;
/// Number of nonzero bytes of a record that prove that their sector was written. Older bytes are
/// equal by chance once in 2^64 times.
const WITNESSES: usize = 8;

const _: () = assert!(CRC_BITS == LENGTH_BITS + u32::BITS as usize);
const _: () = assert!(PLACE_BITS == CRC_BITS + u32::BITS as usize);
const _: () = assert!(PLACE_BITS / 8 < RECORD_HEADER_SIZE);
const _: () = assert!(SECTOR_BYTES.is_power_of_two());
const _: () = assert!(SEARCHED_BYTES > RECORD_HEADER_SIZE);
const _: () = assert!(WITNESSES < SECTOR_BYTES);

/// Returns the possible lengths of a record at this position with one wrong bit. There are none
/// unless the header's place field points here, with at most one wrong bit. `head` holds the
/// header's bytes.
pub(super) fn lengths(head: &[u8; RECORD_HEADER_SIZE], position: Lsn) -> Vec<usize> {
    let [a, b, c, d, ..] = *head;
    let [_, _, _, _, _, _, _, _, w, x, y, z, ..] = *head;
    let written = u32::from_le_bytes([a, b, c, d]);
    // Leftovers of an older use of the file, or zeros, hold another place.
    let wrong = u32::from_le_bytes([w, x, y, z]) ^ place_of(position);
    let lengths: Vec<u32> = match wrong.count_ones() {
        0 => (0..32).map(|bit| written ^ 1 << bit).chain([written]).collect(),
        1 => vec![written],
        _ => return Vec::new(),
    };
    let valid = |length: &usize| (RECORD_HEADER_SIZE..=super::encode::RECORD_MAX).contains(length);
    lengths.into_iter().map(|length| length as usize).filter(valid).collect()
}

/// Returns the bit that must be flipped to make these bytes a sound record of their length. Bits
/// are counted from the lowest bit of the first byte. `None` when no bit does.
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
    // From the end of the checksummed bytes: the position, which is not stored, then the header
    // without the checksum, then the payload.
    let summed = (RECORD_HEADER_SIZE..record.len()).chain(0..4).chain(8..RECORD_HEADER_SIZE);
    let mut effects: [u32; 8] = std::array::from_fn(|bit| behind(1 << bit));
    effects.iter_mut().for_each(|effect| (0..8).for_each(|_| *effect = behind(*effect)));
    for byte in summed.rev().take(SEARCHED_BYTES) {
        if let Some(bit) = effects.iter().position(|effect| *effect == difference) {
            return Some(byte * 8 + bit);
        }
        effects.iter_mut().for_each(|effect| *effect = behind(*effect));
    }
    None
}

/// Returns the checksum's difference after one more byte.
fn behind(mut difference: u32) -> u32 {
    for _ in 0..8 {
        let carry = if difference & 1 == 1 { POLYNOMIAL } else { 0 };
        difference = difference >> 1 ^ carry;
    }
    difference
}

/// Returns whether a record with one wrong bit was written whole.
///
/// A disk writes a sector whole or not at all, so each sector must show bytes of the record. An
/// unwritten sector holds zeros in a segment that is used for the first time. The sector of the
/// wrong bit must show more: the record's place, or [`WITNESSES`] of its bytes. Such a sector could
/// lack one bit by chance, when it holds only zeros or a small number of the record.
pub(super) fn was_written(record: &[u8], position: Lsn, bit: usize) -> bool {
    let wrong = bit / 8;
    debug_assert!(wrong < record.len(), "byte {wrong} of a record of {}", record.len());
    let first = SECTOR_BYTES - position.0 as usize % SECTOR_BYTES;
    let (first, others) = record.split_at(first.min(record.len()));
    let mut start = 0;
    std::iter::once(first).chain(others.chunks(SECTOR_BYTES)).all(|sector| {
        let bytes = start..start + sector.len();
        start = bytes.end;
        let needed = if bytes.contains(&wrong) { WITNESSES } else { 1 };
        let own = bytes.clone().zip(sector).filter(|(at, byte)| *at != wrong && **byte != 0);
        bytes.contains(&(PLACE_BITS / 8)) || own.take(needed).count() == needed
    })
}

/// Returns whether the checksum is right, but no version writes such a header.
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

    /// Returns whether the search covers this byte.
    fn is_searched(byte: usize, length: usize) -> bool {
        let behind = length - byte;
        byte < RECORD_HEADER_SIZE || behind + RECORD_HEADER_SIZE - 4 <= SEARCHED_BYTES
    }

    fn draw(seed: &mut u64, below: usize) -> usize {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (*seed >> 33) as usize % below
    }

    /// Returns the difference between a record's stored checksum and the right one.
    fn difference(record: &[u8], position: Lsn) -> u32 {
        let (head, payload) = record.split_first_chunk().unwrap();
        let stored = u32::from_le_bytes(record[4..8].try_into().unwrap());
        seal(crc32c::crc32c(payload), head, position) ^ stored
    }

    /// Changes the 4 bytes at `at` so that the checksum differs by `wanted`.
    fn forge(record: &mut [u8], position: Lsn, at: usize, wanted: u32) {
        let before = difference(record, position);
        // The effect of each of the 32 bits, or of several together: no two have the same highest
        // bit.
        let mut basis: Vec<(u32, u32)> = Vec::new();
        let reduce = |basis: &[(u32, u32)], effect: u32, bits: u32| {
            let smaller = |(effect, bits): (u32, u32), (by, with): &(u32, u32)| {
                if effect ^ by < effect { (effect ^ by, bits ^ with) } else { (effect, bits) }
            };
            basis.iter().fold((effect, bits), smaller)
        };
        for bit in 0..32 {
            record[at + bit / 8] ^= 1 << (bit % 8);
            let effect = difference(record, position) ^ before;
            record[at + bit / 8] ^= 1 << (bit % 8);
            let next = reduce(&basis, effect, 1 << bit);
            basis.push(next);
        }
        let (rest, bits) = reduce(&basis, before ^ wanted, 0);
        assert_eq!(rest, 0, "4 bytes make any difference");
        record[at..at + 4].iter_mut().zip(bits.to_le_bytes()).for_each(|(old, by)| *old ^= by);
        assert_eq!(difference(record, position), wanted);
    }

    /// Regression test: with a chance of 1 in 4,000, a torn record of several images looked like
    /// one wrong bit. Then a sound directory was refused. The leftovers of an older use of the file
    /// are forged here so that each record looks like that.
    #[test]
    fn a_long_torn_record_is_no_flip() {
        let mut seed = 1;
        for number in 0..100 {
            let length = 3 * SEARCHED_BYTES + draw(&mut seed, 30_000);
            let at = Lsn(8 * draw(&mut seed, 1 << 20) as u64);
            let sound = record(length, at);
            let (mut torn, mut missing) = (sound.clone(), None);
            let first = SECTOR_BYTES - at.0 as usize % SECTOR_BYTES;
            // Any sectors may be missing, except the first ones, with the record's place.
            for start in (first + SECTOR_BYTES..=length - SECTOR_BYTES).step_by(SECTOR_BYTES) {
                if missing.is_none() || draw(&mut seed, 2) == 0 {
                    let old = &mut torn[start..start + SECTOR_BYTES];
                    old.iter_mut().for_each(|byte| *byte = 1 + draw(&mut seed, 255) as u8);
                    missing = Some(start);
                }
            }
            let bit = 8 * (RECORD_HEADER_SIZE + draw(&mut seed, SEARCHED_BYTES));
            assert!(!is_searched(bit / 8, length));
            let mut flipped = sound.clone();
            flipped[bit / 8] ^= 1;
            let start = missing.expect("a sector is missing");
            forge(&mut torn, at, start, difference(&flipped, at));
            torn[bit / 8] ^= 1;
            assert!(is_intact(&torn, at), "record {number} does not look like one wrong bit");
            torn[bit / 8] ^= 1;
            assert_eq!(wrong_bit(&torn, at), None, "record {number}");
        }
    }

    /// An unwritten sector holds zeros in a segment that is used for the first time.
    #[test]
    fn a_record_with_a_sector_of_zeros_is_no_flip() {
        let mut seed = 2;
        for _ in 0..200 {
            let length = 1200 + draw(&mut seed, 3000);
            let at = Lsn(8 * draw(&mut seed, 1 << 20) as u64);
            let mut torn = record(length, at);
            let in_header = 8 * (8 + draw(&mut seed, RECORD_HEADER_SIZE - 8));
            let in_payload = 8 * (length - 600 + draw(&mut seed, 50));
            assert!([in_header, in_payload].iter().all(|bit| was_written(&torn, at, *bit)));
            let first = SECTOR_BYTES - at.0 as usize % SECTOR_BYTES;
            let start = if first < RECORD_HEADER_SIZE { first + SECTOR_BYTES } else { first };
            torn[start..length.min(start + SECTOR_BYTES)].fill(0);
            assert!([in_header, in_payload].iter().all(|bit| !was_written(&torn, at, *bit)));
        }
    }

    /// Regression test: the last 4 bytes of a record, a small number, lay in an unwritten sector.
    /// Only one bit was missing, and a sound directory was refused.
    #[test]
    fn a_sector_that_was_not_written_is_no_flip() {
        let at = Lsn(512 * 9 - 196);
        let mut sound = record(200, at);
        sound[196..].copy_from_slice(&4u32.to_le_bytes());
        assert!(!was_written(&sound, at, 196 * 8 + 2));
        // In the sector of the record's place, and among many of its bytes, the bit counts as
        // flipped.
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
                let found = is_searched(bit / 8, length).then_some(bit);
                assert_eq!(wrong_bit(&damaged, Lsn(at)), found, "{length}");
                let head = damaged.first_chunk().expect("a header");
                assert!(lengths(head, Lsn(at)).contains(&length), "{length}, bit {bit}");
            }
            let mut torn = sound.clone();
            torn[length / 2..].fill(0);
            assert!(wrong_bit(&torn, Lsn(at)).is_none());
        }
    }
}
