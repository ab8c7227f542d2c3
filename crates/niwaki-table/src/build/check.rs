//! Consistency check of heap against indexes: invariants X1 to X4 (`docs/internals/invariants.md`).

use niwaki_env::hash::{HashMap, HashSet};
use niwaki_heap::{ItemKind, Live, VersionRow};
use niwaki_storage::{Corruption, ReadAhead, Tid};
use niwaki_txn::Horizon;
use niwaki_types::Datum;

use crate::entry::recheck::{Entry, Seen};
use crate::entry::row_key::VersionEntry;
use crate::error::Result;
use crate::relation::table::Table;

/// The visited pages and the findings of a table check.
#[derive(Debug, Default)]
pub struct TableReport {
    /// Pages of heap and indexes.
    pub blocks: u64,
    /// Broken invariants.
    pub corruptions: Vec<Corruption>,
}

/// Contents of the heap, to be compared with the indexes.
#[derive(Default)]
struct HeapContents {
    /// Every line pointer in use.
    items: HashMap<Tid, ItemKind>,
    /// Roots of chains with a version of a transaction that did not abort.
    roots: HashSet<Tid>,
    /// For each index, the entries that versions of transactions that did not abort require.
    wanted: Vec<HashSet<(Vec<u8>, Tid)>>,
    /// For each index, the entries that visible versions of roots without `mixed` require.
    unmixed: Vec<HashMap<Tid, Asked>>,
}

/// The entries that versions require in an index.
#[derive(PartialEq, Eq)]
enum Asked {
    /// No entry: a predicate leaves the versions out.
    Nothing,
    /// An entry with this key and payload.
    Entry(Vec<u8>, Vec<u8>),
    /// Entries that differ.
    Several,
}

impl Table {
    /// Examines the heap, each index, and each against the other. The table must not be written
    /// meanwhile.
    ///
    /// # Errors
    /// Storage's errors, except damage, which goes into the report.
    pub fn check(&self) -> Result<TableReport> {
        // The heap calls no version dead whose end is not durable (rule `dead-marks`).
        let wal = self.engine.storage().wal();
        wal.flush(wal.insert_lsn())?;
        let mut report = TableReport { blocks: u64::from(self.blocks()?), ..Default::default() };
        let mut heap = HeapContents {
            wanted: vec![HashSet::default(); self.indexes.len()],
            unmixed: self.indexes.iter().map(|_| HashMap::default()).collect(),
            ..Default::default()
        };
        debug_assert_eq!(heap.wanted.len(), heap.unmixed.len(), "both lists have all indexes");
        let horizon = self.engine.transactions().horizon();
        let mut versions: Vec<(Tid, VersionRow)> = Vec::new();
        for block in self.heap().ahead(0..self.blocks()?, ReadAhead::default()) {
            versions.clear();
            let items = &mut heap.items;
            self.heap().check_page(
                block,
                &mut report.corruptions,
                |tid, kind| {
                    items.insert(tid, kind);
                },
                // Keys may be expressions, which wait for the latch's release
                // (rule `bytes-under-latch`).
                |version| versions.push((version.row.root, version.row.into())),
            )?;
            for (root, version) in &versions {
                heap.roots.insert(*root);
                for (index, wanted) in heap.wanted.iter_mut().enumerate() {
                    match self.version_entry(index, *root, version) {
                        Ok(Some(VersionEntry { key: Some(key), .. })) => {
                            wanted.insert((key, *root));
                        }
                        // The predicate leaves this version out, or it is removable and one of its
                        // values is gone.
                        Ok(None | Some(VersionEntry { key: None, .. })) => {}
                        Err(error) => {
                            let detail = error.to_string();
                            report.corruptions.push(self.finding(index, "format", *root, detail));
                        }
                    }
                }
            }
        }
        self.heap().check_visibility_map(&mut report.corruptions)?;
        report.blocks += self.check_values(&mut report.corruptions)?;
        if report.corruptions.is_empty() {
            for block in self.heap().ahead(0..self.blocks()?, ReadAhead::default()) {
                self.read_unmixed(block, &horizon, &mut heap)?;
            }
        }
        // Damaged pages say nothing reliable about indexes.
        let heap_is_sound = report.corruptions.is_empty();
        for index in 0..self.indexes.len() {
            // The contents of an index that takes no entries are not read.
            let compared = heap_is_sound && self.indexes[index].definition.ready;
            self.check_index(index, compared.then_some(&heap), &mut report)?;
        }
        Ok(report)
    }

    /// Notes the index entries that the visible versions of a block require, for roots where
    /// readers do not compare the version's key.
    fn read_unmixed(&self, block: u32, horizon: &Horizon, heap: &mut HeapContents) -> Result<()> {
        let mut versions: Vec<(Tid, VersionRow)> = Vec::new();
        self.heap().visit_versions(Live::AtVisit(&|_| false), block, horizon, |row, _| {
            if !row.mixed {
                versions.push((row.root, row.into()));
            }
        })?;
        for (root, version) in &versions {
            for (index, unmixed) in heap.unmixed.iter_mut().enumerate() {
                // An expression without a value was reported before.
                let Ok(asked) = self.asked_by(index, version) else { continue };
                unmixed
                    .entry(*root)
                    .and_modify(|before| {
                        if *before != asked {
                            *before = Asked::Several;
                        }
                    })
                    .or_insert(asked);
            }
        }
        Ok(())
    }

    fn asked_by(&self, index: usize, version: &VersionRow) -> Result<Asked> {
        let mut row = vec![Datum::Null; self.definition.columns.len()];
        let VersionRow { natts, has_nulls, bytes } = version;
        self.deform_parts(*natts, *has_nulls, bytes, &self.needed_for(index), &mut row)?;
        let (mut key, mut payload) = (Vec::new(), Vec::new());
        if !self.encode_index_key(index, &row, &mut key)? {
            return Ok(Asked::Nothing);
        }
        self.encode_payload(index, &row, &mut payload);
        Ok(Asked::Entry(key, payload))
    }

    fn check_index(
        &self,
        index: usize,
        heap: Option<&HeapContents>,
        report: &mut TableReport,
    ) -> Result<()> {
        let handle = &self.indexes[index].handle;
        report.blocks += u64::from(handle.blocks()?);
        let mut entries: HashSet<(Vec<u8>, Tid)> = HashSet::default();
        let (mut twice, mut stale) = (Vec::new(), Vec::new());
        let unmixed = heap.map(|heap| &heap.unmixed[index]);
        let checked = handle.check(&mut |entry| {
            if !entries.insert((entry.key.to_vec(), entry.tid)) {
                twice.push(entry.tid);
            }
            stale.extend(match unmixed.and_then(|unmixed| unmixed.get(&entry.tid)) {
                None => None,
                Some(Asked::Entry(key, payload)) => {
                    (key != entry.key || payload != entry.payload).then_some(entry.tid)
                }
                Some(Asked::Nothing | Asked::Several) => Some(entry.tid),
            });
        })?;
        report.corruptions.extend(checked.corruptions);
        for tid in twice {
            let detail = "two entries of one key have this address".to_owned();
            report.corruptions.push(self.finding(index, "X2", tid, detail));
        }
        let Some(heap) = heap else { return Ok(()) };
        // Only versions that a snapshot may see: removable ones may have lost their entries
        // already.
        let horizon = self.engine.transactions().horizon();
        // An index whose build did not end lacks entries.
        let complete = self.indexes[index].definition.valid;
        for (key, root) in heap.wanted[index].difference(&entries).filter(|_| complete) {
            let entry = Entry { index, key, root: *root, seen: Seen::SomeTime };
            let dead = self.decide(entry, |has_key| {
                Ok(self.heap().dead_versions(*root, &horizon, has_key)?)
            })?;
            if dead.is_none() {
                let detail = "a version that somebody may see has no entry".to_owned();
                report.corruptions.push(self.finding(index, "X1", *root, detail));
            }
        }
        for tid in stale.iter().filter(|_| complete) {
            let detail = "an entry is not that of every version of a root that is not mixed";
            report.corruptions.push(self.finding(index, "X3", *tid, detail.to_owned()));
        }
        for (_, tid) in entries.difference(&heap.wanted[index]) {
            let (invariant, detail) = match heap.items.get(tid) {
                None => ("X4", "an entry points at an UNUSED line pointer"),
                Some(ItemKind::HeapOnly) => ("H2", "an entry points at a heap-only version"),
                Some(ItemKind::Root { mixed: true }) => continue,
                // A dead root keeps its entries until vacuum. A live root may not have an entry of
                // another key.
                Some(ItemKind::Root { mixed: false }) => {
                    let dead = self.heap().is_dead(*tid, &horizon)? || !heap.roots.contains(tid);
                    if dead || stale.contains(tid) {
                        continue;
                    }
                    ("X3", "a stale entry points at a root that is not mixed")
                }
            };
            report.corruptions.push(self.finding(index, invariant, *tid, detail.to_owned()));
        }
        Ok(())
    }

    fn finding(
        &self,
        index: usize,
        invariant: &'static str,
        tid: Tid,
        detail: String,
    ) -> Corruption {
        Corruption {
            file: format!("index \"{}\"", self.indexes[index].definition.name),
            block: Some(tid.block.0),
            item: Some(tid.offset.0),
            invariant,
            detail: format!("{detail} (heap address {tid})"),
        }
    }
}
