//! Numerics of one scale with small coefficients: integers to compute with.

use crate::Numeric;

/// Numerics that are integers divided by ten to the power of one scale.
#[derive(Clone, Debug, Default)]
pub struct Decimals {
    values: Vec<i64>,
    /// Of all values; of none yet, where there are none but NULLs.
    scale: u16,
    scaled: bool,
}

impl Decimals {
    /// These coefficients over ten to the power of `scale`.
    pub fn new(values: Vec<i64>, scale: u16) -> Self {
        Self { values, scale, scaled: true }
    }

    /// Number of values.
    #[inline]
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The coefficients.
    #[inline]
    pub fn values(&self) -> &[i64] {
        &self.values
    }

    /// Digits after the decimal point, of all values.
    #[inline]
    pub fn scale(&self) -> u16 {
        self.scale
    }

    /// Value number `row`.
    ///
    /// # Panics
    /// If there is no such value.
    pub fn get(&self, row: usize) -> Numeric {
        Numeric::new(self.values[row].into(), self.scale)
    }

    /// Appends a value. False, and nothing is appended, if it has another scale or does not fit.
    #[inline]
    pub fn push(&mut self, value: &Numeric) -> bool {
        let Some((coefficient, scale)) = value.small_parts() else { return false };
        if !self.scaled {
            (self.scale, self.scaled) = (scale, true);
        }
        if scale == self.scale {
            self.values.push(coefficient);
        }
        scale == self.scale
    }

    /// Bytes of memory.
    pub(super) fn memory(&self) -> usize {
        self.values.capacity() * size_of::<i64>()
    }

    pub(super) fn push_zero(&mut self) {
        self.values.push(0);
    }

    pub(super) fn pop(&mut self) {
        self.values.pop();
    }

    pub(super) fn clear(&mut self) {
        self.values.clear();
        self.scaled = false;
    }

    pub(super) fn take(&self, rows: &[u32]) -> Self {
        let values = rows.iter().map(|row| self.values[*row as usize]).collect();
        Self { values, ..*self }
    }
}
