//! `niwaki check` writes nothing. It once recovered the directory that it had to check. It wrote
//! and removed files, made evidence of damage worse, and did not run on a read-only file system.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use niwaki::{Database, Options};
use niwaki_env::Env;
use niwaki_env::vfs::{DirectoryLock, MemoryVfs, OpenMode, Vfs, VfsFile};

/// Files that may only be read. Any call that would change one ends the test.
#[derive(Debug)]
struct ReadOnly(MemoryVfs);

impl Vfs for ReadOnly {
    fn open(&self, path: &str, mode: OpenMode) -> io::Result<Arc<dyn VfsFile>> {
        assert_eq!(mode, OpenMode::ReadOnly, "{path} is opened to be written");
        self.0.open(path, mode)
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        panic!("{path} is removed")
    }

    fn rename(&self, from: &str, _to: &str) -> io::Result<()> {
        panic!("{from} is renamed")
    }

    fn exists(&self, path: &str) -> io::Result<bool> {
        self.0.exists(path)
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        self.0.list(dir)
    }

    fn create_dir(&self, dir: &str) -> io::Result<()> {
        panic!("{dir} is created")
    }

    fn sync_dir(&self, dir: &str) -> io::Result<()> {
        panic!("{dir} is synced")
    }

    fn lock_exclusive(&self, path: &str) -> io::Result<Box<dyn DirectoryLock>> {
        panic!("{path} is locked against readers")
    }

    fn lock_shared(&self, path: &str) -> io::Result<Box<dyn DirectoryLock>> {
        self.0.lock_shared(path)
    }
}

fn options() -> Options {
    Options::new().small_files(true)
}

/// Commits before and after a checkpoint, leaves a transaction open, and creates an unlogged
/// relation.
fn fill(database: &Database) {
    let mut session = database.session();
    for sql in [
        "create table t (id int primary key, b text)",
        "insert into t select g, repeat('x', 200) from generate_series(1, 500) g",
        "create unlogged table u as select * from t",
    ] {
        session.execute(sql, ()).unwrap();
    }
    database.checkpoint().unwrap();
    for sql in ["delete from t where id > 250", "vacuum t", "create table other (i int)"] {
        session.execute(sql, ()).unwrap();
    }
}

#[test]
fn a_check_changes_nothing_of_a_directory() {
    for killed in [true, false] {
        let vfs = Arc::new(MemoryVfs::new());
        let env = Env { vfs: Arc::clone(&vfs) as _, ..Env::memory() };
        let database = Database::open_with(env, options()).unwrap();
        fill(&database);
        let mut open = database.session();
        if killed {
            open.execute("begin", ()).unwrap();
            open.execute("create table half as select * from t", ()).unwrap();
            database.session().execute("insert into other values (1)", ()).unwrap();
        } else {
            drop(open);
            database.close().unwrap();
        }
        let image = vfs.fork();
        let before = image.dump();
        let look = || {
            let env = Env { vfs: Arc::new(ReadOnly(image.fork())), ..Env::memory() };
            Database::look_into(env, options()).unwrap()
        };
        let database = look();
        assert_eq!(database.check().unwrap().violations, []);
        assert_eq!(database.check_foreign_keys().unwrap(), []);
        // The changes of recovery and of sessions are visible in this handle.
        let count = |database: &Database, table: &str| -> i64 {
            let sql = format!("select count(*) from {table}");
            database.session().query_one(&sql, ()).unwrap().get(0).unwrap()
        };
        assert_eq!(count(&database, "t"), 250);
        assert_eq!(count(&database, "u"), if killed { 0 } else { 500 });
        database.session().execute("drop table t", ()).unwrap();
        drop(database);
        assert_eq!(count(&look(), "t"), 250);
        assert_eq!(image.dump(), before);
    }
}

/// Returns all files below a folder, with their bytes and the times of their last changes.
fn contents(folder: &Path) -> BTreeMap<PathBuf, (Vec<u8>, std::time::SystemTime)> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let (path, data) = entry.map(|entry| (entry.path(), entry.metadata().unwrap())).unwrap();
        let bytes = if data.is_dir() {
            found.extend(contents(&path));
            Vec::new()
        } else {
            std::fs::read(&path).unwrap()
        };
        found.insert(path, (bytes, data.modified().unwrap()));
    }
    found
}

fn set_modes(folder: &Path, files: u32, folders: u32) {
    let set = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    set(folder, folders);
    for path in contents(folder).into_keys() {
        set(&path, if path.is_dir() { folders } else { files });
    }
}

#[test]
fn a_check_of_a_directory_that_nobody_may_write() {
    let folder = std::env::temp_dir().join(format!("niwaki-looking-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let missing = Database::look_into(Env::os(&folder), options()).unwrap_err();
    assert_eq!(missing.sqlstate, "58P01", "{missing}");
    assert!(!folder.exists(), "nothing is made");
    let database = Database::open_with(Env::os(&folder), options()).unwrap();
    fill(&database);
    let used = Database::look_into(Env::os(&folder), options()).unwrap_err();
    assert_eq!(used.sqlstate, "55000", "{used}");
    // Without a shutdown, the next opening recovers.
    drop(database);
    set_modes(&folder, 0o400, 0o500);
    let before = contents(&folder);
    let looking = Database::look_into(Env::os(&folder), options()).unwrap();
    assert_eq!(looking.check().unwrap().violations, []);
    let second = Database::look_into(Env::os(&folder), options()).unwrap();
    assert_eq!(second.check().unwrap().violations, []);
    drop(second);
    assert!(contents(&folder) == before);
    set_modes(&folder, 0o600, 0o700);
    let refused = Database::open_with(Env::os(&folder), options()).unwrap_err();
    assert!(refused.message.contains("reads it"), "{refused}");
    drop(looking);
    Database::open_with(Env::os(&folder), options()).unwrap().close().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
}
