//! The errors of index operations.

use niwaki_storage::Error as StorageError;

/// Errors of index operations.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// Storage failed, or the index is damaged ([`niwaki_storage::Error::Corruption`] with the name
    /// of the invariant that does not hold).
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The entry is larger than about a third of a page (SQLSTATE 54000).
    #[error("index row size {size} exceeds maximum {max} for index \"{index}\"")]
    RowTooLarge {
        /// Bytes of the entry: key, payload and header.
        size: usize,
        /// Largest size allowed.
        max: usize,
        /// Name of the index.
        index: String,
    },
    /// A bulk build was given entries out of (key, TID) order, which is a mistake of the caller.
    #[error("entries for the build of index \"{index}\" are not in order")]
    NotSorted {
        /// Name of the index.
        index: String,
    },
}

/// Result of index operations.
pub type Result<T> = std::result::Result<T, Error>;
