//! Reads of rows with large values.
//!
//! Plain values of a row can be read under its page's latch. Values that are compressed or out of
//! line are read from a copy, with no latch held, and only for the needed columns. Pieces (chunks
//! of out-of-line values) are read by their addresses. A reader of a version may do so as long as
//! the snapshot that sees the version exists.
//!
//! Some readers read versions that no snapshot of theirs holds (builds, the memo of keys, checks).
//! They may find a piece gone, because the version is removable by now. Then they check the version
//! once more: a version that lacks a piece and is not removable is damaged, whatever was removed
//! meanwhile.

use std::borrow::Cow;

use niwaki_heap::{Live, RowRef, VersionRow};
use niwaki_storage::Tid;
use niwaki_types::{
    Apart, ColumnMask, Datum, RowView, ValuePointer, Vector, decompress, value_of_image,
};

use crate::error::{Error, Result};
use crate::relation::table::Table;
use crate::values::pieces::{self, Lost, Walked};

/// The result of reading a row under its page's latch.
pub(crate) enum Reading {
    /// All needed values are read.
    Whole,
    /// Some values are compressed or out of line. They are to be read from this copy after the
    /// latch's release.
    OnCopy(VersionRow),
}

/// A value with a missing piece.
struct LostValue {
    pointer: ValuePointer,
    lost: Lost,
}

/// Returns the bytes of a value's uncompressed image.
fn image_bytes(apart: &Apart<'_>) -> usize {
    let (Apart::Compressed { raw_length, .. } | Apart::OutOfLine(ValuePointer { raw_length, .. })) =
        *apart;
    usize::try_from(raw_length).unwrap_or(usize::MAX)
}

impl Table {
    /// Writes the `needed` columns of a stored row into `out` (as wide as the table), as far as
    /// their values are plain. Values that are compressed or out of line are left to a copy. May be
    /// called under latches.
    ///
    /// # Errors
    /// [`Error::Type`] (XX001) when the bytes are damaged.
    #[inline]
    pub(crate) fn deform_under_latch(
        &self,
        row: RowRef<'_>,
        needed: &ColumnMask,
        out: &mut [Datum],
    ) -> Result<Reading> {
        let mut apart = Vec::new();
        self.deform_plain(row.natts, row.has_nulls, row.bytes, needed, out, &mut apart)?;
        Ok(if apart.is_empty() { Reading::Whole } else { Reading::OnCopy(row.into()) })
    }

    /// Finishes the work of [`Table::deform_under_latch`]. No latch is held; the caller's snapshot
    /// sees the version.
    ///
    /// # Errors
    /// As [`Table::deform`].
    pub(crate) fn finish(
        &self,
        reading: Reading,
        needed: &ColumnMask,
        out: &mut [Datum],
    ) -> Result<()> {
        match reading {
            Reading::Whole => Ok(()),
            Reading::OnCopy(VersionRow { natts, has_nulls, bytes }) => {
                self.deform_parts(natts, has_nulls, &bytes, needed, out)?;
                Ok(())
            }
        }
    }

    /// Writes the `needed` columns of a stored row into `out` (as wide as the table). Columns added
    /// after the row was written get their values for old rows from the definition. No latch is
    /// held. A snapshot of the caller sees the version, or a lock of the caller keeps it. Returns
    /// the bytes of the values that are compressed or out of line.
    ///
    /// # Errors
    /// [`Error::Type`] (XX001) when the bytes are damaged; [`Error::Storage`] (XX001, too) when a
    /// value is not whole; storage's.
    #[inline]
    pub fn deform_parts(
        &self,
        natts: u16,
        has_nulls: bool,
        bytes: &[u8],
        needed: &ColumnMask,
        out: &mut [Datum],
    ) -> Result<usize> {
        let mut apart = Vec::new();
        self.deform_plain(natts, has_nulls, bytes, needed, out, &mut apart)?;
        match self.resolve_all(&apart, out)? {
            None => Ok(apart.iter().map(|(_, apart)| image_bytes(apart)).sum()),
            Some(LostValue { pointer, lost }) => Err(self.lost_value(&pointer, lost)),
        }
    }

    /// Decodes a row that a scan has copied out, as [`Table::deform_parts`] does.
    ///
    /// # Errors
    /// As [`Table::deform_parts`].
    #[inline]
    pub fn deform(&self, row: RowRef<'_>, needed: &ColumnMask, out: &mut [Datum]) -> Result<usize> {
        self.deform_parts(row.natts, row.has_nulls, row.bytes, needed, out)
    }

    /// Writes columns as [`Table::deform`] does, but skips long values. A compressed or out-of-line
    /// value is skipped when its image is longer than `most` bytes. It is then NULL in `out`, and
    /// `long` gets its column and the length of its image.
    ///
    /// # Errors
    /// As [`Table::deform_parts`].
    pub fn deform_short(
        &self,
        row: RowRef<'_>,
        needed: &ColumnMask,
        most: usize,
        out: &mut [Datum],
        mut long: impl FnMut(usize, usize),
    ) -> Result<()> {
        let mut apart = Vec::new();
        self.deform_plain(row.natts, row.has_nulls, row.bytes, needed, out, &mut apart)?;
        apart.retain(|(column, apart)| {
            let length = image_bytes(apart);
            if length > most {
                out[*column] = Datum::Null;
                long(*column, length);
            }
            length <= most
        });
        match self.resolve_all(&apart, out)? {
            None => Ok(()),
            Some(LostValue { pointer, lost }) => Err(self.lost_value(&pointer, lost)),
        }
    }

    /// Writes columns as [`Table::deform_parts`] does, for a version of the chain at `root` that no
    /// snapshot of the caller holds. Returns false when the version has become removable, and one
    /// of its values is gone.
    ///
    /// # Errors
    /// As [`Table::deform_parts`].
    pub(crate) fn deform_version(
        &self,
        root: Tid,
        version: &VersionRow,
        needed: &ColumnMask,
        out: &mut [Datum],
    ) -> Result<bool> {
        let VersionRow { natts, has_nulls, bytes } = version;
        let mut apart = Vec::new();
        self.deform_plain(*natts, *has_nulls, bytes, needed, out, &mut apart)?;
        match self.resolve_all(&apart, out)? {
            None => Ok(true),
            Some(LostValue { pointer, lost }) if self.is_needed(root, version)? => {
                Err(self.lost_value(&pointer, lost))
            }
            Some(_) => Ok(false),
        }
    }

    /// Returns true when the chain at `root` still has this version, not removable by now.
    fn is_needed(&self, root: Tid, version: &VersionRow) -> Result<bool> {
        let horizon = self.engine.transactions().horizon();
        let mut found = false;
        self.heap().visit_versions(
            Live::AtVisit(&|_| false),
            root.block.0,
            &horizon,
            |row, _| {
                found |=
                    row.root == root && row.natts == version.natts && row.bytes == version.bytes;
            },
        )?;
        Ok(found)
    }

    /// Writes the plain values of a row, and the definition's values of columns that the row lacks.
    /// The other values go to `apart`.
    #[inline]
    fn deform_plain<'a>(
        &'a self,
        natts: u16,
        has_nulls: bool,
        bytes: &'a [u8],
        needed: &ColumnMask,
        out: &mut [Datum],
        apart: &mut Vec<(usize, Apart<'a>)>,
    ) -> Result<()> {
        let columns = &self.definition.columns;
        debug_assert!(apart.is_empty(), "values of another row are listed");
        let mut view = RowView::new(columns, usize::from(natts), has_nulls, bytes)?;
        let stored = view.deform_into(out, needed, apart)?;
        debug_assert!(stored <= columns.len(), "a row has more columns than its table");
        debug_assert!(
            apart.iter().all(|(column, _)| needed.contains(*column)),
            "a value that is not needed is listed",
        );
        for (column, place) in out.iter_mut().enumerate().skip(stored) {
            *place = self.definition.missing.get(column).cloned().unwrap_or(Datum::Null);
        }
        Ok(())
    }

    /// Appends the `needed` columns of a stored row to the vectors in their places. Columns added
    /// after the row was written get their values for old rows from the definition. Needs and
    /// returns the same as [`Table::deform_parts`].
    ///
    /// # Errors
    /// As [`Table::deform_parts`]; the vectors are then of different lengths.
    #[inline]
    pub fn deform_vectors(
        &self,
        row: RowRef<'_>,
        needed: &ColumnMask,
        out: &mut [Vector],
    ) -> Result<usize> {
        let columns = &self.definition.columns;
        let mut view = RowView::new(columns, usize::from(row.natts), row.has_nulls, row.bytes)?;
        let mut apart = Vec::new();
        let stored = view.deform_into_vectors(out, needed, &mut apart)?;
        if stored < needed.end() {
            for column in needed.iter().filter(|column| *column >= stored) {
                if let Some(value) = self.definition.missing.get(column) {
                    out[column].replace_last(value);
                }
            }
        }
        let mut bytes = 0;
        for (column, apart) in &apart {
            match self.resolve(*column, apart)? {
                Ok(value) => out[*column].replace_last(&value),
                Err(LostValue { pointer, lost }) => return Err(self.lost_value(&pointer, lost)),
            }
            bytes += image_bytes(apart);
        }
        Ok(bytes)
    }

    /// Reads values into their places in `out`, up to the first that is not whole.
    fn resolve_all(
        &self,
        apart: &[(usize, Apart<'_>)],
        out: &mut [Datum],
    ) -> Result<Option<LostValue>> {
        for (column, apart) in apart {
            match self.resolve(*column, apart)? {
                Ok(value) => out[*column] = value,
                Err(lost) => return Ok(Some(lost)),
            }
        }
        Ok(None)
    }

    /// Reads a compressed or out-of-line value of a column, if it is whole.
    fn resolve(
        &self,
        column: usize,
        apart: &Apart<'_>,
    ) -> Result<std::result::Result<Datum, LostValue>> {
        let (compression, raw_length, bytes) = match apart {
            Apart::Compressed { compression, raw_length, bytes } => {
                (*compression, *raw_length, Cow::Borrowed(*bytes))
            }
            Apart::OutOfLine(pointer) => match self.read_value(pointer)? {
                Ok(bytes) => (pointer.compression, pointer.raw_length, Cow::Owned(bytes)),
                Err(lost) => return Ok(Err(LostValue { pointer: *pointer, lost })),
            },
        };
        let image = decompress(compression, raw_length, bytes).map_err(Error::Type)?;
        Ok(Ok(value_of_image(self.definition.columns[column].oid, &image)?))
    }

    /// Returns the stored bytes of an out-of-line value.
    fn read_value(&self, pointer: &ValuePointer) -> Result<Walked<Vec<u8>>> {
        match self.value_heap() {
            Some(heap) => pieces::read(heap, pointer),
            None => Ok(Err(Lost { at: pieces::first_piece(pointer), rest: pointer.stored_length })),
        }
    }
}
