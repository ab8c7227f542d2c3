//! Parallel query: several threads read the rows of one step.
//!
//! The session's thread first reads the rows that all threads need, which are the inner sides of
//! hash joins ([`BatchStep::divide`]). Then each thread takes free blocks of the driving table
//! ([`division`]), and runs all steps on their rows.
//!
//! An aggregate has groups in each thread, which are added up in the end
//! (`grouping/parallel_groups.rs`). For all other steps the session's thread takes the batches of
//! all threads ([`gather`]).

mod division;
mod gather;
mod workers;

pub(crate) use division::Division;
pub(crate) use gather::gather;
pub(crate) use workers::Workers;
