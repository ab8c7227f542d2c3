//! Statistics of the pool.

use niwaki_env::sync::atomic::Ordering;

use super::pool::BufferPool;
use crate::frames::frame::VALID;
use crate::ids::{Fork, PageId, RelFileId};

/// Counters of one fork since the database was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileStatistics {
    /// Pins that found the page in the pool.
    pub hits: u64,
    /// Pages read from disk.
    pub reads: u64,
    /// Times a clean page became dirty.
    pub dirtied: u64,
    /// Pages written.
    pub written: u64,
}

/// Counters of the whole pool.
pub type PoolStatistics = FileStatistics;

impl BufferPool {
    /// Moves a frame's own counters to its file, before the frame gets another page.
    pub(super) fn account(&self, index: u32, id: PageId) {
        let frame = &self.frames[index as usize];
        let hits = frame.hits.swap(0, Ordering::Relaxed);
        let dirtied = frame.dirtied.swap(0, Ordering::Relaxed);
        // The fork is open: the frame held one of its pages.
        if let Ok(fork) = self.fork_of(id) {
            fork.counters.hits.fetch_add(u64::from(hits), Ordering::Relaxed);
            fork.counters.dirtied.fetch_add(u64::from(dirtied), Ordering::Relaxed);
        }
    }

    /// Returns the counters of one fork. Costs a walk over all frames.
    pub fn statistics_of(&self, file: RelFileId, fork: Fork) -> FileStatistics {
        let mut sum = FileStatistics::default();
        for open in self.files.open_forks() {
            if open.name() == (file, fork) {
                sum.reads += open.counters.reads.load(Ordering::Relaxed);
                sum.written += open.counters.written.load(Ordering::Relaxed);
                sum.hits += open.counters.hits.load(Ordering::Relaxed);
                sum.dirtied += open.counters.dirtied.load(Ordering::Relaxed);
            }
        }
        self.add_frames(&mut sum, |id| id.file == file && id.fork == fork);
        sum
    }

    /// Returns the counters of the whole pool. Costs a walk over all frames.
    pub fn statistics(&self) -> PoolStatistics {
        self.statistics_of_files(|_| true)
    }

    /// Returns the counters of all forks of the files for which `mine` holds. Costs a walk over all
    /// frames.
    pub fn statistics_of_files(&self, mine: impl Fn(RelFileId) -> bool) -> FileStatistics {
        let mut sum = FileStatistics::default();
        for open in self.files.open_forks() {
            if mine(open.name().0) {
                sum.reads += open.counters.reads.load(Ordering::Relaxed);
                sum.written += open.counters.written.load(Ordering::Relaxed);
                sum.hits += open.counters.hits.load(Ordering::Relaxed);
                sum.dirtied += open.counters.dirtied.load(Ordering::Relaxed);
            }
        }
        self.add_frames(&mut sum, |id| mine(id.file));
        sum
    }

    fn add_frames(&self, sum: &mut FileStatistics, mine: impl Fn(PageId) -> bool) {
        for frame in &self.frames {
            if frame.state.load(Ordering::Relaxed) & VALID != 0 && mine(frame.tag().id()) {
                sum.hits += u64::from(frame.hits.load(Ordering::Relaxed));
                sum.dirtied += u64::from(frame.dirtied.load(Ordering::Relaxed));
            }
        }
    }
}
