//! Definitions of views and materialized views.
//!
//! - `create_view`: views, and the views that read a changed relation.
//! - `materialized`: materialized views, and their refresh.

pub(crate) mod create_view;
pub(crate) mod materialized;
