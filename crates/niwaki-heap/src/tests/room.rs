//! The room of rows that went is found before the heap grows, without vacuum, and although nobody reads past them.

use super::*;

#[test]
fn rows_of_any_size_that_were_deleted_make_room() {
    // What is left of a page beside them: little, or nearly enough for one more.
    for bytes in [300, 900, 1_300, 1_700, 1_950, 2_500] {
        let fixture = Fixture::new();
        let row = vec![7; bytes];
        let fill = || {
            let tx = fixture.begin(0);
            let roots: Vec<_> = (0..120).map(|_| fixture.insert(&tx, &row)).collect();
            fixture.commit(tx);
            roots
        };
        let roots = fill();
        let blocks = fixture.heap().blocks().unwrap();
        let tx = fixture.begin(0);
        let snapshot = tx.snapshot_for_write().unwrap();
        for &root in &roots {
            let target = RowTarget::visible(root);
            let done = fixture.heap().delete(&tx.view(&snapshot), target).unwrap();
            assert!(matches!(done, Outcome::Done { .. }), "{done:?}");
        }
        drop(snapshot);
        fixture.commit(tx);
        fill();
        // The page that was being filled when they went is gone back to last.
        let now = fixture.heap().blocks().unwrap();
        assert!(now <= blocks + 1, "rows of {bytes} bytes: {blocks} pages, then {now}");
        assert_eq!(fixture.check(), [""; 0]);
    }
}
