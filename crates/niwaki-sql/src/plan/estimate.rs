//! The expected cost of a step, and the expected size of its result.

/// The expected cost and result size of a step.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Estimate {
    /// Cost before the first row, in PostgreSQL's unit. `total` is the whole cost.
    pub(crate) startup: f64,
    pub(crate) total: f64,
    pub(crate) rows: f64,
    /// Bytes of a row's values.
    pub(crate) width: f64,
}
