//! The frame of each row: the rows of the partition that the row's calls read.
//!
//! Rows come in order, and frames move along with them. A frame's first and last row never move
//! back. So both ends move on from their last position, which takes one pass over the partition for
//! all rows together.

use niwaki_expr::expr::{Expr, Runtime};
use niwaki_expr::query::{Bound, Exclusion, FrameMode, Window};
use niwaki_parse::error::{Result, SqlError};
use niwaki_types::Datum;

use super::distance::{Side, within};
use super::partition::Partition;
use super::partition_rows::Cursor;

/// The rows of a frame: up to three runs of row numbers, in order and not empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FrameRows {
    runs: [(u64, u64); 3],
    count: usize,
}

impl FrameRows {
    /// Adds a run behind the others, unless the run is empty.
    fn push(&mut self, first: u64, end: u64) {
        if first < end
            && let Some(place) = self.runs.get_mut(self.count)
        {
            *place = (first, end);
            self.count += 1;
        }
    }

    /// Returns the runs, each with its first row and the row behind its last.
    pub(super) fn runs(&self) -> &[(u64, u64)] {
        &self.runs[..self.count]
    }

    pub(super) fn first(&self) -> Option<u64> {
        self.runs().first().map(|(first, _)| *first)
    }

    pub(super) fn last(&self) -> Option<u64> {
        self.runs().last().map(|(_, end)| end - 1)
    }

    /// Returns the number of rows.
    pub(super) fn len(&self) -> u64 {
        self.runs().iter().map(|(first, end)| end - first).sum()
    }

    /// Returns the row at this position, counted from 0.
    pub(super) fn nth(&self, mut position: u64) -> Option<u64> {
        for (first, end) in self.runs() {
            if position < end - first {
                return Some(first + position);
            }
            position -= end - first;
        }
        None
    }

    /// Calls `visit` with the runs of rows that are in this frame and not in the other.
    pub(super) fn without(
        &self,
        other: &Self,
        visit: &mut dyn FnMut(u64, u64) -> Result<()>,
    ) -> Result<()> {
        for (first, end) in self.runs() {
            let mut first = *first;
            for (cut, until) in other.runs() {
                if *until <= first || cut >= end {
                    continue;
                }
                if *cut > first {
                    visit(first, *cut)?;
                }
                first = *until;
            }
            if first < *end {
                visit(first, *end)?;
            }
        }
        Ok(())
    }
}

/// The position of the current row's frame.
#[derive(Default)]
pub(super) struct Frames {
    offsets: [Option<Datum>; 2],
    /// The first row of the frame, and the row behind its last, before exclusions.
    pub(super) head: u64,
    pub(super) tail: u64,
    /// The group of the current row, the group's first row, and the row behind its last, if known.
    pub(super) group: i64,
    pub(super) group_start: u64,
    group_end: Option<u64>,
    /// Set once the ends were moved for this group.
    settled: bool,
    cursors: [Cursor; 3],
    current: Cursor,
}

/// An end of a frame.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Head = 0,
    Tail = 1,
}

impl Frames {
    /// Evaluates the offsets, which are the same for all rows.
    ///
    /// # Errors
    /// `22004` for NULL; `22013` for a negative number of rows or groups.
    pub(super) fn begin(&mut self, window: &Window, rt: &mut Runtime<'_, '_>) -> Result<()> {
        let frame = &window.frame;
        for (end, bound, name) in
            [(End::Head, &frame.start, "starting"), (End::Tail, &frame.end, "ending")]
        {
            let Some(expr) = bound.offset() else { continue };
            let value = expr.eval(&[], rt)?;
            if value.is_null() {
                let message = format!("frame {name} offset must not be null");
                return Err(SqlError::new("22004", message));
            }
            if frame.mode != FrameMode::Range && matches!(value, Datum::Int8(..0)) {
                let message = format!("frame {name} offset must not be negative");
                return Err(SqlError::new("22013", message));
            }
            self.offsets[end as usize] = Some(value);
        }
        Ok(())
    }

    /// Resets the frames for another partition.
    pub(super) fn reset(&mut self) {
        (self.head, self.tail) = (0, 0);
        (self.group, self.group_start, self.group_end, self.settled) = (-1, 0, None, false);
        self.cursors.iter_mut().for_each(Cursor::reset);
        self.current.reset();
    }

    /// Goes on to the next row.
    pub(super) fn enter(&mut self, row: u64, partition: &Partition) -> Result<()> {
        let group = partition.group(&mut self.current, row)?;
        if group != self.group {
            (self.group, self.group_start) = (group, row);
            (self.group_end, self.settled) = (None, false);
        }
        Ok(())
    }

    /// Returns the row behind the last row of the current row's group.
    pub(super) fn group_end(
        &mut self,
        row: u64,
        partition: &mut Partition,
        window: &Window,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<u64> {
        if let Some(end) = self.group_end {
            return Ok(end);
        }
        let mut end = row + 1;
        if window.order.is_empty() {
            end = partition.count(window, rt)?;
        } else {
            while partition.reach(end, window, rt)?
                && partition.group(&mut self.cursors[2], end)? == self.group
            {
                end += 1;
            }
        }
        self.group_end = Some(end);
        Ok(end)
    }

    /// Returns the frame of the current row.
    pub(super) fn rows(
        &mut self,
        row: u64,
        partition: &mut Partition,
        window: &Window,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<FrameRows> {
        self.place(row, partition, window, rt)?;
        let (head, tail) = (self.head, self.tail);
        let mut rows = FrameRows::default();
        let cut = match window.frame.exclusion {
            Exclusion::None => {
                rows.push(head, tail);
                return Ok(rows);
            }
            Exclusion::CurrentRow => (row, row + 1),
            Exclusion::Group | Exclusion::Ties => {
                (self.group_start, self.group_end(row, partition, window, rt)?)
            }
        };
        rows.push(head, tail.min(cut.0));
        if window.frame.exclusion == Exclusion::Ties {
            rows.push(head.max(row), tail.min(row + 1));
        }
        rows.push(head.max(cut.1), tail);
        Ok(rows)
    }

    /// Moves both ends of the frame.
    fn place(
        &mut self,
        row: u64,
        partition: &mut Partition,
        window: &Window,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<()> {
        let frame = &window.frame;
        let by_rows = frame.mode == FrameMode::Rows;
        match &frame.start {
            Bound::UnboundedPreceding => self.head = 0,
            Bound::CurrentRow if by_rows => self.head = row,
            Bound::Preceding(_) if by_rows => {
                self.head = row.saturating_sub(self.rows_of(End::Head));
            }
            Bound::Following(_) if by_rows => {
                self.head = row.saturating_add(self.rows_of(End::Head));
            }
            Bound::CurrentRow => self.head = self.group_start,
            Bound::Preceding(_) | Bound::Following(_) => {
                self.advance(End::Head, row, partition, window, rt)?;
            }
            Bound::UnboundedFollowing => self.head = partition.count(window, rt)?,
        }
        match &frame.end {
            Bound::UnboundedFollowing => self.tail = partition.count(window, rt)?,
            Bound::CurrentRow if by_rows => self.tail = row + 1,
            Bound::Preceding(_) if by_rows => {
                self.tail = (row + 1).saturating_sub(self.rows_of(End::Tail));
            }
            Bound::Following(_) if by_rows => {
                let last = row.saturating_add(self.rows_of(End::Tail));
                self.tail = if partition.reach(last, window, rt)? {
                    last + 1
                } else {
                    partition.count(window, rt)?
                };
            }
            Bound::CurrentRow => self.tail = self.group_end(row, partition, window, rt)?,
            Bound::Preceding(_) | Bound::Following(_) => {
                self.advance(End::Tail, row, partition, window, rt)?;
            }
            Bound::UnboundedPreceding => self.tail = 0,
        }
        self.settled = true;
        Ok(())
    }

    /// Returns an offset of ROWS or GROUPS.
    fn rows_of(&self, end: End) -> u64 {
        match &self.offsets[end as usize] {
            Some(Datum::Int8(rows)) => u64::try_from(*rows).unwrap_or(0),
            _ => 0,
        }
    }

    /// Moves an end of a frame in GROUPS or RANGE mode on to its place for the current row. All
    /// rows of a group share this place.
    fn advance(
        &mut self,
        end: End,
        row: u64,
        partition: &mut Partition,
        window: &Window,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<()> {
        if self.settled {
            return Ok(());
        }
        let bound = if end == End::Head { &window.frame.start } else { &window.frame.end };
        let back = matches!(bound, Bound::Preceding(_));
        let mut at = if end == End::Head { self.head } else { self.tail };
        let key = window.order.first();
        let base = match (window.frame.mode, key) {
            (FrameMode::Range, Some(key)) => {
                key.expr.eval(partition.row(&mut self.current, row)?, rt)?
            }
            _ => Datum::Null,
        };
        let groups = i64::try_from(self.rows_of(end)).unwrap_or(i64::MAX);
        let wanted = if back {
            self.group.saturating_sub(groups)
        } else {
            self.group.saturating_add(groups)
        };
        while partition.reach(at, window, rt)? {
            rt.tick()?;
            let cursor = &mut self.cursors[end as usize];
            let passes = match (window.frame.mode, key) {
                (FrameMode::Range, Some(key)) => {
                    let value = key.expr.eval(partition.row(cursor, at)?, rt)?;
                    let place = Distance { end, back, offset: &self.offsets[end as usize] };
                    place.passes(&value, &base, &key.expr, (key.descending, key.nulls_first), rt)?
                }
                _ if end == End::Head => partition.group(cursor, at)? < wanted,
                _ => partition.group(cursor, at)? <= wanted,
            };
            if !passes {
                break;
            }
            at += 1;
        }
        match end {
            End::Head => self.head = at,
            End::Tail => self.tail = at,
        }
        Ok(())
    }
}

/// An end of a frame, at a distance from the current row's value.
struct Distance<'o> {
    end: End,
    back: bool,
    offset: &'o Option<Datum>,
}

impl Distance<'_> {
    /// Decides whether the end lies behind a row with this value. NULLs are near to each other and
    /// far from all other values.
    fn passes(
        &self,
        value: &Datum,
        base: &Datum,
        key: &Expr,
        (descending, nulls_first): (bool, bool),
        rt: &Runtime<'_, '_>,
    ) -> Result<bool> {
        match (value.is_null(), base.is_null(), self.end) {
            (false, false, _) => {}
            (true, true, end) => return Ok(end == End::Tail),
            // The row stands before the current row if NULLs come first and the row's value is
            // NULL, or the other way round.
            (value_is_null, ..) => return Ok(value_is_null == nulls_first),
        }
        let Some(offset) = self.offset else {
            return Err(SqlError::internal("a frame without its offset"));
        };
        let at_most = (self.end == End::Tail) != descending;
        let side = Side { minus: self.back != descending, at_most };
        let inside = within(key.ty, (value, base, offset), side, &rt.exec.text.zone)?;
        Ok(inside == (self.end == End::Tail))
    }
}
