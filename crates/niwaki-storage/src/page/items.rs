//! Line pointers and tuples of a slotted page.
//!
//! Nothing here panics on hostile bytes: reads are bounds-checked, and changes refuse (`false`,
//! `None`) contents that do not fit.

use super::{HEADER_SIZE, ItemId, ItemState, PAGE_SIZE, Page};
use crate::ids::OffsetNumber;

/// Bytes of a line pointer.
pub const ITEM_ID_SIZE: usize = 4;
const _: () = assert!(size_of::<ItemId>() == ITEM_ID_SIZE);

/// Returns the byte offset of line pointer `number` (from 1).
#[inline]
fn slot(number: u16) -> usize {
    debug_assert!(number > 0, "line pointers are numbered from 1");
    HEADER_SIZE + (usize::from(number).wrapping_sub(1)) * ITEM_ID_SIZE
}

impl Page {
    /// Returns the number of line pointers, used or not; the valid offset numbers are
    /// `1..=item_count()`.
    #[inline]
    pub fn item_count(&self) -> u16 {
        (self.lower().saturating_sub(HEADER_SIZE as u16)) / ITEM_ID_SIZE as u16
    }

    /// Returns all line pointers in order; the first has offset number 1.
    #[inline]
    pub fn item_ids(&self) -> impl DoubleEndedIterator<Item = ItemId> + '_ {
        let end = HEADER_SIZE + usize::from(self.item_count()) * ITEM_ID_SIZE;
        let (slots, _) = self.0.get(HEADER_SIZE..end).unwrap_or(&[]).as_chunks::<ITEM_ID_SIZE>();
        slots.iter().map(|slot| ItemId(u32::from_le_bytes(*slot)))
    }

    /// Returns a line pointer; one that does not exist reads as UNUSED.
    #[inline]
    pub fn item_id(&self, number: OffsetNumber) -> ItemId {
        if number.0 == 0 || number.0 > self.item_count() {
            return ItemId::UNUSED;
        }
        let at = slot(number.0);
        match self.0.get(at..at + ITEM_ID_SIZE) {
            Some(b) => ItemId(u32::from_le_bytes([b[0], b[1], b[2], b[3]])),
            None => ItemId::UNUSED,
        }
    }

    /// Replaces a line pointer that exists; false when it does not.
    pub fn set_item_id(&mut self, number: OffsetNumber, id: ItemId) -> bool {
        if number.0 == 0 || number.0 > self.item_count() {
            return false;
        }
        let at = slot(number.0);
        let Some(b) = self.0.get_mut(at..at + ITEM_ID_SIZE) else { return false };
        b.copy_from_slice(&id.0.to_le_bytes());
        if id.state() == ItemState::Unused {
            self.set_has_unused(true);
        }
        true
    }

    /// Returns the tuple of a NORMAL line pointer, or of a DEAD one that still has its bytes.
    #[inline]
    pub fn item(&self, number: OffsetNumber) -> Option<&[u8]> {
        self.item_at(self.item_id(number))
    }

    /// Returns the tuple of a line pointer that the caller has already read from this page.
    #[inline]
    pub fn item_at(&self, id: ItemId) -> Option<&[u8]> {
        if !id.has_storage() {
            return None;
        }
        let at = usize::from(id.offset());
        self.0.get(at..at + usize::from(id.len()))
    }

    /// Returns the tuple, to change in place.
    #[inline]
    pub fn item_mut(&mut self, number: OffsetNumber) -> Option<&mut [u8]> {
        let id = self.item_id(number);
        if !id.has_storage() {
            return None;
        }
        let at = usize::from(id.offset());
        self.0.get_mut(at..at + usize::from(id.len()))
    }

    /// Returns whether the header's offsets are in order and inside the page. The pool lets no
    /// other page in, and no other page is changed.
    #[inline]
    fn offsets_fit(&self) -> bool {
        let (lower, upper, special) = (self.lower(), self.upper(), self.special_offset());
        lower >= HEADER_SIZE as u16
            && lower <= upper
            && upper <= special
            && special <= PAGE_SIZE as u16
    }

    /// Returns the number of bytes between line pointers and tuples.
    #[inline]
    pub fn free_bytes(&self) -> usize {
        if self.offsets_fit() { usize::from(self.upper() - self.lower()) } else { 0 }
    }

    /// Returns the length of the longest tuple that [`Page::add_item`] can place without
    /// compacting.
    #[inline]
    pub fn free_for_item(&self) -> usize {
        if self.has_unused() && self.first_unused().is_some() {
            self.free_bytes()
        } else {
            self.free_bytes().saturating_sub(ITEM_ID_SIZE)
        }
    }

    /// Returns the bytes of all stored tuples; `special_offset - lower - stored_bytes` is free
    /// after compacting.
    pub fn stored_bytes(&self) -> usize {
        // The compiler does not vectorise checked sums. This sum cannot overflow: each line pointer
        // of the page adds at most the largest value of its length field.
        self.item_ids().map(ItemId::stored_len).fold(0, u32::wrapping_add) as usize
    }

    /// Returns the bytes that would lie between line pointers and tuples after [`Page::compact`].
    pub fn free_bytes_compacted(&self) -> usize {
        usize::from(self.special_offset())
            .saturating_sub(usize::from(self.lower()))
            .saturating_sub(self.stored_bytes())
    }

    /// Returns the lowest UNUSED line pointer.
    pub fn first_unused(&self) -> Option<OffsetNumber> {
        let at = self.item_ids().position(|id| id.state() == ItemState::Unused)?;
        u16::try_from(at + 1).ok().map(OffsetNumber)
    }

    /// Takes `len` bytes off the free space; the caller has checked that there is enough. Returns
    /// their offset.
    fn take_space(&mut self, len: usize) -> u16 {
        debug_assert!(len > 0, "a tuple has bytes");
        debug_assert!(len <= self.free_bytes(), "{len} bytes of {} free ones", self.free_bytes());
        let at = self.upper() - len as u16;
        self.set_upper(at);
        at
    }

    /// Stores a tuple at the lowest UNUSED line pointer, or at a new one. `None` when it does not
    /// fit.
    pub fn add_item(&mut self, bytes: &[u8]) -> Option<OffsetNumber> {
        if self.has_unused() {
            match self.first_unused() {
                Some(number) => return self.add_item_at(number, bytes).then_some(number),
                None => self.set_has_unused(false),
            }
        }
        let number = OffsetNumber(self.item_count() + 1);
        self.add_item_at(number, bytes).then_some(number)
    }

    /// Stores a tuple at this line pointer, which must be UNUSED or the next new one. Returns
    /// false, with nothing changed, for any other line pointer, and for a tuple that is empty or
    /// does not fit.
    pub fn add_item_at(&mut self, number: OffsetNumber, bytes: &[u8]) -> bool {
        let count = self.item_count();
        let new = number.0 == count + 1;
        let room = self.free_bytes();
        if bytes.is_empty()
            || bytes.len() + if new { ITEM_ID_SIZE } else { 0 } > room
            || number.0 == 0
            || number.0 > count + 1
            || (!new && self.item_id(number).state() != ItemState::Unused)
        {
            return false;
        }
        if new {
            self.set_lower(self.lower() + ITEM_ID_SIZE as u16);
        }
        let at = self.take_space(bytes.len());
        self.0[usize::from(at)..usize::from(at) + bytes.len()].copy_from_slice(bytes);
        let is_set = self.set_item_id(number, ItemId::normal(at, bytes.len() as u16));
        debug_assert!(is_set, "line pointer {number} was UNUSED, or was just made");
        is_set
    }

    /// Makes room for a tuple of `len` bytes at this line pointer, which must be UNUSED or the next
    /// new one. Returns the place to be filled, or `None`, with nothing changed, where
    /// [`Page::add_item_at`] would refuse.
    pub fn reserve_item_at(&mut self, number: OffsetNumber, len: usize) -> Option<&mut [u8]> {
        let count = self.item_count();
        let new = number.0.checked_sub(1) == Some(count);
        let taken = !new && self.item_id(number).state() != ItemState::Unused;
        if len == 0
            || len + if new { ITEM_ID_SIZE } else { 0 } > self.free_bytes()
            || number.0 == 0
            || number.0 > count.saturating_add(1)
            || taken
        {
            return None;
        }
        if new {
            if self.has_unused() && self.first_unused().is_none() {
                self.set_has_unused(false);
            }
            self.set_lower(self.lower() + ITEM_ID_SIZE as u16);
        }
        let at = self.take_space(len);
        let is_set = self.set_item_id(number, ItemId::normal(at, len as u16));
        debug_assert!(is_set, "line pointer {number} was UNUSED, or was just made");
        self.0.get_mut(usize::from(at)..usize::from(at) + len)
    }

    /// Appends a tuple with a new line pointer, on a page that is being filled: no bytes move.
    /// Returns false, with nothing changed, when the tuple is empty or does not fit.
    #[inline]
    pub fn append_item(&mut self, bytes: &[u8]) -> bool {
        if bytes.is_empty() || self.free_bytes() < bytes.len() + ITEM_ID_SIZE {
            return false;
        }
        let (lower, upper) = (usize::from(self.lower()), usize::from(self.upper()));
        let at = upper - bytes.len();
        self.0[at..upper].copy_from_slice(bytes);
        let id = ItemId::normal(at as u16, bytes.len() as u16);
        self.0[lower..lower + ITEM_ID_SIZE].copy_from_slice(&id.0.to_le_bytes());
        self.set_lower((lower + ITEM_ID_SIZE) as u16);
        self.set_upper(at as u16);
        debug_assert!(self.offsets_fit(), "the tuple was put over the line pointers");
        true
    }

    /// Inserts a tuple at `number` (in `1..=item_count() + 1`) and moves the line pointers from
    /// there on up by one (nbtree). Compacts the page when that makes enough room. Returns false,
    /// with nothing visible changed, when the tuple does not fit.
    #[inline]
    pub fn insert_item(&mut self, number: OffsetNumber, bytes: &[u8]) -> bool {
        self.insert_items(number, &[bytes])
    }

    /// Inserts several tuples at consecutive line pointers, like [`Page::insert_item`].
    #[inline]
    pub fn insert_items(&mut self, number: OffsetNumber, tuples: &[&[u8]]) -> bool {
        let count = self.item_count();
        let bytes: usize = tuples.iter().map(|tuple| tuple.len() + ITEM_ID_SIZE).sum();
        if tuples.iter().any(|tuple| tuple.is_empty())
            || number.0 == 0
            || number.0 > count + 1
            || !self.make_free(bytes)
        {
            return false;
        }
        let from = slot(number.0);
        let end = usize::from(self.lower());
        let more = tuples.len() * ITEM_ID_SIZE;
        self.0.copy_within(from..end, from + more);
        self.set_lower((end + more) as u16);
        for (number, tuple) in (number.0..).map(OffsetNumber).zip(tuples) {
            let at = self.take_space(tuple.len());
            self.0[usize::from(at)..usize::from(at) + tuple.len()].copy_from_slice(tuple);
            self.set_item_id(number, ItemId::normal(at, tuple.len() as u16));
        }
        debug_assert_eq!(usize::from(self.item_count()), usize::from(count) + tuples.len());
        debug_assert!(tuples.is_empty() || self.offsets_fit(), "tuples over line pointers");
        true
    }

    /// Removes a line pointer and moves the later ones down by one (nbtree). The tuple's bytes
    /// become free at once if the tuple lies lowest on the page, else when the page is compacted.
    pub fn remove_item(&mut self, number: OffsetNumber) -> bool {
        if number.0 == 0 || number.0 > self.item_count() || !self.offsets_fit() {
            return false;
        }
        let id = self.item_id(number);
        if id.has_storage() && id.offset() == self.upper() {
            self.set_upper(self.upper() + id.len());
        }
        let from = slot(number.0);
        let end = usize::from(self.lower());
        debug_assert!(from + ITEM_ID_SIZE <= end, "line pointer {number} lies behind the last one");
        self.0.copy_within(from + ITEM_ID_SIZE..end, from);
        self.set_lower(self.lower() - ITEM_ID_SIZE as u16);
        true
    }

    /// Removes several line pointers, given in ascending order, and moves the rest together
    /// (nbtree).
    ///
    /// The bytes become free at once where the lowest tuples have the same lengths and take the
    /// freed places; else when the page is compacted. Returns false, with nothing changed, when a
    /// line pointer does not exist or the order is wrong.
    pub fn remove_items(&mut self, numbers: &[OffsetNumber]) -> bool {
        let count = self.item_count();
        if !self.offsets_fit()
            || numbers.iter().any(|n| n.0 == 0 || n.0 > count)
            || numbers.windows(2).any(|pair| pair[0] >= pair[1])
        {
            return false;
        }
        let lower = usize::from(self.lower());
        let ids = numbers.iter().map(|number| self.item_id(*number));
        let gaps: Vec<ItemId> = ids.filter(|id| id.has_storage()).collect();
        for (place, number) in numbers.iter().enumerate() {
            let from = slot(number.0 + 1);
            let end = numbers.get(place + 1).map_or(lower, |next| slot(next.0));
            debug_assert!(from <= end, "line pointers that go are in ascending order");
            self.0.copy_within(from..end, from - (place + 1) * ITEM_ID_SIZE);
        }
        let end = lower - numbers.len() * ITEM_ID_SIZE;
        self.0[end..lower].fill(0);
        self.set_lower(end as u16);
        self.fill_gaps(gaps);
        debug_assert_eq!(usize::from(self.item_count()), usize::from(count) - numbers.len());
        debug_assert!(self.offsets_fit(), "the header's offsets are out of order");
        true
    }

    /// Moves the lowest tuples into the places of removed ones of the same length, so that the free
    /// space is in one piece. Pages with tuples of equal length, as most index pages have, then
    /// need no compaction.
    fn fill_gaps(&mut self, mut gaps: Vec<ItemId>) {
        debug_assert!(gaps.iter().all(|gap| gap.has_storage()), "a gap without bytes");
        let (before, special) = (self.upper(), self.special_offset());
        let freed = gaps.iter().fold(0, |sum: u16, gap| sum.saturating_add(gap.len()));
        let end = before.saturating_add(freed).min(special);
        gaps.sort_unstable_by_key(|gap| gap.offset());
        let mut lowest = self.stored_below(end);
        lowest.sort_unstable_by_key(|(_, id)| id.offset());
        let mut lowest = lowest.into_iter().peekable();
        let (mut upper, mut first) = (before, 0);
        // Ends: each round removes one gap.
        while first < gaps.len() {
            let moved = lowest.next_if(|(_, id)| id.offset() == upper);
            let gap = match moved {
                None if gaps[first].offset() == upper => {
                    first += 1;
                    gaps[first - 1]
                }
                None => break,
                // The highest gap of the same length, so that the moved tuple does not block the
                // next one.
                Some((_, id)) => {
                    match (first..gaps.len()).rev().find(|at| gaps[*at].len() == id.len()) {
                        Some(at) => gaps.remove(at),
                        None => break,
                    }
                }
            };
            // The tuples overlap. The pool refuses such pages, as it refuses other damage.
            let next = lowest.peek().map_or(end, |(_, id)| id.offset());
            let above = upper + gap.len();
            let overlap = above > next || moved.is_some() && gap.offset() < above;
            if overlap || gap.offset() + gap.len() > special {
                break;
            }
            if let Some((number, id)) = moved {
                debug_assert_eq!(id.len(), gap.len(), "tuple {number} and its new place");
                let from = usize::from(upper);
                self.0.copy_within(from..from + usize::from(gap.len()), gap.offset().into());
                self.set_item_id(number, id.with_offset(gap.offset()));
            }
            upper = above;
        }
        debug_assert!(before <= upper, "the tuples took more room than before");
        debug_assert!(upper <= special, "the free space reaches into the special area");
        self.0[usize::from(before)..usize::from(upper)].fill(0);
        self.set_upper(upper);
    }

    /// Returns the tuples that begin before `end`, in the order of their line pointers.
    fn stored_below(&self, end: u16) -> Vec<(OffsetNumber, ItemId)> {
        /// Line pointers tested in one step, without a branch for each: usually no tuple matches.
        const AT_ONCE: usize = 8;
        let slots = self.0.get(HEADER_SIZE..usize::from(self.lower())).unwrap_or(&[]);
        let slots = slots.as_chunks::<ITEM_ID_SIZE>().0;
        let id = |slot: &[u8; ITEM_ID_SIZE]| ItemId(u32::from_le_bytes(*slot));
        let mut found = Vec::new();
        for (first, slots) in (1..).step_by(AT_ONCE).zip(slots.chunks(AT_ONCE)) {
            let none = slots.first_chunk::<AT_ONCE>().is_some_and(|slots| {
                !slots.iter().fold(false, |any, slot| any | (id(slot).offset() < end))
            });
            if !none {
                let numbered = (first..).map(OffsetNumber).zip(slots.iter().map(id));
                found.extend(numbered.filter(|(_, id)| id.offset() < end && id.has_storage()));
            }
        }
        found
    }

    /// Makes `bytes` available between line pointers and tuples, compacting the page when that
    /// helps. Returns whether there is enough room.
    fn make_free(&mut self, bytes: usize) -> bool {
        if self.free_bytes() < bytes && self.free_bytes_compacted() >= bytes {
            self.compact();
        }
        // Overlapping tuples leave less room even now. The pool refuses such pages.
        self.free_bytes() >= bytes
    }

    /// Returns whether [`Page::overwrite_item`] finds room for `len` bytes in place of a stored
    /// tuple.
    pub fn can_overwrite_item(&self, number: OffsetNumber, len: usize) -> bool {
        let id = self.item_id(number);
        let old = usize::from(id.len());
        let room = || self.free_bytes().max(self.free_bytes_compacted() + old);
        id.has_storage() && len > 0 && (len <= old || len <= room())
    }

    /// Replaces a stored tuple by other bytes; the state and flags of the line pointer stay. Longer
    /// bytes take new space, after compacting where that helps. Returns false, with nothing visible
    /// changed, when there is no such tuple or no room.
    pub fn overwrite_item(&mut self, number: OffsetNumber, bytes: &[u8]) -> bool {
        let id = self.item_id(number);
        let old = usize::from(id.len());
        if !id.has_storage() || bytes.is_empty() {
            return false;
        }
        if bytes.len() <= old {
            // The tail of the old place becomes free at the next compaction.
            let at = usize::from(id.offset());
            let Some(place) = self.0.get_mut(at..at + bytes.len()) else { return false };
            place.copy_from_slice(bytes);
            let is_set = self.set_item_id(number, id.with_len(bytes.len() as u16));
            debug_assert!(is_set, "line pointer {number} has a tuple");
            return is_set;
        }
        if self.free_bytes() < bytes.len() {
            if self.free_bytes_compacted() + old < bytes.len() {
                return false;
            }
            self.set_item_id(number, id.with_len(0));
            self.compact();
            if self.free_bytes() < bytes.len() {
                // The tuples overlap. The pool refuses such pages, as it refuses other damage.
                self.set_item_id(number, id);
                return false;
            }
        }
        let at = self.take_space(bytes.len());
        self.0[usize::from(at)..usize::from(at) + bytes.len()].copy_from_slice(bytes);
        let is_set = self.set_item_id(number, id.with_offset(at).with_len(bytes.len() as u16));
        debug_assert!(is_set, "line pointer {number} has a tuple");
        is_set
    }

    /// Inserts bytes into a stored tuple before its byte `at`; everything stored below that place
    /// moves down. Returns false, with nothing visible changed, when there is no such tuple or no
    /// room.
    pub fn grow_item(&mut self, number: OffsetNumber, at: usize, bytes: &[u8]) -> bool {
        let id = self.item_id(number);
        if !id.has_storage() || at > usize::from(id.len()) || !self.make_free(bytes.len()) {
            return false;
        }
        let id = self.item_id(number);
        let (start, len) = (usize::from(id.offset()), usize::from(id.len()));
        let upper = usize::from(self.upper());
        let grown = len + bytes.len();
        if upper > start || start + len > PAGE_SIZE {
            return false;
        }
        let by = bytes.len();
        debug_assert!(by <= upper, "{by} bytes more, below a tuple at {upper}");
        debug_assert!(grown <= PAGE_SIZE, "a tuple of {grown} bytes");
        self.0.copy_within(upper..start + at, upper - by);
        self.0[start + at - by..start + at].copy_from_slice(bytes);
        self.set_upper((upper - by) as u16);
        let slots_end = usize::from(self.lower());
        let slots = self.0.get_mut(HEADER_SIZE..slots_end).unwrap_or(&mut []);
        for slot in slots.as_chunks_mut::<ITEM_ID_SIZE>().0 {
            let moved = ItemId(u32::from_le_bytes(*slot));
            if moved.has_storage() && (upper..=start).contains(&usize::from(moved.offset())) {
                *slot = moved.with_offset(moved.offset() - by as u16).0.to_le_bytes();
            }
        }
        let id = self.item_id(number);
        self.set_item_id(number, id.with_len(grown as u16))
    }

    /// Makes a line pointer UNUSED; the bytes of its tuple become free at the next compaction.
    pub fn set_unused(&mut self, number: OffsetNumber) -> bool {
        self.set_item_id(number, ItemId::UNUSED)
    }

    /// Drops UNUSED line pointers at the end of the array, and returns their number.
    pub fn trim_unused(&mut self) -> u16 {
        let before = self.item_count();
        let mut count = before;
        while count > 0 && self.item_id(OffsetNumber(count)).state() == ItemState::Unused {
            count -= 1;
        }
        if count != before {
            self.set_lower(slot(count + 1) as u16);
        }
        before - count
    }

    /// Moves all stored tuples together at the end of the page, in the order of their line
    /// pointers. Clears the bytes between line pointers and tuples, so that equal contents give
    /// equal bytes.
    ///
    /// Changes nothing on a page whose tuples overlap. The pool refuses such damaged pages.
    pub fn compact(&mut self) {
        let lower = usize::from(self.lower());
        let special = usize::from(self.special_offset());
        if lower > special || special > self.0.len() || lower + self.stored_bytes() > special {
            return;
        }
        // The first tuples stay where they are as long as they already lie packed in the order of
        // their line pointers.
        let mut at = special;
        let mut first = 1;
        for id in self.item_ids() {
            if id.has_storage() {
                if usize::from(id.offset()) + usize::from(id.len()) != at {
                    break;
                }
                at = usize::from(id.offset());
            }
            first += 1;
        }
        let at = if self.lie_in_order(first, at) {
            self.close_gaps(first, at)
        } else {
            self.put_in_order(first, at)
        };
        debug_assert!(lower <= at, "tuples were moved over the line pointers");
        debug_assert!(at <= special, "tuples were moved into the special area");
        self.set_upper(at as u16);
        self.0[lower..at].fill(0);
    }

    /// Returns whether the tuples of line pointers from `first` on lie below `end`, each below the
    /// one before.
    fn lie_in_order(&self, first: u16, mut end: usize) -> bool {
        let mut ids = self.item_ids().skip(usize::from(first) - 1).filter(|id| id.has_storage());
        ids.all(|id| {
            let (from, len) = (usize::from(id.offset()), usize::from(id.len()));
            let below = from + len <= end;
            end = from;
            below
        })
    }

    /// Moves tuples that lie in order up to each other and to `at`; returns the offset of the
    /// lowest one.
    fn close_gaps(&mut self, first: u16, mut at: usize) -> usize {
        // Neighbours move together: `start..end` is their place, `by` the distance up.
        let (mut start, mut end, mut by) = (at, at, 0);
        for number in (first..=self.item_count()).map(OffsetNumber) {
            let id = self.item_id(number);
            if !id.has_storage() {
                continue;
            }
            let (from, len) = (usize::from(id.offset()), usize::from(id.len()));
            debug_assert!(from + len <= start, "tuple {number} is not below the one before");
            debug_assert!(from + len <= at, "tuple {number} moves down");
            if from + len != start {
                self.0.copy_within(start..end, start + by);
                (end, by) = (from + len, at - (from + len));
            }
            start = from;
            at -= len;
            let slot = slot(number.0);
            self.0[slot..slot + ITEM_ID_SIZE]
                .copy_from_slice(&id.with_offset(at as u16).0.to_le_bytes());
        }
        self.0.copy_within(start..end, start + by);
        at
    }

    /// Packs tuples that lie in any order up to `at`, like `close_gaps`; returns the offset of the
    /// lowest one.
    fn put_in_order(&mut self, first: u16, mut at: usize) -> usize {
        /// Bytes copied at once for a tuple up to this length; most index entries are shorter. A
        /// copy of constant length is faster than one of the exact length. The surplus bytes land
        /// below the tuple, where later tuples or zeros overwrite them.
        const SHORT: usize = 64;
        let old = self.0;
        let lower = usize::from(self.lower());
        let (head, tuples) = self.0.split_at_mut(lower);
        let slots = head.get_mut(slot(first)..).unwrap_or(&mut []);
        for slot in slots.as_chunks_mut::<ITEM_ID_SIZE>().0 {
            let id = ItemId(u32::from_le_bytes(*slot));
            let (from, len) = (usize::from(id.offset()), usize::from(id.len()));
            let Some(until) = old.get(..from + len).filter(|_| id.has_storage()) else { continue };
            let end = at - lower;
            at -= len;
            let with_more = until.last_chunk::<SHORT>().filter(|_| len <= SHORT);
            match (with_more, tuples[..end].last_chunk_mut::<SHORT>()) {
                (Some(bytes), Some(place)) => *place = *bytes,
                _ => tuples[end - len..end].copy_from_slice(&until[from..]),
            }
            *slot = id.with_offset(at as u16).0.to_le_bytes();
        }
        at
    }
}
