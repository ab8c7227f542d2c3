//! The rows that a recursive UNION has returned, so that the UNION returns no row twice.
//!
//! The keys of the first rows stay in a table in memory as long as there is room. Later keys go to
//! files, and into a Bloom filter. The filter proves for most new rows that no file has them. All
//! other rows stay in doubt until the turn ends.
//!
//! Then one pass over the files decides as many rows in doubt as there is room for. Few new rows
//! are in doubt, so a query that follows a long chain does not read the files at each link.

use niwaki_env::memory;
use niwaki_expr::expr::Runtime;
use niwaki_expr::expr::measure::SpaceUse;
use niwaki_expr::spool::{KeyTable, Tuplestore, TuplestoreWriter, checked};
use niwaki_parse::error::Result;
use niwaki_table::{KeyedRows, Run, RunWriter};
use niwaki_types::{ColumnType, Datum, read_tagged_into, write_tagged_row};

use crate::step::spill::{encode_columns, hash_key, reader};

/// The filter's share of the memory: one part in this number.
const FILTER_SHARE: usize = 8;
/// Bits of the filter for each key.
const FILTER_BITS: u64 = 3;

/// The answer to whether a row was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// The row is the first of its kind.
    Never,
    Before,
    /// The end of the turn will decide.
    InDoubt,
}

/// The rows that the query has returned.
#[derive(Default)]
pub(crate) struct SeenRows {
    table: KeyTable,
    beyond: Option<Beyond>,
    key: Vec<u8>,
    row: Vec<u8>,
    space: SpaceUse,
}

/// The keys and rows that found no room in memory.
struct Beyond {
    filter: Vec<u64>,
    /// Keys of returned rows. Each run has less than half the records of the run before.
    runs: Vec<Run<KeyedRows>>,
    keys: Writer,
    in_doubt: Writer,
}

/// A run that is being written, with its number of records.
struct Writer {
    run: RunWriter<KeyedRows>,
    records: u64,
}

impl Writer {
    fn new(rt: &Runtime<'_, '_>) -> Result<Self> {
        Ok(Self { run: RunWriter::new(rt.temp()?, rt.exec.temp_chunk), records: 0 })
    }

    fn push(&mut self, key: &[u8], row: &[u8]) -> Result<()> {
        self.records += 1;
        Ok(self.run.push(&checked(key, 0, row)?)?)
    }

    /// Ends the run, and begins another.
    fn take(&mut self, rt: &Runtime<'_, '_>) -> Result<Run<KeyedRows>> {
        Ok(std::mem::replace(self, Self::new(rt)?).run.finish()?)
    }
}

impl SeenRows {
    /// Checks whether a row was seen before, and remembers the row.
    pub(crate) fn look(
        &mut self,
        row: &[Datum],
        columns: &[ColumnType],
        rt: &Runtime<'_, '_>,
    ) -> Result<Seen> {
        self.key.clear();
        encode_columns(row, columns, &mut self.key);
        let hash = self.table.hash(&self.key);
        if self.table.find(hash, &self.key).is_some() {
            return Ok(Seen::Before);
        }
        if self.beyond.is_none() {
            if self.table.has_room(self.key.len(), rt.exec.hash_mem / 2) {
                self.table.add(hash, &self.key, &[]);
                return Ok(Seen::Never);
            }
            self.space.table(self.table.memory(), self.table.len());
        }
        let beyond = match &mut self.beyond {
            Some(beyond) => beyond,
            none => none.insert(Beyond::new(rt)?),
        };
        if beyond.note(&self.key) {
            beyond.keys.push(&self.key, &[])?;
            return Ok(Seen::Never);
        }
        self.row.clear();
        write_tagged_row(row, &mut self.row);
        beyond.in_doubt.push(&self.key, &self.row)?;
        Ok(Seen::InDoubt)
    }

    /// Returns the rows in doubt that are new, at the end of a turn.
    pub(crate) fn late(
        &mut self,
        rt: &mut Runtime<'_, '_>,
        width: usize,
    ) -> Result<Option<Tuplestore>> {
        let Some(beyond) = &mut self.beyond else { return Ok(None) };
        if beyond.in_doubt.records == 0 {
            return Ok(None);
        }
        let mut rest = beyond.in_doubt.take(rt)?;
        let mut new = TuplestoreWriter::new(rt.exec);
        let mut row = vec![Datum::Null; width];
        // Ends: each turn decides at least one of the remaining rows.
        while rest.records() > 0 {
            self.space.disk += rest.bytes();
            beyond.settle(rt)?;
            let mut later = Writer::new(rt)?;
            let mut table = KeyTable::default();
            let mut records = reader(rest, rt)?;
            while let Some(record) = records.record() {
                rt.tick()?;
                let hash = table.hash(record.key);
                if table.find(hash, record.key).is_none() {
                    let bytes = record.key.len() + record.row.len();
                    if table.has_room(bytes, rt.exec.hash_mem / 4) {
                        table.add(hash, record.key, record.row);
                    } else {
                        later.push(record.key, record.row)?;
                    }
                }
                records.advance()?;
            }
            let mut known = vec![false; table.len()];
            for run in &beyond.runs {
                let mut keys = run.read(rt.exec.temp_chunk);
                keys.fill()?;
                while let Some(record) = keys.record() {
                    rt.tick()?;
                    let found = table.find(table.hash(record.key), record.key);
                    if let Some(known) = found.and_then(|found| known.get_mut(found as usize)) {
                        *known = true;
                    }
                    keys.advance()?;
                }
            }
            for number in (0u32..).zip(&known).filter(|(_, known)| !**known).map(|(n, _)| n) {
                rt.tick()?;
                beyond.keys.push(table.key(number), &[])?;
                read_tagged_into(table.row(number), &mut row)?;
                new.push(&row)?;
            }
            rest = later.run.finish()?;
        }
        Ok(Some(new.finish()?))
    }

    /// Returns the space that the rows needed.
    pub(crate) fn space(&mut self) -> SpaceUse {
        if self.beyond.is_none() {
            self.space.table(self.table.memory(), self.table.len());
        }
        std::mem::take(&mut self.space)
    }
}

impl Beyond {
    /// Makes an empty structure, whose filter is as large as the memory allows.
    fn new(rt: &Runtime<'_, '_>) -> Result<Self> {
        let mut words = rt.exec.hash_mem / FILTER_SHARE / size_of::<u64>();
        // Ends: a small filter always fits. A small filter leaves more rows in doubt.
        while !memory::has_room(words * size_of::<u64>()) {
            words /= 2;
        }
        let (keys, in_doubt) = (Writer::new(rt)?, Writer::new(rt)?);
        Ok(Self { filter: vec![0; words.max(1)], runs: Vec::new(), keys, in_doubt })
    }

    /// Puts a key into the filter. Returns true if the key was certainly not there.
    fn note(&mut self, key: &[u8]) -> bool {
        let (first, second) = (hash_key(key, 0), hash_key(key, 1) | 1);
        let bits = self.filter.len() as u64 * u64::from(u64::BITS);
        let mut new = false;
        for turn in 0..FILTER_BITS {
            let bit = first.wrapping_add(turn.wrapping_mul(second)) % bits;
            let place = usize::try_from(bit / u64::from(u64::BITS)).ok();
            if let Some(word) = place.and_then(|place| self.filter.get_mut(place)) {
                let mask = 1 << (bit % u64::from(u64::BITS));
                new |= *word & mask == 0;
                *word |= mask;
            }
        }
        new
    }

    /// Makes the last written keys readable, and merges runs so that the runs stay few.
    fn settle(&mut self, rt: &mut Runtime<'_, '_>) -> Result<()> {
        if self.keys.records == 0 {
            return Ok(());
        }
        let mut last = self.keys.take(rt)?;
        while let Some(before) = self.runs.pop_if(|run| run.records() / 2 <= last.records()) {
            let mut both = Writer::new(rt)?;
            for run in [before, last] {
                let mut keys = reader(run, rt)?;
                while let Some(record) = keys.record() {
                    rt.tick()?;
                    both.push(record.key, &[])?;
                    keys.advance()?;
                }
            }
            last = both.run.finish()?;
        }
        self.runs.push(last);
        Ok(())
    }
}
