//! Cleaning: removal of what dead versions leave behind, by writers, by rounds and by vacuum.
//!
//! - `value_cleanup`: frees the space of removed pieces (chunks of out-of-line values).
//! - `gardener`: removes the index entries of removed versions, beside the work of writers.
//! - `rounds`: background passes that handle what the last writers left.
//! - `index_vacuum`: a vacuum pass over an index.
//! - `maintenance_stats`: the changes of a table since its last VACUUM and ANALYZE.

pub(crate) mod gardener;
pub(crate) mod index_vacuum;
pub(crate) mod maintenance_stats;
pub(crate) mod rounds;
pub(crate) mod value_cleanup;
