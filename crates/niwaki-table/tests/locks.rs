//! Row locks: compatible modes, in the row or in memory, and locks after a rollback to a savepoint.

mod support;

use niwaki_table::{Error, LockOutcome, UpdateOutcome};
use niwaki_txn::{
    Durability, Error as TransactionError, Isolation, RowLockMode, Transaction, WaitPolicy,
};

use support::World;

fn world() -> World {
    let world = World::new(3, false, true);
    let tx = world.begin(0, Isolation::ReadCommitted);
    for id in 0..2 {
        world.insert(&tx, id, id, "x").unwrap();
    }
    tx.commit(Durability::Flush).unwrap();
    world
}

fn lock(
    world: &World,
    tx: &Transaction,
    mode: RowLockMode,
    wait: WaitPolicy,
) -> Result<LockOutcome, Error> {
    let snapshot = tx.snapshot_for_write().unwrap();
    let (target, _) = world.find(tx, &snapshot, 0).expect("the row");
    world.table.lock_row(tx, &snapshot, target, mode, wait)
}

fn update(world: &World, tx: &Transaction, t: &str) -> UpdateOutcome {
    let snapshot = tx.snapshot_for_write().unwrap();
    let (target, old) = world.find(tx, &snapshot, 0).expect("the row");
    let done = world.update(tx, &snapshot, target, &old, (0, 0, t)).unwrap();
    drop(snapshot);
    tx.next_command().unwrap();
    done
}

#[test]
fn two_modes_go_together_exactly_where_they_do_not_conflict() {
    for held in RowLockMode::ALL {
        for wanted in RowLockMode::ALL {
            let world = world();
            let (one, other) = (
                world.begin(0, Isolation::ReadCommitted),
                world.begin(1, Isolation::ReadCommitted),
            );
            assert_eq!(lock(&world, &one, held, WaitPolicy::Block).unwrap(), LockOutcome::Locked);
            let expected = if held.conflicts_with(wanted) {
                LockOutcome::Skipped
            } else {
                LockOutcome::Locked
            };
            let got = lock(&world, &other, wanted, WaitPolicy::Skip).unwrap();
            assert_eq!(got, expected, "{wanted:?} while another has {held:?}");
            let refused = lock(&world, &other, wanted, WaitPolicy::NoWait);
            assert_eq!(
                matches!(refused, Err(Error::RowNotAvailable { .. })),
                held.conflicts_with(wanted),
                "{wanted:?} NOWAIT while another has {held:?}"
            );
            // The holder itself is never blocked by its own lock.
            assert_eq!(lock(&world, &one, held, WaitPolicy::NoWait).unwrap(), LockOutcome::Locked);
            one.commit(Durability::Flush).unwrap();
            let free = lock(&world, &other, wanted, WaitPolicy::NoWait).unwrap();
            assert_eq!(free, LockOutcome::Locked, "after the end of the holder");
            drop(other);
        }
    }
}

#[test]
fn an_update_that_keeps_the_key_goes_with_key_share() {
    let world = world();
    let one = world.begin(0, Isolation::ReadCommitted);
    lock(&world, &one, RowLockMode::KeyShare, WaitPolicy::Block).unwrap();
    let other = world.begin(1, Isolation::ReadCommitted);
    assert!(matches!(update(&world, &other, "y"), UpdateOutcome::Done { .. }));
    // The update does not block another one either.
    let third = world.begin(2, Isolation::ReadCommitted);
    let got = lock(&world, &third, RowLockMode::KeyShare, WaitPolicy::Skip).unwrap();
    assert_eq!(got, LockOutcome::Locked);
    let got = lock(&world, &third, RowLockMode::Share, WaitPolicy::Skip).unwrap();
    assert_eq!(got, LockOutcome::Skipped);
    other.commit(Durability::Flush).unwrap();
    // Two transactions still share the key, on the new version too.
    let other = world.begin(1, Isolation::ReadCommitted);
    let got = lock(&world, &other, RowLockMode::Update, WaitPolicy::Skip).unwrap();
    assert_eq!(got, LockOutcome::Skipped);
    drop((one, other, third));
}

#[test]
fn a_rollback_gives_back_what_was_locked_since_and_nothing_else() {
    let world = world();
    let (one, other) =
        (world.begin(0, Isolation::ReadCommitted), world.begin(1, Isolation::ReadCommitted));
    let try_other = |mode| lock(&world, &other, mode, WaitPolicy::Skip).unwrap();
    for inside in [RowLockMode::Share, RowLockMode::Update] {
        one.savepoint("s");
        lock(&world, &one, inside, WaitPolicy::Block).unwrap();
        assert_eq!(try_other(RowLockMode::Update), LockOutcome::Skipped);
        one.rollback_to("s").unwrap();
        one.release("s").unwrap();
        other.savepoint("t");
        assert_eq!(try_other(RowLockMode::Update), LockOutcome::Locked, "{inside:?}");
        other.rollback_to("t").unwrap();
        other.release("t").unwrap();
    }
    // A row locked before the savepoint, then updated inside it: the lock stays.
    lock(&world, &one, RowLockMode::Update, WaitPolicy::Block).unwrap();
    for round in 0..3 {
        one.savepoint("s");
        assert!(matches!(update(&world, &one, "changed"), UpdateOutcome::Done { .. }));
        if round == 1 {
            one.savepoint("inner");
            assert!(matches!(update(&world, &one, "again"), UpdateOutcome::Done { .. }));
            one.release("inner").unwrap();
        }
        one.rollback_to("s").unwrap();
        one.release("s").unwrap();
        one.next_command().unwrap();
        assert_eq!(try_other(RowLockMode::KeyShare), LockOutcome::Skipped, "round {round}");
    }
    one.commit(Durability::Flush).unwrap();
    assert_eq!(try_other(RowLockMode::Update), LockOutcome::Locked);
    drop(other);
    world.check();
}

#[test]
fn the_first_updater_wins_at_repeatable_read() {
    let world = world();
    let late = world.begin(0, Isolation::RepeatableRead);
    drop(late.snapshot().unwrap());
    let early = world.begin(1, Isolation::ReadCommitted);
    update(&world, &early, "y");
    early.commit(Durability::Flush).unwrap();
    for mode in RowLockMode::ALL {
        let refused = lock(&world, &late, mode, WaitPolicy::Block);
        // The key is unchanged: that lock is compatible with the update.
        if mode == RowLockMode::KeyShare {
            assert_eq!(refused.unwrap(), LockOutcome::Locked);
            continue;
        }
        assert!(
            matches!(
                refused,
                Err(Error::Transaction(TransactionError::SerializationFailure { cause: "update" }))
            ),
            "{mode:?}: {refused:?}"
        );
    }
    drop(late);
}
