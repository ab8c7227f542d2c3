//! Building an index on a table that nobody writes to.

use niwaki_heap::RowRef;
use niwaki_storage::Tid;
use niwaki_txn::Transaction;
use niwaki_types::{ColumnMask, Datum};

use crate::error::{Error, Result};
use crate::table::Table;

/// Most bytes of keys and payloads that a build sorts in memory.
const SORT_BYTES_MAX: usize = 1 << 30;

/// One entry to be: where its bytes are, and whose it is.
struct Entry {
    start: u32,
    key_len: u16,
    payload_len: u16,
    tid: Tid,
    /// Some version with this key is live: two such entries violate a unique index.
    live: bool,
}

/// Entries with their bytes in one buffer.
#[derive(Default)]
struct Entries {
    bytes: Vec<u8>,
    list: Vec<Entry>,
}

impl Entries {
    fn key(&self, entry: &Entry) -> &[u8] {
        let start = entry.start as usize;
        &self.bytes[start..start + usize::from(entry.key_len)]
    }

    fn payload(&self, entry: &Entry) -> &[u8] {
        let start = entry.start as usize + usize::from(entry.key_len);
        &self.bytes[start..start + usize::from(entry.payload_len)]
    }
}

impl Table {
    /// Fills `index`, whose file is empty, from the heap. The caller holds a lock that excludes
    /// writers, so the only transaction in progress here is its own.
    ///
    /// Every version that some snapshot may see gets its entry (X1); a chain with more than one key
    /// becomes `mixed` before the index is usable (rule 9b.12).
    ///
    /// # Errors
    /// [`Error::UniqueViolation`]; [`Error::KeyTooBig`]; [`Error::Limit`] when the keys do not fit in
    /// memory; storage's, interrupts.
    pub fn build_index(&self, tx: &Transaction, index: usize) -> Result<()> {
        let mut entries = self.collect(tx, index)?;
        let bytes = std::mem::take(&mut entries.bytes);
        let at =
            |entry: &Entry| entry.start as usize..entry.start as usize + usize::from(entry.key_len);
        entries.list.sort_unstable_by(|a, b| {
            bytes[at(a)].cmp(&bytes[at(b)]).then_with(|| a.tid.cmp(&b.tid))
        });
        entries.bytes = bytes;
        let unique = self.indexes[index].definition.unique;
        let mut builder = self.indexes[index].handle.builder(tx.write_xid()?)?;
        let mut live_before: Option<Tid> = None;
        for (number, entry) in entries.list.iter().enumerate() {
            if number % 4096 == 0 {
                tx.session().check_interrupts().map_err(niwaki_txn::Error::from)?;
            }
            let key = entries.key(entry);
            let equal = builder.add(key, entries.payload(entry), entry.tid)?;
            if !equal {
                live_before = None;
            }
            if unique && entry.live {
                if live_before.is_some() && !self.row_at_has_null(tx, index, entry.tid)? {
                    drop(builder);
                    return Err(self.duplicate_at(tx, index, entry.tid)?);
                }
                live_before = Some(entry.tid);
            }
        }
        builder.finish()?;
        Ok(())
    }

    /// One entry for each root and distinct key; marks roots with several.
    fn collect(&self, tx: &Transaction, index: usize) -> Result<Entries> {
        let mut entries = Entries::default();
        let horizon = self.engine.transactions().horizon();
        let mut failed = None;
        let mut row = vec![Datum::Null; self.definition.columns.len()];
        let mut needed = self.indexes[index].key_mask.clone();
        for &column in &self.indexes[index].definition.include {
            needed.insert(column);
        }
        for block in 0..self.blocks()? {
            if block % 64 == 0 {
                tx.session().check_interrupts().map_err(niwaki_txn::Error::from)?;
            }
            let mut mixed = Vec::new();
            // Entries of the page begin here: only they can be of the same root.
            let page_start = entries.list.len();
            self.heap().visit_versions(tx, block, &horizon, |version, live| {
                let added = self.add(index, version, live, &needed, &mut row, &mut entries);
                match added {
                    Ok(()) => {}
                    Err(error) => {
                        failed.get_or_insert(error);
                        return;
                    }
                }
                merge(&mut entries, page_start, &mut mixed);
            })?;
            if let Some(error) = failed {
                return Err(error);
            }
            if !mixed.is_empty() {
                self.heap().set_mixed(tx, block, &mixed)?;
            }
        }
        Ok(entries)
    }

    fn add(
        &self,
        index: usize,
        version: RowRef<'_>,
        live: bool,
        needed: &ColumnMask,
        row: &mut [Datum],
        entries: &mut Entries,
    ) -> Result<()> {
        self.deform(version, needed, row)?;
        let start = entries.bytes.len();
        if start >= SORT_BYTES_MAX {
            return Err(Error::Limit(format!(
                "the keys of index \"{}\" take more than {SORT_BYTES_MAX} bytes",
                self.indexes[index].definition.name
            )));
        }
        self.encode_index_key(index, row, &mut entries.bytes);
        let key_end = entries.bytes.len();
        self.encode_payload(index, row, &mut entries.bytes);
        let too_big = |size: usize| Error::KeyTooBig {
            size,
            max: usize::from(u16::MAX),
            index: self.indexes[index].definition.name.clone(),
        };
        let (key, payload) = (key_end - start, entries.bytes.len() - key_end);
        entries.list.push(Entry {
            // Below SORT_BYTES_MAX.
            start: start as u32,
            key_len: u16::try_from(key).map_err(|_| too_big(key))?,
            payload_len: u16::try_from(payload).map_err(|_| too_big(payload))?,
            tid: version.root,
            live,
        });
        Ok(())
    }

    /// Whether the visible key of a row holds a NULL: such keys are never equal.
    fn row_at_has_null(&self, tx: &Transaction, index: usize, root: Tid) -> Result<bool> {
        let mut row = vec![Datum::Null; self.definition.columns.len()];
        let snapshot = tx.snapshot()?;
        let needed = &self.indexes[index].key_mask;
        Ok(self.fetch(tx, &snapshot, root, needed, &mut row)? && self.key_has_null(index, &row))
    }

    #[cold]
    fn duplicate_at(&self, tx: &Transaction, index: usize, root: Tid) -> Result<Error> {
        let mut row = vec![Datum::Null; self.definition.columns.len()];
        let snapshot = tx.snapshot()?;
        self.fetch(tx, &snapshot, root, &self.indexes[index].key_mask, &mut row)?;
        Ok(self.unique_violation(index, &row))
    }
}

/// Looks at the newest entry: an equal one of the same root makes it superfluous, another one of the
/// same root makes the root mixed.
fn merge(entries: &mut Entries, page_start: usize, mixed: &mut Vec<u16>) {
    let Some((newest, earlier)) = entries.list[page_start..].split_last() else { return };
    let mut same_key = None;
    for (position, other) in earlier.iter().enumerate().filter(|(_, other)| other.tid == newest.tid)
    {
        if entries.key(other) == entries.key(newest) {
            same_key = Some(page_start + position);
        } else if !mixed.contains(&newest.tid.offset.0) {
            mixed.push(newest.tid.offset.0);
        }
    }
    if let Some(position) = same_key {
        // The newer version's payload is the one to keep; it is live if either is.
        let Some(mut newest) = entries.list.pop() else { return };
        newest.live |= entries.list[position].live;
        entries.list[position] = newest;
    }
}
