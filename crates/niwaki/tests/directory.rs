//! Ownership of a data directory. Without its lock file a second server once got in, and both
//! wrote. A folder with other files became a data directory. Other users of the machine could read
//! one.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use niwaki::{Database, Options};
use niwaki_env::Env;

/// A folder of the test, which is removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("niwaki-directory-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn open(path: &Path) -> niwaki::Result<Database> {
    Database::open_with(Env::os(path), Options::new().small_files(true))
}

#[test]
fn without_its_lock_file_a_database_ends_and_nobody_gets_in() {
    let folder = Folder::new("lock");
    let path = folder.0.join("above").join("data");
    for change in ["changed", "replaced", "removed"] {
        let heard = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let told = std::sync::Arc::clone(&heard);
        let options = Options::new().small_files(true);
        let options = options.when_lost(move |why| told.lock().unwrap().push(why.to_owned()));
        let db = Database::open_with(Env::os(&path), options).unwrap();
        db.session().execute("create table if not exists t (i int)", ()).unwrap();
        let lock = path.join("lock");
        match change {
            "changed" => fs::write(&lock, "1\n").unwrap(),
            "replaced" => {
                let bytes = fs::read(&lock).unwrap();
                fs::remove_file(&lock).unwrap();
                fs::write(&lock, bytes).unwrap();
            }
            _ => fs::remove_file(&lock).unwrap(),
        }
        let error = open(&path).unwrap_err();
        assert_eq!(error.sqlstate, "55000", "{change}: {error}");
        let said = error.message.matches("in use").count();
        assert_eq!(said, 1, "{change}: {error}");
        if change == "removed" {
            // The refused process has left its own lock file.
            fs::remove_file(&lock).unwrap();
        }
        let error = db.checkpoint().unwrap_err();
        assert!(error.message.contains("lock file"), "{change}: {error}");
        for sql in ["insert into t values (1)", "create table u (i int)"] {
            let error = db.session().execute(sql, ()).unwrap_err();
            assert_eq!(error.sqlstate, "55000", "{change}: {sql}: {error}");
        }
        db.session().query("select * from t", ()).unwrap();
        assert!(db.close().is_err(), "{change}");
        assert_eq!(heard.lock().unwrap().len(), 1, "{change}: it is said once");
        // Committed rows must be there.
        open(&path).unwrap().session().query("select * from t", ()).unwrap();
    }
}

/// Returns the names in the folder of temporary files.
fn temporary(path: &Path) -> Vec<std::ffi::OsString> {
    let entries = fs::read_dir(path.join("tmp")).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    names
}

/// A sort without room in memory once wrote into a folder that may have belonged to another process
/// by then. A cursor that ended removed the file of that name.
#[test]
fn without_its_lock_file_a_database_spills_nothing() {
    let folder = Folder::new("spill");
    let path = folder.0.join("data");
    let db = open(&path).unwrap();
    let sort = "select g from generate_series(1, 50000) g order by -g";
    let [mut before, mut behind] = [(); 2].map(|()| db.session());
    for session in [&mut before, &mut behind] {
        session.execute("set work_mem = '64kB'", ()).unwrap();
    }
    before.execute("begin", ()).unwrap();
    before.execute(&format!("declare c cursor for {sort}"), ()).unwrap();
    before.query("fetch c", ()).unwrap();
    let held = temporary(&path);
    assert!(!held.is_empty());
    fs::remove_file(path.join("lock")).unwrap();
    assert!(db.checkpoint().is_err());
    let error = behind.query(sort, ()).unwrap_err();
    assert_eq!(error.sqlstate, "55000", "{error}");
    assert!(error.message.contains("lock file"), "{error}");
    drop(before);
    assert_eq!(temporary(&path), held);
}

/// A program kept a session of a database that it had closed. At its end, the session once removed
/// a temporary file of the next opening.
#[test]
fn a_closed_database_removes_no_temporary_file_of_the_next_one() {
    let folder = Folder::new("next");
    let path = folder.0.join("data");
    let with_held_rows = |db: &Database| {
        let mut session = db.session();
        session.execute("set work_mem = '64kB'", ()).unwrap();
        let rows = "select i, repeat('x', 200) from generate_series(1, 2000) i";
        session.execute(&format!("declare c scroll cursor with hold for {rows}"), ()).unwrap();
        session
    };
    // Creating a directory may use up names of temporary files.
    open(&path).unwrap().close().unwrap();
    let first = open(&path).unwrap();
    let kept = with_held_rows(&first);
    let held = temporary(&path);
    assert_eq!(held.len(), 1);
    first.close().unwrap();
    let next = open(&path).unwrap();
    let session = with_held_rows(&next);
    assert_eq!(temporary(&path), held, "both call it so");
    drop(kept);
    assert_eq!(temporary(&path), held);
    drop(session);
    assert!(temporary(&path).is_empty());
}

#[test]
fn folders_of_others_are_refused() {
    let folder = Folder::new("foreign");
    for (number, foreign) in ["notes.txt", "sub/x"].into_iter().enumerate() {
        let path = folder.0.join(number.to_string());
        let file = path.join(foreign);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, "mine").unwrap();
        let error = open(&path).unwrap_err();
        assert!(error.message.contains("not empty"), "{error}");
        assert_eq!(fs::read_dir(&path).unwrap().count(), 1, "nothing was made there");
    }
}

#[test]
fn nobody_else_may_look_into_it() {
    let folder = Folder::new("private");
    let path = folder.0.join("data");
    let mode = |mode: u32| fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    fs::create_dir(&path).unwrap();
    mode(0o755);
    open(&path).unwrap().close().unwrap();
    let now = || fs::metadata(&path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(now(), 0o700, "an empty folder is made private");
    for bits in [0o755, 0o770, 0o750, 0o704, 0o701] {
        mode(bits);
        let error = open(&path).err().unwrap_or_else(|| panic!("{bits:o} is let in"));
        assert!(error.message.contains("0700"), "{error}");
        assert_eq!(now(), bits, "nothing is changed");
    }
    mode(0o700);
    open(&path).unwrap().close().unwrap();
}
