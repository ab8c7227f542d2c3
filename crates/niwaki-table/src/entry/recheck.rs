//! Recheck: whether a version that an index entry leads to has the entry's key.
//!
//! Entries name the root of a chain, whose versions may have had other keys. All code that goes
//! from an entry to the heap asks here. This is also the only place that decides when the question
//! may be left out (rule `unmix-counter`):
//!
//! ```text
//!  caller                                     the entry was seen        use of the answer
//!  index and index-only scan, either way,     on a leaf since let go    reads the row, or skips it
//!    unique lookup
//!  the same, for rows that it did not see     on a leaf since let go    marks the entry LP_DEAD
//!  unique check                               on the latched leaf       conflict, wait, or none
//!  deletion: simple, bottom-up, whole leaf    on the latched leaf       the entry stays, or goes
//!  deferred unique check, `niwaki check`      some time                 conflict; X1
//! ```
//!
//! A bitmap heap scan has no entries any more when it comes to the heap. Its caller judges every
//! row again, and it marks only entries of roots without any version. Builds and validation come
//! from the heap, and vacuum frees whole roots: they follow no entry.

use niwaki_env::seeded_bug;
use niwaki_heap::{RowRef, UnmixCount};
use niwaki_storage::Tid;

use crate::entry::row_key::KeyMemo;
use crate::error::Result;
use crate::relation::plain_key::HasKey;
use crate::relation::table::Table;

/// An index entry about which the heap is asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<'e> {
    pub(crate) index: usize,
    pub(crate) key: &'e [u8],
    /// Root of the chain that the entry names.
    pub(crate) root: Tid,
    pub(crate) seen: Seen,
}

/// The time at which the entry was on its leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// The present: the leaf is latched until the heap has answered.
    Now,
    /// The time of this value of the heap's unmix counter. The latch has been released.
    At(UnmixCount),
    /// An unknown time: the root may have been cleared, or belong to another row.
    SomeTime,
}

impl Table {
    /// Decides whether the entry has the key and the payload of every version of its root that a
    /// snapshot may see (X3). This holds when the root is not mixed, and was not mixed when the
    /// entry was seen. `mixed` is the root's flag, read under its page's latch.
    #[inline]
    pub(crate) fn speaks_for_root(&self, entry: Entry<'_>, mixed: bool) -> bool {
        let cleared_since = || match entry.seen {
            Seen::Now => false,
            Seen::At(count) => self.heap().unmix_count() != count && !seeded_bug!("unmix-counter"),
            Seen::SomeTime => true,
        };
        (!mixed || seeded_bug!("recheck")) && !cleared_since()
    }

    /// Decides whether `version`, of the chain that the entry leads to, has the entry's key.
    /// Compares normalized keys only, so it may be called under latches (rule `bytes-under-latch`).
    /// A key that comes from an expression is [`HasKey::Unknown`], unless the memo knows it. The
    /// memo notes an unknown version.
    #[inline]
    pub(crate) fn recheck(
        &self,
        entry: Entry<'_>,
        version: RowRef<'_>,
        memo: Option<&KeyMemo>,
    ) -> HasKey {
        debug_assert_eq!(version.root, entry.root, "a version of another chain");
        if self.speaks_for_root(entry, version.mixed) {
            return HasKey::Yes;
        }
        match memo {
            Some(memo) => memo.has_key(self, entry.index, version, entry.key),
            None => self.has_key(entry.index, version, entry.key),
        }
    }

    /// Calls `ask` with a test for the entry's key, until the test lacks no key. `ask` runs under
    /// heap latches. Keys that the test lacks are evaluated between two calls. No leaf latch is
    /// held.
    ///
    /// # Errors
    /// The errors of `ask`; [`crate::Error::Expression`].
    pub(crate) fn decide<R>(
        &self,
        entry: Entry<'_>,
        mut ask: impl FnMut(&mut dyn FnMut(RowRef<'_>) -> bool) -> Result<R>,
    ) -> Result<R> {
        // Between two calls expressions run, and pages are read (rule `bytes-under-latch`).
        debug_assert!(
            entry.seen != Seen::Now,
            "the leaf of the entry at {} is latched",
            entry.root
        );
        let memo = KeyMemo::default();
        // Ends: a turn is repeated only when it met a version that no earlier turn met.
        loop {
            let result = ask(&mut |row| self.recheck(entry, row, Some(&memo)) == HasKey::Yes)?;
            if !memo.learn(self, entry.index)? {
                return Ok(result);
            }
        }
    }
}
