//! DISTINCT ON: keeps the first row of each run of adjacent rows with equal keys.

use std::sync::Arc;

use niwaki_expr::expr::{Running, Runtime, Step};
use niwaki_expr::plan::PlanNode;
use niwaki_parse::error::{Result, SqlError};
use niwaki_types::{Datum, KeyOrder, encode_key};

use crate::step::start::start;

/// The step that returns the first row of each run of equal keys; NULLs count as equal.
pub(crate) struct First {
    plan: Arc<PlanNode>,
    input: Option<Running>,
    /// The keys of the last returned row, and the keys of the row at hand.
    last: Option<Vec<u8>>,
    key: Vec<u8>,
}

impl First {
    pub(crate) fn new(plan: &Arc<PlanNode>) -> Self {
        Self { plan: Arc::clone(plan), input: None, last: None, key: Vec::new() }
    }
}

impl Step for First {
    fn next(&mut self, row: &mut Vec<Datum>, rt: &mut Runtime<'_, '_>) -> Result<bool> {
        let PlanNode::First { input, keys } = &*self.plan else {
            return Err(SqlError::internal("first rows of another plan"));
        };
        let step = self.input.get_or_insert_with(|| start(input, rt.state));
        while step.next(row, rt)? {
            rt.tick()?;
            self.key.clear();
            for key in keys {
                let value = key.eval(row, rt)?;
                encode_key(&value, KeyOrder::ascending(key.ty), &mut self.key);
            }
            match &mut self.last {
                Some(last) if *last == self.key => continue,
                Some(last) => std::mem::swap(last, &mut self.key),
                none => *none = Some(std::mem::take(&mut self.key)),
            }
            return Ok(true);
        }
        Ok(false)
    }
}
