#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod connection;
mod report;
mod server;
mod session;
mod startup;
mod wire;

pub use server::{Server, ServerOptions, StartError};
