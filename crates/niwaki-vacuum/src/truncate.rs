//! The empty end of a heap is given back, when that is worth a lock that keeps everybody out, and nobody notices.
//!
//! ```text
//!  how long is the empty tail?  (no lock, shared latches, a piece at most)
//!     not worth it ──────────────────────────────► done
//!  does somebody wait for the table, or use it? ─► rest, try again, a few times; then leave it to another vacuum
//!  ACCESS EXCLUSIVE, if it is free
//!     the piece again, from the end ── somebody waits ─► with what is looked at so far
//!     cut, let go ───────────────────────────────► the next piece
//!  does somebody wait for this vacuum itself? ───► the rest is left to another vacuum
//! ```
//!
//! Who waits for this vacuum itself, to define something or to vacuum the table too, waits until its transaction ends:
//! no rest lets him in. So it ends with the piece that it is at.
//!
//! What decides is the look under the lock: before it, whoever holds the table may insert there. The look without the lock
//! is for what it costs: the pages are in memory when the lock is held.

use std::time::Duration;

use niwaki_env::SIMULATED;
use niwaki_env::seeded_bug;
use niwaki_heap::Heap;
use niwaki_table::Result;
use niwaki_txn::{KeptLock, TableId, TableLockMode, Transaction, WaitPolicy};

/// So many pages are worth it, whatever the heap's size.
const WORTH_PAGES: u32 = 1000;
/// And so is such a part of the heap.
const WORTH_PART: u32 = 16;
/// Most pages that are looked at again, and cut, while the lock is held once: 8 MiB.
const PIECE: u32 = if SIMULATED { 2 } else { 1024 };
/// How often in a row the lock is asked for in vain before the rest is left to another vacuum.
const TRIES: u32 = 5;

const _: () = assert!(SIMULATED || PIECE >= WORTH_PAGES, "one piece tells whether it is worth it");

/// The table that a vacuum works on, as the lock manager knows it: a transaction holds it in SHARE UPDATE EXCLUSIVE mode.
#[derive(Clone, Copy, Debug)]
pub struct LockedTable<'t> {
    /// Who holds it. No savepoint is open.
    pub transaction: &'t Transaction,
    /// Its name for locks.
    pub id: TableId,
}

impl LockedTable<'_> {
    /// Keeps everybody out until the lock is dropped. `None`: somebody uses the table, or waits for it.
    fn exclude(&self) -> Result<Option<KeptLock>> {
        const MODE: TableLockMode = TableLockMode::AccessExclusive;
        let locks = self.transaction.manager().locks();
        if self.is_wanted()
            || !locks.acquire_table(self.transaction, self.id, MODE, WaitPolicy::Skip)?
        {
            return Ok(None);
        }
        // Not until the transaction ends, as other locks.
        Ok(self.transaction.keep_table_lock(self.id, MODE))
    }

    /// Whether somebody waits for the table.
    fn is_wanted(&self) -> bool {
        self.transaction.manager().locks().is_wanted(self.id) && !seeded_bug!("tail-unyielding")
    }

    /// Whether somebody waits who gets the table when this vacuum has ended, and not before.
    fn holds_up(&self) -> bool {
        const HELD: TableLockMode = TableLockMode::ShareUpdateExclusive;
        let locks = self.transaction.manager().locks();
        locks.is_wanted_beside(self.id, HELD) && !seeded_bug!("tail-unyielding")
    }
}

/// Whether an empty tail of so many pages is worth the lock, of a heap of `blocks`.
fn is_worth_it(tail: u32, blocks: u32) -> bool {
    tail > 0 && (tail >= WORTH_PAGES || tail >= blocks / WORTH_PART)
}

/// How many pages at the end of the heap hold nothing, a piece at most, or as many as were looked at when somebody came
/// who waits for the vacuum; `rest` is called after each.
fn empty_tail(
    heap: &Heap<'_>,
    table: &LockedTable<'_>,
    rest: &mut dyn FnMut() -> Result<()>,
) -> Result<u32> {
    let blocks = heap.blocks()?;
    let mut tail = 0;
    while tail < PIECE.min(blocks) && !table.holds_up() && heap.holds_nothing(blocks - tail - 1)? {
        tail += 1;
        rest()?;
    }
    Ok(tail)
}

/// Cuts off what is empty at the end of a heap of the table, and returns how many pages that were. `begun` hears that
/// there is something to do; `rest` is called between pages, with how long to nap besides: `pause` between two tries for
/// the lock.
///
/// # Errors
/// Storage's; those of `rest`. What was cut is cut, and all that it takes is done for it.
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
            // Its tail may have come to hold something: it is looked at again.
            Some(_excluded) => heap.cut_tail(tail, &mut || table.is_wanted())?,
            None => 0,
        };
        cut += gone;
        tries = if gone > 0 { 0 } else { tries + 1 };
        if table.holds_up() {
            break;
        }
        let wait = gone == 0 || table.is_wanted();
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
