//! Truncation of a heap's empty tail, by a short exclusive lock that other sessions do not notice.
//!
//! ```text
//!  how long is the empty tail?  (no lock, shared latches, a piece at most)
//!     not worth it ─────────────────────────────► done
//!  is the table in use, or waited for? ─────────► rest, try again, a few times;
//!                                                 then leave it to another vacuum
//!  ACCESS EXCLUSIVE, if it is free
//!     the piece again, from the end; a waiter ──► with the pages looked at so far
//!     cut, let go ──────────────────────────────► the next piece
//!  does a session wait for this vacuum itself? ─► the rest is left to another vacuum
//! ```
//!
//! A session may wait for this vacuum itself, for DDL or for another vacuum of the table. It waits
//! until the vacuum's transaction ends: no pause lets it in. So the truncation then ends with its
//! current piece.
//!
//! The look under the lock decides: before it, any session that holds the table may insert there.
//! The look without the lock only reduces the cost: the pages are then in memory when the lock is
//! held.

use std::time::Duration;

use niwaki_env::SIMULATED;
use niwaki_env::seeded_bug;
use niwaki_heap::Heap;
use niwaki_table::Result;
use niwaki_txn::{SessionLock, TableId, TableLockMode, Transaction, WaitPolicy};

/// The length of an empty tail, in pages, that is worth the lock, whatever the heap's size.
const WORTH_PAGES: u32 = 1000;
/// The part of the heap, as its divisor, from which on an empty tail is worth the lock.
const WORTH_PART: u32 = 16;
/// The most pages looked at again, and cut, under one hold of the lock: 8 MiB.
const PIECE: u32 = if SIMULATED { 2 } else { 1024 };
/// The number of failed tries in a row after which the rest is left to another vacuum.
const TRIES: u32 = 5;

const _: () = assert!(SIMULATED || PIECE >= WORTH_PAGES, "one piece tells whether it is worth it");

/// The lock on the table under vacuum: a transaction holds it in SHARE UPDATE EXCLUSIVE mode.
#[derive(Clone, Copy, Debug)]
pub struct LockedTable<'t> {
    /// The transaction that holds the lock. No savepoint is open.
    pub transaction: &'t Transaction,
    /// The number of the table in the lock manager.
    pub id: TableId,
}

impl LockedTable<'_> {
    /// Asserts what a caller promises: the transaction holds the table, outside of savepoints.
    pub(crate) fn assert_held(&self) {
        const MODE: TableLockMode = TableLockMode::ShareUpdateExclusive;
        debug_assert_eq!(self.transaction.savepoint_depth(), 0, "a rollback would not let go");
        debug_assert!(
            self.transaction.manager().locks().holds_table(self.transaction, self.id, MODE),
            "another vacuum, or an index build, may work on {:?}",
            self.id
        );
    }

    /// Excludes all other sessions until the returned lock is dropped. Returns `None` when a
    /// session uses the table, or waits for it.
    fn exclude(&self) -> Result<Option<SessionLock>> {
        self.assert_held();
        const MODE: TableLockMode = TableLockMode::AccessExclusive;
        let locks = self.transaction.manager().locks();
        if self.has_waiters()
            || !locks.acquire_table(self.transaction, self.id, MODE, WaitPolicy::Skip)?
        {
            return Ok(None);
        }
        // The lock is kept only until the value is dropped, not until the transaction ends as other
        // locks are.
        Ok(self.transaction.keep_table_lock(self.id, MODE))
    }

    /// Returns true when a session waits for the table.
    fn has_waiters(&self) -> bool {
        self.transaction.manager().locks().has_waiters(self.id) && !seeded_bug!("tail-unyielding")
    }

    /// Returns true when a session waits that gets the table only when this vacuum has ended.
    fn blocks_waiters(&self) -> bool {
        const HELD: TableLockMode = TableLockMode::ShareUpdateExclusive;
        let locks = self.transaction.manager().locks();
        locks.has_waiters_excluded_by(self.id, HELD) && !seeded_bug!("tail-unyielding")
    }
}

/// Decides whether an empty tail of `tail` pages is worth the lock, in a heap of `blocks` pages.
fn is_worth_it(tail: u32, blocks: u32) -> bool {
    debug_assert!(tail <= blocks, "the tail of {tail} pages is longer than the heap of {blocks}");
    tail > 0 && (tail >= WORTH_PAGES || tail >= blocks / WORTH_PART)
}

/// Counts the empty pages at the end of the heap, a piece at most. Stops early when a session waits
/// for the vacuum. `rest` is called after each page.
fn empty_tail(
    heap: &Heap<'_>,
    table: &LockedTable<'_>,
    rest: &mut dyn FnMut() -> Result<()>,
) -> Result<u32> {
    let blocks = heap.blocks()?;
    let mut tail = 0;
    while tail < PIECE.min(blocks)
        && !table.blocks_waiters()
        && heap.is_empty_page(blocks - tail - 1)?
    {
        tail += 1;
        rest()?;
    }
    debug_assert!(tail <= PIECE, "{tail} pages are more than a piece");
    debug_assert!(tail <= blocks, "the tail of {tail} pages is longer than the heap of {blocks}");
    Ok(tail)
}

/// Cuts off the empty pages at the end of a heap of the table, and returns their number. `begun` is
/// called if such pages are worth it. `rest` is called between pages, with an additional time to
/// nap: `pause` between two tries for the lock.
///
/// # Errors
/// Storage's; the errors of `rest`. Pages cut until then stay cut, with all the work that belongs
/// to it.
pub(crate) fn truncate(
    heap: &Heap<'_>,
    table: &LockedTable<'_>,
    pause: Duration,
    begun: &mut dyn FnMut(),
    rest: &mut dyn FnMut(Duration) -> Result<()>,
) -> Result<u32> {
    let mut tail = empty_tail(heap, table, &mut || rest(Duration::ZERO))?;
    if !is_worth_it(tail, heap.blocks()?) {
        return Ok(0);
    }
    begun();
    let (mut cut, mut tries) = (0, 0);
    // Ends: a turn makes the heap shorter, or is one of a few tries in a row.
    while tail > 0 && tries < TRIES {
        let gone = match table.exclude()? {
            // The tail may have got rows: the pages are looked at again.
            Some(_excluded) => heap.cut_tail(tail, &mut || table.has_waiters())?,
            None => 0,
        };
        debug_assert!(gone <= tail, "{gone} pages were cut off, of {tail} that held nothing");
        cut += gone;
        tries = if gone > 0 { 0 } else { tries + 1 };
        if table.blocks_waiters() {
            break;
        }
        let wait = gone == 0 || table.has_waiters();
        rest(if wait { pause } else { Duration::ZERO })?;
        tail = empty_tail(heap, table, &mut || rest(Duration::ZERO))?;
    }
    Ok(cut)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sixteenth_or_a_thousand_pages_are_worth_it() {
        let cases = [
            (0, 0, false),
            (0, 15, false),
            (1, 1, true),
            (1, 31, true),
            (1, 32, false),
            (2, 32, true),
            (62, 1000, true),
            (61, 1000, false),
            (999, 100_000, false),
            (1000, 100_000, true),
        ];
        for (tail, blocks, worth) in cases {
            assert_eq!(is_worth_it(tail, blocks), worth, "{tail} of {blocks}");
        }
    }
}
