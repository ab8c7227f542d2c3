//! Changes of rows: updating, deleting and locking the version that the snapshot sees, or the
//! newest one.
//!
//! ```text
//! latch the root's page
//!   the version that the snapshot sees          (or the one an earlier attempt locked)
//!     nothing in the way    → change it
//!     a writer in progress  → give the latch back, wait, start again   (rule `follow-again`)
//!     replaced, committed   → follow the links, each with xmin = xmax  (rule `hop-check`),
//!                             lock the newest, hand it out: the caller judges it again
//! ```

use niwaki_env::{invariant, seeded_bug};
use niwaki_storage::page::Page;
use niwaki_storage::{BlockNumber, LoggedPage, Mixed, OffsetNumber, PageKind, PageWrite};
use niwaki_storage::{Tid, Xid};
use niwaki_txn::{RowLockMode, Transaction, View};

use crate::error::{Result, corruption};
use crate::format::change::{EndVersion, UpdateOnPage, decode_end, encode_end, kind};
use crate::format::header::{NO_LINK, TUPLE_HEADER_SIZE, Tuple, absolute, flags};
use crate::format::map_page::PageVisibility;
use crate::format::page::{self, has_room, next_offset};
use crate::format::rows::{RowRef, VersionRow, row_ref};
use crate::memory::counters::count;
use crate::memory::unprunable::RoomSeeker;
use crate::relation::Heap;
use crate::row::follow::{HOPS_MAX, successor};
use crate::row::insert::{page_log, place, session_slot, tuple_size};
use crate::row::judge::Judgement;
use crate::row::outcome::{Blocker, HeapOutcome, NewRow, NewestVersion, RowTarget, UpdateKind};
use crate::row::read::targeted;
use crate::row::share_key::SharedKey;

/// The place where a change can be made, or the outcome that prevents it.
enum Position {
    At(u16),
    Not(HeapOutcome),
    /// A committed transaction replaced the version at this offset, and the snapshot may follow.
    Follow(u16),
}

impl<'e> Heap<'e> {
    /// Finds the version that `target` means on its page and judges it.
    fn position(
        &self,
        view: &View<'_>,
        page: &Page,
        target: RowTarget,
        mode: RowLockMode,
    ) -> Position {
        if page.kind() != PageKind::Heap {
            return Position::Not(HeapOutcome::Gone);
        }
        let found = targeted(view, page, target);
        let Some((offset, tuple)) = found else { return Position::Not(HeapOutcome::Gone) };
        match self.judge(view, page, tuple, target.root, mode) {
            Judgement::Free => Position::At(offset),
            Judgement::SelfModified => Position::Not(HeapOutcome::SelfModified),
            Judgement::Blocked(blocker) => Position::Not(HeapOutcome::Wait(blocker)),
            Judgement::Replacing(xid) => {
                Position::Not(HeapOutcome::Wait(Blocker::Transaction(xid)))
            }
            Judgement::Updated if view.may_follow() => Position::Follow(offset),
            Judgement::Updated => Position::Not(HeapOutcome::ConcurrentUpdate),
            Judgement::Deleted if view.may_follow() => Position::Not(gone(tuple)),
            // For a snapshot that may not follow, a move to another table counts as an update.
            Judgement::Deleted if tuple.has(flags::MOVED) => {
                Position::Not(HeapOutcome::ConcurrentUpdate)
            }
            Judgement::Deleted => Position::Not(HeapOutcome::ConcurrentDelete),
        }
    }

    /// Passes the version on which a change of `target` would be made to `read`, under the page's
    /// shared latch. Returns `None` when there is no such version. For one snapshot and target, it
    /// is always the same version.
    ///
    /// # Errors
    /// Storage's.
    pub fn read_target<R>(
        &self,
        view: &View<'_>,
        target: RowTarget,
        read: impl FnOnce(RowRef<'_>) -> R,
    ) -> Result<Option<R>> {
        let pin = self.pin(target.root.block.0)?;
        let page = pin.read();
        if page.kind() != PageKind::Heap {
            return Ok(None);
        }
        let found = targeted(view, &page, target);
        Ok(found.map(|(_, tuple)| read(row_ref(&page, target.root, tuple))))
    }

    /// Replaces a row. On [`HeapOutcome::Done`] the caller inserts index entries for `root` unless
    /// `heap_only`. No latch is held on return.
    ///
    /// # Errors
    /// [`crate::Error::RowTooBig`]; storage's; a read-only transaction's.
    pub fn update(
        &self,
        view: &View<'_>,
        target: RowTarget,
        row: NewRow<'_>,
        update: UpdateKind,
    ) -> Result<HeapOutcome> {
        self.update_if(view, target, row, update, |_| true)
    }

    /// Updates as [`Heap::update`] does, unless the version to be replaced has values out of line.
    /// In that case nothing changes, and the outcome contains this version. For one snapshot and
    /// target, it is always the same version.
    ///
    /// # Errors
    /// As [`Heap::update`].
    pub fn update_unless_external(
        &self,
        view: &View<'_>,
        target: RowTarget,
        row: NewRow<'_>,
        update: UpdateKind,
    ) -> Result<HeapOutcome> {
        self.update_if(view, target, row, update, |old| !old.has(flags::HAS_EXTERNAL))
    }

    fn update_if(
        &self,
        view: &View<'_>,
        target: RowTarget,
        row: NewRow<'_>,
        update: UpdateKind,
        fine: impl Fn(Tuple<'_>) -> bool,
    ) -> Result<HeapOutcome> {
        let len = tuple_size(&row)?;
        let transaction = view.transaction();
        let xid = transaction.write_xid()?;
        let mode = if update.key_changed { RowLockMode::Update } else { RowLockMode::NoKeyUpdate };
        let block = target.root.block.0;
        let mut other: Option<u32> = None;
        // Ends: each round takes another page out of the free space map, or a new one.
        loop {
            let (mut page, moved) = self.latch_both(block, other)?;
            debug_assert_eq!(moved.is_some(), other.is_some(), "both pages are latched");
            let at = match self.position(view, &page, target, mode) {
                Position::At(at) => at,
                Position::Not(outcome) => return Ok(outcome),
                Position::Follow(at) => {
                    drop(moved);
                    return self.follow(view, page, at, mode);
                }
            };
            if let Some(old) = page::tuple(&page, at).filter(|old| !fine(*old)) {
                return Ok(HeapOutcome::External(row_ref(&page, target.root, old).into()));
            }
            self.bring_in_range(&mut page, xid)?;
            let takes = |page: &Page| has_room(page, len);
            let is_full = !takes(&page) || self.is_crowded(&page);
            let seeker = RoomSeeker { session: session_slot(transaction), xid };
            // A judged page has no versions of rolled-back transactions.
            let is_judged = is_full && self.prune_if_useful(&mut page, Some(seeker))?;
            if takes(&page)
                || (!is_judged && self.takes_after_rollbacks(&mut page, false, takes)?)
            {
                return self.update_on_page(transaction, page, target.root, at, &row, update);
            }
            if let Some(mut moved) = moved {
                let takes = |page: &Page| self.takes_moved(page, len);
                if takes(&moved) || self.takes_after_rollbacks(&mut moved, true, takes)? {
                    self.bring_in_range(&mut moved, xid)?;
                    let done = self.update_to_page(transaction, (page, moved), at, &row, update)?;
                    self.expect_room(block)?;
                    return Ok(done);
                }
                self.note_room(&moved);
            }
            drop(page);
            other = Some(self.target_for_move(session_slot(transaction), len, block, other)?);
        }
    }

    /// Latches one page, or two in the order of their blocks.
    fn latch_both(
        &self,
        block: u32,
        other: Option<u32>,
    ) -> Result<(PageWrite<'e>, Option<PageWrite<'e>>)> {
        let Some(other) = other else { return Ok((self.pin_write(block)?, None)) };
        debug_assert_ne!(other, block, "a page is latched twice");
        if other < block {
            let second = self.pin_write(other)?;
            return Ok((self.pin_write(block)?, Some(second)));
        }
        let first = self.pin_write(block)?;
        Ok((first, Some(self.pin_write(other)?)))
    }

    fn update_on_page(
        &self,
        transaction: &Transaction,
        mut page: PageWrite<'_>,
        root: Tid,
        at: u16,
        row: &NewRow<'_>,
        update: UpdateKind,
    ) -> Result<HeapOutcome> {
        let xid = transaction.write_xid()?;
        let block = page.id().block;
        let Some(old) = page::tuple(&page, at) else {
            return Err(corruption(page.id(), Some(at), "H1", "the version is gone"));
        };
        debug_assert_eq!(root.block, block, "the root of a chain is on its page");
        debug_assert!(
            has_room(&page, TUPLE_HEADER_SIZE + row.bytes.len()),
            "the caller has found room"
        );
        self.keep_outer_lock(transaction, &page, old, root)?;
        let (prefix, suffix) = UpdateOnPage::shared(old.data(), row.bytes);
        debug_assert!(u16::try_from(prefix.max(suffix)).is_ok(), "the shared bytes lie on a page");
        let old_cid = transaction.delete_cid(page::xmin(page::base(&page), old), old.cid())?;
        let change = UpdateOnPage {
            old: at,
            new: next_offset(&page),
            natts: row.natts,
            has_nulls: row.has_nulls,
            has_external: row.has_external,
            keys_updated: update.key_changed || is_held_for_update(&page, old, xid),
            heap_only: update.heap_only,
            mixed: update.heap_only && update.mixed,
            prefix: prefix as u16,
            suffix: suffix as u16,
            middle: &row.bytes[prefix..row.bytes.len() - suffix],
        };
        debug_assert_ne!(change.old, change.new, "both versions have a line pointer");
        debug_assert!(!change.mixed || change.heap_only, "a new root has the new keys only");
        let new_root = Tid { block, offset: OffsetNumber(change.new) };
        let map = self.lower_visibility([block.0], PageVisibility::Unknown)?;
        let _critical = self.storage.begin_change()?;
        if !update.heap_only {
            self.carry_locks(root, new_root)?;
        }
        let cids = (transaction.insert_cid().raw, old_cid);
        if change.mixed && page.item_id(root.offset).mixed() == Mixed::No {
            self.relation.shared.ledger.begin(root);
            count(&self.relation.counters.mixed, 1);
        }
        self.note_root_change(if update.heap_only { root } else { new_root });
        let applied = change.apply(&mut page, block, xid, cids);
        assert!(applied, "a page with room takes the new version");
        let head = change.head();
        let data: [&[u8]; 2] = [&head, change.middle];
        self.log(kind::UPDATE, xid, [LoggedPage::delta(&mut page, &data)], map)?;
        let root = if update.heap_only { root } else { new_root };
        Ok(HeapOutcome::Done { root, heap_only: update.heap_only })
    }

    fn update_to_page(
        &self,
        transaction: &Transaction,
        (mut old_page, mut new_page): (PageWrite<'_>, PageWrite<'_>),
        at: u16,
        row: &NewRow<'_>,
        update: UpdateKind,
    ) -> Result<HeapOutcome> {
        let xid = transaction.write_xid()?;
        let Some(old) = page::tuple(&old_page, at) else {
            return Err(corruption(old_page.id(), Some(at), "H1", "the version is gone"));
        };
        let old_root = Tid { block: old_page.id().block, offset: OffsetNumber(old.root()) };
        self.keep_outer_lock(transaction, &old_page, old, old_root)?;
        let old_xmin = page::xmin(page::base(&old_page), old);
        let old_cid = transaction.delete_cid(old_xmin, old.cid())?;
        let new = new_page.is_new();
        let place = place(row, next_offset(&new_page), false);
        let root = Tid { block: new_page.id().block, offset: OffsetNumber(place.offset) };
        debug_assert_ne!(old_root.block, root.block, "a row moves to another page");
        debug_assert_ne!(root.offset, OffsetNumber::INVALID, "a link leads to a line pointer");
        let mut blocks = [old_root.block.0, root.block.0];
        blocks.sort_unstable();
        let map = self.lower_visibility(blocks, PageVisibility::Unknown)?;
        let _critical = self.storage.begin_change()?;
        self.carry_locks(old_root, root)?;
        if new {
            page::init(&mut new_page, page::initial_base(xid));
        }
        let end = EndVersion {
            offset: at,
            link: root,
            xmax_flags: if update.key_changed || is_held_for_update(&old_page, old, xid) {
                flags::KEYS_UPDATED
            } else {
                0
            },
            cid: Some(old_cid),
        };
        self.note_root_change(root);
        let before = old_page.lsn();
        let placed = place.apply_moved_in(&mut new_page, xid, transaction.insert_cid().raw);
        let ended = end.apply(&mut old_page, xid);
        assert!(placed && ended, "a page chosen for a row takes it");
        let (end, head) = (encode_end(&end), place.head());
        invariant!(W3, decode_end(&end).is_some(), "redo would refuse the old version's end");
        let old_data: [&[u8]; 1] = [&end];
        let new_data: [&[u8]; 2] = [&head, place.data];
        self.log(
            kind::MOVE,
            xid,
            [
                LoggedPage::delta(&mut old_page, &old_data),
                LoggedPage::new(&mut new_page, page_log(new), &new_data),
            ],
            map,
        )?;
        let seeker = RoomSeeker { session: session_slot(transaction), xid };
        let now = old_page.lsn();
        self.relation.shared.unprunable.go_along(seeker, old_root.block, before, now);
        Ok(HeapOutcome::Done { root, heap_only: false })
    }

    /// Deletes a row. No latch is held on return.
    ///
    /// # Errors
    /// Storage's; a read-only transaction's.
    pub fn delete(&self, view: &View<'_>, target: RowTarget) -> Result<HeapOutcome> {
        self.delete_noting(view, target, false, &mut None)
    }

    /// Deletes as [`Heap::delete`] does. If the ended version has values out of line, a copy of it
    /// goes to `external`. `moved` means that the row goes to another table. Transactions that wait
    /// for the row learn this.
    ///
    /// # Errors
    /// As [`Heap::delete`].
    pub fn delete_noting(
        &self,
        view: &View<'_>,
        target: RowTarget,
        moved: bool,
        external: &mut Option<VersionRow>,
    ) -> Result<HeapOutcome> {
        debug_assert!(external.is_none(), "the values of another version were noted");
        let transaction = view.transaction();
        let xid = transaction.write_xid()?;
        let mut page = self.pin_write(target.root.block.0)?;
        let at = match self.position(view, &page, target, RowLockMode::Update) {
            Position::At(at) => at,
            Position::Not(outcome) => return Ok(outcome),
            Position::Follow(at) => return self.follow(view, page, at, RowLockMode::Update),
        };
        self.bring_in_range(&mut page, xid)?;
        let Some(old) = page::tuple(&page, at) else {
            return Err(corruption(page.id(), Some(at), "H1", "the version is gone"));
        };
        self.keep_outer_lock(transaction, &page, old, target.root)?;
        let cid = transaction.delete_cid(page::xmin(page::base(&page), old), old.cid())?;
        let noted: Option<VersionRow> =
            old.has(flags::HAS_EXTERNAL).then(|| row_ref(&page, target.root, old).into());
        let xmax_flags = flags::KEYS_UPDATED | if moved { flags::MOVED } else { 0 };
        let end = EndVersion { offset: at, link: NO_LINK, xmax_flags, cid: Some(cid) };
        self.end_version(&mut page, xid, &end, kind::DELETE)?;
        *external = noted;
        drop(page);
        self.expect_room(target.root.block.0)?;
        Ok(HeapOutcome::Done { root: target.root, heap_only: true })
    }

    /// Locks a row. Exclusive modes are written into the version, shared modes are kept in memory.
    /// No latch is held on return.
    ///
    /// # Errors
    /// Storage's; a read-only transaction's (exclusive modes); too many locks in memory.
    pub fn lock(
        &self,
        view: &View<'_>,
        target: RowTarget,
        mode: RowLockMode,
    ) -> Result<HeapOutcome> {
        let done = HeapOutcome::Done { root: target.root, heap_only: true };
        if mode == RowLockMode::KeyShare {
            match self.share_key_of(view, target)? {
                SharedKey::Locked => return Ok(done),
                SharedKey::Blocked(blocker) => return Ok(HeapOutcome::Wait(blocker)),
                SharedKey::Changed | SharedKey::Again => {}
            }
        }
        let mut page = self.pin_write(target.root.block.0)?;
        let at = match self.position(view, &page, target, mode) {
            Position::At(at) => at,
            Position::Not(outcome) => return Ok(outcome),
            Position::Follow(at) => return self.follow(view, page, at, mode),
        };
        Ok(match self.lock_version(view, &mut page, target.root, at, mode)? {
            Some(blocker) => HeapOutcome::Wait(blocker),
            None => done,
        })
    }

    /// Locks a version that was judged free. Returns the blocker if a lock in memory is in the way.
    pub(crate) fn lock_version(
        &self,
        view: &View<'_>,
        page: &mut PageWrite<'_>,
        root: Tid,
        at: u16,
        mode: RowLockMode,
    ) -> Result<Option<Blocker>> {
        debug_assert_eq!(page.id().block, root.block, "the root of a chain is on its page");
        let transaction = view.transaction();
        if mode < RowLockMode::NoKeyUpdate {
            let key = self.row_key(root);
            // Under the latch: a writer looks for locks in memory under it too.
            let locked = self.txns.locks().try_lock_row(transaction, key, mode)?;
            return Ok((!locked).then_some(Blocker::Row(key)));
        }
        let Some(tuple) = page::tuple(page, at) else {
            return Err(corruption(page.id(), Some(at), "H1", "the version is gone"));
        };
        let holder = absolute(page::base(page), tuple.xmax());
        let mine = tuple.has(flags::XMAX_LOCK_ONLY) && view.is_mine(holder);
        let strong = mode == RowLockMode::Update;
        if mine && (!strong || tuple.has(flags::KEYS_UPDATED)) {
            return Ok(None);
        }
        // A lock of an outer level outlives a rollback to the savepoint, with its full strength.
        if mine {
            self.keep_outer_lock(transaction, page, tuple, root)?;
        }
        let xid = transaction.write_xid()?;
        self.bring_in_range(page, xid)?;
        let xmax_flags = flags::XMAX_LOCK_ONLY | if strong { flags::KEYS_UPDATED } else { 0 };
        let end = EndVersion { offset: at, link: NO_LINK, xmax_flags, cid: None };
        self.end_version(page, xid, &end, kind::LOCK)?;
        Ok(None)
    }

    /// Marks a version as ended or locked, and logs it.
    pub(crate) fn end_version(
        &self,
        page: &mut PageWrite<'_>,
        xid: Xid,
        end: &EndVersion,
        kind: u8,
    ) -> Result<()> {
        debug_assert_eq!(end.link, NO_LINK, "a lock or a deletion leads to no next version");
        debug_assert_eq!(
            kind == kind::LOCK,
            end.xmax_flags & flags::XMAX_LOCK_ONLY != 0,
            "only a record of a lock is without an end"
        );
        debug_assert!(xid.is_normal(), "{xid} ends or locks no version");
        // All snapshots still see a version that is only locked.
        let to = match end.xmax_flags & flags::XMAX_LOCK_ONLY {
            0 => PageVisibility::Unknown,
            _ => PageVisibility::AllVisible,
        };
        let map = self.lower_visibility([page.id().block.0], to)?;
        let _critical = self.storage.begin_change()?;
        let applied = end.apply(page, xid);
        assert!(applied, "the version is there, and the id in range");
        let data = encode_end(end);
        invariant!(
            W3,
            decode_end(&data).is_some_and(|read| read.xmax_flags == end.xmax_flags),
            "redo would make another end than {end:?}"
        );
        let data: [&[u8]; 1] = [&data];
        self.log(kind, xid, [LoggedPage::delta(page, &data)], map)
    }

    /// Goes from the replaced version at `at` to the newest one, locks it in `mode` and copies it.
    fn follow(
        &self,
        view: &View<'_>,
        mut page: PageWrite<'e>,
        at: u16,
        mode: RowLockMode,
    ) -> Result<HeapOutcome> {
        debug_assert!(view.may_follow(), "the snapshot may not follow the row");
        let mut at = at;
        let mut hops = 0;
        loop {
            let Some(tuple) = page::tuple(&page, at) else { return Ok(HeapOutcome::Gone) };
            let link = tuple.link();
            let expected = page::xmax(page::base(&page), tuple);
            // The end of the heap, to which the link leads, was cut off: the row was deleted
            // (rule `hop-check`).
            if link.block == BlockNumber::INVALID || !self.has_block(link)? {
                return Ok(HeapOutcome::Gone);
            }
            if link.block != page.id().block || seeded_bug!("one-latch") {
                // The link is the one TID that outlives a latch, with the xmin expected there
                // (rule `follow-again`).
                drop(page);
                page = self.pin_write(link.block.0)?;
            }
            hops += 1;
            if hops > HOPS_MAX {
                return Err(corruption(page.id(), Some(at), "H3", "links run in a circle"));
            }
            let Some(tuple) = successor(&page, link.offset, expected) else {
                return Ok(HeapOutcome::Gone);
            };
            at = link.offset.0;
            if tuple.has(flags::STUB) {
                continue;
            }
            let root = Tid { block: page.id().block, offset: OffsetNumber(tuple.root()) };
            match self.judge(view, &page, tuple, root, mode) {
                Judgement::Free => {}
                Judgement::SelfModified => return Ok(HeapOutcome::SelfModified),
                Judgement::Blocked(blocker) => return Ok(HeapOutcome::Wait(blocker)),
                Judgement::Replacing(_) => {}
                Judgement::Updated => continue,
                Judgement::Deleted => return Ok(gone(tuple)),
            }
            let version = Some(Tid { block: root.block, offset: OffsetNumber(at) });
            let row = VersionRow {
                natts: tuple.natts(),
                has_nulls: tuple.has(flags::HAS_NULLS),
                bytes: tuple.data().to_vec(),
            };
            let newest = NewestVersion { target: RowTarget { root, version }, row };
            if mode == RowLockMode::KeyShare {
                return Ok(match self.share_key(view, page, root, at)? {
                    SharedKey::Locked => HeapOutcome::Changed(newest),
                    SharedKey::Blocked(blocker) => HeapOutcome::Wait(blocker),
                    // The transaction that was changing the row has ended, so this wait ends at
                    // once.
                    SharedKey::Changed | SharedKey::Again => {
                        HeapOutcome::Wait(Blocker::Transaction(expected))
                    }
                });
            }
            if let Some(blocker) = self.lock_version(view, &mut page, root, at, mode)? {
                return Ok(HeapOutcome::Wait(blocker));
            }
            return Ok(HeapOutcome::Changed(newest));
        }
    }
}

/// Returns whether this level has locked the version FOR UPDATE. A change that the level writes
/// over the lock must keep out every transaction that the lock kept out.
fn is_held_for_update(page: &Page, tuple: Tuple<'_>, xid: Xid) -> bool {
    tuple.has(flags::XMAX_LOCK_ONLY)
        && tuple.has(flags::KEYS_UPDATED)
        && page::xmax(page::base(page), tuple) == xid
}

/// Returns the outcome for a row that another transaction deleted.
fn gone(tuple: Tuple<'_>) -> HeapOutcome {
    if tuple.has(flags::MOVED) { HeapOutcome::Moved } else { HeapOutcome::Gone }
}
