//! Texts that the catalog stores: expressions, triggers and views.

pub(super) mod text;
pub(super) mod trigger;
pub(super) mod view;
