//! A database in fifty lines of maps: what every session must see, and what a crash may leave.
//!
//! Keys map to versions in commit order. One thread interleaves the sessions. A statement that
//! would have to wait for another session is not for the model ([`Model::would_block`]).

use std::collections::{BTreeMap, BTreeSet};

/// Primary key of the modelled table.
pub type Key = i64;
/// The value of a row.
pub type Value = i64;
/// The rows of the table.
pub type Rows = BTreeMap<Key, Value>;

/// Isolation levels that the model knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// Each statement has its own snapshot.
    ReadCommitted,
    /// The first statement's snapshot holds to the end.
    RepeatableRead,
}

/// One statement of one session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// BEGIN.
    Begin(Isolation),
    /// SELECT of one key.
    Read(Key),
    /// SELECT of all rows.
    Scan,
    /// INSERT.
    Insert(Key, Value),
    /// UPDATE of one key.
    Update(Key, Value),
    /// DELETE of one key.
    Delete(Key),
    /// SAVEPOINT with this name.
    Savepoint(u32),
    /// ROLLBACK TO SAVEPOINT.
    RollbackTo(u32),
    /// RELEASE SAVEPOINT.
    Release(u32),
    /// COMMIT.
    Commit,
    /// ROLLBACK.
    Rollback,
    /// CHECKPOINT, which changes nothing that a session sees.
    Checkpoint,
    /// VACUUM, which changes nothing that a session sees.
    Vacuum,
}

/// The required answer of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Number of changed rows; 0 for statements that change none.
    Done(u64),
    /// The row's value, if the row is there.
    Row(Option<Value>),
    /// All rows.
    Rows(Rows),
    /// The statement failed, with this SQLSTATE.
    Error(String),
}

/// Number of a commit, which is the number of commits before it.
pub type CommitId = usize;

/// The oracle.
#[derive(Clone, Debug, Default)]
pub struct Model {
    commits: Vec<Commit>,
    /// The versions of each key, oldest first: the commit that made it, and the value or "deleted".
    versions: BTreeMap<Key, Vec<(CommitId, Option<Value>)>>,
    open: BTreeMap<u32, Transaction>,
}

#[derive(Clone, Debug)]
struct Commit {
    writes: BTreeMap<Key, Option<Value>>,
    /// Commits whose values this commit read or overwrote. If this commit survives a crash, they
    /// must survive too.
    saw: BTreeSet<CommitId>,
}

#[derive(Clone, Debug)]
struct Transaction {
    isolation: Isolation,
    /// Number of commits that the transaction's snapshot sees, once taken.
    snapshot: Option<usize>,
    /// Writes; a new layer begins at each savepoint.
    layers: Vec<Layer>,
    saw: BTreeSet<CommitId>,
    failed: bool,
    explicit: bool,
}

#[derive(Clone, Debug, Default)]
struct Layer {
    savepoint: Option<u32>,
    writes: BTreeMap<Key, Option<Value>>,
}

impl Model {
    /// Returns an empty table.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a table that holds `rows`, written by one commit.
    pub fn with_rows(rows: &Rows) -> Self {
        let mut model = Self::default();
        let mut transaction = Transaction::new(Isolation::ReadCommitted, true);
        for (key, value) in rows {
            transaction.write(*key, Some(*value));
        }
        model.commit(transaction);
        model
    }

    /// Returns the number of committed transactions that wrote something.
    pub fn commits(&self) -> usize {
        self.commits.len()
    }

    /// Returns the rows that a snapshot taken after `commits` commits sees.
    pub fn visible(&self, commits: usize) -> Rows {
        let newest = |versions: &Vec<(CommitId, Option<Value>)>| {
            versions.iter().rev().find(|(commit, _)| *commit < commits).and_then(|(_, v)| *v)
        };
        let rows = self.versions.iter();
        rows.filter_map(|(key, versions)| Some((*key, newest(versions)?))).collect()
    }

    /// Decides whether a row of this key is committed now.
    pub fn exists(&self, key: Key) -> bool {
        let newest = self.versions.get(&key).and_then(|versions| versions.last());
        newest.is_some_and(|(_, value)| value.is_some())
    }

    /// Decides whether the session is inside BEGIN … COMMIT.
    pub fn in_transaction(&self, session: u32) -> bool {
        self.open.get(&session).is_some_and(|transaction| transaction.explicit)
    }

    /// Decides whether the session's transaction has failed and waits for its rollback.
    pub fn failed(&self, session: u32) -> bool {
        self.open.get(&session).is_some_and(|transaction| transaction.failed)
    }

    /// Returns the savepoints that the session may roll back to, oldest first.
    pub fn savepoints(&self, session: u32) -> Vec<u32> {
        let layers = self.open.get(&session).map(|transaction| &transaction.layers[..]);
        layers.unwrap_or_default().iter().filter_map(|layer| layer.savepoint).collect()
    }

    /// Decides whether the statement is beyond the model. Such a statement would have to wait for
    /// another session's transaction. Or it inserts a key that its snapshot still sees although a
    /// later commit deleted it. (That insertion succeeds, as in PostgreSQL, and the snapshot then
    /// sees two rows.)
    ///
    /// Rows written and then rolled back to a savepoint count as free: the lock of such a row goes
    /// with the subtransaction.
    pub fn would_block(&self, session: u32, step: &Step) -> bool {
        let (Step::Insert(key, _) | Step::Update(key, _) | Step::Delete(key)) = step else {
            return false;
        };
        if let (Step::Insert(..), Some(transaction)) = (step, self.open.get(&session)) {
            let snapshot = transaction.snapshot.unwrap_or(self.commits.len());
            let fixed = transaction.isolation == Isolation::RepeatableRead;
            let seen = self.versions.get(key).and_then(|versions| {
                versions.iter().rev().find(|(commit, _)| *commit < snapshot).and_then(|(_, v)| *v)
            });
            if fixed && seen.is_some() && !self.exists(*key) {
                return true;
            }
        }
        self.open.iter().any(|(other, transaction)| {
            *other != session && transaction.layers.iter().any(|l| l.writes.contains_key(key))
        })
    }

    /// Executes one statement. The second result is the commit that the statement made, if any.
    ///
    /// # Panics
    /// If the statement would block, or uses a savepoint that does not exist.
    pub fn apply(&mut self, session: u32, step: &Step) -> (Reply, Option<CommitId>) {
        assert!(!self.would_block(session, step), "{step:?} would wait");
        match step {
            Step::Begin(isolation) => {
                assert!(!self.in_transaction(session), "nested BEGIN is not modelled");
                self.open.insert(session, Transaction::new(*isolation, true));
                (Reply::Done(0), None)
            }
            Step::Commit | Step::Rollback => {
                let Some(transaction) = self.open.remove(&session) else {
                    return (Reply::Done(0), None);
                };
                let keep = *step == Step::Commit && !transaction.failed;
                (Reply::Done(0), if keep { self.commit(transaction) } else { None })
            }
            Step::Checkpoint | Step::Vacuum => (Reply::Done(0), None),
            Step::RollbackTo(name) => {
                self.transaction(session).roll_back_to(*name);
                (Reply::Done(0), None)
            }
            _ if self.failed(session) => (Reply::Error("25P02".to_owned()), None),
            Step::Savepoint(name) => {
                let layer = Layer { savepoint: Some(*name), writes: BTreeMap::new() };
                self.transaction(session).layers.push(layer);
                (Reply::Done(0), None)
            }
            Step::Release(name) => {
                self.transaction(session).release(*name);
                (Reply::Done(0), None)
            }
            _ => self.statement(session, step),
        }
    }

    /// Accepts the rows after a crash if they are the rows of the acknowledged commits with some of
    /// the others. Each such commit comes with everything it saw, in commit order.
    ///
    /// `acknowledged` and `possible` are counts. Commits before `acknowledged` must be there, and
    /// commits from `possible` on cannot be. At most 16 may lie between.
    ///
    /// # Errors
    /// A description of the fault in the rows.
    pub fn accept(&self, rows: &Rows, acknowledged: usize, possible: usize) -> Result<(), String> {
        let uncertain = possible.saturating_sub(acknowledged);
        assert!(uncertain <= 16, "too many uncertain commits to try");
        for mask in 0..(1_u32 << uncertain) {
            let survives = |commit: CommitId| {
                commit < acknowledged
                    || commit < possible && mask >> (commit - acknowledged) & 1 == 1
            };
            let closed = (acknowledged..possible)
                .filter(|commit| survives(*commit))
                .all(|commit| self.commits[commit].saw.iter().all(|seen| survives(*seen)));
            if closed && self.rows_of(survives) == *rows {
                return Ok(());
            }
        }
        Err(self.explain(rows, acknowledged, possible))
    }

    fn rows_of(&self, survives: impl Fn(CommitId) -> bool) -> Rows {
        let newest = |versions: &Vec<(CommitId, Option<Value>)>| {
            versions.iter().rev().find(|(commit, _)| survives(*commit)).and_then(|(_, v)| *v)
        };
        let rows = self.versions.iter();
        rows.filter_map(|(key, versions)| Some((*key, newest(versions)?))).collect()
    }

    fn explain(&self, rows: &Rows, acknowledged: usize, possible: usize) -> String {
        use std::fmt::Write as _;
        let expected = self.visible(acknowledged);
        let mut text = format!(
            "rows fit no allowed set of commits ({acknowledged} acknowledged, {possible} possible);\
             differences from the acknowledged ones:"
        );
        let keys: BTreeSet<&Key> = expected.keys().chain(rows.keys()).collect();
        let different = keys.into_iter().filter(|key| expected.get(key) != rows.get(key));
        for key in different.take(20) {
            let _ = write!(text, " {key}: {:?} not {:?};", rows.get(key), expected.get(key));
        }
        for (commit, made) in self.commits.iter().enumerate().take(possible).skip(acknowledged) {
            let _ = write!(text, " unacknowledged commit {commit} wrote {:?};", made.writes);
        }
        text
    }

    fn transaction(&mut self, session: u32) -> &mut Transaction {
        self.open.get_mut(&session).expect("a statement that needs a transaction")
    }

    fn commit(&mut self, transaction: Transaction) -> Option<CommitId> {
        let mut writes = BTreeMap::new();
        for layer in transaction.layers {
            writes.extend(layer.writes);
        }
        if writes.is_empty() {
            return None;
        }
        let id = self.commits.len();
        let mut saw = transaction.saw;
        for (key, value) in &writes {
            let versions = self.versions.entry(*key).or_default();
            saw.extend(versions.last().map(|(commit, _)| *commit));
            versions.push((id, *value));
        }
        self.commits.push(Commit { writes, saw });
        Some(id)
    }

    fn statement(&mut self, session: u32, step: &Step) -> (Reply, Option<CommitId>) {
        let now = self.commits.len();
        let mut transaction = self
            .open
            .remove(&session)
            .unwrap_or_else(|| Transaction::new(Isolation::ReadCommitted, false));
        if transaction.snapshot.is_none() || transaction.isolation == Isolation::ReadCommitted {
            transaction.snapshot = Some(now);
        }
        let reply = self.execute(&mut transaction, step);
        if matches!(reply, Reply::Error(_)) {
            transaction.failed = true;
            // The writes of the failed (sub)transaction are undone at once.
            transaction.layers.last_mut().expect("the first layer").writes.clear();
        }
        if transaction.explicit {
            self.open.insert(session, transaction);
            return (reply, None);
        }
        let commit = if transaction.failed { None } else { self.commit(transaction) };
        (reply, commit)
    }

    fn execute(&self, transaction: &mut Transaction, step: &Step) -> Reply {
        let failed = |state: &str| Reply::Error(state.to_owned());
        match step {
            Step::Read(key) => Reply::Row(self.read(transaction, *key)),
            Step::Scan => {
                let keys: BTreeSet<Key> = self
                    .versions
                    .keys()
                    .chain(transaction.layers.iter().flat_map(|layer| layer.writes.keys()))
                    .copied()
                    .collect();
                let row = |key| Some((key, self.read(transaction, key)?));
                Reply::Rows(keys.into_iter().filter_map(row).collect())
            }
            Step::Insert(key, value) => {
                let newest = self.versions.get(key).and_then(|versions| versions.last());
                let exists = match transaction.own(*key) {
                    Some(own) => own.is_some(),
                    None => newest.is_some_and(|(_, value)| value.is_some()),
                };
                if exists {
                    return failed("23505");
                }
                transaction.write(*key, Some(*value));
                Reply::Done(1)
            }
            Step::Update(key, value) => self.modify(transaction, *key, Some(*value)),
            Step::Delete(key) => self.modify(transaction, *key, None),
            _ => unreachable!("handled by `apply`"),
        }
    }

    fn modify(&self, transaction: &mut Transaction, key: Key, value: Option<Value>) -> Reply {
        if self.read(transaction, key).is_none() {
            return Reply::Done(0);
        }
        let seen = transaction.snapshot.unwrap_or(0);
        let newest = self.versions.get(&key).and_then(|versions| versions.last());
        let changed = newest.is_some_and(|(commit, _)| *commit >= seen);
        if changed && transaction.own(key).is_none() {
            // Only REPEATABLE READ gets here: a READ COMMITTED statement has a fresh snapshot.
            return Reply::Error("40001".to_owned());
        }
        transaction.write(key, value);
        Reply::Done(1)
    }

    fn read(&self, transaction: &mut Transaction, key: Key) -> Option<Value> {
        if let Some(own) = transaction.own(key) {
            return own;
        }
        let snapshot = transaction.snapshot.unwrap_or(0);
        let versions = self.versions.get(&key)?;
        let (commit, value) = versions.iter().rev().find(|(commit, _)| *commit < snapshot)?;
        transaction.saw.insert(*commit);
        *value
    }
}

impl Transaction {
    fn new(isolation: Isolation, explicit: bool) -> Self {
        Self {
            isolation,
            snapshot: None,
            layers: vec![Layer::default()],
            saw: BTreeSet::new(),
            failed: false,
            explicit,
        }
    }

    #[expect(clippy::option_option, reason = "no write of the key, or a write of no row")]
    fn own(&self, key: Key) -> Option<Option<Value>> {
        self.layers.iter().rev().find_map(|layer| layer.writes.get(&key).copied())
    }

    fn write(&mut self, key: Key, value: Option<Value>) {
        self.layers.last_mut().expect("the first layer").writes.insert(key, value);
    }

    fn position(&self, name: u32) -> usize {
        let found = self.layers.iter().rposition(|layer| layer.savepoint == Some(name));
        found.expect("a savepoint that exists")
    }

    fn roll_back_to(&mut self, name: u32) {
        let at = self.position(name);
        self.layers.truncate(at + 1);
        self.layers[at].writes.clear();
        self.failed = false;
    }

    fn release(&mut self, name: u32) {
        let at = self.position(name);
        let merged: Vec<Layer> = self.layers.drain(at..).collect();
        let target = self.layers.last_mut().expect("the first layer");
        for layer in merged {
            target.writes.extend(layer.writes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(list: &[(Key, Value)]) -> Rows {
        list.iter().copied().collect()
    }

    fn run(model: &mut Model, steps: &[(u32, Step)]) -> Vec<Reply> {
        steps.iter().map(|(session, step)| model.apply(*session, step).0).collect()
    }

    #[test]
    fn snapshots_differ_by_isolation() {
        let mut model = Model::new();
        run(&mut model, &[(0, Step::Insert(1, 10))]);
        run(
            &mut model,
            &[
                (1, Step::Begin(Isolation::ReadCommitted)),
                (2, Step::Begin(Isolation::RepeatableRead)),
                (1, Step::Read(1)),
                (2, Step::Read(1)),
                (0, Step::Update(1, 11)),
            ],
        );
        let seen = run(&mut model, &[(1, Step::Read(1)), (2, Step::Read(1)), (2, Step::Scan)]);
        let expected = [Reply::Row(Some(11)), Reply::Row(Some(10)), Reply::Rows(rows(&[(1, 10)]))];
        assert_eq!(seen, expected);
        let written = run(
            &mut model,
            &[(1, Step::Update(1, 12)), (1, Step::Commit), (2, Step::Update(1, 13))],
        );
        assert_eq!(written[0], Reply::Done(1));
        assert_eq!(written[2], Reply::Error("40001".to_owned()));
        assert_eq!(model.apply(2, &Step::Read(1)).0, Reply::Error("25P02".to_owned()));
        assert_eq!(model.apply(2, &Step::Commit), (Reply::Done(0), None));
        assert_eq!(model.visible(model.commits()), rows(&[(1, 12)]));
    }

    #[test]
    fn savepoints_undo_and_keep() {
        let mut model = Model::new();
        run(
            &mut model,
            &[
                (0, Step::Begin(Isolation::ReadCommitted)),
                (0, Step::Insert(1, 1)),
                (0, Step::Savepoint(1)),
                (0, Step::Update(1, 2)),
                (0, Step::Savepoint(2)),
                (0, Step::Insert(2, 2)),
                (0, Step::Insert(2, 3)),
            ],
        );
        assert!(model.failed(0));
        run(
            &mut model,
            &[
                (0, Step::RollbackTo(2)),
                (0, Step::Insert(3, 3)),
                (0, Step::Release(1)),
                (0, Step::Commit),
            ],
        );
        assert_eq!(model.visible(1), rows(&[(1, 2), (3, 3)]));
    }

    #[test]
    fn others_wait_for_a_writer() {
        let mut model = Model::new();
        run(&mut model, &[(0, Step::Begin(Isolation::ReadCommitted)), (0, Step::Insert(1, 1))]);
        assert!(model.would_block(1, &Step::Insert(1, 2)));
        assert!(!model.would_block(1, &Step::Insert(2, 2)));
        assert!(!model.would_block(0, &Step::Update(1, 2)));
        assert!(!model.would_block(1, &Step::Read(1)));
    }

    #[test]
    fn after_a_crash_only_allowed_sets_pass() {
        let mut model = Model::new();
        run(&mut model, &[(0, Step::Insert(1, 1)), (0, Step::Insert(2, 1))]);
        // Commit 2 overwrites the value of commit 0; commit 3 is alone; commit 4 overwrites the
        // value of commit 3.
        run(&mut model, &[(0, Step::Update(1, 2)), (1, Step::Insert(3, 1))]);
        run(&mut model, &[(0, Step::Update(3, 2))]);
        let ok = |list: &[(Key, Value)], acknowledged, possible| {
            model.accept(&rows(list), acknowledged, possible).is_ok()
        };
        assert!(ok(&[(1, 1), (2, 1)], 2, 5));
        assert!(ok(&[(1, 2), (2, 1)], 2, 5));
        assert!(ok(&[(1, 1), (2, 1), (3, 1)], 2, 5));
        assert!(ok(&[(1, 2), (2, 1), (3, 2)], 2, 5));
        assert!(!ok(&[(2, 1)], 2, 5), "an acknowledged insert is gone");
        assert!(!ok(&[(1, 1), (2, 1)], 3, 5), "an acknowledged update is gone");
        assert!(!ok(&[(1, 2), (2, 1)], 2, 2), "a commit that had not begun");
        assert!(!ok(&[(1, 3), (2, 1)], 2, 5), "a value nobody wrote");
    }

    #[test]
    fn a_survivor_brings_what_it_saw() {
        let mut model = Model::new();
        run(&mut model, &[(0, Step::Insert(1, 1))]);
        run(
            &mut model,
            &[
                (1, Step::Begin(Isolation::ReadCommitted)),
                (1, Step::Read(1)),
                (1, Step::Insert(2, 1)),
                (1, Step::Commit),
            ],
        );
        assert!(model.accept(&rows(&[(2, 1)]), 0, 2).is_err());
        assert!(model.accept(&rows(&[(1, 1), (2, 1)]), 0, 2).is_ok());
        assert!(model.accept(&rows(&[(1, 1)]), 0, 2).is_ok());
    }
}
