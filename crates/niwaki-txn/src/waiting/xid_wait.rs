//! Waiting for the end of a transaction.

use std::sync::Arc;

use niwaki_env::seeded_bug;
use niwaki_env::sync::atomic::{Ordering, fence};
use niwaki_storage::Xid;

use crate::error::Result;
use crate::handle::lock_table::LockManager;
use crate::handle::manager::XidStatus;
use crate::handle::transaction::Transaction;
use crate::locks::key::{LockKey, WaitPolicy};

impl LockManager {
    /// Waits until `xid`, a transaction or subtransaction of another session, has ended. Its end is
    /// published then (rule `published`). No latch may be held. Returns false only under
    /// [`WaitPolicy::Skip`], when `xid` has not ended.
    ///
    /// # Errors
    /// The errors of [`LockManager::acquire_table`].
    pub fn wait_for_xid(
        &self,
        transaction: &Transaction,
        xid: Xid,
        policy: WaitPolicy,
    ) -> Result<bool> {
        let manager = transaction.manager();
        let ended = || manager.status(xid) != XidStatus::InProgress;
        if ended() {
            return Ok(true);
        }
        if !policy.waits(&LockKey::Transaction(xid))? {
            return Ok(false);
        }
        debug_assert!(!transaction.is_mine(xid), "{xid} waits for its own end");
        let session = transaction.session();
        session.prepare_wait(LockKey::Transaction(xid));
        let shard = self.xids.shard(xid);
        self.xids.total.fetch_add(1, Ordering::SeqCst);
        shard.count.fetch_add(1, Ordering::SeqCst);
        let mut waiters = shard.waiters.lock();
        let list = waiters.entry(xid).or_default();
        debug_assert!(
            !list.iter().any(|waiter| Arc::ptr_eq(waiter, session)),
            "{session:?} waits for {xid} twice"
        );
        list.push(Arc::clone(session));
        drop(waiters);
        // Pairs with the fence in `xid_ended`: either `xid_ended` sees the count, or this thread
        // sees the end.
        fence(Ordering::SeqCst);
        let result = if ended() && !seeded_bug!("xid_wait_without_second_look") {
            Ok(())
        } else {
            session.wait_granted(|| self.check_for_deadlock(session))
        };
        let mut waiters = shard.waiters.lock();
        if let Some(list) = waiters.get_mut(&xid) {
            list.retain(|waiter| !Arc::ptr_eq(waiter, session));
            if list.is_empty() {
                waiters.remove(&xid);
            }
        }
        drop(waiters);
        let before = shard.count.fetch_sub(1, Ordering::Relaxed);
        debug_assert!(before > 0, "the waiter for {xid} was not counted in its shard");
        let before = self.xids.total.fetch_sub(1, Ordering::Relaxed);
        debug_assert!(before > 0, "the waiter for {xid} was not counted");
        session.end_wait();
        result.map(|()| true)
    }

    /// Returns whether a session waits for the end of any transaction. Call it after the end is
    /// published.
    pub(crate) fn has_xid_waiters(&self) -> bool {
        // Pairs with the fence in `wait_for_xid`: either this thread sees the waiter, or the waiter
        // sees the end.
        fence(Ordering::SeqCst);
        self.xids.total.load(Ordering::Relaxed) != 0
    }

    /// Wakes the sessions that wait for `xid`, whose end is published.
    pub(crate) fn xid_ended(&self, xid: Xid) {
        let shard = self.xids.shard(xid);
        fence(Ordering::SeqCst);
        if shard.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        if let Some(list) = shard.waiters.lock().remove(&xid) {
            list.iter().for_each(|waiter| waiter.grant());
        }
    }
}
