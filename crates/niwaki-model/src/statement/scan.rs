//! Scans of a snapshot, through an index or along the heap.

use crate::access::snapshots::collect;
use crate::access::transaction::Transaction;
use crate::rules::Rule;
use crate::scheduler::Actor;
use crate::state::heap::{Mixed, PAGES, Row, Tid, Values};
use crate::state::index::{Entry, Place};
use crate::state::oracle::Wanted;
use crate::state::transactions::View;
use crate::state::world::World;

/// A visible version, with its address, its row and its values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) tid: Tid,
    pub(crate) row: Row,
    pub(crate) values: Values,
}

/// The contents that a scan copies from a leaf under its shared latch.
struct Copied {
    leaf: usize,
    entries: Vec<Entry>,
    version: u64,
    /// The unmix counter (rule `unmix-counter`).
    unmix: u64,
    /// For each entry, whether its heap page was all-visible.
    all_visible: Vec<bool>,
    right: Option<usize>,
}

/// The result of fetching a row through an entry.
enum Fetched {
    Visible {
        found: Found,
        rechecked: bool,
    },
    /// The snapshot sees no version, or none with this key.
    Nothing,
}

/// Reads rows through an index, and compares them with the oracle.
pub(crate) async fn index_scan(actor: &Actor, tx: &Transaction, wanted: Wanted) -> Vec<Found> {
    let mut rows = Vec::new();
    let view = collect(actor).await;
    let mut next = start(actor, wanted);
    while let Some(leaf) = next {
        let copied = copy_leaf(actor, leaf, wanted).await;
        let mut dead = Vec::new();
        for entry in &copied.entries {
            actor.step().await;
            let world = actor.world();
            match world.fetch(tx, wanted.index, entry, copied.unmix) {
                Fetched::Visible { found, .. } => rows.push(found),
                Fetched::Nothing if world.may_be_marked(wanted.index, entry, &view) => {
                    dead.push(entry.place());
                }
                Fetched::Nothing => {}
            }
        }
        mark_dead(actor, wanted.index, &copied, &dead).await;
        next = copied.right;
    }
    let seen: Vec<_> = rows.iter().map(|found| (found.row, found.values)).collect();
    let mut world = actor.world();
    world.check_rows("index scan", &tx.reader(), &tx.writes, Some(wanted), &seen);
    rows
}

/// Reads keys and payloads, from the entry where the visibility map allows it.
pub(crate) async fn index_only_scan(actor: &Actor, tx: &Transaction, wanted: Wanted) {
    let mut rows = Vec::new();
    let mut next = start(actor, wanted);
    let definition = actor.world().indexes[wanted.index].definition;
    while let Some(leaf) = next {
        let copied = copy_leaf(actor, leaf, wanted).await;
        for (n, entry) in copied.entries.iter().enumerate() {
            actor.step().await;
            let mut world = actor.world();
            let all_visible = if world.rules.has(Rule::MapUnderLatch) {
                copied.all_visible[n]
            } else {
                world.pages[usize::from(entry.root.page)].all_visible
            };
            if all_visible {
                world.events.from_map += 1;
                rows.push((entry.key, entry.payload));
                continue;
            }
            match world.fetch(tx, wanted.index, entry, copied.unmix) {
                // Through a mixed root the payload may belong to an older version, so the row's
                // values are used.
                Fetched::Visible { found, rechecked: true } => {
                    rows.push((entry.key, definition.payload(&found.values)));
                }
                Fetched::Visible { .. } => rows.push((entry.key, entry.payload)),
                Fetched::Nothing => {}
            }
        }
        next = copied.right;
    }
    actor.world().check_entries(&tx.reader(), &tx.writes, wanted, rows);
}

/// Reads the heap page by page.
pub(crate) async fn heap_scan(actor: &Actor, tx: &Transaction) {
    let mut rows = Vec::new();
    for page in 0..PAGES {
        actor.step().await;
        let world = actor.world();
        let versions = Tid::on_page(page).filter_map(|tid| world.version(tid));
        let seen = versions.filter(|version| world.sees(&tx.reader(), version));
        rows.extend(seen.map(|version| (version.row, version.values)));
    }
    actor.world().check_rows("heap scan", &tx.reader(), &tx.writes, None, &rows);
}

/// Returns the leaf on which a scan begins.
fn start(actor: &Actor, wanted: Wanted) -> Option<usize> {
    let place: Place = (wanted.key.unwrap_or(0), Tid::MIN);
    Some(actor.world().indexes[wanted.index].descend(place))
}

/// Copies the matching entries of a leaf, once no actor holds the leaf exclusively.
async fn copy_leaf(actor: &Actor, leaf: usize, wanted: Wanted) -> Copied {
    if actor.world().splits() {
        actor.step().await;
    }
    loop {
        {
            let mut world = actor.world();
            let page = world.leaf(wanted.index, leaf);
            if page.latch.is_none() {
                let matches = |key: u8| wanted.key.is_none_or(|wanted| wanted == key);
                let entries: Vec<Entry> = page
                    .entries
                    .iter()
                    .filter(|entry| matches(entry.key) && !entry.dead)
                    .copied()
                    .collect();
                // Beyond the high key nothing can match.
                let last = (wanted.key.unwrap_or(u8::MAX), Tid::on(u8::MAX, u8::MAX));
                let right = page.beyond(last);
                let version = page.version;
                let map = |entry: &Entry| world.pages[usize::from(entry.root.page)].all_visible;
                let all_visible = entries.iter().map(map).collect();
                world.say(|| {
                    let list = entries.iter().map(|e| format!(" {}->{}", e.key, e.root));
                    format!(
                        "reads leaf {leaf} of index {}:{}",
                        wanted.index,
                        list.collect::<String>()
                    )
                });
                let unmix = world.unmix;
                return Copied { leaf, entries, version, unmix, all_visible, right };
            }
        }
        actor.wait().await;
    }
}

impl World {
    /// Returns the version that the transaction sees through `entry`, under the heap page's latch.
    fn fetch(&self, tx: &Transaction, index: usize, entry: &Entry, unmix: u64) -> Fetched {
        let reader = tx.reader();
        let seen = self.versions(entry.root).find(|(_, version)| self.sees(&reader, version));
        let Some((tid, version)) = seen else { return Fetched::Nothing };
        let cleared = self.rules.has(Rule::UnmixCounter) && self.unmix != unmix;
        let rechecked = self.pointer(entry.root).mixed != Mixed::No || cleared;
        let key = self.indexes[index].definition.key(&version.values);
        if rechecked && self.rules.has(Rule::Recheck) && key != Some(entry.key) {
            return Fetched::Nothing;
        }
        let found = Found { tid, row: version.row, values: version.values };
        Fetched::Visible { found, rechecked }
    }

    /// Returns whether a scan that found no row through `entry` may mark it LP_DEAD.
    pub(crate) fn may_be_marked(&self, index: usize, entry: &Entry, view: &View) -> bool {
        self.is_root(entry.root)
            && self.deletable(index, entry.key, entry.root, view)
            && (self.is_durable(entry.root) || !self.rules.has(Rule::KillFlushed))
    }

    /// Marks an entry dead, if allowed, on a leaf that the caller holds.
    pub(crate) fn mark_if_dead(&mut self, index: usize, leaf: usize, place: Place, view: &View) {
        let Some(n) = self.leaf(index, leaf).find(place) else { return };
        let entry = self.leaf(index, leaf).entries[n];
        if self.may_be_marked(index, &entry, view) {
            self.set_dead(index, leaf, n);
        }
    }

    /// Marks an entry dead. The mark is a hint: the leaf's version stays, and nothing is logged.
    fn set_dead(&mut self, index: usize, leaf: usize, n: usize) {
        let entry = &mut self.indexes[index].leaves[leaf].entries[n];
        entry.dead = true;
        let (key, root) = entry.place();
        self.events.killed += 1;
        self.say(|| format!("marks {key} -> {root} dead"));
        self.touch();
    }

    /// Returns whether the state of a chain would survive a crash (rule `dead-marks`).
    fn is_durable(&self, root: Tid) -> bool {
        let flushed = |xid: Option<usize>| {
            xid.and_then(|xid| self.transactions.csn(xid))
                .is_none_or(|csn| self.log.has_commit(csn))
        };
        self.log.has_page(root.page)
            && self.versions(root).all(|(_, v)| flushed(Some(v.xmin)) && flushed(v.xmax))
    }
}

/// Marks entries LP_DEAD, if the leaf is unchanged since it was read.
async fn mark_dead(actor: &Actor, index: usize, copied: &Copied, dead: &[Place]) {
    if dead.is_empty() {
        return;
    }
    actor.step().await;
    let mut world = actor.world();
    let leaf = world.leaf(index, copied.leaf);
    let unchanged = leaf.version == copied.version || !world.rules.has(Rule::KillUnchanged);
    if leaf.latch.is_some() || !unchanged {
        return;
    }
    for place in dead {
        if let Some(n) = world.leaf(index, copied.leaf).find(*place) {
            world.set_dead(index, copied.leaf, n);
        }
    }
}
