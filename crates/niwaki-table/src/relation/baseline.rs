//! The counters of a table as its last VACUUM and ANALYZE found them.

use niwaki_storage::RelFileId;

/// The most files of one table whose numbers are remembered. A table with an uncommitted TRUNCATE
/// has two.
const FILES_MAX: usize = 8;

const _: () = assert!(FILES_MAX >= 2);

/// The number of runs of one kind of maintenance, with the time of the last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Visits {
    /// Number of runs since the database was opened.
    pub count: u64,
    /// End of the last run, in microseconds since 1970.
    pub last_us: Option<i64>,
}

impl Visits {
    pub(crate) fn add(&mut self, now_us: i64) {
        debug_assert_eq!(self.last_us.is_some(), self.count > 0, "the last of {} runs", self.count);
        self.count += 1;
        self.last_us = Some(now_us);
    }
}

/// Counter values at the vacuum of a heap, and at the last count of its rows.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HeapBaseline {
    /// Rows updated and deleted, less versions removed.
    pub(crate) garbage: i64,
    /// Versions that VACUUM had to leave to open snapshots.
    pub(crate) held: u64,
    pub(crate) inserted: u64,
    /// Rows inserted less rows deleted, at the last count of the rows.
    pub(crate) rows: i64,
}

/// The remembered values of one table.
#[derive(Debug, Default)]
pub(crate) struct TableBaseline {
    pub(crate) vacuum: Visits,
    pub(crate) autovacuum: Visits,
    pub(crate) analyze: Visits,
    pub(crate) autoanalyze: Visits,
    /// Values by heap file, the newest last. TRUNCATE gives a table another file, and a rollback
    /// brings the old one back.
    heaps: Vec<(RelFileId, HeapBaseline)>,
    pub(crate) modified: u64,
}

impl TableBaseline {
    /// Returns the remembered values of a file. After a start there are none.
    pub(crate) fn heap(&self, file: RelFileId) -> HeapBaseline {
        self.heaps
            .iter()
            .find(|(of, _)| *of == file)
            .map_or_else(HeapBaseline::default, |(_, b)| *b)
    }

    pub(crate) fn set_heap(&mut self, file: RelFileId, baseline: HeapBaseline) {
        self.heaps.retain(|(of, _)| *of != file);
        debug_assert!(self.heaps.len() <= FILES_MAX, "too many files are remembered");
        if self.heaps.len() == FILES_MAX {
            self.heaps.remove(0);
        }
        self.heaps.push((file, baseline));
        debug_assert_eq!(self.heaps.iter().filter(|(of, _)| *of == file).count(), 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_has_its_baseline() {
        let mut table_baseline = TableBaseline::default();
        let of = |inserted| HeapBaseline { inserted, ..HeapBaseline::default() };
        table_baseline.set_heap(RelFileId(1), of(1));
        table_baseline.set_heap(RelFileId(2), of(2));
        assert_eq!(table_baseline.heap(RelFileId(1)).inserted, 1, "a rollback brings it back");
        table_baseline.set_heap(RelFileId(1), of(3));
        assert_eq!(table_baseline.heap(RelFileId(1)).inserted, 3);
        assert_eq!(table_baseline.heap(RelFileId(9)).inserted, 0);
        (10..30).for_each(|file| table_baseline.set_heap(RelFileId(file), of(file)));
        assert_eq!(table_baseline.heaps.len(), FILES_MAX);
        assert_eq!(table_baseline.heap(RelFileId(29)).inserted, 29);
    }
}
