//! Texts, byte strings and patterns.

pub(super) mod binary;
pub(super) mod format;
pub(super) mod pattern;
pub(super) mod quote;
pub(super) mod regexp;
pub(super) mod strings;
pub(super) mod unicode;
pub(super) mod uuid;
