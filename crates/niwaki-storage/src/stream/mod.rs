//! Read-ahead: a reader of many pages in a known order names them early, so that they are in the
//! pool in time.

mod distance;
mod method;
mod read_stream;
mod readers;
mod ring;
#[cfg(all(test, not(feature = "loom")))]
mod tests;

pub use method::{IoMethod, MethodInUse};
pub use read_stream::{BlocksAhead, ReadAhead, ReadStream};
pub use readers::Readers;
