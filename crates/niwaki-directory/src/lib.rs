#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

// The modules, lowest first. A module names only the modules before it in this list.

// The receiver of lines about background work.
pub mod log;

// The limit of parallel workers.
pub mod parallel_workers;

// Messages between the sessions of a database.
pub mod notifications;

// An open database with its connected sessions.
pub mod open_database;

// All databases of the directory.
pub mod databases;
