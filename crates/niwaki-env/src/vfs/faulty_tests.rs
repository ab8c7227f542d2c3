use std::collections::{BTreeMap, BTreeSet};

use super::*;

fn exact() -> CrashOptions {
    CrashOptions { images_max: 1 << 12, torn_writes: false, stale_bytes: false, seed: 1 }
}

fn dumps(images: Vec<CrashImage>) -> BTreeSet<BTreeMap<String, Vec<u8>>> {
    images.into_iter().map(|image| image.vfs.dump()).collect()
}

fn durable_file(vfs: &FaultyVfs, path: &str, bytes: &[u8]) -> Arc<dyn VfsFile> {
    let file = vfs.open(path, OpenMode::CreateNew).unwrap();
    file.write_at(bytes, 0).unwrap();
    file.sync_data().unwrap();
    vfs.sync_dir(parent(path)).unwrap();
    file
}

fn states(list: &[&[u8]]) -> BTreeSet<BTreeMap<String, Vec<u8>>> {
    list.iter().map(|bytes| BTreeMap::from([("a".to_owned(), bytes.to_vec())])).collect()
}

#[test]
fn behaves_like_every_other() {
    tests::behaves(&FaultyVfs::new());
}

#[test]
fn unsynced_writes_survive_in_every_combination() {
    let vfs = FaultyVfs::new();
    let file = durable_file(&vfs, "a", b"....");
    assert_eq!(dumps(vfs.crash_images(&exact())), states(&[b"...."]));
    file.write_at(b"1", 0).unwrap();
    file.write_at(b"2", 1).unwrap();
    file.write_at(b"3", 0).unwrap();
    let expected = states(&[b"....", b"1...", b".2..", b"3...", b"12..", b"32.."]);
    assert_eq!(dumps(vfs.crash_images(&exact())), expected);
    file.sync_data().unwrap();
    assert_eq!(dumps(vfs.crash_images(&exact())), states(&[b"32.."]));
}

#[test]
fn a_name_needs_its_folder_synced() {
    let vfs = FaultyVfs::new();
    let file = vfs.open("a", OpenMode::CreateNew).unwrap();
    file.write_at(b"x", 0).unwrap();
    file.sync_data().unwrap();
    let expected = states(&[b"x"]).into_iter().chain([BTreeMap::new()]).collect();
    assert_eq!(dumps(vfs.crash_images(&exact())), expected);
    vfs.sync_dir("").unwrap();
    assert_eq!(dumps(vfs.crash_images(&exact())), states(&[b"x"]));
}

#[test]
fn a_file_in_a_lost_folder_is_lost() {
    let vfs = FaultyVfs::new();
    vfs.create_dir("d").unwrap();
    vfs.open("d/a", OpenMode::CreateNew).unwrap();
    vfs.sync_dir("d").unwrap();
    let images = vfs.crash_images(&exact());
    assert_eq!(images.len(), 2);
    assert!(images.iter().any(|image| image.vfs.dump().is_empty()));
    vfs.sync_dir("").unwrap();
    let images = vfs.crash_images(&exact());
    assert_eq!(images.len(), 1);
    assert!(images[0].vfs.exists("d/a").unwrap());
}

#[test]
fn a_rename_is_whole_or_absent() {
    let vfs = FaultyVfs::new();
    durable_file(&vfs, "a", b"old");
    durable_file(&vfs, "b", b"new");
    vfs.rename("b", "a").unwrap();
    let renamed = BTreeMap::from([("a".to_owned(), b"new".to_vec())]);
    let before =
        BTreeMap::from([("a".to_owned(), b"old".to_vec()), ("b".to_owned(), b"new".to_vec())]);
    assert_eq!(dumps(vfs.crash_images(&exact())), BTreeSet::from([renamed.clone(), before]));
    vfs.sync_dir("").unwrap();
    assert_eq!(dumps(vfs.crash_images(&exact())), BTreeSet::from([renamed]));
}

#[test]
fn length_without_bytes_reads_zero() {
    let vfs = FaultyVfs::new();
    let file = durable_file(&vfs, "a", b"x");
    file.set_len(3).unwrap();
    file.write_at(b"yz", 1).unwrap();
    let expected = states(&[b"x", b"x\0\0", b"xyz"]);
    assert_eq!(dumps(vfs.crash_images(&exact())), expected);
}

#[test]
fn writes_tear_at_sectors() {
    let vfs = FaultyVfs::new();
    let file = durable_file(&vfs, "a", &[0; 8192]);
    file.write_at(&[1; 8192], 0).unwrap();
    let options = CrashOptions { images_max: 300, torn_writes: true, ..exact() };
    let images = vfs.crash_images(&options);
    let mut torn = 0;
    let mut prefixes = BTreeSet::new();
    for image in &images {
        let bytes = &image.vfs.dump()["a"];
        let sectors: Vec<&[u8]> = bytes.chunks(512).collect();
        assert!(sectors.iter().all(|sector| sector.iter().all(|byte| *byte == sector[0])));
        let survived = sectors.iter().filter(|sector| sector[0] == 1).count();
        torn += usize::from(survived > 0 && survived < 16);
        if sectors[..survived].iter().all(|sector| sector[0] == 1) {
            prefixes.insert(survived);
        }
    }
    assert!(torn > 100, "{torn} torn images");
    assert_eq!(prefixes, (0..=16).collect(), "every prefix occurs");
}

#[test]
fn stale_bytes_appear_only_on_request() {
    let vfs = FaultyVfs::new();
    let file = durable_file(&vfs, "a", &[7; 8192]);
    file.write_at(&[1; 8192], 8192).unwrap();
    let stale = |stale_bytes| {
        let options = CrashOptions { images_max: 100, torn_writes: false, stale_bytes, seed: 3 };
        let images = vfs.crash_images(&options);
        images.iter().filter(|image| image.vfs.dump()["a"][8192..].contains(&7)).count()
    };
    assert_eq!(stale(false), 0);
    assert!(stale(true) > 0);
}

#[test]
fn many_changes_are_sampled_without_repetition() {
    let vfs = FaultyVfs::new();
    let file = durable_file(&vfs, "a", &[0; 64]);
    for at in 0..40 {
        file.write_at(&[1], at).unwrap();
    }
    let images = vfs.crash_images(&CrashOptions { images_max: 200, torn_writes: false, ..exact() });
    assert_eq!(images.len(), 200);
    let different = dumps(images);
    assert_eq!(different.len(), 200);
    let survivors =
        |dump: &BTreeMap<String, Vec<u8>>| dump["a"].iter().filter(|byte| **byte == 1).count();
    let counts: BTreeSet<usize> = different.iter().map(survivors).collect();
    assert!([0, 1, 39, 40].iter().all(|count| counts.contains(count)), "{counts:?}");
}

#[test]
fn a_crash_stops_everything_and_keeps_what_was_durable() {
    let vfs = FaultyVfs::new();
    let file = durable_file(&vfs, "a", b"..");
    vfs.crash_at(vfs.changes() + 1);
    file.write_at(b"1", 0).unwrap();
    let crash = file.write_at(b"2", 1).unwrap_err();
    assert!(is_crash(&crash));
    assert!(vfs.crashed());
    assert!(is_crash(&file.sync_data().unwrap_err()));
    assert!(is_crash(&file.read_at(&mut [0], 0).unwrap_err()));
    assert!(is_crash(&vfs.open("a", OpenMode::Existing).unwrap_err()));
    let expected = states(&[b"..", b"1.", b".2", b"12"]);
    assert_eq!(dumps(vfs.crash_images(&exact())), expected);
}

#[test]
fn history_gives_the_images_of_every_moment() {
    let vfs = FaultyVfs::new();
    vfs.record();
    let file = durable_file(&vfs, "a", b"..");
    file.write_at(b"1", 0).unwrap();
    let history = vfs.history().unwrap();
    assert_eq!(history.len(), 5);
    let mut replay = history.replay();
    let mut counts = vec![replay.images(&exact()).count()];
    let mut operations = Vec::new();
    while let Some(operation) = replay.step() {
        operations.push(operation);
        counts.push(replay.images(&exact()).count());
    }
    use Operation::*;
    assert_eq!(operations, [Create, Write, SyncData, SyncDir, Write]);
    assert_eq!(counts, [1, 2, 4, 2, 1, 2]);
}

fn fault(kind: FaultKind, operation: Operation) -> Fault {
    Fault { kind, operation, path_contains: "a".to_owned(), after: 0, sticky: false }
}

#[test]
fn a_failed_sync_may_lose_bytes_for_good() {
    let vfs = FaultyVfs::new();
    let file = durable_file(&vfs, "a", b"old");
    file.write_at(b"new", 0).unwrap();
    vfs.inject(fault(FaultKind::SyncLosesBytes, Operation::SyncData));
    file.sync_data().unwrap_err();
    file.sync_data().expect("the second sync finds nothing to do");
    let mut buf = [0; 3];
    file.read_at(&mut buf, 0).unwrap();
    assert_eq!(&buf, b"new", "the cache still shows it");
    assert_eq!(dumps(vfs.crash_images(&exact())), states(&[b"old"]));

    file.write_at(b"two", 0).unwrap();
    vfs.inject(fault(FaultKind::SyncFailsAfterWriting, Operation::SyncData));
    file.sync_data().unwrap_err();
    assert_eq!(dumps(vfs.crash_images(&exact())), states(&[b"two"]));
}

#[test]
fn faults_come_when_and_where_they_were_asked_for() {
    let vfs = FaultyVfs::new();
    let file = durable_file(&vfs, "a", b"....");
    let other = durable_file(&vfs, "b", b"....");
    let full = fault(FaultKind::StorageFull, Operation::Write);
    vfs.inject(Fault { after: 1, sticky: true, ..full });
    file.write_at(b"1", 0).unwrap();
    other.write_at(b"1", 0).unwrap();
    for _ in 0..2 {
        let refused = file.write_at(b"2", 0).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::StorageFull);
    }
    vfs.heal();
    file.write_at(b"3", 0).unwrap();
    vfs.inject(fault(FaultKind::ShortWrite, Operation::Write));
    file.write_at(b"4444", 0).unwrap_err();
    let mut buf = [0; 4];
    file.read_at(&mut buf, 0).unwrap();
    assert_eq!(&buf, b"44..");
    vfs.inject(fault(FaultKind::ShortWriteOfSectors, Operation::Write));
    file.write_at(&[b'5'; 1600], 0).unwrap_err();
    assert_eq!(file.len().unwrap(), 512);
    vfs.inject(fault(FaultKind::InputOutputError, Operation::Read));
    file.read_at(&mut buf, 0).unwrap_err();
    file.read_at(&mut buf, 0).unwrap();
}

#[test]
fn writes_are_observed() {
    let vfs = FaultyVfs::new();
    let seen = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    vfs.observe_writes(Box::new(move |path, offset, bytes| {
        log.lock().push((path.to_owned(), offset, bytes.len()));
    }));
    durable_file(&vfs, "a", b"xyz");
    assert_eq!(*seen.lock(), [("a".to_owned(), 0, 3)]);
}

fn ring_fault(operation: Operation, sticky: bool) -> Fault {
    let kind = FaultKind::InputOutputError;
    Fault { kind, operation, path_contains: String::new(), after: 0, sticky }
}

#[test]
fn a_ring_that_breaks_ends_what_it_has_begun() {
    for operation in [Operation::RingSubmit, Operation::RingWait] {
        let vfs = FaultyVfs::new();
        let file = durable_file(&vfs, "a", b"xyz");
        let ring = vfs.read_ring().unwrap();
        let mut buffers = [[0_u8; 1]; 3];
        let mut add = |token: usize| {
            let mut slices = [IoSliceMut::new(&mut buffers[token])];
            // SAFETY: the buffers live beyond the last `complete`, which takes the last end.
            unsafe { ring.add(token, Arc::clone(&file), &mut slices, token as u64) };
        };
        add(0);
        ring.submit().unwrap();
        add(1);
        vfs.inject(ring_fault(operation, false));
        let met = match operation {
            Operation::RingSubmit => ring.submit(),
            _ => ring.complete(true).map(|_| ()),
        };
        assert!(matches!(met, Err(RingError::Broken(_))), "{met:?}");
        add(2);
        assert!(matches!(ring.submit(), Err(RingError::Broken(_))));
        let mut ends: Vec<_> = (0..3)
            .map(|_| {
                let done = ring.complete(true).unwrap().unwrap();
                (done.token, done.result.ok())
            })
            .collect();
        ends.sort_unstable();
        assert_eq!(ends, [(0, Some(1)), (1, None), (2, None)]);
        assert_eq!(buffers, [*b"x", [0], [0]]);
    }
}

#[test]
fn a_ring_whose_reads_do_not_end_is_lost() {
    let vfs = FaultyVfs::new();
    let file = durable_file(&vfs, "a", b"x");
    let ring = vfs.read_ring().unwrap();
    let mut buffer = [0_u8; 1];
    // SAFETY: the buffer lives beyond the last `complete`, which takes its end.
    unsafe { ring.add(0, file, &mut [IoSliceMut::new(&mut buffer)], 0) };
    ring.submit().unwrap();
    vfs.inject(ring_fault(Operation::RingWait, true));
    assert!(matches!(ring.complete(true), Err(RingError::Broken(_))));
    assert!(matches!(ring.complete(true), Err(RingError::Lost(_))));
    vfs.heal();
    assert_eq!(ring.complete(true).unwrap().unwrap().result.unwrap(), 1);
    assert_eq!(buffer, *b"x");
}

#[test]
#[should_panic(expected = "a: 2..4 changes while")]
fn what_a_ring_reads_must_not_be_written() {
    let vfs = FaultyVfs::new();
    let file = durable_file(&vfs, "a", b"abcdef");
    let ring = vfs.read_ring().unwrap();
    let mut buffer = [0_u8; 3];
    // SAFETY: the buffer lives beyond the last `complete`, which takes the last end. After the
    // panic no code calls it.
    unsafe { ring.add(0, Arc::clone(&file), &mut [IoSliceMut::new(&mut buffer)], 0) };
    ring.submit().unwrap();
    file.write_at(b"d", 3).unwrap();
    assert_eq!(ring.complete(true).unwrap().unwrap().result.unwrap(), 3);
    file.write_at(b"cd", 2).unwrap();
    // SAFETY: as above.
    unsafe { ring.add(0, Arc::clone(&file), &mut [IoSliceMut::new(&mut buffer)], 0) };
    ring.submit().unwrap();
    file.write_at(b"cd", 2).unwrap();
}
