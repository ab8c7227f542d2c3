//! Aggregate functions: result types, and the running state of each.

use std::sync::Arc;

use niwaki_types::{Datum, Numeric, TypeError, TypeOid, compare};

use crate::context::ExecContext;
use crate::error::{Result, SqlError};
use crate::functions::JsonAggregate;
use crate::types::{ANY_ELEMENT, array_of};

/// What is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AggregateKind {
    CountRows,
    Count,
    /// Sum of integers that fits int8: of int2 and int4.
    SumInt,
    SumNumeric,
    SumFloat4,
    SumFloat8,
    SumInterval,
    AverageNumeric,
    AverageFloat,
    AverageInterval,
    Min,
    Max,
    BoolAnd,
    BoolOr,
    StringAgg,
    ArrayAgg,
    /// `json_agg`, or `jsonb_agg` if it is binary; with `object` the aggregate of pairs.
    Json {
        binary: bool,
        object: bool,
    },
}

impl AggregateKind {
    /// Whether the order of the rows shows in the result.
    pub(crate) fn shows_order(self) -> bool {
        matches!(self, Self::StringAgg | Self::ArrayAgg | Self::Json { .. })
    }
}

const NAMES: &[&str] = &[
    "count",
    "sum",
    "avg",
    "min",
    "max",
    "bool_and",
    "bool_or",
    "every",
    "string_agg",
    "array_agg",
    "json_agg",
    "jsonb_agg",
    "json_object_agg",
    "jsonb_object_agg",
    // Named here so that they are refused as aggregates, not as unknown functions.
    "stddev",
    "stddev_samp",
    "stddev_pop",
    "variance",
    "var_samp",
    "var_pop",
    "bit_and",
    "bit_or",
    "corr",
    "covar_pop",
    "covar_samp",
    "any_value",
];

/// Whether a function of this name is an aggregate.
pub(crate) fn is_aggregate(name: &str) -> bool {
    NAMES.contains(&name)
}

pub(crate) struct ResolvedAggregate {
    pub(crate) kind: AggregateKind,
    pub(crate) arguments: Vec<TypeOid>,
    pub(crate) result: TypeOid,
}

/// Finds the aggregate for arguments of these types, with PostgreSQL's result types.
pub(crate) fn resolve(name: &str, types: &[TypeOid], star: bool) -> Option<ResolvedAggregate> {
    use AggregateKind as K;
    use TypeOid as T;
    let of = |kind, argument, result| {
        Some(ResolvedAggregate { kind, arguments: vec![argument], result })
    };
    if star {
        return (name == "count").then(|| ResolvedAggregate {
            kind: K::CountRows,
            arguments: Vec::new(),
            result: T::INT8,
        });
    }
    match (name, types) {
        ("count", [ty]) => of(K::Count, if *ty == T::UNKNOWN { T::TEXT } else { *ty }, T::INT8),
        ("sum", [ty]) => match *ty {
            T::INT2 | T::INT4 => of(K::SumInt, *ty, T::INT8),
            T::INT8 | T::NUMERIC => of(K::SumNumeric, *ty, T::NUMERIC),
            T::FLOAT4 => of(K::SumFloat4, *ty, T::FLOAT4),
            T::FLOAT8 => of(K::SumFloat8, *ty, T::FLOAT8),
            T::INTERVAL | T::TIME => of(K::SumInterval, T::INTERVAL, T::INTERVAL),
            _ => None,
        },
        ("avg", [ty]) => match *ty {
            T::INT2 | T::INT4 | T::INT8 | T::NUMERIC => of(K::AverageNumeric, *ty, T::NUMERIC),
            T::FLOAT4 | T::FLOAT8 => of(K::AverageFloat, *ty, T::FLOAT8),
            T::INTERVAL | T::TIME => of(K::AverageInterval, T::INTERVAL, T::INTERVAL),
            _ => None,
        },
        ("min" | "max", [ty]) => {
            let kind = if name == "min" { K::Min } else { K::Max };
            let ty = match *ty {
                T::UNKNOWN | T::VARCHAR | T::NAME => T::TEXT,
                T::BOOL | T::BYTEA | T::XID | T::UUID | T::JSONB => return None,
                ty => ty,
            };
            crate::functions::compare_function("<", ty)?;
            of(kind, ty, ty)
        }
        ("bool_and" | "every", [T::BOOL | T::UNKNOWN]) => of(K::BoolAnd, T::BOOL, T::BOOL),
        ("bool_or", [T::BOOL | T::UNKNOWN]) => of(K::BoolOr, T::BOOL, T::BOOL),
        ("string_agg", [value, separator]) => {
            let string = |t: &T| crate::types::category(*t) == 'S' || *t == T::UNKNOWN;
            (string(value) && string(separator)).then(|| ResolvedAggregate {
                kind: K::StringAgg,
                arguments: vec![T::TEXT, T::TEXT],
                result: T::TEXT,
            })
        }
        ("array_agg", [ty]) => {
            let ty = if *ty == T::UNKNOWN { T::TEXT } else { *ty };
            (ty != ANY_ELEMENT).then_some(())?;
            of(K::ArrayAgg, ty, array_of(ty)?)
        }
        ("json_agg" | "jsonb_agg", [ty]) if *ty != T::UNKNOWN => {
            let binary = name == "jsonb_agg";
            of(K::Json { binary, object: false }, *ty, if binary { T::JSONB } else { T::JSON })
        }
        ("json_object_agg" | "jsonb_object_agg", [key, value]) => {
            let binary = name == "jsonb_object_agg";
            let known = |ty: T| if ty == T::UNKNOWN { T::TEXT } else { ty };
            Some(ResolvedAggregate {
                kind: K::Json { binary, object: true },
                arguments: vec![known(*key), known(*value)],
                result: if binary { T::JSONB } else { T::JSON },
            })
        }
        _ => None,
    }
}

/// Running state of one aggregate in one group.
#[derive(Debug)]
pub(crate) enum Accumulator {
    Count(i64),
    SumInt(Option<i64>),
    /// int8 sums stay in 128 bits as long as they fit, which is always for under 2^64 rows.
    SumInt8 {
        sum: i128,
        count: i64,
        average: bool,
    },
    SumNumeric {
        sum: Option<Numeric>,
        count: i64,
        average: bool,
    },
    SumFloat {
        sum: f64,
        count: i64,
        kind: AggregateKind,
    },
    SumInterval {
        sum: Option<niwaki_types::Interval>,
        count: i64,
        average: bool,
    },
    Extreme {
        best: Datum,
        greatest: bool,
        ty: TypeOid,
    },
    Bool {
        value: Option<bool>,
        and: bool,
    },
    Strings(Option<String>),
    Array {
        element: TypeOid,
        values: Vec<Datum>,
    },
    /// With the types of the arguments.
    Json(JsonAggregate, Vec<TypeOid>),
}

impl Accumulator {
    /// The state before the first row, of an aggregate with arguments of these types.
    pub(crate) fn new(kind: AggregateKind, arguments: &[TypeOid]) -> Self {
        use AggregateKind as K;
        let argument = arguments.first().copied().unwrap_or(TypeOid::INT8);
        match kind {
            K::CountRows | K::Count => Self::Count(0),
            K::SumInt => Self::SumInt(None),
            K::SumNumeric | K::AverageNumeric => {
                let average = kind == K::AverageNumeric;
                if argument == TypeOid::NUMERIC {
                    Self::SumNumeric { sum: None, count: 0, average }
                } else {
                    Self::SumInt8 { sum: 0, count: 0, average }
                }
            }
            K::SumFloat4 | K::SumFloat8 | K::AverageFloat => {
                Self::SumFloat { sum: 0.0, count: 0, kind }
            }
            K::SumInterval | K::AverageInterval => {
                Self::SumInterval { sum: None, count: 0, average: kind == K::AverageInterval }
            }
            K::Min | K::Max => {
                Self::Extreme { best: Datum::Null, greatest: kind == K::Max, ty: argument }
            }
            K::BoolAnd | K::BoolOr => Self::Bool { value: None, and: kind == K::BoolAnd },
            K::StringAgg => Self::Strings(None),
            K::ArrayAgg => Self::Array { element: argument, values: Vec::new() },
            K::Json { binary, object } => {
                Self::Json(JsonAggregate::new(binary, object), arguments.to_vec())
            }
        }
    }

    /// Bytes it holds beyond its own size, roughly.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Strings(Some(text)) => text.len(),
            Self::Array { values, .. } => values.len() * size_of::<Datum>(),
            Self::Json(state, _) => state.bytes(),
            _ => 0,
        }
    }

    /// Takes a row's arguments; for `count(*)` there are none.
    pub(crate) fn add(&mut self, arguments: &[Datum], exec: &ExecContext<'_>) -> Result<()> {
        let first = arguments.first().unwrap_or(&Datum::Bool(true));
        if let Self::Json(state, types) = self {
            return state.add(types, arguments, exec);
        }
        if let Self::Array { values, .. } = self {
            values.push(first.clone());
            return Ok(());
        }
        if first.is_null() {
            return Ok(());
        }
        let wrong = || SqlError::internal("an aggregate was given values of other types");
        match self {
            Self::Count(count) => *count += 1,
            Self::SumInt(sum) => {
                let value = match first {
                    Datum::Int2(v) => i64::from(*v),
                    Datum::Int4(v) => i64::from(*v),
                    _ => return Err(wrong()),
                };
                *sum = Some(
                    sum.unwrap_or(0)
                        .checked_add(value)
                        .ok_or_else(|| TypeError::out_of_range("bigint"))?,
                );
            }
            Self::SumInt8 { sum, count, .. } => {
                *sum += match first {
                    Datum::Int2(v) => i128::from(*v),
                    Datum::Int4(v) => i128::from(*v),
                    Datum::Int8(v) => i128::from(*v),
                    _ => return Err(wrong()),
                };
                *count += 1;
            }
            Self::SumNumeric { sum, count, .. } => {
                let Datum::Numeric(value) = first else { return Err(wrong()) };
                *sum = Some(match sum.take() {
                    Some(sum) => sum.add(value)?,
                    None => Numeric::clone(value),
                });
                *count += 1;
            }
            Self::SumFloat { sum, count, kind } => {
                let value = match first {
                    Datum::Float4(v) => f64::from(*v),
                    Datum::Float8(v) => *v,
                    _ => return Err(wrong()),
                };
                let before = *sum;
                *sum += value;
                if *kind == AggregateKind::SumFloat4 {
                    // float4 sums round to float4 at every step.
                    #[expect(clippy::cast_possible_truncation, reason = "meant to round")]
                    let narrow = *sum as f32;
                    *sum = f64::from(narrow);
                }
                if sum.is_infinite() && before.is_finite() && value.is_finite() {
                    return Err(SqlError::new("22003", "value out of range: overflow"));
                }
                *count += 1;
            }
            Self::SumInterval { sum, count, .. } => {
                let Datum::Interval(value) = first else { return Err(wrong()) };
                *sum = Some(match sum.take() {
                    Some(sum) => sum.checked_add(value)?,
                    None => **value,
                });
                *count += 1;
            }
            Self::Extreme { best, greatest, ty } => {
                let order = compare(*ty, first, best);
                if best.is_null() || (order.is_gt() == *greatest && order.is_ne()) {
                    *best = first.clone();
                }
            }
            Self::Bool { value, and } => {
                let Datum::Bool(new) = first else { return Err(wrong()) };
                *value = Some(match *value {
                    None => *new,
                    Some(old) if *and => old && *new,
                    Some(old) => old || *new,
                });
            }
            Self::Strings(text) => {
                let Datum::Text(piece) = first else { return Err(wrong()) };
                match text {
                    None => *text = Some(piece.to_string()),
                    Some(text) => {
                        if let Some(Datum::Text(separator)) = arguments.get(1) {
                            text.push_str(separator);
                        }
                        text.push_str(piece);
                    }
                }
            }
            Self::Array { .. } | Self::Json(..) => {}
        }
        Ok(())
    }

    /// The result.
    pub(crate) fn finish(self) -> Result<Datum> {
        Ok(match self {
            Self::Count(count) => Datum::Int8(count),
            Self::SumInt(sum) => sum.map_or(Datum::Null, Datum::Int8),
            Self::SumInt8 { count: 0, .. } | Self::SumNumeric { count: 0, .. } => Datum::Null,
            Self::SumInt8 { sum, count, average } => {
                let sum = Numeric::parse(&sum.to_string())?;
                total_or_average(sum, count, average)?
            }
            Self::SumNumeric { sum, count, average } => {
                let Some(sum) = sum else { return Ok(Datum::Null) };
                total_or_average(sum, count, average)?
            }
            Self::SumFloat { count: 0, .. } => Datum::Null,
            Self::SumFloat { sum, count, kind } => match kind {
                #[expect(clippy::cast_possible_truncation, reason = "rounded to float4 before")]
                AggregateKind::SumFloat4 => Datum::Float4(sum as f32),
                #[expect(clippy::cast_precision_loss, reason = "PostgreSQL divides by a float too")]
                AggregateKind::AverageFloat => Datum::Float8(sum / count as f64),
                _ => Datum::Float8(sum),
            },
            Self::SumInterval { sum: None, .. } => Datum::Null,
            Self::SumInterval { sum: Some(sum), count, average } => {
                #[expect(clippy::cast_precision_loss, reason = "PostgreSQL divides by a float too")]
                let value = if average { sum.divide(count as f64)? } else { sum };
                Datum::Interval(Arc::new(value))
            }
            Self::Extreme { best, .. } => best,
            Self::Bool { value, .. } => value.map_or(Datum::Null, Datum::Bool),
            Self::Strings(text) => text.map_or(Datum::Null, |t| Datum::Text(t.into())),
            Self::Array { values, .. } if values.is_empty() => Datum::Null,
            Self::Array { element, values } => Datum::Array(element, values.into()),
            Self::Json(state, _) => state.finish()?,
        })
    }
}

fn total_or_average(sum: Numeric, count: i64, average: bool) -> Result<Datum> {
    let value = if average { sum.div(&Numeric::from(count))? } else { sum };
    Ok(Datum::Numeric(Arc::new(value)))
}
