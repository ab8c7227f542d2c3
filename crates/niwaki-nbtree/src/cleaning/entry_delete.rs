//! Deletes entries: those in a given list, or all entries that a pass over the file decides to
//! delete.

use std::convert::Infallible;

use niwaki_storage::buffer::PageWrite;
use niwaki_storage::page::PageKind;
use niwaki_storage::record::LoggedPage;
use niwaki_storage::{BlockNumber, Fork, ReadStream, Tid, Xid};

use crate::error::Result;
use crate::memory::density::{Density, Fullness};
use crate::memory::recycle::Pass;
use crate::memory::stats::{Counters, count};
use crate::page::entry::{BatchEntry, EntryPlace};
use crate::page::layout::{IndexPage, META_BLOCK};
use crate::page::search::{Target, is_beyond, lower_bounds};
use crate::page::tuple::{ENTRY_MAX, TUPLE_HEADER};
use crate::page::{change, wal};
use crate::table::{EntryDecision, EntryVisitor, NextVisit, RemovedInterval, union};
use crate::tree::descend::{Descent, RESTARTS_MAX};
use crate::tree::index::{Index, Path};
use crate::tree::locate::Found;

/// The result of a pass of vacuum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VacuumSummary {
    /// Leaf pages visited.
    pub leaf_pages: u32,
    /// Entries removed.
    pub removed: u64,
    /// Entries that stay.
    pub remaining: u64,
    /// Pages that were unlinked: they were empty, or half-dead since a crash, or merged with a
    /// neighbour.
    pub deleted_pages: u32,
    /// Pages that the next splits will use, found or made free by the pass.
    pub free_pages: u32,
    /// The fullness of the leaves when the pass visited them.
    fullness: Fullness,
}

impl Index {
    /// Deletes the entry (key, TID) if it exists and `decide` returns [`EntryDecision::Delete`].
    /// This is [`Index::delete_listed`] of one entry. Returns whether an entry was deleted.
    ///
    /// # Errors
    /// As [`Index::delete_listed`].
    pub fn delete_entry(
        &self,
        key: &[u8],
        tid: Tid,
        xid: Xid,
        decide: &mut dyn FnMut() -> niwaki_storage::Result<(EntryDecision, RemovedInterval)>,
    ) -> Result<bool> {
        let deleted = self.delete_listed(&[(key, tid)], xid, &mut |_| decide())?;
        Ok(deleted > 0)
    }

    /// Deletes entries from an ascending list if they exist and `decide` returns
    /// [`EntryDecision::Delete`]. The index calls `decide` with an entry's place in the list, under
    /// the exclusive latch of the entry's leaf (rule `one-hold`). `decide` also returns the
    /// interval of the removed versions. All entries on one leaf cost one hold of its latch and one
    /// record. The leaves of one parent cost one descent, and a look at the parent each. Returns
    /// the number of deleted entries.
    ///
    /// # Errors
    /// The error of `decide`, and storage's. In both cases no entry of the current leaf was
    /// deleted, with one exception: the deletion left the leaf empty or sparse, and the deletion of
    /// its page failed. Then the entries are gone, and the next pass of vacuum deletes the page.
    pub fn delete_listed(
        &self,
        entries: &[(&[u8], Tid)],
        xid: Xid,
        decide: &mut dyn FnMut(usize) -> niwaki_storage::Result<(EntryDecision, RemovedInterval)>,
    ) -> Result<u64> {
        debug_assert!(entries.is_sorted(), "entries are listed in the order of the index");
        let mut deleted = 0;
        let mut next = 0;
        let mut path = Path::new();
        let mut places = Vec::with_capacity(entries.len());
        let (mut targets, mut bounds) = (Vec::new(), Vec::new());
        // Ends: each round takes the leaf of the entry at `next`, and moves `next` past that entry.
        while let Some(&(key, tid)) = entries.get(next) {
            let Some(mut leaf) = self.write_leaf_of(&Target::entry(key, tid), &mut path)? else {
                break;
            };
            let (first, block) = (next, leaf.id().block);
            let here = entries[first..].iter().map(|&(key, tid)| Target::entry(key, tid));
            targets.clear();
            targets.extend(here.take_while(|target| !is_beyond(&leaf, target)));
            debug_assert!(!targets.is_empty(), "the leaf is the one of the next entry");
            next += targets.len();
            lower_bounds(&leaf, leaf.first_entry(), &targets, &mut bounds);
            debug_assert_eq!(bounds.len(), targets.len(), "each target has its bound");
            let mut removes = None;
            places.clear();
            for ((at, target), &bound) in (first..).zip(&targets).zip(&bounds) {
                let found = self.entry_at(&leaf, block, target, entries[at], bound)?;
                let Found::There(place) = found else { continue };
                let (decision, removed) = decide(at)?;
                // An entry listed twice is deleted once.
                if decision == EntryDecision::Delete && places.last() != Some(&place) {
                    places.push(place);
                    removes = union(removes, removed);
                }
            }
            if places.is_empty() {
                continue;
            }
            debug_assert!(places.len() <= targets.len(), "entries go that were listed");
            let before = self.may_become_sparse(&leaf, &places).then(|| self.parts_full(&leaf));
            self.delete_entries(&mut leaf, &places, xid, removes)?;
            deleted += places.len() as u64;
            if leaf.entry_count() == 0 {
                self.delete_page(leaf)?;
            } else if before.is_some_and(|parts| self.parts_full(&leaf) < parts) {
                self.merge_sparse(leaf)?;
            }
        }
        count(&self.counters.retail_deleted_entries, deleted);
        Ok(deleted)
    }

    /// Latches for writing the leaf where `target` belongs; `None` when the index has no pages.
    /// `path` is the path to the previous leaf, whose target was not above this one.
    fn write_leaf_of(&self, target: &Target<'_>, path: &mut Path) -> Result<Option<PageWrite<'_>>> {
        let Counters { retail_leaf_pages, retail_inner_pages, .. } = &self.counters;
        count(retail_inner_pages, u64::from(path.at(1).is_some()));
        let mut near = self.child_of_last(target, path)?;
        for _ in 0..RESTARTS_MAX {
            let link = if let Some(link) = near.take() {
                link
            } else {
                *path = Path::new();
                let Descent::At(link) = self.descend(target, 0, false, path)? else {
                    return Ok(None);
                };
                count(retail_inner_pages, path.pages());
                link
            };
            if let Some(leaf) = self.write_from(link, 0, target)? {
                count(retail_leaf_pages, 1);
                return Ok(Some(leaf));
            }
        }
        Err(self.dead_links(META_BLOCK))
    }

    /// Visits every entry, in physical order of the pages, and carries out the decisions of
    /// `visitor`. The deletion has no interval: the deleted versions are gone from the heap.
    ///
    /// The pass is complete although splits go on. It runs to the end that the file has when the
    /// pass gets there. Then it visits again the pages behind it to which splits moved entries
    /// (`Recycling::entries_move`).
    ///
    /// The pass deletes leaves that are empty then, merges sparse leaves with their neighbours and
    /// unlinks half-dead pages. It also finds deleted pages for reuse, including pages from an
    /// earlier run.
    ///
    /// # Errors
    /// Storage's, and the error of [`EntryVisitor::between_pages`]; entries deleted until then stay
    /// deleted.
    pub fn vacuum(&self, visitor: &mut dyn EntryVisitor) -> Result<VacuumSummary> {
        let mut summary = VacuumSummary::default();
        let pass = self.recycling.begin_pass();
        let pool = self.storage.pool();
        let mut stream = ReadStream::new(pool, self.file.id, Fork::Main, visitor.read_ahead());
        // The stream returns the named pages in the order of the pass. Pages that the pass visits
        // again are not named.
        let (mut named, mut given) = (META_BLOCK.0 + 1, META_BLOCK.0);
        // Ends: entries that the pass has met do not bring it back.
        while let Some(block) = pass.next(self.blocks()?) {
            if block.0 > given {
                let blocks = self.blocks()?;
                let name = &mut || {
                    let next = (named < blocks).then_some(named);
                    named += 1;
                    Ok::<_, Infallible>(next)
                };
                given = stream.next(pool, name).ok().flatten().unwrap_or(u32::MAX);
                debug_assert!(given >= block.0, "the stream is not behind the pass");
            }
            loop {
                let before = summary.removed;
                let remaining = self.vacuum_page(block, &pass, visitor, &mut summary)?;
                let (reads, changed) = (stream.take_reads(), summary.removed > before);
                // A split may move entries meanwhile: the pass visits them in their new page.
                if visitor.between_pages(reads, changed)? == NextVisit::NextPage {
                    summary.remaining += remaining.unwrap_or(0);
                    summary.leaf_pages += u32::from(remaining.is_some());
                    break;
                }
            }
        }
        if summary.fullness.is_sparse(Density::WITH_ROOM) {
            // As between two pages: no entry waits for a decision.
            let unlinked =
                self.pack_all(&mut || Ok(visitor.between_pages(0, true).map(drop)?))?;
            summary.deleted_pages += unlinked;
            summary.leaf_pages = summary.leaf_pages.saturating_sub(unlinked);
        }
        summary.free_pages = self.recycling.free_count() as u32;
        count(&self.counters.vacuumed_entries, summary.removed);
        Ok(summary)
    }

    /// Visits one page. Returns the number of entries that its leaf has afterwards. `None` if the
    /// page is no leaf, or no longer one.
    fn vacuum_page(
        &self,
        block: BlockNumber,
        pass: &Pass<'_>,
        visitor: &mut dyn EntryVisitor,
        summary: &mut VacuumSummary,
    ) -> Result<Option<u64>> {
        let mut leaf = self.pin(block)?.into_write();
        if leaf.is_new() {
            self.recycling.add_unused(block);
            return Ok(None);
        }
        if leaf.kind() == PageKind::Nbtree && leaf.is_deleted() {
            self.recycling.add_free(block);
            return Ok(None);
        }
        if leaf.kind() == PageKind::Nbtree && leaf.is_half_dead() {
            drop(leaf);
            summary.deleted_pages += u32::from(self.unlink(block)?);
            return Ok(None);
        }
        if leaf.kind() == PageKind::Nbtree && !leaf.is_leaf() {
            return Ok(None);
        }
        leaf.verify(self.page_id(block), Some(0)).map_err(crate::tree::index::storage_damage)?;
        debug_assert!(!leaf.is_deleted(), "a deleted page has no entries to decide about");
        debug_assert!(!leaf.is_half_dead(), "a half-dead page has no entries to decide about");
        let (removed, remaining) = self.visit_leaf(&mut leaf, visitor)?;
        summary.removed += removed;
        if leaf.entry_count() == 0 {
            summary.deleted_pages += self.delete_page(leaf)?;
            return Ok(Some(remaining));
        }
        summary.fullness.add(self.parts_full(&leaf));
        let right = leaf.next();
        let sparse = self.is_sparse(&leaf);
        let right_was_met = pass.has_met(right);
        if let Some(merged) = self.merge_sparse(leaf)? {
            summary.deleted_pages += merged.unlinked;
            // The pass visits the moved entries in their new page, together with the sibling's
            // entries, which must count once.
            if right_was_met {
                summary.leaf_pages = summary.leaf_pages.saturating_sub(1);
                summary.remaining = summary.remaining.saturating_sub(merged.entries_before);
            }
            return Ok(None);
        }
        // The sibling may become sparse when the pass comes there.
        if sparse && pass.visit_again(right) {
            return Ok(None);
        }
        Ok(Some(remaining))
    }

    /// Carries out the decisions of `visitor` about the entries of a leaf. Returns the numbers of
    /// removed and of remaining entries.
    pub(crate) fn visit_leaf(
        &self,
        leaf: &mut PageWrite<'_>,
        visitor: &mut dyn EntryVisitor,
    ) -> Result<(u64, u64)> {
        let block = leaf.id().block;
        let (mut gone, mut rewritten) = (Vec::new(), Vec::new());
        let mut entries = 0;
        for offset in leaf.first_entry()..=leaf.item_count() {
            let item = self.leaf_tuple(leaf, block, offset)?;
            entries += item.tids.len() as u64;
            for (place, tid) in (0u8..).zip(item.tids.iter()) {
                let entry = BatchEntry { key: item.key, payload: item.payload, tid };
                match visitor.decide(entry) {
                    EntryDecision::Keep => {}
                    EntryDecision::Delete => gone.push(EntryPlace { offset, place }),
                    // Items with a payload are single entries: each removed entry before this one
                    // is a whole item.
                    EntryDecision::Rewrite => {
                        let payload = visitor.payload().to_vec();
                        rewritten.push((offset - gone.len() as u16, tid, payload));
                    }
                }
            }
        }
        if !gone.is_empty() {
            self.delete_entries(leaf, &gone, Xid::INVALID, None)?;
        }
        for (offset, tid, payload) in rewritten {
            if !self.set_payload(leaf, offset, &payload)? {
                visitor.did_not_fit(tid);
            }
        }
        debug_assert!(gone.len() as u64 <= entries, "entries go that were visited");
        Ok((gone.len() as u64, entries - gone.len() as u64))
    }

    /// Gives the entry at `offset` another payload, logged. Returns false if the payload does not
    /// fit the leaf.
    fn set_payload(&self, leaf: &mut PageWrite<'_>, offset: u16, payload: &[u8]) -> Result<bool> {
        let item = self.leaf_tuple(leaf, leaf.id().block, offset)?;
        let room = item.payload.len() + leaf.room();
        if payload.len() > room.min(ENTRY_MAX - TUPLE_HEADER - item.key.len()) {
            return Ok(false);
        }
        let critical = self.storage.begin_change()?;
        let set = change::set_payload(leaf, offset, payload);
        assert!(set, "the entry was just found, and the room measured");
        leaf.bump_version();
        let delta: &[&[u8]] = &[&offset.to_le_bytes(), payload];
        let pages = &mut [LoggedPage::delta(leaf, delta)];
        self.log(wal::kind::SET_PAYLOAD, Xid::INVALID, pages, None);
        drop(critical);
        count(&self.counters.payloads_rewritten, 1);
        Ok(true)
    }
}
