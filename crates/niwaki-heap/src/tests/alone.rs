//! Rows that are read and ended by address alone.

use super::*;

/// A heap of pieces, and a session.
fn pieces() -> Fixture {
    let mut fixture = Fixture::new();
    let file = RelFile { id: fixture.storage.allocate_file(), logged: true };
    fixture.storage.create_file(file, Xid::INVALID).unwrap();
    fixture.relation = HeapRegistry::default().open_pieces(file);
    fixture
}

impl Fixture {
    fn piece(&self, tid: Tid) -> Option<Vec<u8>> {
        self.heap().read_alone(tid, <[u8]>::to_vec).unwrap()
    }

    /// Ends the piece at `tid`, if it begins with `first`.
    fn end(&self, tx: &Transaction, tid: Tid, first: u8) -> bool {
        let is_it = |row: &[u8]| (row.first() == Some(&first)).then_some(());
        self.heap().end_alone(tx, tid, is_it).unwrap().is_some()
    }

    fn is_gone(&self, tid: Tid, first: u8) -> bool {
        let horizon = self.txns.horizon();
        self.heap().is_gone_alone(tid, &horizon, |row| row.first() == Some(&first)).unwrap()
    }

    fn prune_pieces(&self) {
        let horizon = self.txns.horizon();
        (0..self.heap().blocks().unwrap())
            .for_each(|block| self.heap().prune_alone(block, &horizon).unwrap());
    }
}

#[test]
fn a_piece_lives_from_its_inserter_to_its_end() {
    let fixture = pieces();
    let tx = fixture.begin(0);
    let (a, b) = (fixture.insert(&tx, b"a"), fixture.insert(&tx, b"b"));
    assert_eq!(fixture.piece(a).as_deref(), Some(&b"a"[..]), "whoever looks");
    fixture.commit(tx);

    let tx = fixture.begin(0);
    assert!(!fixture.end(&tx, a, b'x'), "another was meant");
    assert!(fixture.end(&tx, a, b'a'));
    assert!(!fixture.end(&tx, a, b'a'), "it is ended");
    fixture.prune_pieces();
    assert!(!fixture.is_gone(a, b'a'));
    drop(tx);
    fixture.prune_pieces();
    assert_eq!(fixture.piece(a).as_deref(), Some(&b"a"[..]), "who ended it aborted");

    // A snapshot in its life keeps it.
    let reader = fixture.begin(1);
    let snapshot = reader.snapshot().unwrap();
    let tx = fixture.begin(0);
    assert!(fixture.end(&tx, a, b'a'));
    fixture.commit(tx);
    fixture.prune_pieces();
    assert!(fixture.piece(a).is_some() && !fixture.is_gone(a, b'a'));
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
        let tid = fixture.insert(&tx, &large);
        fixture.commit(tx);
        let tx = fixture.begin(0);
        assert!(fixture.end(&tx, tid, 7));
        fixture.commit(tx);
        fixture.prune_pieces();
    }
    assert!(fixture.heap().blocks().unwrap() <= 2, "each goes where the one before was");
    // One that aborts leaves nothing either.
    let tx = fixture.begin(0);
    let tid = fixture.insert(&tx, &large);
    drop(tx);
    assert!(fixture.is_gone(tid, 7));
    fixture.prune_pieces();
    assert_eq!(fixture.piece(tid), None);
    fixture.assert_redo_makes_the_same();
}

#[test]
fn addresses_that_lead_nowhere_give_nothing() {
    let fixture = pieces();
    let tx = fixture.begin(0);
    let tid = fixture.insert(&tx, b"a");
    for nowhere in [Tid::new(tid.block.0, 9), Tid::new(9, 1), Tid::new(u32::MAX, 0)] {
        assert_eq!(fixture.piece(nowhere), None);
        assert!(!fixture.end(&tx, nowhere, b'a'));
        assert!(fixture.is_gone(nowhere, b'a'));
    }
    assert!(fixture.is_gone(tid, b'b'), "another row is there");
}
