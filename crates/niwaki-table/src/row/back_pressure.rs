//! Back pressure: slows updates that grow an index only because an old snapshot keeps versions.
//!
//! A report that stays open for an hour keeps versions for an hour. An update beside it may find no
//! room in an index page, because no entry may go. Then it splits the page into two. Fast updates
//! of this kind make the index large fast. So each such split costs the update a delay
//! (`version_split_delay`, off by default). The update sleeps after its work is done: no latch is
//! held, and cancel and timeouts end the delay.
//!
//! Source: docs/internals/design.md, "Back-pressure".

use std::time::Duration;

use niwaki_txn::{Sleep, Transaction};

use crate::error::{Error, Result};
use crate::relation::count::count;
use crate::relation::engine::Engine;
use crate::relation::table::Table;
use crate::row::workspace::Workspace;

impl Engine {
    /// Sets the delay of an update for each index page that it splits only because an old snapshot
    /// keeps versions.
    pub fn set_version_split_delay(&self, delay: Duration) {
        self.version_split_delay.set(delay);
    }
}

impl Table {
    /// Delays an update after its work, with no latch held.
    ///
    /// # Errors
    /// The errors that end the delay early: cancel, timeouts. The update has been made then.
    #[inline]
    pub(crate) fn wait_for_old_snapshot(&self, tx: &Transaction, work: &Workspace) -> Result<()> {
        if work.held_splits == 0 { Ok(()) } else { self.delay_for_splits(work.held_splits, tx) }
    }

    #[cold]
    fn delay_for_splits(&self, splits: u32, tx: &Transaction) -> Result<()> {
        debug_assert!(splits > 0, "an update that split no page rests");
        let delay = self.engine.version_split_delay.get();
        if delay.is_zero() {
            return Ok(());
        }
        count(&self.counters.update_delays, 1);
        let delayed = tx.session().sleep(delay.saturating_mul(splits), Sleep::VersionSplitDelay);
        delayed.map_err(|why| Error::Transaction(why.into()))
    }
}
