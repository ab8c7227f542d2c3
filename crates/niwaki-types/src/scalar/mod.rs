//! Text forms of values without parts: numbers of the machine, bytes, `uuid`, `"char"`.
//!
//! No file here knows another one.

pub(crate) mod bytes;
pub(crate) mod float;
pub(crate) mod integer;
pub mod quoted_char;
pub(crate) mod uuid;
