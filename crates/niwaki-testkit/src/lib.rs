#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod chains;
pub mod crash;
#[cfg(feature = "shuttle")]
pub mod crews;
#[cfg(feature = "shuttle")]
pub mod databases;
#[cfg(feature = "shuttle")]
pub mod intervals;
pub mod model;
pub mod pages;
pub mod reports;
pub mod restarts;
#[cfg(feature = "shuttle")]
pub mod scans;
#[cfg(feature = "shuttle")]
pub mod schedules;
#[cfg(feature = "shuttle")]
pub mod sharers;
pub mod sql;
#[cfg(feature = "shuttle")]
mod stage;
#[cfg(feature = "shuttle")]
pub mod stories;
pub mod subject;
pub mod tables;
pub mod tails;
pub mod toy;
#[cfg(feature = "shuttle")]
pub mod transfers;
#[cfg(feature = "shuttle")]
pub mod upserts;
pub mod workload;
