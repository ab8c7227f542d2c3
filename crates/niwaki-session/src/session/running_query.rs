//! A query that has begun.

use niwaki_sql::{Completion, Execution, TuplestoreReader};
use niwaki_txn::Snapshot;

/// A query that has begun, as a suspended portal keeps it.
pub enum Running {
    /// The query's place in its plan, and its snapshot.
    Query {
        /// The place in the plan.
        execution: Box<Execution>,
        /// The snapshot that the query reads.
        snapshot: Snapshot,
    },
    /// A query that has run to its end, with the rows that are still to be given.
    Rows {
        /// The rows that are left.
        rows: TuplestoreReader,
        /// The end of the query.
        completion: Completion,
    },
}
