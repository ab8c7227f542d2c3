//! Rows whose keys no row before them had.

use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashMap};
use niwaki_types::{Datum, equal, hash};

use super::{Step, row_bytes, start};
use crate::error::{Result, SqlError};
use crate::expr::Runtime;
use crate::plan::PlanNode;

/// Gives one row for each combination of keys; none for those with a NULL, which equals nothing.
pub(super) struct Unique {
    plan: Arc<PlanNode>,
    input: Option<Box<dyn Step>>,
    met: HashMap<u64, Vec<Vec<Datum>>>,
    hasher: DefaultHashBuilder,
}

impl Unique {
    pub(super) fn new(plan: &Arc<PlanNode>) -> Self {
        Self {
            plan: Arc::clone(plan),
            input: None,
            met: HashMap::new(),
            hasher: DefaultHashBuilder::default(),
        }
    }
}

impl Step for Unique {
    fn next(&mut self, row: &mut Vec<Datum>, rt: &mut Runtime<'_, '_>) -> Result<bool> {
        let PlanNode::Unique { input, keys } = &*self.plan else {
            return Err(SqlError::internal("unique rows of another plan"));
        };
        let step = self.input.get_or_insert_with(|| start(input, rt.state));
        while step.next(row, rt)? {
            rt.tick()?;
            let mut values = Vec::with_capacity(keys.len());
            for key in keys {
                values.push(key.eval(row, rt)?);
            }
            if values.iter().any(Datum::is_null) {
                continue;
            }
            let mut state = self.hasher.build_hasher();
            keys.iter().zip(&values).for_each(|(key, value)| hash(key.ty, value, &mut state));
            let same = self.met.entry(state.finish()).or_default();
            let is_same = |other: &Vec<Datum>| {
                keys.iter().zip(&values).zip(other).all(|((key, a), b)| equal(key.ty, a, b))
            };
            if same.iter().any(is_same) {
                continue;
            }
            rt.charge(row_bytes(&values))?;
            same.push(values);
            return Ok(true);
        }
        Ok(false)
    }
}
