//! Waiting for the end of a transaction.

use std::sync::Arc;

use niwaki_env::hash::HashMap;
use niwaki_env::seeded_bug;
use niwaki_env::sync::Mutex;
use niwaki_env::sync::atomic::{AtomicUsize, Ordering, fence};
use niwaki_storage::Xid;

use super::{LockKey, LockManager, WaitPolicy};
use crate::error::Result;
use crate::manager::XidStatus;
use crate::session::SessionControl;
use crate::transaction::Transaction;
use crate::xact::limit;

const SHARDS: usize = limit(64, 4, 1);

/// Who waits for which transaction.
#[derive(Debug)]
pub(crate) struct XidWaits {
    /// Waiters in all shards.
    total: AtomicUsize,
    shards: Box<[Shard]>,
}

#[derive(Debug)]
struct Shard {
    /// Waiters in this shard; zero lets those who end pass without the lock.
    count: AtomicUsize,
    waiters: Mutex<HashMap<Xid, Vec<Arc<SessionControl>>>>,
}

impl XidWaits {
    pub(crate) fn new() -> Self {
        let shard =
            || Shard { count: AtomicUsize::new(0), waiters: Mutex::new(HashMap::default()) };
        Self { total: AtomicUsize::new(0), shards: (0..SHARDS).map(|_| shard()).collect() }
    }

    fn shard(&self, xid: Xid) -> &Shard {
        &self.shards[xid.0 as usize % SHARDS]
    }
}

impl LockManager {
    /// Waits until `xid`, another's transaction or subtransaction, has ended; then its end is
    /// published (rule 9b.1). No latch may be held. False only under [`WaitPolicy::Skip`], when it
    /// has not.
    ///
    /// # Errors
    /// As [`LockManager::acquire_table`].
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
        let session = transaction.session();
        session.prepare_wait(LockKey::Transaction(xid));
        let shard = self.xids.shard(xid);
        self.xids.total.fetch_add(1, Ordering::SeqCst);
        shard.count.fetch_add(1, Ordering::SeqCst);
        shard.waiters.lock().entry(xid).or_default().push(Arc::clone(session));
        // Pairs with the fence in `xid_ended`: either it sees the count, or this sees the end.
        fence(Ordering::SeqCst);
        let result = if ended() && !seeded_bug!("xid_wait_without_second_look") {
            Ok(())
        } else {
            session.wait_granted(|| self.look_for_deadlock(session))
        };
        let mut waiters = shard.waiters.lock();
        if let Some(list) = waiters.get_mut(&xid) {
            list.retain(|waiter| !Arc::ptr_eq(waiter, session));
            if list.is_empty() {
                waiters.remove(&xid);
            }
        }
        drop(waiters);
        shard.count.fetch_sub(1, Ordering::Relaxed);
        self.xids.total.fetch_sub(1, Ordering::Relaxed);
        session.end_wait();
        result.map(|()| true)
    }

    /// Whether the end of any transaction is waited for. Asked after the end is published.
    pub(crate) fn anybody_waits_for_a_transaction(&self) -> bool {
        // Pairs with the fence in `wait_for_xid`: either this sees the waiter, or it sees the end.
        fence(Ordering::SeqCst);
        self.xids.total.load(Ordering::Relaxed) != 0
    }

    /// Wakes those who wait for `xid`, whose end is published.
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
