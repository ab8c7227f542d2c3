//! Keys of composite values: the fields, each behind a mark and its type, and the end.
//!
//! The type is there for readers of a key without the catalog. In one column the type is the same
//! in all keys, so it decides nothing.

use super::{END, MARKER_VALUE, encode_key, ended, key_length};
use crate::error::{Result, TypeError};
use crate::types::oid::TypeOid;
use crate::value::key_order::KeyOrder;
use crate::value::record::Record;

/// Mark before each field; [`END`] closes the fields.
const FIELD: u8 = 0x01;

pub(super) fn encode(record: &Record, out: &mut Vec<u8>) {
    for (kind, value) in record.fields() {
        out.push(FIELD);
        out.extend_from_slice(&kind.0.to_be_bytes());
        encode_key(value, KeyOrder::ascending(kind), out);
    }
    out.push(END);
}

/// Returns the number of bytes of the encoding.
pub(super) fn length(bytes: &[u8], order: KeyOrder) -> Result<usize> {
    // Fields are always encoded ascending and inverted as a whole, as the elements of arrays.
    let turned;
    let bytes = if order.descending {
        turned = bytes.iter().map(|byte| !byte).collect::<Vec<u8>>();
        turned.as_slice()
    } else {
        bytes
    };
    let mut rest = bytes;
    // Number of open values. Damaged bytes must not take all of the stack.
    let mut open = 1usize;
    // Each turn takes at least a byte.
    while open > 0 {
        let (mark, after) = rest.split_first().ok_or_else(ended)?;
        rest = after;
        match *mark {
            END => open -= 1,
            FIELD => {
                let (kind, after) = after.split_first_chunk::<4>().ok_or_else(ended)?;
                let kind = TypeOid(u32::from_be_bytes(*kind));
                if let (true, Some((&MARKER_VALUE, inside))) =
                    (kind.is_record(), after.split_first())
                {
                    open += 1;
                    rest = inside;
                    continue;
                }
                let length = key_length(after, KeyOrder::ascending(kind))?;
                rest = after.get(length..).ok_or_else(ended)?;
            }
            other => {
                return Err(TypeError::corrupt(format!("index key has the field mark {other}")));
            }
        }
    }
    Ok(bytes.len() - rest.len())
}
