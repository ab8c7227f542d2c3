//! A query that has begun.

use niwaki_sql::{Completion, Execution, KeptReader};
use niwaki_txn::Snapshot;

/// A query that has begun, as a suspended portal keeps it.
pub(crate) enum Running {
    /// The query's place in its plan, and its snapshot.
    Query { execution: Box<Execution>, snapshot: Snapshot },
    /// A query that has run to its end, with the rows that are still to be given.
    Rows { rows: KeptReader, completion: Completion },
}
