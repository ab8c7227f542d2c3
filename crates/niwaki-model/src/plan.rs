//! The plans of actors, fixed before the first step, so that a failing run can be read.

use std::fmt::{Display, Formatter};

use crate::random::Random;
use crate::state::index::{Column, Definition, Unique};
use crate::state::oracle::Wanted;

/// Isolation levels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Isolation {
    ReadCommitted,
    RepeatableRead,
}

/// The place where an update puts the new version.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// On the same page if there is room.
    Here,
    /// On the other page.
    Away,
    /// On the same page, mostly.
    Any,
}

/// New values of columns; `None` keeps the old value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct To {
    pub(crate) a: Option<u8>,
    pub(crate) b: Option<u8>,
}

/// A statement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Statement {
    Update {
        wanted: Wanted,
        to: To,
        place: Place,
    },
    Delete {
        wanted: Wanted,
    },
    Insert {
        a: u8,
        b: u8,
    },
    /// SELECT FOR KEY SHARE, or FOR UPDATE.
    Lock {
        wanted: Wanted,
        exclusive: bool,
    },
    Scan {
        wanted: Wanted,
    },
    IndexOnly {
        wanted: Wanted,
    },
    HeapScan,
    Savepoint,
    RollBack,
    Release,
    Prune {
        page: u8,
    },
}

impl Statement {
    /// Returns whether the statement changes or locks rows: then its snapshot may follow chains.
    pub(crate) fn writes(&self) -> bool {
        matches!(self, Self::Update { .. } | Self::Delete { .. } | Self::Lock { .. })
    }
}

impl Display for Statement {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let at = |wanted: &Wanted| match wanted.key {
            Some(key) => format!("index {} = {key}", wanted.index),
            None => format!("index {}", wanted.index),
        };
        match self {
            Self::Update { wanted, to, place } => {
                let set = [("a", to.a), ("b", to.b)];
                let set = set
                    .iter()
                    .filter_map(|(column, value)| value.map(|value| format!(" {column}={value}")));
                let set: String = set.collect();
                write!(f, "update set{set} where {} ({place:?})", at(wanted))
            }
            Self::Delete { wanted } => write!(f, "delete where {}", at(wanted)),
            Self::Insert { a, b } => write!(f, "insert a={a} b={b}"),
            Self::Lock { wanted, exclusive } => {
                let what = if *exclusive { "for update" } else { "for key share" };
                write!(f, "select {what} where {}", at(wanted))
            }
            Self::Scan { wanted } => write!(f, "scan {}", at(wanted)),
            Self::IndexOnly { wanted } => write!(f, "index-only scan {}", at(wanted)),
            Self::HeapScan => write!(f, "heap scan"),
            Self::Savepoint => write!(f, "savepoint"),
            Self::RollBack => write!(f, "rollback to savepoint"),
            Self::Release => write!(f, "release savepoint"),
            Self::Prune { page } => write!(f, "prune page {page}"),
        }
    }
}

/// The end of a transaction, if no error comes before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    Commit,
    Abort,
    Either,
}

/// A transaction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct TransactionPlan {
    pub(crate) isolation: Isolation,
    pub(crate) statements: Vec<Statement>,
    pub(crate) end: End,
    /// The commit is flushed before it is published.
    pub(crate) durable: bool,
    /// The commit has definitions. Only early release treats it differently.
    pub(crate) late: bool,
    /// With early release, the client sends its next transaction before it has the answers to this
    /// one.
    pub(crate) pipelined: bool,
}

impl Display for TransactionPlan {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.isolation)?;
        for statement in &self.statements {
            write!(f, "; {statement}")?;
        }
        write!(f, "; {:?}", self.end)?;
        let kinds =
            [(!self.durable, "asynchronous"), (self.late, "late"), (self.pipelined, "pipelined")];
        for (_, kind) in kinds.iter().filter(|(is, _)| *is) {
            write!(f, " ({kind})")?;
        }
        Ok(())
    }
}

/// An actor.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum ActorPlan {
    Session(Vec<TransactionPlan>),
    Pruner {
        rounds: u8,
    },
    Gardener {
        rounds: usize,
    },
    /// Cleans up versions removed from mixed roots.
    Tender {
        rounds: usize,
    },
    /// Drops the third index, and rolls that back.
    Dropper {
        rounds: usize,
    },
    Deleter {
        rounds: usize,
    },
    Vacuum {
        passes: usize,
    },
    OldReader {
        held: bool,
    },
    /// Reads with the snapshot of another actor.
    Worker {
        leader: usize,
    },
    /// Builds the third index.
    Build,
    /// Writes pages to the disk.
    Writer {
        rounds: usize,
    },
    /// Makes all flushes fail, from some moment on.
    FailingDevice,
}

/// A run: the initial state, and the actors with their work.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) indexes: Vec<Definition>,
    /// The third index exists at the beginning.
    pub(crate) third_valid: bool,
    /// The rows at the beginning.
    pub(crate) rows: Vec<(u8, u8)>,
    /// Entries that a leaf holds before it splits.
    pub(crate) leaf_capacity: usize,
    pub(crate) actors: Vec<ActorPlan>,
    /// The actors after each crash. The run crashes once per element.
    pub(crate) after_crashes: Vec<Vec<ActorPlan>>,
    /// Steps within which a crash comes.
    pub(crate) crash_within: usize,
    /// Commits are marked when logged, and published when durable (rule `early-release`).
    pub(crate) early_release: bool,
}

impl Plan {
    /// Begins with index A on a, unique, and index B on b, two rows, and no actors.
    pub(crate) fn new() -> Self {
        let a = Definition {
            name: "A",
            column: Column::A,
            expression: false,
            partial: false,
            unique: Unique::AtOnce,
            includes_serial: false,
        };
        let b = Definition { name: "B", column: Column::B, unique: Unique::No, ..a };
        Self {
            indexes: vec![a, b],
            third_valid: false,
            rows: vec![(0, 0), (1, 1)],
            leaf_capacity: usize::MAX,
            actors: Vec::new(),
            after_crashes: Vec::new(),
            crash_within: 240,
            early_release: false,
        }
    }

    pub(crate) fn early(mut self) -> Self {
        self.early_release = true;
        self
    }

    /// Releases early, and lets some transactions not wait for their answers.
    pub(crate) fn early_at_random(mut self, random: &mut Random) -> Self {
        self.early_release = true;
        for actor in self.actors.iter_mut().chain(self.after_crashes.iter_mut().flatten()) {
            if let ActorPlan::Session(transactions) = actor {
                for transaction in transactions {
                    transaction.pipelined |= random.one_in(3);
                    transaction.late |= random.one_in(8);
                }
            }
        }
        self
    }

    /// Crashes within a number of steps, and then reads.
    pub(crate) fn crashing(mut self, within: usize) -> Self {
        self.crash_within = within;
        self.after_crashes = vec![vec![ActorPlan::Session(vec![tx(vec![scan(all(0))])])]];
        self
    }

    pub(crate) fn including_serial(mut self) -> Self {
        self.indexes[0].includes_serial = true;
        self
    }

    /// Puts the second index on a too, so that changes of b concern only a third index.
    pub(crate) fn second_on_a(mut self) -> Self {
        self.indexes[1].column = Column::A;
        self
    }

    pub(crate) fn third(mut self, definition: Definition, valid: bool) -> Self {
        self.indexes.push(definition);
        self.third_valid = valid;
        self
    }

    pub(crate) fn with(mut self, actor: ActorPlan) -> Self {
        self.actors.push(actor);
        self
    }

    pub(crate) fn session(self, transactions: Vec<TransactionPlan>) -> Self {
        self.with(ActorPlan::Session(transactions))
    }
}

/// Returns a third index: on the half of b, an expression; or on a where b > 0; or plain on b.
pub(crate) fn third_index(random: &mut Random) -> Definition {
    let plain = third_on_b(false);
    match random.below(3) {
        0 => Definition { expression: true, ..plain },
        1 => Definition { column: Column::A, partial: true, ..plain },
        _ => plain,
    }
}

pub(crate) fn third_on_b(expression: bool) -> Definition {
    Definition {
        name: "C",
        column: Column::B,
        expression,
        partial: false,
        unique: Unique::No,
        includes_serial: false,
    }
}

// A short language for scenarios.

/// Makes a READ COMMITTED transaction that commits.
pub(crate) fn tx(statements: Vec<Statement>) -> TransactionPlan {
    TransactionPlan {
        isolation: Isolation::ReadCommitted,
        statements,
        end: End::Commit,
        durable: true,
        late: false,
        pipelined: false,
    }
}

/// Makes a REPEATABLE READ transaction that commits.
pub(crate) fn repeatable(statements: Vec<Statement>) -> TransactionPlan {
    TransactionPlan { isolation: Isolation::RepeatableRead, ..tx(statements) }
}

/// Makes a READ COMMITTED transaction that rolls back.
pub(crate) fn aborted(statements: Vec<Statement>) -> TransactionPlan {
    TransactionPlan { end: End::Abort, ..tx(statements) }
}

/// Selects rows by index A.
pub(crate) fn a(key: u8) -> Wanted {
    Wanted { index: 0, key: Some(key) }
}

/// Selects rows by index B.
pub(crate) fn b(key: u8) -> Wanted {
    Wanted { index: 1, key: Some(key) }
}

/// Selects all rows of an index.
pub(crate) fn all(index: usize) -> Wanted {
    Wanted { index, key: None }
}

pub(crate) fn set_a(wanted: Wanted, to: u8) -> Statement {
    Statement::Update { wanted, to: To { a: Some(to), b: None }, place: Place::Here }
}

pub(crate) fn set_b(wanted: Wanted, to: u8) -> Statement {
    Statement::Update { wanted, to: To { a: None, b: Some(to) }, place: Place::Here }
}

/// Changes an update so that it moves its row to the other page.
pub(crate) fn away(statement: Statement) -> Statement {
    match statement {
        Statement::Update { wanted, to, .. } => {
            Statement::Update { wanted, to, place: Place::Away }
        }
        other => other,
    }
}

pub(crate) fn delete(wanted: Wanted) -> Statement {
    Statement::Delete { wanted }
}

pub(crate) fn insert(a: u8, b: u8) -> Statement {
    Statement::Insert { a, b }
}

pub(crate) fn scan(wanted: Wanted) -> Statement {
    Statement::Scan { wanted }
}

pub(crate) fn index_only(wanted: Wanted) -> Statement {
    Statement::IndexOnly { wanted }
}

pub(crate) fn lock(wanted: Wanted) -> Statement {
    Statement::Lock { wanted, exclusive: false }
}

pub(crate) fn lock_exclusively(wanted: Wanted) -> Statement {
    Statement::Lock { wanted, exclusive: true }
}

// Random plans.

/// Makes sessions of random transactions.
pub(crate) fn random_sessions(random: &mut Random, plan: &Plan, n: usize) -> Vec<ActorPlan> {
    let statements = 2 + random.below(4);
    let mut session = || {
        let transactions = 1 + random.below(2);
        let each = (0..transactions).map(|_| random_transaction(random, plan, statements));
        ActorPlan::Session(each.collect())
    };
    (0..n).map(|_| session()).collect()
}

fn random_transaction(random: &mut Random, plan: &Plan, statements: usize) -> TransactionPlan {
    let repeatable = random.one_in(3);
    TransactionPlan {
        isolation: if repeatable { Isolation::RepeatableRead } else { Isolation::ReadCommitted },
        statements: (0..statements).map(|_| random_statement(random, plan)).collect(),
        end: End::Either,
        durable: plan.after_crashes.is_empty() || random.one_in(2),
        late: false,
        pipelined: false,
    }
}

fn random_statement(random: &mut Random, plan: &Plan) -> Statement {
    let index = random.below(plan.indexes.len());
    let wanted = Wanted { index, key: Some(random.key()) };
    let every = Wanted { index, key: None };
    match random.below(20) {
        0..7 => {
            let (new_a, new_b) = (random.key(), random.key());
            let (a, b) = random.pick(&[(true, false), (false, true), (true, true), (false, false)]);
            let to = To { a: a.then_some(new_a), b: b.then_some(new_b) };
            Statement::Update { wanted, to, place: Place::Any }
        }
        7 => Statement::Delete { wanted },
        8 => Statement::Insert { a: random.key(), b: random.key() },
        9 => Statement::Lock { wanted, exclusive: random.one_in(2) },
        10 | 11 => Statement::Scan { wanted: every },
        12 | 13 => Statement::IndexOnly { wanted: if random.one_in(2) { wanted } else { every } },
        14 => Statement::HeapScan,
        15 | 16 => Statement::Savepoint,
        17 => Statement::RollBack,
        18 => Statement::Release,
        _ => Statement::Prune { page: u8::from(random.one_in(2)) },
    }
}
