//! FOR VALUES: the rows that a new partition takes.

use std::sync::Arc;

use niwaki_catalog::{
    Bound, PartitionBound, PartitionKey, PartitionStrategy, Partitions, RangeValue, Relation,
    compare_edges, decode_bound, missing_text, range_text,
};
use niwaki_session::shown_type;
use niwaki_sql::utility::{BoundSpec, RangeValueSpec};
use niwaki_sql::walk::each_node;
use niwaki_sql::{Result, SqlError, ValueFor};
use pg_query::NodeEnum;

use crate::definer::Definer;

impl Definer<'_> {
    /// Reads a bound of a new partition. Refuses an invalid bound, and a bound that overlaps
    /// another partition's.
    pub(crate) fn bound(
        &mut self,
        parent: &Arc<Relation>,
        name: &str,
        spec: &BoundSpec,
    ) -> Result<PartitionBound> {
        let Some(key) = parent.partition_key.clone() else {
            return Err(SqlError::internal("no partition key"));
        };
        let wrong = |kind: &str| {
            let message = format!("invalid bound specification for a {kind} partition");
            Err(SqlError::new("42P16", message))
        };
        let bound = match (key.strategy, spec) {
            (PartitionStrategy::Hash, BoundSpec::Default) => {
                let message = "a hash-partitioned table may not have a default partition";
                return Err(SqlError::new("42P16", message));
            }
            (_, BoundSpec::Default) => PartitionBound::Default,
            (PartitionStrategy::Hash, BoundSpec::Hash(modulus, remainder)) => {
                let (Ok(modulus @ 1..), Ok(remainder)) =
                    (u32::try_from(*modulus), u32::try_from(*remainder))
                else {
                    let message = if *modulus > 0 {
                        "remainder for hash partition must be an integer value greater than or equal to zero"
                    } else {
                        "modulus for hash partition must be an integer value greater than zero"
                    };
                    return Err(SqlError::new("42P16", message));
                };
                if remainder >= modulus {
                    let message = "remainder for hash partition must be less than modulus";
                    return Err(SqlError::new("42P16", message));
                }
                PartitionBound::Hash { modulus, remainder }
            }
            (PartitionStrategy::List, BoundSpec::List(given)) => {
                let mut values: Vec<Option<String>> = Vec::new();
                for text in given {
                    let value = self.bound_value(parent, key.columns[0], text)?;
                    if !values.contains(&value) {
                        values.push(value);
                    }
                }
                PartitionBound::List(values)
            }
            (PartitionStrategy::Range, BoundSpec::Range(from, to)) => {
                for (side, word) in [(from, "FROM"), (to, "TO")] {
                    if side.len() != key.columns.len() {
                        let message = format!(
                            "{word} must specify exactly one value per partitioning column"
                        );
                        return Err(SqlError::new("42P16", message));
                    }
                }
                let from = self.range_side(parent, &key, from)?;
                PartitionBound::Range { from, to: self.range_side(parent, &key, to)? }
            }
            (PartitionStrategy::List, _) => return wrong("list"),
            (PartitionStrategy::Range, _) => return wrong("range"),
            (PartitionStrategy::Hash, _) => return wrong("hash"),
        };
        self.refuse_overlap(parent, &key, name, &bound)?;
        Ok(bound)
    }

    fn range_side(
        &mut self,
        parent: &Arc<Relation>,
        key: &PartitionKey,
        side: &[RangeValueSpec],
    ) -> Result<Vec<RangeValue>> {
        let mut values: Vec<RangeValue> = Vec::with_capacity(side.len());
        for (value, column) in side.iter().zip(&key.columns) {
            let value = match value {
                RangeValueSpec::Min => RangeValue::Min,
                RangeValueSpec::Max => RangeValue::Max,
                RangeValueSpec::Value(text) => match self.bound_value(parent, *column, text)? {
                    Some(text) => RangeValue::Value(text),
                    None => {
                        return Err(SqlError::new("42P17", "cannot specify NULL in range bound"));
                    }
                },
            };
            for (edge, word) in [(RangeValue::Min, "MINVALUE"), (RangeValue::Max, "MAXVALUE")] {
                if values.last() == Some(&edge) && value != edge {
                    let message = format!("every bound following {word} must also be {word}");
                    return Err(SqlError::new("42804", message));
                }
            }
            values.push(value);
        }
        Ok(values)
    }

    /// Returns the value of an expression for a key column, as text.
    fn bound_value(
        &mut self,
        parent: &Relation,
        column: u16,
        text: &str,
    ) -> Result<Option<String>> {
        let mut names = false;
        each_node(text, |node| names |= matches!(node, NodeEnum::ColumnRef(_)))?;
        if names {
            let message = "cannot use column reference in partition bound expression";
            return Err(SqlError::new("0A000", message));
        }
        let column = &parent.columns[usize::from(column)];
        let wanted = column.column_type();
        let shown = shown_type(&self.session.types(), wanted.declared());
        let refused = |_: &str| {
            let name = &column.name;
            let message =
                format!("specified value cannot be cast to type {shown} for column \"{name}\"");
            SqlError::new("42804", message)
        };
        let of_bound = (ValueFor::PartitionBound, wanted);
        let value = self.session.evaluate_as(text, of_bound, &refused)?;
        Ok(missing_text(&value, wanted))
    }

    /// Fails with 42P17 if a row could belong to two partitions, or if no row could belong to this
    /// one.
    fn refuse_overlap(
        &mut self,
        parent: &Relation,
        key: &PartitionKey,
        name: &str,
        bound: &PartitionBound,
    ) -> Result<()> {
        let partitions =
            parent.partitions.as_ref().ok_or_else(|| SqlError::internal("no partitions"))?;
        let decoded = decode_bound(&parent.definition, key, bound)
            .ok_or_else(|| SqlError::internal("a bound that cannot be read"))?;
        if let (Bound::Range { lower, upper }, PartitionBound::Range { from, to }) =
            (&decoded, bound)
            && compare_edges(lower, upper).is_ge()
        {
            let message = format!("empty range bound specified for partition \"{name}\"");
            let (from, to) =
                (range_text(&parent.definition, from), range_text(&parent.definition, to));
            return Err(SqlError::new("42P17", message).with_detail(format!(
                "Specified lower bound {from} is greater than or equal to upper bound {to}."
            )));
        }
        refuse_modulus(partitions, &decoded)?;
        for other in &partitions.members {
            let overlaps = match (&decoded, &other.bound) {
                (Bound::Default, Bound::Default) => {
                    let message = format!(
                        "partition \"{name}\" conflicts with existing default partition \"{}\"",
                        other.relation.name
                    );
                    return Err(SqlError::new("42P17", message));
                }
                (
                    Bound::List { values, null },
                    Bound::List { values: others, null: other_null },
                ) => *null && *other_null || values.iter().any(|value| others.contains(value)),
                (
                    Bound::Range { lower, upper },
                    Bound::Range { lower: other_lower, upper: other_upper },
                ) => {
                    compare_edges(lower, other_upper).is_lt()
                        && compare_edges(other_lower, upper).is_lt()
                }
                (
                    Bound::Hash { modulus, remainder },
                    Bound::Hash { modulus: other, remainder: taken },
                ) => {
                    // One modulus divides the other.
                    let least = modulus.min(other);
                    remainder % least == taken % least
                }
                _ => false,
            };
            if overlaps {
                let message = format!(
                    "partition \"{name}\" would overlap partition \"{}\"",
                    other.relation.name
                );
                return Err(SqlError::new("42P17", message));
            }
        }
        Ok(())
    }
}

/// Fails with 42P17 for a modulus that does not divide the next greater one, or that the next
/// smaller one does not divide.
fn refuse_modulus(partitions: &Partitions, bound: &Bound) -> Result<()> {
    let Bound::Hash { modulus, .. } = *bound else { return Ok(()) };
    let mut others: Vec<(u32, &str)> = Vec::new();
    for member in &partitions.members {
        if let Bound::Hash { modulus, .. } = member.bound {
            others.push((modulus, &member.relation.name));
        }
    }
    let smaller = others.iter().rfind(|(other, _)| *other <= modulus);
    let greater = others.iter().find(|(other, _)| *other >= modulus);
    let detail = match (smaller, greater) {
        (Some((other, name)), _) if modulus % other != 0 => format!(
            "The new modulus {modulus} is not divisible by {other}, the modulus of existing partition \"{name}\"."
        ),
        (_, Some((other, name))) if other % modulus != 0 => format!(
            "The new modulus {modulus} is not a factor of {other}, the modulus of existing partition \"{name}\"."
        ),
        _ => return Ok(()),
    };
    let message = "every hash partition modulus must be a factor of the next larger modulus";
    Err(SqlError::new("42P17", message).with_detail(detail))
}
