//! When nothing in the directory is written any more: no log, no page, no file of its own.
//!
//! The lock of the directory may be lost: somebody removes the lock file, or the whole directory.
//! Then another process may get in. Or something could not be written that memory cannot take back,
//! and that recovery mends: then what is on disk stays as it is until the directory is opened
//! again. Or the directory was shut down, and who keeps a handle of it shares it with its next
//! user.

use std::sync::{Arc, OnceLock};

use niwaki_env::seeded_bug;

use crate::error::{Error, Result};
use crate::storage::Storage;

const LOST: &str = "the lock file of the data directory was removed or changed, so another process may \
                    use the directory: nothing is written any more";

/// Whether this process may write the directory. All that write share one; it closes once, for
/// good.
///
/// A write that passed it may be under way when it closes, as one may be when the lock goes; none
/// begins behind it. What is in memory stays readable.
#[derive(Clone, Debug, Default)]
pub struct WriteGate {
    /// Why it is closed.
    closed: Arc<OnceLock<Error>>,
}

impl WriteGate {
    /// Whether nothing is written any more.
    #[inline]
    pub fn is_closed(&self) -> bool {
        self.closed.get().is_some()
    }

    /// Ends all writing; whoever wants to write is told why. The first reason stays.
    pub(crate) fn close(&self, why: Error) {
        let _ = self.closed.set(why);
    }

    /// Ends all writing because the database is closed.
    ///
    /// # Errors
    /// Why nothing was written any more before.
    pub(crate) fn seal(&self) -> Result<()> {
        match self.closed.set(Error::Refused("the database is closed".to_owned())) {
            Ok(()) => Ok(()),
            Err(_) => self.pass(),
        }
    }

    /// To be called before something is written.
    ///
    /// # Errors
    /// Why nothing is written any more.
    #[inline]
    pub fn pass(&self) -> Result<()> {
        self.closed.get().map_or(Ok(()), |why| Err(why.clone()))
    }
}

impl Storage {
    /// What to ask before anything in the directory is written, a temporary file too.
    pub fn write_gate(&self) -> &WriteGate {
        &self.wal.segments.gate
    }

    /// `tell` hears once, and why, when nothing is written any more: the lock of the directory is
    /// lost, or a write failed that only the next start mends. Changes and checkpoints fail from
    /// then on, and pages stay in memory. A server ends its process.
    pub fn when_lost(&self, tell: impl Fn(&str) + Send + Sync + 'static) {
        *self.when_lost.lock() = Some(Box::new(tell));
    }

    /// Looks whether the directory's lock is still this process's, and anything is written at all;
    /// the checkpointer does so each second, and each checkpoint before it begins and before it
    /// counts.
    ///
    /// # Errors
    /// Why nothing is written any more: [`Error::Refused`] when the lock is lost.
    pub fn check_lock(&self) -> Result<()> {
        let lock = self.lock.lock();
        // A shutdown has given it back; and what cannot be looked at now is looked at later.
        let held = lock.as_ref().is_none_or(|lock| lock.is_held().unwrap_or(true));
        drop(lock);
        let gate = &self.wal.segments.gate;
        if !held && !seeded_bug!("lost_lock_is_ignored") {
            gate.close(Error::Refused(LOST.into()));
        }
        let open = gate.pass();
        if let Err(why) = &open
            && let Some(tell) = self.when_lost.lock().take()
        {
            tell(&why.to_string());
        }
        open
    }
}

#[cfg(all(test, not(any(feature = "shuttle", feature = "loom"))))]
mod tests {
    use niwaki_env::Env;
    use niwaki_env::vfs::FaultyVfs;

    use super::*;
    use crate::{
        BackgroundWriter, BlockNumber, CheckpointKind, Fork, LoggedPage, Lsn, PageId, PageKind,
        RelFile, StorageOptions, Xid,
    };

    const FRAMES: u32 = 4;

    struct World {
        vfs: FaultyVfs,
        storage: Arc<Storage>,
        file: RelFile,
    }

    impl World {
        /// All frames hold changed pages, and the log's buffer their records.
        fn new() -> Self {
            let vfs = FaultyVfs::new();
            let env = Env::simulated(Arc::new(vfs.clone()), 1);
            let options =
                StorageOptions { shared_buffers: FRAMES as usize, ..StorageOptions::tiny() };
            let (storage, _) = Storage::open(env, options, vec![]).unwrap();
            let file = RelFile { id: storage.allocate_file(), logged: true };
            storage.create_file(file, Xid(3)).unwrap();
            storage.pool().extend(file, Fork::Main, 2 * FRAMES).unwrap();
            let world = Self { vfs, storage, file };
            (0..FRAMES).for_each(|block| _ = world.change(block, 1).unwrap());
            world
        }

        fn page(&self, block: u32) -> PageId {
            PageId { file: self.file.id, fork: Fork::Main, block: BlockNumber(block) }
        }

        /// Changes a page and logs `times` images of it; the gate closes behind the first.
        fn change_and(&self, block: u32, times: u32, behind: impl FnOnce()) -> Result<Lsn> {
            let pin = self.storage.pool().pin(self.page(block))?;
            let mut page = pin.write();
            let _section = self.storage.begin_change()?;
            page.init(PageKind::Visibility, 0);
            let mut log = || self.storage.log_images(Xid(3), &mut [LoggedPage::image(&mut page)]);
            let mut last = log()?;
            behind();
            for _ in 1..times {
                last = log()?;
            }
            Ok(last)
        }

        fn change(&self, block: u32, times: u32) -> Result<Lsn> {
            self.change_and(block, times, || ())
        }
    }

    fn is_refused<T>(result: Result<T>) -> bool {
        matches!(result, Err(Error::Refused(why)) if why.contains("lock file"))
    }

    /// An embedding program that goes on after its lock is lost wrote pages to make room for
    /// others, and the log's buffer, into the files of the next process.
    #[test]
    fn nothing_is_written_behind_a_lost_lock() {
        let world = World::new();
        let (storage, file) = (&world.storage, world.file);
        let other = RelFile { id: storage.allocate_file(), logged: true };
        storage.wal.segments.gate.close(Error::Refused(LOST.into()));
        let before = world.vfs.changes();
        let end = storage.wal().insert_lsn();
        assert!(storage.wal().flushed() < end);
        assert!(is_refused(storage.wal().flush(end)), "flush");
        assert!(is_refused(storage.pool().pin(world.page(FRAMES)).map(drop)), "eviction");
        assert!(is_refused(storage.pool().extend(file, Fork::Main, 1)), "growth");
        assert!(is_refused(storage.checkpoint(CheckpointKind::Requested, &[])), "checkpoint");
        assert!(is_refused(storage.shutdown(&[])), "shutdown");
        let mut writer = BackgroundWriter::default();
        assert!(is_refused(storage.background_write(&mut writer)), "background writer");
        assert!(is_refused(storage.create_file(other, Xid(3))), "create");
        assert!(is_refused(storage.truncate_fork(file, Fork::Main, 1)), "truncate");
        let unlogged = RelFile { logged: false, ..file };
        assert!(is_refused(storage.truncate_fork(unlogged, Fork::Main, 1)), "truncate, unlogged");
        assert!(is_refused(storage.drop_file(file)), "drop");
        assert!(is_refused(world.change(0, 1)), "change");
        assert_eq!(world.vfs.changes(), before, "something was written");
        // What was there can be read.
        assert_eq!(storage.pool().pin(world.page(1)).unwrap().read().kind(), PageKind::Visibility);
    }

    /// A handle of a directory that was shut down still let files grow, shrink and go, which may
    /// have been the next process's.
    #[test]
    fn nothing_is_written_behind_a_shutdown() {
        let world = World::new();
        let (storage, file) = (&world.storage, world.file);
        storage.when_lost(|why| panic!("{why}"));
        storage.shutdown(&[]).unwrap();
        let before = world.vfs.changes();
        let closed = |result: Result<()>| {
            assert_eq!(result.unwrap_err().to_string(), "the database is closed");
        };
        closed(storage.pool().extend(file, Fork::Main, 1).map(drop));
        closed(storage.truncate_fork(RelFile { logged: false, ..file }, Fork::Main, 1));
        closed(storage.reset_unlogged(file.id));
        closed(storage.drop_file(file));
        closed(world.change(0, 1).map(drop));
        closed(storage.checkpoint(CheckpointKind::Requested, &[]).map(drop));
        closed(storage.write_gate().pass());
        assert_eq!(world.vfs.changes(), before, "something was written");
    }

    /// A change that had begun ends: its records stay in memory, be they more than the buffer
    /// takes.
    #[test]
    fn a_change_under_way_ends_in_memory() {
        let world = World::new();
        let storage = &world.storage;
        storage.wal().flush(storage.wal().insert_lsn()).unwrap();
        let before = world.vfs.changes();
        let last = world
            .change_and(0, 100, || storage.wal.segments.gate.close(Error::Refused(LOST.into())))
            .unwrap();
        assert!(is_refused(storage.wal().flush(last)));
        assert_eq!(world.vfs.changes(), before);
    }
}
