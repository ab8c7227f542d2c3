//! Sums of floats, and of their squares and products, kept so that large numbers lose no digits.
//!
//! The state sums differences from the mean so far (Youngs and Cramer 1971), as PostgreSQL does.

use niwaki_expr::function::Regression;
use niwaki_parse::error::{Result, SqlError};
use niwaki_types::{Datum, Spread};

#[cold]
fn overflow() -> SqlError {
    SqlError::new("22003", "value out of range: overflow")
}

/// The count, the sum, and the sum of the squared differences from the mean.
#[derive(Clone, Copy, Debug, Default)]
pub struct Squares {
    count: f64,
    sum: f64,
    squares: f64,
}

impl Squares {
    /// Takes a value.
    ///
    /// # Errors
    /// `22003` when finite values overflow.
    pub fn add(&mut self, value: f64) -> Result<()> {
        let before = *self;
        self.count += 1.0;
        self.sum += value;
        if before.count > 0.0 {
            let distance = value * self.count - self.sum;
            self.squares += distance * distance / (self.count * before.count);
            if self.sum.is_infinite() || self.squares.is_infinite() {
                if before.sum.is_finite() && value.is_finite() {
                    return Err(overflow());
                }
                self.squares = f64::NAN;
            }
        } else if !value.is_finite() {
            self.squares = f64::NAN;
        }
        Ok(())
    }

    /// Returns the result; NULL if there are too few values.
    pub fn finish(&self, spread: Spread) -> Datum {
        let freedom = if spread.is_of_sample() { self.count - 1.0 } else { self.count };
        if freedom <= 0.0 {
            return Datum::Null;
        }
        let variance = self.squares / freedom;
        Datum::Float8(if spread.is_deviation() { variance.sqrt() } else { variance })
    }
}

/// The sums of [`Squares`] for two values at once, with the sum of the products of their
/// differences.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pairs {
    count: f64,
    sum_x: f64,
    squares_x: f64,
    sum_y: f64,
    squares_y: f64,
    products: f64,
}

impl Pairs {
    /// Takes a pair.
    ///
    /// # Errors
    /// `22003` when finite values overflow.
    pub fn add(&mut self, y: f64, x: f64) -> Result<()> {
        let before = *self;
        self.count += 1.0;
        self.sum_x += x;
        self.sum_y += y;
        if before.count <= 0.0 {
            if !x.is_finite() {
                (self.squares_x, self.products) = (f64::NAN, f64::NAN);
            }
            if !y.is_finite() {
                (self.squares_y, self.products) = (f64::NAN, f64::NAN);
            }
            return Ok(());
        }
        let distance_x = x * self.count - self.sum_x;
        let distance_y = y * self.count - self.sum_y;
        let scale = 1.0 / (self.count * before.count);
        self.squares_x += distance_x * distance_x * scale;
        self.squares_y += distance_y * distance_y * scale;
        self.products += distance_x * distance_y * scale;
        // Infinite sums are an overflow, unless the input had infinite values.
        let given_x = before.sum_x.is_infinite() || x.is_infinite();
        let given_y = before.sum_y.is_infinite() || y.is_infinite();
        let lost_x = self.sum_x.is_infinite() || self.squares_x.is_infinite();
        let lost_y = self.sum_y.is_infinite() || self.squares_y.is_infinite();
        let lost = self.products.is_infinite();
        if (lost_x && !given_x) || (lost_y && !given_y) || (lost && !given_x && !given_y) {
            return Err(overflow());
        }
        for sum in [&mut self.squares_x, &mut self.squares_y, &mut self.products] {
            if sum.is_infinite() {
                *sum = f64::NAN;
            }
        }
        Ok(())
    }

    /// Returns the result; NULL if there are too few pairs, or no regression line.
    pub fn finish(&self, regression: Regression) -> Datum {
        let least = match regression {
            Regression::Count => 0.0,
            Regression::SampleCovariance => 2.0,
            _ => 1.0,
        };
        if self.count < least {
            return Datum::Null;
        }
        let of_line = |value: f64| if self.squares_x == 0.0 { None } else { Some(value) };
        let value = match regression {
            #[expect(clippy::cast_possible_truncation, reason = "a count of rows")]
            Regression::Count => return Datum::Int8(self.count as i64),
            Regression::SquaresX => Some(self.squares_x),
            Regression::SquaresY => Some(self.squares_y),
            Regression::Products => Some(self.products),
            Regression::AverageX => Some(self.sum_x / self.count),
            Regression::AverageY => Some(self.sum_y / self.count),
            Regression::PopulationCovariance => Some(self.products / self.count),
            Regression::SampleCovariance => Some(self.products / (self.count - 1.0)),
            Regression::Correlation if self.squares_y == 0.0 => None,
            Regression::Correlation => {
                of_line(self.products / (self.squares_x * self.squares_y).sqrt())
            }
            // A horizontal line explains everything.
            Regression::Determination if self.squares_y == 0.0 => of_line(1.0),
            Regression::Determination => {
                of_line((self.products * self.products) / (self.squares_x * self.squares_y))
            }
            Regression::Slope => of_line(self.products / self.squares_x),
            Regression::Intercept => {
                of_line((self.sum_y - self.sum_x * self.products / self.squares_x) / self.count)
            }
        };
        value.map_or(Datum::Null, Datum::Float8)
    }
}
