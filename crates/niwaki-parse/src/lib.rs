#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod collation;
pub mod column_names;
pub mod copy;
pub mod database;
pub mod error;
pub mod numbered;
pub mod parse;
pub mod types;
pub mod utility;
pub mod walk;
