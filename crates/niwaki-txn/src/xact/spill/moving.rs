//! Moves of segments: from frames to the file, and out of it.
//!
//! A segment stands in its new place before it leaves the old one.

use std::sync::Arc;

use niwaki_env::sync::atomic::{AtomicU64, Ordering};
use niwaki_storage::{Storage, Xid};

use crate::error::Result;
use crate::xact::directory::XactStates;
use crate::xact::segment::{RUNNING, Summary, place_of, segment_of};
use crate::xact::spill::{OPEN_MAX, Slot, SpillFile, SpilledSegment};
use crate::xact::status_page::PackedStates;

impl XactStates {
    /// Closes the file, if there is one. States that are in the file alone cannot be read from now
    /// on.
    pub(crate) fn close_file(&self) {
        if let Some(file) = self.spilled.file.get() {
            *file.file.write() = None;
        }
    }

    /// Does the same as [`Spilled::state`](super::Spilled::state).
    pub(crate) fn spilled_state(&self, xid: Xid) -> Option<Result<u64>> {
        self.spilled.state(xid)
    }

    /// Returns the segments in the file, ascending.
    pub(crate) fn spilled(&self) -> Vec<(u64, Arc<SpilledSegment>)> {
        self.spilled.all()
    }

    /// Does the same as [`Spilled::pack_written`](super::Spilled::pack_written).
    pub(crate) fn pack_written(&self, segment: &SpilledSegment) -> Result<PackedStates> {
        self.spilled.pack_written(segment)
    }

    /// Writes the states of a segment in memory to the file; `None` when too many of its
    /// transactions run. Only one thread at a time moves segments.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(crate) fn write_segment(
        &self,
        storage: &Storage,
        number: u64,
    ) -> Result<Option<SpilledSegment>> {
        let frame = self.segment(number).unwrap_or_default();
        let states: Vec<u64> = frame.iter().map(|state| state.load(Ordering::Acquire)).collect();
        debug_assert!(!states.is_empty(), "segment {number} is not in a frame");
        let open = || (0..).zip(&states).filter(|(_, state)| **state == RUNNING);
        if open().count() > OPEN_MAX {
            return Ok(None);
        }
        let mut summary = Summary::default();
        states.iter().for_each(|state| summary.add(*state));
        let spilled = SpilledSegment {
            number,
            slot: Slot::take(&self.spilled.slots),
            commits: summary.commits,
            open: open().map(|(place, _)| (place, AtomicU64::new(RUNNING))).collect(),
        };
        spilled.assert_state();
        let file = if let Some(file) = self.spilled.file.get() {
            file
        } else {
            let opened = SpillFile::open(storage)?;
            self.spilled.file.get_or_init(|| opened)
        };
        file.write(&spilled, &states)?;
        Ok(Some(spilled))
    }

    /// Moves a written segment to the file: from now on readers find its states there. The caller
    /// keeps other threads from storing a state meanwhile.
    pub(crate) fn move_to_file(&self, spilled: SpilledSegment) {
        spilled.assert_state();
        let number = spilled.number;
        let frame = self.segment(number).expect("it is in memory until now");
        for (place, state) in &spilled.open {
            // The transaction may have ended since the segment was written.
            state.store(frame[*place].load(Ordering::Acquire), Ordering::Release);
        }
        let before = self.spilled.segments.write().insert(number, Arc::new(spilled));
        debug_assert!(before.is_none(), "segment {number} is spilled for the second time");
        // Release: readers look at the frame's entry first, and its store below is a release, too.
        self.spilled.count.fetch_add(1, Ordering::Release);
        self.close_segment(number);
    }

    /// Stores the state of a transaction that ran when its segment was spilled.
    pub(crate) fn store_spilled(&self, xid: Xid, state: u64) {
        debug_assert_ne!(state, RUNNING, "{xid} ends and still runs");
        let segment = self.spilled.find(segment_of(xid));
        let segment = segment.expect("a segment with a running transaction is not shrunk");
        let open = segment.open(place_of(xid)).expect("what ran is kept in memory");
        // Release: pairs with the acquire in `state`.
        open.store(state, Ordering::Release);
    }

    /// Returns a summary of a segment that is not shrunk, and an empty one for a shrunk segment. If
    /// the segment moves meanwhile, ended transactions may count as running.
    pub(crate) fn summarize(&self, number: u64) -> Summary {
        let mut summary = Summary::default();
        // The segment moves in this order: it is not missed.
        if let Some(states) = self.segment(number) {
            states.iter().for_each(|state| summary.add(state.load(Ordering::Acquire)));
        } else if let Some(spilled) = self.spilled.find(number) {
            summary = spilled.summary();
        }
        summary
    }

    /// Returns the states of a segment that is not shrunk, in two bits each.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub(crate) fn pack(&self, number: u64) -> Result<PackedStates> {
        if let Some(spilled) = self.spilled.find(number) {
            let mut packed = self.spilled.pack_written(&spilled)?;
            spilled.pack_ends(&mut packed);
            return Ok(packed);
        }
        let mut packed = PackedStates::new();
        for (at, state) in self.segment(number).unwrap_or_default().iter().enumerate() {
            packed.set(at, state.load(Ordering::Acquire));
        }
        Ok(packed)
    }

    /// Forgets a segment whose states are on their status page.
    ///
    /// # Errors
    /// When the file cannot be emptied.
    pub(crate) fn forget(&self, number: u64) -> Result<()> {
        self.close_segment(number);
        self.spilled.forget(number)
    }
}
