//! Rows that a recursive UNION has given, so that none is given again.
//!
//! Their keys stay in a table in memory as long as there is room. Those that come later go to files, and into a filter
//! that knows of most rows that they are in none of them. The others are in doubt until the turn ends. Then the files
//! are read once, for as many rows in doubt as there is room for. As few rows that are new are in doubt, a long chain
//! does not read the files at each of its links.

use niwaki_env::memory;
use niwaki_table::{KeyedRows, Run, RunWriter};
use niwaki_types::{ColumnType, Datum, read_tagged_into, write_tagged_row};

use super::kept_rows::{KeptRows, RowKeeper};
use super::key_table::KeyTable;
use super::spill::{SpaceUse, checked, encode_columns, hash_key, reader};
use crate::error::Result;
use crate::expr::Runtime;

/// Which share of the memory the filter has.
const FILTER_SHARE: usize = 8;
/// Bits of the filter for each key.
const FILTER_BITS: u64 = 3;

/// What is known of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// It is the first of its kind.
    Never,
    Before,
    /// To be told when the turn ends.
    InDoubt,
}

/// The rows that have been given.
#[derive(Default)]
pub(super) struct SeenRows {
    table: KeyTable,
    beyond: Option<Beyond>,
    key: Vec<u8>,
    row: Vec<u8>,
    space: SpaceUse,
}

/// What there is no room for.
struct Beyond {
    filter: Vec<u64>,
    /// Keys of rows that have been given; each run has less than half of what the one before has.
    runs: Vec<Run<KeyedRows>>,
    keys: Writer,
    in_doubt: Writer,
}

/// A run that is being written, and how many records it has.
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

    /// Ends the run and begins another.
    fn take(&mut self, rt: &Runtime<'_, '_>) -> Result<Run<KeyedRows>> {
        Ok(std::mem::replace(self, Self::new(rt)?).run.finish()?)
    }
}

impl SeenRows {
    /// Looks whether a row was there, and remembers it.
    pub(super) fn look(
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

    /// At the end of a turn: those rows in doubt that are new.
    pub(super) fn late(
        &mut self,
        rt: &mut Runtime<'_, '_>,
        width: usize,
    ) -> Result<Option<KeptRows>> {
        let Some(beyond) = &mut self.beyond else { return Ok(None) };
        if beyond.in_doubt.records == 0 {
            return Ok(None);
        }
        let mut rest = beyond.in_doubt.take(rt)?;
        let mut new = RowKeeper::new(rt.exec);
        let mut row = vec![Datum::Null; width];
        // Ends: of what is left each time at least one is told.
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

    /// What was needed.
    pub(super) fn space(&mut self) -> SpaceUse {
        if self.beyond.is_none() {
            self.space.table(self.table.memory(), self.table.len());
        }
        std::mem::take(&mut self.space)
    }
}

impl Beyond {
    /// Nothing in it yet. Its filter is as large as may be.
    fn new(rt: &Runtime<'_, '_>) -> Result<Self> {
        let mut words = rt.exec.hash_mem / FILTER_SHARE / size_of::<u64>();
        // Ends: a small one may always be taken. It leaves more rows in doubt.
        while !memory::has_room(words * size_of::<u64>()) {
            words /= 2;
        }
        let (keys, in_doubt) = (Writer::new(rt)?, Writer::new(rt)?);
        Ok(Self { filter: vec![0; words.max(1)], runs: Vec::new(), keys, in_doubt })
    }

    /// Puts a key into the filter; true if it was certainly not there.
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

    /// Makes the keys that were written last readable. Runs are put together, so that they stay few.
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
