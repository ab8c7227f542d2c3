//! The signatures of aggregate functions.

mod accumulator;
mod ordered_set;
mod regression;

use std::sync::OnceLock;

use niwaki_expr::function::{AggregateKind, Function, OrderedSet, Regression};
use niwaki_types::Spread;

use crate::functions::{ByName, functions, index};
pub use accumulator::Accumulator;

/// Decides whether a function of this name is an aggregate.
pub fn is_aggregate(name: &str) -> bool {
    !aggregates_named(name).is_empty()
}

/// Returns all aggregates of this name.
pub fn aggregates_named(name: &str) -> &'static [&'static Function] {
    static MAP: OnceLock<ByName> = OnceLock::new();
    MAP.get_or_init(|| index(&[AGGREGATES])).get(name).map_or(&[], Vec::as_slice)
}

use AggregateKind as K;
use OrderedSet as O;
use Spread as S;

pub(crate) const AGGREGATES: &[Function] = functions! {
    "count" () INT8 nullable single immutable Aggregate(K::CountRows);
    "count" (ANY) INT8 nullable single immutable Aggregate(K::Count);
    "sum" (INT2) INT8 nullable single immutable Aggregate(K::SumInt);
    "sum" (INT4) INT8 nullable single immutable Aggregate(K::SumInt);
    "sum" (INT8) NUMERIC nullable single immutable Aggregate(K::SumNumeric);
    "sum" (NUMERIC) NUMERIC nullable single immutable Aggregate(K::SumNumeric);
    "sum" (FLOAT4) FLOAT4 nullable single immutable Aggregate(K::SumFloat4);
    "sum" (FLOAT8) FLOAT8 nullable single immutable Aggregate(K::SumFloat8);
    "sum" (INTERVAL) INTERVAL nullable single immutable Aggregate(K::SumInterval);
    "avg" (INT2) NUMERIC nullable single immutable Aggregate(K::AverageNumeric);
    "avg" (INT4) NUMERIC nullable single immutable Aggregate(K::AverageNumeric);
    "avg" (INT8) NUMERIC nullable single immutable Aggregate(K::AverageNumeric);
    "avg" (NUMERIC) NUMERIC nullable single immutable Aggregate(K::AverageNumeric);
    "avg" (FLOAT4) FLOAT8 nullable single immutable Aggregate(K::AverageFloat);
    "avg" (FLOAT8) FLOAT8 nullable single immutable Aggregate(K::AverageFloat);
    "avg" (INTERVAL) INTERVAL nullable single immutable Aggregate(K::AverageInterval);
    "min" (INT2) INT2 nullable single immutable Aggregate(K::Min);
    "min" (INT4) INT4 nullable single immutable Aggregate(K::Min);
    "min" (INT8) INT8 nullable single immutable Aggregate(K::Min);
    "min" (NUMERIC) NUMERIC nullable single immutable Aggregate(K::Min);
    "min" (FLOAT4) FLOAT4 nullable single immutable Aggregate(K::Min);
    "min" (FLOAT8) FLOAT8 nullable single immutable Aggregate(K::Min);
    "min" (TEXT) TEXT nullable single immutable Aggregate(K::Min);
    "min" (BPCHAR) BPCHAR nullable single immutable Aggregate(K::Min);
    "min" (OID) OID nullable single immutable Aggregate(K::Min);
    "min" (TID) TID nullable single immutable Aggregate(K::Min);
    "min" (LSN) LSN nullable single immutable Aggregate(K::Min);
    "min" (DATE) DATE nullable single immutable Aggregate(K::Min);
    "min" (TIMESTAMP) TIMESTAMP nullable single immutable Aggregate(K::Min);
    "min" (TIMESTAMPTZ) TIMESTAMPTZ nullable single immutable Aggregate(K::Min);
    "min" (INTERVAL) INTERVAL nullable single immutable Aggregate(K::Min);
    "min" (TIME) TIME nullable single immutable Aggregate(K::Min);
    "min" (TIMETZ) TIMETZ nullable single immutable Aggregate(K::Min);
    "min" (ARRAY) ARRAY nullable single immutable Aggregate(K::Min);
    "max" (INT2) INT2 nullable single immutable Aggregate(K::Max);
    "max" (INT4) INT4 nullable single immutable Aggregate(K::Max);
    "max" (INT8) INT8 nullable single immutable Aggregate(K::Max);
    "max" (NUMERIC) NUMERIC nullable single immutable Aggregate(K::Max);
    "max" (FLOAT4) FLOAT4 nullable single immutable Aggregate(K::Max);
    "max" (FLOAT8) FLOAT8 nullable single immutable Aggregate(K::Max);
    "max" (TEXT) TEXT nullable single immutable Aggregate(K::Max);
    "max" (BPCHAR) BPCHAR nullable single immutable Aggregate(K::Max);
    "max" (OID) OID nullable single immutable Aggregate(K::Max);
    "max" (TID) TID nullable single immutable Aggregate(K::Max);
    "max" (LSN) LSN nullable single immutable Aggregate(K::Max);
    "max" (DATE) DATE nullable single immutable Aggregate(K::Max);
    "max" (TIMESTAMP) TIMESTAMP nullable single immutable Aggregate(K::Max);
    "max" (TIMESTAMPTZ) TIMESTAMPTZ nullable single immutable Aggregate(K::Max);
    "max" (INTERVAL) INTERVAL nullable single immutable Aggregate(K::Max);
    "max" (TIME) TIME nullable single immutable Aggregate(K::Max);
    "max" (TIMETZ) TIMETZ nullable single immutable Aggregate(K::Max);
    "max" (ARRAY) ARRAY nullable single immutable Aggregate(K::Max);
    "var_pop" (INT2) NUMERIC nullable single immutable Aggregate(K::SpreadNumeric(S::PopulationVariance));
    "var_pop" (INT4) NUMERIC nullable single immutable Aggregate(K::SpreadNumeric(S::PopulationVariance));
    "var_pop" (INT8) NUMERIC nullable single immutable Aggregate(K::SpreadNumeric(S::PopulationVariance));
    "var_pop" (NUMERIC) NUMERIC nullable single immutable Aggregate(K::SpreadNumeric(S::PopulationVariance));
    "var_pop" (FLOAT4) FLOAT8 nullable single immutable Aggregate(K::SpreadFloat(S::PopulationVariance));
    "var_pop" (FLOAT8) FLOAT8 nullable single immutable Aggregate(K::SpreadFloat(S::PopulationVariance));
    "var_samp" (INT2) NUMERIC nullable single immutable Aggregate(K::SpreadNumeric(S::SampleVariance));
    "var_samp" (INT4) NUMERIC nullable single immutable Aggregate(K::SpreadNumeric(S::SampleVariance));
    "var_samp" (INT8) NUMERIC nullable single immutable Aggregate(K::SpreadNumeric(S::SampleVariance));
    "var_samp" (NUMERIC) NUMERIC nullable single immutable Aggregate(K::SpreadNumeric(S::SampleVariance));
    "var_samp" (FLOAT4) FLOAT8 nullable single immutable Aggregate(K::SpreadFloat(S::SampleVariance));
    "var_samp" (FLOAT8) FLOAT8 nullable single immutable Aggregate(K::SpreadFloat(S::SampleVariance));
    "variance" (INT2) NUMERIC nullable single immutable Aggregate(K::SpreadNumeric(S::SampleVariance));
    "variance" (INT4) NUMERIC nullable single immutable Aggregate(K::SpreadNumeric(S::SampleVariance));
    "variance" (INT8) NUMERIC nullable single immutable Aggregate(K::SpreadNumeric(S::SampleVariance));
    "variance" (NUMERIC) NUMERIC nullable single immutable Aggregate(K::SpreadNumeric(S::SampleVariance));
    "variance" (FLOAT4) FLOAT8 nullable single immutable Aggregate(K::SpreadFloat(S::SampleVariance));
    "variance" (FLOAT8) FLOAT8 nullable single immutable Aggregate(K::SpreadFloat(S::SampleVariance));
    "stddev_pop" (INT2) NUMERIC nullable single immutable Aggregate(K::SpreadNumeric(S::PopulationDeviation));
    "stddev_pop" (INT4) NUMERIC nullable single immutable Aggregate(K::SpreadNumeric(S::PopulationDeviation));
    "stddev_pop" (INT8) NUMERIC nullable single immutable Aggregate(K::SpreadNumeric(S::PopulationDeviation));
    "stddev_pop" (NUMERIC) NUMERIC nullable single immutable Aggregate(K::SpreadNumeric(S::PopulationDeviation));
    "stddev_pop" (FLOAT4) FLOAT8 nullable single immutable Aggregate(K::SpreadFloat(S::PopulationDeviation));
    "stddev_pop" (FLOAT8) FLOAT8 nullable single immutable Aggregate(K::SpreadFloat(S::PopulationDeviation));
    "stddev_samp" (INT2) NUMERIC nullable single immutable Aggregate(K::SpreadNumeric(S::SampleDeviation));
    "stddev_samp" (INT4) NUMERIC nullable single immutable Aggregate(K::SpreadNumeric(S::SampleDeviation));
    "stddev_samp" (INT8) NUMERIC nullable single immutable Aggregate(K::SpreadNumeric(S::SampleDeviation));
    "stddev_samp" (NUMERIC) NUMERIC nullable single immutable Aggregate(K::SpreadNumeric(S::SampleDeviation));
    "stddev_samp" (FLOAT4) FLOAT8 nullable single immutable Aggregate(K::SpreadFloat(S::SampleDeviation));
    "stddev_samp" (FLOAT8) FLOAT8 nullable single immutable Aggregate(K::SpreadFloat(S::SampleDeviation));
    "stddev" (INT2) NUMERIC nullable single immutable Aggregate(K::SpreadNumeric(S::SampleDeviation));
    "stddev" (INT4) NUMERIC nullable single immutable Aggregate(K::SpreadNumeric(S::SampleDeviation));
    "stddev" (INT8) NUMERIC nullable single immutable Aggregate(K::SpreadNumeric(S::SampleDeviation));
    "stddev" (NUMERIC) NUMERIC nullable single immutable Aggregate(K::SpreadNumeric(S::SampleDeviation));
    "stddev" (FLOAT4) FLOAT8 nullable single immutable Aggregate(K::SpreadFloat(S::SampleDeviation));
    "stddev" (FLOAT8) FLOAT8 nullable single immutable Aggregate(K::SpreadFloat(S::SampleDeviation));
    "regr_count" (FLOAT8, FLOAT8) INT8 nullable single immutable Aggregate(K::Regression(Regression::Count));
    "regr_sxx" (FLOAT8, FLOAT8) FLOAT8 nullable single immutable Aggregate(K::Regression(Regression::SquaresX));
    "regr_syy" (FLOAT8, FLOAT8) FLOAT8 nullable single immutable Aggregate(K::Regression(Regression::SquaresY));
    "regr_sxy" (FLOAT8, FLOAT8) FLOAT8 nullable single immutable Aggregate(K::Regression(Regression::Products));
    "regr_avgx" (FLOAT8, FLOAT8) FLOAT8 nullable single immutable Aggregate(K::Regression(Regression::AverageX));
    "regr_avgy" (FLOAT8, FLOAT8) FLOAT8 nullable single immutable Aggregate(K::Regression(Regression::AverageY));
    "regr_r2" (FLOAT8, FLOAT8) FLOAT8 nullable single immutable Aggregate(K::Regression(Regression::Determination));
    "regr_slope" (FLOAT8, FLOAT8) FLOAT8 nullable single immutable Aggregate(K::Regression(Regression::Slope));
    "regr_intercept" (FLOAT8, FLOAT8) FLOAT8 nullable single immutable Aggregate(K::Regression(Regression::Intercept));
    "covar_pop" (FLOAT8, FLOAT8) FLOAT8 nullable single immutable Aggregate(K::Regression(Regression::PopulationCovariance));
    "covar_samp" (FLOAT8, FLOAT8) FLOAT8 nullable single immutable Aggregate(K::Regression(Regression::SampleCovariance));
    "corr" (FLOAT8, FLOAT8) FLOAT8 nullable single immutable Aggregate(K::Regression(Regression::Correlation));
    "bool_and" (BOOL) BOOL nullable single immutable Aggregate(K::BoolAnd);
    "every" (BOOL) BOOL nullable single immutable Aggregate(K::BoolAnd);
    "bool_or" (BOOL) BOOL nullable single immutable Aggregate(K::BoolOr);
    "bit_and" (INT2) INT2 nullable single immutable Aggregate(K::BitAnd);
    "bit_and" (INT4) INT4 nullable single immutable Aggregate(K::BitAnd);
    "bit_and" (INT8) INT8 nullable single immutable Aggregate(K::BitAnd);
    "bit_or" (INT2) INT2 nullable single immutable Aggregate(K::BitOr);
    "bit_or" (INT4) INT4 nullable single immutable Aggregate(K::BitOr);
    "bit_or" (INT8) INT8 nullable single immutable Aggregate(K::BitOr);
    "bit_xor" (INT2) INT2 nullable single immutable Aggregate(K::BitXor);
    "bit_xor" (INT4) INT4 nullable single immutable Aggregate(K::BitXor);
    "bit_xor" (INT8) INT8 nullable single immutable Aggregate(K::BitXor);
    "string_agg" (TEXT, TEXT) TEXT nullable single immutable Aggregate(K::StringAgg);
    "string_agg" (BYTEA, BYTEA) BYTEA nullable single immutable Aggregate(K::BytesAgg);
    "max" (ENUM) ENUM nullable single immutable Aggregate(K::Max);
    "min" (ENUM) ENUM nullable single immutable Aggregate(K::Min);
    "array_agg" (NONARRAY) ARRAY nullable single immutable Aggregate(K::ArrayAgg);
    "array_agg" (ARRAY) ARRAY nullable single immutable Aggregate(K::ArrayAgg);
    "json_agg" (ELEMENT) JSON nullable single stable Aggregate(K::Json { binary: false, object: false });
    "jsonb_agg" (ELEMENT) JSONB nullable single stable Aggregate(K::Json { binary: true, object: false });
    "json_object_agg" (ANY, ANY) JSON nullable single stable Aggregate(K::Json { binary: false, object: true });
    "jsonb_object_agg" (ANY, ANY) JSONB nullable single immutable Aggregate(K::Json { binary: true, object: true });
    "percentile_disc" (FLOAT8, ELEMENT) ELEMENT nullable single immutable Aggregate(K::OrderedSet(O::PercentileDisc));
    "percentile_disc" (FLOATS, ELEMENT) ARRAY nullable single immutable Aggregate(K::OrderedSet(O::PercentileDisc));
    "percentile_cont" (FLOAT8, FLOAT8) FLOAT8 nullable single immutable Aggregate(K::OrderedSet(O::PercentileCont));
    "percentile_cont" (FLOAT8, INTERVAL) INTERVAL nullable single immutable Aggregate(K::OrderedSet(O::PercentileCont));
    "percentile_cont" (FLOATS, FLOAT8) FLOATS nullable single immutable Aggregate(K::OrderedSet(O::PercentileCont));
    "percentile_cont" (FLOATS, INTERVAL) INTERVALS nullable single immutable Aggregate(K::OrderedSet(O::PercentileCont));
    "mode" (ELEMENT) ELEMENT nullable single immutable Aggregate(K::OrderedSet(O::Mode));
};
