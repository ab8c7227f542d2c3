//! Tests of the bounded number of descriptors: files are closed and opened again, and every write
//! is still synced.

mod support;

use std::sync::{Arc, Mutex};

use niwaki_env::Env;
use niwaki_env::vfs::{
    CrashOptions, DirectoryLock, Fault, FaultKind, FaultyVfs, OpenMode, Operation, Vfs, VfsFile,
};
use niwaki_storage::*;
use support::*;

/// A file system that counts open descriptors. It panics when a relation's file is closed after
/// writes that no sync of that descriptor covers.
#[derive(Debug)]
struct Counting {
    inner: FaultyVfs,
    open: Arc<Mutex<Open>>,
}

#[derive(Debug, Default)]
struct Open {
    now: usize,
    most: usize,
    opened: usize,
}

#[derive(Debug)]
struct Counted {
    inner: Arc<dyn VfsFile>,
    open: Arc<Mutex<Open>>,
    unsynced: Mutex<bool>,
    path: String,
    vfs: FaultyVfs,
}

impl Vfs for Counting {
    fn open(&self, path: &str, mode: OpenMode) -> std::io::Result<Arc<dyn VfsFile>> {
        let inner = self.inner.open(path, mode)?;
        if !path.starts_with("base/") {
            return Ok(inner);
        }
        let mut open = self.open.lock().unwrap();
        open.now += 1;
        open.opened += 1;
        open.most = open.most.max(open.now);
        let counted = Counted {
            inner,
            open: Arc::clone(&self.open),
            unsynced: Mutex::new(false),
            path: path.to_owned(),
            vfs: self.inner.clone(),
        };
        Ok(Arc::new(counted))
    }
    fn remove(&self, path: &str) -> std::io::Result<()> {
        self.inner.remove(path)
    }
    fn rename(&self, from: &str, to: &str) -> std::io::Result<()> {
        self.inner.rename(from, to)
    }
    fn exists(&self, path: &str) -> std::io::Result<bool> {
        self.inner.exists(path)
    }
    fn list(&self, dir: &str) -> std::io::Result<Vec<String>> {
        self.inner.list(dir)
    }
    fn create_dir(&self, dir: &str) -> std::io::Result<()> {
        self.inner.create_dir(dir)
    }
    fn sync_dir(&self, dir: &str) -> std::io::Result<()> {
        self.inner.sync_dir(dir)
    }
    fn lock_shared(&self, path: &str) -> std::io::Result<Box<dyn DirectoryLock>> {
        self.inner.lock_shared(path)
    }

    fn lock_exclusive(&self, path: &str) -> std::io::Result<Box<dyn DirectoryLock>> {
        self.inner.lock_exclusive(path)
    }
}

impl Counted {
    fn wrote<T>(&self, result: T) -> T {
        *self.unsynced.lock().unwrap() = true;
        result
    }
}

impl VfsFile for Counted {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> std::io::Result<usize> {
        self.inner.read_at(buf, offset)
    }
    fn write_at(&self, buf: &[u8], offset: u64) -> std::io::Result<()> {
        self.wrote(self.inner.write_at(buf, offset))
    }
    fn sync_data(&self) -> std::io::Result<()> {
        *self.unsynced.lock().unwrap() = false;
        self.inner.sync_data()
    }
    fn set_len(&self, len: u64) -> std::io::Result<()> {
        self.wrote(self.inner.set_len(len))
    }
    fn len(&self) -> std::io::Result<u64> {
        self.inner.len()
    }
    fn allocate(&self, offset: u64, len: u64) -> std::io::Result<()> {
        self.wrote(self.inner.allocate(offset, len))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.open.lock().unwrap().now -= 1;
        let unsynced = *self.unsynced.lock().unwrap();
        assert!(
            !unsynced || std::thread::panicking() || !self.vfs.exists(&self.path).unwrap_or(false),
            "{} was closed over unsynced writes",
            self.path
        );
    }
}

fn world(limit: usize, frames: usize) -> (FaultyVfs, Arc<Mutex<Open>>, Env, StorageOptions) {
    let vfs = FaultyVfs::new();
    let open = Arc::new(Mutex::new(Open::default()));
    let counting = Counting { inner: vfs.clone(), open: Arc::clone(&open) };
    let env = Env::simulated(Arc::new(counting), 1);
    let options = StorageOptions {
        shared_buffers: frames,
        open_files_max: limit,
        segment_blocks: 1024,
        ..StorageOptions::tiny()
    };
    (vfs, open, env, options)
}

/// Makes a file with one page that holds this number.
fn table(storage: &Arc<Storage>, number: u64) -> Items {
    let items = Items::create(storage);
    items.extend(1).unwrap();
    items.add(0, &item(number)).unwrap().unwrap();
    items
}

#[test]
fn three_thousand_tables_need_no_more_than_64_descriptors() {
    let (vfs, open, env, options) = world(64, 100);
    let (storage, _) = open_with(&env, options.clone()).unwrap();
    let files: Vec<RelFile> = (0..3000).map(|number| table(&storage, number).file).collect();
    let verify = |storage: &Arc<Storage>| {
        for (number, file) in files.iter().enumerate() {
            let numbers = Items::on(storage, *file).numbers().unwrap();
            assert!(numbers.into_iter().eq([number as u64]));
        }
    };
    verify(&storage);
    assert!(storage.write_statistics().synced_to_close > 1000);
    storage.checkpoint(CheckpointKind::Requested, &[]).unwrap();
    verify(&storage);
    for file in files.iter().step_by(2) {
        Items::on(&storage, *file).remove(0, &item(file.id.0 - 16)).unwrap();
        Items::on(&storage, *file).add(0, &item(file.id.0 - 16)).unwrap().unwrap();
    }
    storage.drop_file(table(&storage, 1).file).unwrap();
    assert_eq!(open.lock().unwrap().most, 64);
    // A crash: recovery has the same bound.
    storage.wal().flush(storage.wal().insert_lsn()).unwrap();
    let image = FaultyVfs::from_memory(&vfs.current());
    let after = Arc::new(Mutex::new(Open::default()));
    let counting = Counting { inner: image, open: Arc::clone(&after) };
    let (redone, summary) =
        open_with(&Env::simulated(Arc::new(counting), 2), options.clone()).unwrap();
    assert!(summary.recovered);
    verify(&redone);
    assert_eq!(after.lock().unwrap().most, 64);
    // Only a shutdown closes all files, and it has synced them.
    for storage in [storage, redone] {
        storage.shutdown(&[]).unwrap();
    }
    assert_eq!(open.lock().unwrap().now, 0);
}

#[test]
fn a_file_in_use_often_stays_open() {
    let (_, open, env, options) = world(8, 4);
    let (storage, _) = open_with(&env, options).unwrap();
    let often = table(&storage, 0);
    often.extend(20).unwrap();
    let others: Vec<Items> = (0..30).map(|number| table(&storage, number)).collect();
    storage.checkpoint(CheckpointKind::Requested, &[]).unwrap();
    let before = open.lock().unwrap().opened;
    for (round, other) in others.iter().enumerate() {
        assert_eq!(other.numbers().unwrap().len(), 1);
        for block in 0..6 {
            let block = (round as u32 * 3 + block) % 20;
            storage.pool().pin(often.page_id(block)).unwrap();
        }
    }
    let opened = open.lock().unwrap().opened - before;
    // If files were closed in the order of opening alone, the file in use would be closed after
    // every seven others.
    assert!(opened <= others.len() + 2, "{opened}");
    storage.shutdown(&[]).unwrap();
}

/// The error of a write-back that only this descriptor would see: the process must end, and
/// acknowledged changes must come back from the log.
#[test]
fn a_failed_sync_at_a_close_ends_the_process() {
    for kind in [FaultKind::SyncLosesBytes, FaultKind::SyncFailsAfterWriting] {
        let (vfs, _, env, options) = world(2, 4);
        let (storage, _) = open_with(&env, options).unwrap();
        let items: Vec<Items> = (0..2).map(|number| table(&storage, number)).collect();
        for item in &items {
            item.extend(8).unwrap();
        }
        storage.wal().flush(storage.wal().insert_lsn()).unwrap();
        vfs.inject(Fault {
            kind,
            operation: Operation::SyncData,
            path_contains: "base/".into(),
            after: 0,
            sticky: false,
        });
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            // A third file needs a descriptor.
            table(&storage, 2)
        }));
        let payload = ended.err().expect("the failure was passed over");
        let crashed = payload.downcast::<niwaki_env::Crashed>().expect("an abort");
        assert!(crashed.reason.contains("could not sync base/"), "{}", crashed.reason);
        vfs.crash();
        for image in vfs.crash_images(&CrashOptions::default()) {
            let (storage, _) = open(&env_on(Arc::new(image.vfs)));
            for (number, item) in items.iter().enumerate() {
                let numbers = Items::on(&storage, item.file).numbers().unwrap();
                assert!(numbers.into_iter().eq([number as u64]), "{}", image.survivors);
            }
        }
    }
}

#[test]
fn threads_that_share_few_descriptors_find_their_pages() {
    let (_, open, env, options) = world(3, 8);
    let (storage, _) = open_with(&env, options).unwrap();
    let items: Vec<Items> = (0..12).map(|number| table(&storage, number)).collect();
    std::thread::scope(|scope| {
        for who in 0..4u64 {
            let items = &items;
            scope.spawn(move || {
                for round in 0..200u64 {
                    let one = &items[((round * 5 + who * 3) % 12) as usize];
                    let number = 1000 * (who + 1) + round;
                    one.add(0, &item(number)).unwrap().unwrap();
                    one.remove(0, &item(number)).unwrap();
                }
            });
        }
        for _ in 0..5 {
            storage.checkpoint(CheckpointKind::Requested, &[]).unwrap();
        }
    });
    for (number, item) in items.iter().enumerate() {
        assert!(item.numbers().unwrap().into_iter().eq([number as u64]));
    }
    storage.shutdown(&[]).unwrap();
    // Each thread may be about to use one descriptor of its own.
    assert!(open.lock().unwrap().most <= 3 + 5);
}
