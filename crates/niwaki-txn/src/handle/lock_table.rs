//! The lock table, in parts under one mutex each, and the waiters for ends of transactions.

use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use niwaki_env::hash::{FixedHash, HashMap};
use niwaki_env::sync::atomic::AtomicUsize;
use niwaki_env::sync::{Mutex, MutexGuard};
use niwaki_storage::Xid;

use crate::handle::lock_entry::{Carried, Entry, is};
use crate::handle::page_locks::PageLocks;
use crate::handle::registry::Registry;
use crate::handle::session::SessionControl;
use crate::locks::counts::{RowCounts, StrongCounts};
use crate::locks::held::PageNote;
use crate::locks::key::{LockKey, PageKey, RowKey};
use crate::locks::row_set::RowSet;
use crate::locks::spin_stats::SpinStats;
use crate::options::{TxnOptions, limit};

pub(crate) const PARTITIONS: usize = limit(16, 2, 1);

/// Table locks, row locks in memory, and waits for the end of transactions.
#[derive(Debug)]
pub struct LockManager {
    pub(crate) partitions: [Mutex<Partition>; PARTITIONS],
    pub(crate) registry: Arc<Registry>,
    pub(crate) strong: StrongCounts,
    pub(crate) rows: RowCounts,
    pub(crate) xids: XidWaits,
    /// Held by the one session that looks for deadlocks.
    pub(crate) detecting: Mutex<()>,
    /// Waiters that spin now.
    pub(crate) spinning: AtomicUsize,
    pub(crate) spin_stats: SpinStats,
}

impl LockManager {
    pub(crate) fn new(options: &TxnOptions, registry: Arc<Registry>) -> Self {
        Self {
            partitions: std::array::from_fn(|_| Mutex::new(Partition::default())),
            registry,
            strong: StrongCounts::new(),
            rows: RowCounts::new(options.row_locks_max),
            xids: XidWaits::new(),
            detecting: Mutex::new(()),
            spinning: AtomicUsize::new(0),
            spin_stats: SpinStats::new(),
        }
    }

    pub(crate) fn partition_of(&self, key: &LockKey) -> usize {
        place(key, PARTITIONS)
    }

    pub(crate) fn partition(&self, key: &LockKey) -> &Mutex<Partition> {
        &self.partitions[self.partition_of(key)]
    }

    /// Locks all partitions, in order.
    pub(crate) fn lock_all(&self) -> Vec<MutexGuard<'_, Partition>> {
        self.partitions.iter().map(|partition| partition.lock()).collect()
    }
}

const SHARDS: usize = limit(64, 4, 1);

/// Waiters for the end of transactions.
#[derive(Debug)]
pub(crate) struct XidWaits {
    /// Waiters in all shards.
    pub(crate) total: AtomicUsize,
    shards: Box<[Shard]>,
}

#[derive(Debug)]
pub(crate) struct Shard {
    /// Waiters in this shard. With zero, a transaction that ends does not take the mutex.
    pub(crate) count: AtomicUsize,
    pub(crate) waiters: Mutex<HashMap<Xid, Vec<Arc<SessionControl>>>>,
}

impl XidWaits {
    pub(crate) fn new() -> Self {
        let shard =
            || Shard { count: AtomicUsize::new(0), waiters: Mutex::new(HashMap::default()) };
        Self { total: AtomicUsize::new(0), shards: (0..SHARDS).map(|_| shard()).collect() }
    }

    pub(crate) fn shard(&self, xid: Xid) -> &Shard {
        &self.shards[xid.0 as usize % SHARDS]
    }
}

/// Pages, and keys, for which a nearly empty partition keeps room: about 40 kB.
const ROOM_KEPT: usize = 256;

/// Gives up most of the room of a map that had many more keys. Otherwise a million locks of one
/// transaction would keep 100 MB for ever.
fn shrink<K: Eq + Hash, V>(map: &mut HashMap<K, V>) {
    if map.capacity() > ROOM_KEPT * 2 && map.len() < map.capacity() / 8 {
        map.shrink_to(ROOM_KEPT.max(map.len() * 2));
    }
}

/// Returns the number of a key's partition, below `partitions`.
fn place(key: &LockKey, partitions: usize) -> usize {
    fn hash(of: impl Hash) -> u64 {
        FixedHash::default().hash_one(of)
    }
    let hash = match key {
        // All rows of a page are in one partition.
        LockKey::Row(row) => hash(PageKey::of(row)),
        other => hash(other),
    };
    (hash >> 32) as usize % partitions
}

/// A part of the lock table.
#[derive(Debug, Default)]
pub(crate) struct Partition {
    pub(crate) entries: HashMap<LockKey, Entry>,
    /// Pages with locked rows. A row with an entry is promoted here.
    pub(crate) pages: HashMap<PageKey, PageLocks>,
}

impl Partition {
    /// Returns the entry of a key. A row without an entry is promoted.
    pub(crate) fn entry(&mut self, key: LockKey) -> &mut Entry {
        self.entries.entry(key).or_insert_with(|| match key {
            LockKey::Row(row) => {
                self.pages.entry(PageKey::of(&row)).or_default().promote(row.root.offset)
            }
            _ => Entry::default(),
        })
    }

    /// Returns the page of a row, and the row's entry if it is promoted. The page may be new and
    /// empty.
    pub(crate) fn page(&mut self, row: &RowKey) -> (&mut PageLocks, Option<&mut Entry>) {
        let page = self.pages.entry(PageKey::of(row)).or_default();
        let promoted = page.is_promoted(row.root.offset);
        debug_assert_eq!(
            promoted,
            self.entries.contains_key(&LockKey::Row(*row)),
            "a row is promoted exactly if it has an entry: {row:?}"
        );
        let entry = promoted.then(|| self.entries.get_mut(&LockKey::Row(*row))).flatten();
        (page, entry)
    }

    /// Returns the modes in which the sessions that `whose` selects hold the key.
    pub(crate) fn modes(&self, key: &LockKey, whose: impl Fn(&SessionControl) -> bool) -> u8 {
        if let LockKey::Row(row) = key {
            match self.pages.get(&PageKey::of(row)) {
                None => return 0,
                Some(page) if !page.is_promoted(row.root.offset) => {
                    return page.modes(row.root.offset, whose);
                }
                Some(_) => {}
            }
        }
        let entry = self.entries.get(key);
        let promoted = matches!(key, LockKey::Row(_));
        debug_assert!(entry.is_some() || !promoted, "{key:?} is promoted and has no entry");
        entry.map_or(0, |entry| entry.modes(whose))
    }

    /// Removes an entry that is not needed: no session waits, and for a row, the page has the bits
    /// of all holders.
    pub(crate) fn remove_if_idle(&mut self, key: &LockKey) {
        let Some(entry) = self.entries.get(key).filter(|entry| !entry.is_in_use()) else { return };
        let LockKey::Row(row) = key else {
            if entry.granted.is_empty() {
                self.entries.remove(key);
                shrink(&mut self.entries);
            }
            return;
        };
        let (offset, page_key) = (row.root.offset, PageKey::of(row));
        debug_assert!(self.pages.contains_key(&page_key), "{row:?} has an entry and no page");
        let Some(page) = self.pages.get_mut(&page_key) else { return };
        debug_assert!(page.is_promoted(offset), "{row:?} has an entry and is not promoted");
        let noted = |session: &SessionControl| page.modes(offset, |whose| is(whose, session));
        if entry.granted.iter().all(|grant| grant.modes == noted(&grant.session)) {
            page.demote(offset);
            self.entries.remove(key);
            shrink(&mut self.entries);
            self.remove_if_empty(&page_key);
        }
    }

    pub(crate) fn remove_if_empty(&mut self, page: &PageKey) {
        if self.pages.get(page).is_some_and(PageLocks::is_empty) {
            self.pages.remove(page);
            shrink(&mut self.pages);
        }
    }

    /// Takes modes of an entry away from the session. Returns the carried locks that the session
    /// must release with them.
    pub(crate) fn drop_modes(
        &mut self,
        session: &SessionControl,
        key: &LockKey,
        modes: u8,
    ) -> Vec<Carried> {
        let Some(entry) = self.entries.get_mut(key) else { return Vec::new() };
        let carried = entry.take_carried(session, modes);
        entry.remove_modes(session, modes);
        self.remove_if_idle(key);
        carried
    }

    /// Takes a set of bits away from the session. Returns its rows, and the carried locks that the
    /// session must release with them.
    pub(crate) fn drop_bits(
        &mut self,
        session: &SessionControl,
        note: &PageNote,
    ) -> (RowSet, Vec<Carried>) {
        debug_assert!(self.pages.contains_key(&note.page), "no set is as noted: {note:?}");
        let Some(page) = self.pages.get_mut(&note.page) else { return Default::default() };
        let (rows, promoted) = page.take(session, note);
        self.remove_if_empty(&note.page);
        let keys = promoted.into_iter().map(|row| LockKey::Row(note.page.row(row)));
        let carried = keys.flat_map(|key| self.drop_modes(session, &key, note.mode)).collect();
        (rows, carried)
    }
}

#[cfg(all(test, not(any(feature = "shuttle", feature = "loom"))))]
mod tests {
    use super::*;

    /// Clients choose the keys of advisory locks. If a client knew the hashes, it could choose keys
    /// that collide, and every lock in that partition would wait for long searches.
    #[test]
    fn clients_do_not_know_the_places_of_keys() {
        let hash = |of: &Partition| of.entries.hasher().hash_one(LockKey::Notifications);
        assert_ne!(hash(&Partition::default()), hash(&Partition::default()));
    }
}
