//! Computes the byte offsets of objects in PostgreSQL's form of a `jsonb`. `.keyvalue()` derives
//! object numbers from the offsets.

use std::sync::Arc;

use niwaki_types::{Jsonb, Numeric};

/// Bytes of a `JEntry`, and of the header of a container.
const WORD: u64 = 4;

/// Returns the bytes from the start of `whole`, an array or object, to the start of `part` inside.
pub(super) fn offset_of(part: &Arc<Jsonb>, whole: &Arc<Jsonb>) -> Option<u64> {
    let mut at = 0;
    find(part, whole, &mut at)
}

/// Advances `at` past `value`, or stops where `part` begins.
fn find(part: &Arc<Jsonb>, value: &Arc<Jsonb>, at: &mut u64) -> Option<u64> {
    let aligned = at.next_multiple_of(WORD);
    match &**value {
        Jsonb::Null | Jsonb::Bool(_) => {}
        Jsonb::String(text) => *at += text.len() as u64,
        Jsonb::Number(number) => *at = aligned + numeric_bytes(number),
        Jsonb::Array(array) => {
            if Arc::ptr_eq(part, value) {
                return Some(aligned);
            }
            *at = aligned + WORD + WORD * array.items().len() as u64;
            return array.items().iter().find_map(|item| find(part, item, at));
        }
        Jsonb::Object(object) => {
            if Arc::ptr_eq(part, value) {
                return Some(aligned);
            }
            let pairs = object.pairs();
            *at = aligned + WORD + 2 * WORD * pairs.len() as u64;
            *at += pairs.iter().map(|(key, _)| key.len() as u64).sum::<u64>();
            return pairs.iter().find_map(|(_, value)| find(part, value, at));
        }
    }
    None
}

/// Returns the bytes that PostgreSQL stores a number in.
fn numeric_bytes(number: &Numeric) -> u64 {
    let mut wire = Vec::new();
    number.write_wire(&mut wire);
    let field = |at: usize| match wire.get(at..at + 2) {
        Some(&[high, low]) => i16::from_be_bytes([high, low]),
        _ => 0,
    };
    let (digits, weight, scale) = (field(0), field(2), field(6));
    let short = scale <= 63 && (-64..=63).contains(&weight);
    WORD + if short { 2 } else { 4 } + 2 * u64::from(digits.unsigned_abs())
}
