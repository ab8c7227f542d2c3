//! F1: a relation file that is gone, short or zeroed was an empty one. The table of files, which each
//! checkpoint writes, tells it from one that never had more.

mod support;

use std::sync::Arc;

use niwaki_env::Env;
use niwaki_env::vfs::{MemoryVfs, OpenMode};
use niwaki_storage::page::PAGE_SIZE;
use niwaki_storage::*;
use support::*;

const PAGE: u64 = PAGE_SIZE as u64;

/// 40 pages, of which the last five were never written; segments have 16.
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

/// What is found of a file: when it is asked for its length and a page, and by a check.
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

/// The table is as old as the redo position; the log says what became of the files since.
fn what_the_log_says_is_no_damage() {
    let (vfs, env, file) = written();
    let (storage, _) = open(&env);
    storage.truncate_fork(file, Fork::Main, 20).unwrap();
    let second = Items::create(&storage);
    second.extend(3).unwrap();
    second.add(0, &item(1)).unwrap().unwrap();
    storage.checkpoint(CheckpointKind::Requested, &[]).unwrap();
    storage.truncate_fork(file, Fork::Main, 10).unwrap();
    storage.drop_file(second.file).unwrap();
    let third = Items::create(&storage);
    third.extend(2).unwrap();
    let last = third.add(0, &item(2)).unwrap().unwrap();
    storage.wal().flush(last);
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

const TESTS: [fn(); 6] = [
    a_missing_file_is_no_empty_one,
    a_short_file_keeps_what_lies_behind_it,
    zeros_are_damage_where_a_page_was_written,
    a_file_that_vanishes_fails_the_checkpoint,
    what_the_log_says_is_no_damage,
    without_its_table_a_directory_is_refused,
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
    let bugs =
        ["missing_file_is_empty", "zeros_are_new", "removed_file_is_synced", "file_not_known"];
    for bug in bugs {
        niwaki_env::bugs::plant(Some(bug));
        let found = TESTS.iter().any(|test| std::panic::catch_unwind(test).is_err());
        niwaki_env::bugs::plant(None);
        assert!(found, "nothing noticed {bug}");
    }
}
