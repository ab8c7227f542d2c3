//! Leaves on which bottom-up deletion failed, and leaves that took in versions.

use std::collections::{BTreeMap, BTreeSet};

use niwaki_env::sync::Mutex;
use niwaki_storage::{BlockNumber, Csn};

use crate::page::layout::META_BLOCK;

/// The most leaves for which memory keeps that a pass failed.
const FAILURES_MAX: usize = 1024;
/// The most leaves for which memory keeps that they took in versions.
const VERSION_LEAVES_MAX: usize = 1 << 16;
/// A leaf is looked at again under the same oldest snapshot when it has grown by this fraction
/// (1/8) of its entries.
const GROWTH_PART: usize = 8;

/// Leaves on which the last pass freed nothing. The memory is lost with the handle, and cleared
/// when it holds `FAILURES_MAX` leaves. Then a pass is made that may be in vain.
#[derive(Debug, Default)]
pub(crate) struct Failures(Mutex<BTreeMap<BlockNumber, Failure>>);

/// A pass that freed nothing.
#[derive(Clone, Copy, Debug)]
struct Failure {
    /// The horizon of that pass: the oldest snapshot that held versions back.
    oldest: Csn,
    /// Entries of the leaf at that time.
    entries: usize,
}

impl Failures {
    /// Decides whether another pass would find as little as the last one. `entries` counts the
    /// leaf's entries; it is called only where the number matters.
    pub(crate) fn would_fail_again(
        &self,
        block: BlockNumber,
        oldest: Csn,
        entries: impl FnOnce() -> usize,
    ) -> bool {
        let last = self.0.lock().get(&block).copied();
        last.filter(|last| last.oldest == oldest).is_some_and(|last| {
            (last.entries..last.entries + last.entries / GROWTH_PART + 1).contains(&entries())
        })
    }

    pub(crate) fn note(&self, block: BlockNumber, oldest: Csn, entries: usize) {
        debug_assert_ne!(block, META_BLOCK, "the metapage is no leaf");
        let mut failures = self.0.lock();
        if failures.len() >= FAILURES_MAX {
            failures.clear();
        }
        failures.insert(block, Failure { oldest, entries });
        debug_assert!(failures.len() <= FAILURES_MAX, "the memory is bounded");
    }

    /// Forgets the failure of a leaf whose entries have changed.
    pub(crate) fn forget(&self, block: BlockNumber) {
        self.0.lock().remove(&block);
    }
}

/// Leaves that took in versions since their last pass or split, for
/// [`VersionHint::Page`](crate::VersionHint::Page). The memory is lost with the handle, and cleared
/// when it holds `VERSION_LEAVES_MAX` leaves.
#[derive(Debug, Default)]
pub(crate) struct VersionLeaves(Mutex<BTreeSet<BlockNumber>>);

impl VersionLeaves {
    pub(crate) fn note(&self, block: BlockNumber) {
        debug_assert_ne!(block, META_BLOCK, "the metapage is no leaf");
        let mut leaves = self.0.lock();
        if leaves.len() >= VERSION_LEAVES_MAX {
            leaves.clear();
        }
        leaves.insert(block);
        debug_assert!(leaves.len() <= VERSION_LEAVES_MAX, "the memory is bounded");
    }

    /// Returns whether the leaf was noted, and forgets the note.
    pub(crate) fn take(&self, block: BlockNumber) -> bool {
        self.0.lock().remove(&block)
    }
}
