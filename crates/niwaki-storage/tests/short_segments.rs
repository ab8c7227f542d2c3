//! Tests of segments behind a short one. Once, when the first segment was one page short, the first
//! opening of the relation unlinked all segments behind it, even in `niwaki check`. Only the log
//! may state that a file was cut. Anything else is damage, is reported, and nothing is removed.

mod support;

use std::sync::Arc;

use niwaki_env::vfs::{MemoryVfs, OpenMode, Vfs};
use niwaki_storage::*;
use support::*;

/// Makes pages in three segments of a file, then shuts the storage down or kills it.
fn three_segments(shut_down: bool) -> (Arc<MemoryVfs>, RelFile) {
    let vfs = Arc::new(MemoryVfs::new());
    let (storage, _) = open(&env_on(vfs.clone()));
    let items = Items::create(&storage);
    items.extend(40).unwrap();
    for block in 0..40 {
        items.add(block, &item(block.into())).unwrap().unwrap();
    }
    storage.checkpoint(CheckpointKind::Requested, &[]).unwrap();
    if shut_down {
        storage.shutdown(&[]).unwrap();
    }
    (Arc::new(vfs.fork()), items.file)
}

#[test]
fn a_short_segment_is_damage_and_nothing_behind_it_is_removed() {
    for shut_down in [true, false] {
        let (vfs, file) = three_segments(shut_down);
        let first = format!("base/{}.main", file.id);
        let segment = vfs.open(&first, OpenMode::Existing).unwrap();
        segment.set_len(15 * 8192).unwrap();
        let (storage, _) = open(&env_on(vfs.clone()));
        let error = storage.pool().blocks(file.id, Fork::Main).unwrap_err();
        let Error::Corruption(damage) = error else { panic!("{error}") };
        assert_eq!((damage.invariant, &damage.file), ("F1", &first));
        for behind in [1, 2] {
            assert!(vfs.exists(&format!("{first}.{behind}")).unwrap(), "{behind} is gone");
        }
    }
}

/// A cut that the log knows of is repeated, no matter what the crash brought back.
#[test]
fn what_the_log_cut_off_is_removed_again() {
    let (vfs, file) = three_segments(false);
    let before = vfs.fork();
    let (storage, _) = open(&env_on(vfs.clone()));
    storage.truncate_fork(file, Fork::Main, 10).unwrap();
    let after = vfs.fork();
    let path = |number: u32| format!("base/{}.main.{number}", file.id);
    for number in [1, 2] {
        let old = before.open(&path(number), OpenMode::Existing).unwrap();
        let mut bytes = vec![0; old.len().unwrap() as usize];
        old.read_at(&mut bytes, 0).unwrap();
        let back = after.open(&path(number), OpenMode::CreateNew).unwrap();
        back.write_at(&bytes, 0).unwrap();
    }
    let after = Arc::new(after);
    let (storage, _) = open(&env_on(after.clone()));
    let numbers = Items::on(&storage, file).numbers().unwrap();
    assert!(numbers.into_iter().eq(0..10));
    assert!(!after.exists(&path(1)).unwrap() && !after.exists(&path(2)).unwrap());
}
