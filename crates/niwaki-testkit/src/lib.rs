#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod buggy_store;
pub mod chains;
pub mod crash;
#[cfg(feature = "shuttle")]
pub mod databases;
#[cfg(feature = "shuttle")]
mod injected_faults;
#[cfg(feature = "shuttle")]
pub mod interleavings;
#[cfg(feature = "shuttle")]
pub mod key_share_locks;
#[cfg(feature = "shuttle")]
pub mod known_answers;
#[cfg(feature = "shuttle")]
pub mod ledger;
pub mod model;
pub mod orphan_files;
pub mod pages;
#[cfg(feature = "shuttle")]
pub mod parallel_queries;
#[cfg(feature = "shuttle")]
pub mod processes;
#[cfg(feature = "shuttle")]
pub mod queue_workers;
pub mod reports;
pub mod restarts;
#[cfg(feature = "shuttle")]
pub mod scans;
#[cfg(feature = "shuttle")]
pub mod schedules;
#[cfg(feature = "shuttle")]
pub mod sequences;
#[cfg(feature = "shuttle")]
pub mod snapshot_interleavings;
pub mod sql;
pub mod tables;
pub mod tested_database;
#[cfg(feature = "shuttle")]
pub mod transfers;
#[cfg(feature = "shuttle")]
mod two_row_table;
#[cfg(feature = "shuttle")]
pub mod upserts;
pub mod vacuum_truncation;
pub mod workload;
