//! Errors of the catalog.

/// Errors of the catalog; `niwaki-parse` gives each its SQLSTATE.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// A required name does not exist (42P01, 3F000, 42704 by kind).
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
        /// Description of the damage.
        detail: String,
    },
    /// Another transaction changed the object although a lock should have prevented that (XX000).
    #[error("catalog entry {oid} was changed concurrently")]
    ConcurrentChange {
        /// Object.
        oid: u32,
    },
    /// The feature is not supported yet (0A000).
    #[error("{what} is not supported")]
    Unsupported {
        /// Name of the feature.
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
