//! Tests of spilled segments: memory stays bounded, and every answer equals a map's. The answers
//! are checked in memory, from the file, and after a crash.

use std::collections::BTreeMap;
use std::sync::Arc;

use niwaki_env::Env;
use niwaki_env::rng::SeededRng;
use niwaki_env::vfs::{MemoryVfs, Vfs};
use niwaki_storage::{CheckpointKind, Csn, Storage, StorageOptions, Xid};

use super::*;
use crate::xact::directory::FRAMES_KEPT;
use crate::xact::status_cache::BYTES_MAX;
use crate::{
    BeginOptions, Durability, Snapshot, Transaction, TransactionManager, TxnOptions, XidStatus,
};

struct Database {
    storage: Arc<Storage>,
    manager: Arc<TransactionManager>,
    vfs: Arc<MemoryVfs>,
}

impl Database {
    fn open(vfs: Arc<MemoryVfs>) -> Self {
        let env = Env { vfs: Arc::clone(&vfs) as _, ..Env::memory() };
        let manager = TransactionManager::new(env.clone(), TxnOptions::default());
        let managers = vec![Arc::clone(&manager) as _];
        let (storage, _) = Storage::open(env, StorageOptions::default(), managers).unwrap();
        manager.attach(&storage).unwrap();
        Self { storage, manager, vfs }
    }

    fn begin(&self) -> Transaction {
        let session = self.manager.register_session().unwrap();
        self.manager.begin(&session, BeginOptions::default()).unwrap()
    }

    fn commit(&self) -> (Xid, Csn) {
        commit(self.begin())
    }

    /// Uses up the rest of a segment's ids with transactions that aborted.
    fn use_up_segment(&self) {
        abort(self.begin());
        let next = self.manager.next_xid();
        let segment = segment_of(next);
        let end = (segment + 1) * XIDS_PER_SEGMENT;
        (next.0..end).for_each(|xid| self.manager.states.abort(Xid(xid)));
        self.manager.set_next_xid(Xid(end));
    }

    /// Spills a segment with one commit and one running transaction, which keeps it from shrinking.
    fn spill_a_segment(&self) -> (Xid, Transaction) {
        let (early, _) = self.commit();
        let running = self.begin();
        running.write_xid().unwrap();
        self.use_up_segment();
        self.commit();
        let states = &self.manager.states;
        let written = states.write_segment(&self.storage, segment_of(early)).unwrap();
        states.move_to_file(written.unwrap());
        (early, running)
    }

    fn spilled(&self) -> usize {
        self.manager.states.spilled.count()
    }

    fn status(&self, xid: Xid) -> XidStatus {
        self.manager.status(xid)
    }

    /// Reopens the database as after a crash of the process: without the state in memory.
    fn crashed(&self) -> Self {
        Self::open(Arc::new(self.vfs.fork()))
    }
}

fn commit(transaction: Transaction) -> (Xid, Csn) {
    let xid = transaction.write_xid().unwrap();
    (xid, transaction.commit(Durability::Flush).unwrap().unwrap())
}

fn abort(transaction: Transaction) -> Xid {
    let xid = transaction.write_xid().unwrap();
    transaction.abort();
    xid
}

/// Returns whether the status is a commit at any CSN. A shrunk segment has one CSN for all its
/// commits, which all snapshots see.
fn is_committed(status: XidStatus) -> bool {
    matches!(status, XidStatus::Committed(_))
}

const BOUND: usize = 64 << 20;

#[test]
fn three_hundred_segments_under_old_snapshots_and_open_transactions_stay_in_the_bound() {
    const SEGMENTS: usize = 320;
    let database = Database::open(Arc::new(MemoryVfs::new()));
    let mut held: Vec<(Transaction, Snapshot)> = Vec::new();
    let (mut commits, mut aborts, mut open) = (Vec::new(), Vec::new(), Vec::new());
    for at in 0..SEGMENTS {
        commits.push(database.commit());
        // The snapshot stands between two commits of its segment.
        let reader = database.begin();
        let snapshot = reader.snapshot().unwrap();
        held.push((reader, snapshot));
        commits.push(database.commit());
        aborts.push(abort(database.begin()));
        if at % 2 == 0 {
            let running = database.begin();
            running.write_xid().unwrap();
            open.push(running);
        }
        database.use_up_segment();
        assert!(database.manager.state_bytes() <= BOUND, "{}", database.manager.state_bytes());
    }
    assert!(database.spilled() >= SEGMENTS - FRAMES_KEPT - 2, "{}", database.spilled());
    let check = |database: &Database, held: &[(Transaction, Snapshot)]| {
        for (at, (xid, csn)) in commits.iter().enumerate() {
            assert_eq!(database.status(*xid), XidStatus::Committed(*csn));
            for (snapshot, (_, held)) in held.iter().enumerate() {
                let sees = database.manager.committed_at_or_before(*xid, held.csn());
                // Snapshot n stands behind commit 2n.
                assert_eq!(sees, at <= 2 * snapshot);
            }
        }
        aborts.iter().for_each(|xid| assert_eq!(database.status(*xid), XidStatus::Aborted));
    };
    check(&database, &held);
    for running in &open {
        assert_eq!(database.status(running.write_xid().unwrap()), XidStatus::InProgress);
    }
    assert!(database.manager.state_bytes() <= BOUND);
    // Recovers without and with a checkpoint that logged the states.
    for checkpoint in [false, true] {
        if checkpoint {
            let kind = CheckpointKind::Requested;
            database.storage.checkpoint(kind, &[&*database.manager]).unwrap();
        }
        let recovered = database.crashed();
        commits.iter().for_each(|(xid, _)| assert!(is_committed(recovered.status(*xid))));
        for xid in aborts.iter().copied().chain(open.iter().map(|t| t.write_xid().unwrap())) {
            assert_eq!(recovered.status(xid), XidStatus::Aborted);
        }
    }
    // Transactions that ran when their segment was spilled end, by commit and by abort.
    for (at, running) in open.into_iter().enumerate() {
        let xid = if at % 2 == 0 {
            let (xid, csn) = commit(running);
            assert_eq!(database.status(xid), XidStatus::Committed(csn));
            xid
        } else {
            abort(running)
        };
        assert_eq!(is_committed(database.status(xid)), at % 2 == 0);
    }
    check(&database, &held);
    // A shrunk segment reports its last commit for all commits: no snapshot can tell.
    held.clear();
    database.manager.shrink_segments().unwrap();
    assert_eq!(database.manager.states.unshrunk(), []);
    assert_eq!(database.manager.states.spilled.bytes(), 0);
    let frames = ((FRAMES_KEPT + 8) * 256) << 10;
    assert!(database.manager.state_bytes() <= frames + BYTES_MAX);
    let file = database.vfs.open(PATH, OpenMode::Existing).unwrap();
    assert_eq!(file.len().unwrap(), 0, "its room came back");
    commits.iter().for_each(|(xid, _)| assert!(is_committed(database.status(*xid))));
    aborts.iter().for_each(|xid| assert_eq!(database.status(*xid), XidStatus::Aborted));
}

/// The expected outcome of a transaction. The index of its segment decides where its state is
/// looked for.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Running,
    Aborted,
    Committed(Csn),
}

struct Random {
    database: Database,
    rng: SeededRng,
    fates: BTreeMap<Xid, Fate>,
    running: Vec<Transaction>,
    held: Vec<(Transaction, Snapshot)>,
}

impl Random {
    fn step(&mut self) {
        match self.rng.below(12) {
            0..3 => {
                let transaction = self.database.begin();
                self.fates.insert(transaction.write_xid().unwrap(), Fate::Running);
                self.running.push(transaction);
            }
            3 if !self.running.is_empty() => {
                let at = self.rng.below(self.running.len() as u64) as usize;
                let transaction = self.running.swap_remove(at);
                let (xid, fate) = if self.rng.below(3) == 0 {
                    (abort(transaction), Fate::Aborted)
                } else {
                    let (xid, csn) = commit(transaction);
                    (xid, Fate::Committed(csn))
                };
                self.fates.insert(xid, fate);
            }
            4 | 5 => {
                let reader = self.database.begin();
                let snapshot = reader.snapshot().unwrap();
                self.held.push((reader, snapshot));
            }
            6 if !self.held.is_empty() && self.rng.below(3) == 0 => {
                let at = self.rng.below(self.held.len() as u64) as usize;
                drop(self.held.swap_remove(at));
            }
            7 if self.rng.below(8) == 0 => {
                let kind = CheckpointKind::Requested;
                self.database.storage.checkpoint(kind, &[&*self.database.manager]).unwrap();
            }
            _ => self.database.use_up_segment(),
        }
    }

    fn check(&self, seed: u64) {
        for (xid, fate) in &self.fates {
            let status = self.database.status(*xid);
            let right = match fate {
                Fate::Running => status == XidStatus::InProgress,
                Fate::Aborted => status == XidStatus::Aborted,
                Fate::Committed(_) => is_committed(status),
            };
            assert!(right, "seed {seed}: {xid} is {status:?}, not {fate:?}");
            for (_, snapshot) in &self.held {
                let sees = matches!(fate, Fate::Committed(csn) if *csn <= snapshot.csn());
                let found = self.database.manager.committed_at_or_before(*xid, snapshot.csn());
                assert_eq!(found, sees, "seed {seed}: {xid}, {fate:?}, at {}", snapshot.csn());
            }
        }
    }
}

#[test]
fn answers_are_those_of_a_map() {
    let mut spilled = 0;
    for seed in 0..4 {
        let database = Database::open(Arc::new(MemoryVfs::new()));
        let mut random = Random {
            database,
            rng: SeededRng::new(seed),
            fates: BTreeMap::new(),
            running: Vec::new(),
            held: Vec::new(),
        };
        for step in 0..800 {
            random.step();
            if step % 16 == 0 {
                random.check(seed);
                spilled = spilled.max(random.database.spilled());
            }
        }
        let recovered = random.database.crashed();
        for (xid, fate) in &random.fates {
            let committed = matches!(fate, Fate::Committed(_));
            assert_eq!(is_committed(recovered.status(*xid)), committed, "seed {seed}: {xid}");
        }
    }
    assert!(spilled > 10, "{spilled} segments spilled at most");
}

#[test]
fn a_damaged_block_is_no_answer() {
    let database = Database::open(Arc::new(MemoryVfs::new()));
    let states = &database.manager.states;
    let (early, running) = database.spill_a_segment();
    let file = database.vfs.open(PATH, OpenMode::Existing).unwrap();
    let damage = |at: u64| {
        let mut byte = [0];
        file.read_at(&mut byte, at).unwrap();
        file.write_at(&[byte[0] ^ 4], at).unwrap();
    };
    let at = (place_of(early) * WORD + WORD) as u64;
    damage(at);
    let error = states.spilled_state(early).unwrap().unwrap_err();
    assert!(error.to_string().contains(PATH), "{error}");
    damage(at);
    assert!(is_committed(database.status(early)));
    assert_eq!(database.status(running.write_xid().unwrap()), XidStatus::InProgress);
}

/// A segment with more than `OPEN_MAX` running transactions is not spilled.
#[test]
fn a_segment_in_which_many_run_stays_in_memory() {
    let database = Database::open(Arc::new(MemoryVfs::new()));
    let running: Vec<_> = (0..=OPEN_MAX).map(|_| database.begin()).collect();
    let first = running[0].write_xid().unwrap();
    running.iter().for_each(|transaction| assert!(transaction.write_xid().unwrap() >= first));
    database.use_up_segment();
    database.commit();
    let states = &database.manager.states;
    let storage = &database.storage;
    assert!(states.write_segment(storage, segment_of(first)).unwrap().is_none());
    running.into_iter().take(1).for_each(|transaction| {
        abort(transaction);
    });
    assert!(states.write_segment(storage, segment_of(first)).unwrap().is_some());
}

/// A session that outlives its database holds the manager, and the manager once held the file open.
#[test]
fn a_closed_database_has_no_file_of_states_open() {
    let database = Database::open(Arc::new(MemoryVfs::new()));
    let states = &database.manager.states;
    let (early, _running) = database.spill_a_segment();
    let file = states.spilled.file.get().unwrap();
    assert!(file.file.read().is_some());
    database.manager.close_files();
    assert!(file.file.read().is_none());
    let error = states.spilled_state(early).unwrap().unwrap_err();
    assert!(error.to_string().contains("the database is closed"), "{error}");
}

#[test]
#[should_panic(expected = "1 of 0 slots are free")]
#[cfg(debug_assertions)]
fn a_free_slot_behind_the_used_ones_is_noticed() {
    Slots { used: 0, free: vec![0] }.assert_state();
}
