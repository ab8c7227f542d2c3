//! Leaves that begin with entries which are over: they lead a snapshot to no row, nor a later one.
//!
//! A queue behind an old snapshot: what was taken from its front is there for that snapshot alone, and cannot be marked (LP_DEAD). Whoever takes
//! the next one would go over all of it, and ask the heap of each entry.
//!
//! ```text
//! leaf     ▓▓▓▓▓▓▓▓   ▓▓▓▓▓▓▓▓   ▓▓▓░░░░░        ▓ ended at 17 or before: over, as of 17
//! noted    8, 17      8, 15      3, 16            read by snapshots from that time on from behind these items
//! ```
//!
//! It holds as long as the leaf is as it was when its entries were read (its version; rule 9b.13): a key that comes back to a row whose entry is
//! still there gives the leaf another version, and so does an entry that comes or goes. In memory, bounded, and may be lost at any time.

use niwaki_env::hash::HashMap;
use niwaki_env::seeded_bug;
use niwaki_env::sync::RwLock;
use niwaki_env::sync::atomic::{AtomicBool, Ordering};
use niwaki_nbtree::{LeafPrefix, LeafRead};
use niwaki_storage::{BlockNumber, Csn};

/// Most leaves of an index that are remembered.
const LEAVES_MAX: usize = 4096;

/// What is known of the leaves of one index.
#[derive(Debug, Default)]
pub(crate) struct OverLeaves {
    /// Whether there is anything to look for.
    any: AtomicBool,
    leaves: RwLock<HashMap<BlockNumber, Over>>,
}

/// The items of a leaf, as it was read, before which all are over since then.
#[derive(Clone, Copy, Debug)]
struct Over {
    prefix: LeafPrefix,
    since: Csn,
}

impl OverLeaves {
    /// Before which item of a leaf all are over for a snapshot, and since when; 0: nothing is known.
    #[inline]
    pub(crate) fn before(&self, leaf: LeafRead, snapshot: Csn) -> (u16, Csn) {
        // Relaxed: who misses what was noted just now reads the entries.
        match self.any.load(Ordering::Relaxed) {
            true => self.find(leaf, snapshot),
            false => (0, Csn(0)),
        }
    }

    fn find(&self, leaf: LeafRead, snapshot: Csn) -> (u16, Csn) {
        let leaves = self.leaves.read();
        let Some(Over { prefix, since }) = leaves.get(&leaf.block()) else { return (0, Csn(0)) };
        let is_as_noted = prefix.leaf() == leaf || seeded_bug!("over-any-version");
        let is_over = *since <= snapshot || seeded_bug!("over-any-snapshot");
        if is_as_noted && is_over { (prefix.end(), *since) } else { (0, Csn(0)) }
    }

    /// All items of this prefix are over since then.
    pub(crate) fn note(&self, prefix: LeafPrefix, since: Csn) {
        let mut leaves = self.leaves.write();
        let block = prefix.leaf().block();
        if leaves.len() >= LEAVES_MAX && !leaves.contains_key(&block) {
            leaves.clear();
        }
        let over = leaves.entry(block).or_insert(Over { prefix, since });
        // Somebody may have got further meanwhile.
        if over.prefix.leaf() != prefix.leaf() || over.prefix.end() <= prefix.end() {
            *over = Over { prefix, since };
        }
        self.any.store(true, Ordering::Relaxed);
    }
}
