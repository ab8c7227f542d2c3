//! The states of the calls over a window.

use niwaki_expr::expr::{Expr, ExprKind, Runtime};
use niwaki_expr::function::WindowFunction as W;
use niwaki_expr::query::{AggregateCall, Bound, Exclusion, Window, WindowBody, is_volatile};
use niwaki_functions::aggregates::Accumulator;
use niwaki_parse::error::{Result, SqlError};
use niwaki_types::{Datum, TypeOid};

use super::frame::{FrameRows, Frames};
use super::partition::Partition;
use super::partition_rows::Cursor;

/// The row for which a value is wanted, and the row's frame.
pub(super) struct Place<'p> {
    pub(super) row: u64,
    pub(super) window: &'p Window,
    pub(super) partition: &'p mut Partition,
    pub(super) frames: &'p mut Frames,
}

impl Place<'_> {
    fn frame(&mut self, rt: &mut Runtime<'_, '_>) -> Result<FrameRows> {
        self.frames.rows(self.row, self.partition, self.window, rt)
    }

    fn count(&mut self, rt: &mut Runtime<'_, '_>) -> Result<u64> {
        self.partition.count(self.window, rt)
    }
}

/// The state of a call in the partition at hand.
pub(super) enum CallState {
    /// A call whose value follows from the row's number and group.
    Number,
    /// `ntile`: the first row with a number of buckets, and that number.
    Buckets(Option<(u64, u64)>, Cursor),
    /// A call that returns a value of another row, with that row's number.
    Value(Option<(u64, Datum)>, Cursor),
    Aggregate(Box<AggregateState>),
}

impl CallState {
    pub(super) fn new(body: &WindowBody) -> Self {
        match body {
            WindowBody::Function(W::Ntile, _) => Self::Buckets(None, Cursor::default()),
            WindowBody::Function(
                W::Lag | W::Lead | W::FirstValue | W::LastValue | W::NthValue,
                _,
            ) => Self::Value(None, Cursor::default()),
            WindowBody::Function(..) => Self::Number,
            WindowBody::Aggregate(call) => Self::Aggregate(Box::new(AggregateState::new(call))),
        }
    }

    /// Resets the state for another partition.
    pub(super) fn reset(&mut self, body: &WindowBody, rt: &mut Runtime<'_, '_>) {
        if let Self::Aggregate(state) = self {
            state.discharge(rt);
        }
        *self = Self::new(body);
    }

    /// Returns the value for the current row.
    pub(super) fn value(
        &mut self,
        body: &WindowBody,
        place: &mut Place<'_>,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<Datum> {
        match (self, body) {
            (Self::Number, WindowBody::Function(function, _)) => rank(*function, place, rt),
            (Self::Buckets(known, cursor), WindowBody::Function(_, arguments)) => {
                ntile(known, cursor, arguments, place, rt)
            }
            (Self::Value(known, cursor), WindowBody::Function(function, arguments)) => {
                match function {
                    W::Lag | W::Lead => neighbour(*function, cursor, arguments, place, rt),
                    _ => value_of_frame(*function, known, cursor, arguments, place, rt),
                }
            }
            (Self::Aggregate(state), WindowBody::Aggregate(call)) => {
                let frame = place.frame(rt)?;
                state.result(call, frame, place, rt)
            }
            _ => Err(SqlError::internal("a window function with another's state")),
        }
    }

    /// Returns the first row that the call may still need once the current row `row` is done.
    pub(super) fn needs(
        &self,
        body: &WindowBody,
        row: u64,
        window: &Window,
        frames: &Frames,
    ) -> u64 {
        let frame = &window.frame;
        let still =
            matches!(frame.start, Bound::UnboundedPreceding) && frame.exclusion == Exclusion::None;
        match (self, body) {
            (Self::Value(known, _), WindowBody::Function(function, arguments)) => match function {
                W::Lag | W::Lead => match distance(arguments) {
                    Some(distance) if (*function == W::Lag) == (distance > 0) => {
                        row.saturating_sub(distance.unsigned_abs())
                    }
                    Some(_) => row,
                    None => 0,
                },
                // The first row of the frame stays the first, and its value is remembered.
                W::FirstValue if still && known.is_some() && !volatile(arguments) => row,
                W::LastValue if frame.exclusion == Exclusion::None => {
                    row.min(frames.tail.saturating_sub(1))
                }
                _ => row.min(frames.head),
            },
            (Self::Aggregate(state), _) => {
                let taken = state.rows.runs();
                match taken.first() {
                    Some((_, end)) if still => row.min(*end),
                    Some((first, _)) => row.min(*first).min(frames.head),
                    None => row.min(frames.head),
                }
            }
            _ => row,
        }
    }
}

/// Decides whether a function depends on its row's frame and not on the whole partition.
pub(super) fn sees_frame(body: &WindowBody) -> bool {
    match body {
        WindowBody::Function(function, _) => {
            matches!(function, W::FirstValue | W::LastValue | W::NthValue)
        }
        WindowBody::Aggregate(_) => true,
    }
}

fn volatile(arguments: &[Expr]) -> bool {
    arguments.iter().any(is_volatile)
}

/// Returns the distance of a lag or lead, if it is the same for all rows.
fn distance(arguments: &[Expr]) -> Option<i64> {
    match arguments.get(1).map(|offset| &offset.kind) {
        None => Some(1),
        Some(ExprKind::Const(Datum::Int4(offset))) => Some(i64::from(*offset)),
        Some(_) => None,
    }
}

fn int8(number: u64) -> Datum {
    Datum::Int8(i64::try_from(number).unwrap_or(i64::MAX))
}

/// Computes a value from a row's position among the other rows.
fn rank(function: W, place: &mut Place<'_>, rt: &mut Runtime<'_, '_>) -> Result<Datum> {
    let start = place.frames.group_start;
    Ok(match function {
        W::RowNumber => int8(place.row + 1),
        W::Rank => int8(start + 1),
        W::DenseRank => Datum::Int8(place.frames.group + 1),
        W::PercentRank => match place.count(rt)? {
            1 => Datum::Float8(0.0),
            count => Datum::Float8(start as f64 / (count - 1) as f64),
        },
        _ => {
            let end = place.frames.group_end(place.row, place.partition, place.window, rt)?;
            Datum::Float8(end as f64 / place.count(rt)? as f64)
        }
    })
}

/// Computes `ntile`: the buckets have equally many rows, except that the first buckets have one
/// more row each for the remainder.
fn ntile(
    known: &mut Option<(u64, u64)>,
    cursor: &mut Cursor,
    arguments: &[Expr],
    place: &mut Place<'_>,
    rt: &mut Runtime<'_, '_>,
) -> Result<Datum> {
    let count = place.count(rt)?;
    if known.is_none() {
        let row = place.partition.row(cursor, place.row)?;
        let Some(buckets) = argument(arguments, 0, row, rt)? else { return Ok(Datum::Null) };
        let buckets = u64::try_from(buckets)
            .ok()
            .filter(|buckets| *buckets > 0)
            .ok_or_else(|| SqlError::new("22014", "argument of ntile must be greater than zero"))?;
        *known = Some((place.row, buckets));
    }
    let Some((first, buckets)) = *known else { return Ok(Datum::Null) };
    let (size, larger) = (count / buckets, count % buckets);
    let at = place.row - first;
    let in_larger = larger * (size + 1);
    let bucket =
        if at < in_larger { at / (size + 1) } else { larger + (at - in_larger) / size.max(1) };
    Ok(Datum::Int4(i32::try_from(bucket + 1).unwrap_or(i32::MAX)))
}

/// Evaluates an integer argument on a row; `None` for NULL.
fn argument(
    arguments: &[Expr],
    number: usize,
    row: &[Datum],
    rt: &mut Runtime<'_, '_>,
) -> Result<Option<i32>> {
    let Some(expr) = arguments.get(number) else { return Ok(None) };
    match expr.eval(row, rt)? {
        Datum::Int4(value) => Ok(Some(value)),
        Datum::Null => Ok(None),
        _ => Err(SqlError::internal("a window function was given values of other types")),
    }
}

/// Computes `lag` and `lead`.
fn neighbour(
    function: W,
    cursor: &mut Cursor,
    arguments: &[Expr],
    place: &mut Place<'_>,
    rt: &mut Runtime<'_, '_>,
) -> Result<Datum> {
    let Some(value) = arguments.first() else { return Ok(Datum::Null) };
    let offset = match distance(arguments) {
        Some(offset) => offset,
        None => match argument(arguments, 1, place.partition.row(cursor, place.row)?, rt)? {
            Some(offset) => i64::from(offset),
            None => return Ok(Datum::Null),
        },
    };
    let offset = if function == W::Lag { -offset } else { offset };
    if let Some(wanted) = place.row.checked_add_signed(offset)
        && place.partition.reach(wanted, place.window, rt)?
    {
        return value.eval(place.partition.row(cursor, wanted)?, rt);
    }
    match arguments.get(2) {
        Some(default) => default.eval(place.partition.row(cursor, place.row)?, rt),
        None => Ok(Datum::Null),
    }
}

/// Computes `first_value`, `last_value` and `nth_value`.
fn value_of_frame(
    function: W,
    known: &mut Option<(u64, Datum)>,
    cursor: &mut Cursor,
    arguments: &[Expr],
    place: &mut Place<'_>,
    rt: &mut Runtime<'_, '_>,
) -> Result<Datum> {
    let Some(value) = arguments.first() else { return Ok(Datum::Null) };
    let wanted = match function {
        W::FirstValue => place.frame(rt)?.first(),
        W::LastValue => place.frame(rt)?.last(),
        _ => {
            let row = place.partition.row(cursor, place.row)?;
            let Some(position) = argument(arguments, 1, row, rt)? else { return Ok(Datum::Null) };
            let position =
                u64::try_from(position).ok().and_then(|p| p.checked_sub(1)).ok_or_else(|| {
                    SqlError::new("22016", "argument of nth_value must be greater than zero")
                })?;
            place.frame(rt)?.nth(position)
        }
    };
    let Some(wanted) = wanted else { return Ok(Datum::Null) };
    if let Some((row, value)) = known
        && *row == wanted
        && !volatile(arguments)
    {
        return Ok(value.clone());
    }
    let found = value.eval(place.partition.row(cursor, wanted)?, rt)?;
    *known = Some((wanted, found.clone()));
    Ok(found)
}

/// The state of an aggregate over the frame.
///
/// A frame that begins at the partition's start and excludes nothing only grows, and each row is
/// taken once.
///
/// Rows that leave the frame are taken out of the state, if that gives exactly the same result as a
/// new state without them. This holds for counts, sums, averages and variances of integers.
///
/// All other aggregates are computed anew for each frame, which takes as many steps as the frames
/// have rows. PostgreSQL does the same for `min`, `max`, floats and all aggregates without an
/// inverse.
pub(super) struct AggregateState {
    types: Vec<TypeOid>,
    state: Accumulator,
    /// The rows in the state, and the number of them that counted.
    rows: FrameRows,
    counted: u64,
    result: Option<Datum>,
    /// Bytes charged to the statement.
    charged: usize,
    reversible: bool,
    cursor: Cursor,
}

impl AggregateState {
    fn new(call: &AggregateCall) -> Self {
        let types: Vec<TypeOid> = call.arguments.iter().map(|argument| argument.ty).collect();
        let state = Accumulator::new(call.kind, &types);
        let volatile = volatile(&call.arguments) || call.filter.as_ref().is_some_and(is_volatile);
        let reversible = state.is_reversible() && !volatile;
        Self {
            types,
            state,
            rows: FrameRows::default(),
            counted: 0,
            result: None,
            charged: 0,
            reversible,
            cursor: Cursor::default(),
        }
    }

    fn discharge(&mut self, rt: &mut Runtime<'_, '_>) {
        rt.state.memory = rt.state.memory.saturating_sub(std::mem::take(&mut self.charged));
    }

    fn result(
        &mut self,
        call: &AggregateCall,
        frame: FrameRows,
        place: &Place<'_>,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<Datum> {
        if let Some(result) = &self.result
            && frame == self.rows
        {
            return Ok(result.clone());
        }
        let (old, new) = (self.rows.runs(), frame.runs());
        let grows = match (old, new) {
            ([], _) => true,
            ([(a, b)], [(c, d)]) => a == c && b <= d,
            _ => false,
        };
        if grows {
            let from = old.first().map(|(_, end)| *end);
            for (number, run) in new.iter().enumerate() {
                let first = from.filter(|_| number == 0).unwrap_or(run.0);
                self.change(call, (first, run.1), true, place, rt)?;
            }
        } else if self.reversible && self.changes(&frame) <= frame.len() {
            let before = self.rows;
            // New rows come in before old rows go out: a sum of nothing would begin anew.
            frame.without(&before, &mut |first, end| {
                self.change(call, (first, end), true, place, rt)
            })?;
            before.without(&frame, &mut |first, end| {
                self.change(call, (first, end), false, place, rt)
            })?;
        } else {
            self.begin(call, rt);
            for run in frame.runs() {
                self.change(call, *run, true, place, rt)?;
            }
        }
        self.rows = frame;
        let result = self.state.clone().finish()?;
        self.result = Some(result.clone());
        Ok(result)
    }

    /// Returns the number of rows that come in or go out.
    fn changes(&self, frame: &FrameRows) -> u64 {
        let mut count = 0;
        let mut add = |first: u64, end: u64| {
            count += end - first;
            Ok(())
        };
        // The visit cannot fail.
        let _ = frame.without(&self.rows, &mut add);
        let _ = self.rows.without(frame, &mut add);
        count
    }

    /// Goes back to the state before the first row.
    fn begin(&mut self, call: &AggregateCall, rt: &mut Runtime<'_, '_>) {
        self.discharge(rt);
        self.state = Accumulator::new(call.kind, &self.types);
        self.counted = 0;
    }

    /// Takes rows in, or out.
    fn change(
        &mut self,
        call: &AggregateCall,
        (first, end): (u64, u64),
        add: bool,
        place: &Place<'_>,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<()> {
        let mut values: Vec<Datum> = Vec::with_capacity(call.arguments.len());
        let mut cursor = std::mem::take(&mut self.cursor);
        let mut number = first;
        while number < end {
            // In frames with many rows, the partition returns as many rows as possible at once.
            let left = usize::try_from(end - number).unwrap_or(usize::MAX);
            for row in place.partition.rows_from(&mut cursor, number)?.take(left) {
                number += 1;
                rt.tick()?;
                if let Some(filter) = &call.filter
                    && !filter.holds(row, rt)?
                {
                    continue;
                }
                values.clear();
                for argument in &call.arguments {
                    values.push(argument.eval(row, rt)?);
                }
                self.change_by(call, &values, add, rt)?;
            }
        }
        self.cursor = cursor;
        Ok(())
    }

    /// Takes the arguments of one row in, or out.
    fn change_by(
        &mut self,
        call: &AggregateCall,
        values: &[Datum],
        add: bool,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<()> {
        let counts = values.first().is_none_or(|value| !value.is_null());
        if add {
            self.counted += u64::from(counts);
            let before = self.state.bytes();
            self.state.add(values, rt.exec)?;
            let grown = self.state.bytes().saturating_sub(before);
            if grown > 0 && self.state.grows() {
                self.charged += grown;
                rt.charge(grown)?;
            }
        } else if counts {
            self.counted -= 1;
            if self.counted == 0 {
                self.begin(call, rt);
            } else {
                self.state.remove(values)?;
            }
        }
        Ok(())
    }
}
