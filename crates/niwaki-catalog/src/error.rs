//! What can go wrong in the catalog.

/// Errors of the catalog; `niwaki-sql` gives each its SQLSTATE.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// A name that must exist does not (42P01, 3F000, 42704 by kind).
    #[error("{kind} \"{name}\" does not exist")]
    Undefined {
        /// `relation`, `schema`, `index`, …
        kind: &'static str,
        /// The name as the statement gave it.
        name: String,
    },
    /// A name is taken (42P07, 42P06).
    #[error("{kind} \"{name}\" already exists")]
    Duplicate {
        /// `relation`, `schema`, …
        kind: &'static str,
        /// The name that is taken.
        name: String,
    },
    /// A stored definition cannot be read: damage, or written by a newer version.
    #[error("catalog entry {oid} is damaged: {detail}")]
    Damaged {
        /// Object.
        oid: u32,
        /// What does not fit.
        detail: String,
    },
    /// Somebody changed the object although a lock should have kept them out (XX000).
    #[error("catalog entry {oid} was changed concurrently")]
    ConcurrentChange {
        /// Object.
        oid: u32,
    },
    /// Something that is not there yet (0A000).
    #[error("{what} is not supported")]
    Unsupported {
        /// What it is.
        what: String,
    },
    /// A table of the catalog failed.
    #[error(transparent)]
    Table(#[from] niwaki_table::Error),
    /// The transaction failed.
    #[error(transparent)]
    Transaction(#[from] niwaki_txn::Error),
    /// Storage failed.
    #[error(transparent)]
    Storage(#[from] niwaki_storage::Error),
}

/// Result of catalog operations.
pub type Result<T> = std::result::Result<T, Error>;
