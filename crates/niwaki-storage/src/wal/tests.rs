//! Tests of records as bytes, and of the log under several threads.

use std::sync::Arc;

use niwaki_env::Env;
use niwaki_env::sync::thread;
use niwaki_env::vfs::MemoryVfs;

use super::encode::{Header, RECORD_HEADER_SIZE, decode, is_intact, seal};
use super::insert::record_bytes;
use super::record::{Manager, Record};
use crate::directory::storage::{Storage, StorageOptions};
use crate::ids::{Csn, Lsn, Xid};

fn plain<'a>(body: &'a [&'a [u8]]) -> Record<'a, 'static> {
    Record {
        manager: Manager::Transaction,
        kind: 1,
        version: 1,
        xid: Xid(9),
        body,
        pages: &mut [],
        removes: None,
    }
}

/// Every record with the right checksum and arbitrary contents is refused or decoded.
#[test]
fn hostile_records_never_panic() {
    let mut state = 88_172_645_463_325_252u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut taken = 0;
    for _ in 0..20_000 {
        let payload = (random() % 120) as usize;
        let mut bytes = vec![0; RECORD_HEADER_SIZE + payload];
        // Small numbers make plausible flags, counts and lengths.
        let mask = if random() % 2 == 0 { 0x03 } else { 0xff };
        bytes[RECORD_HEADER_SIZE..].iter_mut().for_each(|b| *b = random() as u8 & mask);
        let position = Lsn(random());
        let mut header = Header {
            length: bytes.len() as u32,
            crc: 0,
            place: random() as u32,
            previous: random() as u32,
            durable: random() as u32,
            xid: random(),
            manager: random() as u8 % 8,
            kind: random() as u8,
            version: 1,
            flags: random() as u8 & 3,
            pages: random() as u8 % 4,
        };
        let mut front = [0; RECORD_HEADER_SIZE];
        header.put(&mut front);
        header.crc = seal(crc32c::crc32c(&bytes[RECORD_HEADER_SIZE..]), &front, position);
        header.put(&mut front);
        bytes[..RECORD_HEADER_SIZE].copy_from_slice(&front);
        assert!(is_intact(&bytes, position));
        // A leftover of an older use of the file, 32 GiB or any other distance before.
        assert!(!is_intact(&bytes, Lsn(position.0 ^ 1 << (random() % 64))));
        assert_eq!(Header::get(&bytes), Some(header));
        taken += u32::from(decode(&bytes, position).is_ok());
        // Bytes with a wrong checksum are not decoded at all.
        let at = (random() % bytes.len() as u64) as usize;
        bytes[at] ^= 1 << (random() % 8);
        assert!(!is_intact(&bytes, position));
    }
    assert!(taken > 1000, "nearly everything is refused: {taken}");
}

#[test]
fn threads_share_syncs_and_every_record_is_read_back() {
    const THREADS: u64 = 4;
    const EACH: u64 = 300;
    let vfs = Arc::new(MemoryVfs::new());
    let env = Env { vfs: vfs.clone(), ..Env::memory() };
    let (storage, _) = Storage::open(env, StorageOptions::tiny(), Vec::new()).unwrap();
    let from = storage.wal().insert_lsn();
    thread::scope(|scope| {
        for who in 0..THREADS {
            let storage = &storage;
            scope.spawn(move || {
                for number in 0..EACH {
                    let text = vec![who as u8; 10 + (number % 500) as usize];
                    let body: [&[u8]; 3] = [&who.to_le_bytes(), &number.to_le_bytes(), &text];
                    let lsn = storage.log(plain(&body)).unwrap();
                    if number % 3 == 0 {
                        storage.wal().flush(lsn).unwrap();
                        assert!(storage.wal().flushed() >= lsn);
                    }
                }
            });
        }
    });
    let end = storage.wal().insert_lsn();
    storage.wal().flush(end).unwrap();
    let statistics = storage.wal().statistics();
    assert!(statistics.records >= THREADS * EACH);
    assert!(statistics.syncs <= THREADS * EACH / 3 + 20, "{statistics:?}");
    let mut reader = super::WalReader::new(&storage.wal().segments, from);
    let mut next = [0; THREADS as usize];
    let mut previous = Lsn(0);
    while let Some((bytes, at)) = reader.next().unwrap() {
        let record = decode(bytes, at).unwrap();
        assert!(record.lsn > previous && record.xid == Xid(9));
        previous = record.lsn;
        let who = u64::from_le_bytes(record.body[..8].try_into().unwrap());
        let number = u64::from_le_bytes(record.body[8..16].try_into().unwrap());
        assert_eq!(number, next[who as usize], "records of one thread stay in order");
        assert_eq!(record.body.len(), 26 + (number % 500) as usize);
        next[who as usize] += 1;
    }
    assert_eq!(next, [EACH; THREADS as usize]);
    assert_eq!(previous, end);
    // Checkpoints reuse the files of old segments for new parts of the log.
    let files = || storage.wal().segments.list().unwrap();
    let before = files();
    storage.checkpoint(crate::CheckpointKind::Requested, &[]).unwrap();
    let after = files();
    assert!(after[0] > before[0] && after.len() <= before.len() + 1, "{before:?} {after:?}");
}

/// The interval that a record removes is read back as it was written, in short form where its
/// length fits 32 bits.
#[test]
fn intervals_of_any_length_come_back() {
    let (storage, _) = Storage::open(Env::memory(), StorageOptions::tiny(), Vec::new()).unwrap();
    let from = storage.wal().insert_lsn();
    let short = u64::from(u32::MAX);
    let intervals = [(7, 7), (7, 7 + short), (7, 8 + short), (0, u64::MAX), (9, 8)];
    for (from, to) in intervals {
        let before = storage.wal().insert_lsn();
        let removes = Some((Csn(from), Csn(to)));
        let lsn = storage.log(Record { removes, ..plain(&[b"body"]) }).unwrap();
        let bytes = record_bytes(&[], removes) as u64;
        // The body's four bytes fit into the padding behind a short interval, and take eight more
        // bytes behind a long one.
        let is_short = (7..=7 + short).contains(&to) && from == 7;
        assert_eq!(lsn.0 - before.0, if is_short { bytes } else { bytes + 8 }, "{from} {to}");
    }
    storage.wal().flush(storage.wal().insert_lsn()).unwrap();
    let mut reader = super::WalReader::new(&storage.wal().segments, from);
    for (from, to) in intervals {
        let (bytes, at) = reader.next().unwrap().unwrap();
        let record = decode(bytes, at).unwrap();
        assert_eq!((record.removes, record.body), (Some((Csn(from), Csn(to))), &b"body"[..]));
    }
}

#[test]
fn a_record_longer_than_the_buffer_and_a_segment_fits() {
    let vfs = Arc::new(MemoryVfs::new());
    let env = Env { vfs: vfs.clone(), ..Env::memory() };
    let (storage, _) = Storage::open(env, StorageOptions::tiny(), Vec::new()).unwrap();
    let from = storage.wal().insert_lsn();
    let long = vec![5; 300_000];
    let lsn = storage.log(plain(&[&long])).unwrap();
    storage.wal().flush(lsn).unwrap();
    let mut reader = super::WalReader::new(&storage.wal().segments, from);
    let (bytes, at) = reader.next().unwrap().unwrap();
    assert_eq!(decode(bytes, at).unwrap().body, &long[..]);
    assert!(reader.next().unwrap().is_none());
    reader.check_end(lsn).unwrap();
    assert!(reader.check_end(Lsn(lsn.0 + 8)).is_err());
}
