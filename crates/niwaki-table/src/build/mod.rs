//! Work on whole tables: index builds, checks and inspection.
//!
//! - `progress`: the progress of a build.
//! - `index_build`: fills an index from the heap, and validates it.
//! - `stale_entries`: counts the entries of an index whose key no version has.
//! - `inspect`: reads a heap page by page.
//! - `check`: checks that heap and indexes agree.

pub(crate) mod check;
pub(crate) mod index_build;
pub(crate) mod inspect;
pub(crate) mod progress;
pub(crate) mod stale_entries;
