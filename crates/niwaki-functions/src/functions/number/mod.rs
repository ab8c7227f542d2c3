//! Numbers and their operators.

pub(super) mod math;
pub(super) mod operators;
pub(super) mod random;
pub(super) mod trigonometry;
