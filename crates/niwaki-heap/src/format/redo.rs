//! Redo of heap records: finds the pages, and makes the changes of `change` again.

use std::fmt::Write;
use std::sync::Arc;

use niwaki_env::invariant;
use niwaki_storage::{
    BlockNumber, Corruption, DecodedRecord, Error, Fork, Manager, Mixed, Page, PageKind, PageWrite,
    Redo, RedoPage, ResourceManager, Result,
};
use niwaki_txn::TupleCid;

use crate::format::change::{self, Fields, PlaceRow, PrunePlan, UpdateOnPage, kind};
use crate::format::map_page;
use crate::format::page;

/// Redo of the heap.
#[derive(Debug, Default)]
pub struct HeapRedo;

impl HeapRedo {
    /// Returns the redo for [`niwaki_storage::Storage::open`].
    #[expect(clippy::new_ret_no_self, reason = "storage takes it as a trait object")]
    pub fn new() -> Arc<dyn ResourceManager> {
        Arc::new(Self)
    }
}

fn damage(record: &DecodedRecord<'_>, detail: &str) -> Error {
    let page = record.pages.first().map(|page| page.id);
    Error::Corruption(Box::new(Corruption {
        file: page.map_or_else(|| "wal".to_owned(), |id| format!("base/{}", id.file)),
        block: page.map(|id| id.block.0),
        item: None,
        invariant: "W3",
        detail: format!("heap record of kind {} at {}: {detail}", record.kind, record.start),
    }))
}

/// Initialises a page if the record starts it as a new one.
fn prepare(record: &DecodedRecord<'_>, index: usize, page: &mut PageWrite<'_>) {
    if record.pages.get(index).is_some_and(|page| page.init) {
        page::init(page, page::initial_base(record.xid));
    }
}

impl ResourceManager for HeapRedo {
    fn manager(&self) -> Manager {
        Manager::Heap
    }

    fn redo(&self, record: &DecodedRecord<'_>, redo: &Redo<'_>) -> Result<()> {
        if record.version != change::RECORD_VERSION {
            return Err(damage(record, &format!("unknown version {}", record.version)));
        }
        for (index, logged) in record.pages.iter().enumerate() {
            let RedoPage::NeedsRedo(mut page) = redo.page(index)? else { continue };
            invariant!(
                W3,
                page.id() == logged.id,
                "{} gets the change of {}",
                page.id(),
                logged.id
            );
            let done = match logged.id.fork {
                Fork::Visibility => {
                    if logged.init {
                        page.init(PageKind::Visibility, 0);
                    }
                    map_page::redo(&mut page, logged.id.block, logged.data).map(|()| true)
                }
                Fork::Main | Fork::FreeSpace => {
                    prepare(record, index, &mut page);
                    debug_assert!(
                        !logged.init || page.item_count() == 0,
                        "a page that the record starts has line pointers"
                    );
                    apply(record, index, &mut page, logged.id.block, logged.data)
                }
            };
            // Storage has already stamped the page and marked it dirty. This call tells the guard
            // that the change needs no log record.
            page.mark_dirty();
            match done {
                Some(true) => {}
                Some(false) => return Err(damage(record, "the page is not as it was")),
                None => return Err(damage(record, "it cannot be read")),
            }
        }
        Ok(())
    }

    fn describe(&self, record: &DecodedRecord<'_>) -> String {
        let name = match record.kind {
            kind::INSERT => "insert",
            kind::MULTI_INSERT => "multi-insert",
            kind::UPDATE => "update",
            kind::MOVE => "move",
            kind::DELETE => "delete",
            kind::LOCK => "lock",
            kind::PRUNE => "prune",
            kind::MIXED => "mixed",
            kind::REBASE => "rebase",
            kind::UNMIXED => "unmixed",
            kind::VISIBLE => "visible",
            _ => "unknown",
        };
        let mut text = format!("heap {name} xid {}", record.xid);
        for page in &record.pages {
            // Writing to a string cannot fail.
            let _ = write!(text, ", {}", page.id);
            if page.image.is_some() {
                text.push_str(" (image)");
            }
        }
        text
    }
}

/// Makes the record's change to its page `index`. Returns `None` when the record cannot be read,
/// false when the page does not allow the change.
pub(crate) fn apply(
    record: &DecodedRecord<'_>,
    index: usize,
    page: &mut Page,
    block: BlockNumber,
    data: &[u8],
) -> Option<bool> {
    Some(match (record.kind, index) {
        (kind::INSERT, 0) => PlaceRow::decode(data)?.apply(page, record.xid, 0),
        (kind::MULTI_INSERT, 0) => {
            let mut fields = Fields(data);
            let mut fine = true;
            while !fields.0.is_empty() {
                fine &= PlaceRow::decode_one(&mut fields)?.apply(page, record.xid, 0);
            }
            fine
        }
        (kind::UPDATE, 0) => {
            let update = UpdateOnPage::decode(data)?;
            update.apply(page, block, record.xid, (0, TupleCid::default()))
        }
        (kind::MOVE | kind::DELETE | kind::LOCK, 0) => {
            change::decode_end(data)?.apply(page, record.xid)
        }
        (kind::MOVE, 1) => PlaceRow::decode(data)?.apply_moved_in(page, record.xid, 0),
        (kind::PRUNE, 0) => PrunePlan::decode(data)?.apply(page),
        (kind::MIXED | kind::UNMIXED, 0) => {
            let mut fields = Fields(data);
            let mut roots = Vec::new();
            while !fields.0.is_empty() {
                roots.push(fields.u16()?);
            }
            // No scan is under way before recovery ends, so no counter is raised here
            // (rule `unmix-counter`).
            let mixed = if record.kind == kind::MIXED { Mixed::Yes } else { Mixed::No };
            change::set_mixed(page, roots.into_iter(), mixed)
        }
        _ => return None,
    })
}
