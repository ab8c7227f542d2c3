//! The kinds of aggregates and of window functions, as their signatures name them.

use niwaki_types::{Spread, TypeOid};

/// The computation of an aggregate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AggregateKind {
    /// `count(*)`
    CountRows,
    /// `count(x)`
    Count,
    /// The sum of int2 or int4 values, which fits int8.
    SumInt,
    /// The sum of int8 or numeric values.
    SumNumeric,
    /// The sum of float4 values.
    SumFloat4,
    /// The sum of float8 values.
    SumFloat8,
    /// The sum of intervals.
    SumInterval,
    /// The average of exact numbers.
    AverageNumeric,
    /// The average of floats.
    AverageFloat,
    /// The average of intervals.
    AverageInterval,
    /// The variance or standard deviation of exact numbers.
    SpreadNumeric(Spread),
    /// The variance or standard deviation of floats.
    SpreadFloat(Spread),
    /// A statistic of how the two floats of each row depend on each other.
    Regression(Regression),
    /// `min`
    Min,
    /// `max`
    Max,
    /// `bool_and`
    BoolAnd,
    /// `bool_or`
    BoolOr,
    /// `bit_and`
    BitAnd,
    /// `bit_or`
    BitOr,
    /// `bit_xor`
    BitXor,
    /// `string_agg` of texts.
    StringAgg,
    /// `string_agg` of bytea values.
    BytesAgg,
    /// `array_agg`
    ArrayAgg,
    /// `json_agg`, or `jsonb_agg` if `binary`. With `object` it is the aggregate of pairs.
    Json {
        /// True for jsonb.
        binary: bool,
        /// True for the aggregate of pairs.
        object: bool,
    },
    /// An aggregate WITHIN GROUP.
    OrderedSet(OrderedSet),
}

/// The statistic of pairs of floats (y, x).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Regression {
    /// `regr_count`
    Count,
    /// `regr_sxx`
    SquaresX,
    /// `regr_syy`
    SquaresY,
    /// `regr_sxy`
    Products,
    /// `regr_avgx`
    AverageX,
    /// `regr_avgy`
    AverageY,
    /// `regr_r2`
    Determination,
    /// `regr_slope`
    Slope,
    /// `regr_intercept`
    Intercept,
    /// `covar_pop`
    PopulationCovariance,
    /// `covar_samp`
    SampleCovariance,
    /// `corr`
    Correlation,
}

/// The computation of an ordered-set aggregate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderedSet {
    /// The first value whose position reaches the fraction of the rows.
    PercentileDisc,
    /// The value at a fraction of the way, interpolated between two rows.
    PercentileCont,
    /// The most frequent value.
    Mode,
    /// The rank of a hypothetical row.
    Rank,
    /// The dense rank of a hypothetical row.
    DenseRank,
    /// The relative rank of a hypothetical row.
    PercentRank,
    /// The cumulative distribution of a hypothetical row.
    CumeDist,
}

impl OrderedSet {
    /// Returns the hypothetical-set aggregate of this name. The window functions of the same names
    /// rank existing rows.
    pub fn hypothetical(name: &str) -> Option<Self> {
        Some(match name {
            "rank" => Self::Rank,
            "dense_rank" => Self::DenseRank,
            "percent_rank" => Self::PercentRank,
            "cume_dist" => Self::CumeDist,
            _ => return None,
        })
    }

    /// Returns the result type of a hypothetical-set aggregate.
    pub fn result_of_hypothetical(self) -> TypeOid {
        if matches!(self, Self::PercentRank | Self::CumeDist) {
            TypeOid::FLOAT8
        } else {
            TypeOid::INT8
        }
    }

    /// Decides whether the aggregate ranks a hypothetical row.
    pub fn is_hypothetical(self) -> bool {
        matches!(self, Self::Rank | Self::DenseRank | Self::PercentRank | Self::CumeDist)
    }
}

/// A function that is only called over a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowFunction {
    /// `row_number`
    RowNumber,
    /// `rank`
    Rank,
    /// `dense_rank`
    DenseRank,
    /// `percent_rank`
    PercentRank,
    /// `cume_dist`
    CumeDist,
    /// `ntile`
    Ntile,
    /// `lag`
    Lag,
    /// `lead`
    Lead,
    /// `first_value`
    FirstValue,
    /// `last_value`
    LastValue,
    /// `nth_value`
    NthValue,
}

impl WindowFunction {
    /// Returns the function's name in SQL.
    pub fn name(self) -> &'static str {
        match self {
            Self::RowNumber => "row_number",
            Self::Rank => "rank",
            Self::DenseRank => "dense_rank",
            Self::PercentRank => "percent_rank",
            Self::CumeDist => "cume_dist",
            Self::Ntile => "ntile",
            Self::Lag => "lag",
            Self::Lead => "lead",
            Self::FirstValue => "first_value",
            Self::LastValue => "last_value",
            Self::NthValue => "nth_value",
        }
    }
}
