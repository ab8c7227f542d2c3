//! Changes of a heap page, made by the same function at run time and in redo.
//!
//! So redo is the change (W3). The bytes that describe a change in the log are here too
//! (`docs/internals/format.md`).
#![deny(clippy::indexing_slicing)]

use niwaki_env::{invariant, seeded_bug};
use niwaki_storage::page::Page;
use niwaki_storage::{BlockNumber, ItemId, ItemState, Mixed, OffsetNumber, PageKind, Tid, Xid};
use niwaki_txn::TupleCid;

use crate::format::header::{Header, NO_LINK, TUPLE_HEADER_SIZE, Tuple, flags, relative};
use crate::format::page;

/// Kinds of the records of [`niwaki_storage::Manager::Heap`]. Numbers are part of the format.
pub(crate) mod kind {
    /// One row inserted.
    pub(crate) const INSERT: u8 = 1;
    /// Several rows inserted on one page.
    pub(crate) const MULTI_INSERT: u8 = 2;
    /// A new version on the same page.
    pub(crate) const UPDATE: u8 = 3;
    /// A new version on another page: page 0 holds the old version, page 1 the new one.
    pub(crate) const MOVE: u8 = 4;
    /// A row deleted.
    pub(crate) const DELETE: u8 = 5;
    /// A row locked.
    pub(crate) const LOCK: u8 = 6;
    /// Versions removed, line pointers freed, ids frozen.
    pub(crate) const PRUNE: u8 = 7;
    /// `mixed` set on roots.
    pub(crate) const MIXED: u8 = 8;
    /// The page's xid base moved; always an image.
    pub(crate) const REBASE: u8 = 9;
    /// `mixed` cleared on roots.
    pub(crate) const UNMIXED: u8 = 10;
    /// Bits of the visibility map set, and nothing else.
    pub(crate) const VISIBLE: u8 = 11;
}

/// Layout version of all records.
pub(crate) const RECORD_VERSION: u8 = 1;

/// Bits that records carry about a version.
mod bits {
    pub(super) const HAS_NULLS: u8 = 1;
    pub(super) const HAS_EXTERNAL: u8 = 2;
    pub(super) const FROZEN: u8 = 4;
    pub(super) const KEYS_UPDATED: u8 = 8;
    pub(super) const HEAP_ONLY: u8 = 16;
    pub(super) const MIXED: u8 = 32;

    // Each has a bit of its own.
    const _: () = assert!(
        HAS_NULLS ^ HAS_EXTERNAL ^ FROZEN ^ KEYS_UPDATED ^ HEAP_ONLY ^ MIXED == 0b11_1111,
        "two facts share a bit"
    );
}

/// Reads the little-endian fields of a record.
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) fn u8(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }
    pub(crate) fn u16(&mut self) -> Option<u16> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u16::from_le_bytes(*first))
    }
    pub(crate) fn u32(&mut self) -> Option<u32> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*first))
    }
    pub(crate) fn u64(&mut self) -> Option<u64> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*first))
    }
    pub(crate) fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (first, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(first)
    }
}

/// A row put at a line pointer as the root of a new chain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlaceRow<'a> {
    pub(crate) offset: u16,
    pub(crate) natts: u16,
    pub(crate) has_nulls: bool,
    pub(crate) has_external: bool,
    /// The row counts as committed before all transactions (COPY FREEZE).
    pub(crate) frozen: bool,
    pub(crate) data: &'a [u8],
}

impl<'a> PlaceRow<'a> {
    /// Encodes the bytes before the values in a record.
    pub(crate) fn head(&self) -> [u8; 5] {
        let mut bits = 0;
        bits |= if self.has_nulls { bits::HAS_NULLS } else { 0 };
        bits |= if self.has_external { bits::HAS_EXTERNAL } else { 0 };
        bits |= if self.frozen { bits::FROZEN } else { 0 };
        let ([a, b], [c, d]) = (self.offset.to_le_bytes(), self.natts.to_le_bytes());
        let head = [a, b, c, d, bits];
        debug_assert!(
            Self::decode_head(&mut Fields(&head)).is_some_and(|read| read.flags() == self.flags()),
            "the facts about a row read back"
        );
        head
    }

    fn decode_head(fields: &mut Fields<'_>) -> Option<Self> {
        let (offset, natts, bits) = (fields.u16()?, fields.u16()?, fields.u8()?);
        Some(Self {
            offset,
            natts,
            has_nulls: bits & bits::HAS_NULLS != 0,
            has_external: bits & bits::HAS_EXTERNAL != 0,
            frozen: bits & bits::FROZEN != 0,
            data: &[],
        })
    }

    /// Decodes the bytes of [`PlaceRow::head`] and the values after them.
    pub(crate) fn decode(record: &'a [u8]) -> Option<Self> {
        let mut fields = Fields(record);
        let head = Self::decode_head(&mut fields)?;
        Some(Self { data: fields.0, ..head })
    }

    /// Decodes one row of several; the length of its values (u16) stands in front of them.
    pub(crate) fn decode_one(fields: &mut Fields<'a>) -> Option<Self> {
        let head = Self::decode_head(fields)?;
        let len = usize::from(fields.u16()?);
        Some(Self { data: fields.bytes(len)?, ..head })
    }

    fn flags(&self) -> u16 {
        let nulls = if self.has_nulls { flags::HAS_NULLS } else { 0 };
        nulls | if self.has_external { flags::HAS_EXTERNAL } else { 0 }
    }

    /// Puts the row at its line pointer. Returns false, with nothing changed, when the line pointer
    /// is taken, the page has no room, or `xid` is out of the page's range.
    pub(crate) fn apply(&self, page: &mut Page, xid: Xid, cid: u32) -> bool {
        let xid = if self.frozen { Xid::FROZEN } else { xid };
        let Some(xmin) = relative(page::base(page), xid) else { return false };
        let header = Header {
            xmin,
            xmax: 0,
            cid,
            link: NO_LINK,
            root: self.offset,
            flags: self.flags(),
            natts: self.natts,
        };
        store(page, self.offset, header, &[self.data])
    }

    /// Puts the row there as [`PlaceRow::apply`] does, as the new root of a row that was on another
    /// place before.
    pub(crate) fn apply_moved_in(&self, page: &mut Page, xid: Xid, cid: u32) -> bool {
        if !self.apply(page, xid, cid) {
            return false;
        }
        if let Some(header) = page::header_mut(page, self.offset) {
            put_u16(header, 20, self.flags() | flags::UPDATED);
        }
        set_moved_in(page, self.offset);
        true
    }
}

fn set_moved_in(page: &mut Page, offset: u16) {
    let number = OffsetNumber(offset);
    let id = page.item_id(number);
    let set = page.set_item_id(number, id.with_moved_in(true));
    debug_assert!(set, "the line pointer {offset} was made for this row");
}

/// Stores a header and values at a free line pointer. Returns false if this is not possible.
fn store(page: &mut Page, offset: u16, header: Header, data: &[&[u8]]) -> bool {
    let len = data.iter().map(|piece| piece.len()).sum::<usize>();
    let Some(len) = len.checked_add(TUPLE_HEADER_SIZE) else { return false };
    let Some(place) = page.reserve_item_at(OffsetNumber(offset), len) else { return false };
    let Some((head, mut rest)) = place.split_first_chunk_mut::<TUPLE_HEADER_SIZE>() else {
        return false;
    };
    *head = header.to_bytes();
    for piece in data {
        let Some((front, back)) = rest.split_at_mut_checked(piece.len()) else { return false };
        front.copy_from_slice(piece);
        rest = back;
    }
    debug_assert!(rest.is_empty(), "the values fill the tuple");
    debug_assert!(
        page::tuple(page, offset).is_some_and(|stored| Header::of(stored) == header),
        "the version at {offset} reads back"
    );
    true
}

fn put_u16(header: &mut [u8; TUPLE_HEADER_SIZE], at: usize, value: u16) {
    if let Some(place) = header.get_mut(at..at.saturating_add(2)) {
        place.copy_from_slice(&value.to_le_bytes());
    }
}

/// The end of a version: its xmax, from an ender or a locker, and the link to the next version.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndVersion {
    pub(crate) offset: u16,
    /// The next version, or [`NO_LINK`].
    pub(crate) link: Tid,
    /// A subset of [`flags::XMAX_LOCK_ONLY`], [`flags::KEYS_UPDATED`], [`flags::HEAP_UPDATED`] and
    /// [`flags::MOVED`].
    pub(crate) xmax_flags: u16,
    /// The new command field; `None` leaves the field as it is (locks do not need it).
    pub(crate) cid: Option<TupleCid>,
}

impl EndVersion {
    /// Marks the version. Returns false when there is no version, or `xid` is out of the page's
    /// range.
    pub(crate) fn apply(&self, page: &mut Page, xid: Xid) -> bool {
        debug_assert_eq!(self.xmax_flags & !flags::OF_XMAX, 0, "only flags of the end");
        let locks = self.xmax_flags & flags::XMAX_LOCK_ONLY != 0;
        debug_assert!(!locks || self.cid.is_none(), "a lock leaves the command field alone");
        let Some(xmax) = relative(page::base(page), xid) else { return false };
        let Some(bytes) = page::header_mut(page, self.offset) else { return false };
        let Some(tuple) = Tuple::new(bytes.as_slice()) else { return false };
        let mut header = Header::of(tuple);
        header.xmax = xmax;
        header.link = self.link;
        header.flags = header.flags & !flags::OF_XMAX | self.xmax_flags;
        if let Some(cid) = self.cid {
            header.cid = cid.raw;
            header.flags &= !flags::COMBO_CID;
            header.flags |= if cid.combo { flags::COMBO_CID } else { 0 };
        }
        *bytes = header.to_bytes();
        if !locks {
            page::note_prunable(page, xmax);
        }
        true
    }
}

/// A new version on the page of the old one, encoded as the difference between both.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UpdateOnPage<'a> {
    pub(crate) old: u16,
    pub(crate) new: u16,
    pub(crate) natts: u16,
    pub(crate) has_nulls: bool,
    pub(crate) has_external: bool,
    pub(crate) keys_updated: bool,
    pub(crate) heap_only: bool,
    /// The chain's root becomes mixed.
    pub(crate) mixed: bool,
    /// Number of bytes of the values that are the same in both versions, at the front (`prefix`)
    /// and at the end (`suffix`).
    pub(crate) prefix: u16,
    pub(crate) suffix: u16,
    /// The bytes of the new values between prefix and suffix.
    pub(crate) middle: &'a [u8],
}

impl<'a> UpdateOnPage<'a> {
    /// Returns the number of bytes that two images share at their front and, without these, at
    /// their end.
    pub(crate) fn shared(old: &[u8], new: &[u8]) -> (usize, usize) {
        // Compare a chunk at a time: for a wide row with one changed column, comparing takes as
        // long as copying.
        const CHUNK: usize = 16;
        let chunks = old.as_chunks::<CHUNK>().0.iter().zip(new.as_chunks::<CHUNK>().0);
        let begin = CHUNK * chunks.take_while(|(a, b)| a == b).count();
        let rest = old.iter().zip(new).skip(begin);
        let prefix = begin + rest.take_while(|(a, b)| a == b).count();

        let (old, new) = (old.get(prefix..).unwrap_or(&[]), new.get(prefix..).unwrap_or(&[]));
        let (chunks, others) = (old.as_rchunks::<CHUNK>().1, new.as_rchunks::<CHUNK>().1);
        let chunks = chunks.iter().rev().zip(others.iter().rev());
        let end = CHUNK * chunks.take_while(|(a, b)| a == b).count();
        let rest = old.iter().rev().zip(new.iter().rev()).skip(end);
        let suffix = end + rest.take_while(|(a, b)| a == b).count();
        debug_assert!(suffix <= old.len(), "no byte of the old values is shared twice");
        debug_assert!(suffix <= new.len(), "no byte of the new values is shared twice");
        (prefix, suffix)
    }

    /// Encodes the record's bytes before `middle`.
    pub(crate) fn head(&self) -> [u8; 11] {
        let mut bits = 0;
        bits |= if self.has_nulls { bits::HAS_NULLS } else { 0 };
        bits |= if self.has_external { bits::HAS_EXTERNAL } else { 0 };
        bits |= if self.keys_updated { bits::KEYS_UPDATED } else { 0 };
        bits |= if self.heap_only { bits::HEAP_ONLY } else { 0 };
        bits |= if self.mixed { bits::MIXED } else { 0 };
        let ([a, b], [c, d]) = (self.old.to_le_bytes(), self.new.to_le_bytes());
        let ([e, f], [g, h]) = (self.natts.to_le_bytes(), self.prefix.to_le_bytes());
        let [i, j] = self.suffix.to_le_bytes();
        let head = [bits, a, b, c, d, e, f, g, h, i, j];
        debug_assert!(
            UpdateOnPage::decode(&head).is_some_and(|read| {
                (read.old, read.new, read.prefix, read.suffix)
                    == (self.old, self.new, self.prefix, self.suffix)
            }),
            "the places of a change read back"
        );
        head
    }

    pub(crate) fn decode(record: &'a [u8]) -> Option<Self> {
        let mut fields = Fields(record);
        let bits = fields.u8()?;
        Some(Self {
            old: fields.u16()?,
            new: fields.u16()?,
            natts: fields.u16()?,
            has_nulls: bits & bits::HAS_NULLS != 0,
            has_external: bits & bits::HAS_EXTERNAL != 0,
            keys_updated: bits & bits::KEYS_UPDATED != 0,
            heap_only: bits & bits::HEAP_ONLY != 0,
            mixed: bits & bits::MIXED != 0,
            prefix: fields.u16()?,
            suffix: fields.u16()?,
            middle: fields.0,
        })
    }

    /// Makes the change; `cids` are the command fields of the new and the old version. Returns
    /// false, with nothing changed, in three cases. The old version, or the root that becomes
    /// mixed, is missing. The page has no room. `xid` is out of the page's range.
    pub(crate) fn apply(
        &self,
        page: &mut Page,
        block: BlockNumber,
        xid: Xid,
        cids: (u32, TupleCid),
    ) -> bool {
        let Some(xmin) = relative(page::base(page), xid) else { return false };
        let Some(old) = page::tuple(page, self.old) else { return false };
        let (prefix, suffix) = (usize::from(self.prefix), usize::from(self.suffix));
        if prefix.saturating_add(suffix) > old.data().len() {
            return false;
        }
        let root = old.root();
        if self.mixed && page.item_id(OffsetNumber(root)).state() == ItemState::Unused {
            return false;
        }
        let number = OffsetNumber(self.new);
        let old_id = page.item_id(OffsetNumber(self.old));
        let mut version = flags::UPDATED;
        version |= if self.has_nulls { flags::HAS_NULLS } else { 0 };
        version |= if self.has_external { flags::HAS_EXTERNAL } else { 0 };
        version |= if self.heap_only { flags::HEAP_ONLY } else { 0 };
        let header = Header {
            xmin,
            xmax: 0,
            cid: cids.0,
            link: NO_LINK,
            root: if self.heap_only { root } else { self.new },
            flags: version,
            natts: self.natts,
        };
        let len = TUPLE_HEADER_SIZE + prefix + self.middle.len() + suffix;
        if page.reserve_item_at(number, len).is_none() {
            return false;
        }
        debug_assert_ne!(self.old, self.new, "a new version has a line pointer of its own");
        debug_assert_eq!(
            page.item_id(OffsetNumber(self.old)),
            old_id,
            "the old version stays in its place"
        );
        let new_at = usize::from(page.item_id(number).offset());
        let old_at = usize::from(old_id.offset()) + TUPLE_HEADER_SIZE;
        let old_end = usize::from(old_id.offset()) + usize::from(old_id.len());
        page.0.copy_within(old_at..old_at + prefix, new_at + TUPLE_HEADER_SIZE);
        page.0.copy_within(old_end - suffix..old_end, new_at + len - suffix);
        let Some(place) = page.item_mut(number) else { return false };
        if let Some(head) = place.first_chunk_mut::<TUPLE_HEADER_SIZE>() {
            *head = header.to_bytes();
        }
        let from = TUPLE_HEADER_SIZE + prefix;
        if let Some(middle) = place.get_mut(from..from + self.middle.len()) {
            middle.copy_from_slice(self.middle);
        }
        if !self.heap_only {
            set_moved_in(page, self.new);
        }
        if self.mixed {
            let set = set_mixed(page, [root].into_iter(), Mixed::Yes);
            invariant!(H1, set, "the root {root} was there before the new version");
        }
        debug_assert!(
            page::tuple(page, self.new).is_some_and(|new| Header::of(new) == header),
            "the version at {} reads back",
            self.new
        );
        let mut xmax_flags = if self.keys_updated { flags::KEYS_UPDATED } else { 0 };
        xmax_flags |= if self.heap_only { flags::HEAP_UPDATED } else { 0 };
        let link = Tid { block, offset: number };
        EndVersion { offset: self.old, link, xmax_flags, cid: Some(cids.1) }.apply(page, xid)
    }
}

/// Encodes an [`EndVersion`] for the log: the old version's side of a cross-page update, a deletion
/// (no link), or a lock.
pub(crate) fn encode_end(end: &EndVersion) -> [u8; 10] {
    let [a, b] = end.offset.to_le_bytes();
    let [c, d] = end.xmax_flags.to_le_bytes();
    let [e, f, g, h] = end.link.block.0.to_le_bytes();
    let [i, j] = end.link.offset.0.to_le_bytes();
    [a, b, c, d, e, f, g, h, i, j]
}

/// Decodes the bytes of [`encode_end`]; the command field means nothing after a crash.
pub(crate) fn decode_end(record: &[u8]) -> Option<EndVersion> {
    let mut fields = Fields(record);
    let (offset, xmax_flags) = (fields.u16()?, fields.u16()?);
    let link = Tid { block: BlockNumber(fields.u32()?), offset: OffsetNumber(fields.u16()?) };
    if xmax_flags & !(flags::XMAX_LOCK_ONLY | flags::KEYS_UPDATED | flags::MOVED) != 0 {
        return None;
    }
    let locks = xmax_flags & flags::XMAX_LOCK_ONLY != 0;
    if xmax_flags & flags::MOVED != 0 && (locks || link != NO_LINK) {
        return None;
    }
    let cid = (!locks).then_some(TupleCid::default());
    Some(EndVersion { offset, link, xmax_flags, cid })
}

/// A version that takes over the end of a removed version behind it, also a moved-in root that
/// becomes a stub. Its xmax and link change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Relink {
    pub(crate) offset: u16,
    pub(crate) xmax: u32,
    pub(crate) link: Tid,
    /// The link leads to a heap-only version of this page.
    pub(crate) heap_updated: bool,
    /// The removed version's end was as strong as FOR UPDATE.
    pub(crate) keys_updated: bool,
    /// The removed version's end moved the row to another table.
    pub(crate) moved: bool,
}

/// All changes that one pruning pass makes to a page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PrunePlan {
    /// Roots that become REDIRECT, each with its target.
    pub(crate) redirected: Vec<(u16, u16)>,
    /// Roots that become DEAD.
    pub(crate) dead: Vec<u16>,
    /// Heap-only line pointers that become UNUSED.
    pub(crate) unused: Vec<u16>,
    /// DEAD line pointers that no index entry names any more: they become UNUSED.
    pub(crate) freed: Vec<u16>,
    /// Moved-in roots that shrink to a stub.
    pub(crate) stubs: Vec<Relink>,
    /// Versions that take over the end of the removed version behind them.
    pub(crate) relinked: Vec<Relink>,
    /// Versions whose xmax aborted or only locked: xmax and link are cleared.
    pub(crate) cleared: Vec<u16>,
    /// Versions to freeze, whose inserter every snapshot sees.
    pub(crate) frozen: Vec<u16>,
    /// Roots whose `mixed` flag is cleared.
    pub(crate) unmixed: Vec<u16>,
    /// The page's next prune hint.
    pub(crate) prune_xid: u32,
}

/// Bits of the byte that says which lists of a [`PrunePlan`] its record contains. They follow the
/// bits of the lists of offsets.
const REDIRECTED: u8 = 6;
const RELINKED: u8 = 7;
const _: () = assert!(REDIRECTED < RELINKED && (RELINKED as u32) < u8::BITS);

impl PrunePlan {
    /// Returns an empty plan. Its lists have room for the removal of `versions` versions.
    pub(crate) fn with_room(versions: usize) -> Self {
        let (redirected, unused) = (Vec::with_capacity(versions), Vec::with_capacity(versions));
        Self { redirected, unused, ..Self::default() }
    }

    /// Returns an upper bound for the bytes of [`PrunePlan::encode`].
    pub(crate) fn encoded_max(&self) -> usize {
        const HEAD: usize = 5 + 2 * 9;
        let offsets: usize = self.lists().into_iter().map(Vec::len).sum();
        let relinks = self.stubs.len() + self.relinked.len();
        HEAD + 2 * offsets + 4 * self.redirected.len() + 13 * relinks
    }

    /// Returns whether the plan changes nothing, apart from the prune hint.
    pub(crate) fn is_empty(&self) -> bool {
        self.redirected.is_empty()
            && self.dead.is_empty()
            && self.unused.is_empty()
            && self.freed.is_empty()
            && self.stubs.is_empty()
            && self.relinked.is_empty()
            && self.cleared.is_empty()
            && self.frozen.is_empty()
            && self.unmixed.is_empty()
    }

    /// Returns the lists of offsets, in the order of the record.
    fn lists(&self) -> [&Vec<u16>; 6] {
        [&self.dead, &self.unused, &self.freed, &self.cleared, &self.frozen, &self.unmixed]
    }

    /// Encodes the plan. Most passes change one or two things, so a byte says which lists follow.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        debug_assert_eq!(self.lists().len(), usize::from(REDIRECTED), "a bit for each list");
        out.extend_from_slice(&self.prune_xid.to_le_bytes());
        let mut there = u8::from(!self.redirected.is_empty()) << REDIRECTED;
        for (bit, list) in self.lists().into_iter().enumerate() {
            there |= u8::from(!list.is_empty()) << bit;
        }
        there |= u8::from(!self.stubs.is_empty() || !self.relinked.is_empty()) << RELINKED;
        out.push(there);
        let count = |len: usize| {
            debug_assert!(u16::try_from(len).is_ok(), "a list of {len} line pointers of one page");
            u16::try_from(len).unwrap_or(u16::MAX).to_le_bytes()
        };
        for list in self.lists().into_iter().filter(|list| !list.is_empty()) {
            out.extend_from_slice(&count(list.len()));
            list.iter().for_each(|offset| out.extend_from_slice(&offset.to_le_bytes()));
        }
        if !self.redirected.is_empty() {
            out.extend_from_slice(&count(self.redirected.len()));
        }
        for (from, to) in &self.redirected {
            out.extend_from_slice(&from.to_le_bytes());
            out.extend_from_slice(&to.to_le_bytes());
        }
        if there >> RELINKED & 1 == 0 {
            return;
        }
        for list in [&self.stubs, &self.relinked] {
            out.extend_from_slice(&count(list.len()));
            for relink in list {
                out.extend_from_slice(&relink.offset.to_le_bytes());
                out.extend_from_slice(&relink.xmax.to_le_bytes());
                out.extend_from_slice(&relink.link.block.0.to_le_bytes());
                out.extend_from_slice(&relink.link.offset.0.to_le_bytes());
                out.push(
                    u8::from(relink.heap_updated)
                        | u8::from(relink.keys_updated) << 1
                        | u8::from(relink.moved) << 2,
                );
            }
        }
    }

    pub(crate) fn decode(record: &[u8]) -> Option<Self> {
        let mut fields = Fields(record);
        let prune_xid = fields.u32()?;
        let there = fields.u8()?;
        let mut list = |bit: u8| match there >> bit & 1 {
            0 => Some(Vec::new()),
            _ => (0..fields.u16()?).map(|_| fields.u16()).collect::<Option<Vec<_>>>(),
        };
        let (dead, unused, freed) = (list(0)?, list(1)?, list(2)?);
        let (cleared, frozen, unmixed) = (list(3)?, list(4)?, list(5)?);
        let redirected = match there >> REDIRECTED & 1 {
            0 => Vec::new(),
            _ => (0..fields.u16()?)
                .map(|_| Some((fields.u16()?, fields.u16()?)))
                .collect::<Option<Vec<_>>>()?,
        };
        let mut relinks = || {
            if there >> RELINKED & 1 == 0 {
                return Some(Vec::new());
            }
            (0..fields.u16()?)
                .map(|_| {
                    let (offset, xmax) = (fields.u16()?, fields.u32()?);
                    let block = BlockNumber(fields.u32()?);
                    let link = Tid { block, offset: OffsetNumber(fields.u16()?) };
                    let bits = fields.u8()?;
                    let (heap_updated, keys_updated) = (bits & 1 != 0, bits & 2 != 0);
                    let moved = bits & 4 != 0;
                    // A row that went to another table was deleted here.
                    if moved && (heap_updated || link != NO_LINK) {
                        return None;
                    }
                    Some(Relink { offset, xmax, link, heap_updated, keys_updated, moved })
                })
                .collect::<Option<Vec<_>>>()
        };
        let (stubs, relinked) = (relinks()?, relinks()?);
        let plan = Self {
            redirected,
            dead,
            unused,
            freed,
            stubs,
            relinked,
            cleared,
            frozen,
            unmixed,
            prune_xid,
        };
        fields.0.is_empty().then_some(plan)
    }

    /// Makes the change and compacts the page. Returns false when a line pointer is not as the plan
    /// says; the page is then half changed.
    pub(crate) fn apply(&self, page: &mut Page) -> bool {
        let mut fine = true;
        for relink in &self.relinked {
            fine &= end_otherwise(page, relink, 0);
        }
        for stub in &self.stubs {
            fine &= shrink_to_stub(page, stub);
        }
        for &offset in &self.cleared {
            fine &= clear_xmax(page, offset);
        }
        for &offset in &self.frozen {
            fine &= freeze_xmin(page, offset);
        }
        for &(root, target) in &self.redirected {
            let number = OffsetNumber(root);
            fine &= page.item_id(OffsetNumber(target)).is_normal();
            // `mixed` stays with the line pointer in every state (rule `mixed-flag`).
            let id =
                ItemId::redirect(OffsetNumber(target)).with_mixed(page.item_id(number).mixed());
            fine &= page.set_item_id(number, id);
        }
        for &root in &self.dead {
            let number = OffsetNumber(root);
            let id = ItemId::dead().with_mixed(page.item_id(number).mixed());
            fine &= page.set_item_id(number, id);
        }
        for &offset in self.unused.iter().chain(&self.freed) {
            fine &= page.set_unused(OffsetNumber(offset));
        }
        fine &= set_mixed(page, self.unmixed.iter().copied(), Mixed::No);
        if seeded_bug!("abort-keeps-mixed") {
            let roots: Vec<u16> =
                self.cleared.iter().filter_map(|&at| Some(page::tuple(page, at)?.root())).collect();
            set_mixed(page, roots.into_iter(), Mixed::No);
        }
        if !self.unused.is_empty() || !self.freed.is_empty() {
            page::bump_incarnation(page);
            page.trim_unused();
        }
        page::set_prune_xid(page, self.prune_xid);
        page.compact();
        debug_assert!(
            page.kind() != PageKind::Heap || page.free_bytes() == page.free_bytes_compacted(),
            "a compacted page has no gap between its tuples"
        );
        fine
    }
}

/// Gives a version another end. Returns false, with nothing changed, when the version is missing.
/// The same applies when the end leads to a version of this page that another transaction inserted
/// (H3).
fn end_otherwise(page: &mut Page, relink: &Relink, more_flags: u16) -> bool {
    let goes_on = |next: Tuple<'_>| next.has(flags::HEAP_ONLY) && next.xmin() == relink.xmax;
    if relink.heap_updated && !page::tuple(page, relink.link.offset.0).is_some_and(goes_on) {
        return false;
    }
    let Some(bytes) = page::header_mut(page, relink.offset) else { return false };
    let Some(tuple) = Tuple::new(bytes.as_slice()) else { return false };
    let mut header = Header::of(tuple);
    if !seeded_bug!("relink-xmax") {
        header.xmax = relink.xmax;
    }
    header.link = relink.link;
    header.flags = header.flags & !flags::OF_XMAX | flags::RELINKED | more_flags;
    header.flags |= if relink.heap_updated { flags::HEAP_UPDATED } else { 0 };
    header.flags |= if relink.keys_updated { flags::KEYS_UPDATED } else { 0 };
    header.flags |= if relink.moved { flags::MOVED } else { 0 };
    *bytes = header.to_bytes();
    true
}

/// Shrinks a root to its header, with the end of the last version removed behind it.
fn shrink_to_stub(page: &mut Page, relink: &Relink) -> bool {
    if !end_otherwise(page, relink, flags::STUB) {
        return false;
    }
    let Some(bytes) = page::header_mut(page, relink.offset) else { return false };
    let Some(tuple) = Tuple::new(bytes.as_slice()) else { return false };
    let mut header = Header::of(tuple);
    header.flags &= !(flags::HAS_NULLS | flags::HAS_EXTERNAL);
    header.natts = 0;
    let bytes = header.to_bytes();
    let shrunk = page.overwrite_item(OffsetNumber(relink.offset), &bytes);
    debug_assert!(
        !shrunk || page::tuple(page, relink.offset).is_some_and(|stub| stub.data().is_empty()),
        "a stub has no values"
    );
    shrunk
}

fn clear_xmax(page: &mut Page, offset: u16) -> bool {
    let Some(bytes) = page::header_mut(page, offset) else { return false };
    let Some(tuple) = Tuple::new(bytes.as_slice()) else { return false };
    let mut header = Header::of(tuple);
    header.xmax = 0;
    header.link = NO_LINK;
    header.flags &= !flags::OF_XMAX;
    *bytes = header.to_bytes();
    true
}

fn freeze_xmin(page: &mut Page, offset: u16) -> bool {
    let Some(bytes) = page::header_mut(page, offset) else { return false };
    let Some(place) = bytes.first_chunk_mut::<4>() else { return false };
    *place = (Xid::FROZEN.0 as u32).to_le_bytes();
    true
}

/// Sets the `mixed` flag of roots. Returns false if some line pointer is UNUSED.
pub(crate) fn set_mixed(page: &mut Page, roots: impl Iterator<Item = u16>, mixed: Mixed) -> bool {
    let mut fine = true;
    for root in roots {
        let number = OffsetNumber(root);
        let id = page.item_id(number);
        fine &= id.state() != ItemState::Unused && page.set_item_id(number, id.with_mixed(mixed));
    }
    fine
}
