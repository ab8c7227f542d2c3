//! The lock of a data directory, and the end of all writing when the lock is lost.

use niwaki_env::seeded_bug;

use super::storage::Storage;
use crate::disk::gate::WriteGate;
use crate::error::{Error, Result};

const LOST: &str = "the lock file of the data directory was removed or changed, so another process may \
                    use the directory: nothing is written any more";

impl Storage {
    /// Returns the gate to ask before any write in the directory, also of a temporary file.
    pub fn write_gate(&self) -> &WriteGate {
        &self.wal.segments.gate
    }

    /// Registers `tell`, which is called once, with the reason, when writing ends. Writing ends
    /// when the lock of the directory is lost, or when a write fails that only the next start
    /// repairs.
    ///
    /// Changes and checkpoints fail from then on, and pages stay in memory. A server ends its
    /// process.
    pub fn when_lost(&self, tell: impl Fn(&str) + Send + Sync + 'static) {
        *self.when_lost.lock() = Some(Box::new(tell));
    }

    /// Checks that this process still holds the directory's lock, and that writing has not ended.
    /// The checkpointer checks once a second. Each checkpoint checks before it begins and before it
    /// counts.
    ///
    /// # Errors
    /// The reason why writing has ended: [`Error::Refused`] when the lock is lost.
    pub fn check_lock(&self) -> Result<()> {
        let lock = self.lock.lock();
        // A shutdown has given the lock back. A lock file that cannot be read now is checked later.
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
    use std::sync::Arc;

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
        /// Makes a world in which all frames hold changed pages, and the log's buffer their
        /// records.
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

        /// Changes a page and logs `times` images of it; `behind` runs after the first image.
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

    /// Regression test: after the lock was lost, an embedding program still wrote evicted pages and
    /// the log's buffer. These writes went into the files of the next process.
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
        // Earlier contents stay readable.
        assert_eq!(storage.pool().pin(world.page(1)).unwrap().read().kind(), PageKind::Visibility);
    }

    /// Regression test: a handle of a directory after its shutdown still extended, truncated and
    /// dropped files. These files may have belonged to the next process.
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

    /// A change that has begun finishes: its records stay in memory, even if they are more than the
    /// log's buffer takes.
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
