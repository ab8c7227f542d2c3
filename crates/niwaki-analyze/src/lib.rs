#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod analyze;
pub mod deparse;
pub mod generated;
pub mod index_expression;
pub mod plpgsql;
pub mod sequence_row;
