//! Opening of a data directory: creation, or repeating the log since the last checkpoint.
//!
//! Redo is idempotent: a page whose LSN is not before the record's has the change already (W3). So
//! recovery may be killed at any point and begin again.
//!
//! Bytes that recovery reads may be only in the system's memory. After a failed sync the system
//! takes such bytes for clean, and a later sync succeeds without them. So recovery writes again
//! everything it relies on. These are the control file's slot, the end of the log, every page that
//! a record names, and the lengths of files. Only then do its syncs prove anything. Names of files
//! are as uncertain, so all folders are synced before recovery relies on any name in them.

use std::sync::Arc;
use std::time::Duration;

use niwaki_env::Env;
use niwaki_env::sync::atomic::{AtomicU32, AtomicU64};
use niwaki_env::sync::{Mutex, RwLock};
use niwaki_env::vfs::DirectoryLock;

use super::analysis::LogAnalysis;
use super::manager::ResourceManager;
use super::redo::{Missing, Redo, decode_truncation};
use crate::buffer::pool::BufferPool;
use crate::directory::checkpoint::{CheckpointKind, Pace};
use crate::directory::counters::CheckpointCounters;
use crate::directory::failures::Failures;
use crate::directory::storage::{Storage, StorageOptions, kind};
use crate::disk::control::{CONTROL, Control, ControlFile, NEW_CONTROL};
use crate::disk::cursor::Cursor;
use crate::disk::file_table::{self, TABLES, TablePlace};
use crate::disk::files::Files;
use crate::disk::inventory::ASIDE;
use crate::error::{Corruption, Error, Result};
use crate::ids::{BASE, FIRST_FILE, Lsn, RelFileId};
use crate::stream::method::MethodInUse;
use crate::wal::encode::{Header, decode};
use crate::wal::insert::{Wal, WalStart};
use crate::wal::read::{LogEnd, WalReader};
use crate::wal::record::{DecodedRecord, Manager};
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

/// Passes a record's facts about files, and about the transactions that create them, to
/// `analysis`.
fn analyze(
    bytes: &[u8],
    at: Lsn,
    managers: &[Arc<dyn ResourceManager>],
    analysis: &mut LogAnalysis,
) -> Result<()> {
    // Most records change a page, and hold no facts about files.
    if Header::get(bytes).is_none_or(|header| header.pages > 0) {
        return Ok(());
    }
    let record = decode(bytes, at)?;
    if record.manager != Manager::Storage {
        let mut managers = managers.iter().filter(|m| m.manager() == record.manager);
        return managers.try_for_each(|manager| manager.analyze(&record, analysis));
    }
    // Redo refuses a body that is too short.
    match (record.kind, Cursor(record.body).u64().map(RelFileId)) {
        (kind::CREATE_FILE, Some(file)) => analysis.created(file, record.xid),
        (kind::DROP_FILE, Some(file)) => analysis.dropped(file, record.lsn),
        (kind::TRUNCATE, _) => {
            if let Some((file, fork, blocks)) = decode_truncation(record.body) {
                analysis.truncated(file, fork, blocks, record.lsn);
            }
        }
        _ => {}
    }
    Ok(())
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
        let mut analysis = LogAnalysis::new(known);
        let found = survey.survey(control.checkpoint, &mut |bytes, at| {
            analyze(bytes, at, managers, &mut analysis)
        })?;
        let commits_are_read = managers.iter().any(|m| m.manager() == Manager::Transaction);
        let removals = analysis.removals(commits_are_read);
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
            removals,
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
        debug_assert!(!created || records == 0, "a new directory has {records} records");
        debug_assert_eq!(
            records == 0,
            end.end == control.redo,
            "{records} records end at {}",
            end.end
        );
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
        missing.removals.uncommitted().try_for_each(|file| self.remove_file(file))?;
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
            // A shutdown keeps the log files before its checkpoint. A directory that is closed soon
            // sees no other checkpoint.
            self.recycle_wal(control.redo, control.redo)?;
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
