//! Test of a removed lock file: a process that finds its lock file gone changes nothing any more.
//! Without the check, a second process could use the directory.

mod support;

use std::path::Path;

use niwaki_env::Env;
use niwaki_storage::*;
use support::*;

/// Returns the errors after the lock file is gone: of a checkpoint, and of a later change.
fn said(path: &Path) -> [Option<Error>; 2] {
    let (storage, _) = open(&Env::os(path));
    let items = Items::create(&storage);
    items.extend(1).unwrap();
    items.add(0, &item(1)).unwrap().unwrap();
    std::fs::remove_file(path.join("lock")).unwrap();
    let checkpoint = storage.checkpoint(CheckpointKind::Requested, &[]).err();
    [checkpoint, items.add(0, &item(2)).err()]
}

fn a_lost_lock_ends_all_changes() {
    let path = std::env::temp_dir().join(format!("niwaki-lock-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    let said = said(&path);
    std::fs::remove_dir_all(&path).unwrap();
    assert!(said.iter().all(|said| matches!(said, Some(Error::Refused(_)))), "{said:?}");
}

#[test]
fn a_process_that_lost_its_lock_changes_nothing() {
    a_lost_lock_ends_all_changes();
}

#[cfg(feature = "sim")]
#[test]
#[ignore = "plants a bug for the whole process: run alone"]
fn a_lost_lock_that_is_ignored_is_found() {
    niwaki_env::bugs::plant(Some("lost_lock_is_ignored"));
    let found = std::panic::catch_unwind(a_lost_lock_ends_all_changes).is_err();
    niwaki_env::bugs::plant(None);
    assert!(found, "planted and not found");
}
