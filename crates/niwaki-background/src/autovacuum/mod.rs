//! Autovacuum: automatic VACUUM and ANALYZE of the tables that need them.
//!
//! ```text
//!  launcher, each naptime                          workers, autovacuum_max_workers at most
//!    all tables ─► numbers ─► need?                  take the first of the queue
//!    (rounds.rs)              (need.rs)              lock it if the lock is free, look again
//!         └──► queue: longest wanted first,   ─────► VACUUM, commit, ANALYZE, commit
//!              then worst, those that failed last    (work.rs)
//! ```
//!
//! No table delays the others. A worker that cannot lock a table at once leaves the table for the
//! next round. An error concerns its table alone. A need that an earlier round found comes before a
//! greater one that is new. A worker gives way to a transaction that waits for its lock, and begins
//! again in a later round.
//!
//! The threads hold the engine and the catalog, not the database, and end with its last handle.

pub mod launcher;
pub mod limits;
pub(crate) mod need;
pub mod rounds;
pub mod work;
