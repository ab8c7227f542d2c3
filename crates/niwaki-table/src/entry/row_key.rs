//! Index keys of rows: encoding them, and testing whether a stored version has a given key.
//!
//! Keys of plain columns are encoded from a version's bytes wherever they lie, also under latches.
//! Under a latch, expressions and predicates are never evaluated, and values that are compressed or
//! out of line are never read (rule `bytes-under-latch`). Both depend on the stored bytes alone (a
//! pointer to an out-of-line value means the same value for ever). So a version's key can be
//! remembered by its bytes.
//!
//! Under the latch the code asks a [`KeyMemo`], which copies the versions it does not know. When
//! all latches are released, [`KeyMemo::learn`] evaluates the copies, and the operation starts
//! again. A version that changed in between has other bytes, so no answer can be outdated. This
//! takes the place of comparing page versions.

use std::cell::RefCell;

use niwaki_env::hash::HashMap;
use niwaki_heap::{RowRef, VersionRow};
use niwaki_storage::Tid;
use niwaki_types::{ColumnMask, Datum, encode_key, form_row};

use crate::error::{Error, Result};
use crate::relation::expression::KeySource;
use crate::relation::plain_key::HasKey;
use crate::relation::table::Table;
use crate::values::resolve::Reading;

/// Facts about a key besides its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyTraits {
    /// True when some column of the key is NULL.
    pub(crate) has_null: bool,
}

impl Table {
    /// Appends the key that an index has for a row (all columns). Returns false, and appends
    /// nothing, when the index is partial and leaves the row out. No latch is held.
    ///
    /// # Errors
    /// [`Error::Expression`].
    #[inline]
    pub fn encode_index_key(&self, index: usize, row: &[Datum], out: &mut Vec<u8>) -> Result<bool> {
        Ok(self.index_key(index, row, out)?.is_some())
    }

    /// Does the same as [`Table::encode_index_key`], and returns the facts that a unique check
    /// needs.
    #[inline]
    pub(crate) fn index_key(
        &self,
        index: usize,
        row: &[Datum],
        out: &mut Vec<u8>,
    ) -> Result<Option<KeyTraits>> {
        let definition = &self.indexes[index].definition;
        if let Some(predicate) = &definition.predicate
            && !matches!(predicate.evaluate(row).map_err(Error::Expression)?, Datum::Bool(true))
        {
            return Ok(None);
        }
        let start = out.len();
        let mut has_null = false;
        for key in &definition.key {
            match &key.source {
                KeySource::Column(column) => {
                    has_null |= matches!(row[*column], Datum::Null);
                    encode_key(&row[*column], key.order, out);
                }
                KeySource::Expression(expression) => {
                    let value = expression.evaluate(row).map_err(|error| {
                        out.truncate(start);
                        Error::Expression(error)
                    })?;
                    has_null |= matches!(value, Datum::Null);
                    encode_key(&value, key.order, out);
                }
            }
        }
        debug_assert!(definition.key.is_empty() || out.len() > start, "a key has bytes");
        Ok(Some(KeyTraits { has_null }))
    }

    /// Returns true when the index may refuse the key because another row has an equal one.
    pub(crate) fn can_conflict(&self, index: usize, key: KeyTraits) -> bool {
        let definition = &self.indexes[index].definition;
        definition.unique && (definition.nulls_not_distinct || !key.has_null)
    }

    /// Returns the values of an index's key for a row (all columns).
    ///
    /// # Errors
    /// [`Error::Expression`].
    pub fn key_values(&self, index: usize, row: &[Datum]) -> Result<Vec<Datum>> {
        let value = |source: &KeySource| match source {
            KeySource::Column(column) => Ok(row[*column].clone()),
            KeySource::Expression(e) => e.evaluate(row).map_err(Error::Expression),
        };
        self.indexes[index].definition.key.iter().map(|key| value(&key.source)).collect()
    }

    /// Appends the INCLUDE payload that an index has for a row. A first byte says whether a null
    /// bitmap follows; then comes the stored form of the columns. An index without such columns
    /// appends nothing.
    pub(crate) fn encode_payload(&self, index: usize, row: &[Datum], out: &mut Vec<u8>) {
        let index = &self.indexes[index];
        if index.include.is_empty() {
            return;
        }
        let values: Vec<Datum> =
            index.definition.include.iter().map(|&column| row[column].clone()).collect();
        debug_assert_eq!(values.len(), index.include.len(), "a value for each INCLUDE column");
        let at = out.len();
        out.push(0);
        out[at] = form_row(&index.include, &values, out).into();
    }

    /// Returns the columns that entries of an index are made of.
    pub(crate) fn needed_for(&self, index: usize) -> ColumnMask {
        let mut needed = self.indexes[index].key_mask.clone();
        for &column in &self.indexes[index].definition.include {
            needed.insert(column);
        }
        needed
    }

    /// Decides whether a stored version has this key in an index. Compares normalized keys only, so
    /// it may be called under latches (rule `bytes-under-latch`).
    #[inline]
    pub(crate) fn has_key(&self, index: usize, row: RowRef<'_>, key: &[u8]) -> HasKey {
        if self.indexes[index].computed {
            return HasKey::Unknown;
        }
        debug_assert!(self.indexes[index].definition.predicate.is_none(), "a predicate decides");
        let found = self.indexes[index].has_plain_key(&self.definition, row.into(), key);
        found.unwrap_or(HasKey::No)
    }

    /// Returns the key of a copied version that a snapshot of the caller sees. Returns `None` when
    /// a partial index leaves the row out. No latch is held.
    pub(crate) fn copied_key(&self, index: usize, version: &VersionRow) -> Result<Option<Vec<u8>>> {
        let mut row = vec![Datum::Null; self.definition.columns.len()];
        let needed = &self.indexes[index].key_mask;
        self.deform_parts(version.natts, version.has_nulls, &version.bytes, needed, &mut row)?;
        let mut key = Vec::new();
        Ok(self.encode_index_key(index, &row, &mut key)?.then_some(key))
    }

    /// Returns the entry that an index has for a copied version of the chain at `root`, whether or
    /// not a snapshot sees the version. Returns `None` when the version has become removable and
    /// one of its values is gone.
    pub(crate) fn version_entry(
        &self,
        index: usize,
        root: Tid,
        version: &VersionRow,
    ) -> Result<Option<VersionEntry>> {
        let mut row = vec![Datum::Null; self.definition.columns.len()];
        if !self.deform_version(root, version, &self.needed_for(index), &mut row)? {
            return Ok(None);
        }
        let (mut key, mut payload) = (Vec::new(), Vec::new());
        let key = self.encode_index_key(index, &row, &mut key)?.then_some(key);
        self.encode_payload(index, &row, &mut payload);
        Ok(Some(VersionEntry { key, payload }))
    }

    /// Makes the error for a key that exists already.
    #[cold]
    pub(crate) fn unique_violation(&self, index: usize, row: &[Datum]) -> Error {
        debug_assert!(self.indexes[index].definition.unique, "index {index} refuses no key");
        let key = match self.key_values(index, row) {
            Ok(key) => key,
            Err(error) => return error,
        };
        let index_name = self.indexes[index].definition.name.clone();
        Error::UniqueViolation(Box::new(crate::UniqueViolation { index, index_name, key }))
    }
}

/// A stored version by its bytes.
type Image = (u16, bool, Vec<u8>);

/// The content of an index entry for one version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct VersionEntry {
    /// `None` when a partial index leaves the row out.
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) payload: Vec<u8>,
}

/// Keys of versions, found by their bytes (see the module's description).
#[derive(Debug, Default)]
pub(crate) struct KeyMemo(RefCell<Memo>);

#[derive(Debug, Default)]
struct Memo {
    known: HashMap<Image, Known>,
    /// Versions to evaluate, with the roots of their chains.
    asked: Vec<(Tid, Image)>,
}

/// The result for one version.
#[derive(Debug)]
enum Known {
    Entry(VersionEntry),
    /// The version has become removable. No snapshot sees it, so it counts as having no key.
    Removable,
    /// The version's expression fails: its key is unknown, and stays so.
    Fails,
}

fn image_of(row: RowRef<'_>) -> Image {
    (row.natts, row.has_nulls, row.bytes.to_vec())
}

impl KeyMemo {
    /// Decides as [`Table::has_key`] does, with the learned keys. Notes a version that is still
    /// unknown. May be called under latches.
    pub(crate) fn has_key(
        &self,
        table: &Table,
        index: usize,
        row: RowRef<'_>,
        key: &[u8],
    ) -> HasKey {
        let inline = table.has_key(index, row, key);
        if inline != HasKey::Unknown {
            return inline;
        }
        let memo = &mut *self.0.borrow_mut();
        let image = image_of(row);
        match memo.known.get(&image) {
            Some(Known::Entry(entry)) => (entry.key.as_deref() == Some(key)).into(),
            Some(Known::Removable) => HasKey::No,
            Some(Known::Fails) => HasKey::Unknown,
            None => {
                memo.asked.push((row.root, image));
                HasKey::Unknown
            }
        }
    }

    /// Appends the INCLUDE payload that an index has for a version, if it is known. Notes an
    /// unknown version. May be called under latches.
    pub(crate) fn payload(
        &self,
        table: &Table,
        index: usize,
        row: RowRef<'_>,
        out: &mut Vec<u8>,
    ) -> Result<bool> {
        let include = &table.indexes[index].definition.include;
        let needed = include.iter().copied().collect();
        let mut values = vec![Datum::Null; table.definition.columns.len()];
        if let Reading::Whole = table.deform_under_latch(row, &needed, &mut values)? {
            table.encode_payload(index, &values, out);
            return Ok(true);
        }
        let memo = &mut *self.0.borrow_mut();
        let image = image_of(row);
        match memo.known.get(&image) {
            Some(Known::Entry(entry)) => out.extend_from_slice(&entry.payload),
            // No reader uses this payload.
            Some(Known::Removable) => {}
            Some(Known::Fails) => return Ok(false),
            None => {
                memo.asked.push((row.root, image));
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Evaluates the noted unknown versions. Returns false when there were none. No latch is held.
    ///
    /// # Errors
    /// [`Error::Expression`]; [`Error::Type`] when a version is damaged.
    pub(crate) fn learn(&self, table: &Table, index: usize) -> Result<bool> {
        self.learn_or(table, index, Err)
    }

    /// Does the same as [`KeyMemo::learn`], for callers that can do without some keys. A version
    /// whose expression fails stays unknown, and is not evaluated again.
    ///
    /// # Errors
    /// The errors of [`KeyMemo::learn`], except those from expressions.
    pub(crate) fn learn_what_can_be(&self, table: &Table, index: usize) -> Result<bool> {
        self.learn_or(table, index, |error| match error {
            Error::Expression(_) => Ok(Known::Fails),
            error => Err(error),
        })
    }

    fn learn_or(
        &self,
        table: &Table,
        index: usize,
        failed: impl Fn(Error) -> Result<Known>,
    ) -> Result<bool> {
        let asked = std::mem::take(&mut self.0.borrow_mut().asked);
        let any = !asked.is_empty();
        for (root, (natts, has_nulls, bytes)) in asked {
            let version = VersionRow { natts, has_nulls, bytes };
            let known = match table.version_entry(index, root, &version) {
                Ok(Some(entry)) => Known::Entry(entry),
                Ok(None) => Known::Removable,
                Err(error) => failed(error)?,
            };
            let image = (version.natts, version.has_nulls, version.bytes);
            self.0.borrow_mut().known.insert(image, known);
        }
        debug_assert!(self.0.borrow().asked.is_empty(), "a version was noted with no latch held");
        Ok(any)
    }
}
