//! The kinds of aggregates and of window functions, as their signatures name them.

use niwaki_types::{Spread, TypeOid};

/// The computation of an aggregate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AggregateKind {
    CountRows,
    Count,
    /// The sum of int2 or int4 values, which fits int8.
    SumInt,
    SumNumeric,
    SumFloat4,
    SumFloat8,
    SumInterval,
    AverageNumeric,
    AverageFloat,
    AverageInterval,
    /// The variance or standard deviation of exact numbers.
    SpreadNumeric(Spread),
    /// The variance or standard deviation of floats.
    SpreadFloat(Spread),
    /// A statistic of how the two floats of each row depend on each other.
    Regression(Regression),
    Min,
    Max,
    BoolAnd,
    BoolOr,
    BitAnd,
    BitOr,
    BitXor,
    StringAgg,
    BytesAgg,
    ArrayAgg,
    /// `json_agg`, or `jsonb_agg` if `binary`. With `object` it is the aggregate of pairs.
    Json {
        binary: bool,
        object: bool,
    },
    /// An aggregate WITHIN GROUP.
    OrderedSet(OrderedSet),
}

/// The statistic of pairs of floats (y, x).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Regression {
    Count,
    SquaresX,
    SquaresY,
    Products,
    AverageX,
    AverageY,
    Determination,
    Slope,
    Intercept,
    PopulationCovariance,
    SampleCovariance,
    Correlation,
}

/// The computation of an ordered-set aggregate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OrderedSet {
    /// The first value whose position reaches the fraction of the rows.
    PercentileDisc,
    /// The value at a fraction of the way, interpolated between two rows.
    PercentileCont,
    /// The most frequent value.
    Mode,
    /// The rank of a hypothetical row.
    Rank,
    DenseRank,
    PercentRank,
    CumeDist,
}

impl OrderedSet {
    /// Returns the hypothetical-set aggregate of this name. The window functions of the same names
    /// rank existing rows.
    pub(crate) fn hypothetical(name: &str) -> Option<Self> {
        Some(match name {
            "rank" => Self::Rank,
            "dense_rank" => Self::DenseRank,
            "percent_rank" => Self::PercentRank,
            "cume_dist" => Self::CumeDist,
            _ => return None,
        })
    }

    /// Returns the result type of a hypothetical-set aggregate.
    pub(crate) fn result_of_hypothetical(self) -> TypeOid {
        if matches!(self, Self::PercentRank | Self::CumeDist) {
            TypeOid::FLOAT8
        } else {
            TypeOid::INT8
        }
    }

    /// Decides whether the aggregate ranks a hypothetical row.
    pub(crate) fn is_hypothetical(self) -> bool {
        matches!(self, Self::Rank | Self::DenseRank | Self::PercentRank | Self::CumeDist)
    }
}

/// A function that is only called over a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WindowFunction {
    RowNumber,
    Rank,
    DenseRank,
    PercentRank,
    CumeDist,
    Ntile,
    Lag,
    Lead,
    FirstValue,
    LastValue,
    NthValue,
}

impl WindowFunction {
    /// Returns the function's name in SQL.
    pub(crate) fn name(self) -> &'static str {
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
