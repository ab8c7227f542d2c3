//! Shows the bound of a partition as conditions on the key columns:
//! `pg_get_partition_constraintdef`.
//!
//! A bound of several columns is compared column by column. So "not below (1, 'x')" is `a > 1 OR (a
//! = 1 AND b >= 'x')`, with one more arm for each column. The default partition takes the rows of
//! no other partition.

use std::ops::Range;
use std::sync::Arc;

use niwaki_catalog::{Bound, PartitionBound, RangeValue, Relation, decode_bound};
use niwaki_expr::context::ExecContext;
use niwaki_parse::error::{Result, SqlError};
use niwaki_parse::types::format_type;
use niwaki_types::{Datum, quote_identifier};

use crate::functions::string_constant;

/// `pg_get_partition_constraintdef(table)`
pub(crate) fn definition(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    let Some(relation) = crate::functions::catalog::partitions::named(exec.catalog, values)? else {
        return Ok(Datum::Null);
    };
    let mut parts = Vec::new();
    let mut inner = relation;
    while let Some(of) = &inner.partition_of {
        let parent = exec.catalog.relation(of.parent);
        let parent = parent.ok_or_else(|| SqlError::internal("a partition of no table"))?;
        parts.splice(0..0, Key::of(parent, relation, exec)?.conditions(&of.bound)?);
        inner = parent;
    }
    Ok(if parts.is_empty() { Datum::Null } else { Datum::Text(all_of(parts).into()) })
}

/// A partitioned table with the name and type of each key column.
struct Key<'k, 'e> {
    table: &'k Arc<Relation>,
    columns: Vec<(String, String)>,
    /// The partition whose columns are shown.
    partition: &'k Arc<Relation>,
    exec: &'k ExecContext<'e>,
}

impl<'k, 'e> Key<'k, 'e> {
    fn of(
        table: &'k Arc<Relation>,
        partition: &'k Arc<Relation>,
        exec: &'k ExecContext<'e>,
    ) -> Result<Self> {
        let key = table.partition_key.as_ref();
        let columns = key.map_or(&[][..], |key| &key.columns).iter().map(|column| {
            let column = table.columns.get(usize::from(*column));
            let column = column.ok_or_else(|| SqlError::internal("a key without its column"))?;
            Ok((quote_identifier(&column.name), format_type(column.column_type())))
        });
        Ok(Self { table, columns: columns.collect::<Result<_>>()?, partition, exec })
    }

    /// Returns the conditions of a bound; all must hold.
    fn conditions(&self, bound: &PartitionBound) -> Result<Vec<String>> {
        Ok(match bound {
            PartitionBound::List(values) => self.listed(values)?,
            PartitionBound::Range { from, to } => {
                [self.not_null()?, self.between(from, to)?].concat()
            }
            PartitionBound::Hash { modulus, remainder } => {
                let columns: Vec<&str> =
                    self.columns.iter().map(|(name, _)| name.as_str()).collect();
                let (table, columns) = (self.table.oid.0, columns.join(", "));
                vec![format!(
                    "satisfies_hash_partition('{table}'::oid, {modulus}, {remainder}, {columns})"
                )]
            }
            PartitionBound::Default => {
                let others = self.others()?;
                let taken = match others.first().map(|(_, bound)| *bound) {
                    None => return Ok(Vec::new()),
                    Some(PartitionBound::Range { .. }) => {
                        let ranges = others.iter().filter_map(|(_, bound)| match bound {
                            PartitionBound::Range { from, to } => Some(self.range_alone(from, to)),
                            _ => None,
                        });
                        [self.not_null()?, vec![any_of(ranges.collect::<Result<_>>()?)]].concat()
                    }
                    Some(_) => self.listed(&self.all_listed(&others)?)?,
                };
                vec![format!("(NOT {})", all_of(taken))]
            }
        })
    }

    /// Returns a condition as PostgreSQL shows it.
    fn shown(&self, condition: &str) -> Result<String> {
        let (catalog, path) = (self.exec.catalog, self.exec.path);
        self.exec.definitions.expression(
            condition,
            Some(self.partition),
            None,
            catalog,
            path,
            false,
        )
    }

    /// Returns the bounds of all partitions but the default one, in their order.
    fn others(&self) -> Result<Vec<(Bound, &'k PartitionBound)>> {
        let key = self.table.partition_key.as_ref();
        let key = key.ok_or_else(|| SqlError::internal("a partition of a plain table"))?;
        let of = self.exec.catalog.relations().filter_map(|other| other.partition_of.as_ref());
        let bounds = of
            .filter(|of| of.parent == self.table.oid && of.bound != PartitionBound::Default)
            .map(|of| {
                let decoded = decode_bound(&self.table.definition, key, &of.bound);
                Ok((decoded.ok_or_else(unreadable)?, &of.bound))
            });
        let mut bounds = bounds.collect::<Result<Vec<_>>>()?;
        bounds.sort_by(|(left, _), (right, _)| match (left, right) {
            (Bound::Range { lower: left, .. }, Bound::Range { lower: right, .. }) => {
                left.cmp(right)
            }
            _ => std::cmp::Ordering::Equal,
        });
        Ok(bounds)
    }

    /// Returns all values that partitions list, in their order, NULL last.
    fn all_listed(&self, others: &[(Bound, &PartitionBound)]) -> Result<Vec<Option<String>>> {
        let key = self.table.partition_key.as_ref().ok_or_else(unreadable)?;
        let mut found = Vec::new();
        for (_, bound) in others {
            let PartitionBound::List(values) = bound else { continue };
            for value in values {
                let alone = PartitionBound::List(vec![value.clone()]);
                let order = match decode_bound(&self.table.definition, key, &alone) {
                    Some(Bound::List { values, null }) => (null, values),
                    _ => return Err(unreadable()),
                };
                found.push((order, value.clone()));
            }
        }
        found.sort();
        Ok(found.into_iter().map(|(_, value)| value).collect())
    }

    fn not_null(&self) -> Result<Vec<String>> {
        self.columns.iter().map(|(name, _)| self.shown(&format!("{name} IS NOT NULL"))).collect()
    }

    fn compared(&self, column: usize, operator: &str, value: &str) -> Result<String> {
        let (name, kind) = &self.columns[column];
        self.shown(&format!("{name} {operator} {}::{kind}", string_constant(value)))
    }

    fn listed(&self, values: &[Option<String>]) -> Result<Vec<String>> {
        let [(name, kind)] = self.columns.as_slice() else { return Ok(Vec::new()) };
        let given: Vec<&String> = values.iter().flatten().collect();
        let null = self.shown(&format!("{name} IS NULL"))?;
        let listed = match given.as_slice() {
            [] => return Ok(vec![null]),
            [one] => self.compared(0, "=", one)?,
            all => {
                let constant = |text: &&String| format!("{}::{kind}", string_constant(text));
                let all: Vec<String> = all.iter().map(constant).collect();
                self.shown(&format!("{name} = ANY (ARRAY[{}])", all.join(", ")))?
            }
        };
        Ok(if values.contains(&None) {
            vec![any_of(vec![null, listed])]
        } else {
            [self.not_null()?, vec![listed]].concat()
        })
    }

    /// Returns the conditions of a range, except that its columns are not NULL.
    fn between(&self, from: &[RangeValue], to: &[RangeValue]) -> Result<Vec<String>> {
        let same = |(left, right): &(&RangeValue, &RangeValue)| {
            matches!(left, RangeValue::Value(_)) && left == right
        };
        let first = from.iter().zip(to).take_while(same).count();
        let mut parts = self.equal(from, 0..first)?;
        for (bound, lower) in [(from, true), (to, false)] {
            let arms = self.arms(bound, first, lower)?;
            if !arms.is_empty() {
                parts.push(any_of(arms));
            }
        }
        Ok(parts)
    }

    /// Returns those conditions as one. A range without bounds only says that no column is NULL.
    fn range_alone(&self, from: &[RangeValue], to: &[RangeValue]) -> Result<String> {
        let parts = self.between(from, to)?;
        Ok(all_of(if parts.is_empty() { self.not_null()? } else { parts }))
    }

    fn equal(&self, values: &[RangeValue], columns: Range<usize>) -> Result<Vec<String>> {
        let equal = |column: usize| match values.get(column) {
            Some(RangeValue::Value(text)) => Some(self.compared(column, "=", text)),
            _ => None,
        };
        columns.filter_map(equal).collect()
    }

    /// Returns one arm for each column from `first` on. In an arm, the columns before are equal,
    /// and the column lies on the right side of the bound.
    fn arms(&self, bound: &[RangeValue], first: usize, lower: bool) -> Result<Vec<String>> {
        let mut arms = Vec::new();
        for (column, value) in bound.iter().enumerate().skip(first) {
            let RangeValue::Value(text) = value else { break };
            let operator = match (lower, bound.get(column + 1)) {
                // Any values in the columns after this one belong to the range.
                (true, None | Some(RangeValue::Min)) => ">=",
                (true, _) => ">",
                (false, Some(RangeValue::Max)) => "<=",
                (false, _) => "<",
            };
            let mut parts = self.equal(bound, first..column)?;
            parts.push(self.compared(column, operator, text)?);
            arms.push(all_of(parts));
        }
        Ok(arms)
    }
}

fn all_of(parts: Vec<String>) -> String {
    joined(parts, " AND ")
}

fn any_of(parts: Vec<String>) -> String {
    joined(parts, " OR ")
}

/// Joins conditions, each already in brackets, into one.
fn joined(mut parts: Vec<String>, word: &str) -> String {
    match parts.len() {
        1 => parts.remove(0),
        _ => format!("({})", parts.join(word)),
    }
}

fn unreadable() -> SqlError {
    SqlError::internal("the bound of a partition cannot be read")
}
