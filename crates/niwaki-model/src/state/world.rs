//! The state that actors share, and the record of a run.

use std::collections::{BTreeMap, VecDeque};

use crate::random::Random;
use crate::rules::Rules;
use crate::state::heap::{PAGES, Page, Tid};
use crate::state::index::{Index, Key};
use crate::state::log::{Log, Pending};
use crate::state::oracle::Oracle;
use crate::state::row_locks::RowLocks;
use crate::state::settling::Settling;
use crate::state::share::Share;
use crate::state::transactions::{Csn, Transactions};
use crate::state::violation::{Invariant, Violation};

/// Everything that actors share. One borrow of it by an actor is one hold of a latch: an actor's
/// work between two steps is atomic, and nothing else is.
pub(crate) struct World {
    pub(crate) rules: Rules,
    pub(crate) random: Random,
    pub(crate) transactions: Transactions,
    /// The shares of each slot.
    pub(crate) shares: Vec<Share>,
    pub(crate) pages: Vec<Page>,
    pub(crate) indexes: Vec<Index>,
    /// Number of roots that were cleared of `mixed` (rule `unmix-counter`).
    pub(crate) unmix: u64,
    /// The clean-up ledger of chain roots: keys that pruning removed, by root. It is the gardener's
    /// queue.
    pub(crate) records: BTreeMap<Tid, Record>,
    /// Counts of versions removed from roots that are mixed or have no version any more.
    pub(crate) settling: Settling,
    /// The actor that cleans (rule `one-cleaner`).
    pub(crate) cleaner: Option<usize>,
    /// Number of index builds under way (rule `index-build`).
    pub(crate) builds: usize,
    pub(crate) locks: RowLocks,
    pub(crate) oracle: Oracle,
    pub(crate) log: Log,
    /// Commits are marked when logged, and published when durable (rule `early-release`).
    pub(crate) early_release: bool,
    /// Commits that are logged and not published, in the order of the log.
    pub(crate) pending: VecDeque<Pending>,
    /// The newest durable commit behind an answer that a client has. Only a check uses it.
    pub(crate) answered: Csn,
    pub(crate) leaf_versions: u64,
    /// Entries a leaf holds before it splits.
    pub(crate) leaf_capacity: usize,
    pub(crate) events: Events,
    pub(crate) violation: Option<Violation>,
    /// Something changed that the invariants depend on.
    pub(crate) changed: bool,
    trace: Option<Vec<String>>,
    /// The actor at work, for the trace.
    pub(crate) at_work: String,
}

/// The gardener's record of a root: the (index, key) pairs that pruning removed
/// (rule `complete-record`).
#[derive(Clone, Debug, Default)]
pub(crate) struct Record {
    pub(crate) keys: Vec<(usize, Key)>,
    /// Some keys were lost: the record lists keys to clean, but does not prove that the root is
    /// clean.
    pub(crate) incomplete: bool,
}

macro_rules! events {
    ($($name:ident $text:literal)*) => {
        /// Counts of events that a run must reach to be meaningful.
        #[derive(Clone, Copy, Debug, Default)]
        pub struct Events { $(#[doc = $text] pub $name: u64,)* }

        impl Events {
            /// Returns each count with its name.
            pub fn all(&self) -> Vec<(&'static str, u64)> {
                vec![$(($text, self.$name),)*]
            }

            pub(crate) fn add(&mut self, other: &Self) {
                $(self.$name += other.$name;)*
            }
        }
    };
}

events! {
    scans "scans compared with the oracle"
    from_map "rows that index-only scans took from the map"
    heap_only "heap-only updates"
    moved "updates that moved the row"
    deletes "deletions"
    followed "followed to a newer version"
    waits "waits for a transaction"
    deadlocks "deadlocks"
    commits "commits"
    aborts "aborts"
    rolled_back "rollbacks to a savepoint"
    conflicts "unique violations"
    suppressed "duplicates suppressed"
    revived "LP_DEAD taken back"
    killed "entries marked LP_DEAD"
    deleted "entries deleted"
    splits "leaf splits"
    pruned "versions pruned"
    relinked "chains relinked around a removed version"
    orphans "aborted versions pruned outside their chain"
    stubs "stubs left"
    freed "line pointers freed"
    cleared "roots cleared of mixed"
    settled "line pointers freed, and roots cleared, by counting what was removed"
    deaths "records of roots that lost their last version and were not mixed"
    returned "line pointers of such roots freed by their record"
    unlooked "entries deleted without another look at their chains"
    all_visible "pages set all-visible"
    built "indexes built"
    locked "row locks taken"
    carried "row locks carried to a new root"
    outer_locks "locks of an outer level moved to memory"
    deferred "deferred checks made"
    crashes "crashes"
    lost_commits "commits lost in a crash"
    awaited "answers that waited for a publication"
    ahead "snapshots ahead of the published CSN"
    late "commits that were marked when published"
    failed "flushes that failed"
}

impl World {
    pub(crate) fn new(rules: Rules, random: Random, slots: usize, indexes: Vec<Index>) -> Self {
        Self {
            rules,
            random,
            transactions: Transactions::new(slots),
            shares: vec![Share::default(); slots],
            pages: (0..PAGES).map(|_| Page::new()).collect(),
            indexes,
            unmix: 0,
            records: BTreeMap::new(),
            settling: Settling::default(),
            cleaner: None,
            builds: 0,
            locks: RowLocks::default(),
            oracle: Oracle::default(),
            log: Log::default(),
            early_release: false,
            pending: VecDeque::new(),
            answered: 0,
            leaf_versions: 0,
            leaf_capacity: usize::MAX,
            events: Events::default(),
            violation: None,
            changed: false,
            trace: None,
            at_work: String::new(),
        }
    }

    pub(crate) fn splits(&self) -> bool {
        self.leaf_capacity != usize::MAX
    }

    /// Notes a change that the invariants depend on.
    pub(crate) fn touch(&mut self) {
        self.changed = true;
    }

    /// Notes a change of a heap page.
    pub(crate) fn touch_page(&mut self, page: u8) {
        self.changed = true;
        self.pages[usize::from(page)].version += 1;
        self.log.page_changed(page);
    }

    /// Notes a logged change of a leaf.
    pub(crate) fn touch_leaf(&mut self, index: usize, leaf: usize) {
        self.changed = true;
        self.log.leaf_changed(index, leaf);
    }

    /// Notes a violation; the first one of a run is its result.
    pub(crate) fn violate(&mut self, invariant: Invariant, what: impl FnOnce() -> String) {
        if self.violation.is_none() {
            let violation = Violation { invariant, what: what() };
            self.say(|| format!("VIOLATION {violation}"));
            self.violation = Some(violation);
        }
    }

    pub(crate) fn start_trace(&mut self) {
        self.trace = Some(Vec::new());
    }

    pub(crate) fn traces(&self) -> bool {
        self.trace.is_some()
    }

    /// Adds a line to the trace, if one is kept.
    pub(crate) fn say(&mut self, what: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{:<14} {}", self.at_work, what()));
        }
    }

    pub(crate) fn take_trace(&mut self) -> Vec<String> {
        self.trace.take().unwrap_or_default()
    }
}
