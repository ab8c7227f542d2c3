//! Tests that `docs/internals/format.md` describes the code's formats.

use niwaki_storage::Tid;
use niwaki_storage::page::{HEADER_SIZE, PAGE_SIZE, Page};

use crate::format::header::{Header, TUPLE_HEADER_SIZE, flags};
use crate::format::page::{self, SPECIAL_SIZE};

const FORMAT: &str = include_str!("../../../docs/internals/format.md");

/// Returns offset, size and name of each field in the table under a heading.
fn table(heading: &str) -> Vec<(usize, usize, &'static str)> {
    let (_, section) = FORMAT.split_once(&format!("### {heading}\n")).expect("the section");
    let rows = section.lines().skip_while(|line| !line.starts_with("| offset")).skip(2);
    rows.take_while(|line| line.starts_with('|'))
        .map(|line| {
            let mut cells = line.trim_matches('|').split('|').map(str::trim);
            let mut number = || cells.next().unwrap().parse().unwrap();
            let (offset, size) = (number(), number());
            (offset, size, cells.next().unwrap())
        })
        .collect()
}

/// Checks that the fields lie one behind the other, end at `end`, and hold the expected values, in
/// order.
fn assert_fields(heading: &str, bytes: &[u8], end: usize, expected: &[(&str, u64)]) {
    let fields = table(heading);
    assert_eq!(fields.len(), expected.len(), "{heading}");
    let mut at = 0;
    for ((offset, size, name), (expected_name, value)) in fields.into_iter().zip(expected) {
        assert_eq!((offset, name), (at, *expected_name), "{heading}");
        at += size;
        let found = bytes[offset..at].iter().rev().fold(0u64, |sum, &b| (sum << 8) | u64::from(b));
        assert_eq!(found, *value, "{heading}: {name}");
    }
    assert_eq!(at, end, "{heading}");
}

#[test]
fn the_tuple_header_is_as_described() {
    let header = Header {
        xmin: 0x0102_0304,
        xmax: 0x1112_1314,
        cid: 0x2122_2324,
        link: Tid::new(0x3132_3334, 0x4142),
        root: 0x5152,
        flags: 0x0162,
        natts: 0x7172,
    };
    assert_fields(
        "Tuple header",
        &header.to_bytes(),
        TUPLE_HEADER_SIZE,
        &[
            ("xmin", 0x0102_0304),
            ("xmax", 0x1112_1314),
            ("cid", 0x2122_2324),
            ("link_block", 0x3132_3334),
            ("link_offset", 0x4142),
            ("root", 0x5152),
            ("flags", 0x0162),
            ("natts", 0x7172),
        ],
    );
}

#[test]
fn the_special_area_is_as_described() {
    let mut page = Page::zeroed();
    page::init(&mut page, 0x0102_0304_0506);
    page::bump_incarnation(&mut page);
    page::note_prunable(&mut page, 0x0708);
    assert_fields(
        "Heap special area",
        page.special(),
        SPECIAL_SIZE,
        &[("xid_base", 0x0102_0304_0506), ("incarnation", 1), ("prune_xid", 0x0708)],
    );
}

#[test]
fn the_tuple_flags_are_as_described() {
    let named = [
        ("HAS_NULLS", flags::HAS_NULLS),
        ("HAS_EXTERNAL", flags::HAS_EXTERNAL),
        ("XMAX_LOCK_ONLY", flags::XMAX_LOCK_ONLY),
        ("KEYS_UPDATED", flags::KEYS_UPDATED),
        ("UPDATED", flags::UPDATED),
        ("HEAP_ONLY", flags::HEAP_ONLY),
        ("HEAP_UPDATED", flags::HEAP_UPDATED),
        ("STUB", flags::STUB),
        ("COMBO_CID", flags::COMBO_CID),
        ("RELINKED", flags::RELINKED),
        ("XMIN_ALL_VISIBLE", flags::XMIN_ALL_VISIBLE),
        ("XMIN_ABORTED", flags::XMIN_ABORTED),
        ("XMAX_ABORTED", flags::XMAX_ABORTED),
        ("MOVED", flags::MOVED),
        ("zero", flags::RESERVED),
    ];
    let described: Vec<(&str, u16)> = table("Tuple flags")
        .into_iter()
        .map(|(offset, size, name)| (name, (((1u32 << size) - 1) << offset) as u16))
        .collect();
    assert_eq!(described, named);
}

#[test]
fn the_record_kinds_are_as_described() {
    use crate::format::change::kind;
    let (_, section) = FORMAT.split_once("### Records of the heap\n").expect("the section");
    let described: Vec<(u8, &str)> = section
        .lines()
        .skip_while(|line| !line.starts_with("| kind"))
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .map(|line| {
            let mut cells = line.trim_matches('|').split('|').map(str::trim);
            (cells.next().unwrap().parse().unwrap(), cells.next().unwrap())
        })
        .collect();
    let expected = [
        (kind::INSERT, "insert"),
        (kind::MULTI_INSERT, "multi-insert"),
        (kind::UPDATE, "update"),
        (kind::MOVE, "move"),
        (kind::DELETE, "delete"),
        (kind::LOCK, "lock"),
        (kind::PRUNE, "prune"),
        (kind::MIXED, "mixed"),
        (kind::REBASE, "rebase"),
        (kind::UNMIXED, "unmixed"),
        (kind::VISIBLE, "visible"),
    ];
    assert_eq!(described, expected);
}

#[test]
fn the_free_space_map_is_as_described() {
    let pages = crate::PAGES_PER_MAP_PAGE;
    assert_eq!(pages, PAGE_SIZE - HEADER_SIZE);
    assert!(FORMAT.contains(&format!("heap page {pages} × m + n")));
}

#[test]
fn the_visibility_map_is_as_described() {
    use crate::format::map_page::{SetBits, redo};
    use crate::{BLOCKS_PER_VISIBILITY_PAGE, PageVisibility};
    assert_eq!(BLOCKS_PER_VISIBILITY_PAGE as usize, 4 * (PAGE_SIZE - HEADER_SIZE));
    assert!(FORMAT.contains("heap page 32,672 × m + n"), "{BLOCKS_PER_VISIBILITY_PAGE}");
    let mut data = Vec::new();
    let (to, newest) = (PageVisibility::AllFrozen, niwaki_storage::Csn(0x0102));
    SetBits { block: 32_672 + 6, to, newest }.encode(&mut data);
    assert_eq!(data, [3, 0xa6, 0x7f, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0]);
    let mut page = Page::zeroed();
    assert!(redo(&mut page, niwaki_storage::BlockNumber(0), &data).is_none(), "another page's");
    assert!(redo(&mut page, niwaki_storage::BlockNumber(1), &data).is_some());
    assert_eq!(page.0[24 + 6 / 4], 3 << (2 * (6 % 4)));
    assert_eq!(page.0.iter().filter(|byte| **byte != 0).count(), 1);
}
