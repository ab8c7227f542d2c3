//! Comparison of one snapshot with the model by every access path: all must give the same rows.

use std::collections::BTreeMap;

use niwaki_env::rng::SeededRng;
use niwaki_nbtree::KeyRange;
use niwaki_table::{
    BitmapSource, ColumnKeys, Direction, IndexScan, Lookup, PageRows, ScanKeys, Table,
};
use niwaki_txn::{Snapshot, Transaction};
use niwaki_types::{ColumnMask, Datum, encode_key};

use super::schema::{COLUMNS, Row};

/// The rows that the model expects, by id.
pub(crate) type Rows = BTreeMap<i32, Row>;

pub(crate) struct Paths<'t> {
    pub(crate) table: &'t Table,
    pub(crate) tx: &'t Transaction,
    pub(crate) snapshot: &'t Snapshot,
    pub(crate) rng: &'t SeededRng,
    pub(crate) expected: &'t Rows,
}

impl Paths<'_> {
    /// Compares all paths.
    pub(crate) fn compare(&self) {
        self.sequential();
        self.lookups();
        for index in 0..self.table.definition().indexes.len() {
            if !self.table.definition().indexes[index].valid {
                continue;
            }
            for direction in [Direction::Forward, Direction::Backward] {
                self.whole(index, direction);
                self.index_only(index, direction);
            }
            self.equal(index);
            self.bitmap(index);
        }
    }

    /// Returns the expected rows that the index has, each with its key there, in the order of the
    /// keys.
    fn indexed(&self, index: usize) -> Vec<(Vec<u8>, &Row)> {
        let mut found = Vec::new();
        for row in self.expected.values() {
            let mut key = Vec::new();
            if self.table.encode_index_key(index, &row.datums(), &mut key).expect("a key") {
                found.push((key, row));
            }
        }
        found.sort();
        found
    }

    fn read(&self, mut scan: IndexScan, needed: &ColumnMask) -> Vec<Vec<Datum>> {
        let mut rows = Vec::new();
        let mut out = vec![Datum::Null; COLUMNS];
        let (table, tx, snapshot) = (self.table, self.tx, self.snapshot);
        while scan.next(table, tx, snapshot, needed, &mut out).expect("a scan").is_some() {
            rows.push(out.clone());
        }
        rows
    }

    fn sequential(&self) {
        let mut scan = self.table.seq_scan(0..self.table.blocks().expect("blocks"));
        let (mut page, mut rows) = (PageRows::new(), Vec::new());
        while scan.next_page(self.table, self.tx, self.snapshot, &mut page).expect("a page") {
            rows.extend(page.iter().map(|row| self.row(row)));
        }
        rows.sort();
        let expected: Vec<Row> = self.expected.values().cloned().collect();
        assert_eq!(rows, expected, "sequential scan");
    }

    fn row(&self, stored: niwaki_table::RowRef<'_>) -> Row {
        let mut out = vec![Datum::Null; COLUMNS];
        self.table.deform(stored, &ColumnMask::all(COLUMNS), &mut out).expect("a row");
        Row::of(&out)
    }

    fn lookups(&self) {
        let mut lookup = Lookup::default();
        for id in 0..super::IDS {
            let mut key = Vec::new();
            let row = Row::random(self.rng, id, 0);
            self.table.encode_index_key(0, &row.datums(), &mut key).expect("a key");
            let mut out = vec![Datum::Null; COLUMNS];
            let (tx, all) = (self.tx, ColumnMask::all(COLUMNS));
            let found = self
                .table
                .fetch_unique(tx, self.snapshot, 0, &key, &all, &mut out, &mut lookup)
                .expect("a lookup")
                .map(|_| Row::of(&out));
            assert_eq!(found.as_ref(), self.expected.get(&id), "lookup of {id}");
        }
    }

    /// Reads every row once, in order.
    fn whole(&self, index: usize, direction: Direction) {
        let scan = self.table.index_scan(index, &KeyRange::ALL, direction);
        let rows = self.read(scan, &ColumnMask::all(COLUMNS));
        let mut keys: Vec<Vec<u8>> = Vec::new();
        for row in &rows {
            let mut key = Vec::new();
            assert!(self.table.encode_index_key(index, row, &mut key).expect("a key"));
            keys.push(key);
        }
        if direction == Direction::Backward {
            keys.reverse();
        }
        assert!(keys.is_sorted(), "index {index} {direction:?}: out of order");
        self.same_rows(index, rows, &self.indexed(index), "index scan");
    }

    fn same_rows(
        &self,
        index: usize,
        rows: Vec<Vec<Datum>>,
        expected: &[(Vec<u8>, &Row)],
        how: &str,
    ) {
        let mut rows: Vec<Row> = rows.iter().map(|row| Row::of(row)).collect();
        rows.sort();
        let mut expected: Vec<Row> = expected.iter().map(|(_, row)| (*row).clone()).collect();
        expected.sort();
        let definition = &self.table.definition().indexes[index];
        assert_eq!(rows, expected, "{how}: {definition:?}");
    }

    /// Reads one key, which some row has or none.
    fn equal(&self, index: usize) {
        let all = self.indexed(index);
        for _ in 0..2 {
            let mut key = Vec::new();
            let any = Row::random(self.rng, 0, 0);
            if !self.table.encode_index_key(index, &any.datums(), &mut key).expect("a key") {
                continue;
            }
            let scan = self.table.index_scan(index, &KeyRange::equal(&key), Direction::Forward);
            let rows = self.read(scan, &ColumnMask::all(COLUMNS));
            let expected: Vec<_> = all.iter().filter(|(k, _)| *k == key).cloned().collect();
            self.same_rows(index, rows, &expected, "one key");
        }
    }

    fn index_only(&self, index: usize, direction: Direction) {
        let covered = (0..COLUMNS)
            .filter(|column| self.table.covers(index, &ColumnMask::from_iter([*column])))
            .filter(|_| self.rng.chance(3, 4));
        let columns: Vec<usize> = covered.collect();
        let needed: ColumnMask = columns.iter().copied().collect();
        let scan = self.table.index_only_scan(index, ScanKeys::ALL, direction);
        let pick = |row: &[Datum]| -> Vec<String> {
            columns.iter().map(|&column| format!("{:?}", row[column])).collect()
        };
        let mut rows: Vec<_> = self.read(scan, &needed).iter().map(|row| pick(row)).collect();
        rows.sort();
        let mut expected: Vec<_> =
            self.indexed(index).iter().map(|(_, row)| pick(&row.datums())).collect();
        expected.sort();
        let definition = &self.table.definition().indexes[index];
        assert_eq!(rows, expected, "index-only scan of {columns:?} by {definition:?}");
    }

    /// Checks a bitmap scan. The reader rechecks the rows of a bitmap, here by the key of each row.
    fn bitmap(&self, index: usize) {
        let definition = &self.table.definition().indexes[index];
        let mut keys = ScanKeys::ALL;
        let mut prefix = Vec::new();
        if let Some(column) = definition.key[0].source.column()
            && self.rng.chance(1, 2)
        {
            let any = Row::random(self.rng, 0, 0).datums();
            encode_key(&any[column], definition.key[0].order, &mut prefix);
            let columns = vec![ColumnKeys::values(vec![prefix.clone()])];
            keys = ScanKeys { columns, bounding: 1 };
        }
        let memory = if self.rng.chance(1, 2) { 0 } else { 1 << 20 };
        let mut scan = self.table.bitmap_scan(BitmapSource::Index { index, keys }, memory);
        let (mut page, mut rows) = (PageRows::new(), Vec::new());
        while scan.next_page(self.table, self.tx, self.snapshot, &mut page).expect("a page") {
            rows.extend(page.iter().map(|row| self.row(row)));
        }
        rows.retain(|row| {
            let mut key = Vec::new();
            let has = self.table.encode_index_key(index, &row.datums(), &mut key);
            has.expect("a key") && key.starts_with(&prefix)
        });
        let expected: Vec<_> =
            self.indexed(index).into_iter().filter(|(k, _)| k.starts_with(&prefix)).collect();
        let rows = rows.iter().map(Row::datums).collect();
        self.same_rows(index, rows, &expected, "bitmap scan");
    }
}
