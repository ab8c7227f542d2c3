//! Redo of one record.
//!
//! A record may name a page that does not exist. Such a page is noted as *missing*: a later record
//! must drop or cut the file, or the directory is damaged. A record that names a file behind the
//! record that drops it is passed over (W4). The current version logs no such record, but older
//! versions did, beside DROP INDEX CONCURRENTLY. If the drop is before the redo position, the table
//! of files does not have the file, and no record has created it since. Numbers of files are never
//! given twice.
//!
//! A record in front of the drop of its file is passed over too. So is every record of a file whose
//! creator has no commit in the log (`analysis.rs`). Such a file is never read, and there may be
//! no room on disk for it. The file is removed only once the end of the log is certain, so its
//! pages are examined all the same. A file also does not grow by pages that a later record cuts
//! off.

use niwaki_env::hash::{HashMap, HashSet};
use niwaki_env::seeded_bug;
use niwaki_env::sync::Mutex;
use niwaki_env::sync::atomic::Ordering;

use super::analysis::Removals;
use crate::buffer::guard::PageWrite;
use crate::directory::storage::{Storage, kind};
use crate::disk::cursor::Cursor;
use crate::disk::files::Files;
use crate::error::{Corruption, Error, Result};
use crate::ids::{BASE, BlockNumber, FORKS, Fork, Lsn, PageId, RelFileId, fork_file_name};
use crate::page::PAGE_SIZE;
use crate::wal::record::{DecodedImage, DecodedRecord};
use crate::wal::segment::WAL_FOLDER;

/// The state of a page, as the redo of a record finds it.
#[derive(Debug)]
pub enum RedoPage<'r> {
    /// The change is missing: the caller makes it. The page already carries the record's LSN and is
    /// dirty. Apart from that, the page is zero where the record has
    /// [`crate::record::PageLog::Init`].
    NeedsRedo(PageWrite<'r>),
    /// The change is there, or an image brought it.
    Done,
    /// The page's file disappears, or was cut later on, or is a map that was lost.
    Gone,
}

/// The context of the redo of one record.
pub struct Redo<'r> {
    pub(super) storage: &'r Storage,
    pub(super) record: &'r DecodedRecord<'r>,
    pub(super) missing: &'r Missing<'r>,
}

impl std::fmt::Debug for Redo<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redo").field("record", &self.record.start).finish_non_exhaustive()
    }
}

/// Pages and files that records named and that do not exist.
pub(super) struct Missing<'s> {
    /// Holds the files that should exist; `None` where the last checkpoint wrote no table of them.
    pub(super) files: Option<&'s Files>,
    /// Missing pages, with the first record that names each.
    pub(super) pages: Mutex<HashMap<PageId, Lsn>>,
    /// Files that the log has dropped so far.
    pub(super) dropped: Mutex<HashSet<RelFileId>>,
    /// Files and pages that disappear later: changes to them are never read.
    pub(super) removals: Removals,
    /// Forks that did not grow by pages that a later record cuts off.
    pub(super) ungrown: Mutex<HashSet<(RelFileId, Fork)>>,
    /// Pages that were examined although their files disappear.
    pub(super) seen: Mutex<HashSet<PageId>>,
}

impl Missing<'_> {
    /// Notes a missing page. Maps may forget their contents: a missing map page is started anew
    /// when it is needed.
    fn add(&self, id: PageId, at: Lsn) {
        if id.fork == Fork::Main {
            self.pages.lock().entry(id).or_insert(at);
        }
    }

    fn forgive(&self, file: RelFileId, which: impl Fn(PageId) -> bool) {
        self.pages.lock().retain(|id, _| id.file != file || !which(*id));
    }

    fn drop_file(&self, file: RelFileId) {
        self.forgive(file, |_| true);
        self.dropped.lock().insert(file);
    }

    fn create_file(&self, file: RelFileId) {
        self.dropped.lock().remove(&file);
    }

    /// Returns whether a record that ends at `at` needs no redo on the file. The log drops the file
    /// before or after the record, or its creator never commits.
    fn is_passed_over(&self, file: RelFileId, at: Lsn) -> bool {
        let is_there = |files: &Files| files.known.lock().contains_key(&file);
        self.removals.has_file(file, at)
            || self.dropped.lock().contains(&file)
            || self.files.is_some_and(|files| !is_there(files))
    }

    pub(super) fn check(&self) -> Result<()> {
        let missing = self.pages.lock();
        let Some((id, at)) = missing.iter().min_by_key(|(_, at)| **at) else { return Ok(()) };
        Err(Error::Corruption(Box::new(Corruption {
            file: format!("{BASE}/{}", fork_file_name(id.file, id.fork)),
            block: Some(id.block.0),
            item: None,
            invariant: "W2",
            detail: format!("the log record at {at} changes this page, which does not exist"),
        })))
    }
}

impl<'r> Redo<'r> {
    /// Returns the storage that is being recovered. Nothing may be logged yet.
    pub fn storage(&self) -> &'r Storage {
        self.storage
    }

    /// Prepares page `index` of the record for the record's own change, and latches the page
    /// exclusively. Images are restored here.
    ///
    /// # Errors
    /// [`Error::Corruption`] when the record has no such page or the page is damaged;
    /// [`Error::Io`].
    pub fn page(&self, index: usize) -> Result<RedoPage<'r>> {
        let Some(page) = self.record.pages.get(index) else {
            return Err(self.damage(format!("it names no page {index}")));
        };
        let pool = self.storage.pool();
        let id = page.id;
        if self.missing.is_passed_over(id.file, self.record.lsn) {
            self.look_at_passed_over(id)?;
            return Ok(RedoPage::Gone);
        }
        if page.image.is_some() || page.init {
            let blocks = id.block.0.checked_add(1).filter(|&end| end < u32::MAX);
            let Some(blocks) = blocks else {
                return Err(self.damage(format!("it names block {}", id.block)));
            };
            // A later record may cut the file to the part that is left; nothing else repairs it.
            if self.storage.files.lost_its_end(id)? {
                self.missing.add(id, self.record.start);
                return Ok(RedoPage::Gone);
            }
            let grows = blocks > pool.blocks(id.file, id.fork)?;
            if grows && self.missing.removals.is_truncated(id, self.record.lsn) {
                self.missing.ungrown.lock().insert((id.file, id.fork));
                return Ok(RedoPage::Gone);
            }
            pool.extend_to(id.file, id.fork, blocks)?;
        } else if id.block.0 >= pool.blocks(id.file, id.fork)? {
            self.missing.add(id, self.record.start);
            return Ok(RedoPage::Gone);
        }
        // An image replaces any contents, even a torn page.
        let rewritten = page.image.is_some() || page.init;
        let pin = if rewritten { pool.pin_to_rewrite(id)? } else { pool.pin(id)? };
        let mut guard = pin.into_write();
        if guard.lsn() >= self.record.lsn && !seeded_bug!("redo_twice") {
            // The page may come from the system's memory, and not be on the device.
            if !seeded_bug!("redo_trusts_cache") {
                guard.mark_dirty();
            }
            return Ok(RedoPage::Done);
        }
        if let Some(image) = page.image {
            restore(&mut guard, image);
            guard.stamp_in_redo(self.record.lsn);
            return Ok(RedoPage::Done);
        }
        if page.init {
            guard.0.fill(0);
        } else if guard.is_new() {
            // The file grew by a later change that was cut off again, or the page was never
            // written.
            drop(guard);
            self.missing.add(id, self.record.start);
            return Ok(RedoPage::Gone);
        }
        guard.stamp_in_redo(self.record.lsn);
        Ok(RedoPage::NeedsRedo(guard))
    }

    /// Examines a page that is passed over because its file's creator has no commit. If the log
    /// lost its end, together with the commit, a page that is newer than the rest of the log proves
    /// it.
    fn look_at_passed_over(&self, id: PageId) -> Result<()> {
        let is_new =
            self.missing.removals.is_uncommitted(id.file) && self.missing.seen.lock().insert(id);
        if is_new && let Some(lsn) = self.storage.files.lsn_on_disk(id)? {
            self.storage.pool.note_newest(id, lsn);
        }
        Ok(())
    }

    /// Removes the files of a relation, as the record says; the files may be missing already.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn drop_file(&self, file: RelFileId) -> Result<()> {
        self.missing.drop_file(file);
        self.storage.remove_file(file)
    }

    /// Grows a fork to the length that a cut leaves, if the fork did not grow because of that cut.
    /// Does nothing if a later cut takes more.
    fn grow_to_truncation(&self, file: RelFileId, fork: Fork, blocks: u32) -> Result<()> {
        let last = PageId { file, fork, block: BlockNumber(blocks.saturating_sub(1)) };
        if self.missing.removals.is_truncated(last, self.record.lsn)
            || !self.missing.ungrown.lock().remove(&(file, fork))
        {
            return Ok(());
        }
        self.storage.pool().extend_to(file, fork, blocks)
    }

    pub(super) fn damage(&self, detail: String) -> Error {
        Error::Corruption(Box::new(Corruption {
            file: WAL_FOLDER.into(),
            block: None,
            item: None,
            invariant: "format",
            detail: format!("record at {}: {detail}", self.record.start),
        }))
    }

    /// Redoes a record of this crate.
    pub(super) fn storage_record(&self) -> Result<()> {
        let mut body = Cursor(self.record.body);
        let short = || self.damage("its body is too short".into());
        match self.record.kind {
            kind::CHECKPOINT => {
                let _redo = body.u64().ok_or_else(short)?;
                let next_file = body.u64().ok_or_else(short)?;
                self.storage.next_file.fetch_max(next_file, Ordering::Relaxed);
            }
            kind::CREATE_FILE => {
                let file = RelFileId(body.u64().ok_or_else(short)?);
                let next = file.0.checked_add(1).ok_or_else(short)?;
                self.storage.next_file.fetch_max(next, Ordering::Relaxed);
                self.missing.create_file(file);
                let logged = body.u8().ok_or_else(short)? != 0;
                // The file's pages may prove that the log lost its end. The file is removed once
                // the end is certain.
                if self.missing.removals.is_uncommitted(file) {
                    return Ok(());
                }
                // Contents of the file on disk are leftovers, or follow in the log.
                self.storage.remove_file(file)?;
                if !self.missing.removals.has_file(file, self.record.lsn) {
                    self.storage.files.create(file, logged, self.record.xid)?;
                }
            }
            kind::DROP_FILE => {
                self.drop_file(RelFileId(body.u64().ok_or_else(short)?))?;
            }
            kind::TRUNCATE => {
                let cut = decode_truncation(self.record.body);
                let (file, fork, blocks) =
                    cut.ok_or_else(|| self.damage("it names no fork and length".into()))?;
                if self.missing.is_passed_over(file, self.record.lsn) {
                    return Ok(());
                }
                self.missing.forgive(file, |id| id.fork == fork && id.block.0 >= blocks);
                self.grow_to_truncation(file, fork, blocks)?;
                // A file that is already as short is cut again, because the earlier cut may not be
                // on the device.
                if self.storage.pool.blocks(file, fork)? >= blocks {
                    self.storage.truncate_files(file, fork, blocks)?;
                }
                if fork == Fork::Main {
                    self.storage.files.truncate_known(file, blocks)?;
                }
            }
            kind::IMAGES => {
                for index in 0..self.record.pages.len() {
                    self.page(index)?;
                }
            }
            other => return Err(self.damage(format!("unknown kind {other}"))),
        }
        Ok(())
    }
}

/// Returns the file, the fork and the number of blocks that stay, from the body of a
/// [`kind::TRUNCATE`] record.
pub(super) fn decode_truncation(body: &[u8]) -> Option<(RelFileId, Fork, u32)> {
    let mut body = Cursor(body);
    let (file, number) = (RelFileId(body.u64()?), body.u8()?);
    let fork = FORKS.into_iter().find(|fork| *fork as u8 == number)?;
    Some((file, fork, body.u32()?))
}

fn restore(page: &mut PageWrite<'_>, image: DecodedImage<'_>) {
    let offset = usize::from(image.hole_offset);
    let end = offset + usize::from(image.hole_bytes);
    // Decoding has checked that image and hole make up a page.
    debug_assert!(offset <= image.bytes.len(), "the hole begins at {offset}");
    debug_assert_eq!(image.bytes.len() + end - offset, PAGE_SIZE, "image and hole");
    let (before, after) = image.bytes.split_at(offset.min(image.bytes.len()));
    page.0[..offset].copy_from_slice(before);
    page.0[offset..end].fill(0);
    page.0[end..PAGE_SIZE].copy_from_slice(after);
}
