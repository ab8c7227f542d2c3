//! Progress of a vacuum, for `pg_stat_progress_vacuum`.

use niwaki_env::sync::plain_atomic::{AtomicU64, Ordering};

/// The phase of a vacuum; the words are PostgreSQL's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VacuumPhase {
    /// The vacuum has not begun.
    Initializing,
    /// The vacuum prunes the heap, and remembers roots with index entries to visit.
    ScanningHeap,
    /// The vacuum visits the indexes for those roots.
    VacuumingIndexes,
    /// The vacuum frees the roots' line pointers.
    VacuumingHeap,
    /// The vacuum gives back empty pages at the end of the heap.
    TruncatingHeap,
    /// The vacuum writes the free space map and stores statistics.
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

    /// Returns the words that the view shows.
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
        /// Counters of one vacuum. Other threads read them at any time: each is right, but they are
        /// not of one moment.
        #[derive(Debug, Default)]
        pub struct VacuumProgress {
            phase: AtomicU64,
            $($name: AtomicU64,)*
        }

        /// Values of a [`VacuumProgress`] at one reading.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct VacuumState {
            /// The current phase.
            pub phase: VacuumPhase,
            $($(#[$doc])* pub $name: u64,)*
        }

        impl VacuumProgress {
            /// Reads the counters.
            pub fn state(&self) -> VacuumState {
                // Relaxed: these are statistics, and nothing is ordered by them.
                let phase = self.phase.load(Ordering::Relaxed) as usize;
                debug_assert!(phase < VacuumPhase::ALL.len(), "{phase} is no phase");
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
    /// Blocks that were pruned, or left out by the visibility map.
    blocks_scanned,
    /// The block up to which line pointers were freed.
    blocks_vacuumed,
    /// Times all indexes were visited.
    index_passes,
    /// The most bytes that remembered roots may take.
    roots_bytes_max,
    /// Bytes that the remembered roots take.
    roots_bytes,
    /// Number of remembered roots.
    roots,
    /// Number of indexes.
    indexes_total,
    /// Indexes that this pass has finished.
    indexes_processed,
}

/// Bytes in memory of a root that is the only one on its page.
const LONE_ROOT_BYTES: u64 = 11;

impl VacuumState {
    /// Estimates the number of roots that the memory holds. Assumes the size of the roots so far,
    /// and at most `LONE_ROOT_BYTES` each.
    pub fn roots_max(&self) -> u64 {
        let so_far = self.roots.saturating_mul(self.roots_bytes_max) / self.roots_bytes.max(1);
        so_far.max(self.roots_bytes_max / LONE_ROOT_BYTES)
    }
}

impl VacuumProgress {
    /// Enters a phase.
    pub(crate) fn begin(&self, phase: VacuumPhase) {
        let number = VacuumPhase::ALL.iter().position(|p| *p == phase).unwrap_or(0);
        debug_assert_eq!(VacuumPhase::ALL[number], phase, "a phase has no number");
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
