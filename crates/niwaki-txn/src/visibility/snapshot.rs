//! Snapshots: a taker registers them in slots, and a collector of versions reads the slots.
//!
//! ```text
//! taker                         collector
//! slot := PENDING               C := published
//! fence                         fence
//! s := published                for each slot: spin past PENDING, read s
//! slot := s
//! ```
//!
//! If the collector misses the PENDING, the taker's read of `published` comes after the
//! collector's fence and gives s ≥ C. The collector removes nothing that ended after C. So it
//! removes nothing that such an s needs (rules `removable` and `snapshot-slot`).

use std::fmt;
use std::sync::Arc;

use niwaki_env::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use niwaki_env::sync::plain_atomic;
use niwaki_env::sync::{MODEL_CHECKED, Mutex, SCHEDULED, spin_loop, thread};
use niwaki_env::{invariant, seeded_bug};
use niwaki_storage::Csn;

use crate::error::{Error, Result};
use crate::options::limit;
use crate::visibility::command::CommandId;

/// Slot value: no snapshot.
const FREE: u64 = 0;
/// Slot value: a snapshot is being taken.
const PENDING: u64 = 1;
/// Bit of a slot value: the snapshot may follow update chains past the versions it sees
/// (rule `stub`).
const FOLLOWS: u64 = 1;
/// Looks of a collector at a PENDING slot before it offers the processor to the taker.
const PENDING_SPINS: u32 = 100;

/// One snapshot slot: a cache line of its own, and the neighbour that processors fetch with it.
/// Takers write their slot at every statement.
#[repr(align(128))]
#[derive(Debug)]
struct Slot {
    value: AtomicU64,
    /// For monitoring: the session, and the start of the statement that took the snapshot, in
    /// microseconds since 1970. Relaxed: nothing is ordered by them.
    owner: plain_atomic::AtomicI32,
    taken_us: plain_atomic::AtomicI64,
}

const _: () = assert!(FREE != PENDING, "a snapshot that is being taken looks like none");
const _: () = assert!(PENDING >> 1 == 0, "a snapshot looks like one that is being taken");
const _: () = assert!(
    SCHEDULED || MODEL_CHECKED || size_of::<Slot>() == 128,
    "a slot shares a cache line, or takes more than it needs"
);

impl Slot {
    fn free() -> Self {
        Self {
            value: AtomicU64::new(FREE),
            owner: plain_atomic::AtomicI32::new(0),
            taken_us: plain_atomic::AtomicI64::new(0),
        }
    }
}

/// All slots, and the number of the last published commit.
#[derive(Debug)]
pub(crate) struct SnapshotSlots {
    slots: Box<[Slot]>,
    /// Slots at or past this were never claimed.
    used: AtomicU32,
    free: Mutex<Vec<u32>>,
    published: Published,
}

/// The published CSN, on a cache line of its own: every statement reads it.
#[repr(align(128))]
#[derive(Debug)]
struct Published(AtomicU64);

const _: () = assert!(
    SCHEDULED || MODEL_CHECKED || size_of::<Published>() == 128,
    "the published CSN shares a cache line"
);

impl SnapshotSlots {
    /// Creates `capacity` free slots; published is `start`.
    pub(crate) fn new(capacity: usize, start: Csn) -> Arc<Self> {
        let capacity = capacity.min(limit(usize::MAX, 64, 4));
        Arc::new(Self {
            slots: (0..capacity).map(|_| Slot::free()).collect(),
            used: AtomicU32::new(0),
            free: Mutex::new(Vec::new()),
            published: Published(AtomicU64::new(start.0)),
        })
    }

    /// Returns the newest commit that is visible to new snapshots.
    #[inline]
    pub(crate) fn published(&self) -> Csn {
        // Acquire: pairs with the release in `publish`. A reader of this commit sees the states of
        // all transactions up to it.
        Csn(self.published.0.load(Ordering::Acquire))
    }

    /// Makes commits up to `csn` visible to new snapshots. The caller has stored their states
    /// already.
    pub(crate) fn publish(&self, csn: Csn) {
        invariant!(S1, csn.0 > 0, "a snapshot of no commit would look like none");
        invariant!(S1, csn.0 <= u64::MAX >> 1, "a slot has no room for the commit {csn}");
        // Release: pairs with the acquire in `published`.
        self.published.0.store(csn.0, Ordering::Release);
    }

    /// Takes a free slot for one registration.
    fn claim(&self) -> Result<u32> {
        if let Some(index) = self.free.lock().pop() {
            debug_assert!((index as usize) < self.slots.len(), "there is no slot {index}");
            return Ok(index);
        }
        let capacity = u32::try_from(self.slots.len()).unwrap_or(u32::MAX);
        // Relaxed: a collector that misses the new length also misses the PENDING that follows
        // it, and that case is safe.
        self.used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                (used < capacity).then_some(used + 1)
            })
            .map_err(|_| Error::OutOfMemory { what: "too many open snapshots" })
    }

    #[inline]
    fn slot(&self, index: u32) -> &AtomicU64 {
        &self.slots[index as usize].value
    }

    #[inline]
    fn take(&self, index: u32, follows: bool) -> Csn {
        let slot = self.slot(index);
        if !seeded_bug!("snapshot_without_pending") {
            slot.store(PENDING, Ordering::Relaxed);
        }
        // Pairs with the fence in `read_into`: either the collector sees PENDING, or the next load
        // sees at least the collector's C.
        fence(Ordering::SeqCst);
        let csn = self.published();
        let value = csn.0 << 1 | if follows { FOLLOWS } else { 0 };
        invariant!(G1, value != FREE && value != PENDING, "the snapshot {csn} would keep nothing");
        slot.store(value, Ordering::Release);
        csn
    }

    #[inline]
    fn release(&self, index: u32) {
        // Release: the owner's reads come before the collector that sees the slot free.
        self.slot(index).store(FREE, Ordering::Release);
    }

    /// Reads C, then the slots, into `horizon`.
    pub(crate) fn read_into(&self, horizon: &mut Horizon) {
        horizon.snapshots.clear();
        horizon.current = self.published();
        let mut oldest_following = horizon.current;
        self.each_registered(|_, csn, follows| {
            if follows {
                oldest_following = oldest_following.min(csn);
            }
            horizon.snapshots.push(csn);
        });
        if seeded_bug!("slots_before_published") {
            horizon.current = self.published();
        }
        horizon.snapshots.sort_and_dedup();
        horizon.oldest_following = oldest_following;
        horizon.assert_state();
    }

    /// Reads C, then every registered snapshot: session, CSN, whether it may follow update chains,
    /// start of its statement.
    pub(crate) fn registered(&self) -> (Csn, Vec<(i32, Csn, bool, i64)>) {
        let current = self.published();
        let mut found = Vec::new();
        self.each_registered(|slot, csn, follows| {
            let owner = slot.owner.load(Ordering::Relaxed);
            found.push((owner, csn, follows, slot.taken_us.load(Ordering::Relaxed)));
        });
        (current, found)
    }

    /// Visits the registered snapshots. The caller has read C before.
    #[inline]
    fn each_registered(&self, mut visit: impl FnMut(&Slot, Csn, bool)) {
        fence(Ordering::SeqCst);
        let used = self.used.load(Ordering::Relaxed) as usize;
        for slot in &self.slots[..used] {
            let mut spins = 0;
            // Ends: the taker stores a value three instructions after PENDING.
            let value = loop {
                // Acquire: pairs with the release of `take` and `release`.
                let value = slot.value.load(Ordering::Acquire);
                if value != PENDING {
                    break value;
                }
                spins += 1;
                if spins < PENDING_SPINS { spin_loop() } else { thread::yield_now() }
            };
            if value != FREE {
                visit(slot, Csn(value >> 1), value & FOLLOWS != 0);
            }
        }
    }
}

/// The snapshots that keep versions: the published CSN, read first, and every registered snapshot.
#[derive(Clone, Debug, Default)]
pub struct Horizon {
    current: Csn,
    /// Sorted, distinct.
    snapshots: CsnList,
    oldest_following: Csn,
    /// True if versions between two snapshots may go too.
    interval: bool,
}

impl Horizon {
    pub(crate) fn new(interval: bool) -> Self {
        Self { interval, ..Self::default() }
    }

    /// Asserts what holds after each reading of the slots.
    fn assert_state(&self) {
        let snapshots = self.snapshots.as_slice();
        invariant!(G1, snapshots.is_sorted_by(|a, b| a < b), "a search in {snapshots:?} fails");
        let following = self.oldest_following;
        invariant!(G1, following <= self.current, "a follower at {following} may need later links");
    }

    pub(crate) fn set_interval(&mut self, interval: bool) {
        self.interval = interval;
    }

    /// Returns whether a version that lived from commit `begin` to commit `end` can go. No
    /// registered snapshot may see the version, and no later one (rule `removable`). The caller
    /// checks whether the version's inserter aborted.
    #[inline]
    pub fn removable(&self, begin: Csn, end: Csn) -> bool {
        if end > self.current && !seeded_bug!("removable_without_published") {
            return false;
        }
        if seeded_bug!("removable_ignores_snapshots") {
            return true;
        }
        let first = if self.interval { begin } else { Csn(0) };
        let snapshots = self.snapshots.as_slice();
        let at = snapshots.partition_point(|&snapshot| snapshot < first);
        snapshots.get(at).is_none_or(|&snapshot| snapshot >= end)
    }

    /// Returns the oldest and the newest of the snapshots that keep a version which lived from
    /// commit `begin` to commit `end`. `None` when no snapshot keeps the version, or when it has
    /// not ended for all.
    pub fn keepers(&self, begin: Csn, end: Csn) -> Option<(Csn, Csn)> {
        let first = if self.interval { begin } else { Csn(0) };
        let snapshots = self.snapshots.as_slice();
        let from = snapshots.partition_point(|&snapshot| snapshot < first);
        let to = snapshots.partition_point(|&snapshot| snapshot < end);
        let keepers = snapshots.get(from..to)?;
        (end <= self.current).then_some((*keepers.first()?, *keepers.last()?))
    }

    /// Returns whether every snapshot, present and future, is either before `begin`, or at `end` or
    /// later.
    pub(crate) fn none_between(&self, begin: Csn, end: Csn) -> bool {
        let snapshots = self.snapshots.as_slice();
        let at = snapshots.partition_point(|&snapshot| snapshot < begin);
        end <= self.current && snapshots.get(at).is_none_or(|&snapshot| snapshot >= end)
    }

    /// Returns the oldest registered snapshot, or C without one. All snapshots, present and future,
    /// see the commits at or before it.
    #[inline]
    pub fn oldest(&self) -> Csn {
        self.snapshots.as_slice().first().map_or(self.current, |&first| first.min(self.current))
    }

    /// Returns the oldest snapshot that may follow update chains, or C without one. Stubs wait for
    /// that snapshot (rule `stub`).
    #[inline]
    pub fn oldest_following(&self) -> Csn {
        self.oldest_following
    }

    /// Returns C: the published CSN, read before the slots.
    #[inline]
    pub fn current(&self) -> Csn {
        self.current
    }

    /// Returns the registered snapshots, sorted and distinct.
    pub fn snapshots(&self) -> &[Csn] {
        self.snapshots.as_slice()
    }
}

/// Snapshots that a [`CsnList`] holds without an allocation.
const INLINE_SNAPSHOTS: usize = 8;

/// A list of CSNs that is short in most cases: every index scan makes one.
#[derive(Clone, Debug, Default)]
struct CsnList {
    inline: [Csn; INLINE_SNAPSHOTS],
    inline_used: usize,
    /// All CSNs of the list, once they are too many for `inline`.
    many: Vec<Csn>,
}

impl CsnList {
    fn clear(&mut self) {
        self.inline_used = 0;
        self.many.clear();
    }

    fn push(&mut self, csn: Csn) {
        if self.many.is_empty() && self.inline_used < INLINE_SNAPSHOTS {
            self.inline[self.inline_used] = csn;
            self.inline_used += 1;
            return;
        }
        if self.many.is_empty() {
            debug_assert_eq!(self.inline_used, INLINE_SNAPSHOTS, "an unused place is a snapshot");
            self.many.extend_from_slice(&self.inline);
        }
        self.many.push(csn);
    }

    /// Sorts the list and removes duplicates.
    fn sort_and_dedup(&mut self) {
        if self.many.is_empty() {
            let used = &mut self.inline[..self.inline_used];
            used.sort_unstable();
            let mut kept = 0;
            for at in 0..used.len() {
                if at == 0 || used[at] != used[kept - 1] {
                    used[kept] = used[at];
                    kept += 1;
                }
            }
            self.inline_used = kept;
        } else {
            self.many.sort_unstable();
            self.many.dedup();
        }
    }

    #[inline]
    fn as_slice(&self) -> &[Csn] {
        if self.many.is_empty() { &self.inline[..self.inline_used] } else { &self.many }
    }
}

/// One slot and the number of snapshot handles that share it. Its session writes it at every
/// statement, so it shares no cache line with another session's.
#[repr(align(128))]
pub(crate) struct Registration {
    slots: Arc<SnapshotSlots>,
    index: u32,
    /// 0: unused. Otherwise one more than the handles alive. The last handle frees the slot before
    /// the count falls to 0, so that the next user's snapshot is not wiped.
    handles: AtomicU32,
}

impl Registration {
    pub(crate) fn new(slots: &Arc<SnapshotSlots>) -> Result<Arc<Self>> {
        let index = slots.claim()?;
        Ok(Arc::new(Self { slots: Arc::clone(slots), index, handles: AtomicU32::new(0) }))
    }

    /// Takes a snapshot in the slot of `home` when no handle uses that slot, else in a new one.
    #[inline]
    pub(crate) fn take(home: &Arc<Self>, follows: bool, command: CommandId) -> Result<Snapshot> {
        // Acquire: pairs with the release of the last handle's drop, which may be elsewhere.
        if home.handles.load(Ordering::Acquire) != 0 {
            let fresh = Self::new(&home.slots)?;
            invariant!(G1, fresh.index != home.index, "two snapshots share slot {}", home.index);
            fresh.belongs_to(home.place().owner.load(Ordering::Relaxed));
            return Ok(Self::fill(fresh, follows, command));
        }
        Ok(Self::fill(Arc::clone(home), follows, command))
    }

    #[inline]
    fn fill(registration: Arc<Self>, follows: bool, command: CommandId) -> Snapshot {
        // Relaxed: no other thread has a handle.
        registration.handles.store(2, Ordering::Relaxed);
        let csn = registration.slots.take(registration.index, follows);
        Snapshot { csn, command, follows, registration }
    }

    fn place(&self) -> &Slot {
        &self.slots.slots[self.index as usize]
    }

    /// Stores the session that owns the slot.
    pub(crate) fn belongs_to(&self, session: i32) {
        self.place().owner.store(session, Ordering::Relaxed);
    }

    /// Returns the snapshot in the slot now, if any (introspection).
    pub(crate) fn current(&self) -> Option<Csn> {
        match self.slots.slot(self.index).load(Ordering::Relaxed) {
            FREE | PENDING => None,
            value => Some(Csn(value >> 1)),
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.slots.release(self.index);
        let mut free = self.slots.free.lock();
        debug_assert!(free.len() < self.slots.slots.len(), "slot {} is free twice", self.index);
        free.push(self.index);
    }
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration").field("index", &self.index).finish_non_exhaustive()
    }
}

/// A position in the order of commits. While a handle lives, the versions it sees are not removed.
/// Cloning shares the slot (rule `snapshot-slot`).
#[derive(Debug)]
pub struct Snapshot {
    csn: Csn,
    command: CommandId,
    follows: bool,
    registration: Arc<Registration>,
}

impl Snapshot {
    /// Returns the CSN: the snapshot sees commits up to this one.
    #[inline]
    pub fn csn(&self) -> Csn {
        self.csn
    }

    /// Returns the current command: the snapshot sees own changes of earlier commands only.
    #[inline]
    pub fn command(&self) -> CommandId {
        self.command
    }

    /// Returns whether the snapshot is registered as one that may follow update chains
    /// (rule `stub`).
    #[inline]
    pub fn may_follow(&self) -> bool {
        self.follows
    }

    /// Stores the start of the statement that took the snapshot, in microseconds since 1970.
    #[inline]
    pub(crate) fn taken_at(&self, unix_us: i64) {
        self.registration.place().taken_us.store(unix_us, Ordering::Relaxed);
    }

    /// Returns the same snapshot at a later command of its transaction.
    #[must_use]
    pub fn at_command(&self, command: CommandId) -> Self {
        invariant!(S1, command >= self.command, "{command:?} is before {:?}", self.command);
        let mut later = self.clone();
        later.command = command;
        later
    }
}

impl Clone for Snapshot {
    fn clone(&self) -> Self {
        // Relaxed: this handle keeps the count above zero meanwhile.
        let before = self.registration.handles.fetch_add(1, Ordering::Relaxed);
        debug_assert!(before >= 2, "a handle is cloned after the last one has gone");
        Self { registration: Arc::clone(&self.registration), ..*self }
    }
}

impl Drop for Snapshot {
    #[inline]
    fn drop(&mut self) {
        // AcqRel: the last handle sees that the others are done before it frees the slot.
        let before = self.registration.handles.fetch_sub(1, Ordering::AcqRel);
        debug_assert!(before >= 2, "the slot of a snapshot was free while a handle was alive");
        if before == 2 {
            self.registration.slots.release(self.registration.index);
            // Release: pairs with the acquire in `take`.
            self.registration.handles.store(0, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "G1: a search in [Csn(7), Csn(5)] fails")]
    #[cfg(debug_assertions)]
    fn a_horizon_out_of_order_is_noticed() {
        let mut snapshots = CsnList::default();
        [Csn(7), Csn(5)].into_iter().for_each(|csn| snapshots.push(csn));
        let horizon = Horizon { current: Csn(9), snapshots, ..Horizon::new(true) };
        horizon.assert_state();
    }

    #[test]
    fn a_list_of_any_length_is_sorted_and_distinct() {
        let mut list = CsnList::default();
        for length in [0, 1, 2, 7, 8, 9, 30, 3] {
            let numbers: Vec<_> = (0..length).map(|at| Csn(at * 7 % 11 / 2)).collect();
            list.clear();
            numbers.iter().for_each(|csn| list.push(*csn));
            list.sort_and_dedup();
            let mut expected = numbers;
            expected.sort_unstable();
            expected.dedup();
            assert_eq!(list.as_slice(), expected, "of {length}");
        }
    }
}
