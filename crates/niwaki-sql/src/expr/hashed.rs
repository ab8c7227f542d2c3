//! `left = ANY (query)` where the query reads nothing around it: its values are hashed once.

use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashMap};
use niwaki_types::{Datum, TypeOid, equal, hash};

use super::{Expr, Runtime, SubQuery, SubQueryKind};
use crate::error::Result;
use crate::exec::row_bytes;
use crate::plan::SubPlan;

/// The values of a query, by their hash.
pub(crate) struct HashedValues {
    by_hash: HashMap<u64, Vec<Datum>>,
    hasher: DefaultHashBuilder,
    ty: TypeOid,
    /// Whether one of them is NULL, and whether there are none at all.
    null: bool,
    empty: bool,
}

/// Whether the answer can be looked up: an equality of values of one type.
pub(crate) fn is_hashed(sub: &SubQuery, plan: &SubPlan) -> bool {
    match &sub.kind {
        SubQueryKind::Compare { function, any: true, left, right_cast } => {
            function.name == "=" && left.ty == right_cast.ty && !plan.correlated
        }
        _ => false,
    }
}

impl HashedValues {
    /// The values of a query that is asked once.
    pub(super) fn of(
        plan: &SubPlan,
        value: &Expr,
        rows: &[Vec<Datum>],
        rt: &mut Runtime<'_, '_>,
    ) -> Result<Arc<Self>> {
        if let Some(Some(known)) = rt.state.hashed.get(plan.number) {
            return Ok(Arc::clone(known));
        }
        let mut found = Self {
            by_hash: HashMap::new(),
            hasher: DefaultHashBuilder::default(),
            ty: value.ty,
            null: false,
            empty: rows.is_empty(),
        };
        for row in rows {
            rt.tick()?;
            let value = value.eval(row, rt)?;
            if value.is_null() {
                found.null = true;
                continue;
            }
            rt.charge(row_bytes(std::slice::from_ref(&value)))?;
            found.by_hash.entry(found.hash(&value)).or_default().push(value);
        }
        let found = Arc::new(found);
        if rt.state.hashed.len() <= plan.number {
            rt.state.hashed.resize(plan.number + 1, None);
        }
        rt.state.hashed[plan.number] = Some(Arc::clone(&found));
        Ok(found)
    }

    fn hash(&self, value: &Datum) -> u64 {
        let mut state = self.hasher.build_hasher();
        hash(self.ty, value, &mut state);
        state.finish()
    }

    /// Whether one of the values equals this one, with SQL's three values.
    pub(super) fn contain(&self, value: &Datum) -> Datum {
        if self.empty {
            return Datum::Bool(false);
        }
        if value.is_null() {
            return Datum::Null;
        }
        let same = self.by_hash.get(&self.hash(value));
        if same.is_some_and(|same| same.iter().any(|other| equal(self.ty, value, other))) {
            return Datum::Bool(true);
        }
        if self.null { Datum::Null } else { Datum::Bool(false) }
    }
}
