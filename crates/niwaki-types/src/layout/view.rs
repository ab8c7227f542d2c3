//! Lazy reading of values in a stored row: only as far as they are asked for.

use super::apart::{Apart, decompress, value_of_image};
use super::value::{Cursor, ended};
use crate::error::{Result, TypeError};
use crate::key::{encode_key, encode_text_key, strip_key, strip_text_key};
use crate::types::column::ColumnType;
use crate::value::datum::Datum;
use crate::value::key_order::KeyOrder;
use crate::vector::Vector;

/// A set of columns, by position. The first 64 need no allocation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ColumnMask {
    first: u64,
    /// The columns behind the first 64; the last word is not zero.
    rest: Vec<u64>,
    /// One more than the last column in the set.
    end: usize,
}

impl ColumnMask {
    /// Returns the empty set.
    pub const fn none() -> Self {
        Self { first: 0, rest: Vec::new(), end: 0 }
    }

    /// Returns the first `count` columns.
    pub fn all(count: usize) -> Self {
        (0..count).collect()
    }

    /// Adds `column`.
    pub fn insert(&mut self, column: usize) {
        let bit = 1 << (column % 64);
        match (column / 64).checked_sub(1) {
            None => self.first |= bit,
            Some(word) => {
                if self.rest.len() <= word {
                    self.rest.resize(word.saturating_add(1), 0);
                }
                if let Some(word) = self.rest.get_mut(word) {
                    *word |= bit;
                }
            }
        }
        self.end = self.end.max(column.saturating_add(1));
    }

    /// Decides whether `column` is in the set.
    #[inline]
    pub fn contains(&self, column: usize) -> bool {
        let word = match (column / 64).checked_sub(1) {
            None => self.first,
            Some(word) => self.rest.get(word).copied().unwrap_or(0),
        };
        word >> (column % 64) & 1 == 1
    }

    /// Decides whether some column is in both sets.
    #[inline]
    pub fn meets(&self, other: &Self) -> bool {
        let behind = || self.rest.iter().zip(&other.rest).any(|(one, other)| one & other != 0);
        self.first & other.first != 0 || behind()
    }

    /// Returns one more than the last column of the set: columns from here on need no look.
    #[inline]
    pub fn end(&self) -> usize {
        self.end
    }

    /// Decides whether the set has no column.
    pub fn is_empty(&self) -> bool {
        self.end == 0
    }

    /// Returns the columns of the set, in order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.end).filter(|column| self.contains(*column))
    }
}

impl FromIterator<usize> for ColumnMask {
    fn from_iter<I: IntoIterator<Item = usize>>(columns: I) -> Self {
        let mut mask = Self::none();
        columns.into_iter().for_each(|column| mask.insert(column));
        mask
    }
}

/// The content of a row's column.
#[derive(Clone, Debug)]
pub enum Field<'a> {
    /// The value.
    Value(Datum),
    /// A compressed or out-of-line value.
    Apart(Apart<'a>),
}

/// The part of a key at the place of a row's column, compared with the row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyPart<'k> {
    /// The same key; the rest of the key follows.
    Rest(&'k [u8]),
    /// Another key.
    Other,
    /// The row's value is compressed or out of line: the comparison cannot be made.
    Apart,
    /// The row is older than the column.
    Missing,
}

impl<'k> From<Option<&'k [u8]>> for KeyPart<'k> {
    fn from(rest: Option<&'k [u8]>) -> Self {
        rest.map_or(Self::Other, Self::Rest)
    }
}

/// A view of a stored row. It walks the row's bytes from the front and remembers its position. So
/// asking for columns in ascending order touches each byte once and decodes only the columns asked
/// for.
#[derive(Clone, Debug)]
pub struct RowView<'a> {
    columns: &'a [ColumnType],
    /// The null bitmap; empty when no value is NULL.
    nulls: &'a [u8],
    start: Cursor<'a>,
    /// The column before which `cursor` stands.
    next: usize,
    cursor: Cursor<'a>,
}

impl<'a> RowView<'a> {
    /// Makes a view of `bytes`, the first `natts` of `columns` as [`super::form_row`] wrote them.
    /// `has_nulls` is the result of that function. `columns` may be longer: the table has gained
    /// columns since.
    ///
    /// # Errors
    /// `XX001` when there are more attributes than columns, or the bitmap is cut short.
    #[inline]
    pub fn new(
        columns: &'a [ColumnType],
        natts: usize,
        has_nulls: bool,
        bytes: &'a [u8],
    ) -> Result<Self> {
        let columns = columns.get(..natts).ok_or_else(|| too_many(natts, columns.len()))?;
        let mut cursor = Cursor::new(bytes);
        let nulls = if has_nulls { cursor.take_slice(natts.div_ceil(8))? } else { &[] };
        Ok(Self { columns, nulls, start: cursor, next: 0, cursor })
    }

    /// Returns the number of columns that the row has: later columns were added to the table after
    /// it.
    pub fn natts(&self) -> usize {
        self.columns.len()
    }

    #[inline]
    fn is_null(&self, column: usize) -> bool {
        self.nulls.get(column / 8).is_some_and(|bits| bits >> (column % 8) & 1 == 1)
    }

    /// Moves the cursor before `column`, which the row has.
    #[inline]
    fn seek(&mut self, column: usize) -> Result<()> {
        if column < self.next {
            self.cursor = self.start;
            self.next = 0;
        }
        // A failed step leaves the position where the next try fails in the same way.
        while self.next < column {
            let oid = self.columns.get(self.next).ok_or_else(ended)?.oid;
            if !self.is_null(self.next) {
                self.cursor.skip(oid)?;
            }
            self.next = self.next.saturating_add(1);
        }
        Ok(())
    }

    /// Returns the content of `column`, or `None` when the row is older than the column.
    ///
    /// # Errors
    /// `XX001` when the bytes are not a stored row.
    #[inline]
    pub fn get(&mut self, column: usize) -> Result<Option<Field<'a>>> {
        let Some(kind) = self.columns.get(column) else { return Ok(None) };
        let oid = kind.oid;
        if self.is_null(column) {
            return Ok(Some(Field::Value(Datum::Null)));
        }
        self.seek(column)?;
        let field = match self.cursor.take_apart(oid)? {
            Some(apart) => Field::Apart(apart),
            None => Field::Value(self.cursor.take_value(oid)?),
        };
        self.next = column.saturating_add(1);
        Ok(Some(field))
    }

    /// Appends the key of `column` ([`encode_key`]), without making a value where that takes
    /// memory. `None`: the row is older than the column. False: the value is compressed or out of
    /// line. Nothing is appended in these two cases.
    ///
    /// # Errors
    /// `XX001` when the bytes are not a stored row.
    pub fn encode_key(
        &mut self,
        column: usize,
        order: KeyOrder,
        out: &mut Vec<u8>,
    ) -> Result<Option<bool>> {
        let Some(kind) = self.columns.get(column) else { return Ok(None) };
        let oid = kind.oid;
        if self.is_null(column) {
            encode_key(&Datum::Null, order, out);
            return Ok(Some(true));
        }
        self.seek(column)?;
        let stands = self.cursor.take_apart(oid)?.is_none();
        if stands {
            match self.cursor.take_text(oid)? {
                Some(text) => encode_text_key(text, order, out),
                None => encode_key(&self.cursor.take_value(oid)?, order, out),
            }
        }
        self.next = column.saturating_add(1);
        Ok(Some(stands))
    }

    /// Compares the start of `key` with the key of `column` ([`encode_key`]), without making a key
    /// where that takes memory.
    ///
    /// # Errors
    /// `XX001` when the bytes are not a stored row.
    #[inline]
    pub fn strip_key<'k>(
        &mut self,
        column: usize,
        order: KeyOrder,
        key: &'k [u8],
    ) -> Result<KeyPart<'k>> {
        let Some(kind) = self.columns.get(column) else { return Ok(KeyPart::Missing) };
        let oid = kind.oid;
        if self.is_null(column) {
            return Ok(strip_key(&Datum::Null, order, key).into());
        }
        self.seek(column)?;
        let part = if self.cursor.take_apart(oid)?.is_some() {
            KeyPart::Apart
        } else if let Some(text) = self.cursor.take_text(oid)? {
            strip_text_key(text, order, key).into()
        } else {
            strip_key(&self.cursor.take_value(oid)?, order, key).into()
        };
        self.next = column.saturating_add(1);
        Ok(part)
    }

    /// Returns the bytes in the row for `column`, length and form included. Equal bytes of two
    /// versions are equal values. `None` when the row is older than the column, `Some(None)` for
    /// NULL.
    ///
    /// # Errors
    /// `XX001` when the bytes are not a stored row.
    #[inline]
    pub fn get_stored(&mut self, column: usize) -> Result<Option<Option<&'a [u8]>>> {
        let Some(kind) = self.columns.get(column) else { return Ok(None) };
        if self.is_null(column) {
            return Ok(Some(None));
        }
        let oid = kind.oid;
        self.seek(column)?;
        let stored = self.cursor.take_stored(oid)?;
        self.next = column.saturating_add(1);
        Ok(Some(Some(stored)))
    }

    /// Decides whether both rows are alike behind the last columns asked for: the same columns,
    /// NULLs and bytes.
    #[inline]
    pub fn goes_on_as(&self, other: &Self) -> bool {
        self.next == other.next
            && self.columns.len() == other.columns.len()
            && self.nulls == other.nulls
            && self.cursor.rest() == other.cursor.rest()
    }

    /// Returns the value of `column` if it is compressed or out of line.
    ///
    /// # Errors
    /// `XX001` when the bytes are not a stored row.
    pub fn get_apart(&mut self, column: usize) -> Result<Option<Apart<'a>>> {
        let Some(kind) = self.columns.get(column) else { return Ok(None) };
        if self.is_null(column) {
            return Ok(None);
        }
        let oid = kind.oid;
        self.seek(column)?;
        // The position stays in front of the value.
        let mut cursor = self.cursor;
        cursor.take_apart(oid)
    }

    /// Decodes the columns of `needed` into their places in `out` and leaves the other places as
    /// they are. Places of compressed or out-of-line values stay too: these values go to `apart`
    /// with their columns. Returns [`RowView::natts`]. Needed columns from there on are untouched
    /// too, and get their default from the caller.
    ///
    /// # Errors
    /// `XX001` when the bytes are not a stored row or `out` is too short.
    pub fn deform_into(
        &mut self,
        out: &mut [Datum],
        needed: &ColumnMask,
        apart: &mut Vec<(usize, Apart<'a>)>,
    ) -> Result<usize> {
        let end = needed.end().min(self.columns.len());
        let mut cursor = self.start;
        let columns = self.columns.get(..end).unwrap_or_default();
        for (column, kind) in columns.iter().enumerate() {
            if !needed.contains(column) {
                if !self.is_null(column) {
                    cursor.skip(kind.oid)?;
                }
                continue;
            }
            let place = out
                .get_mut(column)
                .ok_or_else(|| TypeError::corrupt("row has no place for its column"))?;
            if self.is_null(column) {
                *place = Datum::Null;
            } else if let Some(value) = cursor.take_apart(kind.oid)? {
                apart.push((column, value));
            } else {
                *place = cursor.take_value(kind.oid)?;
            }
        }
        Ok(self.columns.len())
    }

    /// Works as [`RowView::deform_into`], and appends each value to the vector in its column's
    /// place. Compressed and out-of-line values get a NULL for the time being, which the caller
    /// replaces by the value. Columns that the row does not have get a NULL likewise.
    ///
    /// # Errors
    /// As [`RowView::deform_into`]; vectors of the row's columns are then of different lengths.
    pub fn deform_into_vectors(
        &mut self,
        out: &mut [Vector],
        needed: &ColumnMask,
        apart: &mut Vec<(usize, Apart<'a>)>,
    ) -> Result<usize> {
        let mut cursor = self.start;
        let columns = self.columns.get(..needed.end().min(self.columns.len())).unwrap_or_default();
        for (column, kind) in columns.iter().enumerate() {
            if !needed.contains(column) {
                if !self.is_null(column) {
                    cursor.skip(kind.oid)?;
                }
                continue;
            }
            let place = out
                .get_mut(column)
                .ok_or_else(|| TypeError::corrupt("row has no place for its column"))?;
            if self.is_null(column) {
                place.push_null();
            } else if let Some(value) = cursor.take_into(kind.oid, place)? {
                apart.push((column, value));
                place.push_null();
            }
        }
        for column in needed.iter().skip_while(|column| *column < self.columns.len()) {
            if let Some(place) = out.get_mut(column) {
                place.push_null();
            }
        }
        Ok(self.columns.len())
    }

    /// Verifies the whole row: every value in it decodes, nothing follows the last one, and the
    /// unused bits of the bitmap are zero.
    ///
    /// # Errors
    /// `XX001` with a description of the fault.
    pub fn check(&self) -> Result<()> {
        let mut cursor = self.start;
        for (column, kind) in self.columns.iter().enumerate() {
            if self.is_null(column) {
                continue;
            }
            match cursor.take_apart(kind.oid)? {
                None => drop(cursor.take_value(kind.oid)?),
                Some(Apart::Compressed { compression, raw_length, bytes }) => {
                    let image = decompress(compression, raw_length, bytes.into())?;
                    value_of_image(kind.oid, &image)?;
                }
                Some(Apart::OutOfLine(_)) => {}
            }
        }
        if !cursor.is_empty() {
            return Err(TypeError::corrupt("stored row has bytes after its last value"));
        }
        let used = self.columns.len() % 8;
        if used != 0 && self.nulls.last().is_some_and(|bits| bits >> used != 0) {
            return Err(TypeError::corrupt("null bitmap has bits beyond the last column"));
        }
        Ok(())
    }
}

#[cold]
fn too_many(natts: usize, columns: usize) -> TypeError {
    TypeError::corrupt(format!(
        "stored row has {natts} attributes, its table has {columns} columns"
    ))
}
