//! The range of keys that a scan covers.

/// One end of a range of keys.
///
/// A bound is compared with the first `bytes.len()` bytes of each key, so it covers every key that
/// starts with it. A bound on the leading columns of a multi-column key is simply the encoding of
/// those columns. No column's encoding is a proper prefix of another's. So a bound with all columns
/// means exactly that key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyBound<'a> {
    /// No bound.
    Unbounded,
    /// Keys that start with these bytes are inside.
    Included(&'a [u8]),
    /// Keys that start with these bytes are outside.
    Excluded(&'a [u8]),
}

/// Keys from `lower` to `upper`; empty when the bounds cross.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyRange<'a> {
    /// The lower end.
    pub lower: KeyBound<'a>,
    /// The upper end.
    pub upper: KeyBound<'a>,
}

impl<'a> KeyRange<'a> {
    /// Every key.
    pub const ALL: KeyRange<'static> =
        KeyRange { lower: KeyBound::Unbounded, upper: KeyBound::Unbounded };

    /// Returns the range of keys that start with `prefix`: with all key columns in it, that key
    /// alone.
    #[inline]
    pub fn equal(prefix: &'a [u8]) -> Self {
        Self { lower: KeyBound::Included(prefix), upper: KeyBound::Included(prefix) }
    }

    /// Decides whether `key` is inside.
    pub fn contains(&self, key: &[u8]) -> bool {
        let head = |bound: &[u8]| key[..key.len().min(bound.len())].cmp(bound);
        let above = match self.lower {
            KeyBound::Unbounded => true,
            KeyBound::Included(bound) => head(bound).is_ge(),
            KeyBound::Excluded(bound) => head(bound).is_gt(),
        };
        let below = match self.upper {
            KeyBound::Unbounded => true,
            KeyBound::Included(bound) => head(bound).is_le(),
            KeyBound::Excluded(bound) => head(bound).is_lt(),
        };
        above && below
    }
}

/// The order in which a scan returns entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Ascending (key, TID).
    Forward,
    /// Descending (key, TID).
    Backward,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_cover_every_key_that_starts_with_them() {
        let equal = KeyRange::equal(b"ab");
        assert!(equal.contains(b"ab") && equal.contains(b"abc"));
        assert!(!equal.contains(b"a") && !equal.contains(b"ac"));
        let outside =
            KeyRange { lower: KeyBound::Excluded(b"ab"), upper: KeyBound::Excluded(b"b") };
        assert!(!outside.contains(b"ab") && !outside.contains(b"abz"));
        assert!(outside.contains(b"ac") && outside.contains(b"az"));
        assert!(!outside.contains(b"b") && !outside.contains(b"ba"));
        assert!(KeyRange::ALL.contains(b""));
    }
}
