//! Values decoded from index entries, for index-only scans.

use niwaki_txn::View;
use niwaki_types::{
    ColumnMask, Datum, Field, RowView, TypeError, decode_key, key_equal_is_image_equal, key_length,
};

use crate::entry::recheck::Entry;
use crate::error::{Error, Result};
use crate::relation::table::Table;

impl Table {
    /// Returns true when the entries of an index give the values of all `needed` columns. The
    /// values come from key columns whose encoding can be read back, or from the INCLUDE payload.
    pub fn covers(&self, index: usize, needed: &ColumnMask) -> bool {
        let definition = &self.indexes[index].definition;
        needed.iter().all(|column| {
            definition.include.contains(&column)
                || definition.key.iter().any(|key| {
                    key.source.column() == Some(column) && key_equal_is_image_equal(key.order.oid)
                })
        })
    }

    /// Writes the `needed` columns of the row that the view sees through an entry into `out`. Takes
    /// them from the entry where they are valid. Returns false when the view sees no row with the
    /// entry's key.
    #[inline]
    pub(crate) fn fetch_covered(
        &self,
        view: &View<'_>,
        entry: Entry<'_>,
        payload: &[u8],
        needed: &ColumnMask,
        out: &mut [Datum],
    ) -> Result<bool> {
        let root = entry.root;
        let right = self.heap().fetch(view, root, |row| self.speaks_for_root(entry, row.mixed))?;
        match right {
            None => Ok(false),
            Some(true) => self.decode_entry(entry, payload, needed, out).map(|()| true),
            // The chain has several keys, or payloads, so the values come from the row itself
            // (docs/internals/design.md, "Index entries"). The row that the snapshot sees does not
            // change in between.
            Some(false) => self.fetch_through(view, entry, needed, out),
        }
    }

    /// Writes the `needed` columns that an entry holds into `out`.
    pub(crate) fn decode_entry(
        &self,
        entry: Entry<'_>,
        payload: &[u8],
        needed: &ColumnMask,
        out: &mut [Datum],
    ) -> Result<()> {
        debug_assert!(self.covers(entry.index, needed), "the entry lacks some of {needed:?}");
        let index = &self.indexes[entry.index];
        let mut rest = entry.key;
        for key in &index.definition.key {
            let length = match key.source.column().filter(|&column| needed.contains(column)) {
                Some(column) => {
                    let (value, length) = decode_key(rest, key.order)?;
                    if let Some(value) = value {
                        out[column] = value;
                    }
                    length
                }
                None => key_length(rest, key.order)?,
            };
            rest = rest.get(length..).unwrap_or_default();
        }
        if index.include.is_empty() {
            return Ok(());
        }
        let Some((&has_nulls, bytes)) = payload.split_first() else {
            return Err(Error::Type(TypeError::corrupt("an index entry has no payload")));
        };
        let mut view = RowView::new(&index.include, index.include.len(), has_nulls != 0, bytes)?;
        for (place, &column) in index.definition.include.iter().enumerate() {
            if needed.contains(column) {
                out[column] = match view.get(place)? {
                    Some(Field::Value(value)) => value,
                    None => Datum::Null,
                    // Payloads hold plain values only.
                    Some(Field::Apart(_)) => {
                        let what = "a value in an index entry does not stand there as it is";
                        return Err(Error::Type(TypeError::corrupt(what)));
                    }
                };
            }
        }
        Ok(())
    }
}
