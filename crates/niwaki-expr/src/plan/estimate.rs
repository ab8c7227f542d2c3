//! The expected cost of a step, and the expected size of its result.

/// The expected cost and result size of a step.
#[derive(Clone, Copy, Debug, Default)]
pub struct Estimate {
    /// Cost before the first row, in PostgreSQL's unit. `total` is the whole cost.
    pub startup: f64,
    /// The whole cost.
    pub total: f64,
    /// The expected number of rows.
    pub rows: f64,
    /// Bytes of a row's values.
    pub width: f64,
}
