//! Numerics of one scale with small coefficients: integers to compute with.

use crate::numeric::Numeric;

/// Numerics that are integers divided by ten to the power of one scale.
#[derive(Clone, Debug, Default)]
pub struct Decimals {
    values: Vec<i64>,
    /// The scale of all values; not set yet while there are only NULLs.
    scale: u16,
    scaled: bool,
}

impl Decimals {
    /// Makes numbers of these coefficients over ten to the power of `scale`.
    pub fn new(values: Vec<i64>, scale: u16) -> Self {
        Self { values, scale, scaled: true }
    }

    /// Returns the number of values.
    #[inline]
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Decides whether there is no value.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Returns the coefficients.
    #[inline]
    pub fn values(&self) -> &[i64] {
        &self.values
    }

    /// Returns the digits after the decimal point, of all values.
    #[inline]
    pub fn scale(&self) -> u16 {
        self.scale
    }

    /// Returns value number `row`.
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

    /// Returns the bytes of memory.
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
