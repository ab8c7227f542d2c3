//! Tests of a table against a multi-version model.
//!
//! Transactions with savepoints are interleaved on one thread, with old readers, vacuum at any
//! moment, and crashes. The range of values is small, so that they collide.
//!
//! A run is determined by its seed. A failure prints the seed, and `SEED=n` repeats that run alone.
//! `RUNS=n` makes as many runs, with seeds from `FIRST=n` on.

mod support;

use std::collections::BTreeMap;

use niwaki_table::{LockOutcome, RowTarget, UpdateOutcome};
use niwaki_txn::{
    Durability, Error as TransactionError, Isolation, RowLockMode, Snapshot, Transaction,
    WaitPolicy,
};

use support::{Rng, Rows, World};

/// Sessions with transactions that stay open.
const SESSIONS: usize = 3;
/// The session that runs whole statements while others wait.
const HELPER: usize = SESSIONS;
/// Sessions that only hold old snapshots.
const READERS: usize = SESSIONS + 1;

/// One open transaction, as the model knows it.
struct Open {
    tx: Transaction,
    isolation: Isolation,
    /// The rows that the transaction sees, by savepoint depth; the last one is current.
    views: Vec<Rows>,
    /// The ids that the transaction changed so far, by savepoint depth: no other transaction may
    /// touch them.
    touched: Vec<Vec<i32>>,
    /// The committed state when the snapshot was taken (REPEATABLE READ).
    base: Option<Rows>,
}

struct Run {
    world: World,
    rng: Rng,
    committed: Rows,
    open: Vec<Option<Open>>,
    readers: Vec<Option<(Transaction, Snapshot, Rows)>>,
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let logged = rng.below(8) > 0;
        let mut world = World::new(READERS + 2, rng.below(2) == 0, logged);
        if seed.is_multiple_of(2) {
            world.keep_to_same_keys();
        }
        Self {
            world,
            rng,
            committed: Rows::new(),
            open: (0..SESSIONS).map(|_| None).collect(),
            readers: vec![None, None],
        }
    }

    fn id(&mut self) -> i32 {
        self.rng.below(6) as i32
    }

    fn value(&mut self) -> (i32, String) {
        let v = self.rng.below(3) as i32;
        // Mostly short texts; sometimes so long that a page holds two or three.
        let len = match self.rng.below(8) {
            0 => 3500,
            1 => 1200,
            _ => self.rng.below(40),
        };
        (v, "x".repeat(len as usize))
    }

    /// Returns true when an open transaction other than `own` changed this id.
    fn taken(&self, id: i32, own: usize) -> bool {
        self.open.iter().enumerate().any(|(session, open)| {
            session != own
                && open.as_ref().is_some_and(|open| open.touched.iter().flatten().any(|&t| t == id))
        })
    }

    fn step(&mut self) {
        let session = self.rng.below(SESSIONS as u64) as usize;
        match self.rng.below(20) {
            0..=1 => self.end(session),
            2 => self.savepoint(session),
            3 => self.rollback(session),
            4 => self.reader(),
            5 => self.vacuum(),
            6..=7 => self.stale(session),
            8 => self.lock(session),
            9..=11 => self.insert(session),
            12..=13 => self.delete(session),
            _ => self.update(session),
        }
        if self.rng.below(4) == 0 {
            self.verify();
        }
        if self.rng.below(40) == 0 {
            self.world.checkpoint();
        }
        // A crash now would remove the open transactions, and keep the rest.
        if self.rng.below(80) == 0 {
            self.world.compare_with_redo(&self.committed);
        }
    }

    /// Returns the session's transaction, begun if it has none, with its view brought up to date.
    fn begin(&mut self, session: usize) {
        if self.open[session].is_none() {
            let isolation = match self.rng.below(3) {
                0 => Isolation::RepeatableRead,
                _ => Isolation::ReadCommitted,
            };
            let tx = self.world.begin(session, isolation);
            let base = (isolation == Isolation::RepeatableRead).then(|| {
                drop(tx.snapshot().unwrap());
                self.committed.clone()
            });
            let views = vec![self.committed.clone()];
            self.open[session] =
                Some(Open { tx, isolation, views, touched: vec![Vec::new()], base });
        }
        self.refresh(session);
    }

    /// READ COMMITTED: committed changes of others become visible, except where the transaction has
    /// written.
    fn refresh(&mut self, session: usize) {
        let committed = self.committed.clone();
        let Some(open) = &mut self.open[session] else { return };
        if open.isolation != Isolation::ReadCommitted {
            return;
        }
        let mine: Vec<i32> = open.touched.iter().flatten().copied().collect();
        for view in &mut open.views {
            let own: Rows =
                view.iter().filter(|(id, _)| mine.contains(id)).map(|(k, v)| (*k, *v)).collect();
            *view = committed
                .iter()
                .filter(|(id, _)| !mine.contains(id))
                .map(|(k, v)| (*k, *v))
                .collect();
            view.extend(own);
        }
    }

    fn current(&mut self, session: usize) -> &mut Open {
        self.open[session].as_mut().expect("begun")
    }

    fn touch(&mut self, session: usize, id: i32) {
        self.current(session).touched.last_mut().expect("a level").push(id);
    }

    fn view(&mut self, session: usize) -> &mut Rows {
        self.current(session).views.last_mut().expect("a level")
    }

    /// REPEATABLE READ: returns true when another transaction changed this id after the snapshot.
    fn changed_since(&self, session: usize, id: i32) -> bool {
        let Some(open) = &self.open[session] else { return false };
        let mine = open.touched.iter().flatten().any(|&t| t == id);
        match &open.base {
            Some(base) if !mine => {
                base.get(&id).map(|r| &r.2) != self.committed.get(&id).map(|r| &r.2)
            }
            _ => false,
        }
    }

    fn insert(&mut self, session: usize) {
        self.begin(session);
        let (id, (v, t)) = (self.id(), self.value());
        // The snapshot may see a row deleted since, whose id is in use again: two rows at once.
        if self.taken(id, session) || self.changed_since(session, id) {
            return;
        }
        let stamp = self.world.stamp();
        let inserted = {
            let Self { world, open, .. } = self;
            let tx = &open[session].as_ref().expect("begun").tx;
            // Errors stay inside a savepoint of their own, as with psql's ON_ERROR_ROLLBACK.
            tx.savepoint("statement");
            let result = world.insert(tx, id, v, &t);
            if result.is_err() {
                tx.rollback_to("statement").unwrap();
            }
            tx.release("statement").unwrap();
            tx.next_command().unwrap();
            result
        };
        // A unique check looks at the committed state of the moment, not at the snapshot.
        let mine = self.current(session).touched.iter().flatten().any(|&touched| touched == id);
        let there = if mine {
            self.view(session).contains_key(&id)
        } else {
            self.committed.contains_key(&id)
        };
        match inserted {
            Ok(()) => {
                assert!(!there, "a second row with id {id} was let in");
                self.view(session).insert(id, (v, t.len(), stamp));
                self.touch(session, id);
            }
            Err(niwaki_table::Error::UniqueViolation(_)) => {
                assert!(there, "id {id} was refused, and nobody has it");
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn update(&mut self, session: usize) {
        self.begin(session);
        let (id, (v, t)) = (self.id(), self.value());
        let new_id = if self.rng.below(6) == 0 { self.id() } else { id };
        if !self.view(session).contains_key(&id)
            || self.taken(id, session)
            || self.taken(new_id, session)
            || (new_id != id && self.changed_since(session, new_id))
        {
            return;
        }
        let v = if self.rng.below(2) == 0 { self.view(session)[&id].0 } else { v };
        let clash = new_id != id && {
            let mine = self.current(session).touched.iter().flatten().any(|&x| x == new_id);
            if mine {
                self.view(session).contains_key(&new_id)
            } else {
                self.committed.contains_key(&new_id)
            }
        };
        let expected_failure = self.changed_since(session, id);
        let stamp = self.world.stamp();
        let result = {
            let Self { world, open, .. } = self;
            let tx = &open[session].as_ref().expect("begun").tx;
            let snapshot = tx.snapshot_for_write().unwrap();
            let (target, old) = world.find(tx, &snapshot, id).expect("the model sees it");
            tx.savepoint("statement");
            let result = world.update(tx, &snapshot, target, &old, (new_id, v, &t));
            if result.is_err() {
                tx.rollback_to("statement").unwrap();
            }
            tx.release("statement").unwrap();
            tx.next_command().unwrap();
            result
        };
        match result {
            Ok(UpdateOutcome::Done { .. }) => {
                assert!(!expected_failure, "id {id}: a lost update at REPEATABLE READ");
                assert!(!clash, "a second row with id {new_id} was let in");
                self.view(session).remove(&id);
                self.view(session).insert(new_id, (v, t.len(), stamp));
                self.touch(session, id);
                self.touch(session, new_id);
            }
            Err(niwaki_table::Error::UniqueViolation(_)) => assert!(clash, "no clash on {new_id}"),
            other => self.failed(session, id, expected_failure, other),
        }
    }

    /// Handles a serialization failure, which ends the transaction. Any other error is wrong.
    fn failed(
        &mut self,
        session: usize,
        id: i32,
        expected: bool,
        result: niwaki_table::Result<UpdateOutcome>,
    ) {
        match result {
            Err(niwaki_table::Error::Transaction(TransactionError::SerializationFailure {
                ..
            })) => {
                assert!(expected, "id {id}: a serialization failure without a reason");
                self.open[session].take().expect("begun").tx.abort();
            }
            other => panic!("id {id}: {other:?}"),
        }
    }

    fn delete(&mut self, session: usize) {
        self.begin(session);
        let id = self.id();
        if !self.view(session).contains_key(&id) || self.taken(id, session) {
            return;
        }
        let expected_failure = self.changed_since(session, id);
        let result = {
            let Self { world, open, .. } = self;
            let tx = &open[session].as_ref().expect("begun").tx;
            let snapshot = tx.snapshot_for_write().unwrap();
            let (target, _) = world.find(tx, &snapshot, id).expect("the model sees it");
            let result = world.table.delete(tx, &snapshot, target);
            if result.is_ok() {
                tx.next_command().unwrap();
            }
            result
        };
        match result {
            Ok(UpdateOutcome::Done { .. }) => {
                assert!(!expected_failure, "id {id}: a lost update at REPEATABLE READ");
                self.view(session).remove(&id);
                self.touch(session, id);
            }
            other => self.failed(session, id, expected_failure, other),
        }
    }

    /// FOR UPDATE … SKIP LOCKED: locks rows that no other transaction changed, and skips the
    /// others.
    fn lock(&mut self, session: usize) {
        self.begin(session);
        let id = self.id();
        if !self.view(session).contains_key(&id) || self.changed_since(session, id) {
            return;
        }
        let taken = self.taken(id, session);
        let mode = match self.rng.below(3) {
            0 => RowLockMode::Share,
            1 => RowLockMode::NoKeyUpdate,
            _ => RowLockMode::Update,
        };
        let Self { world, open, .. } = self;
        let tx = &open[session].as_ref().expect("begun").tx;
        let snapshot = tx.snapshot_for_write().unwrap();
        let Some((target, _)) = world.find(tx, &snapshot, id) else { panic!("the model sees it") };
        let locked = world.table.lock_row(tx, &snapshot, target, mode, WaitPolicy::Skip).unwrap();
        tx.next_command().unwrap();
        if taken && mode == RowLockMode::Share && locked == LockOutcome::Locked {
            // Sessions share the id with its holder.
            self.touch(session, id);
        } else if taken {
            assert_eq!(locked, LockOutcome::Skipped, "id {id} is somebody else's");
        } else {
            assert_eq!(locked, LockOutcome::Locked, "id {id} is nobody's");
            self.touch(session, id);
        }
    }

    /// A statement found a row. Before it changes the row, others change it and commit.
    fn stale(&mut self, session: usize) {
        self.begin(session);
        let id = self.id();
        let Some(open) = &self.open[session] else { return };
        let untouched = !open.touched.iter().flatten().any(|&t| t == id);
        if open.isolation != Isolation::ReadCommitted
            || !untouched
            || self.taken(id, session)
            || !self.committed.contains_key(&id)
        {
            return;
        }
        let Self { world, open, .. } = self;
        let tx = &open[session].as_ref().expect("begun").tx;
        let snapshot = tx.snapshot_for_write().unwrap();
        let (target, old) = world.find(tx, &snapshot, id).expect("committed and not touched");
        let mut changed = false;
        for _ in 0..=self.rng.below(4) {
            changed |= self.meanwhile(id);
            if self.rng.below(2) == 0 {
                let _ = self.world.vacuum(HELPER, false);
            }
        }
        let expected = self.committed.get(&id).copied();
        let (v, t) = self.value();
        let stamp = self.world.stamp();
        let Self { world, open, .. } = self;
        let tx = &open[session].as_ref().expect("begun").tx;
        let first = world.update(tx, &snapshot, target, &old, (id, v, &t)).unwrap();
        match (changed, expected) {
            (false, _) => {
                assert!(matches!(first, UpdateOutcome::Done { .. }), "nobody was in the way");
            }
            (true, None) => {
                assert_eq!(first, UpdateOutcome::Gone, "the row was deleted");
                tx.next_command().unwrap();
                return;
            }
            (true, Some(expected)) => {
                let UpdateOutcome::Changed(newest) = first else {
                    panic!("{first:?}, not the newest")
                };
                let values = world.values(&newest.row);
                assert_eq!(values, (id, expected.0, expected.1), "not the newest version");
                let old = world.row(id, expected.0, &"x".repeat(expected.1));
                let again = world.update(tx, &snapshot, newest.target, &old, (id, v, &t)).unwrap();
                assert!(
                    matches!(again, UpdateOutcome::Done { .. }),
                    "{again:?} of a row it has locked"
                );
            }
        }
        tx.next_command().unwrap();
        drop(snapshot);
        self.refresh(session);
        self.view(session).insert(id, (v, t.len(), stamp));
        self.touch(session, id);
    }

    /// Changes or deletes the row in another transaction, and commits. Returns true if it did.
    fn meanwhile(&mut self, id: i32) -> bool {
        let Some(current) = self.committed.get(&id).copied() else { return false };
        let (v, t) = self.value();
        let deletes = self.rng.below(6) == 0;
        let v = if self.rng.below(2) == 0 { current.0 } else { v };
        let aborts = self.rng.below(5) == 0;
        let stamp = self.world.stamp();
        let tx = self.world.begin(HELPER, Isolation::ReadCommitted);
        let snapshot = tx.snapshot_for_write().unwrap();
        let (target, old) = self.world.find(&tx, &snapshot, id).expect("committed");
        let done = if deletes {
            self.world.table.delete(&tx, &snapshot, target).unwrap()
        } else {
            self.world.update(&tx, &snapshot, target, &old, (id, v, &t)).unwrap()
        };
        assert!(matches!(done, UpdateOutcome::Done { .. }), "{done:?}");
        drop(snapshot);
        if aborts {
            tx.abort();
            return false;
        }
        tx.commit(Durability::Flush).unwrap();
        if deletes {
            self.committed.remove(&id);
        } else {
            self.committed.insert(id, (v, t.len(), stamp));
        }
        true
    }

    fn savepoint(&mut self, session: usize) {
        self.begin(session);
        let open = self.current(session);
        let depth = open.views.len();
        if depth < 4 {
            open.tx.savepoint(&format!("s{depth}"));
            let view = open.views.last().expect("a level").clone();
            open.views.push(view);
            open.touched.push(Vec::new());
        }
    }

    fn rollback(&mut self, session: usize) {
        let Some(open) = &mut self.open[session] else { return };
        let depth = open.views.len() - 1;
        if depth == 0 {
            return;
        }
        open.tx.rollback_to(&format!("s{depth}")).unwrap();
        open.tx.release(&format!("s{depth}")).unwrap();
        open.tx.next_command().unwrap();
        open.views.pop();
        open.touched.pop();
    }

    fn end(&mut self, session: usize) {
        self.refresh(session);
        let Some(mut open) = self.open[session].take() else { return };
        if self.rng.below(4) == 0 {
            open.tx.abort();
            return;
        }
        let view = open.views.pop().expect("a level");
        open.tx.commit(Durability::Flush).unwrap();
        for id in open.touched.into_iter().flatten() {
            match view.get(&id) {
                Some(row) => self.committed.insert(id, *row),
                None => self.committed.remove(&id),
            };
        }
    }

    /// Takes an old snapshot, or drops one.
    fn reader(&mut self) {
        let at = self.rng.below(self.readers.len() as u64) as usize;
        if let Some((tx, snapshot, rows)) = self.readers[at].take() {
            assert_eq!(self.world.rows(&tx, &snapshot), rows, "an old snapshot has changed");
            drop(snapshot);
            tx.commit(Durability::Flush).unwrap();
        } else {
            let tx = self.world.begin(READERS + at, Isolation::RepeatableRead);
            let snapshot = tx.snapshot().unwrap();
            self.readers[at] = Some((tx, snapshot, self.committed.clone()));
        }
    }

    fn vacuum(&mut self) {
        let freeze = self.rng.below(3) == 0;
        let _ = self.world.vacuum(HELPER, freeze);
    }

    /// Compares the rows that each session sees, by every way, with the model.
    fn verify(&mut self) {
        for session in 0..SESSIONS {
            self.refresh(session);
        }
        for (session, open) in self.open.iter().enumerate() {
            let Some(open) = open else { continue };
            let snapshot = open.tx.snapshot().unwrap();
            let rows = self.world.rows(&open.tx, &snapshot);
            assert_eq!(&rows, open.views.last().expect("a level"), "session {session}");
        }
        for (tx, snapshot, rows) in self.readers.iter().flatten() {
            assert_eq!(&self.world.rows(tx, snapshot), rows, "an old snapshot has changed");
        }
        self.world.check();
    }

    /// Checks that only the rows are left after the last transaction (G2, D1), and that redo makes
    /// the same.
    fn finish(mut self) {
        self.verify();
        for session in 0..SESSIONS {
            self.end(session);
        }
        for at in 0..self.readers.len() {
            if self.readers[at].is_some() {
                let (tx, snapshot, rows) = self.readers[at].take().expect("some");
                assert_eq!(self.world.rows(&tx, &snapshot), rows, "an old snapshot has changed");
                drop(snapshot);
                drop(tx);
            }
        }
        self.world.compare_with_redo(&self.committed);
        self.world.vacuum(HELPER, false);
        let left = self.world.vacuum(HELPER, true);
        assert_eq!(left.remaining, self.committed.len() as u64, "versions left after vacuum");
        self.world.check();
        // Six rows of at most half a page, on as many pages as were once needed at a time.
        let blocks = self.world.table.blocks().unwrap();
        assert!(blocks <= 40, "{blocks} blocks");
        let tx = self.world.begin(HELPER, Isolation::ReadCommitted);
        let snapshot = tx.snapshot().unwrap();
        assert_eq!(self.world.rows(&tx, &snapshot), self.committed);
        drop(snapshot);
        drop(tx);
        self.world.compare_with_redo(&self.committed);
    }
}

fn run(seed: u64, steps: u32) {
    let mut run = Run::new(seed);
    for _ in 0..steps {
        run.step();
    }
    run.finish();
}

#[test]
fn every_schedule_agrees_with_the_model() {
    if let Some(seed) = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()) {
        return run(seed, 400);
    }
    let runs = std::env::var("RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(60);
    let first = std::env::var("FIRST").ok().and_then(|first| first.parse().ok()).unwrap_or(0);
    for seed in first..first + runs {
        let outcome = std::panic::catch_unwind(|| run(seed, 400));
        if let Err(panic) = outcome {
            eprintln!("to repeat: SEED={seed}");
            std::panic::resume_unwind(panic);
        }
    }
}

/// Checks the model itself: its types must not be so weak that any result passes.
#[test]
fn the_model_tells_rows_apart() {
    let mut rows: Rows = BTreeMap::new();
    rows.insert(1, (2, 3, 4));
    let mut other = rows.clone();
    other.insert(1, (2, 3, 5));
    assert_ne!(rows.get(&1).map(|r| r.2), other.get(&1).map(|r| r.2));
    assert_eq!(RowTarget::visible(niwaki_storage::Tid::new(1, 2)).version, None);
}
