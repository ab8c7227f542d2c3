//! Recheck: whether a version that an index entry leads to is one that the entry stands for.
//!
//! Entries name the root of a chain, whose versions may have had other keys. Everything that goes from
//! an entry to the heap asks here, and nowhere else is it decided when the question may be left out
//! (rule 9b.2):
//!
//! ```text
//!  who asks                                    the entry was seen        what it does with an answer
//!  index and index-only scan, either way,      on a leaf since let go    reads the row, or passes on
//!    unique lookup
//!  the same, about what it did not see         on a leaf since let go    marks the entry LP_DEAD
//!  unique check                                on the latched leaf       conflict, wait, or none
//!  deletion: simple, bottom-up, whole leaf     on the latched leaf       the entry stays, or goes
//!  deferred unique check, `niwaki check`       some time                 conflict; X1
//! ```
//!
//! A bitmap heap scan has no entries any more when it comes to the heap: its caller judges every row
//! again, and what it marks are entries of roots without any version left. Builds and validation come
//! from the heap, and vacuum frees whole roots: they follow no entry.

use niwaki_env::seeded_bug;
use niwaki_heap::{RowRef, UnmixCount};
use niwaki_storage::Tid;

use crate::row_key::{HasKey, KeyMemo};
use crate::table::Table;

/// An index entry, as the heap is asked about it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<'e> {
    pub(crate) index: usize,
    pub(crate) key: &'e [u8],
    /// Root of the chain that it names.
    pub(crate) root: Tid,
    pub(crate) seen: Seen,
}

/// When the entry was on its leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// It is there: the leaf is latched until the heap has answered.
    Now,
    /// It was there when the heap's unmix counter stood so; the latch is gone.
    At(UnmixCount),
    /// Nobody knows: the root may have been cleared, or be another row's.
    SomeTime,
}

impl Table {
    /// Whether the entry has the key, and the payload, of every version of its root that somebody may
    /// see (X3): the root is not mixed, and was not when the entry was there. `mixed` is what the root
    /// says under its page's latch.
    #[inline]
    pub(crate) fn speaks_for_root(&self, entry: Entry<'_>, mixed: bool) -> bool {
        let cleared_since = || match entry.seen {
            Seen::Now => false,
            Seen::At(count) => self.heap().unmix_count() != count && !seeded_bug!("unmix-counter"),
            Seen::SomeTime => true,
        };
        (!mixed || seeded_bug!("recheck")) && !cleared_since()
    }

    /// Whether `version`, of the chain that the entry leads to, has the entry's key. Compares normalized
    /// keys only, so it may be called under latches (rule 9b.16); what only expressions tell is
    /// [`HasKey::Unknown`], unless the memo has it, which notes it otherwise.
    #[inline]
    pub(crate) fn recheck(
        &self,
        entry: Entry<'_>,
        version: RowRef<'_>,
        memo: Option<&KeyMemo>,
    ) -> HasKey {
        if self.speaks_for_root(entry, version.mixed) {
            return HasKey::Yes;
        }
        match memo {
            Some(memo) => memo.has_key(self, entry.index, version, entry.key),
            None => self.has_key(entry.index, version, entry.key),
        }
    }
}
