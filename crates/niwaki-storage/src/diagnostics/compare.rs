//! Comparison of two storages page by page: redo equals do.
//!
//! A test works on one storage, copies its files as a crash would leave them, and opens the copy.
//! The comparison shows whether redo made the same pages. Parts that may differ are masked: the
//! checksum, the hole between line pointers and tuples, and the access method's hints.

use crate::directory::storage::Storage;
use crate::error::Result;
use crate::ids::{BlockNumber, FORKS, PageId};
use crate::page::Page;

/// A page that differs between two storages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageDifference {
    /// The page.
    pub id: PageId,
    /// The first byte that differs, and its two values: done, redone.
    pub byte: (usize, u8, u8),
}

/// Compares all pages of all relations of two storages, and returns the differences.
///
/// `mask` clears the bytes that may differ (hint bits), on a copy of each page. The checksum and
/// the hole of a slotted page are cleared already. A page that is missing on one side and all zero
/// on the other is equal: growing a file is not logged.
///
/// # Errors
/// Errors of reading a page.
pub fn redo_equals_do(
    done: &Storage,
    redone: &Storage,
    mask: &dyn Fn(&mut Page),
) -> Result<Vec<PageDifference>> {
    let mut files = done.list_files()?;
    files.extend(redone.list_files()?);
    files.sort_unstable();
    files.dedup();
    let mut found = Vec::new();
    for file in files {
        for fork in FORKS {
            let blocks = done.pool().blocks(file, fork)?.max(redone.pool().blocks(file, fork)?);
            for block in 0..blocks {
                let id = PageId { file, fork, block: BlockNumber(block) };
                let (left, right) = (masked(done, id, mask)?, masked(redone, id, mask)?);
                let differs = left.0.iter().zip(&right.0).position(|(a, b)| a != b);
                if let Some(at) = differs {
                    found.push(PageDifference { id, byte: (at, left.0[at], right.0[at]) });
                }
            }
        }
    }
    Ok(found)
}

fn masked(storage: &Storage, id: PageId, mask: &dyn Fn(&mut Page)) -> Result<Page> {
    if id.block.0 >= storage.pool().blocks(id.file, id.fork)? {
        return Ok(Page::zeroed());
    }
    let mut page = (*storage.pool().pin(id)?.read()).clone();
    page.set_checksum(0);
    if page.kind().is_slotted() && !page.is_new() {
        let (lower, upper) = (usize::from(page.lower()), usize::from(page.upper()));
        page.0[lower..upper].fill(0);
    }
    mask(&mut page);
    Ok(page)
}
