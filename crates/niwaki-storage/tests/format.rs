//! Tests of `docs/internals/format.md` against the code: every row of its tables is looked up in
//! real bytes.

use std::collections::BTreeMap;
use std::sync::Arc;

use niwaki_env::Env;
use niwaki_env::vfs::{MemoryVfs, OpenMode};
use niwaki_storage::page::{HEADER_SIZE, PAGE_SIZE};
use niwaki_storage::wal::{
    BLOCK_HEADER_SIZE, IMAGE_HEADER_SIZE, RECORD_HEADER_SIZE, SEGMENT_HEADER_SIZE, SHORT_FILE_SIZE,
    SHORT_REMOVES_SIZE, SegmentHeader,
};
use niwaki_storage::*;

const FORMAT: &str = include_str!("../../../docs/internals/format.md");

/// Returns offset, size and name of each field in the table under a heading.
fn table(heading: &str) -> Vec<(usize, usize, &'static str)> {
    let section = FORMAT
        .split_once(&format!("### {heading}\n"))
        .unwrap_or_else(|| panic!("no section {heading}"))
        .1;
    section
        .lines()
        .skip_while(|line| !line.starts_with("| offset"))
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .map(|line| {
            let mut cells = line.trim_matches('|').split('|').map(str::trim);
            let mut number = || cells.next().unwrap().parse().unwrap();
            let (offset, size) = (number(), number());
            (offset, size, cells.next().unwrap())
        })
        .collect()
}

/// Checks that the fields are contiguous and end at `end`.
fn assert_covers(fields: &[(usize, usize, &str)], end: usize) {
    let mut at = 0;
    for (offset, size, name) in fields {
        assert_eq!(*offset, at, "{name}");
        at += size;
    }
    assert_eq!(at, end);
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |sum, &byte| (sum << 8) | u64::from(byte))
}

/// Checks that every field of the table has the value expected under its name.
fn assert_fields(heading: &str, bytes: &[u8], expected: &[(&str, u64)]) {
    let expected: BTreeMap<&str, u64> = expected.iter().copied().collect();
    let fields = table(heading);
    assert_eq!(fields.len(), expected.len(), "{heading}: fields");
    for (offset, size, name) in fields {
        let found = number(&bytes[offset..offset + size]);
        assert_eq!(found, expected[name], "{heading}: {name} at {offset}");
    }
}

#[test]
fn page_header() {
    assert_covers(&table("Page header"), HEADER_SIZE);
    let (storage, file, _) = storage_with_records();
    let id = PageId { file: file.id, fork: Fork::Main, block: BlockNumber(2) };
    storage.checkpoint(CheckpointKind::Requested, &[]).unwrap();
    let page = (*storage.pool().pin(id).unwrap().read()).clone();
    let mut disk = Page::zeroed();
    let path = format!("base/{}.main", file.id);
    let open = storage.env().vfs.open(&path, OpenMode::Existing).unwrap();
    open.read_at(&mut disk.0, 2 * PAGE_SIZE as u64).unwrap();
    let checksum = disk.compute_checksum(id);
    assert_fields(
        "Page header",
        &disk.0,
        &[
            ("lsn", page.lsn().0),
            ("checksum", u64::from(checksum)),
            ("flags", 0x8000 | 0x5a),
            ("lower", u64::from(page.lower())),
            ("upper", u64::from(page.upper())),
            ("special", PAGE_SIZE as u64 - 32),
            ("kind", PageKind::Heap as u64),
            ("version", 1),
            ("reserved", 0),
        ],
    );
    assert_eq!(u64::from(page.lower()), HEADER_SIZE as u64 + 4 * 3);
}

#[test]
fn line_pointer() {
    let fields = table("Line pointer");
    assert_covers(&fields, 32);
    let item = ItemId::normal(0x1234, 0x0abc)
        .with_state(ItemState::Redirect)
        .with_mixed(Mixed::Yes)
        .with_moved_in(true);
    let expected: BTreeMap<&str, u32> = [
        ("offset", 0x1234),
        ("length", 0x0abc),
        ("state", 2),
        ("mixed", 2),
        ("moved_in", 1),
        ("spare", 0),
    ]
    .into();
    for (offset, size, name) in fields {
        assert_eq!((item.0 >> offset) & ((1 << size) - 1), expected[name], "{name}");
    }
}

#[test]
fn table_of_files() {
    let (entry, run) = (table("Entry of the table of files"), table("Run of the table of files"));
    assert_covers(&entry, 28);
    assert_covers(&run, 8);
    let (storage, file, _) = storage_with_records();
    storage.checkpoint(CheckpointKind::Requested, &[]).unwrap();
    let place = storage.control().files;
    let mut bytes = vec![0; place.bytes as usize];
    let name = format!("files.{}", place.number);
    let open = storage.env().vfs.open(&name, OpenMode::Existing).unwrap();
    assert_eq!(open.read_at(&mut bytes, 0).unwrap(), bytes.len());
    assert_eq!(crc32c::crc32c(&bytes), place.crc);
    let blocks = storage.pool().blocks(file.id, Fork::Main).unwrap();
    let expected = [
        ("file", file.id.0),
        ("creator", 5),
        ("logged", 1),
        ("blocks", u64::from(blocks)),
        ("runs", 1),
    ];
    assert_fields("Entry of the table of files", &bytes, &expected);
    let end = number(&bytes[32..36]);
    assert!(end > 0 && end <= u64::from(blocks), "{end} of {blocks}");
    assert_fields("Run of the table of files", &bytes[28..], &[("first", 1), ("end", end)]);
    assert_eq!(bytes.len(), 36);
}

#[test]
fn control_slot() {
    assert_covers(&table("Control slot"), Control::BYTES);
    let control = Control {
        sequence: 11,
        system: 0x0123_4567_89ab_cdef,
        timeline: 13,
        clean: true,
        redo: Lsn(14),
        checkpoint: Lsn(15),
        next_file: 16,
        wal_segment_bytes: 17,
        segment_blocks: 18,
        files: TablePlace { number: 2, bytes: 20, crc: 21 },
        filled: true,
        time_us: -19,
    };
    let bytes = control.encode();
    assert_eq!(Control::decode(&bytes).unwrap(), Some(control));
    assert_fields(
        "Control slot",
        &bytes,
        &[
            ("magic", u64::from_le_bytes(*b"NIWAKCTL")),
            ("format", u64::from(FORMAT_VERSION)),
            ("page_bytes", PAGE_SIZE as u64),
            ("sequence", 11),
            ("system", 0x0123_4567_89ab_cdef),
            ("timeline", 13),
            ("state", 1),
            ("redo", 14),
            ("checkpoint", 15),
            ("next_file", 16),
            ("wal_segment_bytes", 17),
            ("segment_blocks", 18),
            ("flags", 6),
            ("time_us", (-19i64).cast_unsigned()),
            ("zero", 0),
            ("crc", u64::from(crc32c::crc32c(&bytes[..92]))),
            ("files_bytes", 20),
            ("files_crc", 21),
            ("crc2", u64::from(crc32c::crc32c(&bytes[..104]))),
        ],
    );
    // A change of any byte makes the slot unsound.
    for at in 12..bytes.len() {
        let mut harmed = bytes;
        harmed[at] ^= 1;
        assert_eq!(Control::decode(&harmed).unwrap(), None, "byte {at}");
    }
}

/// A sound directory with pages of another size was called damaged.
#[test]
fn a_control_slot_of_another_page_size_is_refused_by_name() {
    let (storage, _, _) = storage_with_records();
    let mut bytes = storage.control().encode();
    bytes[12..16].copy_from_slice(&16384_u32.to_le_bytes());
    for at in [92, 104] {
        let crc = crc32c::crc32c(&bytes[..at]);
        bytes[at..at + 4].copy_from_slice(&crc.to_le_bytes());
    }
    let refused = Control::decode(&bytes).unwrap_err();
    assert!(matches!(refused, Error::Refused(_)), "{refused}");
    assert!(refused.to_string().contains("has pages of 16384 bytes"), "{refused}");
}

#[test]
fn segment_header() {
    assert_covers(&table("Segment header"), SegmentHeader::BYTES);
    let (storage, _, _) = storage_with_records();
    let control = storage.control();
    let open = storage.env().vfs.open("wal/000000010000000000000000", OpenMode::Existing).unwrap();
    let mut bytes = vec![1; SEGMENT_HEADER_SIZE as usize];
    open.read_at(&mut bytes, 0).unwrap();
    assert_fields(
        "Segment header",
        &bytes,
        &[
            ("magic", u64::from_le_bytes(*b"NIWAKWAL")),
            ("format", u64::from(FORMAT_VERSION)),
            ("timeline", u64::from(control.timeline)),
            ("system", control.system),
            ("number", 0),
            ("file_bytes", control.wal_segment_bytes),
            ("zero", 0),
            ("crc", u64::from(crc32c::crc32c(&bytes[..44]))),
        ],
    );
    assert!(bytes[SegmentHeader::BYTES..].iter().all(|&b| b == 0));
}

/// Makes a storage with two records: one with an interval, two pages (an image and data) and a
/// body.
fn storage_with_records() -> (Arc<Storage>, RelFile, (Lsn, Lsn)) {
    let env = Env { vfs: Arc::new(MemoryVfs::new()), ..Env::memory() };
    let (storage, _) = Storage::open(env, StorageOptions::tiny(), Vec::new()).unwrap();
    let file = RelFile { id: storage.allocate_file(), logged: true };
    storage.create_file(file, Xid(5)).unwrap();
    storage.pool().extend(file, Fork::Main, 3).unwrap();
    let before = storage.wal().insert_lsn();
    storage.wal().flush(before).unwrap();
    let pin = |block| {
        let id = PageId { file: file.id, fork: Fork::Main, block: BlockNumber(block) };
        storage.pool().pin(id).unwrap()
    };
    let (mut first, mut second) = (pin(1).into_write(), pin(2).into_write());
    for page in [&mut first, &mut second] {
        page.init(PageKind::Heap, 32);
        page.set_flags(0x5a);
        for number in 0..3 {
            page.add_item(&[number; 21]).unwrap();
        }
        page.set_unused(OffsetNumber(2));
    }
    let lsn = storage
        .log(Record {
            manager: Manager::Nbtree,
            kind: 0x22,
            version: 0x33,
            xid: Xid(0x0102_0304_0506_0708),
            body: &[b"bo", b"dy"],
            pages: &mut [
                LoggedPage::image(&mut first),
                LoggedPage::init(&mut second, &[b"da", b"ta."]),
            ],
            removes: Some((Csn(77), Csn(88))),
        })
        .unwrap();
    drop((first, second));
    storage.wal().flush(lsn).unwrap();
    (storage, file, (before, lsn))
}

#[test]
fn record() {
    let (storage, file, (before, lsn)) = storage_with_records();
    let open = storage.env().vfs.open("wal/000000010000000000000000", OpenMode::Existing).unwrap();
    let mut bytes = vec![0; (lsn.0 - before.0) as usize];
    open.read_at(&mut bytes, SEGMENT_HEADER_SIZE + before.0).unwrap();
    let page = storage
        .pool()
        .pin(PageId { file: file.id, fork: Fork::Main, block: BlockNumber(1) })
        .unwrap();
    let page = (*page.read()).clone();
    let hole = u64::from(page.upper() - page.lower());
    let image_bytes = PAGE_SIZE - hole as usize;

    assert_covers(&table("Record header"), RECORD_HEADER_SIZE);
    let names_at = RECORD_HEADER_SIZE + SHORT_REMOVES_SIZE;
    let payload_at = names_at + 2 * BLOCK_HEADER_SIZE + SHORT_FILE_SIZE + IMAGE_HEADER_SIZE;
    let length = payload_at + image_bytes + 5 + 4;
    assert_eq!(bytes.len(), length.next_multiple_of(8));
    assert!(bytes[length..].iter().all(|&b| b == 0));
    let crc = crc32c::crc32c(&bytes[RECORD_HEADER_SIZE..length]);
    let crc = crc32c::crc32c_append(crc, &bytes[..4]);
    let crc = crc32c::crc32c_append(crc, &bytes[8..RECORD_HEADER_SIZE]);
    let crc = crc32c::crc32c_append(crc, &before.0.to_le_bytes());
    assert_fields(
        "Record header",
        &bytes,
        &[
            ("length", length as u64),
            ("crc", u64::from(crc)),
            ("place", before.0 / 8),
            // The record of the file's creation: a header and nine bytes, padded.
            ("previous", (RECORD_HEADER_SIZE as u64 + 9).next_multiple_of(8)),
            ("durable", 0),
            ("xid", 0x0102_0304_0506_0708),
            ("manager", Manager::Nbtree as u64),
            ("kind", 0x22),
            ("version", 0x33),
            ("flags_pages", 2 + 2 * 8),
        ],
    );
    assert_eq!(number(&bytes[RECORD_HEADER_SIZE..RECORD_HEADER_SIZE + 8]), 77);
    assert_eq!(number(&bytes[RECORD_HEADER_SIZE + 8..names_at]), 88 - 77);

    assert_covers(&table("Page name in a record"), BLOCK_HEADER_SIZE);
    let name = |block, flags, data| {
        [("block", block), ("fork", 0), ("flags", flags), ("data_bytes", data)]
    };
    assert_fields("Page name in a record", &bytes[names_at..], &name(1, 1 + 4, 0));
    let file_at = names_at + BLOCK_HEADER_SIZE;
    let image_at = file_at + SHORT_FILE_SIZE;
    assert_eq!(number(&bytes[file_at..image_at]), file.id.0);
    assert_covers(&table("Image header in a record"), IMAGE_HEADER_SIZE);
    assert_fields(
        "Image header in a record",
        &bytes[image_at..],
        &[("hole_offset", u64::from(page.lower())), ("hole_bytes", hole)],
    );
    let second_at = image_at + IMAGE_HEADER_SIZE;
    assert_fields("Page name in a record", &bytes[second_at..], &name(2, 2 + 8, 5));

    let image = &bytes[payload_at..payload_at + image_bytes];
    // After the LSN, which is stamped when the record is inserted.
    assert_eq!(image[12..usize::from(page.lower())], page.0[12..usize::from(page.lower())]);
    assert_eq!(image[usize::from(page.lower())..], page.0[usize::from(page.upper())..]);
    let rest = &bytes[payload_at + image_bytes..length];
    assert_eq!(rest, b"data.body");
}
