//! Hash values of partition keys. They equal PostgreSQL's bit for bit, so that a dump's HASH
//! partitions take the same rows as in PostgreSQL.
//!
//! Source: Bob Jenkins, "lookup3" (public domain), with the seed and the combination that
//! PostgreSQL documents in `satisfies_hash_partition`'s behaviour; the recorded test
//! `partition_hash.test` compares routes.

use niwaki_types::{Datum, TypeOid};

/// Seed with which every value of a partition key is hashed.
const SEED: u64 = 0x7A5B_2236_7996_DCFD;

/// Decides whether values of a type can be hashed as PostgreSQL does.
pub fn is_hashable_key(oid: TypeOid) -> bool {
    matches!(
        oid,
        TypeOid::BOOL
            | TypeOid::INT2
            | TypeOid::INT4
            | TypeOid::INT8
            | TypeOid::OID
            | TypeOid::TEXT
            | TypeOid::VARCHAR
            | TypeOid::DATE
            | TypeOid::TIMESTAMP
            | TypeOid::TIMESTAMPTZ
            | TypeOid::UUID
    )
}

/// Returns the hash of a key's values. NULLs are left out.
pub(crate) fn hash_of_row<'d>(values: impl Iterator<Item = &'d Datum>) -> u64 {
    values.filter_map(hash_of_value).fold(0, combine)
}

fn combine(a: u64, b: u64) -> u64 {
    let more = b.wrapping_add(0x49A0_F4DD_15E5_A8E3);
    a ^ more.wrapping_add(a << 54).wrapping_add(a >> 7)
}

fn hash_of_value(value: &Datum) -> Option<u64> {
    Some(match value {
        Datum::Null => return None,
        Datum::Bool(value) => hash_of_word(u32::from(*value)),
        Datum::Int2(value) => hash_of_word(i32::from(*value).cast_unsigned()),
        Datum::Int4(value) | Datum::Date(value) => hash_of_word(value.cast_unsigned()),
        Datum::Oid(value) => hash_of_word(*value),
        Datum::Int8(value) | Datum::Timestamp(value) | Datum::TimestampTz(value) => {
            hash_of_long(*value)
        }
        Datum::Text(text) => hash_of_bytes(text.as_bytes()),
        Datum::Uuid(bytes) => hash_of_bytes(&bytes[..]),
        // No partition key has another type.
        _ => return None,
    })
}

/// Hashes a 64-bit number. Numbers that fit into 32 bits hash as 32-bit numbers do.
fn hash_of_long(value: i64) -> u64 {
    let [low, high] = halves(value.cast_unsigned());
    hash_of_word(low ^ if value >= 0 { high } else { !high })
}

/// Splits a number into its low and its high half.
fn halves(value: u64) -> [u32; 2] {
    let [a, b, c, d, e, f, g, h] = value.to_le_bytes();
    [u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h])]
}

/// The three words of lookup3's state.
struct State {
    a: u32,
    b: u32,
    c: u32,
}

impl State {
    fn new(bytes: usize) -> Self {
        let length = u32::try_from(bytes).unwrap_or(u32::MAX);
        let start = 0x9E37_79B9u32.wrapping_add(length).wrapping_add(3_923_095);
        let [low, high] = halves(SEED);
        let mut state = Self { a: start.wrapping_add(high), b: start.wrapping_add(low), c: start };
        state.mix();
        state
    }

    fn mix(&mut self) {
        let Self { a, b, c } = self;
        let step = |x: &mut u32, y: &mut u32, z: &mut u32, turn: u32| {
            // x -= z; x ^= rot(z); z += y
            *x = x.wrapping_sub(*z) ^ z.rotate_left(turn);
            *z = z.wrapping_add(*y);
        };
        step(a, b, c, 4);
        step(b, c, a, 6);
        step(c, a, b, 8);
        step(a, b, c, 16);
        step(b, c, a, 19);
        step(c, a, b, 4);
    }

    fn finish(mut self) -> u64 {
        let Self { a, b, c } = &mut self;
        let step = |x: &mut u32, y: u32, turn: u32| {
            *x = (*x ^ y).wrapping_sub(y.rotate_left(turn));
        };
        step(c, *b, 14);
        step(a, *c, 11);
        step(b, *a, 25);
        step(c, *b, 16);
        step(a, *c, 4);
        step(b, *a, 14);
        step(c, *b, 24);
        u64::from(self.b) << 32 | u64::from(self.c)
    }
}

fn hash_of_word(word: u32) -> u64 {
    let mut state = State::new(4);
    state.a = state.a.wrapping_add(word);
    state.finish()
}

fn hash_of_bytes(bytes: &[u8]) -> u64 {
    let mut state = State::new(bytes.len());
    let word =
        |bytes: &[u8]| bytes.iter().rev().fold(0u32, |word, byte| word << 8 | u32::from(*byte));
    let mut chunks = bytes.chunks_exact(12);
    for chunk in &mut chunks {
        state.a = state.a.wrapping_add(word(&chunk[..4]));
        state.b = state.b.wrapping_add(word(&chunk[4..8]));
        state.c = state.c.wrapping_add(word(&chunk[8..]));
        state.mix();
    }
    let rest = chunks.remainder();
    let part = |from: usize, to: usize| word(&rest[from.min(rest.len())..to.min(rest.len())]);
    state.a = state.a.wrapping_add(part(0, 4));
    state.b = state.b.wrapping_add(part(4, 8));
    // The lowest byte of the last word is reserved for the length.
    state.c = state.c.wrapping_add(part(8, 12) << 8);
    state.finish()
}
