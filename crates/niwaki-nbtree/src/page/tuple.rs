//! The three kinds of tuple: leaf entry, pivot, posting list.
//!
//! ```text
//! leaf entry    0  TID block u32  4  TID offset u16  6  info u16  8  key  then INCLUDE payload
//! pivot         0  downlink u32   4  zero u16        6  info u16  8  key  then TID (6) if HAS_TID
//! posting list  0  TID count u16  2  zero u32        6  info u16  8  key  then TIDs (6 each)
//!
//! info: bit 0..12 key bytes   bit 12 HAS_TID   bit 13 POSTING   bit 14 PIVOT   bit 15 zero
//! ```
//!
//! A TID is its block as u32 and its offset as u16. The TIDs of a posting list are ascending, and
//! at least two. The list takes at most [`POSTING_MAX`] bytes and has no payload. In a high key the
//! downlink is 0. The first pivot of an inner page has no key and no TID: it is minus infinity,
//! whatever its bound is. Nothing is aligned.

use niwaki_env::invariant;
use niwaki_storage::page::Page;
use niwaki_storage::{BlockNumber, Tid};

use crate::page::layout::{IndexPage, LINE_POINTER, USABLE_BYTES, read_u16, read_u32};

/// Bytes before the key.
pub(crate) const TUPLE_HEADER: usize = 8;
/// Bytes of a stored TID.
pub(crate) const TID_SIZE: usize = 6;
/// Largest leaf entry, in bytes: a page has room for three of the pivots that the longest keys can
/// need, TIDs included.
pub(crate) const ENTRY_MAX: usize = 2704;
const _: () = assert!(3 * (ENTRY_MAX + TID_SIZE + LINE_POINTER) <= USABLE_BYTES);

/// Largest pivot, in bytes: the longest key, and a TID.
pub(crate) const PIVOT_MAX: usize = ENTRY_MAX + TID_SIZE;
/// Largest posting list, in bytes: half of the largest entry, so that a page has enough split
/// points.
pub(crate) const POSTING_MAX: usize = ENTRY_MAX / 2;
/// The most TIDs of a posting list; a place in a list fits a byte.
pub(crate) const POSTING_TIDS_MAX: usize = (POSTING_MAX - TUPLE_HEADER) / TID_SIZE;
const _: () = assert!(POSTING_TIDS_MAX <= u8::MAX as usize);
// The shortest list fits, and two of the longest lists are no more than one entry.
const _: () = assert!(POSTING_TIDS_MAX >= 2);
const _: () = assert!(2 * POSTING_MAX <= ENTRY_MAX);
// Leaf entries and pivots have a TID or a downlink with zeros in front of the info word.
const _: () = assert!(INFO_AT == TID_SIZE);
const _: () = assert!(INFO_AT + size_of::<u16>() == TUPLE_HEADER);
// The longest key has its length in the info word, beside all flags.
const _: () = assert!(ENTRY_MAX - TUPLE_HEADER <= info::KEY_LENGTH as usize);
const _: () = assert!((info::HAS_TID | info::POSTING | info::PIVOT).count_ones() == 3);
const _: () = assert!(info::KEY_LENGTH & (info::HAS_TID | info::POSTING | info::PIVOT) == 0);

/// Bits of the info word.
pub(crate) mod info {
    pub(crate) const KEY_LENGTH: u16 = 0x0fff;
    pub(crate) const HAS_TID: u16 = 0x1000;
    pub(crate) const POSTING: u16 = 0x2000;
    pub(crate) const PIVOT: u16 = 0x4000;
}

pub(crate) const INFO_AT: usize = 6;

/// Returns a TID as one number in the order of TIDs. 0 is below every TID that an index can store
/// (offsets begin at 1). So 0 stands for the truncated TID of a pivot: minus infinity.
#[inline]
pub(crate) fn tid_number(tid: Tid) -> u64 {
    (u64::from(tid.block.0) << 16) | u64::from(tid.offset.0)
}

#[inline]
pub(crate) fn read_tid(bytes: &[u8], at: usize) -> Tid {
    Tid::new(read_u32(bytes, at), read_u16(bytes, at + 4))
}

fn push_tid(out: &mut Vec<u8>, tid: Tid) {
    out.extend_from_slice(&tid_bytes(tid));
}

/// Returns the sort key of any tuple: its key, and its TID as a number. Lengths that do not fit are
/// clipped: a search on a damaged page goes astray, but not out of bounds.
#[inline]
pub(crate) fn sort_key(tuple: &[u8]) -> (&[u8], u64) {
    let Some((head, rest)) = tuple.split_first_chunk::<TUPLE_HEADER>() else { return (&[], 0) };
    let word = u64::from_le_bytes(*head);
    let info = (word >> 48) as u16;
    let key = rest.get(..usize::from(info & info::KEY_LENGTH)).unwrap_or(rest);
    let tid = if info & (info::PIVOT | info::POSTING) == 0 {
        // Block in the low 32 bits, offset in the next 16.
        ((word & 0xffff_ffff) << 16) | ((word >> 32) & 0xffff)
    } else if info & (info::HAS_TID | info::POSTING) != 0 {
        // A posting list sorts by its first TID, which lies where a pivot's lies.
        tid_number(read_tid(rest, key.len()))
    } else {
        0
    };
    (key, tid)
}

/// Appends a leaf entry. The caller has checked the lengths ([`ENTRY_MAX`]).
pub(crate) fn push_leaf(out: &mut Vec<u8>, key: &[u8], payload: &[u8], tid: Tid) {
    let at = out.len();
    out.resize(at + TUPLE_HEADER + key.len() + payload.len(), 0);
    put_leaf(&mut out[at..], key, payload, tid);
}

/// Writes a leaf entry to `out`, which has exactly the entry's length.
#[inline]
pub(crate) fn put_leaf(out: &mut [u8], key: &[u8], payload: &[u8], tid: Tid) {
    debug_assert!(TUPLE_HEADER + key.len() + payload.len() <= ENTRY_MAX);
    debug_assert_eq!(out.len(), TUPLE_HEADER + key.len() + payload.len(), "no byte is left over");
    let (head, rest) = out.split_at_mut(TUPLE_HEADER);
    head[..TID_SIZE].copy_from_slice(&tid_bytes(tid));
    head[TID_SIZE..].copy_from_slice(&(key.len() as u16).to_le_bytes());
    let (its_key, its_payload) = rest.split_at_mut(key.len());
    its_key.copy_from_slice(key);
    its_payload.copy_from_slice(payload);
}

/// Appends a pivot. `downlink` 0 makes a high key; no key and no TID make minus infinity.
pub(crate) fn push_pivot(out: &mut Vec<u8>, downlink: BlockNumber, key: &[u8], tid: Option<Tid>) {
    debug_assert!(key.len() <= ENTRY_MAX - TUPLE_HEADER);
    let begin = out.len();
    let has_tid = if tid.is_some() { info::HAS_TID } else { 0 };
    out.extend_from_slice(&downlink.0.to_le_bytes());
    out.extend_from_slice(&[0; 2]);
    out.extend_from_slice(&(key.len() as u16 | info::PIVOT | has_tid).to_le_bytes());
    out.extend_from_slice(key);
    if let Some(tid) = tid {
        push_tid(out, tid);
    }
    let size = pivot_size(key.len(), tid.is_some());
    debug_assert_eq!(out.len() - begin, size, "a pivot has the size that splits reckon with");
}

/// Returns the bytes of a pivot with this key length, with or without a TID.
#[inline]
pub(crate) fn pivot_size(key_len: usize, has_tid: bool) -> usize {
    TUPLE_HEADER + key_len + if has_tid { TID_SIZE } else { 0 }
}

/// Appends a posting list, or a plain entry if there is only one TID. The caller has checked the
/// lengths ([`POSTING_MAX`]); the TIDs are ascending.
pub(crate) fn push_posting(out: &mut Vec<u8>, key: &[u8], tids: &[[u8; TID_SIZE]]) {
    invariant!(B3, !tids.is_empty(), "a leaf item has a TID");
    let begin = out.len();
    if tids.len() > 1 {
        out.extend_from_slice(&(tids.len() as u16).to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&(key.len() as u16 | info::POSTING).to_le_bytes());
        out.extend_from_slice(key);
        out.extend_from_slice(tids.as_flattened());
    } else {
        out.extend_from_slice(tids.as_flattened());
        out.extend_from_slice(&(key.len() as u16).to_le_bytes());
        out.extend_from_slice(key);
    }
    let size = item_size(key.len(), tids.len());
    debug_assert_eq!(out.len() - begin, size, "a list has the size that plans reckon with");
}

/// Reads a TID from its stored form.
#[inline]
pub(crate) fn stored_tid([b0, b1, b2, b3, o0, o1]: &[u8; TID_SIZE]) -> Tid {
    Tid::new(u32::from_le_bytes([*b0, *b1, *b2, *b3]), u16::from_le_bytes([*o0, *o1]))
}

/// Returns the stored form of a TID.
pub(crate) fn tid_bytes(tid: Tid) -> [u8; TID_SIZE] {
    let (b, o) = (tid.block.0.to_le_bytes(), tid.offset.0.to_le_bytes());
    [b[0], b[1], b[2], b[3], o[0], o[1]]
}

/// Returns the bytes of a leaf item with this key length and this number of TIDs, without payload.
#[inline]
pub(crate) fn item_size(key_len: usize, tids: usize) -> usize {
    debug_assert!(tids > 0, "a leaf item has a TID");
    TUPLE_HEADER + key_len + if tids > 1 { tids * TID_SIZE } else { 0 }
}

/// Returns the TID count in a posting list's header; 0 for any other tuple.
#[inline]
pub(crate) fn posting_tids(tuple: &[u8]) -> u16 {
    let Some(head) = tuple.first_chunk::<TUPLE_HEADER>() else { return 0 };
    let info = u16::from_le_bytes([head[INFO_AT], head[INFO_AT + 1]]);
    if info & info::POSTING == 0 { 0 } else { read_u16(head, 0) }
}

/// The TIDs of a leaf item in their stored form: ascending, at least one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tids<'a>(&'a [[u8; TID_SIZE]]);

impl<'a> Tids<'a> {
    #[inline]
    pub(crate) fn len(self) -> usize {
        self.0.len()
    }

    /// Returns the stored bytes.
    #[inline]
    pub(crate) fn raw(self) -> &'a [[u8; TID_SIZE]] {
        self.0
    }

    #[inline]
    pub(crate) fn get(self, place: usize) -> Option<Tid> {
        self.0.get(place).map(stored_tid)
    }

    #[inline]
    pub(crate) fn first(self) -> Tid {
        invariant!(B3, !self.0.is_empty(), "no leaf item is decoded without a TID");
        self.get(0).unwrap_or(Tid::MIN)
    }

    #[inline]
    pub(crate) fn last(self) -> Tid {
        invariant!(B3, !self.0.is_empty(), "no leaf item is decoded without a TID");
        self.0.last().map_or(Tid::MIN, stored_tid)
    }

    #[inline]
    pub(crate) fn iter(self) -> impl DoubleEndedIterator<Item = Tid> + ExactSizeIterator + 'a {
        self.0.iter().map(stored_tid)
    }

    /// Finds the place of this TID, or the place where it would go.
    pub(crate) fn search(self, tid: Tid) -> Result<usize, usize> {
        self.0.binary_search_by_key(&tid, stored_tid)
    }

    /// Checks B3: the TIDs ascend.
    pub(crate) fn ascend(self) -> bool {
        self.iter().is_sorted_by(|a, b| a < b)
    }
}

impl std::fmt::Debug for Tids<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// A well-formed leaf item: one key with one TID (a plain entry), or with several TIDs (a posting
/// list, which stands for as many entries).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeafTuple<'a> {
    pub(crate) key: &'a [u8],
    /// Empty in a posting list.
    pub(crate) payload: &'a [u8],
    pub(crate) tids: Tids<'a>,
}

impl<'a> LeafTuple<'a> {
    /// Decodes a leaf item; `None` if the bytes are no leaf item. The function does not verify that
    /// the TIDs of a posting list ascend: a search in a damaged list goes astray, but not out of
    /// bounds.
    #[inline]
    pub(crate) fn decode(tuple: &'a [u8]) -> Option<Self> {
        let (head, _) = tuple.split_first_chunk::<TUPLE_HEADER>()?;
        let info = u16::from_le_bytes([head[INFO_AT], head[INFO_AT + 1]]);
        let end = TUPLE_HEADER + usize::from(info & info::KEY_LENGTH);
        let (key, rest) = (tuple.get(TUPLE_HEADER..end)?, tuple.get(end..)?);
        match info & !info::KEY_LENGTH {
            0 => {
                let tids = Tids(tuple[..TID_SIZE].as_chunks().0);
                debug_assert_eq!(tids.len(), 1, "the header of a plain entry has one TID");
                Some(Self { key, payload: rest, tids })
            }
            info::POSTING => {
                let (tids, left_over) = rest.as_chunks::<TID_SIZE>();
                let fits = tids.len() == usize::from(read_u16(tuple, 0))
                    && (2..=POSTING_TIDS_MAX).contains(&tids.len())
                    && left_over.is_empty()
                    && read_u32(tuple, 2) == 0;
                fits.then_some(Self { key, payload: &[], tids: Tids(tids) })
            }
            _ => None,
        }
    }

    #[inline]
    pub(crate) fn is_posting(&self) -> bool {
        debug_assert!(
            self.tids.len() == 1 || self.payload.is_empty(),
            "a posting list has no payload"
        );
        self.tids.len() > 1
    }
}

/// A well-formed pivot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PivotTuple<'a> {
    pub(crate) downlink: BlockNumber,
    pub(crate) key: &'a [u8],
    pub(crate) tid: Option<Tid>,
}

impl<'a> PivotTuple<'a> {
    /// Decodes a pivot; `None` if the bytes are no pivot.
    #[inline]
    pub(crate) fn decode(tuple: &'a [u8]) -> Option<Self> {
        if tuple.len() < TUPLE_HEADER || read_u16(tuple, 4) != 0 {
            return None;
        }
        let info = read_u16(tuple, INFO_AT);
        if info & !(info::KEY_LENGTH | info::HAS_TID) != info::PIVOT {
            return None;
        }
        let end = TUPLE_HEADER + usize::from(info & info::KEY_LENGTH);
        let key = tuple.get(TUPLE_HEADER..end)?;
        let has_tid = info & info::HAS_TID != 0;
        if tuple.len() != pivot_size(key.len(), has_tid) {
            return None;
        }
        let tid = has_tid.then(|| read_tid(tuple, end));
        Some(Self { downlink: BlockNumber(read_u32(tuple, 0)), key, tid })
    }

    /// Decides whether this is the first pivot of an inner page.
    pub(crate) fn is_minus_infinity(&self) -> bool {
        self.key.is_empty() && self.tid.is_none()
    }
}

/// Returns the bytes of a posting list with these TIDs.
#[cfg(any(test, feature = "hostile"))]
pub(crate) fn posting_bytes(key: &[u8], tids: &[Tid]) -> Vec<u8> {
    let raw: Vec<_> = tids.iter().map(|&tid| tid_bytes(tid)).collect();
    let mut out = Vec::new();
    push_posting(&mut out, key, &raw);
    out
}

/// Returns the number of entries of a leaf; each TID of a posting list counts.
pub(crate) fn tids_on(leaf: &Page) -> usize {
    let items = (leaf.first_entry()..=leaf.item_count()).map(|offset| leaf.tuple(offset));
    items.filter_map(LeafTuple::decode).map(|item| item.tids.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_read_as_itself_only() {
        let mut leaf = Vec::new();
        push_leaf(&mut leaf, b"key", b"include", Tid::new(7, 9));
        let mut pivot = Vec::new();
        push_pivot(&mut pivot, BlockNumber(5), b"ke", Some(Tid::new(7, 9)));
        let mut cut = Vec::new();
        push_pivot(&mut cut, BlockNumber(5), b"ke", None);
        let posting = posting_bytes(b"key", &[Tid::new(1, 1), Tid::new(1, 2), Tid::new(2, 1)]);

        let decoded = LeafTuple::decode(&leaf).unwrap();
        assert_eq!((decoded.key, decoded.payload), (&b"key"[..], &b"include"[..]));
        assert_eq!(decoded.tids.iter().collect::<Vec<_>>(), [Tid::new(7, 9)]);
        assert_eq!(
            PivotTuple::decode(&pivot),
            Some(PivotTuple { downlink: BlockNumber(5), key: b"ke", tid: Some(Tid::new(7, 9)) })
        );
        assert_eq!(PivotTuple::decode(&cut).unwrap().tid, None);
        let list = LeafTuple::decode(&posting).unwrap();
        assert_eq!((list.key, list.payload, list.tids.len()), (&b"key"[..], &b""[..], 3));
        assert_eq!((list.tids.first(), list.tids.last()), (Tid::new(1, 1), Tid::new(2, 1)));
        assert_eq!(list.tids.search(Tid::new(1, 2)), Ok(1));
        assert_eq!(list.tids.search(Tid::new(1, 3)), Err(2));
        assert!(LeafTuple::decode(&pivot).is_none() && list.is_posting() && !decoded.is_posting());
        assert!(PivotTuple::decode(&leaf).is_none() && PivotTuple::decode(&posting).is_none());
    }

    #[test]
    fn sort_keys_follow_the_kind() {
        let mut leaf = Vec::new();
        push_leaf(&mut leaf, b"k", b"p", Tid::new(3, 4));
        assert_eq!(sort_key(&leaf), (&b"k"[..], tid_number(Tid::new(3, 4))));
        let mut pivot = Vec::new();
        push_pivot(&mut pivot, BlockNumber(1), b"k", Some(Tid::new(3, 4)));
        assert_eq!(sort_key(&pivot), (&b"k"[..], tid_number(Tid::new(3, 4))));
        let mut cut = Vec::new();
        push_pivot(&mut cut, BlockNumber(1), b"k", None);
        assert_eq!(sort_key(&cut), (&b"k"[..], 0));
        let posting = posting_bytes(b"k", &[Tid::new(1, 1), Tid::new(1, 2)]);
        assert_eq!(sort_key(&posting), (&b"k"[..], tid_number(Tid::new(1, 1))));
    }

    /// B3: reading a broken posting list, or the check, detects the damage.
    #[test]
    fn a_broken_posting_list_is_refused() {
        let sound = posting_bytes(b"k", &[Tid::new(1, 1), Tid::new(1, 2)]);
        assert!(LeafTuple::decode(&sound).unwrap().tids.ascend());
        for tids in [[Tid::new(1, 2), Tid::new(1, 1)], [Tid::new(1, 1); 2]] {
            assert!(!LeafTuple::decode(&posting_bytes(b"k", &tids)).unwrap().tids.ascend());
        }
        for (at, value) in [(0, 1), (0, 3), (2, 1), (6, 2)] {
            let mut bytes = sound.clone();
            bytes[at] = value;
            assert!(LeafTuple::decode(&bytes).is_none(), "byte {at}");
        }
        let longest: Vec<Tid> = (0..=POSTING_TIDS_MAX as u32).map(|n| Tid::new(n, 1)).collect();
        assert!(LeafTuple::decode(&posting_bytes(b"", &longest)).is_none());
        let longest = posting_bytes(b"", &longest[1..]);
        assert!(LeafTuple::decode(&longest).is_some() && longest.len() <= POSTING_MAX);
    }

    #[test]
    fn a_list_of_one_is_a_plain_entry() {
        let mut plain = Vec::new();
        push_leaf(&mut plain, b"key", b"", Tid::new(3, 4));
        assert_eq!(posting_bytes(b"key", &[Tid::new(3, 4)]), plain);
        assert_eq!(item_size(3, 1), plain.len());
        assert_eq!(item_size(3, 2), posting_bytes(b"key", &[Tid::MIN, Tid::new(3, 4)]).len());
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..40)) {
            let _ = (LeafTuple::decode(&bytes), PivotTuple::decode(&bytes));
            let _ = sort_key(&bytes);
        }
    }
}
