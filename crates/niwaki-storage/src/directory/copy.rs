//! Copies of whole files: CREATE DATABASE with a template.

use super::storage::Storage;
use crate::error::Error;
use crate::ids::{BlockNumber, Fork, PageId, RelFile, RelFileId, Xid};
use crate::stream::read_stream::{BlocksAhead, ReadAhead};
use crate::wal::record::LoggedPage;

/// Pages by which the copy grows at once.
const GROWTH: u32 = 64;

impl Storage {
    /// Copies the main fork of a relation to a new relation, whose main fork is empty, and logs the
    /// copy. The caller ensures that the source does not change meanwhile, and that no other thread
    /// knows the copy.
    ///
    /// `step` is called between pages, and may end the copy. The other forks only hold facts
    /// derived from the main fork: the copy has none.
    ///
    /// # Errors
    /// [`Error::DiskFull`], [`Error::Io`], damage of pages that are read; errors of `step`.
    pub fn copy_file<E: From<Error>>(
        &self,
        from: RelFileId,
        to: RelFile,
        xid: Xid,
        step: &mut dyn FnMut() -> Result<(), E>,
    ) -> Result<(), E> {
        let (pool, fork) = (self.pool(), Fork::Main);
        let blocks = pool.blocks(from, fork)?;
        let mut there = 0;
        for number in BlocksAhead::new(pool, from, fork, ReadAhead::default(), 0..blocks) {
            step()?;
            debug_assert!(number < blocks, "block {number} of {blocks} is copied");
            if number >= there {
                debug_assert!(there < blocks, "the copy is as long as the source");
                let grown = pool.extend(to, fork, GROWTH.min(blocks - there))?;
                there = grown.first.0 + grown.count;
            }
            debug_assert!(number < there, "block {number} of a copy of {there} blocks");
            let block = BlockNumber(number);
            let source = pool.pin(PageId { file: from, fork, block })?.into_read();
            if source.is_new() {
                continue;
            }
            let mut copy = pool.pin(PageId { file: to.id, fork, block })?.into_write();
            let _critical = self.begin_change()?;
            copy.0 = source.0;
            if to.logged {
                self.log_images(xid, &mut [LoggedPage::image(&mut copy)])?;
            } else {
                copy.mark_dirty();
            }
        }
        Ok(())
    }
}
