//! The passes that try to make room on a full leaf before it is split.
//!
//! The passes run in this order, each only if the one before did not make enough room:
//!
//! 1. *Simple deletion*: entries that are marked, and others on the same heap blocks.
//! 2. *Bottom-up deletion*, if the entry is another version of a row, or the unique check met
//!    versions.
//! 3. *Deduplication* of equal keys into posting lists.
//!
//! If no pass makes enough room, the insertion (`insert/entry_insert.rs`) tries to move entries to
//! the right sibling (`shift.rs`). If that makes no room either, it splits the leaf.
//!
//! Passes of deletion visit heap blocks under the leaf's latch. No thread shall wait at the latch
//! for a disk. So blocks that are not in memory are read in first, without the latch, and the
//! insertion starts again. If the leaf has changed, only the reading is lost.
//!
//! Source: docs/internals/design.md, "A full leaf".

use niwaki_storage::BlockNumber;
use niwaki_storage::buffer::PageWrite;
use niwaki_storage::page::PAGE_SIZE;

use crate::error::Result;
use crate::memory::options::VersionHint;
use crate::page::entry::NewEntry;
use crate::room::bottom_up::BottomUp;
use crate::room::visits::Deletion;
use crate::tree::index::Index;

/// The index's knowledge about entries with the new entry's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Duplicates {
    /// The index is not unique: nothing is known.
    Allowed,
    /// The index is unique, and the check met no such entry.
    None,
    /// The index is unique, and the check met such entries: old versions.
    Versions,
}

/// Freed bytes that make deduplication worth its record where the entry fits, but hardly another
/// one.
const SCARCE_BYTES: usize = PAGE_SIZE / 32;

impl Index {
    /// Tries to make room for an entry of `tuple_bytes` on a full leaf. Returns heap blocks that
    /// must be read in first, if there are any.
    pub(crate) fn make_room(
        &self,
        leaf: &mut PageWrite<'_>,
        entry: &NewEntry<'_>,
        duplicates: Duplicates,
        deletion: Option<&Deletion<'_>>,
        tuple_bytes: usize,
    ) -> Result<Option<Vec<BlockNumber>>> {
        let clock = &self.storage.env().clock;
        let began = clock.monotonic();
        let absent = self.passes(leaf, entry, duplicates, deletion, tuple_bytes)?;
        debug_assert!(
            absent.as_ref().is_none_or(|blocks| !blocks.is_empty()),
            "an insertion waits for a block at least"
        );
        debug_assert!(absent.is_none() || deletion.is_some(), "only deletion visits heap blocks");
        self.latch_hold.add(clock.monotonic().saturating_sub(began));
        Ok(absent)
    }

    fn passes(
        &self,
        leaf: &mut PageWrite<'_>,
        entry: &NewEntry<'_>,
        duplicates: Duplicates,
        deletion: Option<&Deletion<'_>>,
        tuple_bytes: usize,
    ) -> Result<Option<Vec<BlockNumber>>> {
        let options = self.options();
        // Deletion made so little room that the next entry would bring the pass back at once.
        let mut scarce = false;
        if let Some(deletion) = deletion {
            deletion.oracle.begin();
            if let Some(absent) = self.simple_delete(leaf, entry, deletion)? {
                return Ok(Some(absent));
            }
            // Versions of a row; some of them are likely to be dead.
            let versions = entry.logically_unchanged
                || duplicates == Duplicates::Versions
                || (options.version_hint == VersionHint::Page
                    && self.version_leaves.take(leaf.id().block));
            if !self.fits(leaf, tuple_bytes) && versions && options.bottom_up_deletion {
                match self.bottom_up_delete(leaf, entry, tuple_bytes, deletion)? {
                    BottomUp::ReadIn(absent) => return Ok(Some(absent)),
                    BottomUp::Done => return Ok(None),
                    BottomUp::Spared => {}
                    BottomUp::Failed => scarce = true,
                }
            }
        }
        // Equal keys in a unique index are versions, which deletion should find; merging them only
        // delays the split. Where the check met no version, the page is full of rows.
        let worthwhile = duplicates != Duplicates::None || entry.logically_unchanged;
        let wanted = scarce || !self.fits(leaf, tuple_bytes);
        if wanted && options.deduplicate_items && worthwhile {
            let at_least = if self.fits(leaf, tuple_bytes) { SCARCE_BYTES } else { 1 };
            self.deduplicate(leaf, entry, tuple_bytes, at_least)?;
        }
        Ok(None)
    }
}
