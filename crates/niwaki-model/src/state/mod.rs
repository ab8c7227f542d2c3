//! The state that actors share.

pub(crate) mod heap;
pub(crate) mod index;
pub(crate) mod oracle;
pub(crate) mod transactions;
pub(crate) mod world;
