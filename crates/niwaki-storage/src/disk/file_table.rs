//! The table of files: every relation file, with the contents that it must have on disk.
//!
//! Each checkpoint writes the table. So a file that is missing or short differs from one that never
//! had more.
//!
//! ```text
//!   pages written    lengths and runs noted    files synced    table written    control file
//!   -----|--------------------|---------------------|----------------|---------------|----->
//!                             what is noted here is durable here     counts from here on
//! ```
//!
//! Two files are written in turn. The control file names the current one, with its checksum.
//! Recovery applies the log records after the redo position (create, drop, truncate) to the table.

use std::collections::BTreeMap;
use std::io;

use niwaki_env::Env;
use niwaki_env::hash::HashMap;
use niwaki_env::vfs::OpenMode;

use super::cursor::Cursor;
use crate::error::{Corruption, Error, Result};
use crate::ids::{BASE, BlockNumber, Fork, RelFileId, Xid, fork_file_name};

/// The two files that are written in turn; the control file counts them from 1.
pub(crate) const TABLES: [&str; 2] = ["files.1", "files.2"];
/// Step, in bytes, in which space is reserved in both files: a checkpoint on a full disk must not
/// need more.
const ROOM: u64 = 64 << 10;
/// The most runs of one file. Beyond this, the shortest run is forgotten: less is known then, but
/// nothing becomes wrong.
const RUNS_MAX: usize = 64;
const ENTRY_BYTES: usize = 28;

const _: () = assert!(ROOM.is_power_of_two());
// The run of block 0 is never forgotten, so there must be another one to forget.
const _: () = assert!(RUNS_MAX >= 2);
const _: () =
    assert!(ENTRY_BYTES == size_of::<RelFileId>() + size_of::<Xid>() + 3 * size_of::<u32>());

/// Blocks that hold a page, as runs that do not touch. None of these blocks may read as zeros.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Runs(BTreeMap<u32, u32>);

impl Runs {
    /// Checks that each run has blocks, that no two runs touch, and that there are not too many.
    fn assert_state(&self) {
        debug_assert!(self.0.len() <= RUNS_MAX, "{} runs", self.0.len());
        debug_assert!(self.0.iter().all(|(from, to)| from < to), "a run of no block: {self:?}");
        debug_assert!(
            self.0.values().zip(self.0.keys().skip(1)).all(|(end, next)| end < next),
            "runs touch: {self:?}"
        );
    }

    /// Adds the blocks from `start` up to `end`.
    pub(crate) fn add(&mut self, mut start: u32, mut end: u32) {
        if start >= end {
            return;
        }
        // Ends: each round removes a run that touches the new one.
        while let Some((&from, &to)) = self.0.range(..=end).next_back()
            && to >= start
        {
            if from <= start && to >= end {
                return;
            }
            self.0.remove(&from);
            start = start.min(from);
            end = end.max(to);
        }
        self.0.insert(start, end);
        debug_assert!(self.0.len() <= RUNS_MAX + 1, "more than one run was added");
        if self.0.len() <= RUNS_MAX {
            self.assert_state();
            return;
        }
        // The run of block 0 is never forgotten: block 0 is an index's first page, and a sequence's
        // only page.
        let others = self.0.iter().filter(|(from, _)| **from > 0);
        if let Some((&shortest, _)) = others.min_by_key(|(from, to)| **to - **from) {
            self.0.remove(&shortest);
        }
        self.assert_state();
    }

    /// Forgets the blocks from `blocks` on.
    pub(crate) fn truncate(&mut self, blocks: u32) {
        let gone = self.0.split_off(&blocks);
        drop(gone);
        if let Some((_, end)) = self.0.iter_mut().next_back() {
            *end = blocks.min(*end);
        }
        self.assert_state();
        debug_assert!(self.end() <= blocks, "block {blocks} is left: {self:?}");
    }

    /// Returns the block behind the last run; 0 without runs.
    fn end(&self) -> u32 {
        self.0.last_key_value().map_or(0, |(_, end)| *end)
    }

    /// Returns whether the block belongs to a run.
    pub(crate) fn has(&self, block: BlockNumber) -> bool {
        let block = block.0;
        self.0.range(..=block).next_back().is_some_and(|(_, &end)| block < end)
    }
}

/// Facts about the main fork of one relation file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KnownFile {
    /// The file's changes are logged. A crash empties a file that is not logged; `blocks` and
    /// `written` do not hold then.
    pub(crate) logged: bool,
    /// The transaction that created the file.
    pub(crate) creator: Xid,
    /// The least number of blocks of the file.
    pub(crate) blocks: u32,
    /// Blocks below `blocks` that hold a page.
    pub(crate) written: Runs,
}

impl KnownFile {
    /// Describes a file that has just been created.
    pub(crate) fn new(logged: bool, creator: Xid) -> Self {
        Self { logged, creator, blocks: 0, written: Runs::default() }
    }

    /// Returns whether a file of `found` blocks lacks some of the known blocks; a missing file
    /// (`None`) does.
    pub(crate) fn is_more_than(&self, found: Option<u32>) -> bool {
        found.is_none_or(|found| found < self.blocks)
    }
}

/// Encodes the table: entries in the order of their file numbers.
pub(crate) fn encode(known: &BTreeMap<RelFileId, KnownFile>) -> Vec<u8> {
    let mut out = Vec::with_capacity(known.len() * (ENTRY_BYTES + 8));
    for (file, entry) in known {
        entry.written.assert_state();
        // The next start refuses a table with other runs.
        niwaki_env::invariant!(
            F1,
            entry.written.end() <= entry.blocks,
            "file {file} has {} blocks, and {:?}",
            entry.blocks,
            entry.written
        );
        out.extend(file.0.to_le_bytes());
        out.extend(entry.creator.0.to_le_bytes());
        out.extend(u32::from(entry.logged).to_le_bytes());
        out.extend(entry.blocks.to_le_bytes());
        // At most RUNS_MAX.
        out.extend((entry.written.0.len() as u32).to_le_bytes());
        for (start, end) in &entry.written.0 {
            out.extend(start.to_le_bytes());
            out.extend(end.to_le_bytes());
        }
    }
    out
}

/// Decodes the table; `None` when the bytes are no table.
pub(crate) fn decode(bytes: &[u8]) -> Option<HashMap<RelFileId, KnownFile>> {
    let mut cursor = Cursor(bytes);
    let mut known = HashMap::default();
    // Ends: each round takes bytes.
    while !cursor.0.is_empty() {
        let file = RelFileId(cursor.u64()?);
        let creator = Xid(cursor.u64()?);
        let logged = match cursor.u32()? {
            flag @ (0 | 1) => flag == 1,
            _ => return None,
        };
        let mut entry = KnownFile { blocks: cursor.u32()?, ..KnownFile::new(logged, creator) };
        for _ in 0..cursor.u32()? {
            let (start, end) = (cursor.u32()?, cursor.u32()?);
            if start >= end || end > entry.blocks {
                return None;
            }
            entry.written.add(start, end);
        }
        known.insert(file, entry);
    }
    Some(known)
}

/// The current table of files, as the control file names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TablePlace {
    /// 1 or 2; 0 when there is no table, as in directories older than the table.
    pub number: u32,
    /// Length of the table, in bytes.
    pub bytes: u32,
    /// CRC-32C of the table's bytes.
    pub crc: u32,
}

/// Reads the current table; `None` when there is no table.
pub(crate) fn read(env: &Env, place: TablePlace) -> Result<Option<HashMap<RelFileId, KnownFile>>> {
    let Some(at) = place.number.checked_sub(1) else { return Ok(None) };
    let name = TABLES[at as usize % TABLES.len()];
    let failed = |e| Error::io(format!("could not read {name}, the table of files"), e);
    let file = env.vfs.open(name, OpenMode::Existing).map_err(failed)?;
    let mut bytes = vec![0; place.bytes as usize];
    let got = file.read_at(&mut bytes, 0).map_err(failed)?;
    let sound = got == bytes.len() && crc32c::crc32c(&bytes) == place.crc;
    match sound.then(|| decode(&bytes)).flatten() {
        Some(known) => Ok(Some(known)),
        None => Err(Error::Corruption(Box::new(Corruption {
            file: name.into(),
            block: None,
            item: None,
            invariant: "F1",
            detail: format!(
                "this is not the table of files that the control file names, of {} bytes with \
                 checksum {:08x}",
                place.bytes, place.crc
            ),
        }))),
    }
}

/// Writes the table durably to the file that is not current, and returns its place. Returns the
/// current place when the current table has the same bytes. A failed sync ends the process.
pub(crate) fn write(env: &Env, now: TablePlace, bytes: &[u8]) -> Result<TablePlace> {
    let full = || Error::DiskFull { action: "could not write a table of 4 GiB of files".into() };
    let length = u32::try_from(bytes.len()).map_err(|_| full())?;
    let next = TablePlace {
        number: if now.number == 1 { 2 } else { 1 },
        bytes: length,
        crc: crc32c::crc32c(bytes),
    };
    niwaki_env::invariant!(F1, next.number != now.number, "the current table is overwritten");
    if now.number != 0 && (now.bytes, now.crc) == (next.bytes, next.crc) {
        return Ok(now);
    }
    let mut files = Vec::new();
    for name in TABLES {
        let failed = |e| Error::io(format!("could not write {name}, the table of files"), e);
        let file = env.vfs.open(name, OpenMode::CreateIfAbsent).map_err(failed)?;
        let there = file.len().map_err(failed)?;
        let room = (u64::from(length) + ROOM / 2).next_multiple_of(ROOM);
        if there < u64::from(length).max(1) {
            debug_assert!(room >= u64::from(length), "room of {room} bytes for {length}");
            debug_assert!(room > there, "no room is added to {there} bytes");
            file.allocate(there, room - there).map_err(failed)?;
            let synced = file.sync_data().and_then(|()| env.vfs.sync_dir(""));
            must(env, name, synced);
        }
        files.push((name, file));
    }
    let (name, file) = files.swap_remove(next.number as usize - 1);
    let failed = |e| Error::io(format!("could not write {name}, the table of files"), e);
    file.write_at(bytes, 0).map_err(failed)?;
    must(env, name, file.sync_data());
    Ok(next)
}

fn must(env: &Env, name: &str, synced: io::Result<()>) {
    if let Err(e) = synced {
        env.abort(&format!("could not sync {name}: {e}"));
    }
}

/// Makes the error for a main fork with fewer blocks than it had: no file (58P01), or a short one
/// (XX001).
pub(crate) fn too_short(file: RelFileId, known: &KnownFile, found: Option<u32>) -> Error {
    let name = format!("{BASE}/{}", fork_file_name(file, Fork::Main));
    let had = known.blocks;
    let Some(found) = found else {
        let action = format!("could not open file \"{name}\", which had {had} blocks");
        let source = io::Error::new(io::ErrorKind::NotFound, "No such file or directory");
        return Error::io(action, source);
    };
    Error::Corruption(Box::new(Corruption {
        file: name,
        block: Some(found),
        item: None,
        invariant: "F1",
        detail: format!("the file has {found} blocks, and had at least {had}"),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "runs touch")]
    fn runs_that_touch_are_noticed() {
        Runs(BTreeMap::from([(0, 3), (3, 5)])).assert_state();
    }

    #[test]
    fn runs_are_the_blocks_that_were_added_and_not_cut() {
        let mut seed = 1_u64;
        let mut draw = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            u32::try_from((seed >> 33) % below).unwrap()
        };
        for _ in 0..200 {
            let (mut runs, mut model) = (Runs::default(), [false; 64]);
            for _ in 0..40 {
                let (start, count) = (draw(60), draw(5));
                if draw(8) == 0 {
                    runs.truncate(start);
                    model[start as usize..].fill(false);
                } else {
                    let end = (start + count).min(64);
                    runs.add(start, end);
                    model[start as usize..end as usize].fill(true);
                }
                for (block, &there) in (0..).zip(&model) {
                    assert_eq!(runs.has(BlockNumber(block)), there, "block {block} of {runs:?}");
                }
                let ends: Vec<_> = runs.0.iter().map(|(a, b)| (*a, *b)).collect();
                assert!(ends.windows(2).all(|pair| pair[0].1 < pair[1].0), "{ends:?}");
            }
        }
    }

    #[test]
    fn few_runs_are_remembered() {
        let mut runs = Runs::default();
        (0..1000).for_each(|at| runs.add(at * 4, at * 4 + 1 + at % 2));
        assert_eq!(runs.0.len(), RUNS_MAX);
        assert!(runs.has(BlockNumber(0)), "the first page is remembered");
        assert!(runs.0.iter().all(|(start, end)| start % 4 == 0 && end - start <= 2));
    }

    #[test]
    fn a_table_is_read_as_it_was_written() {
        let mut entry = KnownFile { blocks: 9, ..KnownFile::new(true, Xid(77)) };
        entry.written.add(0, 3);
        entry.written.add(5, 9);
        let known = BTreeMap::from([
            (RelFileId(3), entry),
            (RelFileId(1 << 40), KnownFile::new(false, Xid::INVALID)),
        ]);
        let bytes = encode(&known);
        let read = decode(&bytes).unwrap();
        assert_eq!(read.into_iter().collect::<BTreeMap<_, _>>(), known);
        assert!((1..28).all(|cut| decode(&bytes[..cut]).is_none()));
    }
}
