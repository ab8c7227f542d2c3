//! Returns the first row of each key.

use std::sync::Arc;

use niwaki_expr::expr::nested::Demand;
use niwaki_expr::expr::{Running, Runtime, Step};
use niwaki_expr::plan::PlanNode;
use niwaki_parse::error::{Result, SqlError};
use niwaki_types::{Datum, KeyOrder, encode_key};

use crate::step::start::start_for;
use crate::step::unique_rows::UniqueRows;

/// The step that returns one row for each combination of keys. It skips rows with a NULL in their
/// keys, which equals nothing.
pub(crate) struct Unique {
    plan: Arc<PlanNode>,
    demand: Demand,
    /// The input; `None` before the first row, and at the input's end.
    input: Option<Running>,
    begun: bool,
    unique: UniqueRows,
    key: Vec<u8>,
}

impl Unique {
    pub(crate) fn new(plan: &Arc<PlanNode>, demand: Demand) -> Self {
        let (plan, unique) = (Arc::clone(plan), UniqueRows::default());
        Self { plan, demand, input: None, begun: false, unique, key: Vec::new() }
    }
}

impl Step for Unique {
    fn next(&mut self, row: &mut Vec<Datum>, rt: &mut Runtime<'_, '_>) -> Result<bool> {
        let plan = Arc::clone(&self.plan);
        let PlanNode::Unique { input, keys } = &*plan else {
            return Err(SqlError::internal("unique rows of another plan"));
        };
        if !self.begun {
            self.begun = true;
            self.input = Some(start_for(input, self.demand, rt.state));
        }
        if let Some(step) = &mut self.input {
            'rows: while step.next(row, rt)? {
                rt.tick()?;
                self.key.clear();
                for key in keys {
                    let value = key.eval(row, rt)?;
                    if value.is_null() {
                        continue 'rows;
                    }
                    encode_key(&value, KeyOrder::ascending(key.ty), &mut self.key);
                }
                if self.unique.is_first(&self.key, row, rt)? {
                    return Ok(true);
                }
            }
            self.input = None;
        }
        self.unique.next(row, &plan, rt)
    }
}
