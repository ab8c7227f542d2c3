//! Autovacuum: tables that need VACUUM or ANALYZE get it without being asked.
//!
//! ```text
//!  launcher, each naptime                          workers, autovacuum_max_workers at most
//!    all tables ─► numbers ─► need?                  take the first of the queue
//!    (rounds.rs)              (need.rs)              lock it if nobody is in the way, look again
//!         └──► queue: longest wanted first,   ─────► VACUUM, commit, ANALYZE, commit
//!              then worst, those that failed last    (work.rs)
//! ```
//!
//! No table keeps the others waiting: a worker that cannot lock a table at once leaves it for the next round, an error concerns
//! its table alone, and what was wanted in an earlier round is done before what is worse but new. A worker gives way to who
//! waits for its lock, and begins again in a later round.
//!
//! The threads hold the engine and the catalog, not the database: they end with its last handle.

mod launcher;
mod limits;
mod need;
mod rounds;
mod work;

pub(crate) use launcher::LauncherThread;
pub(crate) use limits::workers_max;
pub(crate) use rounds::Autovacuum;
pub use work::AutovacuumReport;
