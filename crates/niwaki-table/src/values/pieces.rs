//! Pieces (TOAST chunks): the bytes of an out-of-line value, as a list of rows in the value heap.
//!
//! ```text
//! piece   0  xid u64      transaction that stored the value
//!         8  rest u32     bytes of the value from this piece on
//!        12  block u32    address of the next piece; 2^32 - 1 and 0 in the last one
//!        16  offset u16
//!        18  the bytes
//! ```
//!
//! A value is written from its last piece to its first, so that each piece can hold the address of
//! the next one. The address of the first piece and the transaction together name one value for
//! ever. A line pointer is used again only after the transaction that stored its row has ended, and
//! no transaction comes back. Every piece holds the transaction and the number of remaining bytes.
//! So a reader that follows an old pointer notices that it has reached another value.
#![deny(clippy::indexing_slicing)]

use niwaki_env::{SIMULATED, invariant};
use niwaki_heap::{EndedRows, Heap, InsertOptions, MAX_TUPLE_SIZE, TUPLE_HEADER_SIZE};
use niwaki_storage::{BlockNumber, OffsetNumber, Tid, Xid};
use niwaki_txn::{Error as TxnError, Horizon, Transaction};
use niwaki_types::{Compression, IMAGE_MAX, ValuePointer};

use crate::error::Result;

/// Bytes of a piece before its share of the value.
const HEAD: usize = 18;
/// The largest row of a piece: the most free space that the map can record for an empty page.
const ROW_MAX: usize = 8128;
/// The most bytes of a value in one piece.
const PIECE_MAX: usize = if SIMULATED { 64 } else { ROW_MAX - TUPLE_HEADER_SIZE - HEAD };

/// The most pieces in one list of ended pieces. A list that finds no room in the queue is left to
/// vacuum.
const LIST_MAX: usize = 1024;

const _: () = assert!(HEAD == size_of::<u64>() + 2 * size_of::<u32>() + size_of::<u16>());
const _: () = assert!(ROW_MAX <= MAX_TUPLE_SIZE);
const _: () = assert!(PIECE_MAX > 0);
const _: () = assert!(TUPLE_HEADER_SIZE + HEAD + PIECE_MAX <= ROW_MAX);

/// The address that the last piece gives as the next one.
const NO_PIECE: Tid = Tid { block: BlockNumber::INVALID, offset: OffsetNumber(0) };

/// One decoded piece.
struct Piece<'p> {
    xid: u64,
    rest: u32,
    next: Tid,
    bytes: &'p [u8],
}

impl<'p> Piece<'p> {
    /// Decodes a row. Returns `None` when the row is no piece.
    fn read(row: &'p [u8]) -> Option<Self> {
        let (xid, row) = row.split_first_chunk()?;
        let (rest, row) = row.split_first_chunk()?;
        let (block, row) = row.split_first_chunk()?;
        let (offset, bytes) = row.split_first_chunk()?;
        let next = Tid {
            block: BlockNumber(u32::from_le_bytes(*block)),
            offset: OffsetNumber(u16::from_le_bytes(*offset)),
        };
        let (xid, rest) = (u64::from_le_bytes(*xid), u32::from_le_bytes(*rest));
        // Every piece has bytes, and the last piece has the last bytes.
        let length = u32::try_from(bytes.len()).ok()?;
        let fits = length > 0 && length <= rest && (length == rest) == (next == NO_PIECE);
        fits.then_some(Self { xid, rest, next, bytes })
    }
}

/// Writes the row of a piece into `out`, replacing its contents.
pub(crate) fn write_piece(xid: Xid, rest: u32, next: Tid, bytes: &[u8], out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(&xid.0.to_le_bytes());
    out.extend_from_slice(&rest.to_le_bytes());
    out.extend_from_slice(&next.block.0.to_le_bytes());
    out.extend_from_slice(&next.offset.0.to_le_bytes());
    out.extend_from_slice(bytes);
}

/// Returns the address of a value's first piece.
pub(crate) fn first_piece(pointer: &ValuePointer) -> Tid {
    Tid::new(pointer.block, pointer.offset)
}

/// A walk along the pieces of a value. The caller passes each piece's row.
struct Walk {
    xid: u64,
    at: Tid,
    rest: u32,
}

impl Walk {
    fn new(pointer: &ValuePointer) -> Self {
        Self { xid: pointer.xid, at: first_piece(pointer), rest: pointer.stored_length }
    }

    /// Advances if this row is the piece at the walk's position, and returns the piece's bytes. The
    /// walk ends, because each piece leaves fewer bytes to the next ones.
    fn step<'p>(&mut self, row: &'p [u8]) -> Option<&'p [u8]> {
        let piece = Piece::read(row)?;
        if piece.xid != self.xid || piece.rest != self.rest {
            return None;
        }
        self.at = piece.next;
        self.rest = self.rest.checked_sub(u32::try_from(piece.bytes.len()).ok()?)?;
        debug_assert!(self.rest < piece.rest, "a piece without bytes was accepted");
        debug_assert_eq!(self.is_over(), self.at == NO_PIECE, "the last piece leads nowhere");
        Some(piece.bytes)
    }

    fn is_over(&self) -> bool {
        self.rest == 0
    }
}

/// Stores a value, and returns its pointer. `of_key`: an index has a key made of the value.
///
/// # Errors
/// Storage's; the session's interrupts; a read-only transaction's. Pieces stored until then belong
/// to the transaction, and go with it.
pub(crate) fn store(
    heap: Heap<'_>,
    tx: &Transaction,
    of_key: bool,
    (compression, raw_length): (Compression, u32),
    bytes: &[u8],
    options: InsertOptions,
) -> Result<ValuePointer> {
    debug_assert!(!bytes.is_empty(), "a value out of line has bytes");
    debug_assert!(bytes.len() <= IMAGE_MAX, "a value of {} bytes is too long", bytes.len());
    let xid = tx.write_xid()?;
    debug_assert!(xid.is_normal(), "transaction {xid} names no value for ever");
    let (mut next, mut rest) = (NO_PIECE, 0u32);
    let mut row = Vec::new();
    for piece in bytes.chunks(PIECE_MAX).rev() {
        tx.session().check_interrupts().map_err(TxnError::from)?;
        rest += piece.len() as u32;
        write_piece(xid, rest, next, piece, &mut row);
        debug_assert!(Piece::read(&row).is_some(), "a written piece does not read back");
        debug_assert!(is_of(&row, xid), "a piece is not of the transaction that stores it");
        next = heap.insert_piece(tx, &row, of_key, options)?;
        debug_assert_ne!(next, NO_PIECE, "a stored piece has the address of no piece");
    }
    invariant!(H3, rest as usize == bytes.len(), "{rest} of {} bytes are stored", bytes.len());
    let (block, offset) = (next.block.0, next.offset.0);
    Ok(ValuePointer { compression, raw_length, stored_length: rest, xid: xid.0, block, offset })
}

/// The position at which a walk along a value found no matching piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lost {
    /// The expected address of the piece.
    pub(crate) at: Tid,
    /// Bytes of the value from there on.
    pub(crate) rest: u32,
}

/// The result of a walk along a value, if all of its pieces exist.
pub(crate) type Walked<T> = std::result::Result<T, Lost>;

/// Returns the stored bytes of a value, if all of its pieces exist.
///
/// # Errors
/// Storage's.
pub(crate) fn read(heap: Heap<'_>, pointer: &ValuePointer) -> Result<Walked<Vec<u8>>> {
    let mut walk = Walk::new(pointer);
    // Grows with the bytes that really exist: a damaged length allocates no memory.
    let mut bytes = Vec::new();
    while !walk.is_over() {
        let (at, rest) = (walk.at, walk.rest);
        let found =
            heap.read_piece(at, |row| walk.step(row).map(|piece| bytes.extend_from_slice(piece)))?;
        if found.flatten().is_none() {
            return Ok(Err(Lost { at, rest }));
        }
        debug_assert!(walk.rest < rest, "a walk along a value does not get on");
    }
    invariant!(
        H3,
        bytes.len() == pointer.stored_length as usize,
        "{} bytes are the whole value of {} bytes",
        bytes.len(),
        pointer.stored_length,
    );
    Ok(Ok(bytes))
}

/// Ends every piece of a value, for `tx`. With `reported`, the value heap learns that their space
/// will be free. Otherwise this waits until the version that names them is pruned.
///
/// # Errors
/// Storage's; the session's interrupts; a read-only transaction's.
pub(crate) fn end(
    heap: Heap<'_>,
    tx: &Transaction,
    pointer: &ValuePointer,
    reported: bool,
) -> Result<Walked<()>> {
    let mut walk = Walk::new(pointer);
    let mut rows = Vec::new();
    while !walk.is_over() {
        tx.session().check_interrupts().map_err(TxnError::from)?;
        let (at, rest) = (walk.at, walk.rest);
        if heap.end_piece(tx, at, |row| walk.step(row).map(drop))?.is_none() {
            return Ok(Err(Lost { at, rest }));
        }
        debug_assert!(walk.rest < rest, "a walk along a value does not get on");
        rows.push(at);
    }
    if reported {
        note_ended(heap, Xid(pointer.xid), &rows);
    }
    Ok(Ok(()))
}

/// Returns the addresses of the pieces of a value that still exist, in their order, up to the first
/// missing one.
///
/// # Errors
/// Storage's.
pub(crate) fn left(heap: Heap<'_>, pointer: &ValuePointer) -> Result<Vec<Tid>> {
    let mut walk = Walk::new(pointer);
    let mut rows = Vec::new();
    while !walk.is_over() {
        let (at, rest) = (walk.at, walk.rest);
        let found = heap.read_piece(at, |row| walk.step(row).map(drop))?;
        if found.flatten().is_none() {
            break;
        }
        debug_assert!(walk.rest < rest, "a walk along a value does not get on");
        rows.push(at);
    }
    Ok(rows)
}

/// Returns the addresses of all pieces of a value, if all exist.
///
/// # Errors
/// Storage's.
pub(crate) fn addresses(heap: Heap<'_>, pointer: &ValuePointer) -> Result<Walked<Vec<Tid>>> {
    let mut walk = Walk::new(pointer);
    let mut addresses = Vec::new();
    while !walk.is_over() {
        let (at, rest) = (walk.at, walk.rest);
        let found = heap.read_piece(at, |row| walk.step(row).map(drop))?;
        if found.flatten().is_none() {
            return Ok(Err(Lost { at, rest }));
        }
        debug_assert!(walk.rest < rest, "a walk along a value does not get on");
        addresses.push(at);
    }
    debug_assert_eq!(addresses.is_empty(), pointer.stored_length == 0, "pieces of a whole value");
    Ok(Ok(addresses))
}

/// Notes that these pieces, which one transaction stored, will go.
pub(crate) fn note_ended(heap: Heap<'_>, inserter: Xid, rows: &[Tid]) {
    for rows in rows.chunks(LIST_MAX) {
        debug_assert!(!rows.contains(&NO_PIECE), "the address of no piece is in a list");
        heap.note_ended(EndedRows { inserter, rows: rows.to_vec() });
    }
}

/// Prunes the blocks of these pieces by this horizon. Pieces that keys are made of go, too. Returns
/// false when a block was in use, so that some pieces may be left.
///
/// # Errors
/// Storage's.
pub(crate) fn take_away(heap: Heap<'_>, rows: &[Tid], horizon: &Horizon) -> Result<bool> {
    let mut all = true;
    for same in rows.chunk_by(|a, b| a.block == b.block) {
        let Some(first) = same.first() else { continue };
        debug_assert!(
            same.iter().all(|row| row.offset != OffsetNumber::INVALID),
            "no line pointer"
        );
        let named: Vec<u16> = same.iter().map(|row| row.offset.0).collect();
        all &= heap.prune_pieces(first.block.0, &named, horizon)?;
    }
    Ok(all)
}

/// Returns true when a row is a piece that this transaction stored.
pub(crate) fn is_of(row: &[u8], inserter: Xid) -> bool {
    Piece::read(row).is_some_and(|piece| piece.xid == inserter.0)
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, reason = "a test that panics has failed, as it should")]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_piece_is_not_read() {
        let mut row = Vec::new();
        write_piece(Xid(9), 3, NO_PIECE, b"abc", &mut row);
        assert_eq!(row.len(), HEAD + 3);
        let piece = Piece::read(&row).expect("a piece");
        assert_eq!((piece.xid, piece.rest, piece.next, piece.bytes), (9, 3, NO_PIECE, &b"abc"[..]));
        (0..row.len()).for_each(|length| assert!(Piece::read(&row[..length]).is_none()));
        write_piece(Xid(9), 4, NO_PIECE, b"abc", &mut row);
        assert!(Piece::read(&row).is_none(), "more is to come, from nowhere");
        write_piece(Xid(9), 3, Tid::new(1, 1), b"abc", &mut row);
        assert!(Piece::read(&row).is_none(), "nothing is to come, from somewhere");
        write_piece(Xid(9), 2, NO_PIECE, b"abc", &mut row);
        assert!(Piece::read(&row).is_none(), "more than there is");
    }
}
