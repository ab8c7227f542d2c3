//! Text forms of values without parts: numbers of the machine, bytes, `uuid`, `"char"`.
//!
//! The order: the parts that several texts share (`space`, `ordinal`), then the forms. No form
//! knows another one.

pub(crate) mod bytes;
pub(crate) mod float;
pub(crate) mod integer;
pub(crate) mod ordinal;
pub mod quoted_char;
pub(crate) mod space;
pub(crate) mod uuid;
