//! The oldest transaction that a snapshot does not see: PostgreSQL's `xmin` of the snapshot.

use niwaki_storage::{Csn, Xid};

use crate::handle::manager::TransactionManager;
use crate::xact::segment::{RUNNING, XIDS_PER_SEGMENT, segment_of};

impl TransactionManager {
    /// Returns the oldest transaction that runs, or that committed after `snapshot`; without one,
    /// the next id to assign.
    ///
    /// For monitoring: the function reads no file. If the states of a segment are not in memory,
    /// the segment's first transaction stands for all.
    pub fn snapshot_xmin(&self, snapshot: Csn) -> Xid {
        let next = self.next_xid();
        // In the order in which segments move: of one that is shrunk meanwhile nothing may be found
        // here any more, but it is among those that are shrunk.
        let segments = self.states.unshrunk();
        let unshrunk = segments.into_iter().find_map(|it| self.unseen_of(it, snapshot, next));
        let shrunk = self.shrunk.first_unseen(snapshot).map(first_of);
        unshrunk.into_iter().chain(shrunk).fold(next, Xid::min)
    }

    /// As [`TransactionManager::snapshot_xmin`], of one segment that is not shrunk.
    fn unseen_of(&self, segment: u64, snapshot: Csn, next: Xid) -> Option<Xid> {
        let first = first_of(segment);
        for xid in first.0..next.0.min((segment + 1) * XIDS_PER_SEGMENT) {
            match self.states.get(Xid(xid)) {
                Some(state) if state == RUNNING || state > snapshot.0 => return Some(Xid(xid)),
                Some(_) => {}
                None => {
                    let summary = self.states.summarize(segment);
                    let is_unseen = summary.running || summary.last() > Some(snapshot);
                    return is_unseen.then_some(first);
                }
            }
        }
        None
    }
}

/// The first transaction of a segment.
fn first_of(segment: u64) -> Xid {
    let first = Xid(segment * XIDS_PER_SEGMENT).max(Xid::FIRST_NORMAL);
    debug_assert_eq!(segment_of(first), segment, "{first} is in another segment");
    first
}

#[cfg(all(test, not(any(feature = "shuttle", feature = "loom"))))]
mod tests {
    use std::sync::Arc;

    use niwaki_env::Env;
    use niwaki_storage::{Storage, StorageOptions, Xid};

    use crate::handle::manager::TransactionManager;
    use crate::handle::session::SessionControl;
    use crate::handle::transaction::{BeginOptions, Transaction};
    use crate::options::TxnOptions;
    use crate::xact::transaction_log::Durability;

    fn begin(manager: &Arc<TransactionManager>) -> (Arc<SessionControl>, Transaction, Xid) {
        let session = manager.register_session().unwrap();
        let transaction = manager.begin(&session, BeginOptions::default()).unwrap();
        let xid = transaction.write_xid().unwrap();
        (session, transaction, xid)
    }

    #[test]
    fn the_oldest_unseen_transaction_runs_or_committed_after_the_snapshot() {
        let env = Env::memory();
        let manager = TransactionManager::new(env.clone(), TxnOptions::default());
        let managers = vec![Arc::clone(&manager) as _];
        let (storage, _) = Storage::open(env, StorageOptions::default(), managers).unwrap();
        manager.attach(&storage).unwrap();
        let (_first_session, first, first_xid) = begin(&manager);
        let (_second_session, second, second_xid) = begin(&manager);
        assert!(first_xid < second_xid);
        let before = manager.published();
        assert_eq!(manager.snapshot_xmin(before), first_xid);
        second.commit(Durability::Flush).unwrap();
        let between = manager.published();
        assert_eq!(manager.snapshot_xmin(before), first_xid);
        first.abort();
        assert_eq!(manager.snapshot_xmin(before), second_xid, "it committed later");
        assert_eq!(manager.snapshot_xmin(between), manager.next_xid(), "all is seen");
    }
}
