//! INSERT … ON CONFLICT beside sessions that insert, change, delete and clean up the same rows.
//!
//! Run inside a schedule (`schedules`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use niwaki_env::rng::SeededRng;
use niwaki_table::{
    HeapOnlyUpdates, NewestVersion, PageRows, RowTarget, UpdateOutcome, Upsert, Workspace,
};
use niwaki_txn::{RowLockMode, Snapshot, Transaction};
use niwaki_types::{ColumnMask, Datum};

use crate::schedules::seed;
use crate::two_row_table::{Actor, COLUMNS, ON_A, TwoRowTable, integer, row, transaction};

/// Number of rows that are counted in.
const KEYS: usize = 2;

/// Returns the values of a version that was handed out.
fn values(fixture: &TwoRowTable, version: &NewestVersion) -> Vec<Datum> {
    let (stored, mut out) = (&version.row, vec![Datum::Null; COLUMNS]);
    let (natts, nulls, all) = (stored.natts, stored.has_nulls, ColumnMask::all(COLUMNS));
    fixture.table.deform_parts(natts, nulls, &stored.bytes, &all, &mut out).expect("a row");
    out
}

/// Executes INSERT (id, a, 1) ON CONFLICT (the key of `arbiter`) DO UPDATE SET b = b + 1. Returns
/// the row that was there.
fn count_in(
    fixture: &TwoRowTable,
    tx: &Transaction,
    snapshot: &Snapshot,
    (id, a): (i32, i32),
    arbiter: usize,
) -> Option<Vec<Datum>> {
    let (table, mut work) = (&fixture.table, Workspace::new());
    let lock = Some(RowLockMode::NoKeyUpdate);
    let outcome = table.insert_or_lock(tx, snapshot, &row(id, a, 1), &[arbiter], lock, &mut work);
    let found = match outcome.expect("a single row waits for nobody who waits for it") {
        Upsert::Inserted(_) => return None,
        Upsert::Locked(found) => found,
        other => panic!("{other:?}"),
    };
    let old = values(fixture, &found);
    let mut new = old.clone();
    new[2] = Datum::Int4(integer(&old[2]) + 1);
    let done = table.update(tx, snapshot, found.target, &old, &new, &mut work);
    assert!(matches!(done, Ok(UpdateOutcome::Done { .. })), "a locked row is updated: {done:?}");
    Some(old)
}

/// Changes or deletes the newest version of a row, as `change` does it with a version. Returns the
/// values of that version, if there is one.
fn newest(
    fixture: &TwoRowTable,
    mut target: RowTarget,
    mut old: Vec<Datum>,
    mut change: impl FnMut(RowTarget, &[Datum]) -> niwaki_table::Result<UpdateOutcome>,
) -> Option<Vec<Datum>> {
    // Ends: the version that was handed out is locked.
    loop {
        match change(target, &old).expect("who has one row waits for nobody who waits for it") {
            UpdateOutcome::Done { .. } => return Some(old),
            UpdateOutcome::Gone => return None,
            UpdateOutcome::Changed(version) => {
                old = values(fixture, &version);
                target = version.target;
            }
            UpdateOutcome::SelfModified => panic!("it was not changed before"),
        }
    }
}

/// Deletes the row of an id, if there is one, and returns the row's b.
fn delete(fixture: &TwoRowTable, tx: &Transaction, snapshot: &Snapshot, id: i32) -> i32 {
    let seen = rows(fixture, tx, snapshot);
    let Some((root, found)) = seen.into_iter().find(|(_, found)| found[0] == id) else { return 0 };
    let old = row(found[0], found[1], found[2]);
    let change = |target, _: &[Datum]| fixture.table.delete(tx, snapshot, target);
    newest(fixture, RowTarget::visible(root), old, change).map_or(0, |old| integer(&old[2]))
}

/// Gives the row of an id another key.
fn move_key(fixture: &TwoRowTable, tx: &Transaction, id: i32, a: i32) {
    let snapshot = tx.snapshot_for_write().expect("a snapshot");
    let (target, old) = fixture.find(tx, &snapshot, id);
    let mut work = Workspace::new();
    let moved = newest(fixture, target, old, |target, old| {
        let new = row(id, a, integer(&old[2]));
        fixture.table.update(tx, &snapshot, target, old, &new, &mut work)
    });
    assert!(moved.is_some(), "nobody deletes it");
}

/// Returns all rows, by their roots.
fn rows(
    fixture: &TwoRowTable,
    tx: &Transaction,
    snapshot: &Snapshot,
) -> Vec<(niwaki_storage::Tid, [i32; COLUMNS])> {
    let (mut page, mut found) = (PageRows::new(), Vec::new());
    let mut out = vec![Datum::Null; COLUMNS];
    let mut scan = fixture.table.seq_scan(0..fixture.table.blocks().expect("blocks"));
    while scan.next_page(&fixture.table, tx, snapshot, &mut page).expect("a page") {
        for stored in page.iter() {
            fixture.table.deform(stored, &ColumnMask::all(COLUMNS), &mut out).expect("a row");
            found.push((stored.root, [0, 1, 2].map(|column| integer(&out[column]))));
        }
    }
    found
}

/// Returns the rows that every session sees, each once.
fn final_rows(fixture: &TwoRowTable) -> BTreeMap<i32, [i32; COLUMNS]> {
    let mut by_id = BTreeMap::new();
    transaction(&fixture.engine, |tx| {
        let snapshot = tx.snapshot().expect("a snapshot");
        for (_, found) in rows(fixture, tx, &snapshot) {
            assert!(by_id.insert(found[0], found).is_none(), "id {} twice", found[0]);
        }
        true
    });
    by_id
}

/// Runs three sessions that count in two rows, with rollbacks, one that deletes the rows, and one
/// that cleans up. Nothing is lost or counted twice, and there is one row for each key.
///
/// # Panics
/// When a sum is wrong, a row is there twice, or an invariant does not hold.
pub fn counters() {
    let seed = seed();
    let updates = [HeapOnlyUpdates::AnyKey, HeapOnlyUpdates::SameKeys];
    let mut fixture = TwoRowTable::new(updates[(seed % 2) as usize]);
    fixture.index_on_a(true);
    let arbiter = [0, ON_A][(seed / 2 % 2) as usize];
    let sums: Arc<[AtomicI32; KEYS]> = Arc::new([AtomicI32::new(0), AtomicI32::new(1)]);
    let mut actors: Vec<Actor> = Vec::new();
    for actor in 0..4 {
        let (sums, rng) = (Arc::clone(&sums), SeededRng::new(seed ^ actor << 32));
        actors.push(Box::new(move |fixture: &TwoRowTable| {
            for _ in 0..3 {
                let (key, commits) = (rng.below(KEYS as u64) as i32, !rng.chance(1, 4));
                let mut counted = 0;
                transaction(&fixture.engine, |tx| {
                    let snapshot = tx.snapshot_for_write().expect("a snapshot");
                    counted = if actor == 0 {
                        -delete(fixture, tx, &snapshot, key)
                    } else {
                        count_in(fixture, tx, &snapshot, (key, key), arbiter);
                        1
                    };
                    commits
                });
                if commits {
                    sums[key as usize].fetch_add(counted, Ordering::SeqCst);
                }
            }
        }));
    }
    actors.push(Box::new(|fixture: &TwoRowTable| (0..2).for_each(|_| fixture.clean())));
    fixture.play(actors);
    let found = final_rows(&fixture);
    for (key, sum) in (0i32..).zip(sums.iter()) {
        let counted = found.get(&key).map_or(0, |row| row[2]);
        assert_eq!(counted, sum.load(Ordering::SeqCst), "key {key}");
    }
    assert!(found.len() <= KEYS, "{found:?}");
}

/// `conflict-recheck`: a row is found by its key, and gets another key before it is locked.
///
/// # Panics
/// When a row is taken for one that has the key.
pub fn key_moves() {
    let fixture = TwoRowTable::any_key(true);
    fixture.play(vec![
        Box::new(|fixture: &TwoRowTable| {
            transaction(&fixture.engine, |tx| {
                let snapshot = tx.snapshot_for_write().expect("a snapshot");
                if let Some(old) = count_in(fixture, tx, &snapshot, (2, 0), ON_A) {
                    assert_eq!(integer(&old[1]), 0, "a row of another key was updated");
                }
                true
            });
        }),
        Box::new(|fixture: &TwoRowTable| {
            transaction(&fixture.engine, |tx| {
                move_key(fixture, tx, 0, 5);
                true
            });
        }),
    ]);
    let found = final_rows(&fixture);
    let counted = found[&0][2] + found.get(&2).map_or(0, |row| row[2]);
    assert_eq!(counted, 1, "{found:?}");
}

/// Runs three sessions that insert rows with shared keys in two arbiters, DO NOTHING, with
/// rollbacks. A session that got the answer that its row is there has it. No session waits in vain,
/// and no rolled back row is left.
///
/// # Panics
/// As [`counters`].
pub fn two_arbiters() {
    let seed = seed();
    let fixture = TwoRowTable::any_key(true);
    let inserted = Arc::new(AtomicI32::new(0));
    let mut actors: Vec<Actor> = Vec::new();
    for (actor, keys) in (0u64..).zip([(5, 7), (6, 7), (5, 8)]) {
        let (inserted, rng) = (Arc::clone(&inserted), SeededRng::new(seed ^ actor << 32));
        actors.push(Box::new(move |fixture: &TwoRowTable| {
            let (mut there, commits) = (false, !rng.chance(1, 4));
            transaction(&fixture.engine, |tx| {
                let snapshot = tx.snapshot_for_write().expect("a snapshot");
                let (new, mut work) = (row(keys.0, keys.1, 0), Workspace::new());
                let arbiters = [0, ON_A];
                let outcome =
                    fixture.table.insert_or_lock(tx, &snapshot, &new, &arbiters, None, &mut work);
                there = matches!(outcome.expect("no deadlock"), Upsert::Inserted(_));
                commits
            });
            inserted.fetch_add(i32::from(there && commits), Ordering::SeqCst);
        }));
    }
    fixture.play(actors);
    let found = final_rows(&fixture);
    assert_eq!(found.len() as i32, 2 + inserted.load(Ordering::SeqCst), "{found:?}");
}
