//! Computes the items that a `jsonpath` finds in a `jsonb`.
//!
//! A path is computed step by step. The items of one step go to the next step, and the items of the
//! last step are found. In lax mode, a step that asks for an item takes arrays apart. A step over
//! arrays takes another value as an array of one item, and missing parts are not found. In strict
//! mode these cases are errors. Conditions have three values, and turn errors of their operands
//! into *unknown*.

mod condition;

use std::sync::Arc;

use niwaki_env::stack;
use niwaki_parse::error::SqlError;
use niwaki_types::{
    ColumnType, Datum, InputContext, JsonPath, Jsonb, Numeric, Path, PathMethod, PathOperator,
    PathStep, TextSettings, TypeOid,
};

use super::layout::offset_of;

use condition::Truth;

/// The deepest nesting of steps, which keeps the stack safe.
const LEVELS_MAX: u32 = 1500;
/// The factor between the number of a base object and the numbers of its parts, as in PostgreSQL.
const NUMBERS: i64 = 10_000_000_000;

/// The reason why a path was not computed to its end.
pub(super) enum Stop {
    /// An error that is passed over.
    PassedOver,
    /// An error.
    Error(SqlError),
}

impl From<niwaki_types::TypeError> for Stop {
    fn from(error: niwaki_types::TypeError) -> Self {
        Self::Error(error.into())
    }
}

impl From<stack::TooDeep> for Stop {
    fn from(error: stack::TooDeep) -> Self {
        Self::Error(error.into())
    }
}

impl From<SqlError> for Stop {
    fn from(error: SqlError) -> Self {
        Self::Error(error)
    }
}

type Result<T> = std::result::Result<T, Stop>;

/// Returns the value, or `None` if an error was passed over.
pub(super) fn unless_passed_over<T>(found: Result<T>) -> niwaki_parse::error::Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(Stop::PassedOver) => Ok(None),
        Err(Stop::Error(error)) => Err(error),
    }
}

/// A callback that fails when the statement is cancelled.
pub(super) type Interrupts<'q> = &'q mut dyn FnMut() -> niwaki_parse::error::Result<()>;

/// Steps between two checks whether the statement is cancelled.
const STEPS_BETWEEN: u32 = 1024;

/// The destination of found items.
pub(super) enum Found<'f> {
    /// Keeps all items.
    All(&'f mut Vec<Arc<Jsonb>>),
    /// Only asks whether there is an item; the first ends the search.
    Any,
}

impl Found<'_> {
    fn is_any(&self) -> bool {
        matches!(self, Self::Any)
    }
}

/// A path that is computed over a value.
pub(super) struct Query<'q> {
    path: &'q JsonPath,
    root: Arc<Jsonb>,
    current: Arc<Jsonb>,
    variables: Option<&'q Arc<Jsonb>>,
    /// True if structural errors are passed over at this place.
    ignores_structure: bool,
    /// True if errors are raised at this place.
    raises: bool,
    /// The number of items of the innermost array under a subscript, for `last`.
    items: Option<usize>,
    /// The value in which objects are numbered, with the value's own number.
    base: Option<(Arc<Jsonb>, i64)>,
    /// The number of the next object that is made.
    next_object: i64,
    levels: u32,
    /// Steps computed so far.
    steps: u32,
    /// Fails when the statement is cancelled.
    interrupts: Interrupts<'q>,
}

impl<'q> Query<'q> {
    pub(super) fn new(
        path: &'q JsonPath,
        target: &Arc<Jsonb>,
        variables: Option<&'q Arc<Jsonb>>,
        silent: bool,
        of_function: bool,
        interrupts: Interrupts<'q>,
    ) -> Self {
        Self {
            path,
            root: Arc::clone(target),
            current: Arc::clone(target),
            variables,
            ignores_structure: path.lax,
            raises: !silent,
            items: None,
            base: None,
            // Functions always have variables, if only an empty object, which takes the number 1.
            next_object: if of_function { 2 } else { 1 },
            levels: 0,
            steps: 0,
            interrupts,
        }
    }

    /// Computes the path; returns whether the path finds an item.
    pub(super) fn run(&mut self, found: &mut Found<'_>) -> Result<bool> {
        let (path, root) = (self.path, Arc::clone(&self.root));
        self.steps(&path.root, &root, found)
    }

    fn fail(&self, sqlstate: &'static str, message: impl Into<String>) -> Stop {
        if self.raises { Stop::Error(SqlError::new(sqlstate, message)) } else { Stop::PassedOver }
    }

    /// Handles a structural error: nothing is found where such errors are passed over.
    fn misfit(&self, sqlstate: &'static str, message: impl Into<String>) -> Result<bool> {
        if self.ignores_structure { Ok(false) } else { Err(self.fail(sqlstate, message)) }
    }

    /// Applies the steps of a path to a value.
    fn steps(
        &mut self,
        steps: &'q [PathStep],
        value: &Arc<Jsonb>,
        found: &mut Found<'_>,
    ) -> Result<bool> {
        self.steps_over(steps, value, found, self.path.lax)
    }

    /// Applies the steps that follow; without any, the value itself is found.
    fn go_on(
        &mut self,
        others: &'q [PathStep],
        value: Arc<Jsonb>,
        found: &mut Found<'_>,
    ) -> Result<bool> {
        if !others.is_empty() {
            return self.steps(others, &value, found);
        }
        if let Found::All(all) = found {
            all.push(value);
        }
        Ok(true)
    }

    /// Does the work of [`Query::steps`]; the first step looks at the items of an array if
    /// `unwrap`.
    fn steps_over(
        &mut self,
        steps: &'q [PathStep],
        value: &Arc<Jsonb>,
        found: &mut Found<'_>,
        unwrap: bool,
    ) -> Result<bool> {
        if self.levels >= LEVELS_MAX {
            return Err(Stop::Error(SqlError::new("54001", "stack depth limit exceeded")));
        }
        self.steps = self.steps.wrapping_add(1);
        if self.steps.is_multiple_of(STEPS_BETWEEN) {
            (self.interrupts)()?;
        }
        self.levels += 1;
        let is = stack::deeper(|| self.first_step(steps, value, found, unwrap));
        self.levels -= 1;
        is
    }

    fn first_step(
        &mut self,
        steps: &'q [PathStep],
        value: &Arc<Jsonb>,
        found: &mut Found<'_>,
        unwrap: bool,
    ) -> Result<bool> {
        let Some((step, others)) = steps.split_first() else {
            return Err(SqlError::internal("a jsonpath without steps").into());
        };
        let array = if unwrap { items_of(value) } else { None };
        let plain = match step {
            PathStep::Null => Jsonb::Null,
            PathStep::Bool(value) => Jsonb::Bool(*value),
            PathStep::Number(number) => Jsonb::Number(number.clone()),
            PathStep::String(text) => Jsonb::String(Arc::clone(text)),
            PathStep::Variable(name) => {
                let before = self.base.clone();
                let value = self.variable(name)?;
                let is = self.go_on(others, value, found);
                self.base = before;
                return is;
            }
            PathStep::Root => {
                let root = Arc::clone(&self.root);
                let before = self.base.replace((Arc::clone(&root), 0));
                let is = self.go_on(others, root, found);
                self.base = before;
                return is;
            }
            PathStep::Current => return self.go_on(others, Arc::clone(&self.current), found),
            PathStep::Last => match self.items {
                Some(count) => Jsonb::Number((int(count) - 1).into()),
                None => return Err(SqlError::internal("LAST outside of brackets").into()),
            },
            PathStep::Key(key) => return self.key(steps, key, value, found, unwrap),
            PathStep::AnyKey if array.is_some() => return self.items_over(steps, value, found),
            PathStep::AnyKey => return self.any_key(others, value, found),
            PathStep::AnyItem => return self.any_item(others, value, found),
            PathStep::Items(items) => return self.items(items, others, value, found),
            PathStep::Any(first, last) => {
                return self.any_level((*first, *last), others, value, found);
            }
            PathStep::Filter(_) if array.is_some() => return self.items_over(steps, value, found),
            PathStep::Filter(condition) => return self.filter(condition, others, value, found),
            PathStep::Method(method) => {
                let over_items = !matches!(method, PathMethod::Type | PathMethod::Size);
                if over_items && array.is_some() {
                    return self.items_over(steps, value, found);
                }
                if *method == PathMethod::KeyValue {
                    return self.key_values(others, value, found);
                }
                match self.method(*method, value)? {
                    Some(value) => return self.go_on(others, value, found),
                    None => return Ok(false),
                }
            }
            PathStep::DateTime(_) => {
                let what = "jsonpath item method .datetime()";
                return Err(SqlError::unsupported(what).into());
            }
            PathStep::Sign(negative, operand) => {
                return self.sign(*negative, operand, others, value, found);
            }
            PathStep::Binary(operator, left, right) if operator.is_arithmetic() => {
                let result = self.arithmetic(*operator, left, right, value)?;
                return self.go_on(others, Arc::new(Jsonb::Number(result)), found);
            }
            PathStep::Binary(..)
            | PathStep::Not(_)
            | PathStep::IsUnknown(_)
            | PathStep::Exists(_)
            | PathStep::LikeRegex(..) => match self.condition(step, value)? {
                Truth::Unknown => Jsonb::Null,
                truth => Jsonb::Bool(truth == Truth::True),
            },
        };
        self.go_on(others, Arc::new(plain), found)
    }

    /// Applies the steps that follow to the values of all keys of an object.
    fn any_key(
        &mut self,
        others: &'q [PathStep],
        value: &Arc<Jsonb>,
        found: &mut Found<'_>,
    ) -> Result<bool> {
        if matches!(**value, Jsonb::Object(_)) {
            let levels = (1, 1, 1);
            return self.any(others, value, found, levels, false, self.path.lax);
        }
        let what = "jsonpath wildcard member accessor can only be applied to an object";
        self.misfit("2203C", what)
    }

    /// Applies the steps that follow to all items of an array.
    fn any_item(
        &mut self,
        others: &'q [PathStep],
        value: &Arc<Jsonb>,
        found: &mut Found<'_>,
    ) -> Result<bool> {
        if items_of(value).is_some() {
            let levels = (1, 1, 1);
            return self.any(others, value, found, levels, false, self.path.lax);
        }
        if self.path.lax {
            return self.go_on(others, Arc::clone(value), found);
        }
        let what = "jsonpath wildcard array accessor can only be applied to an array";
        self.misfit("22039", what)
    }

    /// Applies the steps that follow to the parts of a value between two levels of nesting. The
    /// value itself is at level 0.
    fn any_level(
        &mut self,
        (first, last): (u32, u32),
        others: &'q [PathStep],
        value: &Arc<Jsonb>,
        found: &mut Found<'_>,
    ) -> Result<bool> {
        let mut is = false;
        if first == 0 {
            let before = std::mem::replace(&mut self.ignores_structure, true);
            let own = self.go_on(others, Arc::clone(value), found);
            self.ignores_structure = before;
            is = own?;
            if is && found.is_any() {
                return Ok(true);
            }
        }
        let levels = (1, first, last);
        Ok(self.any(others, value, found, levels, true, self.path.lax)? || is)
    }

    /// Applies the steps that follow to a value that satisfies the condition.
    fn filter(
        &mut self,
        condition: &'q [PathStep],
        others: &'q [PathStep],
        value: &Arc<Jsonb>,
        found: &mut Found<'_>,
    ) -> Result<bool> {
        let before = std::mem::replace(&mut self.current, Arc::clone(value));
        let truth = self.truth(condition, value);
        self.current = before;
        match truth? {
            Truth::True => self.go_on(others, Arc::clone(value), found),
            _ => Ok(false),
        }
    }

    fn variable(&mut self, name: &str) -> Result<Arc<Jsonb>> {
        let value = match self.variables.map(|variables| &**variables) {
            Some(Jsonb::Object(object)) => object.get(name),
            _ => None,
        };
        let Some(value) = value else {
            let message = format!("could not find jsonpath variable \"{name}\"");
            return Err(Stop::Error(SqlError::new("42704", message)));
        };
        if let Some(variables) = self.variables {
            self.base = Some((Arc::clone(variables), 1));
        }
        Ok(Arc::clone(value))
    }

    fn key(
        &mut self,
        steps: &'q [PathStep],
        key: &str,
        value: &Arc<Jsonb>,
        found: &mut Found<'_>,
        unwrap: bool,
    ) -> Result<bool> {
        match &**value {
            Jsonb::Object(object) => {
                if let Some(part) = object.get(key) {
                    self.go_on(&steps[1..], Arc::clone(part), found)
                } else {
                    let message = format!("JSON object does not contain key \"{key}\"");
                    self.misfit("2203A", message)
                }
            }
            Jsonb::Array(_) if unwrap => self.items_over(steps, value, found),
            _ => {
                let what = "jsonpath member accessor can only be applied to an object";
                self.misfit("2203A", what)
            }
        }
    }

    /// Applies the steps to each item of an array.
    fn items_over(
        &mut self,
        steps: &'q [PathStep],
        value: &Arc<Jsonb>,
        found: &mut Found<'_>,
    ) -> Result<bool> {
        self.any(steps, value, found, (1, 1, 1), false, false)
    }

    /// Applies the steps to the parts of a value on the levels `first` to `last`. The value's own
    /// parts are on the level `level`. The first step looks at the items of arrays if `unwrap`.
    fn any(
        &mut self,
        steps: &'q [PathStep],
        value: &Arc<Jsonb>,
        found: &mut Found<'_>,
        (level, first, last): (u32, u32, u32),
        ignores_structure: bool,
        unwrap: bool,
    ) -> Result<bool> {
        if level > last {
            return Ok(false);
        }
        let parts: Vec<Arc<Jsonb>> = match &**value {
            Jsonb::Array(array) => array.items().to_vec(),
            Jsonb::Object(object) => {
                object.pairs().iter().map(|(_, value)| Arc::clone(value)).collect()
            }
            _ => return Ok(false),
        };
        let mut is = false;
        for part in parts {
            let leaves_only = first == u32::MAX && last == u32::MAX;
            if level >= first || leaves_only && part.is_scalar() {
                if steps.is_empty() {
                    match found {
                        Found::All(all) => all.push(Arc::clone(&part)),
                        Found::Any => return Ok(true),
                    }
                    is = true;
                } else {
                    let ignores = ignores_structure || self.ignores_structure;
                    let before = std::mem::replace(&mut self.ignores_structure, ignores);
                    let own = self.steps_over(steps, &part, found, unwrap);
                    self.ignores_structure = before;
                    is |= own?;
                }
                if is && found.is_any() {
                    return Ok(true);
                }
            }
            if level < last && !part.is_scalar() {
                let levels = (level + 1, first, last);
                is |= self.any(steps, &part, found, levels, ignores_structure, unwrap)?;
                if is && found.is_any() {
                    return Ok(true);
                }
            }
        }
        Ok(is)
    }

    /// `[from to to, …]`
    fn items(
        &mut self,
        wanted: &'q [(Path, Option<Path>)],
        others: &'q [PathStep],
        value: &Arc<Jsonb>,
        found: &mut Found<'_>,
    ) -> Result<bool> {
        let items = items_of(value);
        if items.is_none() && !self.path.lax {
            let what = "jsonpath array accessor can only be applied to an array";
            return self.misfit("22039", what);
        }
        // In lax mode any other value counts as an array of itself.
        let items = items.map_or_else(|| vec![Arc::clone(value)], <[_]>::to_vec);
        let before = self.items.replace(items.len());
        let mut is = false;
        for (from, to) in wanted {
            let size = int(items.len());
            let from = self.index(from, value)?;
            let to = match to {
                Some(to) => self.index(to, value)?,
                None => from,
            };
            if !self.ignores_structure && (from < 0 || from > to || to >= size) {
                return Err(self.fail("22033", "jsonpath array subscript is out of bounds"));
            }
            for at in from.max(0)..=to.min(size - 1) {
                let item = usize::try_from(at).ok().and_then(|at| items.get(at));
                let Some(item) = item else { continue };
                is |= self.go_on(others, Arc::clone(item), found)?;
                if is && found.is_any() {
                    self.items = before;
                    return Ok(true);
                }
            }
        }
        self.items = before;
        Ok(is)
    }

    /// Returns the number of a subscript.
    fn index(&mut self, path: &'q [PathStep], value: &Arc<Jsonb>) -> Result<i64> {
        let mut found = Vec::new();
        self.steps(path, value, &mut Found::All(&mut found))?;
        let [one] = found.as_slice() else { return Err(self.no_index()) };
        let Jsonb::Number(number) = &**one else { return Err(self.no_index()) };
        let whole = number.trunc(0)?.to_i32();
        whole
            .map(i64::from)
            .map_err(|_| self.fail("22033", "jsonpath array subscript is out of integer range"))
    }

    fn no_index(&self) -> Stop {
        self.fail("22033", "jsonpath array subscript is not a single numeric value")
    }

    /// Returns the result of a method; `None` where an error is passed over.
    fn method(&self, method: PathMethod, value: &Arc<Jsonb>) -> Result<Option<Arc<Jsonb>>> {
        let word = method.word();
        let number = |number: Numeric| Ok(Some(Arc::new(Jsonb::Number(number))));
        match (method, &**value) {
            (PathMethod::Type, value) => Ok(Some(Arc::new(Jsonb::string(value.type_name())))),
            (PathMethod::Size, Jsonb::Array(array)) => number(int(array.items().len()).into()),
            (PathMethod::Size, _) if self.path.lax => number(1.into()),
            (PathMethod::Size, _) => {
                let what = "jsonpath item method .size() can only be applied to an array";
                self.misfit("22039", what).map(|_| None)
            }
            (PathMethod::Abs, Jsonb::Number(given)) => number(given.abs()),
            (PathMethod::Floor, Jsonb::Number(given)) => number(given.floor()?),
            (PathMethod::Ceiling, Jsonb::Number(given)) => number(given.ceil()?),
            (PathMethod::Double, Jsonb::Number(given)) => {
                if given.to_f64().is_ok_and(f64::is_finite) {
                    return Ok(Some(Arc::clone(value)));
                }
                let what = "numeric argument of jsonpath item method .double() is out of range \
                            for type double precision";
                Err(self.fail("22036", what))
            }
            (PathMethod::Double, Jsonb::String(text)) => {
                if let Some(given) = double(text) {
                    number(Numeric::from_f64(given))
                } else {
                    let what = "string argument of jsonpath item method .double() is not a valid \
                            representation of a double precision number";
                    Err(self.fail("22036", what))
                }
            }
            (PathMethod::Double, _) => {
                let what = "jsonpath item method .double() can only be applied to a string or \
                            numeric value";
                Err(self.fail("22036", what))
            }
            _ => {
                let what = format!(
                    "jsonpath item method .{word}() can only be applied to a numeric value"
                );
                Err(self.fail("22036", what))
            }
        }
    }

    /// `.keyvalue()`
    fn key_values(
        &mut self,
        others: &'q [PathStep],
        value: &Arc<Jsonb>,
        found: &mut Found<'_>,
    ) -> Result<bool> {
        let Jsonb::Object(object) = &**value else {
            let what = "jsonpath item method .keyvalue() can only be applied to an object";
            return Err(self.fail("2203C", what));
        };
        let id = match &self.base {
            Some((base, own)) => {
                let offset = offset_of(value, base).and_then(|offset| i64::try_from(offset).ok());
                offset.unwrap_or(0).saturating_add(own.saturating_mul(NUMBERS))
            }
            None => 0,
        };
        let id = Arc::new(Jsonb::Number(id.into()));
        let mut is = false;
        for (key, part) in object.pairs() {
            let pair = Arc::new(Jsonb::object(vec![
                (Arc::from("id"), Arc::clone(&id)),
                (Arc::from("key"), Arc::new(Jsonb::String(Arc::clone(key)))),
                (Arc::from("value"), Arc::clone(part)),
            ])?);
            let before = self.base.replace((Arc::clone(&pair), self.next_object));
            self.next_object += 1;
            let own = self.go_on(others, pair, found);
            self.base = before;
            is |= own?;
            if is && found.is_any() {
                return Ok(true);
            }
        }
        Ok(is)
    }

    /// Returns the items that an operand finds; in lax mode, arrays are taken apart.
    fn operand(&mut self, path: &'q [PathStep], value: &Arc<Jsonb>) -> Result<Vec<Arc<Jsonb>>> {
        let mut found = Vec::new();
        self.steps(path, value, &mut Found::All(&mut found))?;
        if !self.path.lax {
            return Ok(found);
        }
        let mut apart = Vec::with_capacity(found.len());
        for item in found {
            match items_of(&item) {
                Some(items) => apart.extend_from_slice(items),
                None => apart.push(item),
            }
        }
        Ok(apart)
    }

    fn arithmetic(
        &mut self,
        operator: PathOperator,
        left: &'q [PathStep],
        right: &'q [PathStep],
        value: &Arc<Jsonb>,
    ) -> Result<Numeric> {
        let (left, right) = (self.operand(left, value)?, self.operand(right, value)?);
        let single = |items: &[Arc<Jsonb>], side: &str| match items {
            [one] => match &**one {
                Jsonb::Number(number) => Ok(number.clone()),
                _ => Err(side.to_owned()),
            },
            _ => Err(side.to_owned()),
        };
        let numbers = single(&left, "left").and_then(|l| Ok((l, single(&right, "right")?)));
        let (left, right) = numbers.map_err(|side| {
            let word = operator.word();
            let what =
                format!("{side} operand of jsonpath operator {word} is not a single numeric value");
            self.fail("22038", what)
        })?;
        let result = match operator {
            PathOperator::Add => left.add(&right),
            PathOperator::Subtract => left.sub(&right),
            PathOperator::Multiply => left.mul(&right),
            PathOperator::Divide => left.div(&right),
            _ => left.rem(&right),
        };
        result.map_err(|error| if self.raises { error.into() } else { Stop::PassedOver })
    }

    fn sign(
        &mut self,
        negative: bool,
        operand: &'q [PathStep],
        others: &'q [PathStep],
        value: &Arc<Jsonb>,
        found: &mut Found<'_>,
    ) -> Result<bool> {
        let mut is = false;
        for item in self.operand(operand, value)? {
            let asked = found.is_any() && others.is_empty();
            let item = match &*item {
                Jsonb::Number(_) if asked => return Ok(true),
                Jsonb::Number(number) if negative => Arc::new(Jsonb::Number(number.neg())),
                Jsonb::Number(_) => item,
                // An existence test computes no value, so other types are skipped.
                _ if asked => continue,
                _ => {
                    let word = if negative { "-" } else { "+" };
                    let what =
                        format!("operand of unary jsonpath operator {word} is not a numeric value");
                    return Err(self.fail("2203B", what));
                }
            };
            is |= self.go_on(others, item, found)?;
            if is && found.is_any() {
                return Ok(true);
            }
        }
        Ok(is)
    }
}

fn items_of(value: &Jsonb) -> Option<&[Arc<Jsonb>]> {
    match value {
        Jsonb::Array(array) => Some(array.items()),
        _ => None,
    }
}

/// Converts a count to `i64`.
fn int(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Reads a text as a finite number.
fn double(text: &str) -> Option<f64> {
    let settings = TextSettings::default();
    let context = InputContext { settings: &settings, now: 0 };
    match niwaki_types::input(ColumnType::new(TypeOid::FLOAT8), text, &context) {
        Ok(Datum::Float8(value)) if value.is_finite() => Some(value),
        _ => None,
    }
}
