//! Tests of the `mixed` flag: rules `unmix-counter` and `mixed-flag`.

use niwaki_storage::{Mixed, OffsetNumber, Tid};

use super::{Fixture, row};
use crate::{HeapOutcome, RowTarget, UpdateKind, VacuumRoots};

impl Fixture {
    pub(super) fn mixed(&self, root: Tid) -> Mixed {
        self.heap().pin(root.block.0).unwrap().read().item_id(root.offset).mixed()
    }

    /// Replaces the row by a heap-only version whose keys differ.
    pub(super) fn change_key(&self, root: Tid, bytes: &[u8], commits: bool) {
        let tx = self.begin(1);
        let snapshot = tx.snapshot_for_write().unwrap();
        let kind = UpdateKind { heap_only: true, mixed: true, key_changed: false };
        let target = RowTarget::visible(root);
        let done = self.heap().update(&tx.view(&snapshot), target, row(bytes), kind).unwrap();
        assert_eq!(done, HeapOutcome::Done { root, heap_only: true });
        drop(snapshot);
        if commits { self.commit(tx) } else { tx.abort() }
    }

    fn prune(&self) {
        let horizon = self.txns.horizon();
        let oldest = niwaki_storage::Xid::INVALID;
        self.heap().vacuum_page(0, &horizon, oldest, true, &mut VacuumRoots::default()).unwrap();
    }
}

#[test]
fn a_change_of_a_key_makes_the_root_mixed_until_it_is_cleaned() {
    let fixture = Fixture::new();
    let root = fixture.chain();
    assert_eq!(fixture.mixed(root), Mixed::No);
    fixture.change_key(root, b"key", true);
    assert_eq!(fixture.mixed(root), Mixed::Yes);
    let heap = fixture.heap();
    let offsets = [root.offset.0];
    assert_eq!(heap.begin_cleaning(0, &offsets).unwrap(), [0u16; 0], "several versions");
    fixture.prune();
    assert_eq!(fixture.mixed(root), Mixed::Yes, "it stays with the line pointer of a redirect");
    let before = heap.unmix_count();
    assert_eq!(heap.clear_mixed(0, &offsets).unwrap(), [0u16; 0], "nobody began to clean");
    assert_eq!(heap.begin_cleaning(0, &offsets).unwrap(), offsets);
    assert_eq!((fixture.mixed(root), heap.unmix_count()), (Mixed::Cleaning, before));
    assert_eq!(heap.clear_mixed(0, &offsets).unwrap(), offsets);
    assert_eq!(fixture.mixed(root), Mixed::No);
    assert_ne!(heap.unmix_count(), before, "scans that read a leaf before look at the key");
}

#[test]
fn a_pass_tells_of_versions_of_mixed_roots() {
    let fixture = Fixture::new();
    let root = fixture.chain();
    fixture.prune();
    assert_eq!(fixture.heap().removed_waiting(), 0, "one entry leads to the row, and stays right");
    fixture.change_key(root, b"key", true);
    fixture.change_key(root, b"yek", false);
    fixture.prune();
    assert_eq!(fixture.heap().removed_waiting(), 2);
    let reported = fixture.heap().take_removed(9);
    let images: Vec<_> =
        reported.iter().map(|reported| (reported.root, &reported.row.bytes[..])).collect();
    assert_eq!(images, [(root, &b"thr"[..]), (root, b"yek")], "removed, and rolled back");
    assert_eq!((fixture.heap().removed_waiting(), fixture.heap().take_removed(9)), (0, vec![]));
}

/// Rule `mixed-flag`: the entry of an update that came and went unseen by the cleaner is still
/// there.
#[test]
fn a_change_during_the_cleaning_keeps_the_root_mixed() {
    let fixture = Fixture::new();
    let root = fixture.chain();
    fixture.change_key(root, b"key", true);
    fixture.prune();
    let heap = fixture.heap();
    let offsets = [root.offset.0];
    assert_eq!(heap.begin_cleaning(0, &offsets).unwrap(), offsets);
    fixture.change_key(root, b"yek", false);
    assert_eq!(fixture.mixed(root), Mixed::Yes);
    fixture.prune();
    assert_eq!(fixture.mixed(root), Mixed::Yes, "neither abort nor pruning clears it");
    assert_eq!(heap.clear_mixed(0, &offsets).unwrap(), [0u16; 0]);
    assert_eq!(fixture.mixed(root), Mixed::Yes);
}

/// Rule `complete-record`: an aborted version that is not pruned yet may have an entry.
#[test]
fn a_root_with_a_version_outside_its_chain_is_not_cleaned() {
    let fixture = Fixture::new();
    let tx = fixture.begin(0);
    let root = fixture.insert(&tx, b"one");
    fixture.commit(tx);
    fixture.change_key(root, b"two", false);
    let heap = fixture.heap();
    assert_eq!(heap.begin_cleaning(0, &[root.offset.0]).unwrap(), [0u16; 0]);
    fixture.prune();
    assert_eq!(heap.begin_cleaning(0, &[root.offset.0]).unwrap(), [root.offset.0]);
    let unused = OffsetNumber(root.offset.0 + 1).0;
    assert_eq!(heap.begin_cleaning(0, &[unused]).unwrap(), [0u16; 0]);
}
