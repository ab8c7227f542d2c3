//! The key observer: a callback of the table that finds the index keys which removed versions leave
//! behind.
//!
//! Where the key of an index entry is stored bytes, a pass can find the keys that a version leaves
//! behind at once. The version still lies on the latched page then, beside the versions of its
//! chain that stay. So nothing is copied or looked for again.
//!
//! The heap does not know keys. The table knows them, and they depend on the table's indexes. So
//! writers of the table set the observer: they hold the table's lock, and know its indexes. Every
//! pass over a page asks the current observer, also the pass of a reader with an older table
//! definition. A change of indexes removes the observer and ends the epoch:
//!
//! ```text
//! a pass: read (epoch, observer) ─ find keys ─── added to the record, under its lock: same epoch?
//! a change of indexes:       epoch ends, records end ─┘      no: copied, as without an observer
//! ```

use std::fmt;
use std::sync::Arc;

use niwaki_env::sync::Mutex;
use niwaki_env::sync::plain_atomic::{AtomicUsize, Ordering};
use niwaki_storage::Tid;

use crate::format::rows::RowRef;
use crate::memory::record_id::RecordId;
use crate::memory::root_changes::RootChangeCount;

/// Number of keys that [`KeysLeft`] has room for from the start, with [`KEY_BYTES`] for their
/// bytes. Most tables need no more for all keys of a version, so memory is allocated once.
const KEYS: usize = 8;
const KEY_BYTES: usize = 256;

/// Index keys that only the removed version of the chain had.
#[derive(Debug, Default)]
pub struct KeysLeft {
    /// The index of each key, and the end of the key in `bytes`.
    keys: Vec<(u16, u32)>,
    bytes: Vec<u8>,
    /// The row continues on another page.
    pub(crate) moved: bool,
}

impl KeysLeft {
    /// Adds the key of an index that `write` appends, if `write` returns `Ok(true)`.
    ///
    /// # Errors
    /// The error of `write`; then no key is added.
    pub fn add<E>(
        &mut self,
        index: u16,
        write: impl FnOnce(&mut Vec<u8>) -> Result<bool, E>,
    ) -> Result<bool, E> {
        if self.bytes.capacity() == 0 {
            // For most tables, all keys of a version fit: memory is allocated once.
            self.bytes.reserve(KEY_BYTES);
            self.keys.reserve(KEYS);
        }
        let begin = self.bytes.len();
        let written = write(&mut self.bytes);
        debug_assert!(self.bytes.len() >= begin, "a key is appended to the keys before it");
        debug_assert!(u32::try_from(self.bytes.len()).is_ok(), "the keys of one version fit");
        match &written {
            Ok(true) => self.keys.push((index, self.bytes.len() as u32)),
            Ok(false) | Err(_) => self.bytes.truncate(begin),
        }
        written
    }

    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns whether there are several keys because several keys changed, or because the row is
    /// gone. A row that moved does not count.
    pub fn are_several(&self) -> bool {
        !self.moved && self.keys.len() > 1
    }

    /// Returns whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Returns the index and the key of each entry.
    pub fn iter(&self) -> impl Iterator<Item = (u16, &[u8])> {
        let last = self.keys.last().map_or(0, |&(_, end)| end as usize);
        debug_assert_eq!(last, self.bytes.len(), "the last key ends where the bytes do");
        let begins = std::iter::once(0).chain(self.keys.iter().map(|&(_, end)| end));
        let keys = self.keys.iter().zip(begins);
        keys.map(|(&(index, end), begin)| (index, &self.bytes[begin as usize..end as usize]))
    }

    /// Removes all keys.
    pub fn clear(&mut self) {
        self.keys.clear();
        self.bytes.clear();
    }
}

/// The table's side of the removal of versions. Passes call the observer under the latch of the
/// versions' page. There, the observer must not wait, evaluate expressions, or take a latch.
pub trait KeyObserver: fmt::Debug + Send + Sync {
    /// Adds to `left`, which is empty, the keys of `gone` that no version in `stay` has. Returns
    /// false if stored bytes do not show the keys; then the contents of `left` mean nothing.
    fn keys_left(&self, gone: RowRef<'_>, stay: &[RowRef<'_>], left: &mut KeysLeft) -> bool;

    /// Remembers these entries of a root (stale-entry candidates) for a later clean-up, which
    /// [`crate::Heap::note_cleaned`] reports. A forgotten entry stays counted. As long as no
    /// version has come to the root since `root_change_count`, no version in its chain has these
    /// keys.
    fn suspect(
        &self,
        left: &KeysLeft,
        root: Tid,
        record: Option<RecordId>,
        root_change_count: RootChangeCount,
    );

    /// Returns whether optional passes shall add no more entries: too many wait for clean-up
    /// already, and entries beyond the limit are forgotten.
    fn is_busy(&self) -> bool;

    /// Returns whether no remaining entry can have the payload of a removed version.
    fn payloads_right(&self) -> bool;
}

/// Counter of index changes: an observer knows the indexes of one epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Epoch(u64);

/// The current observer of one heap, and its epoch.
#[derive(Debug, Default)]
pub(crate) struct Observers {
    current: Mutex<(Epoch, Option<Arc<dyn KeyObserver>>)>,
    /// Address of the current observer, or 0. Writers compare it with the address of their own. A
    /// hint.
    address: AtomicUsize,
}

impl Observers {
    /// Returns the observer, if there is one, and its epoch.
    pub(crate) fn current(&self) -> Option<(Epoch, Arc<dyn KeyObserver>)> {
        let current = self.current.lock();
        debug_assert_eq!(
            current.1.is_none(),
            self.address.load(Ordering::Relaxed) == 0,
            "writers take the observer for another one"
        );
        Some((current.0, Arc::clone(current.1.as_ref()?)))
    }

    /// Makes this observer the current one, unless the indexes `change` at the moment.
    #[inline]
    pub(crate) fn set(&self, observer: &Arc<dyn KeyObserver>, change: impl FnOnce() -> bool) {
        let address = Arc::as_ptr(observer).cast::<()>().addr();
        // Relaxed: a thread that reads an old address sets the same observer once more.
        if self.address.load(Ordering::Relaxed) != address {
            let mut current = self.current.lock();
            // `observer` may not know the indexes that will exist when its entries are cleaned up.
            if !change() {
                current.1 = Some(Arc::clone(observer));
                self.address.store(address, Ordering::Relaxed);
            }
        }
    }

    /// Begins a new epoch without an observer, because the indexes change.
    pub(crate) fn end(&self) -> Epoch {
        let mut current = self.current.lock();
        debug_assert_eq!(
            current.1.is_none(),
            self.address.load(Ordering::Relaxed) == 0,
            "passes ask another observer than writers set"
        );
        current.0.0 += 1;
        current.1 = None;
        self.address.store(0, Ordering::Relaxed);
        current.0
    }
}
