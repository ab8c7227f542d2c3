//! Tests of the log's end: a torn tail is cut off at the last sound record, no matter what follows.
//! Damage in the middle is detected and refused.

mod support;

use std::sync::Arc;

use niwaki_env::vfs::{MemoryVfs, OpenMode, Vfs};
use niwaki_storage::wal::SEGMENT_HEADER_SIZE;
use niwaki_storage::*;
use support::*;

/// A database that was killed, and the LSNs of the records that added items 0, 1, 2, …
struct Killed {
    vfs: MemoryVfs,
    file: RelFile,
    lsns: Vec<Lsn>,
    segment_bytes: u64,
}

fn killed(count: u64, flush_each: bool) -> Killed {
    let vfs = Arc::new(MemoryVfs::new());
    let (storage, _) = open(&env_on(vfs.clone()));
    let items = Items::create(&storage);
    items.extend(8).unwrap();
    let mut lsns = Vec::new();
    for number in 0..count {
        lsns.push(items.add((number % 8) as u32, &item(number)).unwrap().unwrap());
        if flush_each {
            storage.wal().flush(lsns[number as usize]).unwrap();
        }
    }
    storage.wal().flush(storage.wal().insert_lsn()).unwrap();
    let segment_bytes = storage.control().wal_segment_bytes;
    Killed { vfs: vfs.fork(), file: items.file, lsns, segment_bytes }
}

impl Killed {
    /// Overwrites the log from `position` on, in a copy of the files.
    fn overwrite(&self, position: u64, bytes: &[u8]) -> MemoryVfs {
        let copy = self.vfs.fork();
        let payload = self.segment_bytes - SEGMENT_HEADER_SIZE;
        let (number, within) = (position / payload, position % payload);
        let path = format!("wal/00000001{number:016x}");
        let file = copy.open(&path, OpenMode::Existing).unwrap();
        let room = (payload - within).min(bytes.len() as u64) as usize;
        file.write_at(&bytes[..room], SEGMENT_HEADER_SIZE + within).unwrap();
        copy
    }

    fn read(&self, position: u64, count: usize) -> Vec<u8> {
        let payload = self.segment_bytes - SEGMENT_HEADER_SIZE;
        let path = format!("wal/00000001{:016x}", position / payload);
        let file = self.vfs.open(&path, OpenMode::Existing).unwrap();
        let mut bytes = vec![0; count];
        file.read_at(&mut bytes, SEGMENT_HEADER_SIZE + position % payload).unwrap();
        bytes
    }

    /// Returns the number of items that recovery finds in these files; they must be the first ones.
    fn recovered(&self, vfs: MemoryVfs) -> Result<u64> {
        let (storage, summary) = open_with(&env_on(Arc::new(vfs)), StorageOptions::tiny())?;
        let numbers = Items::on(&storage, self.file).numbers()?;
        let count = numbers.len() as u64;
        assert!(numbers.into_iter().eq(0..count), "not a prefix");
        if count > 0 {
            assert_eq!(summary.end, self.lsns[count as usize - 1]);
        }
        Ok(count)
    }
}

#[test]
fn a_tail_torn_at_any_byte_is_cut_off() {
    let killed = killed(20, true);
    let end = killed.lsns[19].0;
    let from = killed.lsns[16].0;
    // A reused segment may hold anything behind the tear: zeros, noise, or sound records of an
    // earlier time, at the same distances.
    let noise: Vec<u8> =
        (0..20_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    for torn_at in from..end {
        let whole = killed.lsns.iter().filter(|lsn| lsn.0 <= torn_at).count() as u64;
        let length = 20_000;
        let stale = killed.read(torn_at - killed.lsns[4].0, length);
        for rest in [vec![0; length], noise.clone(), stale] {
            let copy = killed.overwrite(torn_at, &rest);
            let found = match killed.recovered(copy) {
                Ok(found) => found,
                // A tear that changes one bit looks like a flipped bit.
                Err(Error::Corruption(damage)) => {
                    let missing = (killed.lsns[whole as usize].0 - torn_at) as usize;
                    let lost = killed.read(torn_at, missing);
                    let bits = lost.iter().zip(&rest).map(|(a, b)| (a ^ b).count_ones());
                    assert_eq!(bits.sum::<u32>(), 1, "torn at {torn_at}: {damage:?}");
                    continue;
                }
                Err(other) => panic!("{other}"),
            };
            // The tear may fall into padding, or behind bytes that happen to be the same.
            assert!(found >= whole && found <= whole + 1, "torn at {torn_at}: {found}, {whole}");
            if found > whole {
                assert!(torn_at + 8 > killed.lsns[whole as usize].0, "torn at {torn_at}");
            }
        }
    }
}

/// Behind the tear, a reused segment continues with records that were sound at their own time and
/// place.
#[test]
fn records_of_an_older_use_of_the_file_are_not_taken() {
    let killed = killed(20, true);
    for whole in 10..20 {
        let torn_at = killed.lsns[whole].0;
        let older = killed.lsns[whole - 9].0;
        let stale = killed.read(older, (killed.lsns[whole].0 - older) as usize);
        let mut behind = stale.clone();
        behind.extend(vec![0; 20_000]);
        let copy = killed.overwrite(torn_at, &behind);
        assert_eq!(killed.recovered(copy).unwrap(), whole as u64 + 1);
    }
}

#[test]
fn damage_in_front_of_durable_records_is_refused() {
    let killed = killed(20, true);
    for damaged in 2..18 {
        let start = killed.lsns[damaged - 1].0;
        let length = killed.lsns[damaged].0 - start;
        for at in [0, 4, 8, 16, 20, 33, 41, length / 2, length - 16] {
            let byte = killed.read(start + at, 1)[0];
            let copy = killed.overwrite(start + at, &[byte ^ 0x10]);
            let error = killed.recovered(copy).unwrap_err();
            let Error::Corruption(damage) = error else { panic!("{error}") };
            assert_eq!(damage.invariant, "W2");
            assert!(damage.detail.contains(&start.to_string()), "{}", damage.detail);
        }
    }
}

/// Regression test: one flipped bit in the last flush silently dropped the whole flush, 20,000
/// acknowledged rows. No record behind the flush vouches for it, but a record with one wrong bit
/// was written whole.
#[test]
fn one_wrong_bit_in_the_last_flush_is_refused() {
    let (passed, dropped) = flips();
    assert_eq!(dropped, Vec::<u64>::new());
    assert!(passed < 14 * 8, "{passed}");
}

#[cfg(feature = "sim")]
#[test]
#[ignore = "plants a bug for the whole process"]
fn a_flip_that_is_taken_for_the_tail_is_found() {
    niwaki_env::bugs::plant(Some("flip_is_tail"));
    let (_, dropped) = flips();
    niwaki_env::bugs::plant(None);
    assert!(!dropped.is_empty(), "planted and not found");
}

/// Flips one bit in each byte of the last flush. Returns how many flips were ignored, as between
/// records, and the positions where a flip dropped commits.
fn flips() -> (usize, Vec<u64>) {
    let killed = killed(14, false);
    let (mut passed, mut dropped) = (0, Vec::new());
    for at in killed.lsns[1].0..killed.lsns[13].0 {
        let byte = killed.read(at, 1)[0];
        let copy = killed.overwrite(at, &[byte ^ 1 << (at % 8)]);
        match killed.recovered(copy) {
            // Bytes between records mean nothing.
            Ok(14) => passed += 1,
            Ok(_) => dropped.push(at),
            Err(Error::Corruption(damage)) => {
                assert_eq!(damage.invariant, "W2");
                assert!(damage.file.starts_with("wal/"), "{damage:?}");
                assert!(damage.detail.contains("byte"), "{}", damage.detail);
            }
            Err(other) => panic!("{other}"),
        }
    }
    (passed, dropped)
}

/// The header of a segment and its length are durable before it has its name.
#[test]
fn a_segment_without_its_header_or_its_end_is_refused() {
    let killed = killed(20, false);
    let path = format!("wal/00000001{:016x}", 0);
    for at in 0..48 {
        let copy = killed.vfs.fork();
        let file = copy.open(&path, OpenMode::Existing).unwrap();
        let mut byte = [0];
        file.read_at(&mut byte, at).unwrap();
        file.write_at(&[byte[0] ^ 1 << (at % 8)], at).unwrap();
        let error = killed.recovered(copy).unwrap_err();
        assert!(matches!(error, Error::Corruption(_)), "{error}");
    }
    let copy = killed.vfs.fork();
    let file = copy.open(&path, OpenMode::Existing).unwrap();
    file.set_len(SEGMENT_HEADER_SIZE + killed.lsns[19].0 - 8).unwrap();
    let error = killed.recovered(copy).unwrap_err();
    assert!(matches!(error, Error::Corruption(_)), "{error}");
}

/// When no thread appends to the log any more, the background writer logs how far the log is
/// durable. So damage of any size in the last commits before a pause differs from a torn tail.
#[test]
fn a_pause_vouches_for_the_commits_before_it() {
    let vfs = Arc::new(MemoryVfs::new());
    let (storage, _) = open(&env_on(vfs.clone()));
    let items = Items::create(&storage);
    items.extend(1).unwrap();
    let before = storage.wal().insert_lsn();
    let last = items.add(0, &item(0)).unwrap().unwrap();
    storage.wal().flush(last).unwrap();
    let mut writer = BackgroundWriter::default();
    for _ in 0..5 {
        storage.background_write(&mut writer).unwrap();
    }
    let end = storage.wal().insert_lsn();
    assert!(end > last && end.0 - last.0 <= 64, "one short record, and no more while idle");
    let payload = storage.control().wal_segment_bytes - SEGMENT_HEADER_SIZE;
    assert!(end.0 < payload);
    let copy = vfs.fork();
    let file = copy.open(&format!("wal/00000001{:016x}", 0), OpenMode::Existing).unwrap();
    let zeros = vec![0; (last.0 - before.0) as usize];
    file.write_at(&zeros, SEGMENT_HEADER_SIZE + before.0).unwrap();
    let error = open_with(&env_on(Arc::new(copy)), StorageOptions::tiny()).unwrap_err();
    assert!(matches!(error, Error::Corruption(_)), "{error}");
}

#[test]
fn a_gap_in_records_that_nobody_knew_durable_is_a_tail() {
    let killed = killed(20, false);
    let start = killed.lsns[10].0;
    let copy = killed.overwrite(start + 60, &[0xff; 4]);
    assert_eq!(killed.recovered(copy).unwrap(), 11);
}

#[test]
fn damage_before_the_checkpoint_record_is_refused() {
    let vfs = Arc::new(MemoryVfs::new());
    let (storage, _) = open(&env_on(vfs.clone()));
    storage.shutdown(&[]).unwrap();
    let control = storage.control();
    let payload = control.wal_segment_bytes - SEGMENT_HEADER_SIZE;
    let copy = vfs.fork();
    let path = format!("wal/00000001{:016x}", control.redo.0 / payload);
    let file = copy.open(&path, OpenMode::Existing).unwrap();
    file.write_at(&[1], SEGMENT_HEADER_SIZE + control.redo.0 % payload + 50).unwrap();
    let error = open_with(&env_on(Arc::new(copy)), StorageOptions::tiny()).unwrap_err();
    assert!(matches!(error, Error::Corruption(_)), "{error}");
}

/// A record that was torn in one crash must not come back behind new records in the next.
#[test]
fn leftovers_behind_the_cut_do_not_return() {
    let killed = killed(20, false);
    let broken = killed.overwrite(killed.lsns[9].0 + 30, &[0xff; 8]);
    let vfs = Arc::new(broken);
    let (storage, summary) = open(&env_on(vfs.clone()));
    assert_eq!(summary.end, killed.lsns[9]);
    drop(storage);
    let (storage, _) = open(&crashed(&vfs));
    let numbers = Items::on(&storage, killed.file).numbers().unwrap();
    assert!(numbers.into_iter().eq(0..10));
    let payload = killed.segment_bytes - SEGMENT_HEADER_SIZE;
    let end = storage.wal().insert_lsn().0;
    let path = format!("wal/00000001{:016x}", end / payload);
    let mut rest = vec![1; 3000];
    let file = vfs.open(&path, OpenMode::Existing).unwrap();
    file.read_at(&mut rest, SEGMENT_HEADER_SIZE + end % payload).unwrap();
    assert!(rest.iter().all(|&b| b == 0));
}

/// Recovery gives an answer for any bytes in place of the log, and never panics.
#[test]
fn noise_in_the_log_never_panics() {
    let killed = killed(12, true);
    let mut state = 7u64;
    let end = killed.lsns[11].0;
    for _ in 0..400 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let position = (state >> 33) % end;
        let noise = [(state >> 8) as u8, (state >> 16) as u8, (state >> 24) as u8];
        let copy = killed.overwrite(position, &noise[..=((state as usize >> 60) % 3)]);
        match killed.recovered(copy) {
            Ok(count) => assert!(count <= 12),
            Err(Error::Corruption(_)) => {}
            Err(other) => panic!("{other}"),
        }
    }
}

/// `check` finds damage that recovery would meet, and all damaged pages.
#[test]
fn a_check_finds_damage_in_log_and_files() {
    let vfs = Arc::new(MemoryVfs::new());
    let (storage, _) = open(&env_on(vfs.clone()));
    let items = Items::create(&storage);
    items.extend(40).unwrap();
    for number in 0..80 {
        items.add((number % 40) as u32, &item(number)).unwrap();
    }
    storage.checkpoint(CheckpointKind::Requested, &[]).unwrap();
    let from = items.add(3, &item(80)).unwrap().unwrap();
    items.add(4, &item(81)).unwrap();
    let report = storage.check().unwrap();
    assert!(report.corruptions.is_empty(), "{report:?}");
    assert_eq!((report.blocks, report.files), (40, 1));
    assert_eq!(report.records, 3, "the checkpoint's record and two more");
    // The pool has 32 frames: a check reads the other pages from disk.
    let is_read = |block: &u32| {
        let (file, fork, block) = (items.file.id, Fork::Main, BlockNumber(*block));
        storage.pool().pin_if_resident(PageId { file, fork, block }).is_none()
    };
    let damaged: Vec<u32> = (0..40).filter(is_read).take(2).collect();
    let disk = vfs.open(&format!("base/{}.main", items.file.id), OpenMode::Existing).unwrap();
    for block in &damaged {
        disk.write_at(&[0xee; 3], u64::from(*block) * 8192 + 8000).unwrap();
    }
    let payload = storage.control().wal_segment_bytes - SEGMENT_HEADER_SIZE;
    let path = format!("wal/00000001{:016x}", from.0 / payload);
    let log = vfs.open(&path, OpenMode::Existing).unwrap();
    log.write_at(&[0xee], SEGMENT_HEADER_SIZE + from.0 % payload + 45).unwrap();
    let report = storage.check().unwrap();
    let found: Vec<_> = report.corruptions.iter().map(|c| (c.invariant, c.block)).collect();
    let [one, two] = damaged[..] else { panic!("{damaged:?}") };
    assert_eq!(found, [("checksum", Some(one)), ("checksum", Some(two)), ("W2", None)]);
}

/// Nothing behind the last record can prove damage in it. But a written page holds its record's
/// position, and was not written before the record was durable (W1).
#[test]
fn a_page_that_is_newer_than_the_log_betrays_its_damaged_end() {
    let vfs = Arc::new(MemoryVfs::new());
    let (storage, _) = open_with(
        &env_on(vfs.clone()),
        StorageOptions { shared_buffers: 4, ..StorageOptions::tiny() },
    )
    .unwrap();
    let items = Items::create(&storage);
    items.extend(8).unwrap();
    for number in 0..8 {
        items.add(number as u32, &item(number)).unwrap().unwrap();
    }
    storage.checkpoint(CheckpointKind::Requested, &[]).unwrap();
    items.add(0, &item(100)).unwrap().unwrap();
    let before = storage.wal().insert_lsn();
    let last = items.add(0, &item(101)).unwrap().unwrap();
    storage.wal().flush(last).unwrap();
    let killed = |vfs: &MemoryVfs| Killed {
        vfs: vfs.fork(),
        file: items.file,
        lsns: vec![],
        segment_bytes: storage.control().wal_segment_bytes,
    };
    let unwritten = killed(&vfs);
    // Other pages evict the changed one.
    for block in [1, 2, 3, 4, 5, 6, 7, 1, 2, 3, 4, 5, 6, 7] {
        storage.pool().pin(items.page_id(block)).unwrap();
    }
    let written = killed(&vfs);
    let options = StorageOptions { full_page_writes: false, ..StorageOptions::tiny() };
    let open = |vfs: MemoryVfs| open_with(&env_on(Arc::new(vfs)), options.clone());
    for (killed, known) in [(unwritten, false), (written, true)] {
        // More than one bit, because a single wrong bit would be detected by itself.
        let mut byte = killed.read(before.0 + 60, 1);
        byte[0] ^= 0x55;
        let copy = killed.overwrite(before.0 + 60, &byte);
        match open(copy) {
            Err(Error::Corruption(found)) => assert!(known && found.invariant == "W1", "{found:?}"),
            Err(other) => panic!("{other}"),
            // Nothing proves the damage: the commit of the last record is gone, as if the crash had
            // torn it.
            Ok((storage, summary)) => {
                assert!(!known, "the damage was passed over");
                assert_eq!(summary.end, before);
                let numbers = Items::on(&storage, killed.file).numbers().unwrap();
                assert!(numbers.contains(&100) && !numbers.contains(&101));
            }
        }
    }
}
