//! Whose a data directory is. Without its lock file a second server got in, and both wrote; a folder
//! with other files became a data directory; others on the machine could read one.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use niwaki::{Database, Options};
use niwaki_env::Env;

fn open(path: &Path) -> niwaki::Result<Database> {
    Database::open_with(Env::os(path), Options::new().small_files(true))
}

#[test]
fn a_removed_lock_file_lets_nobody_in_and_ends_all_writing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("above").join("data");
    let db = open(&path).unwrap();
    db.session().execute("create table t (i int)", ()).unwrap();
    for change in [true, false] {
        if change {
            fs::write(path.join("lock"), "1\n").unwrap();
        } else {
            fs::remove_file(path.join("lock")).unwrap();
        }
        let error = open(&path).unwrap_err();
        assert_eq!(error.sqlstate, "55000", "{error}");
        assert!(error.message.contains("in use"), "{error}");
    }
    let error = db.checkpoint().unwrap_err();
    assert!(error.message.contains("lock file"), "{error}");
    for sql in ["insert into t values (1)", "create table u (i int)"] {
        let error = db.session().execute(sql, ()).unwrap_err();
        assert_eq!(error.sqlstate, "55000", "{sql}: {error}");
    }
    db.session().query("select * from t", ()).unwrap();
    assert!(db.close().is_err());
    // What was committed is there.
    open(&path).unwrap().session().query("select * from t", ()).unwrap();
}

#[test]
fn folders_of_others_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (number, foreign) in ["notes.txt", "sub/x"].into_iter().enumerate() {
        let path = folder.path().join(number.to_string());
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
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    let mode = |mode: u32| fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    fs::create_dir(&path).unwrap();
    mode(0o755);
    open(&path).unwrap().close().unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o700);
    for (bits, fine) in [(0o755, false), (0o770, false), (0o750, true), (0o704, false)] {
        mode(bits);
        match open(&path) {
            Ok(db) => {
                assert!(fine, "{bits:o}");
                db.close().unwrap();
            }
            Err(error) => {
                assert!(!fine, "{bits:o}: {error}");
                assert!(error.message.contains("0700"), "{error}");
            }
        }
    }
}
