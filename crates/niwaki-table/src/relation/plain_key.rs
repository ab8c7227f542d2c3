//! Keys of stored versions in indexes of plain columns, read from the bytes of the versions.
//!
//! These functions may run under latches (rule `bytes-under-latch`): they compare bytes, and
//! evaluate nothing.

use niwaki_heap::{RowRef, VersionRow};
use niwaki_types::{Datum, KeyPart, RowView, encode_key, strip_key};

use crate::error::Result;
use crate::relation::definition::TableDefinition;
use crate::relation::expression::KeySource;
use crate::relation::table_index::TableIndex;

/// The answer whether a stored version has a key, as far as known without evaluating expressions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HasKey {
    Yes,
    No,
    /// Expressions decide, or values that are compressed or out of line.
    Unknown,
}

impl From<bool> for HasKey {
    fn from(has: bool) -> Self {
        if has { Self::Yes } else { Self::No }
    }
}

/// A stored version, on its page or copied.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stored<'a> {
    pub(crate) natts: u16,
    pub(crate) has_nulls: bool,
    pub(crate) bytes: &'a [u8],
}

impl<'a> Stored<'a> {
    /// Returns the values of the version, read by the columns of `table`.
    pub(crate) fn view(self, table: &'a TableDefinition) -> Result<RowView<'a>> {
        Ok(RowView::new(&table.columns, self.natts.into(), self.has_nulls, self.bytes)?)
    }
}

impl<'a> From<RowRef<'a>> for Stored<'a> {
    fn from(row: RowRef<'a>) -> Self {
        Self { natts: row.natts, has_nulls: row.has_nulls, bytes: row.bytes }
    }
}

impl<'a> From<&'a VersionRow> for Stored<'a> {
    fn from(row: &'a VersionRow) -> Self {
        Self { natts: row.natts, has_nulls: row.has_nulls, bytes: &row.bytes }
    }
}

impl TableIndex {
    /// Appends the key of a stored version of `table` in an index of plain columns. Returns false
    /// when one of the key's values is compressed or out of line.
    ///
    /// # Errors
    /// [`crate::Error::Type`] when the version is damaged.
    pub(crate) fn plain_key(
        &self,
        table: &TableDefinition,
        row: Stored<'_>,
        out: &mut Vec<u8>,
    ) -> Result<bool> {
        self.plain_key_of(table, &mut row.view(table)?, out)
    }

    /// Does the same as [`TableIndex::plain_key`] for a version with an open view. Indexes of later
    /// columns then skip the earlier ones.
    pub(crate) fn plain_key_of(
        &self,
        table: &TableDefinition,
        view: &mut RowView<'_>,
        out: &mut Vec<u8>,
    ) -> Result<bool> {
        debug_assert!(!self.computed, "stored bytes do not tell a computed key");
        for key in &self.definition.key {
            let KeySource::Column(column) = key.source else { continue };
            match view.encode_key(column, key.order, out)? {
                Some(true) => {}
                Some(false) => return Ok(false),
                None => {
                    let missing = table.missing.get(column);
                    encode_key(missing.unwrap_or(&Datum::Null), key.order, out);
                }
            }
        }
        Ok(true)
    }

    /// Decides whether a stored version of `table` has this key in an index of plain columns.
    ///
    /// # Errors
    /// [`crate::Error::Type`] when the version is damaged.
    pub(crate) fn has_plain_key(
        &self,
        table: &TableDefinition,
        row: Stored<'_>,
        key: &[u8],
    ) -> Result<HasKey> {
        self.is_plain_key_of(table, &mut row.view(table)?, key)
    }

    /// Decides as [`TableIndex::has_plain_key`] does, for a version with an open view.
    pub(crate) fn is_plain_key_of(
        &self,
        table: &TableDefinition,
        view: &mut RowView<'_>,
        key: &[u8],
    ) -> Result<HasKey> {
        debug_assert!(!self.computed, "stored bytes do not tell a computed key");
        let mut rest = key;
        for part in &self.definition.key {
            let KeySource::Column(column) = part.source else { continue };
            let found = match view.strip_key(column, part.order, rest)? {
                KeyPart::Rest(rest) => Some(rest),
                KeyPart::Other => None,
                KeyPart::Apart => return Ok(HasKey::Unknown),
                KeyPart::Missing => {
                    let missing = table.missing.get(column);
                    strip_key(missing.unwrap_or(&Datum::Null), part.order, rest)
                }
            };
            match found {
                Some(after) => {
                    debug_assert!(after.len() <= rest.len(), "a part adds to the rest of a key");
                    rest = after;
                }
                None => return Ok(HasKey::No),
            }
        }
        Ok(rest.is_empty().into())
    }
}
