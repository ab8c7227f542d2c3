//! Arrays with one value for the whole statement, in which each row looks up a value: `left = ANY
//! (array)`, `left <> ALL (array)`, and lists of IN.
//!
//! The array is computed once. The values of a long array become keys in a table. So the cost for
//! each row does not depend on the array's length.

use std::sync::Arc;

use niwaki_catalog::FunctionVolatility;
use niwaki_parse::error::Result;
use niwaki_parse::types::element_of;
use niwaki_types::{Array, Datum, KeyOrder, TypeOid, encode_key};

use super::{Expr, ExprKind, Nested, Runtime, Values, for_key, key_type};
use crate::function::Function;
use crate::spool::KeyTable;

/// The most values that are compared one by one: for few values, a table costs about as much.
const COMPARED_MAX: usize = 8;

/// An array that was computed.
pub(crate) enum ValueList {
    /// The array is NULL.
    Null,
    /// A few values, or more values than a table has memory for.
    Plain(Arc<Array>),
    Table(Table),
}

/// Values as keys of a table.
pub struct Table {
    keys: KeyTable,
    /// The type of the keys.
    ty: TypeOid,
    /// Set if a value is NULL.
    null: bool,
}

/// Decides whether a table of the array's values can answer an array comparison.
pub fn fits(function: &Function, any: bool, left: &Expr, right: &Expr) -> bool {
    let wanted = if any { "=" } else { "<>" };
    let keyed = element_of(right.ty).is_some_and(|ty| key_type(left.ty, ty).is_some());
    function.name == wanted && function.strict && keyed && is_fixed(right)
}

/// Decides whether an expression has one value during the whole statement.
fn is_fixed(expr: &Expr) -> bool {
    let own = match &expr.kind {
        ExprKind::Slot { .. }
        | ExprKind::CaseOperand
        | ExprKind::CurrentOf { .. }
        | ExprKind::Aggregate(_)
        | ExprKind::Grouping(_)
        | ExprKind::Window(_)
        | ExprKind::SetReturning(_) => false,
        ExprKind::Call { function, .. } => function.volatility != FunctionVolatility::Volatile,
        ExprKind::UserCall { function, .. } => function.volatility != FunctionVolatility::Volatile,
        ExprKind::Domain { rules, .. } => !rules.volatile,
        // An uncorrelated query runs once, whatever expressions it has.
        ExprKind::SubQuery(sub) => match &sub.query {
            Nested::Plan(plan) => !plan.correlated && plan.working.is_empty(),
            Nested::Query(_) => false,
        },
        _ => true,
    };
    let mut fixed = own;
    expr.for_each_child(&mut |child| fixed = fixed && is_fixed(child));
    fixed
}

/// Returns the array with this number in the plan, and computes the array at the first call.
pub(crate) fn known(
    number: u32,
    left: &Expr,
    right: &Expr,
    rt: &mut Runtime<'_, '_>,
) -> Result<Arc<ValueList>> {
    let place = number as usize;
    if let Some(Some(list)) = rt.state.lists.get(place) {
        return Ok(Arc::clone(list));
    }
    let list = Arc::new(ValueList::of(left, right, rt)?);
    if rt.state.lists.len() <= place {
        rt.state.lists.resize(place + 1, None);
    }
    rt.state.lists[place] = Some(Arc::clone(&list));
    Ok(list)
}

impl ValueList {
    fn of(left: &Expr, right: &Expr, rt: &mut Runtime<'_, '_>) -> Result<Self> {
        let Datum::Array(_, array) = right.eval(&[], rt)? else { return Ok(Self::Null) };
        let ty = element_of(right.ty).and_then(|element| key_type(left.ty, element));
        let (Some(ty), true) = (ty, array.iter().count() > COMPARED_MAX) else {
            return Ok(Self::Plain(array));
        };
        let mut table = Table { keys: KeyTable::default(), ty, null: false };
        let mut key = Vec::new();
        let free = rt.exec.memory_limit.saturating_sub(rt.state.memory);
        for value in array.iter() {
            rt.tick()?;
            if value.is_null() {
                table.null = true;
                continue;
            }
            key.clear();
            encode_key(&for_key(value.clone(), ty), KeyOrder::ascending(ty), &mut key);
            let hash = table.keys.hash(&key);
            if table.keys.find(hash, &key).is_none() {
                if !table.keys.has_room(key.len(), free) {
                    return Ok(Self::Plain(array));
                }
                table.keys.add(hash, &key, &[]);
            }
        }
        rt.charge(table.keys.memory())?;
        Ok(Self::Table(table))
    }

    /// Returns the values, where there is no table.
    pub(crate) fn values(&self) -> Option<impl Iterator<Item = &Datum>> {
        match self {
            Self::Plain(array) => Some(array.iter()),
            Self::Null | Self::Table(_) => None,
        }
    }

    /// Decides with SQL's three values whether a value is in the array. Returns `None` if the
    /// caller must compare the values.
    #[expect(clippy::option_option, reason = "not known here, or known as one of three values")]
    pub(crate) fn contains(&self, value: &Datum, rt: &mut Runtime<'_, '_>) -> Option<Option<bool>> {
        match self {
            Self::Null => Some(None),
            Self::Plain(_) => None,
            Self::Table(_) if value.is_null() => Some(None),
            Self::Table(table) => {
                let key = &mut rt.state.list_key;
                key.clear();
                let order = KeyOrder::ascending(table.ty);
                encode_key(&for_key(value.clone(), table.ty), order, key);
                Some(table.contains(key))
            }
        }
    }

    /// Decides the same for the values of several rows, in the rows' order.
    pub(crate) fn contains_each(
        &self,
        values: &Values<'_>,
        rows: usize,
        left: TypeOid,
        rt: &mut Runtime<'_, '_>,
    ) -> Option<Vec<Option<bool>>> {
        match self {
            Self::Null => Some(vec![None; rows]),
            Self::Plain(_) => None,
            Self::Table(table) => {
                let key = &mut rt.state.list_key;
                let order = KeyOrder::ascending(table.ty);
                let found = (0..rows).map(|at| {
                    if values.is_null(at) {
                        return None;
                    }
                    key.clear();
                    if left == table.ty {
                        values.encode_key(at, order, key);
                    } else {
                        encode_key(&for_key(values.get(at), table.ty), order, key);
                    }
                    table.contains(key)
                });
                Some(found.collect())
            }
        }
    }
}

impl Table {
    fn contains(&self, key: &[u8]) -> Option<bool> {
        let found = self.keys.find(self.keys.hash(key), key).is_some();
        if !found && self.null { None } else { Some(found) }
    }
}
