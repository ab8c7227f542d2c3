//! Tests of recovery: durable changes are there after a crash, exactly once, and redo makes the
//! same pages as do.

mod support;

use std::sync::Arc;

use niwaki_env::vfs::{MemoryVfs, OpenMode, Vfs};
use niwaki_storage::compare::redo_equals_do;
use niwaki_storage::page::PAGE_SIZE;
use niwaki_storage::*;
use support::*;

fn busy(items: &Items, rounds: u64) -> Lsn {
    items.extend(40).unwrap();
    let mut last = Lsn(0);
    for number in 0..rounds {
        let block = (number * 7 % 40) as u32;
        last = items.add(block, &item(number)).unwrap().unwrap_or(last);
        if number % 3 == 2 {
            let from = ((number - 1) * 7 % 40) as u32;
            items.move_to(from, (from + 1) % 40, &item(number - 1)).unwrap();
        }
        if number % 11 == 10 {
            let from = ((number - 9) * 7 % 40) as u32;
            let there = items.storage.pool().pin(items.page_id(from)).unwrap();
            let there = {
                let page = there.read();
                (1..=page.item_count())
                    .any(|n| page.item(OffsetNumber(n)) == Some(&item(number - 9)[..]))
            };
            if there {
                last = items.remove(from, &item(number - 9)).unwrap();
            }
        }
        if number % 50 == 49 {
            items.storage.checkpoint(CheckpointKind::Requested, &[]).unwrap();
        }
    }
    items.storage.wal().insert_lsn()
}

#[test]
fn a_clean_shutdown_needs_no_recovery() {
    let vfs = Arc::new(MemoryVfs::new());
    let env = env_on(vfs);
    let (storage, summary) = open(&env);
    assert!(summary.created && !summary.recovered);
    let items = Items::create(&storage);
    busy(&items, 200);
    let expected = items.numbers().unwrap();
    let file = items.file;
    drop(items);
    storage.shutdown(&[]).unwrap();
    assert!(storage.pool().is_idle());
    drop(storage);
    let (storage, summary) = open(&env);
    assert!(!summary.created && !summary.recovered, "{summary:?}");
    assert_eq!(summary.records, 1, "only the checkpoint record is read");
    assert_eq!(Items::on(&storage, file).numbers().unwrap(), expected);
}

#[test]
fn redo_makes_the_pages_that_do_made() {
    let vfs = Arc::new(MemoryVfs::new());
    let (storage, _) = open(&env_on(vfs.clone()));
    let items = Items::create(&storage);
    let last = busy(&items, 333);
    storage.wal().flush(last).unwrap();
    let (redone, summary) = open(&crashed(&vfs));
    assert!(summary.recovered && summary.end == last, "{summary:?}");
    assert_eq!(redo_equals_do(&storage, &redone, &|_| ()).unwrap(), []);
    assert_eq!(Items::on(&redone, items.file).numbers().unwrap(), items.numbers().unwrap());
}

#[test]
fn redo_without_images_makes_the_same_pages() {
    let vfs = Arc::new(MemoryVfs::new());
    let options = StorageOptions { full_page_writes: false, ..StorageOptions::tiny() };
    let (storage, _) = open_with(&env_on(vfs.clone()), options).unwrap();
    let items = Items::create(&storage);
    let last = busy(&items, 333);
    assert_eq!(storage.wal().statistics().images, 0);
    storage.wal().flush(last).unwrap();
    let (redone, _) = open(&crashed(&vfs));
    assert_eq!(redo_equals_do(&storage, &redone, &|_| ()).unwrap(), []);
}

#[test]
fn a_difference_is_found() {
    let vfs = Arc::new(MemoryVfs::new());
    let (storage, _) = open(&env_on(vfs.clone()));
    let items = Items::create(&storage);
    items.extend(1).unwrap();
    let last = items.add(0, &item(1)).unwrap().unwrap();
    storage.wal().flush(last).unwrap();
    let (redone, _) = open(&crashed(&vfs));
    items.add(0, &item(2)).unwrap();
    let found = redo_equals_do(&storage, &redone, &|_| ()).unwrap();
    assert_eq!(found.iter().map(|d| d.id).collect::<Vec<_>>(), [items.page_id(0)]);
}

/// W3: recovering again what recovery left behind gives the same pages.
#[test]
fn recovering_twice_is_recovering_once() {
    let vfs = Arc::new(MemoryVfs::new());
    let (storage, _) = open(&env_on(vfs.clone()));
    let items = Items::create(&storage);
    let last = busy(&items, 180);
    storage.wal().flush(last).unwrap();
    let once = Arc::new(vfs.fork());
    let (first, _) = open(&env_on(once.clone()));
    // Killed right after recovery, without a shutdown.
    let (second, summary) = open(&crashed(&once));
    assert!(summary.recovered);
    assert_eq!(redo_equals_do(&first, &second, &|_| ()).unwrap(), []);
    assert_eq!(redo_equals_do(&storage, &second, &|_| ()).unwrap(), []);
}

#[test]
fn what_was_not_flushed_is_gone_and_the_log_goes_on() {
    let vfs = Arc::new(MemoryVfs::new());
    let (storage, _) = open(&env_on(vfs.clone()));
    let items = Items::create(&storage);
    items.extend(2).unwrap();
    let kept = items.add(0, &item(1)).unwrap().unwrap();
    storage.wal().flush(kept).unwrap();
    items.add(1, &item(2)).unwrap();
    let after = Arc::new(vfs.fork());
    let (storage, summary) = open(&env_on(after.clone()));
    assert_eq!(summary.end, kept);
    let items = Items::on(&storage, items.file);
    assert_eq!(items.numbers().unwrap().into_iter().collect::<Vec<_>>(), [1]);
    items.extend(1).unwrap();
    let lsn = items.add(1, &item(3)).unwrap().unwrap();
    storage.wal().flush(lsn).unwrap();
    let (storage, _) = open(&crashed(&after));
    let numbers = Items::on(&storage, items.file).numbers().unwrap();
    assert_eq!(numbers.into_iter().collect::<Vec<_>>(), [1, 3]);
}

#[test]
fn files_dropped_and_cut_later_do_not_hinder_recovery() {
    let vfs = Arc::new(MemoryVfs::new());
    let (storage, _) = open(&env_on(vfs.clone()));
    let (gone, cut) = (Items::create(&storage), Items::create(&storage));
    for items in [&gone, &cut] {
        items.extend(40).unwrap();
        for number in 0..80 {
            items.add((number % 40) as u32, &item(number)).unwrap();
        }
    }
    // Changes without images, of pages that will be missing.
    storage.checkpoint(CheckpointKind::Requested, &[]).unwrap();
    for number in 80..160 {
        gone.add((number % 40) as u32, &item(number)).unwrap();
        cut.add((number % 40) as u32, &item(number)).unwrap();
    }
    storage.drop_file(gone.file).unwrap();
    storage.truncate_fork(cut.file, Fork::Main, 10).unwrap();
    let last = storage.wal().insert_lsn();
    storage.wal().flush(last).unwrap();
    assert_eq!(cut.blocks(), 10);
    let expected = cut.numbers().unwrap();
    assert!(expected.len() >= 30);
    let (redone, summary) = open(&crashed(&vfs));
    assert!(summary.recovered);
    assert!(!redone.file_exists(gone.file.id).unwrap());
    assert_eq!(redone.list_files().unwrap(), [cut.file.id]);
    let cut = Items::on(&redone, cut.file);
    assert_eq!(cut.blocks(), 10);
    assert_eq!(cut.numbers().unwrap(), expected);
    assert!(redone.allocate_file() > cut.file.id, "numbers are not given twice");
}

/// Logs changes of a dropped file, as older versions did (W4).
fn behind_a_drop(work: impl FnOnce()) {
    // The bug is planted for the whole process.
    static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    #[cfg(feature = "sim")]
    niwaki_env::bugs::plant(Some("logs-behind-a-drop"));
    work();
    #[cfg(feature = "sim")]
    niwaki_env::bugs::plant(None);
}

/// Regression test: older versions logged deletions in an index that DROP INDEX CONCURRENTLY had
/// dropped. After a kill the directory did not open any more: "the log record at … changes this
/// page, which does not exist".
#[test]
fn records_behind_the_drop_of_their_file_are_passed_over() {
    let vfs = Arc::new(MemoryVfs::new());
    let options = StorageOptions { full_page_writes: false, ..StorageOptions::tiny() };
    let (storage, _) = open_with(&env_on(vfs.clone()), options.clone()).unwrap();
    let (gone, stays) = (Items::create(&storage), Items::create(&storage));
    for items in [&gone, &stays] {
        items.extend(4).unwrap();
        for number in 0..4 {
            items.add(number as u32, &item(number)).unwrap();
        }
    }
    storage.checkpoint(CheckpointKind::Requested, &[]).unwrap();
    storage.drop_file(gone.file).unwrap();
    behind_a_drop(|| {
        gone.extend(4).unwrap();
        for number in 4..8 {
            gone.add((number % 4) as u32, &item(number)).unwrap();
            stays.add((number % 4) as u32, &item(number)).unwrap();
        }
    });
    let last = storage.wal().insert_lsn();
    storage.wal().flush(last).unwrap();
    let after = vfs.fork();
    let path = format!("base/{}.main", gone.file.id);
    // As a killed process leaves the file.
    let _ = after.remove(&path);
    let (redone, summary) = open_with(&env_on(Arc::new(after)), options).unwrap();
    assert!(summary.recovered);
    assert_eq!(redone.list_files().unwrap(), [stays.file.id]);
    let stays = Items::on(&redone, stays.file);
    assert_eq!(stays.numbers().unwrap().len(), 8);
}

/// The same with a checkpoint in between: the record of the drop is not read any more.
#[test]
fn records_behind_a_checkpoint_of_a_file_dropped_before_it_are_passed_over() {
    let vfs = Arc::new(MemoryVfs::new());
    let options = StorageOptions { full_page_writes: false, ..StorageOptions::tiny() };
    let (storage, _) = open_with(&env_on(vfs.clone()), options.clone()).unwrap();
    let (gone, stays) = (Items::create(&storage), Items::create(&storage));
    stays.extend(1).unwrap();
    storage.drop_file(gone.file).unwrap();
    behind_a_drop(|| {
        gone.extend(2).unwrap();
        gone.add(0, &item(0)).unwrap().unwrap();
        storage.checkpoint(CheckpointKind::Requested, &[]).unwrap();
        gone.add(0, &item(1)).unwrap().unwrap();
        gone.add(1, &item(2)).unwrap().unwrap();
    });
    let last = stays.add(0, &item(3)).unwrap().unwrap();
    storage.wal().flush(last).unwrap();
    let after = vfs.fork();
    after.remove(&format!("base/{}.main", gone.file.id)).unwrap();
    let (redone, summary) = open_with(&env_on(Arc::new(after)), options).unwrap();
    assert!(summary.recovered);
    assert_eq!(redone.list_files().unwrap(), [stays.file.id]);
    assert!(Items::on(&redone, stays.file).numbers().unwrap().into_iter().eq([3]));
}

#[test]
fn a_page_missing_without_reason_is_damage() {
    let vfs = Arc::new(MemoryVfs::new());
    let options = StorageOptions { full_page_writes: false, ..StorageOptions::tiny() };
    let (storage, _) = open_with(&env_on(vfs.clone()), options).unwrap();
    let items = Items::create(&storage);
    items.extend(4).unwrap();
    for number in 0..4 {
        items.add(number as u32, &item(number)).unwrap();
    }
    storage.checkpoint(CheckpointKind::Requested, &[]).unwrap();
    let last = items.add(2, &item(9)).unwrap().unwrap();
    storage.wal().flush(last).unwrap();
    let path = format!("base/{}.main", items.file.id);
    let damaged = |damage: fn(&MemoryVfs, &str)| {
        let after = vfs.fork();
        damage(&after, &path);
        let error = open_with(&env_on(Arc::new(after)), StorageOptions::tiny()).unwrap_err();
        let damage = error.into_damage().unwrap();
        assert_eq!(damage.file, path);
        (damage.invariant, damage.block)
    };
    assert_eq!(damaged(|vfs, path| vfs.remove(path).unwrap()), ("F1", None));
    let zeroed = damaged(|vfs, path| {
        let file = vfs.open(path, OpenMode::Existing).unwrap();
        file.write_at(&[0; PAGE_SIZE], 2 * PAGE_SIZE as u64).unwrap();
    });
    assert_eq!(zeroed, ("W2", Some(2)));
}

/// Every fact in a map can be found again. Regression test: without images, a record for a map page
/// that was missing or damaged kept the whole directory from opening (W2).
#[test]
fn a_map_that_is_lost_is_begun_anew() {
    let vfs = Arc::new(MemoryVfs::new());
    let options = StorageOptions { full_page_writes: false, ..StorageOptions::tiny() };
    let (storage, _) = open_with(&env_on(vfs.clone()), options.clone()).unwrap();
    let items = Items::create(&storage);
    items.extend(1).unwrap();
    items.add(0, &item(1)).unwrap().unwrap();
    for (fork, name) in [(Fork::Visibility, "visible"), (Fork::FreeSpace, "free")] {
        let map = PageId { fork, ..items.page_id(0) };
        storage.pool().extend(items.file, fork, 1).unwrap();
        items.add_to(map, &item(2)).unwrap().unwrap();
        storage.checkpoint(CheckpointKind::Requested, &[]).unwrap();
        let last = items.add_to(map, &item(3)).unwrap().unwrap();
        storage.wal().flush(last).unwrap();
        let path = format!("base/{}.{name}", items.file.id);
        for is_gone in [true, false] {
            let after = vfs.fork();
            if is_gone {
                after.remove(&path).unwrap();
            } else {
                let file = after.open(&path, OpenMode::Existing).unwrap();
                file.write_at(&[0xee; 100], PAGE_SIZE as u64 / 2).unwrap();
            }
            let (redone, summary) = open_with(&env_on(Arc::new(after)), options.clone()).unwrap();
            assert!(summary.recovered);
            assert_eq!(redone.check().unwrap().corruptions.len(), 0, "{path}");
            let numbers = Items::on(&redone, items.file).numbers().unwrap();
            assert!(numbers.into_iter().eq([1]));
        }
    }
}

#[test]
fn another_format_and_a_second_process_are_refused() {
    let vfs = Arc::new(MemoryVfs::new());
    let env = env_on(vfs.clone());
    let (storage, _) = open(&env);
    let error = open_with(&env, StorageOptions::tiny()).unwrap_err();
    assert!(error.to_string().contains("locked by process"), "{error}");
    storage.shutdown(&[]).unwrap();
    drop(storage);
    let control = vfs.open("control", OpenMode::Existing).unwrap();
    for slot in [0, 4096] {
        control.write_at(&99u32.to_le_bytes(), slot + 8).unwrap();
    }
    let error = open_with(&env, StorageOptions::tiny()).unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, Error::Refused(_)) && text.contains("99"), "{text}");
    for slot in [0, 4096] {
        control.write_at(&[0; 96], slot).unwrap();
    }
    let error = open_with(&env, StorageOptions::tiny()).unwrap_err();
    assert!(matches!(error, Error::Corruption(_)), "{error}");
}

#[test]
fn the_background_makes_checkpoints_by_volume_and_by_time() {
    use niwaki_env::clock::ManualClock;
    use std::time::Duration;
    let clock = Arc::new(ManualClock::new());
    let env = niwaki_env::Env { clock: clock.clone(), ..env_on(Arc::new(MemoryVfs::new())) };
    let (storage, _) = open(&env);
    let items = Items::create(&storage);
    items.extend(40).unwrap();
    let mut last = Duration::ZERO;
    let mut pause = |time| clock.advance(time);
    let rest = storage.wal().insert_lsn();
    storage.background_write(&mut BackgroundWriter::default()).unwrap();
    storage.background_step(&mut last, &[], &mut pause).unwrap();
    assert_eq!(storage.wal().flushed(), rest, "the rest is flushed");
    let start = storage.control().redo;
    let mut number = 0;
    // The log since the last checkpoint is needed while the next one is written. Writing takes 0.9
    // of the distance to the one after it.
    let distance = storage.options().max_wal_bytes * 10 / 19;
    while storage.wal().insert_lsn().0 - start.0 < distance {
        assert_eq!(storage.control().redo, start, "too early");
        items.add((number % 40) as u32, &item(number)).unwrap();
        items.remove((number % 40) as u32, &item(number)).unwrap();
        number += 1;
        storage.background_step(&mut last, &[], &mut pause).unwrap();
    }
    storage.background_step(&mut last, &[], &mut pause).unwrap();
    let by_volume = storage.control().redo;
    assert!(by_volume > start);
    items.add(0, &item(1)).unwrap();
    storage.background_step(&mut last, &[], &mut pause).unwrap();
    assert_eq!(storage.control().redo, by_volume);
    clock.advance(storage.options().checkpoint_timeout);
    storage.background_step(&mut last, &[], &mut pause).unwrap();
    let by_time = storage.control().redo;
    assert!(by_time > by_volume);
    clock.advance(storage.options().checkpoint_timeout);
    storage.background_step(&mut last, &[], &mut pause).unwrap();
    assert_eq!(storage.control().redo, by_time, "nothing happened since");
    // The background threads do the same, and end.
    let background = storage.start_background(Vec::new()).unwrap();
    background.stop();
}
