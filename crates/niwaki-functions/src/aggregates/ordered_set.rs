//! Ordered-set aggregates: `percentile_cont(0.5) WITHIN GROUP (ORDER BY x)`.
//!
//! The rows come sorted, and their number is known before the first row
//! (`niwaki-exec/src/grouping/ordered_input.rs`).
//! So the state keeps only the rows that the result needs.
//!
//! ```text
//!   1   3   3   7   9        five rows      percentile_disc(0.5): row 2 (from 0)
//!             ▲ 4                           percentile_cont(0.3): between rows 1 and 2
//!                                           rank(4): three rows before it, so the fourth
//!                                           dense_rank(4): two values before it, so the third
//! ```

use std::sync::Arc;

use niwaki_expr::function::OrderedSet;
use niwaki_parse::error::{Result, SqlError};
use niwaki_types::growing::{charge_parts, elements_bytes, value_bytes};
use niwaki_types::{Array, Datum, TypeOid, compare, write_float8};

/// The running state of one ordered-set aggregate in one group.
#[derive(Clone, Debug)]
pub enum OrderedRows {
    Percentiles(Percentiles),
    Mode(Mode),
    Place(Place),
}

impl OrderedRows {
    /// Makes the state before the first row. `ty` is the type of the first sort key.
    pub(super) fn new(kind: OrderedSet, ty: TypeOid) -> Self {
        match kind {
            OrderedSet::PercentileDisc | OrderedSet::PercentileCont => {
                let continuous = kind == OrderedSet::PercentileCont;
                let asked = Asked::Nothing;
                Self::Percentiles(Percentiles { continuous, ty, taken: 0, asked, bytes: 0 })
            }
            OrderedSet::Mode => Self::Mode(Mode {
                ty,
                last: Datum::Null,
                last_rows: 0,
                best: Datum::Null,
                best_rows: 0,
            }),
            _ => Self::Place(Place {
                kind,
                rows: 0,
                own: Vec::new(),
                last: None,
                before: 0,
                values_before: 0,
                beside: 0,
            }),
        }
    }

    /// Begins a group of `rows` rows. For a group without rows, this is called only if the
    /// arguments are known.
    ///
    /// `direct` are the arguments before WITHIN GROUP. For a hypothetical row, `key` is the encoded
    /// sort key of that row.
    ///
    /// # Errors
    /// 22003 for a fraction that is not between 0 and 1.
    pub fn begin(&mut self, rows: u64, direct: &[Datum], key: &[u8]) -> Result<()> {
        match self {
            Self::Percentiles(percentiles) => percentiles.begin(rows, direct.first())?,
            Self::Mode(_) => {}
            Self::Place(place) => {
                place.rows = rows;
                place.own = key.to_vec();
            }
        }
        Ok(())
    }

    /// Takes the next row: its sort values, and their encoded key.
    pub fn take(&mut self, values: &[Datum], key: &[u8]) {
        match (self, values.first()) {
            (Self::Percentiles(percentiles), Some(value)) => percentiles.take(value),
            (Self::Mode(mode), Some(value)) => mode.take(value),
            (Self::Place(place), _) => place.take(key),
            _ => {}
        }
    }

    /// Bytes it holds beyond its own size, roughly. They may become less.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Percentiles(percentiles) => percentiles.bytes,
            Self::Mode(mode) => value_bytes(&mode.last).saturating_add(value_bytes(&mode.best)),
            Self::Place(place) => place.own.len() + place.last.as_ref().map_or(0, Vec::len),
        }
    }

    pub(super) fn finish(self) -> Result<Datum> {
        match self {
            Self::Percentiles(percentiles) => percentiles.finish(),
            Self::Mode(mode) => Ok(mode.best),
            Self::Place(place) => Ok(place.finish()),
        }
    }
}

/// Values at fractions of the way through the rows.
#[derive(Clone, Debug)]
pub struct Percentiles {
    /// Set if a fraction between two rows gives an interpolated value.
    continuous: bool,
    ty: TypeOid,
    taken: u64,
    asked: Asked,
    /// Bytes of the fractions and of the values kept for them.
    bytes: usize,
}

#[derive(Clone, Debug)]
enum Asked {
    /// The fraction is NULL, or there is no row.
    Nothing,
    One(Fraction),
    /// Several fractions, with the array that gave them; some may be NULL.
    Many(Arc<Array>, Vec<Option<Fraction>>),
}

/// Two rows, counted from 0, with their values and the fraction's distance from the first to the
/// second row. Both rows may be the same.
#[derive(Clone, Debug)]
struct Fraction {
    rows: [u64; 2],
    values: [Datum; 2],
    way: f64,
}

impl Fraction {
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "rows of a sort, as PostgreSQL computes them"
    )]
    fn of(fraction: f64, rows: u64, continuous: bool) -> Result<Self> {
        if !(0.0..=1.0).contains(&fraction) {
            let mut shown = Vec::new();
            // C's %g also shows six significant digits.
            write_float8(fraction, 6 - 15, &mut shown);
            let shown = String::from_utf8_lossy(&shown);
            let message = format!("percentile value {shown} is not between 0 and 1");
            return Err(SqlError::new("22003", message));
        }
        let none = [Datum::Null, Datum::Null];
        if !continuous {
            let row = ((fraction * rows as f64).ceil() as u64).saturating_sub(1);
            return Ok(Self { rows: [row; 2], values: none, way: 0.0 });
        }
        let place = fraction * rows.saturating_sub(1) as f64;
        let rows = [place.floor() as u64, place.ceil() as u64];
        Ok(Self { rows, values: none, way: place - place.floor() })
    }

    fn value(self, ty: TypeOid) -> Result<Datum> {
        let [first, second] = self.values;
        if self.rows[0] == self.rows[1] {
            return Ok(first);
        }
        match (first, second) {
            (Datum::Float8(first), Datum::Float8(second)) => {
                Ok(Datum::Float8(first + self.way * (second - first)))
            }
            (Datum::Interval(first), Datum::Interval(second)) => {
                let way = second.checked_sub(&first)?.multiply(self.way)?;
                Ok(Datum::Interval(Arc::new(way.checked_add(&first)?)))
            }
            _ => Err(SqlError::internal(format!("a percentile between values of type {}", ty.0))),
        }
    }
}

impl Percentiles {
    fn begin(&mut self, rows: u64, fractions: Option<&Datum>) -> Result<()> {
        self.asked = match fractions {
            Some(Datum::Float8(one)) => Asked::One(Fraction::of(*one, rows, self.continuous)?),
            Some(Datum::Array(..)) if rows == 0 => Asked::Nothing,
            Some(Datum::Array(_, array)) => {
                let of = |value: &Datum| match value {
                    Datum::Float8(one) => Fraction::of(*one, rows, self.continuous).map(Some),
                    _ => Ok(None),
                };
                charge_parts(array.len(), size_of::<Option<Fraction>>())?;
                let all = array.iter().map(of).collect::<Result<Vec<_>>>()?;
                self.bytes = size_of_val(all.as_slice()).saturating_add(elements_bytes(array));
                Asked::Many(Arc::clone(array), all)
            }
            _ => Asked::Nothing,
        };
        Ok(())
    }

    fn take(&mut self, value: &Datum) {
        let row = self.taken;
        self.taken += 1;
        let mut is_kept = false;
        let mut note = |fraction: &mut Fraction| {
            for (asked, kept) in fraction.rows.iter().zip(&mut fraction.values) {
                if *asked == row {
                    *kept = value.clone();
                    is_kept = true;
                }
            }
        };
        match &mut self.asked {
            Asked::Nothing => {}
            Asked::One(fraction) => note(fraction),
            Asked::Many(_, fractions) => fractions.iter_mut().flatten().for_each(note),
        }
        // All fractions share the value of a row.
        if is_kept {
            self.bytes = self.bytes.saturating_add(value_bytes(value));
        }
    }

    fn finish(self) -> Result<Datum> {
        let ty = self.ty;
        match self.asked {
            Asked::Nothing => Ok(Datum::Null),
            Asked::One(fraction) => fraction.value(ty),
            Asked::Many(array, fractions) => {
                let value = |fraction: Option<Fraction>| {
                    fraction.map_or(Ok(Datum::Null), |fraction| fraction.value(ty))
                };
                let values = fractions.into_iter().map(value).collect::<Result<Vec<_>>>()?;
                Ok(Datum::Array(ty, Arc::new(array.with_values(values))))
            }
        }
    }
}

/// The most frequent value; of several such values, the first.
#[derive(Clone, Debug)]
pub struct Mode {
    ty: TypeOid,
    last: Datum,
    last_rows: u64,
    best: Datum,
    best_rows: u64,
}

impl Mode {
    fn take(&mut self, value: &Datum) {
        if self.last_rows == 0 || compare(self.ty, value, &self.last).is_ne() {
            self.last = value.clone();
            self.last_rows = 0;
        }
        self.last_rows += 1;
        if self.last_rows > self.best_rows {
            self.best_rows = self.last_rows;
            if self.last_rows == 1 || compare(self.ty, &self.best, &self.last).is_ne() {
                self.best = self.last.clone();
            }
        }
    }
}

/// The rank of a hypothetical row.
#[derive(Clone, Debug)]
pub struct Place {
    kind: OrderedSet,
    rows: u64,
    /// The encoded sort key of the hypothetical row.
    own: Vec<u8>,
    /// The sort key of the last row before the hypothetical row.
    last: Option<Vec<u8>>,
    before: u64,
    /// The number of different keys before the hypothetical row.
    values_before: u64,
    beside: u64,
}

impl Place {
    fn take(&mut self, key: &[u8]) {
        if key == self.own {
            self.beside += 1;
        } else if key < self.own.as_slice() {
            self.before += 1;
            if self.last.as_deref() != Some(key) {
                self.values_before += 1;
                self.last = Some(key.to_vec());
            }
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "PostgreSQL divides floats")]
    fn finish(self) -> Datum {
        let count = |rows: u64| Datum::Int8(i64::try_from(rows).unwrap_or(i64::MAX));
        match self.kind {
            OrderedSet::DenseRank => count(self.values_before + 1),
            OrderedSet::PercentRank if self.rows == 0 => Datum::Float8(0.0),
            OrderedSet::PercentRank => Datum::Float8(self.before as f64 / self.rows as f64),
            OrderedSet::CumeDist => {
                let until = self.before + self.beside + 1;
                Datum::Float8(until as f64 / (self.rows + 1) as f64)
            }
            _ => count(self.before + 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregates::Accumulator;
    use niwaki_expr::function::AggregateKind;

    /// A text that is much larger than what holds it.
    fn text(letter: &str) -> Datum {
        Datum::Text(letter.repeat(10_000).into())
    }

    #[test]
    fn states_count_what_they_keep() {
        let empty = Accumulator::new(AggregateKind::OrderedSet(OrderedSet::Mode), &[TypeOid::TEXT]);
        assert!(empty.bytes() >= size_of::<OrderedRows>());

        let mut percentiles = OrderedRows::new(OrderedSet::PercentileDisc, TypeOid::TEXT);
        let fractions = [0.0, 0.1, 1.0, 1.0].map(Datum::Float8).to_vec();
        percentiles.begin(3, &[Datum::array(TypeOid::FLOAT8, fractions)], &[]).unwrap();
        let before = percentiles.bytes();
        assert!(before >= 4 * size_of::<Fraction>());
        ["a", "b", "c"].into_iter().for_each(|letter| percentiles.take(&[text(letter)], &[]));
        // The first row and the last; fractions share them.
        let kept = percentiles.bytes() - before;
        assert!((20_000..30_000).contains(&kept), "{kept}");

        let mut mode = OrderedRows::new(OrderedSet::Mode, TypeOid::TEXT);
        ["a", "a", "b"].into_iter().for_each(|letter| mode.take(&[text(letter)], &[]));
        assert!((20_000..30_000).contains(&mode.bytes()), "{}", mode.bytes());

        let mut rank = OrderedRows::new(OrderedSet::Rank, TypeOid::TEXT);
        rank.begin(1, &[], &[9; 1_000]).unwrap();
        rank.take(&[], &[1; 1_000]);
        assert_eq!(rank.bytes(), 2_000);
    }
}
