//! Placement of a row's values: plain, compressed, or out of line.
//!
//! ```text
//! row of at most a quarter of a page    it stays as it is
//! larger    1. the largest value is compressed, if that saves anything; then the next
//!           2. the largest value goes out of line, compressed or not; then the next
//!           each only until the row is small
//! still larger                          the same with the columns that indexes have as they are
//! ```
//!
//! This follows PostgreSQL's strategy in spirit (`heaptoast.c`). Columns of indexes come last,
//! because comparing a value that is not plain costs a copy (rule `bytes-under-latch`). Without a
//! value heap, a row is compressed only if it does not fit a page. The outcome depends only on the
//! row and on the values that its old version keeps.

use std::borrow::Cow;
use std::cmp::Reverse;

use niwaki_env::SIMULATED;
use niwaki_heap::{MAX_TUPLE_SIZE, TUPLE_HEADER_SIZE};
use niwaki_storage::page::PAGE_SIZE;
use niwaki_types::{
    Apart, ColumnMask, ColumnType, Compression, Datum, IMAGE_MAX, TypeOid, ValuePointer,
    can_be_apart, compress, compressed_size_in_row, form_row, image, size_in_row,
};

use crate::error::{Error, Result};

/// The bytes, header included, down to which a row is made smaller.
const ROW_TARGET: usize = if SIMULATED { 160 } else { PAGE_SIZE / 4 };
/// The least bytes of an image that is compressed.
const COMPRESS_MIN: usize = 32;

const _: () = assert!(ROW_TARGET <= MAX_TUPLE_SIZE);
const _: () = assert!(MAX_TUPLE_SIZE < PAGE_SIZE);
// A row of one value can reach the target.
const _: () = assert!(TUPLE_HEADER_SIZE + ValuePointer::SIZE_IN_ROW < ROW_TARGET);
// The lengths of images are stored in 32 bits.
const _: () = assert!(IMAGE_MAX <= u32::MAX as usize);

/// The form of a value that is not plain in its row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PlacedValue<'r> {
    /// Compressed in the row.
    Compressed { compression: Compression, raw_length: u32, bytes: Vec<u8> },
    /// Out of line, with its pieces stored.
    OutOfLine(ValuePointer),
    /// Out of line, with these bytes still to be stored as pieces.
    ToWrite { compression: Compression, raw_length: u32, bytes: Cow<'r, [u8]> },
}

impl PlacedValue<'_> {
    /// Copies the form of a value from a stored row.
    pub(crate) fn of(apart: Apart<'_>) -> PlacedValue<'static> {
        match apart {
            Apart::Compressed { compression, raw_length, bytes } => {
                PlacedValue::Compressed { compression, raw_length, bytes: bytes.to_vec() }
            }
            Apart::OutOfLine(pointer) => PlacedValue::OutOfLine(pointer),
        }
    }

    /// Returns the form for the row; `None` while the pieces are not written.
    pub(crate) fn apart(&self) -> Option<Apart<'_>> {
        match self {
            Self::Compressed { compression, raw_length, bytes } => Some(Apart::Compressed {
                compression: *compression,
                raw_length: *raw_length,
                bytes,
            }),
            Self::OutOfLine(pointer) => Some(Apart::OutOfLine(*pointer)),
            Self::ToWrite { .. } => None,
        }
    }

    fn size_in_row(&self) -> usize {
        match self {
            Self::Compressed { bytes, .. } => compressed_size_in_row(bytes.len()),
            Self::OutOfLine(_) | Self::ToWrite { .. } => ValuePointer::SIZE_IN_ROW,
        }
    }
}

/// Returns the bytes, header included, that a row may have before its values are compressed or
/// moved.
pub(crate) fn row_target(has_value_heap: bool) -> usize {
    if has_value_heap { ROW_TARGET } else { MAX_TUPLE_SIZE }
}

/// Returns true when a row of a table with these columns can be so large that one of its values
/// goes out of line.
pub fn can_have_large_values(columns: impl Iterator<Item = ColumnType>) -> bool {
    let (mut longest, mut can_move) = (TUPLE_HEADER_SIZE, false);
    for column in columns {
        can_move |= can_be_apart(column.oid);
        let most = match column.oid.fixed_length() {
            Some(length) => length,
            None => longest_image(column).map_or(PAGE_SIZE, size_in_row),
        };
        longest = longest.saturating_add(most);
    }
    can_move && longest > ROW_TARGET
}

/// Returns the most bytes of the image of a variable-length value, if its type limits them.
fn longest_image(column: ColumnType) -> Option<usize> {
    /// Bytes of a character in UTF-8, at most.
    const CHARACTER: usize = 4;
    /// Bytes of a name, at most.
    const NAME: usize = 63;
    match column.oid {
        TypeOid::NAME => Some(NAME),
        TypeOid::CHAR => Some(CHARACTER),
        _ => column.length_limit().map(|characters| characters.saturating_mul(CHARACTER)),
    }
}

/// A row whose values are being placed.
pub(crate) struct Placement<'r> {
    columns: &'r [ColumnType],
    row: &'r [Datum],
    /// The decided form of each column's value; `None` for a plain value.
    placed: Vec<Option<PlacedValue<'r>>>,
    /// Bytes of the row in its current form, header included.
    size: usize,
    target: usize,
}

/// A value that could be compressed or moved out of line.
struct Candidate {
    column: usize,
    /// Bytes of the value in the row.
    size: usize,
}

impl<'r> Placement<'r> {
    /// Decides the form of each value of a row. `kept` holds, by column, the old version's form of
    /// each value that stays the same (or is empty). `indexed`: columns that indexes hold as they
    /// are.
    ///
    /// # Errors
    /// [`Error::ValueTooBig`]; [`Error::RowTooBig`] when the smallest form is still too big.
    pub(crate) fn decide(
        columns: &'r [ColumnType],
        row: &'r [Datum],
        mut kept: Vec<Option<PlacedValue<'r>>>,
        indexed: &ColumnMask,
        has_value_heap: bool,
    ) -> Result<Vec<Option<PlacedValue<'r>>>> {
        debug_assert_eq!(row.len(), columns.len(), "a row has a value for each column");
        debug_assert!(kept.len() <= columns.len(), "a value of no column is kept");
        debug_assert!(
            kept.iter().flatten().all(|placed| placed.apart().is_some()),
            "a kept value waits for its pieces",
        );
        kept.resize_with(columns.len(), || None);
        let target = row_target(has_value_heap);
        let mut placement = Self { columns, row, placed: kept, size: 0, target };
        placement.measure()?;
        let before = placement.size;
        for indexed_ones in [false, true] {
            let group = |column: &usize| indexed.contains(*column) == indexed_ones;
            placement.compress(&group);
            if has_value_heap {
                placement.move_out(&group);
            }
        }
        debug_assert!(placement.size <= before, "the placement made the row larger");
        debug_assert_eq!(placement.placed.len(), columns.len(), "a form for each column");
        debug_assert!(
            has_value_heap
                || !placement
                    .placed
                    .iter()
                    .flatten()
                    .any(|it| matches!(it, PlacedValue::ToWrite { .. })),
            "a value goes out of line, and there is no heap for it",
        );
        if placement.size > MAX_TUPLE_SIZE {
            return Err(Error::RowTooBig { size: placement.size, max: MAX_TUPLE_SIZE });
        }
        Ok(placement.placed)
    }

    /// Returns the image of a column's value, if the value can be compressed or moved.
    fn image(&self, column: usize) -> Option<Cow<'r, [u8]>> {
        let (oid, value) = (self.columns[column].oid, &self.row[column]);
        (can_be_apart(oid) && !value.is_null()).then(|| image(oid, value))
    }

    /// Adds up the bytes of the row.
    fn measure(&mut self) -> Result<()> {
        debug_assert_eq!(self.placed.len(), self.row.len(), "a form for each value");
        let nulls = self.row.iter().any(Datum::is_null);
        self.size = TUPLE_HEADER_SIZE + if nulls { self.row.len().div_ceil(8) } else { 0 };
        let mut bytes = Vec::new();
        for column in 0..self.columns.len() {
            self.size += match (&self.placed[column], self.image(column)) {
                (Some(placed), _) => placed.size_in_row(),
                (None, Some(image)) if image.len() > IMAGE_MAX => {
                    return Err(Error::ValueTooBig { size: image.len(), max: IMAGE_MAX });
                }
                (None, Some(image)) => size_in_row(image.len()),
                (None, None) if self.row[column].is_null() => 0,
                (None, None) => {
                    bytes.clear();
                    form_row(
                        &self.columns[column..=column],
                        &self.row[column..=column],
                        &mut bytes,
                    );
                    bytes.len()
                }
            };
        }
        Ok(())
    }

    /// Returns the columns of a group for which `size` gives a number, the largest first, then in
    /// their order.
    fn candidates(
        &self,
        group: &impl Fn(&usize) -> bool,
        size: impl Fn(usize) -> Option<usize>,
    ) -> Vec<Candidate> {
        let columns = (0..self.columns.len()).filter(group);
        let mut found: Vec<_> =
            columns.filter_map(|column| Some(Candidate { column, size: size(column)? })).collect();
        found.sort_by_key(|candidate| Reverse(candidate.size));
        found
    }

    fn compress(&mut self, group: &impl Fn(&usize) -> bool) {
        let candidates = self.candidates(group, |column| {
            let image = self.image(column).filter(|_| self.placed[column].is_none())?;
            (image.len() >= COMPRESS_MIN).then(|| size_in_row(image.len()))
        });
        for Candidate { column, size } in candidates {
            if self.size <= self.target {
                return;
            }
            let Some(image) = self.image(column) else { continue };
            let Some(bytes) = compress(&image) else { continue };
            let smaller = compressed_size_in_row(bytes.len());
            if smaller >= size {
                continue;
            }
            debug_assert!(size <= self.size, "a value of {size} bytes is no part of its row");
            self.size = self.size - size + smaller;
            let (compression, raw_length) = (Compression::Lz4, length_of(&image));
            self.placed[column] = Some(PlacedValue::Compressed { compression, raw_length, bytes });
        }
    }

    fn move_out(&mut self, group: &impl Fn(&usize) -> bool) {
        let candidates = self.candidates(group, |column| {
            let size = match &self.placed[column] {
                Some(PlacedValue::Compressed { bytes, .. }) => compressed_size_in_row(bytes.len()),
                Some(PlacedValue::OutOfLine(_) | PlacedValue::ToWrite { .. }) => return None,
                None => size_in_row(self.image(column)?.len()),
            };
            (size > ValuePointer::SIZE_IN_ROW).then_some(size)
        });
        for Candidate { column, size } in candidates {
            if self.size <= self.target {
                return;
            }
            let (compression, raw_length, bytes) = match self.placed[column].take() {
                Some(PlacedValue::Compressed { compression, raw_length, bytes }) => {
                    (compression, raw_length, Cow::Owned(bytes))
                }
                placed => {
                    let Some(image) = self.image(column) else {
                        self.placed[column] = placed;
                        continue;
                    };
                    (Compression::None, length_of(&image), image)
                }
            };
            debug_assert!(size <= self.size, "a value of {size} bytes is no part of its row");
            debug_assert!(!bytes.is_empty(), "a value without bytes goes out of line");
            self.size = self.size - size + ValuePointer::SIZE_IN_ROW;
            self.placed[column] = Some(PlacedValue::ToWrite { compression, raw_length, bytes });
        }
    }
}

/// Returns the length of an image, which was checked before.
fn length_of(image: &[u8]) -> u32 {
    u32::try_from(image.len()).expect("an image is shorter than 2^30 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns bytes that do not compress.
    fn noise(length: usize) -> Datum {
        let mut state = 0x2545_f491_4f6c_dd1du64;
        let bytes: Vec<u8> = (0..length)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                (state >> 32) as u8
            })
            .collect();
        Datum::Bytea(bytes.into())
    }

    /// Returns a row's decisions for byteas, by column: `-` plain, `c` compressed, `o` out of line.
    fn decided(row: &[Datum], indexed: &[usize], has_value_heap: bool) -> Result<String> {
        let columns = vec![ColumnType::new(TypeOid::BYTEA); row.len()];
        let indexed = indexed.iter().copied().collect();
        let placed = Placement::decide(&columns, row, Vec::new(), &indexed, has_value_heap)?;
        let letter = |placed: &Option<PlacedValue<'_>>| match placed {
            None => '-',
            Some(PlacedValue::Compressed { .. }) => 'c',
            Some(_) => 'o',
        };
        Ok(placed.iter().map(letter).collect())
    }

    #[test]
    fn the_largest_goes_first_and_only_as_far_as_needed() {
        let zeros = |length: usize| Datum::Bytea(vec![0; length].into());
        let few = ROW_TARGET / 8;
        assert_eq!(decided(&[noise(few), noise(few)], &[], true).unwrap(), "--");
        assert_eq!(decided(&[noise(few), noise(9000)], &[], true).unwrap(), "-o");
        assert_eq!(decided(&[noise(few), zeros(9000)], &[], true).unwrap(), "-c");
        let both = [noise(3 * ROW_TARGET / 4), noise(ROW_TARGET / 2)];
        assert_eq!(decided(&both, &[], true).unwrap(), "o-");
        // Compressed, and still large: the compressed form goes out of line.
        assert_eq!(decided(&[zeros(9_000_000)], &[], true).unwrap(), "o");
        // An indexed column's value stays as long as any other can go.
        assert_eq!(decided(&[noise(1900), noise(300), noise(300)], &[0], true).unwrap(), {
            if SIMULATED { "ooo" } else { "-oo" }
        });
        assert_eq!(decided(&[noise(3000), noise(300)], &[0], true).unwrap(), "oo");
        assert_eq!(decided(&[Datum::Null, noise(3000)], &[], true).unwrap(), "-o");
    }

    #[test]
    fn without_a_value_heap_only_what_does_not_fit_is_compressed() {
        let zeros = |length: usize| Datum::Bytea(vec![0; length].into());
        assert_eq!(decided(&[zeros(8000)], &[], false).unwrap(), "-");
        assert_eq!(decided(&[zeros(8000), zeros(500)], &[], false).unwrap(), "c-");
        let error = decided(&[noise(8200)], &[], false).unwrap_err();
        assert!(matches!(error, Error::RowTooBig { max: 8148, .. }), "{error}");
    }

    #[test]
    fn many_values_out_of_line_are_too_many() {
        let row: Vec<Datum> = (0..400).map(|_| noise(100)).collect();
        let error = decided(&row, &[], true).unwrap_err();
        let size = 24 + 400 * 25;
        assert!(matches!(error, Error::RowTooBig { size: s, .. } if s == size), "{error}");
    }

    #[test]
    fn tables_of_short_values_need_no_value_heap() {
        let limited = |oid, length: i32| ColumnType::with_typmod(oid, length + 4);
        let large = |columns: &[ColumnType]| can_have_large_values(columns.iter().copied());
        let int = ColumnType::new(TypeOid::INT4);
        assert!(!large(&[int; 600]), "nothing of it can go");
        assert!(!large(&[int, limited(TypeOid::VARCHAR, 8), ColumnType::new(TypeOid::NAME)]));
        assert!(large(&[int, limited(TypeOid::BPCHAR, 600)]));
        assert!(large(&[ColumnType::new(TypeOid::TEXT)]));
        assert!(large(&[ColumnType::new(TypeOid::NUMERIC)]));
        assert!(large(&[ColumnType::new(TypeOid::INT4_ARRAY)]));
    }

    #[test]
    fn what_is_kept_counts_as_what_it_is() {
        let columns = vec![ColumnType::new(TypeOid::BYTEA); 2];
        let row = [noise(9000), noise(ROW_TARGET / 2)];
        let pointer = ValuePointer {
            compression: Compression::None,
            raw_length: 9000,
            stored_length: 9000,
            xid: 9,
            block: 1,
            offset: 1,
        };
        let kept = vec![Some(PlacedValue::OutOfLine(pointer))];
        let none = ColumnMask::none();
        let placed = Placement::decide(&columns, &row, kept, &none, true).unwrap();
        assert_eq!(placed, [Some(PlacedValue::OutOfLine(pointer)), None]);
    }
}
