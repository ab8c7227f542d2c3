//! Writes of rows with large values.

use std::sync::Arc;

use niwaki_env::seeded_bug;
use niwaki_heap::{
    HeapOutcome, InsertOptions, MAX_TUPLE_SIZE, NewRow, RowTarget, TUPLE_HEADER_SIZE, UpdateKind,
    VersionRow,
};
use niwaki_txn::{Transaction, View};
use niwaki_types::{Apart, Datum, RowView, TypeOid, ValuePointer, form_row, form_row_apart, image};

use crate::error::Result;
use crate::relation::table::Table;
use crate::row::row_queue::RowQueue;
use crate::row::workspace::Workspace;
use crate::values::pieces;
use crate::values::placement::{PlacedValue, Placement, row_target};
use crate::values::pointers::Pointers;

/// The header facts of a formed row, whose bytes are elsewhere.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Formed {
    natts: u16,
    has_nulls: bool,
    has_external: bool,
}

impl Formed {
    /// Returns the row for the heap.
    pub(crate) fn row<'b>(&self, bytes: &'b [u8]) -> NewRow<'b> {
        let Self { natts, has_nulls, has_external } = *self;
        NewRow { natts, has_nulls, has_external, bytes }
    }
}

impl Table {
    /// Appends the stored form of a row (all columns) to `out`, if all of its values can stay
    /// plain.
    #[inline]
    pub(crate) fn form_plain(&self, row: &[Datum], out: &mut Vec<u8>) -> Option<Formed> {
        // Such a value would be copied, and the buffer would stay that large.
        if row.iter().any(|value| length_at_least(value) > MAX_TUPLE_SIZE) {
            return None;
        }
        let start = out.len();
        let has_nulls = form_row(&self.definition.columns, row, out);
        if out.len() - start + TUPLE_HEADER_SIZE > row_target(self.values.is_some()) {
            out.truncate(start);
            return None;
        }
        debug_assert!(u16::try_from(row.len()).is_ok(), "a row of {} columns", row.len());
        Some(Formed { natts: row.len() as u16, has_nulls, has_external: false })
    }

    /// Appends the stored form of a new row (all columns) to `work.row`. Stores the values that go
    /// out of line, and notes them in `work.values`, replacing its contents.
    ///
    /// # Errors
    /// [`crate::Error::RowTooBig`], [`crate::Error::ValueTooBig`]; storage's, interrupts.
    #[inline]
    pub(crate) fn form(
        &self,
        tx: &Transaction,
        row: &[Datum],
        options: InsertOptions,
        work: &mut Workspace,
    ) -> Result<Formed> {
        work.values.clear();
        if let Some(formed) = self.form_plain(row, &mut work.row) {
            Ok(formed)
        } else {
            let placed = self.place_values(row, Vec::new())?;
            self.form_placed(tx, row, placed, options, work)
        }
    }

    /// Decides the form of each value of a row.
    fn place_values<'r>(
        &'r self,
        row: &'r [Datum],
        kept: Vec<Option<PlacedValue<'r>>>,
    ) -> Result<Vec<Option<PlacedValue<'r>>>> {
        let (columns, heap) = (&self.definition.columns, self.values.is_some());
        Placement::decide(columns, row, kept, &self.indexed_columns, heap)
    }

    /// Stores the values that go out of line, and appends the stored form of the row to `work.row`.
    fn form_placed(
        &self,
        tx: &Transaction,
        row: &[Datum],
        mut placed: Vec<Option<PlacedValue<'_>>>,
        options: InsertOptions,
        work: &mut Workspace,
    ) -> Result<Formed> {
        debug_assert!(u16::try_from(row.len()).is_ok(), "a row of {} columns", row.len());
        debug_assert_eq!(placed.len(), row.len(), "a form for each value");
        debug_assert!(work.values.is_empty(), "values of another row are noted");
        let start = work.row.len();
        for (column, placed) in placed.iter_mut().enumerate() {
            let Some(PlacedValue::ToWrite { compression, raw_length, bytes }) = placed else {
                continue;
            };
            let Some(heap) = self.value_heap() else { continue };
            let (of_key, form) = (self.keys_read(column), (*compression, *raw_length));
            let pointer = pieces::store(heap, tx, of_key, form, bytes, options)?;
            work.values.push((column, pointer));
            *placed = Some(PlacedValue::OutOfLine(pointer));
        }
        debug_assert!(
            placed.iter().flatten().all(|placed| placed.apart().is_some()),
            "a value of the row waits for its pieces",
        );
        let has_external =
            placed.iter().flatten().any(|placed| matches!(placed, PlacedValue::OutOfLine(_)));
        debug_assert!(has_external || work.values.is_empty(), "stored values are out of line");
        let apart = |column: usize| placed.get(column)?.as_ref()?.apart();
        let has_nulls = form_row_apart(&self.definition.columns, row, apart, &mut work.row);
        debug_assert!(
            work.row.len() - start + TUPLE_HEADER_SIZE <= MAX_TUPLE_SIZE,
            "a row whose values were placed does not fit a page",
        );
        Ok(Formed { natts: row.len() as u16, has_nulls, has_external })
    }

    /// Replaces the version of `target`, whose values are `old`, by `new` (all columns each). Waits
    /// for other transactions that block the row. Unchanged values stay in place; changed ones are
    /// ended.
    ///
    /// Pieces are stored late: after the row is locked for this transaction, so that the row can
    /// only end in being replaced. An update that must wait, or that finds the row changed, has
    /// stored nothing yet.
    pub(crate) fn replace<'t>(
        &self,
        view: &View<'t>,
        target: RowTarget,
        (old, new): (&[Datum], &[Datum]),
        kind: UpdateKind,
        queue: &mut RowQueue<'t>,
        work: &mut Workspace,
    ) -> Result<HeapOutcome> {
        debug_assert_eq!(old.len(), new.len(), "both rows have all columns");
        let tx = view.transaction();
        let heap = self.heap();
        work.row.clear();
        let mut before = None;
        if let Some(formed) = self.form_plain(new, &mut work.row) {
            let row = formed.row(&work.row);
            match self
                .attempt(tx, queue, || heap.update_unless_external(view, target, row, kind))?
            {
                HeapOutcome::External(version) => before = Some(version),
                outcome => return Ok(outcome),
            }
        }
        let before = match before {
            Some(before) => before,
            None => match heap.read_target(view, target, |row| VersionRow::from(row))? {
                Some(before) => before,
                None => return Ok(HeapOutcome::Gone),
            },
        };
        let (kept, named) = self.kept_values(&before, old, new)?;
        let placed = self.place_values(new, kept)?;
        if placed.iter().flatten().any(|placed| matches!(placed, PlacedValue::ToWrite { .. })) {
            let mode = queue.mode;
            match self.attempt(tx, queue, || heap.lock(view, target, mode))? {
                HeapOutcome::Done { .. } => {}
                outcome => return Ok(outcome),
            }
        }
        work.row.clear();
        work.values.clear();
        let stays =
            |pointer: &ValuePointer| placed.contains(&Some(PlacedValue::OutOfLine(*pointer)));
        let mut dropped = named;
        dropped.retain(|(_, pointer)| !stays(pointer) || seeded_bug!("values-kept-by-update"));
        let formed = self.form_placed(tx, new, placed, InsertOptions::default(), work)?;
        let row = formed.row(&work.row);
        let outcome = self.attempt(tx, queue, || heap.update(view, target, row, kind))?;
        debug_assert!(
            !matches!(outcome, HeapOutcome::External(_)),
            "an update without a condition"
        );
        if matches!(outcome, HeapOutcome::Done { .. }) {
            self.end_values(tx, &dropped)?;
        }
        Ok(outcome)
    }

    /// Returns, by column, the old version's form of each value that the new one has too. Also
    /// returns all pointers of the old version, with their columns.
    fn kept_values(
        &self,
        before: &VersionRow,
        old: &[Datum],
        new: &[Datum],
    ) -> Result<(Vec<Option<PlacedValue<'static>>>, Pointers)> {
        let columns = &self.definition.columns;
        let VersionRow { natts, has_nulls, bytes } = before;
        let mut view = RowView::new(columns, usize::from(*natts), *has_nulls, bytes)?;
        let (mut kept, mut named) = (vec![None; columns.len()], Vec::new());
        for (column, place) in kept.iter_mut().enumerate() {
            let Some(apart) = view.get_apart(column)? else { continue };
            if let Apart::OutOfLine(pointer) = apart {
                named.push((column, pointer));
            }
            if is_same(columns[column].oid, &old[column], &new[column]) {
                *place = Some(PlacedValue::of(apart));
            }
        }
        debug_assert_eq!(kept.len(), columns.len(), "a form for each column");
        debug_assert!(named.is_sorted_by(|a, b| a.0 < b.0), "a column has two values");
        Ok((kept, named))
    }
}

/// Returns a lower bound of a value's bytes that is free to compute.
fn length_at_least(value: &Datum) -> usize {
    match value {
        Datum::Text(text) => text.len(),
        Datum::Bytea(bytes) => bytes.len(),
        _ => 0,
    }
}

/// Returns true when two values of a type look the same. Most values that an update leaves alone
/// are the same object.
fn is_same(oid: TypeOid, a: &Datum, b: &Datum) -> bool {
    let very_same = match (a, b) {
        (Datum::Text(a), Datum::Text(b)) => Arc::ptr_eq(a, b),
        (Datum::Bytea(a), Datum::Bytea(b)) => Arc::ptr_eq(a, b),
        (Datum::Numeric(a), Datum::Numeric(b)) => Arc::ptr_eq(a, b),
        (Datum::Jsonb(a), Datum::Jsonb(b)) => Arc::ptr_eq(a, b),
        (Datum::Array(_, a), Datum::Array(_, b)) => Arc::ptr_eq(a, b),
        (Datum::Record(_, a), Datum::Record(_, b)) => Arc::ptr_eq(a, b),
        _ => false,
    };
    very_same || (!a.is_null() && !b.is_null() && image(oid, a) == image(oid, b))
}
