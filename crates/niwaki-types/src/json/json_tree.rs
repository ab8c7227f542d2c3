//! `jsonb`: a value as a tree.

use std::sync::Arc;

use super::parse::{Build, JSON_DEPTH_MAX, Scalar, parse, too_deep};
use crate::error::{Result, TypeError};
use crate::numeric::Numeric;
use crate::work::charge::VALUE_BYTES_MAX;

/// A value of type `jsonb`. Parts are shared, so that taking one out copies nothing.
#[derive(Clone, Debug)]
pub enum Jsonb {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number; never `NaN` or infinite.
    Number(Numeric),
    /// A string, without zero characters.
    String(Arc<str>),
    /// `[…]`
    Array(JsonbArray),
    /// `{…}`
    Object(JsonbObject),
}

/// The items of an array, in their order.
#[derive(Clone, Debug)]
pub struct JsonbArray {
    items: Vec<Arc<Jsonb>>,
    depth: u16,
    bytes: usize,
}

/// The pairs of an object: each key once, shorter keys first, keys of one length by their bytes.
#[derive(Clone, Debug)]
pub struct JsonbObject {
    pairs: Vec<(Arc<str>, Arc<Jsonb>)>,
    depth: u16,
    bytes: usize,
}

impl JsonbArray {
    /// Returns the items.
    pub fn items(&self) -> &[Arc<Jsonb>] {
        &self.items
    }

    /// Returns the item at `index`, counted from 0, or from the end (-1 is the last) if it is
    /// negative.
    pub fn item(&self, index: i64) -> Option<&Arc<Jsonb>> {
        self.items.get(place(index, self.items.len())?)
    }
}

impl JsonbObject {
    /// Returns the pairs.
    pub fn pairs(&self) -> &[(Arc<str>, Arc<Jsonb>)] {
        &self.pairs
    }

    /// Returns the position of `key`, or the position where it would stand.
    pub(super) fn position(&self, key: &str) -> std::result::Result<usize, usize> {
        self.pairs.binary_search_by(|(known, _)| key_order(known, key))
    }

    /// Returns the value of `key`.
    pub fn get(&self, key: &str) -> Option<&Arc<Jsonb>> {
        self.position(key).ok().and_then(|at| self.pairs.get(at)).map(|(_, value)| value)
    }
}

/// Returns the place that an index means among `count` items; a negative index counts from the end.
pub(super) fn place(index: i64, count: usize) -> Option<usize> {
    if index >= 0 {
        return usize::try_from(index).ok();
    }
    count.checked_sub(usize::try_from(index.unsigned_abs()).ok()?)
}

/// Compares keys in the order in which an object keeps them.
pub(super) fn key_order(a: &str, b: &str) -> std::cmp::Ordering {
    a.len().cmp(&b.len()).then_with(|| a.as_bytes().cmp(b.as_bytes()))
}

/// Returns the levels of a container with these parts.
fn depth_over<'j>(parts: impl Iterator<Item = &'j Arc<Jsonb>>) -> Result<u16> {
    let below = parts.map(|part| part.depth()).max().unwrap_or(0);
    if below >= JSON_DEPTH_MAX { Err(too_deep()) } else { Ok(below + 1) }
}

/// Returns the memory of a container of parts, if a value may have that size. Shared parts count
/// each time, because they are written each time.
fn bounded(bytes: usize, parts: &str) -> Result<usize> {
    if bytes > VALUE_BYTES_MAX {
        return Err(TypeError::new(
            "54000",
            format!("total size of jsonb {parts} exceeds the maximum of {VALUE_BYTES_MAX} bytes"),
        ));
    }
    Ok(bytes)
}

impl Jsonb {
    /// Reads JSON text.
    ///
    /// # Errors
    /// `22P02` for other text, `22P05` for an escaped zero character, `22003` for a number out of
    /// range. `54001` beyond [`JSON_DEPTH_MAX`] levels.
    pub fn parse(text: &str) -> Result<Arc<Self>> {
        parse(text, &mut Tree)
    }

    /// Makes a string.
    pub fn string(text: &str) -> Self {
        Self::String(Arc::from(text))
    }

    /// Makes an array.
    ///
    /// # Errors
    /// `54001` beyond [`JSON_DEPTH_MAX`] levels, `54000` beyond what a value may take.
    pub fn array(items: Vec<Arc<Self>>) -> Result<Self> {
        let depth = depth_over(items.iter())?;
        let bytes = items.iter().map(|item| item.memory().saturating_add(24));
        let bytes = bounded(bytes.fold(0, usize::saturating_add), "array elements")?;
        Ok(Self::Array(JsonbArray { items, depth, bytes }))
    }

    /// Makes an object. Of pairs with one key the last stays.
    ///
    /// # Errors
    /// As [`Jsonb::array`].
    pub fn object(mut pairs: Vec<(Arc<str>, Arc<Self>)>) -> Result<Self> {
        // The sort is stable: pairs of one key keep their order.
        pairs.sort_by(|(a, _), (b, _)| key_order(a, b));
        let mut unique: Vec<(Arc<str>, Arc<Self>)> = Vec::with_capacity(pairs.len());
        for pair in pairs {
            match unique.last_mut() {
                Some(last) if last.0 == pair.0 => *last = pair,
                _ => unique.push(pair),
            }
        }
        let depth = depth_over(unique.iter().map(|(_, value)| value))?;
        let bytes = unique
            .iter()
            .map(|(key, value)| key.len().saturating_add(value.memory()).saturating_add(56));
        let bytes = bounded(bytes.fold(0, usize::saturating_add), "object elements")?;
        Ok(Self::Object(JsonbObject { pairs: unique, depth, bytes }))
    }

    /// Returns the levels of arrays and objects; 0 for anything else.
    pub fn depth(&self) -> u16 {
        match self {
            Self::Array(array) => array.depth,
            Self::Object(object) => object.depth,
            _ => 0,
        }
    }

    /// Decides whether the value is neither an array nor an object.
    pub fn is_scalar(&self) -> bool {
        self.depth() == 0
    }

    /// Returns the name that `jsonb_typeof` gives.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "boolean",
            Self::Number(_) => "number",
            Self::String(_) => "string",
            Self::Array(_) => "array",
            Self::Object(_) => "object",
        }
    }

    /// Returns the bytes of memory it takes, roughly; parts that it shares count each time.
    pub fn memory(&self) -> usize {
        let own = size_of::<Self>();
        match self {
            Self::Null | Self::Bool(_) | Self::Number(_) => own,
            Self::String(text) => own + text.len(),
            Self::Array(array) => own.saturating_add(array.bytes),
            Self::Object(object) => own.saturating_add(object.bytes),
        }
    }
}

/// Builds values of type `jsonb`.
struct Tree;

impl<'a> Build<'a> for Tree {
    const DECODES: bool = true;
    type Key = Arc<str>;
    type Value = Arc<Jsonb>;

    fn key(&mut self, key: &str) -> Arc<str> {
        Arc::from(key)
    }

    fn scalar(&mut self, scalar: Scalar<'_>, _: &'a str) -> Result<Arc<Jsonb>> {
        Ok(Arc::new(match scalar {
            Scalar::Null => Jsonb::Null,
            Scalar::Bool(value) => Jsonb::Bool(value),
            Scalar::Number(text) => Jsonb::Number(Numeric::parse(text)?),
            Scalar::String(text) => Jsonb::string(text),
        }))
    }

    fn array(&mut self, items: Vec<Arc<Jsonb>>, _: &'a str) -> Result<Arc<Jsonb>> {
        Jsonb::array(items).map(Arc::new)
    }

    fn object(&mut self, pairs: Vec<(Arc<str>, Arc<Jsonb>)>, _: &'a str) -> Result<Arc<Jsonb>> {
        Jsonb::object(pairs).map(Arc::new)
    }
}
