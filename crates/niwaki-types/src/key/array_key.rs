//! Keys of arrays.
//!
//! A key holds the elements, each behind a mark, and the end. Then follow the parts that order
//! arrays with the same elements: the number of dimensions, their lengths, their lower bounds. An
//! array of one dimension has no length there, because the elements give it.

use std::sync::Arc;

use super::{END, decode_key, encode_key, ended, key_equal_is_image_equal};
use crate::error::{Result, TypeError};
use crate::types::oid::TypeOid;
use crate::value::array::{Array, Dimension};
use crate::value::datum::Datum;
use crate::value::key_order::KeyOrder;

/// Mark before each element; [`END`] closes the elements.
const ELEMENT: u8 = 0x01;
/// A lower bound below 1 follows.
const BELOW_ONE: u8 = 0x01;
/// The lower bound is 1, as of most arrays.
const ONE: u8 = 0x02;
/// A lower bound above 1 follows.
const ABOVE_ONE: u8 = 0x03;

pub(super) fn encode(element: TypeOid, array: &Array, out: &mut Vec<u8>) {
    for value in array.iter() {
        out.push(ELEMENT);
        encode_key(value, KeyOrder::ascending(element), out);
    }
    out.push(END);
    let dimensions = array.dimensions();
    // At most six.
    out.push(dimensions.len() as u8);
    if dimensions.len() > 1 {
        for dimension in dimensions {
            out.extend_from_slice(&dimension.length.to_be_bytes());
        }
    }
    for dimension in dimensions {
        match dimension.lower {
            1 => out.push(ONE),
            lower => {
                out.push(if lower < 1 { BELOW_ONE } else { ABOVE_ONE });
                out.extend_from_slice(&(lower as u32 ^ (1 << 31)).to_be_bytes());
            }
        }
    }
}

pub(super) fn decode(
    bytes: &[u8],
    element: TypeOid,
    order: KeyOrder,
) -> Result<(Option<Datum>, usize)> {
    // Elements are always encoded ascending and inverted as a whole. So a descending column is
    // decoded from a copy that is turned back.
    let turned;
    let bytes = if order.descending {
        turned = bytes.iter().map(|byte| !byte).collect::<Vec<u8>>();
        turned.as_slice()
    } else {
        bytes
    };
    // An array of nothing but NULLs could be given back even then; callers rely on the type alone.
    let mut values = key_equal_is_image_equal(element).then(Vec::new);
    let mut count = 0u32;
    let mut rest = bytes;
    loop {
        match rest.split_first().ok_or_else(ended)? {
            (&END, after) => {
                rest = after;
                break;
            }
            (&ELEMENT, after) => {
                let (value, length) = decode_key(after, KeyOrder::ascending(element))?;
                rest = after.get(length..).ok_or_else(ended)?;
                count = count.saturating_add(1);
                values = values.zip(value).map(|(mut values, value)| {
                    values.push(value);
                    values
                });
            }
            (other, _) => {
                return Err(TypeError::corrupt(format!("index key has the array mark {other}")));
            }
        }
    }
    let dimensions = take_dimensions(&mut rest, count)?;
    let taken = bytes.len() - rest.len();
    let wrong = |error: TypeError| TypeError::corrupt(format!("array in an index key: {error}"));
    let array = values.map(|values| Array::new(&dimensions, values)).transpose().map_err(wrong)?;
    Ok((array.map(|array| Datum::Array(element, Arc::new(array))), taken))
}

fn take_dimensions(rest: &mut &[u8], elements: u32) -> Result<Vec<Dimension>> {
    let [count] = take(rest)?;
    let mut dimensions = Vec::new();
    for _ in 0..count {
        let length = if count > 1 { u32::from_be_bytes(take(rest)?) } else { elements };
        dimensions.push(Dimension::new(length));
    }
    for dimension in &mut dimensions {
        dimension.lower = match take(rest)? {
            [ONE] => 1,
            [BELOW_ONE | ABOVE_ONE] => (u32::from_be_bytes(take(rest)?) ^ (1 << 31)) as i32,
            [other] => {
                return Err(TypeError::corrupt(format!("index key has the lower bound {other}")));
            }
        };
    }
    Ok(dimensions)
}

fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N]> {
    let (front, after) = rest.split_first_chunk::<N>().ok_or_else(ended)?;
    *rest = after;
    Ok(*front)
}
