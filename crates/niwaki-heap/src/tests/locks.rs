//! Rows locked in memory, when they move and when their line pointers would be freed.

use niwaki_txn::RowLockMode;

use super::*;
use crate::Blocker;

/// Locks the row at `root` as `tx` sees it.
fn lock(fixture: &Fixture, tx: &Transaction, root: Tid, mode: RowLockMode) -> HeapOutcome {
    let snapshot = tx.snapshot_for_write().unwrap();
    fixture.heap().lock(&tx.view(&snapshot), RowTarget::visible(root), mode).unwrap()
}

/// Replaces the row at `root` by one that does not fit on its page, or by a new root there.
pub(super) fn moved(fixture: &Fixture, tx: &Transaction, root: Tid, bytes: &[u8]) -> Tid {
    let snapshot = tx.snapshot_for_write().unwrap();
    let kind = UpdateKind { heap_only: false, mixed: false, key_changed: false };
    let view = tx.view(&snapshot);
    let done = fixture.heap().update(&view, RowTarget::visible(root), row(bytes), kind).unwrap();
    tx.next_command().unwrap();
    match done {
        HeapOutcome::Done { root, heap_only: false } => root,
        other => panic!("{other:?}"),
    }
}

fn delete(fixture: &Fixture, tx: &Transaction, root: Tid) -> HeapOutcome {
    let snapshot = tx.snapshot_for_write().unwrap();
    fixture.heap().delete(&tx.view(&snapshot), RowTarget::visible(root)).unwrap()
}

fn vacuum(fixture: &Fixture) -> (Vec<Tid>, u32) {
    let mut roots = crate::VacuumRoots::default();
    let heap = fixture.heap();
    let paused = heap.pause_freeing();
    let horizon = fixture.txns.horizon();
    for block in 0..fixture.heap().blocks().unwrap() {
        fixture.heap().vacuum_page(block, &horizon, Xid::INVALID, true, &mut roots).unwrap();
    }
    let dead: Vec<Tid> = roots.dead.iter().collect();
    let mut freed = 0;
    for tid in &dead {
        let offsets = [tid.offset.0];
        freed += fixture.heap().free_dead(&paused, tid.block.0, &offsets, &horizon).unwrap();
    }
    (dead, freed)
}

/// Rule `root-identity`, for a move to another page and for a new root on the same page.
#[test]
fn who_shares_a_row_shares_it_after_its_move() {
    for bytes in [20, 8000] {
        let fixture = Fixture::new();
        let tx = fixture.begin(0);
        let root = fixture.insert(&tx, b"first");
        fixture.insert(&tx, &[9; 500]);
        fixture.commit(tx);
        let sharer = fixture.begin(1);
        let done = HeapOutcome::Done { root, heap_only: true };
        assert_eq!(lock(&fixture, &sharer, root, RowLockMode::KeyShare), done);
        // Neither of two moves waits for the sharer.
        let tx = fixture.begin(0);
        let second = moved(&fixture, &tx, root, &vec![1; bytes]);
        fixture.commit(tx);
        let tx = fixture.begin(0);
        let third = moved(&fixture, &tx, second, &vec![2; bytes / 2]);
        fixture.commit(tx);
        assert!(second != root && third != second);
        assert_eq!(second.block == root.block, bytes == 20);
        // The key stays shared: no transaction may delete the row, or lock it for a deletion.
        let other = fixture.begin(2);
        let locks = fixture.txns.locks();
        let key = fixture.heap().row_key(third);
        let wait = HeapOutcome::Wait(Blocker::Row(key));
        assert_eq!(delete(&fixture, &other, third), wait);
        assert_eq!(lock(&fixture, &other, third, RowLockMode::Update), wait);
        assert!(matches!(
            lock(&fixture, &other, third, RowLockMode::NoKeyUpdate),
            HeapOutcome::Done { .. }
        ));
        fixture.commit(sharer);
        assert!(locks.row_is_free(&other, key, RowLockMode::Update));
        assert!(!locks.any_row_locks());
        assert!(matches!(delete(&fixture, &other, third), HeapOutcome::Done { .. }));
        fixture.commit(other);
        assert_eq!(fixture.check(), [""; 0]);
    }
}

/// A transaction that queues for a row waits for the transaction that has it, which must not queue
/// behind the first.
#[test]
fn who_has_a_row_is_told_so_when_sharers_are_in_the_way() {
    for changes in [false, true] {
        let fixture = Fixture::new();
        let root = inserted(&fixture, b"first");
        let key = fixture.heap().row_key(root);
        let done = HeapOutcome::Done { root, heap_only: true };
        let sharer = fixture.begin(1);
        assert_eq!(lock(&fixture, &sharer, root, RowLockMode::KeyShare), done);
        assert_eq!(delete(&fixture, &fixture.begin(2), root), HeapOutcome::Wait(Blocker::Row(key)));
        let tx = fixture.begin(0);
        let taken = if changes {
            fixture.update(&tx, root, b"second")
        } else {
            lock(&fixture, &tx, root, RowLockMode::NoKeyUpdate)
        };
        assert_eq!(taken, done);
        assert_eq!(delete(&fixture, &tx, root), HeapOutcome::Wait(Blocker::OwnRow(key)));
        tx.abort();
        assert_eq!(delete(&fixture, &fixture.begin(2), root), HeapOutcome::Wait(Blocker::Row(key)));
    }
}

/// A rolled-back move leaves the lock at its place. The root that it made stays until the sharer
/// ends.
#[test]
fn a_locked_root_is_not_freed() {
    let fixture = Fixture::new();
    let tx = fixture.begin(0);
    let root = fixture.insert(&tx, b"first");
    fixture.commit(tx);
    let sharer = fixture.begin(1);
    lock(&fixture, &sharer, root, RowLockMode::KeyShare);
    let tx = fixture.begin(0);
    let second = moved(&fixture, &tx, root, b"second");
    tx.abort();
    assert_eq!(vacuum(&fixture), (vec![second], 0), "a locked root was freed");
    assert!(matches!(
        delete(&fixture, &fixture.begin(0), root),
        HeapOutcome::Wait(Blocker::Row(_))
    ));
    let tx = fixture.begin(0);
    let third = moved(&fixture, &tx, root, b"third");
    assert_ne!(third, second);
    fixture.commit(tx);
    // The first root's version goes; its line pointer stays too.
    let (mut dead, freed) = vacuum(&fixture);
    dead.sort_unstable();
    assert_eq!((dead, freed), (vec![root, second], 0));
    sharer.abort();
    assert_eq!(vacuum(&fixture).1, 2);
    assert!(!fixture.txns.locks().any_row_locks());
    assert_eq!(fixture.check(), [""; 0]);
}

/// A rollback to a savepoint releases the lock at every root.
#[test]
fn a_rollback_releases_where_the_row_went() {
    let fixture = Fixture::new();
    let tx = fixture.begin(0);
    let root = fixture.insert(&tx, b"first");
    fixture.commit(tx);
    let sharer = fixture.begin(1);
    sharer.savepoint("s");
    lock(&fixture, &sharer, root, RowLockMode::KeyShare);
    let tx = fixture.begin(0);
    let second = moved(&fixture, &tx, root, b"second");
    fixture.commit(tx);
    assert!(matches!(delete(&fixture, &fixture.begin(0), second), HeapOutcome::Wait(_)));
    sharer.rollback_to("s").unwrap();
    assert!(!fixture.txns.locks().any_row_locks());
    assert!(matches!(delete(&fixture, &fixture.begin(0), second), HeapOutcome::Done { .. }));
    drop(sharer);
}
