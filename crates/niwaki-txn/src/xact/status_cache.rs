//! Segments whose transactions have all ended, as lists of the transactions that did not commit.
//!
//! Nearly all transactions commit, so a short list describes a segment: a few dozen bytes. Its
//! status page takes 8 KiB for 32,672 states.
//!
//! Behind an old snapshot, every look at a row that changed since asks for the state of a
//! transaction in one of these segments. The rows of one heap page may ask for as many different
//! segments. So the segments have to be in memory, behind one latch.

use std::collections::BTreeMap;

use niwaki_env::sync::RwLock;
use niwaki_env::{invariant, seeded_bug};
use niwaki_storage::Xid;

use crate::options::limit;
use crate::xact::segment::{ABORTED, ANCIENT, STATE_BYTES, XIDS_PER_SEGMENT, place_of, segment_of};
use crate::xact::status_page::{PackedStates, unpack};

/// The greatest number of bytes that the copies take: 8 MiB. Enough for a hundred thousand segments
/// in which every transaction committed.
pub(super) const BYTES_MAX: usize = limit(8 << 20, 4 * SEGMENT_BYTES, 2 * SEGMENT_BYTES);
/// Bytes that one segment takes besides its list.
const SEGMENT_BYTES: usize = 80;

const _: () = assert!(BYTES_MAX >= 2 * SEGMENT_BYTES, "there is room for no second segment");

/// Copies of status pages. A status page never changes, so a copy stays true.
#[derive(Debug, Default)]
pub(crate) struct StatusCache {
    kept: RwLock<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    segments: BTreeMap<u64, CachedSegment>,
    bytes: usize,
}

#[derive(Debug)]
struct CachedSegment {
    /// The CSN that stands for all commits, or [`ANCIENT`].
    csn: u64,
    others: Others,
}

/// The transactions of a segment that have not committed.
#[derive(Debug)]
enum Others {
    /// One number for each: twice its place, plus 1 if it has not aborted either; ascending.
    Few(Box<[u16]>),
    /// Two bits for each transaction of the segment: used when a list would take more bytes.
    Many(PackedStates),
}

const _: () = assert!(XIDS_PER_SEGMENT * 2 <= 1 << 16, "a place and a bit are two bytes");

impl CachedSegment {
    fn new(csn: u64, states: PackedStates) -> Self {
        invariant!(S1, csn >= ANCIENT, "{csn} stands for the commits of a segment");
        let mut others: Vec<u16> = Vec::new();
        for place in 0..XIDS_PER_SEGMENT as usize {
            match unpack(&states.0[..], place) {
                Some(ANCIENT) => {}
                Some(ABORTED) if seeded_bug!("ended_without_aborted") => {}
                Some(ABORTED) => others.push((place * 2) as u16),
                _ => others.push((place * 2 + 1) as u16),
            }
        }
        debug_assert!(others.is_sorted_by(|a, b| a < b), "a search would miss some of {others:?}");
        let others = if size_of_val(&*others) <= STATE_BYTES {
            Others::Few(others.into())
        } else {
            Others::Many(states)
        };
        Self { csn, others }
    }

    /// Returns the state of the transaction at a place, if it ended.
    fn state(&self, place: usize) -> Option<u64> {
        debug_assert!(place < XIDS_PER_SEGMENT as usize, "no segment has a place {place}");
        let state = match &self.others {
            Others::Few(others) => {
                let wanted = (place * 2) as u16;
                match others.binary_search_by_key(&wanted, |other| other & !1) {
                    Err(_) => ANCIENT,
                    Ok(at) if others[at] == wanted => ABORTED,
                    Ok(_) => return None,
                }
            }
            Others::Many(states) => unpack(&states.0[..], place)?,
        };
        match state {
            ANCIENT => Some(self.csn),
            ABORTED => Some(ABORTED),
            _ => None,
        }
    }

    fn bytes(&self) -> usize {
        let others = match &self.others {
            Others::Few(others) => size_of_val(&**others),
            Others::Many(_) => STATE_BYTES,
        };
        SEGMENT_BYTES + others
    }
}

impl StatusCache {
    /// Returns the state of a transaction. `None` when the caller has to ask the status page: there
    /// is no copy, or the copy does not say that the transaction ended.
    pub(crate) fn state(&self, xid: Xid) -> Option<u64> {
        let kept = self.kept.read();
        kept.segments.get(&segment_of(xid))?.state(place_of(xid))
    }

    /// Keeps a copy of a segment's states. `csn` stands for all commits of the segment.
    pub(crate) fn keep(&self, segment: u64, states: PackedStates, csn: u64) {
        let cached = CachedSegment::new(csn, states);
        let mut kept = self.kept.write();
        kept.assert_state();
        kept.bytes += cached.bytes();
        if let Some(before) = kept.segments.insert(segment, cached) {
            kept.bytes -= before.bytes();
        }
        while kept.bytes > BYTES_MAX && kept.segments.len() > 1 {
            kept.remove_one(segment);
        }
        kept.assert_state();
        debug_assert!(kept.segments.contains_key(&segment), "the newest copy {segment} went");
    }

    /// Marks these segments as seen by all: no snapshot is older than their commits any more.
    pub(crate) fn seen_by_all(&self, segments: &[u64]) {
        if segments.is_empty() {
            return;
        }
        let mut kept = self.kept.write();
        for segment in segments {
            if let Some(cached) = kept.segments.get_mut(segment) {
                cached.csn = ANCIENT;
            }
        }
    }

    /// Returns the bytes that the copies take.
    pub(crate) fn bytes(&self) -> usize {
        self.kept.read().bytes
    }
}

impl Kept {
    /// Asserts what holds between two operations.
    fn assert_state(&self) {
        let (segments, bytes) = (self.segments.len(), self.bytes);
        debug_assert!(bytes >= segments * SEGMENT_BYTES, "{segments} copies take {bytes} bytes");
        debug_assert_eq!(segments == 0, bytes == 0, "{segments} copies take {bytes} bytes");
        debug_assert!(bytes <= BYTES_MAX || segments == 1, "{segments} copies take {bytes} bytes");
    }

    /// Removes any segment but `newest`, and the same one in every run of a schedule. The oldest
    /// segment would be the wrong choice while an old report reads old rows.
    fn remove_one(&mut self, newest: u64) {
        let (Some((&first, _)), Some((&last, _))) =
            (self.segments.first_key_value(), self.segments.last_key_value())
        else {
            return;
        };
        // A multiple of the golden ratio spreads consecutive segments evenly.
        let spread = newest.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let from = first + spread % (last - first + 1);
        let others = || self.segments.keys().copied().filter(|segment| *segment != newest);
        let after = self.segments.range(from..).map(|(segment, _)| *segment);
        let victim = after.take(2).find(|segment| *segment != newest).or_else(|| others().next());
        debug_assert_ne!(victim, Some(newest), "a new copy goes at once");
        if let Some(cached) = victim.and_then(|victim| self.segments.remove(&victim)) {
            self.bytes -= cached.bytes();
        }
    }
}

#[cfg(all(test, not(any(feature = "shuttle", feature = "loom"))))]
mod tests {
    use super::*;
    use crate::xact::segment::RUNNING;

    /// Returns states in which one transaction of every `every` has the state `other`.
    fn states(every: usize, other: u64) -> PackedStates {
        let mut states = PackedStates::new();
        for place in 0..XIDS_PER_SEGMENT as usize {
            states.set(place, if place % every == 1 { other } else { ANCIENT });
        }
        states
    }

    fn xid(segment: u64, place: u64) -> Xid {
        Xid(segment * XIDS_PER_SEGMENT + place)
    }

    #[test]
    fn a_copy_says_what_the_page_says() {
        let cache = StatusCache::default();
        assert_eq!(cache.state(xid(7, 0)), None);
        // Many aborted transactions, and few.
        for every in [3, 9] {
            cache.keep(7, states(every, ABORTED), 555);
            for place in 0..XIDS_PER_SEGMENT {
                let expected = if place as usize % every == 1 { ABORTED } else { 555 };
                assert_eq!(cache.state(xid(7, place)), Some(expected), "{place}");
            }
            // The page does not say how these ended, so the caller has to ask the page.
            cache.keep(7, states(every, RUNNING), 555);
            assert_eq!(cache.state(xid(7, 1)), None);
            assert_eq!(cache.state(xid(7, 2)), Some(555));
        }
        assert_eq!(cache.state(xid(8, 2)), None);
    }

    #[test]
    #[should_panic(expected = "0 copies take 80 bytes")]
    #[cfg(debug_assertions)]
    fn bytes_that_no_copy_takes_are_noticed() {
        Kept { bytes: SEGMENT_BYTES, ..Kept::default() }.assert_state();
    }

    #[test]
    fn memory_is_bounded_and_the_newest_stays() {
        let cache = StatusCache::default();
        // Half of all transactions aborted: thousands of bytes a segment.
        for segment in 0..2000 {
            cache.keep(segment, states(2, ABORTED), ANCIENT);
            assert!(cache.bytes() <= BYTES_MAX, "{}", cache.bytes());
            assert_eq!(cache.state(xid(segment, 1)), Some(ABORTED));
        }
        let mut kept = cache.kept.write();
        let counted: usize = kept.segments.values().map(CachedSegment::bytes).sum();
        assert_eq!(counted, kept.bytes);
        // Old segments and young ones are left.
        let left: Vec<u64> = kept.segments.keys().copied().collect();
        assert!(left.len() > 200 && left[left.len() / 2] < 1900, "{left:?}");
        kept.segments.clear();
        kept.bytes = 0;
        drop(kept);
        // Every transaction committed: no segment has to go.
        for segment in 0..2000 {
            cache.keep(segment, states(usize::MAX, ABORTED), ANCIENT);
        }
        assert_eq!(cache.kept.read().segments.len(), 2000);
    }
}
