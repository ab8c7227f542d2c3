//! Commits that are marked when they are logged, and published when they are durable
//! (rule `early-release`).
//!
//! ```text
//! queue    3 published │ 4 marked │ 5 marked │ 6 late │ 7 waits for 6
//!                      └─► published = 3     └─► logged = 5
//! ```
//! Readers see up to `published`. A session that met a logged commit depends on it: its snapshots
//! see the commit, and its answers wait for the publication.

use crate::access::transaction::{Dependence, LogFailed, Transaction};
use crate::rules::Rule;
use crate::scheduler::Actor;
use crate::state::log::Pending;
use crate::state::transactions::{Csn, Status};
use crate::state::world::World;

/// The promises of a commit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    /// A crash may not lose the commit once it is published.
    pub(crate) durable: bool,
    /// The commit has definitions.
    pub(crate) late: bool,
}

impl World {
    /// Logs the commit. Marks it in the same hold, unless it is late or behind a late one.
    pub(crate) fn log_commit(&mut self, tx: &Transaction, kind: Kind) -> Csn {
        let csn = self.transactions.next;
        self.transactions.next += 1;
        self.log.commit(csn, &tx.xids, &tx.writes);
        if !kind.durable {
            self.transactions.asynchronous.insert(csn);
        }
        if kind.late {
            self.transactions.late.insert(csn);
        }
        self.say(|| format!("logs the commit of x{} as {csn}, late: {}", tx.top, kind.late));
        let (xids, writes) = (tx.xids.clone(), tx.writes.clone());
        let Kind { durable, late } = kind;
        let commit = Pending { csn, xids, writes, durable, late, marked: false };
        self.pending.push_back(commit);
        if self.rules.has(Rule::InOrder) {
            self.mark_logged();
        }
        csn
    }

    /// Marks the commits of the queue up to the first late one.
    fn mark_logged(&mut self) {
        for at in 0..self.pending.len() {
            let Pending { marked, late, .. } = self.pending[at];
            if late && !marked && self.rules.has(Rule::LateCommit) {
                if self.rules.has(Rule::LateFollowers) {
                    return;
                }
            } else if !marked {
                self.mark_pending(at);
            }
        }
    }

    fn mark_pending(&mut self, at: usize) {
        let commit = &mut self.pending[at];
        commit.marked = true;
        let Pending { csn, xids, writes, .. } = commit.clone();
        for xid in &xids {
            self.transactions.mark(*xid, Status::Committed(csn));
        }
        self.transactions.logged = self.transactions.logged.max(csn);
        self.events.commits += 1;
        self.say(|| format!("marks {csn}"));
        self.oracle_commit(csn, &writes);
        self.touch();
    }

    /// Marks one commit in a hold of its own, against rule `in-order`.
    pub(crate) fn mark_alone(&mut self, csn: Csn) {
        let unmarked = |commit: &Pending| commit.csn == csn && !commit.marked && !commit.late;
        if let Some(at) = self.pending.iter().position(unmarked) {
            self.mark_pending(at);
        }
    }

    pub(crate) fn is_marked(&self, csn: Csn) -> bool {
        !self.pending.iter().any(|commit| commit.csn == csn && !commit.marked)
    }

    /// Flushes the log up to the last durable commit at or before `csn`.
    fn flush_until(&mut self, csn: Csn) -> Result<(), LogFailed> {
        let flushes = |commit: &&Pending| commit.durable && commit.csn <= csn;
        let Some(last) = self.pending.iter().rev().find(flushes) else { return Ok(()) };
        let last = last.csn;
        if self.log.failed {
            self.events.failed += 1;
            self.say(|| format!("the flush of {last} fails"));
            return Err(LogFailed);
        }
        self.log.flush_commit(last);
        self.transactions.flushed = self.transactions.flushed.max(last);
        Ok(())
    }

    /// Publishes the ready prefix of the queue. A late commit is marked now, and so are the commits
    /// behind it up to the next late one.
    fn publish_ready(&mut self) {
        while let Some(first) = self.pending.front() {
            if first.durable && first.csn > self.transactions.flushed {
                break;
            }
            if !first.marked {
                self.events.late += 1;
                self.mark_pending(0);
            }
            let Some(Pending { csn, late, .. }) = self.pending.pop_front() else {
                break;
            };
            self.transactions.published = csn;
            if late {
                self.transactions.defined = csn;
            }
            self.say(|| format!("publishes {csn}"));
            self.touch();
        }
        if self.rules.has(Rule::InOrder) {
            self.mark_logged();
        }
    }

    /// Takes back a commit that could not be flushed, against rule `marked-stays`.
    pub(crate) fn withdraw(&mut self, csn: Csn) {
        let Some(at) = self.pending.iter().position(|commit| commit.csn == csn) else {
            return;
        };
        if let Some(commit) = self.pending.remove(at) {
            for xid in commit.xids {
                self.transactions.mark(xid, Status::Aborted);
            }
        }
        self.say(|| format!("withdraws {csn}"));
        self.oracle.forget(csn);
        self.touch();
    }

    /// Sends what a session knows to its client.
    pub(crate) fn answer(&mut self, dependence: &Dependence) {
        self.answered = self.answered.max(dependence.durable.get());
    }
}

/// Waits until `csn` is published. Flushes and publishes itself: the session of that commit may
/// wait for this one.
pub(crate) async fn publish_until(actor: &Actor, csn: Csn) -> Result<(), LogFailed> {
    // Ends: a round flushes and publishes all commits up to `csn`. Only a commit that is withdrawn
    // meanwhile is not among them, and then the flush fails.
    while actor.world().transactions.published < csn {
        delay(actor, 6).await;
        actor.world().flush_until(csn)?;
        actor.step().await;
        actor.world().publish_ready();
    }
    Ok(())
}

/// Lets other actors do up to `most` steps: a flush takes a while.
pub(crate) async fn delay(actor: &Actor, most: usize) {
    let steps = actor.world().random.below(most + 1);
    for _ in 0..steps {
        actor.wait().await;
    }
}

/// Waits until what the session depends on is published.
pub(crate) async fn publish_dependence(
    actor: &Actor,
    dependence: &Dependence,
) -> Result<(), LogFailed> {
    publish_until(actor, dependence.on.get()).await
}
