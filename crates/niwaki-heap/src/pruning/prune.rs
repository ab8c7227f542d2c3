//! Pruning: removes versions from one page that no snapshot sees.
//!
//! Each version gets one verdict per pass (rule `removable`). Then each chain loses its removable
//! versions, at any place in the chain:
//!
//! ```text
//! root v1 ─ v2 ─ v3        v1, v2 removable       root REDIRECT ──► v3
//! root v1 ─ v2 ─ v3 ─ v4   v2, v3                 v1 ─ v4, with v3's end (rule `hop-check`)
//! root v1 ─ v2 ─► P2       v2                     v1 ─► P2, with v2's end
//! root v1 ─ v2             v2, row deleted        v1, with v2's end
//! root v1 ─ v2             both, row deleted      root DEAD (until its index entries are gone; a
//!                                                 piece of a large value has none: UNUSED)
//! moved-in root v1 ─ v2    v1, may be followed    root stub ──► v2          (rule `stub`)
//! moved-in root v1 ─► P2   v1, row lives on P2    root stub ──► P2
//! v1 (─ v2 aborted)        v2                     v1 alone, its end forgotten (rule `hop-check`)
//! ```
//!
//! Why may the version in front take over the end of the removed one? They lived in [b, e) and [e,
//! f). No snapshot lies in the second interval, and none ever will: f is published. So for every
//! snapshot, "ended at f" says of the first version what "ended at e" said. All three commits are
//! published, so the rule for a transaction's own commands does not apply. The command field, which
//! belonged to the former end, is not read any more.
//!
//! A follower of the link goes on where the removed version led. There it finds the xmin that the
//! new xmax promises. A standby's snapshot may lie in the second interval: the log record carries
//! the interval, as it carries the lifetime of every removed version.

use niwaki_env::{invariant, seeded_bug};
use niwaki_storage::page::{ItemState, Page};
use niwaki_storage::{
    BlockNumber, Csn, LoggedPage, Mixed, OffsetNumber, PageKind, PageWrite, Tid, Xid,
};
use niwaki_txn::{Horizon, TransactionManager, XidStatus};

use crate::error::Result;
use crate::format::change::{PrunePlan, Relink, kind};
use crate::format::header::{NO_LINK, Tuple, absolute, flags, is_of_key};
use crate::format::map_page::PageVisibility;
use crate::format::page::{self, Chain};
use crate::maps::visibility::MapChanges;
use crate::memory::counters::{Pruned, count};
use crate::memory::retained::RetainedOnPage;
use crate::relation::Heap;

/// A page is crowded when it has at least one surplus version for every `CROWDED_PART` rows.
const CROWDED_PART: u16 = 8;
/// The least number of surplus versions of a crowded page: below it, pruning costs more than it
/// frees.
const CROWDED_MIN: u16 = 2;
/// The least number of rows of a crowded page. A page with fewer rows takes all versions that fit,
/// because a pass costs less per version the more versions it removes.
const CROWDED_ROWS_MIN: u16 = 8;
/// The most line pointers of a crowded page. On pages with more, of narrow rows, counting the
/// versions at each update costs more than it saves.
const CROWDED_ITEMS_MAX: u16 = 64;

const _: () = assert!(CROWDED_PART > 0 && CROWDED_ROWS_MIN >= CROWDED_PART);
const _: () = assert!(CROWDED_ROWS_MIN < CROWDED_ITEMS_MAX);
const _: () = assert!(CROWDED_ITEMS_MAX < page::MAX_ITEMS);

/// Tasks of a pass besides removing versions.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PruneOptions<'a> {
    /// The pass freezes versions whose inserter is older than this and seen by every snapshot.
    pub(crate) freeze_before: Xid,
    /// DEAD line pointers that no index entry names any more, ascending, each once. The pass frees
    /// them, except those that belong to locked rows.
    pub(crate) free: &'a [u16],
    /// True to clear `mixed` of the roots that settled (`cleanup_ledger.rs`).
    pub(crate) settle: bool,
    /// True to set the page's bits in the visibility map. False if the page is about to change.
    pub(crate) map: bool,
    /// True to hide versions that left index entries from the gardener, because a cleaner is about
    /// to visit all of these entries.
    pub(crate) unreported: bool,
    /// The only pieces of index keys that the pass may remove, in a heap of pieces (TOAST chunks).
    /// With `None`, such pieces go as all others do.
    pub(crate) key_pieces: Option<&'a [u16]>,
}

/// The verdict on one version; a pass computes it once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The line pointer has no tuple.
    None,
    /// Some snapshot may see the version, now or later.
    Keep,
    /// Some snapshot may see the version, which has ended. The values are the oldest and the newest
    /// of the snapshots that keep it.
    Retained(Csn, Csn),
    /// The version's inserter aborted.
    Aborted,
    /// The version lived in this interval, and no snapshot sees it.
    Removable(Csn, Csn),
}

/// One version as the pass sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Version<'p> {
    /// The tuple on the page. It is looked up once for all later uses.
    tuple: Option<Tuple<'p>>,
    pub(super) verdict: Verdict,
    /// The commit of the version's inserter.
    pub(super) begin: Option<Csn>,
    /// The version's xmax aborted.
    pub(super) xmax_aborted: bool,
    /// The version's xmax was only a lock, and has ended.
    lock_ended: bool,
    /// The xmax, relative, that ends the version after the pass. This is the version's own xmax, or
    /// the xmax of the last version removed behind it. 0 means that no transaction ends it.
    pub(super) end: u32,
    /// The chain of some root contains the version.
    reached: bool,
}

impl Version<'_> {
    pub(super) fn is_kept(&self) -> bool {
        matches!(self.verdict, Verdict::Keep | Verdict::Retained(..))
    }
}

/// A version in its chain.
#[derive(Clone, Copy, Debug)]
struct Member<'p> {
    offset: u16,
    tuple: Tuple<'p>,
    verdict: Verdict,
}

impl Member<'_> {
    fn is_removable(&self) -> bool {
        matches!(self.verdict, Verdict::Removable(..))
    }

    /// Returns the end of this version, for the version at `offset` to take over. `goes_on` means
    /// that the end leads to a version that stays on this page.
    fn end_for(&self, offset: u16, goes_on: bool) -> Relink {
        Relink {
            offset,
            xmax: self.tuple.xmax(),
            link: self.tuple.link(),
            heap_updated: goes_on,
            keys_updated: self.tuple.has(flags::KEYS_UPDATED),
            moved: self.tuple.has(flags::MOVED),
        }
    }
}

/// Returns whether a change of its key ended one of the versions. Then the key has changed,
/// whatever the last change did.
fn changes_key<'m, 'p: 'm>(mut rows: impl Iterator<Item = &'m Member<'p>>) -> bool {
    rows.any(|row| row.tuple.has(flags::KEYS_UPDATED))
}

pub(super) const NOTHING: Version<'static> = Version {
    tuple: None,
    verdict: Verdict::None,
    begin: None,
    xmax_aborted: false,
    lock_ended: false,
    end: 0,
    reached: false,
};

/// Transaction states that a pass has looked up. The rows of a page name few transactions, so the
/// last inserter and the last ender suffice. All rows in a run of one inserter get the same answer,
/// even if the inserter ends meanwhile.
pub(super) struct States<'t> {
    txns: &'t TransactionManager,
    /// The page's xid base, to which the ids of its tuples are relative.
    base: u64,
    inserter: (u32, XidStatus),
    ender: (u32, XidStatus),
}

impl<'t> States<'t> {
    /// Placeholder: no transaction has the id 0.
    const NOBODY: (u32, XidStatus) = (0, XidStatus::Aborted);

    pub(super) fn new(txns: &'t TransactionManager, base: u64) -> Self {
        Self { txns, base, inserter: Self::NOBODY, ender: Self::NOBODY }
    }

    #[inline]
    fn inserter(&mut self, tuple: Tuple<'_>) -> XidStatus {
        if self.inserter.0 != tuple.xmin() {
            self.inserter = (tuple.xmin(), self.txns.status(page::xmin(self.base, tuple)));
        }
        self.inserter.1
    }

    #[inline]
    fn ender(&mut self, tuple: Tuple<'_>) -> XidStatus {
        if self.ender.0 != tuple.xmax() {
            self.ender = (tuple.xmax(), self.txns.status(page::xmax(self.base, tuple)));
        }
        self.ender.1
    }
}

/// Judges one version in its place in the list. A copy of the version would have to wait for the
/// writes of its parts.
#[inline(always)]
#[expect(clippy::inline_always, reason = "a call for each version is a tenth of a pass")]
fn look<'p>(
    version: &mut Version<'p>,
    states: &mut States<'_>,
    horizon: &Horizon,
    tuple: Tuple<'p>,
) {
    debug_assert!(version.tuple.is_none(), "a pass gives one verdict per version");
    version.tuple = Some(tuple);
    let begin = if tuple.has(flags::XMIN_ALL_VISIBLE) {
        // The version is older than every snapshot: the first commit of all gives the same
        // verdicts.
        Some(Csn(1))
    } else {
        match states.inserter(tuple) {
            XidStatus::Aborted => {
                version.verdict = Verdict::Aborted;
                return;
            }
            XidStatus::InProgress => None,
            XidStatus::Committed(csn) => Some(csn),
        }
    };
    version.verdict = Verdict::Keep;
    version.begin = begin;
    if tuple.xmax() == 0 {
        return;
    }
    let status = states.ender(tuple);
    if tuple.has(flags::XMAX_LOCK_ONLY) {
        version.lock_ended = status != XidStatus::InProgress;
        return;
    }
    version.end = tuple.xmax();
    match (begin, status) {
        (_, XidStatus::Aborted) => version.xmax_aborted = true,
        (Some(begin), XidStatus::Committed(end)) if horizon.removable(begin, end) => {
            // The log record says exactly which snapshots could have seen the version.
            let begin = match states.inserter(tuple) {
                XidStatus::Committed(exact) => exact,
                XidStatus::Aborted | XidStatus::InProgress => begin,
            };
            version.verdict = Verdict::Removable(begin, end);
        }
        (Some(begin), XidStatus::Committed(end)) => {
            if let Some((first, last)) = horizon.keepers(begin, end) {
                version.verdict = Verdict::Retained(first, last);
            }
        }
        _ => {}
    }
}

/// Returns whether a follower may come to this root from a version on another page. A follower
/// comes from a version that some snapshot older than the root's commit, `begin`, sees
/// (rule `stub`).
pub(super) fn is_followed(page: &Page, root: u16, begin: Option<Csn>, horizon: &Horizon) -> bool {
    debug_assert_ne!(root, 0, "line pointers are numbered from 1");
    let oldest = if seeded_bug!("stubs-for-followers") {
        horizon.oldest()
    } else {
        horizon.oldest_following()
    };
    page.item_id(OffsetNumber(root)).moved_in()
        && begin.is_some_and(|begin| begin > oldest)
        && !seeded_bug!("stub")
}

/// A prune plan under construction.
struct Planner<'p> {
    page: &'p Page,
    horizon: &'p Horizon,
    /// The versions of the page by their offsets.
    versions: Vec<Version<'p>>,
    plan: PrunePlan,
    /// Offsets of the versions to remove.
    removed: Vec<u16>,
    /// Chain roots without a remaining version, each with the last version of its chain. Their rows
    /// are gone. With `reports_moves` also roots of rows that live elsewhere, even while such a
    /// root is still a stub.
    ended: Vec<(u16, u16)>,
    reports_moves: bool,
    by_interval: u32,
    aborted: u32,
    interval: Option<(Csn, Csn)>,
}

/// Counts from the first walk over a page's line pointers, so that later walks know what to look
/// for.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    /// Versions whose verdict lets them go. A version that no root leads to may stay all the same.
    going: usize,
    /// Versions to remove whose inserter aborted.
    aborted: usize,
    /// DEAD line pointers, and NORMAL ones without a tuple.
    dead: usize,
    /// Line pointers that are `mixed`.
    mixed: usize,
}

/// Facts about the versions that stay.
#[derive(Debug, Default)]
struct Kept {
    /// The number of versions, without stubs.
    count: u32,
    /// Versions that may get the hint that every snapshot sees them.
    all_visible: Vec<u16>,
    /// Versions that stay only because of open snapshots.
    left: RetainedOnPage,
    /// The state of the page that the visibility map may record, and the newest commit that
    /// inserted a version.
    visibility: (PageVisibility, Csn),
}

/// The result of planning a pass.
pub(super) struct Findings {
    plan: PrunePlan,
    /// Offsets of the versions to remove.
    removed: Vec<u16>,
    /// Chain roots to report, each with the last version of its chain.
    ended: Vec<(u16, u16)>,
    /// Versions to remove that an open snapshot older than their end does not see.
    by_interval: u32,
    /// Versions to remove whose inserter aborted.
    aborted: u32,
    /// Chains without a remaining version.
    chains: u32,
    /// Union of the lifetimes of the versions to remove.
    interval: Option<(Csn, Csn)>,
    /// Versions that stay, and the state of the page that the visibility map may record afterwards,
    /// unless a root stays mixed.
    kept: Kept,
    /// Line pointers that are mixed.
    mixed: usize,
}

impl Findings {
    /// Returns whether the pass removes a version or a stub, or frees a line pointer.
    pub(super) fn frees_something(&self) -> bool {
        let PrunePlan { dead, redirected, stubs, freed, .. } = &self.plan;
        let roots = dead.len() + redirected.len() + stubs.len();
        debug_assert!(
            self.chains as usize <= roots + self.removed.len(),
            "a chain ends without a version"
        );
        roots + freed.len() + self.removed.len() > 0
    }
}

impl<'p> Planner<'p> {
    #[inline]
    fn version(&self, offset: u16) -> &Version<'p> {
        self.versions.get(usize::from(offset)).unwrap_or(&NOTHING)
    }

    /// Counts a version as removed.
    fn remove(&mut self, offset: u16) {
        self.removed.push(offset);
        self.aborted += u32::from(self.version(offset).verdict == Verdict::Aborted);
        if let Verdict::Removable(begin, end) = self.version(offset).verdict {
            self.by_interval += u32::from(end > self.horizon.oldest());
            debug_assert!(
                end <= self.horizon.current(),
                "G1: a new snapshot may see the version that lived from {begin:?} to {end:?}"
            );
            debug_assert!(
                !self.horizon.snapshots().iter().any(|s| begin <= *s && *s < end),
                "G1: some snapshot sees the version that lived from {begin:?} to {end:?}"
            );
            let (from, to) = self.interval.unwrap_or((begin, end));
            self.interval = Some((from.min(begin), to.max(end)));
        }
        self.versions[usize::from(offset)].verdict = Verdict::None;
    }

    /// Removes versions from the chain at one root, as their verdicts say. `members` is scratch
    /// memory.
    fn chain(&mut self, root: u16, members: &mut Vec<Member<'p>>) {
        members.clear();
        for (offset, tuple) in Chain::new(self.page, root) {
            self.versions[usize::from(offset)].reached = true;
            let version = self.version(offset);
            members.push(Member { offset, tuple, verdict: version.verdict });
            // The walk follows the header. Here it is known that this end did not happen.
            if version.xmax_aborted {
                break;
            }
        }
        let stub = members.first().filter(|first| first.tuple.has(flags::STUB)).copied();
        let rows = &members[usize::from(stub.is_some())..];
        let goes = |row: &&Member<'_>| row.is_removable() || row.verdict == Verdict::Aborted;
        let (front, rest) = rows.split_at(rows.iter().take_while(goes).count());
        let followed = self.is_followed(root, members.first());
        self.middle(rest);
        for row in front {
            self.remove(row.offset);
            if row.offset != root {
                self.plan.unused.push(row.offset);
            }
        }
        // The member that the root led to before the first one that stays.
        let last = match (front.last(), stub) {
            (Some(last), _) => *last,
            (None, Some(stub)) if !followed => stub,
            _ => return,
        };
        let kept = rest.first();
        let aborted = front.first().is_some_and(|row| row.verdict == Verdict::Aborted);
        let lives_elsewhere = kept.is_none() && !aborted && last.tuple.link() != NO_LINK;
        if followed && (kept.is_some() || lives_elsewhere) {
            // Report the root now: once it is DEAD and no follower can come, the version's values
            // are lost.
            if kept.is_none() && self.reports_moves {
                self.ended.push((root, last.offset));
            }
            let mut end = last.end_for(root, kept.is_some());
            end.keys_updated |= changes_key(front.iter().chain(&stub));
            self.plan.stubs.push(end);
            return;
        }
        if let Some(kept) = kept {
            self.plan.redirected.push((root, kept.offset));
        } else {
            self.plan.dead.push(root);
            if (!lives_elsewhere || self.reports_moves) && !front.is_empty() {
                self.ended.push((root, last.offset));
            }
        }
        // A stub without followers counts as no tuple.
        if stub.is_some() {
            self.versions[usize::from(root)].verdict = Verdict::None;
        }
    }

    /// Returns whether a follower may come to this root. `first` is the first member of the root's
    /// chain.
    fn is_followed(&self, root: u16, first: Option<&Member<'_>>) -> bool {
        let begin = first.filter(|first| first.offset == root).and(self.version(root).begin);
        is_followed(self.page, root, begin, self.horizon)
    }

    /// Removes versions from the rest of a chain, whose first member stays. Each version that stays
    /// takes over the end of the last version removed between it and the next one that stays.
    fn middle(&mut self, rows: &[Member<'p>]) {
        let mut runs = rows.chunk_by(|_, next| next.is_removable()).peekable();
        while let Some(run) = runs.next() {
            let [stays, gone @ ..] = run else { continue };
            debug_assert!(!stays.is_removable(), "the version at {} goes", stays.offset);
            let Some(last) = gone.last() else { continue };
            invariant!(
                G1,
                gone.iter().all(Member::is_removable),
                "a version behind {} stays",
                stays.offset
            );
            let mut end = last.end_for(stays.offset, runs.peek().is_some());
            end.keys_updated |= changes_key(run.iter());
            self.plan.relinked.push(end);
            self.versions[usize::from(stays.offset)].end = last.tuple.xmax();
            for row in gone {
                self.remove(row.offset);
                self.plan.unused.push(row.offset);
            }
        }
    }

    /// Removes versions that no root leads to: versions of aborted updates.
    fn orphans(&mut self) {
        for offset in 1..=self.page.item_count() {
            let version = self.version(offset);
            let is_one = !version.reached && version.verdict == Verdict::Aborted;
            if is_one && version.tuple.is_some_and(|tuple| tuple.has(flags::HEAP_ONLY)) {
                self.remove(offset);
                self.plan.unused.push(offset);
            }
        }
    }

    /// Examines the versions that stay. Plans freezing, and the clearing of ends that did not
    /// happen. Computes the next prune hint. Finds the state that the visibility map may record
    /// after the plan, apart from mixed roots. `dead` means that some line pointer stays DEAD.
    fn keepers(&mut self, heap: &Heap<'_>, options: &PruneOptions<'_>, dead: bool) -> Kept {
        const UNKNOWN: (PageVisibility, Csn) = (PageVisibility::Unknown, Csn(0));
        let base = page::base(self.page);
        let (oldest, flushed) = (self.horizon.oldest(), heap.storage.wal().flushed());
        let anything = !self.plan.is_empty();
        let mut kept = Kept::default();
        let mut hint = 0;
        let mut map =
            options.map && !dead && self.plan.dead.is_empty() && self.plan.stubs.is_empty();
        let (mut all_frozen, mut newest, mut inserter) = (true, Csn(0), (1, Csn(0)));
        for offset in 1..=self.page.item_count() {
            let version = self.version(offset);
            let Some(tuple) = version.tuple.filter(|_| version.verdict != Verdict::None) else {
                continue;
            };
            // A stub is no row. A removable version that stays belongs to no chain. Both rule out a
            // map bit.
            if !version.is_kept() || tuple.has(flags::STUB) {
                map = false;
                continue;
            }
            kept.count += 1;
            if let Verdict::Retained(first, last) = version.verdict {
                kept.left.add((first, last), tuple.data().len());
            }
            let Version { begin, xmax_aborted, lock_ended, end, .. } = *version;
            let before = page::xmin(base, tuple) < options.freeze_before;
            // Rule `hop-check`: this very pass may remove the aborted successor.
            let cleared = xmax_aborted || (lock_ended && (before || anything));
            if cleared {
                self.plan.cleared.push(offset);
            } else if end != 0 {
                hint = if hint == 0 { end } else { end.min(hint) };
            }
            let seen = begin.is_some_and(|begin| begin <= oldest);
            let was_frozen = tuple.xmin() == 1;
            let frozen = before && seen && !was_frozen && self.is_first(offset, tuple);
            if frozen {
                self.plan.frozen.push(offset);
            }
            let hinted = was_frozen || tuple.has(flags::XMIN_ALL_VISIBLE);
            if seen && !hinted && begin.is_some_and(|begin| begin.0 <= flushed.0) {
                if kept.all_visible.is_empty() {
                    kept.all_visible.reserve(usize::from(self.page.item_count() - offset) + 1);
                }
                kept.all_visible.push(offset);
            }
            map &= seen || begin.is_some() && seeded_bug!("map-horizon");
            map &= end == 0 || xmax_aborted;
            if !map {
                continue;
            }
            all_frozen &= (was_frozen || frozen) && (tuple.xmax() == 0 || cleared);
            if tuple.xmin() != inserter.0 {
                // The hint does not contain the commit number, which a standby needs.
                match heap.txns.status(page::xmin(base, tuple)) {
                    XidStatus::Committed(begin) => inserter = (tuple.xmin(), begin),
                    XidStatus::Aborted | XidStatus::InProgress => map = false,
                }
            }
            newest = newest.max(inserter.1);
        }
        debug_assert!(kept.all_visible.len() <= kept.count as usize, "hints of removed versions");
        debug_assert!(kept.all_visible.is_sorted_by(|a, b| a < b), "a hint for each version once");
        debug_assert!(self.plan.frozen.is_sorted_by(|a, b| a < b), "a version is frozen once");
        debug_assert!(self.plan.cleared.is_sorted_by(|a, b| a < b), "an end is cleared once");
        invariant!(V1, !map || !dead, "a line pointer stays DEAD on an all-visible page");
        invariant!(V1, !map || self.plan.stubs.is_empty(), "a stub on an all-visible page");
        invariant!(V1, !map || kept.left.total().versions == 0, "an ended version stays");
        // A later pass must look again at versions that stay only for a few snapshots.
        self.plan.prune_xid = hint;
        kept.visibility = match (map, all_frozen) {
            (false, _) => UNKNOWN,
            (true, true) => (PageVisibility::AllFrozen, newest),
            (true, false) => (PageVisibility::AllVisible, newest),
        };
        kept
    }

    /// Returns whether no version in front of this one stays, so that its xmin need not match any
    /// xmax. A version behind a relinked one is not first: the version in front of it ends with its
    /// xmin.
    fn is_first(&self, offset: u16, tuple: Tuple<'_>) -> bool {
        if !tuple.has(flags::HEAP_ONLY) {
            return true;
        }
        let root = tuple.root();
        if self.plan.stubs.iter().any(|stub| stub.offset == root) {
            return false;
        }
        if self.plan.redirected.iter().any(|&(from, to)| from == root && to == offset) {
            return true;
        }
        let id = self.page.item_id(OffsetNumber(root));
        id.state() == ItemState::Redirect && id.target().0 == offset
    }
}

impl Heap<'_> {
    /// Judges one version in its place in the list. `key_pieces` are those of [`PruneOptions`].
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a call for each version is a tenth of a pass")]
    pub(super) fn judge_version<'p>(
        &self,
        version: &mut Version<'p>,
        states: &mut States<'_>,
        horizon: &Horizon,
        (offset, tuple): (u16, Tuple<'p>),
        key_pieces: Option<&[u16]>,
    ) {
        look(version, states, horizon, tuple);
        let stays = |only: &[u16]| is_of_key(tuple) && !only.contains(&offset);
        if self.relation.pieces
            && !version.is_kept()
            && key_pieces.is_some_and(stays)
            && !seeded_bug!("key-pieces-go")
        {
            // The gardener may still have to read the key.
            version.verdict = Verdict::Keep;
        }
    }

    /// Plans a pass over a heap page under its exclusive latch.
    pub(super) fn plan(
        &self,
        page: &Page,
        block: BlockNumber,
        horizon: &Horizon,
        options: PruneOptions<'_>,
    ) -> Findings {
        debug_assert_eq!(page.kind(), PageKind::Heap, "a pass over a page of another kind");
        let items = usize::from(page.item_count());
        let mut states = States::new(self.txns, page::base(page));
        let mut counted = Counted::default();
        // Line pointers count from 1.
        let mut versions = Vec::with_capacity(items + 1);
        versions.push(NOTHING);
        // Roots of chains that may lose versions. Most roots have one version without any xmax.
        let mut roots = Vec::with_capacity(items);
        for (id, offset) in page.item_ids().zip(1..) {
            versions.push(NOTHING);
            let version = &mut versions[usize::from(offset)];
            counted.mixed += usize::from(id.mixed() != Mixed::No);
            match id.state() {
                ItemState::Redirect => roots.push(offset),
                ItemState::Dead => counted.dead += 1,
                ItemState::Unused => {}
                ItemState::Normal => match page::tuple_at(page, id) {
                    Some(tuple) => {
                        let (place, only) = ((offset, tuple), options.key_pieces);
                        self.judge_version(version, &mut states, horizon, place, only);
                        counted.aborted += usize::from(version.verdict == Verdict::Aborted);
                        counted.going += usize::from(!version.is_kept());
                        let is_root = !tuple.has(flags::HEAP_ONLY);
                        version.reached = is_root
                            && tuple.xmax() == 0
                            && !tuple.has(flags::STUB)
                            && version.verdict == Verdict::Keep;
                        if is_root && !version.reached {
                            roots.push(offset);
                        }
                    }
                    // The line pointer leads to no tuple.
                    None => counted.dead += 1,
                },
            }
        }
        // A damaged page has fewer line pointers than it counts.
        versions.resize(items + 1, NOTHING);
        debug_assert!(counted.aborted <= counted.going, "{counted:?}: aborted versions go");
        debug_assert!(counted.going + counted.dead <= items, "{counted:?} of {items}");
        debug_assert!(counted.mixed <= items, "{counted:?} of {items}");
        let mut planner = Planner {
            page,
            horizon,
            versions,
            plan: PrunePlan::with_room(counted.going),
            removed: Vec::with_capacity(counted.going),
            ended: Vec::new(),
            reports_moves: self.relation.reports_moves,
            by_interval: 0,
            aborted: 0,
            interval: None,
        };
        let mut members = Vec::new();
        for root in roots {
            planner.chain(root, &mut members);
        }
        if counted.aborted > 0 {
            planner.orphans();
        }
        let chains = planner.plan.dead.len() as u32;
        debug_assert!(
            planner.ended.len() <= planner.plan.dead.len() + planner.plan.stubs.len(),
            "a reported root has a version left"
        );
        invariant!(
            G1,
            planner.plan.unused.len() <= planner.removed.len(),
            "a line pointer is freed whose version stays"
        );
        if self.relation.pieces {
            // No index has an entry for pieces, or will have one.
            let gone = std::mem::take(&mut planner.plan.dead);
            planner.plan.unused.extend(gone);
        }
        planner.plan.freed = self.freeable(page, block, options.free, counted.dead);
        let kept = planner.keepers(self, &options, counted.dead > planner.plan.freed.len());
        Findings {
            kept,
            mixed: counted.mixed,
            plan: planner.plan,
            removed: planner.removed,
            ended: planner.ended,
            by_interval: planner.by_interval,
            aborted: planner.aborted,
            chains,
            interval: planner.interval,
        }
    }

    /// Returns those line pointers of `free` that the pass can free. `dead` line pointers of the
    /// page are DEAD.
    fn freeable(&self, page: &Page, block: BlockNumber, free: &[u16], dead: usize) -> Vec<u16> {
        // A line pointer that is counted twice would hide from the visibility map another one that
        // stays DEAD (V1).
        let is_set = free.is_sorted_by(|before, next| before < next);
        assert!(is_set || seeded_bug!("freed-twice"), "V1: line pointers to free are named once");
        let mut freed = free.to_vec();
        freed.retain(|&offset| {
            let root = Tid { block, offset: OffsetNumber(offset) };
            page.item_id(root.offset).state() == ItemState::Dead && !self.is_locked_in_memory(root)
        });
        invariant!(
            V1,
            freed.len() <= dead || !is_set,
            "more line pointers are freed than are DEAD"
        );
        freed
    }

    /// Ends a pass that changes nothing on the page but its hints.
    fn change_hints_only(
        &self,
        page: &mut PageWrite<'_>,
        prune_xid: u32,
        raised: MapChanges<'_>,
    ) -> Result<()> {
        if page::prune_xid(page) != prune_xid {
            page::set_prune_xid(page, prune_xid);
            page.mark_hint();
        }
        if !raised.is_empty() {
            let _critical = self.storage.begin_change()?;
            self.log(kind::VISIBLE, Xid::INVALID, [], raised)?;
        }
        Ok(())
    }

    /// Makes one pass over a latched heap page.
    pub(crate) fn prune(
        &self,
        page: &mut PageWrite<'_>,
        horizon: &Horizon,
        options: PruneOptions<'_>,
    ) -> Result<Pruned> {
        debug_assert!(
            !(options.settle && options.unreported),
            "a pass that hides versions from the gardener leaves roots to a cleaner"
        );
        let Findings {
            mut plan,
            removed,
            ended,
            by_interval,
            aborted,
            chains,
            interval,
            kept: Kept { count: remaining, all_visible, left, visibility: (visibility, newest) },
            mixed,
        } = self.plan(page, page.id().block, horizon, options);
        let retained = u32::try_from(left.total().versions).unwrap_or(u32::MAX);
        debug_assert!(
            retained <= remaining,
            "{retained} of {remaining} versions stay for a snapshot"
        );
        self.relation.shared.retained.note(page.id().block, left);
        if options.settle && mixed > 0 {
            // Roots that lose versions in this pass do not settle before these versions are cleaned
            // up.
            plan.unmixed = self.settled_single(page);
        }
        invariant!(
            V1,
            plan.unmixed.len() <= mixed,
            "a root that loses its flag twice hides another mixed root"
        );
        debug_assert!(
            plan.relinked.len() <= removed.len(),
            "a version takes over the end of another that stays"
        );
        invariant!(
            G1,
            interval.is_none_or(|(_, to)| to <= horizon.current()),
            "the interval {interval:?} of the record is not over"
        );
        let pruned = Pruned {
            removed: removed.len() as u32,
            by_interval,
            aborted,
            frozen: plan.frozen.len() as u32,
            relinked: plan.relinked.len() as u32,
            freed: plan.freed.len() as u32,
            chains,
            retained,
            remaining,
        };
        let stays_mixed = mixed > plan.unmixed.len() && !seeded_bug!("map-unmixed");
        let raised = match visibility {
            PageVisibility::Unknown => MapChanges::default(),
            _ if stays_mixed => MapChanges::default(),
            to => self.raise_visibility(page.id().block.0, to, newest)?,
        };
        if plan.is_empty() {
            self.change_hints_only(page, plan.prune_xid, raised)?;
            return Ok(pruned);
        }
        let mut data = Vec::with_capacity(plan.encoded_max());
        plan.encode(&mut data);
        debug_assert!(data.len() <= plan.encoded_max(), "a plan of {} bytes", data.len());
        let (copied, external) = if self.relation.pieces {
            (Vec::new(), Vec::new())
        } else {
            let block = page.id().block;
            self.report_or_copy(page, block, (&removed, &ended), options.unreported)
        };
        invariant!(
            X4,
            plan.freed.iter().all(|at| page.item_id(OffsetNumber(*at)).state() == ItemState::Dead),
            "a line pointer of {:?} is freed while it is in use",
            plan.freed
        );
        let _critical = self.storage.begin_change()?;
        self.count_unmixed(page, &plan.unmixed);
        let applied = plan.apply(page);
        assert!(applied, "a plan fits the page it was made for");
        if !plan.freed.is_empty() {
            self.forget_freed(page.id().block, &plan.freed);
        }
        let data: [&[u8]; 1] = [&data];
        let pages = [LoggedPage::delta(page, &data)];
        self.log_removing(kind::PRUNE, Xid::INVALID, pages, raised, interval)?;
        self.queue_removed(copied, external);
        self.relation.counters.count_pass(&pruned);
        count(&self.relation.counters.settled, plan.unmixed.len());
        if options.settle {
            // Vacuum counts the line pointers that it frees by itself.
            count(&self.relation.counters.freed, pruned.freed as usize);
        }
        // The page is dirty already, and these hints spare the next pass its look-ups.
        if all_visible.is_empty() {
            return Ok(pruned);
        }
        mark_all_visible(page, &all_visible);
        page.mark_hint();
        Ok(pruned)
    }

    /// Prunes a page as an access does that finds the page short of room.
    ///
    /// # Errors
    /// Storage's.
    pub fn prune_page(&self, block: u32) -> Result<()> {
        let mut page = self.pin_write(block)?;
        if page.kind() == PageKind::Heap {
            self.prune_if_useful(&mut page, None)?;
            self.note_room(&page);
        }
        Ok(())
    }

    /// Returns whether a page with a mixed root has too many invisible versions for its rows. A
    /// pass then removes them before the next version comes, although that would fit. As long as
    /// versions of mixed roots are on the page, so are their index entries.
    pub(crate) fn is_crowded(&self, page: &Page) -> bool {
        let hint = page::prune_xid(page);
        if hint == 0 || !(CROWDED_ROWS_MIN..=CROWDED_ITEMS_MAX).contains(&page.item_count()) {
            return false;
        }
        let (mut rows, mut versions, mut mixed) = (0, 0, false);
        for offset in 1..=page.item_count() {
            let id = page.item_id(OffsetNumber(offset));
            let is_root = match id.state() {
                ItemState::Redirect => true,
                ItemState::Normal => {
                    versions += 1;
                    !page::tuple(page, offset).is_some_and(|tuple| tuple.has(flags::HEAP_ONLY))
                }
                ItemState::Unused | ItemState::Dead => false,
            };
            rows += u16::from(is_root);
            mixed |= is_root && id.mixed() != Mixed::No;
        }
        let many = rows + (rows / CROWDED_PART).max(CROWDED_MIN);
        if !mixed || rows < CROWDED_ROWS_MIN || versions < many {
            return false;
        }
        // Under an old snapshot, most versions may have to stay. Then no pass is made for each
        // update.
        let ended = self.txns.status(absolute(page::base(page), hint));
        matches!(ended, XidStatus::Committed(end) if end <= self.txns.horizon().oldest())
    }

    /// Returns line pointers of a page, latched for writing, that a pass may free: ascending, each
    /// once. Two sources may report the same line pointer: the indexes that deleted its entries,
    /// and the gardener that found none.
    pub(crate) fn known_free(&self, page: &PageWrite<'_>) -> Vec<u16> {
        let block = page.id().block;
        let mut free = self.unreferenced_on(page, block);
        free.append(&mut self.settled_dead(page, block));
        if !seeded_bug!("freed-twice") {
            free.sort_unstable();
            free.dedup();
        }
        invariant!(
            X4,
            free.iter().all(|at| page.item_id(OffsetNumber(*at)).state() == ItemState::Dead),
            "a line pointer of {free:?} is in use"
        );
        free
    }

    /// Makes a pass that frees these line pointers, and clears `mixed` of roots that have only the
    /// entries of their single version.
    pub(crate) fn prune_and_settle(
        &self,
        page: &mut PageWrite<'_>,
        horizon: &Horizon,
        free: &[u16],
    ) -> Result<Pruned> {
        let (settle, key_pieces) = (true, Some::<&[u16]>(&[]));
        let options = PruneOptions { free, settle, key_pieces, ..PruneOptions::default() };
        self.prune(page, horizon, options)
    }
}

/// Sets the hint that every snapshot sees the insertion of these versions.
fn mark_all_visible(page: &mut Page, offsets: &[u16]) {
    for offset in offsets {
        if let Some(header) = page::header_mut(page, *offset) {
            let flags = u16::from_le_bytes([header[20], header[21]]) | flags::XMIN_ALL_VISIBLE;
            header[20..22].copy_from_slice(&flags.to_le_bytes());
        }
    }
}
