//! The values of a query that is asked once, where `left = ANY (query)` looks for one of them again and again.
//!
//! They are keys in a table as long as there is room. Otherwise they go to a file in their order (`sorted_keys.rs`).

use niwaki_table::{KeyedRows, Sorter};
use niwaki_types::{Datum, KeyOrder, TypeOid, encode_key};

use super::key_table::KeyTable;
use super::sorted_keys::SortedKeys;
use super::spill::checked;
use super::start;
use crate::error::Result;
use crate::expr::{Expr, Runtime};
use crate::plan::SubPlan;

/// The values of a query.
pub(crate) struct HashedValues {
    keys: Keys,
    ty: TypeOid,
    /// Whether one of them is NULL, and whether there are no rows at all.
    null: bool,
    empty: bool,
    /// The key that is looked for.
    key: Vec<u8>,
}

/// Index keys: equal values have equal bytes.
enum Keys {
    Table(KeyTable),
    File(SortedKeys),
}

/// Whether one of the values of the query equals `left`, with SQL's three values. `value` is what its rows are compared by;
/// `left` is read from `row`, unless there are no values.
pub(crate) fn contains(
    plan: &SubPlan,
    value: &Expr,
    left: &Expr,
    row: &[Datum],
    rt: &mut Runtime<'_, '_>,
) -> Result<Datum> {
    let known = rt.state.hashed.get_mut(plan.number).and_then(Option::take);
    let mut values = match known {
        Some(known) => known,
        None => HashedValues::of(plan, value, rt)?,
    };
    let found = match values.empty {
        true => Datum::Bool(false),
        false => {
            let left = left.eval(row, rt)?;
            values.contain(&left, rt)?
        }
    };
    if rt.state.hashed.len() <= plan.number {
        rt.state.hashed.resize_with(plan.number + 1, || None);
    }
    rt.state.hashed[plan.number] = Some(values);
    Ok(found)
}

impl HashedValues {
    /// Asks the query.
    fn of(plan: &SubPlan, value: &Expr, rt: &mut Runtime<'_, '_>) -> Result<Self> {
        rt.state.outer.push(Vec::new());
        // CASE operands of the outer expression are not the nested query's.
        let operands = std::mem::take(&mut rt.state.case_operands);
        let found = Self::run(plan, value, rt);
        rt.state.case_operands = operands;
        rt.state.outer.pop();
        found
    }

    fn run(plan: &SubPlan, value: &Expr, rt: &mut Runtime<'_, '_>) -> Result<Self> {
        let ty = value.ty;
        let (mut null, mut empty) = (false, true);
        let mut table = KeyTable::default();
        let mut beyond: Option<Sorter<KeyedRows>> = None;
        let mut step = start(&plan.root, rt.state);
        let (mut row, mut key) = (Vec::new(), Vec::new());
        while step.next(&mut row, rt)? {
            rt.tick()?;
            empty = false;
            let value = value.eval(&row, rt)?;
            if value.is_null() {
                null = true;
                continue;
            }
            key.clear();
            encode_key(&value, KeyOrder::ascending(ty), &mut key);
            if beyond.is_none() {
                let hash = table.hash(&key);
                if table.find(hash, &key).is_some() {
                    continue;
                }
                if table.has_room(key.len(), rt.exec.hash_mem) {
                    table.add(hash, &key, &[]);
                    continue;
                }
                let mut sorter = rt.sorter(rt.exec.work_mem)?;
                let table = std::mem::take(&mut table);
                for number in 0..table.len() as u32 {
                    push(&mut sorter, table.key(number), rt)?;
                }
                beyond = Some(sorter);
            }
            if let Some(sorter) = &mut beyond {
                push(sorter, &key, rt)?;
            }
        }
        drop(step);
        let keys = match beyond {
            None => Keys::Table(table),
            Some(sorter) => Keys::File(SortedKeys::of(sorter, rt)?),
        };
        Ok(Self { keys, ty, null, empty, key })
    }

    /// As [`contains`], where there are rows.
    fn contain(&mut self, value: &Datum, rt: &mut Runtime<'_, '_>) -> Result<Datum> {
        if value.is_null() {
            return Ok(Datum::Null);
        }
        self.key.clear();
        encode_key(value, KeyOrder::ascending(self.ty), &mut self.key);
        let found = match &mut self.keys {
            Keys::Table(table) => table.find(table.hash(&self.key), &self.key).is_some(),
            Keys::File(keys) => keys.contain(&self.key, rt)?,
        };
        Ok(match (found, self.null) {
            (true, _) => Datum::Bool(true),
            (false, true) => Datum::Null,
            (false, false) => Datum::Bool(false),
        })
    }
}

fn push(sorter: &mut Sorter<KeyedRows>, key: &[u8], rt: &mut Runtime<'_, '_>) -> Result<()> {
    let record = checked(key, 0, &[])?;
    sorter.push(&record, &mut || rt.exec.environment.check_interrupts())
}
