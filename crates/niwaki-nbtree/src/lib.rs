#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod batch;
mod error;
mod options;
mod range;
mod stats;
mod table;

pub use batch::{BatchEntry, LeafBatch, LeafVersion};
pub use error::{Error, Result};
pub use options::{IndexOptions, SplitStrategy};
pub use range::{Direction, KeyBound, KeyRange};
pub use stats::IndexStats;
pub use table::{
    DeletionCandidate, DeletionOracle, EntryDecision, RemovedInterval, UniqueCheck, UniqueVerdict,
};
