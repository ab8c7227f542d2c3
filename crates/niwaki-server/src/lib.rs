#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod connection;
#[doc(hidden)]
#[cfg(any(test, feature = "hostile"))]
pub mod hostile;
mod report;
mod server;
mod session;
mod startup;
mod wake;
mod wire;

pub use server::{Server, ServerOptions, StartError};
