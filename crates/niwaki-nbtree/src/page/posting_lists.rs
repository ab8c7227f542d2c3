//! Posting lists made of items with one key: the plan for a leaf, and the change as the log keeps
//! it.

use niwaki_env::invariant;
use niwaki_storage::page::Page;

use crate::page::change::{self, Rebuild};
use crate::page::layout::{IndexPage, LINE_POINTER, USABLE_BYTES, read_u16};
use crate::page::tuple::{
    LeafTuple, POSTING_MAX, TID_SIZE, TUPLE_HEADER, item_size, pivot_size, push_posting,
};

/// Fill factor of the left page, in percent, when all entries have one value; later entries go
/// right.
pub(crate) const SINGLE_VALUE_FILL: usize = 96;
const _: () = assert!(SINGLE_VALUE_FILL < 100);

/// Consecutive items with one key whose TIDs become one sequence of lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyRun {
    /// Offset of the first item, before the pass.
    pub(crate) first: u16,
    /// Number of items, at least two.
    pub(crate) items: u16,
}

/// A pass over a leaf, in the form the log keeps.
///
/// ```text
/// 0  TIDs u16         most TIDs of one list; those made have an eighth fewer
/// 2  runs: first offset u16, items u16 each, ascending
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Deduplication {
    pub(crate) tids_max: u16,
    pub(crate) runs: Vec<KeyRun>,
}

/// Returns the most TIDs of a list with a key of this length; less than two: no list is made.
pub(crate) fn list_tids(key_len: usize, tids_max: u16) -> usize {
    (POSTING_MAX.saturating_sub(TUPLE_HEADER + key_len) / TID_SIZE).min(usize::from(tids_max))
}

/// Returns the TIDs of a list as passes and builds make it. The list leaves room for versions of an
/// eighth of its rows (`Index::list_for`). Otherwise these versions would lie between full lists as
/// entries of their own.
pub(crate) fn new_list_tids(key_len: usize, tids_max: u16) -> usize {
    let most = list_tids(key_len, u16::MAX);
    let tids = (most - most / 8).min(usize::from(tids_max));
    invariant!(
        B3,
        tids < 2 || item_size(key_len, tids) <= POSTING_MAX,
        "a list of {tids} TIDs is larger than a list may be"
    );
    tids
}

/// Returns the number of items, and the bytes of items and line pointers, for `tids` TIDs of one
/// key in lists of `list` TIDs.
fn merged(key_len: usize, tids: usize, list: usize) -> (usize, usize) {
    debug_assert!(list > 0, "a list of no TIDs takes in none");
    let (full, rest) = (tids / list, tids % list);
    let rest_bytes = if rest > 0 { item_size(key_len, rest) + LINE_POINTER } else { 0 };
    let items = full + usize::from(rest > 0);
    debug_assert!(items <= tids, "no item is made without a TID");
    (items, full * (item_size(key_len, list) + LINE_POINTER) + rest_bytes)
}

/// A run of items with one key, found while the page is looked through.
struct OpenRun<'a> {
    key: &'a [u8],
    first: u16,
    items: u16,
    tids: usize,
    /// Bytes of the run before the pass, line pointers included.
    bytes: usize,
}

/// The effect that a pass would have, with the items and bytes that it would free.
pub(crate) struct DedupPlan {
    pub(crate) change: Deduplication,
    pub(crate) freed_items: usize,
    pub(crate) freed_bytes: usize,
}

impl DedupPlan {
    fn close(&mut self, run: Option<OpenRun<'_>>) {
        let Some(run) = run else { return };
        debug_assert!(run.items > 0, "a run begins with an item");
        debug_assert!(run.tids >= usize::from(run.items), "each item of a run has a TID");
        if run.items < 2 {
            return;
        }
        let list = new_list_tids(run.key.len(), self.change.tids_max);
        if list < 2 {
            return;
        }
        let (items, bytes) = merged(run.key.len(), run.tids, list);
        if bytes < run.bytes {
            debug_assert!(items <= usize::from(run.items), "more items would take more bytes");
            let last = self.change.runs.last();
            debug_assert!(
                last.is_none_or(|last| last.first + last.items <= run.first),
                "runs come in the order of the page, and share no item"
            );
            self.change.runs.push(KeyRun { first: run.first, items: run.items });
            self.freed_items += usize::from(run.items) - items;
            self.freed_bytes += run.bytes - bytes;
        }
    }
}

impl Deduplication {
    /// Plans the deduplication of a leaf. `new_key` is the key of the entry that needs room.
    pub(crate) fn plan(leaf: &Page, new_key: &[u8], tids_max: u16) -> DedupPlan {
        let change = Self { tids_max, runs: Vec::new() };
        let mut plan = DedupPlan { change, freed_items: 0, freed_bytes: 0 };
        let budget = single_value_budget(leaf, new_key);
        let mut run: Option<OpenRun<'_>> = None;
        for offset in leaf.first_entry()..=leaf.item_count() {
            let tuple = leaf.tuple(offset);
            let bytes = tuple.len() + LINE_POINTER;
            let item = LeafTuple::decode(tuple)
                .filter(|item| item.payload.is_empty() && !change::is_dead(leaf, offset));
            let Some(item) = item else {
                plan.close(run.take());
                continue;
            };
            match &mut run {
                Some(run) if run.key == item.key => {
                    let tids = run.tids + item.tids.len();
                    let list = new_list_tids(item.key.len(), tids_max).max(1);
                    if budget.is_some_and(|budget| merged(item.key.len(), tids, list).1 > budget) {
                        break;
                    }
                    run.items += 1;
                    run.tids = tids;
                    run.bytes += bytes;
                }
                _ => {
                    plan.close(run.take());
                    let tids = item.tids.len();
                    run = Some(OpenRun { key: item.key, first: offset, items: 1, tids, bytes });
                }
            }
        }
        plan.close(run);
        debug_assert_eq!(
            plan.change.runs.is_empty(),
            plan.freed_bytes == 0,
            "each run that is merged frees bytes"
        );
        plan
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(2 + 4 * self.runs.len());
        out.extend_from_slice(&self.tids_max.to_le_bytes());
        for run in &self.runs {
            out.extend_from_slice(&run.first.to_le_bytes());
            out.extend_from_slice(&run.items.to_le_bytes());
        }
        out
    }

    pub(crate) fn decode(data: &[u8]) -> Option<Self> {
        let (head, runs) = data.split_at_checked(2)?;
        let (runs, rest) = runs.as_chunks::<4>();
        let runs = runs
            .iter()
            .map(|bytes| KeyRun { first: read_u16(bytes, 0), items: read_u16(bytes, 2) })
            .collect();
        rest.is_empty().then_some(Self { tids_max: read_u16(head, 0), runs })
    }

    /// Makes the change; false, with nothing changed, where the page has no such runs of one key.
    pub(crate) fn apply(&self, page: &mut Page) -> bool {
        let mut lists = page.clone();
        let mut writer = Rebuild::like(&mut lists, page);
        let mut runs = self.runs.iter().peekable();
        let mut offset = page.first_entry();
        while offset <= page.item_count() {
            if let Some(run) = runs.next_if(|run| run.first == offset) {
                if !self.push_lists(&mut writer, page, *run) {
                    return false;
                }
                offset += run.items;
            } else {
                writer.push_from(page, offset);
                offset += 1;
            }
        }
        runs.peek().is_none() && writer.put_in_place_of(page)
    }

    /// Puts the lists that a run becomes on the new page.
    fn push_lists(&self, writer: &mut Rebuild<'_>, page: &Page, run: KeyRun) -> bool {
        let Some(end) = run.first.checked_add(run.items) else { return false };
        if run.items < 2 || end > page.item_count() + 1 {
            return false;
        }
        let mut key: Option<&[u8]> = None;
        let mut tids: Vec<[u8; TID_SIZE]> = Vec::new();
        for offset in run.first..end {
            match LeafTuple::decode(page.tuple(offset)) {
                Some(item) if item.payload.is_empty() && key.is_none_or(|key| key == item.key) => {
                    key = Some(item.key);
                    tids.extend_from_slice(item.tids.raw());
                }
                _ => return false,
            }
        }
        let key = key.unwrap_or(&[]);
        let list = new_list_tids(key.len(), self.tids_max);
        if list < 2 {
            return false;
        }
        debug_assert!(tids.len() >= usize::from(run.items), "each item has a TID");
        let mut tuple = Vec::new();
        for tids in tids.chunks(list) {
            tuple.clear();
            push_posting(&mut tuple, key, tids);
            invariant!(
                B3,
                tids.len() == 1 || tuple.len() <= POSTING_MAX,
                "a list of {} TIDs is larger than a list may be",
                tids.len()
            );
            writer.push(&tuple);
        }
        true
    }
}

/// Returns the bytes that lists may take on a page whose entries all have the new entry's key. Then
/// the next split can leave them all on the left page with a high key that needs a TID. `None` on
/// other pages.
fn single_value_budget(leaf: &Page, new_key: &[u8]) -> Option<usize> {
    let is_new_key =
        |offset| LeafTuple::decode(leaf.tuple(offset)).is_some_and(|item| item.key == new_key);
    if !is_new_key(leaf.first_entry()) || !is_new_key(leaf.item_count()) {
        return None;
    }
    let high_key = pivot_size(new_key.len(), true) + LINE_POINTER;
    Some((USABLE_BYTES * SINGLE_VALUE_FILL / 100).saturating_sub(high_key))
}
