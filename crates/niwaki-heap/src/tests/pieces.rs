//! Rows that are read and ended by address alone.

use super::*;
use crate::{PieceFate, VacuumRoots};

/// Opens a heap of pieces, and a session.
fn pieces() -> Fixture {
    let mut fixture = Fixture::new();
    let file = RelFile { id: fixture.storage.allocate_file(), logged: true };
    fixture.storage.create_file(file, Xid::INVALID).unwrap();
    fixture.relation = HeapRegistry::default().open_pieces(file);
    fixture
}

impl Fixture {
    fn store(&self, tx: &Transaction, bytes: &[u8]) -> Tid {
        self.heap().insert_piece(tx, bytes, false, InsertOptions::default()).unwrap()
    }

    fn piece(&self, tid: Tid) -> Option<Vec<u8>> {
        self.heap().read_piece(tid, <[u8]>::to_vec).unwrap()
    }

    /// Ends the piece at `tid`, if it begins with `first`.
    fn end(&self, tx: &Transaction, tid: Tid, first: u8) -> bool {
        let is_it = |row: &[u8]| (row.first() == Some(&first)).then_some(());
        self.heap().end_piece(tx, tid, is_it).unwrap().is_some()
    }

    fn fate(&self, tid: Tid, first: u8) -> PieceFate {
        let horizon = self.txns.horizon();
        self.heap().piece_fate(tid, &horizon, |row| row.first() == Some(&first)).unwrap()
    }

    fn is_gone(&self, tid: Tid, first: u8) -> bool {
        self.fate(tid, first) == PieceFate::Gone
    }

    fn prune_pieces(&self) {
        let horizon = self.txns.horizon();
        (0..self.heap().blocks().unwrap())
            .for_each(|block| assert!(self.heap().prune_pieces(block, &[], &horizon).unwrap()));
    }
}

#[test]
fn a_piece_lives_from_its_inserter_to_its_end() {
    let fixture = pieces();
    let tx = fixture.begin(0);
    let (a, b) = (fixture.store(&tx, b"a"), fixture.store(&tx, b"b"));
    assert_eq!(fixture.piece(a).as_deref(), Some(&b"a"[..]), "whoever looks");
    fixture.commit(tx);

    let tx = fixture.begin(0);
    assert!(!fixture.end(&tx, a, b'x'), "another was meant");
    assert!(fixture.end(&tx, a, b'a'));
    assert!(!fixture.end(&tx, a, b'a'), "it is ended");
    fixture.prune_pieces();
    assert_eq!(
        (fixture.fate(a, b'a'), fixture.fate(b, b'b')),
        (PieceFate::GoesLater, PieceFate::Stays)
    );
    drop(tx);
    assert_eq!(fixture.fate(a, b'a'), PieceFate::Stays);
    fixture.prune_pieces();
    assert_eq!(fixture.piece(a).as_deref(), Some(&b"a"[..]), "who ended it aborted");

    // A snapshot in its lifetime keeps the row.
    let reader = fixture.begin(1);
    let snapshot = reader.snapshot().unwrap();
    let tx = fixture.begin(0);
    assert!(fixture.end(&tx, a, b'a'));
    fixture.commit(tx);
    fixture.prune_pieces();
    assert!(fixture.piece(a).is_some() && fixture.fate(a, b'a') == PieceFate::GoesLater);
    drop(snapshot);
    drop(reader);
    assert!(fixture.is_gone(a, b'a'));
    fixture.prune_pieces();
    assert_eq!(fixture.piece(a), None);
    assert!(fixture.is_gone(a, b'a'));
    assert_eq!(fixture.piece(b).as_deref(), Some(&b"b"[..]));
    fixture.assert_redo_makes_the_same();
    assert_eq!(fixture.check(), [""; 0]);
}

#[test]
fn line_pointers_of_pieces_are_free_at_once() {
    let fixture = pieces();
    let large = vec![7; 8_000];
    for _ in 0..20 {
        let tx = fixture.begin(0);
        let tid = fixture.store(&tx, &large);
        fixture.commit(tx);
        let tx = fixture.begin(0);
        assert!(fixture.end(&tx, tid, 7));
        fixture.commit(tx);
        fixture.prune_pieces();
    }
    assert!(fixture.heap().blocks().unwrap() <= 2, "each goes where the one before was");
    // A row of an aborted transaction leaves nothing either.
    let tx = fixture.begin(0);
    let tid = fixture.store(&tx, &large);
    drop(tx);
    assert!(fixture.is_gone(tid, 7));
    fixture.prune_pieces();
    assert_eq!(fixture.piece(tid), None);
    fixture.assert_redo_makes_the_same();
}

/// The gardener reads the keys of removed versions. The pieces of such a key go when they are
/// named, not together with other rows of their page.
#[test]
fn pieces_of_keys_outlast_their_life_until_they_are_named() {
    let fixture = pieces();
    let store = |tx: &Transaction, bytes: &[u8]| {
        fixture.heap().insert_piece(tx, bytes, true, InsertOptions::default()).unwrap()
    };
    let tx = fixture.begin(0);
    let (a, b, plain) = (store(&tx, b"a"), store(&tx, b"b"), fixture.store(&tx, b"c"));
    fixture.commit(tx);
    let tx = fixture.begin(0);
    let rolled_back = store(&tx, b"d");
    tx.abort();
    let tx = fixture.begin(0);
    assert!(
        fixture.end(&tx, a, b'a') && fixture.end(&tx, b, b'b') && fixture.end(&tx, plain, b'c')
    );
    fixture.commit(tx);
    fixture.prune_pieces();
    let there = || [a, b, plain, rolled_back].map(|tid| fixture.piece(tid).is_some());
    assert_eq!(there(), [true, true, false, true]);
    assert!(fixture.is_gone(a, b'a') && fixture.is_gone(rolled_back, b'd'), "nobody sees them");
    let named = |tid: Tid| {
        let horizon = fixture.txns.horizon();
        fixture.heap().prune_pieces(tid.block.0, &[tid.offset.0], &horizon).unwrap()
    };
    assert!(named(a) && named(rolled_back));
    assert_eq!(there(), [false, true, false, false]);
    assert_eq!(fixture.check(), [""; 0]);
    // Vacuum visits all entries, and needs no keys; or it leaves the pieces to the gardener.
    let vacuum = |report| {
        let (mut roots, horizon) = (VacuumRoots::default(), fixture.txns.horizon());
        fixture.heap().vacuum_page(b.block.0, &horizon, Xid::INVALID, report, &mut roots).unwrap();
    };
    vacuum(true);
    assert_eq!(there(), [false, true, false, false]);
    vacuum(false);
    assert_eq!(there(), [false; 4]);
    fixture.assert_redo_makes_the_same();
}

#[test]
fn addresses_that_lead_nowhere_give_nothing() {
    let fixture = pieces();
    let tx = fixture.begin(0);
    let tid = fixture.store(&tx, b"a");
    for nowhere in [Tid::new(tid.block.0, 9), Tid::new(9, 1), Tid::new(u32::MAX, 0)] {
        assert_eq!(fixture.piece(nowhere), None);
        assert!(!fixture.end(&tx, nowhere, b'a'));
        assert!(fixture.is_gone(nowhere, b'a'));
    }
    assert!(fixture.is_gone(tid, b'b'), "another row is there");
}
