//! How far a vacuum is: `pg_stat_progress_vacuum`.

use niwaki_env::sync::plain_atomic::{AtomicU64, Ordering};

/// What a vacuum is doing; the words are PostgreSQL's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VacuumPhase {
    /// It has not begun.
    Initializing,
    /// The heap is pruned; roots with index entries to visit are remembered.
    ScanningHeap,
    /// The indexes are visited for those roots.
    VacuumingIndexes,
    /// Their line pointers are freed.
    VacuumingHeap,
    /// Empty pages at the end of the heap are given back.
    TruncatingHeap,
    /// The free space map is written, statistics are stored.
    FinalCleanup,
}

impl VacuumPhase {
    const ALL: [Self; 6] = [
        Self::Initializing,
        Self::ScanningHeap,
        Self::VacuumingIndexes,
        Self::VacuumingHeap,
        Self::TruncatingHeap,
        Self::FinalCleanup,
    ];

    /// What the view shows.
    pub fn words(self) -> &'static str {
        match self {
            Self::Initializing => "initializing",
            Self::ScanningHeap => "scanning heap",
            Self::VacuumingIndexes => "vacuuming indexes",
            Self::VacuumingHeap => "vacuuming heap",
            Self::TruncatingHeap => "truncating heap",
            Self::FinalCleanup => "performing final cleanup",
        }
    }
}

macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Counters of one vacuum. Others read them at any time: each is right, not all of one moment.
        #[derive(Debug, Default)]
        pub struct VacuumProgress {
            phase: AtomicU64,
            $($name: AtomicU64,)*
        }

        /// What [`VacuumProgress`] says now.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct VacuumState {
            /// What it is doing.
            pub phase: VacuumPhase,
            $($(#[$doc])* pub $name: u64,)*
        }

        impl VacuumProgress {
            /// What it says now.
            pub fn state(&self) -> VacuumState {
                // Relaxed: these are statistics, and nothing is ordered by them.
                let phase = self.phase.load(Ordering::Relaxed) as usize;
                VacuumState {
                    phase: *VacuumPhase::ALL.get(phase).unwrap_or(&VacuumPhase::Initializing),
                    $($name: self.$name.load(Ordering::Relaxed),)*
                }
            }

            $(
                pub(crate) fn $name(&self, value: impl TryInto<u64>) {
                    self.$name.store(value.try_into().unwrap_or(u64::MAX), Ordering::Relaxed);
                }
            )*
        }
    };
}

numbers! {
    /// Blocks of the heap.
    blocks_total,
    /// Of those, how many were pruned, or left out by what the visibility map says.
    blocks_scanned,
    /// Up to which block line pointers were freed, where there were any.
    blocks_vacuumed,
    /// Times all indexes were visited.
    index_passes,
    /// Bytes that remembered roots may take.
    roots_bytes_max,
    /// Bytes that they take.
    roots_bytes,
    /// Roots that are remembered.
    roots,
    /// Indexes.
    indexes_total,
    /// Of those, how many this pass is done with.
    indexes_processed,
}

/// What a root takes in memory that is the only one on its page.
const LONE_ROOT_BYTES: u64 = 11;

impl VacuumState {
    /// About how many roots the memory holds: they take as much as those found so far, and no more than if each page
    /// had one.
    pub fn roots_max(&self) -> u64 {
        let so_far = self.roots.saturating_mul(self.roots_bytes_max) / self.roots_bytes.max(1);
        so_far.max(self.roots_bytes_max / LONE_ROOT_BYTES)
    }
}

impl VacuumProgress {
    /// Enters a phase.
    pub(crate) fn begin(&self, phase: VacuumPhase) {
        let number = VacuumPhase::ALL.iter().position(|p| *p == phase).unwrap_or(0);
        self.phase.store(number as u64, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_are_about_as_many_as_fit() {
        let progress = VacuumProgress::default();
        progress.roots_bytes_max(1100_u64);
        assert_eq!(progress.state().roots_max(), 100, "one a page");
        progress.roots(1_u64);
        progress.roots_bytes(200_u64);
        assert_eq!(progress.state().roots_max(), 100, "no fewer, whatever the first one takes");
        progress.roots(500_u64);
        progress.roots_bytes(550_u64);
        assert_eq!(progress.state().roots_max(), 1000, "many a page");
    }
}
