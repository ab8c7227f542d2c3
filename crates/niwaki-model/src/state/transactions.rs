//! Transactions, with the slots of their snapshots, and the view that a collector reads of them.

use std::collections::{BTreeMap, BTreeSet};

/// A transaction or subtransaction.
pub(crate) type Xid = usize;

/// The position of a commit in the order of commits.
pub(crate) type Csn = u32;

/// The state of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Status {
    Running,
    Aborted,
    Committed(Csn),
}

impl Status {
    pub(crate) fn is_committed(self) -> bool {
        matches!(self, Self::Committed(_))
    }
}

/// The slot where a snapshot is registered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Slot {
    Empty,
    /// A snapshot is being taken: collectors must wait (rule `snapshot-slot`).
    Pending,
    Snapshot {
        csn: Csn,
        follows: bool,
    },
}

/// The states of transactions, the published CSN and the slots.
#[derive(Clone, Debug)]
pub(crate) struct Transactions {
    status: Vec<Status>,
    /// The top transaction of each transaction.
    top: Vec<Xid>,
    pub(crate) published: Csn,
    /// The newest commit that is marked. With early release it is ahead of `published`.
    pub(crate) logged: Csn,
    /// Commits up to here are flushed; only early release uses it.
    pub(crate) flushed: Csn,
    /// Commits that a crash may lose although they were published.
    pub(crate) asynchronous: BTreeSet<Csn>,
    /// Commits with definitions.
    pub(crate) late: BTreeSet<Csn>,
    /// The newest commit whose definitions are in force.
    pub(crate) defined: Csn,
    /// The CSN that the next commit gets.
    pub(crate) next: Csn,
    pub(crate) slots: Vec<Slot>,
    /// Top transactions that write.
    writers: Vec<Xid>,
    /// Waits between top transactions: from the waiter to the transaction it waits for.
    pub(crate) waits: BTreeMap<Xid, Xid>,
}

impl Transactions {
    /// Begins with one transaction, 0, that committed at CSN 1 and wrote the initial rows.
    pub(crate) fn new(slots: usize) -> Self {
        Self {
            status: vec![Status::Committed(1)],
            top: vec![0],
            published: 1,
            logged: 1,
            flushed: 1,
            asynchronous: BTreeSet::new(),
            late: BTreeSet::new(),
            defined: 1,
            next: 2,
            slots: vec![Slot::Empty; slots],
            writers: Vec::new(),
            waits: BTreeMap::new(),
        }
    }

    /// Begins a new transaction, or a subtransaction of the top transaction `parent`.
    pub(crate) fn begin(&mut self, parent: Option<Xid>) -> Xid {
        let xid = self.status.len();
        self.status.push(Status::Running);
        self.top.push(parent.unwrap_or(xid));
        xid
    }

    /// Returns the state that was marked, published or not.
    pub(crate) fn marked(&self, xid: Xid) -> Status {
        self.status[xid]
    }

    pub(crate) fn mark(&mut self, xid: Xid, status: Status) {
        self.status[xid] = status;
    }

    pub(crate) fn top(&self, xid: Xid) -> Xid {
        self.top[xid]
    }

    pub(crate) fn aborted(&self, xid: Xid) -> bool {
        self.status[xid] == Status::Aborted
    }

    /// Returns the CSN of a marked commit.
    pub(crate) fn csn(&self, xid: Xid) -> Option<Csn> {
        match self.status[xid] {
            Status::Committed(csn) => Some(csn),
            _ => None,
        }
    }

    /// Returns whether `xid` belongs to the top transaction `own` and was not rolled back.
    pub(crate) fn is_running_part(&self, xid: Xid, own: Xid) -> bool {
        self.top[xid] == own && self.status[xid] == Status::Running
    }

    /// Notes a top transaction that writes.
    pub(crate) fn writes(&mut self, top: Xid) {
        self.writers.push(top);
    }

    /// Returns the top transactions in progress that write.
    pub(crate) fn running_writers(&self) -> Vec<Xid> {
        let running = |xid: &&Xid| self.status[**xid] == Status::Running;
        self.writers.iter().filter(running).copied().collect()
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = Xid> + use<> {
        0..self.top.len()
    }

    /// Returns the newest commit at or before `csn` that a crash may not lose once published.
    pub(crate) fn durable_until(&self, csn: Csn) -> Csn {
        (1..=csn).rev().find(|csn| !self.asynchronous.contains(csn)).unwrap_or(0)
    }

    /// Begins again after a crash that left the commits up to `last`.
    pub(crate) fn begin_again(&mut self, last: Csn) {
        (self.published, self.logged, self.flushed, self.defined) = (last, last, last, last);
        self.next = last + 1;
        self.asynchronous.retain(|csn| *csn <= last);
        self.late.retain(|csn| *csn <= last);
        self.waits.clear();
        self.slots.fill(Slot::Empty);
    }

    /// Notes that the first top transaction waits for the top transaction of the second one.
    /// Refused when that closes a circle.
    pub(crate) fn waits_for(&mut self, who: Xid, whom: Xid) -> Result<(), Deadlock> {
        let mut at = self.top[whom];
        while let Some(next) = self.waits.get(&at) {
            at = *next;
            if at == who {
                return Err(Deadlock);
            }
        }
        self.waits.insert(who, self.top[whom]);
        Ok(())
    }
}

/// The moment of a commit for which a wait waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Until {
    /// The commit is marked.
    Logged,
    /// The commit is published.
    Published,
}

/// The error of a wait that would close a circle of waiters.
#[derive(Debug)]
pub(crate) struct Deadlock;

/// A collector's view of snapshots: the published CSN, read first, then each slot.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub(crate) published: Csn,
    /// Each registered snapshot, and whether it may follow chains.
    pub(crate) snapshots: Vec<(Csn, bool)>,
}

impl View {
    /// Returns the horizon: every snapshot, even a future one, sees everything committed up to
    /// here.
    pub(crate) fn horizon(&self) -> Csn {
        self.oldest(|_| true)
    }

    /// Returns the horizon of snapshots that may follow chains.
    pub(crate) fn follower_horizon(&self) -> Csn {
        self.oldest(|follows| follows)
    }

    fn oldest(&self, counts: impl Fn(bool) -> bool) -> Csn {
        let counted = self.snapshots.iter().filter(|(_, follows)| counts(*follows));
        counted.map(|(csn, _)| *csn).fold(self.published, Csn::min)
    }
}
