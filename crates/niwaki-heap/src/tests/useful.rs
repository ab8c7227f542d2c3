//! Passes over full pages are made where they free something, and nowhere else.

use niwaki_txn::Transaction;

use super::*;

/// Rows of 700 bytes that leave no room on their page for another one.
const ROWS: usize = 11;

/// Inserts rows that fill page 0.
fn full_page(fixture: &Fixture) -> Vec<Tid> {
    let tx = fixture.begin(2);
    let rows: Vec<_> = (0..ROWS).map(|_| fixture.insert(&tx, &[1; 700])).collect();
    fixture.commit(tx);
    assert!(rows.iter().all(|row| row.block.0 == 0), "{rows:?}");
    rows
}

/// Updates a row in a statement of its own. Returns whether the row stayed on its page.
fn stays(fixture: &Fixture, tx: &Transaction, root: Tid) -> bool {
    match fixture.update(tx, root, &[2; 700]) {
        HeapOutcome::Done { root: now, heap_only } => {
            assert_eq!(heap_only, now.block == root.block);
            heap_only
        }
        other => panic!("{other:?}"),
    }
}

fn delete(fixture: &Fixture, tx: &Transaction, root: Tid) {
    let snapshot = tx.snapshot_for_write().unwrap();
    let target = RowTarget::visible(root);
    let done = fixture.heap().delete(&tx.view(&snapshot), target).unwrap();
    assert!(matches!(done, HeapOutcome::Done { .. }), "{done:?}");
}

/// A bulk update found its page full for each row, and planned a whole pass each time. There was
/// nothing to remove but versions that it had ended itself.
#[test]
fn a_bulk_update_makes_no_pass_that_frees_nothing() {
    let fixture = Fixture::new();
    let mut rows = full_page(&fixture);
    let mut blocks = Vec::new();
    for _ in 0..6 {
        let tx = fixture.begin(0);
        for root in &mut rows {
            match fixture.update(&tx, *root, &[2; 700]) {
                HeapOutcome::Done { root: now, .. } => *root = now,
                other => panic!("{other:?}"),
            }
        }
        fixture.commit(tx);
        blocks.push(fixture.heap().blocks().unwrap());
    }
    let counters = fixture.relation.counters.read();
    assert_eq!(counters.fruitless, 0, "{blocks:?}");
    assert!(counters.pruned_by_horizon > 0, "pages were pruned all the same: {counters:?}");
    // As many pages as with a pass for each row.
    assert_eq!(blocks, [3, 3, 3, 3, 3, 3]);
    assert_eq!(fixture.check(), [""; 0]);
    fixture.assert_redo_makes_the_same();
}

/// The session remembers that nothing goes from the page. A commit ends that.
#[test]
fn a_page_with_own_versions_is_pruned_once_another_transaction_commits() {
    let fixture = Fixture::new();
    let rows = full_page(&fixture);
    let (own, other) = (fixture.begin(0), fixture.begin(1));
    delete(&fixture, &other, rows[0]);
    assert!(!stays(&fixture, &own, rows[1]));
    assert!(!stays(&fixture, &own, rows[2]));
    fixture.commit(other);
    assert!(stays(&fixture, &own, rows[3]), "the deleted row makes room");
    assert!(!stays(&fixture, &own, rows[4]));
    fixture.commit(own);
    assert_eq!(fixture.relation.counters.read().fruitless, 0);
    assert_eq!(fixture.check(), [""; 0]);
}

/// Another transaction that rolls back is no commit, and its rows are garbage all the same.
#[test]
fn a_page_with_own_versions_is_pruned_once_another_transaction_aborts() {
    let fixture = Fixture::new();
    let first = full_page(&fixture)[0];
    // The other transaction's row is on the full page.
    let tx = fixture.begin(2);
    delete(&fixture, &tx, first);
    fixture.commit(tx);
    let (own, other) = (fixture.begin(0), fixture.begin(1));
    assert!(stays(&fixture, &other, Tid::new(0, 2)), "the deleted row makes room");
    assert!(!stays(&fixture, &own, Tid::new(0, 3)));
    assert!(!stays(&fixture, &own, Tid::new(0, 4)));
    other.abort();
    assert!(stays(&fixture, &own, Tid::new(0, 5)), "the rolled-back version makes room");
    fixture.commit(own);
    assert_eq!(fixture.check(), [""; 0]);
}

/// The end of a snapshot is no commit either.
#[test]
fn a_page_with_own_versions_is_pruned_once_a_report_ends() {
    let fixture = Fixture::new();
    let rows = full_page(&fixture);
    let report = fixture.begin(1);
    let snapshot = report.snapshot().unwrap();
    let tx = fixture.begin(2);
    delete(&fixture, &tx, rows[0]);
    fixture.commit(tx);
    let own = fixture.begin(0);
    assert!(!stays(&fixture, &own, rows[1]));
    assert!(!stays(&fixture, &own, rows[2]));
    drop(snapshot);
    report.abort();
    assert!(stays(&fixture, &own, rows[3]), "no snapshot sees the deleted row");
    fixture.commit(own);
    assert_eq!(fixture.check(), [""; 0]);
}

/// A pass that removes nothing brings the prune hint up to date. So does a walk in its place:
/// background passes over quiet pages depend on the hint.
#[test]
fn a_walk_leaves_the_hint_that_a_pass_would_leave() {
    let fixture = Fixture::new();
    let rows = full_page(&fixture);
    let hint = || page::prune_xid(&fixture.heap().pin(0).unwrap().read());
    let tx = fixture.begin(1);
    delete(&fixture, &tx, rows[0]);
    tx.abort();
    // The end that did not happen is written over, and the hint stays.
    let tx = fixture.begin(1);
    delete(&fixture, &tx, rows[0]);
    let (stale, deleter) = (hint(), tx.xid().unwrap());
    assert_ne!(u64::from(stale), deleter.0);
    let own = fixture.begin(0);
    assert!(!stays(&fixture, &own, rows[1]));
    assert_eq!(u64::from(hint()), deleter.0);
    fixture.commit(own);
    fixture.commit(tx);
    assert_eq!(fixture.relation.counters.read().fruitless, 0);
}

/// Versions of a level that was rolled back are garbage, although the transaction goes on.
#[test]
fn a_page_with_own_versions_is_pruned_after_a_rollback_to_a_savepoint() {
    let fixture = Fixture::new();
    let rows = full_page(&fixture);
    let tx = fixture.begin(2);
    delete(&fixture, &tx, rows[0]);
    fixture.commit(tx);
    let own = fixture.begin(0);
    own.savepoint("s");
    assert!(stays(&fixture, &own, rows[1]), "the deleted row makes room");
    assert!(!stays(&fixture, &own, rows[2]));
    own.rollback_to("s").unwrap();
    assert!(stays(&fixture, &own, rows[3]), "the level's version makes room");
    fixture.commit(own);
    assert_eq!(fixture.check(), [""; 0]);
}
