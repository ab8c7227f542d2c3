//! Removal of versions that no snapshot sees, and the clean-up that follows.
//!
//! The order: roots with several keys (`mixed`), clean-up of entries (`freeing`, `settled`,
//! `report`), one pass over one page (`prune`), whether one is useful (`useful`), then the callers
//! of passes: writers that must move a page's xid base (`rebase`), readers (`access`) and vacuum
//! (`tid_store`, `vacuum`, `tail`).

pub(crate) mod access;
pub(crate) mod freeing;
pub(crate) mod mixed;
pub(crate) mod prune;
pub(crate) mod rebase;
pub(crate) mod report;
pub(crate) mod settled;
pub(crate) mod tail;
pub(crate) mod tid_store;
pub(crate) mod useful;
pub(crate) mod vacuum;
