//! Evaluates one expression over many rows at a time.
//!
//! Some kinds decide whether another part is evaluated at all (AND, OR, CASE, COALESCE). They
//! narrow the rows for that part. So an expression fails for a row only if it fails when that row
//! is evaluated alone.
//!
//! Functions with a kernel (`kernels`) are computed by the kernel. All other functions run row by
//! row.

mod compare;
mod kernels;

use std::borrow::Cow;

use niwaki_env::stack;
use niwaki_parse::error::{Result, SqlError};
use niwaki_types::{Datum, KeyOrder, TypeOid, Vector, VectorData, encode_key};

use super::eval::{missing_parameter, outer_slot};
use super::{BoolTest, Expr, ExprKind, Runtime, value_lists};
use crate::function::{Eval, Function};

/// The longest array whose elements are compared with all rows one element at a time.
const ELEMENTS_MAX: usize = 16;

/// Rows of one query level, column by column.
#[derive(Debug, Default)]
pub struct Batch {
    /// The number of rows.
    pub rows: usize,
    /// The values by slot; a slot that nothing reads is empty.
    pub columns: Vec<Vector>,
}

/// Some rows of a batch, in ascending order.
#[derive(Clone, Copy, Debug)]
pub enum Rows<'s> {
    /// All rows of the batch: the first rows, up to this number.
    All(usize),
    /// The rows with these numbers.
    Some(&'s [u32]),
}

impl Rows<'_> {
    /// Returns the number of rows.
    #[inline]
    pub fn len(self) -> usize {
        match self {
            Self::All(count) => count,
            Self::Some(rows) => rows.len(),
        }
    }

    /// Decides whether there is no row.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Returns the number of the row at this position.
    #[inline]
    pub fn number(self, position: usize) -> usize {
        match self {
            Self::All(_) => position,
            Self::Some(rows) => rows[position] as usize,
        }
    }

    /// Returns the numbers of the rows at these positions.
    fn narrowed(self, positions: &[u32]) -> Vec<u32> {
        match self {
            Self::All(_) => positions.to_vec(),
            Self::Some(rows) => positions.iter().map(|at| rows[*at as usize]).collect(),
        }
    }
}

/// The values of an expression over some rows.
#[derive(Clone, Debug)]
pub enum Values<'b> {
    /// One value for each requested row.
    Each(Cow<'b, Vector>),
    /// The same value for all rows.
    One(Datum),
}

impl Values<'_> {
    fn owned(vector: Vector) -> Self {
        Self::Each(Cow::Owned(vector))
    }

    /// Returns the value at a position among the requested rows.
    #[inline]
    pub fn get(&self, position: usize) -> Datum {
        match self {
            Self::Each(vector) => vector.get(position),
            Self::One(value) => value.clone(),
        }
    }

    /// Decides whether the value at a position is NULL.
    #[inline]
    pub fn is_null(&self, position: usize) -> bool {
        match self {
            Self::Each(vector) => vector.is_null(position),
            Self::One(value) => value.is_null(),
        }
    }

    /// Appends the index key of the value at a position.
    #[inline]
    pub fn encode_key(&self, position: usize, order: KeyOrder, out: &mut Vec<u8>) {
        match self {
            Self::Each(vector) => vector.encode_key(position, order, out),
            Self::One(value) => encode_key(value, order, out),
        }
    }

    /// Returns the truth of a condition at a position: true, false or unknown (`None`).
    #[inline]
    fn truth(&self, position: usize) -> Option<bool> {
        match self {
            Self::Each(vector) => match vector.data() {
                VectorData::Bool(values) if !vector.is_null(position) => Some(values[position]),
                VectorData::Bool(_) => None,
                _ => truth(&vector.get(position)),
            },
            Self::One(value) => truth(value),
        }
    }
}

fn truth(value: &Datum) -> Option<bool> {
    match value {
        Datum::Bool(value) => Some(*value),
        _ => None,
    }
}

/// Decides whether the array with this number has a table, so that values are looked up and not
/// compared one by one.
fn has_table(number: u32, left: &Expr, right: &Expr, rt: &mut Runtime<'_, '_>) -> Result<bool> {
    Ok(value_lists::known(number, left, right, rt)?.values().is_none())
}

/// Makes a vector of booleans, some of them unknown.
fn booleans(values: impl Iterator<Item = Option<bool>>) -> Vector {
    let (mut known, mut nulls, mut any) = (Vec::new(), Vec::new(), false);
    for value in values {
        any |= value.is_none();
        known.push(value.unwrap_or(false));
        nulls.push(value.is_none());
    }
    if !any {
        nulls.clear();
    }
    Vector::with_nulls(VectorData::Bool(known), nulls)
}

impl Expr {
    /// Keeps the rows of `rows` for which a condition holds. Their numbers replace the contents of
    /// `kept`.
    ///
    /// # Errors
    /// The errors of the evaluation.
    pub fn select(
        &self,
        batch: &Batch,
        rows: Rows<'_>,
        kept: &mut Vec<u32>,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<()> {
        kept.clear();
        if let ExprKind::And(parts) = &self.kind
            && let Some((first, others)) = parts.split_first()
        {
            first.select(batch, rows, kept, rt)?;
            let mut left = Vec::new();
            for part in others {
                // An unknown part rejects a row just as a false part does, and leaves the parts
                // behind it unevaluated.
                std::mem::swap(&mut left, kept);
                part.select(batch, Rows::Some(&left), kept, rt)?;
            }
            return Ok(());
        }
        let values = self.eval_rows(batch, rows, rt)?;
        if let Values::One(value) = &values {
            if truth(value) == Some(true) {
                kept.extend((0..rows.len()).map(|at| rows.number(at) as u32));
            }
            return Ok(());
        }
        let holding = (0..rows.len()).filter(|at| values.truth(*at) == Some(true));
        kept.extend(holding.map(|at| rows.number(at) as u32));
        Ok(())
    }

    /// Returns the values for some rows of a batch, in the rows' order.
    ///
    /// # Errors
    /// The errors of the evaluation; `54001` where the expression nests too deeply.
    pub fn eval_rows<'b>(
        &'b self,
        batch: &'b Batch,
        rows: Rows<'_>,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<Values<'b>> {
        stack::deeper(|| self.eval_rows_here(batch, rows, rt))
    }

    fn eval_rows_here<'b>(
        &'b self,
        batch: &'b Batch,
        rows: Rows<'_>,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<Values<'b>> {
        if rows.is_empty() {
            return Ok(Values::owned(Vector::for_type(self.ty)));
        }
        match &self.kind {
            ExprKind::Const(value) => Ok(Values::One(value.clone())),
            ExprKind::Param(number) => {
                let value = rt.params.get(*number).cloned();
                value.map(Values::One).ok_or_else(|| missing_parameter(*number))
            }
            ExprKind::Slot { depth: 0, slot } => {
                let vector = batch.columns.get(*slot).filter(|vector| vector.len() == batch.rows);
                let vector = vector
                    .ok_or_else(|| SqlError::internal(format!("slot {slot} was not read")))?;
                Ok(Values::Each(match rows {
                    Rows::All(_) => Cow::Borrowed(vector),
                    Rows::Some(rows) => Cow::Owned(vector.take(rows)),
                }))
            }
            ExprKind::Slot { depth, slot } => outer_slot(rt.state, *depth, *slot).map(Values::One),
            ExprKind::Call { function, arguments } => {
                if matches!(function.eval, Eval::Unary(_) | Eval::Binary(_))
                    && kernels::has_kernel(function)
                {
                    let operands = arguments
                        .iter()
                        .map(|argument| argument.eval_rows(batch, rows, rt))
                        .collect::<Result<Vec<Values<'_>>>>()?;
                    if let Some(vector) = kernels::call(function, &operands, rows.len())? {
                        return Ok(Values::owned(vector));
                    }
                }
                self.eval_each(batch, rows, rt)
            }
            ExprKind::Cast { argument, from, .. } if kernels::casts(*from, self.ty) => {
                let values = argument.eval_rows(batch, rows, rt)?;
                match kernels::cast(&values, self.ty) {
                    Some(vector) => Ok(Values::owned(vector)),
                    None => self.eval_each(batch, rows, rt),
                }
            }
            ExprKind::ArrayCompare { any, left, right, list: Some(number), .. }
                if has_table(*number, left, right, rt)? =>
            {
                let list = value_lists::known(*number, left, right, rt)?;
                let values = left.eval_rows(batch, rows, rt)?;
                match list.contains_each(&values, rows.len(), left.ty, rt) {
                    Some(found) => {
                        let found = found.into_iter().map(|one| one.map(|one| one == *any));
                        Ok(Values::owned(booleans(found)))
                    }
                    None => self.eval_each(batch, rows, rt),
                }
            }
            ExprKind::ArrayCompare { function, any: true, left, right, .. }
                if kernels::has_kernel(function) =>
            {
                match self.eval_any(function, left, right, batch, rows, rt)? {
                    Some(vector) => Ok(Values::owned(vector)),
                    None => self.eval_each(batch, rows, rt),
                }
            }
            ExprKind::And(parts) => self.eval_parts(parts, true, batch, rows, rt),
            ExprKind::Or(parts) => self.eval_parts(parts, false, batch, rows, rt),
            ExprKind::Not(part) => {
                let values = part.eval_rows(batch, rows, rt)?;
                let negated = (0..rows.len()).map(|at| values.truth(at).map(|truth| !truth));
                Ok(Values::owned(booleans(negated)))
            }
            ExprKind::IsNull { argument, negated } => {
                let values = argument.eval_rows(batch, rows, rt)?;
                let found = (0..rows.len()).map(|at| Some(values.is_null(at) != *negated));
                Ok(Values::owned(booleans(found)))
            }
            ExprKind::BoolTest { argument, test } => {
                let values = argument.eval_rows(batch, rows, rt)?;
                let found = (0..rows.len()).map(|at| {
                    let value = values.truth(at);
                    Some(match test {
                        BoolTest::True => value == Some(true),
                        BoolTest::NotTrue => value != Some(true),
                        BoolTest::False => value == Some(false),
                        BoolTest::NotFalse => value != Some(false),
                        BoolTest::Unknown => value.is_none(),
                        BoolTest::NotUnknown => value.is_some(),
                    })
                });
                Ok(Values::owned(booleans(found)))
            }
            ExprKind::Case { operand: None, branches, default } => {
                self.eval_case(branches, default.as_deref(), batch, rows, rt)
            }
            _ => self.eval_each(batch, rows, rt),
        }
    }

    /// Evaluates AND (`all`) or OR. Each part is evaluated for the rows that the parts before it
    /// have not decided.
    fn eval_parts<'b>(
        &self,
        parts: &[Expr],
        all: bool,
        batch: &Batch,
        rows: Rows<'_>,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<Values<'b>> {
        let mut results = vec![Some(all); rows.len()];
        let mut open: Vec<u32> = (0..rows.len() as u32).collect();
        for part in parts {
            let numbers = rows.narrowed(&open);
            let values = part.eval_rows(batch, Rows::Some(&numbers), rt)?;
            let mut position = 0;
            open.retain(|at| {
                let truth = values.truth(position);
                position += 1;
                if truth != Some(all) {
                    // False decides AND, and true decides OR. Unknown stays, unless a later part
                    // decides.
                    results[*at as usize] = truth;
                }
                truth != Some(!all)
            });
        }
        Ok(Values::owned(booleans(results.into_iter())))
    }

    /// Evaluates CASE without an operand. Each result is evaluated for the rows for which its
    /// condition is the first that holds.
    fn eval_case<'b>(
        &self,
        branches: &[(Expr, Expr)],
        default: Option<&Expr>,
        batch: &Batch,
        rows: Rows<'_>,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<Values<'b>> {
        let mut results: Vec<(Values<'_>, Vec<u32>)> = Vec::new();
        let mut open: Vec<u32> = (0..rows.len() as u32).collect();
        for (condition, result) in branches {
            let numbers = rows.narrowed(&open);
            let values = condition.eval_rows(batch, Rows::Some(&numbers), rt)?;
            let (mut chosen, mut others) = (Vec::new(), Vec::new());
            for (position, at) in open.iter().enumerate() {
                let side =
                    if values.truth(position) == Some(true) { &mut chosen } else { &mut others };
                side.push(*at);
            }
            let numbers = rows.narrowed(&chosen);
            results.push((result.eval_rows(batch, Rows::Some(&numbers), rt)?, chosen));
            open = others;
        }
        if let Some(default) = default {
            let numbers = rows.narrowed(&open);
            results.push((default.eval_rows(batch, Rows::Some(&numbers), rt)?, open));
        }
        // For each row, `places` has the number of its result and the position in that result.
        let mut places: Vec<Option<(usize, usize)>> = vec![None; rows.len()];
        for (number, (_, positions)) in results.iter().enumerate() {
            for (position, at) in positions.iter().enumerate() {
                places[*at as usize] = Some((number, position));
            }
        }
        let mut vector = Vector::for_type(self.ty);
        for place in places {
            match place {
                Some((number, position)) => match &results[number].0 {
                    Values::Each(values) => vector.push_from(values, position),
                    Values::One(value) => vector.push(value),
                },
                None => vector.push_null(),
            }
        }
        Ok(Values::owned(vector))
    }

    /// Evaluates `left = ANY (right)`, for any operator with a kernel, if the array is short and
    /// the same for all rows.
    fn eval_any(
        &self,
        function: &Function,
        left: &Expr,
        right: &Expr,
        batch: &Batch,
        rows: Rows<'_>,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<Option<Vector>> {
        let reads_rows = |part: &Expr| match part.kind {
            ExprKind::Slot { depth, .. } => depth == 0,
            ExprKind::SubQuery(_) | ExprKind::CaseOperand => true,
            _ => false,
        };
        if right.any(&mut |part| reads_rows(part)) {
            return Ok(None);
        }
        let Datum::Array(_, elements) = right.eval(&[], rt)? else { return Ok(None) };
        if elements.iter().count() > ELEMENTS_MAX {
            return Ok(None);
        }
        let mut operands = [left.eval_rows(batch, rows, rt)?, Values::One(Datum::Null)];
        let mut results = vec![Some(false); rows.len()];
        for element in elements.iter() {
            operands[1] = Values::One(element.clone());
            let Some(found) = kernels::call(function, &operands, rows.len())? else {
                return Ok(None);
            };
            let found = Values::owned(found);
            for (at, result) in results.iter_mut().enumerate() {
                *result = match (*result, found.truth(at)) {
                    (Some(true), _) | (_, Some(true)) => Some(true),
                    (None, _) | (_, None) => None,
                    _ => Some(false),
                };
            }
        }
        Ok(Some(booleans(results.into_iter())))
    }

    /// Evaluates row by row.
    fn eval_each<'b>(
        &self,
        batch: &Batch,
        rows: Rows<'_>,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<Values<'b>> {
        let slots = self.slots_read(batch);
        let mut row = vec![Datum::Null; slots.last().map_or(0, |slot| slot + 1)];
        let mut vector = Vector::for_type(self.ty);
        for at in 0..rows.len() {
            rt.tick()?;
            let number = rows.number(at);
            for slot in &slots {
                row[*slot] = batch.columns[*slot].get(number);
            }
            let value = self.eval(&row, rt)?;
            vector.push(&value);
        }
        Ok(Values::owned(vector))
    }

    /// Returns the slots of the batch that an evaluation of this expression may read, in ascending
    /// order.
    fn slots_read(&self, batch: &Batch) -> Vec<usize> {
        let mut wanted = Vec::new();
        let mut nested = false;
        self.any(&mut |part| {
            match part.kind {
                ExprKind::Slot { depth: 0, slot } => wanted.push(slot),
                // A nested query may read any slot.
                ExprKind::SubQuery(_) => nested = true,
                _ => {}
            }
            false
        });
        if nested {
            wanted = (0..batch.columns.len()).collect();
        }
        wanted.sort_unstable();
        wanted.dedup();
        wanted.retain(|slot| batch.columns.get(*slot).is_some_and(|v| v.len() == batch.rows));
        wanted
    }

    /// Decides whether many rows may be evaluated before the first of them is used.
    pub fn may_run_ahead(&self) -> bool {
        !crate::query::is_volatile(self)
    }
}

/// Decides whether a type's values are plain texts to the kernels.
pub(super) fn is_plain_text(oid: TypeOid) -> bool {
    // char(n) is compared without its trailing blanks.
    matches!(oid, TypeOid::TEXT | TypeOid::VARCHAR | TypeOid::NAME)
}
