//! Opening of a data directory: creation, or repeating the log since the last checkpoint.
//!
//! Redo is idempotent: a page whose LSN is not before the record's has the change already (W3). So
//! recovery may be killed at any point and begin again.
//!
//! A record may name a page that does not exist. Such a page is noted as *missing*: a later record
//! must drop or cut the file, or the directory is damaged. A record that names a file behind the
//! record that drops it is passed over (W4). The current version logs no such record, but older
//! versions did, beside DROP INDEX CONCURRENTLY. If the drop is before the redo position, the table
//! of files does not have the file, and no record has created it since. Numbers of files are never
//! given twice.
//!
//! A record in front of the drop of its file is passed over too. So is every record of a file whose
//! creator has no commit in the log ([`Foresight`]). Such a file is never read, and there may be no
//! room on disk for it. The file is removed only once the end of the log is certain, so its pages
//! are examined all the same. A file also does not grow by pages that a later record cuts off.
//!
//! Bytes that recovery reads may be only in the system's memory. After a failed sync the system
//! takes such bytes for clean, and a later sync succeeds without them. So recovery writes again
//! everything it relies on. These are the control file's slot, the end of the log, every page that
//! a record names, and the lengths of files. Only then do its syncs prove anything. Names of files
//! are as uncertain, so all folders are synced before recovery relies on any name in them.

use std::sync::Arc;
use std::time::Duration;

use niwaki_env::Env;
use niwaki_env::hash::{HashMap, HashSet};
use niwaki_env::seeded_bug;
use niwaki_env::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use niwaki_env::sync::{Mutex, RwLock};
use niwaki_env::vfs::DirectoryLock;

use super::foresight::{Ends, Foresight};
use super::manager::ResourceManager;
use crate::buffer::guard::PageWrite;
use crate::buffer::pool::BufferPool;
use crate::directory::checkpoint::{CheckpointKind, Pace};
use crate::directory::counters::CheckpointCounters;
use crate::directory::failures::Failures;
use crate::directory::storage::{Storage, StorageOptions, kind};
use crate::disk::control::{CONTROL, Control, ControlFile, NEW_CONTROL};
use crate::disk::cursor::Cursor;
use crate::disk::file_table::{self, TABLES, TablePlace};
use crate::disk::files::Files;
use crate::disk::known_files::ASIDE;
use crate::error::{Corruption, Error, Result};
use crate::ids::{
    BASE, BlockNumber, FIRST_FILE, FORKS, Fork, Lsn, PageId, RelFileId, fork_file_name,
};
use crate::page::PAGE_SIZE;
use crate::stream::method::MethodInUse;
use crate::wal::encode::{Header, decode};
use crate::wal::insert::{Wal, WalStart};
use crate::wal::read::{LogEnd, WalReader};
use crate::wal::record::{DecodedImage, DecodedRecord, Manager};
use crate::wal::segment::{Segments, WAL_FOLDER};

const LOCK: &str = "lock";

/// The result of opening a data directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecoverySummary {
    /// The directory was new.
    pub created: bool,
    /// The directory was not shut down cleanly: unlogged relations must be emptied.
    pub recovered: bool,
    /// Position where redo began.
    pub redo: Lsn,
    /// Position where the log ended.
    pub end: Lsn,
    /// Records replayed.
    pub records: u64,
    /// The reason why the log was not read farther.
    pub stopped: LogEnd,
    /// Duration of recovery, including the checkpoint at its end.
    pub took: Duration,
}

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
    storage: &'r Storage,
    record: &'r DecodedRecord<'r>,
    missing: &'r Missing<'r>,
}

impl std::fmt::Debug for Redo<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redo").field("record", &self.record.start).finish_non_exhaustive()
    }
}

/// Pages and files that records named and that do not exist.
struct Missing<'s> {
    /// Holds the files that should exist; `None` where the last checkpoint wrote no table of them.
    files: Option<&'s Files>,
    /// Missing pages, with the first record that names each.
    pages: Mutex<HashMap<PageId, Lsn>>,
    /// Files that the log has dropped so far.
    dropped: Mutex<HashSet<RelFileId>>,
    /// Files and pages that disappear later: changes to them are never read.
    ends: Ends,
    /// Forks that did not grow by pages that a later record cuts off.
    ungrown: Mutex<HashSet<(RelFileId, Fork)>>,
    /// Pages that were examined although their files disappear.
    seen: Mutex<HashSet<PageId>>,
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
        self.ends.has_file(file, at)
            || self.dropped.lock().contains(&file)
            || self.files.is_some_and(|files| !is_there(files))
    }

    fn check(&self) -> Result<()> {
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
            if grows && self.missing.ends.cut_off(id, self.record.lsn) {
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
        let is_new = self.missing.ends.is_in_vain(id.file) && self.missing.seen.lock().insert(id);
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
    fn grow_to_cut(&self, file: RelFileId, fork: Fork, blocks: u32) -> Result<()> {
        let last = PageId { file, fork, block: BlockNumber(blocks.saturating_sub(1)) };
        if self.missing.ends.cut_off(last, self.record.lsn)
            || !self.missing.ungrown.lock().remove(&(file, fork))
        {
            return Ok(());
        }
        self.storage.pool().extend_to(file, fork, blocks)
    }

    fn damage(&self, detail: String) -> Error {
        Error::Corruption(Box::new(Corruption {
            file: WAL_FOLDER.into(),
            block: None,
            item: None,
            invariant: "format",
            detail: format!("record at {}: {detail}", self.record.start),
        }))
    }

    /// Redoes a record of this crate.
    fn storage_record(&self) -> Result<()> {
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
                if self.missing.ends.is_in_vain(file) {
                    return Ok(());
                }
                // Contents of the file on disk are leftovers, or follow in the log.
                self.storage.remove_file(file)?;
                if !self.missing.ends.has_file(file, self.record.lsn) {
                    self.storage.files.create(file, logged, self.record.xid)?;
                }
            }
            kind::DROP_FILE => {
                self.drop_file(RelFileId(body.u64().ok_or_else(short)?))?;
            }
            kind::TRUNCATE => {
                let cut = cut_of(self.record.body);
                let (file, fork, blocks) =
                    cut.ok_or_else(|| self.damage("it names no fork and length".into()))?;
                if self.missing.is_passed_over(file, self.record.lsn) {
                    return Ok(());
                }
                self.missing.forgive(file, |id| id.fork == fork && id.block.0 >= blocks);
                self.grow_to_cut(file, fork, blocks)?;
                // A file that is already as short is cut again, because the earlier cut may not be
                // on the device.
                if self.storage.pool.blocks(file, fork)? >= blocks {
                    self.storage.cut_fork(file, fork, blocks)?;
                }
                if fork == Fork::Main {
                    self.storage.files.cut_known(file, blocks)?;
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

/// Passes a record's facts about files, and about the transactions that create them, to
/// `foresight`.
fn foresee(
    bytes: &[u8],
    at: Lsn,
    managers: &[Arc<dyn ResourceManager>],
    foresight: &mut Foresight,
) -> Result<()> {
    // Most records change a page, and hold no facts about files.
    if Header::get(bytes).is_none_or(|header| header.pages > 0) {
        return Ok(());
    }
    let record = decode(bytes, at)?;
    if record.manager != Manager::Storage {
        let mut managers = managers.iter().filter(|m| m.manager() == record.manager);
        return managers.try_for_each(|manager| manager.foresee(&record, foresight));
    }
    // Redo refuses a body that is too short.
    match (record.kind, Cursor(record.body).u64().map(RelFileId)) {
        (kind::CREATE_FILE, Some(file)) => foresight.created(file, record.xid),
        (kind::DROP_FILE, Some(file)) => foresight.dropped(file, record.lsn),
        (kind::TRUNCATE, _) => {
            if let Some((file, fork, blocks)) = cut_of(record.body) {
                foresight.cut(file, fork, blocks, record.lsn);
            }
        }
        _ => {}
    }
    Ok(())
}

/// Returns the file, the fork and the number of blocks that stay, from the body of a
/// [`kind::TRUNCATE`] record.
fn cut_of(body: &[u8]) -> Option<(RelFileId, Fork, u32)> {
    let mut body = Cursor(body);
    let (file, number) = (RelFileId(body.u64()?), body.u8()?);
    let fork = FORKS.into_iter().find(|fork| *fork as u8 == number)?;
    Some((file, fork, body.u32()?))
}

fn restore(page: &mut PageWrite<'_>, image: DecodedImage<'_>) {
    let offset = usize::from(image.hole_offset);
    let end = offset + usize::from(image.hole_bytes);
    // Decoding has checked that image and hole make up a page.
    let (before, after) = image.bytes.split_at(offset.min(image.bytes.len()));
    page.0[..offset].copy_from_slice(before);
    page.0[offset..end].fill(0);
    page.0[end..PAGE_SIZE].copy_from_slice(after);
}

impl std::fmt::Display for RecoverySummary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { redo, end, records, stopped, took, .. } = self;
        write!(
            f,
            "recovery from log position {redo} to {end}: {records} records in {} ms; {stopped}",
            took.as_millis()
        )
    }
}

impl Storage {
    /// Returns whether a data directory exists, even a damaged one.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn is_in(env: &Env) -> Result<bool> {
        let exists = |name: &str| {
            env.vfs.exists(name).map_err(|e| Error::io(format!("could not look for {name}"), e))
        };
        Ok(exists(CONTROL)? || exists(BASE)?)
    }

    /// Opens the data directory. Creates it when there is none, takes its lock, and repeats the log
    /// since the last checkpoint if the directory was not shut down cleanly.
    ///
    /// # Errors
    /// [`Error::Refused`] when another process has the directory open, when it has another format
    /// version, or when the folder holds something else. [`Error::Corruption`] when files or log
    /// are damaged; [`Error::Io`], [`Error::DiskFull`].
    pub fn open(
        env: Env,
        options: StorageOptions,
        managers: Vec<Arc<dyn ResourceManager>>,
    ) -> Result<(Arc<Self>, RecoverySummary)> {
        claim_directory(&env)?;
        for dir in [BASE, WAL_FOLDER] {
            env.vfs
                .create_dir(dir)
                .map_err(|e| Error::io(format!("could not create the folder {dir}"), e))?;
        }
        let lock = take_lock(&env)?;
        sync_folders(&env)?;
        let found = ControlFile::open(&env)?;
        let created = found.is_none();
        let control = match found {
            Some(control) => control,
            None => create(&env, &options)?,
        };
        let current = control.current;
        let segments =
            Segments::new(env.clone(), current.system, current.timeline, current.wal_segment_bytes);
        let wal = Wal::new(env.clone(), segments, options.wal_buffers, options.full_page_writes);
        let known = file_table::read(&env, current.files)?.unwrap_or_default();
        let files = Arc::new(Files::new(
            env.clone(),
            current.segment_blocks,
            !current.clean,
            options.open_files_max,
            known,
            wal.segments.gate.clone(),
        ));
        let (io_method, ring) = MethodInUse::choose(options.io_method, &env);
        let pool = BufferPool::new(
            options.shared_buffers,
            Arc::clone(&files),
            Arc::clone(&wal),
            options.checksums,
            ring,
        );
        let storage = Arc::new(Self {
            env,
            options,
            files,
            pool,
            wal,
            control: Mutex::new(control),
            next_file: AtomicU64::new(current.next_file),
            was_killed: !created && !current.clean,
            file_changes: RwLock::new(()),
            checkpointing: Mutex::new(()),
            hurry: AtomicU32::new(0),
            checkpoint_counters: CheckpointCounters::default(),
            background: niwaki_env::sync::Signal::default(),
            dropped: Mutex::default(),
            failures: Failures::default(),
            io_method,
            when_lost: Mutex::default(),
            lock: Mutex::new(Some(lock)),
        });
        let summary = storage.recover(created, &managers).map_err(say_what_to_do)?;
        Ok((storage, summary))
    }

    fn recover(
        &self,
        created: bool,
        managers: &[Arc<dyn ResourceManager>],
    ) -> Result<RecoverySummary> {
        let began = self.env.clock.monotonic();
        let control = self.control();
        if !created {
            self.control.lock().write_again()?;
        }
        // Before anything is changed: find the end of the log, and check for damage there.
        let mut survey = WalReader::new(&self.wal.segments, control.redo);
        let known = self.known_files().into_iter().map(|(file, creator)| (file.id, creator));
        let mut foresight = Foresight::new(known);
        let found = survey.survey(control.checkpoint, &mut |bytes, at| {
            foresee(bytes, at, managers, &mut foresight)
        })?;
        let commits_are_read = managers.iter().any(|m| m.manager() == Manager::Transaction);
        let ends = foresight.ends(commits_are_read);
        if !created {
            survey.check_end(control.checkpoint)?;
        }
        // The log must reach the device before pages do.
        self.wal.segments.write_again(found.durable, found.end)?;
        let mut reader = WalReader::new(&self.wal.segments, control.redo);
        let files = (control.files.number != 0).then_some(&*self.files);
        let missing = Missing {
            files,
            pages: Mutex::default(),
            dropped: Mutex::default(),
            ends,
            ungrown: Mutex::default(),
            seen: Mutex::default(),
        };
        let mut records = 0;
        // Ends: with the log.
        while let Some((bytes, at)) = reader.next()? {
            let record = decode(bytes, at)?;
            self.replay(&record, managers, &missing)?;
            records += 1;
        }
        self.files.end_redo(control.clean, control.files.number == 0)?;
        missing.check()?;
        let end = reader.end();
        self.check_newest_page(end.end)?;
        if !control.clean {
            self.files.write_lengths_again()?;
        }
        let clean = control.clean && end.end == control.checkpoint;
        if clean {
            self.wal.segments.resume(end.end)?;
        } else {
            self.wal.segments.cut(end.end)?;
        }
        // Only once the end of the log is certain: a lost end may have held the commit.
        missing.ends.in_vain().try_for_each(|file| self.remove_file(file))?;
        self.wal.start_at(&WalStart { end: end.end, previous: end.previous, redo: control.redo });
        self.wal.recovery_writes(end.end.0)?;
        if control.clean {
            let mut file = self.control.lock();
            let in_use = Control { clean: false, ..file.current };
            file.replace(in_use)?;
        }
        let recovered = !created && !clean;
        let finish = || managers.iter().try_for_each(|m| m.finish_recovery(self, clean));
        if recovered || created {
            self.checkpoint_with(CheckpointKind::EndOfRecovery, &mut Pace::full(), |_| finish())?;
        } else {
            finish()?;
        }
        self.wal.recovery_wrote();
        let took = self.env.clock.monotonic().saturating_sub(began);
        let (redo, end, stopped) = (control.redo, end.end, found.stopped);
        Ok(RecoverySummary { created, recovered, redo, end, records, stopped, took })
    }

    /// Checks that no page on disk is newer than the durable log (W1). A newer page proves that the
    /// log lost its end. Without this check, damage in the very last record would look like a torn
    /// tail.
    fn check_newest_page(&self, end: Lsn) -> Result<()> {
        let Some((id, lsn)) = self.pool.newest_read() else { return Ok(()) };
        if lsn <= end {
            return Ok(());
        }
        Err(Error::Corruption(Box::new(Corruption {
            file: WAL_FOLDER.into(),
            block: None,
            item: None,
            invariant: "W1",
            detail: format!(
                "no sound record at log position {end}, but {id} has a change from before {lsn}: this \
                 is damage, not the end of the log"
            ),
        })))
    }

    fn replay(
        &self,
        record: &DecodedRecord<'_>,
        managers: &[Arc<dyn ResourceManager>],
        missing: &Missing<'_>,
    ) -> Result<()> {
        let redo = Redo { storage: self, record, missing };
        if record.manager == Manager::Storage {
            return redo.storage_record();
        }
        match managers.iter().find(|manager| manager.manager() == record.manager) {
            Some(manager) => manager.redo(record, &redo),
            None => Err(redo.damage(format!("nobody redoes records of {:?}", record.manager))),
        }
    }
}

/// Adds to a full-disk error that the directory stays closed for a while and loses nothing.
fn say_what_to_do(error: Error) -> Error {
    let Error::DiskFull { action } = error else { return error };
    let hint = "the directory opens when there is room on disk again, and nothing of it is lost";
    Error::DiskFull { action: format!("{hint}: {action}") }
}

/// Returns whether a name in the root folder belongs to this program. An interrupted creation
/// leaves some of these names, and a directory that lost its control file has others.
fn is_ours(name: &str) -> bool {
    [BASE, WAL_FOLDER, LOCK, NEW_CONTROL, TABLES[0], TABLES[1], ASIDE, "tmp"].contains(&name)
}

/// Makes the root folder, or checks that it belongs to this program, and to its user alone.
fn claim_directory(env: &Env) -> Result<()> {
    let failed = |e| Error::io("could not create the data directory", e);
    env.vfs.create_dir("").map_err(failed)?;
    let names = env.vfs.list_root().map_err(failed)?;
    if !names.iter().any(|name| name == CONTROL)
        && let Some(foreign) = names.iter().find(|name| !is_ours(name))
    {
        return Err(Error::Refused(format!(
            "the directory is not empty: it holds \"{foreign}\", and no file \"{CONTROL}\", so it is \
             no data directory; name an empty or a new one"
        )));
    }
    env.vfs.keep_private(names.is_empty()).map_err(|e| match e.kind() {
        std::io::ErrorKind::PermissionDenied => Error::Refused(e.to_string()),
        _ => failed(e),
    })
}

fn take_lock(env: &Env) -> Result<Box<dyn DirectoryLock>> {
    env.vfs.lock_exclusive(LOCK).map_err(|e| match e.kind() {
        // The error's text names the directory and the process that uses it.
        std::io::ErrorKind::WouldBlock => Error::Refused(e.to_string()),
        _ => Error::io("could not lock the data directory", e),
    })
}

/// Makes existing names durable: the previous process may have ended because a sync of their folder
/// failed. Commits in a segment of the log are lost with its name.
fn sync_folders(env: &Env) -> Result<()> {
    let failed = |e| Error::io("could not sync the folders of the data directory", e);
    let aside = env.vfs.exists(ASIDE).map_err(failed)?.then_some(ASIDE);
    let mut folders = ["", BASE, WAL_FOLDER].into_iter().chain(aside);
    folders.try_for_each(|folder| env.vfs.sync_dir(folder).map_err(failed))
}

/// Makes a new data directory. The directory counts as existing once the control file exists.
fn create(env: &Env, options: &StorageOptions) -> Result<ControlFile> {
    let listed = |dir: &str| {
        env.vfs.list(dir).map_err(|e| Error::io(format!("could not list the folder {dir}"), e))
    };
    if let Some(name) = listed(BASE)?.first() {
        return Err(Error::Refused(format!(
            "the data directory has no file {CONTROL}, but holds {BASE}/{name}: it is damaged, or \
             not a data directory of this program"
        )));
    }
    // An interrupted creation leaves segments without records.
    for name in listed(WAL_FOLDER)? {
        env.vfs
            .remove(&format!("{WAL_FOLDER}/{name}"))
            .map_err(|e| Error::io(format!("could not remove {WAL_FOLDER}/{name}"), e))?;
    }
    ControlFile::create(
        env,
        Control {
            sequence: 1,
            system: env.rng.next_u64(),
            timeline: 1,
            clean: false,
            redo: Lsn(0),
            checkpoint: Lsn(0),
            next_file: FIRST_FILE.0,
            wal_segment_bytes: options.wal_segment_bytes.max(16 << 10) & !4095,
            segment_blocks: options.segment_blocks.max(1),
            files: TablePlace::default(),
            filled: false,
            time_us: env.clock.now_unix_us(),
        },
    )
}
