//! Checks `docs/internals/format.md` against the code. Every row of its tables about the index is
//! looked up in bytes that the code made, from values that show where they are.

use niwaki_storage::page::Page;
use niwaki_storage::{BlockNumber, OffsetNumber, Tid};

use crate::page::change::SplitLeft;
use crate::page::layout::{IndexPage, Meta, flag};
use crate::page::tuple::{info, posting_bytes, push_leaf, push_pivot};

const FORMAT: &str = include_str!("../../../../docs/internals/format.md");

/// Returns the rows of the table under a heading: position, size (`None`: to the end), name.
fn table(heading: &str) -> Vec<(usize, Option<usize>, String)> {
    let start = FORMAT.find(&format!("### {heading}\n")).unwrap_or_else(|| panic!("no {heading}"));
    let rows: Vec<_> = FORMAT[start..]
        .lines()
        .skip(1)
        .take_while(|line| !line.starts_with('#'))
        .filter(|line| {
            line.starts_with("| ") && line[2..].starts_with(|c: char| c.is_ascii_digit())
        })
        .map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            (cells[0].parse().unwrap(), cells[1].parse().ok(), cells[2].to_owned())
        })
        .collect();
    assert!(!rows.is_empty(), "{heading} has no rows");
    let mut end = 0;
    for (at, size, name) in &rows {
        assert_eq!(*at, end, "{heading}: {name} does not follow the row before");
        end = at + size.unwrap_or(0);
    }
    rows
}

/// Compares the numbers that the document finds in `bytes` with the expected ones, name by name.
fn holds(heading: &str, bytes: &[u8], expected: &[(&str, u64)]) {
    let rows = table(heading);
    for (at, size, name) in &rows {
        let Some(size) = size else { continue };
        let mut number = [0; 8];
        number[..*size].copy_from_slice(&bytes[*at..at + size]);
        let (_, value) = expected
            .iter()
            .find(|(expected, _)| expected == name)
            .unwrap_or_else(|| panic!("{heading}: no expectation for {name}"));
        assert_eq!(u64::from_le_bytes(number), *value, "{heading}: {name}");
    }
    let fixed = rows.iter().filter(|(_, size, _)| size.is_some()).count();
    assert_eq!(fixed, expected.len(), "{heading}: rows");
    if rows.iter().all(|(_, size, _)| size.is_some()) {
        let end = rows.last().map_or(0, |(at, size, _)| at + size.unwrap_or(0));
        assert_eq!(end, bytes.len(), "{heading}: size");
    }
}

/// Returns the bits of a flags table.
fn bits(heading: &str) -> Vec<(String, u16)> {
    let mask = |at: usize, size: usize| (((1u32 << size) - 1) << at) as u16;
    table(heading).into_iter().map(|(at, size, name)| (name, mask(at, size.unwrap()))).collect()
}

#[test]
fn special_area() {
    let mut page = Page::zeroed();
    page.init_index(0x0a0b, flag::LEAF | flag::INCOMPLETE_SPLIT);
    page.set_prev(BlockNumber(0x01020304));
    page.set_next(BlockNumber(0x05060708));
    let expected = [
        ("prev", 0x01020304),
        ("next", 0x05060708),
        ("level", 0x0a0b),
        ("flags", 5),
        ("reserved", 0),
    ];
    holds("Index special area", page.special(), &expected);
    assert_eq!(page.special_offset(), 8176);
}

#[test]
fn flags() {
    let code = [
        ("leaf", flag::LEAF),
        ("meta", flag::META),
        ("incomplete_split", flag::INCOMPLETE_SPLIT),
        ("half_dead", flag::HALF_DEAD),
        ("deleted", flag::DELETED),
    ];
    let documented = bits("Index page flags");
    assert_eq!(documented, code.map(|(name, bit)| (name.to_owned(), bit)));
    assert_eq!(documented.iter().fold(0, |all, (_, bit)| all | bit), flag::ALL);
    let code = [
        ("key_length", info::KEY_LENGTH),
        ("has_tid", info::HAS_TID),
        ("posting", info::POSTING),
        ("pivot", info::PIVOT),
        ("spare", 0x8000),
    ];
    assert_eq!(bits("Index tuple info"), code.map(|(name, bit)| (name.to_owned(), bit)));
}

#[test]
fn metapage() {
    let meta = Meta {
        root: BlockNumber(0x01020304),
        level: 0x0506,
        fast_root: BlockNumber(0x0708090a),
        fast_level: 0x0b0c,
        deleted_pages: 0x0d0e0f10,
    };
    let mut page = Page::zeroed();
    meta.write_new(&mut page);
    let expected = [
        ("magic", 0x4257_694e),
        ("version", 1),
        ("flags", 0),
        ("root", 0x01020304),
        ("fast_root", 0x0708090a),
        ("level", 0x0506),
        ("fast_level", 0x0b0c),
        ("deleted_pages", 0x0d0e0f10),
        ("reserved", 0),
    ];
    holds("Index metapage", page.item(OffsetNumber(1)).unwrap(), &expected);
    assert_eq!(&page.item(OffsetNumber(1)).unwrap()[..4], b"NiWB");
}

#[test]
fn tuples() {
    let tid = Tid::new(0x01020304, 0x0506);
    let mut leaf = Vec::new();
    push_leaf(&mut leaf, b"key", b"payload", tid);
    let expected = [("block", 0x01020304), ("offset", 0x0506), ("info", 3)];
    holds("Index leaf entry", &leaf, &expected);
    assert_eq!(&leaf[8..], b"keypayload");

    let mut pivot = Vec::new();
    push_pivot(&mut pivot, BlockNumber(0x0a0b0c0d), b"key", Some(tid));
    let expected = [("downlink", 0x0a0b0c0d), ("zero", 0), ("info", 0x5003)];
    holds("Index pivot", &pivot, &expected);
    assert_eq!(&pivot[8..], b"key\x04\x03\x02\x01\x06\x05");

    let posting = posting_bytes(b"key", &[tid, Tid::new(0x01020304, 0x0507)]);
    let expected = [("count", 2), ("zero", 0), ("info", 0x2003)];
    holds("Index posting list", &posting, &expected);
    assert_eq!(&posting[8..], b"key\x04\x03\x02\x01\x06\x05\x04\x03\x02\x01\x07\x05");
    assert!(FORMAT.contains(&format!(
        "most {} bytes, a pivot {}.",
        crate::page::tuple::ENTRY_MAX,
        crate::page::tuple::ENTRY_MAX + 6
    )));
}

#[test]
fn split_data() {
    let split = SplitLeft {
        kept: 0x0102,
        new_at: Some(0x0001),
        into_list: true,
        right: BlockNumber(0x05060708),
        high_key: b"high",
        new_tuple: b"new",
    };
    let expected = [
        ("kept", 0x0102),
        ("position", 1),
        ("high_key_bytes", 4),
        ("into_list", 1),
        ("reserved", 0),
        ("right", 0x05060708),
    ];
    holds("Index split data", &split.encode(), &expected);
    assert_eq!(&split.encode()[12..], b"highnew");
    let goes_right = SplitLeft { new_at: None, into_list: false, ..split }.encode();
    assert_eq!(&goes_right[2..4], [255, 255]);
    assert_eq!(&goes_right[12..], b"high");
}

#[test]
fn records() {
    use crate::page::wal::kind;
    let start = FORMAT.find("### Records of the index\n").unwrap();
    let documented: Vec<&str> = FORMAT[start..]
        .lines()
        .skip(1)
        .take_while(|line| !line.starts_with('#'))
        .filter(|line| line.starts_with("| ") && line.as_bytes()[2].is_ascii_digit())
        .map(|line| line[2..].split(" |").next().unwrap())
        .collect();
    let code = [
        (kind::INSERT_LEAF, "insert leaf"),
        (kind::INSERT_INNER, "insert inner"),
        (kind::SPLIT, "split"),
        (kind::SPLIT_SIBLING, "split, with sibling"),
        (kind::SPLIT_CHILD, "split, with child"),
        (kind::SPLIT_BOTH, "split, with both"),
        (kind::NEW_ROOT, "new root"),
        (kind::META, "meta"),
        (kind::DELETE, "delete"),
        (kind::CLEAR_DEAD, "clear dead"),
        (kind::PAGES, "pages"),
        (kind::INSERT_INSIDE, "insert inside"),
        (kind::DEDUP, "deduplicate"),
        (kind::HALF_DEAD, "half dead"),
        (kind::UNLINK, "unlink"),
        (kind::UNLINK_BETWEEN, "unlink between"),
        (kind::GROW_LIST, "grow list"),
        (kind::SHIFT, "shift"),
        (kind::SET_PAYLOAD, "set payload"),
        (kind::MERGE, "merge"),
    ];
    assert_eq!(documented, code.map(|(number, name)| format!("{number} {name}")));
}
