#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod chains;
#[cfg(feature = "shuttle")]
pub mod claims;
pub mod crash;
#[cfg(feature = "shuttle")]
pub mod crews;
#[cfg(feature = "shuttle")]
pub mod databases;
#[cfg(feature = "shuttle")]
pub mod intervals;
#[cfg(feature = "shuttle")]
pub mod ledger;
pub mod model;
pub mod pages;
#[cfg(feature = "shuttle")]
pub mod processes;
#[cfg(feature = "shuttle")]
pub mod promises;
pub mod reports;
pub mod restarts;
#[cfg(feature = "shuttle")]
pub mod scans;
#[cfg(feature = "shuttle")]
pub mod schedules;
#[cfg(feature = "shuttle")]
pub mod sequences;
#[cfg(feature = "shuttle")]
pub mod sharers;
pub mod sql;
#[cfg(feature = "shuttle")]
mod stage;
#[cfg(feature = "shuttle")]
pub mod stories;
pub mod strays;
pub mod subject;
pub mod tables;
pub mod tails;
pub mod toy;
#[cfg(feature = "shuttle")]
pub mod transfers;
#[cfg(feature = "shuttle")]
mod trouble;
#[cfg(feature = "shuttle")]
pub mod upserts;
pub mod workload;
