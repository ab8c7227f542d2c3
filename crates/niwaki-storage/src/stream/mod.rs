//! Read-ahead: a reader of many pages in a known order names them early, so that they are in the
//! pool in time.
//!
//! The order: the method (`method`), the look-ahead distance (`distance`), the ring of frames that
//! a pass uses again (`access_strategy`), and the streams (`read_stream`).

pub(crate) mod access_strategy;
pub(crate) mod distance;
pub(crate) mod method;
pub(crate) mod read_stream;

#[cfg(all(test, not(feature = "loom")))]
mod tests;
