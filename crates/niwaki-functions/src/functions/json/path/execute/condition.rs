//! Computes conditions: in filters, and as values.

use std::cmp::Ordering;
use std::sync::Arc;

use niwaki_expr::expr::pattern;
use niwaki_parse::error::SqlError;
use niwaki_types::{Jsonb, PathOperator, PathStep};

use super::{Found, Query, Result, Stop};

/// The three values of conditions.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Truth {
    False,
    True,
    Unknown,
}

impl From<bool> for Truth {
    fn from(value: bool) -> Self {
        if value { Self::True } else { Self::False }
    }
}

impl<'q> Query<'q> {
    /// Computes a path that is a condition.
    pub(super) fn truth(&mut self, path: &'q [PathStep], value: &Arc<Jsonb>) -> Result<Truth> {
        match path {
            [step] => self.condition(step, value),
            _ => Err(SqlError::internal("a jsonpath condition that is none").into()),
        }
    }

    pub(super) fn condition(&mut self, step: &'q PathStep, value: &Arc<Jsonb>) -> Result<Truth> {
        match step {
            PathStep::Binary(PathOperator::And, left, right) => {
                let left = self.truth(left, value)?;
                if left == Truth::False {
                    return Ok(left);
                }
                let right = self.truth(right, value)?;
                Ok(if right == Truth::True { left } else { right })
            }
            PathStep::Binary(PathOperator::Or, left, right) => {
                let left = self.truth(left, value)?;
                if left == Truth::True {
                    return Ok(left);
                }
                let right = self.truth(right, value)?;
                Ok(if right == Truth::False { left } else { right })
            }
            PathStep::Not(condition) => Ok(match self.truth(condition, value)? {
                Truth::True => Truth::False,
                Truth::False => Truth::True,
                Truth::Unknown => Truth::Unknown,
            }),
            PathStep::IsUnknown(condition) => {
                Ok((self.truth(condition, value)? == Truth::Unknown).into())
            }
            PathStep::Exists(path) => {
                let is = if self.path.lax {
                    self.without_errors(|query| query.steps(path, value, &mut Found::Any))?
                } else {
                    // The operand must cause no error anywhere.
                    let mut found = Vec::new();
                    let done = self.without_errors(|query| {
                        query.steps(path, value, &mut Found::All(&mut found))
                    })?;
                    done.map(|_| !found.is_empty())
                };
                Ok(is.map_or(Truth::Unknown, Truth::from))
            }
            PathStep::LikeRegex(path, text, flags) => {
                let expression = pattern(text, *flags)?;
                let Some(items) = self.without_errors(|query| query.operand(path, value))? else {
                    return Ok(Truth::Unknown);
                };
                self.any_of(items.iter(), |item| match &**item {
                    Jsonb::String(text) => Ok(expression.is_match(text)?.into()),
                    _ => Ok(Truth::Unknown),
                })
            }
            PathStep::Binary(operator, left, right) => {
                let Some(left) = self.without_errors(|query| query.operand(left, value))? else {
                    return Ok(Truth::Unknown);
                };
                let starts = *operator == PathOperator::StartsWith;
                let right = self.without_errors(|query| {
                    if starts {
                        let mut found = Vec::new();
                        query.steps(right, value, &mut Found::All(&mut found))?;
                        Ok(found)
                    } else {
                        query.operand(right, value)
                    }
                })?;
                let Some(right) = right else { return Ok(Truth::Unknown) };
                let pairs = left.iter().flat_map(|l| right.iter().map(move |r| (l, r)));
                self.any_of(pairs, |(left, right)| {
                    Ok(if starts {
                        starts_with(left, right)
                    } else {
                        compare(*operator, left, right)
                    })
                })
            }
            _ => Err(SqlError::internal("a jsonpath condition that is none").into()),
        }
    }

    /// Decides whether `judge` is true for any operand. The result is unknown if `judge` is unknown
    /// for one operand, unless in lax mode another operand is true.
    fn any_of<T>(
        &self,
        operands: impl Iterator<Item = T>,
        judge: impl Fn(T) -> Result<Truth>,
    ) -> Result<Truth> {
        let (mut unknown, mut is) = (false, false);
        for operand in operands {
            match judge(operand)? {
                Truth::Unknown if !self.path.lax => return Ok(Truth::Unknown),
                Truth::Unknown => unknown = true,
                Truth::True if self.path.lax => return Ok(Truth::True),
                Truth::True => is = true,
                Truth::False => {}
            }
        }
        Ok(match (is, unknown) {
            (true, _) => Truth::True,
            (false, true) => Truth::Unknown,
            (false, false) => Truth::False,
        })
    }

    /// Computes with errors passed over; `None` when there was one.
    fn without_errors<T>(
        &mut self,
        compute: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<Option<T>> {
        let raises = std::mem::replace(&mut self.raises, false);
        // The state that an error would leave changed.
        let (items, base, current) = (self.items, self.base.clone(), Arc::clone(&self.current));
        let (ignores, levels) = (self.ignores_structure, self.levels);
        let found = compute(self);
        self.raises = raises;
        match found {
            Ok(found) => Ok(Some(found)),
            Err(Stop::PassedOver) => {
                (self.items, self.base, self.current) = (items, base, current);
                (self.ignores_structure, self.levels) = (ignores, levels);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

fn starts_with(whole: &Jsonb, initial: &Jsonb) -> Truth {
    match (whole, initial) {
        (Jsonb::String(whole), Jsonb::String(initial)) => whole.starts_with(&**initial).into(),
        _ => Truth::Unknown,
    }
}

fn compare(operator: PathOperator, left: &Jsonb, right: &Jsonb) -> Truth {
    let order = match (left, right) {
        (Jsonb::Null, Jsonb::Null) => Ordering::Equal,
        // Null equals nothing, and has no order.
        (Jsonb::Null, _) | (_, Jsonb::Null) => return (operator == PathOperator::NotEqual).into(),
        (Jsonb::Bool(left), Jsonb::Bool(right)) => left.cmp(right),
        (Jsonb::Number(left), Jsonb::Number(right)) => left.cmp(right),
        (Jsonb::String(left), Jsonb::String(right)) => left.as_bytes().cmp(right.as_bytes()),
        _ => return Truth::Unknown,
    };
    let holds = match operator {
        PathOperator::Equal => order.is_eq(),
        PathOperator::NotEqual => order.is_ne(),
        PathOperator::Less => order.is_lt(),
        PathOperator::LessEqual => order.is_le(),
        PathOperator::Greater => order.is_gt(),
        _ => order.is_ge(),
    };
    holds.into()
}
