//! Broken invariants.

use std::fmt::{Display, Formatter};

/// The name of a broken invariant. The first group has the names of `docs/internals/invariants.md`;
/// the second is about results that sessions see.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "docs/internals/invariants.md says what these are")]
pub enum Invariant {
    H1,
    H2,
    H3,
    X1,
    X2,
    X3,
    X4,
    B1,
    V1,
    G1,
    G2,
    D1,
    /// A scan returned other rows than its snapshot sees.
    Answer,
    /// A commit overwrote a change that it had not seen.
    LostUpdate,
    /// An existing row was taken for deleted.
    MissedUpdate,
    /// A follower reached another row.
    WrongRow,
    /// Two rows have one key, or a key was refused that no row has.
    Unique,
    /// A row lock was ignored, or taken for another row's.
    LostLock,
    /// A crash lost a commit behind an answer that a client has.
    LostAnswer,
    /// A statement's snapshot misses a commit that its session has met.
    Causality,
    /// A snapshot sees a commit whose definitions are not in force.
    Definitions,
    /// A wait for a transaction ended, and its waiter has to wait for the same transaction again.
    Spins,
    /// No actor can go on.
    Progress,
}

/// A broken invariant, with its symptom.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The invariant.
    pub invariant: Invariant,
    /// The place and the values.
    pub what: String,
}

impl Display for Violation {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}: {}", self.invariant, self.what)
    }
}
