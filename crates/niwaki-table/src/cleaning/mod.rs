//! Cleaning: removal of what dead versions leave behind, by writers, by rounds and by vacuum.
//!
//! - `tend_values`: frees the space of removed pieces (chunks of out-of-line values).
//! - `gardener`: removes the index entries of removed versions, beside the work of writers.
//! - `rounds`: background passes that handle what the last writers left.
//! - `clean`: a vacuum pass over an index.
//! - `maintained`: the changes of a table since its last VACUUM and ANALYZE.

pub(crate) mod clean;
pub(crate) mod gardener;
pub(crate) mod maintained;
pub(crate) mod rounds;
pub(crate) mod tend_values;
