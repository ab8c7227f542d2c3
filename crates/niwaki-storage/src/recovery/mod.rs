//! Opening of a data directory, and redo of the log since the last checkpoint.
//!
//! The order: the fate of files later in the log (`analysis`), the redo of one record (`redo`),
//! what recovery asks of the layers above (`manager`), and the opening, which repeats the log
//! (`open`).

pub(crate) mod analysis;
pub(crate) mod manager;
pub(crate) mod open;
pub(crate) mod redo;

pub use open::RecoverySummary;
pub use redo::{Redo, RedoPage};
