//! Containment in a `jsonb`: keys, items, and other values.

use super::json_tree::Jsonb;

impl Jsonb {
    /// Evaluates the operator `?`. True if an object has this key, an array has this string as an
    /// item, or the value is this string.
    pub fn has_key(&self, key: &str) -> bool {
        match self {
            Self::String(text) => **text == *key,
            Self::Array(array) => array
                .items()
                .iter()
                .any(|item| matches!(&**item, Self::String(text) if **text == *key)),
            Self::Object(object) => object.get(key).is_some(),
            _ => false,
        }
    }

    /// Evaluates the operator `@>`: whether everything in `other` stands in this value, at the same
    /// places. Order and number of items do not count, and an array contains a lone scalar that is
    /// one of its items.
    pub fn contains(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Array(_), Self::Array(_)) | (Self::Object(_), Self::Object(_)) => {
                self.contains_part(other)
            }
            (Self::Array(array), scalar) if scalar.is_scalar() => {
                array.items().iter().any(|item| item.is_scalar() && **item == *scalar)
            }
            (a, b) => a.is_scalar() && b.is_scalar() && a == b,
        }
    }

    /// Does [`Jsonb::contains`] inside a value, where a scalar is not an array of one.
    fn contains_part(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Object(whole), Self::Object(part)) => {
                whole.pairs().len() >= part.pairs().len()
                    && part.pairs().iter().all(|(key, wanted)| {
                        whole.get(key).is_some_and(|value| value.contains_part(wanted))
                    })
            }
            (Self::Array(whole), Self::Array(part)) => part
                .items()
                .iter()
                .all(|wanted| whole.items().iter().any(|item| item.contains_part(wanted))),
            (a, b) => a.is_scalar() && b.is_scalar() && a == b,
        }
    }
}
