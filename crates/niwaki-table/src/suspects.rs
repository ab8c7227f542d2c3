//! Entries of one index that may be stale, gathered until visiting them is worth it.
//!
//! ```text
//! keys       a .. c      c .. f      f .. h      h .. n      n .. q      q .. s      s .. w      w .. z
//! gathered   ..          :::..       :::::..     :::::::..   .           .:          .:::        .:::..
//!            since the last turn of each part: as a whole, as many bytes as the index has in so many of its entries
//!                                                   │ the next in turn: sorted
//!                                                   ▼
//! due                                            (h2, root) (h2, root) (k7, root) …   taken from the front, piece by piece
//! ```
//!
//! Sorted they lie leaf by leaf: several share one descent, one hold of the latch and one record. What it costs is
//! that they stay a little longer: an index has that many more entries than it needs. Going round part by part halves
//! that: a leaf has nothing waiting just after its turn, and all that it shall have just before, so what waits as a whole is half
//! of what visits find.
//!
//! In memory, bounded, and may be lost at any time, as the queue before it (niwaki-heap's `removed.rs`).

use std::ops::Range;
use std::sync::Arc;

use niwaki_env::SIMULATED;
use niwaki_env::sometimes;
use niwaki_env::sync::Mutex;
use niwaki_heap::{Arrived, RecordId};
use niwaki_storage::Tid;

/// What waits is up to this part of the index, by bytes: a suspect weighs a little more than an entry.
const PART: u64 = 36;
/// The same where most are of versions that left entries behind in several indexes: who changes a row sees to that many for it,
/// so more of them shall share a visit. Not of those that moved: updates do that now and then, and leave some in each index.
const PART_OF_SEVERAL: u64 = 12;
/// Most bytes that are gathered; what comes then is forgotten.
const BYTES_MAX: usize = 4 << 20;
/// So many are enough for a visit, however large the index.
const ENOUGH_BYTES: u64 = BYTES_MAX as u64 * 3 / 8;
/// Into how many parts of about as many suspects each the keys are cut.
const TURNS: usize = 8;
/// Where to cut is known from so many.
const CUT_MIN: usize = if SIMULATED { 16 } else { 512 };
/// How many are handed out at once: what one write may have to do for others.
const TAKEN: usize = 64;

/// Bytes of a key that are compared as a number.
const WORD: u16 = 8;

/// What is known of an entry's root.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) root: Tid,
    /// Its record, which counts the entry.
    pub(crate) record: Option<RecordId>,
    /// As long as no other version came to it, none that is in its chain has the key.
    pub(crate) arrived: Option<Arrived>,
}

/// An entry that may be stale.
#[derive(Clone, Copy, Debug)]
struct Suspect {
    /// How its key begins, as a number: most keys are told apart by it.
    word: u64,
    found: Found,
    /// Where its key begins among the keys of its list, and how long it is.
    at: u32,
    len: u16,
    /// Its version left some in other indexes, too.
    several: bool,
}

/// A list of suspects, with their keys one behind the other.
#[derive(Debug, Default)]
struct List {
    suspects: Vec<Suspect>,
    keys: Vec<u8>,
    /// How many are of versions that left some in other indexes, too.
    several: usize,
}

/// How a key begins, as a number: most are told apart by it.
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
        let (at, len) = (self.keys.len() as u32, key.len() as u16);
        self.suspects.push(Suspect { word: word(key), found, at, len, several });
        self.keys.extend_from_slice(key);
        self.several += usize::from(several);
    }

    fn append(&mut self, other: &Self) {
        for its in &other.suspects {
            self.push(other.key(its), its.found, its.several);
        }
    }

    /// Its suspects by their number, in the order of the index.
    fn order(&self) -> Vec<u32> {
        // Sixteen bytes are moved about faster than a suspect.
        let mut order: Vec<(u64, u32)> = self.suspects.iter().map(|it| it.word).zip(0..).collect();
        order.sort_unstable_by_key(|&(word, _)| word);
        // Short keys end in zeros there, so unequal words decide as the keys do.
        for alike in order.chunk_by_mut(|a, b| a.0 == b.0) {
            alike.sort_unstable_by(|&(_, a), &(_, b)| {
                let (a, b) = (&self.suspects[a as usize], &self.suspects[b as usize]);
                // Of short keys the words and the lengths are all: they are not fetched.
                let keys = match a.len.max(b.len) <= WORD {
                    true => a.len.cmp(&b.len),
                    false => self.key(a).cmp(self.key(b)),
                };
                keys.then(a.found.root.cmp(&b.found.root))
            });
        }
        order.into_iter().map(|(_, at)| at).collect()
    }

    /// The same memory, with nothing in it.
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

/// Suspects in the order of the index: `list` is left as it was gathered.
#[derive(Debug, Default)]
struct Sorted {
    list: List,
    order: Vec<u32>,
}

/// Where a part of the keys begins.
#[derive(Debug)]
struct Bound {
    word: u64,
    key: Box<[u8]>,
    root: Tid,
}

/// What is gathered, part by part.
#[derive(Debug)]
struct Gathered {
    parts: Vec<List>,
    /// Where the parts behind the first begin.
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
    fn len(&self) -> usize {
        self.parts.iter().map(|part| part.suspects.len()).sum()
    }

    fn push(&mut self, key: &[u8], found: Found, several: bool) {
        let its = (word(key), key, found.root);
        let at = self.bounds.partition_point(|it| (it.word, &*it.key, it.root) <= its);
        self.parts[at].push(key, found, several);
        self.bytes += size_of::<Suspect>() + key.len();
    }

    /// Puts each where it belongs.
    fn append(&mut self, list: &List) {
        for its in &list.suspects {
            self.push(list.key(its), its.found, its.several);
        }
    }

    /// The part whose turn it is, and `empty` in its place. If it has most of what there is, all of it, in one part from then
    /// on: where to cut is found anew.
    fn take(&mut self, empty: List) -> List {
        let count = self.parts.len();
        let mut turns = (self.next..count).chain(0..self.next);
        let at = turns.find(|&at| !self.parts[at].suspects.is_empty()).unwrap_or(0);
        self.next = (at + 1) % count;
        if self.parts[at].suspects.len() <= self.len() / 2 {
            let list = std::mem::replace(&mut self.parts[at], empty);
            self.bytes -= list.bytes();
            return list;
        }
        let mut parts = std::mem::take(self).parts;
        self.parts[0] = empty;
        let mut all = parts.swap_remove(at);
        parts.iter().for_each(|part| all.append(part));
        all
    }

    /// Cuts the keys into parts with about as many of these each, if there is one part only.
    fn cut(&mut self, Sorted { list, order }: &Sorted) {
        if order.len() < CUT_MIN || self.parts.len() > 1 {
            return;
        }
        let bounds = (1..TURNS).map(|turn| {
            let its = &list.suspects[order[turn * order.len() / TURNS] as usize];
            Bound { word: its.word, key: list.key(its).into(), root: its.found.root }
        });
        self.bounds = bounds.collect();
        // What came while these were sorted is in one.
        let come = std::mem::take(&mut self.parts);
        self.parts.resize_with(TURNS, List::default);
        self.bytes = 0;
        come.iter().for_each(|list| self.append(list));
    }
}

#[derive(Debug, Default)]
struct Lists {
    gathered: Gathered,
    /// The first `taken` are handed out, and looked at where they are.
    due: Arc<Sorted>,
    taken: usize,
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
    /// Adds one; false: there is no room, it is forgotten. `several`: its version left some in other indexes, too.
    pub(crate) fn push(&self, key: &[u8], found: Found, several: bool) -> bool {
        let mut lists = self.0.lock();
        if SIMULATED && sometimes!(1, 64) {
            // All of it is lost, as it may be at any time.
            *lists = Lists::default();
        }
        let room = lists.gathered.bytes + size_of::<Suspect>() + key.len() <= BYTES_MAX;
        if room {
            lists.gathered.push(key, found, several);
        }
        room
    }

    /// Whether those gathered take half of the room that there is for them.
    pub(crate) fn is_half_full(&self) -> bool {
        self.0.lock().gathered.bytes > BYTES_MAX / 2
    }

    /// How many wait.
    pub(crate) fn waiting(&self) -> usize {
        let lists = self.0.lock();
        lists.gathered.len() + lists.due.order.len() - lists.taken
    }

    /// Forgets all.
    pub(crate) fn lose(&self) {
        *self.0.lock() = Lists::default();
    }

    /// Hands out some of those that are due; first makes a part of the gathered ones so, if they are many for an index of so
    /// many bytes.
    pub(crate) fn take(&self, index_bytes: u64) -> Option<Taken> {
        let mut lists = self.0.lock();
        if lists.taken == lists.due.order.len() {
            let gathered = &lists.gathered;
            let several: usize = gathered.parts.iter().map(|part| part.several).sum();
            let mostly = several > gathered.len() / 2;
            let part = if mostly { PART_OF_SEVERAL } else { PART };
            let ripe = (index_bytes / part).min(ENOUGH_BYTES);
            if gathered.bytes == 0 || (gathered.bytes as u64) < ripe && !SIMULATED {
                return None;
            }
            // Whoever has some of the last ones still keeps the memory.
            let emptied = Arc::try_unwrap(std::mem::take(&mut lists.due));
            let emptied = emptied.map_or_else(|_| List::default(), |due| due.list.cleared());
            let list = lists.gathered.take(emptied);
            lists.taken = 0;
            // Passes wait here with a page latched: it is sorted while they go on.
            drop(lists);
            let order = list.order();
            let sorted = Sorted { list, order };
            lists = self.0.lock();
            lists.gathered.cut(&sorted);
            if lists.taken < lists.due.order.len() {
                // Somebody else was as fast: these are gathered once more.
                lists.gathered.append(&sorted.list);
            } else {
                lists.due = Arc::new(sorted);
                lists.taken = 0;
            }
        }
        let begin = lists.taken;
        lists.taken = lists.due.order.len().min(begin + TAKEN);
        Some(Taken { due: Arc::clone(&lists.due), these: begin..lists.taken })
    }
}

impl Taken {
    /// How many.
    pub(crate) fn len(&self) -> usize {
        self.these.len()
    }

    /// Key bytes, and what is known of the root, of each, ascending by key and root.
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
        Found { root: Tid::new(block, 1), record: None, arrived: None }
    }

    #[test]
    fn they_come_sorted_once_there_are_enough() {
        // Told apart by their words, or by what is behind them; some are the same key.
        for prefix in [0, 3, 7, 20] {
            let suspects = Suspects::default();
            let key = |n: u16| {
                let mut key = vec![7; prefix];
                key.extend((n / 2).wrapping_mul(7919).to_be_bytes());
                // Zeros at the end are not in the word, but in the key.
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
        // By the number of those of a hundred whose version left some in other indexes, too.
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

    /// Suspects of an index with `keys` keys, one after the other by `next`, `steps` of them, with visits as they are due.
    /// Returns how many waited on average, and how many a visit found of each hundredth of the keys.
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
        // Pieces of 64 cut leaves: without, it would be 41 if all parts were visited at once, and 73 in turn.
        assert!(found > 28.0, "{found} a leaf");
        // Where all come at one end, which moves, it is as if there were one part.
        let (waiting, _) = come_and_go(400_000, index_bytes, |step| step, 400_000);
        assert!(waiting < 8500.0, "{waiting} wait");
        // Equal keys are told apart by their roots.
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
            // Where they come from changes all the time.
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
}
