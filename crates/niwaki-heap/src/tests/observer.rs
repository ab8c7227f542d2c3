//! Tests of the key observer: under the page's latch, it learns the keys that removed versions
//! leave behind.

use niwaki_env::sync::Mutex;
use niwaki_storage::Mixed;

use super::removed::delete;
use super::*;
use crate::{KeyObserver, KeysLeft, RecordId, RootChangeCount, RowRef};

/// An observer whose keys are the bytes of rows; it knows one index.
#[derive(Debug, Default)]
struct Notes(Mutex<Vec<Note>>);

/// The arguments of one call: root, its record, versions that had come to it, key.
type Note = (Tid, Option<RecordId>, RootChangeCount, Vec<u8>);

impl KeyObserver for Notes {
    fn keys_left(&self, gone: RowRef<'_>, stay: &[RowRef<'_>], left: &mut KeysLeft) -> bool {
        let stays = stay.iter().any(|row| row.bytes == gone.bytes);
        let write = |out: &mut Vec<u8>| {
            out.extend_from_slice(gone.bytes);
            Ok::<_, ()>(!stays)
        };
        left.add(0, write).is_ok()
    }

    fn suspect(
        &self,
        left: &KeysLeft,
        root: Tid,
        record: Option<RecordId>,
        root_change_count: RootChangeCount,
    ) {
        let mut notes = self.0.lock();
        notes.extend(left.iter().map(|(_, key)| (root, record, root_change_count, key.to_vec())));
    }

    fn is_busy(&self) -> bool {
        false
    }

    fn payloads_right(&self) -> bool {
        true
    }
}

/// With an observer, no version is copied. The observer gets the keys that no remaining version
/// has. A root is settled once each of these keys was cleaned up.
#[test]
fn an_observer_is_told_at_once() {
    let fixture = Fixture::new();
    let heap = fixture.heap();
    let notes = Arc::new(Notes::default());
    heap.observe(&(Arc::clone(&notes) as Arc<dyn KeyObserver>));
    let root = inserted(&fixture, b"a");
    fixture.change_key(root, b"b", true);
    fixture.change_key(root, b"a", true);
    heap.prune_page(root.block.0).unwrap();
    assert!(heap.take_removed(usize::MAX).is_empty());
    let reported = std::mem::take(&mut *notes.0.lock());
    let [(of, Some(record), root_change_count, key)] = &reported[..] else {
        panic!("\"a\" stays: {reported:?}")
    };
    assert_eq!((*of, &key[..], heap.entries_reported()), (root, &b"b"[..], 1));
    assert_eq!(heap.root_change_count(root), *root_change_count, "none has come since");
    heap.take_reported(9);
    assert_eq!(heap.entries_reported(), 0);
    let mixed = || {
        heap.prune_page(root.block.0).unwrap();
        fixture.mixed(root)
    };
    assert_eq!(mixed(), Mixed::Yes, "nobody has seen to it");
    heap.note_cleaned(root, *record, true);
    assert_eq!(mixed(), Mixed::No);
    fixture.change_key(root, b"b", true);
    assert_ne!(
        heap.root_change_count(root),
        *root_change_count,
        "what was reported may hold no more"
    );
    assert_eq!(fixture.check(), [""; 0]);
}

/// After a change of the indexes, a former observer is not called, and an answer of it is refused.
#[test]
fn an_observer_speaks_for_its_indexes() {
    let fixture = Fixture::new();
    let heap = fixture.heap();
    let notes = Arc::new(Notes::default());
    let observer = Arc::clone(&notes) as Arc<dyn KeyObserver>;
    heap.observe(&observer);
    let ledger = &fixture.relation.shared.ledger;
    let (before, _) = ledger.observers.current().unwrap();
    let left = KeysLeft::default();
    let root = Tid::new(0, 1);
    assert!(ledger.reported(before, root, true, &left, true).unwrap().is_some());
    drop(heap.pause_freeing().forgetting());
    assert!(ledger.reported(before, root, true, &left, true).is_none(), "it may not know all");
    assert!(ledger.observers.current().is_none());
    let end_one = || {
        let root = inserted(&fixture, b"row");
        delete(&fixture, root);
        heap.prune_page(root.block.0).unwrap();
        (heap.take_removed(usize::MAX).len(), std::mem::take(&mut *notes.0.lock()).len())
    };
    assert_eq!(end_one(), (1, 0), "copied");
    heap.observe(&observer);
    assert_eq!(end_one(), (0, 1), "who holds the table's lock knows its indexes");
}

/// A row that moves leaves an entry in each index, as a row that goes does, but does not count as
/// such a row.
#[test]
fn entries_of_a_row_that_moved_are_not_several() {
    let mut left = KeysLeft::default();
    let mut several = |index| {
        let key = |out: &mut Vec<u8>| {
            out.push(7);
            Ok::<_, ()>(true)
        };
        left.add(index, key).unwrap();
        let found = (left.are_several(), {
            left.moved = true;
            left.are_several()
        });
        left.moved = false;
        found
    };
    assert_eq!(several(0), (false, false));
    assert_eq!(several(1), (true, false));
}
