//! States of transactions: recent segments in memory or in a temporary file, older ones on status
//! pages in two bits per transaction.
//!
//! The order: segments of ids (`segment`), the bytes of pages and records (`status_page`,
//! `record`), the states in a file (`spill`), in frames (`directory`) and on pages (`status_cache`,
//! `shrunk`). Moves between frames and file (`spill/moving.rs`) know both. Apart from them are the
//! log (`transaction_log`) and the commits in it that are not visible yet (`commit_queue`).

pub(crate) mod commit_queue;
pub(crate) mod directory;
pub(crate) mod record;
pub(crate) mod segment;
pub(crate) mod shrunk;
pub(crate) mod spill;
pub(crate) mod status_cache;
pub(crate) mod status_page;
pub(crate) mod transaction_log;
