//! Tests of this crate's decoders against arbitrary bytes: every decoder in [`TARGETS`] answers or
//! refuses, and never panics.
//!
//! [`niwaki_env::hostile`] and the targets under `fuzz/` supply the bytes.

use niwaki_env::hostile::{Target, dense, sparse};

use crate::disk::control::Control;
use crate::disk::file_table::{self, KnownFile};
use crate::ids::{BlockNumber, Fork, Lsn, OffsetNumber, PageId, RelFileId, Xid};
use crate::page::{ItemId, ItemState, PAGE_SIZE, Page, PageKind};
use crate::wal::encode::{Header, RECORD_HEADER_SIZE, decode, is_intact, seal};

/// Each decoder's name, valid inputs to begin with, and the function that calls the decoder.
pub const TARGETS: &[Target] = &[
    ("page", page_seeds, page),
    ("control", control_seeds, control),
    ("file_table", file_table_seeds, file_table),
    ("wal_record", wal_record_seeds, wal_record),
];

fn input_of(page: &Page) -> Vec<u8> {
    dense(&page.0, page.lower(), page.upper())
}

fn id() -> PageId {
    PageId { file: RelFileId(1), fork: Fork::Main, block: BlockNumber(0) }
}

fn page_seeds() -> Vec<Vec<u8>> {
    let mut page = Page::zeroed();
    page.init(PageKind::Heap, 16);
    for number in 1..9 {
        page.insert_item(OffsetNumber(number), &[number as u8; 30]);
    }
    let redirect = ItemId::redirect(OffsetNumber(3));
    page.set_item_id(OffsetNumber(1), redirect);
    page.set_unused(OffsetNumber(5));
    let mut raw = Page::zeroed();
    raw.init(PageKind::FreeSpace, 0);
    let raw = dense(&raw.0, 24, 8192);
    vec![input_of(&page), raw, vec![0; 26]]
}

/// Changes a page in every way: a page that passes the check stays sound. On any other page the
/// accessors return some answer.
fn page(bytes: &[u8]) {
    let page = Page(sparse(bytes));
    // The heap's check (H1) tests that a redirect leads to a tuple.
    let redirects = page.item_ids().filter(|item| item.state() == ItemState::Redirect);
    let dangling = redirects.into_iter().any(|item| !page.item_id(item.target()).is_normal());
    let sound = page.check_structure(id()).is_ok() && !dangling;
    let _ = page.check_deep(id());
    let count = page.item_count();
    for offset in (0..=count.saturating_add(1)).chain([u16::MAX]) {
        let number = OffsetNumber(offset);
        let item = page.item(number);
        assert!(item.is_none() || page.item_id(number).has_storage());
    }
    let stored: usize = page.item_ids().map(|item| usize::from(item.len())).sum();
    let _ = (page.free_bytes(), page.free_for_item(), page.free_bytes_compacted(), stored);
    let _ = (page.special().len(), page.special_size(), page.has_unused(), page.kind());
    page.clone().compute_checksum(id());
    if page.is_new() || !page.kind().is_slotted() {
        return;
    }
    let next = OffsetNumber(count.saturating_add(1));
    let changes: [&dyn Fn(&mut Page); 9] = [
        &|page| page.compact(),
        &|page| _ = page.insert_item(OffsetNumber(1), b"first"),
        &|page| _ = page.insert_item(next, &[7; 100]),
        &|page| _ = page.reserve_item_at(next, 50),
        &|page| _ = page.remove_items(&[OffsetNumber(1), OffsetNumber(3)]),
        &|page| _ = page.overwrite_item(OffsetNumber(2), &[9; 200]),
        &|page| _ = page.overwrite_item(OffsetNumber(2), b"-"),
        &|page| _ = page.set_unused(next),
        &|page| _ = page.trim_unused(),
    ];
    for (number, change) in changes.iter().enumerate() {
        let mut changed = page.clone();
        change(&mut changed);
        if sound && let Err(damage) = changed.check_structure(id()) {
            panic!("change {number} made a sound page unsound: {damage:?}");
        }
    }
}

fn control_seeds() -> Vec<Vec<u8>> {
    let control = Control {
        sequence: 7,
        system: 1,
        timeline: 1,
        clean: true,
        redo: Lsn(100),
        checkpoint: Lsn(200),
        next_file: 20,
        wal_segment_bytes: 16 << 20,
        segment_blocks: 131_072,
        files: crate::TablePlace { number: 1, bytes: 28, crc: 3 },
        filled: true,
        time_us: 1,
    };
    vec![control.encode().to_vec()]
}

/// Decodes the bytes as they are, and again with checksums that fit.
fn control(bytes: &[u8]) {
    let _ = Control::decode(bytes);
    let mut sealed = bytes.to_vec();
    for at in [92, 104] {
        if let Some((front, crc)) = sealed.split_at_mut_checked(at)
            && let Some(crc) = crc.first_chunk_mut::<4>()
        {
            *crc = crc32c::crc32c(front).to_le_bytes();
        }
    }
    if let Ok(Some(control)) = Control::decode(&sealed) {
        assert_eq!(control.encode()[..], sealed[..Control::BYTES]);
    }
}

fn file_table_seeds() -> Vec<Vec<u8>> {
    let mut entry = KnownFile { blocks: 9, ..KnownFile::new(true, Xid(3)) };
    entry.written.add(0, 3);
    entry.written.add(5, 9);
    let empty = KnownFile::new(false, Xid::INVALID);
    let known = [(RelFileId(16), entry), (RelFileId(17), empty)].into();
    vec![Vec::new(), file_table::encode(&known)]
}

/// Checks that a table that was decoded, encoded and decoded again is the same.
fn file_table(bytes: &[u8]) {
    if let Some(known) = file_table::decode(bytes) {
        let again = file_table::encode(&known.clone().into_iter().collect());
        assert_eq!(file_table::decode(&again), Some(known));
    }
}

/// The position that the records are decoded for.
const POSITION: Lsn = Lsn(4096);

/// Returns two records. The first removes, and changes two pages, by data and by an image. The
/// second has no pages.
fn wal_record_seeds() -> Vec<Vec<u8>> {
    let mut record = vec![0; RECORD_HEADER_SIZE];
    record[30..32].copy_from_slice(&[1, 1 | 2 << 3]); // version; removes, pages
    record.extend([5; 16]);
    record.extend([1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 3, 0]);
    record.extend([1, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 1, 1, 0, 0, 24, 0, 0xe0, 0x1f]);
    record.extend([7; 3 + 32 + 9]);
    let mut commit = vec![0; RECORD_HEADER_SIZE + 16];
    commit[28..31].copy_from_slice(&[1, 1, 1]);
    vec![record, commit]
}

/// Decodes the bytes as they are, and again with a length and checksum that fit.
fn wal_record(bytes: &[u8]) {
    take_apart(bytes);
    let _ = is_intact(bytes, POSITION);
    let mut sealed = bytes.to_vec();
    let length = (bytes.len() as u32).to_le_bytes();
    if let Some((head, payload)) = sealed.split_first_chunk_mut::<RECORD_HEADER_SIZE>() {
        head[..4].copy_from_slice(&length);
        head[31] &= !4; // zero
        let crc = seal(crc32c::crc32c(payload), head, POSITION);
        head[4..8].copy_from_slice(&crc.to_le_bytes());
        assert!(is_intact(&sealed, POSITION));
        take_apart(&sealed);
    }
}

fn take_apart(bytes: &[u8]) {
    let Ok(record) = decode(bytes, POSITION) else { return };
    assert!(Header::get(bytes).is_some());
    for page in &record.pages {
        let Some(image) = page.image else { continue };
        assert_eq!(image.bytes.len() + usize::from(image.hole_bytes), PAGE_SIZE);
        assert!(usize::from(image.hole_offset) <= image.bytes.len());
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn any_bytes_are_survived() {
        niwaki_env::hostile::survive(super::TARGETS);
    }
}
