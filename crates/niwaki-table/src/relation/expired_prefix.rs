//! Expired prefixes of leaves: leading entries that give no row to a snapshot, nor to later ones.
//!
//! An example is a queue behind an old snapshot. The entries taken from its front exist for that
//! snapshot alone, and cannot be marked LP_DEAD. Without a note, each reader that takes the next
//! entry would go over all of them, and ask the heap about each one.
//!
//! ```text
//! leaf     ▓▓▓▓▓▓▓▓   ▓▓▓▓▓▓▓▓   ▓▓▓░░░░░        ▓ ended at 17 or before: expired as of 17
//! noted    8, 17      8, 15      3, 16            snapshots from then on skip this many items
//! ```
//!
//! A note holds as long as the leaf is unchanged since its entries were read (the leaf's version;
//! rule `leaf-version`). The leaf gets another version when an entry comes or goes, or when a key
//! returns to a row whose entry is still there. Notes are kept in memory, are bounded, and may be
//! lost at any time.

use niwaki_env::hash::HashMap;
use niwaki_env::seeded_bug;
use niwaki_env::sync::RwLock;
use niwaki_env::sync::atomic::{AtomicBool, Ordering};
use niwaki_nbtree::{LeafPrefix, LeafRead};
use niwaki_storage::{BlockNumber, Csn};

/// The most leaves of one index that are remembered. At this number all notes of the index are
/// dropped.
const LEAVES_MAX: usize = 4096;

const _: () = assert!(LEAVES_MAX > 0);

/// The expired prefixes known for the leaves of one index.
#[derive(Debug, Default)]
pub(crate) struct ExpiredPrefixes {
    /// True once a prefix was noted: until then a lookup takes no lock.
    any: AtomicBool,
    leaves: RwLock<HashMap<BlockNumber, ExpiredPrefix>>,
}

/// The expired prefix of one leaf, as the leaf was read, and the time since which it is expired.
#[derive(Clone, Copy, Debug)]
struct ExpiredPrefix {
    prefix: LeafPrefix,
    since: Csn,
}

impl ExpiredPrefixes {
    /// Returns the end of the leaf's expired prefix for a snapshot, and since when it is expired. A
    /// 0 means that nothing is known.
    #[inline]
    pub(crate) fn before(&self, leaf: LeafRead, snapshot: Csn) -> (u16, Csn) {
        // Relaxed: a reader that misses a note made just now reads the entries.
        if self.any.load(Ordering::Relaxed) { self.find(leaf, snapshot) } else { (0, Csn(0)) }
    }

    fn find(&self, leaf: LeafRead, snapshot: Csn) -> (u16, Csn) {
        let leaves = self.leaves.read();
        let Some(ExpiredPrefix { prefix, since }) = leaves.get(&leaf.block()) else {
            return (0, Csn(0));
        };
        debug_assert_eq!(prefix.leaf().block(), leaf.block(), "a note is under another leaf");
        let is_as_noted = prefix.leaf() == leaf || seeded_bug!("over-any-version");
        let is_expired = *since <= snapshot || seeded_bug!("over-any-snapshot");
        if is_as_noted && is_expired { (prefix.end(), *since) } else { (0, Csn(0)) }
    }

    /// Notes that all items of this prefix are expired since then.
    pub(crate) fn note(&self, prefix: LeafPrefix, since: Csn) {
        let mut leaves = self.leaves.write();
        let block = prefix.leaf().block();
        if leaves.len() >= LEAVES_MAX && !leaves.contains_key(&block) {
            leaves.clear();
        }
        let noted = leaves.entry(block).or_insert(ExpiredPrefix { prefix, since });
        // Another reader may have noted a longer prefix meanwhile.
        if noted.prefix.leaf() != prefix.leaf() || noted.prefix.end() <= prefix.end() {
            *noted = ExpiredPrefix { prefix, since };
        }
        debug_assert_eq!(noted.prefix.leaf(), prefix.leaf(), "a note of another state of the leaf");
        debug_assert!(noted.prefix.end() >= prefix.end(), "a longer prefix is forgotten");
        debug_assert!(leaves.len() <= LEAVES_MAX, "{} leaves have notes", leaves.len());
        self.any.store(true, Ordering::Relaxed);
    }
}
