//! Steps that compute, pass on, repeat or stop rows.

pub(crate) mod gate;
pub(crate) mod output;
pub(crate) mod recursive;
pub(crate) mod with;
