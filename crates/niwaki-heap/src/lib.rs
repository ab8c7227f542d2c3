#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod error;
mod outcome;
mod rows;

pub use error::{Error, Result};
pub use outcome::{NewRow, RowLockStrength, RowTarget, VersionRow};
pub use rows::{PageRows, RowRef};
