//! The shortest pivot that tells two neighbours apart.

use niwaki_storage::Tid;

use crate::page::search::Target;

/// The contents of a pivot: a prefix of a key, and a TID only where keys do not differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Separator<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) tid: Option<Tid>,
}

/// A separator that outlives the latch under which it was read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OwnedSeparator {
    pub(crate) key: Vec<u8>,
    pub(crate) tid: Option<Tid>,
}

impl OwnedSeparator {
    pub(crate) fn target(&self) -> Target<'_> {
        Target::pivot(&self.key, self.tid)
    }
}

/// Returns the number of bytes with which both keys begin.
#[inline]
pub(crate) fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let mut at = 0;
    for (x, y) in a.chunks_exact(8).zip(b.chunks_exact(8)) {
        if x != y {
            break;
        }
        at += 8;
    }
    let prefix = at + a[at..].iter().zip(&b[at..]).take_while(|(x, y)| x == y).count();
    debug_assert_eq!(a[..prefix], b[..prefix], "the keys have these bytes in common");
    debug_assert!(
        a.get(prefix).is_none() || a.get(prefix) != b.get(prefix),
        "the keys have no further byte in common"
    );
    prefix
}

/// Returns the pivot between two neighbours of a leaf level: at least `last_left`, below
/// `first_right`.
///
/// With truncation the pivot is the first bytes of `first_right`'s key up to the one in which the
/// keys differ. The rest counts as minus infinity. Only the TID tells equal keys apart. The pivot
/// then takes the left TID, so that the pivot itself belongs to the left. INCLUDE payload never
/// gets into a pivot.
///
/// Source: docs/internals/design.md, "Split points"; thread `tid-key`.
pub(crate) fn separator<'a>(
    last_left: (&'a [u8], Tid),
    first_right: (&'a [u8], Tid),
    truncate: bool,
) -> Separator<'a> {
    let common = common_prefix(last_left.0, first_right.0);
    let cut = match first_right.0.get(..common + 1) {
        Some(key) if truncate => Separator { key, tid: None },
        _ => Separator { key: last_left.0, tid: Some(last_left.1) },
    };
    debug_assert!(cut.key.len() <= last_left.0.len() + 1, "a builder reckons with a byte more");
    debug_assert!(
        cut.tid.is_none() || cut.key.len() == last_left.0.len(),
        "only a whole key has a TID behind it"
    );
    cut
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::tuple::push_pivot;
    use niwaki_storage::BlockNumber;
    use proptest::prelude::*;

    fn key() -> impl Strategy<Value = (Vec<u8>, Tid)> {
        let tid = (0u32..3, 1u16..4).prop_map(|(block, offset)| Tid::new(block, offset));
        (prop::collection::vec(0u8..3, 0..20), tid)
    }

    proptest! {
        #[test]
        fn it_lies_between_and_is_shortest(a in key(), b in key(), truncate: bool) {
            prop_assume!(a != b);
            let (left, right) = if a < b { (&a, &b) } else { (&b, &a) };
            let cut = separator((&left.0, left.1), (&right.0, right.1), truncate);
            let mut pivot = Vec::new();
            push_pivot(&mut pivot, BlockNumber(0), cut.key, cut.tid);
            prop_assert!(Target::entry(&left.0, left.1).order_of(&pivot).is_ge());
            prop_assert!(Target::entry(&right.0, right.1).order_of(&pivot).is_lt());
            if truncate {
                prop_assert_eq!(cut.tid.is_some(), left.0 == right.0);
                if left.0 != right.0 {
                    let shorter = &cut.key[..cut.key.len() - 1];
                    prop_assert!(left.0.starts_with(shorter), "no shorter prefix would do");
                }
            }
        }
    }
}
