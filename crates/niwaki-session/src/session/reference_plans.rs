//! State of foreign keys: the after-trigger queue, and the plans of queries that check them.

use std::sync::Arc;

use niwaki_catalog::Oid;
use niwaki_env::hash::HashMap;
use niwaki_sql::Planned;

use crate::session::after_trigger_queue::AfterTriggerQueue;

/// Foreign key state of a session.
#[derive(Default)]
pub(crate) struct ForeignKeys {
    /// Work for the end of the running statement.
    pub(crate) queue: AfterTriggerQueue,
    /// Plans of the queries that check constraints.
    pub(crate) plans: Plans,
}

/// Plans by constraint and kind of query.
#[derive(Default)]
pub(crate) struct Plans(pub HashMap<(Oid, QueryKind), Plan>);

/// A plan, and the versions of catalog and settings that it depends on.
pub(crate) struct Plan {
    pub(crate) planned: Arc<Planned>,
    pub(crate) version: (u64, u64),
}

/// Kind of query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum QueryKind {
    /// Query that finds and locks the referenced row with a key, given as the referencing table has
    /// it.
    Referenced,
    /// Query that finds and locks the referenced row with a key, given as the referenced table has
    /// it.
    Back,
    /// Query that finds and locks a referring row.
    Referring,
    /// Query that finds a row with a key as the referencing table has it.
    Own,
    /// ON DELETE CASCADE.
    Delete,
    /// ON UPDATE CASCADE.
    Follow,
    /// ON DELETE SET NULL, or ON UPDATE SET NULL.
    SetNull { deleted: bool },
    /// ON DELETE SET DEFAULT, or ON UPDATE SET DEFAULT.
    SetDefault { deleted: bool },
}
