#![doc = include_str!("../README.md")]

mod error;
pub mod ids;
pub mod page;
pub mod record;

pub use error::{Corruption, Error, Result};
pub use ids::{BlockNumber, Csn, Fork, Lsn, OffsetNumber, PageId, RelFile, RelFileId, Tid, Xid};
