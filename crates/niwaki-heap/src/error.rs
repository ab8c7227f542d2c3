//! Errors of heap operations.

use niwaki_storage::{Corruption, Error as StorageError, PageId};

/// An error of a heap operation.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// Storage failed, or the heap is damaged.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The transaction layer failed.
    #[error(transparent)]
    Transaction(#[from] niwaki_txn::Error),
    /// The row does not fit on a page (SQLSTATE 54000).
    #[error("row is too big: size {size}, maximum size {max}")]
    RowTooBig {
        /// Bytes of the row, header included.
        size: usize,
        /// Largest size allowed.
        max: usize,
    },
    /// A page keeps a version of a transaction that is too old for the page's 32-bit ids (54000).
    /// Some transaction or snapshot has been open for four thousand million transactions.
    #[error("cannot write to {page}: it holds versions of transactions that are too old")]
    XidRange {
        /// The page.
        page: PageId,
    },
    /// The table has as many blocks as a block number can name (54000).
    #[error("cannot extend file {file} beyond {blocks} blocks")]
    TooManyBlocks {
        /// The table's files.
        file: u64,
        /// Blocks it has.
        blocks: u32,
    },
}

/// Result of heap operations.
pub type Result<T> = std::result::Result<T, Error>;

/// Builds the error for damage found on a heap page.
#[cold]
pub(crate) fn corruption(
    page: PageId,
    item: Option<u16>,
    invariant: &'static str,
    detail: impl Into<String>,
) -> Error {
    Error::Storage(StorageError::Corruption(Box::new(Corruption {
        file: format!("base/{}", page.file),
        block: Some(page.block.0),
        item,
        invariant,
        detail: detail.into(),
    })))
}
