//! Tests of F1: a relation file that is missing, short or zeroed once counted as an empty one. The
//! table of files, which each checkpoint writes, distinguishes it from a file that never had more.

mod support;

use std::sync::Arc;

use niwaki_env::Env;
use niwaki_env::vfs::{MemoryVfs, OpenMode};
use niwaki_storage::page::PAGE_SIZE;
use niwaki_storage::*;
use support::*;

const PAGE: u64 = PAGE_SIZE as u64;

/// Writes 40 pages, except the last five; segments have 16 pages.
fn written() -> (Arc<MemoryVfs>, Env, RelFile) {
    let vfs = Arc::new(MemoryVfs::new());
    let env = env_on(vfs.clone());
    let (storage, _) = open(&env);
    let items = Items::create(&storage);
    items.extend(40).unwrap();
    (0..35).for_each(|block| _ = items.add(block, &item(u64::from(block))).unwrap().unwrap());
    let file = items.file;
    drop(items);
    storage.shutdown(&[]).unwrap();
    (vfs, env, file)
}

fn path(file: RelFile) -> String {
    format!("base/{}.main", file.id)
}

/// Returns the errors about a file: when its length and a page are requested, and in a check.
fn found(env: &Env, file: RelFile, block: u32) -> (Option<String>, Vec<String>) {
    let (storage, _) = open(env);
    let items = Items::on(&storage, file);
    let touched = storage.pool().blocks(file.id, Fork::Main);
    let touched = touched.and_then(|_| storage.pool().pin(items.page_id(block)).map(drop));
    let report = storage.check().unwrap();
    let broken = report.corruptions.into_iter().map(|damage| damage.invariant.to_owned());
    (touched.err().map(|error| error.to_string()), broken.collect())
}

fn a_missing_file_is_no_empty_one() {
    let (vfs, env, file) = written();
    for segment in ["", ".1", ".2"] {
        let env = crashed(&vfs);
        env.vfs.remove(&format!("{}{segment}", path(file))).unwrap();
        let (error, broken) = found(&env, file, 0);
        let error = error.unwrap_or_else(|| panic!("segment {segment:?} is not missed"));
        assert!(error.contains(&path(file)), "{error}");
        assert_eq!(broken, ["F1"]);
    }
    assert_eq!(found(&env, file, 0), (None, vec![]));
}

fn a_short_file_keeps_what_lies_behind_it() {
    let (_, env, file) = written();
    env.vfs.open(&path(file), OpenMode::Existing).unwrap().set_len(15 * PAGE).unwrap();
    let (error, broken) = found(&env, file, 0);
    assert!(error.unwrap().contains("15"), "the block is named");
    assert_eq!(broken, ["F1"]);
    assert!(env.vfs.exists(&format!("{}.2", path(file))).unwrap(), "no later segment is removed");
}

fn zeros_are_damage_where_a_page_was_written() {
    for (block, damage) in [(0, true), (15, true), (34, true), (35, false), (39, false)] {
        let (_, env, file) = written();
        let (segment, at) = (block / 16, u64::from(block % 16) * PAGE);
        let suffix = if segment == 0 { String::new() } else { format!(".{segment}") };
        let open = env.vfs.open(&format!("{}{suffix}", path(file)), OpenMode::Existing).unwrap();
        open.write_at(&[0; PAGE_SIZE], at).unwrap();
        let (error, broken) = found(&env, file, block);
        assert_eq!(error.is_some(), damage, "block {block}: {error:?}");
        assert_eq!(!broken.is_empty(), damage, "block {block}");
    }
}

fn a_file_that_vanishes_fails_the_checkpoint() {
    let (_, env, file) = written();
    let (storage, _) = open(&env);
    Items::on(&storage, file).add(3, &item(99)).unwrap().unwrap();
    let before = storage.control();
    env.vfs.remove(&path(file)).unwrap();
    let error = storage.checkpoint(CheckpointKind::Requested, &[]).unwrap_err();
    assert!(error.to_string().contains(&path(file)), "{error}");
    assert_eq!(storage.control(), before, "the checkpoint before it counts");
}

/// The table is as old as the redo position; later changes of the files are in the log.
fn what_the_log_says_is_no_damage() {
    let (vfs, env, file) = written();
    let (storage, _) = open(&env);
    storage.truncate_fork(file, Fork::Main, 20).unwrap();
    let second = Items::create(&storage);
    second.extend(3).unwrap();
    second.add(0, &item(1)).unwrap().unwrap();
    storage.checkpoint(CheckpointKind::Requested, &[]).unwrap();
    // Redo meets a record for a page that a later record cuts off: the file is already too short
    // for it.
    Items::on(&storage, file).add(18, &item(99)).unwrap().unwrap();
    storage.truncate_fork(file, Fork::Main, 10).unwrap();
    storage.drop_file(second.file).unwrap();
    let third = Items::create(&storage);
    third.extend(2).unwrap();
    let last = third.add(0, &item(2)).unwrap().unwrap();
    storage.wal().flush(last).unwrap();
    let image = crashed(&vfs);
    let (again, summary) = open(&image);
    assert!(summary.recovered);
    assert_eq!(again.check().unwrap().corruptions.len(), 0);
    assert_eq!(Items::on(&again, file).blocks(), 10);
    assert!(!again.file_exists(second.file.id).unwrap());
    let known: Vec<_> = again.known_files().into_iter().map(|(file, _)| file).collect();
    assert_eq!(known, [file, third.file]);
    again.shutdown(&[]).unwrap();
    drop(again);
    image.vfs.remove(&path(third.file)).unwrap();
    assert!(found(&image, third.file, 0).0.is_some(), "what the log created is known");
}

fn without_its_table_a_directory_is_refused() {
    for name in ["files.1", "files.2"] {
        let (_, env, _) = written();
        let (storage, _) = open(&env);
        let counts = format!("files.{}", storage.control().files.number);
        drop(storage);
        env.vfs.remove(name).unwrap();
        let refused = open_with(&env, StorageOptions::tiny()).is_err();
        assert_eq!(refused, name == counts, "{name} is gone, and {counts} counts");
    }
}

/// A record changes a page behind the lost part. Adding the page would fill the part with zeros,
/// and afterwards the loss would be invisible.
fn redo_fills_no_short_file() {
    for lost in [Some(15), None] {
        let (vfs, env, file) = written();
        let (storage, _) = open(&env);
        let last = Items::on(&storage, file).add(34, &item(99)).unwrap().unwrap();
        storage.wal().flush(last).unwrap();
        let env = crashed(&vfs);
        for segment in [".1", ".2"] {
            env.vfs.remove(&format!("{}{segment}", path(file))).unwrap();
        }
        match lost {
            Some(blocks) => {
                let first = env.vfs.open(&path(file), OpenMode::Existing).unwrap();
                first.set_len(blocks * PAGE).unwrap();
            }
            None => env.vfs.remove(&path(file)).unwrap(),
        }
        // Twice: the first attempt must not hide the loss from the second.
        for _ in 0..2 {
            let error = open_with(&env, StorageOptions::tiny()).err().map(|e| e.to_string());
            let error = error.expect("the loss is told of");
            assert!(error.contains(&path(file)), "{error}");
            assert_eq!(env.vfs.exists(&path(file)).unwrap(), lost.is_some());
        }
    }
}

/// A directory older than the table of files: its files are taken as they are, once.
fn a_directory_of_before_opens() {
    let (_, env, file) = written();
    let control = env.vfs.open("control", OpenMode::Existing).unwrap();
    for at in [0, 4096] {
        let mut slot = [0; 96];
        control.read_at(&mut slot, at).unwrap();
        slot[76..80].fill(0);
        let crc = crc32c::crc32c(&slot[..92]);
        slot[92..].copy_from_slice(&crc.to_le_bytes());
        control.write_at(&slot, at).unwrap();
        control.write_at(&[0; 12], at + 96).unwrap();
    }
    for name in ["files.1", "files.2"] {
        env.vfs.remove(name).unwrap();
    }
    let (storage, _) = open(&env);
    assert_eq!(Items::on(&storage, file).blocks(), 40);
    storage.shutdown(&[]).unwrap();
    drop(storage);
    env.vfs.remove(&path(file)).unwrap();
    assert!(found(&env, file, 0).0.is_some(), "from then on it is known");
}

const TESTS: [fn(); 8] = [
    a_missing_file_is_no_empty_one,
    a_short_file_keeps_what_lies_behind_it,
    zeros_are_damage_where_a_page_was_written,
    a_file_that_vanishes_fails_the_checkpoint,
    what_the_log_says_is_no_damage,
    without_its_table_a_directory_is_refused,
    redo_fills_no_short_file,
    a_directory_of_before_opens,
];

#[test]
fn files_are_held_against_the_table() {
    TESTS.iter().for_each(|test| test());
}

/// Each planted bug makes one of the tests fail.
#[cfg(feature = "sim")]
#[test]
#[ignore = "plants bugs for the whole process: run alone"]
fn planted_bugs_are_found() {
    for bug in [
        "missing_file_is_empty",
        "zeros_are_new",
        "removed_file_is_synced",
        "file_not_known",
        "redo_fills_short_files",
    ] {
        niwaki_env::bugs::plant(Some(bug));
        let found = TESTS.iter().any(|test| std::panic::catch_unwind(test).is_err());
        niwaki_env::bugs::plant(None);
        assert!(found, "nothing noticed {bug}");
    }
}
