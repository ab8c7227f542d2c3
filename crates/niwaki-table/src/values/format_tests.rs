//! Tests that `docs/internals/format.md` describes the bytes that the code writes.

use niwaki_storage::{Tid, Xid};
use niwaki_types::{Compression, ValuePointer};

use crate::values::pieces::write_piece;

const FORMAT: &str = include_str!("../../../../docs/internals/format.md");

/// Compares bytes with the table under a heading: field after field, up to the end.
fn assert_fields(heading: &str, bytes: &[u8], expected: &[(&str, u64)]) {
    let (_, section) = FORMAT.split_once(&format!("### {heading}\n")).expect("the section");
    let rows = section.lines().skip_while(|line| !line.starts_with("| offset")).skip(2);
    let mut at = 0;
    let mut fields = rows.take_while(|line| line.starts_with('|')).map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let size = if cells[1].is_empty() { bytes.len() - at } else { cells[1].parse().unwrap() };
        assert_eq!(cells[0].parse::<usize>().unwrap(), at, "{heading}");
        at += size;
        let found = bytes[at - size..at].iter().rev();
        (cells[2], found.fold(0u64, |sum, &byte| (sum << 8) | u64::from(byte)))
    });
    for expected in expected {
        assert_eq!(fields.next(), Some(*expected), "{heading}");
    }
    assert_eq!(fields.next(), None, "{heading}");
    drop(fields);
    assert_eq!(at, bytes.len(), "{heading}");
}

#[test]
fn pointers_are_as_described() {
    let pointer = ValuePointer {
        compression: Compression::Lz4,
        raw_length: 0x0403_0201,
        stored_length: 0x0013_1211,
        xid: 0x2827_2625_2423_2221,
        block: 0x3433_3231,
        offset: 0x4241,
    };
    assert_fields(
        "Pointer to a value",
        &pointer.to_bytes(),
        &[
            ("method", 1),
            ("raw_length", 0x0403_0201),
            ("stored_length", 0x0013_1211),
            ("xid", 0x2827_2625_2423_2221),
            ("block", 0x3433_3231),
            ("offset", 0x4241),
        ],
    );
    let sizes = format!("0xc2, {}", ValuePointer::SIZE);
    assert!(FORMAT.contains(&sizes), "{sizes}");
}

#[test]
fn pieces_are_as_described() {
    let mut row = Vec::new();
    let next = Tid::new(0x3433_3231, 0x4241);
    write_piece(Xid(0x0807_0605_0403_0201), 0x1413_1211, next, b"ab", &mut row);
    assert_fields(
        "Piece of a value",
        &row,
        &[
            ("xid", 0x0807_0605_0403_0201),
            ("rest", 0x1413_1211),
            ("next_block", 0x3433_3231),
            ("next_offset", 0x4241),
            ("bytes", 0x6261),
        ],
    );
}
