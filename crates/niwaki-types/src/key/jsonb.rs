//! Keys of `jsonb`: the order of [`Jsonb::compare`] as an order of bytes.

use std::sync::Arc;

use super::{END, encode_numeric, ended, numeric_length};
use crate::error::{Result, TypeError};
use crate::json::json_tree::Jsonb;

/// First byte of a value. An empty array that is the whole value has this one.
const EMPTY_ARRAY: u8 = 0x08;
const NULL: u8 = 0x10;
const STRING: u8 = 0x18;
const NUMBER: u8 = 0x20;
const FALSE: u8 = 0x28;
const TRUE: u8 = 0x29;
const ARRAY: u8 = 0x30;
const OBJECT: u8 = 0x38;

/// Appends the key of a whole value, ascending.
pub(super) fn encode(value: &Jsonb, out: &mut Vec<u8>) {
    if value.is_empty_array() {
        out.push(EMPTY_ARRAY);
    } else {
        encode_part(value, out);
    }
}

fn encode_part(value: &Jsonb, out: &mut Vec<u8>) {
    match value {
        Jsonb::Null => out.push(NULL),
        Jsonb::Bool(false) => out.push(FALSE),
        Jsonb::Bool(true) => out.push(TRUE),
        Jsonb::Number(number) => {
            out.push(NUMBER);
            encode_numeric(number, out);
        }
        Jsonb::String(text) => encode_string(text, out),
        Jsonb::Array(array) => {
            out.push(ARRAY);
            encode_count(array.items().len(), out);
            array.items().iter().for_each(|item: &Arc<Jsonb>| encode_part(item, out));
        }
        Jsonb::Object(object) => {
            out.push(OBJECT);
            encode_count(object.pairs().len(), out);
            for (key, value) in object.pairs() {
                encode_string(key, out);
                encode_part(value, out);
            }
        }
    }
}

fn encode_string(text: &str, out: &mut Vec<u8>) {
    debug_assert!(!text.as_bytes().contains(&END), "text never holds a zero byte");
    out.push(STRING);
    out.extend_from_slice(text.as_bytes());
    out.push(END);
}

fn encode_count(count: usize, out: &mut Vec<u8>) {
    let count = u32::try_from(count).expect("a value has fewer than 2^32 parts");
    out.extend_from_slice(&count.to_be_bytes());
}

/// Returns the number of bytes at the front that are the key of a value. All of them are inverted
/// if `flip` is all ones. The function needs no stack: it counts the values still to come, and keys
/// of objects are values like others.
pub(super) fn length(bytes: &[u8], flip: u8) -> Result<usize> {
    let mut taken = 0usize;
    let mut to_come = 1u64;
    while to_come > 0 {
        to_come -= 1;
        let first = bytes.get(taken).ok_or_else(ended)? ^ flip;
        taken += 1;
        let rest = bytes.get(taken..).unwrap_or_default();
        match first {
            EMPTY_ARRAY if taken == 1 => {}
            NULL | FALSE | TRUE => {}
            NUMBER => taken += numeric_length(rest, flip)?,
            STRING => {
                taken += rest.iter().position(|byte| byte ^ flip == END).ok_or_else(ended)? + 1;
            }
            ARRAY | OBJECT => {
                let count = rest.first_chunk::<4>().ok_or_else(ended)?.map(|byte| byte ^ flip);
                let parts = if first == OBJECT { 2 } else { 1 };
                taken += 4;
                to_come += u64::from(u32::from_be_bytes(count)) * parts;
                // Each value takes at least a byte.
                let left = u64::try_from(bytes.len() - taken).unwrap_or(u64::MAX);
                if to_come > left {
                    return Err(ended());
                }
            }
            other => {
                return Err(TypeError::corrupt(format!(
                    "index key has the jsonb kind {other:#04x}"
                )));
            }
        }
    }
    Ok(taken)
}
