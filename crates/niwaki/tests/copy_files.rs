//! COPY with files of the server. Written files read back in each format, and files that cannot be
//! opened are reported.

mod common;

use std::path::{Path, PathBuf};

use common::run;
use niwaki::Database;

/// A folder of the test, which is removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("niwaki-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder that stays does no harm.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn what_a_file_was_given_comes_back() {
    let folder = Folder::new("copied");
    let database = Database::in_memory_without_threads().unwrap();
    let mut session = database.session();
    let made = run(
        &mut session,
        "create table t (a int, b text, c numeric[]); \
         insert into t select i, case when i % 7 > 0 then repeat(E'x\\t\\\\\"\\n', i % 50) end, array[i, null, i / 3.0] \
         from generate_series(1, 20000) i; \
         create table u (like_of_t int, b text, c numeric[])",
    );
    assert_eq!(made, "");
    for format in ["text", "csv", "binary"] {
        let file = folder.path().join(format);
        let name = file.display();
        let copied =
            format!("copy t to '{name}' (format {format}); copy u from '{name}' (format {format})");
        assert_eq!(run(&mut session, &copied), "", "{format}");
        let differ = "select count(*) from (select * from t except all select * from u) d; select count(*) from u; truncate u";
        assert_eq!(run(&mut session, differ), "0\n20000", "{format}");
        let again = format!("copy (select 1) to '{name}' (format {format})");
        assert_eq!(run(&mut session, &again), "");
        assert!(file.metadata().unwrap().len() < 100, "{format}: written over");
    }
}

#[test]
fn what_cannot_be_opened_is_told() {
    let folder = Folder::new("not-opened");
    let (inside, path) = (folder.path().join("data"), folder.path().display().to_string());
    std::fs::write(&inside, "kept\n").unwrap();
    let database = Database::in_memory_without_threads().unwrap();
    let mut session = database.session();
    assert_eq!(run(&mut session, "create table t (a int)"), "");
    let first = |answer: String| answer.lines().next().unwrap_or_default().to_owned();
    for (statement, told) in [
        (
            "copy t from 'data'".to_owned(),
            "error 42602: relative path not allowed for COPY from file".to_owned(),
        ),
        (
            "copy t to 'data'".to_owned(),
            "error 42602: relative path not allowed for COPY to file".to_owned(),
        ),
        (
            format!("copy t from '{path}/none'"),
            format!(
                "error 58P01: could not open file \"{path}/none\" for reading: No such file or directory"
            ),
        ),
        (
            format!("copy t to '{path}/none/data'"),
            format!(
                "error 58P01: could not open file \"{path}/none/data\" for writing: No such file or directory"
            ),
        ),
        (format!("copy t from '{path}'"), format!("error 42809: \"{path}\" is a directory")),
        (format!("copy t to '{path}'"), format!("error 42809: \"{path}\" is a directory")),
        (
            format!("copy none to '{path}/data'"),
            "error 42P01: relation \"none\" does not exist".to_owned(),
        ),
        (
            format!("copy t from '{path}/data'"),
            "error 22P02: invalid input syntax for type integer: \"kept\"".to_owned(),
        ),
    ] {
        assert_eq!(first(run(&mut session, &statement)), told, "{statement}");
    }
    assert_eq!(std::fs::read_to_string(&inside).unwrap(), "kept\n");
}

/// The device is always full.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_told() {
    let database = Database::in_memory_without_threads().unwrap();
    let mut session = database.session();
    for rows in [1, 100_000] {
        let answer =
            run(&mut session, &format!("copy (select generate_series(1, {rows})) to '/dev/full'"));
        assert!(
            answer
                .starts_with("error 53100: could not write to COPY file: No space left on device"),
            "{answer}"
        );
    }
}

#[test]
fn rows_of_a_file_go_to_their_partitions() {
    let folder = Folder::new("partitioned");
    let database = Database::in_memory_without_threads().unwrap();
    let mut session = database.session();
    let made = run(
        &mut session,
        "create table t (a int, b text) partition by range (a); \
         create table low partition of t for values from (0) to (10); \
         create table high (b text, gone int, a int); alter table high drop column gone; \
         alter table t attach partition high for values from (10) to (20)",
    );
    assert_eq!(made, "");
    let file = folder.path().join("rows");
    let name = file.display();
    let written = format!("copy (select i, 'row ' || i from generate_series(0, 19) i) to '{name}'");
    assert_eq!(run(&mut session, &written), "");
    assert_eq!(run(&mut session, &format!("copy t from '{name}'")), "");
    let question =
        "select tableoid::regclass, count(*), min(a), max(b) from t group by 1 order by 1";
    assert_eq!(run(&mut session, question), "low|10|0|row 9\nhigh|10|10|row 19");
    let refused = run(&mut session, &format!("copy high (a, b) from '{name}'"));
    let message = "error 23514: new row for relation \"high\" violates partition constraint";
    assert!(refused.starts_with(message), "{refused}");
    let refused = run(&mut session, "alter table t detach partition high; truncate low")
        + &run(&mut session, &format!("copy t from '{name}'"));
    assert!(refused.starts_with("error 23514: no partition of relation \"t\" found"), "{refused}");
    assert_eq!(run(&mut session, "select count(*) from t"), "0");
}
