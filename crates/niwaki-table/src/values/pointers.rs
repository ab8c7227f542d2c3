//! Pointers of rows to their out-of-line values, and the ends of these values.

use niwaki_heap::VersionRow;
use niwaki_storage::Corruption;
use niwaki_txn::Transaction;
use niwaki_types::{Apart, RowView, ValuePointer};

use crate::error::{Error, Result};
use crate::relation::table::Table;
use crate::values::pieces::{self, Lost};

/// The pointers of a row to its out-of-line values, with their columns.
pub(crate) type Pointers = Vec<(usize, ValuePointer)>;

impl Table {
    /// Returns true when the key of some index, or its predicate, depends on a column.
    pub(crate) fn keys_read(&self, column: usize) -> bool {
        (0..self.indexes.len()).any(|index| self.index_reads(index, column))
    }

    /// Returns the pointers of a version, with their columns.
    pub(crate) fn pointers_of(&self, version: &VersionRow) -> Result<Pointers> {
        let VersionRow { natts, has_nulls, bytes } = version;
        let columns = &self.definition.columns;
        let mut view = RowView::new(columns, usize::from(*natts), *has_nulls, bytes)?;
        let mut pointers = Vec::new();
        for column in 0..usize::from(*natts) {
            if let Some(Apart::OutOfLine(pointer)) = view.get_apart(column)? {
                pointers.push((column, pointer));
            }
        }
        debug_assert!(
            pointers.iter().all(|(column, _)| *column < columns.len()),
            "a column that the table does not have gave a pointer",
        );
        Ok(pointers)
    }

    /// Ends values, given with their columns, that no version names any more once this transaction
    /// has committed. Pieces of values that keys are made of stay until the version is pruned and
    /// its entries are handled. Without them its keys could not be computed.
    ///
    /// # Errors
    /// Storage's, interrupts; XX001 when a value is not whole.
    pub(crate) fn end_values(
        &self,
        tx: &Transaction,
        pointers: &[(usize, ValuePointer)],
    ) -> Result<()> {
        for (column, pointer) in pointers {
            let reported = !self.keys_read(*column);
            let lost = match self.value_heap() {
                Some(heap) => pieces::end(heap, tx, pointer, reported)?.err(),
                None => {
                    Some(Lost { at: pieces::first_piece(pointer), rest: pointer.stored_length })
                }
            };
            if let Some(lost) = lost {
                return Err(self.lost_value(pointer, lost));
            }
        }
        Ok(())
    }

    /// Makes the error for a value that is not whole (XX001).
    #[cold]
    pub(crate) fn lost_value(&self, pointer: &ValuePointer, lost: Lost) -> Error {
        let corruption = self.lost_piece(pointer, lost);
        Error::Storage(niwaki_storage::Error::Corruption(Box::new(corruption)))
    }

    /// Describes a value that is not whole.
    pub(crate) fn lost_piece(&self, pointer: &ValuePointer, lost: Lost) -> Corruption {
        let Lost { at, rest } = lost;
        Corruption {
            file: format!("values of table \"{}\"", self.definition.name),
            block: Some(at.block.0),
            item: Some(at.offset.0),
            invariant: "H3.a",
            detail: format!(
                "a piece of the value of {} bytes that transaction {} stored at {} is not there, \
                 with {rest} bytes to come",
                pointer.stored_length,
                pointer.xid,
                pieces::first_piece(pointer),
            ),
        }
    }
}
