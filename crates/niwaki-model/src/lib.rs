#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

// The wings, lowest first. A wing names only itself and the wings before it.
//
// Random numbers from a seed.
mod random;
// The rules of the protocol, each a switch.
mod rules;
// The state that actors share.
mod state;
// Actors, and the order of their steps.
mod scheduler;
// Plans of actors: transactions and their statements.
mod plan;
// Access to the shared state, under latches.
mod access;
// Checks of the invariants, and of the rows that scans return.
mod checking;
// Removal of versions and entries.
mod cleaning;
// Statements of sessions, long readers and index builds.
mod statement;
// Scenarios: the mixture, and a story for each rule.
pub mod scenarios;
// Runs of scenarios.
mod driver;

pub use driver::{Failure, Report, explore, replay};
pub use rules::{Rule, Rules};
pub use state::violation::{Invariant, Violation};
pub use state::world::Events;
