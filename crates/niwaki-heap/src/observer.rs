//! Who is told, under a page's latch, which keys versions leave behind that a pass removes.
//!
//! Where the key of an entry is stored bytes, what a version leaves behind can be said while it lies on the latched page
//! beside those of its chain that stay: nothing is copied, nor looked for again. The heap does not know keys; the table
//! does, and it depends on which indexes it has. So its writers say who is to be asked: they hold the table's lock, and
//! know its indexes. Whoever passes over a page, a reader with an older definition too, asks the observer that is
//! there; a change of indexes takes it away, and ends the epoch:
//!
//! ```text
//! a pass: (epoch, observer) read ─ keys found ───────────── told to the root's record, under its lock: of this epoch?
//! a change of indexes:                 epoch ends, records end ─┘                 no: copied, as without an observer
//! ```

use std::fmt;
use std::sync::Arc;

use niwaki_env::sync::Mutex;
use niwaki_env::sync::plain_atomic::{AtomicUsize, Ordering};
use niwaki_storage::Tid;

use crate::arrivals::Arrived;
use crate::records::RecordId;
use crate::relation::Heap;
use crate::rows::RowRef;

/// For so many keys, of so many bytes together, there is room at once.
const KEYS: usize = 8;
const KEY_BYTES: usize = 256;

/// Keys of a version that goes which no version has that stays in its chain.
#[derive(Debug, Default)]
pub struct KeysLeft {
    /// (index, where its key ends among the bytes) of each.
    keys: Vec<(u16, u32)>,
    bytes: Vec<u8>,
    /// The row goes on on another page.
    pub(crate) moved: bool,
}

impl KeysLeft {
    /// Adds the key of an index that `write` appends, if it says so.
    ///
    /// # Errors
    /// That of `write`; nothing is added then.
    pub fn add<E>(
        &mut self,
        index: u16,
        write: impl FnOnce(&mut Vec<u8>) -> Result<bool, E>,
    ) -> Result<bool, E> {
        if self.bytes.capacity() == 0 {
            // Of most tables all keys of a version have room there: memory is got once.
            self.bytes.reserve(KEY_BYTES);
            self.keys.reserve(KEYS);
        }
        let begin = self.bytes.len();
        let written = write(&mut self.bytes);
        match &written {
            Ok(true) => self.keys.push((index, self.bytes.len() as u32)),
            Ok(false) | Err(_) => self.bytes.truncate(begin),
        }
        written
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there are several because so many keys changed, or the row is gone; not because it moved.
    pub fn are_several(&self) -> bool {
        !self.moved && self.keys.len() > 1
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// (index, key) of each.
    pub fn iter(&self) -> impl Iterator<Item = (u16, &[u8])> {
        let begins = std::iter::once(0).chain(self.keys.iter().map(|&(_, end)| end));
        let keys = self.keys.iter().zip(begins);
        keys.map(|(&(index, end), begin)| (index, &self.bytes[begin as usize..end as usize]))
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.keys.clear();
        self.bytes.clear();
    }
}

/// What a table does about versions that go. It is asked under the latch of their page: nothing may be waited for,
/// evaluated or latched there.
pub trait KeyObserver: fmt::Debug + Send + Sync {
    /// Finds the keys of `gone` that none of `stay` has, for `left`, which is empty. False: stored bytes do not tell, and
    /// what was added to `left` says nothing.
    fn keys_left(&self, gone: RowRef<'_>, stay: &[RowRef<'_>], left: &mut KeysLeft) -> bool;

    /// Remembers these entries of a root, each to be seen to later ([`Heap::seen_to`]); one that is forgotten stays
    /// counted. As long as no version has come to the root since `arrived`, none that is in its chain has their keys.
    fn suspect(&self, left: &KeysLeft, root: Tid, record: Option<RecordId>, arrived: Arrived);

    /// Whether so much waits that whoever need not make more of it shall not: what is too much is forgotten.
    fn is_busy(&self) -> bool;

    /// Whether no entry that stays can have a payload of a version that went.
    fn payloads_right(&self) -> bool;
}

/// Changes of indexes are counted: an observer knows those of one epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Epoch(u64);

/// The observer of one heap.
#[derive(Debug, Default)]
pub(crate) struct Observers {
    current: Mutex<(Epoch, Option<Arc<dyn KeyObserver>>)>,
    /// Where the current one lies, or 0: what writers compare with theirs. A hint.
    address: AtomicUsize,
}

impl Observers {
    /// The observer, if there is one, and its epoch.
    pub(crate) fn current(&self) -> Option<(Epoch, Arc<dyn KeyObserver>)> {
        let current = self.current.lock();
        Some((current.0, Arc::clone(current.1.as_ref()?)))
    }

    /// The indexes are others from now on: nobody observes, in the new epoch.
    pub(crate) fn end(&self) -> Epoch {
        let mut current = self.current.lock();
        current.0.0 += 1;
        current.1 = None;
        self.address.store(0, Ordering::Relaxed);
        current.0
    }
}

impl Heap<'_> {
    /// Passes ask this observer from now on. The caller holds a lock on the table that excludes changes of its indexes,
    /// and `observer` knows those that it has.
    #[inline]
    pub fn observe(&self, observer: &Arc<dyn KeyObserver>) {
        let observers = &self.relation.shared.records.observers;
        let address = Arc::as_ptr(observer).cast::<()>().addr();
        // Relaxed: one who reads an old address sets the same observer once more.
        if observers.address.load(Ordering::Relaxed) != address {
            let mut current = observers.current.lock();
            // It may not know the indexes that there are when its entries are seen to.
            if !self.indexes_change() {
                current.1 = Some(Arc::clone(observer));
                observers.address.store(address, Ordering::Relaxed);
            }
        }
    }

    /// Whether passes that nobody needs shall wait: what they would leave to be seen to has no room.
    pub(crate) fn sees_to_enough(&self) -> bool {
        let observers = &self.relation.shared.records.observers;
        self.removed_is_half_full()
            || observers.current().is_some_and(|(_, observer)| observer.is_busy())
    }
}
