//! Commit: durable first, visible after, in the order of the log.

use niwaki_env::sync::atomic::Ordering;
use niwaki_env::{invariant, seeded_bug};
use niwaki_storage::{Csn, Lsn, RelFile, Xid};

use crate::error::Result;
use crate::handle::manager::TransactionManager;
use crate::handle::session::SessionControl;
use crate::visibility::snapshot::SnapshotSlots;
use crate::xact::commit_queue::Pending;
use crate::xact::directory::XactStates;
use crate::xact::record::{EndRecord, RECORD_ABORT, RECORD_COMMIT};
use crate::xact::transaction_log::{Durability, TransactionLog};

/// Makes commits visible, given in log order. Stores the state of every transaction first, then
/// publishes the CSN up to which snapshots see. So a snapshot that reads the CSN finds the states
/// (S1).
pub(crate) fn mark_and_publish(
    states: &XactStates,
    slots: &SnapshotSlots,
    commits: impl Iterator<Item = (Xid, Csn)> + Clone,
) {
    invariant!(
        S1,
        commits.clone().is_sorted_by_key(|(_, csn)| csn),
        "the commits to publish are not in the order of the log"
    );
    let last = commits.clone().last().map(|(_, csn)| csn);
    if seeded_bug!("publish_before_marking")
        && let Some(last) = last
    {
        slots.publish(last);
    }
    for (xid, csn) in commits {
        states.commit(xid, csn);
    }
    if let Some(last) = last {
        slots.publish(last);
    }
}

impl TransactionManager {
    /// Logs the commit of `xid` and its subtransactions. Returns once the commit is visible, and
    /// durable unless `durability` says otherwise.
    ///
    /// # Errors
    /// When the commit cannot be logged, or its record cannot be written any more. The commit is
    /// not visible then, and the caller aborts the transaction.
    pub(crate) fn commit_xid(
        &self,
        xid: Xid,
        subxids: &[Xid],
        body: &[u8],
        durability: Durability,
    ) -> Result<Csn> {
        debug_assert!(xid.is_normal(), "the reserved id {xid} commits");
        debug_assert!(subxids.first().is_none_or(|first| *first > xid), "{subxids:?} of {xid}");
        debug_assert!(subxids.is_sorted_by(|a, b| a < b), "{subxids:?} are not as assigned");
        let log = self.log()?;
        let unflushed = durability == Durability::Async;
        let csn = {
            // One lock covers both steps, so that the queue has the log's order.
            let mut pending = self.commits.pending.lock();
            let csn = Csn(log.append(RECORD_COMMIT, xid, body)?.0);
            let in_order = pending.back().is_none_or(|last| last.csn < csn);
            invariant!(S1, in_order, "the queue has another order than the log at {csn}");
            pending.push_back(Pending { csn, xid, subxids: subxids.into(), unflushed });
            csn
        };
        let flushed = if unflushed { Ok(()) } else { log.flush(Lsn(csn.0)) };
        match flushed.and_then(|()| self.publish(log, csn)) {
            Err(error) if self.withdraw(csn) => Err(error),
            // Another thread published the commit meanwhile: by then it was durable, or need not
            // be.
            _ => Ok(csn),
        }
    }

    /// Takes a commit whose record will not become durable out of the queue. Returns false when the
    /// commit is published already.
    fn withdraw(&self, csn: Csn) -> bool {
        let mut pending = self.commits.pending.lock();
        let at = pending.iter().position(|commit| commit.csn == csn);
        at.and_then(|at| pending.remove(at)).is_some()
    }

    /// Commits a transaction that wrote, and removes the files it dropped.
    pub(crate) fn commit_transaction(
        &self,
        xid: Xid,
        subxids: &[Xid],
        files: &[RelFile],
        durability: Durability,
    ) -> Result<Csn> {
        let time_us = self.env().clock.now_unix_us();
        let record = EndRecord { time_us, subxids, files };
        let mut commit = || match record.encode_plain() {
            Some(body) => self.commit_xid(xid, subxids, &body, durability),
            None => self.commit_xid(xid, subxids, &record.encode(), durability),
        };
        let csn = self.log()?.commit_and_drop(files, &mut commit)?;
        if self.shrunk.due.load(Ordering::Relaxed) {
            // The commit stands even if this fails; the next checkpoint meets the failure again.
            let _ = self.shrink_segments();
        }
        Ok(csn)
    }

    /// Aborts a transaction that wrote, and removes the files it created. The record only helps
    /// readers of the log: a transaction without a commit record is aborted anyway.
    pub(crate) fn abort_transaction(&self, xid: Xid, subxids: &[Xid], files: &[RelFile]) {
        debug_assert!(xid.is_normal(), "the reserved id {xid} aborts");
        debug_assert!(subxids.first().is_none_or(|first| *first > xid), "{subxids:?} of {xid}");
        debug_assert!(subxids.is_sorted_by(|a, b| a < b), "{subxids:?} are not as assigned");
        let body = EndRecord { time_us: self.env().clock.now_unix_us(), subxids, files }.encode();
        if let Ok(log) = self.log() {
            let _ = log.append(RECORD_ABORT, xid, &body);
        }
        self.abort_xids(subxids.iter().copied().chain([xid]));
        self.drop_files(files);
    }

    /// Aborts the subtransactions of a rolled back savepoint, and removes the files they created.
    pub(crate) fn abort_subtransactions(
        &self,
        session: &SessionControl,
        subxids: &[Xid],
        files: &[RelFile],
    ) {
        if let Some(&first) = subxids.first() {
            // The ids were assigned in order, and the rollback removes the last ones.
            let mut live = session.subxids.lock();
            debug_assert!(live.ends_with(subxids), "{subxids:?} are not the last of {live:?}");
            live.retain(|xid| *xid < first);
            drop(live);
            self.abort_transaction(first, &subxids[1..], files);
        } else {
            self.drop_files(files);
        }
    }

    fn abort_xids(&self, xids: impl Iterator<Item = Xid> + Clone) {
        {
            // States are stored under the queue's lock, so that segments do not move meanwhile.
            let _queue = self.commits.lock();
            xids.clone().for_each(|xid| self.states.abort(xid));
        }
        xids.for_each(|xid| self.locks().xid_ended(xid));
    }

    pub(crate) fn drop_files(&self, files: &[RelFile]) {
        if let Ok(log) = self.log() {
            files.iter().for_each(|&file| log.drop_file(file));
        }
    }

    /// Publishes every commit that is ready; returns when `csn` is published.
    ///
    /// # Errors
    /// When a commit that `csn` waits for cannot be made durable any more.
    fn publish(&self, log: &dyn TransactionLog, csn: Csn) -> Result<()> {
        // Ends: each round either finds `csn` published, publishes it, or flushes the commit in
        // front that blocks it.
        while self.slots.published() < csn {
            let blocking = self.publish_ready(log.flushed());
            if let Some(blocking) = blocking
                && self.slots.published() < csn
            {
                log.flush(Lsn(blocking.0))?;
            }
        }
        Ok(())
    }

    /// Publishes the queue's ready prefix; returns the first commit that still has to be flushed.
    fn publish_ready(&self, flushed: Lsn) -> Option<Csn> {
        let mut pending = self.commits.pending.lock();
        let ready = pending
            .iter()
            .position(|commit| !commit.unflushed && commit.csn.0 > flushed.0)
            .unwrap_or(pending.len());
        let blocking = pending.get(ready).map(|commit| commit.csn);
        if ready == 0 {
            return blocking;
        }
        let commits = pending.iter().take(ready);
        mark_and_publish(
            &self.states,
            &self.slots,
            commits.clone().flat_map(|commit| {
                commit.subxids.iter().chain([&commit.xid]).map(|xid| (*xid, commit.csn))
            }),
        );
        let waited_for = self.locks().has_xid_waiters();
        let published: Vec<Pending> =
            if waited_for { pending.drain(..ready).collect() } else { Vec::new() };
        if !waited_for {
            pending.drain(..ready);
        }
        let next = pending.front().map(|commit| commit.csn);
        invariant!(W2, next == blocking, "{next:?} is first in the queue, not {blocking:?}");
        // Other threads may log and publish while this one wakes the waiters. The commits are
        // published before the waiters wake (rule `published`).
        drop(pending);
        for commit in &published {
            self.locks().xid_ended(commit.xid);
            commit.subxids.iter().for_each(|subxid| self.locks().xid_ended(*subxid));
        }
        blocking
    }
}
