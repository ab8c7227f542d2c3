//! Definitions of views and materialized views.

pub(crate) mod create_view;
pub(crate) mod materialized;
