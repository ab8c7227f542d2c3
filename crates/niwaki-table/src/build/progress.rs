//! Progress of an index build, for `pg_stat_progress_create_index`.

use niwaki_env::sync::plain_atomic::{AtomicU64, Ordering};

/// The phase of a build; the words are PostgreSQL's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The build has not begun.
    Initializing,
    /// The build waits for writers that do not know of the index.
    WaitingBeforeBuild,
    /// The build reads the heap.
    Scanning,
    /// The build merges runs.
    Sorting,
    /// The build writes pages.
    Loading,
    /// The build waits for writers that do not insert into the index.
    WaitingBeforeValidation,
    /// The build adds missing entries.
    Validating,
    /// The drop waits for transactions that use the index, before the index is no longer kept up.
    WaitingBeforeDead,
    /// The drop waits for transactions that keep the index up, before the index is removed.
    WaitingBeforeDrop,
}

impl Phase {
    const ALL: [Self; 9] = [
        Self::Initializing,
        Self::WaitingBeforeBuild,
        Self::Scanning,
        Self::Sorting,
        Self::Loading,
        Self::WaitingBeforeValidation,
        Self::Validating,
        Self::WaitingBeforeDead,
        Self::WaitingBeforeDrop,
    ];

    /// Returns the words that the view shows.
    pub fn words(self) -> &'static str {
        match self {
            Self::Initializing => "initializing",
            Self::WaitingBeforeBuild => "waiting for writers before build",
            Self::Scanning => "building index: scanning table",
            Self::Sorting => "building index: sorting live tuples",
            Self::Loading => "building index: loading tuples in tree",
            Self::WaitingBeforeValidation => "waiting for writers before validation",
            Self::Validating => "index validation: scanning table",
            Self::WaitingBeforeDead => "waiting for readers before marking dead",
            Self::WaitingBeforeDrop => "waiting for readers before dropping",
        }
    }
}

const _: () = assert!(Phase::Initializing as usize == 0, "new counters are of a build that began");
const _: () = assert!(
    Phase::ALL.len() == Phase::WaitingBeforeDrop as usize + 1,
    "a build would be shown in its first phase"
);

/// Counters of one build. Other threads read them at any time: each is right, but they are not of
/// one moment.
#[derive(Debug, Default)]
pub struct BuildProgress {
    phase: AtomicU64,
    blocks_total: AtomicU64,
    blocks_done: AtomicU64,
    tuples_total: AtomicU64,
    tuples_done: AtomicU64,
    lockers_total: AtomicU64,
    lockers_done: AtomicU64,
    /// Backend of a transaction that the build waits for; 0 for none.
    locker: AtomicU64,
    memory_bytes: AtomicU64,
}

/// Values of a [`BuildProgress`] at one reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuildState {
    /// The current phase.
    pub phase: Phase,
    /// Heap blocks to read in this phase.
    pub blocks_total: u64,
    /// Heap blocks read so far.
    pub blocks_done: u64,
    /// Entries to write.
    pub tuples_total: u64,
    /// Entries written so far.
    pub tuples_done: u64,
    /// Transactions to wait for in this phase.
    pub lockers_total: u64,
    /// The number of these transactions that have ended.
    pub lockers_done: u64,
    /// Backend of one of these transactions that has not ended; 0 for none.
    pub locker: u64,
    /// Most memory that one of the sort's workers held, in bytes.
    pub memory_bytes: u64,
}

// Relaxed throughout: these are statistics, and nothing is ordered by them.
impl BuildProgress {
    /// Enters a phase.
    pub fn begin(&self, phase: Phase) {
        debug_assert!(Phase::ALL.contains(&phase), "a phase without a number");
        let number = Phase::ALL.iter().position(|p| *p == phase).unwrap_or(0);
        self.phase.store(number as u64, Ordering::Relaxed);
        if matches!(phase, Phase::Scanning | Phase::Validating) {
            self.blocks_done.store(0, Ordering::Relaxed);
        }
    }

    /// Notes the number of transactions to wait for, the number still left, and one of those left.
    pub fn waiting(&self, total: u64, left: u64, locker: i32) {
        debug_assert!(left <= total, "{left} of {total} transactions are left");
        self.lockers_total.store(total, Ordering::Relaxed);
        self.lockers_done.store(total.saturating_sub(left), Ordering::Relaxed);
        self.locker.store(u64::try_from(locker).unwrap_or(0), Ordering::Relaxed);
    }

    pub(crate) fn expect_blocks(&self, blocks: u32) {
        self.blocks_total.store(blocks.into(), Ordering::Relaxed);
    }

    pub(crate) fn blocks_done(&self, blocks: u64) {
        self.blocks_done.fetch_add(blocks, Ordering::Relaxed);
    }

    /// Notes that `blocks` blocks were read, which gave `entries` entries.
    pub(crate) fn read(&self, blocks: u64, entries: u64) {
        self.blocks_done(blocks);
        self.tuples_total.fetch_add(entries, Ordering::Relaxed);
    }

    pub(crate) fn tuple_done(&self) {
        self.tuples_done.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn note_memory(&self, bytes: usize) {
        self.memory_bytes.fetch_max(bytes as u64, Ordering::Relaxed);
    }

    /// Reads the counters.
    pub fn state(&self) -> BuildState {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let number = usize::try_from(read(&self.phase)).unwrap_or(0);
        BuildState {
            phase: Phase::ALL.get(number).copied().unwrap_or(Phase::Initializing),
            blocks_total: read(&self.blocks_total),
            blocks_done: read(&self.blocks_done),
            tuples_total: read(&self.tuples_total),
            tuples_done: read(&self.tuples_done),
            lockers_total: read(&self.lockers_total),
            lockers_done: read(&self.lockers_done),
            locker: read(&self.locker),
            memory_bytes: read(&self.memory_bytes),
        }
    }
}
