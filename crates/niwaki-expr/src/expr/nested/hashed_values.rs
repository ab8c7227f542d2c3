//! The values of a query that runs once, for repeated look-ups: `left = ANY (query)` or `(left, …)
//! = ANY (query)`.
//!
//! The values are keys in a table as long as there is room. Otherwise the values go to a sorted
//! file (`sorted_keys.rs`).

use niwaki_parse::error::{Result, SqlError};
use niwaki_table::{KeyedRows, Sorter};
use niwaki_types::{Datum, KeyOrder, encode_key};

use super::sorted_keys::SortedKeys;
use super::start;
use crate::expr::{Expr, LookUp, Runtime, for_key, key_type};
use crate::plan::SubPlan;
use crate::spool::{KeyTable, checked};

/// The rows of a query, as keys.
pub(crate) struct HashedValues {
    keys: Keys,
    /// Set if the query returned no rows.
    empty: bool,
    /// A flag that a row has a NULL, and the numbers of such rows while the rows are in memory.
    nulls: bool,
    with_nulls: Vec<u32>,
    /// The key of the current look-up.
    key: Vec<u8>,
}

/// Keys of rows. For each column a key has a length and an index key, so that equal values have
/// equal bytes. A NULL has a length of its own.
enum Keys {
    Table(KeyTable),
    File(SortedKeys),
}

/// The length that stands for NULL, which no key has.
const NULL: u32 = u32::MAX;

/// Decides with SQL's three values whether a row of the query equals the wanted row.
/// Evaluates the wanted row on `row`, unless the query has no rows.
pub(crate) fn contains(
    plan: &SubPlan,
    wanted: LookUp<'_>,
    row: &[Datum],
    rt: &mut Runtime<'_, '_>,
) -> Result<Datum> {
    let known = rt.state.hashed.get_mut(plan.number).and_then(Option::take);
    let mut values = match known {
        Some(known) => known,
        None => HashedValues::of(plan, wanted, rt)?,
    };
    let found = if values.empty { Some(false) } else { values.contain(wanted, row, rt)? };
    if rt.state.hashed.len() <= plan.number {
        rt.state.hashed.resize_with(plan.number + 1, || None);
    }
    rt.state.hashed[plan.number] = Some(values);
    Ok(found.map_or(Datum::Null, |found| Datum::Bool(found != wanted.negated)))
}

impl HashedValues {
    /// Runs the query.
    fn of(plan: &SubPlan, wanted: LookUp<'_>, rt: &mut Runtime<'_, '_>) -> Result<Self> {
        rt.state.outer.push(Vec::new());
        // The CASE operands of the outer expression do not belong to the nested query.
        let operands = std::mem::take(&mut rt.state.case_operands);
        let found = Self::run(plan, wanted, rt);
        rt.state.case_operands = operands;
        rt.state.outer.pop();
        found
    }

    fn run(plan: &SubPlan, wanted: LookUp<'_>, rt: &mut Runtime<'_, '_>) -> Result<Self> {
        let (mut empty, mut nulls, mut with_nulls) = (true, false, Vec::new());
        let mut table = KeyTable::default();
        let mut beyond: Option<Sorter<KeyedRows>> = None;
        let mut step = start(plan, rt.state)?;
        let (mut row, mut key) = (Vec::new(), Vec::new());
        while step.next(&mut row, rt)? {
            rt.tick()?;
            empty = false;
            let null = encode(wanted.right, wanted, &row, &mut key, rt)?;
            nulls |= null;
            if beyond.is_none() {
                let hash = table.hash(&key);
                if table.find(hash, &key).is_some() {
                    continue;
                }
                if table.has_room(key.len(), rt.exec.hash_mem) {
                    let number = table.add(hash, &key, &[]);
                    with_nulls.extend(null.then_some(number));
                    continue;
                }
                let mut sorter = rt.sorter(rt.exec.work_mem)?;
                let table = std::mem::take(&mut table);
                for number in 0..table.len() as u32 {
                    push(&mut sorter, table.key(number), rt)?;
                }
                (beyond, with_nulls) = (Some(sorter), Vec::new());
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
        Ok(Self { keys, empty, nulls, with_nulls, key })
    }

    /// Looks up the wanted row, as [`contains`] does, in a query that has rows. `None` means
    /// unknown.
    fn contain(
        &mut self,
        wanted: LookUp<'_>,
        row: &[Datum],
        rt: &mut Runtime<'_, '_>,
    ) -> Result<Option<bool>> {
        let null = encode(wanted.left, wanted, row, &mut self.key, rt)?;
        if !null {
            let found = match &mut self.keys {
                Keys::Table(table) => table.find(table.hash(&self.key), &self.key).is_some(),
                Keys::File(keys) => keys.contain(&self.key, rt)?,
            };
            if found || !self.nulls {
                return Ok(Some(found));
            }
        }
        // A NULL leaves the answer open unless another part differs.
        let open = wanted.left.len() == 1 || self.is_open(null, rt)?;
        Ok(if open { None } else { Some(false) })
    }

    /// Decides whether some row equals the wanted row in all parts that both rows know.
    /// `null` says whether the wanted row has a NULL.
    fn is_open(&mut self, null: bool, rt: &mut Runtime<'_, '_>) -> Result<bool> {
        let key = &self.key;
        match &mut self.keys {
            Keys::File(keys) => keys.any(&mut |row| may_equal(row, key), rt),
            Keys::Table(table) if null => {
                for number in 0..table.len() as u32 {
                    rt.tick()?;
                    if may_equal(table.key(number), key) {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Keys::Table(table) => {
                for number in &self.with_nulls {
                    rt.tick()?;
                    if may_equal(table.key(*number), key) {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
        }
    }
}

/// Puts the key of some values into `key`, and returns whether a value is NULL.
fn encode(
    values: &[Expr],
    wanted: LookUp<'_>,
    row: &[Datum],
    key: &mut Vec<u8>,
    rt: &mut Runtime<'_, '_>,
) -> Result<bool> {
    key.clear();
    let mut null = false;
    for (value, (left, right)) in values.iter().zip(wanted.left.iter().zip(wanted.right)) {
        let ty = key_type(left.ty, right.ty)
            .ok_or_else(|| SqlError::internal("values without a key are looked up"))?;
        let value = value.eval(row, rt)?;
        let begin = key.len();
        key.extend_from_slice(&NULL.to_le_bytes());
        if value.is_null() {
            null = true;
            continue;
        }
        encode_key(&for_key(value, ty), KeyOrder::ascending(ty), key);
        let length = u32::try_from(key.len() - begin - LENGTH_BYTES).ok();
        let length = length.filter(|length| *length != NULL);
        let length = length
            .ok_or_else(|| SqlError::new("54000", "a row is too large to be sorted or hashed"))?;
        key[begin..begin + LENGTH_BYTES].copy_from_slice(&length.to_le_bytes());
    }
    Ok(null)
}

/// The size in bytes of the length before each part of a key.
const LENGTH_BYTES: usize = 4;

/// Returns the first part of a key (`None` inside if it is NULL) and the bytes behind that part.
/// Returns `None` at the key's end.
fn first_part(key: &[u8]) -> Option<(Option<&[u8]>, &[u8])> {
    let (length, rest) = key.split_first_chunk::<LENGTH_BYTES>()?;
    match u32::from_le_bytes(*length) {
        NULL => Some((None, rest)),
        length => {
            let (part, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
            Some((Some(part), rest))
        }
    }
}

/// Decides whether two keys are equal in all parts that both keys know.
fn may_equal(mut one: &[u8], mut other: &[u8]) -> bool {
    while let (Some((left, behind)), Some((right, after))) = (first_part(one), first_part(other)) {
        if let (Some(left), Some(right)) = (left, right)
            && left != right
        {
            return false;
        }
        (one, other) = (behind, after);
    }
    true
}

fn push(sorter: &mut Sorter<KeyedRows>, key: &[u8], rt: &mut Runtime<'_, '_>) -> Result<()> {
    let record = checked(key, 0, &[])?;
    sorter.push(&record, &mut || rt.exec.environment.check_interrupts())
}
