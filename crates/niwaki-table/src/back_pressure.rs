//! Updates that make an index grow only because an old snapshot keeps versions are slowed a little, if that is wanted.
//!
//! A report that stays open for an hour keeps versions for an hour. What an update beside it needs of room in an index that it
//! does not find, because nothing may go, it takes by a split; and a page that was split once is two. Who makes such splits fast makes
//! the index large fast. So each of them costs the update a rest (`version_split_delay`, off by default), which
//! it takes when it is done: no latch is held, and cancel and timeouts end it.
//!
//! Source: design section 8.

use std::time::Duration;

use niwaki_txn::{Sleep, Transaction};

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::stats::count;
use crate::table::Table;
use crate::workspace::Workspace;

impl Engine {
    /// How long an update rests for each index page that it splits only because an old snapshot keeps versions.
    pub fn set_version_split_delay(&self, delay: Duration) {
        self.version_split_delay.set(delay);
    }
}

impl Table {
    /// After an update, with no latch held.
    ///
    /// # Errors
    /// What ends the rest early: cancel, timeouts. The update is made then.
    #[inline]
    pub(crate) fn wait_for_old_snapshot(&self, tx: &Transaction, work: &Workspace) -> Result<()> {
        if work.held_splits == 0 { Ok(()) } else { self.rest_for(work.held_splits, tx) }
    }

    #[cold]
    fn rest_for(&self, splits: u32, tx: &Transaction) -> Result<()> {
        let delay = self.engine.version_split_delay.get();
        if delay.is_zero() {
            return Ok(());
        }
        count(&self.counters.update_delays, 1);
        let rested = tx.session().sleep(delay.saturating_mul(splits), Sleep::VersionSplitDelay);
        rested.map_err(|why| Error::Transaction(why.into()))
    }
}
