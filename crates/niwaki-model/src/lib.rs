#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod build;
mod deleter;
mod driver;
mod durable;
mod gardener;
mod heap;
mod index;
mod invariants;
mod locks;
mod oracle;
mod plan;
mod prune;
mod random;
mod reader;
mod rules;
mod scan;
pub mod scenarios;
mod scheduler;
mod session;
mod settle;
mod transactions;
mod unique;
mod update;
mod vacuum;
mod world;

pub use driver::{Failure, Report, explore, replay};
pub use invariants::{Invariant, Violation};
pub use rules::{Rule, Rules};
pub use world::Events;
