//! A program's change of its working directory does not affect its databases. Once, after opening a
//! database by a relative path, the next CREATE TABLE failed. A checkpoint then ended the program,
//! because it looked for the folder to sync below the new directory. Now a path keeps its meaning
//! from the opening, and a folder that is gone is an error.
//!
//! This test is alone in its process, because the working directory belongs to the process.

use niwaki::Database;

#[test]
fn the_working_directory_may_change_and_the_folder_vanish() {
    let above = std::env::temp_dir().join(format!("niwaki-moved-{}", std::process::id()));
    std::fs::create_dir_all(&above).unwrap();
    std::env::set_current_dir(&above).unwrap();
    let database = Database::open("relative").unwrap();
    let mut session = database.session();
    session.execute("create table a (x int)", ()).unwrap();
    std::env::set_current_dir("/").unwrap();
    session.execute("create table b (x int)", ()).unwrap();
    session.execute("insert into b select generate_series(1, 1000)", ()).unwrap();
    database.checkpoint().unwrap();
    let rows: i64 = session.query_one("select count(*) from b", ()).unwrap().get(0).unwrap();
    assert_eq!(rows, 1000);
    // The new relation makes the next checkpoint sync the folder, which is gone by then.
    session.execute("create table c (x int)", ()).unwrap();
    std::fs::remove_dir_all(&above).unwrap();
    // The folder's lock file is gone too.
    assert_eq!(database.checkpoint().unwrap_err().sqlstate, "55000");
    assert!(session.execute("create table d (x int)", ()).is_err());
}
