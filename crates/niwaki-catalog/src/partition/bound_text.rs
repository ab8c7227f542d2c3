//! Keys and bounds of partitions as PostgreSQL shows them.

use niwaki_types::TypeOid;

use crate::definition::partition_key::{PartitionBound, RangeValue};
use crate::definition::relation_definition::RelationDefinition;
use crate::postgres::collation::collation_name;

/// Returns PARTITION BY as PostgreSQL shows it: `RANGE (a, b)`.
pub fn partition_key_text(table: &RelationDefinition) -> Option<String> {
    let key = table.partition_key.as_ref()?;
    let shown = |(at, column): (usize, &u16)| {
        let column = table.columns.get(usize::from(*column))?;
        let name = niwaki_types::quote_identifier(&column.name);
        let collation = key.collations.get(at).copied().flatten().and_then(collation_name);
        Some(match collation {
            Some(of) => format!("{name} COLLATE {}", niwaki_types::quote_identifier(of)),
            None => name,
        })
    };
    let names: Vec<String> = key.columns.iter().enumerate().filter_map(shown).collect();
    Some(format!("{} ({})", key.strategy.word(), names.join(", ")))
}

/// Returns a bound as PostgreSQL shows it: `FOR VALUES FROM (1) TO (10)`.
pub fn bound_text(table: &RelationDefinition, bound: &PartitionBound) -> String {
    match bound {
        PartitionBound::Default => "DEFAULT".to_owned(),
        PartitionBound::List(values) => {
            let value = |value: &Option<String>| match value {
                Some(text) => value_text(table, 0, text),
                None => "NULL".to_owned(),
            };
            let values: Vec<String> = values.iter().map(value).collect();
            format!("FOR VALUES IN ({})", values.join(", "))
        }
        PartitionBound::Range { from, to } => {
            format!("FOR VALUES FROM {} TO {}", range_text(table, from), range_text(table, to))
        }
        PartitionBound::Hash { modulus, remainder } => {
            format!("FOR VALUES WITH (modulus {modulus}, remainder {remainder})")
        }
    }
}

/// Returns the values of one side of a range, in brackets.
pub fn range_text(table: &RelationDefinition, values: &[RangeValue]) -> String {
    let value = |(number, value): (usize, &RangeValue)| match value {
        RangeValue::Min => "MINVALUE".to_owned(),
        RangeValue::Max => "MAXVALUE".to_owned(),
        RangeValue::Value(text) => value_text(table, number, text),
    };
    let values: Vec<String> = values.iter().enumerate().map(value).collect();
    format!("({})", values.join(", "))
}

/// Returns a value of a key's column as a constant without its type.
fn value_text(table: &RelationDefinition, number: usize, text: &str) -> String {
    let column = table.partition_key.as_ref().and_then(|key| key.columns.get(number));
    let column = column.and_then(|column| table.columns.get(usize::from(*column)));
    let digits = text.starts_with(|c: char| c.is_ascii_digit());
    match column.map(|column| column.column_type().oid) {
        Some(TypeOid::INT4) if digits => text.to_owned(),
        Some(TypeOid::NUMERIC) if digits && text.contains(['e', 'E', '.']) => text.to_owned(),
        Some(TypeOid::BOOL) if text.starts_with('t') => "true".to_owned(),
        Some(TypeOid::BOOL) => "false".to_owned(),
        _ if text.contains('\\') => {
            format!("E'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
        }
        _ => format!("'{}'", text.replace('\'', "''")),
    }
}
