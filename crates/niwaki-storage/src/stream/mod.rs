//! Read-ahead: a reader of many pages in a known order names them early, so that they are in the
//! pool in time.
//!
//! The order: the method (`method`), the look-ahead distance (`distance`), the ring of frames that
//! a pass uses again (`ring`), and the streams (`read_stream`).

pub(crate) mod distance;
pub(crate) mod method;
pub(crate) mod read_stream;
pub(crate) mod ring;

#[cfg(all(test, not(feature = "loom")))]
mod tests;
