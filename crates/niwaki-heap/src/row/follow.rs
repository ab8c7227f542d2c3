//! Links from page to page: from a replaced version to the versions after it.

use niwaki_env::seeded_bug;
use niwaki_storage::page::{ItemState, Page};
use niwaki_storage::{BlockNumber, OffsetNumber, PageKind, Tid, Xid};
use niwaki_txn::View;

use crate::error::{Result, corruption};
use crate::format::header::{TUPLE_HEADER_SIZE, Tuple};
use crate::format::page::{self, Chain};
use crate::relation::Heap;
use crate::row::read::sees;

/// Number of pages after which a follower concludes that the links form a circle.
pub(crate) const HOPS_MAX: u32 = 1 << 20;

impl Heap<'_> {
    /// Returns the chain root of the version of a row that `view` sees, even if the row has gone to
    /// other pages since. The row had its root at `root` for this transaction or an open snapshot.
    /// Returns `None` when no version is seen.
    ///
    /// # Errors
    /// Storage's, and corruption.
    pub fn root_seen(&self, view: &View<'_>, root: Tid) -> Result<Option<Tid>> {
        let mut at = root;
        // The inserter of the version behind the link from another page (rule `hop-check`).
        let mut expected = None;
        for _ in 0..HOPS_MAX {
            if at.block == BlockNumber::INVALID || !self.has_block(at)? {
                return Ok(None);
            }
            let pin = self.pin(at.block.0)?;
            let page = pin.read();
            if page.kind() != PageKind::Heap {
                return Ok(None);
            }
            let root = match expected {
                None => at.offset.0,
                Some(inserter) => match successor(&page, at.offset, inserter) {
                    Some(tuple) => tuple.root(),
                    None => return Ok(None),
                },
            };
            let base = page::base(&page);
            let mut last = None;
            for (_, tuple) in Chain::new(&page, root) {
                if sees(view, base, tuple) {
                    return Ok(Some(Tid { block: at.block, offset: OffsetNumber(root) }));
                }
                last = Some(tuple);
            }
            let Some(last) = last.filter(|tuple| tuple.has_deleter()) else { return Ok(None) };
            expected = Some(page::xmax(base, last));
            at = last.link();
        }
        let page = self.page_id(root.block.0);
        Err(corruption(page, Some(root.offset.0), "H3", "links run in a circle"))
    }
}

/// Returns the version at a link, if it is still the linked one, inserted by `expected`
/// (rule `hop-check`). Anything else there means that the row was deleted.
pub(crate) fn successor(page: &Page, offset: OffsetNumber, expected: Xid) -> Option<Tuple<'_>> {
    if page.kind() != PageKind::Heap || page.item_id(offset).state() != ItemState::Normal {
        return None;
    }
    let tuple = page::tuple(page, offset.0)?;
    debug_assert!(
        TUPLE_HEADER_SIZE <= usize::from(page.item_id(offset).len()),
        "the version at {offset} is shorter than a header"
    );
    let is_it = page::xmin(page::base(page), tuple) == expected || seeded_bug!("hop-check");
    is_it.then_some(tuple)
}
