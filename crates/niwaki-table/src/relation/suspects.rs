//! Suspects: stale-entry candidates of one index, gathered until a visit to its leaves pays off.
//!
//! ```text
//! keys       a .. c    c .. f    f .. h    h .. n    n .. q    q .. s    s .. w    w .. z
//! gathered   ..        :::..     :::::..   :::::::.. .         .:        .:::      .:::..
//!            since the last turn of each part: together one PART-th of the bytes of the index
//!                                          │ the next in turn: sorted
//!                                          ▼
//! due                                   (h2, root) (h2, root) (k7, root) …   taken from the front
//! ```
//!
//! Sorted suspects lie leaf by leaf: several share one descent, one latching of the leaf and one
//! log record. The price is that the entries stay a little longer, so the index has that many more
//! entries than it needs.
//!
//! Turns part by part halve that price. A leaf has no waiting suspects just after its turn, and the
//! most just before it. So the waiting suspects are half of those that visits find.
//!
//! The suspects are in memory, bounded, and may be lost at any time, as the queue before them
//! (niwaki-heap's `removed.rs`).

use std::ops::Range;
use std::sync::Arc;

use niwaki_env::SIMULATED;
use niwaki_env::sometimes;
use niwaki_env::sync::Mutex;
use niwaki_heap::{RecordId, RootChangeCount};
use niwaki_storage::Tid;

/// The bytes of waiting suspects, as one part in `PART` of the bytes of the index. A suspect weighs
/// a little more than an entry.
const PART: u64 = 36;
/// The same as [`PART`], where most suspects come from versions that left entries in several
/// indexes. A writer that changes a row handles that many suspects for it, so more of them should
/// share a visit. Rows that moved do not count: updates move a row now and then, and leave some
/// entries in each index.
const PART_OF_SEVERAL: u64 = 12;
/// The most bytes of gathered suspects of one index. Later ones are forgotten.
const BYTES_MAX: usize = 4 << 20;
/// The bytes of suspects that are enough for a visit, however large the index is.
const ENOUGH_BYTES: u64 = BYTES_MAX as u64 * 3 / 8;
/// The number of parts into which the keys are cut, each with about as many suspects.
const TURNS: usize = 8;
/// The least number of suspects from which the cuts are computed.
const CUT_MIN: usize = if SIMULATED { 16 } else { 512 };
/// The most suspects handed out at once. This limits the work that one write does for others.
const TAKEN: usize = 64;

/// The first bytes of a key, which are compared as a number.
const WORD: u16 = 8;

const _: () = assert!(WORD as usize == size_of::<u64>());
const _: () = assert!(PART_OF_SEVERAL < PART);
// Visits begin before optional producers of suspects have to wait.
const _: () = assert!(ENOUGH_BYTES < BYTES_MAX as u64 / 2);
// Positions of keys have 32 bits, also where due suspects are gathered once more.
const _: () = assert!(BYTES_MAX <= u32::MAX as usize / 4);
// Each part of a cut has a suspect.
const _: () = assert!(TURNS <= CUT_MIN);
const _: () = assert!(TURNS > 0);
const _: () = assert!(TAKEN > 0);

/// Facts about the chain root of an entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) root: Tid,
    /// The root's record in the clean-up ledger, which counts the entry.
    pub(crate) record: Option<RecordId>,
    /// The root's change counter when a pass found that no version in the chain has the key. The
    /// finding holds as long as no other version came to the root.
    pub(crate) root_change_count: Option<RootChangeCount>,
}

/// An entry that may be stale.
#[derive(Clone, Copy, Debug)]
struct Suspect {
    /// The beginning of the key, as a number. It distinguishes most keys.
    word: u64,
    found: Found,
    /// The position of the key in the bytes of its list, and the key's length.
    at: u32,
    len: u16,
    /// True when the version left entries in other indexes, too.
    several: bool,
}

/// A list of suspects, with their keys one behind the other.
#[derive(Debug, Default)]
struct List {
    suspects: Vec<Suspect>,
    keys: Vec<u8>,
    /// The number of suspects whose version left entries in other indexes, too.
    several: usize,
}

/// Returns the beginning of a key as a number, which distinguishes most keys.
fn word(key: &[u8]) -> u64 {
    let mut word = [0; WORD as usize];
    let begin = key.len().min(word.len());
    word[..begin].copy_from_slice(&key[..begin]);
    u64::from_be_bytes(word)
}

impl List {
    fn key(&self, suspect: &Suspect) -> &[u8] {
        &self.keys[suspect.at as usize..][..usize::from(suspect.len)]
    }

    fn push(&mut self, key: &[u8], found: Found, several: bool) {
        debug_assert!(u32::try_from(self.keys.len()).is_ok(), "the keys of a list are too long");
        let (at, len) = (self.keys.len() as u32, key.len() as u16);
        self.suspects.push(Suspect { word: word(key), found, at, len, several });
        self.keys.extend_from_slice(key);
        self.several += usize::from(several);
        debug_assert!(self.several <= self.suspects.len(), "{} are of several", self.several);
    }

    fn append(&mut self, other: &Self) {
        for its in &other.suspects {
            self.push(other.key(its), its.found, its.several);
        }
    }

    /// Returns the positions of the suspects, in the order of the index.
    fn order(&self) -> Vec<u32> {
        // Moving sixteen bytes is faster than moving a suspect.
        let mut order: Vec<(u64, u32)> = self.suspects.iter().map(|it| it.word).zip(0..).collect();
        order.sort_unstable_by_key(|&(word, _)| word);
        // Short keys are padded with zeros, so unequal words order as the keys do.
        for alike in order.chunk_by_mut(|a, b| a.0 == b.0) {
            alike.sort_unstable_by(|&(_, a), &(_, b)| {
                let (a, b) = (&self.suspects[a as usize], &self.suspects[b as usize]);
                // Words and lengths fully determine short keys, so their bytes are not fetched.
                let keys = if a.len.max(b.len) <= WORD {
                    a.len.cmp(&b.len)
                } else {
                    self.key(a).cmp(self.key(b))
                };
                keys.then(a.found.root.cmp(&b.found.root))
            });
        }
        debug_assert_eq!(order.len(), self.suspects.len(), "each suspect has one place");
        order.into_iter().map(|(_, at)| at).collect()
    }

    /// Returns the same memory, emptied.
    fn cleared(mut self) -> Self {
        self.suspects.clear();
        self.keys.clear();
        self.several = 0;
        self
    }

    fn bytes(&self) -> usize {
        size_of_val(self.suspects.as_slice()) + self.keys.len()
    }
}

/// Suspects in the order of the index. `list` stays as it was gathered.
#[derive(Debug, Default)]
struct Sorted {
    list: List,
    order: Vec<u32>,
}

/// The beginning of a part of the keys.
#[derive(Debug)]
struct Bound {
    word: u64,
    key: Box<[u8]>,
    root: Tid,
}

/// The gathered suspects, part by part.
#[derive(Debug)]
struct Gathered {
    parts: Vec<List>,
    /// The beginnings of the parts behind the first.
    bounds: Vec<Bound>,
    /// The part whose turn is next.
    next: usize,
    bytes: usize,
}

impl Default for Gathered {
    fn default() -> Self {
        Self { parts: vec![List::default()], bounds: Vec::new(), next: 0, bytes: 0 }
    }
}

impl Gathered {
    /// Asserts what holds between two calls: the parts, their bounds and their bytes agree.
    fn assert_state(&self) {
        debug_assert_eq!(self.parts.len(), self.bounds.len() + 1, "a bound between two parts");
        debug_assert!(self.next < self.parts.len(), "part {} does not exist", self.next);
        debug_assert!(self.parts.len() == 1 || self.parts.len() == TURNS, "parts that wait");
        debug_assert_eq!(self.bytes, self.parts.iter().map(List::bytes).sum::<usize>(), "bytes");
        debug_assert!(
            self.bounds.is_sorted_by(|a, b| (a.word, &a.key, a.root) <= (b.word, &b.key, b.root)),
            "the parts are not in the order of their keys",
        );
    }

    fn len(&self) -> usize {
        self.parts.iter().map(|part| part.suspects.len()).sum()
    }

    fn push(&mut self, key: &[u8], found: Found, several: bool) {
        let its = (word(key), key, found.root);
        let at = self.bounds.partition_point(|it| (it.word, &*it.key, it.root) <= its);
        self.parts[at].push(key, found, several);
        self.bytes += size_of::<Suspect>() + key.len();
        self.assert_state();
    }

    /// Adds each suspect of `list` to the part it belongs to.
    fn append(&mut self, list: &List) {
        for its in &list.suspects {
            self.push(list.key(its), its.found, its.several);
        }
    }

    /// Takes the part whose turn it is, and leaves `empty` in its place. If that part has most of
    /// the suspects, takes all suspects. One part is left then, so that the cuts are computed anew.
    fn take(&mut self, empty: List) -> List {
        debug_assert!(self.bytes > 0, "nothing is gathered");
        debug_assert_eq!(empty.bytes(), 0, "suspects are in the list that takes the place");
        let count = self.parts.len();
        let mut turns = (self.next..count).chain(0..self.next);
        let at = turns.find(|&at| !self.parts[at].suspects.is_empty()).unwrap_or(0);
        self.next = (at + 1) % count;
        if self.parts[at].suspects.len() <= self.len() / 2 {
            let list = std::mem::replace(&mut self.parts[at], empty);
            debug_assert!(!list.suspects.is_empty(), "the part whose turn it is has no suspects");
            self.bytes -= list.bytes();
            self.assert_state();
            return list;
        }
        let mut parts = std::mem::take(self).parts;
        self.parts[0] = empty;
        let mut all = parts.swap_remove(at);
        parts.iter().for_each(|part| all.append(part));
        debug_assert!(!all.suspects.is_empty(), "the part whose turn it is has no suspects");
        self.assert_state();
        all
    }

    /// Cuts the keys into parts with about as many of the sorted suspects each, if there is one
    /// part only.
    fn cut(&mut self, Sorted { list, order }: &Sorted) {
        debug_assert_eq!(list.suspects.len(), order.len(), "each suspect has one place");
        if order.len() < CUT_MIN || self.parts.len() > 1 {
            return;
        }
        let bounds = (1..TURNS).map(|turn| {
            let its = &list.suspects[order[turn * order.len() / TURNS] as usize];
            Bound { word: its.word, key: list.key(its).into(), root: its.found.root }
        });
        self.bounds = bounds.collect();
        // The suspects that came during the sorting are in one part.
        let come = std::mem::take(&mut self.parts);
        self.parts.resize_with(TURNS, List::default);
        self.bytes = 0;
        come.iter().for_each(|list| self.append(list));
        self.assert_state();
    }
}

#[derive(Debug, Default)]
struct Lists {
    gathered: Gathered,
    /// The first `taken` suspects are handed out, and are read in place.
    due: Arc<Sorted>,
    taken: usize,
}

impl Lists {
    /// Asserts what holds whenever the lock is free: no more suspects are handed out than are due.
    fn assert_state(&self) {
        let Sorted { list, order } = &*self.due;
        debug_assert!(self.taken <= order.len(), "{} of {} are taken", self.taken, order.len());
        debug_assert_eq!(list.suspects.len(), order.len(), "each due suspect has one place");
    }
}

/// Suspects of one index.
#[derive(Debug, Default)]
pub(crate) struct Suspects(Mutex<Lists>);

/// Suspects that were handed out, in the order of the index.
#[derive(Debug)]
pub(crate) struct Taken {
    due: Arc<Sorted>,
    these: Range<usize>,
}

impl Suspects {
    /// Adds a suspect. Returns false when there is no room, so that the suspect is forgotten.
    /// `several`: its version left entries in other indexes, too.
    pub(crate) fn push(&self, key: &[u8], found: Found, several: bool) -> bool {
        let mut lists = self.0.lock();
        if SIMULATED && sometimes!(1, 64) {
            // Simulations lose all suspects at times, as may happen at any time.
            *lists = Lists::default();
        }
        let room = lists.gathered.bytes + size_of::<Suspect>() + key.len() <= BYTES_MAX;
        if room {
            lists.gathered.push(key, found, several);
            debug_assert!(lists.gathered.bytes <= BYTES_MAX, "more is gathered than there is room");
        }
        room
    }

    /// Returns true when the gathered suspects take half of their room.
    pub(crate) fn is_half_full(&self) -> bool {
        self.0.lock().gathered.bytes > BYTES_MAX / 2
    }

    /// Returns the number of waiting suspects.
    pub(crate) fn waiting(&self) -> usize {
        let lists = self.0.lock();
        lists.assert_state();
        lists.gathered.len() + lists.due.order.len() - lists.taken
    }

    /// Forgets all suspects.
    pub(crate) fn lose(&self) {
        *self.0.lock() = Lists::default();
    }

    /// Hands out some of the due suspects. When none is due, first makes a part of the gathered
    /// ones due, if they are many for an index of `index_bytes` bytes.
    pub(crate) fn take(&self, index_bytes: u64) -> Option<Taken> {
        let mut lists = self.0.lock();
        lists.assert_state();
        if lists.taken == lists.due.order.len() {
            let gathered = &lists.gathered;
            let several: usize = gathered.parts.iter().map(|part| part.several).sum();
            let mostly = several > gathered.len() / 2;
            let part = if mostly { PART_OF_SEVERAL } else { PART };
            let ripe = (index_bytes / part).min(ENOUGH_BYTES);
            if gathered.bytes == 0 || (gathered.bytes as u64) < ripe && !SIMULATED {
                return None;
            }
            // A caller that still holds some of the last suspects keeps their memory.
            let emptied = Arc::try_unwrap(std::mem::take(&mut lists.due));
            let emptied = emptied.map_or_else(|_| List::default(), |due| due.list.cleared());
            let list = lists.gathered.take(emptied);
            lists.taken = 0;
            // Passes wait for this lock with a page latched, so the sorting is done without it.
            drop(lists);
            let order = list.order();
            let sorted = Sorted { list, order };
            lists = self.0.lock();
            lists.gathered.cut(&sorted);
            if lists.taken < lists.due.order.len() {
                // Another thread was faster: these suspects are gathered once more.
                lists.gathered.append(&sorted.list);
            } else {
                lists.due = Arc::new(sorted);
                lists.taken = 0;
            }
        }
        let begin = lists.taken;
        lists.taken = lists.due.order.len().min(begin + TAKEN);
        lists.assert_state();
        debug_assert!(begin < lists.taken, "no suspect is handed out, and some were due");
        debug_assert!(lists.taken - begin <= TAKEN, "a writer gets more than its share");
        Some(Taken { due: Arc::clone(&lists.due), these: begin..lists.taken })
    }
}

impl Taken {
    /// Returns the number of suspects.
    pub(crate) fn len(&self) -> usize {
        self.these.len()
    }

    /// Returns the key bytes of each suspect and the facts about its root, ascending by key and
    /// root.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], Found)> {
        let Sorted { list, order } = &*self.due;
        let these = order[self.these.clone()].iter().map(|at| &list.suspects[*at as usize]);
        these.map(|it| (list.key(it), it.found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(block: u32) -> Found {
        Found { root: Tid::new(block, 1), record: None, root_change_count: None }
    }

    #[test]
    fn they_come_sorted_once_there_are_enough() {
        // The keys differ in their words, or behind them. Some are equal.
        for prefix in [0, 3, 7, 20] {
            let suspects = Suspects::default();
            let key = |n: u16| {
                let mut key = vec![7; prefix];
                key.extend((n / 2).wrapping_mul(7919).to_be_bytes());
                // Zeros at the end of a key do not show in its word.
                key.resize(key.len() + usize::from(n / 4 % 3), 0);
                key
            };
            for n in 0..300 {
                assert!(suspects.push(&key(n), at(u32::from(n)), false));
            }
            assert!(suspects.take(1 << 20).is_none(), "few for such an index");
            let mut met = Vec::new();
            while let Some(taken) = suspects.take(if met.is_empty() { 8192 } else { 1 << 20 }) {
                met.extend(taken.iter().map(|(key, found)| (key.to_vec(), found.root)));
            }
            let mut all: Vec<_> = (0..300).map(|n| (key(n), Tid::new(n.into(), 1))).collect();
            all.sort();
            assert_eq!(met, all);
        }
    }

    #[test]
    fn more_is_gathered_where_versions_leave_several() {
        // `of_several` is the number of the hundred suspects whose version left entries in other
        // indexes, too.
        let is_due = |of_several: u32| {
            let suspects = Suspects::default();
            for n in 0..100 {
                assert!(suspects.push(&[7; 8], at(n), n < of_several));
            }
            let bytes = suspects.0.lock().gathered.bytes as u64;
            let between = bytes * (PART + PART_OF_SEVERAL) / 2;
            suspects.take(between).is_some()
        };
        assert!(is_due(0) && is_due(50));
        assert!(!is_due(51) && !is_due(100));
    }

    /// Adds `steps` suspects with keys from `next`, all below `keys`, to one index, with visits as
    /// they are due. Returns the average number of waiting suspects, and the average number that a
    /// visit found in each hundredth of the keys.
    fn come_and_go(
        steps: u32,
        index_bytes: u64,
        next: impl Fn(u32) -> u32,
        keys: u32,
    ) -> (f64, f64) {
        let suspects = Suspects::default();
        let (mut waited, mut visited, mut leaves) = (0, 0, 0);
        for step in 0..steps {
            assert!(suspects.push(&next(step).to_be_bytes(), at(step), false));
            if step % 16 == 0
                && let Some(taken) = suspects.take(index_bytes)
            {
                let its = taken.iter().map(|(key, _)| u32::from_be_bytes(key.try_into().unwrap()));
                let mut its: Vec<_> =
                    its.map(|key| u64::from(key) * 100 / u64::from(keys)).collect();
                assert!(its.is_sorted());
                visited += its.len();
                its.dedup();
                leaves += its.len();
            }
            waited += suspects.waiting();
        }
        (waited as f64 / f64::from(steps), visited as f64 / leaves as f64)
    }

    #[test]
    fn visits_find_more_than_waits_for_them() {
        let keys = 1 << 20;
        let index_bytes = 4096 * PART * (size_of::<Suspect>() as u64 + 4);
        let anywhere = |step: u32| step.wrapping_mul(2_654_435_761) % keys;
        let (waiting, found) = come_and_go(400_000, index_bytes, anywhere, keys);
        assert!((3500.0..4300.0).contains(&waiting), "{waiting} wait");
        // Pieces of 64 cut leaves. Without that, it would be 41 if all parts were visited at once,
        // and 73 in turn.
        assert!(found > 28.0, "{found} a leaf");
        // When all keys come at one moving end, the result is as with one part.
        let (waiting, _) = come_and_go(400_000, index_bytes, |step| step, 400_000);
        assert!(waiting < 8500.0, "{waiting} wait");
        // Equal keys are distinguished by their roots.
        let (waiting, _) = come_and_go(400_000, index_bytes, |_| 7, keys);
        assert!(waiting < 8500.0, "{waiting} wait");
    }

    #[test]
    fn nothing_is_lost_by_cutting() {
        let suspects = Suspects::default();
        let index_bytes = 1000 * PART * size_of::<Suspect>() as u64;
        let mut met = Vec::new();
        let mut visit = |bytes| {
            let taken = suspects.take(bytes)?;
            met.extend(taken.iter().map(|(_, found)| found.root));
            Some(())
        };
        for step in 0..100_000_u32 {
            // The range of the new keys changes all the time.
            let key = step.wrapping_mul(2_654_435_761) >> (step / 10_000);
            assert!(suspects.push(&key.to_be_bytes(), at(step), false));
            if step % 32 == 0 {
                visit(index_bytes);
            }
        }
        while visit(0).is_some() {}
        met.sort();
        assert!(met.iter().copied().eq((0..100_000).map(|step| Tid::new(step, 1))));
    }

    #[test]
    fn what_is_too_much_is_forgotten() {
        let suspects = Suspects::default();
        let key = [7; 1000];
        let many = 2 * BYTES_MAX / key.len();
        let kept = (0..many as u32).filter(|&n| suspects.push(&key, at(n), false)).count();
        assert_eq!(suspects.waiting(), kept);
        let room = BYTES_MAX / key.len();
        assert!((room * 9 / 10..room).contains(&kept), "{kept} of {room}");
        let mut met = 0;
        while let Some(taken) = suspects.take(0) {
            met += taken.iter().count();
        }
        assert_eq!(met, kept);
        assert!(suspects.push(&key, at(1), false), "there is room again");
    }

    #[test]
    #[should_panic(expected = "a bound between two parts")]
    #[cfg(debug_assertions)]
    fn parts_without_bounds_are_noticed() {
        let parts = (0..TURNS).map(|_| List::default()).collect();
        Gathered { parts, ..Gathered::default() }.assert_state();
    }

    #[test]
    #[should_panic(expected = "1 of 0 are taken")]
    #[cfg(debug_assertions)]
    fn more_taken_than_due_is_noticed() {
        Lists { taken: 1, ..Lists::default() }.assert_state();
    }
}
