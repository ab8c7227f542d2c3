//! Several ranges in one scan: the caller names them one by one, as the scan comes to their places.
//!
//! Array keys (`IN`, `= ANY`) are ranges that are known beforehand. A skip scan learns its next
//! range from the next key. The scan treats both alike. The scan asks for the next range with the
//! first key that it has not read yet. It goes there on the same leaf, or by a new descent.

use crate::page::search::Target;
use crate::scan::key_range::KeyBound;

/// The decision of [`RangeSource::next`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeStep {
    /// The entries between both bounds are wanted.
    Range,
    /// No range is known. The scan goes to the bound on its side (the lower one of a forward scan),
    /// and asks again with the key found there.
    Seek,
    /// No further entries are wanted.
    End,
}

/// The source of a scan's ranges, which come in its direction, without overlap.
///
/// The scan calls the methods under a leaf's shared latch. They compare bytes, latch nothing and
/// wait for nothing (rule `bytes-under-latch`).
pub trait RangeSource {
    /// Writes the next range or bound to `place`. `found` is the key of the next entry in the
    /// scan's direction. It is `None` when that key is not known: at the beginning, and at the end
    /// of a leaf. Then the place after the last range given is wanted.
    ///
    /// With `found`, a range must hold it or lie beyond it, and a seek must lead beyond it: so
    /// every call moves the scan on. `None`: `found` is no key of this index, which is damaged.
    fn next(&mut self, found: Option<&[u8]>, place: &mut Place) -> Option<RangeStep>;
}

/// The ranges of a scan over one range, with which it was started: no range comes after it.
#[derive(Clone, Copy, Debug)]
pub struct OneRange;

impl RangeSource for OneRange {
    fn next(&mut self, _: Option<&[u8]>, _: &mut Place) -> Option<RangeStep> {
        Some(RangeStep::End)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Unbounded,
    Included,
    Excluded,
}

/// A bound with bytes of its own.
#[derive(Debug)]
pub(crate) struct OwnedBound {
    pub(crate) kind: Kind,
    bytes: Vec<u8>,
}

impl OwnedBound {
    const NONE: Self = Self { kind: Kind::Unbounded, bytes: Vec::new() };

    fn set(&mut self, bound: KeyBound<'_>) {
        let (kind, bytes): (_, &[u8]) = match bound {
            KeyBound::Unbounded => (Kind::Unbounded, &[]),
            KeyBound::Included(bytes) => (Kind::Included, bytes),
            KeyBound::Excluded(bytes) => (Kind::Excluded, bytes),
        };
        self.kind = kind;
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the place before the first entry inside this lower bound.
    #[inline]
    pub(crate) fn begin(&self) -> Target<'_> {
        match self.kind {
            Kind::Unbounded | Kind::Included => Target::before(&self.bytes),
            Kind::Excluded => Target::after(&self.bytes),
        }
    }

    /// Returns the place behind the last entry inside this upper bound.
    #[inline]
    pub(crate) fn end(&self) -> Target<'_> {
        match self.kind {
            Kind::Unbounded | Kind::Included => Target::after(&self.bytes),
            Kind::Excluded => Target::up_to(&self.bytes),
        }
    }
}

/// A range, or one end of it, that the scan keeps in order to reuse its memory.
#[derive(Debug)]
pub struct Place {
    pub(crate) lower: OwnedBound,
    pub(crate) upper: OwnedBound,
}

impl Default for Place {
    fn default() -> Self {
        Self { lower: OwnedBound::NONE, upper: OwnedBound::NONE }
    }
}

impl Place {
    /// Sets the lower bound.
    #[inline]
    pub fn set_lower(&mut self, bound: KeyBound<'_>) {
        self.lower.set(bound);
    }

    /// Sets the upper bound.
    #[inline]
    pub fn set_upper(&mut self, bound: KeyBound<'_>) {
        self.upper.set(bound);
    }
}
