//! Evaluates one expression over one row.

use std::sync::Arc;

use niwaki_catalog::Relation;
use niwaki_env::stack;
use niwaki_env::sync::atomic::{AtomicBool, Ordering};
use niwaki_parse::error::{Result, SqlError};
use niwaki_parse::types::format_oid;
use niwaki_table::{KeyedRows, SortSpace, Sorter, TempSpace};
use niwaki_types::{Array, Datum, Record, TypeOid, compare, work};

use super::json_records::populated;
use super::measure::Measures;
use super::nested::hashed_values::HashedValues;
use super::nested::shared_rows::SharedRows;
use super::nested::{self, Executor};
use super::value_lists::{self, ValueList};
use super::{
    BoolTest, CastPurpose, Expr, ExprKind, RowValue, cast_compared, cast_value, coerce_length,
};
use crate::context::ExecContext;
use crate::function::{Eval, Function};
use crate::plan::FunctionBodies;
use crate::spool::Tuplestore;

/// The context that expressions read besides their row.
pub struct Runtime<'r, 'c> {
    /// The context of the statement.
    pub exec: &'r mut ExecContext<'c>,
    /// The values of the parameters.
    pub params: &'r [Datum],
    /// The state of the statement.
    pub state: &'r mut State,
}

/// A row of an enclosing query, kept while a nested query runs for the row.
pub(crate) type OuterRow = Vec<Datum>;

/// The state that an execution keeps between rows.
#[derive(Default)]
pub struct State {
    /// Rows of the enclosing queries, outermost first.
    pub outer: Vec<OuterRow>,
    /// Operands of the CASE expressions being evaluated, innermost last.
    pub case_operands: Vec<Datum>,
    /// Rows of queries that assign several columns of the row being computed, by the queries'
    /// places in the text.
    pub assigned: Vec<(i32, Vec<Datum>)>,
    /// Results of nested queries that do not depend on outer rows, by number of the nested query.
    pub results: Vec<Option<Arc<Vec<Vec<Datum>>>>>,
    /// Hashed values of such nested queries, for `= ANY` look-ups.
    pub(crate) hashed: Vec<Option<HashedValues>>,
    /// Arrays that rows look up values in, by their numbers in the plan.
    pub(crate) lists: Vec<Option<Arc<ValueList>>>,
    /// The key of a look-up in one of these arrays.
    pub(crate) list_key: Vec<u8>,
    /// Rows of WITH queries that do not depend on outer rows, by the query's number.
    pub(crate) shared: Vec<Option<SharedRows>>,
    /// Working rows of recursive queries, by the numbers of the WITH queries.
    pub working: Vec<Option<Tuplestore>>,
    /// Rows since the last check for interrupts.
    pub(crate) ticks: u32,
    /// A flag that is true once another thread of a parallel step has failed.
    pub halted: Option<Arc<AtomicBool>>,
    /// Bytes of memory that cannot go to temporary files.
    pub memory: usize,
    /// Rows that INSERT, UPDATE or DELETE changed.
    pub modified: u64,
    /// The executor of nested queries and users' functions; `None` outside of statements.
    pub executor: Option<&'static dyn Executor>,
    /// Bodies of the users' functions that the statement calls.
    pub functions: Option<Arc<FunctionBodies>>,
    /// Set once a user's function has changed data.
    pub nested_changes: bool,
    /// Measurements of the steps, if EXPLAIN ANALYZE asks for them.
    pub measures: Option<Measures>,
}

impl State {
    /// Creates the state of a statement that has not started. `functions` are the users' functions
    /// that it calls.
    pub fn of_statement(
        executor: Option<&'static dyn Executor>,
        functions: Option<Arc<FunctionBodies>>,
    ) -> Self {
        Self { executor, functions, ..Self::default() }
    }

    /// Forgets the results of nested queries, given by their numbers.
    pub fn forget(&mut self, numbers: &[usize]) {
        for number in numbers {
            if let Some(known) = self.results.get_mut(*number) {
                *known = None;
            }
            if let Some(known) = self.hashed.get_mut(*number) {
                *known = None;
            }
            if let Some(known) = self.shared.get_mut(*number) {
                *known = None;
            }
        }
    }
}

impl Expr {
    /// Returns the value for `row`.
    ///
    /// # Errors
    /// The errors of the functions in the expression. `54001` where it nests too deeply. `08P01`
    /// for a parameter without a value.
    pub fn eval(&self, row: &[Datum], rt: &mut Runtime<'_, '_>) -> Result<Datum> {
        match &self.kind {
            ExprKind::Const(value) => Ok(value.clone()),
            ExprKind::Param(number) => {
                rt.params.get(*number).cloned().ok_or_else(|| missing_parameter(*number))
            }
            ExprKind::Slot { depth: 0, slot } => {
                row.get(*slot).cloned().ok_or_else(|| missing_slot(*slot))
            }
            ExprKind::Slot { depth, slot } => outer_slot(rt.state, *depth, *slot),
            _ => stack::deeper(|| self.eval_composed(row, rt)),
        }
    }

    /// Evaluates the kinds whose parts are evaluated first.
    fn eval_composed(&self, row: &[Datum], rt: &mut Runtime<'_, '_>) -> Result<Datum> {
        match &self.kind {
            ExprKind::Call { function, arguments } => {
                let value = call(function, arguments, row, rt)?;
                Ok(if function.returns_any_array() { self.array_of_type(value) } else { value })
            }
            ExprKind::Cast { argument, from, purpose } => {
                let value = argument.eval(row, rt)?;
                if value.is_null() {
                    return Ok(Datum::Null);
                }
                match purpose {
                    CastPurpose::Compared => cast_compared(&value, *from, self.ty, rt.exec),
                    CastPurpose::Written | CastPurpose::Implied => {
                        let explicit = *purpose == CastPurpose::Written;
                        cast_value(&value, *from, self.ty, explicit, rt.exec)
                    }
                }
            }
            ExprKind::Length { argument, explicit } => {
                let value = argument.eval(row, rt)?;
                coerce_length(value, self.column_type(), *explicit)
            }
            ExprKind::And(operands) => {
                let mut unknown = false;
                for operand in operands {
                    match operand.eval(row, rt)? {
                        Datum::Bool(false) => return Ok(Datum::Bool(false)),
                        Datum::Null => unknown = true,
                        _ => {}
                    }
                }
                Ok(if unknown { Datum::Null } else { Datum::Bool(true) })
            }
            ExprKind::Or(operands) => {
                let mut unknown = false;
                for operand in operands {
                    match operand.eval(row, rt)? {
                        Datum::Bool(true) => return Ok(Datum::Bool(true)),
                        Datum::Null => unknown = true,
                        _ => {}
                    }
                }
                Ok(if unknown { Datum::Null } else { Datum::Bool(false) })
            }
            ExprKind::Not(operand) => Ok(match operand.eval(row, rt)? {
                Datum::Bool(value) => Datum::Bool(!value),
                other => other,
            }),
            ExprKind::IsNull { argument, negated } => {
                Ok(Datum::Bool(argument.eval(row, rt)?.is_null() != *negated))
            }
            ExprKind::BoolTest { argument, test } => {
                let value = match argument.eval(row, rt)? {
                    Datum::Bool(value) => Some(value),
                    _ => None,
                };
                Ok(Datum::Bool(match test {
                    BoolTest::True => value == Some(true),
                    BoolTest::NotTrue => value != Some(true),
                    BoolTest::False => value == Some(false),
                    BoolTest::NotFalse => value != Some(false),
                    BoolTest::Unknown => value.is_none(),
                    BoolTest::NotUnknown => value.is_some(),
                }))
            }
            ExprKind::CaseOperand => {
                rt.state.case_operands.last().cloned().ok_or_else(|| missing_slot(0))
            }
            _ => self.eval_rare(row, rt),
        }
    }

    /// Returns an array with the element type of the expression. The function itself cannot tell
    /// apart types that look alike.
    fn array_of_type(&self, value: Datum) -> Datum {
        match (value, niwaki_parse::types::element_of(self.ty)) {
            (Datum::Array(_, elements), Some(element)) => Datum::Array(element, elements),
            (value, _) => value,
        }
    }

    /// Evaluates the rarer kinds, which are worth a function call of their own.
    fn eval_rare(&self, row: &[Datum], rt: &mut Runtime<'_, '_>) -> Result<Datum> {
        match &self.kind {
            ExprKind::Case { operand, branches, default } => {
                eval_case(operand.as_deref(), branches, default.as_deref(), row, rt)
            }
            ExprKind::Domain { argument, rules } => {
                let value = argument.eval(row, rt)?;
                rules.check(&value, rt)?;
                Ok(value)
            }
            ExprKind::Coalesce(arguments) => first_known(arguments, row, rt),
            ExprKind::NullIf { result, equal } => {
                let value = result.eval(row, rt)?;
                rt.state.case_operands.push(value);
                let same = equal.eval(row, rt);
                let value = rt.state.case_operands.pop().unwrap_or(Datum::Null);
                Ok(if is_true(&same?) { Datum::Null } else { value })
            }
            ExprKind::MinMax { greatest, arguments } => {
                self.eval_min_max(*greatest, arguments, row, rt)
            }
            ExprKind::Distinct { equal, left, right, negated } => {
                let left = left.eval(row, rt)?;
                let right = right.eval(row, rt)?;
                let distinct = match (left.is_null(), right.is_null()) {
                    (true, true) => false,
                    (false, false) => !is_true(&apply(equal, &[left, right], rt)?),
                    _ => true,
                };
                Ok(Datum::Bool(distinct != *negated))
            }
            ExprKind::Array(elements) => self.eval_array(elements, row, rt),
            ExprKind::Subscript { array, subscripts } => {
                let array = array.eval(row, rt)?;
                subscripts.read(&array, row, rt)
            }
            ExprKind::AssignPart { array, subscripts, value } => {
                let element = niwaki_parse::types::element_of(self.ty)
                    .ok_or_else(|| SqlError::internal("array without an element type"))?;
                let (array, value) = (array.eval(row, rt)?, value.eval(row, rt)?);
                subscripts.assign(&array, element, value, row, rt)
            }
            ExprKind::Row(value) => self.eval_row(value, row, rt),
            ExprKind::Field { argument, field, kind, .. } => match argument.eval(row, rt)? {
                Datum::Record(_, record) => match record.fields().nth(*field) {
                    Some((found, value)) if found == *kind => Ok(value.clone()),
                    // A function's rows may differ from the function's declaration.
                    Some((found, _)) if argument.ty == TypeOid::RECORD => {
                        Err(wrong_field_type(*field, found, *kind, rt))
                    }
                    // A stored value carries its own field types, so the value must be corrupt.
                    _ => Err(missing_field(*field)),
                },
                _ => Ok(Datum::Null),
            },
            ExprKind::Populated { records, arguments } => populated(records, arguments, row, rt),
            ExprKind::RowNull { argument, negated } => {
                let holds = match argument.eval(row, rt)? {
                    Datum::Record(_, record) if *negated => record.none_null(),
                    Datum::Record(_, record) => record.all_null(),
                    value => value.is_null() != *negated,
                };
                Ok(Datum::Bool(holds))
            }
            ExprKind::AssignField { record, field, kinds, value, .. } => {
                let (old, value) = (record.eval(row, rt)?, value.eval(row, rt)?);
                let record = with_field(old, *field, kinds, value)?;
                Ok(Datum::Record(self.ty, Arc::new(record)))
            }
            ExprKind::ArrayCompare { function, any, left, right, list: Some(number) } => {
                let list = value_lists::known(*number, left, right, rt)?;
                let left = left.eval(row, rt)?;
                compare_listed(function, *any, &left, &list, rt)
            }
            ExprKind::ArrayCompare { function, any, left, right, list: None } => {
                let left = left.eval(row, rt)?;
                match right.eval(row, rt)? {
                    Datum::Array(_, values) => {
                        compare_any(function, *any, &left, values.iter(), rt)
                    }
                    _ => Ok(Datum::Null),
                }
            }
            ExprKind::SubQuery(sub) => sub.eval(row, rt),
            ExprKind::UserCall { function, arguments } => {
                nested::call(function, arguments, row, rt)
            }
            ExprKind::CurrentOf { cursor, table } => current_of(cursor, table, self.ty, rt),
            ExprKind::Aggregate(_)
            | ExprKind::Grouping(_)
            | ExprKind::Window(_)
            | ExprKind::SetReturning(_) => Err(SqlError::internal(
                "an aggregate, window function or set was left in an expression",
            )),
            _ => Err(SqlError::internal("expression kind without an evaluation")),
        }
    }

    /// Evaluates GREATEST or LEAST.
    fn eval_min_max(
        &self,
        greatest: bool,
        arguments: &[Self],
        row: &[Datum],
        rt: &mut Runtime<'_, '_>,
    ) -> Result<Datum> {
        let mut best = Datum::Null;
        for argument in arguments {
            let value = argument.eval(row, rt)?;
            if value.is_null() {
                continue;
            }
            let order = compare(self.ty, &value, &best);
            if best.is_null() || (order.is_gt() == greatest && order.is_ne()) {
                best = value;
            }
        }
        Ok(best)
    }

    /// Evaluates `ARRAY[…]` of this type.
    #[inline(never)]
    fn eval_array(
        &self,
        elements: &[Self],
        row: &[Datum],
        rt: &mut Runtime<'_, '_>,
    ) -> Result<Datum> {
        let element = niwaki_parse::types::element_of(self.ty)
            .ok_or_else(|| SqlError::internal("array without an element type"))?;
        let values = elements.iter().map(|e| e.eval(row, rt)).collect::<Result<Vec<Datum>>>()?;
        // A cast may have given the array a type name other than the one that its elements imply.
        let nested = elements
            .first()
            .is_some_and(|e| e.ty != element && niwaki_parse::types::element_of(e.ty).is_some());
        let array = if nested { Array::of_arrays(&values)? } else { Array::list(values) };
        Ok(Datum::Array(element, Arc::new(array)))
    }

    /// Evaluates `ROW(…)` of this type.
    #[inline(never)]
    fn eval_row(&self, value: &RowValue, row: &[Datum], rt: &mut Runtime<'_, '_>) -> Result<Datum> {
        if let Some(present) = &value.present
            && present.eval(row, rt)?.is_null()
        {
            return Ok(Datum::Null);
        }
        let kinds: Vec<TypeOid> = value.fields.iter().map(|field| field.ty).collect();
        let fields = value.fields.iter().map(|field| field.eval(row, rt));
        let record = Record::new(kinds, fields.collect::<Result<Vec<Datum>>>()?);
        record.check()?;
        let record = match &value.names {
            Some(names) => record.with_names(Arc::clone(names)),
            None => record,
        };
        Ok(Datum::Record(self.ty, Arc::new(record)))
    }

    /// Returns the value for `row`, without copying a value that lies in the row, the parameters or
    /// the plan.
    ///
    /// # Errors
    /// As [`Expr::eval`].
    #[inline]
    pub fn eval_ref<'x, 'r: 'x>(
        &'x self,
        row: &'x [Datum],
        rt: &mut Runtime<'r, '_>,
        space: &'x mut Datum,
    ) -> Result<&'x Datum> {
        match &self.kind {
            ExprKind::Slot { depth: 0, slot } => row.get(*slot).ok_or_else(|| missing_slot(*slot)),
            ExprKind::Const(value) => Ok(value),
            ExprKind::Param(number) => {
                let params: &'r [Datum] = rt.params;
                params.get(*number).ok_or_else(|| missing_parameter(*number))
            }
            _ => {
                *space = self.eval(row, rt)?;
                Ok(space)
            }
        }
    }

    /// Decides whether a condition is true, and neither false nor unknown.
    ///
    /// # Errors
    /// As [`Expr::eval`].
    #[inline]
    pub fn holds(&self, row: &[Datum], rt: &mut Runtime<'_, '_>) -> Result<bool> {
        // An unknown part admits no row. So the parts behind it are not evaluated, as in batches
        // and in PostgreSQL.
        if let ExprKind::And(parts) = &self.kind {
            for part in parts {
                if !part.holds(row, rt)? {
                    return Ok(false);
                }
            }
            return Ok(true);
        }
        Ok(is_true(&self.eval(row, rt)?))
    }
}

/// Decides whether a value is the boolean true.
#[inline]
pub fn is_true(value: &Datum) -> bool {
    matches!(value, Datum::Bool(true))
}

#[cold]
pub(crate) fn missing_parameter(number: usize) -> SqlError {
    SqlError::new("08P01", format!("there is no value for parameter ${}", number + 1))
}

#[cold]
fn missing_slot(slot: usize) -> SqlError {
    SqlError::internal(format!("expression reads slot {slot} outside its row"))
}

/// Returns the error of a function whose rows differ from its declaration.
#[cold]
fn wrong_field_type(
    field: usize,
    found: TypeOid,
    wanted: TypeOid,
    rt: &Runtime<'_, '_>,
) -> SqlError {
    let types = &rt.exec.text.types;
    let shown = |oid| types.shown(oid).unwrap_or_else(|| format_oid(oid));
    let message = format!("attribute {} has wrong type", field + 1);
    SqlError::new("42804", message).with_detail(format!(
        "Table has type {}, but query expects {}.",
        shown(found),
        shown(wanted)
    ))
}

#[cold]
fn missing_field(field: usize) -> SqlError {
    SqlError::new("XX001", format!("composite value has no field {} of its type", field + 1))
}

pub(crate) fn outer_slot(state: &State, depth: usize, slot: usize) -> Result<Datum> {
    state
        .outer
        .len()
        .checked_sub(depth)
        .and_then(|level| state.outer.get(level))
        .and_then(|row| row.get(slot))
        .cloned()
        .ok_or_else(|| missing_slot(slot))
}

/// Calls a function over evaluated arguments. One or two arguments need no allocation.
fn call(
    function: &Function,
    arguments: &[Expr],
    row: &[Datum],
    rt: &mut Runtime<'_, '_>,
) -> Result<Datum> {
    match (&function.eval, arguments) {
        (Eval::Binary(body), [left, right]) => {
            let (mut left_space, mut right_space) = (Datum::Null, Datum::Null);
            // Both arguments are evaluated, as in batches and in PostgreSQL: an error beside a NULL
            // is still an error.
            let left = left.eval_ref(row, rt, &mut left_space)?;
            let right = right.eval_ref(row, rt, &mut right_space)?;
            if left.is_null() || right.is_null() {
                return Ok(Datum::Null);
            }
            work_on(left)?;
            work_on(right)?;
            body(left, right)
        }
        (Eval::Unary(body), [argument]) => {
            let mut space = Datum::Null;
            let value = argument.eval_ref(row, rt, &mut space)?;
            if value.is_null() {
                return Ok(Datum::Null);
            }
            work_on(value)?;
            body(value)
        }
        (eval, _) => {
            let values =
                arguments.iter().map(|a| a.eval(row, rt)).collect::<Result<Vec<Datum>>>()?;
            if let Eval::Typed(body) = eval {
                if function.strict && values.iter().any(Datum::is_null) {
                    return Ok(Datum::Null);
                }
                let types: Vec<TypeOid> = arguments.iter().map(|a| a.ty).collect();
                return body(rt.exec, &types, &values);
            }
            apply(function, &values, rt)
        }
    }
}

/// Counts the work of a function that reads all of a value. The function itself counts any further
/// work.
///
/// # Errors
/// The errors that end the statement.
#[inline]
pub(crate) fn work_on(value: &Datum) -> Result<()> {
    /// The rows count smaller values.
    const UNITS_MIN: usize = 1 << 10;
    let units = match value {
        Datum::Text(text) => text.len(),
        Datum::Bytea(bytes) => bytes.len(),
        Datum::Array(_, values) => values.len().saturating_mul(work::VALUE_UNITS),
        _ => 0,
    };
    if units < UNITS_MIN { Ok(()) } else { Ok(work::tick(units)?) }
}

/// Calls a function over values.
pub(super) fn apply(
    function: &Function,
    values: &[Datum],
    rt: &mut Runtime<'_, '_>,
) -> Result<Datum> {
    if function.strict && values.iter().any(Datum::is_null) {
        return Ok(Datum::Null);
    }
    values.iter().try_for_each(work_on)?;
    match (&function.eval, values) {
        (Eval::Unary(body), [value]) => body(value),
        (Eval::Binary(body), [left, right]) => body(left, right),
        (Eval::Pure(body), values) => body(values),
        (Eval::Context(body), values) => body(rt.exec, values),
        _ => Err(SqlError::internal(format!("function {} called wrongly", function.name))),
    }
}

/// Evaluates CASE. With an operand, the conditions compare the operand's value.
fn eval_case(
    operand: Option<&Expr>,
    branches: &[(Expr, Expr)],
    default: Option<&Expr>,
    row: &[Datum],
    rt: &mut Runtime<'_, '_>,
) -> Result<Datum> {
    if let Some(operand) = operand {
        let value = operand.eval(row, rt)?;
        rt.state.case_operands.push(value);
    }
    let mut chosen = default;
    for (condition, result) in branches {
        if is_true(&condition.eval(row, rt)?) {
            chosen = Some(result);
            break;
        }
    }
    if operand.is_some() {
        rt.state.case_operands.pop();
    }
    chosen.map_or(Ok(Datum::Null), |result| result.eval(row, rt))
}

/// Evaluates COALESCE: returns the first value that is not NULL.
fn first_known(arguments: &[Expr], row: &[Datum], rt: &mut Runtime<'_, '_>) -> Result<Datum> {
    for argument in arguments {
        let value = argument.eval(row, rt)?;
        if !value.is_null() {
            return Ok(value);
        }
    }
    Ok(Datum::Null)
}

/// Returns a record with a new value for one field. A NULL record counts as a record of NULLs of
/// these types.
fn with_field(old: Datum, field: usize, kinds: &Arc<[TypeOid]>, value: Datum) -> Result<Record> {
    let old = match old {
        Datum::Record(_, record) => record,
        _ => Arc::new(Record::new(Arc::clone(kinds), vec![Datum::Null; kinds.len()])),
    };
    let record = old.with_field(field, value);
    record.check()?;
    Ok(record)
}

/// Evaluates `left op ANY (values)` or ALL over a list that the statement remembers.
fn compare_listed(
    function: &Function,
    any: bool,
    left: &Datum,
    list: &ValueList,
    rt: &mut Runtime<'_, '_>,
) -> Result<Datum> {
    match list.contains(left, rt) {
        Some(found) => Ok(found.map_or(Datum::Null, |found| Datum::Bool(found == any))),
        None => compare_any(function, any, left, list.values().into_iter().flatten(), rt),
    }
}

/// Evaluates `left op ANY (values)` or ALL, with SQL's three values.
pub(super) fn compare_any<'v>(
    function: &Function,
    any: bool,
    left: &Datum,
    values: impl Iterator<Item = &'v Datum>,
    rt: &mut Runtime<'_, '_>,
) -> Result<Datum> {
    let mut unknown = false;
    for value in values {
        let result = if left.is_null() || value.is_null() {
            Datum::Null
        } else if let Eval::Binary(body) = &function.eval {
            body(left, value)?
        } else {
            apply(function, &[left.clone(), value.clone()], rt)?
        };
        match result {
            Datum::Bool(found) if found == any => return Ok(Datum::Bool(any)),
            Datum::Null => unknown = true,
            _ => {}
        }
    }
    Ok(if unknown { Datum::Null } else { Datum::Bool(!any) })
}

/// Evaluates `ExprKind::CurrentOf` of this type. Returns NULL if the row is gone.
fn current_of(
    cursor: &str,
    table: &Relation,
    wanted: TypeOid,
    rt: &mut Runtime<'_, '_>,
) -> Result<Datum> {
    let Some((oid, tid)) = rt.exec.environment.row_of_cursor(cursor, table)? else {
        return Ok(Datum::Null);
    };
    if wanted == TypeOid::OID {
        return Ok(Datum::Oid(oid.0));
    }
    let Some(of_table) = rt.exec.catalog.relation(oid) else { return Ok(Datum::Null) };
    let now = rt.exec.store.address_now(of_table, tid)?;
    Ok(now.map_or(Datum::Null, |tid| Datum::Tid(tid.block.0, tid.offset.0)))
}

/// The number of rows between two checks for interrupts.
const ROWS_PER_CHECK: u32 = 512;

impl Runtime<'_, '_> {
    /// Counts a row of work. Checks for interrupts every `ROWS_PER_CHECK` rows.
    ///
    /// # Errors
    /// As [`Runtime::check_interrupts`].
    #[inline]
    pub fn tick(&mut self) -> Result<()> {
        self.state.ticks += 1;
        if self.state.ticks >= ROWS_PER_CHECK {
            self.state.ticks = 0;
            self.check_interrupts()?;
        }
        Ok(())
    }

    /// Fails if the session was interrupted, or if another thread of the step has failed.
    ///
    /// # Errors
    /// `57014`, `57P01`, when the session was interrupted; `XX000` when another thread has failed.
    pub fn check_interrupts(&mut self) -> Result<()> {
        // Relaxed: the error itself is read when all threads have ended.
        if self.state.halted.as_ref().is_some_and(|halted| halted.load(Ordering::Relaxed)) {
            return Err(SqlError::internal("another thread of the statement has failed"));
        }
        self.exec.environment.check_interrupts()
    }

    /// Charges the statement for memory that cannot go to temporary files.
    ///
    /// # Errors
    /// `53200` beyond the memory limit of the statement.
    pub fn charge(&mut self, bytes: usize) -> Result<()> {
        self.state.memory += bytes;
        if self.state.memory > self.exec.memory_limit {
            return Err(SqlError::new("53200", "out of memory").with_detail(format!(
                "The statement needs more than {} bytes for values that must stay in memory.",
                self.exec.memory_limit
            )));
        }
        Ok(())
    }
}

impl Runtime<'_, '_> {
    /// Returns the space for temporary files.
    ///
    /// # Errors
    /// `XX000` in a statement without room for temporary files.
    pub fn temp(&self) -> Result<TempSpace> {
        self.exec
            .temp
            .cloned()
            .ok_or_else(|| SqlError::internal("a step without room for temporary files"))
    }

    /// Makes a sort within `memory_bytes`.
    ///
    /// # Errors
    /// As [`Runtime::temp`].
    pub fn sorter(&self, memory_bytes: usize) -> Result<Sorter<KeyedRows>> {
        let space = SortSpace::with_chunks(self.temp()?, memory_bytes, self.exec.temp_chunk);
        Ok(Sorter::new(space))
    }
}
