//! Entries come and go in random order: the index keeps the size that it would have if it were
//! built anew.

use std::collections::VecDeque;

use niwaki_env::rng::SeededRng;
use niwaki_storage::{Tid, Xid};

use super::{checked, index, insert};
use crate::{EntryDecision, Index, IndexOptions};

/// Entries at any time.
const ROWS: usize = 20_000;

fn tid(row: usize) -> Tid {
    Tid::new(row as u32 / 100, 1 + (row % 100) as u16)
}

/// Returns the number of pages of the tree, without the metapage.
pub(super) fn pages(index: &Index) -> u32 {
    let report = index.check(&mut |_| {}).unwrap();
    assert!(report.corruptions.is_empty(), "{:#?}", report.corruptions);
    report.leaf_pages + report.inner_pages
}

pub(super) fn build(index: &Index, entries: &[(Vec<u8>, Tid)]) {
    let mut builder = index.builder(Xid::FIRST_NORMAL).unwrap();
    for (key, tid) in entries {
        builder.add(key, b"", *tid).unwrap();
    }
    builder.finish().unwrap();
}

/// Returns the number of pages of an index built anew with these entries.
pub(super) fn built(entries: &[(Vec<u8>, Tid)]) -> u32 {
    let index = index(IndexOptions::default());
    build(&index, entries);
    pages(&index)
}

/// Gives rows other keys, in random order, `redraws` times each. The old entry goes when `lag`
/// other entries came. Looks at the size again and again. Returns the greatest size as a multiple
/// of the pages of a fresh build.
fn churned(index: &Index, redraws: usize, lag: usize, mut each: impl FnMut()) -> f64 {
    let rng = SeededRng::new(7);
    let key = || [&(rng.below(1 << 32) as u32).to_be_bytes()[..], b"as long as a name"].concat();
    let mut keys: Vec<Vec<u8>> = (0..ROWS).map(|_| key()).collect();
    let mut entries: Vec<_> =
        keys.iter().enumerate().map(|(row, key)| (key.clone(), tid(row))).collect();
    entries.sort();
    build(index, &entries);
    let mut old = VecDeque::new();
    let mut most = 0.0f64;
    for step in 1..=redraws * ROWS {
        let row = rng.below(ROWS as u64) as usize;
        let before = std::mem::replace(&mut keys[row], key());
        each();
        insert(index, &keys[row], tid(row));
        old.push_back((before, tid(row)));
        if old.len() > lag {
            let (key, tid) = old.pop_front().unwrap();
            let decide = &mut || Ok((EntryDecision::Delete, None));
            assert!(index.delete_entry(&key, tid, Xid::INVALID, decide).unwrap());
        }
        if step % (ROWS / 2) == 0 {
            let fresh = built(&checked(index));
            let ratio = f64::from(pages(index)) / f64::from(fresh);
            most = most.max(ratio);
        }
    }
    most
}

#[test]
fn an_index_keeps_its_size_when_all_keys_change() {
    // With the greatest lag, old entries take the room that a build leaves free: room is rare, and
    // may be far.
    for (lag, inserts_per_shift) in [(0, 200), (ROWS / 100, 150), (ROWS / 10, 30)] {
        let index = index(IndexOptions::default());
        let most = churned(&index, 10, lag, || {});
        assert!(most <= 1.02, "{most} with a lag of {lag}");
        let stats = index.stats();
        assert!(stats.leaf_shifts < stats.inserts / inserts_per_shift, "{stats:?}");
        assert!(stats.shifted_entries < stats.inserts / 4, "{stats:?}");
    }
}

/// Leaves drift from being full to being half empty, and split whenever they are full.
#[test]
fn without_what_deletions_pay_for_it_grows() {
    let index = index(IndexOptions::default());
    let most = churned(&index, 10, 0, || index.credit.spend(u64::MAX));
    assert!(most > 1.4, "{most}");
    assert_eq!(index.stats().tight_shifts, 0);
}
