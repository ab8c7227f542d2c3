//! Checks of the invariants of heap pages (H1, H3, V1, V2, G2, and the format).
//!
//! Each finding names its invariant. H2 and X1-X4 need the indexes: the table checks them.

use niwaki_env::hash::{HashMap, HashSet};
use niwaki_storage::page::{ItemState, Page};
use niwaki_storage::{Corruption, Mixed, OffsetNumber, PageKind, Tid, Xid};
use niwaki_txn::{Horizon, XidStatus};

use crate::error::Result;
use crate::format::header::{NO_LINK, Tuple, flags};
use crate::format::map_page::PageVisibility;
use crate::format::page::{self, Chain, SPECIAL_SIZE};
use crate::format::rows::{RowRef, row_ref};
use crate::relation::Heap;

/// One line pointer of a heap, as a check of the whole table sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemKind {
    /// The root of a chain, or DEAD: index entries may name it.
    Root {
        /// True if stale entries are allowed (X3).
        mixed: bool,
    },
    /// Heap-only: no entry may name it (H2).
    HeapOnly,
}

/// A version that must stay for now, for checks against indexes.
#[derive(Clone, Copy, Debug)]
pub struct LiveVersion<'a> {
    /// The version's row, with the root that index entries must name.
    pub row: RowRef<'a>,
    /// True if the version's inserter committed, and no committed transaction replaced or deleted
    /// the version. There is at most one such version per chain.
    pub current: bool,
}

impl Heap<'_> {
    /// Checks one page, and appends faults to `report`. `versions` gets every version whose
    /// inserter did not abort, `items` every line pointer in use. No other session may write the
    /// table.
    ///
    /// # Errors
    /// Storage's: the page cannot be read at all.
    pub fn check_page(
        &self,
        block: u32,
        report: &mut Vec<Corruption>,
        mut items: impl FnMut(Tid, ItemKind),
        mut versions: impl FnMut(LiveVersion<'_>),
    ) -> Result<()> {
        self.open_visibility_map()?;
        let pin = self.pin(block)?;
        let page = pin.read();
        let mut checker = Checker { block, page: &page, heap: *self, report };
        let visibility = checker.map_page()?;
        if page.is_new() {
            if visibility != PageVisibility::Unknown {
                checker.fault(None, "V1", format!("the map says {visibility:?} of a new page"));
            }
            return Ok(());
        }
        if page.kind() != PageKind::Heap || page.special_size() != SPECIAL_SIZE {
            checker.fault(None, "format", format!("a page of kind {:?} in a heap", page.kind()));
            return Ok(());
        }
        if let Err(damage) = page.check_deep(page.id()) {
            checker.report.push(damage);
            return Ok(());
        }
        checker.headers();
        let roots = checker.chains();
        checker.links();
        checker.visibility(visibility, &self.txns.horizon());
        for offset in 1..=page.item_count() {
            let number = OffsetNumber(offset);
            let id = page.item_id(number);
            let tid = Tid { block: page.id().block, offset: number };
            let tuple = page::tuple(&page, offset);
            match (id.state(), tuple) {
                (ItemState::Unused, _) => {}
                (ItemState::Normal, Some(tuple)) if tuple.has(flags::HEAP_ONLY) => {
                    items(tid, ItemKind::HeapOnly);
                }
                _ => items(tid, ItemKind::Root { mixed: id.mixed() != Mixed::No }),
            }
            let Some(tuple) = tuple else { continue };
            let root = roots.get(&offset).copied();
            if let (Some(root), false) = (root, tuple.has(flags::STUB)) {
                let xmin = self.txns.status(page::xmin(page::base(&page), tuple));
                if xmin == XidStatus::Aborted {
                    continue;
                }
                let ended = tuple.has_deleter()
                    && matches!(
                        self.txns.status(page::xmax(page::base(&page), tuple)),
                        XidStatus::Committed(_)
                    );
                let root = Tid { block: page.id().block, offset: OffsetNumber(root) };
                let current = !ended && matches!(xmin, XidStatus::Committed(_));
                versions(LiveVersion { row: row_ref(&page, root, tuple), current });
            }
        }
        Ok(())
    }

    /// Checks that a page has no version left that `horizon` allowed to be removed or whose
    /// inserter aborted, and no stub without followers (G2). The check applies after a vacuum by
    /// `horizon` or a later one: an old snapshot keeps the versions that it sees, and nothing else.
    /// In a heap of chunks, that vacuum left no index entry to the gardener. No other session may
    /// have worked since the horizon was taken. Otherwise, commits may have become older than every
    /// snapshot since then, and such commits have no number of their own any more.
    ///
    /// # Errors
    /// Storage's: the page cannot be read at all.
    pub fn check_pruned(
        &self,
        block: u32,
        horizon: &Horizon,
        report: &mut Vec<Corruption>,
    ) -> Result<()> {
        let pin = self.pin(block)?;
        let page = pin.read();
        if page.kind() != PageKind::Heap {
            return Ok(());
        }
        let base = page::base(&page);
        let mut checker = Checker { block, page: &page, heap: *self, report };
        for (offset, tuple) in checker.tuples() {
            let (xmin, xmax) = (page::xmin(base, tuple), page::xmax(base, tuple));
            let begin = match self.txns.status(xmin) {
                XidStatus::Committed(begin) => begin,
                XidStatus::InProgress => continue,
                XidStatus::Aborted => {
                    let detail = format!("{xmin} inserted this version, and aborted");
                    checker.fault(Some(offset), "G2", detail);
                    continue;
                }
            };
            if tuple.has(flags::STUB) {
                if begin <= horizon.oldest_following() {
                    let detail = format!("a stub of {begin:?}, which nobody follows");
                    checker.fault(Some(offset), "G2", detail);
                }
                continue;
            }
            if !tuple.has_deleter() {
                continue;
            }
            if let XidStatus::Committed(end) = self.txns.status(xmax)
                && horizon.removable(begin, end)
            {
                let detail = format!(
                    "nobody sees what {xmin} inserted ({begin:?}) and {xmax} ended ({end:?})"
                );
                checker.fault(Some(offset), "G2", detail);
            }
        }
        Ok(())
    }
}

struct Checker<'c, 'h> {
    block: u32,
    page: &'c Page,
    heap: Heap<'h>,
    report: &'c mut Vec<Corruption>,
}

impl<'c> Checker<'c, '_> {
    fn fault(&mut self, item: Option<u16>, invariant: &'static str, detail: String) {
        self.report.push(Corruption {
            file: format!("base/{}", self.heap.relation.file.id),
            block: Some(self.block),
            item,
            invariant,
            detail,
        });
    }

    /// Returns the map's state of the page, which must be the same in memory and on the map's page
    /// (V1).
    fn map_page(&mut self) -> Result<PageVisibility> {
        let known = self.heap.page_visibility(self.block);
        let stored = self.heap.visibility_on_page(self.block)?;
        if known != stored {
            let detail = format!("the map says {known:?} in memory, and {stored:?} on its page");
            self.fault(None, "V1", detail);
        }
        Ok(known.max(stored))
    }

    /// Checks V1, or V2 if the directory was not shut down: the map's statement about the page is
    /// true.
    fn visibility(&mut self, said: PageVisibility, horizon: &Horizon) {
        if said == PageVisibility::Unknown {
            return;
        }
        let (page, txns) = (self.page, self.heap.txns);
        let invariant = if self.heap.storage.was_killed() { "V2" } else { "V1" };
        let base = page::base(page);
        for offset in 1..=page.item_count() {
            let id = page.item_id(OffsetNumber(offset));
            let mut fault = |detail: &str| {
                let detail = format!("the map says {said:?} of the page, and {detail}");
                self.fault(Some(offset), invariant, detail);
            };
            if id.mixed() != Mixed::No {
                fault("this root is mixed");
            }
            if id.state() == ItemState::Dead {
                fault("this line pointer is DEAD");
            }
            let Some(tuple) = page::tuple(page, offset) else { continue };
            if tuple.has(flags::STUB) {
                fault("this is a stub");
                continue;
            }
            let (xmin, xmax) = (page::xmin(base, tuple), page::xmax(base, tuple));
            let begin = txns.status(xmin);
            if !matches!(begin, XidStatus::Committed(begin) if begin <= horizon.oldest()) {
                fault(&format!("not every snapshot sees what {xmin} inserted ({begin:?})"));
            }
            if tuple.has_deleter() && txns.status(xmax) != XidStatus::Aborted {
                fault(&format!("{xmax} ends this version"));
            }
            if said == PageVisibility::AllFrozen && (tuple.xmin() != 1 || tuple.xmax() != 0) {
                fault(&format!("this version names the transactions {xmin} and {xmax}"));
            }
        }
    }

    fn tuples(&self) -> impl Iterator<Item = (u16, Tuple<'c>)> + use<'c> {
        let page = self.page;
        (1..=page.item_count()).filter_map(move |o| Some((o, page::tuple(page, o)?)))
    }

    fn headers(&mut self) {
        for (offset, tuple) in self.tuples() {
            if tuple.flags() & flags::RESERVED != 0 || tuple.xmin() == 0 {
                let detail = format!("flags {:#x}, xmin {}", tuple.flags(), tuple.xmin());
                self.fault(Some(offset), "format", detail);
            }
            let root = tuple.root();
            let wrong = if tuple.has(flags::HEAP_ONLY) {
                root == offset || root == 0 || root > self.page.item_count()
            } else {
                root != offset
            };
            if wrong {
                self.fault(Some(offset), "H1", format!("its root is said to be {root}"));
            }
        }
        for offset in 1..=self.page.item_count() {
            let id = self.page.item_id(OffsetNumber(offset));
            if id.is_normal() && page::tuple(self.page, offset).is_none() {
                self.fault(Some(offset), "format", "shorter than a tuple header".to_owned());
            }
            if id.state() != ItemState::Redirect {
                continue;
            }
            let target = id.target().0;
            let fine = page::tuple(self.page, target)
                .is_some_and(|t| t.has(flags::HEAP_ONLY) && t.root() == offset);
            if !fine {
                self.fault(
                    Some(offset),
                    "H1",
                    format!("leads to {target}, which is no heap-only version of this root"),
                );
            }
        }
    }

    /// Checks H1: one root reaches every version, except versions of aborted updates. Returns the
    /// root of each offset.
    fn chains(&mut self) -> HashMap<u16, u16> {
        let mut reached: HashMap<u16, u16> = HashMap::default();
        let mut twice = Vec::new();
        for root in 1..=self.page.item_count() {
            for (offset, _) in Chain::new(self.page, root) {
                if let Some(other) = reached.insert(offset, root) {
                    twice.push((offset, format!("reached from roots {other} and {root}")));
                }
            }
        }
        debug_assert!(
            reached.len() <= usize::from(self.page.item_count()),
            "each version lies at a line pointer"
        );
        for (offset, detail) in twice {
            self.fault(Some(offset), "H1", detail);
        }
        let base = page::base(self.page);
        for (offset, tuple) in self.tuples() {
            if reached.contains_key(&offset) {
                continue;
            }
            let aborted = self.heap.txns.status(page::xmin(base, tuple)) == XidStatus::Aborted;
            if !aborted {
                self.fault(Some(offset), "H1", "reached from no root".to_owned());
            }
        }
        reached
    }

    /// Checks H3. If a committed transaction replaced a version, the version's link leads to a
    /// version on this page that this transaction inserted. A version whose row went to another
    /// table was deleted, and has no link.
    fn links(&mut self) {
        let base = page::base(self.page);
        let mut seen = HashSet::default();
        for (offset, tuple) in self.tuples() {
            let deleted = tuple.has_deleter()
                && tuple.has(flags::KEYS_UPDATED)
                && !tuple.has(flags::HEAP_UPDATED)
                && tuple.link() == NO_LINK;
            if tuple.has(flags::MOVED) && !deleted {
                let detail = "its row went to another table, and nothing deleted it here";
                self.fault(Some(offset), "H3", detail.to_owned());
            }
            if !tuple.has_deleter() || !tuple.has(flags::HEAP_UPDATED) {
                continue;
            }
            let xmax: Xid = page::xmax(base, tuple);
            if self.heap.txns.status(xmax) == XidStatus::Aborted {
                continue;
            }
            let link = tuple.link();
            let next = page::tuple(self.page, link.offset.0);
            let fine = link.block.0 == self.block
                && next.is_some_and(|next| {
                    page::xmin(base, next) == xmax && next.has(flags::HEAP_ONLY)
                })
                && seen.insert(link.offset.0);
            if !fine {
                self.fault(
                    Some(offset),
                    "H3",
                    format!("its link {link} does not lead to the version that {xmax} inserted"),
                );
            }
        }
    }
}
