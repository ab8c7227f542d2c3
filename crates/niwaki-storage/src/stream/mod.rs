//! Reading ahead: who reads many pages in an order that is known says which, and they are there when he comes.

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
